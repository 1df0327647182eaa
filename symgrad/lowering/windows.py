"""Windows that slide along an axis: sums over i and r of v[i]·w[r] at the place p = a·i + r.

Comes in: the factors of a sum in which an index expression e is held inside 0 ≤ e < n by brackets, as the
pullback of a convolution has them: Σ_i [0 ≤ p − a·i < n]·v[i]·w[p − a·i]. Goes out: the same sum over a new
index r in the place of e. Where p is free, each product of v[i] and w[r] is added at p = a·i + r; where p is
summed over, it is replaced by a·i + r. Either way the grid of all p and i is never formed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy as sp

from symgrad.indexing import Bracket, Index, Ravel, Unravel, fresh
from symgrad.indexing.brackets import expanded
from symgrad.indexing.symbols import Expr, accesses, indices_of, is_access
from symgrad.shapes import Size, fill_sizes

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class AffineIndex:
    """Σ slope·index + constant; the constant may hold sizes."""

    slopes: tuple[tuple[Index, int], ...]
    constant: Expr

    @property
    def indices(self) -> tuple[Index, ...]:
        """The indices it runs over."""
        return tuple(index for index, _ in self.slopes)


@lru_cache(maxsize=1024)
def line(expression: Expr) -> AffineIndex | None:
    """``expression`` as a `AffineIndex`, or None where it is not one."""
    if isinstance(expression, Index):
        return AffineIndex(((expression, 1),), sp.S.Zero)
    reads = any(accesses(expression))
    if reads or expression.has(Ravel, Unravel, sp.floor, sp.Mod, Bracket):
        moves = any(isinstance(s, Index) for s in expression.free_symbols)
        if reads or moves or expression.has(Ravel, Unravel, Bracket):  # these have no number of their own
            return None
        return AffineIndex((), expression)
    slopes, constant = [], sp.S.Zero
    for term in sp.Add.make_args(expanded(expression)):
        slope, rest = term.as_coeff_Mul()
        if isinstance(rest, Index) and slope.is_Integer:
            slopes.append((rest, int(slope)))
        elif any(isinstance(s, Index) for s in term.free_symbols):
            return None
        else:
            constant += term
    return AffineIndex(tuple(sorted(slopes, key=lambda pair: pair[0].dummy_index)), constant)


@dataclass(frozen=True)
class Window:
    """``place`` = ``top`` / ``step``, in 0 … extent−1 wherever none of ``guards`` is 0.

    The remainder of the division is less than ``rests``: it is 0 where a guard says that the division is exact.
    """

    place: Expr
    top: AffineIndex
    step: int
    extent: Size
    guards: tuple[Expr, ...]
    rests: int = 1


def windows(factors: Sequence[Expr]) -> list[Window]:
    """The windows that brackets among ``factors`` hold."""
    low: dict[Expr, Expr] = {}
    high: dict[Expr, tuple[Expr, Size]] = {}
    for factor in factors:
        if isinstance(factor, Bracket):
            relation = factor.args[0]
            if isinstance(relation, sp.Ge) and relation.rhs == 0:
                low[relation.lhs] = factor
            elif isinstance(relation, sp.Lt) and is_length(relation.rhs):
                high[relation.lhs] = (factor, relation.rhs)
    found = []
    for place, first in low.items():
        if place in high:
            window = _window(place, first, *high[place], factors)
            found += [window] if window else []
    return found


def is_length(bound: Expr) -> bool:
    """Whether a bound is made of sizes: neither an index nor a number that a tensor holds."""
    return not any(accesses(bound)) and not any(isinstance(s, Index) for s in bound.free_symbols)


def between_places(factor: Expr, sizes: Mapping[Size, int]) -> bool:
    """Whether a bracket ends between two places, as at half of five entries: no window does."""
    relation = factor.args[0] if isinstance(factor, Bracket) else None
    return isinstance(relation, sp.Lt) and is_length(relation.rhs) and not fill_sizes(relation.rhs, sizes).is_integer


def _window(place: Expr, first: Expr, second: Expr, extent: Size, factors: Sequence[Expr]) -> Window | None:
    """One window; a place that is divided has to be exact by a δ(top mod step, 0)."""
    parts = [part for part in sp.Add.make_args(place) if isinstance(part, sp.floor)]
    if not parts:
        top = line(place)
        return Window(place, top, 1, extent, (first, second)) if top else None
    numerator, step = sp.fraction(sp.together(place - parts[0] + parts[0].args[0]))
    top = line(numerator)
    if top is None or not step.is_Integer:
        return None
    for factor in factors:
        if isinstance(factor, sp.KroneckerDelta) and 0 in factor.args:
            (rest,) = [a for a in factor.args if a != 0] or [sp.S.Zero]
            if isinstance(rest, sp.Mod) and rest.args[1] == step and _same_remainder(rest.args[0], top, int(step)):
                return Window(place, top, int(step), extent, (first, second, factor))
    return Window(place, top, int(step), extent, (first, second), rests=int(step))


def _same_remainder(expression: Expr, top: AffineIndex, step: int) -> bool:
    """Whether ``expression`` is a multiple of ``step`` exactly where ``top`` is."""
    other = line(expression)
    if other is None:
        return False
    mine, theirs = dict(top.slopes), dict(other.slopes)
    for sign in (1, -1):
        gap = sp.expand(other.constant - sign * top.constant) / step
        if gap.is_integer and all((theirs.get(k, 0) - sign * mine.get(k, 0)) % step == 0 for k in {**mine, **theirs}):
            return True
    return False


@dataclass(frozen=True)
class Fold:
    """The result has an axis ``target`` at (step·inner − Σ slope·index − constant)·sign instead of the others."""

    target: Index
    sign: int
    inner: Index
    window: Window


def slide(factors: list[Expr], bound: list[Index], number: Any) -> tuple[list[Expr], list[Index], list[Fold]] | None:
    """The factors over new indices, what is still summed over, and the folds to do after; None without a window.

    Only where the window is shorter than the axis that it takes the place of.
    """
    folds: list[Fold] = []
    changed = False
    bound = list(bound)
    held: set[Index] = set()
    for window in windows(factors):
        inside = set(window.top.indices)
        if not inside & set(bound) or inside & held:
            continue

        def smaller(target: Index, extent: Size = window.extent) -> bool:
            return bool(number(extent) < number(target.size))

        rest = [f for f in factors if f not in window.guards]
        inner = fresh("r", window.extent)
        without = [f.xreplace({window.place: inner}) for f in rest]
        free = [(t, s) for t, s in window.top.slopes if t not in bound and abs(s) == 1 and smaller(t)]
        free = [(t, s) for t, s in free if not any(t in f.free_symbols for f in without)]
        if free and len(inside) == 2:
            target, sign = free[0]
            folds.append(Fold(target, sign, inner, window))
            held |= inside
            factors, changed = without, True
            continue
        for target, sign in window.top.slopes:
            if target in bound and abs(sign) == 1 and len(inside) > 1 and smaller(target):
                others = sum((s * k for k, s in window.top.slopes if k is not target), window.top.constant)
                rest = fresh("rest", window.rests) if window.rests > 1 else sp.S.Zero
                value = sp.expand(sign * (window.step * inner + rest - others))
                factors = [f.xreplace({target: value}) for f in without]
                factors += [
                    Bracket(sp.Ge(value, 0, evaluate=False)),
                    Bracket(sp.Lt(value, target.size, evaluate=False)),
                ]
                bound = [inner if k is target else k for k in bound] + ([rest] if window.rests > 1 else [])
                held |= inside
                changed = True
                break
    return (factors, bound, folds) if changed else None


def absorb(factors: list[Expr], lengths: Any, number: Any) -> list[Expr]:
    """Without the brackets that only say that an index lies on its axis: an entry outside counts as 0.

    ``lengths(access)`` are the sizes of the axes that an access reads.
    """
    inside: dict[Expr, set[int]] = {}
    for factor in factors:
        if is_access(factor):
            for index, length in zip(indices_of(factor), lengths(factor), strict=True):
                inside.setdefault(index, set()).add(length)

    def needless(factor: Expr) -> bool:
        if not isinstance(factor, Bracket):
            return False
        relation = factor.args[0]
        if isinstance(relation, sp.Ge) and relation.rhs == 0:
            return relation.lhs in inside
        if isinstance(relation, sp.Lt) and relation.lhs in inside:
            return is_length(relation.rhs) and number(relation.rhs) in inside[relation.lhs]
        return False

    return [f for f in factors if not needless(f)]


def moved(work: Fold) -> tuple[Index, int]:
    """The index whose windows are added up, and its slope."""
    return next((k, s) for k, s in work.window.top.slopes if k is not work.target)


class Slices(tuple[tuple[Any, Any], ...]):
    """Of the last two axes what is taken, and where on the new last axis it is added; a slice has no hash."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(repr(self))


def slices(work: Fold, number: Any) -> Slices:
    """What a fold does to an array whose last two axes are the index that moves and the inner one."""
    moving, slope = moved(work)
    # target = sign·(step·inner + rest − slope·moving − constant)
    shifts = {work.inner: work.sign * work.window.step, moving: -work.sign * slope}
    begin = -work.sign * number(work.window.top.constant)
    sizes = {k: number(k.size) for k in shifts}
    length = number(work.target.size)
    long, short = (moving, work.inner) if sizes[moving] >= sizes[work.inner] else (work.inner, moving)
    found = []
    for n, rest in np.ndindex(sizes[short], work.window.rests):
        start, jump = begin + shifts[short] * n + work.sign * rest, shifts[long]
        # the first and last entry of the long index that land on the axis
        if jump > 0:
            first, last = max(0, -(start // jump)), min(sizes[long] - 1, (length - 1 - start) // jump)
        else:
            first, last = max(0, -((length - 1 - start) // -jump)), min(sizes[long] - 1, start // -jump)
        if first > last:
            continue
        here, there = start + jump * first, start + jump * last
        part, at = slice(first, last + 1), slice(here, there + 1, jump)
        if jump < 0:  # the last one lands first
            part, at = slice(last, first - 1 if first else None, -1), slice(there, here + 1, -jump)
        found.append(((..., part, n) if short is work.inner else (..., n, part), (..., at)))
    return Slices(found)


def fold_slices(array: Array, parts: Slices, length: int, axis: int = -1) -> Array:
    """Slices of an axis and of the last one added on a new axis, which stands at ``axis`` of the result."""
    shape = list(array.shape[:-1])
    shape[axis] = length
    result = np.zeros(shape, dtype=array.dtype)
    if array.dtype == object:
        result[...] = zero_like_entries(array)
    into, given = np.moveaxis(result, axis, -1), np.moveaxis(array, axis if axis >= 0 else axis - 1, -2)
    for part, at in parts:
        into[at] += given[part]
    return result


def zero_like_entries(array: Array) -> Any:
    """0: an exact one where the array is exact; not 0 times an entry, which NaN and ∞ make NaN."""
    return array.reshape(-1)[0] * 0 if array.dtype == object and array.size else 0


def strided(array: Array, axis: int, slopes: Sequence[tuple[int, int]], constant: int, zero: bool) -> Array:
    """``array`` with ``axis`` replaced by one axis per (slope, length): the entries at Σ slope·index + constant.

    Outside the axis an entry counts as 0 if ``zero``, and as the nearest one on it otherwise.
    """
    lengths = [n for _, n in slopes]
    if 0 in lengths or array.shape[axis] == 0:
        return np.zeros([*array.shape[:axis], *lengths, *array.shape[axis + 1 :]], dtype=array.dtype)
    least = constant + sum(min(s * (n - 1), 0) for s, n in slopes)
    most = constant + sum(max(s * (n - 1), 0) for s, n in slopes)
    before, after = max(0, -least), max(0, most - array.shape[axis] + 1)
    if before or after:
        widths = [(0, 0)] * array.ndim
        widths[axis] = (before, after)
        array = (
            np.pad(array, widths, constant_values=zero_like_entries(array))
            if zero
            else np.pad(array, widths, mode="edge")
        )
    begin = array[(slice(None),) * axis + (slice(constant + before, None),)]
    pace = array.strides[axis]
    return np.lib.stride_tricks.as_strided(
        begin,
        [*array.shape[:axis], *lengths, *array.shape[axis + 1 :]],
        [*array.strides[:axis], *(s * pace for s, _ in slopes), *array.strides[axis + 1 :]],
        writeable=False,
    )
