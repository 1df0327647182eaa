"""Loading what a verb needs before it works: the collector of garbage looks at none of it.

Packages and tables live as long as the process. Walking over them while they load, with each derivation and once more
on leaving takes a fifth of the time of a short command.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

NEEDED = ("sympy.tensor.tensor", "symgrad.language", "symgrad.explanation", "symgrad.render")
"""What every derivation imports; SymPy itself loads its tensors with the first sum."""


@contextmanager
def loading() -> Iterator[None]:
    """Imports inside are looked at by no collector, once in a process; one that has SymPy keeps its own ways."""
    if "sympy" in sys.modules:
        yield
        return
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collecting:
            gc.enable()


@loading()
def load(*more: str) -> None:
    """What every derivation imports, and ``more``."""
    for name in (*NEEDED, *more):
        import_module(name)
