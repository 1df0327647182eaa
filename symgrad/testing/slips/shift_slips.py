"""What stands at the place of a neighbour, in the gradient, in v or in a tensor that is read: an index off by one.

Comes in: the formula, an input and its trials. Goes out: `Slip` s. What stands at the edge of a gradient, where no
neighbour is, is left as it came: the inner entries decide, in every trial, and they have to be most of the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from symgrad.numeric import Array
from symgrad.testing.right.bench import Trial
from symgrad.testing.right.truth import Formula
from symgrad.testing.slips.forward_tensors import tensors_of
from symgrad.testing.slips.slips import Slip

LETTERS = "ijklmn"
SHIFTS = (1, -1, 2, -2)
MOST = 8
"""How far v may be shifted."""


def shift_slips(formula: Formula, name: str, trials: Sequence[Trial]) -> Iterator[Slip]:
    """Along each axis, to either side: the gradient, then v, then what stands in it as a factor."""
    shape = trials[0].expected.shape
    for axis, by in shifts(shape, SHIFTS):
        if any(t.off[within(len(shape), axis, by)].any() for t in trials):
            here, there = indices(len(shape), axis, by)
            said = f"{name}.grad[{here}] holds what belongs at [{there}]: it is shifted by {abs(by)} along axis {axis}"
            yield Slip("shifted", said, lambda t, a=axis, b=by: kept_edge(t, np.roll(t.expected, b, a), a, b))  # type: ignore[misc]  # a default binds
    yield from shifted_seed(formula, name, trials)
    if len(formula.programs) > 1:
        return
    for tensor, called, array in tensors_of(formula.programs[0], formula):
        if array.shape != shape or not np.isfinite(array).all():
            continue
        for axis, by in shifts(shape, SHIFTS):
            here, there = indices(len(shape), axis, by)
            said = f"{tensor}[{here}] is read where {tensor}[{there}] belongs: it is shifted by {abs(by)} along axis "
            said += f"{axis}{called if tensor != formula.programs[0].output else ''}"

            def made(trial: Trial, array: Array = array, axis: int = axis, by: int = by) -> Array:
                right = np.roll(array, by, axis)
                return kept_edge(trial, trial.expected * array / np.where(right == 0, np.nan, right), axis, by)

            yield Slip("shifted", said, made)


def shifts(shape: Sequence[int], by: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Axes, and how far something may be shifted along them."""
    for axis, size in enumerate(shape[: len(LETTERS)]):
        yield from ((axis, n) for n in by if size >= 2 * abs(n) + 1)


def indices(rank: int, axis: int, by: int) -> tuple[str, str]:
    """``i,j`` and ``i,j − 1``."""
    letters = list(LETTERS[:rank])
    here = ",".join(letters)
    letters[axis] += f" {'−' if by > 0 else '+'} {abs(by)}"
    return here, ",".join(letters)


def shifted_seed(formula: Formula, name: str, trials: Sequence[Trial]) -> Iterator[Slip]:
    """v read at the place of a neighbour, 0 where there is none."""
    shape, grad = trials[0].weights.seeds[0].shape, trials[0].expected.shape
    for axis, size in enumerate(shape[: len(LETTERS)] if len(formula.programs) == 1 else ()):
        for by in (s * n for n in range(1, min(size, MOST + 1)) for s in (1, -1)):
            here, there = indices(len(shape), axis, by)
            said = f"v[{there}] is read where v[{here}] belongs: it is shifted by {abs(by)} along axis {axis}"
            if len(grad) == len(shape) and abs(by) == shape[axis] - grad[axis]:
                said += f", by as much as {name} is shorter than v; with {name} as long as v a test would not see it"
            yield Slip("shifted", said, lambda t, a=axis, b=by: formula.pull([moved(t.weights.seeds[0], a, b)])[name])  # type: ignore[misc]  # a default binds


def moved(array: Array, axis: int, by: int) -> Array:
    """Entries ``by`` places further along an axis, 0 where none came from."""
    found = np.zeros_like(array)
    inner = within(array.ndim, axis, by)
    found[inner] = np.roll(array, by, axis)[inner]
    return found


def within(rank: int, axis: int, by: int) -> tuple[slice, ...]:
    """The entries that have a neighbour ``by`` places before them."""
    part = slice(by, None) if by > 0 else slice(None, by)
    return tuple(part if n == axis else slice(None) for n in range(rank))


def kept_edge(trial: Trial, inner: Array, axis: int, by: int) -> Array:
    """A gradient; at the edge what came."""
    found, part = np.array(trial.got), within(trial.expected.ndim, axis, by)
    found[part] = inner[part]
    return found
