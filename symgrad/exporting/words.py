"""What the docstring of exported source says: the definition, vᵀJ entry by entry, and where the lines do not hold.

Comes in: a program, what is differentiated, and the lines. Goes out: lines of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sympy as sp

from symgrad.backward import Backward
from symgrad.closed_form import guards
from symgrad.explanation.formulas import derive
from symgrad.program import Program
from symgrad.render.content.forward import forward_equations
from symgrad.render.content.teller import formula_of, teller_of

WIDEST, MOST_STEPS = 100, 24
"""Characters of a formula, and steps of a program, beyond which the code says it better."""
LEFT_OUT = "No class may be left out (ignore_index)."


def formulas(program: Program, wanted: Sequence[str]) -> Iterator[str]:
    """``out[i] = …`` and ``x.grad[p] = …``, where they are short."""
    if len(program.steps) > MOST_STEPS:
        return
    teller = teller_of(program, symbolic=True)
    for row in forward_equations(teller)[1].rows:
        text = " = ".join(part.text for part in row.parts)
        if len(text) <= WIDEST:
            yield text
    for name, derived in derive(program, wanted).items():
        if not derived.sweep.whole:
            continue
        equation = derived.sweep.equation
        formula, left = formula_of(teller, f"{name}.grad", equation, teller.names.inner(equation.axes))
        if len(formula.text) <= WIDEST:
            yield f"{left.text} = {formula.text}"


def provisos(lines: Backward) -> Iterator[str]:
    """Where the lines do not hold as they stand."""
    parts = [part for line in lines.statements for part in line.parts]
    nowhere = (part.derived is not None and part.derived.right is sp.nan for part in parts)  # 0/0 at every number
    rules = {rule for part, void in zip(parts, nowhere, strict=True) if not void for rule in part.rules}
    yield from guards(rules)
    if "none left out" in rules:
        yield LEFT_OUT
