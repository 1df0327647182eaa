"""Room for long sums: what four hundred steps of a loop read has a line of four hundred terms.

As Python's syntax tree it is as deep as it is long, and whatever walks it nests as deep. A stack that is too small for
that would end the process, so the room is given only where the system says that there is enough of it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from symgrad.errors import UnsupportedError
from symgrad.program import Program

FRAMES = 8
"""How many calls of Python's one level takes at most."""
LONGEST = 1000
"""Terms of a sum that there is room for: at 2,600 the stack below is still enough, at 1/8 of it no longer."""
STACK = 8 * 1024**2
"""Bytes of stack that systems give by default."""


@contextmanager
def room_for(program: Program) -> Iterator[None]:
    """Inside, Python lets calls nest as deep as the longest sum of a backward of ``program``.

    Raises `UnsupportedError` for sums that are longer, or where the stack is small.
    """
    uses = Counter(name for step in program.steps for name in step.tensors)
    terms, before = max(uses.values(), default=0), sys.getrecursionlimit()
    too_long = UnsupportedError(f"a sum of {terms:,} terms is longer than a line that Python reads")
    if terms > LONGEST:
        raise too_long
    if has_stack():
        sys.setrecursionlimit(before + FRAMES * terms)
    try:
        yield
    except RecursionError:
        raise too_long from None
    finally:
        sys.setrecursionlimit(before)


def has_stack() -> bool:
    """Whether this system says that its stack is as large as it is elsewhere."""
    try:
        import resource
    except ImportError:  # on Windows, where it is smaller
        return False
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return soft == resource.RLIM_INFINITY or soft >= STACK


__all__ = ["room_for"]
