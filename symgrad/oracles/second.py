"""Independent answers for second derivatives: differences of derived gradients, and the symmetry of mixed partials.

torch's own double backward is in `symgrad.oracles.torch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from symgrad.numeric import Array, as_float, finite, forward, numeric_pullback
from symgrad.numeric.exact import all_tame
from symgrad.oracles.differences import FINER, UNSETTLED, settled, without_digits
from symgrad.oracles.elementwise import Elementwise, TooLarge
from symgrad.oracles.report import REFUSES, TOLERANCE, UNTAMED, Check, Standing, compare, compare_some, skipped
from symgrad.oracles.torch import first_line, torch_second
from symgrad.program import Program

TORCH = "double backward (create_graph=True), torch {version}, float64"
DIFFERENCES = "central differences of the derived gradient"
SYMMETRY = "H = Hᵀ: the order of differentiation does not matter"
LARGEST = 200
"""Entries of the largest input whose Hessian is checked column by column."""
STEP, ACCURACY, ONE_SIDED = 1e-6, 1e-6, 1e-3
CORNER = "the gradient jumps there, or has two slopes, and any number between is as good"
OWN_RULE = "torch's own rule is no derivative there; SymPy on its own, and differences, have the derived number"
LOTS, BESIDE = 3, 1e-6
JUMPS = "the derived number is another one right beside this point"
LARGEST_SYMPY = 64
"""Entries of the largest Hessian that SymPy is asked for."""


def second_checks(
    program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str, found: Array,
    near: Callable[[Mapping[str, Array]], Array] | None = None,
) -> tuple[Check, ...]:  # fmt: skip
    """What is known of the matrix ``found``: rows are the entries of ``first``, columns those of ``second``.

    ``near`` makes it at other inputs: where it jumps, the point stands on a kink.
    """
    rows, columns = found.shape
    if max(rows, columns) > LARGEST:
        why = f"{rows}×{columns} entries are too many to be checked one by one"
        return (skipped(TORCH.format(version="(any)"), why), skipped(DIFFERENCES, why))
    unmade = skipped("double backward by torch", "torch is not installed")
    try:
        answer = torch_second(program, inputs, seed, first, second)
    except RuntimeError as error:  # a backward that torch itself cannot differentiate
        if "not implemented" not in str(error) and not isinstance(error, NotImplementedError):
            raise
        answer, unmade = None, skipped("double backward by torch", f"{REFUSES}{first_line(error)}")
    standing = None
    if not (finite(found).all() and (answer is None or finite(answer[0]).all())):
        standing = _standing(program, inputs, seed, first, second, found)
    checks = [unmade]
    if answer is not None:
        expected, version = answer
        check = compare(TORCH.format(version=version), expected, as_float(found), standing=standing)
        if check.passed is False:
            check = _beside_corners(check, program, inputs, seed, first, second, expected, as_float(found), standing)
        checks = [check]
    checks.append(_by_differences(program, inputs, seed, first, second, found, standing, near))
    if checks[0].passed is False and checks[1].passed and answer is not None:
        mathematics = _by_sympy(program, inputs, seed, first, second, found.size)
        checks[0] = _beside_own_rules(checks[0], answer[0], as_float(found), mathematics, standing)
    if first == second:
        checks.append(compare(SYMMETRY, found.T, found, standing=standing))
    return tuple(checks)


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
    check: Check, program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str, expected: Array,
    found: Array, standing: Standing | None,
) -> Check:  # fmt: skip
    """``check`` without entries where the gradient jumps, or has two slopes and both answers lie between."""
    point = {name: as_float(array) for name, array in inputs.items()}
    on_the_way = [as_float(array) for array in forward(program, point).arrays.values()]
    if not all(all_tame(array[np.isfinite(array)]) for array in on_the_way):
        return skipped(check.oracle, UNTAMED)
    (right, finer_right), (left, finer_left) = sides = _both_sides(program, point, seed, first, second)
    jumps = _jumps(right, finer_right) | _jumps(left, finer_left)
    low, high = np.minimum(left, right), np.maximum(left, right)
    with np.errstate(invalid="ignore"):
        slack = ACCURACY * np.maximum(1.0, np.abs(right)) + ONE_SIDED * (high - low)
        between = [(low - slack <= answer) & (answer <= high + slack) for answer in (expected, found)]
        void = jumps | (_two_slopes(*sides) & between[0] & between[1])
    if standing is not None:
        void |= standing.void
    mathematics = found if standing is None else standing.mathematics
    note = f"{int(void.sum())} of {void.size} entries are left out: {CORNER}" if void.any() else ""
    return compare(check.oracle, expected, found, note=note, standing=Standing(mathematics, void))


def _both_sides(
    program: Program, point: Mapping[str, Array], seed: Array, first: str, second: str
) -> list[tuple[Array, Array]]:
    """The quotients to the right and those to the left, each at a step and at a finer one."""
    quotients = partial(_quotients, program, point, seed, first, second, back=0.0)
    return [(quotients(step), quotients(step / FINER)) for step in (STEP, -STEP)]


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
    columns = []
    for at in np.ndindex(*point[second].shape):
        sides = []
        for shift in (step, -back * step):
            moved = point[second].copy()
            moved[at] += shift
            values = forward(program, {**point, second: moved})
            sides.append(as_float(numeric_pullback(program, values, seed, (first,))[first]).reshape(-1))
        with np.errstate(invalid="ignore"):  # ∞ − ∞: no quotient there
            columns.append((sides[0] - sides[1]) / (step + back * step))
    return np.stack(columns, axis=1) if columns else np.empty((point[first].size, 0))


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
