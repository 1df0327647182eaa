"""The Jacobian with respect to one input: structure, plan, symbols, numbers and operator, all from one formula.

Comes in: a program, one of its inputs, values of its tensors (which may be computed at first access). Goes out: frozen
data. Large parts are computed at first access, and refused if they would not fit in memory. A `Hessian` is the Jacobian
of a gradient, with the checks of `symgrad.explanation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from symgrad.calculus import jacobian_formulas
from symgrad.errors import InputError
from symgrad.explanation.claims import Claim, Structure, choose_proven
from symgrad.explanation.evidence import Evidence, is_rounding, may_be_rounding, shape_size, with_rounding_marked
from symgrad.explanation.given import Rendered, Writers
from symgrad.explanation.jacobian_plan import LARGEST_DENSE, JacobianPlan, make_jacobian_plan
from symgrad.explanation.structure import COMPOSED, suggest_claims
from symgrad.indexing import Equation, Index, fresh_axes
from symgrad.indexing.symbols import Expr, accesses, name_of
from symgrad.language.arguments import format_entry_name
from symgrad.lowering.graph import allowed_by_memory
from symgrad.numeric import (
    Array,
    Values,
    as_float,
    chain_jacobian,
    numeric_pullback,
    numeric_pushforward,
    reads_positions,
    symbol_matrix,
)
from symgrad.numeric.jacobian_places import Triplets, triplets_of
from symgrad.numeric.sparse import MOST_PLACES
from symgrad.oracles.comparisons import Check
from symgrad.oracles.digits import PreciseGradients
from symgrad.program import Program

LARGEST_MATRIX = 100_000
"""The most nonzero entries of an explicit symbolic matrix."""


def labels(name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return the labels of all entries in row-major order."""
    return tuple(format_entry_name(name, at) for at in np.ndindex(*shape))


@lru_cache(maxsize=256)
def formula_of(program: Program, name: str) -> tuple[tuple[Index, ...], tuple[Index, ...], Expr | None]:
    """Return ∂out/∂name with its axes, cached; the formula is None if it would be too long to read."""
    found = jacobian_formulas(program, (name,))[name]
    if found is None:
        return fresh_axes(program.out.shape), fresh_axes(program.tensor(name).shape, "pqrs"), None
    axes, inner, sweep = found
    return axes, inner, sweep.equation.right


def jacobian_of(program: Program, name: str, values: Values, writers: Writers) -> Jacobian:
    """Return ∂out/∂name; its numbers are computed at first access."""
    axes, inner, formula = formula_of(program, name)
    shapes = program.numbers(program.out.shape), program.numbers(program.tensor(name).shape)
    told = (COMPOSED,) if formula is None else None
    return Jacobian(name, program, values, axes, inner, formula, told, *shapes, writers)


@dataclass(frozen=True, eq=False)
class Jacobian(Rendered):
    """∂out/∂x: rows are the entries of out, columns those of x, both in row-major order (torch's convention).

    ``formula`` is ∂out[axes]/∂x[inner] in SymPy, for every size, or None if it would be too long to read; numbers
    then are products of local Jacobians. ``told`` are claims about the structure that replace those suggested by the
    formula.
    """

    name: str
    program: Program
    values: Values
    axes: tuple[Index, ...]
    inner: tuple[Index, ...]
    formula: Expr | None
    told: tuple[Claim, ...] | None
    out_shape: tuple[int, ...]
    in_shape: tuple[int, ...]
    writers: Writers | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return shape_size(self.out_shape), shape_size(self.in_shape)

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Claims about the structure, not yet tested, strongest first."""
        if self.told is not None or self.formula is None:
            return self.told or ()
        return suggest_claims(self.program, self.name, self.axes, self.inner, self.formula)

    @cached_property
    def evidence(self) -> Evidence | None:
        """The numbers on which claims about this matrix are tested; None without a formula."""
        if self.formula is None:
            return None
        return Evidence(self.program, self.name, self.values, self.axes, self.inner, self.formula)

    @cached_property
    def structure(self) -> Structure:
        """The strongest claim about the structure that holds for these numbers."""
        return choose_proven(self.claims, self.evidence)

    def plan(self) -> JacobianPlan:
        """Return size, nonzeros, blocks, bytes and seeds of this matrix, without computing it.

        They follow from the formula's deltas and conditions. If the formula is too long, they are upper bounds from
        the formulas of the steps.

        >>> import symgrad
        >>> plan = symgrad.jacobian("x@a", "x", shapes={"x": (720, 720), "a": (720, 720)}, check=False).plan()
        >>> plan.nonzeros, plan.blocks, plan.seeds, plan.seeds_colored
        (373248000, 720, 518400, 720)
        """
        found = None if self.formula is None else (self.axes, self.inner, self.formula)
        return make_jacobian_plan(self.program, self.name, found, self.out_shape, self.in_shape)

    @cached_property
    def nonzeros(self) -> int:
        """The number of entries that can be nonzero; `count` tells whether they were seen to be."""
        if self.evidence is not None:
            return self.evidence.places
        return int(np.count_nonzero(self.entries.values))

    @cached_property
    def count(self) -> tuple[str, int]:
        """The number of nonzero entries, and its scope: "anywhere", "at most", "here" (these numbers), "unknown"."""
        if self.evidence is None:
            return "unknown", 0
        return self.evidence.count(int(np.isfinite(self.clear[0].values).sum()))

    @cached_property
    def hidden(self) -> bool:
        """Whether an entry is 0 only because of floats; False if that takes too long to decide."""
        if self.formula is None:
            return False
        whole = Equation((*self.axes, *self.inner), self.formula)
        return PreciseGradients(self.program, self.values, [self.name]).hides(whole, self.as_torch())

    @property
    def row_labels(self) -> tuple[str, ...]:
        """``out[0,0]``, ``out[0,1]``, …"""
        return labels(self.program.output, self.out_shape)

    @property
    def column_labels(self) -> tuple[str, ...]:
        """``x[0,0]``, ``x[0,1]``, …"""
        return labels(self.name, self.in_shape)

    def sparse(self) -> Any:
        """Return the numbers as `scipy.sparse.csr_array`; raise `InputError` if the nonzero ones would not fit."""
        rows, columns = self.shape
        most = allowed_by_memory(MOST_PLACES)
        if rows * columns > most and (plan := self.plan()).exact and plan.nonzeros > most:
            raise self._too_large(f"{plan.nonzeros:,} entries of it can be nonzero", most, "operator() for Ju and vᵀJ")
        if self.evidence is None:
            return chain_jacobian(self.program, self.name, self.values)
        return self.evidence.triplets.sparse()

    def dense(self) -> Array:
        """Return the numbers as an array, exact if they are; raise `InputError` if it would not fit."""
        rows, columns = self.shape
        if rows * columns > (most := allowed_by_memory(LARGEST_DENSE)):
            instead = "sparse() holds only what can be nonzero, operator() nothing"
            raise self._too_large(f"it has {rows * columns:,} entries", most, instead)
        return np.asarray(self.sparse().todense()) if self.evidence is None else self.evidence.triplets.dense()

    @cached_property
    def entries(self) -> Triplets:
        """The entries of `sparse`, in row-major order without duplicates."""
        return triplets_of(self.sparse()) if self.evidence is None else self.evidence.triplets.added_up()

    @cached_property
    def terms(self) -> Triplets | None:
        """The sum of absolute terms of each entry, like `entries`; None if no terms can cancel."""
        if not may_be_rounding(self.entries.values, self.values):
            return None
        if self.evidence is None:
            return triplets_of(chain_jacobian(self.program, self.name, self.values, terms=True))
        return None if self.evidence.terms is None else self.evidence.terms.added_up()

    @cached_property
    def clear(self) -> tuple[Triplets, Array]:
        """The nonzero `entries`, and the values of entries that may be a rounded 0."""
        found = self.entries
        left = np.zeros(found.values.shape, dtype=bool)
        if self.terms is not None:
            left = is_rounding(found.values, self.terms.at_places_of(found))
        kept = (found.values != 0) & ~left
        clear = Triplets(found.rows[kept], found.columns[kept], found.values[kept], self.shape)
        return clear, found.values[left]

    def shown(self) -> Array:
        """Return `dense` with entries that may be a rounded 0 marked as `Rounding`."""
        return with_rounding_marked(self.dense(), None if self.terms is None else as_float(self.terms.dense()))

    def matrix(self) -> Any:
        """Return the explicit SymPy matrix, in entries of inputs and of forward values."""
        if self.formula is None:
            raise InputError(
                "this Jacobian's formula is too long to write out", hints=("dense() or sparse() for numbers",)
            )
        can = self.plan().nonzeros
        if can > LARGEST_MATRIX and self.nonzeros > LARGEST_MATRIX:  # a plan may be a bound
            raise self._too_large(
                f"{self.nonzeros:,} entries of it can be nonzero", LARGEST_MATRIX, "dense() or sparse()"
            )
        rows, columns = self.shape
        return symbol_matrix(self.axes, self.inner, self.formula, self._shaped, rows * columns <= LARGEST_MATRIX)

    @property
    def _shaped(self) -> Values:
        """Values whose arrays have shapes only, if the formula reads no positions; else the values."""
        known = self.formula is not None and not reads_positions(self.formula)
        if not known or any("·" in name_of(entry) for entry in accesses(self.formula)):
            return self.values
        shapes = {tensor.name: tensor.shape for tensor in (*self.program.tensors(), self.program.out)}
        shapes[self.program.seed] = self.program.out.shape
        nothing = np.int64(0)
        arrays = {name: np.broadcast_to(nothing, self.program.numbers(shape)) for name, shape in shapes.items()}
        return Values(arrays, self.values.sizes)

    def operator(self) -> Any:
        """Return J as a `scipy.sparse.linalg.LinearOperator`: Ju and vᵀJ without forming J.

        ``matvec`` is the JVP and ``rmatvec`` the VJP of the program, by the derived local derivatives.

        >>> import symgrad
        >>> J = symgrad.jacobian("tanh(x)", "x", x=np.ones((1000, 100)), check=False).operator()
        >>> J.shape, round(float(J.rmatvec(np.ones(100000))[0]), 6)
        ((100000, 100000), 0.419974)
        """
        from scipy.sparse.linalg import LinearOperator

        def pushed(u: Array) -> Array:
            direction = as_float(np.reshape(u, self.in_shape))
            return as_float(numeric_pushforward(self.program, self.values, self.name, direction)).reshape(-1)

        def pulled(v: Array) -> Array:
            weights = as_float(np.reshape(v, self.out_shape))
            return as_float(numeric_pullback(self.program, self.values, weights, [self.name])[self.name]).reshape(-1)

        return LinearOperator(self.shape, dtype=np.float64, matvec=pushed, rmatvec=pulled)

    def as_torch(self) -> Array:
        """Return the numbers with shape ``out.shape + x.shape``, as `torch.autograd.functional.jacobian` does."""
        return self.dense().reshape(self.out_shape + self.in_shape)

    def to_svg(self) -> str:
        """Return a picture of the matrix: its entries if it is small, its sparsity pattern if it is large."""
        return self._write("svg")

    def __repr__(self) -> str:
        rows, columns = self.shape
        out = self.program.output
        return f"<Jacobian {rows}×{columns}: a row for each entry of {out}, a column for each of {self.name}>"

    def _too_large(self, what: str, limit: int, instead: str) -> InputError:
        rows, columns = self.shape
        return InputError(
            f"the {rows}×{columns} Jacobian with respect to {self.name} is too large to be written out",
            found=(f"{what}, more than {limit:,}",),
            hints=(instead, "smaller sizes"),
        )


@dataclass(frozen=True, eq=False)
class Hessian:
    """∂²L/∂first∂second with L = Σ v·out; ``value`` has the shape of ``first`` followed by that of ``second``.

    ``closed_form`` is text in torch's syntax if both inputs are vectors or scalars, or None. ``jacobian`` is the same
    matrix as the Jacobian of the gradient with respect to ``first``: formula, symbols, numbers, labels. ``digits`` is
    the precision used where float64 loses the digits of ``value``; 0 if it does not.
    """

    first: str
    second: str
    value: Array
    jacobian: Jacobian
    constant: bool
    checks: tuple[Check, ...]
    written: Callable[[], str | None]
    digits: int = 0

    @cached_property
    def closed_form(self) -> str | None:
        """The matrix in torch's syntax, proven at first access; None if there is no such form."""
        return self.written()

    @property
    def formula(self) -> Expr | None:
        """The index formula; None if it would be too long to read."""
        return self.jacobian.formula

    def __repr__(self) -> str:
        rows, columns = self.jacobian.shape
        by = f"by {self.first}, twice" if self.first == self.second else f"by {self.first} and {self.second}"
        return f"<Hessian {rows}×{columns} {by}>"

    @property
    def passed(self) -> bool:
        """Whether no oracle disagreed."""
        return all(check.passed is not False for check in self.checks)
