"""Assignments of ranks to inputs, the likeliest first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

from symgrad.language.steps.names import Candidates


def assignments(candidates: Mapping[str, Candidates]) -> Iterator[dict[str, int]]:
    """Every choice of one candidate per name, by total unlikeliness; at a tie the first names give way first.

    >>> [list(a.values()) for a in assignments({"x": ((2, 0), (1, 3)), "a": ((2, 0), (1, 2))})]
    [[2, 2], [2, 1], [1, 2], [1, 1]]
    """
    names = list(candidates)
    # Places count downwards from 0, so that among equals the heap gives the one where the first names moved.
    start = (0,) * len(names)
    waiting = [(sum(c[0][1] for c in candidates.values()), start, 0)]
    while waiting:
        cost, choice, first = heapq.heappop(waiting)
        yield {name: candidates[name][-place][0] for name, place in zip(names, choice, strict=True)}
        for position in range(first, len(names)):
            options = candidates[names[position]]
            place = -choice[position]
            if place + 1 < len(options):
                step = options[place + 1][1] - options[place][1]
                further = (*choice[:position], -place - 1, *choice[position + 1 :])
                heapq.heappush(waiting, (cost + step, further, position))
