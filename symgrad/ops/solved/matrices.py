"""Shapes and values that the entries share whose results solve equations between matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DomainError, UndefinedError
from symgrad.ops.moving.arranging import at_least
from symgrad.shapes import Shape, Sizes

SYMMETRIC = "s[i,j] = (x[…,i,j] + x[…,j,i])/2"
"""x where x is symmetric: nothing flows to the rest."""


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
