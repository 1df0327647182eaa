"""What an index expression can be at most, in numbers: a condition that always holds is none.

Comes in: a relation between index expressions, and the numbers of sizes. Goes out: whether it holds for every index.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import sympy as sp

from symgrad.indexing import Index, Ravel, Unravel
from symgrad.indexing.symbols import Expr
from symgrad.shapes import Size

Number = Callable[[Size], int]


def holds_always(relation: Expr, number: Number) -> bool:
    """Whether a relation holds whatever the indices are."""
    left, right = (reach(a, number) for a in relation.args)
    if left is None or right is None:
        return False
    kind = type(relation)
    if kind is sp.Lt:
        return left[1] < right[0]
    if kind is sp.Le:
        return left[1] <= right[0]
    if kind is sp.Gt:
        return left[0] > right[1]
    return kind is sp.Ge and left[0] >= right[1]


def reach(node: Expr, number: Number) -> tuple[int, int] | None:
    """The least and the greatest that an index expression can be; None for anything else."""
    if node.is_Integer:
        return int(node), int(node)
    if isinstance(node, Index):
        return 0, number(node.size) - 1
    if isinstance(node, Ravel):
        return 0, math.prod(map(number, node.shape)) - 1
    if isinstance(node, Unravel):
        return 0, number(node.shape[node.axis]) - 1
    if node.is_Symbol:
        return number(node), number(node)
    if not (node.is_Add or node.is_Mul):
        return None
    parts = [reach(a, number) for a in node.args]
    found = [p for p in parts if p is not None]
    if len(found) < len(parts):
        return None
    if node.is_Add:
        return sum(p[0] for p in found), sum(p[1] for p in found)
    least, greatest = found[0]
    for low, high in found[1:]:
        ends = (least * low, least * high, greatest * low, greatest * high)
        least, greatest = min(ends), max(ends)
    return least, greatest
