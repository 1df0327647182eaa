"""What an equation's numbers may be, and with which care its plan is made.

Comes in: nothing. Goes out: `Care`, and the three that there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Care:
    """How a product is formed (`symgrad.lowering.careful` has the rule).

    ``tame``: every number that is read is finite, and so is what asks for that. ``ordered``: a product is formed in
    the order of the rule, not in the one that costs least. ``guarded``: a condition inside a sum comes before what it
    stands beside. ``unknown``: a condition that compares what is no number is none itself. ``whole``: whole
    numbers stay so. ``field``: what the numbers are if they are no floats.
    """

    tame: bool = False
    ordered: bool = False
    guarded: bool = False
    unknown: bool = False
    whole: bool = False
    field: Any = None

    @property
    def guards(self) -> Care:
        """The same with conditions before what they stand beside."""
        return replace(self, ordered=True, guarded=True)


TAME = Care(tame=True)
FORWARD = Care()
EDGES = Care(ordered=True, unknown=True)
"""Of a derivative at numbers that are large, small, infinite or none."""
COUNTED = Care(whole=True)
"""Of places, which are whole numbers."""
