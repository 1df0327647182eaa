"""Index formulas as one line of Unicode: ``Σ_k v[p,k]·a[q,k]``, ``δ_ip·a[q,k]``, ``[x[p] > 0]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from symgrad.indexing import Index
from symgrad.indexing.symbols import Expr, indices_of, name_of
from symgrad.notation.meaning import RELATIONS as SIGNS
from symgrad.notation.write import HIGH
from symgrad.render import arrange, numbers
from symgrad.render.formula import ADD, ATOM, MULTIPLY, OPEN, POWER, Printer, Text, numbered
from symgrad.render.letters import Names, loose_names

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
RELATIONS = {kind: sign for sign, kind in SIGNS.items()}
TINY = 1000
"""A power of ten this large or larger is written 10⁻³ under the line."""


def formula_text(expression: Expr, names: Names | Sequence[Index]) -> str:
    """``expression`` on one line of Unicode, under ``names`` or with p, q, r, s for the given indices."""
    return UNICODE.write(expression, names if isinstance(names, Names) else loose_names(expression, names))


def label_text(name: str, at: Sequence[Any]) -> str:
    """``x[0,1]``; a scalar is just its name."""
    return f"{name}[{','.join(map(str, at))}]" if at else name


def power_of_ten(number: Expr) -> int | None:
    """The exponent, if a number is a large power of ten."""
    digits = str(number)
    return len(digits) - 1 if number >= TINY and digits == f"1{'0' * (len(digits) - 1)}" else None


class Unicode(Printer):
    """The alphabet of the terminal."""

    times = "·"
    minus = "−"
    sigma = "Σ"
    pi = "Π"

    def number(self, value: Any) -> Text:
        """A minus sign makes it a term."""
        text = numbers.text(value)
        return (text.replace("-", "−"), ADD) if text.startswith("-") else (text, MULTIPLY if "/" in text else ATOM)

    def letter(self, name: str) -> str:
        """As it is."""
        return name

    def symbol(self, name: str) -> str:
        """As it is."""
        return name

    def word(self, name: str) -> str:
        """As it is."""
        return name

    def access(self, node: Expr, names: Names) -> str:
        """``x[p,q]``, ``x01``, ``x``."""
        name = names.name(name_of(node))
        digits = numbered(node, names)
        return f"{name}{digits}" if digits else label_text(name, [self.node(i, names)[0] for i in indices_of(node)])

    def fraction(self, parts: arrange.Fraction, names: Names) -> Text:
        """Spaces around the line where one side has some."""
        if not parts.below:
            return self.factors(parts.above, names, last_open=True)
        if parts.above == (1,) and len(parts.below) == 1 and (exponent := self._small(parts.below[0])):
            return exponent, POWER
        above, binds = self.factors(parts.above, names, last_open=False)
        above = above if binds >= MULTIPLY else self.bracketed(above)
        below, binds = self.factors(parts.below, names, last_open=True)
        if len(parts.below) > 1 or binds < OPEN or (binds == MULTIPLY):
            below = self.bracketed(below)
            binds = ATOM
        line = " / " if " " in above + below else "/"
        return f"{above}{line}{below}", OPEN if binds == OPEN else MULTIPLY

    @staticmethod
    def _small(below: Expr) -> str:
        """1/100000 is 10⁻⁵."""
        exponent = power_of_ten(below) if below.is_Integer else None
        return f"10{str(-exponent).translate(HIGH)}" if exponent else ""

    def power(self, node: Expr, names: Names) -> Text:
        """x², √x, x^(y − 1)."""
        base, exponent = node.as_base_exp()
        if exponent == sp.Rational(1, 2):
            text, binds = self.node(base, names)
            return f"√{text if binds == ATOM else self.bracketed(text)}", POWER
        text = self.inside(base, ATOM, names)
        if exponent.is_Integer and exponent > 0:
            return f"{text}{str(exponent).translate(HIGH)}", POWER
        return f"{text}^{self.inside(exponent, ATOM, names)}", POWER

    def delta(self, node: Expr, names: Names) -> str:
        """δ_ip for two indices, δ_{k2,q} where a letter is not enough, [i = p + 1] for anything longer."""
        left, right = arrange.delta_sides(node, names)
        if isinstance(left, Index) and isinstance(right, Index):
            first, second = names.letter(left), names.letter(right)
            return f"δ_{first}{second}" if len(first + second) == 2 else f"δ_{{{first},{second}}}"
        return self.condition(sp.Eq(left, right, evaluate=False), names)

    def condition(self, relation: Expr, names: Names) -> str:
        """[x > 0]."""
        if relation.func not in RELATIONS:
            return f"[{self.node(relation, names)[0]}]"
        left, right = arrange.comparison(relation) if not isinstance(relation, sp.Eq) else relation.args
        return f"[{self.node(left, names)[0]} {RELATIONS[relation.func]} {self.node(right, names)[0]}]"

    def function(self, name: str, arguments: Sequence[Expr], names: Names, along: Sequence[Index]) -> str:
        """tanh(x), softmax_i(x)."""
        over = f"_{''.join(names.letter(i) for i in along)}" if along else ""
        return f"{name}{over}({', '.join(self.node(a, names)[0] for a in arguments)})"

    def fence(self, kind: str, text: str) -> str:
        """|x| and ⌊x⌋."""
        return f"|{text}|" if kind == "Abs" else f"⌊{text}⌋"

    def over(self, sign: str, letters: Sequence[str], text: str) -> str:
        """Σ_k, Σ_{i,k}."""
        plain = len(letters) == 1 and "<" not in letters[0]
        return f"{sign}_{letters[0] if plain else '{' + ','.join(letters) + '}'} {text}"

    def bracketed(self, text: str) -> str:
        """Round brackets."""
        return f"({text})"


UNICODE = Unicode()
