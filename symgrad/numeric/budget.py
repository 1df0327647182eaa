"""What would not fit is refused before it is allocated: the tensors of a program, and the grids of indices.

Comes in: shapes in numbers. Goes out: nothing, or an `InputError` that says how large it would have been.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from symgrad.errors import InputError
from symgrad.program import Apply, Program
from symgrad.shapes import with_numbers

MOST_ENTRIES = 3_000_000
"""Entries of all tensors of a program that is explained from a text."""
MOST_HELD = 100_000_000
"""Entries of all tensors of any program."""
MOST_IN_GRID = 30_000_000
"""Points of the largest grid of indices that is ever laid out."""
MOST_EXACT = 16_384
"""Entries of all tensors of a program that is computed in fractions."""


MEMORY = 1_000_000_000
"""Bytes that numbers may take unless more or less is said; the limits above are meant for so many."""
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}

_memory: ContextVar[int] = ContextVar("bytes that numbers may take", default=MEMORY)


def memory() -> int:
    """The bytes that numbers may take."""
    return _memory.get()


def allowed(most: int) -> int:
    """A limit that is meant for `MEMORY`, for the memory that there is."""
    return most * memory() // MEMORY


@contextmanager
def memory_of(size: int | str) -> Iterator[None]:
    """Numbers may take ``size`` bytes inside the block: a number, or a text such as ``"500M"`` or ``"4GB"``.

    Raises `InputError` for what is no size.

    >>> with memory_of("4GB"):
    ...     memory(), allowed(25_000_000)
    (4000000000, 100000000)
    """
    before = _memory.set(bytes_of(size))
    try:
        yield
    finally:
        _memory.reset(before)


def bytes_of(size: int | str) -> int:
    """A size in bytes; raises `InputError` for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", str(size), re.IGNORECASE | re.ASCII)
    found = int(float(match[1]) * UNITS[match[2].lower()]) if match and not isinstance(size, bool) else 0
    if not 0 < found < 2**62:
        raise InputError("memory is a number of bytes", found=(str(size)[:60],), hints=("500M", "4G"))
    return found


def entries(program: Program) -> tuple[int, Apply | None]:
    """How many entries the tensors of ``program`` have together, and the step with the largest result."""
    counts = program.entries
    largest = max(program.steps, key=lambda step: counts[step.result.name], default=None)
    return sum(counts.values()), largest


def check_entries(count: int, most: int) -> None:
    """Refuse so many entries where they are more than ``most``."""
    if count > allowed(most):
        raise InputError("this is too large to be computed", found=(f"{count:,} entries",))


def check_program(program: Program, most: int = MOST_ENTRIES) -> None:
    """Refuse a program whose tensors have more than ``most`` entries together."""
    total, largest = entries(program)
    most = allowed(most)
    if total <= most:
        return
    span, found = None, [f"{total:,} entries in all tensors together"]
    if largest is not None and 3 * program.entries[largest.result.name] > total:
        shape = "×".join(str(with_numbers(size, program.sizes)) for size in largest.result.shape)
        span, found = largest.span, [*found, f"{shape} here"]
    raise InputError(
        "this is too large to be computed", span=span, found=tuple(found),
        hints=(f"at most {most:,} entries; the formulas hold for every size",),
    )  # fmt: skip


def check_grid(shape: Sequence[int], most: int = MOST_IN_GRID) -> None:
    """Refuse a grid of indices with more than ``most`` points."""
    points = math.prod(shape)
    if points > allowed(most):
        raise InputError(
            "this is too large to be computed",
            found=(f"a grid of {'×'.join(map(str, shape))} = {points:,} points",),
            hints=("smaller shapes",),
        )
