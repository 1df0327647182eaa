"""`scipy.special`, loaded at the first call: importing it takes as long as NumPy, and most runs do not need it.

``special.expit`` is a stand-in that can be put into a table; calling it calls SciPy's function. Two of them are wrong
next to 0, where ``iv`` underflows to NaN and ``gammaln`` to infinity; there each is the first term of its series. What
every network needs, ``log_softmax`` and ``erf`` of a few entries, is computed without SciPy.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

TINY = 1e-290
"""Below this the first term of a series is all of it."""
FEW = 2**16
"""So many entries take less time one by one than loading SciPy."""
ALONE = {own.__name__: np.frompyfunc(own, 1, 1) for own in (math.erf, math.erfc)}
"""Functions that Python has, too."""


def __getattr__(name: str) -> Callable[..., Any]:
    """SciPy's function called ``name``, not yet loaded."""
    if name.startswith(("_", "pytest")):  # not functions of SciPy: pytest asks every module for its own names
        raise AttributeError(name)

    def function(*arguments: Any, **options: Any) -> Any:
        if name in ALONE and np.size(arguments[0]) <= FEW and not np.iscomplexobj(arguments[0]):
            return np.asarray(ALONE[name](arguments[0]), float)
        return _scipy(name)(*arguments, **options)

    function.__name__ = name
    return function


def _scipy(name: str) -> Callable[..., Any]:
    """SciPy's function itself."""
    found: Callable[..., Any] = getattr(importlib.import_module("scipy.special"), name)
    return found


def log_softmax(x: Any, axis: int) -> Any:
    """x − log Σ exp x along an axis."""
    top = np.max(x, axis=axis, keepdims=True)
    shifted = x - np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):  # where nothing but −∞ stands
        return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def iv(order: Any, x: Any) -> Any:
    """Iₙ(x), (x/2)ⁿ next to 0."""
    tiny = np.abs(x) < TINY
    return np.where(tiny, np.power(np.where(tiny, x, 0.0) / 2, order), _scipy("iv")(order, np.where(tiny, 0.0, x)))


def gammaln(x: Any) -> Any:
    """log|Γ(x)|, −log|x| next to 0."""
    tiny = (np.abs(x) < TINY) & (np.asarray(x) != 0)
    return np.where(tiny, -np.log(np.abs(np.where(tiny, x, 1.0))), _scipy("gammaln")(np.where(tiny, 1.0, x)))
