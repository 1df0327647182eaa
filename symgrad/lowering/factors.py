"""The factors of a product, as they are best computed: |x| for sign(x)·x, what is below the line, conditions by sides.

Comes in: factors. Goes out: factors, without anything of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy as sp

from symgrad.functions import Stable, sign
from symgrad.indexing import Bracket, Index
from symgrad.indexing.symbols import Expr, accesses, free_indices
from symgrad.lowering.windows import line
from symgrad.shapes import Size


def with_sizes(factors: Sequence[Expr], without: Sequence[Expr]) -> list[Expr]:
    """The factors, sign(x)·x as |x|."""
    found = [f for f in factors if f not in without]
    for factor in list(found):
        if isinstance(factor, sign) and factor.args[0] in found:
            found.remove(factor)
            found[found.index(factor.args[0])] = sp.Abs(factor.args[0])
    return found


def quotient(factors: Sequence[Expr], bound: Sequence[Index]) -> tuple[list[Expr], list[Expr]]:
    """The factors above, and what is below that nothing sums over."""
    below = [f for f in factors if f.is_Pow and f.exp == -1 and any(accesses(f)) and free_indices(f).isdisjoint(bound)]
    return [f for f in factors if f not in below], [f.base for f in below]


def rounded_once(node: Expr) -> tuple[Expr, Expr] | None:
    """What is above the line and below it in a function that jumps: 0.3 / 0.1 is less than 3, 0.3 · (1 / 0.1) is 3."""
    if not isinstance(node, Stable) or node.fdiff() != 0:
        return None
    above, below = sp.fraction(node.args[0])
    return None if below.is_number else (above, below)


def quarter_zeros(node: Expr) -> tuple[Expr, ...]:
    """That a cosine or a sine of quarter turns is not 0, a factor of it: no float is π/2, and its cosine is 6e-17."""
    if not (isinstance(node, (sp.cos, sp.sin)) and node.args[0].has(sp.pi)):
        return ()
    turns = sp.together(2 * node.args[0] / sp.pi)
    if turns.has(sp.pi) or not turns.free_symbols:
        return ()
    above, below = sp.fraction(turns)
    zero = below if isinstance(node, sp.cos) else sp.S.Zero
    return (Bracket(sp.Ne(sp.Mod(above, 2 * below, evaluate=False), zero, evaluate=False)),)


def apart(relation: Expr) -> tuple[Expr, Expr]:
    """The two sides of a condition, indices that are subtracted moved to the other one: none is laid out on a grid."""
    gap = line(relation.lhs - relation.rhs)
    if gap is None or len(gap.slopes) < 2:
        left, right = relation.args
        return left, right
    left = sum((slope * k for k, slope in gap.slopes if slope > 0), gap.constant)
    return left, sum((-slope * k for k, slope in gap.slopes if slope < 0), sp.S.Zero)


def one_hot(factor: Expr, factors: Sequence[Expr], bound: Sequence[Index], size: Callable[[Size], int]) -> bool:
    """Whether ``factor`` is δ(a number, p) for a place that there is, p standing nowhere else."""
    if not isinstance(factor, sp.KroneckerDelta):
        return False
    place, index = sorted(factor.args, key=lambda a: isinstance(a, Index))
    if not (place.is_Integer and isinstance(index, Index) and index not in bound):
        return False
    return 0 <= place < size(index.size) and not any(index in free_indices(f) for f in factors if f is not factor)
