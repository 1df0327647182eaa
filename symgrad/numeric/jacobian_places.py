"""The sparsity pattern of a Jacobian from its formula: deltas fix indices, conditions couple them, the rest is free.

Comes in: one product of a formula ∂out[o]/∂x[p]. Goes out: `Placed`, and its `Part`s, groups of indices that are not
coupled to others. The pattern of the product is the Kronecker product of the patterns of its parts, so that only parts
are enumerated, and of a band only the band. `Triplets` are the entries themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from symgrad.indexing import Bracket, Equation, Index, Ravel, fresh
from symgrad.indexing.brackets import ORDERS, whole_gap
from symgrad.indexing.sums import is_delta, solve
from symgrad.indexing.symbols import Expr, access, accesses, free_indices, number
from symgrad.lowering.graph import COUNTED, MOST_IN_GRID
from symgrad.lowering.windows import line
from symgrad.numeric.exact import Array, as_float, as_fractions, is_exact, without_fractions
from symgrad.numeric.playing import run_plan
from symgrad.shapes import Size

Sizes = Mapping[Size, int]
Numbers = Mapping[Index, Array]
"""The value of each index in every tuple."""


@dataclass(frozen=True)
class Triplets:
    """The entries of a Jacobian that can be nonzero; duplicates add up.

    ``in_order``: sorted by rows and columns, with equally many entries in each row.
    """

    rows: Array
    columns: Array
    values: Array
    shape: tuple[int, int]
    in_order: bool = False

    @property
    def numbered(self) -> Array:
        """The row-major number of each entry."""
        return self.rows.astype(np.int64) * max(self.shape[1], 1) + self.columns

    @property
    def places(self) -> int:
        """The number of different positions."""
        numbers = np.sort(self.numbered)
        return int(np.count_nonzero(np.diff(numbers))) + int(numbers.size > 0)

    @property
    def plain(self) -> Array:
        """The values without fractions: int64 if all are integers, else float64."""
        values = without_fractions(self.values)
        return as_float(values) if values.dtype == object else values

    def added_up(self) -> Triplets:
        """Return the entries sorted, with duplicates summed and `plain` values."""
        values = self.plain
        if self.in_order:
            return replace(self, values=values)
        places, at = np.unique(self.numbered, return_inverse=True)
        sums = np.zeros(places.shape, dtype=values.dtype)
        with np.errstate(invalid="ignore"):  # NaN is an entry like others
            np.add.at(sums, at, values)
        return Triplets(*np.divmod(places, max(self.shape[1], 1)), sums, self.shape)

    def at_places_of(self, other: Triplets) -> Array:
        """Return the values at the positions of ``other``, 0 where there is none; both are `added_up`."""
        mine, wanted = self.numbered, other.numbered
        found = np.zeros(wanted.shape)
        _, here, there = np.intersect1d(mine, wanted, assume_unique=True, return_indices=True)
        found[there] = self.values[here]
        return found

    def sparse(self) -> Any:
        """Return a `scipy.sparse.csr_array` of `plain` values."""
        from scipy import sparse

        values = self.plain
        height, width = self.shape
        kind = np.int32 if max(values.size, height, width) < 2**31 else np.int64
        rows, columns = self.rows.astype(kind), self.columns.astype(kind)
        if self.in_order and height and values.size % height == 0:
            ends = np.arange(height + 1, dtype=kind) * (values.size // height)
            return sparse.csr_array((values, columns, ends), shape=self.shape)
        return sparse.csr_array(sparse.coo_array((values, (rows, columns)), shape=self.shape))

    def dense(self) -> Array:
        """Return a dense array, exact if the values are."""
        result: Array = np.zeros(self.shape, dtype=np.int64)
        result = as_fractions(result) if is_exact(self.values) else result.astype(np.float64)
        with np.errstate(invalid="ignore"):  # NaN is an entry like others
            np.add.at(result, (self.rows, self.columns), self.values)
        return without_fractions(result)


def triplets_of(matrix: Any) -> Triplets:
    """Return the entries of a `scipy.sparse.csr_array`, sorted, without duplicates."""
    matrix.sum_duplicates()
    found = matrix.tocoo()
    return Triplets(found.row, found.col, found.data, found.shape)


@dataclass(frozen=True)
class Placed:
    """Where one product can be nonzero: each index in terms of the free ones, and conditions on indices."""

    place: Mapping[Index, Expr]
    conditions: Expr
    rest: Expr

    @property
    def grid(self) -> tuple[Index, ...]:
        """The free indices."""
        return tuple(i for i, e in self.place.items() if i == e)


def solve_deltas(term: Expr, outer: Sequence[Index], inner: Sequence[Index]) -> Placed:
    """Solve the deltas of ``term`` for indices, and collect its conditions."""
    place: dict[Index, Expr] = {i: i for i in (*outer, *inner)}
    rest, conditions = term, sp.S.One
    while True:
        solution = _solved(rest, place, outer, inner)
        if solution is None:
            break
        factor, substitution, condition = solution
        rest = sp.Mul(*(f for f in sp.Mul.make_args(rest) if f is not factor)).xreplace(substitution)
        conditions = conditions.xreplace(substitution) * condition
        place = {i: e.xreplace(substitution) for i, e in place.items()}
    on_indices = [f for f in sp.Mul.make_args(rest) if guards(f) and not any(accesses(f))]
    rest = sp.Mul(*(f for f in sp.Mul.make_args(rest) if f not in on_indices))
    return Placed(place, conditions * sp.Mul(*on_indices), rest)


def guards(factor: Expr) -> bool:
    """Whether a factor is a delta or a condition."""
    return is_delta(factor) or isinstance(factor, Bracket)


def _solved(
    term: Expr, place: Mapping[Index, Expr], outer: Sequence[Index], inner: Sequence[Index]
) -> tuple[Expr, dict[Index, Expr], Expr] | None:
    """Return a delta of ``term`` with its solution; of two free indices, the input's is solved for."""
    for side in (inner, (*inner, *outer)):
        free = [i for i in side if place[i] == i]
        for factor in sp.Mul.make_args(term):
            found = solve(factor, free) if is_delta(factor) else None
            if found is not None:
                return factor, *found
    return None


@dataclass(frozen=True)
class Part:
    """A group of indices that are coupled only to each other, its free indices, and its conditions."""

    outer: tuple[Index, ...]
    inner: tuple[Index, ...]
    free: tuple[Index, ...]
    place: Mapping[Index, Expr]
    conditions: tuple[Expr, ...]

    @property
    def looks(self) -> bool:
        """Whether it reads entries of tensors (positions), so that it depends on the numbers."""
        return any(any(accesses(e)) for e in (*self.conditions, *self.place.values()))


def parts_of(at: Placed, outer: Sequence[Index], inner: Sequence[Index]) -> tuple[Part, ...]:
    """Split a product's indices into parts, in the order of their first indices."""
    conditions = sp.Mul.make_args(at.conditions) if at.conditions != 1 else ()
    groups: list[set[Index]] = [{i} for i in at.place]
    ties = [{i, *free_indices(e)} for i, e in at.place.items()] + [set(free_indices(c)) for c in conditions]
    for tie in ties:
        joined = [g for g in groups if g & tie]
        groups = [g for g in groups if not g & tie]
        groups += [set().union(*joined)] if joined else []
    nowhere = [c for c in conditions if not free_indices(c)]
    found = []
    for group in sorted(groups, key=lambda g: min(list(at.place).index(i) for i in g)):
        place = {i: e for i, e in at.place.items() if i in group}
        own = tuple(c for c in conditions if free_indices(c) & group) + tuple(nowhere)
        nowhere = []
        found.append(Part(
            tuple(i for i in outer if i in group), tuple(i for i in inner if i in group),
            tuple(i for i in at.grid if i in group), place, own,
        ))  # fmt: skip
    if nowhere:  # numbers without axes
        found.append(Part((), (), (), {}, tuple(nowhere)))
    return tuple(found)


def length(axes: Sequence[Index], sizes: Sizes) -> int:
    """Return the product of the sizes of some axes."""
    return math.prod(number(i.size, sizes) for i in axes)


def enumerated(part: Part, sizes: Sizes, arrays: Mapping[str, Array], most: int = MOST_IN_GRID) -> Numbers | None:
    """Return the free indices of a part for every tuple that meets its conditions; None for too many tuples."""
    if not part.free:
        return {}
    along = _runs(part, sizes, most)
    if along is not None:
        return along
    if length(part.free, sizes) > most:
        return None
    grid = _grid(part.free, sizes)
    held = np.ones(length(part.free, sizes), dtype=bool)
    for condition in part.conditions:
        held &= holds(condition, grid, sizes, arrays)
    return {i: numbers[held] for i, numbers in grid.items()}


def holds(condition: Expr, known: Numbers, sizes: Sizes, arrays: Mapping[str, Array]) -> Any:
    """Return where a condition holds."""
    return evaluate_index(condition, known, sizes, arrays) != 0


def tuples(found: Numbers, part: Part, sizes: Sizes, arrays: Mapping[str, Array]) -> int:
    """Return the number of tuples enumerated; for a part without indices 1 or 0, as its conditions hold or not."""
    for array in found.values():
        return int(array.size)
    return int(holds(sp.Mul(*part.conditions), {}, sizes, arrays))


def count_tuples(part: Part, sizes: Sizes, most: int = MOST_IN_GRID) -> int | None:
    """Return the number of tuples that `enumerated` would find, without them; None if no index has an interval."""
    run = _run(part, sizes, most)
    return None if run is None else int(run.counts.sum())


@dataclass(frozen=True)
class Run:
    """The interval of one index for every tuple of the others: its start and its length."""

    last: Index
    others: Numbers
    low: Array
    counts: Array


def _run(part: Part, sizes: Sizes, most: int) -> Run | None:
    """Return the intervals of one index that all conditions bound; None if there is no such index."""
    for last in sorted(part.free, key=lambda i: -number(i.size, sizes)):
        others = tuple(i for i in part.free if i != last)
        edges = [_edge(c, last, sizes) for c in part.conditions]
        if not edges or length(others, sizes) > most or any(edge is None for edge in edges):
            continue
        counted = _grid(others, sizes)
        low: Any = np.zeros(length(others, sizes), dtype=np.int64)
        high: Any = low + number(last.size, sizes) - 1
        for edge in edges:
            assert edge is not None
            bound = edge.constant + sum((slope * counted[i] for i, slope in edge.slopes), start=np.int64(0))
            if edge.above:
                high = np.minimum(high, bound)
            else:
                low = np.maximum(low, bound)
        return Run(last, counted, low, np.maximum(high - low + 1, 0))
    return None


def _runs(part: Part, sizes: Sizes, most: int) -> Numbers | None:
    """Enumerate the tuples of a part by the intervals of one index; None if there is no such index."""
    run = _run(part, sizes, most)
    count = 0 if run is None else int(run.counts.sum())
    if run is None or count > most:
        return None
    starts = np.repeat(run.low - np.concatenate([[0], np.cumsum(run.counts)[:-1]]), run.counts)
    found = {i: np.repeat(numbers, run.counts) for i, numbers in run.others.items()}
    return {**found, run.last: starts + np.arange(count)}


def _grid(axes: Sequence[Index], sizes: Sizes) -> dict[Index, Array]:
    """Return all tuples of some indices, in row-major order."""
    counts = [number(i.size, sizes) for i in axes]
    return dict(zip(axes, np.indices(counts).reshape(len(axes), math.prod(counts)), strict=True))


@dataclass(frozen=True)
class Edge:
    """A bound of an index: at most (``above``) or at least Σ slope·other + constant."""

    slopes: tuple[tuple[Index, int], ...]
    constant: int
    above: bool


def _edge(condition: Expr, last: Index, sizes: Sizes) -> Edge | None:
    """Return an inequality as a bound of one index; None for other conditions."""
    relation = condition.args[0] if isinstance(condition, Bracket) else None
    if not isinstance(relation, ORDERS):
        return None
    gap = line(whole_gap(relation))
    slopes = dict(gap.slopes) if gap is not None else {}
    slope = slopes.pop(last, 0)
    if gap is None or abs(slope) != 1:
        return None
    return Edge(tuple((i, -slope * s) for i, s in slopes.items()), -slope * number(gap.constant, sizes), slope < 0)


@lru_cache(maxsize=256)
def axis(place: int, size: int) -> Index:
    """Return an axis of a grid, cached, so that plans of expressions on such axes are shared."""
    return fresh("t", sp.Integer(size))


def evaluate_index(expression: Expr, known: Mapping[Index, Any], sizes: Sizes, arrays: Mapping[str, Array]) -> Any:
    """Evaluate an index expression in integers, for broadcastable arrays of its indices."""
    given = {i: np.asarray(known[i]) for i in sorted(free_indices(expression), key=lambda i: i.dummy_index)}
    rank = max((array.ndim for array in given.values()), default=0)
    shape = np.broadcast_shapes(*(array.shape for array in given.values()))
    along = [axis(place, n) for place, n in enumerate(shape)]
    swap, held, used = {}, dict(arrays), set[Index]()
    for n, (index, array) in enumerate(given.items()):
        axes = [t for t, own in zip(along[rank - array.ndim :], array.shape, strict=True) if own != 1]
        held[f"at·{n}"], swap[index] = array.reshape([int(t.size) for t in axes]), access(f"at·{n}", axes)
        used |= {*axes}
    kept = tuple(t for t in along if t in used)
    found = run_plan(Equation(kept, expression.xreplace(swap)), held, sizes, COUNTED).astype(np.int64)
    return found.reshape([int(t.size) if t in used else 1 for t in along])


def ravel_indices(
    axes: Sequence[Index], place: Mapping[Index, Expr], known: Mapping[Index, Any], sizes: Sizes,
    arrays: Mapping[str, Array],
) -> Array:  # fmt: skip
    """Return the row-major numbers of ``axes``, for broadcastable arrays of the free indices."""
    number_: Expr = Ravel(*(place[a] for a in axes), *(a.size for a in axes)) if axes else sp.S.Zero
    return np.asarray(evaluate_index(number_, known, sizes, arrays))
