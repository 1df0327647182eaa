"""Matrix algebra over index expressions, so that an equation between matrices reads as one.

``of(x, at)`` is the matrix that the last two axes of ``x`` hold, at the batch indices in ``at``; ``@``, ``+``, ``-``
and ``.T`` make new ones; ``m[i, k]`` is an entry as an index expression.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import DomainError, UndefinedError
from symgrad.indexing import Index, add_up, delta, fresh, fresh_axes
from symgrad.indexing.brackets import bracket
from symgrad.indexing.symbols import Expr
from symgrad.ops.moving.arranging import at_least
from symgrad.ops.spec import View
from symgrad.shapes import Shape, Size, Sizes


@dataclass(frozen=True)
class Matrix:
    """Its sizes, and its entry at a row and a column."""

    rows: Size
    columns: Size
    entry: Callable[[Index, Index], Expr]

    def __getitem__(self, at: tuple[Index, Index]) -> Expr:
        return self.entry(*at)

    @property
    def T(self) -> Matrix:  # noqa: N802  # as everybody calls it
        """The transpose."""
        return Matrix(self.columns, self.rows, lambda i, k: self[k, i])

    def __matmul__(self, other: Matrix) -> Matrix:
        def entry(i: Index, k: Index) -> Expr:
            j = fresh("j", self.columns)
            return add_up(self[i, j] * other[j, k], [j])

        return Matrix(self.rows, other.columns, entry)

    def __add__(self, other: Matrix) -> Matrix:
        return Matrix(self.rows, self.columns, lambda i, k: self[i, k] + other[i, k])

    def __sub__(self, other: Matrix) -> Matrix:
        return Matrix(self.rows, self.columns, lambda i, k: self[i, k] - other[i, k])

    def weighed(self, weight: Callable[[Index, Index], Expr]) -> Matrix:
        """Every entry times its weight."""
        return Matrix(self.rows, self.columns, lambda i, k: self[i, k] * weight(i, k))

    @property
    def symmetric(self) -> Matrix:
        """(x + xᵀ)/2, which is x where x is symmetric: nothing flows to the rest."""
        return (self + self.T).weighed(lambda i, k: sp.Rational(1, 2))


def of(view: View, at: tuple[Index, ...], rows: Size, columns: Size) -> Matrix:
    """The matrices in the last two axes of ``view``."""
    return Matrix(rows, columns, lambda i, k: view[(*at, i, k)])


def identity(size: Size) -> Matrix:
    """1 on the diagonal."""
    return Matrix(size, size, delta)


def below(i: Index, k: Index) -> Expr:
    """1 under the diagonal."""
    return bracket(sp.Lt(k - i, 0, evaluate=False))


def above(i: Index, k: Index) -> Expr:
    """1 over the diagonal."""
    return bracket(sp.Gt(k - i, 0, evaluate=False))


def axes_of(x: View, *sizes: Size) -> tuple[Index, ...]:
    """New indices over the leading axes of ``x`` and then ``sizes``."""
    batch = x.shape[:-2]
    return fresh_axes((*batch, *sizes), "bcdeik"[4 - len(batch) : 4] + "ik")


# Shapes and values that the entries share --------------------------------------------------------------------


def square(sizes: Sizes, shapes: tuple[Shape, ...], **options: Any) -> Shape:
    """The shape of a matrix, or of a stack of them, with as many rows as columns."""
    shape = at_least(shapes[0], 2)
    sizes.unify(shape[-2], shape[-1])
    return shape


def batch_of_square(sizes: Sizes, shapes: tuple[Shape, ...], **options: Any) -> Shape:
    """One number for each square matrix."""
    return square(sizes, shapes)[:-2]


def inverted(x: Any) -> Any:
    """NumPy's inverse; a matrix that has none is refused."""
    try:
        return np.linalg.inv(np.asarray(x, float))
    except np.linalg.LinAlgError:
        raise DomainError(
            "this matrix has no inverse", hints=("its rows must not be multiples or sums of each other",)
        ) from None


ASYMMETRY = 1e-5
"""How far from symmetric a matrix may be and still be taken for it: differences need to move one entry a little."""


def checked_symmetric(x: Any) -> Any:
    """(x + xᵀ)/2 of a matrix that is symmetric but for rounding; refuses any other."""
    x = np.asarray(x, float)
    turned = np.swapaxes(x, -1, -2)
    if x.size and np.max(np.abs(x - turned)) > ASYMMETRY * max(1.0, float(np.max(np.abs(x)))):
        raise DomainError("this matrix is not symmetric", hints=("(x + x.T) / 2 is",))
    return (x + turned) / 2


APART = 1e-10
"""Values nearer to each other than this share of the largest count as equal."""


def apart(values: Any, what: str) -> Any:
    """``values`` if no two along the last axis are equal; what belongs to equal ones has no derivative."""
    values = np.asarray(values, float)
    if values.shape[-1] > 1 and values.size:
        gaps = np.abs(np.diff(np.sort(values, axis=-1), axis=-1))
        largest = np.max(np.abs(values), axis=-1, keepdims=True)
        if np.any(gaps <= APART * np.maximum(largest, np.finfo(float).tiny)):
            raise UndefinedError(
                f"two {what} are equal: which is which changes with the direction, so there is no derivative",
                hints=("what does not ask which is which has one: eigvalsh, svdvals, trace, det, matrix_norm",),
            )
    return values


LEADING = 0.37
"""An entry leads its column when it is at least this share of the largest; no simple fraction, so ties are rare."""


def column_signs(columns: Any) -> Any:
    """The sign for each column that makes its first leading entry positive.

    An eigenvector's sign is nobody's choice: LAPACK's differs between builds, so neither NumPy's nor torch's is taken.
    """
    columns = np.asarray(columns)
    if not columns.size:
        return np.ones((*columns.shape[:-2], 1, columns.shape[-1]))
    sizes = np.abs(columns)
    first = np.argmax(sizes >= LEADING * sizes.max(axis=-2, keepdims=True), axis=-2)
    return np.where(np.take_along_axis(columns, np.expand_dims(first, -2), axis=-2) < 0, -1.0, 1.0)
