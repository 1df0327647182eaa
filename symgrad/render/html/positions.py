"""Which inputs of a page hold positions, and how many there are: what torch raises an IndexError for is not computed.

Comes in: the equations of the forward pass as `symgrad.render.html.travel` writes them, and the shapes of the inputs.
Goes out: for each input whose entries say where something is read or written, the number of places there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


class ComputedError(Exception):
    """A position is no input: what may be edited cannot be said."""


def positions(equations: Sequence[Mapping[str, Any]], inputs: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """For each of the inputs, by their shapes, that holds positions, how many places it may name.

    Raises `ComputedError` where a position is computed on the way.

    >>> gather = {"name": "out", "axes": [0], "shape": [2], "tree": ["at", "x", ["at", "n", ["i", 0]]]}
    >>> positions([gather], {"x": [4], "n": [2]})
    {'n': 4}
    """
    found: dict[str, int] = {}
    shapes = dict(inputs)
    for equation in equations:
        along = dict(zip(equation["axes"], equation["shape"], strict=True))
        for place, size in read(equation["tree"], along, shapes):
            if place[0] != "at" or place[1] not in inputs:
                raise ComputedError
            found[place[1]] = min(size, found.get(place[1], size))
        shapes[equation["name"]] = equation["shape"]
    return found


def read(tree: Any, along: dict[int, int], shapes: Mapping[str, Sequence[int]]) -> Iterator[tuple[Any, int]]:
    """What stands in the place of an index and is data, with the size of its axis."""
    if not isinstance(tree, list):
        return
    if tree[0] in ("sum", "prod"):
        along[tree[1]] = tree[2]
    if tree[0] == "at":
        yield from ((i, size) for i, size in zip(tree[2:], shapes[tree[1]], strict=True) if is_data(i))
    if tree[0] == "?" and tree[1] == "=":
        for one, other in (tree[2:], tree[:1:-1]):
            if isinstance(one, list) and one[0] == "i" and is_data(other):
                yield other, along[one[1]]
    for part in tree[1:]:
        yield from read(part, along, shapes)


def is_data(tree: Any) -> bool:
    """Whether an entry of a tensor stands in it."""
    return isinstance(tree, list) and (tree[0] == "at" or any(map(is_data, tree[1:])))
