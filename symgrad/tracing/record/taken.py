"""Numbers that a program took out of tensors: from there on they are Python's or NumPy's, and no path leads back.

Comes in: a call that hands out numbers, the node it asked, what it gave. Goes out: a `Cut` for each number, by which
a constant of a later program is known again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.tracing.record import frames
from symgrad.tracing.record.cuts import leaves_of
from symgrad.tracing.record.trace import Cut, Node

HANDS_OUT = {f"Tensor.{word}": f".{word}()" for word in ("item", "tolist", "numpy")} | {"Tensor.__float__": "float(…)"}
"""The calls that hand out numbers, as their line writes them."""
MOST, KEPT = 1024, 8192
"""Numbers of one tensor that are kept, and of all."""


class Taken:
    """The numbers that were handed out, each with where that was."""

    def __init__(self) -> None:
        self.cuts: dict[float, Cut] = {}

    def note(self, spelling: str, nodes: Mapping[Any, Node], asked: Sequence[Any], given: Any) -> None:
        """What a call that hands out numbers gave of a tensor that a path leads to, or led to."""
        node = nodes.get(asked[0])
        if node is None or (node.kind == "data" and node.cut is None):
            return
        where = frames.here()
        leaves = leaves_of([node]) if node.kind != "data" or node.cut is None else node.cut.leaves
        for number in numbers_in(given):
            self.cuts[number] = Cut(HANDS_OUT[spelling], where, leaves, True)
        while len(self.cuts) > KEPT:
            del self.cuts[next(iter(self.cuts))]


def numbers_in(given: Any) -> Iterator[float]:
    """The first numbers of what was handed out that nobody writes by hand: 0.5 and 3.0 are no news."""
    values = given.reshape(-1)[:MOST].tolist() if isinstance(given, np.ndarray) else given
    for value in values[:MOST] if isinstance(values, list) else [values]:
        if isinstance(value, list):
            yield from numbers_in(value)
        elif isinstance(value, float) and len(repr(value)) > len("-0.0001"):
            yield value
