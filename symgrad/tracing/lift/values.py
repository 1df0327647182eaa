"""The value of one step of a lifted program, and the integers that its formulas read.

Comes in: a step and the values it reads. Goes out: its own value, put beside them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from symgrad.calculus.local import known_name, standard_at
from symgrad.numeric.exact import Array, as_float
from symgrad.numeric.forward import Values, apply, constant, options_of, pulled_as
from symgrad.ops.entry import named
from symgrad.program import Apply, Pullback
from symgrad.shapes import Shape


def evaluate(step: Apply, arrays: dict[str, Array]) -> None:
    """Put the value of ``step``, and the integers it holds, into ``arrays``."""
    op = named(step.op)
    if not isinstance(step.op, Pullback) and (op.known or op.numpy is not None):
        options = options_of(step, {})
        arguments: list[Any] = [arrays[a] if isinstance(a, str) else constant(a, {}) for a in step.arguments]
        for key, rule in op.known.items():
            known = rule(*arguments, **options)
            if known is not None:
                arrays[known_name(step, key)] = np.asarray(known)
        if op.numpy is not None:
            with np.errstate(all="ignore"):
                arrays[step.result.name] = apply(op.numpy, [_plain(a) for a in arguments], options)
            return
    shapes = tuple(sizes_of(arrays[a].shape) if isinstance(a, str) else None for a in step.arguments)
    arrays[step.result.name] = pulled_as(standard_at(step, shapes), step, Values(arrays, {}))


@lru_cache(maxsize=1024)
def sizes_of(shape: tuple[int, ...]) -> Shape:
    """The numbers of a shape as sizes."""
    return tuple(map(sp.Integer, shape))


def _plain(array: Any) -> Any:
    """Exact constants as they are, everything else in floats where it is no integer."""
    if array is None:
        return None  # an operand that was left out
    return array if array.dtype == object or not np.issubdtype(array.dtype, np.floating) else as_float(array)


__all__ = ["evaluate"]
