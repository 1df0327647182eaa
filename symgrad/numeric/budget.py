"""What would not fit is refused before it is allocated: the tensors of a program, and the grids of indices.

Comes in: shapes in numbers. Goes out: nothing, or an `InputError` that says how large it would have been.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

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


def entries(program: Program) -> tuple[int, Apply | None]:
    """How many entries the tensors of ``program`` have together, and the step with the largest result."""
    counts = [(count(program, step.result.shape), step) for step in program.steps]
    largest = max(counts, key=lambda pair: pair[0], default=(0, None))[1]
    return sum(n for n, _ in counts) + sum(count(program, tensor.shape) for tensor in program.inputs), largest


def count(program: Program, shape: Sequence[Any]) -> int:
    """The entries of one tensor; 0 where a size is open."""
    numbers = [with_numbers(size, program.sizes) for size in shape]
    return math.prod(int(n) for n in numbers) if all(n.is_Integer for n in numbers) else 0


def check_program(program: Program, most: int = MOST_ENTRIES) -> None:
    """Refuse a program whose tensors have more than ``most`` entries together."""
    total, largest = entries(program)
    if total <= most:
        return
    span, found = None, [f"{total:,} entries in all tensors together"]
    if largest is not None and 3 * count(program, largest.result.shape) > total:
        shape = "×".join(str(with_numbers(size, program.sizes)) for size in largest.result.shape)
        span, found = largest.span, [*found, f"{shape} here"]
    raise InputError(
        "this is too large to be computed", span=span, found=tuple(found),
        hints=(f"at most {most:,} entries; the formulas hold for every size",),
    )  # fmt: skip


def check_grid(shape: Sequence[int], most: int = MOST_IN_GRID) -> None:
    """Refuse a grid of indices with more than ``most`` points."""
    points = math.prod(shape)
    if points > most:
        raise InputError(
            "this is too large to be computed",
            found=(f"a grid of {'×'.join(map(str, shape))} = {points:,} points",),
            hints=("smaller shapes",),
        )
