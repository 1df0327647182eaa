"""The text of the pages: an operation's equation and derivatives, a worked example with its proof, the index.

Comes in: an entry of the table. Goes out: a `Page`, Markdown with LaTeX formulas. Nothing about a derivative
is written here: formulas come from `derive`, numbers and proofs from `explain`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from symgrad.api import explain
from symgrad.documents.domains import where_defined
from symgrad.documents.samples import sample_seed, sample_values
from symgrad.explanation import Explanation, Given, Seed, build, derive_only
from symgrad.language import read
from symgrad.ops import COMPOUNDS, Compound, Example, Op
from symgrad.render import WRITERS, derived_markdown

FORUM = "x@a"
FORUM_SEED = [[1, 2, 3, 4], [5, 6, 7, 8]]


@dataclass(frozen=True)
class Page:
    """A file's place in the site, and its text."""

    path: PurePosixPath
    text: str


def file_name(op: Op) -> str:
    """The page of an operation: lower case, so that T and mT do not meet another page on any file system."""
    return f"{op.name.lower()}.md" if op.name != "T" else "transposed.md"


def operation_page(op: Op, check: bool = True) -> Page:
    """One operation: definition, spellings, derivatives for every size, kinks, and a worked example."""
    parts = [f"# {op.name}", f"{op.says[0].upper()}{op.says[1:]}.", f"```text\n{op.definition}\n```"]
    if op.spelled:
        parts.append("Written as " + ", ".join(f"`{s}`" for s in op.spelled) + ".")
    if defined := where_defined(op).sentences:
        parts.append(" ".join(defined))
    if op.kinks:
        points = ", ".join(f"{k:g}" for k in op.kinks)
        parts.append(
            f"It has a kink (at {points}): the value of the derivative there is a convention, and this is torch's."
        )
    if isinstance(op.expands, str):
        parts.append(f"In simpler operations: `{op.expands}`.")
    parts.append("## For every size")
    for example in distinct_ranks(op.examples):
        parts.append(formulas(example))
    parts += ["## An example in numbers", demoted(worked(op, op.examples[0], check).to_markdown())]
    return Page(PurePosixPath("ops") / file_name(op), "\n\n".join(parts))


def distinct_ranks(examples: Sequence[Example]) -> list[Example]:
    """The examples that differ in more than numbers: by ranks or by options."""
    seen: dict[tuple[object, ...], Example] = {}
    for example in examples:
        seen.setdefault((example.text, tuple(len(shape) for _, shape in example.shapes)), example)
    return list(seen.values())


def formulas(example: Example) -> str:
    """Jacobian, pullback and closed form of one example, sizes left open."""
    ranks = {name: tuple(1 if n == 1 else n for n in shape) for name, shape in example.shapes}
    program = read(example.text, shapes=ranks).program
    return f"### `{example.text}`\n\n" + derived_markdown(
        program, derive_only(program, [t.name for t in program.inputs]), level=4, title=False
    )


def worked(op: Op, example: Example, check: bool) -> Explanation:
    """One example at small round numbers, v the numbers 1, 2, 3, …"""
    values = sample_values(op, example)
    program = read(example.text, shapes=dict(example.shapes)).program
    inputs = [Given(t.name, values[t.name], True, True) for t in program.inputs]
    seed = Seed(sample_seed(program.numbers(program.out.shape)), "given", "1, 2, 3, …")
    names = [t.name for t in program.inputs]
    return build(example.text, program, inputs, seed, names, check=check, writers=WRITERS)


def forum_page(check: bool = True) -> Page:
    """The question of the forum thread: what does ``gradient`` do in ``out.backward(gradient)``?"""
    intro = (
        "# What does the argument of `backward` do?\n\n"
        "A well-known forum thread multiplies a 2×3 matrix of ones by a 3×4 matrix of ones, calls "
        "`out.backward(gradient)` with the numbers 1 to 8, finds 10 and 26 in `x.grad`, and asks what happened. "
        "The thread guesses that the argument is multiplied onto the output. It is not."
    )
    story = explain(FORUM, seed=FORUM_SEED, check=check)
    return Page(PurePosixPath("forum.md"), f"{intro}\n\n{demoted(story.to_markdown())}")


def demoted(markdown: str) -> str:
    """The headings one level down, so that a page has one title; code blocks are left alone."""
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(p if p.startswith("```") else re.sub(r"^(#{1,5} )", r"#\1", p, flags=re.MULTILINE) for p in parts)


def cell(text: str) -> str:
    """Text inside a table: a bar would end the cell."""
    return text.replace("|", "\\|")


def spelled(compound: Compound) -> str:
    """What users write for it; torch's inner names are not theirs."""
    return ", ".join(f"`{s}`" for s, entry in COMPOUNDS.items() if entry is compound and not s.startswith("aten."))


def index_page(ops: Sequence[Op]) -> Page:
    """All operations in a table."""
    rows = [f"| [`{op.name}`](ops/{file_name(op)}) | `{cell(op.definition)}` | {cell(op.says)} |" for op in ops]
    lines = [
        "# Operations",
        "",
        (
            "Every page is generated: the derivatives are derived from the equation in the second column, and the "
            "numbers are checked against torch."
        ),
        "The forum example stands on [its own page](forum.md).",
        "",
        "| operation | definition | in words |",
        "| --- | --- | --- |",
        *rows,
        "",
        "These calls are several of the operations one after the other, or give several results:",
        "",
        "| call | spelled | in words |",
        "| --- | --- | --- |",
        *(f"| `{cell(c.usage)}` | {spelled(c)} | {cell(c.says)} |" for c in dict.fromkeys(COMPOUNDS.values())),
    ]
    return Page(PurePosixPath("index.md"), "\n".join(lines))
