"""The story of one entry: which outputs it moves, how much each of them counts, and what that adds up to.

The column of J that belongs to the entry, the weights beside it, their products, and the sum.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import sympy as sp

from symgrad.errors import UnknownNameError
from symgrad.explanation import Explanation, Gradient
from symgrad.numeric import Array, as_float, as_fractions, is_exact, numeric_pushforward, without_fractions
from symgrad.render.arrange import reading
from symgrad.render.content.forward import forward_equations, heading
from symgrad.render.content.jacobian_matrix import jacobian_blocks, jacobian_equation
from symgrad.render.content.proof import proof_section
from symgrad.render.content.pullback import entry_rows, sweep_blocks
from symgrad.render.content.seed import seed_section
from symgrad.render.content.singular_words import singular_blocks
from symgrad.render.content.teller import Teller
from symgrad.render.page import (
    Block,
    EquationRow,
    Equations,
    Formula,
    Section,
    Table,
    Words,
    entry_label,
    number_math,
    partial_derivative,
    tensor_label,
)

MOST_ROWS = 24
"""Outputs that are listed."""
SYMBOLIC = 400
"""Outputs whose derivative is also written in symbols."""
LONGEST = 50


def entry_sections(teller: Teller, explanation: Explanation, name: str, at: tuple[int, ...]) -> tuple[Section, ...]:
    """Forward, the outputs that the entry moves, what they add up to, the proof."""
    say = teller.say
    gradient = gradient_of(explanation, name)
    story = gradient.entry(at)
    formulas, equations = forward_equations(teller)
    forward = Section(heading(teller), (equations, *teller.aside(*formulas)))
    it = entry_label(name, at, teller.names)
    if name not in teller.program.relevant:
        nothing = Section(say("What moves with {it}", it=it), tuple(jacobian_blocks(teller, gradient.jacobian)))
        return forward, nothing, proof_section(explanation, name)
    moving = say("Which outputs depend on {it}: one column of {J}", it=it)
    moves = Section(moving, tuple(_column(teller, explanation, gradient, at)))
    place = tensor_label(f"{name}.grad", [str(i) for i in at])
    rules = gradient.form.rules if gradient.form else ()
    rows = tuple(entry_rows(teller, gradient, story, in_full=True, whole=True))
    total: list[Block] = [
        say.paragraph(
            "{L} is the sum of every output times its weight in {v}. When {it} moves, each output above moves "
            "{L} by its derivative times its weight; together that is {place}.",
            it=it,
            place=place,
        ),
        *sweep_blocks(teller, name, gradient.sweep, gradient.closed_form, set(), rules),
        Equations(rows or (EquationRow((place, number_math(story.total))),)),
        *singular_blocks(teller, gradient),
    ]
    return (
        forward,
        seed_section(explanation),
        moves,
        Section(say("The sum: {place}", place=place), tuple(total)),
        proof_section(explanation, name),
    )


def gradient_of(explanation: Explanation, name: str) -> Gradient:
    """The gradient by ``name``, or the names there are."""
    if name not in explanation.gradients:
        known = ", ".join(explanation.gradients) or "none"
        raise UnknownNameError(f"there is no gradient with respect to {name!r} here", found=(f"gradients: {known}",))
    return explanation.gradients[name]


def jacobian_column(explanation: Explanation, gradient: Gradient, at: tuple[int, ...]) -> Array:
    """∂out/∂x[at] for every output: J times the unit change of that entry, J never formed."""
    unit = np.zeros(gradient.value.shape, dtype=np.int64)
    unit[at] = 1
    values = explanation.values
    tangent = as_fractions(unit) if is_exact(values[gradient.name]) else as_float(unit)
    return without_fractions(numeric_pushforward(explanation.program, values, gradient.name, tangent))


def _column(teller: Teller, explanation: Explanation, gradient: Gradient, at: tuple[int, ...]) -> Iterator[Block]:
    """A table: output, derivative in symbols and in numbers, weight, product; the sum below."""
    say = teller.say
    jacobian = gradient.jacobian
    left, formula = jacobian_equation(teller, gradient.name, jacobian.axes, jacobian.inner, jacobian.formula)
    names = teller.names
    if formula is not None:
        yield Equations((EquationRow((left, formula)),))
        yield from teller.aside(formula)
        names = formula.names.ordered(list(reading(formula.expression, formula.names)))
    numbers = jacobian_column(explanation, gradient, at)
    axes = (*jacobian.axes, *jacobian.inner)
    seed = without_fractions(explanation.seed)
    rows: list[tuple[Words, ...]] = []
    moved, still = 0, 0
    outputs = list(np.ndindex(*explanation.output.shape))
    cells: list[Formula | None] = [None] * len(outputs)
    if formula is not None and explanation.output.size <= SYMBOLIC:
        asked = [(formula.expression, dict(zip(axes, (*place, *at), strict=True))) for place in outputs]
        cells = [Formula(found, names) for found in teller.numbered(asked, explanation.values)]
    for place, cell in zip(outputs, cells, strict=True):
        if cell is not None:
            if cell.expression == 0:
                continue
        elif numbers[place] == 0:
            continue
        moved, still = moved + 1, still + bool(numbers[place] == 0)
        if len(rows) < MOST_ROWS:
            shown: Words = (cell,) if cell is not None and cell.fits(LONGEST) else ()
            output = tensor_label(teller.program.output, [str(i) for i in place])
            product = seed[place] * numbers[place]
            rows.append(
                ((output,), shown, (number_math(numbers[place]),), (number_math(seed[place]),), (number_math(product),))
            )
    count = explanation.output.size
    it = entry_label(gradient.name, at, teller.names)
    if not moved:
        yield say.paragraph("None of the {count} outputs depends on {it}.", count=count, it=it)
        return
    verb = "can depend" if still else "depends" if moved == 1 else "depend"
    first = ":" if moved <= MOST_ROWS else f"; the first {MOST_ROWS}:"
    yield say.paragraph(
        "{moved} of {count} outputs {verb} on {it}{first}", moved=moved, count=count, verb=verb, it=it, first=first
    )
    total = np.sum(seed * numbers)
    rows.append((("sum",), (), (), (), (number_math(total),)))
    by = partial_derivative(say.out, it)
    symbols = [part for row in rows for part in row[1] if isinstance(part, Formula)]
    titles: tuple[Words, ...] = (("output",), (by,), ("in numbers",), say("weight {v}"), ("product",))
    if all(isinstance(part.expression, sp.Number) for part in symbols):
        titles = (("output",), (by,), say("weight {v}"), ("product",))
        rows = [(row[0], *row[2:]) for row in rows]
    yield Table(titles, tuple(rows))
