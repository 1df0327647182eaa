"""An article about an operation, for Sphinx and as GitHub's Markdown; no line is longer than anyone's screen.

Comes in: blocks of an explanation, of which what no reader would read is left out with a word; an `Article`.
Goes out: text, and the pictures by the names of their files, which lie beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from symgrad.ops import Op
from symgrad.render.markup import MARKDOWN, section_markdown
from symgrad.render.page import Block, Code, Equations, Listing, Paragraph, Picture, Section, Words

LONGEST = 300
"""Characters of a formula or of a line of code that a page shows."""


@dataclass(frozen=True)
class Article:
    """The page of an operation: what it is, the answer in a box, the parts, and the kind of its Jacobian."""

    op: Op
    opening: Words
    box: tuple[Block, ...]
    parts: tuple[Section, ...]
    structure: str


def readable_blocks(blocks: Iterable[Block], expression: str) -> Iterator[Block]:
    """The blocks without the formulas and lines that nobody would read, and how to have those.

    What explains their notation waits for the next formula that is shown; what is left out in a row is told once.
    """
    gone, owed, missing = False, list[Block](), list[tuple[str, int]]()
    for block in blocks:
        if gone and isinstance(block, Paragraph) and block.notation:
            owed.append(block)
            continue
        kept, left = split_readable(block)
        if kept is not None:
            yield from omission_note(missing, expression)
            missing = []
            yield kept
        if not isinstance(block, Equations):
            gone = gone and (isinstance(block, Paragraph) or kept is None)
        elif kept is None:
            gone = True
        else:
            yield from owed
            gone, owed = False, []
        missing += left
    yield from omission_note(missing, expression)


def split_readable(block: Block) -> tuple[Block | None, list[tuple[str, int]]]:
    """What of a block is short enough to be read, and what else there is: its kind and its length."""
    if isinstance(block, Equations):
        lengths = [max(len(part.text) for part in row.parts) for row in block.rows]
        kept = tuple(row for row, length in zip(block.rows, lengths, strict=True) if length <= LONGEST)
        left = [("formula", length) for length in lengths if length > LONGEST]
        return Equations(kept) if kept else None, left
    if isinstance(block, Listing) and (length := longest_line(block.code)) > LONGEST:
        return None, [("line", length)]
    return block, []


def longest_line(text: str) -> int:
    """The characters of the longest line."""
    return max(map(len, text.splitlines()), default=0)


def omission_note(missing: Sequence[tuple[str, int]], expression: str) -> Iterator[Block]:
    """What is said in place of what is too long; nothing of nothing."""
    if not missing:
        return
    kinds, longest = {kind for kind, _ in missing}, max(length for _, length in missing)
    kind = kinds.pop() if len(kinds) == 1 else "part"
    if len(missing) == 1:
        what, it = f"A {kind} of {longest:,} characters is", "it"
    else:
        what, it = f"{len(missing)} {kind}s of up to {longest:,} characters are", "them"
    quoted = expression.replace('"', '\\"')
    yield Paragraph((f"({what} too long to show here: ", Code(f'symgrad derive "{quoted}"'), f" prints {it}.)"))


STARTS = re.compile(r" (?=[A-Za-z\\({])")
"""Where a line of prose or of a formula may end: what begins the next one is no mark of Markdown."""


def article_markdown(article: Article, stem: str) -> tuple[str, Mapping[str, str]]:
    """The page, and its pictures: ``stem-x.svg`` beside it."""
    op = article.op
    box, *parts = (
        Section(part.heading, tuple(fitted(part.blocks, stem)), part.folded)
        for part in (Section((), article.box), *article.parts)
    )
    answer = MARKDOWN.blocks((Listing(op.definition), *box.blocks))
    lead = [f"# {op.name}", MARKDOWN.words(article.opening), *answer]
    text = "\n\n".join([*lead, *(section_markdown(part).rstrip("\n") for part in parts)])
    drawn = (block for part in (box, *parts) for block in part.blocks if isinstance(block, Picture))
    return "\n".join(narrow(text)), {f"{picture.name}.svg": picture.svg for picture in drawn}


def fitted(found: Iterable[Block], stem: str) -> Iterator[Block]:
    """Blocks with pictures named after the page, and without matrices that no screen holds."""
    for block in found:
        if isinstance(block, Picture):
            yield replace(block, name=f"{stem}-{block.name}")
        elif any(part.startswith("|") and longest_line(part) > LONGEST for part in MARKDOWN.blocks([block])):
            yield Paragraph(("(This matrix is drawn in the picture.)",))
        else:
            yield block


def narrow(text: str) -> Iterator[str]:
    """The lines, long ones broken at a blank; code, tables and pictures are short already.

    >>> [len(line) <= LONGEST for line in narrow("word " * 200)]
    [True, True, True, True]
    """
    for line in text.splitlines():
        rest = line
        while len(rest) > LONGEST and not rest.startswith(("|", "!", "<")):
            places = [found.start() for found in STARTS.finditer(rest, 0, LONGEST)]
            if not places:
                break
            yield rest[: places[-1]]
            rest = rest[places[-1] + 1 :]
        yield rest
