"""A program's forward once more, from other numbers in one tensor: prepared once, and then only the arrays' own work.

Comes in: a program, its values in floats, the tensor that will move. Goes out: a `Forward`, which gives the output for
other numbers there, the very ones that `symgrad.numeric.forward.forward_from` gives. Difference quotients ask it twice
for each entry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from symgrad.calculus.local import known_name
from symgrad.numeric.exact import Array, as_float
from symgrad.numeric.forward import Values, compute, constant, options_of
from symgrad.ops import named
from symgrad.program import Apply, Program

Arrays = dict[str, Array]


class Forward:
    """``forward(moved)``: the output with ``moved`` as the numbers of ``name``; what is not computed from it stays."""

    def __init__(self, program: Program, values: Values, name: str) -> None:
        self.name, self.output = name, program.output
        self.arrays = dict(values.arrays)
        reached = program.reached((name,))
        moving = [s for s in program.steps if s.result.name in reached and s.result.name != name]
        self.calls = [prepared(step, program, self.arrays, reached) for step in moving]

    def __call__(self, moved: Array) -> Array:
        """The output for these numbers."""
        arrays = self.arrays
        arrays[self.name] = as_float(moved)
        with np.errstate(all="ignore"):
            for call in self.calls:
                call(arrays)
        return as_float(arrays[self.output])


def prepared(step: Apply, program: Program, arrays: Arrays, reached: frozenset[str]) -> Callable[[Arrays], None]:
    """What `compute` does with one step, its options and what never moves looked up beforehand."""
    slowly = partial(compute, step, program)
    op = named(step.op) if isinstance(step.op, str) else None
    if op is None or op.numpy is None:
        return slowly
    function, rules, name = op.numpy, op.known.items(), step.result.name
    options = options_of(step, program.sizes)
    still = [
        None if isinstance(a, str) and a in reached else arrays[a] if isinstance(a, str) else constant(a, program.sizes)
        for a in step.arguments
    ]
    moving = [(n, a) for n, a in enumerate(step.arguments) if isinstance(a, str) and a in reached]
    floats: list[Any] = [None if a is None else as_float(a) for a in still]

    def call(arrays: Arrays) -> None:
        given = list(floats)
        for n, argument in moving:
            given[n] = arrays[argument]
            if given[n].dtype != np.float64:
                return slowly(arrays)
        try:
            arrays[name] = as_float(function(*given, **options))
        except (ArithmeticError, LookupError, MemoryError, ValueError):
            return slowly(arrays)  # which says what is wrong
        for key, rule in rules:
            told = list(still)
            for n, argument in moving:
                told[n] = arrays[argument]
            known = rule(*told, **options)
            if known is not None:
                arrays[known_name(step, key)] = np.asarray(known)
        return None

    return call
