"""Independent answers for second derivatives: differences of derived gradients, and the symmetry of mixed partials.

Comes in: a matrix of second derivatives, with the program and the numbers that it was made of. Goes out: `Check`s,
without the entries where a gradient jumps or has two slopes. torch's own double backward, of the text as it was typed,
is in `symgrad.oracles.typed_text`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from symgrad.errors import DomainError
from symgrad.numeric import Array, Values, as_float, forward, is_finite, numeric_pullback
from symgrad.numeric.exact import all_tame, gaps, largest_finite
from symgrad.oracles.comparisons import (
    REFUSES,
    TOLERANCE,
    UNTAMED,
    Check,
    Standing,
    Text,
    compare,
    compare_some,
    judge,
    skipped,
)
from symgrad.oracles.elementwise import Elementwise, FormulaTooLong
from symgrad.oracles.numerical import FINER, ONE_SIDED, UNSETTLED, has_converged, same_slope, without_digits
from symgrad.oracles.torch import REFUSALS, first_line, torch_forward, torch_leaves
from symgrad.oracles.typed_text import torch_second
from symgrad.program import Program

TORCH = "double backward (create_graph=True), torch {version}, float64"
DIFFERENCES = "central differences of the derived gradient"
SYMMETRY = "H = Hᵀ: the order of differentiation does not matter"
LARGEST = 200
"""Entries of the largest input whose Hessian is checked column by column."""
STEP, WIDE, ACCURACY = 1e-6, 1e-3, 1e-6
CORNER = "the gradient jumps there, or has two slopes, and any number between them is valid"
KINK = (
    "the slope of the gradient is {there:.6g} there; the program has {here:.6g}{torch}, because at this point it "
    "uses a convention (0 for the slope of a norm at 0), which has no slope of its own"
)
NOT_DERIVED = ("not implemented", "not differentiable")
OWN_RULE = "torch's own rule is not a derivative there; SymPy and difference quotients confirm the derived number"
LOTS, BESIDE = 3, 1e-6
JUMPS = "right next to this point the derived number is another one"
MOST_FORWARD = 64
"""Entries of the largest input of which torch.func.hessian is asked for, too."""
OTHER = (
    "torch.func.hessian, a forward pass through the gradient, has {off} of {size} entries here that are {what}; "
    "difference quotients of the gradient confirm the derived numbers, so it is smooth there, and "
    "torch.autograd.functional.hessian, a backward through the backward, has them"
)
LARGEST_SYMPY = 64
"""Entries of the largest Hessian that SymPy is asked for."""

Made = Callable[[Mapping[str, Array]], Array]
"""Some numbers at a point."""
Side = tuple[Array, Array]
"""Quotients at a step and at a finer one."""


@dataclass(frozen=True, eq=False)
class Curvature:
    """The matrix ``found``, ∂²(Σ v·out) / ∂first ∂second, beside other answers, with all that it was computed from."""

    program: Program
    inputs: Mapping[str, Array]
    seed: Array
    first: str
    second: str
    found: Array
    standing: Standing | None = None

    @cached_property
    def ours(self) -> Array:
        """The matrix as floats."""
        return as_float(self.found)

    @cached_property
    def values(self) -> Values:
        """The forward pass."""
        return forward(self.program, self.inputs)

    @cached_property
    def point(self) -> dict[str, Array]:
        """The inputs as floats, one of which is moved."""
        return {name: as_float(array) for name, array in self.inputs.items()}

    @cached_property
    def mathematics(self) -> Array | None:
        """The matrix by SymPy on its own; None where its formulas are too long."""
        try:
            explicit = Elementwise(self.program, self.values) if self.found.size <= LARGEST_SYMPY else None
            return None if explicit is None else explicit.second(self.first, self.second, self.seed)
        except FormulaTooLong:
            return None

    def gradient(self, moved: Mapping[str, Array]) -> Array:
        """The derived gradient by ``first`` at other inputs."""
        return numeric_pullback(self.program, forward(self.program, moved), self.seed, (self.first,))[self.first]

    def quotients(self, step: float) -> Array:
        """Central differences of the gradient, a column for each entry of ``second``."""
        return quotient_columns(self.gradient, self.point, self.second, step, 1.0, self.inputs[self.first].size)

    def sides(self, step: float) -> list[Side]:
        """Those to the right and those to the left."""
        return both_sides(self.gradient, self.point, self.second, step, self.inputs[self.first].size)

    def beside(self, oracle: str, expected: Array, tolerance: float = TOLERANCE, note: str = "") -> Check:
        """The matrix against another answer."""
        return compare(oracle, expected, self.ours, tolerance, note, self.standing)


def second_checks(
    program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str, found: Array,
    near: Made | None = None, text: Text | None = None,
) -> tuple[Check, ...]:  # fmt: skip
    """What is known of the matrix ``found``: rows are the entries of ``first``, columns those of ``second``.

    ``near`` makes it at other inputs: where it jumps, the point stands on a kink. ``text`` is what torch is asked.
    """
    rows, columns = found.shape
    if max(rows, columns) > LARGEST:
        why = f"{rows}×{columns} entries are too many to be checked one by one"
        return (skipped(TORCH.format(version="(any)"), why), skipped(DIFFERENCES, why))
    check = skipped("double backward by torch", "torch is not installed")
    try:
        answer = torch_second(text, program, inputs, seed, first, second)
    except RuntimeError as error:  # a backward that torch itself cannot differentiate
        if not any(said in str(error) for said in NOT_DERIVED):
            raise
        answer, check = None, replace(check, note=f"{REFUSES}{first_line(error)}")
    case, torchs = Curvature(program, inputs, seed, first, second, found), None if answer is None else answer[0]
    there = is_finite(found).all() and (torchs is None or is_finite(torchs).all())
    if not there or not is_finite(case.values[program.output])[np.asarray(seed) != 0].all():
        mathematics = case.ours if case.mathematics is None else case.mathematics
        case = replace(case, standing=Standing(mathematics, np.isnan(mathematics)))
    differences = by_differences(case, near)
    if answer is not None:
        note = f"torch ran the steps as symgrad reads them: {answer[2]}" if answer[2] and text is not None else ""
        check = case.beside(TORCH.format(version=answer[1]), answer[0], note=note)
    if check.passed is False or differences.note or not differences.passed:
        with suppress(DomainError):  # one entry moved alone leaves the domain, as that of a symmetric matrix
            check, differences = beside_corners(case, check, differences, torchs)
    if torchs is not None and differences.passed:
        check = judge(check, [partial(beside_own_rules, case, torchs)])
    if first == second and check.passed and differences.passed and rows <= MOST_FORWARD:
        check = replace(check, note="; ".join(filter(None, [check.note, forward_over_reverse(case)])))
    symmetry = [compare(SYMMETRY, found.T, found, standing=case.standing)] if first == second else []
    return (check, differences, *symmetry)


def forward_over_reverse(case: Curvature) -> str:
    """What torch.func.hessian has otherwise, whose forward rules are not those that a double backward goes by."""
    theirs = torch_hessian(case.program, case.inputs, case.seed, case.first)
    if theirs is None:
        return ""
    theirs = theirs.reshape(case.ours.shape)
    off = gaps(theirs, case.ours) > ACCURACY * max(1.0, float(np.abs(case.ours).max(initial=0.0)))
    what = "others" if np.isfinite(theirs[off]).all() else "no numbers"
    return OTHER.format(off=int(off.sum()), size=off.size, what=what) if off.any() else ""


def beside_own_rules(case: Curvature, torchs: Array, check: Check) -> Check:
    """``check`` without entries where SymPy on its own has the derived number, and torch another.

    torch's backward of a power puts a constant 0 where the exponent is 0, so that differentiating it again misses
    what the exponent does there.
    """
    if case.mathematics is None:
        return check
    with np.errstate(invalid="ignore"):
        allowed = TOLERANCE * max(1.0, largest_finite(case.ours))
        off, right = np.abs(torchs - case.ours) > allowed, np.abs(case.mathematics - case.ours) <= allowed
    return compare_some(check.oracle, torchs, case.ours, ~(off & right), OWN_RULE, standing=case.standing)


def beside_corners(
    case: Curvature, check: Check, differences: Check, torchs: Array | None
) -> tuple[Check, Check]:  # fmt: skip
    """Both checks without entries where the gradient jumps or has two slopes, or its slope is not the program's."""
    found, on_the_way = case.ours, map(as_float, forward(case.program, case.point).arrays.values())
    if not all(all_tame(array[np.isfinite(array)]) for array in on_the_way):
        return (skipped(check.oracle, UNTAMED) if check.passed is False else check), differences
    sides = case.sides(STEP)
    jumps = np.logical_or.reduce([quotient_grows(*side) for side in sides])
    answers = [found] if torchs is None else [found, torchs]
    corners = has_two_slopes(*sides) & np.logical_and.reduce([lies_between_sides(sides, answer) for answer in answers])
    kinks = np.zeros(found.shape, dtype=bool)
    for step in (STEP, WIDE):  # where the gradient itself cancels, one step settles only with the wider one
        right, left = case.sides(step)
        kinks |= has_one_slope(right, left) & ~same_slope(right[0], found)
        slope = right[0]
        if kinks.any():
            break
    kinks &= ~(jumps | corners)
    if torchs is not None:  # what torch has otherwise is no choice of both
        kinks &= ~np.isfinite(torchs) | same_slope(torchs, found)
    void = jumps | corners | kinks
    if not void.any():
        return check, differences
    notes = []
    if (jumps | corners).any():
        notes.append(f"{int((jumps | corners).sum())} of {void.size} entries are left out: {CORNER}")
    if kinks.any():
        at = tuple(int(n) for n in np.argwhere(kinks)[0])
        theirs = "" if torchs is None else f", torch {float(torchs[at]):.6g}"
        notes.append(KINK.format(there=float(slope[at]), here=float(found[at]), torch=theirs))
    known, void = (found, void) if case.standing is None else (case.standing.mathematics, void | case.standing.void)
    apart, note = replace(case, standing=Standing(known, void)), "; ".join(notes)
    if torchs is not None and check.passed is not None:
        check = apart.beside(check.oracle, torchs, note="; ".join(filter(None, [note, check.note])))
    if differences.passed is None or kinks.any():
        differences = apart.beside(DIFFERENCES, np.where(void, found, slope), ACCURACY, note)
    return check, differences


def lies_between_sides(sides: Sequence[Side], answer: Array) -> Array:
    """Where an answer lies between the two slopes."""
    (right, _), (left, _) = sides
    low, high = np.minimum(left, right), np.maximum(left, right)
    with np.errstate(invalid="ignore"):
        slack = ACCURACY * np.maximum(1.0, np.abs(right)) + ONE_SIDED * (high - low)
        return np.asarray((low - slack <= answer) & (answer <= high + slack))


def has_one_slope(right: Side, left: Side) -> Array:
    """Where both sides, at both steps, have one slope."""
    return np.asarray(same_slope(right[0], left[0]) & same_slope(*right) & same_slope(*left))


def has_two_slopes(right: Side, left: Side) -> Array:
    """Where the two sides differ and a finer step does not bring them together, as it does where there is curvature."""
    with np.errstate(invalid="ignore"):
        gap, finer = (np.abs(a - b) for a, b in zip(right, left, strict=True))
        scale = np.maximum(1.0, np.maximum(np.abs(right[0]), np.abs(left[0])))
    return np.asarray((gap > ACCURACY * scale) & (finer > gap / 2))


def quotient_grows(coarse: Array, fine: Array) -> Array:
    """Where a quotient grows as the step shrinks: what it divides stays."""
    return np.asarray((np.abs(fine) > FINER / 2 * np.abs(coarse)) & (np.abs(fine) * STEP / FINER > ACCURACY))


def quotient_columns(made: Made, point: Mapping[str, Array], name: str, step: float, back: float, size: int) -> Array:
    """(G(a + step) − G(a − back·step)) / (step + back·step) of what is ``made``, a column for each entry."""
    columns = []
    for at in np.ndindex(*point[name].shape):
        sides = []
        for shift in (step, -back * step):
            moved = point[name].copy()
            moved[at] += shift
            sides.append(as_float(made({**point, name: moved})).reshape(-1))
        with np.errstate(invalid="ignore"):  # ∞ − ∞: no quotient there
            columns.append((sides[0] - sides[1]) / (step + back * step))
    return np.stack(columns, axis=1) if columns else np.empty((size, 0))


def both_sides(made: Made, point: Mapping[str, Array], name: str, step: float, size: int) -> list[Side]:
    """The quotients of what is ``made`` to the right and those to the left, each at a step and at a finer one."""
    of = partial(quotient_columns, made, point, name, back=0.0, size=size)
    return [(of(step=side), of(step=side / FINER)) for side in (step, -step)]


def two_sided_slope(made: Made, point: Mapping[str, Array], name: str, size: int) -> Array:
    """The slope, from both sides and at two steps, of what is ``made`` of a point; NaN where there is no such one."""
    found = np.full((size, point[name].size), np.nan)
    for step in (STEP, WIDE):
        right, left = both_sides(made, point, name, step, size)
        found = np.where(np.isnan(found) & has_one_slope(right, left), (right[0] + left[0]) / 2, found)
    return found


def by_differences(case: Curvature, near: Made | None) -> Check:
    """(G(a + h) − G(a − h)) / 2h for every entry of ``second``, G the derived gradient by ``first``."""
    ours, columns = case.ours, case.quotients(STEP)
    check = case.beside(DIFFERENCES, columns, ACCURACY)
    if check.passed is not False:
        return check
    finer = case.quotients(STEP / FINER)
    unable = {
        UNSETTLED: ~has_converged(columns, finer) | without_digits([*case.point.values(), case.gradient(case.point)]),
        "the gradient has two slopes there": has_two_slopes(*case.sides(STEP)),
    }
    if near is not None:
        unable[JUMPS] = jumps_nearby(near, case.point, {case.first, case.second}, ours)
    with np.errstate(invalid="ignore"):  # what comes closer as the step shrinks is the limit
        columns = np.where(np.abs(finer - ours) < 2 / FINER * np.abs(columns - ours), finer, columns)
    able, why = ~np.logical_or.reduce([*unable.values()]), ", or ".join(w for w, where in unable.items() if where.any())
    return compare_some(DIFFERENCES, columns, ours, able, why, ACCURACY, case.standing)


def jumps_nearby(near: Made, point: Mapping[str, Array], moving: set[str], ours: Array) -> Array:
    """Where the derived matrix is another one right beside the point: a program chooses there, as torch does."""
    jumps = np.zeros(ours.shape, dtype=bool)
    lots = np.random.default_rng(0)
    for _ in range(LOTS):
        moved = {n: a + BESIDE * lots.uniform(-1, 1, a.shape) if n in moving else a for n, a in point.items()}
        jumps |= ~same_slope(ours, as_float(near(moved)))
    return jumps


def torch_hessian(program: Program, inputs: Mapping[str, Array], seed: Array, name: str) -> Array | None:
    """``torch.func.hessian`` of Σ v·out by one input; None where torch has no forward rule for it."""
    import torch

    leaves, weights = torch_leaves(inputs, {name}), torch.tensor(as_float(seed))

    def total(moved: Any) -> Any:
        out = torch_forward(program, {**leaves, name: moved})
        return (weights.reshape(out.shape) * out).sum()

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(torch.func.hessian(total)(leaves[name].detach()).detach().numpy())
    except REFUSALS:  # or a step looks at its numbers
        return None
