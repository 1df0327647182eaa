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
from symgrad.notation import tree
from symgrad.notation.tokens import LETTER, Token, TokenCursor

RELATIONS = ("<", "≤", ">", "≥", "=", "≠")
RELATED = {sign: sign for sign in (">", "≥", "≠")}


class ExpressionParser(TokenCursor):
    """The rules of expressions."""

    def bounded(self) -> tree.Letter:
        """``i`` or ``i<n``."""
        token = self.letter()
        bound = None
        if self.takes("<"):
            bound = self.expression()
        elif self.sees("≤", ">", "≥", "=", "≠") or self.next.word == "in":
            word, sign, other = token.word, RELATED.get(self.next.word, "≤"), "j" if token.word == "i" else "i"
            raise self.refusal(
                f"the range of {word} is written with <", self.next.span,
                (f"{word}<n, from 0 on, or a condition behind it: Σ_{word} [{word} {sign} {other}]·…",),
            )  # fmt: skip
        return tree.Letter(token.word, bound, span=self.span_from(token.span))

    def expression(self) -> tree.SyntaxNode:
        """Terms with their signs."""
        start = self.next.span
        with self.deeper(start):
            if self.takes("−"):
                found: tree.SyntaxNode = tree.Negative(self.term(), span=start)
            else:
                found = self.term()
            while self.sees("+", "−"):
                sign = self.take().word
                found = tree.Binary(sign, found, self.term(), span=self.span_from(start))
        return found

    def term(self) -> tree.SyntaxNode:
        """A product, and what its remainder is taken by."""
        start = self.next.span
        found = self.product()
        if self.takes("mod"):
            found = tree.Binary("mod", found, self.atom(), span=self.span_from(start))
        return found

    def product(self) -> tree.SyntaxNode:
        """Factors, from left to right."""
        start = self.next.span
        found = self.factor()
        while self.sees("·", "/"):
            sign = self.take().word
            found = tree.Binary(sign, found, self.factor(), span=self.span_from(start))
        return found

    def factor(self) -> tree.SyntaxNode:
        """A Σ with the rest of its product, a minus, or a power."""
        start = self.next.span
        if self.next.kind == "big":
            return self.big()
        if self.takes("−"):
            with self.deeper(start):
                operand = self.factor()
            return tree.Negative(operand, span=self.span_from(start))
        return self.power()

    def big(self) -> tree.BigOperator:
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
            letters.append(tree.Letter(token.word, span=token.span))
            if self.sees(","):
                raise self.refusal("several letters need braces", self.next.span, (f"Σ_{{{token.word},…}}",))
        with self.deeper(sign.span):
            body = self.product()
        return tree.BigOperator(sign.word, tuple(letters), body, span=self.span_from(sign.span))

    def power(self) -> tree.SyntaxNode:
        """``√x``, ``x²``, ``x^y``."""
        start = self.next.span
        if self.takes("√"):
            found: tree.SyntaxNode = tree.Root(self.atom(), span=self.span_from(start))
            if self.next.kind == "power" or self.sees("^"):
                raise self.refusal("√x² is ambiguous", self.next.span, ("√(x²)", "(√x)²"))
            return found
        found = self.atom()
        if self.next.kind == "power":
            token = self.take()
            exponent = self.superscript(token)
            return tree.Power(found, exponent, span=self.span_from(start))
        if self.takes("^"):
            with self.deeper(start):
                negative = self.take().span if self.sees("−") else None
                exponent = self.power()
            exponent = exponent if negative is None else tree.Negative(exponent, span=negative)
            return tree.Power(found, exponent, span=self.span_from(start))
        return found

    def superscript(self, token: Token) -> tree.SyntaxNode:
        """The exponent that stands high: ² or ⁻¹."""
        if not re.fullmatch(r"-?[0-9]+", token.word):
            raise self.refusal("this exponent is not a number", token.span, ("x^(−2)",))
        number = tree.Number(token.word.removeprefix("-"), span=token.span)
        return tree.Negative(number, span=token.span) if token.word.startswith("-") else number

    def atom(self) -> tree.SyntaxNode:
        """What holds together by itself."""
        token = self.next
        if token.kind == "number":
            return tree.Number(self.take().word, span=token.span)
        if token.kind == "name":
            return self.named()
        if token.kind == "delta":
            self.take()
            first, second = self.two_letters(token)
            return tree.Delta(first, second, span=token.span)
        for opening, closing, kind in (("(", ")", None), ("|", "|", tree.Absolute), ("⌊", "⌋", tree.Floor)):
            if self.takes(opening):
                inner = self.expression()
                if kind is None and self.sees(","):
                    return self.row(inner, closing, token)
                self.expect(closing, token)
                return inner if kind is None else kind(inner, span=self.span_from(token.span))
        if self.sees("["):
            return self.condition()
        raise self.unexpected("a number, a name or a bracket is expected here")

    def row(self, first: tree.SyntaxNode, closing: str, opened: Token) -> tree.RowIndex:
        """``(i,j)``, its first letter read."""
        self.take()
        places = [first, *self.listed(self.expression, closing, opened)]
        return self.checked_row(places, self.span_from(opened.span))

    def checked_row(self, places: list[tree.SyntaxNode], span: Span) -> tree.RowIndex:
        """A row, of letters alone."""
        for place in places:
            if not isinstance(place, tree.Name) or not re.fullmatch(LETTER, place.name):
                raise self.refusal("only letters can stand between these commas", place.span, ("(i,j)",))
            if sum(place == other for other in places) > 1:
                raise self.refusal(f"{place.name} occurs twice between these commas", place.span, ("(i,j)",))
        return tree.RowIndex(tuple(places), span=span)

    def flat(self, token: Token) -> tree.FlatEntry:
        """``x⟨n⟩``, ``x⟨i,j⟩``."""
        opened = self.take()
        number = self.expression()
        if self.sees(","):
            number = self.row(number, "⟩", opened)
        else:
            self.expect("⟩", opened)
        return tree.FlatEntry(token.word, number, span=self.span_from(token.span))

    def two_letters(self, token: Token) -> tuple[tree.Name, tree.Name]:
        """The letters of ``δ_ij`` and of ``δ_{i,k2}``."""
        inside = token.word.removeprefix("δ_")
        letters = [part.strip() for part in inside[1:-1].split(",")] if inside.startswith("{") else list(inside)
        if len(letters) != 2 or not all(re.fullmatch(LETTER, letter) for letter in letters):
            raise self.refusal("δ has two indices", token.span, ("δ_ij", "δ(i, j + 1)"))
        first, second = (tree.Name(letter, span=token.span) for letter in letters)
        return first, second

    def named(self) -> tree.SyntaxNode:
        """A name, with brackets an entry or a function's value."""
        token = self.take()
        if self.takes("\u0302"):
            if not self.sees("["):
                raise self.unexpected("a hat is followed by the indices of an entry")
            return tree.PaddedEntry(self.entry(token), span=self.span_from(token.span))
        if self.sees("["):
            return self.entry(token)
        if self.sees("⟨"):
            return self.flat(token)
        if self.sees("("):
            return self.call(token)
        return tree.Name(token.word, span=token.span)

    def entry(self, token: Token) -> tree.Access:
        """``x[i,j+1]``, its name taken."""
        slots = self.listed(self.place_in, "]", empty=True)
        return tree.Access(token.word, tuple(slots), span=self.span_from(token.span))

    def place_in(self) -> tree.SyntaxNode:
        """One index of an entry."""
        return tree.Dots(span=self.take().span) if self.sees("…") else self.expression()

    def call(self, token: Token) -> tree.SyntaxNode:
        """``f(a, b)``; what has a sign of its own is folded into it."""
        arguments = self.listed(self.expression, ")")
        span = self.span_from(token.span)
        kinds = {"sqrt": tree.Root, "abs": tree.Absolute, "floor": tree.Floor}
        if token.word in kinds:
            if len(arguments) != 1:
                raise self.refusal(f"{token.word} takes one argument", span)
            return kinds[token.word](arguments[0], span=span)
        if token.word in ("delta", "δ"):
            if len(arguments) != 2:
                raise self.refusal("δ has two indices", span, ("δ(i, j + 1)",))
            return tree.Delta(arguments[0], arguments[1], span=span)
        if token.word == "padded":
            if len(arguments) != 1 or not isinstance(arguments[0], tree.Access):
                raise self.refusal("padded takes an entry of a tensor", span, ("padded(x[i − 1])",))
            return tree.PaddedEntry(arguments[0], span=span)
        if token.word == "flat":
            if len(arguments) < 2 or not isinstance(arguments[0], tree.Name):
                hints = ("flat(x, n)", "flat(x, i, j)")
                raise self.refusal("flat takes a tensor and the number of an entry", span, hints)
            number = arguments[1] if len(arguments) == 2 else self.checked_row(arguments[1:], span)
            return tree.FlatEntry(arguments[0].name, number, span=span)
        return (
            self.size(arguments, span)
            if token.word == "size"
            else tree.ScalarCall(token.word, tuple(arguments), span=span)
        )

    def size(self, arguments: list[tree.SyntaxNode], span: Span) -> tree.AxisSize:
        """``size(x, 0)``, ``size(x, -1)``, ``size(x)``."""
        if len(arguments) == 1 and isinstance(arguments[0], tree.Name):
            return tree.AxisSize(arguments[0].name, None, span=span)
        if len(arguments) == 2:
            tensor, axis = arguments
            sign = -1 if isinstance(axis, tree.Negative) else 1
            number = axis.operand if isinstance(axis, tree.Negative) else axis
            if isinstance(tensor, tree.Name) and isinstance(number, tree.Number) and number.text.isdigit():
                return tree.AxisSize(tensor.name, sign * int(number.text), span=span)
        raise self.refusal("size takes a tensor and one of its axes", span, ("size(x, 0)", "size(x, -1)"))

    def condition(self) -> tree.Condition:
        """``[0 ≤ i < n and j > i]``."""
        opened = self.take()
        chains = [self.chain()]
        while self.takes("and"):
            chains.append(self.chain())
        self.expect("]", opened)
        return tree.Condition(tuple(chains), span=self.span_from(opened.span))

    def chain(self) -> tree.RelationChain:
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
        return tree.RelationChain(tuple(sides), tuple(relations), span=self.span_from(start))
