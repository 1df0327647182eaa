"""Seeds and changes as users give them, as arrays.

Comes in: a tensor, an array, nested lists, or nothing. Goes out: an array of the shape that is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ShapeError, seed_apart
from symgrad.language.outside import arguments
from symgrad.numeric import Array
from symgrad.numeric.exact import as_float
from symgrad.tracing.record.trace import as_array


def seed_array(seed: Any, output: Array, name: str) -> Array:
    """A seed as an array of the output's shape."""
    shape = output.shape
    if seed is None:
        if int(np.prod(shape, dtype=object)) != 1:
            raise ShapeError(
                f"{name} has {int(np.prod(shape, dtype=object))} entries: a seed says how much each of them counts",
                hints=(f"a seed of shape {shape}", f"np.ones({shape}) for the gradient of the sum"),
            )
        return np.ones(shape)
    array = numbers(seed)
    if array.shape != shape:
        raise seed_apart(array.shape, name, shape)
    return array


def numbers(value: Any) -> Array:
    """Numbers from a tensor, an array or nested lists; exactness is kept for integers."""
    try:
        array = as_array(value) if hasattr(value, "detach") else np.asarray(value)
        if np.iscomplexobj(array):
            array = np.stack([array.real, array.imag], axis=-1)
        return array if np.issubdtype(array.dtype, np.integer) else as_float(array)
    except (TypeError, ValueError, OverflowError, RuntimeError, RecursionError):
        raise arguments.wrong(value, "weights and changes have to be numbers", "[[1, 2], [3, 4]]") from None


__all__ = ["numbers", "seed_array"]
