r"""LaTeX that Markdown and LaTeX pages share: equations, arrays of numbers, characters that LaTeX has no key for.

Everything here is for math mode but ``escaped``, which is text. A wide formula goes over several lines, as a person
breaks it: a sum goes on before a sign, inside brackets too, a product before a factor; a wide fraction becomes 1/n
times what is above, or a quotient on the line. How wide LaTeX is set is told in points of a ten-point article,
displayed, rather too many than too few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from symgrad.language.arguments import format_entry_name
from symgrad.numeric import Array
from symgrad.render import numbers
from symgrad.render.latex_alphabet import GREEK
from symgrad.render.page import EquationRow, Grid, Math, Words, number_math, text_of

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
    "∞": r"$\infty$", "≈": r"$\approx$", "■": r"\rule{0.6em}{0.6em}", "“": "``", "”": "''", "←": r"$\gets$",
    "±": r"$\pm$", "\N{COMBINING MACRON}": r"$^{*}$",  # z̄ is z*
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
        plain, end = group(text, start + len(CODE) - 1)
        for sign, written in CHARACTERS.items():
            plain = plain.replace(written, sign) if sign != "\n" else plain
        text = f"{text[:start]}\\text{{{MARK}{len(codes)}.}}{text[end:]}"
        codes.append(plain)
    return text, codes


def equation_lines(row: EquationRow, wide: int = WIDE, room: float = ROOM) -> list[str]:
    r"""One equation as lines of an ``aligned`` environment; each part on a line of its own where it is wide."""
    head, *rest = row.parts
    whole = " = ".join(part.latex for part in row.parts).replace(r"= \approx", r"\approx")
    left = points(head.latex) + RELATION
    aside = rest and left <= room / 3
    if sum(len(part.text) + 3 for part in row.parts) <= wide and points(whole) <= room:
        return [f"{head.latex} &{whole[len(head.latex) + 1 :]}" if aside else f"& {whole}"]
    if not aside:
        first, *more = break_formula(whole, room, room)
        return [f"& {first}", *(f"&\\quad {line}" for line in more)]
    lines: list[str] = []
    for part in rest:
        first, *more = break_formula(part.latex, room - left, room - left)
        lines.append(f"{'' if lines else head.latex} &= {first}".strip())
        lines += [f"&\\quad {line}" for line in more]
    return lines


def aligned_environment(lines: list[str]) -> str:
    """Lines of equations as one formula."""
    if len(lines) == 1:
        return lines[0].replace("&= ", "= ", 1).removeprefix("& ")
    body = " \\\\\n".join(lines)
    return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"


def formulas_with_remarks(
    rows: Sequence[EquationRow], room: float = ROOM, wide: int = WIDE, beside: Callable[[Words], str] | None = None
) -> Iterator[tuple[str, Words]]:
    """Rows without remarks as one formula; a remark stands below its row, a short one as ``beside`` writes it."""
    lines: list[str] = []
    for place, row in enumerate(rows, start=1):
        lines += equation_lines(row, wide, room)
        remark, length = row.remark, sum(len(part.text) + 3 for part in row.parts) + len(text_of(row.remark))
        if remark and beside is not None and length <= wide:
            lines[-1] += beside(remark)
            remark = ()
        if remark or place == len(rows):
            yield aligned_environment(lines), remark
            lines = []


def grid_formulas(grid: Grid) -> list[str]:
    """An array after its name; one formula for each of its matrices."""
    values = np.asarray(grid.values)
    alike = numbers.constant_array_text(values)
    if alike:
        return [f"{grid.name.latex} = \\text{{{escaped(alike)}}}"]
    places = list(np.ndindex(*values.shape[:-2]))
    parts = [(format_entry_name(grid.name.latex, at), values[at] if at else values) for at in places[:MOST_ROWS]]
    shown = [f"{name} = {array_latex(part)}" for name, part in parts]
    if len(places) > MOST_ROWS:
        shown.append(f"\\text{{and {len(places) - MOST_ROWS} more matrices}}")
    return shown


def array_latex(values: Array) -> str:
    """Numbers in square brackets, the middle left out where there are too many."""
    if values.size == 0:
        return r"\left[\;\right]"
    if values.ndim == 0:
        return number_math(values[()]).latex
    table = np.atleast_2d(values)
    down, across = map(numbers.elided_places, table.shape, (MOST_ROWS, MOST_COLUMNS))

    def cell(row: int | None, column: int | None) -> str:
        if row is None:
            return r"\ddots" if column is None else r"\vdots"
        return r"\cdots" if column is None else number_math(table[row, column]).latex

    body = " \\\\ ".join(" & ".join(cell(r, c) for c in across) for r in down)
    return f"\\left[\\begin{{array}}{{{'r' * len(across)}}} {body} \\end{{array}}\\right]"


def cell_latex(math: Math | None) -> str:
    """One entry of a matrix; a dot where it is always 0."""
    return r"\cdot" if math is None else math.latex


# Formulas over several lines ------------------------------------------------------------------------

TOKEN = re.compile(r"\\(?:[A-Za-z]+\*?|.)|.", re.DOTALL)
LETTER, CHARACTER, BRACKET, RELATION = 5.6, 5.3, 4.8, 13.3
"""A letter of a formula, one of upright or typewriter text, a bracket that grows, a sign with its space."""
WIDTHS = {
    "+": 12.2, "-": 12.2, "=": RELATION, "<": RELATION, ">": RELATION, "\\leq": RELATION, "\\geq": RELATION,
    "\\neq": RELATION, "\\cdot": 7.2, "\\times": 12.2, "\\sum": 16.0, "\\prod": 14.0, ",": 4.5, ".": 2.8, " ": 0.0,
    "\\,": 1.7, "\\;": 2.8, "\\quad": 10.0, "\\qquad": 20.0, "\\left": 0.0, "\\right": 0.0, "\\infty": 10.0,
    "\\langle": BRACKET, "\\rangle": BRACKET, **dict.fromkeys("()[]", BRACKET), **dict.fromkeys("0123456789", 5.0),
    **dict.fromkeys(("\\lvert", "\\rvert", "\\lfloor", "\\rfloor", "\\bigl", "\\bigr"), 1.5), "\\partial": 5.6,
}  # fmt: skip
TEXT = {"\\mathrm", "\\mathtt", "\\text", "\\texttt", "\\operatorname", "\\operatorname*"}
AS_LETTERS = frozenset({*GREEK.values(), "top"})
"""Commands that are as wide as a letter."""
SMALLER = 0.72
"""A subscript, and a fraction within another."""


def points(latex: str, inside: bool = False) -> float:
    """How wide ``latex`` is; ``inside`` a fraction another one is smaller."""
    total, at = 0.0, 0
    while at < len(latex):
        match = TOKEN.match(latex, at)
        sign, at = (match[0], match.end()) if match else ("", len(latex))
        if sign in ("_", "^", "{"):
            inner, at = group(latex, at - (sign == "{"))
            total += points(inner, inside) * (1 if sign == "{" else SMALLER)
        elif sign == "\\frac":
            above, at = group(latex, at)
            below, at = group(latex, at)
            total += max(points(above, True), points(below, True)) * (SMALLER if inside else 1) + 2.4
        elif sign == "\\sqrt":
            inner, at = group(latex, at)
            total += points(inner, inside) + 8.5
        elif sign in TEXT:
            inner, at = group(latex, at)
            total += CHARACTER * len(re.sub(r"\\[A-Za-z]+|[\\{}]", "", inner)) + 1.7 * (sign[1] == "o")
        elif sign in WIDTHS:
            total += WIDTHS[sign]
        else:
            total += LETTER if len(sign) == 1 or sign[1:] in AS_LETTERS else CHARACTER * (len(sign) - 1) + 1.7
    return total


def group(latex: str, at: int) -> tuple[str, int]:
    r"""The argument at a place, in braces or one sign, and where it ends.

    >>> group(r"x_{ij}^2", 2), group(r"x_{ij}^2", 7)
    (('ij', 6), ('2', 8))
    """
    if latex[at : at + 1] != "{":
        match = TOKEN.match(latex, at)
        return (match[0], match.end()) if match else ("", at)
    depth = 0
    for end in range(at, len(latex)):
        depth += {"{": 1, "}": -1}.get(latex[end], 0) if latex[end - 1 : end] != "\\" else 0
        if not depth:
            return latex[at + 1 : end], end + 1
    return latex[at + 1 :], len(latex)


DEPTH = re.compile(r"[{}]|\\(?:left|right|begin|end)(?![a-z])| (?:[+<=/-]|\\(?:cdot|leq|geq|neq|,)) ")
"""What opens or closes, and where a formula may go on."""
SIGNS, TIMES = (" + ", " - "), (" \\, ", " \\cdot ", " / ")
RELATIONS = (" = ", " < ", " \\leq ", " \\geq ", " \\neq ")
INDENT = 10.0
"""What a line that goes on is moved by."""
ENDS = {r"\right)": r"\left(", r"\right]": r"\left["}


def break_formula(latex: str, room: float, first: float) -> list[str]:
    r"""The lines of a formula, ``first`` points for the first and ``room`` for each other.

    >>> break_formula(r"a \, \left(b + c\right) - d", 50, 50)
    ['a \\, \\left(b + c\\right)', '- d']
    >>> break_formula(r"a \, \left(b + c\right) - d", 30, 30)
    ['a \\, \\bigl(b', '+ c\\bigr)', '- d']
    """
    if points(latex) <= first:
        return [latex]
    found, left = [""], first
    for atom in atoms(latex, min(first, room - INDENT)):
        size = points(atom)
        if found[-1] and size > left:
            found.append("")
            left = room - INDENT
        found[-1] += atom if found[-1] else begin_line(atom)
        left -= size
    return found


def begin_line(atom: str) -> str:
    """What begins a line: a factor shows that it is one."""
    return f"\\times {atom.removeprefix(TIMES[0])}" if atom.startswith(TIMES[0]) else atom.lstrip()


def atoms(latex: str, room: float) -> list[str]:
    """The pieces that stand on one line each, in order; what fits is one piece."""
    if points(latex) <= room:
        return [latex]
    for signs in (RELATIONS, SIGNS, TIMES):
        several = split_at_signs(latex, signs)
        if len(several) > 1:
            return [atom for piece in several for atom in atoms(piece, room)]
    sign = next((s for s in (*RELATIONS, *SIGNS, *TIMES, "-") if latex.startswith(s)), "")
    bare = latex.removeprefix(sign)
    if bare.startswith(r"\frac"):
        first, *more = [atom for piece in split_quotient(bare, room) for atom in atoms(piece, room)]
        return [sign + first, *more]
    head, inner, end = open_brackets(bare)
    if not inner:
        return [latex]
    first, *more = atoms(inner, room)
    *most, last = [sign + head + first, *more]
    return [*most, last + end]


def split_quotient(fraction: str, room: float) -> tuple[str, str]:
    """A fraction as 1/n times what is above, or, where it is wide below, as a quotient on the line."""
    above, at = group(fraction, len(r"\frac"))
    below, _ = group(fraction, at)
    if points(below) > room / 2:
        return bracket_if_needed(above, SIGNS), f" / {bracket_if_needed(below, (*SIGNS, *TIMES))}"
    times = " \\cdot " if above[:1].isdigit() else " \\, "
    return f"\\frac{{1}}{{{below}}}", times + bracket_if_needed(above, SIGNS)


def bracket_if_needed(latex: str, signs: tuple[str, ...]) -> str:
    """In brackets, where one of ``signs`` stands outside of all others."""
    return f"\\left({latex}\\right)" if len(split_at_signs(latex, signs)) > 1 else latex


def open_brackets(latex: str) -> tuple[str, str, str]:
    """What is inside the outermost brackets, a root or a sum, between what stands before and behind; "" elsewhere."""
    if latex.startswith((r"\sum_", r"\prod_")):
        at = group(latex, latex.index("_") + 1)[1]
        return latex[: at + 1], latex[at + 1 :], ""
    if latex.startswith(r"\sqrt"):
        return r"\bigl(", group(latex, len(r"\sqrt"))[0], r"\bigr)^{1/2}"
    body, end = group(latex, 0) if latex.startswith("{") else (latex, len(latex))
    begin = ENDS.get(body[-len(r"\right)") :], "")
    start = body.find(r"\left")
    if not begin or not body[start:].startswith(begin) or len(split_at_signs(body, (*RELATIONS, *SIGNS, *TIMES))) > 1:
        return "", "", ""
    sizes = begin.replace("left", "bigl"), body[-len(r"\right)") :].replace("right", "bigr")
    return body[:start] + sizes[0], body[start + len(begin) : -len(r"\right)")], sizes[1] + latex[end:]


def split_at_signs(latex: str, signs: tuple[str, ...]) -> list[str]:
    """The parts between ``signs`` outside of all brackets, each but the first with its sign."""
    depth, cuts = 0, [0]
    for match in DEPTH.finditer(latex):
        depth += {"{": 1, "\\left": 1, "\\begin": 1, "}": -1, "\\right": -1, "\\end": -1}.get(match[0], 0)
        if match[0] in signs and not depth and match.start():
            cuts.append(match.start())
    return [latex[start:end] for start, end in zip(cuts, [*cuts[1:], len(latex)], strict=True)]
