"""A gradient as a sum of shares: by output, by use, by entry, by term; some have another weight than 1.

Comes in: a `Case`. Goes out: `Slip` s: each share left out, alone, with the other sign;
then the weights that are solved for, told where all shares but some with one and the same simple weight have the
weight 1. Also here: outputs and entries that are taken for one another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import permutations

import numpy as np
import sympy as sp

from symgrad.calculus.sweeps import substitute
from symgrad.closed_form.form import views
from symgrad.errors import SymgradError
from symgrad.indexing import Equation
from symgrad.indexing.symbols import accesses, name_of
from symgrad.numeric import Array, unit_at
from symgrad.render import formula_text
from symgrad.testing.right.bench import Trial
from symgrad.testing.slips.slips import Case, Made, Slip, broadcasts, miscounted, tensors_of

MOST_ENTRIES, MOST_TERMS, LEVELS = 64, 8, 3
LARGEST = 1000
"""The largest denominator of a weight."""
LONGEST = 120
"""A longer term is not repeated."""
NEAR = 1e-6
GONE = (Fraction(0), Fraction(-1))
"""Missing, and subtracted."""


@dataclass(frozen=True, eq=False)
class Share:
    """A part of a gradient, linear in v: its name, what it is for a seed, and what is said where it is missing."""

    what: str
    part: Made
    gone: str = ""
    kind: str = "missing_term"


@dataclass(frozen=True, eq=False)
class Shares:
    """Some shares of a gradient; what is said of them begins with ``begin``."""

    case: Case
    shares: Sequence[Share]
    begin: str = ""

    def each(self, weights: Sequence[Fraction] = GONE) -> Iterator[Slip]:
        """One of them alone, and one of them with another weight than 1."""
        count = len(self.shares)
        for place in range(count):
            if count > 2:
                yield self.slip([Fraction(k == place) for k in range(count)])
            for weight in weights:
                yield self.slip([weight if k == place else Fraction(1) for k in range(count)])

    def solved(self) -> Iterator[Slip]:
        """The weights with which what came comes about."""
        if len(self.shares) > 1:
            weights = solved([[part(trial) for part in self.parts] for trial in self.case.trials], self.case.trials)
            yield from [] if weights is None else [self.slip(weights)]

    @cached_property
    def parts(self) -> list[Made]:
        """What they are, computed once for each seed."""
        return [cache(share.part) for share in self.shares]

    def slip(self, weights: Sequence[Fraction]) -> Slip:
        """The gradient with these weights, of which those that are not 1 are all the same."""

        def made(trial: Trial) -> Array:
            others = [float(w - 1) * part(trial) for w, part in zip(weights, self.parts, strict=True) if w != 1]
            return np.asarray(trial.expected + sum(others))

        changed = [share for share, w in zip(self.shares, weights, strict=True) if w != 1]
        whole = [share for share, w in zip(self.shares, weights, strict=True) if w == 1]
        (weight,) = {w for w in weights if w != 1}
        kind, said = told(
            weight, changed, whole, f"{len(changed)} of the {len(weights)} terms of {self.case.name}.grad"
        )
        counted = miscounted(float(weight), self.case) if weight > 0 else ""
        return Slip(kind, f"{self.begin}{said}{f', {counted}' if counted else ''}", made)


def told(weight: Fraction, changed: Sequence[Share], whole: Sequence[Share], count: str) -> tuple[str, str]:
    """The kind of a mistake in weights and a clause: some shares have a weight, the others are as they should be."""
    if weight == 0 and len(changed) > 1 == len(whole) and whole[0].what:
        return changed[0].kind, f"only {whole[0].what} is there"
    if weight == 0 and len(changed) == 1 and changed[0].gone:
        return changed[0].kind, changed[0].gone
    which = " and ".join(share.what for share in changed) if all(share.what for share in changed) else count
    one = len(changed) == 1
    if weight == 0:
        return changed[0].kind, f"{which} {'is' if one else 'are'} missing"
    if weight == -1:
        return "sign", f"{which} {'has' if one else 'have'} the wrong sign"
    times = "of" if 0 < weight < 1 else "times"
    return "scaled", f"{which} {'is' if one else 'are'} {weight} {times} what {'it' if one else 'they'} should be"


def solved(parts: Sequence[Sequence[Array]], trials: Sequence[Trial]) -> list[Fraction] | None:
    """The weights of shares with which what came comes about: 1, and one other simple number; else None."""
    columns = np.concatenate([np.stack([a.reshape(-1) for a in row], -1) for row in parts])
    rest = [t.got - t.expected + sum(row) for t, row in zip(trials, parts, strict=True)]
    wanted = np.concatenate([np.reshape(a, -1) for a in rest])
    if not (np.isfinite(columns).all() and np.isfinite(wanted).all()):
        return None
    if np.linalg.matrix_rank(columns) < columns.shape[1]:
        return None
    found, *_ = np.linalg.lstsq(columns, wanted, rcond=None)
    weights = [Fraction(float(w)).limit_denominator(LARGEST) for w in found]
    simple = all(abs(float(w) - f) < NEAR * max(1.0, abs(f)) for w, f in zip(weights, found, strict=True))
    others = {w for w in weights if w != 1}
    return weights if simple and len(others) == 1 and 1 in weights else None


def share_slips(case: Case) -> Iterator[Slip]:
    """A use or an output that is left out or subtracted, outputs and entries that are taken for one another."""
    for shares in (of_uses(case), of_outputs(case)):
        yield from shares.each()
    yield from exchanged(case)
    yield from by_entry(case)


def weighted_slips(case: Case) -> Iterator[Slip]:
    """By shares whose weights are solved for; then a tensor of the forward pass as a factor of the whole."""
    for shares in (of_uses(case), of_outputs(case), *of_terms(case)):
        yield from shares.solved()
    yield from by_tensor(case)


def of_outputs(case: Case) -> Shares:
    """What comes back from each of several outputs."""
    texts, outputs = case.formula.text.split("; "), case.formula.programs
    shares = []
    for n in range(len(outputs) if len(outputs) > 1 else 0):

        def part(trial: Trial, n: int = n) -> Array:
            return case.formula.part(n, trial.weights.seeds[n])[case.name]

        way = f"comes back from output {n + 1}" + (f", {texts[n]}" if len(texts) == len(outputs) else "")
        shares.append(Share(f"what {way}", part, f"nothing {way}", "missing_path"))
    return Shares(case, shares)


def exchanged(case: Case) -> Iterator[Slip]:
    """What comes back from one of several outputs by the seed of another."""
    places = range(len(case.formula.programs))
    for n, other in permutations(places, 2):
        if case.formula.outputs[n].shape != case.formula.outputs[other].shape:
            continue
        orders = [({n: other}, f"v{other + 1} is used where v{n + 1} belongs")]
        if other > n:
            orders.append(({n: other, other: n}, f"v{n + 1} and v{other + 1} are the other way round"))
        for order, said in orders:
            yield case.with_seeds("swapped", said, lambda seeds, o=order: [seeds[o.get(k, k)] for k in places])  # type: ignore[misc]  # a default binds


def of_uses(case: Case) -> Shares:
    """What comes back through the uses of an input that is used several times."""
    equations: list[Equation] = []
    if case.single is not None:
        with contextlib.suppress(SymgradError):
            equations = [equation for _, equation in case.formula.sweep(0, case.name).uses]
    count = len(equations)
    shares = [
        Share(f"the share of use {n + 1}", case.evaluated(equations[n])) for n in range(count if count > 1 else 0)
    ]
    return Shares(case, shares, f"{case.name} is used {count} times, and ")


def by_entry(case: Case) -> Iterator[Slip]:
    """J without its diagonal, that alone; and of several outputs that read one entry only the first, or the last."""
    shape = case.trials[0].weights.seeds[0].shape
    size = int(np.prod(shape))
    if not 1 < size <= MOST_ENTRIES or len(case.formula.programs) > 1:
        return
    rows = np.stack([case.formula.pull([unit_at(at, shape)])[case.name] for at in np.ndindex(*shape)])
    if not np.isfinite(rows).all():
        return
    if rows[0].shape == shape:
        diagonal = np.diagonal(rows.reshape(size, size)).reshape(shape)
        missing = "each output depends on the entry of its own place, too: the diagonal of J is missing"
        only = "only the diagonal of J is there: each output depends on other entries too"
        here = Share("the diagonal of J", lambda t: diagonal * t.weights.seeds[0], missing)
        beside = Share("J beside its diagonal", lambda t: t.expected - here.part(t), only, "elementwise")
        yield from Shares(case, (here, beside)).each(GONE[:1])
    read = rows != 0
    for which, order in (("last", read[::-1]), ("first", read)):
        first = order.argmax(0)
        place = len(rows) - 1 - first if which == "last" else first
        kept = np.take_along_axis(rows, place[None], 0)[0]
        said = f"where several outputs read one entry only the {which} one's share is kept: shares add up (a sum, +=, "
        said += "index_add, and not =)"
        yield Slip("overwritten", said, lambda t, p=place, k=kept: k * t.weights.seeds[0].reshape(-1)[p])  # type: ignore[misc]  # a default binds


def of_terms(case: Case) -> Iterator[Shares]:
    """Terms of the gradient, multiplied out further and further."""
    if case.single is None:
        return
    (program, _), sweep = case.single, case.formula.sweep(0, case.name)
    if not sweep.whole:
        return
    axes = sweep.equation.axes
    terms: list[sp.Expr] = [sweep.equation.right]
    for _ in range(LEVELS):
        wider = [part for term in terms for part in multiplied_out(term)]
        if len(wider) == len(terms) or len(wider) > MOST_TERMS:
            return
        terms = wider
        shares = []
        for equation in (Equation(axes, term) for term in terms):
            text = shortened(substitute(equation, views(program)).right, axes, program.seed)
            shares.append(Share(f"the term {text}" if text else "", case.evaluated(equation)))
        yield Shares(case, shares)


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


def by_tensor(case: Case) -> Iterator[Slip]:
    """The whole gradient times a tensor of the forward pass, or divided by it: a factor that is not there."""
    shape = case.trials[0].expected.shape
    for tensor, called, array in tensors_of(case.formula) if len(case.formula.programs) == 1 else ():
        if array.size < 2 or not broadcasts(array.shape, shape) or not np.isfinite(array).all() or np.ptp(array) == 0:
            continue
        for factor, missing in ((array, f"1/{tensor}"), (1 / np.where(array == 0, np.nan, array), tensor)):
            said = f"the factor {missing} is missing{called}"
            yield Slip("missing_factor", said, lambda t, f=factor: t.expected * f)  # type: ignore[misc]  # a default binds
