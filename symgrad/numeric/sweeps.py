"""The derived sweeps in numbers: vᵀJ and Ju of a whole program, step by step, J never formed.

Comes in: a program, its forward values, a seed or a tangent. Goes out: one array per input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.calculus import local_pullbacks, pushforward
from symgrad.numeric.evaluate import evaluate
from symgrad.numeric.exact import Array
from symgrad.numeric.forward import Values
from symgrad.program import Program


def numeric_pullback(program: Program, values: Values, seed: Array, wanted: Sequence[str]) -> Mapping[str, Array]:
    """vᵀJ for each of ``wanted``, by the derived local pullbacks from the output back."""
    arrays = {**values.arrays, "v": seed}
    for name, equation in local_pullbacks(program, wanted):
        arrays[name if name not in wanted else f"grad {name}"] = evaluate(equation, arrays, values.sizes)
    return {name: arrays[f"grad {name}"] for name in wanted}


def numeric_pushforward(program: Program, values: Values, wanted: str, tangent: Array) -> Array:
    """J·u for a change u of one input, by the derived local pushforwards from the input on."""
    arrays = {**values.arrays, "u": tangent}
    name = ""
    for name, equation in pushforward(program, wanted):
        arrays[name] = evaluate(equation, arrays, values.sizes)
    return arrays[name]
