"""Section 3: the seed v, the one number L = Σ v∘out that it stands for, and what backward(v) does not do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import sympy as sp

from symgrad.calculus.sweeps import substitute
from symgrad.explanation import Explanation
from symgrad.indexing import Equation as IndexEquation
from symgrad.indexing.symbols import Expr, access
from symgrad.numeric import plain
from symgrad.render.content.forward import forward_equations
from symgrad.render.content.teller import Teller, teller_of
from symgrad.render.content.words import DOTS, PLUS, PRODUCT, J, L, V, grad, listed, shape_words
from symgrad.render.letters import SEED
from symgrad.render.page import (
    Block,
    Chained,
    Code,
    Equation,
    Equations,
    Formula,
    Grid,
    Grids,
    Math,
    Paragraph,
    Ready,
    Section,
    Words,
    named,
    number,
    partial,
)

MOST_TERMS = 8
"""Terms of L that are all written out."""
MOST_OPERATIONS = 12
"""Operations in a formula that is short."""
WEIGHED = Ready("Σ v∘out", r"\sum v \circ \mathrm{out}")


def seed_section(explanation: Explanation) -> Section:
    """The whole section."""
    blocks: list[Block] = list(_origin(explanation))
    if explanation.seed_info.origin == "downstream":
        return Section(("The seed ", V, ": how the loss answers to each output"), tuple(blocks))
    blocks.append(Grids((Grid(V, explanation.seed),)))
    if explanation.seed_info.origin != "scalar":
        blocks += [_loss(explanation), *_meaning(explanation)]
    return Section(("The seed ", V, ": one weight for each output"), tuple(blocks))


def _origin(explanation: Explanation) -> Iterator[Block]:
    """Where v comes from, and what that makes of it."""
    origin = explanation.seed_info.origin
    shape = shape_words(explanation.seed.shape)
    if origin == "scalar":
        by: Words = listed([(partial(Ready("out", r"\mathrm{out}"), named(n)),) for n in explanation.gradients])
        yield Paragraph((
            "There is one output, and its weight is 1: ", L, " is ", Code("out"), " itself, and ", Code("out.backward()"),
            " computes its gradient, ", *by, ".",
        ))  # fmt: skip
    elif origin == "assumed":
        yield Paragraph((
            "No seed was given. What follows goes on with ones: every output counts the same, ", L,
            " is the sum of all outputs, and the result is the gradient of that sum, as ",
            Code("out.sum().backward()"), " gives it.",
        ))  # fmt: skip
    elif origin == "downstream":
        yield from downstream_blocks(explanation)
    else:
        yield Paragraph((V, " has the shape of ", Code("out"), f" ({shape}): it gives every output a weight."))


def _loss(explanation: Explanation) -> Block:
    """L = Σ v∘out, written out."""
    seed, output = plain(explanation.seed), plain(explanation.output)
    places = list(np.ndindex(*seed.shape))
    shown: Sequence[tuple[int, ...] | None] = places
    if len(places) > MOST_TERMS:
        shown = [*places[:3], None, places[-1]]
    parts = [DOTS if at is None else _weighed(explanation.program.output, seed[at], at) for at in shown]
    total = np.sum(seed * output) if seed.size else 0
    return Equations((Equation((L, WEIGHED, Chained(tuple(parts), PLUS), number(total))),))


def _weighed(output: str, weight: object, at: tuple[int, ...]) -> Math:
    """2·out[0,1]; a negative weight in brackets."""
    value, place = number(weight), named(output, [str(i) for i in at])
    text, latex = value.text, value.latex
    if text.startswith("−"):
        text, latex = f"({text})", f"({latex})"
    return Ready(f"{text}·{place.text}", f"{latex} \\cdot {place.latex}")


def _meaning(explanation: Explanation) -> Iterator[Block]:
    """backward(v) is the gradient of L; it is not v times out."""
    names = list(explanation.gradients)
    by: Words = listed([(partial(L, named(n)),) for n in names])
    call = Code("out.backward(v)") if explanation.output.size != 1 else Code("out.backward()")
    yield Paragraph((
        Ready("v∘out", r"v \circ \mathrm{out}"), " multiplies entry by entry, ", Ready("Σ", r"\sum"), " adds it all up: ",
        L, " is one number. ", call, " computes the gradient of this ", L, ": ", *by, ".",
    ))  # fmt: skip
    if explanation.output.size == 1:
        return
    words: Words = (
        "It does not multiply ", Code("out"), " by ", V, " and hand that back. ", V, " weighs the rows of ", J, ", and the weighted rows ",
        "are added up to a single row ", PRODUCT, ", with one number for each entry of the input.",
    )  # fmt: skip
    out = explanation.output.shape
    other = next((n for n, g in explanation.gradients.items() if g.value.shape != out), None)
    if other is not None:
        shape = explanation.gradients[other].value.shape
        words = (
            *words, " (The shapes tell them apart: ", Ready("v∘out", r"v \circ \mathrm{out}"), f" is {shape_words(out)} like ",
            Code("out"), ", ", grad(other), f" is {shape_words(shape)} like ", Code(other), ".)",
        )  # fmt: skip
    yield Paragraph(words)


# A loss downstream ----------------------------------------------------------------------------------


def downstream_blocks(explanation: Explanation) -> Iterator[Block]:
    """v = ∂L/∂out, derived from the loss that is computed from out."""
    later = explanation.downstream
    assert later is not None
    teller = teller_of(later.program, later.expression)
    yield Paragraph((
        "A loss is computed from ", Code("out"), ": ", L, " = ", Code(later.expression), ". In training this is all that counts, ",
        "and ", Code("L.backward()"), " starts there. The weight of each output is then no choice: it is how fast ", L,
        " moves with that output.",
    ))  # fmt: skip
    formulas, equations = forward_equations(teller)
    result = later.program.output
    rows = [row if step.result.name != result else Equation((L, *row.parts[1:], number(plain(later.output)[()])))
            for row, (step, _) in zip(equations.rows, teller.steps(), strict=True)]  # fmt: skip
    yield Equations(tuple(rows))
    yield from teller.aside(*formulas)
    given = [Grid(named(g.name), g.value) for g in later.inputs if g.value_given and g.name != "out"]
    known = {g.name for g in explanation.inputs}
    extra = tuple(g for g in given if g.name.text not in known)
    if extra:
        yield Grids(extra)
    gradient = later.gradients["out"]
    if gradient.sweep.whole:
        equation = unfolded(teller, gradient.sweep.equation)
        names = teller.names.entry(equation.axes, "out")
        letters = [names.letter(i) for i in equation.axes]
        formula = Formula(without_seed(equation.right), names)
        yield Equations((Equation((named(SEED, letters), partial(L, named("out", letters)), formula)),))
        yield from teller.aside(formula)
    yield Grids((Grid(V, explanation.seed),))
    yield Paragraph((
        Code("out.backward(v)"), " with this ", V, " does what ", Code("L.backward()"), " does from here on: it weighs the rows of ", J,
        " by ", V, " and adds them up to one row ", PRODUCT, ". It does not multiply ", Code("out"), " by ", V,
        " and hand that back.",
    ))  # fmt: skip


def unfolded(teller: Teller, equation: IndexEquation) -> IndexEquation:
    """``equation`` with the unnamed steps put in that are short and add nothing up: 2·(out[i] − y[i]) for 2·t1[i]."""
    short = {step.result.name: e for step, e in teller.steps() if re.fullmatch(r"t\d+", step.result.name)}
    short = {name: e for name, e in short.items() if not e.right.has(sp.Sum, sp.Product)}
    whole = teller.fold(equation)
    for _ in short:
        whole = substitute(whole, short)
    return whole if sp.count_ops(whole.right) <= MOST_OPERATIONS else teller.fold(equation)


def without_seed(expression: Expr) -> Expr:
    """The gradient of a scalar with its own weight, 1, left out."""
    return expression.xreplace({access(SEED, ()): sp.S.One})
