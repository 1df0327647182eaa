"""Markdown pages that are true: one per operation of the table, one for the forum example, one about kinks, an index.

Comes in: entries of the table. Goes out: a `SitePage`, Markdown with LaTeX formulas, or a folder with ``index.md``,
``forum.md``, ``kinks.md`` and ``ops/NAME.md``, each file whole or not at all. Nothing about a derivative is written
here: formulas come from `derive`, numbers and proofs from the same `Explanation` that the terminal shows, and each row
about a kink, a point where the derivative is a choice, is computed when it is written. The pages about kinds of errors
stand in this package, too, where an installed one finds them: our own site shows them, ``symgrad errors KIND`` prints
them; both make the messages in them anew.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath

from symgrad.api import explain
from symgrad.documents.article import article_markdown
from symgrad.documents.operation import article_of, condition_words, family_of, family_says
from symgrad.errors import InputError, UnknownNameError
from symgrad.explanation.kinks import Kink, edges_of, kink_of
from symgrad.files import write_whole
from symgrad.ops import COMPOUNDS, GROUPS, Op, belongs_to, close_spellings, find, operations
from symgrad.render.markup import pipe_table

FORUM = "x@a"
FORUM_SEED = [[1, 2, 3, 4], [5, 6, 7, 8]]


@dataclass(frozen=True)
class SitePage:
    """A file's place in the site, its text, the pictures beside it."""

    path: PurePosixPath
    text: str
    pictures: tuple[tuple[PurePosixPath, str], ...] = ()


def file_name(op: Op) -> str:
    """The page of an operation: lower case, so that T and mT do not meet another page on any file system."""
    return f"{op.name.lower()}.md" if op.name != "T" else "transposed.md"


def operation_page(op: Op, check: bool = True) -> SitePage:
    """One operation: the answer in one box, a worked example with its proof, and what is folded away."""
    found = article_of(op, check)
    stem = file_name(op).removesuffix(".md")
    text, pictures = article_markdown(found, stem)
    beside = tuple((PurePosixPath("ops") / name, svg) for name, svg in pictures.items())
    return SitePage(PurePosixPath("ops") / file_name(op), text, beside)


def forum_page(check: bool = True) -> SitePage:
    """The question of the forum thread: what does ``gradient`` do in ``out.backward(gradient)``?"""
    intro = (
        "# What does the argument of `backward` do?\n\n"
        "A well-known forum thread multiplies a 2×3 matrix of ones by a 3×4 matrix of ones, calls "
        "`out.backward(gradient)` with the numbers 1 to 8, finds 10 and 26 in `x.grad`, and asks what happened. "
        "The thread guesses that the argument is multiplied onto the output. It is not."
    )
    story = explain(FORUM, seed=FORUM_SEED, check=check)
    return SitePage(PurePosixPath("forum.md"), f"{intro}\n\n{demoted(story.to_markdown())}")


def demoted(markdown: str) -> str:
    """The headings one level down, so that a page has one title; code blocks are left alone."""
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(p if p.startswith("```") else re.sub(r"^(#{1,5} )", r"#\1", p, flags=re.MULTILINE) for p in parts)


def index_page(ops: Sequence[Op]) -> SitePage:
    """All operations by families, and the calls that are several of them."""
    lines = [
        "# Operations",
        "",
        (
            "Every page is generated: the derivatives are derived from the equation in the second column, and the "
            "numbers are checked against torch."
        ),
        "The forum example is on [its own page](forum.md).",
        "",
        *table_lines(ops, lambda op: f"ops/{file_name(op)}"),
    ]
    return SitePage(PurePosixPath("index.md"), "\n".join(lines))


def table_lines(ops: Sequence[Op], page: Callable[[Op], str]) -> Iterator[str]:
    """How the table is read, its rows, and the calls that are several of them."""
    yield from (HOW_TO_READ, "", *by_family(ops, page))
    yield from ("## Calls", "", "Several of the operations one after the other, or several results:", "")
    rows = []
    for call in dict.fromkeys(COMPOUNDS.values()):  # torch's inner names are not what users write
        spelled = [f"`{s}`" for s, entry in COMPOUNDS.items() if entry is call and not s.startswith("aten.")]
        rows.append([f"`{call.usage}`", ", ".join(spelled), call.says])
    yield pipe_table(["call", "spelled", "in words"], rows, "---")


HOW_TO_READ = """\
Each row says of every entry of `out` what it is.
Parameters that are not tensors are numbers, with the default shown behind `=`; an option with a number for each axis
reads as `stride0`, `stride1`, ….

- An equation without indices is one between entries: every tensor is read at the place of the result, after it was
  broadcast.
- Where a call has a `dim`, the equation is that of one line along it. All other axes are carried along, and without a
  `dim` the line is all entries, row by row. `keepdim` keeps the axis, with one entry on it.
- A term with a tensor that was left out (`bias=None`) falls away, and a factor that is one is 1.
- `[j ≤ i]` is 1 where that holds and 0 elsewhere, `δ(i, j)` is `[i = j]`, `x̂` is x continued by 0, and `x⟨n⟩` the
  entry with the number n, counted row by row from 0.
- `out` on the right is the value itself: which entries are equal to it, and whether it is 0, is read from the
  numbers, and held constant in derivatives.
- What is described in words after a comma is computed from the values, and held constant, too: whole numbers
  (`n: where …`), or tensors (`inv: the inverse of x`).
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
    for group, families in GROUPS.items():
        yield from (f"## {group}", "")
        inside = [op for op in ops if belongs_to(op.name, families)]
        for family, rows in groupby(sorted(inside, key=family_of), key=family_of):
            members = [*rows]
            yield from (f"### {family.capitalize()}", "", family_says(members[0]), "")
            cells = []
            for op in members:
                link = f"[`{op.name}`]({page(op)})`{parameters_text(op)}`"
                others = (f"{condition_words(condition)}: `{equation}`" for condition, equation in op.variants.items())
                cells.append([link, "<br>".join([f"`{op.definition}`", *others]), op.summary])
            yield from (pipe_table(["operation", "equation", "in words"], cells, "---"), "")


def parameters_text(op: Op) -> str:
    """What may stand in the brackets, without kinds.

    >>> from symgrad.ops import TABLE
    >>> parameters_text(TABLE["elu"])
    '(x, alpha=1.0)'
    """
    parameters = (p.replace(annotation=p.empty) for p in op.signature.parameters.values())
    return str(inspect.Signature(list(parameters)))


HEADING = ("operation", "at", "left", "right", "symgrad", "torch")
LEAD = """Where a function has a corner, its derivative from the left is not that from the right.
Any number between the two is a valid slope, and a program has to choose one.
symgrad's equations make the same choice as torch.
Where both sides are one number there is no corner along x₀: the function is smooth there, or it jumps.
The sides and symgrad's choice are derived; torch's is what `backward()` of torch {version} answers: ∂L/∂x₀ with every \
entry of the inputs at the point, L the sum of the outputs."""

AT_EDGES = ("operation", "at", "by", "equation", "torch")
EDGES = """At these points there is no derivative, and no two sides between which one could be chosen: the equation \
gives ∞ or NaN, which symgrad shows and calls undefined; or torch loses the number to 0·∞.
torch's own number comes from the installed version; a captured program uses it and names the step in `conventions`."""


def kinks_of(ops: Sequence[Op]) -> Iterator[Kink]:
    """Every kink of ``ops``, in the order of the table."""
    return (kink_of(op, at) for op in ops for at in op.kinks)


def kink_cells(kink: Kink) -> tuple[str, ...]:
    """One kink in words."""
    torch = "not asked" if kink.torch is None else f"{kink.torch + 0.0:.4g}" + ("" if kink.agrees else "  DIFFERS")
    return (kink.text, f"{kink.at:g}", *kink.told, torch)


def edge_margin_sentences(ops: Sequence[Op]) -> Iterator[str]:
    """How far from its edges torch still has a number of its own, where that is wider than a point."""
    for op in ops:
        if op.limits.margin:
            points = " and ".join(f"{name} = {at:g}" for edge in op.limits.edges for name, at in edge.items())
            yield f"In `{op.name}` torch still has one within {op.limits.margin} of {points}."


def kinks_page(ops: Sequence[Op]) -> SitePage:
    """The table as a page."""
    found = list(kinks_of(ops))
    version = next((k.version for k in found if k.version), "(not installed)")
    rows = [[f"`{text}`", *numbers] for text, *numbers in map(kink_cells, found)]
    lines = ["# Kinks", "", LEAD.format(version=version), "", pipe_table(HEADING, rows, "---")]
    edges = [
        [f"`{text}`", at, own.by, f"{own.here:.4g}", f"{own.torch:.4g}"]
        for op in ops for text, at, own in edges_of(op)
    ]  # fmt: skip
    if edges:
        said = "\n".join([EDGES, *edge_margin_sentences(ops)])
        lines += ["", "## Without a derivative", "", said, "", pipe_table(AT_EDGES, edges, "---")]
    return SitePage(PurePosixPath("kinks.md"), "\n".join(lines))


def select_operations(names: Sequence[str]) -> list[Op]:
    """The operations called ``names``, all of them when there is none; raises `UnknownNameError`."""
    if not names:
        return list(operations())
    wanted = []
    for name in names:
        op = find(name)
        if op is None:
            raise UnknownNameError(f"there is no operation {name}", hints=(*close_spellings(name), "symgrad ops"))
        wanted.append(op.name)
    return [op for op in operations() if op.name in wanted]


def check_folder(folder: Path) -> None:
    """Raise `InputError` before any work where it is plain that nothing can be written into ``folder``."""
    place = folder if folder.exists() else folder.absolute().parent
    if not place.is_dir():
        raise InputError(f"cannot write into {folder}", found=(f"{place} is no folder",))
    if not os.access(place, os.W_OK):
        raise InputError(f"cannot write into {folder}", found=(f"{place} may not be written",))


def write_page(folder: Path, place: PurePosixPath, text: str) -> Path:
    """One file into ``folder``, which is made for it; raises `InputError` where that cannot be."""
    whole = folder / place
    try:
        folder.mkdir(exist_ok=True)  # its own folder is the user's to make
        whole.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {folder}", found=(error.strerror or str(error),)) from None
    return write_whole(whole, text)


def write_site(folder: Path, names: Sequence[str] = (), check: bool = True) -> Iterator[Path]:
    """Write the pages one by one, yielding each file as it stands; whatever interrupts leaves no folder without one."""
    ops = select_operations(names)
    check_folder(folder)
    for op in ops:
        page = operation_page(op, check)
        for path, svg in page.pictures:  # before the page: whatever interrupts, a page that stands has its pictures
            write_page(folder, path, svg)
        yield write_page(folder, page.path, page.text)
    for page in (forum_page(check), kinks_page(ops), index_page(ops)):
        yield write_page(folder, page.path, page.text)


def kinds() -> dict[str, str]:
    """The page of each kind.

    >>> kinds()["shape"].splitlines()[0]
    '# error[shape]'
    """
    pages = Path(__file__).parent / "errors"
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(pages.glob("*.md"))}
