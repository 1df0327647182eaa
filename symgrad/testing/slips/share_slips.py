"""A gradient as a sum of shares: by output, by entry, by term; with one of them left out, or weighted otherwise.

Comes in: the formula, an input and its trials. Goes out: `Slip` s. The weights of terms are solved for, and told only
where all terms but some with one and the same simple weight have the weight 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import sympy as sp

from symgrad.calculus.sweeps import substitute
from symgrad.closed_form.form import views
from symgrad.indexing import Equation
from symgrad.indexing.symbols import accesses, name_of
from symgrad.numeric import Array, as_float, evaluate, unit_at
from symgrad.render import formula_text
from symgrad.testing.right.bench import Trial
from symgrad.testing.right.truth import Formula
from symgrad.testing.slips.slips import Slip, miscounted, tensors_of

MOST_ENTRIES, MOST_TERMS, LEVELS = 64, 8, 3
LARGEST = 1000
"""The largest denominator of a weight."""
LONGEST = 120
"""A longer term is not repeated."""
NEAR = 1e-6


def share_slips(formula: Formula, name: str, trials: Sequence[Trial]) -> Iterator[Slip]:
    """By output, then by entry."""
    yield from by_output(formula, name)
    yield from by_entry(formula, name, trials)


def by_output(formula: Formula, name: str) -> Iterator[Slip]:
    """The share of one of several outputs is left out, has the other sign, or comes by another's seed."""
    count = len(formula.programs)
    texts = formula.text.split("; ")
    for n in range(count if count > 1 else 0):
        which = f"output {n + 1}" + (f", {texts[n]}" if len(texts) == count else "")

        def share(trial: Trial, n: int = n) -> Array:
            return formula.part(n, trial.weights.seeds[n])[name]

        yield Slip("missing_path", f"nothing comes back from {which}", lambda t, s=share: t.expected - s(t))  # type: ignore[misc]  # a default binds
        yield Slip("sign", f"what comes back from {which} has the wrong sign", lambda t, s=share: t.expected - 2 * s(t))  # type: ignore[misc]  # a default binds
        for other in range(count):
            if other == n or formula.outputs[n].shape != formula.outputs[other].shape:
                continue

            def instead(trial: Trial, n: int = n, other: int = other) -> Array:
                return np.asarray(
                    formula.pull([trial.weights.seeds[other if k == n else k] for k in range(count)])[name]
                )

            yield Slip("swapped", f"v{other + 1} is used where v{n + 1} belongs", instead)
            if other > n:

                def exchanged(trial: Trial, n: int = n, other: int = other) -> Array:
                    order = [{n: other, other: n}.get(k, k) for k in range(count)]
                    return np.asarray(formula.pull([trial.weights.seeds[k] for k in order])[name])

                yield Slip("swapped", f"v{n + 1} and v{other + 1} are the other way round", exchanged)


def by_entry(formula: Formula, name: str, trials: Sequence[Trial]) -> Iterator[Slip]:
    """J without its diagonal; and of several outputs that read one entry only the first, or the last."""
    size = sum(int(s.size) for s in trials[0].weights.seeds)
    if not 1 < size <= MOST_ENTRIES or len(formula.programs) > 1:
        return
    shape = trials[0].weights.seeds[0].shape
    rows = np.stack([formula.pull([unit_at(at, shape)])[name] for at in np.ndindex(*shape)])
    if not np.isfinite(rows).all():
        return
    if trials[0].expected.shape == shape:
        diagonal = np.diagonal(rows.reshape(size, size)).reshape(shape)
        said = "each output depends on the entry of its own place, too: the diagonal of J is missing"
        yield Slip("missing_term", said, lambda t: t.expected - diagonal * t.weights.seeds[0])
    read = rows != 0
    for which, order in (("last", read[::-1]), ("first", read)):
        first = order.argmax(0)
        place = len(rows) - 1 - first if which == "last" else first
        kept = np.take_along_axis(rows, place[None], 0)[0]
        said = f"where several outputs read one entry only the {which} one's share is kept: shares add up (a sum, +=, "
        said += "index_add, and not =)"
        yield Slip("overwritten", said, lambda t, p=place, k=kept: k * t.weights.seeds[0].reshape(-1)[p])  # type: ignore[misc]  # a default binds


def weighted_slips(formula: Formula, name: str, trials: Sequence[Trial]) -> Iterator[Slip]:
    """By terms whose weights are solved for; then a tensor of the forward pass as a factor of the whole."""
    yield from by_term(formula, name, trials)
    yield from by_tensor(formula, name, trials)


def by_term(formula: Formula, name: str, trials: Sequence[Trial]) -> Iterator[Slip]:
    """Terms of the gradient, multiplied out further and further."""
    if len(formula.programs) > 1 or not any(t.name == name for t in formula.programs[0].inputs):
        return
    sweep = formula.sweep(0, name)
    if not sweep.whole:
        return
    program, values = formula.programs[0], formula.values[0]
    equation = sweep.equation
    terms: list[sp.Expr] = [equation.right]
    for _ in range(LEVELS):
        wider = [part for term in terms for part in multiplied_out(term)]
        if len(wider) == len(terms) or len(wider) > MOST_TERMS:
            return
        terms = wider

        def parts(trial: Trial, terms: Sequence[sp.Expr] = tuple(terms)) -> list[Array]:
            known = values.with_arrays({program.seed: trial.weights.seeds[0]})
            return [as_float(evaluate(Equation(equation.axes, t), known.arrays, known.sizes)) for t in terms]

        weights = solved([parts(t) for t in trials], trials)
        if weights is None:
            continue
        (weight,) = {w for w in weights if w != 1}
        told = [
            substitute(Equation(equation.axes, t), views(program)).right
            for t, w in zip(terms, weights, strict=True)
            if w != 1
        ]
        changed = [shortened(term, equation.axes, program.seed) for term in told]
        which = f"{len(changed)} of the {len(terms)} terms of {name}.grad"
        if all(changed):
            which = f"the term{'s' if len(changed) > 1 else ''} {' and '.join(changed)}"
        are = "is" if len(changed) == 1 else "are"
        kind, what = "scaled", f"{are} {weight} times what {'it' if are == 'is' else 'they'} should be"
        said = miscounted(float(weight), formula, name, trials[0]) if weight > 0 else ""
        what += f", {said}" if said else ""
        if weight == 0:
            kind, what = "missing_term", f"{are} missing"
        elif weight == -1:
            kind, what = "sign", f"{'has' if are == 'is' else 'have'} the wrong sign"

        def made(trial: Trial, parts: object = parts, weights: Sequence[Fraction] = tuple(weights)) -> Array:
            found = parts(trial)  # type: ignore[operator]  # a default binds
            return np.asarray(sum(float(w) * a for w, a in zip(weights, found, strict=True)))

        yield Slip(kind, f"{which} {what}", made)


def shortened(term: sp.Expr, axes: Sequence[sp.Symbol], seed: str) -> str:
    """A term, if it is short, else the shortest sum over v in it; empty where neither says which it is."""
    sums = [n for n in sp.preorder_traversal(term) if isinstance(n, sp.Sum) and seed in map(name_of, accesses(n))]
    whole = formula_text(term, axes)
    if len(whole) <= LONGEST:
        return whole
    parts = [formula_text(n, axes) for n in sums]
    return f"with {min(parts, key=len)}" if parts and len(min(parts, key=len)) <= LONGEST else ""


def multiplied_out(term: sp.Expr) -> list[sp.Expr]:
    """The terms of a sum; of a product with a sum in it, those that it becomes."""
    if term.is_Add:
        return list(term.args)
    inner = next((f for f in sp.Mul.make_args(term) if f.is_Add), None)
    return [term] if inner is None else [term / inner * part for part in inner.args]


def solved(parts: Sequence[Sequence[Array]], trials: Sequence[Trial]) -> list[Fraction] | None:
    """The weights of terms of which what came is the sum: 1, and one other simple number; else None."""
    columns = np.concatenate([np.stack([a.reshape(-1) for a in row], -1) for row in parts])
    got = np.concatenate([t.got.reshape(-1) for t in trials])
    if not np.isfinite(columns).all() or np.linalg.matrix_rank(columns) < columns.shape[1]:
        return None
    found, *_ = np.linalg.lstsq(columns, got, rcond=None)
    weights = [Fraction(float(w)).limit_denominator(LARGEST) for w in found]
    simple = all(abs(float(w) - f) < NEAR * max(1.0, abs(f)) for w, f in zip(weights, found, strict=True))
    return weights if simple and len({w for w in weights if w != 1}) == 1 and 1 in weights else None


def by_tensor(formula: Formula, name: str, trials: Sequence[Trial]) -> Iterator[Slip]:
    """The whole gradient times a tensor of the forward pass, or divided by it: a factor that is not there."""
    if len(formula.programs) > 1:
        return
    shape = trials[0].expected.shape
    for tensor, called, array in tensors_of(formula.programs[0], formula):
        if array.size < 2 or not fits(array.shape, shape) or not np.isfinite(array).all() or np.ptp(array) == 0:
            continue
        for factor, missing in ((array, f"1/{tensor}"), (1 / np.where(array == 0, np.nan, array), tensor)):
            said = f"the factor {missing} is missing{called}"
            yield Slip("missing_factor", said, lambda t, f=factor: t.expected * f)  # type: ignore[misc]  # a default binds


def fits(small: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a factor of shape ``small`` leaves the shape as it is."""
    try:
        return np.broadcast_shapes(small, shape) == shape
    except ValueError:
        return False
