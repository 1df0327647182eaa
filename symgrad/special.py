"""`scipy.special`, loaded at the first call: importing it takes as long as NumPy, and most runs do not need it.

``special.expit`` is a stand-in that can be put into a table; calling it calls SciPy's function.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def __getattr__(name: str) -> Callable[..., Any]:
    """SciPy's function called ``name``, not yet loaded."""
    if name.startswith(("_", "pytest")):  # not functions of SciPy: pytest asks every module for its own names
        raise AttributeError(name)

    def function(*arguments: Any, **options: Any) -> Any:
        return getattr(importlib.import_module("scipy.special"), name)(*arguments, **options)

    function.__name__ = name
    return function
