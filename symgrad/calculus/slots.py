"""Which whole numbers among an operation's options are positions, so that one derivation serves all of them.

Comes in: an entry, the shapes of its operands and its options. Goes out: the options with a `Slot` for each position,
what stands there, and the largest number that may. Positions from the front and from the end are two families:
``x[3]`` and ``x[5]`` are one formula, ``x[-3]`` and ``x[-5]`` another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from symgrad.ops.entry import entry_of
from symgrad.program import Operation, Option
from symgrad.shapes import Shape, Size, Slot


@dataclass
class Slots:
    """The slots of some steps, in order: ``found`` is the position in each, ``most`` the largest."""

    found: dict[Slot, Any] = field(default_factory=dict)
    most: dict[Slot, Size] = field(default_factory=dict)

    def open(self, position: Any, most: Size) -> Size:
        """A slot for a position from 0 to ``most``; for one from the end, −1 − a slot."""
        if not position >= 0:
            return -1 - self.open(-1 - position, most)
        slot = Slot(len(self.found))
        self.found[slot], self.most[slot] = position, most
        return slot

    def opened(self, op: Operation, shapes: Sequence[Shape | None], options: tuple[Option, ...]) -> tuple[Option, ...]:
        """The options of a step with slots for its positions."""
        entry = entry_of(op) if isinstance(op, str) else None
        if entry is None or entry.slots is None:
            return options
        return tuple({**dict(options), **entry.slots(self.open, shapes, **dict(options))}.items())
