"""Count the possible nonzeros of a Jacobian, its blocks, and the seeds that determine all entries.

Comes in: a formula. Goes out: a `Pattern`. The pattern of a product is the Kronecker product of those of its parts
(`symgrad.numeric.jacobian_places`): counts, degrees, colours and blocks multiply. Only parts whose conditions must be
tested are enumerated, so that the cost does not depend on the sizes. Upper bounds are marked as such.

Colours: rows of one colour share no column, so that one seed, their sum, determines them all (Curtis, Powell and Reid,
On the estimation of sparse Jacobian matrices, 1974). If the entries of each row are contiguous, the number of colours
is the most entries of a column. Otherwise colours are assigned greedily, or bounded by the number of rows with which a
row shares a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import sympy as sp

from symgrad.indexing import Bracket, Index, Ravel, Unravel, over_terms
from symgrad.indexing.sums import is_delta
from symgrad.indexing.symbols import Expr, accesses, free_indices, number
from symgrad.numeric.exact import Array
from symgrad.numeric.jacobian_places import (
    Part,
    Placed,
    Sizes,
    count_tuples,
    enumerated,
    evaluate_index,
    guards,
    holds,
    length,
    parts_of,
    ravel_indices,
    solve_deltas,
    tuples,
)

LARGEST_PART = 1_000_000
"""The most tuples of indices to enumerate, shared by all parts."""
LARGEST_WHOLE = 400_000
"""The most entries of several products that are enumerated together."""
MOST_GREEDY = 1_000_000
"""The most pairs of entries for greedy colouring."""
MOST_TERMS = 4
"""The most products whose overlaps are counted."""


@dataclass(frozen=True)
class Pattern:
    """Counts of the sparsity pattern of a ``rows`` × ``columns`` matrix.

    ``nonzeros`` is exact, or an upper bound if not ``exact``. ``in_row`` and ``in_column`` are the most entries of a
    row and of a column. ``row_colors`` seeds v determine every entry by vᵀJ, ``column_colors`` directions u by Ju.
    ``blocks`` is the number of diagonal blocks after permuting rows and columns; None if unknown.
    """

    rows: int
    columns: int
    nonzeros: int
    exact: bool
    in_row: int
    in_column: int
    row_colors: int
    column_colors: int
    blocks: int | None


def pattern_of(
    outer: Sequence[Index], inner: Sequence[Index], formula: Expr, sizes: Sizes, arrays: Mapping[str, Array] | None
) -> Pattern:
    """Return the pattern of a formula; without ``arrays``, positions from the forward pass give an upper bound.

    A sum that couples a row with a column also gives an upper bound: sums are not enumerated.
    """
    found = _pattern(outer, inner, formula, sizes, arrays)
    return at_most(found) if found.nonzeros and tied(formula, outer, inner) else found


def tied(formula: Expr, outer: Sequence[Index], inner: Sequence[Index]) -> bool:
    """Whether the deltas or conditions inside some sum couple a row with a column."""
    for total in formula.atoms(sp.Sum):
        conditions = [c for c in total.atoms(sp.KroneckerDelta, Bracket) if not any(accesses(c))]
        named = set().union(*(c.free_symbols for c in conditions))
        if not named.isdisjoint(outer) and not named.isdisjoint(inner):
            return True
    return False


def _pattern(
    outer: Sequence[Index], inner: Sequence[Index], formula: Expr, sizes: Sizes, arrays: Mapping[str, Array] | None
) -> Pattern:
    terms = [term for term in widest(formula) if _there(solve_deltas(term, outer, inner), sizes)]
    rows, columns = length(outer, sizes), length(inner, sizes)
    if not terms:
        return Pattern(rows, columns, 0, True, 0, 0, 0, 0, 0)
    split = [parts_of(solve_deltas(term, outer, inner), outer, inner) for term in terms]
    most = LARGEST_PART // len(terms)
    single = [kronecker([pattern_of_part(part, sizes, arrays, most) for part in parts]) for parts in split]
    if len(single) == 1:
        return single[0]
    whole = _together(split, outer, inner, sizes, arrays) if sum(p.nonzeros for p in single) <= LARGEST_WHOLE else None
    if whole is not None:
        return whole
    found, exact = _united(terms, single, outer, inner, sizes, arrays)
    found = min(found, rows * columns)
    deepest = (min(sum(p.in_row for p in single), columns), min(sum(p.in_column for p in single), rows))
    return Pattern(rows, columns, found, exact, *deepest, min(rows, found), min(columns, found), None)


def _there(at: Placed, sizes: Sizes) -> bool:
    """Whether a product has any entry at these sizes: fixed positions lie on their axes, constant conditions hold."""
    if at.conditions == 0 or at.rest == 0:
        return False
    fixed = [(number(i.size, sizes), evaluate_index(e, {}, sizes, {})) for i, e in at.place.items() if _settled(e)]
    said = [c for c in sp.Mul.make_args(at.conditions) if c != 1 and _settled(c)]
    return all(0 <= e < size for size, e in fixed) and all(bool(holds(c, {}, sizes, {})) for c in said)


def _settled(expression: Expr) -> bool:
    """Whether an expression depends on the sizes alone."""
    return not free_indices(expression) and not any(accesses(expression))


def widest(formula: Expr) -> tuple[Expr, ...]:
    """Return products of deltas and conditions that cover the terms, without those covered by another."""
    where = dict.fromkeys(
        frozenset(f for f in sp.Mul.make_args(term) if guards(f) and (is_delta(f) or not any(accesses(f))))
        for term in over_terms(formula, is_delta)
        if term != 0
    )
    return tuple(sp.Mul(*sorted(g, key=str)) for g in where if not any(other < g for other in where))


def kronecker(parts: Iterable[Pattern]) -> Pattern:
    """Return the pattern of a Kronecker product, up to the order of rows and columns."""
    found = Pattern(1, 1, 1, True, 1, 1, 1, 1, 1)
    for part in parts:
        found = Pattern(
            found.rows * part.rows, found.columns * part.columns, found.nonzeros * part.nonzeros,
            found.exact and part.exact, found.in_row * part.in_row, found.in_column * part.in_column,
            found.row_colors * part.row_colors, found.column_colors * part.column_colors,
            None if found.blocks is None or part.blocks is None else found.blocks * part.blocks,
        )  # fmt: skip
    return found


def pattern_of_part(part: Part, sizes: Sizes, arrays: Mapping[str, Array] | None, most: int = LARGEST_PART) -> Pattern:
    """Return the pattern of one part."""
    rows, columns, free = (length(axes, sizes) for axes in (part.outer, part.inner, part.free))
    if not part.conditions and len(part.free) == len(part.place):
        return Pattern(rows, columns, free, True, columns, rows, rows if columns else 0, columns if rows else 0, 1)
    if not part.conditions and rows == columns == free and is_one_to_one(part):
        return Pattern(rows, columns, free, True, 1, 1, 1, 1, rows)
    if not part.looks and part.free and all(_tells(axes, part) for axes in (part.outer, part.inner)):
        count = count_tuples(part, sizes, most)
        if count is not None:
            one = min(count, 1)
            return Pattern(rows, columns, count, True, one, one, one, one, count)
    known = arrays if part.looks else {}
    laid = None if known is None else enumerated(part, sizes, known, most)
    if known is None or laid is None:
        return _bounded(part, sizes, rows, columns, free)
    count = tuples(laid, part, sizes, known)
    row, column = (
        np.broadcast_to(ravel_indices(axes, part.place, laid, sizes, known), count) for axes in (part.outer, part.inner)
    )
    return measured(row, column, rows, columns)


def _tells(axes: Sequence[Index], part: Part) -> bool:
    """Whether these axes determine every free index, so that each tuple has its own row (or column)."""
    places = [part.place[i] for i in axes]
    said = {i for e in places for i in (e.indices if isinstance(e, Ravel) and _plain(e) else (e,))}
    return said >= set(part.free)


def is_one_to_one(part: Part) -> bool:
    """Whether fixed indices are other free indices or renumberings of all indices of an entry."""
    fixed = [e for i, e in part.place.items() if i != e]
    numbered: dict[tuple[Expr, ...], set[int]] = {}
    for e in fixed:
        if isinstance(e, Unravel) and _plain(e.number):
            numbered.setdefault(e.args[1:], set()).add(e.axis)
        elif not isinstance(e, (Index, Ravel)):
            return False
    # One index of an entry says less than its number does: x[k // n] is read n times.
    return all(len(axes) == len(key) - 1 for key, axes in numbered.items())


def _plain(expression: Expr) -> bool:
    """Whether an entry's number is an index, or the row-major number of indices."""
    if isinstance(expression, Ravel):
        pairs = zip(expression.indices, expression.shape, strict=True)
        return all(isinstance(i, Index) and i.size == size for i, size in pairs)
    return isinstance(expression, Index)


def _bounded(part: Part, sizes: Sizes, rows: int, columns: int, free: int) -> Pattern:
    """Return the upper bound of a part's pattern, from its free indices."""
    fixed = {i for i, e in part.place.items() if i != e}
    in_row = columns if fixed & set(part.outer) else length([i for i in part.inner if i not in fixed], sizes)
    in_column = rows if fixed & set(part.inner) else length([i for i in part.outer if i not in fixed], sizes)
    colors = (1 if in_column == 1 else rows), (1 if in_row == 1 else columns)
    return Pattern(rows, columns, min(free, rows * columns), False, in_row, in_column, *colors, None)


def measured(rows: Array, columns: Array, height: int, width: int) -> Pattern:
    """Return the pattern of entries given by distinct positions."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not rows.size:
        return Pattern(height, width, 0, True, 0, 0, 0, 0, 0)
    (rows, by_row), (columns, by_column) = _renumbered(rows), _renumbered(columns)
    size = by_row.size + by_column.size
    graph = coo_array((np.ones(rows.size, dtype=np.int8), (rows, columns + by_row.size)), shape=(size, size))
    _, label = connected_components(graph, directed=False)
    in_row, in_column = int(by_row.max()), int(by_column.max())
    return Pattern(
        height, width, int(rows.size), True, in_row, in_column, _colors(rows, columns, by_row, by_column, in_column),
        _colors(columns, rows, by_column, by_row, in_row), int(np.unique(label[rows]).size),
    )  # fmt: skip


def _renumbered(lines: Array) -> tuple[Array, Array]:
    """Renumber rows (or columns) without the empty ones, and count the entries of each."""
    _, found, counts = np.unique(lines, return_inverse=True, return_counts=True)
    return found, counts


def _colors(lines: Array, across: Array, counts: Array, there: Array, deepest: int) -> int:
    """Return the number of colours of lines (rows, or columns) such that lines of one colour share no entry across."""
    if deepest == 1:
        return 1
    low, high = np.full(counts.size, there.size), np.full(counts.size, -1)
    np.minimum.at(low, lines, across)
    np.maximum.at(high, lines, across)
    if np.all(high - low + 1 == counts):  # intervals: their graph is perfect
        return deepest
    if int((there**2).sum()) > MOST_GREEDY:
        beside = np.bincount(lines, weights=there[across] - 1, minlength=counts.size)
        return int(min(counts.size, beside.max() + 1))
    order = np.argsort(lines, kind="stable")
    ends = np.cumsum(counts)
    taken: dict[int, set[int]] = {}
    most = 0
    for line in range(counts.size):
        places = across[order[ends[line] - counts[line] : ends[line]]].tolist()
        others = set().union(*(taken.setdefault(place, set()) for place in places))
        color = next(n for n in range(len(others) + 1) if n not in others)
        most = max(most, color + 1)
        for place in places:
            taken[place].add(color)
    return most


def _together(
    split: Sequence[Sequence[Part]], outer: Sequence[Index], inner: Sequence[Index], sizes: Sizes,
    arrays: Mapping[str, Array] | None,
) -> Pattern | None:  # fmt: skip
    """Return the pattern of several products, enumerated together; None if one cannot be enumerated."""
    from symgrad.numeric.sparse import rows_and_columns

    if arrays is None and any(part.looks for parts in split for part in parts):
        return None
    height, width = length(outer, sizes), length(inner, sizes)
    if height * width >= 2**63:  # places have no numbers
        return None
    places: list[Array] = []
    for parts in split:
        found = rows_and_columns(parts, outer, inner, sizes, {} if arrays is None else arrays)
        places.append(np.ravel(found.rows * width + found.columns))
    every = np.unique(np.concatenate(places))
    return measured(every // width, every % width, height, width)


def _united(
    terms: Sequence[Expr], own: Sequence[Pattern], outer: Sequence[Index], inner: Sequence[Index], sizes: Sizes,
    arrays: Mapping[str, Array] | None,
) -> tuple[int, bool]:  # fmt: skip
    """Return the number of positions of several products, with overlaps counted once, and whether it is exact."""
    single = sum(p.nonzeros for p in own)
    if len(terms) > MOST_TERMS or not all(p.exact for p in own):
        return single, False
    total, most = single, LARGEST_PART // 2 ** len(terms)
    for many in range(2, len(terms) + 1):
        for some in combinations(terms, many):
            at = solve_deltas(sp.Mul(*some), outer, inner)
            if not _there(at, sizes):
                continue
            parts = parts_of(at, outer, inner)
            found = kronecker([pattern_of_part(part, sizes, arrays, most) for part in parts])
            if not found.exact:
                return single, False
            total += found.nonzeros if many % 2 else -found.nonzeros
    return total, True


def at_most(pattern: Pattern) -> Pattern:
    """Return the pattern, marked as an upper bound."""
    return replace(pattern, exact=False)
