"""A closed form is a claim: its text is read back, evaluated by NumPy, and held against the raw contraction.

On the numbers at hand and on random integers of the same shapes, so that a form that is right only at ones
does not pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product

import numpy as np

from symgrad.calculus import Sweep
from symgrad.errors import DomainError, SymgradError, UndefinedError
from symgrad.language.read import read
from symgrad.numeric import Array, Values, as_float, evaluate, flows, forward
from symgrad.oracles.report import Check, compare
from symgrad.program import Program

WIDTHS = (0.2, 0.05, 0.005)
"""How far a point is moved, as shares of its entries: the first of them that stays in every domain."""
NAME = "the closed form, read back and evaluated"


def check_form(text: str, program: Program, sweep: Sweep, values: Values, seed: Array) -> Check:
    """``text`` against the index formula, at the point and at a random one."""
    generator = np.random.default_rng(1)
    seeds = [seed, np.asarray(generator.integers(-4, 5, size=np.shape(seed)))]
    for found, weights in zip([values, jittered(values, program)], seeds, strict=True):
        inputs = {t.name: found[t.name] for t in program.inputs}
        known = {"v": weights, "out": found[program.output], program.output: found[program.output], **inputs}
        try:
            written = evaluate_text(text, known)
        except SymgradError as error:
            return Check(NAME, None, False, note=f"it does not read back: {error.problem}")
        raw = evaluate(sweep.equation, {**found.arrays, "v": weights}, values.sizes)
        check = compare(NAME, as_float(raw), as_float(written))
        if not check.passed:
            return check
    return check


def jittered(values: Values, program: Program) -> Values:
    """A point near the given one where entries differ: forms that hold only for equal entries fail there.

    As near as it takes for every operation to be defined there; symmetric matrices stay symmetric only if they must,
    and inputs that are only read stay: positions next to the given ones may lie outside.
    """
    generator = np.random.default_rng(2)
    factors = {t.name: generator.uniform(-1, 1, size=values[t.name].shape) for t in program.inputs}
    factors = {name: factor for name, factor in factors.items() if flows(program, name)}
    for symmetric, width in product((False, True), WIDTHS):
        point = {
            name: as_float(values[name]) * (1 + width * (symmetric_part(factor) if symmetric else factor))
            for name, factor in factors.items()
        }
        try:
            return forward(program, {t.name: values[t.name] for t in program.inputs} | point)
        except (DomainError, UndefinedError):
            continue
    return values


def symmetric_part(array: Array) -> Array:
    """(a + aᵀ)/2 of a square matrix; anything else as it is."""
    square = array.ndim > 1 and array.shape[-1] == array.shape[-2]
    return (array + array.swapaxes(-1, -2)) / 2 if square else array


def evaluate_text(text: str, known: Mapping[str, Array]) -> Array:
    """The value of an expression over v, out and the inputs in symgrad's own language, by NumPy."""
    used = set(re.findall(r"[^\W\d]\w*", text))
    shapes = {name: np.shape(array) for name, array in known.items() if name in used}
    reading = read(text, shapes=shapes, reserved=())
    inputs = {t.name: known[t.name] for t in reading.program.inputs}
    return forward(reading.program, inputs)[reading.program.output]
