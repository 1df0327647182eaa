"""Words into lines: wrapping that never takes code or mathematics apart where it can be helped, and colour.

A `Line` is pieces of text with a style each. Styles are names; rich turns them into colour, and is imported
only then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from symgrad.render.page import Code, Words

Piece = tuple[str, str]
Line = list[Piece]

UNBREAKABLE = 44
"""Code and mathematics up to this many characters stay on one line, where it holds them."""
CALLED = re.compile(r"(?<=\w\()(?=\w)|(?=\.[a-z_]+\()")
"""Behind the bracket of a call, and before a method."""
GLUE = "\u00a0"
COLORS = {"heading": "bold", "code": "cyan", "aside": "dim", "alarm": "bold red", "good": "green"}


def plain(line: Line) -> str:
    """The text of a line."""
    return "".join(text for text, _ in line)


def width_of(line: Line) -> int:
    """The columns a line takes."""
    return len(plain(line))


def painted(line: Line) -> str:
    """A line with the colours of a terminal."""
    from rich.color import ColorSystem
    from rich.style import Style

    pieces = list(line)
    while pieces and not pieces[-1][0].strip():
        pieces.pop()
    return "".join(
        Style.parse(COLORS[style]).render(text, color_system=ColorSystem.STANDARD) if style in COLORS else text
        for text, style in pieces
    )


def flow(words: Words, width: int, indent: int, hanging: int, style: str = "") -> list[Line]:
    """``words`` as lines: the first one indented by ``indent``, the others by ``hanging``."""
    text, styles = "", []
    for part in words:
        piece = part if isinstance(part, str) else part.code if isinstance(part, Code) else part.text
        if not isinstance(part, str) and len(piece) <= min(UNBREAKABLE, width - max(indent, hanging) - 1):
            piece = piece.replace(" ", GLUE)
        text += piece
        styles += [("code" if isinstance(part, Code) and not style else style)] * len(piece)
    lines: list[Line] = []
    start = end = 0
    for begin, stop in _words(text, width - max(indent, hanging)):
        margin = hanging if lines else indent
        if end > start and stop - start > width - margin:
            lines.append(_line(text, styles, start, end, margin))
            start = begin
        elif end == start:
            start = 0 if not lines and text[:begin].strip() == "" else begin
            start = begin if lines else start
        end = stop
    lines.append(_line(text, styles, start, end, hanging if lines else indent))
    return lines


def _words(text: str, room: int) -> Iterator[tuple[int, int]]:
    """Where words begin and end; code that is longer than a line is broken behind a bracket or before a method."""
    for word in re.finditer(r"[^ \n]+", text):
        inner = CALLED.finditer(text, *word.span()) if word.end() - word.start() > room else ()
        yield from pairwise((word.start(), *(place.start() for place in inner), word.end()))


def _line(text: str, styles: list[str], start: int, end: int, margin: int) -> Line:
    """One line, neighbours of one style in one piece."""
    line: Line = [(" " * margin, "")] if margin else []
    for place in range(start, end):
        character = text[place].replace(GLUE, " ")
        if line and line[-1][1] == styles[place] and (len(line) > 1 or not margin):
            line[-1] = (line[-1][0] + character, styles[place])
        else:
            line.append((character, styles[place]))
    return line


def spread(formula: str, width: int) -> list[str]:
    """A long formula over several lines, broken before + and −, else at any space, outermost brackets first."""
    if len(formula) <= width:
        return [formula]
    for pattern in (r" (?=[+−] )", r"(?<=·)(?=[(\[Σ])", r" "):
        places = [m.start() if pattern != r"(?<=·)(?=[(\[Σ])" else m.end() for m in re.finditer(pattern, formula)]
        fitting = [p for p in places if 0 < p <= width]
        if fitting:
            shallow = min(_depth(formula, p) for p in fitting)
            cut = max(p for p in fitting if _depth(formula, p) == shallow)
            if cut > width // 3 or pattern == r" ":
                return [formula[:cut].rstrip(), *spread(formula[cut:].lstrip(), width)]
    return [formula[:width], *spread(formula[width:], width)]


def _depth(text: str, place: int) -> int:
    """How many brackets are open at ``place``."""
    before = text[:place]
    return before.count("(") + before.count("[") - before.count(")") - before.count("]")
