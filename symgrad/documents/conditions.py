"""The condition under which another equation of an operation holds, in words.

Comes in: the text of the table, ``rank(x)=1 and not eps=None``. Goes out: what a page says.
"""

from __future__ import annotations

import re


def spoken(condition: str) -> str:
    """What options are, in words.

    >>> spoken("rank(x)=1 and rank(a)=1"), spoken("not eps=None"), spoken("causal and scale=None"), spoken("offset<0")
    ('rank(x) = 1 and rank(a) = 1', 'with eps', 'with causal and without scale', 'offset < 0')
    """
    return " and ".join(map(part_spoken, condition.split(" and ")))


def part_spoken(part: str) -> str:
    """One of several conditions."""
    there = part.startswith("not ") == part.endswith("=None")
    name = part.removeprefix("not ").removesuffix("=None")
    return f"with{'' if there else 'out'} {name}" if name.isidentifier() else re.sub(r"[=<]", r" \g<0> ", name)
