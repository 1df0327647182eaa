"""What rounding may leave of a gradient: the same sweep with the last digits of all that it reads and makes moved.

Comes in: arrays, or the steps of a sweep, and the rounding of one operation. Goes out: the same with other last digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from symgrad.numeric import Array, Values, as_float, is_exact
from symgrad.numeric.forward import Made
from symgrad.numeric.sweeps import pull_step
from symgrad.program import Apply, Program

UNIT = float(np.finfo(float).eps)
"""The last digit of a double."""


Size = Callable[[Apply, Program, Values, Array, int], Array]
"""How large the terms are that a step pulls back to one place, for some weights."""


def noisy(
    program: Program, values: Values, unit: float, number: int, size: Size | None = None
) -> Callable[[Apply, int, Array, Array], Array]:
    """What moves the terms of a sweep, each by the rounding of its step; ``size`` in place of `terms`."""
    signs = np.random.default_rng(number)
    size_of = size or partial(terms, signs=signs)

    def moved(step: Apply, place: int, weights: Array, result: Array) -> Array:
        sizes = size_of(step, program, values, weights, place)
        return np.asarray(as_float(result) + unit * sizes * signs.choice((-1.0, 1.0), np.shape(result)))

    return moved


def terms(
    step: Apply, program: Program, values: Values, weights: Array, place: int, signs: np.random.Generator
) -> Array:
    """How large the terms are that a step pulls back: weights of one size, with signs by lot, do not cancel."""
    size = float(np.abs(as_float(weights)).max(initial=0.0))
    if not np.isfinite(size):
        return np.zeros(np.shape(values[str(step.arguments[place])]))
    lot = size * signs.choice((-1.0, 1.0), np.shape(weights))
    return np.abs(as_float(pull_step(step, program, values, lot, [place])[place]))


def shaken(arrays: Mapping[str, Array], number: int, unit: float = UNIT) -> Mapping[str, Array]:
    """The numbers of some arrays moved by ``unit`` of each; equal ones stay equal, and whole ones as they are."""
    return Made(arrays, lambda a: a if is_exact(a) else a * (1 + unit * lots(np.abs(a), number)))


def lots(sizes: Array, number: int) -> Array:
    """-1, 0 or 1 for each number, by its digits: the same for equal ones, another for every ``number``.

    The digits are scattered as in SplitMix64: looking a network's weights up in their order took minutes.
    """
    bits = np.array(sizes, dtype=np.float64, order="C", ndmin=1).view(np.uint64)
    with np.errstate(over="ignore"):
        bits += np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            bits ^= bits >> np.uint64(shift)
            bits *= np.uint64(factor)
    bits >>= np.uint64(33)
    bits %= np.uint64(3)
    return bits.astype(np.int8).reshape(np.shape(sizes)) - np.int8(1)
