r"""LaTeX that Markdown and LaTeX pages share: equations, arrays of numbers, characters that LaTeX has no key for.

Everything here is for math mode but ``escaped``, which is text.
"""

from __future__ import annotations

import numpy as np

from symgrad.numeric import Array
from symgrad.render import numbers
from symgrad.render.formula_latex import GREEK
from symgrad.render.latex_lines import RELATION, points
from symgrad.render.latex_lines import lines as broken
from symgrad.render.page import Equation, Grid, Math
from symgrad.render.page import number as number_math

MOST_ROWS, MOST_COLUMNS = 12, 12
"""Rows and columns of an array that are printed."""
WIDE = 84
"""Characters (of the Unicode text) beyond which every part of an equation gets a line."""
ROOM = 430
"""Points of a line, of ten-point letters: what a page of text on a screen holds."""

CHARACTERS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"$<$", ">": r"$>$", "|": r"$\vert$", '"': "''",
    "×": r"$\times$", "⊗": r"$\otimes$", "∘": r"$\circ$", "·": r"$\cdot$", "−": "$-$", "…": r"\ldots{}",
    "∂": r"$\partial$", "⟨": r"$\langle$", "⟩": r"$\rangle$", "ᵀ": r"$^{\top}$", "≤": r"$\leq$", "≥": r"$\geq$",
    "≠": r"$\neq$", "√": r"$\surd$", "⌊": r"$\lfloor$", "⌋": r"$\rfloor$", "→": r"$\to$", "–": "--", "’": "'",
    "²": "$^{2}$", "³": "$^{3}$", "¹": "$^{1}$", "⁰": "$^{0}$", "⁻": "$^{-}$",
    **{sign: f"$^{{{n}}}$" for n, sign in enumerate("⁴⁵⁶⁷⁸⁹", 4)},
    **{sign: f"$_{{{n}}}$" for n, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    "∞": r"$\infty$", "≈": r"$\approx$", "■": r"\rule{0.6em}{0.6em}", "“": "``", "”": "''",
    "\n": " ", **{letter: f"$\\{name}$" for letter, name in GREEK.items()},
}  # fmt: skip


def escaped(text: str) -> str:
    """Plain text for LaTeX's text mode."""
    return "".join(CHARACTERS.get(character, character) for character in text)


def typewriter(code: str) -> str:
    r"""Code for either mode; typewriter fonts have <, > and | as they are."""
    return f"\\texttt{{{''.join(c if c in '<>|' else CHARACTERS.get(c, c) for c in code)}}}"


CODE, MARK = r"\texttt{", "Code"
"""How code begins in a formula, and what stands for it until the formula is translated."""


def without_code(text: str) -> tuple[str, list[str]]:
    r"""``text`` with a mark for each piece of code, and the pieces as they read.

    >>> without_code(r"a = \texttt{x\_1 < \{y\}} + 1")
    ('a = \\text{Code0.} + 1', ['x_1 < {y}'])
    """
    codes: list[str] = []
    while (start := text.find(CODE)) >= 0:
        end, depth = start + len(CODE), 1
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0) if text[end - 1] != "\\" else 0
            end += 1
        plain = text[start + len(CODE) : end - 1]
        for sign, written in CHARACTERS.items():
            plain = plain.replace(written, sign) if sign != "\n" else plain
        text = f"{text[:start]}\\text{{{MARK}{len(codes)}.}}{text[end:]}"
        codes.append(plain)
    return text, codes


def equation(row: Equation, wide: int = WIDE, room: float = ROOM) -> list[str]:
    r"""One equation as lines of an ``aligned`` environment; each part on a line of its own where it is wide."""
    head, *rest = row.parts
    whole = " = ".join(part.latex for part in row.parts).replace(r"= \approx", r"\approx")
    left = points(head.latex) + RELATION
    aside = rest and left <= room / 3
    if sum(len(part.text) + 3 for part in row.parts) <= wide and points(whole) <= room:
        return [f"{head.latex} &{whole[len(head.latex) + 1 :]}" if aside else f"& {whole}"]
    if not aside:
        first, *more = broken(whole, room, room)
        return [f"& {first}", *(f"&\\quad {line}" for line in more)]
    lines: list[str] = []
    for part in rest:
        first, *more = broken(part.latex, room - left, room - left)
        lines.append(f"{'' if lines else head.latex} &= {first}".strip())
        lines += [f"&\\quad {line}" for line in more]
    return lines


def aligned(lines: list[str]) -> str:
    """Lines of equations as one formula."""
    if len(lines) == 1:
        return lines[0].replace("&= ", "= ", 1).removeprefix("& ")
    body = " \\\\\n".join(lines)
    return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"


def grids(grid: Grid) -> list[str]:
    """An array after its name; one formula for each of its matrices."""
    values = np.asarray(grid.values)
    alike = numbers.everywhere(values)
    if alike:
        return [f"{grid.name.latex} = \\text{{{escaped(alike)}}}"]
    if values.ndim <= 2:
        return [f"{grid.name.latex} = {array(values)}"]
    places = list(np.ndindex(*values.shape[:-2]))
    shown = [f"{grid.name.latex}[{','.join(map(str, at))}] = {array(values[at])}" for at in places[:MOST_ROWS]]
    if len(places) > MOST_ROWS:
        shown.append(f"\\text{{and {len(places) - MOST_ROWS} more matrices}}")
    return shown


def array(values: Array) -> str:
    """Numbers in square brackets, the middle left out where there are too many."""
    if values.size == 0:
        return r"\left[\;\right]"
    if values.ndim == 0:
        return number(values[()])
    table = np.atleast_2d(values)
    down, across = numbers.shortened(table.shape[0], MOST_ROWS), numbers.shortened(table.shape[1], MOST_COLUMNS)
    rows = [" & ".join(_dots(r, c) if r is None or c is None else number(table[r, c]) for c in across) for r in down]
    body = " \\\\ ".join(rows)
    return f"\\left[\\begin{{array}}{{{'r' * len(across)}}} {body} \\end{{array}}\\right]"


def number(value: object) -> str:
    """One number."""
    return number_math(value).latex


def cell(math: Math | None) -> str:
    """One entry of a matrix; a dot where it is always 0."""
    return r"\cdot" if math is None else math.latex


def _dots(row: int | None, column: int | None) -> str:
    """What stands for left-out numbers."""
    return r"\ddots" if row is None and column is None else r"\vdots" if row is None else r"\cdots"
