"""Text → tree: recursive descent over the tokens of an index equation.

    statement = left "=" expr [ "where" definition { "," definition } ]
    left      = NAME [ "[" slot { "," slot } "]" ]            slot = "…" | letter [ "<" expr ]
    definition = NAME [ "[" letters "]" ] "=" expr
    expr      = [ "−" ] term { ( "+" | "−" ) term }
    term      = product [ "mod" atom ]
    product   = factor { ( "·" | "/" ) factor }
    factor    = BIG letters product | "−" factor | power
    power     = "√" atom | atom [ ⁿ | "^" [ "−" ] power ]
    atom      = NUMBER | NAME | NAME "[" … "]" | NAME "(" … ")" | "(" expr ")" | "|" expr "|" | "⌊" expr "⌋"
              | "[" chain { "and" chain } "]" | "δ_ij" | "δ(" expr "," expr ")"

A Σ takes the rest of its product with it, division included: ``Σ_j a/b`` is Σ_j (a/b). ``[`` directly after a name is
an access, anywhere else a condition. There is no product without a sign.
"""

from __future__ import annotations

import re

from symgrad.errors import NotationError, Span
from symgrad.notation.tokens import LETTER, Token, tokenize
from symgrad.notation.tree import (
    Absolute,
    Access,
    Big,
    Binary,
    Call,
    Chain,
    Condition,
    Definition,
    Delta,
    Dots,
    Floor,
    Letter,
    Name,
    Negative,
    Node,
    Number,
    Power,
    Root,
    Size,
    Statement,
)

RELATIONS = ("<", "≤", ">", "≥", "=", "≠")
DEPTH = 60
"""Brackets, powers and sums may be nested this deep."""


def read_statement(text: str, start: int = 0) -> Statement:
    """The one equation that ``text`` is; ``start`` is where it stands in the whole text.

    >>> read_statement("out[i] = sum_j x[i+j]*w[j]") == read_statement("out[i] = Σ_j x[i + j]·w[j]")
    True

    Raises `NotationError`, with a span, for whatever is not in the grammar.
    """
    reader = Reader(tokenize(text, start))
    found = reader.statement()
    reader.end()
    return found


def read_program(text: str) -> tuple[Statement, ...]:
    """The equations of ``text``, which semicolons or line ends part."""
    found, start = [], 0
    for piece in re.split(r"[;\n]", text):
        if piece.strip():
            found.append(read_statement(piece, start))
        start += len(piece) + 1
    return tuple(found)


def read_expression(text: str) -> Node:
    """A right-hand side alone."""
    reader = Reader(tokenize(text))
    found = reader.expression()
    reader.end()
    return found


class Reader:
    """The tokens, and how far they are read."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0

    # Steps through the tokens ------------------------------------------------------------------------------

    @property
    def next(self) -> Token:
        """The token that comes."""
        return self.tokens[self.place]

    def sees(self, *words: str) -> bool:
        """Whether one of these signs or words comes."""
        return self.next.kind in ("sign", "word") and self.next.word in words

    def take(self) -> Token:
        """The next token, read."""
        token = self.next
        self.place += token.kind != "end"
        return token

    def expect(self, word: str, opened: Token | None = None) -> Token:
        """The sign ``word``, or a refusal that says what it would close."""
        if self.sees(word):
            return self.take()
        if opened is not None:
            raise self.refusal(f"this {opened.word} is not closed by {word}", opened.span)
        raise self.unexpected(f"here a {word} should stand")

    def end(self) -> None:
        """Nothing comes any more, or a refusal."""
        if self.next.kind != "end":
            raise self.unexpected("this is left over")

    def span_from(self, start: Span) -> Span:
        """From ``start`` to what was read last."""
        return (start[0], self.tokens[self.place - 1].span[1])

    def unexpected(self, problem: str) -> NotationError:
        """A refusal at the next token."""
        token = self.next
        juxtaposed = self.place and token.kind in ("name", "number", "big") and self.tokens[self.place - 1].kind in (
            "name", "number",
        )  # fmt: skip
        hints = ("a product needs a sign: 2·x or 2*x",) if juxtaposed else ()
        if token.kind == "end":
            problem = "the equation ends too early"
        return self.refusal(problem, token.span, hints)

    def refusal(self, problem: str, span: Span, hints: tuple[str, ...] = ()) -> NotationError:
        """The error, with its place."""
        return NotationError(problem, span=(span[0], max(span[1], span[0] + 1)), hints=hints)

    def too_deep(self, span: Span) -> NotationError:
        """The refusal of what Python's own stack could not hold."""
        return self.refusal(f"this is nested more than {DEPTH} levels deep", span, ("name parts of it: h[i] = …; …",))

    # Statements --------------------------------------------------------------------------------------------

    def statement(self) -> Statement:
        """``out[i] = right where …``."""
        name = self.name("an index equation begins with what it defines", ("out[i] = Σ_j x[i,j]",))
        slots: list[Node] = []
        if self.sees("["):
            opened = self.take()
            if not self.sees("]"):
                slots.append(self.slot())
            while self.sees(","):
                self.take()
                slots.append(self.slot())
            self.expect("]", opened)
        if not self.sees("="):
            raise self.unexpected("after what an equation defines there stands a =")
        self.take()
        right = self.expression()
        definitions = []
        if self.sees("where"):
            definitions.append(self.definition())
            while self.sees(","):
                definitions.append(self.definition())
        return Statement(name.word, tuple(slots), right, tuple(definitions), span=self.span_from(name.span))

    def name(self, problem: str, hints: tuple[str, ...] = ()) -> Token:
        """A name, or a refusal."""
        if self.next.kind != "name":
            raise self.refusal(problem, self.next.span, hints)
        return self.take()

    def slot(self) -> Node:
        """``…``, or a letter and how far it runs."""
        if self.sees("…"):
            return Dots(span=self.take().span)
        return self.bounded()

    def bounded(self) -> Letter:
        """``i`` or ``i<n``."""
        token = self.letter()
        bound = None
        if self.sees("<"):
            self.take()
            bound = self.expression()
        return Letter(token.word, bound, span=self.span_from(token.span))

    def letter(self) -> Token:
        """One Latin letter, with digits or without."""
        token = self.name("here an index should stand, one letter such as i")
        if not re.fullmatch(LETTER, token.word):
            raise self.refusal(
                f"{token.word} is no index: an index is one letter, such as i or k2", token.span, ("out[i] = …",)
            )
        return token

    def definition(self) -> Definition:
        """``s[i,j] = …`` after where."""
        self.take()
        name = self.name("after where there stands a definition", ("where d = x[i] − y[i]",))
        letters: list[str] = []
        if self.sees("["):
            opened = self.take()
            letters.append(self.letter().word)
            while self.sees(","):
                self.take()
                letters.append(self.letter().word)
            self.expect("]", opened)
        self.expect("=")
        return Definition(name.word, tuple(letters), self.expression(), span=self.span_from(name.span))

    # Expressions -------------------------------------------------------------------------------------------

    def expression(self) -> Node:
        """Terms with their signs."""
        start = self.next.span
        self.depth += 1
        if self.depth > DEPTH:
            raise self.too_deep(start)
        if self.sees("−"):
            self.take()
            found: Node = Negative(self.term(), span=start)
        else:
            found = self.term()
        while self.sees("+", "−"):
            sign = self.take().word
            found = Binary(sign, found, self.term(), span=self.span_from(start))
        self.depth -= 1
        return found

    def term(self) -> Node:
        """A product, and what its remainder is taken by."""
        start = self.next.span
        found = self.product()
        if self.sees("mod"):
            self.take()
            found = Binary("mod", found, self.atom(), span=self.span_from(start))
        return found

    def product(self) -> Node:
        """Factors, from left to right."""
        start = self.next.span
        found = self.factor()
        while self.sees("·", "/"):
            sign = self.take().word
            found = Binary(sign, found, self.factor(), span=self.span_from(start))
        return found

    def factor(self) -> Node:
        """A Σ with the rest of its product, a minus, or a power."""
        start = self.next.span
        if self.next.kind == "big":
            return self.big()
        if self.sees("−"):
            self.take()
            self.depth += 1
            if self.depth > DEPTH:
                raise self.too_deep(start)
            operand = self.factor()
            self.depth -= 1
            return Negative(operand, span=self.span_from(start))
        return self.power()

    def big(self) -> Big:
        """``Σ_j body``, ``Σ_{i,r<3} body``."""
        sign = self.take()
        letters = []
        if self.sees("{"):
            opened = self.take()
            letters.append(self.bounded())
            while self.sees(","):
                self.take()
                letters.append(self.bounded())
            self.expect("}", opened)
        else:
            token = self.letter()
            letters.append(Letter(token.word, span=token.span))
        self.depth += 1
        if self.depth > DEPTH:
            raise self.too_deep(sign.span)
        body = self.product()
        self.depth -= 1
        return Big(sign.word, tuple(letters), body, span=self.span_from(sign.span))

    def power(self) -> Node:
        """``√x``, ``x²``, ``x^y``."""
        start = self.next.span
        if self.sees("√"):
            self.take()
            found: Node = Root(self.atom(), span=self.span_from(start))
            if self.next.kind == "power" or self.sees("^"):
                raise self.refusal("√x² is read in two ways", self.next.span, ("√(x²)", "(√x)²"))
            return found
        found = self.atom()
        if self.next.kind == "power":
            token = self.take()
            exponent = self.superscript(token)
            return Power(found, exponent, span=self.span_from(start))
        if self.sees("^"):
            self.take()
            self.depth += 1
            if self.depth > DEPTH:
                raise self.too_deep(start)
            negative = self.next.span if self.sees("−") else None
            if negative is not None:
                self.take()
            exponent = self.power()
            self.depth -= 1
            exponent = exponent if negative is None else Negative(exponent, span=negative)
            return Power(found, exponent, span=self.span_from(start))
        return found

    def superscript(self, token: Token) -> Node:
        """The exponent that stands high: ² or ⁻¹."""
        if not re.fullmatch(r"-?[0-9]+", token.word):
            raise self.refusal("this exponent is no number", token.span, ("x^(−2)",))
        number = Number(token.word.removeprefix("-"), span=token.span)
        return Negative(number, span=token.span) if token.word.startswith("-") else number

    def atom(self) -> Node:
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
                self.expect(closing, token)
                return inner if kind is None else kind(inner, span=self.span_from(token.span))
        if self.sees("["):
            return self.condition()
        raise self.unexpected("here a number, a name or a bracket should stand")

    def two_letters(self, token: Token) -> tuple[Name, Name]:
        """The letters of ``δ_ij`` and of ``δ_{i,k2}``."""
        inside = token.word.removeprefix("δ_")
        letters = [part.strip() for part in inside[1:-1].split(",")] if inside.startswith("{") else list(inside)
        if len(letters) != 2 or not all(re.fullmatch(LETTER, letter) for letter in letters):
            raise self.refusal("δ has two indices", token.span, ("δ_ij", "δ(i, j + 1)"))
        first, second = (Name(letter, span=token.span) for letter in letters)
        return first, second

    def named(self) -> Node:
        """A name, with brackets an entry or a function's value."""
        token = self.take()
        if self.sees("["):
            opened = self.take()
            slots: list[Node] = []
            if not self.sees("]"):
                slots.append(self.place_in())
            while self.sees(","):
                self.take()
                slots.append(self.place_in())
            self.expect("]", opened)
            return Access(token.word, tuple(slots), span=self.span_from(token.span))
        if self.sees("("):
            return self.call(token)
        return Name(token.word, span=token.span)

    def place_in(self) -> Node:
        """One index of an entry."""
        return Dots(span=self.take().span) if self.sees("…") else self.expression()

    def call(self, token: Token) -> Node:
        """``f(a, b)``; what has a sign of its own is folded into it."""
        opened = self.take()
        arguments = [self.expression()]
        while self.sees(","):
            self.take()
            arguments.append(self.expression())
        self.expect(")", opened)
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
        return self.size(arguments, span) if token.word == "size" else Call(token.word, tuple(arguments), span=span)

    def size(self, arguments: list[Node], span: Span) -> Size:
        """``size(x, 0)``, ``size(x, -1)``."""
        if len(arguments) == 2:
            tensor, axis = arguments
            sign = -1 if isinstance(axis, Negative) else 1
            number = axis.operand if isinstance(axis, Negative) else axis
            if isinstance(tensor, Name) and isinstance(number, Number) and number.text.isdigit():
                return Size(tensor.name, sign * int(number.text), span=span)
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

    def chain(self) -> Chain:
        """Sides and the relations between them."""
        start = self.next.span
        sides, relations = [self.expression()], []
        while self.sees(*RELATIONS):
            relations.append(self.take().word)
            sides.append(self.expression())
        if not relations:
            raise self.refusal(
                "brackets that follow no name hold a condition", self.span_from(start), ("[i ≤ j]", "x[i] for an entry")
            )
        return Chain(tuple(sides), tuple(relations), span=self.span_from(start))
