"""The text of the pages: an operation's equation and derivatives, a worked example with its proof, the index.

Comes in: an entry of the table. Goes out: a `Page`, Markdown with LaTeX formulas. Nothing about a derivative
is written here: formulas come from `derive`, numbers and proofs from `explain`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from symgrad.api import explain
from symgrad.documents.markdown import article_markdown
from symgrad.documents.operation import article
from symgrad.documents.table import HOW_TO_READ, by_family, cell
from symgrad.ops import COMPOUNDS, Compound, Op

FORUM = "x@a"
FORUM_SEED = [[1, 2, 3, 4], [5, 6, 7, 8]]


@dataclass(frozen=True)
class Page:
    """A file's place in the site, its text, the pictures beside it; of an operation what kind of matrix J is."""

    path: PurePosixPath
    text: str
    pictures: tuple[tuple[PurePosixPath, str], ...] = ()
    structure: str = ""


def file_name(op: Op) -> str:
    """The page of an operation: lower case, so that T and mT do not meet another page on any file system."""
    return f"{op.name.lower()}.md" if op.name != "T" else "transposed.md"


def operation_page(op: Op, check: bool = True) -> Page:
    """One operation: the answer in one box, a worked example with its proof, and what is folded away."""
    found = article(op, check)
    stem = file_name(op).removesuffix(".md")
    text, pictures = article_markdown(found, stem)
    beside = tuple((PurePosixPath("ops") / name, svg) for name, svg in pictures.items())
    return Page(PurePosixPath("ops") / file_name(op), text, beside, found.structure)


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


def spelled(compound: Compound) -> str:
    """What users write for it; torch's inner names are not theirs."""
    return ", ".join(f"`{s}`" for s, entry in COMPOUNDS.items() if entry is compound and not s.startswith("aten."))


def index_page(ops: Sequence[Op]) -> Page:
    """All operations by families, and the calls that are several of them."""
    lines = [
        "# Operations",
        "",
        (
            "Every page is generated: the derivatives are derived from the equation in the second column, and the "
            "numbers are checked against torch."
        ),
        "The forum example stands on [its own page](forum.md).",
        "",
        *table_lines(ops, lambda op: f"ops/{file_name(op)}"),
    ]
    return Page(PurePosixPath("index.md"), "\n".join(lines))


def table_lines(ops: Sequence[Op], page: Callable[[Op], str]) -> Iterator[str]:
    """How the table is read, its rows, and the calls that are several of them."""
    yield from (HOW_TO_READ, "", *by_family(ops, page))
    yield from ("## Calls", "", "Several of the operations one after the other, or several results:", "")
    yield from ("| call | spelled | in words |", "| --- | --- | --- |")
    for call in dict.fromkeys(COMPOUNDS.values()):
        yield f"| `{cell(call.usage)}` | {spelled(call)} | {cell(call.says)} |"
