"""What was assumed in reading a text, in sentences, and how to change it.

Comes in: a reading and the inputs as they are used. Goes out: what the page says above everything else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from symgrad.errors import InputError
from symgrad.explanation.given import Given, Seed
from symgrad.language import Reading
from symgrad.language.steps.complaints import shape_in_words
from symgrad.numeric.arranged import ONES
from symgrad.ways import Setting

KINDS = {0: ("a number", "numbers"), 1: ("a vector", "vectors"), 2: ("a matrix", "matrices")}


def assumptions_of(reading: Reading, inputs: Sequence[Given], seed: Seed | None = None) -> tuple[str, ...]:
    """What was assumed about values, sizes and ranks, in sentences."""
    assumed = {g.name: g.words for g in inputs if not g.value_given}
    if seed is not None and seed.origin == "assumed":
        assumed[reading.program.seed] = ONES
    filled: dict[str, list[str]] = {}
    for name, words in sorted(assumed.items(), key=lambda pair: pair[1] != ONES):
        filled.setdefault(words, []).append(name)
    alone = {g.name: str(g.value.item()) for g in inputs if g.value.shape == () and not g.value_given}
    result = [
        f"{names[0]} is {alone.get(names[0], words)}" if len(names) == 1 else f"{listed(names)} are {of_many(words)}"
        for words, names in filled.items()
    ]
    open_sized = {name for name, _, _ in reading.assumed_sizes}
    program = reading.program
    sized = [(t.name, [*map(str, program.numbers(t.shape))]) for t in program.inputs if t.name in open_sized]
    if sized:
        result.append(", ".join(f"{name} is {shape_in_words(shape)}" for name, shape in sized))
    ranks: dict[int, list[str]] = {}
    for name, rank in reading.assumed_ranks:
        if name not in open_sized:
            ranks.setdefault(rank, []).append(name)
    for rank, names in ranks.items():
        one, many = KINDS.get(rank, (f"a tensor with {rank} axes", f"tensors with {rank} axes"))
        result.append(f"{listed(names)} are {many}" if len(names) > 1 else f"{names[0]} is {one}")
    return tuple(result)


def of_many(words: str) -> str:
    """What one tensor is filled with, said of several."""
    return f"{words}, one after the other" if words.endswith("…") else words.replace("a matrix", "matrices")


def hints_of(reading: Reading, inputs: Sequence[Given], seed: Seed) -> tuple[Setting, ...]:
    """How to change what was assumed."""
    result = []
    ones = [g.name for g in inputs if not g.value_given]
    if ones:
        result.append(Setting("let", ones[0]))
    if seed.origin == "assumed":
        result.append(Setting("seed"))
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
