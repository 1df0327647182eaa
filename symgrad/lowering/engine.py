"""What plays a plan: NumPy here, others where they are at home.

Comes in: nothing. Goes out: `Engine`, the few things that differ from one library of arrays to the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.lowering.arrays import NUMPY, Primitives

LIGHT = 1 << 15
"""Bytes up to which a result that never changes is kept."""


@dataclass(frozen=True, eq=False)
class Engine:
    """``array`` makes one of its own arrays of NumPy's; ``light``: whether keeping a result costs hardly any memory.

    ``writes``: whether arrays may be written into, which nobody reads any more.
    """

    primitives: Primitives
    array: Callable[[Any], Any]
    add: Callable[[Any, Any], Any]
    light: Callable[[Any], bool]
    writes: bool


def is_light(value: Any) -> bool:
    """A view, or a small array."""
    return np.asarray(value).nbytes < LIGHT or (isinstance(value, np.ndarray) and not value.flags.owndata)


def as_it_is(value: Any) -> Any:
    """NumPy's own."""
    return value


ON_NUMPY = Engine(NUMPY, as_it_is, np.add, is_light, True)

__all__ = ["LIGHT", "ON_NUMPY", "Engine"]
