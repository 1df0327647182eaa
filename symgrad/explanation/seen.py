"""Whether every entry that a formula allows to be nonzero is seen to be: at small sizes, so that it costs nothing.

Comes in: a program, its sizes, an input, ∂out/∂input as a formula. Goes out: yes or no. Terms may cancel, and a value
may be 0 wherever one looks (`x.sum(0) - x[0]`, what is read of `tril(x)`): then the places that the formula allows are
only a bound. Numbers of one sign that are added, and entries of inputs, need no look.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
import sympy as sp

from symgrad.calculus import moving
from symgrad.errors import SymgradError
from symgrad.explanation.evidence import Evidence
from symgrad.indexing import Index, over_terms
from symgrad.indexing.deltas import is_delta
from symgrad.indexing.symbols import Expr, accesses, is_access, name_of
from symgrad.numeric import Values, finite, forward
from symgrad.numeric.assumed import matrix_of_kind
from symgrad.numeric.budget import MOST_EXACT
from symgrad.numeric.places import guards
from symgrad.oracles.other_sizes import fits
from symgrad.program import Program
from symgrad.shapes import Size

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
        if not fits(program, sizes) or sum(small.entries.values()) > MOST_EXACT:
            continue
        drawn = {t.name: generator.uniform(0.3, 1.7, size=small.numbers(t.shape)) for t in program.inputs}
        try:
            values = forward(small, {n: matrix_of_kind(program, n, array) for n, array in drawn.items()})
        except (SymgradError, ValueError, ArithmeticError, IndexError):
            continue
        if all(bool(finite(values[n]).all()) for n in program.relevant()):
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
