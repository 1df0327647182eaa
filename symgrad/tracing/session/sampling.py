"""Which calls of the same program are checked in full: a few at first, then fewer and fewer.

Comes in: what was recorded behind a call. Goes out: a fingerprint, equal for calls that did the same with tensors of
the same shapes, and whether the n-th call with that fingerprint is one to be checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from symgrad.tracing.record.trace import Node

ALWAYS = 3
"""So many calls of the same program are checked, however long they take."""
OFTEN = 40
"""Programs from one line after which also others are only looked at now and then."""
ALIKE = 8
"""Programs from one line that differ in numbers alone, as a factor that grows, after which others of them are."""
STEPS = (1, 2, 5)
"""After these, the ones whose number is one of these times a power of ten."""


def is_checked(count: int) -> bool:
    """Whether the ``count``-th call of a program is checked in full.

    >>> [n for n in range(1, 250) if is_checked(n)]
    [1, 2, 3, 5, 10, 20, 50, 100, 200]
    """
    power = 10 ** (len(str(count)) - 1)
    return count <= ALWAYS or (count % power == 0 and count // power in STEPS)


class Sampling:
    """How many programs each line ran, and how often each of them."""

    def __init__(self) -> None:
        self.lines: Counter[Hashable] = Counter()
        self.programs: Counter[Hashable] = Counter()
        self.alike: Counter[Hashable] = Counter()

    def chosen(self, line: Hashable, order: Sequence[Node]) -> bool:
        """Whether this call is to be checked; counts it."""
        program = (line, fingerprint(order))
        self.programs[program] += 1
        if self.programs[program] > 1:
            return is_checked(self.programs[program])
        kind = (line, fingerprint(order, numbers=False))
        self.lines[line] += 1
        self.alike[kind] += 1
        if self.alike[kind] > ALIKE:
            return is_checked(self.alike[kind])
        return self.lines[line] <= OFTEN or is_checked(self.lines[line])


def fingerprint(order: Sequence[Node], numbers: bool = True) -> int:
    """What ran, by function, options, shapes and wiring; tensors count by their shapes, not by their numbers.

    Without ``numbers`` those among the options count no more than a tensor's.
    """
    places = {id(node): n for n, node in enumerate(order)}
    return hash(tuple(_about(node, places, numbers) for node in order))


def _about(node: Node, places: dict[int, int], numbers: bool) -> Hashable:
    """One node."""
    sources = tuple(places.get(id(source), -1) for source in node.sources())
    call = node.call
    about = (node.kind, tuple(node.held.shape), str(node.held.dtype), node.index, sources)
    if call is None:
        return about
    options = _options((call.arguments, call.keywords), numbers)
    return (*about, call.spelling, call.where.file, call.where.line, options)


def _options(value: Any, numbers: bool) -> Hashable:
    """Arguments but for tensors."""
    if isinstance(value, Node):
        return tuple(value.held.shape)
    if isinstance(value, (tuple, list)):
        return tuple(_options(part, numbers) for part in value)
    if isinstance(value, dict):
        return tuple((name, _options(part, numbers)) for name, part in value.items())
    if isinstance(value, slice):
        return ("slice", *(_options(part, numbers) for part in (value.start, value.stop, value.step)))
    if isinstance(value, (bool, str, type(None))) or (numbers and isinstance(value, (int, float))):
        return repr(value)
    return type(value).__name__


__all__ = ["Sampling", "fingerprint", "is_checked"]
