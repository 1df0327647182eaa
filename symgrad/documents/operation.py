"""The page of one operation: the answer, a worked example, the second derivative, torch's own lines, the proof.

Comes in: an entry of the table. Goes out: an `Article` of the blocks that explanations are made of, with pictures.
Nothing about a derivative is written here: formulas come from what was derived, numbers and proofs from `worked`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from symgrad.calculus import flows
from symgrad.closed_form.form import assign_form
from symgrad.documents.article import Article, readable_blocks
from symgrad.documents.domains import (
    TWO_BY_THREE,
    sample_seed,
    sample_values,
    shown_example,
    where_defined,
    worked_example,
)
from symgrad.errors import InputError, SymgradError
from symgrad.explanation import Explanation, Given, Seed, build, derive_only, with_hessians
from symgrad.explanation.formulas import Derived
from symgrad.explanation.kinks import kink_of
from symgrad.language import read_program
from symgrad.ops import FAMILIES, Example, Op
from symgrad.oracles.torch import torch_version
from symgrad.oracles.torch_rules import torch_rules
from symgrad.program import Program
from symgrad.question import torch_expression
from symgrad.render import write
from symgrad.render.content import derivatives, derive_lines, derived_pullbacks, explanation_page
from symgrad.render.content.proof import second_order_section
from symgrad.render.content.speaker import join_words, size_text
from symgrad.render.content.teller import teller_of
from symgrad.render.page import (
    Block,
    Code,
    Grid,
    Grids,
    Listing,
    Paragraph,
    Picture,
    Section,
    Table,
    Words,
    tensor_label,
)

WORD = re.compile(r"(?:[a-z]{2,}|a)(?:[ ,:-]|$)")
LINES = 160
"""Characters of a line of code that anyone reads."""
SIGNS = {
    "…": "… are the axes that may stand there",
    "\N{COMBINING CIRCUMFLEX ACCENT}": "x̂ is x, continued by 0",
    "⟨": "x⟨n⟩ is the entry with the number n, counted row by row",
}


def article_of(op: Op, check: bool = True) -> Article:
    """Everything that the page of an operation says."""
    example = shown_example(op)
    program, derived = derived_example(example)
    structure = next((d.structure.kind for d in derived if d.name not in op.data and flows(program, d.name)), "")
    story, reason = worked_story(op, example, check, structure)
    moving = [name for name, g in story.gradients.items() if flows(story.program, name) and all(g.jacobian.shape)]
    drawn = [Picture(name, story.to_svg(name)) for name in moving]
    box = (
        *variant_blocks(op),
        *signs(op),
        letters(program),
        *answer_blocks(program, derived, example),
        *kink_paragraphs(op),
        *drawn[:1],
    )
    sections = explanation_page(story).sections
    given = ", ".join(f"{g.name} {size_text(g.value.shape)}" for g in story.inputs)
    heading: Words = ("An example: ", Code(story.expression), *([f" with {given}"] if given else []))
    refused = (f"Not with {story.inputs[0].name} {size_text(TWO_BY_THREE)}: {reason}.",) if reason else None
    parts = (
        Section(heading, (*([Paragraph(refused)] if refused else []), *worked_number_blocks(story), *drawn[1:])),
        second_section(story),
        torch_part(story),
        Section(("Proof",), tuple(readable_blocks(sections[4].blocks, example.text))),
        Section(("The same, step by step",), tuple(steps(sections[:4], story.expression)), folded=True),
        *(example_section(other) for other in distinct_ranks(op.examples) if other.text != example.text),
    )
    return Article(op, opening(op), box, tuple(part for part in parts if part.blocks), structure)


def family_of(op: Op) -> str:
    """What an operation's family is called: the module of the table that it is in."""
    return FAMILIES[op.name].rpartition(".")[2].replace("_", " ")


def family_says(op: Op) -> str:
    """What the family of an operation is, in the words of its module."""
    return (importlib.import_module(FAMILIES[op.name]).__doc__ or "").splitlines()[0].replace("``", "`")


def distinct_ranks(examples: Sequence[Example]) -> list[Example]:
    """The examples that differ in more than numbers: by ranks or by options."""
    seen: dict[tuple[object, ...], Example] = {}
    for example in examples:
        seen.setdefault((example.text, tuple(len(shape) for _, shape in example.shapes)), example)
    return list(seen.values())


def derived_example(example: Example) -> tuple[Program, Sequence[Derived]]:
    """An example with its sizes left open, and the formulas by each input."""
    program = read_program(example.text, shapes=dict(example.shapes)).program
    return program, derive_only(program, [t.name for t in program.inputs if t.name not in program.made])


def opening(op: Op) -> Words:
    """What it is, how it is spelled, where it is defined."""
    words: Words = (f"{capitalize_sentence(op.summary)}.",)
    if op.spellings:
        words = (*words, " Written as ", *join_words([(Code(s),) for s in op.spellings], last=", "), ".")
    if isinstance(op.expands, str):
        words = (*words, " In simpler operations: ", Code(op.expands), ".")
    if defined := where_defined(op).sentences:
        words = (*words, " ", " ".join(defined))
    return words


def capitalize_sentence(says: str) -> str:
    """The sentence with a capital, unless a formula or a name begins it: there a capital is another letter.

    >>> [capitalize_sentence(text) for text in ("positive weights", "x[i] where x[i] > 0", "β·x plus", "exp(x[i])")]
    ['Positive weights', 'x[i] where x[i] > 0', 'β·x plus', 'exp(x[i])']
    """
    return f"{says[0].upper()}{says[1:]}" if WORD.match(says) else says


def condition_words(condition: str) -> str:
    """What options are, in words.

    >>> [condition_words(text) for text in ("rank(x)=1 and rank(a)=1",
    ...                                          "not eps=None", "causal and scale=None", "offset<0")]
    ['rank(x) = 1 and rank(a) = 1', 'with eps', 'with causal and without scale', 'offset < 0']
    """
    return " and ".join(map(one_condition_words, condition.split(" and ")))


def one_condition_words(part: str) -> str:
    """One of several conditions."""
    there = part.startswith("not ") == part.endswith("=None")
    name = part.removeprefix("not ").removesuffix("=None")
    return f"with{'' if there else 'out'} {name}" if name.isidentifier() else re.sub(r"[=<]", r" \g<0> ", name)


def variant_blocks(op: Op) -> Iterator[Block]:
    """The equations under other options or at other ranks."""
    for condition, equation in op.variants.items():
        words = condition_words(condition)
        yield Paragraph((f"{capitalize_sentence(words if words.startswith('with') else f'where {words}')}:",))
        yield Listing(equation)


def signs(op: Op) -> Iterator[Block]:
    """What the signs of the equation's text mean that no formula below it has."""
    found = [means for sign, means in SIGNS.items() if sign in op.definition]
    if found:
        yield Paragraph((f"({'; '.join(found)})",), aside=True, notation=True)


def letters(program: Program) -> Block:
    """The sizes that the formulas name."""
    given = ", ".join(f"{t.name} {size_text(t.shape)}" for t in program.inputs)
    return Paragraph((f"With {given}, and {program.output} {size_text(program.out.shape)}:",))


def answer_blocks(program: Program, derived: Sequence[Derived], example: Example) -> Iterator[Block]:
    """The equation, the Jacobian by each input, and each pullback as code; as formulas too where some has no code."""
    told, teller = derive_lines(program, derived)
    for section in derivatives(teller, derived):
        yield from readable_blocks(section.blocks, example.text)
    lines = [line for d in derived if d.form for line in assign_form(f"{d.name}.grad", d.form.text)]
    short = all(len(line) <= LINES for line in lines)
    if lines and short:
        yield Listing("\n".join(lines))
    if not short or not all(d.form for d in derived):
        yield from readable_blocks(derived_pullbacks(teller, derived, told).blocks, example.text)


def kink_paragraphs(op: Op) -> Iterator[Block]:
    """Where a derivative may be a choice: both sides of the point, and what the equation and torch take at it."""
    for kink in (kink_of(op, at) for at in op.kinks):
        left, right, here = kink.told
        there = None if kink.torch is None else f"{kink.torch + 0.0:.4g}"
        if left == right == here == there:
            continue  # with every entry there, nothing of it is seen
        sides = f"{left} on both sides" if left == right else f"{left} on the left and {right} on the right"
        torch = f", and so does torch {kink.version}" if there == here else f", torch {kink.version} takes {there}"
        torch = "" if there is None else torch
        yield Paragraph(
            (
                f"With every entry at {kink.at:g}, the slope of the sum over ",
                Code(kink.text),
                f" by its first entry is {sides}; at the point itself the equation takes {here}{torch}.",
            )
        )


def worked(op: Op, example: Example, check: bool) -> Explanation:
    """One example at small round numbers, v the numbers 1, 2, 3, …"""
    values = sample_values(op, example)
    reading = read_program(example.text, shapes=dict(example.shapes))
    program = reading.program
    inputs = [Given(t.name, values[t.name], True, True) for t in program.inputs]
    seed = Seed(sample_seed(program.numbers(program.out.shape)), "given", "1, 2, 3, …")
    names = [t.name for t in program.inputs]
    text = torch_expression(example.text, reading, {})
    return build(example.text, program, inputs, seed, names, check=check, writers=write, text=text)


def worked_story(op: Op, example: Example, check: bool, structure: str = "") -> tuple[Explanation, str]:
    """The example with an input of 2×3 where that can be, and the reason where it cannot."""
    other, reason = worked_example(op, structure)
    try:
        return worked(op, other, check), reason
    except InputError as error:  # the sizes fit, the numbers for them do not: two places are one
        if other == example:
            raise
        return worked(op, example, check), error.problem


def worked_number_blocks(story: Explanation) -> Iterator[Block]:
    """Inputs, output, seed and gradients of a worked example."""
    program = story.program
    yield Grids(
        (*(Grid(tensor_label(g.name), g.value) for g in story.inputs), Grid(tensor_label(program.output), story.output))
    )
    if story.output.size != 1:
        yield Grids((Grid(tensor_label(program.seed), story.seed),))
    moving = [g for g in story.gradients.values() if flows(program, g.name)]
    yield Grids(tuple(Grid(tensor_label(f"{g.name}.grad"), g.shown) for g in moving))


def second_section(story: Explanation) -> Section:
    """The second derivative by every pair of inputs that something flows back to."""
    moving = {name: g for name, g in story.gradients.items() if flows(story.program, name)}
    heading: Words = ("The second derivative",)
    if not moving:
        return Section(heading, ())
    try:
        story = with_hessians(replace(story, gradients=moving))
    except SymgradError as error:
        return Section(heading, (Paragraph((f"Not derived: {error.problem}.",)),))
    section = second_order_section(teller_of(story.program, story.expression), story)
    return Section(heading, tuple(readable_blocks(section.blocks, story.expression)), folded=len(moving) > 1)


def torch_part(story: Explanation) -> Section:
    """The lines of derivatives.yaml of the nodes that torch recorded."""
    heading: Words = ("What torch writes",)
    recorded = torch_rules(story.program, {g.name: g.value for g in story.inputs})
    if isinstance(recorded, str):
        return Section(heading, (Paragraph((f"{recorded}.",)),), folded=True)
    rows = tuple(((Code(rule.node),), (Code(name),), (Code(line),)) for rule in recorded for name, line in rule.lines)
    lead = (
        f"The backward nodes that torch {torch_version()} records for this call, from the output back, and "
        "the lines it has for them in "
    )
    named_so: Words = (Code("derivatives.yaml"), "; ", Code("grad"), " is v, ", Code("result"), " the output:")
    said = Paragraph((lead, *named_so))
    return Section(heading, (said, Table((("node",), ("by",), ("line",)), rows)), folded=True)


def steps(sections: Sequence[Section], expression: str) -> Iterator[Block]:
    """The derivation in full, each section after its heading."""
    for place, section in enumerate(sections, start=1):
        yield Paragraph((f"{place}. ", *section.heading), alarm=True)
        yield from readable_blocks(section.blocks, expression)


def example_section(example: Example) -> Section:
    """Jacobian, pullback and closed form of another example, sizes left open."""
    blocks = answer_blocks(*derived_example(example), example)
    return Section(("For every size: ", Code(example.text)), tuple(blocks), folded=True)
