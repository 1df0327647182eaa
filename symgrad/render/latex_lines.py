r"""LaTeX formulas over several lines, as a person breaks them.

Comes in: a formula and the room of a line, in points. Goes out: its lines: a sum goes on before a sign, inside
brackets too, a product before a factor; a wide fraction becomes 1/n times what is above, or a quotient on the line.

About how wide a LaTeX formula is set, in points of a ten-point article, displayed.

Comes in: LaTeX as the printers write it. Goes out: points, rather too many than too few.
"""

from __future__ import annotations

import re

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
GREEK = {"alpha", "beta", "gamma", "delta", "pi", "sigma", "lambda", "epsilon", "theta", "mu", "top"}
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
            total += LETTER if len(sign) == 1 or sign[1:] in GREEK else CHARACTER * (len(sign) - 1) + 1.7
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


def lines(latex: str, room: float, first: float) -> list[str]:
    r"""The lines of a formula, ``first`` points for the first and ``room`` for each other.

    >>> lines(r"a \, \left(b + c\right) - d", 50, 50)
    ['a \\, \\left(b + c\\right)', '- d']
    >>> lines(r"a \, \left(b + c\right) - d", 30, 30)
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
        found[-1] += atom if found[-1] else begun(atom)
        left -= size
    return found


def begun(atom: str) -> str:
    """What begins a line: a factor shows that it is one."""
    return f"\\times {atom.removeprefix(TIMES[0])}" if atom.startswith(TIMES[0]) else atom.lstrip()


def atoms(latex: str, room: float) -> list[str]:
    """The pieces that stand on one line each, in order; what fits is one piece."""
    if points(latex) <= room:
        return [latex]
    for signs in (RELATIONS, SIGNS, TIMES):
        several = cut(latex, signs)
        if len(several) > 1:
            return [atom for piece in several for atom in atoms(piece, room)]
    sign = next((s for s in (*RELATIONS, *SIGNS, *TIMES, "-") if latex.startswith(s)), "")
    bare = latex.removeprefix(sign)
    if bare.startswith(r"\frac"):
        first, *more = [atom for piece in quotient(bare, room) for atom in atoms(piece, room)]
        return [sign + first, *more]
    head, inner, end = opened(bare)
    if not inner:
        return [latex]
    first, *more = atoms(inner, room)
    *most, last = [sign + head + first, *more]
    return [*most, last + end]


def quotient(fraction: str, room: float) -> tuple[str, str]:
    """A fraction as 1/n times what is above, or, where it is wide below, as a quotient on the line."""
    above, at = group(fraction, len(r"\frac"))
    below, _ = group(fraction, at)
    if points(below) > room / 2:
        return inside(above, SIGNS), f" / {inside(below, (*SIGNS, *TIMES))}"
    times = " \\cdot " if above[:1].isdigit() else " \\, "
    return f"\\frac{{1}}{{{below}}}", times + inside(above, SIGNS)


def inside(latex: str, signs: tuple[str, ...]) -> str:
    """In brackets, where one of ``signs`` stands outside of all others."""
    return f"\\left({latex}\\right)" if len(cut(latex, signs)) > 1 else latex


def opened(latex: str) -> tuple[str, str, str]:
    """What is inside the outermost brackets, a root or a sum, between what stands before and behind; "" elsewhere."""
    if latex.startswith((r"\sum_", r"\prod_")):
        at = group(latex, latex.index("_") + 1)[1]
        return latex[: at + 1], latex[at + 1 :], ""
    if latex.startswith(r"\sqrt"):
        return r"\bigl(", group(latex, len(r"\sqrt"))[0], r"\bigr)^{1/2}"
    body, end = group(latex, 0) if latex.startswith("{") else (latex, len(latex))
    begin = ENDS.get(body[-len(r"\right)") :], "")
    start = body.find(r"\left")
    if not begin or not body[start:].startswith(begin) or len(cut(body, (*RELATIONS, *SIGNS, *TIMES))) > 1:
        return "", "", ""
    sizes = begin.replace("left", "bigl"), body[-len(r"\right)") :].replace("right", "bigr")
    return body[:start] + sizes[0], body[start + len(begin) : -len(r"\right)")], sizes[1] + latex[end:]


def cut(latex: str, signs: tuple[str, ...]) -> list[str]:
    """The parts between ``signs`` outside of all brackets, each but the first with its sign."""
    depth, cuts = 0, [0]
    for match in DEPTH.finditer(latex):
        depth += {"{": 1, "\\left": 1, "\\begin": 1, "}": -1, "\\right": -1, "\\end": -1}.get(match[0], 0)
        if match[0] in signs and not depth and match.start():
            cuts.append(match.start())
    return [latex[start:end] for start, end in zip(cuts, [*cuts[1:], len(latex)], strict=True)]
