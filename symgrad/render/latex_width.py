r"""About how wide a LaTeX formula is set, in points of a ten-point article, displayed.

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
