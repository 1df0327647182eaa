r"""Index formulas as LaTeX: ``\sum_{k} v_{pk} \, a_{qk}``, ``\delta_{ip}``, ``\left[x_{p} > 0\right]``.

Braces and ``\left``/``\right`` balance for every expression; no ``|`` is written, so that a formula may stand
in a Markdown table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from symgrad.indexing import Index
from symgrad.indexing.symbols import Expr, indices_of, name_of
from symgrad.render import arrange, numbers
from symgrad.render.formula import ADD, ATOM, MULTIPLY, POWER, Printer, Text
from symgrad.render.formula_text import power_of_ten
from symgrad.render.letters import Names, loose_names

BACK = ("v_", "g_")
"""What the names of gradients on their way back begin with."""
RELATIONS = {sp.Eq: "=", sp.Ne: r"\neq", sp.Lt: "<", sp.Le: r"\leq", sp.Gt: ">", sp.Ge: r"\geq"}
FUNCTIONS = {
    "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh",
}  # fmt: skip
WORDS = {"nan": r"\mathrm{nan}", "inf": r"\infty", "-inf": r"-\infty", "≈0": r"\approx 0"}
"""Numbers that are not written in digits alone."""
GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma",
    "τ": "tau", "υ": "upsilon", "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta",
    "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip


def formula_latex(expression: Expr, names: Names | Sequence[Index]) -> str:
    """``expression`` in LaTeX, for math mode, under ``names`` or with p, q, r, s for the given indices."""
    return LATEX.write(expression, names if isinstance(names, Names) else loose_names(expression, names))


def name_latex(name: str) -> str:
    """A tensor's name: x, out upright, v_h as the gradient that has come back to h."""
    if name in GREEK:
        return f"\\{GREEK[name]}"
    if name.startswith(BACK) and not name[2:].isdigit():  # v_1 may be anybody's; v^1 would be a power
        return f"{name[0]}^{{{name_latex(name[2:])}}}"
    if len(name) == 1 and name.isascii():
        return name
    return f"\\mathrm{{{spelled(name)}}}"


def label_latex(name: str, at: Sequence[Any]) -> str:
    """x_{ij} for letters, x_{0,1} for numbers and anything longer."""
    if not at:
        return name
    texts = [str(i) for i in at]
    joined = "".join(texts) if all(len(t) == 1 and t.isalpha() for t in texts) else ",".join(texts)
    return f"{name}_{{{joined}}}"


def spelled(name: str) -> str:
    """The characters of a name, for upright letters."""
    return "".join(f"{{\\{GREEK[c]}}}" if c in GREEK else r"\_" if c == "_" else c for c in name)


class Latex(Printer):
    """The alphabet of the printed page."""

    times = r" \, "
    below = " < "  # with blanks: <m could begin a tag where Markdown is read
    minus = "-"
    sigma = r"\sum"
    pi = r"\prod"

    def factors(self, parts: Sequence[Expr], names: Names, last_open: bool) -> Text:
        r"""Numbers beside numbers need a \cdot."""
        text, binds = super().factors(parts, names, last_open)
        if len(parts) > 1 and any(isinstance(p, arrange.Shown) or p.is_Number for p in parts[1:]):
            text = text.replace(self.times, r" \cdot ")
        elif len(parts) > 1 and isinstance(parts[0], arrange.Shown):
            text = text.replace(self.times, r" \cdot ", 1)
        return text, binds

    def number(self, value: Any) -> Text:
        """A fraction as one, 1e-5 as a power of ten."""
        text = numbers.text(value)
        if text in WORDS:
            return WORDS[text], ADD if "-" in text else ATOM
        negative, bare = text.startswith("-"), text.lstrip("-")
        if "/" in bare:
            bare = "\\frac{{{}}}{{{}}}".format(*bare.split("/"))
        if "e" in bare:
            digits, exponent = bare.split("e")
            bare = f"{digits} \\cdot 10^{{{int(exponent)}}}"
        return (f"-{bare}", ADD) if negative else (bare, MULTIPLY if "\\" in bare else ATOM)

    def letter(self, name: str) -> str:
        """j2 is j with a subscript."""
        return name if len(name) == 1 else f"{name[0]}_{{{name[1:]}}}"

    def symbol(self, name: str) -> str:
        """A size; n1 with a subscript."""
        return f"\\{GREEK[name]}" if name in GREEK else self.letter(name)

    def word(self, name: str) -> str:
        """Upright."""
        return r"\bmod" if name == "mod" else f"\\operatorname*{{{name}}}"

    def access(self, node: Expr, names: Names) -> str:
        """x_{pq}."""
        return label_latex(name_latex(names.name(name_of(node))), [self.node(i, names)[0] for i in indices_of(node)])

    def fraction(self, parts: arrange.Fraction, names: Names) -> Text:
        r"""\frac needs no brackets; a number alone stands before it."""
        if not parts.below:
            return self.factors(parts.above, names, last_open=True)
        if parts.above == (1,) and len(parts.below) == 1 and parts.below[0].is_Integer:
            exponent = power_of_ten(parts.below[0])
            if exponent:
                return f"10^{{-{exponent}}}", POWER
        above, below = (self.factors(side, names, last_open=True)[0] for side in (parts.above, parts.below))
        return f"\\frac{{{above}}}{{{below}}}", MULTIPLY

    def power(self, node: Expr, names: Names) -> Text:
        r"""x_{p}^{2}, \sqrt{x}."""
        base, exponent = node.as_base_exp()
        if exponent == sp.Rational(1, 2):
            return f"\\sqrt{{{self.node(base, names)[0]}}}", ATOM
        text = self.inside(base, ATOM, names)
        return f"{{{text}}}^{{{self.node(exponent, names)[0]}}}", POWER

    def delta(self, node: Expr, names: Names) -> str:
        r"""\delta_{ip}; a condition for anything longer."""
        left, right = arrange.delta_sides(node, names)
        if isinstance(left, Index) and isinstance(right, Index):
            return f"\\delta_{{{self.node(left, names)[0]}{self.node(right, names)[0]}}}"
        return self.condition(sp.Eq(left, right, evaluate=False), names)

    def condition(self, relation: Expr, names: Names) -> str:
        """An Iverson bracket."""
        if relation.func not in RELATIONS:
            return f"\\left[{self.node(relation, names)[0]}\\right]"
        left, right = arrange.comparison(relation) if not isinstance(relation, sp.Eq) else relation.args
        sign = RELATIONS[relation.func]
        return f"\\left[{self.node(left, names)[0]} {sign} {self.node(right, names)[0]}\\right]"

    def function(self, name: str, arguments: Sequence[Expr], names: Names, along: Sequence[Index]) -> str:
        r"""\tanh\left(x_{p}\right)."""
        if name in FUNCTIONS:
            head = f"\\{name}"
        elif name in ("σ", "Γ"):
            head = f"\\{GREEK[name]}"
        elif name == "logΓ":
            head = r"\log\Gamma"
        else:
            head = f"\\operatorname{{{spelled(name)}}}"
        over = f"_{{{''.join(self.letter(names.letter(i)) for i in along)}}}" if along else ""
        return f"{head}{over}\\left({', '.join(self.node(a, names)[0] for a in arguments)}\\right)"

    def fence(self, kind: str, text: str) -> str:
        r"""\lvert x \rvert, \lfloor x \rfloor."""
        word = "vert" if kind == "Abs" else "floor"
        return f"\\left\\l{word} {text} \\right\\r{word}"

    def over(self, sign: str, letters: Sequence[str], text: str) -> str:
        """Indices below the sign."""
        return f"{sign}_{{{','.join(letters)}}} {text}"

    def bracketed(self, text: str) -> str:
        r"""Brackets that grow."""
        return f"\\left({text}\\right)"


LATEX = Latex()
