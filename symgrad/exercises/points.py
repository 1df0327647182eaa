"""Where a line is held against the formula: numbers, sizes, seeds, and what is right there.

Comes in: an explanation. Goes out: points, the names that a line may use at each, and a line in numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from symgrad.calculus import moving
from symgrad.errors import SymgradError, UnknownNameError
from symgrad.explanation import Explanation
from symgrad.language import inputs_of, read
from symgrad.numeric import Array, Values, as_float, forward
from symgrad.numeric.assumed import matrix_of_kind
from symgrad.numeric.sweeps import numeric_pullback
from symgrad.oracles.forms import jittered
from symgrad.oracles.other_sizes import resized
from symgrad.program import Program
from symgrad.testing.right.seeds import Weights, seeds

RANGES = ((-2.0, 2.0), (-3.0, -0.5), (0.5, 2.5), (0.05, 0.95))
"""Where numbers are drawn from; where a function has no value they are left out."""


def points_of(explanation: Explanation) -> Iterator[tuple[str, Values]]:
    """Numbers that differ from each other and have both signs, whole ones with 0 among them, and other sizes."""
    program = explanation.program
    able = moving(program)
    given = {g.name: g.value for g in explanation.inputs}
    free = [g for g in explanation.inputs if g.name in able and not g.value_given]
    generator, first = np.random.default_rng(7), None
    for low, high in RANGES:
        drawn = {g.name: np.round(generator.uniform(low, high, size=np.shape(g.value)), 2) for g in free}
        values = values_at(program, given | drawn)
        if values is not None and free:
            yield "here", values
        first = values if first is None else first
    first = explanation.values if first is None or not free else first
    if not free:
        yield "here", first
    yield "here", jittered(first, program, able)
    for other in resized(first, program, able):
        yield "sizes", other
    whole = {g.name: np.resize([0.0, 1.0, -1.0], np.shape(g.value)) for g in free}
    values = values_at(program, given | whole) if free else None
    if values is not None:
        yield "whole", values


def values_at(program: Program, inputs: Mapping[str, Array]) -> Values | None:
    """The forward pass, where every number in it is finite."""
    try:
        found = forward(program, {name: matrix_of_kind(program, name, array) for name, array in inputs.items()})
    except (SymgradError, ValueError, IndexError):
        return None
    return found if all(np.isfinite(as_float(found[t.name])).all() for t in program.tensors()) else None


def seeds_of(explanation: Explanation, values: Values) -> Iterator[Weights]:
    """Seeds for one point; a basis too where it is small."""
    shape = np.shape(values[explanation.program.output])
    yield from (w for w in seeds([shape], 0) if w.name != "zeros")


def gradient(explanation: Explanation, values: Values, seed: Array, name: str) -> Array:
    """What is right."""
    return numeric_pullback(explanation.program, values, seed, [name])[name]


def known_by(explanation: Explanation, values: Values, seed: Array) -> dict[str, Array]:
    """The names that a line may use: the inputs, the output, the seed, and what the text itself names."""
    program = explanation.program
    own = {t.name: np.asarray(values[t.name]) for t in program.tensors() if not re.fullmatch(r"t\d+", t.name)}
    return {**own, program.seed: seed}


def evaluated(text: str, known: Mapping[str, Array]) -> Array:
    """A line in numbers; raises `SymgradError` for what is not read."""
    mentioned = inputs_of(text, known)
    missing = sorted(mentioned - set(known))
    if missing:
        raise UnknownNameError(f"there is no {missing[0]!r} here", found=(f"names: {', '.join(known)}",))
    reading = read(text, shapes={name: np.shape(array) for name, array in known.items() if name in mentioned})
    program = reading.program
    given = {**known, **reading.made}
    return forward(program, {t.name: np.asarray(given[t.name]) for t in program.inputs})[program.output]
