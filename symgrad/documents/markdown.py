"""An article as GitHub's Markdown, its pictures as files beside it; no line is longer than anyone's screen.

Comes in: an `Article`. Goes out: text, and the pictures by the names of their files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from symgrad.documents.shown import LONGEST, Article, Part, Picture, Piece
from symgrad.render.markdown import blocks, words

STARTS = re.compile(r" (?=[A-Za-z\\({])")
"""Where a line of prose or of a formula may end: what begins the next one is no mark of Markdown."""


def article_markdown(article: Article, stem: str) -> tuple[str, Mapping[str, str]]:
    """The page, and its pictures: ``stem-x.svg`` beside it."""
    op = article.op
    pictures: dict[str, str] = {}
    parts = [f"# {op.name}", words(article.opening), f"```text\n{op.definition}\n```"]
    parts += written(article.box, stem, pictures)
    for part in article.parts:
        parts += part_markdown(part, stem, pictures)
    return "\n".join(narrow("\n\n".join(parts))), pictures


def part_markdown(part: Part, stem: str, pictures: dict[str, str]) -> Iterator[str]:
    """One part; a folded one as ``<details>``, which GitHub folds too."""
    if not part.folded:
        yield f"## {words(part.heading)}"
        yield from written(part.pieces, stem, pictures)
        return
    yield "<details>"
    yield f"<summary>{words(part.heading).replace('`', '')}</summary>"
    yield from written(part.pieces, stem, pictures)
    yield "</details>"


def written(pieces: Sequence[Piece], stem: str, pictures: dict[str, str]) -> Iterator[str]:
    """Blocks and pictures."""
    for piece in pieces:
        if isinstance(piece, Picture):
            name = f"{stem}-{piece.name}.svg"
            pictures[name] = piece.svg
            yield f"![{shortened(piece.alt)}]({name})"
        else:
            for block in blocks([piece]):
                yield block if not is_wide(block) else "(This matrix is drawn in the picture.)"


def shortened(alt: str) -> str:
    """A description as the text of a Markdown image, cut where it fills more than two lines; the file has it whole."""
    plain = alt.replace("[", "(").replace("]", ")")
    return plain if len(plain) <= LONGEST - 60 else f"{plain[: LONGEST - 61]}…"


def is_wide(block: str) -> bool:
    """Whether a block is a table with a row that no screen holds."""
    return block.startswith("|") and max(map(len, block.splitlines())) > LONGEST


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
