"""From a SymPy index expression to one line: the walk, the brackets, and the alphabet of the terminal.

Comes in: an expression and the `Names` in scope. Goes out: ``Σ_k v[p,k]·a[q,k]``, ``δ_ip·a[q,k]``, ``[x[p] > 0]``. The
walk says what a node is made of and where brackets are needed; how each kind of node looks another alphabet says
otherwise (`symgrad.render.latex_alphabet`). Σ reaches to the end of its product, so that it stands last or in brackets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import sympy as sp

from symgrad.closed_form.rewriting.shorthands import Centred, Mean, Softmax, Standardised, Variance
from symgrad.functions import high
from symgrad.indexing import Bracket, Index, Ravel, Unravel
from symgrad.indexing.symbols import Expr, accesses, indices_of, is_access, name_of
from symgrad.language.arguments import format_entry_name
from symgrad.notation.meaning import RELATIONS as SIGNS
from symgrad.notation.read_write import HIGH
from symgrad.render import arrange, numbers
from symgrad.render.arrange import Shown
from symgrad.render.letters import Names, loose_names

ADD, OPEN, MULTIPLY, POWER, ATOM = range(5)
"""How tightly a text holds together; OPEN is Σ, which takes all that follows it."""

AVERAGES = {Mean: "mean", Variance: "var"}
ALONG = {Softmax: "softmax", Centred: "centred", Standardised: "standardised"}

RELATIONS = {kind: sign for sign, kind in SIGNS.items()}
TINY = 1000
"""A power of ten this large or larger is written 10⁻³ under the line."""

Text = tuple[str, int]


class Unicode:
    """The walk over an expression, and one line of Unicode; another alphabet is a subclass."""

    def write(self, expression: Expr, names: Names | Sequence[Index]) -> str:
        """``expression`` under ``names``, or with p, q, r, s for the given indices; x[0,0] is not x00 beside x[i,0]."""
        if not isinstance(names, Names):
            names = loose_names(expression, names)
        if names.compact:
            indexed = {name_of(a) for a in accesses(expression) if not all(i.is_Integer for i in indices_of(a))}
            names = replace(names, compact=names.compact - indexed)
        return self.node(arrange.with_numbers(expression, names), names)[0]

    def node(self, node: Expr, names: Names) -> Text:
        """A node and how tightly it holds together."""
        if isinstance(node, Shown):
            return self.number(numbers.short_decimal(node.value))
        if node.is_Integer:
            return self.number(int(node))
        if is_access(node):
            return self.access(node, names), ATOM
        if isinstance(node, Index):
            return self.letter(names.letter(node)), ATOM
        if node.is_Symbol:
            return self.symbol(str(node)), ATOM
        if type(node) in AVERAGES:
            return self.big_operator(self.word(AVERAGES[type(node)]), node, names)
        if isinstance(node, sp.Sum):
            return self.big_operator(self.sigma, node, names)
        if isinstance(node, sp.Product):
            return self.big_operator(self.pi, node, names)
        if node.is_Add and arrange.content(node) == 1:
            return self.sum(node, names)
        if (
            node.is_Mul
            or node.is_Add
            or node.is_Rational
            or (node.is_Pow and node.exp.is_number and node.exp.is_negative)
        ):
            return self.product(node, names)
        if node.is_Pow:
            base, exponent = node.as_base_exp()
            if exponent == sp.Rational(1, 2):
                return self.root(base, names)
            return self.raised(self.inside(base, ATOM, names), exponent, names), POWER
        if isinstance(node, sp.KroneckerDelta):
            return self.delta(node, names), ATOM
        if isinstance(node, Bracket):
            return self.condition(node.args[0], names), ATOM
        return self.other(node, names)

    def other(self, node: Expr, names: Names) -> Text:
        """Row-major numbers, and functions by name."""
        if isinstance(node, Ravel):
            number: Expr = sp.S.Zero
            for index, size in zip(node.indices, node.shape, strict=True):
                number = number * size + index
            return self.node(number, names)
        if isinstance(node, Unravel):
            return self.unravelled(node, names)
        if type(node) in ALONG:
            return self.function(ALONG[type(node)], (node.args[0],), names, tuple(node.args[1])), ATOM
        if isinstance(node, sp.Mod):
            left, right = self.inside(node.args[0], MULTIPLY, names), self.inside(node.args[1], ATOM, names)
            return f"{left} {self.word('mod')} {right}", ADD
        if node.is_Float or node is sp.nan:
            return self.number(numbers.short_decimal(float(node)))
        if node == sp.pi:
            return self.symbol("π"), ATOM
        if node == sp.E:
            return self.symbol("e"), ATOM
        if isinstance(node, high):  # which of two is chosen where one is no number is told in words
            return self.node(node.args[0], names)
        if isinstance(node, (sp.Abs, sp.floor)):
            return self.fences[type(node).__name__].format(self.node(node.args[0], names)[0]), ATOM
        name = {"loggamma": "logΓ", "gamma": "Γ", "sigmoid": "σ", "Max": "max"}.get(
            node.func.__name__, node.func.__name__
        )
        return self.function(name, node.args, names, ()), ATOM

    def inside(self, node: Expr, level: int, names: Names) -> str:
        """A node as a part of something that holds together at ``level``."""
        text, binds = self.node(node, names)
        return text if binds >= level else self.bracketed(text)

    def sum(self, node: Expr, names: Names) -> Text:
        """Terms, each with its sign in front."""
        result = ""
        for term in arrange.ordered_terms(node, names):
            text, binds = self.fraction(term, names)
            text = text if binds > ADD else self.bracketed(text)
            if result:
                result += f" {self.minus if term.negative else '+'} {text}"
            else:
                result = f"{self.minus}{text}" if term.negative else text
        return result, ADD

    def product(self, node: Expr, names: Names) -> Text:
        """Factors over what they are divided by, the sign in front."""
        parts = arrange.ordered_fraction(node, names)
        text, binds = self.fraction(parts, names)
        if not parts.negative:
            return text, binds
        return f"{self.minus}{text if binds > ADD else self.bracketed(text)}", ADD

    def factors(self, parts: Sequence[Expr], names: Names, last_open: bool) -> Text:
        """Factors side by side; an open one only at the end, where ``last_open`` allows it."""
        if len(parts) == 1:
            text, binds = self.node(parts[0], names)
            return (text, binds) if binds != OPEN or last_open else (self.bracketed(text), ATOM)
        texts = []
        open_end = False
        for place, part in enumerate(parts):
            text, binds = self.node(part, names)
            open_end = binds == OPEN and last_open and place == len(parts) - 1
            texts.append(text if binds >= MULTIPLY or open_end else self.bracketed(text))
        return self.times.join(texts), OPEN if open_end else MULTIPLY

    def unravelled(self, node: Unravel, names: Names) -> Text:
        """The index along one axis of entry number e: ⌊e / n⌋ mod m."""
        behind = sp.Mul(*node.shape[node.axis + 1 :])
        text, binds = self.node(node.number, names)
        if behind != 1:
            over = self.fraction(arrange.Fraction(False, (node.number,), (behind,)), names)
            text, binds = self.fences["floor"].format(over[0]), ATOM
        if node.axis == 0:
            return text, binds
        left = text if binds >= MULTIPLY else self.bracketed(text)
        return f"{left} {self.word('mod')} {self.inside(node.shape[node.axis], ATOM, names)}", ADD

    def big_operator(self, sign: str, node: Expr, names: Names) -> Text:
        """Σ_k body, nested sums under one sign."""
        indices: list[Index] = []
        body = node
        while type(body) is type(node):
            indices = [*indices, *(limit[0] for limit in reversed(body.limits))]
            body = body.function
        inner = names.bound(indices, body)
        text, binds = self.node(body, inner)
        text = text if binds >= OPEN else self.bracketed(text)
        letters = sorted((inner.letter(k), k) for k in indices)
        return self.over(sign, [self.bounded(self.letter(letter), k, body, inner) for letter, k in letters], text), OPEN

    def bounded(self, letter: str, index: Index, body: Expr, names: Names) -> str:
        """The letter of a sum; ``k<3`` where no entry has an axis along which it runs, so that nobody could tell."""
        if any(index in indices_of(entry) for entry in accesses(body)):
            return letter
        return f"{letter}{self.below}{self.node(index.size, names)[0]}"

    def fraction(self, parts: arrange.Fraction, names: Names) -> Text:
        """A fraction without its sign; 1/100000 is 10⁻⁵."""
        if not parts.below:
            return self.factors(parts.above, names, last_open=True)
        if parts.above == (1,) and len(parts.below) == 1 and (exponent := power_of_ten(parts.below[0])):
            return self.raised("10", sp.Integer(-exponent), names), POWER
        return self.divided(parts, names)

    def delta(self, node: Expr, names: Names) -> str:
        """δ_ip for two indices, [i = p + 1] for anything longer."""
        left, right = arrange.ordered_delta_sides(node, names)
        if isinstance(left, Index) and isinstance(right, Index):
            return self.pair(self.letter(names.letter(left)), self.letter(names.letter(right)))
        return self.condition(sp.Eq(left, right, evaluate=False), names)

    def condition(self, relation: Expr, names: Names) -> str:
        """[x > 0]: 1 where a condition holds."""
        if relation.func not in RELATIONS:
            return self.iverson.format(self.node(relation, names)[0])
        sides = arrange.comparison(relation) if not isinstance(relation, sp.Eq) else relation.args
        left, right = (self.node(side, names)[0] for side in sides)
        sign = RELATIONS[relation.func]
        return self.iverson.format(f"{left} {self.signs.get(sign, sign)} {right}")

    def bracketed(self, text: str) -> str:
        """Round brackets."""
        return self.round.format(text)

    # The alphabet ---------------------------------------------------------------------------------------

    times = "·"
    minus = "−"
    sigma = "Σ"
    pi = "Π"
    iverson = "[{}]"
    round = "({})"
    fences: ClassVar[Mapping[str, str]] = {"Abs": "|{}|", "floor": "⌊{}⌋"}
    signs: ClassVar[Mapping[str, str]] = {}
    below = "<"

    def letter(self, name: str) -> str:
        """An index."""
        return name

    def symbol(self, name: str) -> str:
        """A size or a constant."""
        return name

    def word(self, name: str) -> str:
        """A word used as an operator."""
        return name

    def number(self, value: Any) -> Text:
        """A minus sign makes it a term."""
        text = numbers.text(value)
        return (text.replace("-", "−"), ADD) if text.startswith("-") else (text, MULTIPLY if "/" in text else ATOM)

    def access(self, node: Expr, names: Names) -> str:
        """``x[p,q]``, ``x01``, ``x``."""
        name = names.name(name_of(node))
        digits = entry_digits(node, names)
        at = [self.node(index, names)[0] for index in indices_of(node)]
        return f"{name}{digits}" if digits else format_entry_name(name, at)

    def divided(self, parts: arrange.Fraction, names: Names) -> Text:
        """Spaces around the line where one side has some."""
        above, binds = self.factors(parts.above, names, last_open=False)
        above = above if binds >= MULTIPLY else self.bracketed(above)
        below, binds = self.factors(parts.below, names, last_open=True)
        if len(parts.below) > 1 or binds < OPEN or (binds == MULTIPLY):
            below = self.bracketed(below)
            binds = ATOM
        line = " / " if " " in above + below else "/"
        return f"{above}{line}{below}", OPEN if binds == OPEN else MULTIPLY

    def root(self, base: Expr, names: Names) -> Text:
        """√x."""
        text, binds = self.node(base, names)
        return f"√{text if binds == ATOM else self.bracketed(text)}", POWER

    def raised(self, base: str, exponent: Expr, names: Names) -> str:
        """x², x^(y − 1)."""
        if exponent.is_Integer:
            return f"{base}{str(exponent).translate(HIGH)}"
        return f"{base}^{self.inside(exponent, ATOM, names)}"

    def pair(self, first: str, second: str) -> str:
        """δ_ip, δ_{k2,q} where a letter is not enough."""
        return f"δ_{first}{second}" if len(first + second) == 2 else f"δ_{{{first},{second}}}"

    def function(self, name: str, arguments: Sequence[Expr], names: Names, along: Sequence[Index]) -> str:
        """tanh(x), softmax_i(x)."""
        over = f"_{''.join(names.letter(i) for i in along)}" if along else ""
        return f"{name}{over}({', '.join(self.node(a, names)[0] for a in arguments)})"

    def over(self, sign: str, letters: Sequence[str], text: str) -> str:
        """Σ_k, Σ_{i,k}."""
        plain = len(letters) == 1 and "<" not in letters[0]
        return f"{sign}_{letters[0] if plain else '{' + ','.join(letters) + '}'} {text}"


UNICODE = Unicode()
formula_text = UNICODE.write


def power_of_ten(number: Expr) -> int | None:
    """The exponent, if something is a large power of ten."""
    digits = str(number)
    return len(digits) - 1 if number.is_Integer and number >= TINY and digits == f"1{'0' * (len(digits) - 1)}" else None


def entry_digits(node: Expr, names: Names) -> str | None:
    """The digits of a numbered entry that is written short, ``01`` of x01; None for any other."""
    indices = indices_of(node)
    if indices and name_of(node) in names.compact and all(i.is_Integer and 0 <= i <= 9 for i in indices):
        return "".join(map(str, indices))
    return None
