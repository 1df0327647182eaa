"""The outcome of holding a derived result against an independent one.

Comes in: two arrays and how closely they have to agree. Goes out: a `Check`, with the worst entry named.
A check that disagrees is a result, not an exception.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from symgrad.numeric.exact import Array, as_float, is_exact

TOLERANCE = 1e-9
"""How closely float64 results have to agree, relative to the largest entry."""


@dataclass(frozen=True)
class Check:
    """What one oracle said.

    ``oracle`` names it in words; ``max_error`` is the largest difference (0 when the comparison is exact and
    holds, None when the check was skipped); ``passed`` is None when it was skipped, and ``note`` says why.
    """

    oracle: str
    max_error: float | None
    passed: bool | None
    exact: bool = False
    note: str = ""
    worst: tuple[int, ...] | None = None
    expected: float | None = None
    got: float | None = None


def skipped(oracle: str, why: str) -> Check:
    """A check that was not made, and why."""
    return Check(oracle, None, None, note=why)


def compare(oracle: str, expected: Array, got: Array, tolerance: float = TOLERANCE, note: str = "") -> Check:
    """``got`` (derived) against ``expected`` (the oracle's), entry by entry.

    Exact arrays are compared exactly, others within ``tolerance`` of the largest entry. A NaN agrees only
    with a NaN, an infinity with itself.
    """
    expected, got = np.asarray(expected), np.asarray(got)
    if expected.shape != got.shape:
        return Check(
            oracle, float("inf"), False, note=f"the oracle's shape is {expected.shape}, the derived {got.shape}"
        )
    if is_exact(expected) and is_exact(got):
        equal = np.asarray(expected == got, dtype=bool)
        gap = np.abs(as_float(expected) - as_float(got))
        return _check(oracle, expected, got, gap, equal, exact=True, note=note)
    a, b = as_float(expected), as_float(got)
    with np.errstate(invalid="ignore"):
        gap = np.abs(a - b)
    same = (np.isnan(a) & np.isnan(b)) | (a == b)
    gap = np.where(same, 0.0, np.where(np.isfinite(gap), gap, np.inf))
    finite = np.abs(a[np.isfinite(a)])
    allowed = tolerance * max(1.0, float(finite.max())) if finite.size else tolerance
    return _check(oracle, a, b, gap, gap <= allowed, exact=False, note=note)


def compare_mathematics(oracle: str, mathematics: Array, program: Array) -> Check:
    """A formula for the whole against what the program's steps give, one after the other.

    Where the steps meet 0·∞ the program has NaN and the formula may have a number, and where J does not
    exist the program's convention has a number and the formula none: both are told, neither is an error.
    """
    formula, steps = as_float(mathematics), as_float(program)
    if formula.shape != steps.shape or (np.isfinite(formula) & np.isfinite(steps)).all():
        return compare(oracle, mathematics, program)
    lost = ~(np.isfinite(formula) & np.isfinite(steps))
    at = tuple(int(i) for i in np.argwhere(lost)[0])
    place = f"at {list(at)} " if at else ""
    if np.isfinite(formula[at]):
        note = f"{place}the program's steps give {steps[at]:g}, the mathematics {formula[at]:g}"
    elif np.isfinite(steps[at]):
        note = f"{place}there is no derivative; the program's convention is {steps[at]:g}"
    else:
        note = f"{place}there is no derivative; the program gives {steps[at]:g}"
    return compare(oracle, np.where(lost, 0.0, formula), np.where(lost, 0.0, steps), note=note)


def _check(oracle: str, expected: Array, got: Array, gap: Array, equal: Array, exact: bool, note: str) -> Check:
    """The check with its worst entry."""
    if gap.size == 0:
        return Check(oracle, 0.0, True, exact, note)
    worst = np.unravel_index(int(np.argmax(np.where(equal, -1.0, gap) if not equal.all() else gap)), gap.shape)
    at = tuple(int(i) for i in worst)
    return Check(oracle, float(gap.max()), bool(equal.all()), exact, note, at, float(expected[at]), float(got[at]))
