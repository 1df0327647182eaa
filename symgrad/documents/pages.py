"""The text of the pages: an operation's equation and derivatives, a worked example with its proof, the index.

Comes in: an entry of the table. Goes out: a `Page`, Markdown with LaTeX formulas. Nothing about a derivative
is written here: formulas come from `derive`, numbers and proofs from `explain`.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath

from symgrad.api import explain
from symgrad.documents.conditions import spoken
from symgrad.documents.markdown import article_markdown
from symgrad.documents.operation import article, family_of, family_says
from symgrad.ops import COMPOUNDS, FAMILIES, Compound, Op

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


ROOMS = ("scalar", "contracting", "axes", "moving", "networks", "solved", "complex")
"""The families of a kind in the order in which they are read: what comes later is made of what came before."""

HOW_TO_READ = """\
Each row says of every entry of `out` what it is.
Names in the brackets behind the operation that are no tensors are numbers, and have the value behind their `=` where
nobody says another; of an option with a number for each axis they are `stride0`, `stride1`, ….

- An equation without indices is one between entries: every tensor is read at the place of the result, after it was
  broadcast.
- Where a call has a `dim`, the equation is that of one line along it. All other axes are carried along, and without a
  `dim` the line is all entries, row by row. `keepdim` keeps the axis, with one entry on it.
- A term with a tensor that was left out (`bias=None`) falls away, and a factor that is one is 1.
- `[j ≤ i]` is 1 where that holds and 0 elsewhere, `δ(i, j)` is `[i = j]`, `x̂` is x continued by 0, and `x⟨n⟩` the
  entry with the number n, counted row by row from 0.
- `out` on the right is the value itself: which entries are equal to it, and whether it is 0, is seen when it is
  there, and held still in derivatives.
- What stands in words behind a comma is found from the values, and held still, too: whole numbers (`n: where …`), or
  tensors (`inv: the inverse of x`).
- `size(x, 0)` is how many entries x has along axis 0, `size(x, -1)` along the last one: on a line both are its length.
  `rank(x)` is how many axes x has. What stands before an equation says when it holds instead of the first one.
- A name that neither the equation nor the words mention (`momentum`, `sparse_grad`) changes nothing here, or may only
  be left as it is.
- Where something else than `out` stands on the left, `out` is what solves the equations.
- Losses are a number for each entry or each sample, and then `reduction` makes their mean of them, their sum, or
  nothing (`'none'`).
- A complex number is the pair of its real part, c = 0, and its imaginary part, c = 1, along one more axis;
  in `exp(2πi·jk/n)` i is the imaginary unit."""


def by_family(ops: Sequence[Op], page: Callable[[Op], str]) -> Iterator[str]:
    """The lines of the table; ``page`` is where an operation's own page is."""
    ordered = sorted(ops, key=lambda op: ROOMS.index(room_of(op)))
    for room, inside in groupby(ordered, key=room_of):
        yield from (f"## {(importlib.import_module(f'symgrad.ops.{room}').__doc__ or '').rstrip('.')}", "")
        for family, rows in groupby(inside, key=family_of):
            row, *others = rows
            yield from (f"### {family.capitalize()}", "", family_says(row), "")
            yield from ("| operation | equation | in words |", "| --- | --- | --- |")
            for op in (row, *others):
                link = f"[`{op.name}`]({page(op)})`{cell(called(op))}`"
                yield f"| {link} | {'<br>'.join(equations(op))} | {cell(op.says)} |"
            yield ""


def room_of(op: Op) -> str:
    """The kind of its family."""
    return FAMILIES[op.name].split(".")[2]


def called(op: Op) -> str:
    """What may stand in the brackets, without kinds.

    >>> from symgrad.ops import TABLE
    >>> called(TABLE["elu"])
    '(x, alpha=1.0)'
    """
    parameters = (p.replace(annotation=p.empty) for p in op.signature.parameters.values())
    return str(inspect.Signature(list(parameters)))


def equations(op: Op) -> Iterator[str]:
    """The definition, and the ones under other options."""
    yield f"`{cell(op.definition)}`"
    for condition, equation in op.otherwise.items():
        yield f"{spoken(condition)}: `{cell(equation)}`"


def cell(text: str) -> str:
    """Text inside a table: a bar would end the cell."""
    return text.replace("|", "\\|")
