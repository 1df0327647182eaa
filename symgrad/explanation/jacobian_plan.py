"""The size and sparsity of a Jacobian, before any of it is computed.

Comes in: a program with numbers for its sizes, an input, the formula of ∂out/∂input or None. Goes out: the size, the
number of entries that can be nonzero, the blocks, the bytes, the number of seeds. No value of a tensor is read, and
nothing of the size of the matrix is allocated.

Whether a count is exact is tested at small sizes, where that is cheap. Terms may cancel, or a value may always be 0
(`x.sum(0) - x[0]`, entries of `tril(x)`); then the sparsity pattern of the formula is only an upper bound. Sums of
numbers of one sign, and entries of inputs, need no test. Without a formula the patterns of the steps' Jacobians are
multiplied, which is an upper bound for every size: entries that cancel are still counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import sympy as sp

from symgrad.calculus import carry_back, flowing_places, local_jacobian, moving
from symgrad.errors import SymgradError
from symgrad.explanation.evidence import Evidence, shape_size, shape_text
from symgrad.indexing import Equation, Index, contracted_sum, delta, fresh_axes, over_terms
from symgrad.indexing.equation import canonical
from symgrad.indexing.sums import is_delta
from symgrad.indexing.symbols import Expr, accesses, is_access, name_of
from symgrad.lowering.graph import MEMORY, memory
from symgrad.numeric import Values, forward, is_finite
from symgrad.numeric.arranged import matrix_of_kind
from symgrad.numeric.forward_pass import MOST_EXACT
from symgrad.numeric.jacobian_places import guards
from symgrad.numeric.patterns import Pattern, at_most, pattern_of, widest
from symgrad.numeric.sparse import MOST_PLACES
from symgrad.oracles.forms import sizes_fit
from symgrad.program import Apply, Program
from symgrad.shapes import Size

LARGEST_DENSE = 25_000_000
"""The most entries of a dense array; computing one takes about five times its memory."""
NUMBER = 8
"""Bytes of a float64."""
UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
FEW = 2**31
"""Up to so many columns and entries SciPy's indices have 4 bytes."""


@dataclass(frozen=True)
class JacobianPlan:
    """∂output/∂name before it is computed; counts are exact, or upper bounds if ``exact`` is False.

    ``structure`` describes the sparsity pattern in words. ``seeds`` is the number of passes to compute J by vᵀJ, one
    for each row; ``seeds_colored`` if rows without a common column share a pass. ``directions`` and
    ``directions_colored`` are the same for Ju, by columns. ``blocks`` is None if blocks were not counted. ``composed``:
    the pattern is the product of the steps' patterns, since the formula is too long.
    """

    output: str
    name: str
    out_shape: tuple[int, ...]
    in_shape: tuple[int, ...]
    nonzeros: int
    exact: bool
    structure: str
    blocks: int | None
    seeds: int
    seeds_colored: int
    directions: int
    directions_colored: int
    composed: bool
    memory: int = MEMORY

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return shape_size(self.out_shape), shape_size(self.in_shape)

    @property
    def bytes_dense(self) -> int:
        """Bytes of the whole matrix in float64."""
        rows, columns = self.shape
        return NUMBER * rows * columns

    @property
    def bytes_sparse(self) -> int:
        """Bytes of `scipy.sparse.csr_array`: a number and a column for each entry, an offset for each row."""
        rows, columns = self.shape
        index = 4 if max(self.nonzeros, columns) < FEW else 8
        return self.nonzeros * (NUMBER + index) + (rows + 1) * index

    @property
    def fits(self) -> tuple[str, ...]:
        """Those of "dense" and "sparse" that can be computed within the allowed memory."""
        rows, columns = self.shape
        most = {"dense": (rows * columns, LARGEST_DENSE), "sparse": (self.nonzeros, MOST_PLACES)}
        return tuple(name for name, (count, limit) in most.items() if count <= limit * self.memory // MEMORY)

    def as_dict(self) -> Mapping[str, Any]:
        """Return the plan as plain data."""
        rows, columns = self.shape
        return {
            "output": self.output, "wrt": self.name, "out_shape": list(self.out_shape), "in_shape": list(self.in_shape),
            "rows": rows, "columns": columns, "nonzeros": self.nonzeros, "exact": self.exact,
            "structure": self.structure, "blocks": self.blocks, "bytes": {
                "dense": self.bytes_dense, "sparse": self.bytes_sparse},
            "seeds": {"rows": self.seeds, "colored": self.seeds_colored},
            "directions": {"columns": self.directions, "colored": self.directions_colored},
            "composed": self.composed, "memory": self.memory, "fits": list(self.fits),
        }  # fmt: skip

    def to_text(self) -> str:
        """Return the text for a terminal."""
        rows, columns = self.shape
        most = "" if self.exact else "at most "
        share = self.nonzeros / max(rows * columns, 1)
        of_all = f"{share:.3g}" if share < 0.001 else f"{100 * share:.3g} %"
        lines = [
            f"∂{self.output}/∂{self.name}  {shape_text(self.out_shape)} by {shape_text(self.in_shape)}",
            f"  matrix      {rows:,} × {columns:,}",
            f"  nonzeros    {most}{self.nonzeros:,}{'' if share in (0, 1) else f', {of_all} of all'}",
            f"  structure   {self.structure}",
            f"  dense       {format_bytes(self.bytes_dense)}{self._beyond('dense')}",
            f"  sparse      {most}{format_bytes(self.bytes_sparse)}{self._beyond('sparse')}",
            f"  vᵀJ         {self._passes(self.seeds, self.seeds_colored, 'rows', 'column')}",
            f"  Ju          {self._passes(self.directions, self.directions_colored, 'columns', 'row')}",
        ]
        if self.composed:
            lines.append("  the product of the steps' Jacobians: the formula of the whole is too long to write out")
        return "\n".join(lines)

    def _beyond(self, which: str) -> str:
        if which in self.fits:
            return ""
        return f", more than {format_bytes(self.memory)} with the memory needed to compute it"

    def _passes(self, count: int, colored: int, lines: str, across: str) -> str:
        if colored >= count:
            return f"{count:,} {'pass' if count == 1 else 'passes'}, one for each of the {lines}"
        together = f"{colored:,} {'pass' if colored == 1 else 'passes'}"
        return f"{together} if {lines} that share no {across} share a pass, {count:,} one by one"

    def __str__(self) -> str:
        return self.to_text()


Formula = tuple[tuple[Index, ...], tuple[Index, ...], Expr]
"""The axes of the output, those of the input, and ∂out/∂input."""


def make_jacobian_plan(
    program: Program, name: str, found: Formula | None, out_shape: tuple[int, ...], in_shape: tuple[int, ...]
) -> JacobianPlan:
    """Return the plan of ∂out/∂``name``."""
    if found is None:
        pattern = at_most(pattern_of(*multiply_patterns(program, name), program.sizes, None))
    else:
        pattern = pattern_of(*found, program.sizes, None)
        if (
            pattern.exact
            and pattern.nonzeros
            and not was_every_entry_nonzero(program, tuple(program.sizes.items()), name, *found)
        ):
            pattern = at_most(pattern)
    return JacobianPlan(
        program.output, name, out_shape, in_shape, pattern.nonzeros, pattern.exact, describe_pattern(pattern),
        pattern.blocks, pattern.rows, pattern.row_colors, pattern.columns, pattern.column_colors, found is None,
        memory(),
    )  # fmt: skip


def describe_pattern(pattern: Pattern) -> str:
    """Describe a sparsity pattern in words."""
    rows, columns, blocks = pattern.rows, pattern.columns, pattern.blocks or 0
    if pattern.nonzeros == 0:
        return "zero"
    if pattern.in_row == pattern.in_column == 1:
        whole = pattern.exact and pattern.nonzeros == rows == columns
        return "one entry in each row and each column" if whole else "at most one entry in a row, and in a column"
    if pattern.in_row == 1:
        return f"at most one entry in a row, at most {pattern.in_column:,} in a column"
    if blocks > 1 and rows % blocks == columns % blocks == 0 and pattern.nonzeros * blocks == rows * columns:
        return f"{blocks:,} full blocks of {rows // blocks:,} × {columns // blocks:,}, zeros elsewhere"
    if pattern.nonzeros == rows * columns:
        return "every entry can be nonzero" if pattern.exact else "nothing is known to be zero"
    within = f"at most {pattern.in_row:,} entries in a row, {pattern.in_column:,} in a column"
    return f"{blocks:,} blocks, zeros elsewhere; {within}" if blocks > 1 else within


def format_bytes(count: int) -> str:
    """Format a number of bytes.

    >>> format_bytes(900), format_bytes(2_150_000_000_000), format_bytes(999_999)
    ('900 B', '2.15 TB', '1 MB')
    """
    value, unit = float(count), 0
    while float(f"{value:.3g}") >= 1000 and unit < len(UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.3g} {UNITS[unit]}"


SMALL = (4, 5, 6, 3, 2)
"""Small sizes to test at; a shorter axis keeps its size."""
STEPS = (6, 2, 1)
"""Divisors by which the small sizes should have the remainders of the given ones, the first that works."""


@lru_cache(maxsize=256)
def was_every_entry_nonzero(
    program: Program, given: tuple[tuple[Size, int], ...], name: str, axes: tuple[Index, ...],
    inner: tuple[Index, ...], formula: Expr,
) -> bool:  # fmt: skip
    """Whether every entry that ``formula`` allows was seen to be nonzero at some small size."""
    if never_zero(program, formula):
        return True
    for values in small_points(replace(program, sizes=dict(given))):
        found = Evidence(replace(program, sizes=values.sizes), name, values, axes, inner, formula)
        if found.moving is not None:
            return not found.found_on_the_way and bool((found.moving == found.possible).all())
    return False


def never_zero(program: Program, formula: Expr) -> bool:
    """Whether a formula is a number times entries of inputs, or a sum of numbers of one sign, under conditions.

    Conditions must be on indices: one that reads entries may hold nowhere, as in a scatter.
    """
    inputs = {t.name for t in program.inputs} - set(program.made)
    numbers, read = [], False
    for term in over_terms(formula, is_delta):
        conditions, values = ([f for f in sp.Mul.make_args(term) if guards(f) is held] for held in (True, False))
        if any(any(accesses(f)) for f in conditions):
            return False
        entries = [f for f in values if is_access(f) and name_of(f) in inputs]
        read = read or bool(entries)
        numbers.append(sp.Mul(*(f for f in values if f not in entries)))
    if any(not n.is_number or n == 0 or n is sp.nan for n in numbers) or (read and len(numbers) > 1):
        return False
    return len({bool(n > 0) for n in numbers}) == 1


def small_points(program: Program) -> Iterator[Values]:
    """Iterate over values of the program at small sizes similar to its own."""
    generator = np.random.default_rng(11)
    able = moving(program)
    if program.made or any(
        t.name not in able for t in program.inputs
    ):  # what positions and masks may be elsewhere is not known
        return
    for sizes in similar_sizes(program):
        small = replace(program, sizes=sizes)
        if not sizes_fit(program, sizes) or sum(small.entries.values()) > MOST_EXACT:
            continue
        drawn = {t.name: generator.uniform(0.3, 1.7, size=small.numbers(t.shape)) for t in program.inputs}
        try:
            values = forward(small, {n: matrix_of_kind(program, n, array) for n, array in drawn.items()})
        except (SymgradError, ValueError, ArithmeticError, IndexError):
            continue
        if all(bool(is_finite(values[n]).all()) for n in program.relevant):
            yield values


def similar_sizes(program: Program) -> Iterator[dict[Size, int]]:
    """Iterate over small numbers for the program's sizes, first those with the same remainders."""
    seen = []
    for step in STEPS:
        for about in SMALL:
            sizes = {size: n if n <= about else about + (n - about) % step for size, n in program.sizes.items()}
            if sizes not in seen:
                seen.append(sizes)
                yield sizes


MOST_WAYS = 6
"""The most products to carry back; of more, only their common factors are kept."""


def multiply_patterns(program: Program, wanted: str) -> tuple[tuple[Index, ...], tuple[Index, ...], Expr]:
    """Return the axes of out and of ``wanted``, and a sum of products of deltas that is 0 only where J is 0."""
    outer, at = fresh_axes(program.out.shape), fresh_axes(program.out.shape)
    here = sp.Mul(*(delta(a, o) for a, o in zip(at, outer, strict=True)))
    reached = program.reached((wanted,))

    def pulled(step: Apply, through: Equation) -> Iterator[tuple[str, Equation]]:
        for position in flowing_places(step, reached):
            d = local_jacobian(step, program).derivatives[position]
            if d.formula != 0:
                places = contracted_sum(through.at(d.axes) * sp.Add(*widest(d.formula)), d.axes)
                yield str(step.arguments[position]), Equation(d.inner, bound_products(canonical(places)))

    def either(one: Equation, other: Equation) -> Equation:
        return Equation(one.axes, bound_products(other.at(one.axes) + one.right))

    carried = carry_back(program.steps, {program.output: Equation(at, here)}, pulled, either)
    if wanted not in carried:
        return outer, fresh_axes(program.tensor(wanted).shape, "pqrs"), sp.S.Zero
    return outer, carried[wanted].axes, carried[wanted].right


def bound_products(places: Expr) -> Expr:
    """Return a sum of at most `MOST_WAYS` products of deltas and conditions that covers ``places``."""
    terms = widest(places)
    if len(terms) > MOST_WAYS:
        terms = widest(sp.Add(*(sp.Mul(*filter(is_delta, sp.Mul.make_args(term))) for term in terms)))
    if len(terms) > MOST_WAYS:
        common = reduce(frozenset.intersection, (frozenset(sp.Mul.make_args(term)) for term in terms))
        terms = (sp.Mul(*common),)
    return sp.Add(*terms)
