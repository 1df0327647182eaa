"""A call of the user's beside the steps that say what it does.

Comes in: the call, as torch can be asked for its local product. Goes out: an `Origin`. It stands apart from the black
boxes, which are such calls, so that a sweep that asks none of them loads no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from symgrad.numeric.exact import Array
from symgrad.tracing.record.trace import Call, Node


class Local(Protocol):
    """One result of one call, and torch's own vᵀJ of it; ``names`` are what the program calls its arguments."""

    @property
    def names(self) -> tuple[str, ...]:
        """What the program calls its arguments."""

    @property
    def call(self) -> Call:
        """The call, with the values it read."""

    @property
    def index(self) -> int:
        """Which of its results."""

    @property
    def arguments(self) -> tuple[Node, ...]:
        """The nodes that it differentiates by."""

    def pull(self, cotangent: Array, wanted: Sequence[int]) -> dict[int, Array]:
        """vᵀJ by the ``wanted`` arguments, from torch."""


@dataclass(frozen=True, eq=False)
class Origin:
    """One call of the user's: the steps that say what it does, in order, and the call itself."""

    box: Local
    steps: tuple[str, ...]
