"""Room for long sums: what four hundred steps of a loop read has a line of four hundred terms.

As Python's syntax tree it is as deep as it is long, and whatever walks it nests as deep.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from symgrad.program import Program

FRAMES = 8
"""How many calls of Python's one level takes at most."""


@contextmanager
def room_for(program: Program) -> Iterator[None]:
    """Inside, Python lets calls nest as deep as the longest sum of a backward of ``program``."""
    uses = Counter(name for step in program.steps for name in step.tensors)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + FRAMES * max(uses.values(), default=0))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


__all__ = ["room_for"]
