"""A kink or a jump that a run stands on, in words; and which of many places are such that a change there counts.

Comes in: slopes on both sides and the number that is chosen; or places, and whether a change of an array counts. Goes
out: a `Tie`; or a few of the places, one that counts at the head, found by halving.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from symgrad.numeric import Array
from symgrad.oracles.verdict import legal
from symgrad.program import Apply

Place = tuple[int, ...]
TRIED = 8
"""Entries of one step that are tried before nothing is said of it."""
ROUNDING = 1e-3
"""How well a quotient has to give a side, relative to the larger."""


@dataclass(frozen=True, eq=False)
class Tie:
    """An entry of ``name`` at which ``step`` has two slopes, or (``jump``) no value that it tends to.

    ``left``, ``here`` and ``right`` are ∂out[to]/∂name[at] as derived, ``torch`` what torch ``version`` answers;
    ``count`` is how many entries of ``name`` stand so, ``whole`` that the slopes are those of Σ v·out itself. Where
    moving all entries that tie together has one slope, ``together`` is that: what is chosen for each has to add up to
    it. ``alone`` says that this is not all that it has to do: at 0 a norm's slopes have the length 1 at most.
    """

    step: Apply
    name: str
    at: Place
    value: float
    to: Place
    left: float
    here: float
    right: float
    torch: float | None
    version: str | None
    count: int = 1
    jump: bool = False
    whole: bool = False
    together: float | None = None
    alone: bool = False

    @property
    def legal(self) -> bool:
        """Whether the choice lies between the two sides."""
        return legal(self.here, (self.left, self.right), ROUNDING)

    def says(self, name: str, step: str, total: str) -> str:
        """The tie in a sentence; ``name``, ``step`` and ``total`` are what the two and Σ v·out are called.

        ``x[0] = 0 is a kink of relu: left 0, right 1, anything between is legal; torch 2.13.0 takes 0``
        """
        entry = f"{name}[{','.join(map(str, self.at))}]" if self.at else name
        left, here, right = map(_digits, (self.left, self.here, self.right))
        who, many = f"{entry} = {_digits(self.value)}", f", one of {self.count}" if self.count > 1 else ""
        sides = f"{left} on both sides" if left == right else f"{left} on the left, {right} on the right"
        if self.whole:
            told = f"{who} is where {step} turns over: the slope of {total} is {sides}"
        elif self.jump:
            told = f"{who} is a jump of {step}{many}: its slope is {sides}, and there is none at the jump"
        else:
            told = f"{who} is a kink of {step}{many}: left {left}, right {right}, "
            told += "for it alone " if self.legal and self.alone else ""
            told += "anything between is legal" if self.legal else f"and {here} lies between neither"
            if self.legal and self.together is not None:
                told += ", and" if self.alone else " as long as"
                told += f" what is taken for all that tie adds up to {_digits(self.together)}"
        return f"{told}; {self._taken()}"

    def _taken(self) -> str:
        """What torch takes there, and symgrad where it is something else."""
        if self.torch is None:
            return f"symgrad takes {_digits(self.here)}"
        taken = f"torch {self.version} takes {_digits(self.torch)}"
        return taken if near(self.torch, self.here) else f"{taken}, symgrad {_digits(self.here)}"


@dataclass(frozen=True, eq=False)
class Passage:
    """What came back to a step, and the place among its arguments to which it was pulled."""

    step: Apply
    place: int
    weights: Array


def counting(places: Sequence[Place], shape: Place, counts: Callable[[Array], bool]) -> list[Place]:
    """Some of ``places``, the first of those where a change counts at the head: they are halved until one is left."""
    drawn = np.random.default_rng(6).uniform(0.5, 1.5, len(places))

    def change(some: Sequence[int]) -> Array:
        array: Array = np.zeros(shape)
        for n in some:
            array[places[n]] = drawn[n]
        return array

    left = list(range(len(places)))
    if not left or not counts(change(left)):
        return []
    while len(left) > 1:
        half = left[: len(left) // 2]
        left = half if counts(change(half)) else left[len(left) // 2 :]
    return list(places[left[0] : left[0] + TRIED])


def near(side: float, quotient: float) -> bool:
    """Whether a quotient gives a side."""
    return bool(abs(side - quotient) <= ROUNDING * max(1.0, abs(side)))


def _digits(value: float) -> str:
    """At most four digits; 0 has no sign."""
    return "0" if abs(value) < ROUNDING**3 else f"{value:.4g}"
