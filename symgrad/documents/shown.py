"""An article before it is written: parts of blocks and pictures, and what no reader would read left out with a word.

Comes in: blocks of an explanation. Goes out: an `Article`, for Markdown (`symgrad.documents.markdown`) and for Sphinx.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

from symgrad.explanation import Explanation
from symgrad.ops import Op
from symgrad.render.page import Block, Code, Equations, Listing, Paragraph, Words
from symgrad.render.picture import small

LONGEST = 300
"""Characters of a formula or of a line of code that a page shows."""
SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Picture:
    """A drawing, and the same in words."""

    name: str
    svg: str

    @property
    def alt(self) -> str:
        """The description that the drawing carries."""
        root = ElementTree.fromstring(self.svg)
        return " ".join(". ".join(root.findtext(f"{SVG}{tag}", "") for tag in ("title", "desc")).split())


Piece = Block | Picture


@dataclass(frozen=True)
class Part:
    """A heading and what stands below it; a ``folded`` part is opened by those who want it."""

    heading: Words
    pieces: tuple[Piece, ...]
    folded: bool = False


@dataclass(frozen=True)
class Article:
    """The page of an operation: what it is, the answer in a box, the parts, and the kind of its Jacobian."""

    op: Op
    opening: Words
    box: tuple[Piece, ...]
    parts: tuple[Part, ...]
    structure: str


def picture_of(story: Explanation, name: str) -> Picture | None:
    """v × J = vᵀJ by one input, where J is small enough to be drawn entry by entry."""
    jacobian = story.gradients[name].jacobian
    return Picture(name, story.to_svg(name)) if small(jacobian) else None


def readable(blocks: Iterable[Block], expression: str) -> Iterator[Block]:
    """The blocks without the formulas and lines that nobody would read, and how to have those.

    What explains their notation waits for the next formula that is shown.
    """
    gone, owed = False, list[Block]()
    for block in blocks:
        if isinstance(block, Equations):
            kept = tuple(row for row in block.rows if all(len(part.text) <= LONGEST for part in row.parts))
            gone = not kept
            if kept:
                yield Equations(kept)
                yield from owed
                owed.clear()
            if len(kept) < len(block.rows):
                longest = max(len(part.text) for row in block.rows for part in row.parts)
                yield left_out(f"a formula of {longest:,} characters", expression)
        elif isinstance(block, Listing) and max(map(len, block.code.splitlines()), default=0) > LONGEST:
            yield left_out(f"a line of {max(map(len, block.code.splitlines())):,} characters", expression)
        elif gone and isinstance(block, Paragraph) and block.notation:
            owed.append(block)
        else:
            gone = gone and isinstance(block, Paragraph)
            yield block


def left_out(what: str, expression: str) -> Paragraph:
    """What is said in place of something too long."""
    quoted = expression.replace('"', '\\"')
    return Paragraph((f"(Left out: {what}. ", Code(f'symgrad derive "{quoted}"'), " prints it.)"))
