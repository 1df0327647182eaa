"""Sparse Jacobians in numbers, from the formula: only entries that can be nonzero are computed.

Comes in: ∂out[o]/∂x[p] as a formula with deltas. Goes out: `Triplets` (row, column, value); rows number the outputs and
columns the inputs, both row-major. Positions follow from deltas and conditions (`symgrad.numeric.jacobian_places`), and
are cached by formula and sizes; values are computed each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from typing import Any

import numpy as np
import sympy as sp

from symgrad.calculus import carry_back, carry_on, flowing, flowing_places, local_jacobian
from symgrad.indexing import Bracket, Equation, Index, fresh, over_terms
from symgrad.indexing.sums import is_delta
from symgrad.indexing.symbols import Expr, access, accesses, free_indices, number, over
from symgrad.lowering.graph import check_grid
from symgrad.numeric.exact import (
    Array,
    as_float,
    compensated_sum,
    int64_if_short,
    is_exact,
)
from symgrad.numeric.forward_pass import Values
from symgrad.numeric.jacobian_places import (
    Part,
    Placed,
    Sizes,
    Triplets,
    enumerated,
    length,
    parts_of,
    ravel_indices,
    solve_deltas,
    tuples,
)
from symgrad.numeric.playing import evaluate
from symgrad.program import Apply, Program
from symgrad.shapes import Size

LARGEST_STEP = 4_000_000
"""The most entries of a step's Jacobian whose terms are summed by absolute value."""

Entries = Callable[[Equation, Mapping[str, Array], Mapping[Size, int]], Array]
"""Evaluates entries: in numbers (`evaluate`) or in symbols (`evaluate_symbols`)."""


Filled = tuple[Array, Array, Array]
"""Rows, columns and values of one term."""

MOST_PLACES = 20_000_000
"""The most entries of one term of a sparse Jacobian."""
MOST_KEPT = 1_000_000
"""The most rows and columns of a Jacobian whose positions are cached."""


@dataclass(frozen=True)
class Layout:
    """The positions of a product: rows and columns that broadcast to a grid of ``shape`` along ``axes``.

    ``axes`` are free indices, and one index for the tuples of each enumerated part; the indices of such a part are read
    from the arrays ``known``, as ``named`` maps them. ``in_order``: sorted by rows and columns, with equally many
    entries in each row.
    """

    axes: tuple[Index, ...]
    shape: tuple[int, ...]
    rows: Array
    columns: Array
    known: dict[str, Array]
    named: Mapping[Index, Expr]
    in_order: bool


@dataclass(frozen=True)
class Layer:
    """Terms with the same positions."""

    laid: Layout
    terms: tuple[Expr, ...]

    def filled(self, values: Values, entries: Entries) -> Filled:
        """Return rows, columns and values of the sum of the terms."""
        arrays = values.with_arrays(self.laid.known).arrays if self.laid.known else values.arrays
        sizes = {**values.sizes, **{axis.size: n for axis, n in zip(self.laid.axes, self.laid.shape, strict=True)}}
        found = []
        for term in self.terms:
            axes = tuple(axis for axis in self.laid.axes if axis in free_indices(term))
            array = int64_if_short(entries(Equation(axes, term), arrays, sizes))
            array = array.reshape([n if a in axes else 1 for a, n in zip(self.laid.axes, self.laid.shape, strict=True)])
            found.append(np.broadcast_to(array, self.laid.shape).reshape(-1))
        rows, columns = (np.broadcast_to(n, self.laid.shape).reshape(-1) for n in (self.laid.rows, self.laid.columns))
        return rows, columns, compensated_sum(found)


def layers(outer: Sequence[Index], inner: Sequence[Index], formula: Expr, values: Values) -> Sequence[Layer]:
    """Return the layers of a formula, cached if they depend on sizes alone and are not large."""
    outer, inner = tuple(outer), tuple(inner)
    if reads_data_positions(formula) or max(length(outer, values.sizes), length(inner, values.sizes)) > MOST_KEPT:
        return _layers_of(outer, inner, formula, values.sizes, values.arrays)
    return _kept(outer, inner, formula, tuple(values.sizes.items()))


@lru_cache(maxsize=1024)
def reads_data_positions(formula: Expr) -> bool:
    """Whether deltas read entries of tensors."""
    return any(is_delta(f) and any(accesses(f)) for term in _terms(formula) for f in sp.Mul.make_args(term))


@lru_cache(maxsize=1024)
def _terms(formula: Expr) -> tuple[Expr, ...]:
    """Return the products of a formula with different deltas."""
    return tuple(term for term in over_terms(formula, is_delta) if term != 0)


@lru_cache(maxsize=16)
def _kept(
    outer: tuple[Index, ...], inner: tuple[Index, ...], formula: Expr, sizes: tuple[tuple[Size, int], ...]
) -> Sequence[Layer]:
    """Return `_layers_of`, cached."""
    return _layers_of(outer, inner, formula, dict(sizes), {})


def _layers_of(
    outer: tuple[Index, ...], inner: tuple[Index, ...], formula: Expr, sizes: Sizes, arrays: Mapping[str, Array]
) -> Sequence[Layer]:
    """Group the terms of a formula by their positions."""
    groups: dict[Any, list[Placed]] = {}
    for term in _terms(formula):
        at = solve_deltas(term, outer, inner)
        groups.setdefault((tuple(at.place.items()), at.conditions), []).append(at)
    found = []
    for same in groups.values():
        laid = rows_and_columns(parts_of(same[0], outer, inner), outer, inner, sizes, arrays)
        found.append(Layer(laid, tuple(at.rest.xreplace(dict(laid.named)) for at in same)))
    return found


def rows_and_columns(
    parts: Sequence[Part], outer: Sequence[Index], inner: Sequence[Index], sizes: Sizes, arrays: Mapping[str, Array]
) -> Layout:
    """Return the positions of a product; raise `InputError` if there are too many."""
    every = (*outer, *inner)
    free = sorted((i for part in parts if not part.conditions for i in part.free), key=every.index)
    along: list[tuple[Index, int]] = [(i, number(i.size, sizes)) for i in free]
    numbers: dict[Index, tuple[Index, Array]] = {i: (i, np.arange(n)) for i, n in along}
    check_grid([n for _, n in along], MOST_PLACES)
    known: dict[str, Array] = {}
    named: dict[Index, Expr] = {}
    for part in parts:
        if not part.conditions:
            continue
        found = enumerated(part, sizes, arrays)
        if found is None:
            check_grid([number(i.size, sizes) for i in part.free], 0)
        assert found is not None
        count = tuples(found, part, sizes, arrays)
        axis = fresh("t", sp.Symbol(f"t{len(along)}", integer=True, positive=True))
        along.append((axis, count))
        for i, array in found.items():
            name = f"at·{len(known)}"
            known[name], named[i], numbers[i] = array, access(name, (axis,)), (axis, array)
    axes, shape = tuple(i for i, _ in along), tuple(n for _, n in along)
    check_grid(shape, MOST_PLACES)
    spread = {i: array.reshape([array.size if a == axis else 1 for a in axes]) for i, (axis, array) in numbers.items()}
    place = {i: e for part in parts for i, e in part.place.items()}
    rows, columns = (ravel_indices(side, place, spread, sizes, arrays) for side in (outer, inner))
    in_order = not named and all(i in free for i in outer)
    in_order = in_order and all(i in free or free_indices(place[i]) <= set(outer) for i in inner)
    return Layout(axes, shape, rows, columns, known, named, in_order)


def merged_terms(filled: Sequence[Filled]) -> list[Filled]:
    """Merge terms with the same positions by a compensated sum, so that cancellation loses no digits."""
    groups: list[list[Filled]] = []
    for term in filled:
        same = (group for group in groups if all(map(np.array_equal, group[0][:2], term[:2])))
        if (group := next(same, None)) is not None:
            group.append(term)
        else:
            groups.append([term])
    return [(*group[0][:2], compensated_sum([values for _, _, values in group])) for group in groups]


def sparse_jacobian(
    outer: Sequence[Index], inner: Sequence[Index], formula: Expr, values: Values, entries: Entries = evaluate
) -> Triplets:
    """Return the entries of ``formula`` in its sparsity pattern: numbers, or symbols by ``entries``."""
    shape = length(outer, values.sizes), length(inner, values.sizes)
    found = layers(outer, inner, formula, values)
    filled = merged_terms([layer.filled(values, entries) for layer in found])
    if not filled:
        nothing = np.zeros(0, dtype=np.int64)
        return Triplets(nothing, nothing, nothing, shape)
    if len(filled) == 1:
        return Triplets(*filled[0], shape, len(found) == 1 and found[0].laid.in_order)
    exactly = all(is_exact(v) for _, _, v in filled)  # symbols, too, are object arrays
    rows, columns = (np.concatenate([f[part] for f in filled]) for part in (0, 1))
    return Triplets(rows, columns, np.concatenate([f[2] if exactly else as_float(f[2]) for f in filled]), shape)


def chain_jacobian(program: Program, wanted: str, values: Values, terms: bool = False) -> Any:
    """Return the Jacobian of the whole program as the product of the steps' sparse Jacobians, summed over all paths.

    The product starts at the smaller of output and input. With ``terms``, return the sum of absolute terms of each
    entry instead.
    """
    from scipy import sparse

    height, width = int(np.size(values[program.output])), int(np.size(values[wanted]))
    reached = flowing(program, (wanted,))

    def matrix(step: Apply, place: int) -> Any:
        d = local_jacobian(step, program).derivatives[place]
        return sparse_jacobian(d.axes, d.inner, terms_of(d.formula) if terms else d.formula, values).sparse()

    def pulled(step: Apply, through: Any) -> Iterator[tuple[str, Any]]:
        return ((str(step.arguments[n]), through @ matrix(step, n)) for n in flowing_places(step, reached))

    def pushed(step: Apply, moved: Mapping[int, Any]) -> Any:
        return reduce(add, (matrix(step, n) @ through for n, through in moved.items()))

    one = sparse.csr_array(sparse.eye_array(min(width, height), dtype=np.float64))
    if width < height:
        found = carry_on(program.steps, {wanted: one}, pushed).get(program.output)
    else:
        found = carry_back(program.steps, {program.output: one}, pulled, add, (wanted,)).get(wanted)
    return sparse.csr_array((height, width)) if found is None else found


def term_sizes(
    program: Program, wanted: Sequence[str], values: Values, weights: Array, within: bool = False
) -> Mapping[str, Array | None]:
    """Return the sum of absolute terms of vᵀJ for each of ``wanted``, by which rounding is judged.

    With ``within``, terms inside the entries of each step's Jacobian are counted, too. A value is None if a step has
    too many entries, or one that is not finite.
    """
    reached = flowing(program, wanted)

    def pulled(step: Apply, through: Array | None) -> Iterator[tuple[str, Array | None]]:
        for place in flowing_places(step, reached):
            argument, d = str(step.arguments[place]), local_jacobian(step, program).derivatives[place]
            if through is None or np.size(values[argument]) * through.size > LARGEST_STEP:
                yield argument, None
                continue
            found = sparse_jacobian(d.axes, d.inner, terms_of(d.formula) if within else d.formula, values)
            part = np.zeros(np.size(values[argument]))
            with np.errstate(invalid="ignore", over="ignore"):  # 0·∞ is told below
                np.add.at(part, found.columns, through[found.rows] * np.abs(as_float(found.values)))
            yield argument, if_finite(part)

    def both(one: Array | None, other: Array | None) -> Array | None:
        return None if one is None or other is None else if_finite(one + other)

    arrived = {program.output: if_finite(np.abs(as_float(weights)).reshape(-1))}
    carried = carry_back(program.steps, arrived, pulled, both, wanted)
    shapes = {name: np.shape(values[name]) for name in wanted}
    found = {name: carried.get(name, np.zeros(shape)) for name, shape in shapes.items()}
    return {name: None if sizes is None else sizes.reshape(shapes[name]) for name, sizes in found.items()}


def if_finite(array: Array) -> Array | None:
    """Return the array if all its numbers are finite, else None."""
    return array if np.isfinite(array).all() else None


@lru_cache(maxsize=1024)
def terms_of(formula: Expr) -> Expr:
    """Return the formula with every sum replaced by the sum of absolute terms.

    ``s[i]·(w[p] − Σ_j s[j]·w[j])`` becomes ``|s[i]|·(|w[p]| + Σ_j |s[j]|·|w[j]|)``.
    """
    if is_delta(formula) or isinstance(formula, Bracket):
        return formula
    if isinstance(formula, (sp.Add, sp.Mul)):
        return formula.func(*map(terms_of, formula.args))
    if isinstance(formula, sp.Sum):
        return over(sp.Sum, terms_of(formula.function), *formula.limits)
    if isinstance(formula, sp.Pow) and formula.exp.is_positive:
        return sp.Pow(terms_of(formula.base), formula.exp)
    real = {node: sp.Dummy(real=True) for node in formula.atoms(sp.erfinv)}  # SymPy does not know that it is
    return sp.Abs(formula.xreplace(real)).xreplace({name: node for node, name in real.items()})
