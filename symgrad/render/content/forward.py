"""Section 1: how out is computed, what it is here, and why ``out.backward()`` alone would stop."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import sympy as sp

from symgrad.calculus import local_jacobian
from symgrad.calculus.reverse_sweep import differential, small_change
from symgrad.closed_form.number_code import NoForm
from symgrad.closed_form.source_code import SourceWriter
from symgrad.explanation import Explanation
from symgrad.explanation.formulas import terms_in
from symgrad.indexing import Equation as IndexEquation
from symgrad.indexing import is_guard
from symgrad.indexing.definitions import in_names
from symgrad.indexing.equation import rebuild
from symgrad.indexing.symbols import Expr, is_access, name_of
from symgrad.language.python_text import write_python
from symgrad.numeric import Array, as_float
from symgrad.ops import entry_named as named_op
from symgrad.program import Apply
from symgrad.render import numbers
from symgrad.render.arrange import reading
from symgrad.render.content.speaker import Speaker
from symgrad.render.content.teller import Teller
from symgrad.render.page import (
    Block,
    Code,
    EquationRow,
    Equations,
    Formula,
    Grid,
    Grids,
    Listing,
    Paragraph,
    Section,
    Words,
    entry_label,
    number_math,
    tensor_label,
)

MOST_ENTRIES = 8
"""Outputs that are written out one by one."""
FIRST_ENTRIES = 3
"""Outputs that are written out of more than that."""
LARGEST = 4096
"""Elements of an output of which some are written out."""
LONGEST_DIFFERENTIAL = 320
"""Characters of a line about small changes that anyone reads."""
LONGEST = 90
"""Characters of an entry that is still written out."""
ERROR = "RuntimeError: grad can be implicitly created only for scalar outputs"


def heading(teller: Teller) -> Words:
    """What the section is about."""
    return teller.say("Forward: how `out` is computed")


def forward_section(teller: Teller, explanation: Explanation) -> Section:
    """The whole section."""
    formulas, equations = forward_equations(teller)
    blocks: list[Block] = [equations, *teller.aside(*formulas), *solved_blocks(teller)]
    if teller.steps:
        blocks += output_entry_blocks(teller, explanation, *teller.steps[-1])
    blocks += [forward_grids(teller, explanation), *_rounding(teller.say, explanation)]
    blocks += _scalar_only(teller.say, explanation.output.size)
    return Section(heading(teller), tuple(blocks))


def forward_equations(teller: Teller) -> tuple[list[Formula], Equations]:
    """One index equation a step; beside each the code it comes from, where that can be found."""
    rows = list[EquationRow]()
    for step, equation in teller.steps:
        solved = local_jacobian(step, teller.program).residual
        for shown in map(teller.fold, solved) if solved else [without_itself(equation, step.result.name)]:
            names = teller.names.entry(shown.axes, step.result.name)
            formula = Formula(in_names(shown.right, teller.inside), names)
            rows += map(EquationRow, teller.defined([formula.expression]))
            code = teller.code(step)
            remark: Words = (Code(code),) if code and code != teller.source and len(teller.steps) > 1 else ()
            left = teller.left(step.result.name, shown.axes, names)
            rows.append(EquationRow((formula, number_math(0)) if solved else (left, formula), remark))
    rows += map(EquationRow, teller.defined(map(teller.named, teller.derivatives if teller.inside else ())))
    formulas = [part for row in rows for part in row.parts if isinstance(part, Formula)]
    return formulas, Equations(tuple(rows))


def without_itself(equation: IndexEquation, name: str) -> IndexEquation:
    """``name = [name ≠ 0]·f`` as ``name = f``: only the derivative of f at 0 is another."""

    def changed(node: Expr) -> Expr | None:
        entry = node.args[0].lhs if is_guard(node) else None
        return sp.S.One if entry is not None and is_access(entry) and name_of(entry) == name else None

    return IndexEquation(equation.axes, rebuild(equation.right, changed))


def solved_blocks(teller: Teller) -> Iterator[Block]:
    """What is not computed by a formula but solves one: the identity, its differential, what is read beside."""
    say = teller.say
    steps = {step.result.name: step for step in teller.program.steps}
    for step, _ in teller.steps:
        op = named_op(step.op)
        if op.saved.residual is None and not op.saved.auxiliaries:
            continue
        yield say.paragraph("`{name}` is {says}.", name=teller.names.name(step.result.name), says=_said(teller, step))
        if op.saved.residual is not None:
            yield from _differential(teller, step)
        for _, name in step.beside:
            try:
                code = write_python(SourceWriter(teller.program).step(steps[name]))
            except NoForm:
                continue  # of what is nested too deep to be read
            yield say.paragraph("`{name}` is `{code}`.", name=name, code=code)


def _said(teller: Teller, step: Apply) -> str:
    """What an operation says of itself, its operands and its result called what they are called here."""
    op = named_op(step.op)
    called = {"out": step.result.name, **dict(zip(op.operands, map(str, step.arguments), strict=False))}
    letters = "|".join(map(re.escape, called))
    return re.sub(
        rf"(?<![A-Za-z0-9_.])(?:{letters})(?![A-Za-z0-9_])", lambda m: teller.names.name(called[m[0]]), op.summary
    )


def _differential(teller: Teller, step: Apply) -> Iterator[Block]:
    """The identity with small changes put in, and solved for the result's."""
    name = step.result.name
    found = differential(step, teller.program)
    rows = []
    for whole in (*found.identity, found.solved):
        equation = teller.fold(whole)
        names = teller.names.entry(equation.axes, name)
        formula = Formula(equation.right, names)
        if not formula.fits(LONGEST_DIFFERENTIAL):
            continue
        left = teller.left(small_change(name), equation.axes, names)
        rows.append(EquationRow((left, formula) if whole is found.solved else (formula, number_math(0))))
    if rows:
        yield Paragraph(("Differentiate this, and solve for the change of the result:",))
        yield Equations(tuple(rows))


def output_entry_blocks(
    teller: Teller, explanation: Explanation, step: Apply, equation: IndexEquation
) -> Iterator[Block]:
    """Every output as a formula in numbered entries, and its number."""
    say = teller.say
    output, values = explanation.output, explanation.values
    equation = without_itself(equation, step.result.name)
    if step.beside or local_jacobian(step, explanation.program).residual:
        return
    if not 0 < output.size <= LARGEST or terms_in(equation.right, values.sizes) > MOST_ENTRIES:
        return
    count = output.size if output.size <= MOST_ENTRIES else FIRST_ENTRIES
    scope = teller.names.entry(equation.axes, step.result.name)
    names = scope.ordered(list(reading(equation.right, scope)))
    rows, every = [], list(np.ndindex(*output.shape))[:count]
    asked = [(equation.right, dict(zip(equation.axes, at, strict=True))) for at in every]
    for at, found in zip(every, teller.numbered(asked, values), strict=True):
        formula = Formula(found, names)
        folded = found.is_number and not np.isfinite(as_float(output[at]))  # 0·log(0), of which 0 is left
        if folded or not formula.fits(LONGEST):
            return
        rows.append(EquationRow((entry_label(step.result.name, at, names), formula, number_math(output[at]))))
    yield Equations(tuple(rows))
    if count < output.size:
        yield say.paragraph("… and {more} more like these", more=output.size - count, aside=True)


def forward_grids(teller: Teller, explanation: Explanation) -> Block:
    """The inputs that were given, what the forward pass found, and the output."""
    grids = [Grid(tensor_label(g.name), g.value) for g in explanation.inputs if g.value_given]
    held = [(called, explanation.values.arrays.get(name)) for name, called in teller.names.called.items()]
    grids += [Grid(tensor_label(called), places) for called, places in held if places is not None]
    return Grids((*grids, Grid(tensor_label(teller.program.output), explanation.shown)))


def _rounding(say: Speaker, explanation: Explanation) -> Iterator[Block]:
    """Said once where decimals are cut."""
    arrays: list[Array] = [explanation.output, explanation.seed, *(g.value for g in explanation.inputs)]
    arrays += [g.value for g in explanation.gradients.values()]
    if any(numbers.is_rounded(array) for array in arrays):
        yield say.paragraph("(decimals are shown with {digits} digits)", digits=numbers.DIGITS, aside=True)


def _scalar_only(say: Speaker, count: int) -> Iterator[Block]:
    """Why backward() alone works for one number, and stops for everything else."""
    if count == 1:
        yield say.paragraph(
            "`out` is a single number, so `out.backward()` needs no argument: there is one row of derivatives, "
            "and it is the gradient."
        )
        return
    yield say.paragraph("`out` has {count} elements, so `out.backward()` alone stops with", count=count)
    yield Listing(ERROR)
    yield say.paragraph(
        "Why: each of these elements has derivatives of its own. They are the rows of the Jacobian {J} below: "
        "{count} rows, and one gradient to return. The rows have to be weighed and added up, and nobody said how to "
        "weigh them.",
        count=count,
    )
