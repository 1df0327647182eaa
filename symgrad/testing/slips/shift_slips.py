"""Gradients that stand at the place of a neighbour: an index off by one, the wrong side cropped.

Comes in: an input and its trials. Goes out: `Slip` s. What stands at the edge, where no neighbour is, is left as it
came: the inner entries decide, in every trial, and they have to be most of the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from symgrad.numeric import Array
from symgrad.testing.right.bench import Trial
from symgrad.testing.slips.slips import Slip

LETTERS = "ijklmn"
SHIFTS = (1, -1, 2, -2)


def shift_slips(name: str, trials: Sequence[Trial]) -> Iterator[Slip]:
    """Along each axis, to either side."""
    shape = trials[0].expected.shape
    for axis, size in enumerate(shape[: len(LETTERS)]):
        for by in SHIFTS:
            if size < 2 * abs(by) + 1:
                continue
            inner = within(len(shape), axis, by)
            if not any(t.off[inner].any() for t in trials):
                continue
            letters = list(LETTERS[: len(shape)])
            here = f"{name}.grad[{','.join(letters)}]"
            letters[axis] += f" {'−' if by > 0 else '+'} {abs(by)}"
            said = f"{here} holds what belongs at [{','.join(letters)}]: it is shifted by {abs(by)} along axis {axis}"
            yield Slip("shifted", said, lambda t, a=axis, b=by: shifted(t, a, b))  # type: ignore[misc]  # a default binds


def within(rank: int, axis: int, by: int) -> tuple[slice, ...]:
    """The entries that have a neighbour ``by`` places before them."""
    part = slice(by, None) if by > 0 else slice(None, by)
    return tuple(part if n == axis else slice(None) for n in range(rank))


def shifted(trial: Trial, axis: int, by: int) -> Array:
    """What was expected, moved; the edge as it came."""
    inner = within(trial.expected.ndim, axis, by)
    found = np.array(trial.got)
    found[inner] = np.roll(trial.expected, by, axis)[inner]
    return found
