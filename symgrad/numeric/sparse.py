"""Jacobians in numbers, from the formula: only the entries that can be nonzero are ever computed.

Comes in: ∂out[o]/∂x[p] as a formula with deltas. Goes out: `Triplets` (row, column, value), rows numbering
the outputs and columns the inputs, both row by row. A delta between an output and an input index fixes one of
them, so that what is filled is the grid of the indices that stay free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symgrad.calculus.local import local
from symgrad.errors import bug
from symgrad.indexing import Bracket, Equation, Index, over_terms
from symgrad.indexing.deltas import is_delta, solve
from symgrad.indexing.symbols import Expr, accesses
from symgrad.lowering.reading import number
from symgrad.numeric.budget import check_grid
from symgrad.numeric.evaluate import evaluate
from symgrad.numeric.exact import Array, as_float, exact, is_exact, plain, total
from symgrad.numeric.forward import Values
from symgrad.numeric.named import ravel_rows
from symgrad.program import Program
from symgrad.shapes import Size

LARGEST_STEP = 4_000_000
"""Entries of the largest Jacobian of one step whose terms are measured."""

Entries = Callable[[Equation, Mapping[str, Array], Mapping[Size, int]], Array]
"""How entries are evaluated: in numbers (`evaluate`) or in symbols (`evaluate_symbols`)."""


Filled = tuple[Array, Array, Array]
"""Rows, columns and values of one term."""

MOST_PLACES = 20_000_000
"""Entries of a sparse Jacobian that one of its terms may fill."""


@dataclass(frozen=True)
class Triplets:
    """The entries of a Jacobian that can be nonzero; several at one place add up."""

    rows: Array
    columns: Array
    values: Array
    shape: tuple[int, int]

    @property
    def places(self) -> int:
        """How many entries can be nonzero."""
        numbers = np.sort(self.rows * max(self.shape[1], 1) + self.columns)
        return int(np.count_nonzero(np.diff(numbers))) + int(numbers.size > 0)

    def sparse(self) -> Any:
        """As a `scipy.sparse.csr_array`: int64 where all entries are whole numbers, float64 elsewhere."""
        from scipy import sparse

        values = plain(self.values)
        values = as_float(values) if values.dtype == object else values
        return sparse.csr_array(sparse.coo_array((values, (self.rows, self.columns)), shape=self.shape))

    def dense(self) -> Array:
        """As an array, exact where the values are."""
        result: Array = np.zeros(self.shape, dtype=np.int64)
        result = exact(result) if is_exact(self.values) else result.astype(np.float64)
        np.add.at(result, (self.rows, self.columns), self.values)
        return plain(result)


def sparse_jacobian(
    outer: Sequence[Index], inner: Sequence[Index], formula: Expr, values: Values, entries: Entries = evaluate
) -> Triplets:
    """Every entry of ``formula`` that its deltas and index conditions allow: numbers, or symbols by ``entries``."""
    shape = tuple(int(np.prod([number(i.size, values.sizes) for i in axes], dtype=object)) for axes in (outer, inner))
    filled = [
        _fill(term, tuple(outer), tuple(inner), values, entries) for term in over_terms(formula, is_delta) if term != 0
    ]
    if not filled:
        nothing = np.zeros(0, dtype=np.int64)
        return Triplets(nothing, nothing, nothing, (shape[0], shape[1]))
    filled = together(filled)
    exactly = all(is_exact(v) for _, _, v in filled)  # symbols, too, are object arrays
    rows, columns = (np.concatenate([f[part] for f in filled]) for part in (0, 1))
    found = np.concatenate([f[2] if exactly else as_float(f[2]) for f in filled])
    return Triplets(rows, columns, found, (shape[0], shape[1]))


def together(filled: Sequence[Filled]) -> list[Filled]:
    """Several terms, those that fill the same places as one: what cancels among them takes nothing else with it."""
    groups: list[list[Filled]] = []
    for term in filled:
        same = (group for group in groups if all(map(np.array_equal, group[0][:2], term[:2])))
        if (group := next(same, None)) is not None:
            group.append(term)
        else:
            groups.append([term])
    return [(*group[0][:2], total([values for _, _, values in group])) for group in groups]


@dataclass(frozen=True)
class Placed:
    """Where one product can be nonzero: each index by those that stay free, under conditions on indices."""

    place: Mapping[Index, Expr]
    conditions: Expr
    rest: Expr

    @property
    def grid(self) -> tuple[Index, ...]:
        """The indices that stay free."""
        return tuple(i for i, e in self.place.items() if i == e)

    @property
    def fixed(self) -> frozenset[tuple[Index, Expr]]:
        """What the deltas say."""
        return frozenset((i, e) for i, e in self.place.items() if i != e)


def placed(term: Expr, outer: Sequence[Index], inner: Sequence[Index]) -> Placed:
    """``term`` without the deltas that fix an index, and what they and its conditions say."""
    place: dict[Index, Expr] = {i: i for i in (*outer, *inner)}
    rest, conditions = term, sp.S.One
    while True:
        free = [i for i in (*inner, *outer) if place[i] == i]
        solution = next((s for f in sp.Mul.make_args(rest) if is_delta(f) for s in [_solve(f, free)] if s), None)
        if solution is None:
            break
        factor, substitution, condition = solution
        rest = sp.Mul(*(f for f in sp.Mul.make_args(rest) if f is not factor)).xreplace(substitution)
        conditions = conditions.xreplace(substitution) * condition
        place = {i: e.xreplace(substitution) for i, e in place.items()}
    index_conditions = [
        f for f in sp.Mul.make_args(rest) if (isinstance(f, Bracket) or is_delta(f)) and not any(accesses(f))
    ]
    rest = sp.Mul(*(f for f in sp.Mul.make_args(rest) if f not in index_conditions))
    return Placed(place, conditions * sp.Mul(*index_conditions), rest)


def count_places(
    outer: Sequence[Index], inner: Sequence[Index], formula: Expr, sizes: Mapping[Size, int]
) -> int | None:
    """How many entries a formula allows to be nonzero, from its deltas alone; None where conditions have to be tried.

    Where the deltas of one term are among those of every other one, it alone decides.
    """
    terms = [placed(term, outer, inner) for term in over_terms(formula, is_delta) if term != 0]
    if any(term.conditions != 1 for term in terms):
        return None
    if not terms:
        return 0
    widest = min(terms, key=lambda term: len(term.fixed))
    if not all(widest.fixed <= term.fixed for term in terms):
        return None
    return math.prod(number(index.size, sizes) for index in widest.grid)


def _fill(term: Expr, outer: tuple[Index, ...], inner: tuple[Index, ...], values: Values, entries: Entries) -> Filled:
    """Rows, columns and values of one product."""
    at = placed(term, outer, inner)
    check_grid([number(i.size, values.sizes) for i in at.grid], MOST_PLACES)
    allowed = as_float(evaluate(Equation(at.grid, at.conditions), values.arrays, values.sizes)) != 0
    numbers = [
        ravel_rows([_along(at.grid, at.place[i], values) for i in axes], [number(i.size, values.sizes) for i in axes])
        for axes in (outer, inner)
    ]
    found = entries(Equation(at.grid, at.rest), values.arrays, values.sizes)
    return (*(np.broadcast_to(n, allowed.shape)[allowed] for n in numbers), found[allowed])


def _along(grid: tuple[Index, ...], place: Expr, values: Values) -> Array:
    """The number that an index expression is, over a grid; for an axis of the grid nothing has to be worked out."""
    if place in grid:
        counted = np.arange(number(place.size, values.sizes))
        return counted.reshape([-1 if i == place else 1 for i in grid])
    return as_float(evaluate(Equation(grid, place), values.arrays, values.sizes)).astype(np.int64)


def _solve(factor: Expr, free: Sequence[Index]) -> tuple[Expr, dict[Index, Expr], Expr] | None:
    """``factor`` with what it says about the free indices."""
    found = solve(factor, free)
    return None if found is None else (factor, *found)


def chain_jacobian(program: Program, wanted: str, values: Values) -> Any:
    """The whole Jacobian as a product of the steps' sparse Jacobians, added over the ways through the program."""
    from scipy import sparse

    size = int(np.size(values[program.output]))
    carried: dict[str, Any] = {program.output: sparse.csr_array(sparse.eye_array(size, dtype=np.float64))}
    for step in reversed(program.steps):
        if step.result.name not in carried:
            continue
        through = carried[step.result.name]
        for position, d in local(step, program).derivatives.items():
            argument = step.arguments[position]
            if not isinstance(argument, str):
                raise bug("a derivative by a constant")
            part = through @ sparse_jacobian(d.axes, d.inner, d.formula, values).sparse()
            carried[argument] = carried[argument] + part if argument in carried else part
    inputs = int(np.size(values[wanted]))
    return carried.get(wanted, sparse.csr_array((size, inputs)))


def term_sizes(program: Program, wanted: str, values: Values, weights: Array) -> Array | None:
    """How large the terms are that vᵀJ by ``wanted`` adds up, signs left out: what rounding has to be measured by.

    None where a step has too many entries for that, or one that is not finite.
    """
    carried: dict[str, Array] = {program.output: np.abs(as_float(weights)).reshape(-1)}
    reached = program.reached((wanted,))
    for step in reversed(program.steps):
        if step.result.name not in carried or step.result.name not in reached:
            continue
        through = carried[step.result.name]
        for position, d in local(step, program).derivatives.items():
            argument = str(step.arguments[position])
            if argument not in reached:
                continue
            if np.size(values[argument]) * through.size > LARGEST_STEP:
                return None
            found = sparse_jacobian(d.axes, d.inner, d.formula, values)
            part = np.zeros(np.size(values[argument]))
            np.add.at(part, found.columns, through[found.rows] * np.abs(as_float(found.values)))
            carried[argument] = carried[argument] + part if argument in carried else part
    sizes = carried.get(wanted, np.zeros(np.size(values[wanted])))
    return sizes.reshape(np.shape(values[wanted])) if np.isfinite(sizes).all() else None
