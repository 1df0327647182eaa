"""The forward pass of an equation of the user's own as code: in matrix notation, else as array operations.

Comes in: a program and a tensor that an equation computes. Goes out: an expression over what it reads, which gave the
tensor's own numbers when it was read back; None where there is none. The gradients of such a step are lines already.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

import numpy as np

from symgrad.backward.code import in_parts
from symgrad.backward.merging import put
from symgrad.calculus import Sweep, local
from symgrad.closed_form import closed_form, lowered
from symgrad.errors import SymgradError
from symgrad.numeric import Array, Values, as_float
from symgrad.oracles.forms import reader_of
from symgrad.program import Apply, Program

Way = Callable[[Program, Sweep, str], str | None]
NEAR = 1e-9


def equation_code(program: Program, name: str, values: Values | None) -> ast.expr | None:
    """What computes ``name``, in the names of the program; proven at ``values``."""
    maker = next((step for step in program.steps if step.result.name == name), None)
    if maker is None or values is None or not maker.tensors:
        return None
    for way, as_arrays in ((in_notation, False), (lowered, True)):
        text = told(program, maker, way)
        if text is not None and confirmed(text, maker, values, as_arrays):
            definitions, last = in_parts(text)
            swap: dict[str, ast.expr] = {}
            for own, value in definitions:
                swap[own] = put(value, swap)
            return put(last, swap)
    return None


def told(program: Program, step: Apply, way: Way) -> str | None:
    """The text of one step, said one way."""
    tensors = {tensor.name: tensor for tensor in program.tensors()}
    inputs = tuple(tensors[name] for name in dict.fromkeys(step.tensors))
    try:
        alone = Program(inputs, (step,), step.result.name, sizes=program.sizes)
        equation = local(step, alone).equation
        return way(alone, Sweep(((step.result.name, equation),)), inputs[0].name)
    except SymgradError:
        return None


def in_notation(program: Program, sweep: Sweep, wanted: str) -> str | None:
    """As a person writes it."""
    form = closed_form(program, sweep, wanted)
    return None if form is None else form.text


def confirmed(text: str, step: Apply, values: Values, as_arrays: bool) -> bool:
    """Whether a text, read back, gives the numbers that the step gave."""
    known: Mapping[str, Array] = {name: as_float(values[name]) for name in step.tensors}
    right = as_float(values[step.result.name])
    try:
        with np.errstate(all="ignore"):
            found = as_float(np.asarray(reader_of(as_arrays)(text, known)))
    except (SymgradError, ValueError, IndexError, KeyError):  # a form that reads the output itself is none here
        return False
    scale = float(np.abs(right[np.isfinite(right)]).max(initial=1.0))
    return found.shape == right.shape and bool(np.allclose(found, right, rtol=NEAR, atol=NEAR * scale))


__all__ = ["equation_code"]
