"""`scipy.special`, loaded at the first call: importing it takes as long as NumPy, and most runs do not need it.

``special.expit`` is a stand-in that can be put into a table; calling it calls SciPy's function. Two of them are wrong
next to 0, where ``iv`` underflows to NaN and ``gammaln`` to infinity; there each is the first term of its series.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

TINY = 1e-290
"""Below this the first term of a series is all of it."""


def __getattr__(name: str) -> Callable[..., Any]:
    """SciPy's function called ``name``, not yet loaded."""
    if name.startswith(("_", "pytest")):  # not functions of SciPy: pytest asks every module for its own names
        raise AttributeError(name)

    def function(*arguments: Any, **options: Any) -> Any:
        return _scipy(name)(*arguments, **options)

    function.__name__ = name
    return function


def _scipy(name: str) -> Callable[..., Any]:
    """SciPy's function itself."""
    found: Callable[..., Any] = getattr(importlib.import_module("scipy.special"), name)
    return found


def iv(order: Any, x: Any) -> Any:
    """Iₙ(x), (x/2)ⁿ next to 0."""
    tiny = np.abs(x) < TINY
    return np.where(tiny, np.power(np.where(tiny, x, 0.0) / 2, order), _scipy("iv")(order, np.where(tiny, 0.0, x)))


def gammaln(x: Any) -> Any:
    """log|Γ(x)|, −log|x| next to 0."""
    tiny = (np.abs(x) < TINY) & (np.asarray(x) != 0)
    return np.where(tiny, -np.log(np.abs(np.where(tiny, x, 1.0))), _scipy("gammaln")(np.where(tiny, 1.0, x)))
