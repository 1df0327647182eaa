"""The page of an explanation: the expression, what was assumed, and the five sections.

With an entry, the page tells the story of that one entry instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from symgrad.explanation import Explanation
from symgrad.language import definition
from symgrad.language.outside import arguments
from symgrad.render.content.answer import answer_of
from symgrad.render.content.first_lines import ALONE, OPENING
from symgrad.render.content.forward import forward_section
from symgrad.render.content.jacobian import jacobian_section
from symgrad.render.content.one_entry import entry_sections
from symgrad.render.content.proof import proof_section
from symgrad.render.content.pullback import pullback_section
from symgrad.render.content.second_order import curvature, second_order_section
from symgrad.render.content.seed import seed_section
from symgrad.render.content.singular import rows_without_value
from symgrad.render.content.speaker import left_out, made_here, renamed
from symgrad.render.content.teller import Teller, teller_of
from symgrad.render.content.words import size_text
from symgrad.render.page import Block, Code, Page, Paragraph, Section, Words


def page_of(
    explanation: Explanation,
    entry: tuple[str, tuple[int, ...]] | None = None,
    brief: bool = False,
    only: Collection[int] | None = None,
) -> Page:
    """The page, whole or about one entry of one gradient; a ``brief`` one is what a whole one opens with.

    It has room for lines that a whole one has below. With ``only``, the places of some sections, those alone are
    written: what a reader has to know first is told in the first that needs it.
    """
    entry, brief = arguments.entry_of(entry), arguments.flag_of(brief, "brief")
    teller = teller_of(explanation.program, None if explanation.expanded else explanation.expression)
    sections: tuple[Section, ...] = ()
    opening: tuple[Block, ...] = ()
    if entry is not None:
        sections = entry_sections(teller, explanation, *entry)
    else:
        answer = answer_of(explanation, teller, ALONE if brief else OPENING)
        opening = (*answer.blocks(), *curvature(teller, explanation))
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
    lead = (*opening, *_lead(explanation))
    return Page(title(explanation.expression, explanation.program.output), tuple(facts), lead, sections)


def _jacobians(teller: Teller, explanation: Explanation) -> Section:
    """J by each input; outputs that have no value are named."""
    gradients = list(explanation.gradients.values())
    section = jacobian_section(teller, tuple(g.jacobian for g in gradients))
    said = next((block for g in gradients for block in rows_without_value(teller, g)), None)
    return section if said is None else replace(section, blocks=(*section.blocks, said))


def title(expression: str, output: str) -> Words:
    """out = x@a."""
    return (Code(definition(expression, output)),)


def _lead(explanation: Explanation) -> Iterator[Block]:
    """A warning if the oracles disagree; what was assumed and how to change it; what the text makes itself; remarks."""
    if not explanation.passed and not explanation.refused:
        yield Paragraph(("The oracles disagree with what was derived: see the last section.",), alarm=True)
    words: Words = ()
    if explanation.assumptions:
        words = ("Assumed: ", "; ".join(explanation.assumptions), ".")
    if explanation.hints:
        words = (*words, " Another choice: ")
        for place, hint in enumerate(explanation.hints):
            words = (*words, "  " if place else "", Code(str(hint)))
    if words:
        yield Paragraph(words)
    yield from renamed(explanation.program)
    yield from made_here(explanation.program)
    yield from left_out(explanation.program, explanation.gradients)
    if explanation.conventions:
        yield Paragraph(("; ".join(said.removesuffix(".") for said in explanation.conventions), "."))
