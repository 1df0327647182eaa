"""The page of an explanation: the expression, what was assumed, and the five sections.

With an entry, the page tells the story of that one entry instead.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from symgrad.calculus import flows
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
from symgrad.render.content.seed import seed_section, slope_of
from symgrad.render.content.singular import rows_without_value
from symgrad.render.content.speaker import left_out, made_here, renamed
from symgrad.render.content.teller import Teller, teller_of
from symgrad.render.content.words import size_text
from symgrad.render.page import Block, Code, Listing, Page, Paragraph, Section, Words

STATED = re.compile(r"[^()=]*=[^=]")
"""A statement that has a left side."""


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
        opening = (*_slope(explanation), *answer.blocks(), *curvature(teller, explanation))
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
    heading, later = title(explanation.expression, explanation.program.output), explanation.downstream
    if later is not None:
        known = dict(facts)
        facts += [(g.name, size_text(g.value.shape)) for g in later.inputs if g.name not in known]
        texts = (explanation.expression, explanation.program.output), (later.expression, later.program.output)
        heading = (Code("; ".join(itertools.chain(*itertools.starmap(_statements, texts)))),)
    return Page(heading, tuple(facts), (*opening, *_lead(explanation)), sections)


def _slope(explanation: Explanation) -> Iterator[Block]:
    """What v is where a loss says it: as code, else by its formula."""
    if explanation.seed_info.origin == "downstream":
        form = explanation.seed_info.closed_form
        yield from (Listing(f"{explanation.program.seed} = {form}"),) if form else slope_of(explanation)


def _jacobians(teller: Teller, explanation: Explanation) -> Section:
    """J by each input; outputs that have no value are named."""
    gradients = list(explanation.gradients.values())
    section = jacobian_section(teller, tuple(g.jacobian for g in gradients))
    said = next((block for g in gradients for block in rows_without_value(teller, g)), None)
    return section if said is None else replace(section, blocks=(*section.blocks, said))


def title(expression: str, output: str) -> Words:
    """out = x@a."""
    return (Code(definition(expression, output)),)


def _statements(text: str, output: str) -> Iterator[str]:
    """The statements of a text, the last with a left side: two texts on one line each say what theirs is called."""
    *before, last = [part.strip() for part in definition(text, output).split(";") if part.strip()]
    yield from before
    yield last if STATED.match(last) else definition(last, output)


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
    later = explanation.downstream
    for name in explanation.gradients if later is not None else ():
        if later is not None and name in {t.name for t in later.program.inputs} and flows(later.program, name):
            words = ("The loss reads ", Code(name), " beside out, too. What ", Code("L.backward()"), " adds to ")
            yield Paragraph((*words, Code(f"{name}.grad"), " on that way is no part of this page."))
    yield from renamed(explanation.program)
    yield from made_here(explanation.program)
    yield from left_out(explanation.program, explanation.gradients)
    if explanation.conventions:
        yield Paragraph(("; ".join(said.removesuffix(".") for said in explanation.conventions), "."))
