"""The diagnosis of a mistake: each is computed from the formula, and named only if it matches for every seed.

Comes in: a `Case`, one input whose gradient is wrong. Goes out: a `Cause`, ranked: what concerns the whole gradient
first, then one step or one term of the pullback, then rounding, then the line of the backward that is left; ``value``
where nothing was confirmed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import sympy as sp

from symgrad.calculus import flowing
from symgrad.calculus.reverse_sweep import substitute
from symgrad.closed_form.form import find_views
from symgrad.errors import SymgradError
from symgrad.numeric import Array, as_float
from symgrad.ops.lookup import has_role
from symgrad.program import Apply, Role
from symgrad.render.formula import formula_text
from symgrad.testing.bench import Trial
from symgrad.testing.references import DerivedReference
from symgrad.testing.slips import LINEAR, Case, Slip, jacobian_rows, later_slips, seed_slips, shift_slips
from symgrad.testing.slips.formula_slips import closed_form_slips
from symgrad.testing.slips.share_slips import scale_slips, share_slips, weighted_slips
from symgrad.testing.slips.step_slips import forward_slips, operation_slips, step_slips
from symgrad.testing.trial_seeds import EPSILON, LOWER, cast_to

MOST = 64
"""Entries of a cotangent that is solved for."""
SPARE = 2
"""Entries beyond the unknowns that have to fit: one may do so by accident of the numbers."""

LONGEST = 100
"""A longer formula of one entry is left out of the message."""
SMALLEST = 1e-3
"""Ulps of float32 below which a difference is not that of a computation in it."""
FIRST = 4
"""Entries that are listed where they are no slice."""
Makers = Sequence[Callable[[Case], Iterator[Slip]]]
LIKELY: Makers = (closed_form_slips, scale_slips, seed_slips, later_slips, share_slips, step_slips)
"""What concerns the gradient as a whole, then v as a whole, then shares of it, then single steps."""
EVERY: Makers = (
    *LIKELY, weighted_slips, partial(closed_form_slips, axes=True), forward_slips, shift_slips, operation_slips
)  # fmt: skip


@dataclass(frozen=True)
class Cause:
    """A mistake in a word and in a clause; ``more`` are further lines."""

    kind: str
    said: str
    more: tuple[str, ...] = ()


def find_cause(case: Case) -> Cause:
    """The first mistake that explains everything that came."""
    if not all(np.isfinite(t.got).all() for t in case.trials):
        return Cause("value", "")
    if case.none or not any(t.got.any() for t in case.trials):
        return missing_gradient_cause(case)
    for slip in computable_slips(case, EVERY):
        if explains_all(slip, case.trials):
            return Cause(slip.kind, slip.said)
    return precision_cause(case) or wrong_line_cause(case) or region_cause(case)


def region_cause(case: Case) -> Cause:
    """Where it differs, if that is not everywhere: an edge, a column, entries that nothing comes back to; and when."""
    off = np.any([t.off for t in case.trials], axis=0)
    count = int(off.sum())
    tested = [t for t in case.trials if (np.maximum(np.abs(t.expected), np.abs(t.got))[off] > t.limit).any()]
    always = all(t.off.any() for t in tested)
    here = describe_region(f"{case.name}.grad", off) if off.ndim and count not in (0, off.size) else ""
    if here and always and not any(t.got[off].any() for t in case.trials):
        return Cause("missing_path", f"the gradient of {here} is always 0; the other entries are right")
    more = [f"only {here} differ{'s' if count == 1 else ''}{', whatever v is' if always else ''}"] if here else []
    wrong = [t for t in tested if t.off.any()]
    if case.steady and not always:
        fine = [t.weights.name for t in tested if not t.off.any()]
        more.append(
            f"for some v it is right ({first_few(fine)}), for others wrong ({first_few(t.weights.name for t in wrong)})"
        )
    if case.steady and not all(is_linear_in_seed(t, case.trials) for t in wrong):
        return Cause("not_linear", LINEAR, tuple(more))
    return Cause("value", "", tuple(more))


def first_few(names: Iterable[str]) -> str:
    """The first few names."""
    every = list(names)
    return ", ".join(every[:FIRST]) + (f" and {len(every) - FIRST} more" if len(every) > FIRST else "")


def is_linear_in_seed(trial: Trial, trials: Sequence[Trial]) -> bool:
    """Whether what came for a seed is what came for the basis, weighted and added up, or for a multiple of the seed."""
    weights = np.concatenate([s.reshape(-1) for s in trial.weights.seeds])
    basis = [t for t in trials if t.weights.basic]
    if len(basis) == weights.size:
        return within_limits(trial, np.tensordot(weights, np.stack([t.got for t in basis]), 1), basis)
    for other in trials:
        seed = np.concatenate([s.reshape(-1) for s in other.weights.seeds])
        times = weights[0] / seed[0] if seed[0] else 0.0
        if times and np.array_equal(weights, times * seed) and not within_limits(trial, times * other.got, ()):
            return False
    return True


def within_limits(trial: Trial, made: Array, others: Sequence[Trial]) -> bool:
    """Whether two gradients are the same, as far as the numbers go that one was made of."""
    return bool((trial.gaps(made) <= max([trial.limit, *(t.limit for t in others)])).all())


def describe_region(name: str, mask: Array) -> str:
    """Some entries of a tensor: as a slice where they are one, else the first of them and how many."""
    kept = [np.flatnonzero(mask.any(axis=tuple(a for a in range(mask.ndim) if a != n))) for n in range(mask.ndim)]
    if mask[np.ix_(*kept)].all():
        spans = [slice_text(indices, size) for indices, size in zip(kept, mask.shape, strict=True)]
        if all(spans):
            return f"{name}[{','.join(spans)}]"
    return f"{name} at " + first_few(f"[{','.join(map(str, at))}]" for at in np.argwhere(mask))


def slice_text(indices: Array, size: int) -> str:
    """Indices of an axis as a slice; empty where they are not next to each other."""
    if len(indices) == 1:
        return str(indices[0])
    if len(indices) != indices[-1] - indices[0] + 1:
        return ""
    return f"{indices[0] or ''}:{'' if indices[-1] == size - 1 else indices[-1] + 1}"


def computable_slips(case: Case, makers: Makers) -> Iterator[Slip]:
    """Slips as far as they can be made: what the formula does not follow is no mistake of the candidate."""
    for make in makers:
        with contextlib.suppress(SymgradError):
            yield from make(case)


def explains_all(slip: Slip, trials: Sequence[Trial]) -> bool:
    """Whether a slip gives what came, everywhere and for every seed, and not what was expected."""
    differs = False
    for trial in trials:
        made = slip.gives(trial)
        if made is None or not trial.same(made):
            return False
        differs |= bool((trial.gaps(trial.expected) > trial.limit).any())
    return differs


def missing_gradient_cause(case: Case) -> Cause:
    """Nothing came."""
    right = sorted(name for name, fine in case.others.items() if fine)
    how = "no gradient is returned" if case.none else "only zeros are returned"
    beside = f", although {', '.join(f'{n}.grad' for n in right)} {'is' if len(right) == 1 else 'are'} right"
    return Cause("missing_path", f"{how} for {case.name}{beside if right else ''}")


def precision_cause(case: Case) -> Cause | None:
    """Whether what came are numbers of a lower type, or of a computation on inputs that were rounded to one."""
    gaps = [(t, float(np.where(t.off, t.gaps(t.expected), 0.0).max(initial=0.0))) for t in case.trials]
    lost = f"{max(case.rounding.ulps(gap, t.scale) for t, gap in gaps):,.0f} ulps of {case.rounding.dtype} are lost"
    lower = [w for w in LOWER.get(case.rounding.dtype, ()) if all(gap <= 16 * EPSILON[w] * t.scale for t, gap in gaps)]
    for dtype in lower:
        if all(np.array_equal(cast_to(t.got, dtype), t.got) for t in case.trials):
            return Cause("precision", f"every entry is a {dtype} number: {lost}")
    for dtype in lower:
        if is_computed_in(case, dtype):
            return Cause("precision", f"this is what inputs rounded to {dtype} give: {lost}")
    single = max(gap / (EPSILON[LOWER["float64"][0]] * t.scale) if t.scale else 0.0 for t, gap in gaps)
    if case.rounding.dtype == "float64" and SMALLEST < single <= 1:
        said = f"every difference is below one ulp of float32 ({single:.2g}), and {lost}"
        return Cause("precision", f"{said}: is an intermediate value float32?")
    return None


def is_computed_in(case: Case, lower: str) -> bool:
    """Whether the formula at inputs that were rounded to a lower type gives what came."""
    at = case.formula.at(
        {n: cast_to(np.asarray(a, float), lower) for n, a in case.formula.inputs.items() if a.dtype.kind == "f"}
    )  # one call
    without = within = 0.0
    for t in case.trials:
        made = at.pull([cast_to(s, lower) for s in t.weights.seeds])[case.name]
        without += float(np.abs(t.expected - t.got).max(initial=0.0))
        within += float(np.abs(made - t.got).max(initial=0.0))
    return within <= without / 16


def wrong_line_cause(case: Case) -> Cause | None:
    """The tensor with another cotangent of which all wrong gradients would follow."""
    step = wrong_step(case.formula, case.wrong)
    if step is None:
        return None
    names = " and ".join(f"{name}.grad" for name in case.wrong)
    what = f"{step.result.name} = {step.called}({', '.join(step.tensors)})"
    said = (
        f"{names} would be right for another gradient of {what}: the backward lines after it are right, those before "
        "it are not"
    )
    return Cause("wrong_line", said)


def entry_and_line(formula: DerivedReference, name: str, at: tuple[int, ...], trial: Trial) -> tuple[str, str]:
    """The entry as the formula has it, and the line of the whole gradient; empty where there is none that is short."""
    counting = [n for n, s in enumerate(trial.weights.seeds) if s.any()] or [0]
    number = counting[0]
    program = formula.programs[number]
    if not any(t.name == name for t in program.inputs):
        return "", f"{name} is not in the formula"
    try:
        sweep = formula.sweep(number, name)
    except SymgradError:
        return "", ""
    text = ""
    if sweep.whole and len(formula.programs) == 1:
        equation = substitute(sweep.equation, find_views(program))
        places = dict(zip(equation.axes, map(sp.Integer, at), strict=True))
        text = formula_text(equation.right.xreplace(places), ())
    form = formula.form(number, name) if len(formula.programs) == 1 else None
    line = "" if form is None else f"{name}.grad = {form.bare}"
    return text if len(text) <= LONGEST else "", line


def wrong_step(formula: DerivedReference, trials: Mapping[str, Sequence[Trial]]) -> Apply | None:
    """The step nearest to the inputs with another cotangent of which everything would follow."""
    if len(formula.programs) > 1:
        return None
    program = formula.programs[0]
    names = [name for name in trials if any(t.name == name for t in program.inputs)]
    on_the_way = flowing(program, names) & program.relevant
    for step in program.steps:
        name = step.result.name
        if name == program.output or name not in on_the_way or has_role(step.op, Role.COPIES):
            continue
        if 0 < np.size(formula.values[0][name]) <= MOST and explains_gaps(formula, name, names, trials):
            return step
    return None


def explains_gaps(
    formula: DerivedReference, through: str, names: Sequence[str], trials: Mapping[str, Sequence[Trial]]
) -> bool:
    """Whether one change of the cotangent of ``through`` gives all differences, for every seed."""

    def pulled(cotangent: Array) -> Array:
        found = formula.sweeps[0].back({through: cotangent})
        return np.concatenate([as_float(found[name]).reshape(-1) for name in names])

    try:
        matrix = jacobian_rows(pulled, np.shape(formula.values[0][through])).T
    except SymgradError:
        return False
    rank = int(np.linalg.matrix_rank(matrix))
    reached = np.abs(matrix).max(axis=1) > 0
    if rank == 0 or int(reached.sum()) < rank + SPARE:
        return False
    for row in zip(*(trials[name] for name in names), strict=True):
        gaps = np.concatenate([(t.got - t.expected).reshape(-1) for t in row])
        limits = np.concatenate([np.full(t.got.size, 100 * t.limit) for t in row])
        if not np.isfinite(gaps).all():
            return False
        solved, *_ = np.linalg.lstsq(matrix, gaps, rcond=None)
        if (np.abs(matrix @ solved - gaps) > limits).any():
            return False
    return True
