"""Right-hand sides: recursive descent over the tokens of an expression.

    expr      = [ "−" ] term { ( "+" | "−" ) term }
    term      = product [ "mod" atom ]
    product   = factor { ( "·" | "/" ) factor }
    factor    = BIG letters product | "−" factor | power
    power     = "√" atom | atom [ ⁿ | "^" [ "−" ] power ]
    atom      = NUMBER | NAME | NAME [ hat ] "[" … "]" | NAME "⟨" … "⟩" | NAME "(" … ")" | "(" expr ")" | row
              | "|" expr "|" | "⌊" expr "⌋" | "[" chain { "and" chain } "]" | "δ_ij" | "δ(" expr "," expr ")"

A Σ takes the rest of its product with it, division included: ``Σ_j a/b`` is Σ_j (a/b). ``[`` directly after a name is
an access, anywhere else a condition. There is no product without a sign. A row is ``(i,j)``, letters alone.
"""

from __future__ import annotations

import re

from symgrad.errors import Span
from symgrad.notation.tokens import LETTER, Token, TokenCursor
from symgrad.notation.tree import (
    Absolute,
    Access,
    AxisSize,
    BigOperator,
    Binary,
    Condition,
    Delta,
    Dots,
    FlatEntry,
    Floor,
    Letter,
    Name,
    Negative,
    Number,
    PaddedEntry,
    Power,
    RelationChain,
    Root,
    RowIndex,
    ScalarCall,
    SyntaxNode,
)

RELATIONS = ("<", "≤", ">", "≥", "=", "≠")
RELATED = {sign: sign for sign in (">", "≥", "≠")}


class ExpressionParser(TokenCursor):
    """The rules of expressions."""

    def bounded(self) -> Letter:
        """``i`` or ``i<n``."""
        token = self.letter()
        bound = None
        if self.sees("<"):
            self.take()
            bound = self.expression()
        elif self.sees("≤", ">", "≥", "=", "≠") or self.next.word == "in":
            word, sign, other = token.word, RELATED.get(self.next.word, "≤"), "j" if token.word == "i" else "i"
            raise self.refusal(
                f"the range of {word} is written with <", self.next.span,
                (f"{word}<n, from 0 on, or a condition behind it: Σ_{word} [{word} {sign} {other}]·…",),
            )  # fmt: skip
        return Letter(token.word, bound, span=self.span_from(token.span))

    def expression(self) -> SyntaxNode:
        """Terms with their signs."""
        start = self.next.span
        with self.deeper(start):
            if self.sees("−"):
                self.take()
                found: SyntaxNode = Negative(self.term(), span=start)
            else:
                found = self.term()
            while self.sees("+", "−"):
                sign = self.take().word
                found = Binary(sign, found, self.term(), span=self.span_from(start))
        return found

    def term(self) -> SyntaxNode:
        """A product, and what its remainder is taken by."""
        start = self.next.span
        found = self.product()
        if self.sees("mod"):
            self.take()
            found = Binary("mod", found, self.atom(), span=self.span_from(start))
        return found

    def product(self) -> SyntaxNode:
        """Factors, from left to right."""
        start = self.next.span
        found = self.factor()
        while self.sees("·", "/"):
            sign = self.take().word
            found = Binary(sign, found, self.factor(), span=self.span_from(start))
        return found

    def factor(self) -> SyntaxNode:
        """A Σ with the rest of its product, a minus, or a power."""
        start = self.next.span
        if self.next.kind == "big":
            return self.big()
        if self.sees("−"):
            self.take()
            with self.deeper(start):
                operand = self.factor()
            return Negative(operand, span=self.span_from(start))
        return self.power()

    def big(self) -> BigOperator:
        """``Σ_j body``, ``Σ_{i,r<3} body``."""
        sign = self.take()
        letters = []
        if self.sees("{"):
            letters += self.listed(self.bounded, "}")
            names = [letter.name for letter in letters]
            twice = next((letter for n, letter in enumerate(letters) if letter.name in names[:n]), None)
            if twice is not None:
                raise self.refusal(f"{twice.name} is twice under the sum", twice.span, ("each letter once",))
        else:
            token = self.letter()
            letters.append(Letter(token.word, span=token.span))
            if self.sees(","):
                raise self.refusal("several letters need braces", self.next.span, (f"Σ_{{{token.word},…}}",))
        with self.deeper(sign.span):
            body = self.product()
        return BigOperator(sign.word, tuple(letters), body, span=self.span_from(sign.span))

    def power(self) -> SyntaxNode:
        """``√x``, ``x²``, ``x^y``."""
        start = self.next.span
        if self.sees("√"):
            self.take()
            found: SyntaxNode = Root(self.atom(), span=self.span_from(start))
            if self.next.kind == "power" or self.sees("^"):
                raise self.refusal("√x² is ambiguous", self.next.span, ("√(x²)", "(√x)²"))
            return found
        found = self.atom()
        if self.next.kind == "power":
            token = self.take()
            exponent = self.superscript(token)
            return Power(found, exponent, span=self.span_from(start))
        if self.sees("^"):
            self.take()
            with self.deeper(start):
                negative = self.take().span if self.sees("−") else None
                exponent = self.power()
            exponent = exponent if negative is None else Negative(exponent, span=negative)
            return Power(found, exponent, span=self.span_from(start))
        return found

    def superscript(self, token: Token) -> SyntaxNode:
        """The exponent that stands high: ² or ⁻¹."""
        if not re.fullmatch(r"-?[0-9]+", token.word):
            raise self.refusal("this exponent is not a number", token.span, ("x^(−2)",))
        number = Number(token.word.removeprefix("-"), span=token.span)
        return Negative(number, span=token.span) if token.word.startswith("-") else number

    def atom(self) -> SyntaxNode:
        """What holds together by itself."""
        token = self.next
        if token.kind == "number":
            return Number(self.take().word, span=token.span)
        if token.kind == "name":
            return self.named()
        if token.kind == "delta":
            self.take()
            first, second = self.two_letters(token)
            return Delta(first, second, span=token.span)
        for opening, closing, kind in (("(", ")", None), ("|", "|", Absolute), ("⌊", "⌋", Floor)):
            if self.sees(opening):
                self.take()
                inner = self.expression()
                if kind is None and self.sees(","):
                    return self.row(inner, closing, token)
                self.expect(closing, token)
                return inner if kind is None else kind(inner, span=self.span_from(token.span))
        if self.sees("["):
            return self.condition()
        raise self.unexpected("a number, a name or a bracket is expected here")

    def row(self, first: SyntaxNode, closing: str, opened: Token) -> RowIndex:
        """``(i,j)``, its first letter read."""
        self.take()
        places = [first, *self.listed(self.expression, closing, opened)]
        return self.checked_row(places, self.span_from(opened.span))

    def checked_row(self, places: list[SyntaxNode], span: Span) -> RowIndex:
        """A row, of letters alone."""
        for place in places:
            if not isinstance(place, Name) or not re.fullmatch(LETTER, place.name):
                raise self.refusal("only letters can stand between these commas", place.span, ("(i,j)",))
            if sum(place == other for other in places) > 1:
                raise self.refusal(f"{place.name} occurs twice between these commas", place.span, ("(i,j)",))
        return RowIndex(tuple(places), span=span)

    def flat(self, token: Token) -> FlatEntry:
        """``x⟨n⟩``, ``x⟨i,j⟩``."""
        opened = self.take()
        number = self.expression()
        if self.sees(","):
            number = self.row(number, "⟩", opened)
        else:
            self.expect("⟩", opened)
        return FlatEntry(token.word, number, span=self.span_from(token.span))

    def two_letters(self, token: Token) -> tuple[Name, Name]:
        """The letters of ``δ_ij`` and of ``δ_{i,k2}``."""
        inside = token.word.removeprefix("δ_")
        letters = [part.strip() for part in inside[1:-1].split(",")] if inside.startswith("{") else list(inside)
        if len(letters) != 2 or not all(re.fullmatch(LETTER, letter) for letter in letters):
            raise self.refusal("δ has two indices", token.span, ("δ_ij", "δ(i, j + 1)"))
        first, second = (Name(letter, span=token.span) for letter in letters)
        return first, second

    def named(self) -> SyntaxNode:
        """A name, with brackets an entry or a function's value."""
        token = self.take()
        if self.sees("\u0302"):
            self.take()
            if not self.sees("["):
                raise self.unexpected("a hat is followed by the indices of an entry")
            return PaddedEntry(self.entry(token), span=self.span_from(token.span))
        if self.sees("["):
            return self.entry(token)
        if self.sees("⟨"):
            return self.flat(token)
        if self.sees("("):
            return self.call(token)
        return Name(token.word, span=token.span)

    def entry(self, token: Token) -> Access:
        """``x[i,j+1]``, its name taken."""
        slots = self.listed(self.place_in, "]", empty=True)
        return Access(token.word, tuple(slots), span=self.span_from(token.span))

    def place_in(self) -> SyntaxNode:
        """One index of an entry."""
        return Dots(span=self.take().span) if self.sees("…") else self.expression()

    def call(self, token: Token) -> SyntaxNode:
        """``f(a, b)``; what has a sign of its own is folded into it."""
        arguments = self.listed(self.expression, ")")
        span = self.span_from(token.span)
        kinds = {"sqrt": Root, "abs": Absolute, "floor": Floor}
        if token.word in kinds:
            if len(arguments) != 1:
                raise self.refusal(f"{token.word} takes one argument", span)
            return kinds[token.word](arguments[0], span=span)
        if token.word in ("delta", "δ"):
            if len(arguments) != 2:
                raise self.refusal("δ has two indices", span, ("δ(i, j + 1)",))
            return Delta(arguments[0], arguments[1], span=span)
        if token.word == "padded":
            if len(arguments) != 1 or not isinstance(arguments[0], Access):
                raise self.refusal("padded takes an entry of a tensor", span, ("padded(x[i − 1])",))
            return PaddedEntry(arguments[0], span=span)
        if token.word == "flat":
            if len(arguments) < 2 or not isinstance(arguments[0], Name):
                hints = ("flat(x, n)", "flat(x, i, j)")
                raise self.refusal("flat takes a tensor and the number of an entry", span, hints)
            number = arguments[1] if len(arguments) == 2 else self.checked_row(arguments[1:], span)
            return FlatEntry(arguments[0].name, number, span=span)
        return (
            self.size(arguments, span) if token.word == "size" else ScalarCall(token.word, tuple(arguments), span=span)
        )

    def size(self, arguments: list[SyntaxNode], span: Span) -> AxisSize:
        """``size(x, 0)``, ``size(x, -1)``, ``size(x)``."""
        if len(arguments) == 1 and isinstance(arguments[0], Name):
            return AxisSize(arguments[0].name, None, span=span)
        if len(arguments) == 2:
            tensor, axis = arguments
            sign = -1 if isinstance(axis, Negative) else 1
            number = axis.operand if isinstance(axis, Negative) else axis
            if isinstance(tensor, Name) and isinstance(number, Number) and number.text.isdigit():
                return AxisSize(tensor.name, sign * int(number.text), span=span)
        raise self.refusal("size takes a tensor and one of its axes", span, ("size(x, 0)", "size(x, -1)"))

    def condition(self) -> Condition:
        """``[0 ≤ i < n and j > i]``."""
        opened = self.take()
        chains = [self.chain()]
        while self.sees("and"):
            self.take()
            chains.append(self.chain())
        self.expect("]", opened)
        return Condition(tuple(chains), span=self.span_from(opened.span))

    def chain(self) -> RelationChain:
        """Sides and the relations between them."""
        start = self.next.span
        sides, relations = [self.expression()], []
        while self.sees(*RELATIONS):
            relations.append(self.take().word)
            sides.append(self.expression())
        if not relations:
            raise self.refusal(
                "brackets without a name in front contain a condition",
                self.span_from(start),
                ("[i ≤ j]", "x[i] for an entry"),
            )
        return RelationChain(tuple(sides), tuple(relations), span=self.span_from(start))
