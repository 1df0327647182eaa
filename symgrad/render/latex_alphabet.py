r"""Index formulas and names in LaTeX, for math mode.

Comes in: an expression and its names. Goes out: ``\sum_{k} v_{pk} \, a_{qk}``, ``\delta_{ip}``,
``\left[x_{p} > 0\right]``. Braces and ``\left``/``\right`` balance for every expression; no ``|`` is written, so that a
formula may stand in a Markdown table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from symgrad.indexing import Index
from symgrad.indexing.symbols import Expr, indices_of, name_of
from symgrad.render import arrange, numbers
from symgrad.render.formula import ADD, ATOM, MULTIPLY, Text, Unicode
from symgrad.render.letters import Names

BACK = ("v_", "g_")
"""What the names of gradients on their way back begin with."""
FUNCTIONS = {"exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh"}
WORDS = {"nan": r"\mathrm{nan}", "inf": r"\infty", "-inf": r"-\infty", "≈0": r"\approx 0"}
"""Numbers that are not written in digits alone."""
GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma",
    "τ": "tau", "υ": "upsilon", "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta",
    "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip


def name_latex(name: str) -> str:
    """A tensor's name: x, out upright, v_h as the gradient that has come back to h."""
    if name in GREEK:
        return f"\\{GREEK[name]}"
    if name.startswith(BACK) and not name[2:].isdigit():  # v_1 may be anybody's; v^1 would be a power
        return f"{name[0]}^{{{name_latex(name[2:])}}}"
    if len(name) == 1 and name.isascii():
        return name
    return f"\\mathrm{{{escape_name(name)}}}"


def label_latex(name: str, at: Sequence[Any]) -> str:
    """x_{ij} for letters, x_{0,1} for numbers and anything longer."""
    if not at:
        return name
    texts = [str(i) for i in at]
    joined = "".join(texts) if all(len(t) == 1 and t.isalpha() for t in texts) else ",".join(texts)
    return f"{name}_{{{joined}}}"


def escape_name(name: str) -> str:
    """The characters of a name, for upright letters."""
    return "".join(f"{{\\{GREEK[c]}}}" if c in GREEK else r"\_" if c == "_" else c for c in name)


class Latex(Unicode):
    """The alphabet of the printed page."""

    times = r" \, "
    below = " < "  # with blanks: <m could begin a tag where Markdown is read
    minus = "-"
    sigma = r"\sum"
    pi = r"\prod"
    iverson = r"\left[{}\right]"
    round = r"\left({}\right)"
    fences: ClassVar = {"Abs": r"\left\lvert {} \right\rvert", "floor": r"\left\lfloor {} \right\rfloor"}
    signs: ClassVar = {"≠": r"\neq", "≤": r"\leq", "≥": r"\geq"}

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

    def divided(self, parts: arrange.Fraction, names: Names) -> Text:
        r"""\frac needs no brackets; a number alone stands before it."""
        above, below = (self.factors(side, names, last_open=True)[0] for side in (parts.above, parts.below))
        return f"\\frac{{{above}}}{{{below}}}", MULTIPLY

    def root(self, base: Expr, names: Names) -> Text:
        r"""\sqrt{x}."""
        return f"\\sqrt{{{self.node(base, names)[0]}}}", ATOM

    def raised(self, base: str, exponent: Expr, names: Names) -> str:
        """x_{p}^{2}."""
        return f"{base if base.isdigit() else f'{{{base}}}'}^{{{self.node(exponent, names)[0]}}}"

    def pair(self, first: str, second: str) -> str:
        r"""\delta_{ip}."""
        return f"\\delta_{{{first}{second}}}"

    def function(self, name: str, arguments: Sequence[Expr], names: Names, along: Sequence[Index]) -> str:
        r"""\tanh\left(x_{p}\right)."""
        if name in FUNCTIONS:
            head = f"\\{name}"
        elif name in ("σ", "Γ"):
            head = f"\\{GREEK[name]}"
        elif name == "logΓ":
            head = r"\log\Gamma"
        else:
            head = f"\\operatorname{{{escape_name(name)}}}"
        over = f"_{{{''.join(self.letter(names.letter(i)) for i in along)}}}" if along else ""
        return f"{head}{over}\\left({', '.join(self.node(a, names)[0] for a in arguments)}\\right)"

    def over(self, sign: str, letters: Sequence[str], text: str) -> str:
        """Indices below the sign."""
        return f"{sign}_{{{','.join(letters)}}} {text}"


LATEX = Latex()
formula_latex = LATEX.write
