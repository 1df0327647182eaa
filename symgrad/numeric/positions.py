"""Whether the positions that an equation reads are places of the axes that it reads or writes them on.

Comes in: the equation of an operation that has no forward of its own, the arrays it reads, the numbers of its sizes.
What stands alone as an index, ``x[n[i]]``, or is compared with one, ``δ(n[i], p)``, has to be a whole number from 0 up
that is on that axis; of one taken modulo its size negative ones count from the end. Raises `IndexError` for any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import sympy as sp

from symgrad.indexing import Equation, Index, Ravel, Unravel
from symgrad.indexing.symbols import Expr, indices_of, is_access, name_of
from symgrad.lowering.reading import number
from symgrad.numeric.exact import Array
from symgrad.ops.moving.positions import from_zero, positions
from symgrad.shapes import Size


def check_places(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> None:
    """Raise `IndexError` for the first position that is not there."""
    for place, count in places(equation.right, arrays, sizes):
        from_end = isinstance(place, sp.Mod)
        entry = place.args[0] if from_end else place
        if is_access(entry):
            found = (positions if from_end else from_zero)(arrays[name_of(entry)])
            outside = found[(found < -count) | (found >= count)]
            if outside.size:
                raise IndexError(f"index {outside[0]} is out of bounds for an axis with size {count}")


def places(right: Expr, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Iterator[tuple[Expr, int]]:
    """What stands as an index or is compared with one, and how long the axis is."""
    for node in sp.preorder_traversal(right):
        if is_access(node):
            yield from zip(indices_of(node), np.shape(arrays[name_of(node)]), strict=True)
        elif isinstance(node, Unravel):
            yield node.args[1], int(np.prod([number(size, sizes) for size in node.args[2:]]))
        elif isinstance(node, sp.KroneckerDelta):
            for place, other in (node.args, node.args[::-1]):
                if isinstance(other, Index):
                    yield place, number(other.size, sizes)
                elif isinstance(other, Ravel):
                    shape = other.args[len(other.args) // 2 :]
                    yield place, int(np.prod([number(size, sizes) for size in shape]))
