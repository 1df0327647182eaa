"""Independent answers for second derivatives: differences of derived gradients, and the symmetry of mixed partials.

torch's own double backward, of the text as it was typed, is in `symgrad.oracles.text`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from symgrad.errors import DomainError
from symgrad.numeric import Array, as_float, finite, forward, numeric_pullback
from symgrad.numeric.exact import all_tame, gaps
from symgrad.oracles.elementwise import Elementwise, TooLarge
from symgrad.oracles.numerical import FINER, UNSETTLED, settled, without_digits
from symgrad.oracles.report import REFUSES, TOLERANCE, UNTAMED, Check, Standing, compare, compare_some, skipped
from symgrad.oracles.text import Text, torch_second
from symgrad.oracles.torch import first_line, torch_hessian
from symgrad.program import Program

TORCH = "double backward (create_graph=True), torch {version}, float64"
DIFFERENCES = "central differences of the derived gradient"
SYMMETRY = "H = Hᵀ: the order of differentiation does not matter"
LARGEST = 200
"""Entries of the largest input whose Hessian is checked column by column."""
STEP, WIDE, ACCURACY, ONE_SIDED = 1e-6, 1e-3, 1e-6, 1e-3
CORNER = "the gradient jumps there, or has two slopes, and any number between is as good"
KINK = (
    "the slope of the gradient is {there:.6g} there; the program has {here:.6g}{torch}, because at this point it goes "
    "by a chosen value (0 for the slope of a norm at 0) that has no slope of its own"
)
NOT_DERIVED = ("not implemented", "not differentiable")
OWN_RULE = "torch's own rule is no derivative there; SymPy on its own, and differences, have the derived number"
LOTS, BESIDE = 3, 1e-6
JUMPS = "the derived number is another one right beside this point"
MOST_FORWARD = 64
"""Entries of the largest input of which torch.func.hessian is asked for, too."""
OTHER = (
    "torch.func.hessian, one sweep forward through the gradient, has {off} of {size} entries here that are {what}; "
    "differences of the gradient find the derived numbers, so the point is no singularity of it, and "
    "torch.autograd.functional.hessian, a backward through the backward, has them"
)
LARGEST_SYMPY = 64
"""Entries of the largest Hessian that SymPy is asked for."""


def second_checks(
    program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str, found: Array,
    near: Callable[[Mapping[str, Array]], Array] | None = None, text: Text | None = None,
) -> tuple[Check, ...]:  # fmt: skip
    """What is known of the matrix ``found``: rows are the entries of ``first``, columns those of ``second``.

    ``near`` makes it at other inputs: where it jumps, the point stands on a kink. ``text`` is what torch is asked.
    """
    rows, columns = found.shape
    if max(rows, columns) > LARGEST:
        why = f"{rows}×{columns} entries are too many to be checked one by one"
        return (skipped(TORCH.format(version="(any)"), why), skipped(DIFFERENCES, why))
    unmade = skipped("double backward by torch", "torch is not installed")
    try:
        answer = torch_second(text, program, inputs, seed, first, second)
    except RuntimeError as error:  # a backward that torch itself cannot differentiate
        if not any(said in str(error) for said in NOT_DERIVED):
            raise
        answer, unmade = None, skipped("double backward by torch", f"{REFUSES}{first_line(error)}")
    standing, ours = None, as_float(found)
    out = forward(program, inputs)[program.output]
    there = finite(found).all() and (answer is None or finite(answer[0]).all())
    if not there or not finite(out)[np.asarray(seed) != 0].all():
        standing = _standing(program, inputs, seed, first, second, found)
    differences = _by_differences(program, inputs, seed, first, second, found, standing, near)
    check = unmade
    if answer is not None:
        note = f"torch runs the steps as read here: {answer[2]}" if answer[2] and text is not None else ""
        check = compare(TORCH.format(version=answer[1]), answer[0], ours, note=note, standing=standing)
    if check.passed is False or differences.note or not differences.passed:
        with suppress(DomainError):  # one entry moved alone leaves the domain, as that of a symmetric matrix
            check, differences = _beside_corners(
                check, differences, program, inputs, seed, first, second, answer and answer[0], ours, standing
            )
    if check.passed is False and differences.passed and answer is not None:
        mathematics = _by_sympy(program, inputs, seed, first, second, found.size)
        check = _beside_own_rules(check, answer[0], ours, mathematics, standing)
    if first == second and check.passed and differences.passed and rows <= MOST_FORWARD:
        check = replace(
            check, note="; ".join(filter(None, [check.note, forward_over_reverse(program, inputs, seed, first, ours)]))
        )
    symmetry = [compare(SYMMETRY, found.T, found, standing=standing)] if first == second else []
    return (check, differences, *symmetry)


def forward_over_reverse(program: Program, inputs: Mapping[str, Array], seed: Array, name: str, found: Array) -> str:
    """What torch.func.hessian has otherwise, whose forward rules are not those that a double backward goes by."""
    theirs = torch_hessian(program, inputs, seed, name)
    if theirs is None:
        return ""
    off = gaps(theirs.reshape(found.shape), found) > ACCURACY * max(1.0, float(np.abs(found).max(initial=0.0)))
    what = "others" if np.isfinite(theirs.reshape(found.shape)[off]).all() else "no numbers"
    return OTHER.format(off=int(off.sum()), size=off.size, what=what) if off.any() else ""


def _standing(
    program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str, found: Array
) -> Standing:
    """What the mathematics says where something is not finite: SymPy on its own, unless its formulas are too long."""
    mathematics = _by_sympy(program, inputs, seed, first, second, found.size)
    if mathematics is None:
        mathematics = as_float(found)
    return Standing(mathematics, np.isnan(mathematics))


def _by_sympy(
    program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str, size: int
) -> Array | None:
    """The matrix by SymPy on its own; None where its formulas are too long."""
    try:
        return (
            Elementwise(program, forward(program, inputs)).second(first, second, seed)
            if size <= LARGEST_SYMPY
            else None
        )
    except TooLarge:
        return None


def _beside_own_rules(
    check: Check, expected: Array, found: Array, mathematics: Array | None, standing: Standing | None
) -> Check:
    """``check`` without entries where SymPy on its own has the derived number, and torch another.

    torch's backward of a power puts a constant 0 where the exponent is 0, so that differentiating it again misses
    what the exponent does there.
    """
    if mathematics is None:
        return check
    with np.errstate(invalid="ignore"):
        allowed = TOLERANCE * max(1.0, float(np.abs(found[np.isfinite(found)]).max(initial=0)))
        off, right = np.abs(expected - found) > allowed, np.abs(mathematics - found) <= allowed
    return compare_some(check.oracle, expected, found, ~(off & right), OWN_RULE, standing=standing)


def _beside_corners(
    check: Check, differences: Check, program: Program, inputs: Mapping[str, Array], seed: Array, first: str,
    second: str, torchs: Array | None, found: Array, standing: Standing | None,
) -> tuple[Check, Check]:  # fmt: skip
    """Both checks without entries where the gradient jumps or has two slopes, or its slope is not the program's."""
    point = {name: as_float(array) for name, array in inputs.items()}
    on_the_way = [as_float(array) for array in forward(program, point).arrays.values()]
    if not all(all_tame(array[np.isfinite(array)]) for array in on_the_way):
        return (skipped(check.oracle, UNTAMED) if check.passed is False else check), differences
    sides = _both_sides(program, point, seed, first, second, STEP)
    jumps = np.logical_or.reduce([_jumps(*side) for side in sides])
    answers = [found] if torchs is None else [found, torchs]
    corners = _two_slopes(*sides) & np.logical_and.reduce([_between(sides, answer) for answer in answers])
    kinks = np.zeros(found.shape, dtype=bool)
    for step in (STEP, WIDE):  # where the gradient itself cancels, one step settles only with the wider one
        right, left = ((near, far) for near, far in _both_sides(program, point, seed, first, second, step))
        kinks |= _smooth(right, left) & ~_about(right[0], found)
        slope = right[0]
        if kinks.any():
            break
    kinks &= ~(jumps | corners)
    if torchs is not None:  # what torch has otherwise is no choice of both
        kinks &= ~np.isfinite(torchs) | _about(torchs, found)
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
    mathematics, void = (found, void) if standing is None else (standing.mathematics, void | standing.void)
    apart, note = Standing(mathematics, void), "; ".join(notes)
    if torchs is not None and check.passed is not None:
        check = compare(check.oracle, torchs, found, note="; ".join(filter(None, [note, check.note])), standing=apart)
    if differences.passed is None or kinks.any():
        differences = compare(DIFFERENCES, np.where(void, found, slope), found, ACCURACY, note, apart)
    return check, differences


def _about(one: Array, other: Array) -> Array:
    """Where two numbers are the same as closely as a quotient on one side shows."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(one - other) <= ONE_SIDED * np.maximum(1.0, np.abs(one)))


def _between(sides: Sequence[tuple[Array, Array]], answer: Array) -> Array:
    """Where an answer lies between the two slopes."""
    (right, _), (left, _) = sides
    low, high = np.minimum(left, right), np.maximum(left, right)
    with np.errstate(invalid="ignore"):
        slack = ACCURACY * np.maximum(1.0, np.abs(right)) + ONE_SIDED * (high - low)
        return np.asarray((low - slack <= answer) & (answer <= high + slack))


def _smooth(right: tuple[Array, Array], left: tuple[Array, Array]) -> Array:
    """Where both sides, at both steps, have one slope."""
    return np.asarray(_about(right[0], left[0]) & _about(*right) & _about(*left))


def _both_sides(
    program: Program, point: Mapping[str, Array], seed: Array, first: str, second: str, step: float = STEP
) -> list[tuple[Array, Array]]:
    """The quotients to the right and those to the left, each at a step and at a finer one."""
    quotients = partial(_quotients, program, point, seed, first, second, back=0.0)
    return [(quotients(side), quotients(side / FINER)) for side in (step, -step)]


def _two_slopes(right: tuple[Array, Array], left: tuple[Array, Array]) -> Array:
    """Where the two sides differ and a finer step does not bring them together, as it does where there is curvature."""
    with np.errstate(invalid="ignore"):
        gap, finer = (np.abs(a - b) for a, b in zip(right, left, strict=True))
        scale = np.maximum(1.0, np.maximum(np.abs(right[0]), np.abs(left[0])))
    return np.asarray((gap > ACCURACY * scale) & (finer > gap / 2))


def _jumps(coarse: Array, fine: Array) -> Array:
    """Where a quotient grows as the step shrinks: what it divides stays."""
    return np.asarray((np.abs(fine) > FINER / 2 * np.abs(coarse)) & (np.abs(fine) * STEP / FINER > ACCURACY))


def _quotients(
    program: Program, point: Mapping[str, Array], seed: Array, first: str, second: str, step: float, back: float = 1.0
) -> Array:
    """(G(a + step) − G(a − back·step)) / (step + back·step) for every entry of ``second``, a column each."""

    def gradient(moved: Mapping[str, Array]) -> Array:
        return numeric_pullback(program, forward(program, moved), seed, (first,))[first]

    return quotients(gradient, point, second, step, back, point[first].size)


Made = Callable[[Mapping[str, Array]], Array]
"""Some numbers at a point."""


def quotients(made: Made, point: Mapping[str, Array], name: str, step: float, back: float, size: int) -> Array:
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


def slope_there(
    made: Callable[[Mapping[str, Array]], Array], point: Mapping[str, Array], name: str, size: int
) -> Array:
    """The slope, from both sides and at two steps, of what is ``made`` of a point; NaN where there is no such one."""
    found = np.full((size, point[name].size), np.nan)
    for step in (STEP, WIDE):
        right, left = (
            (quotients(made, point, name, side, 0.0, size), quotients(made, point, name, side / FINER, 0.0, size))
            for side in (step, -step)
        )
        found = np.where(np.isnan(found) & _smooth(right, left), (right[0] + left[0]) / 2, found)
    return found


def _by_differences(
    program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str, found: Array,
    standing: Standing | None, near: Callable[[Mapping[str, Array]], Array] | None,
) -> Check:  # fmt: skip
    """(G(a + h) − G(a − h)) / 2h for every entry of ``second``, G the derived gradient by ``first``."""
    point, ours = {name: as_float(array) for name, array in inputs.items()}, as_float(found)
    quotients = partial(_quotients, program, point, seed, first, second)
    columns = quotients(STEP)
    check = compare(DIFFERENCES, columns, ours, ACCURACY, standing=standing)
    if check.passed is not False:
        return check
    finer = quotients(STEP / FINER)
    gradient = numeric_pullback(program, forward(program, point), seed, (first,))[first]
    unable = {
        UNSETTLED: ~settled(columns, finer) | without_digits([*point.values(), gradient]),
        "the gradient has two slopes there": _two_slopes(*_both_sides(program, point, seed, first, second)),
    }
    if near is not None:
        unable[JUMPS] = _beside_a_jump(near, point, {first, second}, ours)
    with np.errstate(invalid="ignore"):  # what comes closer as the step shrinks is the limit
        columns = np.where(np.abs(finer - ours) < 2 / FINER * np.abs(columns - ours), finer, columns)
    able, why = ~np.logical_or.reduce([*unable.values()]), ", or ".join(w for w, where in unable.items() if where.any())
    return compare_some(DIFFERENCES, columns, ours, able, why, ACCURACY, standing)


def _beside_a_jump(
    near: Callable[[Mapping[str, Array]], Array], point: Mapping[str, Array], moving: set[str], ours: Array
) -> Array:
    """Where the derived matrix is another one right beside the point: a program chooses there, as torch does."""
    jumps = np.zeros(ours.shape, dtype=bool)
    lots = np.random.default_rng(0)
    for _ in range(LOTS):
        moved = {n: a + BESIDE * lots.uniform(-1, 1, a.shape) if n in moving else a for n, a in point.items()}
        with np.errstate(invalid="ignore"):
            jumps |= ~(np.abs(as_float(near(moved)) - ours) <= ONE_SIDED * np.maximum(1.0, np.abs(ours)))
    return jumps
