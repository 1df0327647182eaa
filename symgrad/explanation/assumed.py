"""What was assumed in reading a text, in sentences, and how to change it.

Comes in: a reading and the inputs as they are used. Goes out: what the page says above everything else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from symgrad.errors import InputError
from symgrad.explanation.given import Given
from symgrad.language import Reading
from symgrad.ways import Setting

KINDS = {0: ("a number", "numbers"), 1: ("a vector", "vectors"), 2: ("a matrix", "matrices")}


def assumptions_of(reading: Reading, inputs: Sequence[Given]) -> tuple[str, ...]:
    """What was assumed about values, sizes and ranks, in sentences."""
    result = []
    assumed = {g.name: (g.value == 1).all() for g in inputs if not g.value_given}
    for ones, what in ((True, "ones"), (False, "a matrix of ones with 1, 2, 3, … added on the diagonal")):
        names = [name for name, all_ones in assumed.items() if all_ones == ones]
        if names:
            result.append(f"{listed(names)} {'are' if len(names) > 1 else 'is'} {what}")
    sizes: dict[int, list[str]] = {}
    for name, axis, number in reading.assumed_sizes:
        sizes.setdefault(number, []).append(f"axis {axis} of {name}")
    result += [f"the size of {listed(places)} is {number}" for number, places in sizes.items()]
    ranks: dict[int, list[str]] = {}
    for name, rank in reading.assumed_ranks:
        ranks.setdefault(rank, []).append(name)
    for rank, names in ranks.items():
        one, many = KINDS.get(rank, (f"a tensor with {rank} axes", f"tensors with {rank} axes"))
        result.append(f"{listed(names)} are {many}" if len(names) > 1 else f"{names[0]} is {one}")
    return tuple(result)


def hints_of(reading: Reading, inputs: Sequence[Given]) -> tuple[Setting, ...]:
    """How to change what was assumed."""
    result = []
    ones = [g.name for g in inputs if not g.value_given]
    if ones:
        result.append(Setting("let", ones[0]))
    changeable = [name for name, _, _ in reading.assumed_sizes] + [name for name, _ in reading.assumed_ranks]
    if changeable:
        name = changeable[0]
        shape = next(g.value.shape for g in inputs if g.name == name)
        result.append(Setting("shape", name, ",".join(map(str, other_shape(shape, name, reading)))))
    return tuple(result)


OUTSIDE = re.compile(r"index (\d+) is out of bounds for .* size (\d+)$")
"""What NumPy says of a position beyond an axis, and `symgrad.numeric.positions` after it."""


def with_room(error: InputError, reading: Reading, inputs: Sequence[Given]) -> InputError:
    """``error`` with a shape in which its position lies, where an assumed size may be too small for it."""
    beyond = next(filter(None, map(OUTSIDE.search, error.found)), None)
    if beyond is None or error.hints:
        return error
    least, size = int(beyond[1]) + 1, int(beyond[2])
    shapes = {g.name: list(g.value.shape) for g in inputs}
    for name, axis, number in reading.assumed_sizes:
        if number == size:
            larger = [least if at == axis else n for at, n in enumerate(shapes[name])]
            error.hints = (*error.hints, Setting("shape", name, ",".join(map(str, larger))))
    return error


def other_shape(shape: Sequence[int], name: str, reading: Reading) -> list[int]:
    """A shape with the last size that was assumed one larger, on each axis that has the same."""
    assumed = {axis: number for of, axis, number in reading.assumed_sizes if of == name}
    last = assumed[max(assumed)] if assumed else None
    return [n + 1 if assumed.get(axis) == last is not None else n for axis, n in enumerate(shape)]


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
