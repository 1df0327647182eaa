"""What the docstring of exported source says: the definition, and vᵀJ entry by entry.

Comes in: a program, and what is differentiated. Goes out: lines of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symgrad.explanation.formulas import derive
from symgrad.program import Program
from symgrad.render.content.forward import forward_equations
from symgrad.render.content.teller import formula_of, teller_of

WIDEST, MOST_STEPS = 100, 24
"""Characters of a formula, and steps of a program, beyond which the code says it better."""


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
