"""What a Jacobian would be, before any of it is computed.

Comes in: a program with numbers for its sizes, an input, the formula of ∂out/∂input or None. Goes out: its size, how
many entries can be nonzero, in what blocks, how many bytes, how many seeds. No value of any tensor is looked at, and
nothing of the size of the matrix is formed.

That a count is exact is seen at small sizes, where it costs nothing: terms may cancel, and a value may be 0 wherever
one looks (`x.sum(0) - x[0]`, what is read of `tril(x)`): then the places that the formula allows are only a bound.
Numbers of one sign that are added, and entries of inputs, need no look. Without a formula the places of the steps'
Jacobians are put together, which is an upper bound for every size: entries that cancel are still counted.
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
"""Entries of the largest dense array of numbers that is made; making one takes some five times its own memory."""
NUMBER = 8
"""Bytes of a float64."""
UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
FEW = 2**31
"""Columns and entries up to which SciPy numbers them in 4 bytes."""


@dataclass(frozen=True)
class JacobianPlan:
    """∂output/∂name before it is computed; counts are exact, or upper bounds where ``exact`` is False.

    ``structure`` is what follows from where entries can be nonzero, whatever the numbers. ``seeds`` are the v that it
    takes to find J by vᵀJ row by row, ``seeds_colored`` those it takes when rows that share no column go together;
    ``directions`` and ``directions_colored`` are the same for Ju, column by column. ``blocks`` is None where the blocks
    were not counted. ``composed``: put together from the steps of the program, since the formula is too long.
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
        """Bytes of `scipy.sparse.csr_array`: a number and a column for each entry, a place for each row."""
        rows, columns = self.shape
        index = 4 if max(self.nonzeros, columns) < FEW else 8
        return self.nonzeros * (NUMBER + index) + (rows + 1) * index

    @property
    def fits(self) -> tuple[str, ...]:
        """Which of "dense" and "sparse" fits the memory that may be used, with what it takes to make it."""
        rows, columns = self.shape
        most = {"dense": (rows * columns, LARGEST_DENSE), "sparse": (self.nonzeros, MOST_PLACES)}
        return tuple(name for name, (count, limit) in most.items() if count <= limit * self.memory // MEMORY)

    def as_dict(self) -> Mapping[str, Any]:
        """The plan as plain data."""
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
        """For a terminal."""
        rows, columns = self.shape
        most = "" if self.exact else "at most "
        share = self.nonzeros / max(rows * columns, 1)
        of_all = f"{share:.3g}" if share < 0.001 else f"{100 * share:.3g} %"
        lines = [
            f"∂{self.output}/∂{self.name}  {shape_text(self.out_shape)} by {shape_text(self.in_shape)}",
            f"  matrix      {rows:,} × {columns:,}",
            f"  nonzeros    {most}{self.nonzeros:,}{'' if share in (0, 1) else f', {of_all} of all'}",
            f"  structure   {self.structure}",
            f"  dense       {in_bytes(self.bytes_dense)}{self._beyond('dense')}",
            f"  sparse      {most}{in_bytes(self.bytes_sparse)}{self._beyond('sparse')}",
            f"  vᵀJ         {self._passes(self.seeds, self.seeds_colored, 'rows', 'column')}",
            f"  Ju          {self._passes(self.directions, self.directions_colored, 'columns', 'row')}",
        ]
        if self.composed:
            lines.append("  the product of the steps' Jacobians: the formula of the whole is too long to write out")
        return "\n".join(lines)

    def _beyond(self, which: str) -> str:
        return "" if which in self.fits else f", more than {in_bytes(self.memory)} with the memory needed to compute it"

    def _passes(self, count: int, colored: int, lines: str, across: str) -> str:
        if colored >= count:
            return f"{count:,} {'pass' if count == 1 else 'passes'}, one for each of the {lines}"
        together = f"{colored:,} {'pass' if colored == 1 else 'passes'}"
        return f"{together} if {lines} that share no {across} share a pass, {count:,} one by one"

    def __str__(self) -> str:
        return self.to_text()


Formula = tuple[tuple[Index, ...], tuple[Index, ...], Expr]
"""The axes of the output, those of the input, and ∂out/∂input."""


def planned(
    program: Program, name: str, found: Formula | None, out_shape: tuple[int, ...], in_shape: tuple[int, ...]
) -> JacobianPlan:
    """The plan of ∂out/∂``name``."""
    if found is None:
        pattern = at_most(pattern_of(*composed_places(program, name), program.sizes, None))
    else:
        pattern = pattern_of(*found, program.sizes, None)
        if pattern.exact and pattern.nonzeros and not all_seen(program, tuple(program.sizes.items()), name, *found):
            pattern = at_most(pattern)
    return JacobianPlan(
        program.output, name, out_shape, in_shape, pattern.nonzeros, pattern.exact, said(pattern), pattern.blocks,
        pattern.rows, pattern.row_colors, pattern.columns, pattern.column_colors, found is None, memory(),
    )  # fmt: skip


def said(pattern: Pattern) -> str:
    """Where entries can be nonzero, in words."""
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


def in_bytes(count: int) -> str:
    """A number of bytes as people say it.

    >>> in_bytes(900), in_bytes(2_150_000_000_000), in_bytes(999_999)
    ('900 B', '2.15 TB', '1 MB')
    """
    value, unit = float(count), 0
    while float(f"{value:.3g}") >= 1000 and unit < len(UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.3g} {UNITS[unit]}"


SMALL = (4, 5, 6, 3, 2)
"""Sizes about which is looked: an axis that is shorter keeps its own."""
STEPS = (6, 2, 1)
"""What small sizes leave the same remainder by as the given ones, as long as there is such a point."""


@lru_cache(maxsize=256)
def all_seen(
    program: Program, given: tuple[tuple[Size, int], ...], name: str, axes: tuple[Index, ...],
    inner: tuple[Index, ...], formula: Expr,
) -> bool:  # fmt: skip
    """Whether no entry that ``formula`` allows at the ``given`` sizes is always 0, as far as small sizes show."""
    if never_zero(program, formula):
        return True
    for values in small_points(replace(program, sizes=dict(given))):
        found = Evidence(replace(program, sizes=values.sizes), name, values, axes, inner, formula)
        if found.moving is not None:
            return not found.found_on_the_way and bool((found.moving == found.possible).all())
    return False


def never_zero(program: Program, formula: Expr) -> bool:
    """Whether this is a number times entries of inputs, or a sum of numbers of one sign, each under conditions.

    Conditions on indices: one that reads entries may hold nowhere, as what a scatter leaves of a row.
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
    """Values for the program at sizes that are small and like its own."""
    generator = np.random.default_rng(11)
    able = moving(program)
    if program.made or any(
        t.name not in able for t in program.inputs
    ):  # what positions and masks may be elsewhere is not known
        return
    for sizes in like(program):
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


def like(program: Program) -> Iterator[dict[Size, int]]:
    """Small numbers for the program's sizes, those first that leave the same remainders."""
    seen = []
    for step in STEPS:
        for about in SMALL:
            sizes = {size: n if n <= about else about + (n - about) % step for size, n in program.sizes.items()}
            if sizes not in seen:
                seen.append(sizes)
                yield sizes


MOST_WAYS = 6
"""Products that are carried; of more only what all of them say is."""


def composed_places(program: Program, wanted: str) -> tuple[tuple[Index, ...], tuple[Index, ...], Expr]:
    """The axes of the output, those of ``wanted``, and a sum of products of deltas that is 0 where J is sure to be."""
    outer, at = fresh_axes(program.out.shape), fresh_axes(program.out.shape)
    here = sp.Mul(*(delta(a, o) for a, o in zip(at, outer, strict=True)))
    reached = program.reached((wanted,))

    def pulled(step: Apply, through: Equation) -> Iterator[tuple[str, Equation]]:
        for position in flowing_places(step, reached):
            d = local_jacobian(step, program).derivatives[position]
            if d.formula != 0:
                places = contracted_sum(through.at(d.axes) * sp.Add(*widest(d.formula)), d.axes)
                yield str(step.arguments[position]), Equation(d.inner, bounded(canonical(places)))

    def either(one: Equation, other: Equation) -> Equation:
        return Equation(one.axes, bounded(other.at(one.axes) + one.right))

    carried = carry_back(program.steps, {program.output: Equation(at, here)}, pulled, either)
    if wanted not in carried:
        return outer, fresh_axes(program.tensor(wanted).shape, "pqrs"), sp.S.Zero
    return outer, carried[wanted].axes, carried[wanted].right


def bounded(places: Expr) -> Expr:
    """A few products of deltas and conditions whose places hold all of ``places``."""
    terms = widest(places)
    if len(terms) > MOST_WAYS:
        terms = widest(sp.Add(*(sp.Mul(*filter(is_delta, sp.Mul.make_args(term))) for term in terms)))
    if len(terms) > MOST_WAYS:
        common = reduce(frozenset.intersection, (frozenset(sp.Mul.make_args(term)) for term in terms))
        terms = (sp.Mul(*common),)
    return sp.Add(*terms)
