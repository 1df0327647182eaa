"""Section 4: vᵀJ for each input, as an index formula, as code, entry by entry, and whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import sympy as sp

from symgrad.calculus import Sweep
from symgrad.closed_form import describe_dropped_guards
from symgrad.closed_form.number_code import NoForm
from symgrad.closed_form.source_code import SourceWriter
from symgrad.explanation import Explanation, Gradient
from symgrad.explanation.formulas import Entry
from symgrad.indexing import Equation
from symgrad.language.python_text import write_python
from symgrad.numeric import as_float
from symgrad.program import UNNAMED, Apply
from symgrad.render import numbers
from symgrad.render.arrange import reading, term_key
from symgrad.render.content.answer import Answer, line_by_line, uses_of
from symgrad.render.content.first_lines import has_readable_lines
from symgrad.render.content.jacobian_matrix import LONGEST
from symgrad.render.content.singular_words import singular_blocks
from symgrad.render.content.speaker import DOTS, PLUS, as_code, shape_words
from symgrad.render.content.teller import Teller, gradient_formula
from symgrad.render.page import (
    Block,
    Chained,
    Code,
    EquationRow,
    Equations,
    Formula,
    Grid,
    Grids,
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
"""Terms of an entry that are all written out."""
LONGEST_ENTRY = 240
"""Characters of an entry that is still written out."""


def pullback_section(teller: Teller, explanation: Explanation, answer: Answer) -> Section:
    """The whole section, in the lines of the ``answer``; the rest of what that said is not said again."""
    say = teller.say
    blocks = [*(line_by_line(explanation.backward) if answer.cut else ()), *_rule(teller, explanation)]
    told: set[str] = set()
    for gradient in explanation.gradients.values():
        blocks += [*gradient_blocks(teller, explanation, gradient, told, answer), *answer.rest(gradient.name)]
    blocks += [Paragraph(words) for words in answer.kinks if words != answer.told]
    return Section(say("{vJ}: the weighted rows of {J}, added up"), tuple(blocks))


def _rule(teller: Teller, explanation: Explanation) -> Iterator[Block]:
    """x.grad[p,q] = Σ_{i,k} v[i,k]·∂out[i,k]/∂x[p,q], before any formula is put in."""
    say = teller.say
    reaching = [g for g in explanation.gradients.values() if g.name in teller.program.relevant]
    if not reaching:
        return
    jacobian = reaching[0].jacobian
    if not jacobian.axes:
        return
    names = teller.names.entry(jacobian.axes, teller.program.output).inner(jacobian.inner)
    at, inner = ([names.letter(i) for i in axes] for axes in (jacobian.axes, jacobian.inner))
    weight = tensor_label(teller.program.seed, at)
    derivative = partial_derivative(tensor_label(teller.program.output, at), tensor_label(jacobian.name, inner))
    many = ",".join(at)
    total = Ready(
        f"Σ_{many if len(at) == 1 else '{' + many + '}'} {weight.text}·{derivative.text}",
        f"\\sum_{{{many}}} {weight.latex} \\, {derivative.latex}",
    )
    rows, columns = jacobian.shape
    yield say.paragraph(
        "Lay {v} out as one row of {rows} numbers. That row times {J}, {rows}×{columns}, is one row of "
        "{columns}: {vJ}. In the shape of `{name}` ({shape}) it is `{name}.grad`. So each entry of the "
        "gradient is one column of {J}, every number in it times the weight of its row, added up:",
        rows=rows,
        columns=columns,
        name=jacobian.name,
        shape=shape_words(jacobian.in_shape),
    )
    yield Equations((EquationRow((tensor_label(f"{jacobian.name}.grad", inner), total)),))
    contracted = any(g.jacobian.formula is not None and g.jacobian.formula.has(sp.KroneckerDelta) for g in reaching)
    met = contracted and "δ" in teller.told
    effect = "; δ leaves only the terms whose indices agree." if met else "."
    yield say.paragraph("Put in the formulas of {J}{effect}", effect=effect)


def gradient_blocks(
    teller: Teller, explanation: Explanation, gradient: Gradient, told: set[str], answer: Answer
) -> Iterator[Block]:
    """Formula, line of code, uses, stages that are not ``told`` yet, entries and all numbers of one gradient."""
    say = teller.say
    if gradient.name not in teller.program.relevant:
        yield say.paragraph(
            "`{name}.grad`: `out` does not depend on `{name}`, so there is nothing to add up; as a number it "
            "is 0 everywhere.",
            name=gradient.name,
        )
        return
    lines, name = explanation.backward, gradient.name
    said = has_readable_lines(lines, name)
    text, rules = gradient.closed_form, [*gradient.form.rules] if gradient.form else []
    if answer.by_line and said:
        line = lines.gradients[name]
        text, rules = line.text, [r for one in (*lines.needed(name), line) for part in one.parts for r in part.rules]
    yield from sweep_blocks(teller, name, gradient.sweep, text, told, rules, said)
    yield from gradient_entry_blocks(teller, gradient)
    yield Grids((Grid(tensor_label(f"{gradient.name}.grad"), gradient.shown),))
    yield from _one_variable(teller, gradient)
    yield from singular_blocks(teller, gradient)


def _one_variable(teller: Teller, gradient: Gradient) -> Iterator[Block]:
    """The other representative of a gradient by a symmetric matrix."""
    say = teller.say
    other = gradient.single_shown
    if other is None:
        return
    yield say.paragraph(
        "`{name}` is read as symmetric. `{name}.grad` divides the derivative with respect to an off-diagonal entry "
        "evenly between its two places, as torch does. As one variable, it gets both shares:",
        name=gradient.name,
    )
    yield Grids((Grid(Ready("as one variable", r"\text{as one variable}"), other),))


def sweep_blocks(
    teller: Teller,
    name: str,
    sweep: Sweep,
    closed_form: str | None,
    told: set[str],
    rules: Sequence[str] = (),
    said: bool = False,
) -> Iterator[Block]:
    """The formula with its stages and uses, and the closed form.

    A stage that was ``told`` is not told again. ``rules`` led to the form, and may have left out a guard. ``said`` is
    whether lines on this page say the gradient in code.
    """
    say = teller.say
    formulas: list[Formula] = []
    new = [stage for stage in sweep.stages[:-1] if stage[0] not in told]
    told.update(stage for stage, _ in new)
    if not (sweep.whole or new):
        yield say.paragraph(
            "The whole formula for `{name}` would be long. The names in it are defined above.", name=name
        )
    for stage, equation in new:
        tensor = stage.removeprefix(teller.program.back)
        if len(formulas) == 0:
            yield say.paragraph(
                "The whole formula for `{name}` would be long. `{stage}` is the gradient with respect to `{tensor}`:",
                name=name,
                stage=stage,
                tensor=tensor,
            )
        formula, left = gradient_formula(teller, stage, equation, teller.names.entry(equation.axes, tensor))
        formulas.append(formula)
        yield Equations((EquationRow((left, formula)),))
    uses = use_equations(teller, name, sweep) if len(sweep.uses) > 1 else []
    if uses:
        every = uses_of(teller.program, name, len(uses))
        words = "Its gradient is the sum over these uses:"
        if every > len(uses):
            words = "Its gradient is the sum over the {count} uses that have one:"
        yield say.paragraph(f"`{{name}}` is used {{every}} times. {words}", name=name, every=every, count=len(uses))
        yield Equations(tuple(uses))
        formulas += [row.parts[1] for row in uses if isinstance(row.parts[1], Formula)]
    names = teller.names.inner(sweep.equation.axes)
    formula, left = gradient_formula(teller, f"{name}.grad", sweep.equation, names)
    formulas.append(formula)
    remark: Words = as_code(f"{name}.grad", closed_form) if closed_form else ()
    if formula.fits(LONGEST):
        yield Equations((EquationRow((left, formula), remark),))
        yield from teller.aside(*formulas)
    else:
        yield say.paragraph("`{name}.grad`: the index formula is too long to show.", name=name)
        if remark:
            yield Paragraph(("In code: ", *remark))
    if closed_form and formula.expression is not sp.nan:
        yield from (Paragraph((says,)) for says in describe_dropped_guards(rules))
    if not closed_form and not said and sweep.whole and formula.expression != 0:
        instead = "; the index formula is the answer" if formula.fits(LONGEST) else " either"
        yield Paragraph((f"(No short matrix notation was found{instead}.)",), aside=True)


def use_equations(teller: Teller, name: str, sweep: Sweep) -> list[EquationRow]:
    """One row for each use: its share, and where in the program it is."""
    rows: list[EquationRow] = []
    for where, equation in sweep.uses:
        names = teller.names.inner(equation.axes)
        formula, _ = gradient_formula(teller, name, equation, names)
        result, _, argument = where.partition(", argument ")
        letters = [names.letter(i) for i in equation.axes]
        step = next((s for s in teller.program.steps if s.result.name == result), None)
        code = (step_source(teller, step) if step else "") or result
        remark: Words = ("as argument ", argument, " of ", Code(code)) if argument else ("from ", Code(where))
        left, place = tensor_label(f"{name}.grad", letters), len(rows) + 1
        share = Ready(f"use {place}: {left.text}", f"\\text{{use {place}: }} {left.latex}")
        rows.append(EquationRow((share, formula), remark))
    return rows


def step_source(teller: Teller, step: Apply) -> str:
    """A step as the user wrote it; where it stands inside an opened one, what it is applied to."""
    if teller.source or not UNNAMED.fullmatch(step.result.name):
        return teller.code(step)
    try:
        return write_python(SourceWriter(teller.program).step(step))
    except NoForm:
        return ""


# Entries --------------------------------------------------------------------------------------------


def gradient_entry_blocks(teller: Teller, gradient: Gradient) -> Iterator[Block]:
    """The first entry in full, and the first of the next row."""
    shape = gradient.value.shape
    if 0 in shape:
        return
    first = (0,) * len(shape)
    places = [first]
    if shape and shape[0] > 1:
        places.append((1, *first[1:]))
    equation = Equation(gradient.inner, teller.in_numbers(gradient.formula))
    sweep = Sweep(((gradient.name, equation),)) if gradient.sweep.whole else gradient.sweep
    stories = [replace(gradient, sweep=sweep).entry(at) for at in places]
    rows = [row for n, story in enumerate(stories) for row in entry_rows(teller, gradient, story, in_full=n == 0)]
    if rows:
        yield Equations(tuple(rows))


def entry_rows(
    teller: Teller, gradient: Gradient, story: Entry, in_full: bool, whole: bool = False
) -> Iterator[EquationRow]:
    """x.grad[0,0] = 1·a00 + 2·a01 = 1·1 + 2·1 = 3; without ``in_full`` the products are done at once.

    Many terms are shortened unless ``whole``.
    """
    left = tensor_label(f"{gradient.name}.grad", [str(i) for i in story.at])
    if not story.terms:
        return
    scope = teller.names.inner(gradient.inner)
    names = scope.ordered(list(reading(gradient.formula, scope)))
    values, seed = gradient.values, gradient.program.seed
    terms = teller.numbered([(term, {}) for term, _ in story.terms], values)
    pairs = sorted(zip(terms, (value for _, value in story.terms), strict=True), key=lambda p: term_key(p[0], names))
    terms = [term for term, _ in pairs]
    if sum(sp.count_ops(t) for t in terms) > LONGEST_ENTRY:
        return
    seeded = shortened_sum([Formula(t, names.written({seed: values[seed]})) for t in terms], whole)
    in_numbers = shortened_sum([Formula(t, names.written(values.arrays)) for t in terms], whole)
    done = shortened_sum([number_math(value) for _, value in pairs], whole)
    parts: list[Math] = [left]
    total = gradient.shown[story.at]
    remark: Words = ()
    if not np.isfinite(as_float(total)):  # a line that is worked out ends with what it comes to
        with np.errstate(invalid="ignore", over="ignore"):  # ∞ − ∞ is NaN
            total = sum(value for _, value in pairs)
        same = np.array_equal(as_float(total), as_float(story.total), equal_nan=True)
        remark = () if same else (f"step by step it is {numbers.text(story.total)}: see below",)
    for part in (seeded, in_numbers if in_full else done, number_math(total)):
        if part.text != parts[-1].text:
            parts.append(part)
    if whole or len(seeded.text) <= LONGEST_ENTRY:
        yield EquationRow(tuple(parts), remark)


def shortened_sum(terms: Sequence[Math], whole: bool) -> Chained:
    """A sum; the middle of many terms is left out unless it is wanted ``whole``."""
    shown = terms if whole or len(terms) <= MOST_TERMS else (*terms[:3], DOTS, terms[-1])
    return Chained(tuple(shown), PLUS)
