"""Words into lines: wrapping that never takes code or mathematics apart where it can be helped, and colour.

A `Line` is pieces of text with a style each. Styles are names; rich turns them into colour, and is imported
only then. Lines of code and remarks are plain text: what is too long goes on below, set in; of many lines the ends are
kept, and between them what the user gave a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest

from symgrad.render.page import Code, CodeLine, Words, align_equal_signs, text_of

Piece = tuple[str, str]
Line = list[Piece]

UNBREAKABLE = 44
"""Code and mathematics up to this many characters stay on one line, where it holds them."""
CALLED = re.compile(r"(?<=\w\()(?=\w)|(?=\.[a-z_]+\()")
"""Behind the bracket of a call, and before a method."""
GLUE = "\u00a0"
NARROWEST = 20
BREAKS = re.compile(r"(?<=[,;)\]·+=])(?=\S)|(?<=\s)(?=\S)")
OWN_NUMBER = re.compile(r"\s*t\d+ = ")
"""A line whose left side has a number and no name."""
BETWEEN = 4
"""Spaces between two columns of code."""
COLORS = {"heading": "bold", "code": "cyan", "aside": "dim", "alarm": "bold red", "good": "green"}


def line_text(line: Line) -> str:
    """The text of a line."""
    return "".join(text for text, _ in line)


def width_of(line: Line) -> int:
    """The columns a line takes."""
    return len(line_text(line))


def color_line(line: Line) -> str:
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


def flow_words(words: Words, width: int, indent: int, hanging: int, style: str = "") -> list[Line]:
    """``words`` as lines: the first one indented by ``indent``, the others by ``hanging``."""
    text, styles = "", []
    for part in words:
        piece = text_of((part,))
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


def wrap_formula(formula: str, width: int) -> list[str]:
    """A long formula over several lines, broken before + and −, else at any space, outermost brackets first."""
    if len(formula) <= width:
        return [formula]
    for pattern in (r" (?=[+−] )", r"(?<=·)(?=[(\[Σ])", r" "):
        places = [m.start() if pattern != r"(?<=·)(?=[(\[Σ])" else m.end() for m in re.finditer(pattern, formula)]
        fitting = [p for p in places if 0 < p <= width]
        if fitting:
            shallow = min(bracket_depth(formula, p) for p in fitting)
            cut = max(p for p in fitting if bracket_depth(formula, p) == shallow)
            if cut > width // 3 or pattern == r" ":
                return [formula[:cut].rstrip(), *wrap_formula(formula[cut:].lstrip(), width)]
    return [formula[:width], *wrap_formula(formula[width:], width)]


def bracket_depth(text: str, place: int) -> int:
    """How many brackets are open at ``place``."""
    before = text[:place]
    return before.count("(") + before.count("[") - before.count(")") - before.count("]")


def wrap_lines(text: str, width: int) -> str:
    """Every line of ``text`` on lines of at most ``width`` signs; what is carried over is set in.

    >>> print(wrap_lines("  h = relu(first) + second", 20))
      h = relu(first) +
          second
    """
    return "\n".join("\n".join(wrap_line(line, max(width, NARROWEST))) for line in text.split("\n"))


def wrap_line(line: str, width: int) -> list[str]:
    """One line as several: at a space, else behind a comma or sign, else anywhere."""
    indent = len(line) - len(line.lstrip())
    inner = " " * min(indent + 4, width // 2)
    parts = []
    while len(line) > width:
        at = last_space(line, len(line) - len(line.lstrip()) + 1, width)
        if at < width // 2:
            places = [m.start() for m in BREAKS.finditer(line, 0, width) if m.start() > len(inner)]
            at = max([at, *places])
        if at <= len(line) - len(line.lstrip()):
            at = width
        parts.append(line[:at].rstrip())
        line = inner + line[at:].lstrip()
    return [*parts, line]


def last_space(line: str, least: int, width: int) -> int:
    """The last space before ``width`` that stands in no brackets of numbers; any space where there is none."""
    depth, outside = 0, -1
    for at, sign in enumerate(line[: width + 1]):
        depth += (sign == "[") - (sign == "]")
        if sign == " " and depth <= 0 and at >= least:
            outside = at
    return outside if outside >= width // 2 else line.rfind(" ", least, width + 1)


def truncate_end(text: str, width: int) -> str:
    """``text`` cut at ``width`` signs.

    >>> truncate_end("hidden_state", 7), truncate_end("hidden", 7)
    ('hidden…', 'hidden')
    """
    return text if len(text) <= width else text[: max(width - 1, 0)].rstrip() + "…"


def elide_lines(lines: Sequence[str], most: int) -> list[str]:
    """At most about ``most`` of ``lines``: the ends, and between them those with names of the script's own.

    >>> elide_lines(["t1 = x * 2", *[f"t{n} = t{n - 1} * 2" for n in range(2, 9)], "h = tanh(t8)", "t9 = h + 1"], 5)
    ['t1 = x * 2', 't2 = t1 * 2', '… 6 more …', 'h = tanh(t8)', 't9 = h + 1']
    """
    if len(lines) <= most + 2:
        return list(lines)
    ends = most // 3
    last = len(lines) - max(ends, most - 2 * (most // 3) - 1)
    middle = [n for n in range(ends + 1, last) if not OWN_NUMBER.match(lines[n])]
    room = most - ends - (len(lines) - last)
    chosen = middle if len(middle) <= room else [*middle[: room - room // 2], *middle[len(middle) - room // 2 :]]
    kept = sorted({*range(ends + 1), *chosen, *range(last, len(lines))})
    shown, before = [], -1
    for n in kept:
        gap = n - before - 1
        if gap == 1:
            shown.append(lines[before + 1])
        elif gap:
            pad = lines[n][: len(lines[n]) - len(lines[n].lstrip())]
            shown.append(f"{pad}… {gap} more …")
        shown.append(lines[n])
        before = n
    return shown


def in_columns(rows: Sequence[Sequence[str]], width: int, first: int) -> list[str]:
    """Rows in columns; where one would not fit, the cells from ``first`` on stand on a line of their own."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    if all(len(line) <= width for line in lines):
        return lines
    before = ["  ".join(c.ljust(w) for c, w in zip(row[:first], widths, strict=False)).rstrip() for row in rows]
    if max(map(len, before)) > width:
        before = ["  ".join(cell for cell in row[:first] if cell) for row in rows]
    after = ["  ".join(cell for cell in row[first:] if cell) for row in rows]
    pairs = [[line, "    " + rest] for line, rest in zip(before, after, strict=True)]
    if not rows[0][0] and len(whole := f"{before[0]}  {after[0]}") <= width:
        pairs[0] = [whole]  # a head has one line
    return [line for pair in pairs for line in pair]


def with_shapes(lines: Sequence[CodeLine], width: int) -> list[str]:
    """Lines of code with their shapes in a column; where a line has no room for its shape, that stands below."""
    codes, shapes = align_equal_signs([line.code for line in lines]), [line.shape or "" for line in lines]
    room = width - 2 - max(map(len, shapes), default=0)
    column = max((len(code) for code in codes if len(code) <= room), default=0)
    found: list[str] = []
    for code, shape in zip(codes, shapes, strict=True):
        *before, last = wrap_line(code, width)
        if len(f"{last}  {shape}") > width:
            before, last = [*before, last], ""  # the shape alone, still in its column
        found += [*before, f"{last.ljust(column)}  {shape}".rstrip()]
    return found


def two_columns(left: Sequence[str], right: Sequence[str], width: int) -> list[str] | None:
    """Two columns of lines; None where they do not fit."""
    side = max(map(len, left)) + BETWEEN
    if side + max(map(len, right)) > width:
        return None
    return [f"{a.ljust(side)}{b}".rstrip() for a, b in zip_longest(left, right, fillvalue="")]


LISTED = 6
"""Parts of a list that is written out."""


def shorten_list(text: str) -> str:
    """A line in which a long list is written by its ends.

    >>> shorten_list("y = cat([a, b[0], c, d, e, f, g, h], dim=1)")
    'y = cat([a, b[0], … 5 more …, h], dim=1)'
    """
    begin = text.find("[")
    while begin >= 0:
        depth, cuts = 0, [begin]
        for at in range(begin, len(text)):
            depth += (text[at] in "[(") - (text[at] in ")]")
            if depth == 1 and text[at] == ",":
                cuts.append(at)
            if depth == 0:
                if len(cuts) > LISTED:
                    middle = f", … {len(cuts) - 3} more …"
                    return text[: cuts[2]] + middle + text[cuts[-1] :]
                break
        begin = text.find("[", begin + 1)
    return text
