"""Building an explanation: derive, evaluate, and hold every claim against the oracles.

Comes in: a program with numbers for its inputs and a seed. Goes out: an `Explanation`. Reads top to bottom
as the way the data takes: forward, Jacobian, pullback, closed form, numbers; the proofs are in `proofs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import sympy as sp

from symgrad.backward.parts.code import with_modules
from symgrad.calculus import Sweep
from symgrad.closed_form import closed_form
from symgrad.explanation.data import Explanation, Gradient
from symgrad.explanation.formulas import derive, proven_form
from symgrad.explanation.given import Given, Seed, Writers
from symgrad.explanation.jacobian import Jacobian
from symgrad.explanation.proofs import Proofs
from symgrad.explanation.singular import singular
from symgrad.indexing import Equation
from symgrad.indexing.symbols import access
from symgrad.numeric import forward, numeric_pullback, plain, where_exact
from symgrad.numeric.exact import finite
from symgrad.ops import named
from symgrad.oracles import (
    Text,
    check_form,
)
from symgrad.program import Program
from symgrad.ways import Hint

PAIRS = "Complex tensors stand here as pairs (re, im), on one more axis of size 2"


def build(
    expression: str,
    program: Program,
    inputs: Sequence[Given],
    seed: Seed,
    wanted: Sequence[str],
    *,
    check: bool = True,
    assumptions: Sequence[str] = (),
    hints: Sequence[Hint] = (),
    downstream: Explanation | None = None,
    expanded: bool = False,
    conventions: Sequence[str] = (),
    remarks: Sequence[str] = (),
    writers: Writers | None = None,
    text: Text | None = None,
) -> Explanation:
    """The explanation of ``program`` at ``inputs`` with weights ``seed``; ``text`` is what it was read from."""
    arrays = {given.name: given.value for given in inputs}
    values = forward(program, arrays)
    weights = where_exact(seed.value)
    numeric = numeric_pullback(program, values, weights, wanted)
    proofs = Proofs(program, values, arrays, weights, wanted, text) if check else None
    gradients = {}
    for name, derived in derive(program, wanted).items():
        matrix = Jacobian(
            name, program, values, derived.axes, derived.inner, derived.jacobian, derived.claims,
            values[program.output].shape, values[name].shape, writers,
        )  # fmt: skip
        form, form_check = proven_form(derived, program, values, weights)
        if proofs:
            checks, met = proofs.of(name, numeric[name], matrix, derived, form_check)
        else:
            checks, met = (), singular(program, values, weights, numeric[name], name, derived.sweep, None)
        if derived.jacobian == 0 and not finite(values[program.output]).all():
            matrix, form = replace(matrix, told=()), None  # it is 0 only because nothing is left of it here
        gradients[name] = Gradient(
            name, with_modules(form.text) if form else None, derived.sweep, plain(numeric[name]), matrix, checks,
            form.steps if form else (), program, values.with_arrays({program.seed: weights}),
            None if proofs and proofs.lost else met,
        )  # fmt: skip
    return Explanation(
        expression, program, tuple(inputs), values, plain(values[program.output]), seed, gradients,
        tuple(assumptions), tuple(hints), proofs.version if proofs else None, downstream, expanded, check, writers,
        conventions=(
            *remarks, *(tuple(conventions) or shown_as_pairs(program)), *(proofs.values_apart if proofs else ())
        ),
        out_of_range=proofs.lost if proofs else "", text=text, asked=proofs.torch if proofs else None,
    )  # fmt: skip


def shown_as_pairs(program: Program) -> tuple[str, ...]:
    """How complex tensors are shown, where a program has some."""
    return (PAIRS,) if any(named(step.op).pairs for step in program.steps) else ()


def slope_form(explanation: Explanation, name: str) -> str | None:
    """∂L/∂name of a scalar L as code, its own weight 1 left out; None where there is no such form or it is not so."""
    gradient = explanation.gradients[name]
    if not gradient.sweep.whole:
        return None
    one = gradient.formula.xreplace({access(explanation.program.seed, ()): sp.S.One})
    sweep = Sweep(((name, Equation(gradient.inner, one)),))
    form = closed_form(explanation.program, sweep, name)
    if (
        form is None
        or not check_form(form.text, explanation.program, sweep, explanation.values, np.ones((), dtype=np.int64)).passed
    ):
        return None
    return with_modules(form.text)
