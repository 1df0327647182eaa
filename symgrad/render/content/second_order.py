"""Section 6, where asked for: the Hessian by each pair of inputs, as formula, as code, in numbers, and its proofs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from symgrad.explanation import Explanation, Hessian
from symgrad.indexing import Equation as IndexEquation
from symgrad.render.content.jacobian import LONGEST, MOST_COLUMNS, MOST_ROWS
from symgrad.render.content.proof import remarks, verdict
from symgrad.render.content.teller import Teller
from symgrad.render.content.words import as_code
from symgrad.render.page import (
    Block,
    Code,
    Equation,
    Equations,
    Formula,
    Matrix,
    Paragraph,
    Ready,
    Section,
    Table,
    Words,
    entry,
    named,
    number,
)


def second_order_section(teller: Teller, explanation: Explanation) -> Section:
    """The whole section."""
    say = teller.say
    blocks: list[Block] = [
        Paragraph(
            say(
                "Differentiate once more: how does each entry of a gradient move when one entry of an input moves? "
                "These are the second derivatives of {what}. torch finds them by a backward through the backward "
                "(`create_graph=True`), one row for each entry.",
                what=say("{L} = `out`" if explanation.seed_info.origin == "scalar" else "{L} = {sum} {weighed}"),
            )
        )
    ]
    for hessian in explanation.hessians.values():
        blocks += hessian_blocks(teller, hessian)
    return Section(("Second order: the Hessian",), tuple(blocks))


def hessian_blocks(teller: Teller, hessian: Hessian) -> Iterator[Block]:
    """Formula, closed form, numbers, proofs of one pair of inputs."""
    say = teller.say
    first, second, matrix = hessian.first, hessian.second, hessian.jacobian
    rows, columns = matrix.shape
    pair: Words = (Code(first),) if first == second else (Code(first), " and ", Code(second))
    yield Paragraph(say("For {pair}:", pair=pair))
    axes = (*matrix.axes, *matrix.inner)
    names = teller.names.inner(axes)
    formula = None
    if hessian.formula is not None:
        whole = teller.fold(IndexEquation(axes, hessian.formula))
        formula = Formula(whole.right.xreplace(dict(zip(whole.axes, axes, strict=True))), names)
    if formula is not None and len(formula.text) <= LONGEST:
        letters = [names.letter(i) for i in axes]
        rank = len(matrix.axes)
        left = second_partial(say.L, named(first, letters[:rank]), named(second, letters[rank:]))
        yield Equations((Equation((left, formula), (f"{rows}×{columns}",)),))
        yield from teller.aside(formula)
    else:
        yield Paragraph((f"{rows}×{columns}; the formula is too long to be read.",))
    if hessian.closed_form is not None:
        yield Paragraph(("As code: ", *as_code("", hessian.closed_form)))
    if hessian.constant:
        yield Paragraph(
            say("It does not depend on {pair}: {L} is curved the same everywhere in that direction.", pair=pair)
            if hessian.formula != 0
            else say("All of it is 0: {L} has no curvature there.")
        )
    if 0 < rows <= MOST_ROWS and 0 < columns <= MOST_COLUMNS:
        dense = np.asarray(hessian.value).reshape(rows, columns)
        cells = tuple(tuple(number(v) if v != 0 else None for v in row) for row in dense)
        above = tuple(entry(second, at, names) for at in np.ndindex(*matrix.in_shape))
        beside = tuple(entry(first, at, names) for at in np.ndindex(*matrix.out_shape))
        yield Matrix(beside, above, cells)
    if hessian.digits:
        yield Paragraph(
            say(
                "The digits of these numbers are lost in float64: terms near the end of its range cancel. They are the "
                "formula's with {digits} digits; code that computes with floats has others.",
                digits=str(hessian.digits),
            )
        )
    if hessian.checks:
        rows_of = tuple(((say.oracle(check.oracle),), (verdict(check),)) for check in hessian.checks)
        yield Table((("compared with",), pair), rows_of)
        yield from remarks(say, [(first, check) for check in hessian.checks])


def second_partial(loss: Ready, first: Ready, second: Ready) -> Ready:
    """∂²L/∂x[p]∂x[q]."""
    return Ready(
        f"∂²{loss.text}/∂{first.text}∂{second.text}",
        f"\\frac{{\\partial^2 {loss.latex}}}{{\\partial {first.latex}\\,\\partial {second.latex}}}",
    )
