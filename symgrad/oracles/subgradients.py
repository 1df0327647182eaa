"""Whether two answers differ only in what they take of entries that tie: a hair beside the point there is one answer.

Comes in: a check that failed. Goes out: the same check with the entries left out at which it failed, where both answers
lie between the gradients that torch has at points beside the given one. Nothing derived is taken for granted: the
gradients beside are torch's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric import Array, as_float, finite
from symgrad.oracles.report import TOLERANCE, Check, Standing, compare
from symgrad.oracles.text import Text, ask_torch
from symgrad.program import Program

BESIDE, CLOSE = 1e-7, 1e-5
"""How far beside the point, relative to an entry or to 1, and how well an answer has to be met."""
LARGEST, POINTS = 256, 24
"""Entries of the largest gradient that is looked at, and points beside it that are drawn at random."""


def at_ties(
    check: Check, program: Program, inputs: Mapping[str, Array], seed: Array, name: str, expected: Array,
    gradient: Array, standing: Standing | None, text: Text | None = None,
) -> Check:  # fmt: skip
    """``check`` without the entries that differ, where several gradients meet and both answers lie between them."""
    first, second = as_float(expected), as_float(gradient)
    if first.shape != second.shape or not 0 < first.size <= LARGEST or not finite(first).all():
        return check
    if not finite(second).all() or not all(finite(array).all() for array in inputs.values()):
        return check
    found = list(beside(program, inputs, seed, name, (first, second), text))
    scale = max(1.0, float(np.abs(first).max()))
    if not found or max(float(np.ptp(entry)) for entry in np.transpose(found)) <= CLOSE * scale:
        return check
    if not all(between(found, answer.reshape(-1), CLOSE * scale) for answer in (first, second)):
        return check
    void = np.zeros(first.shape, dtype=bool) if standing is None else standing.void.copy()
    void |= np.abs(first - second) > TOLERANCE * scale
    known = second if standing is None else standing.mathematics
    at = tuple(int(i) for i in np.argwhere(np.abs(first - second) > TOLERANCE * scale)[0])
    entry = f"{name}[{','.join(map(str, at))}]" if at else name
    note = (
        f"{entry} ties with others, and which of them is taken is open: here {second[at]:.4g}, there {first[at]:.4g}, "
        "both between the gradients beside the point"
    )
    return compare(check.oracle, expected, gradient, TOLERANCE, note, Standing(as_float(known), void))


def beside(
    program: Program,
    inputs: Mapping[str, Array],
    seed: Array,
    name: str,
    answers: tuple[Array, Array],
    text: Text | None,
) -> Iterator[Array]:
    """torch's gradients at points beside the given one: drawn at random, and towards and away from each answer."""
    generator, point = np.random.default_rng(13), as_float(inputs[name])
    ways = [generator.uniform(-1, 1, point.shape) for _ in range(POINTS)]
    for answer in answers:
        size = max(float(np.abs(answer).max()), 1e-300)
        for sign in (1.0, -1.0, 1.0, -1.0):
            ways.append(sign * answer / size + 0.1 * generator.uniform(-1, 1, point.shape))
    for way in ways:
        moved = point + BESIDE * np.maximum(1.0, np.abs(point)) * way
        try:
            found = ask_torch(text, program, {**inputs, name: moved}, seed, [name])
        except SymgradError:
            continue
        gradient = None if found is None else found.gradients.get(name)
        if gradient is not None and finite(gradient).all():
            yield as_float(gradient).reshape(-1)


def between(found: list[Array], answer: Array, allowed: float) -> bool:
    """Whether an answer is a mean of the found ones, each with a weight that is not negative."""
    from scipy.optimize import nnls  # loads much, and only a check that failed comes here

    weight = max(1.0, float(np.abs(found).max()))
    table = np.vstack([np.transpose(found), np.full((1, len(found)), weight)])
    wanted = np.append(answer, weight)
    shares, _ = nnls(table, wanted)
    return bool(np.abs(table @ shares - wanted).max() <= allowed)
