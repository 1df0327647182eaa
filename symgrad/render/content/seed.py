"""Section 3: the seed v, the one number L = Σ v∘out that it stands for, and what backward(v) does not do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import sympy as sp

from symgrad.calculus.reverse_sweep import substitute
from symgrad.explanation import Explanation
from symgrad.indexing import Equation as IndexEquation
from symgrad.indexing.symbols import access
from symgrad.numeric import without_fractions
from symgrad.numeric.arranged import ONES
from symgrad.render.content.forward import forward_equations
from symgrad.render.content.speaker import DOTS, PLUS, SUM, Speaker, as_code, join_words, shape_words, speaker_of
from symgrad.render.content.teller import Teller, teller_of
from symgrad.render.letters import letters_of
from symgrad.render.page import (
    Block,
    Chained,
    EquationRow,
    Equations,
    Formula,
    Grid,
    Grids,
    Listing,
    Math,
    Paragraph,
    Ready,
    Section,
    Words,
    number_math,
    partial_derivative,
    tensor_label,
)

MOST_TERMS = 8
"""Terms of L that are all written out."""
MOST_OPERATIONS = 12
"""Operations in a formula that is short."""


def seed_section(explanation: Explanation) -> Section:
    """The whole section."""
    say = speaker_of(explanation.program)
    origin = explanation.seed_info.origin
    if origin == "downstream":
        return Section(
            say("The seed {v}: the derivative of the loss with respect to each output"), tuple(_downstream(explanation))
        )
    blocks: list[Block] = [Paragraph(_origin(say, explanation)), Grids((Grid(say.v, explanation.seed),))]
    if origin != "scalar":
        blocks += [_loss(say, explanation), *_meaning(say, explanation)]
    return Section(say("The seed {v}: one weight for each output"), tuple(blocks))


def _origin(say: Speaker, explanation: Explanation) -> Words:
    """Where v comes from, and what that makes of it."""
    origin = explanation.seed_info.origin
    if origin == "scalar":
        return say(
            "There is one output, and its weight is 1: {L} is `out` itself, and `out.backward()` computes its "
            "gradient, {partials}.",
            partials=_partials(explanation, say.out),
        )
    if origin == "assumed" and explanation.seed_info.text != ONES:
        return say(
            "No seed was given. Ones would give a gradient of 0, because the sum of all outputs does not depend on "
            "every input. This page uses {numbers}: a different weight for each output.",
            numbers=explanation.seed_info.text,
        )
    if origin == "assumed":
        return say(
            "No seed was given, so this page uses ones: every output counts the same, {L} is the sum of all outputs, "
            "and the result is the gradient of that sum, as `out.sum().backward()` gives it."
        )
    return say(
        "{v} has the shape of `out` ({shape}): it gives every output a weight.",
        shape=shape_words(explanation.seed.shape),
    )


def _partials(explanation: Explanation, of: Math) -> Words:
    """∂L/∂x and ∂L/∂a."""
    return join_words([(partial_derivative(of, tensor_label(name)),) for name in explanation.gradients])


def _loss(say: Speaker, explanation: Explanation) -> Block:
    """L = Σ v∘out, written out."""
    seed, output = without_fractions(explanation.seed), without_fractions(explanation.output)
    places = list(np.ndindex(*seed.shape))
    shown: Sequence[tuple[int, ...] | None] = places
    if len(places) > MOST_TERMS:
        shown = [*places[:3], None, places[-1]]
    parts = [DOTS if at is None else _weighed(explanation.program.output, seed[at], at) for at in shown]
    total = np.sum(seed * output) if seed.size else 0
    weighed = Chained((SUM, say.weighed), Ready(" ", " "))
    terms = (Chained(tuple(parts), PLUS),) if parts else ()
    return Equations((EquationRow((say.L, weighed, *terms, number_math(total))),))


def _weighed(output: str, weight: object, at: tuple[int, ...]) -> Math:
    """2·out[0,1]; a negative weight in brackets."""
    value, place = number_math(weight), tensor_label(output, [str(i) for i in at])
    text, latex = value.text, value.latex
    if text.startswith("−"):
        text, latex = f"({text})", f"({latex})"
    return Ready(f"{text}·{place.text}", f"{latex} \\cdot {place.latex}")


def _meaning(say: Speaker, explanation: Explanation) -> Iterator[Block]:
    """backward(v) is the gradient of L; it is not v times out."""
    yield say.paragraph(
        "{weighed} multiplies entry by entry, {sum} adds it all up: {L} is one number. `out.backward(v)` "
        "computes the gradient of this {L}: {partials}.",
        partials=_partials(explanation, say.L),
    )
    words = say(
        "It does not multiply `out` by {v} and hand that back. {v} weighs the rows of {J}, and the weighted rows "
        "are added up to a single row {vJ}, with one number for each entry of the input."
    )
    out = explanation.output.shape
    other = next((g for g in explanation.gradients.values() if g.value.shape != out), None)
    if other is not None:
        first, second = (
            f"{'has' if len(shape) == 1 else 'is'} {shape_words(shape)}" for shape in (out, other.value.shape)
        )
        told = " (The shapes tell them apart: {weighed} {first} like `out`, `{name}.grad` {second} like `{name}`.)"
        words = (*words, *say(told, first=first, name=other.name, second=second))
    yield Paragraph(words)


# A loss downstream ----------------------------------------------------------------------------------


def _downstream(explanation: Explanation) -> Iterator[Block]:
    """v = ∂L/∂out, derived from the loss that is computed from out."""
    later = explanation.downstream
    assert later is not None
    teller = teller_of(later.program, later.expression)
    letters = replace(letters_of(explanation.program), loss=later.program.output)
    say, output = Speaker(letters), letters.output
    yield say.paragraph(
        "A loss is computed from `out`: {L} = `{loss}`. In training this is all that counts, and `L.backward()` "
        "starts there. The weight of each output is then the derivative of {L} with respect to that output.",
        loss=later.expression,
    )
    formulas, equations = forward_equations(teller)
    *rows, last = equations.rows
    yield Equations((*rows, EquationRow((say.L, *last.parts[1:], number_math(without_fractions(later.output)[()])))))
    yield from teller.aside(*formulas)
    known = {g.name for g in explanation.inputs} | {output}
    extra = tuple(Grid(tensor_label(g.name), g.value) for g in later.inputs if g.value_given and g.name not in known)
    if extra:
        yield Grids(extra)
    yield from seed_formula_blocks(explanation, teller)
    yield Grids((Grid(say.v, explanation.seed),))
    yield say.paragraph(
        "`out.backward(v)` with this {v} does what `L.backward()` does from here on: it weighs the rows of {J} "
        "by {v} and adds them up to one row {vJ}. It does not multiply `out` by {v} and hand that back."
    )


def seed_formula_blocks(explanation: Explanation, teller: Teller | None = None) -> Iterator[Block]:
    """v[i,j] = ∂L/∂out[i,j] = …, and as code; line by line where that is too long for one formula."""
    later = explanation.downstream
    assert later is not None
    letters = replace(letters_of(explanation.program), loss=later.program.output)
    output, form, gradient = letters.output, explanation.seed_info.closed_form, later.gradients[letters.output]
    if not gradient.sweep.whole:
        told = [line.shown for line in (*later.backward.forward, *later.backward.statements) if line.text is not None]
        yield Listing("\n".join([*told, f"{letters.seed} = {output}.grad"]))
        return
    teller = teller or teller_of(later.program, later.expression)
    equation = inline_short_steps(teller, gradient.sweep.equation)
    names = teller.names.entry(equation.axes, output)
    at = [names.letter(i) for i in equation.axes]
    formula = Formula(equation.right.xreplace({access(later.program.seed, ()): sp.S.One}), names)  # a scalar's is 1
    remark: Words = as_code(letters.seed, form) if form else ()
    slope = partial_derivative(Speaker(letters).L, tensor_label(output, at))
    yield Equations((EquationRow((tensor_label(letters.seed, at), slope, formula), remark),))
    yield from teller.aside(formula)


def inline_short_steps(teller: Teller, equation: IndexEquation) -> IndexEquation:
    """``equation`` with the unnamed steps put in that are short and add nothing up: 2·(out[i] − y[i]) for 2·t1[i]."""
    short = {step.result.name: e for step, e in teller.steps if re.fullmatch(r"t\d+", step.result.name)}
    short = {name: e for name, e in short.items() if not e.right.has(sp.Sum, sp.Product)}
    whole = teller.fold(equation)
    for _ in short:
        whole = substitute(whole, short)
    return whole if sp.count_ops(whole.right) <= MOST_OPERATIONS else teller.fold(equation)
