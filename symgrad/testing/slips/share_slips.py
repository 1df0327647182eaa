"""A gradient as a sum of shares: by output, by use, by entry, by term; some have another weight than 1, or all.

Comes in: a `Case`. Goes out: `Slip` s: the whole times a number, with what that number counts; each share left out,
alone, with the other sign; then the weights that are solved for, told where all shares but some with one and the same
simple weight have the weight 1. Also here: outputs and entries that are taken for one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import permutations

import numpy as np
import sympy as sp

from symgrad.calculus.local_derivatives import derive_local, standard
from symgrad.calculus.reverse_sweep import substitute
from symgrad.closed_form.form import find_views
from symgrad.indexing import Bracket, Equation
from symgrad.indexing.symbols import accesses, is_access, name_of
from symgrad.numeric import Array, as_float, evaluate
from symgrad.render.formula import formula_text
from symgrad.testing.bench import Trial, largest_at, six_digits
from symgrad.testing.references import DerivedReference
from symgrad.testing.slips import Case, Made, Slip, intermediate_values, jacobian_rows
from symgrad.testing.slips.formula_slips import multiplied_out

MOST_ENTRIES, MOST_TERMS, LEVELS = 64, 8, 3
LARGEST = 1000
"""The largest denominator of a weight that is told as a fraction."""
LONGEST = 120
"""A longer term is not repeated."""
NEAR = 1e-6
GONE = (Fraction(0), Fraction(-1))
"""Missing, and subtracted."""


@dataclass(frozen=True, eq=False)
class GradientShare:
    """A part of a gradient, linear in v: its name, what it is for a seed, and what is said where it is missing."""

    what: str
    made: Made
    gone: str = ""
    kind: str = "missing_term"

    @cached_property
    def part(self) -> Made:
        """What it is, computed once for each seed."""
        return cache(self.made)


@dataclass(frozen=True, eq=False)
class Shares:
    """Some shares of a gradient."""

    case: Case
    shares: Sequence[GradientShare]

    def each(self, weights: Sequence[Fraction] = GONE) -> Iterator[Slip]:
        """One of them alone, and one of them missing or subtracted."""
        for share in self.shares:
            if len(self.shares) > 2:
                yield self.slip(Fraction(0), [other for other in self.shares if other is not share])
            yield from (self.slip(weight, [share]) for weight in weights)

    def solved(self) -> Iterator[Slip]:
        """The weights with which what came comes about."""
        if self.shares and any(trial.got.any() for trial in self.case.trials):  # a page asks before anything came
            trials = self.case.trials if len(self.shares) > 1 else self.case.trials[:1]
            weights = solve_weights([[share.part(trial) for share in self.shares] for trial in trials], trials)
            for weight in {w for w in weights or () if w != 1}:  # one at most
                yield self.slip(weight, [s for s, w in zip(self.shares, weights or (), strict=True) if w != 1])

    def slip(self, weight: Fraction, changed: Sequence[GradientShare]) -> Slip:
        """The gradient with this weight for some of the shares."""

        def made(trial: Trial) -> Array:
            return np.asarray(trial.expected + float(weight - 1) * sum(share.part(trial) for share in changed))

        whole = [share for share in self.shares if share not in changed]
        count = f"{len(changed)} of the {len(self.shares)} terms of {self.case.name}.grad"
        kind, said = describe_weights(weight, changed, whole, count)
        counted = describe_miscount(float(weight), self.case) if weight > 0 else ""
        return Slip(kind, f"{said}{f', {counted}' if counted else ''}", made)


def describe_weights(
    weight: Fraction, changed: Sequence[GradientShare], whole: Sequence[GradientShare], count: str
) -> tuple[str, str]:
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


def solve_weights(parts: Sequence[Sequence[Array]], trials: Sequence[Trial]) -> list[Fraction] | None:
    """The weights of shares with which what came comes about: 1, but for one other simple number; else None."""
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
    return weights if simple and len(others) == 1 and (1 in weights or len(weights) == 1) else None


def scale_slips(case: Case) -> Iterator[Slip]:
    """The sign, or a number times what it should be, with what that number counts."""
    yield Slip("sign", "the sign is flipped", lambda t: -t.expected)
    whole = [t for t in case.trials if all((s == np.round(s)).all() for s in t.weights.seeds)]  # where less is rounded
    trial = max(whole or case.trials, key=lambda t: float(np.abs(t.expected).max(initial=0.0)))
    if not trial.expected.any():
        return
    at = largest_at(np.abs(trial.expected))
    factor = float(trial.got[at] / trial.expected[at])
    if not 0 < abs(factor) < np.inf or abs(factor - 1) < 1e-3:  # NaN has no factor either
        return
    known = {round(factor), 1 / round(1 / factor) if abs(1 / factor) > 0.5 else factor}
    nearest = min(known, key=lambda k: abs(k - factor))
    factor = nearest if abs(nearest - factor) < 1e-3 * abs(factor) else factor
    text, missing = describe_factor(factor, case)
    said = f"the factor {missing} is missing: every entry is {text}" if missing else f"every entry is {text}"
    yield Slip("missing_factor" if missing else "scaled", said, lambda t: factor * t.expected)


def describe_factor(factor: float, case: Case) -> tuple[str, str]:
    """``3 times what it should be: as if multiplied by 3, the number of rows of x``; and the factor that is missing."""
    ratio = Fraction(abs(factor)).limit_denominator(LARGEST)
    exact = abs(float(ratio) - abs(factor)) < 1e-9 * abs(factor)
    times = "of" if exact and ratio < 1 else "times"
    text = f"{'-' if factor < 0 else ''}{ratio if exact else f'{abs(factor):.6g}'} {times} what it should be"
    if said := describe_miscount(factor, case):
        return f"{text}: {said}", ""
    return text, missing_number(factor, case)


def describe_miscount(factor: float, case: Case) -> str:
    """``as if divided by 4 in place of 5 (the length of axis 1 of x is 5)``: what a factor counts, or empty."""
    counts = size_names(case)
    for number in (abs(factor), 1 / abs(factor)):
        if round(number) > 2 and abs(number - round(number)) < 1e-9 and round(number) in counts:
            by, instead = ("multiplied", "sum for a mean") if number == abs(factor) else ("divided", "mean for a sum")
            return f"as if {by} by {counts[round(number)]}, {round(number)} (a {instead})"
        n = next((n for n in sorted(counts) if n > 2 and abs(number - n / (n - 1)) < 1e-9), None)
        if n is not None and divides_by_a_size(case.formula):
            less, more = (n - 1, n) if number == abs(factor) else (n, n - 1)
            return f"as if divided by {less} in place of {more} ({counts[n]} is {n})"
    return ""


def divides_by_a_size(formula: DerivedReference) -> bool:
    """Whether a step of the forward pass averages: it divides by a number of entries, or by one less."""
    keys = (standard(step, program).key for program in formula.programs for step in program.steps)
    rights = (derive_local(key).equation.right for key in keys)
    bases = (power.base for right in rights for power in right.atoms(sp.Pow) if power.exp.is_negative)
    return any(is_number_of_entries(base) for base in bases)


def is_number_of_entries(base: sp.Expr) -> bool:
    """Whether an expression reads sizes, or counts what holds, and reads no numbers of a tensor."""
    bare = base.xreplace(dict.fromkeys(base.atoms(Bracket), sp.S.One))
    counts = bool(base.free_symbols) or base.has(sp.Sum)
    return counts and not any(is_access(node) for node in sp.preorder_traversal(bare))


def missing_number(factor: float, case: Case) -> str:
    """The number of the forward pass that a factor is one by, or a power of it; empty where there is none."""
    for tensor, called, array in intermediate_values(case.formula):
        number = abs(float(array.reshape(()))) if array.size == 1 else 0.0
        if number in (0.0, 1.0) or not np.isfinite(number):
            continue
        for power, missing in ((1, f"1/{tensor}"), (-1, tensor), (2, f"1/{tensor}²"), (-2, f"{tensor}²")):
            if abs(number**power - abs(factor)) < 1e-9 * abs(factor):
                return f"{missing} ({called[2:] or tensor} = {six_digits(float(array.reshape(())))})"
    return ""


def size_names(case: Case) -> dict[int, str]:
    """What may have been counted."""
    found: dict[int, str] = {}
    inputs = {n: np.shape(a) for n, a in case.formula.inputs.items()}
    shapes = {"out": case.trials[0].weights.seeds[0].shape, **inputs}
    for what, shape in sorted(shapes.items(), key=lambda pair: pair[0] != case.name):
        found.setdefault(int(np.prod(shape, dtype=object)), f"the number of entries of {what}")
        for axis, size in enumerate(shape):
            found.setdefault(int(size), f"the length of axis {axis} of {what}")
    return found


def share_slips(case: Case) -> Iterator[Slip]:
    """An output that is left out or subtracted, outputs and entries that are taken for one another."""
    yield from output_shares(case).each()
    yield from swapped_outputs(case)
    yield from entry_slips(case)


def weighted_slips(case: Case) -> Iterator[Slip]:
    """By shares whose weights are solved for; then a tensor of the forward pass as a factor of the whole."""
    for shares in (output_shares(case), *term_shares(case)):
        yield from shares.solved()
    yield from factor_slips(case)


def output_shares(case: Case) -> Shares:
    """What comes back from each of several outputs."""
    texts, outputs = case.formula.text.split("; "), case.formula.programs
    shares = []
    for n in range(len(outputs) if len(outputs) > 1 else 0):

        def part(trial: Trial, n: int = n) -> Array:
            return case.formula.part(n, trial.weights.seeds[n])[case.name]

        text = f", {texts[n]}" if len(texts) == len(outputs) else ""
        what = f"the gradient from output {n + 1}{text}"
        shares.append(GradientShare(f"{what}{text and ','}", part, f"{what} is missing", "missing_path"))
    return Shares(case, shares)


def swapped_outputs(case: Case) -> Iterator[Slip]:
    """What comes back from one of several outputs by the seed of another."""
    count = len(case.formula.programs)
    for n, other in permutations(range(count), 2):
        if case.formula.outputs[n].shape != case.formula.outputs[other].shape:
            continue
        orders = [({n: other}, f"v{other + 1} is used instead of v{n + 1}")]
        if other > n:
            orders.append(({n: other, other: n}, f"v{n + 1} and v{other + 1} are swapped"))
        for order, said in orders:

            def made(trial: Trial, order: Mapping[int, int] = order) -> Array:
                seeds = trial.weights.seeds
                return case.formula.pull([seeds[order.get(k, k)] for k in range(count)])[case.name]

            yield Slip("swapped", said, made)


def entry_slips(case: Case) -> Iterator[Slip]:
    """J without its diagonal, that alone; and of several outputs that read one entry only the first, or the last."""
    shape = case.trials[0].weights.seeds[0].shape
    size = int(np.prod(shape))
    if not 1 < size <= MOST_ENTRIES or len(case.formula.programs) > 1:
        return
    rows = jacobian_rows(lambda v: case.formula.pull([v])[case.name], shape)
    if not np.isfinite(rows).all():
        return
    if rows[0].shape == shape:
        diagonal = np.diagonal(rows.reshape(size, size)).reshape(shape)
        missing = "the diagonal of J is missing: each output also depends on its matching entry"
        only = "only the diagonal of J is there: each output depends on other entries too"
        here = GradientShare("the diagonal of J", lambda t: diagonal * t.weights.seeds[0], missing)
        beside = GradientShare("J beside its diagonal", lambda t: t.expected - here.part(t), only, "elementwise")
        yield from Shares(case, (here, beside)).each(GONE[:1])
    read = rows != 0
    for which, order in (("last", read[::-1]), ("first", read)):
        first = order.argmax(0)
        place = len(rows) - 1 - first if which == "last" else first
        kept = np.take_along_axis(rows, place[None], 0)[0]
        said = f"where several outputs use one entry, only the {which} one's gradient is kept: gradients add up "
        said += "(a sum, +=, index_add, and not =)"
        yield Slip("overwritten", said, lambda t, p=place, k=kept: k * t.weights.seeds[0].reshape(-1)[p])  # type: ignore[misc]  # a default binds


def term_shares(case: Case) -> Iterator[Shares]:
    """Terms of the gradient, multiplied out further and further."""
    if case.single is None:
        return
    (program, values), sweep = case.single, case.formula.sweep(0, case.name)
    axes, views = sweep.equation.axes, find_views(program)
    terms: list[sp.Expr] = [sweep.equation.right] if sweep.whole else []
    for _ in range(LEVELS):
        wider = [part for term in terms for part in multiplied_out(term)]
        if len(wider) == len(terms) or len(wider) > MOST_TERMS:
            return
        terms = wider
        shares = []
        for equation in (Equation(axes, term) for term in terms):

            def part(trial: Trial, equation: Equation = equation) -> Array:
                known = values.with_arrays({program.seed: trial.weights.seeds[0]})
                return as_float(evaluate(equation, known.arrays, known.sizes))

            text = short_term_text(substitute(equation, views).right, axes, program.seed)
            shares.append(GradientShare(f"the term {text}" if text else "", part))
        yield Shares(case, shares)


def short_term_text(term: sp.Expr, axes: Sequence[sp.Symbol], seed: str) -> str:
    """A term, if it is short, else the shortest sum over v in it; empty where neither says which it is."""
    sums = [n for n in sp.preorder_traversal(term) if isinstance(n, sp.Sum) and seed in map(name_of, accesses(n))]
    whole = formula_text(term, axes)
    if len(whole) <= LONGEST:
        return whole
    parts = [formula_text(n, axes) for n in sums]
    return f"with {min(parts, key=len)}" if parts and len(min(parts, key=len)) <= LONGEST else ""


def factor_slips(case: Case) -> Iterator[Slip]:
    """The whole gradient times a tensor of the forward pass, or divided by it: a factor that is not there."""
    shape = case.trials[0].expected.shape
    for tensor, called, array in intermediate_values(case.formula) if len(case.formula.programs) == 1 else ():
        varies = array.size > 1 and np.isfinite(array).all() and np.ptp(array) != 0
        pairs = zip(array.shape[::-1], shape[::-1], strict=False)
        if not varies or array.ndim > len(shape) or any(small not in (1, size) for small, size in pairs):
            continue
        for factor, missing in ((array, f"1/{tensor}"), (1 / np.where(array == 0, np.nan, array), tensor)):
            said = f"the factor {missing} is missing{called}"
            yield Slip("missing_factor", said, lambda t, f=factor: t.expected * f)  # type: ignore[misc]  # a default binds
