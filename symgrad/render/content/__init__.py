"""An explanation as a page: what is said, in which order, in which words. How it looks is the writers' business.

Comes in: an `Explanation`, and maybe the entry whose story is told instead; or, for `symgrad derive`, a program and its
formulas, sizes as symbols. Goes out: a `Page`: the expression, what was assumed, and the five sections; formulas alone
for a derivation. This package is the only place that knows the words, so that the writers need not repeat them.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress

from symgrad.backward import Backward, derive_backward
from symgrad.calculus import flows
from symgrad.closed_form.number_code import NoForm, describe_least_sizes
from symgrad.closed_form.source_code import SourceWriter
from symgrad.explanation import Explanation
from symgrad.explanation.formulas import Derived, find_definitions, sample
from symgrad.indexing.definitions import NamedEquation
from symgrad.language import arguments, format_definition
from symgrad.language.python_text import write_python
from symgrad.program import Program, Stated
from symgrad.render.content.answer import answer_of, found_places, line_by_line
from symgrad.render.content.first_lines import (
    ALONE,
    OPENING,
    Room,
    has_readable_lines,
    opening_lines,
    raised_first,
    short_forms,
    with_constants,
)
from symgrad.render.content.forward import forward_equations, forward_section
from symgrad.render.content.jacobian_matrix import LONGEST, jacobian_blocks, jacobian_formula_blocks
from symgrad.render.content.proof import (
    forward_mode_blocks,
    proof_section,
    second_derivative_blocks,
    second_lines,
    second_order_section,
)
from symgrad.render.content.pullback import pullback_section, sweep_blocks
from symgrad.render.content.seed import seed_formula_blocks, seed_section
from symgrad.render.content.singular_words import rows_without_value
from symgrad.render.content.speaker import join_words, program_notes, size_text
from symgrad.render.content.teller import Teller, gradient_formula, naming_teller, teller_of
from symgrad.render.page import (
    Block,
    Code,
    EquationRow,
    Equations,
    Formula,
    Listing,
    Page,
    Paragraph,
    Section,
    Words,
    tensor_label,
)

MOST_STEPS = 12
"""Steps of a program that is written as one expression."""
ROOM = Room(others="in section 3")


def derivation_page(program: Program, derived: Sequence[Derived], order: int = 1, remarks: Sequence[str] = ()) -> Page:
    """Forward, Jacobian and pullback of every input, for every size; of ``order`` 2 the second derivatives' lines."""
    lines, teller = derive_lines(program, derived)
    facts = [(t.name, size_text(t.shape)) for t in program.inputs] + [(program.output, size_text(program.out.shape))]
    return Page(
        (Code(program_title(program)),), tuple(facts),
        (*gradient_listing(program, lines, derived), *where_it_holds(program),
         *program_notes(program, [d.name for d in derived]),
         *(Paragraph((f"{remark}.",)) for remark in remarks)),
        (*derivatives(teller, derived), derived_pullbacks(teller, derived, lines),
         *([second_lines(teller, [d.name for d in derived])] if order == 2 else [])),
    )  # fmt: skip


def where_it_holds(program: Program) -> Iterator[Paragraph]:
    """The sizes at which the text means these steps."""
    needs = describe_least_sizes(program.required)
    if needs:
        told = f"This holds for {', '.join(needs)}; at other sizes the code is refused or means something else."
        yield Paragraph((told,))


def gradient_listing(program: Program, lines: Backward | None, derived: Sequence[Derived]) -> Iterator[Listing]:
    """The line of each gradient, and what it reads."""
    if lines is None:
        return
    told, _ = short_forms({d.name: None if d.form is None else d.form.text for d in derived}, lines, ROOM)
    told = (
        told or opening_lines(lines, program, [d.name for d in derived if has_readable_lines(lines, d.name)], ROOM)[0]
    )
    if told:
        yield Listing("\n".join(with_constants(told, lines)))


def derivatives(teller: Teller, derived: Sequence[Derived]) -> tuple[Section, Section]:
    """The forward pass, and the Jacobian by every input."""
    formulas, equations = forward_equations(teller)
    forward = Section(("Forward",), (equations, *teller.aside(*formulas)))  # what is explained here is not below
    blocks = (jacobian_formula_blocks(teller, d.name, d.axes, d.inner, d.jacobian, d.structure) for d in derived)
    return forward, Section(teller.say("The Jacobian {J}"), tuple(itertools.chain.from_iterable(blocks)))


def derived_pullbacks(teller: Teller, derived: Sequence[Derived], lines: Backward | None) -> Section:
    """What flows back to every input: lines, formulas, forms."""
    told = set[str]()
    apart = lines is not None and says_more(lines, derived)
    found = [*line_by_line(lines)] if lines is not None and apart else []
    for d in derived:
        said = lines is not None and apart and has_readable_lines(lines, d.name)
        text, rules = (d.form.text, [*d.form.rules]) if d.form else (None, [])
        found += sweep_blocks(teller, d.name, d.sweep, text, told, rules, said)
    return Section(teller.say("{vJ}: what `out.backward(v)` computes"), tuple(found))


def program_title(program: Program) -> str:
    """The program as one line: ``out = x @ a``; where the text states its output by an equation, that."""
    last, source = next((step for step in program.steps if step.result.name == program.output), None), "…"
    if last is not None and isinstance(last.op, Stated):
        return last.op.text
    if last is not None and len(program.steps) <= MOST_STEPS:
        with suppress(NoForm):
            source = write_python(SourceWriter(program).step(last))
    return f"{program.output} = {source}"


def derive_lines(program: Program, derived: Sequence[Derived]) -> tuple[Backward | None, Teller]:
    """The gradients line by line, None without numbers to prove them at; and who tells formulas in their names."""
    point, lines = sample(program, {}), None
    definitions: tuple[NamedEquation, ...] = ()
    if point is not None:
        sized, values, _ = point
        lines = derive_backward(sized, [d.name for d in derived], values=values)
        forms = (None if d.form is None else d.form.text for d in derived)
        definitions = find_definitions(program, lines, forms, values)
    return lines, teller_of(program, None, True, definitions, [(d.jacobian, d.sweep) for d in derived])


def says_more(lines: Backward, derived: Sequence[Derived]) -> bool:
    """Whether there are steps on the way to the gradients, or a line says what no form does."""
    between = lines.lines and any(line.text is not None for line in lines.statements)
    return bool(between) or any(d.form is None and has_readable_lines(lines, d.name) for d in derived)


BLOCK = re.compile(r"^ *(?:def|for|while|if|with|try)\b.*:", re.MULTILINE)
"""What begins a block of lines, as a loop."""
STATED = re.compile(r"[^()=]*=[^=]")
"""A statement that has a left side."""


def explanation_page(
    explanation: Explanation,
    entry: tuple[str, tuple[int, ...]] | None = None,
    brief: bool = False,
    only: Collection[int] | None = None,
    paper: bool = False,
) -> Page:
    """The page, whole or about one entry of one gradient; a ``brief`` one is what a whole one opens with.

    It has room for lines that a whole one has below. With ``only``, the places of some sections, those alone are
    written: what a reader has to know first is told in the first that needs it. Who reads ``paper`` changes no
    setting, and has formulas before code.
    """
    entry, brief = arguments.require_entry(entry), arguments.require_flag(brief, "brief")
    source = None if explanation.expanded else explanation.expression
    teller = teller_of(explanation.program, source)
    if entry is None and (paper if brief else only is None or 0 in only):  # what defines names is shown
        teller = naming_teller(explanation, source)
    sections: tuple[Section, ...] = ()
    opening: tuple[Block, ...] = ()
    if entry is not None:
        from symgrad.render.content.one_entry import entry_sections

        sections = entry_sections(teller, explanation, *entry)
    else:
        answer = answer_of(explanation, teller, ALONE if brief else OPENING)
        opening = (*seed_opening(explanation), *answer.blocks(), *second_derivative_blocks(teller, explanation))
        opening = (*opening, *forward_mode_blocks(teller, explanation))
        opening = (*raised_first(explanation), *opening)
        if paper and brief:
            opening = (*index_formulas(teller, explanation), *opening)
    if entry is None and not brief:
        writers: list[Callable[[], Section]] = [
            lambda: forward_section(teller, explanation),
            lambda: _jacobians(teller, explanation),
            lambda: seed_section(explanation),
            lambda: pullback_section(teller, explanation, answer),
            lambda: proof_section(explanation),
        ]
        if explanation.hessians:
            writers.append(lambda: second_order_section(teller, explanation))
        sections = tuple(write() for place, write in enumerate(writers) if only is None or place in only)
    facts = [(g.name, size_text(g.value.shape)) for g in explanation.inputs]
    facts.append((explanation.program.output, size_text(explanation.output.shape)))
    typed = explanation.expression
    heading = (Code(format_definition(typed, explanation.program.output)),)
    if BLOCK.search(typed):  # on one line nobody sees where a loop ends
        lines = textwrap.dedent(typed).strip().splitlines()
        heading, opening = (Code(lines[-1].strip()),), (Listing("\n".join(lines)), Paragraph(("gives",)), *opening)
    later = explanation.downstream
    if later is not None:
        known = dict(facts)
        facts += [(g.name, size_text(g.value.shape)) for g in later.inputs if g.name not in known]
        texts = (explanation.expression, explanation.program.output), (later.expression, later.program.output)
        heading = (Code("; ".join(itertools.chain(*itertools.starmap(_statements, texts)))),)
    return Page(heading, tuple(facts), (*opening, *_lead(explanation, hints=not paper)), sections)


def index_formulas(teller: Teller, explanation: Explanation) -> Iterator[Block]:
    """The formula of each gradient that is short enough to be read, after those of the gradients it is made of."""
    rows: list[EquationRow] = []
    told: dict[str, None] = {}
    for name, gradient in explanation.gradients.items():
        *before, (_, last) = gradient.sweep.stages
        new = {stage: equation for stage, equation in before if stage not in told}
        names = [teller.names.entry(e.axes, stage.removeprefix(teller.program.back)) for stage, e in new.items()]
        new[f"{name}.grad"] = last
        own = [
            gradient_formula(teller, stage, equation, letters)
            for (stage, equation), letters in zip(new.items(), [*names, teller.names.inner(last.axes)], strict=True)
        ]
        if all(formula.fits(LONGEST) for formula, _ in own):
            rows += [EquationRow((left, formula)) for formula, left in own]
            told |= dict.fromkeys(new)
    if rows:
        formulas = [row.parts[1].expression for row in rows if isinstance(row.parts[1], Formula)]
        rows = [*map(EquationRow, teller.defined(formulas)), *rows]
        yield Equations(tuple(rows))
        yield from teller.aside(*(part for row in rows for part in row.parts if isinstance(part, Formula)))
        yield from found_places(teller, rows)
        for stage in [stage for stage in told if not stage.endswith(".grad")]:
            of = Code(stage.removeprefix(teller.program.back))
            yield Paragraph((tensor_label(stage), " is the gradient with respect to ", of, "."))


def seed_opening(explanation: Explanation) -> Iterator[Block]:
    """What v is where a loss says it: as code, else by its formula."""
    if explanation.seed_info.origin == "downstream":
        form = explanation.seed_info.closed_form
        yield from (Listing(f"{explanation.program.seed} = {form}"),) if form else seed_formula_blocks(explanation)


def _jacobians(teller: Teller, explanation: Explanation) -> Section:
    """Section 2: J by each input; outputs that have no value are named."""
    say, gradients = teller.say, explanation.gradients.values()
    blocks: list[Block] = [
        say.paragraph(
            "One row for each entry of `out`, one column for each entry of the input. Each cell is the derivative of "
            "that output with respect to that input: how fast the output changes when only that input changes."
        )
    ]
    for gradient in gradients:
        blocks += jacobian_blocks(teller, gradient.jacobian)
    blocks += itertools.islice((block for g in gradients for block in rows_without_value(teller, g)), 1)
    return Section(say("The Jacobian {J}: the derivative of each output with respect to each input"), tuple(blocks))


def _statements(text: str, output: str) -> Iterator[str]:
    """The statements of a text, the last with a left side: two texts on one line each say what theirs is called."""
    *before, last = [part.strip() for part in format_definition(text, output).split(";") if part.strip()]
    yield from before
    yield last if STATED.match(last) else format_definition(last, output)


def _lead(explanation: Explanation, *, hints: bool) -> Iterator[Block]:
    """A warning if the oracles disagree; what was assumed and how to change it; what the text makes itself; remarks."""
    if not explanation.passed and not explanation.refused:
        yield Paragraph(("The oracles disagree with what was derived: see the last section.",), alarm=True)
    words: Words = ()
    if explanation.assumptions:
        words = ("Assumed: ", "; ".join(explanation.assumptions), ".")
    if explanation.hints and hints:
        hints_told = join_words([(Code(str(hint)),) for hint in explanation.hints], "  ", "  ")
        words = (*words, " To change this: ", *hints_told)
    if words:
        yield Paragraph(words)
    later = explanation.downstream
    for name in explanation.gradients if later is not None else ():
        if later is not None and name in {t.name for t in later.program.inputs} and flows(later.program, name):
            words = ("The loss uses ", Code(name), " directly as well as through out. This page leaves out what that ")
            yield Paragraph((*words, "direct use adds to ", Code(f"{name}.grad"), "."))
    yield from program_notes(explanation.program, explanation.gradients)
    if explanation.conventions:
        yield Paragraph(("; ".join(said.removesuffix(".") for said in explanation.conventions), "."))
