"""An article before it is written: parts of blocks and pictures, and what no reader would read left out with a word.

Comes in: blocks of an explanation. Goes out: an `Article`, for Markdown (`symgrad.documents.markdown`) and for Sphinx.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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

    What explains their notation waits for the next formula that is shown; what is left out in a row is told once.
    """
    gone, owed, missing = False, list[Block](), list[tuple[str, int]]()
    for block in blocks:
        if gone and isinstance(block, Paragraph) and block.notation:
            owed.append(block)
            continue
        kept, left = parted(block)
        if kept is not None:
            yield from left_out(missing, expression)
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
    yield from left_out(missing, expression)


def parted(block: Block) -> tuple[Block | None, list[tuple[str, int]]]:
    """What of a block is short enough to be read, and what else there is: its kind and its length."""
    if isinstance(block, Equations):
        lengths = [max(len(part.text) for part in row.parts) for row in block.rows]
        kept = tuple(row for row, length in zip(block.rows, lengths, strict=True) if length <= LONGEST)
        left = [("formula", length) for length in lengths if length > LONGEST]
        return Equations(kept) if kept else None, left
    if isinstance(block, Listing) and (length := max(map(len, block.code.splitlines()), default=0)) > LONGEST:
        return None, [("line", length)]
    return block, []


def left_out(missing: Sequence[tuple[str, int]], expression: str) -> Iterator[Block]:
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
    yield Paragraph((f"({what} too long to be read here: ", Code(f'symgrad derive "{quoted}"'), f" prints {it}.)"))
