"""Loading what a verb needs before it works: the collector of garbage looks at none of it.

Packages and tables live as long as the process. Walking over them while they load, with each derivation and once more
on leaving takes a fifth of the time of a short command.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module

NEEDED = ("sympy.tensor.tensor", "symgrad.language", "symgrad.explanation.assemble", "symgrad.render")
"""What every derivation imports; SymPy itself loads its tensors with the first sum."""


def load() -> None:
    """Import it, once in a process; one that has SymPy already, as a notebook has, keeps its own ways."""
    if "sympy" in sys.modules:
        return
    collecting = gc.isenabled()
    gc.disable()
    try:
        for name in NEEDED:
            import_module(name)
    finally:
        gc.freeze()
        if collecting:
            gc.enable()
