"""The tensors of a forward pass, with what they are: whatever a backward may have read, or forgotten to.

Comes in: a formula and its program. Goes out: names, clauses and numbers, for the families of mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator

from symgrad.errors import SymgradError
from symgrad.language import expand_composites
from symgrad.numeric import Array, as_float, forward
from symgrad.program import Apply, Program
from symgrad.testing.right.bench import shown
from symgrad.testing.right.truth import Formula


def tensors_of(program: Program, formula: Formula) -> Iterator[tuple[str, str, Array]]:
    """Inputs and results, of composite steps also those of their parts: name, what it is, numbers."""
    known = formula.inputs
    programs = [(program, formula.values[0])]
    try:
        wider = expand_composites(program)
        programs.append((wider, forward(wider, {t.name: known[t.name] for t in wider.inputs})))
    except SymgradError:
        pass
    seen: set[str] = set()
    for one, values in programs:
        for tensor in one.inputs:
            if tensor.name not in seen:
                yield tensor.name, "", as_float(values[tensor.name])
        for step in one.steps:
            if step.result.name not in seen and step.result.name in values.arrays:
                yield step.result.name, f", {step.result.name} = {written(step)}", as_float(values[step.result.name])
        seen |= {t.name for t in one.tensors()}


def written(step: Apply) -> str:
    """``relu(t1)``."""
    operands = ", ".join(a if isinstance(a, str) else shown_constant(a.value) for a in step.arguments)
    return f"{step.called}({operands})"


def shown_constant(value: object) -> str:
    """A constant among arguments."""
    return shown(value) if isinstance(value, float) else str(value)
