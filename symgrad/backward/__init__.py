"""The backward as a program: one line for each cotangent, in the names that are already on the page.

Comes in: a program and what is asked for. Goes out: a `Backward`.
"""

from symgrad.backward.lines import backward
from symgrad.backward.parts.data import LONG, Backward, Line
from symgrad.backward.twice import twice

__all__ = ["LONG", "Backward", "Line", "backward", "twice"]
