"""The tokens of an equation, and how far they are read: what every rule of the grammar steps with."""

from __future__ import annotations

import re

from symgrad.errors import NotationError, Span
from symgrad.notation.tokens import BIG, LETTER, Token
from symgrad.ways import Hint, Setting

CLOSING = (")", "]", "}", "⟩", "⌋")
DEPTH = 60
"""Brackets, powers and sums may be nested this deep."""

CASES = ("a condition in brackets is 1 or 0: [x[i] > 0]·x[i] + [x[i] ≤ 0]·2·x[i]",)
BRANCHES = ("if", "then", "else", "elif", "otherwise")
EITHER = ("one of two: max([x[i] > 0], [y[i] > 0])",)
OTHERWISE = {
    "if": CASES, "where": CASES, "or": EITHER, "/": ("⌊i/2⌋, which is floor(i/2)",),
    "{": ("round brackets: (x[i] + 1)²",),
    **dict.fromkeys(("<", "≤", ">", "≥", "=", "≠"), CASES),
}  # fmt: skip
"""Words of Python, and what an equation has for them."""
LATIN = "an index is one Latin letter: Σ_j x[i,j]"
PRODUCT = "a product needs a sign: 2·x or 2*x"
SUMMED = re.compile(r"(?:(Σ|Π)_?|(sum|prod|mean|max|min)(?:_|$))(\w*)")
PLAIN = {"Σ": "sum", "Π": "prod"}
"""What looks like a sum and is none: its letter is missing, or there are two, or it is Greek."""
UNDER = re.compile(rf"([a-z]{{3,}})_({LETTER})")
"""What looks like a function over an index, as argmax_j does."""
RUNS = "over an index run Σ, Π, mean, max and min alone"
OPTIONS = ("an option by its place, without its name: leaky_relu(x[i], 0.3)",)
LIMITS = ("^", "=", "<", "≤", ">", "≥", "≠")
FAR = ("how far: Σ_{j<n}, from 0 on", "a condition behind it: Σ_j [j ≤ i]·…")
"""What would do where a limit stands above or below a sum."""


class Cursor:
    """The tokens, and how far they are read."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0

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
        if opened is not None and (self.next.kind == "end" or self.next.word in CLOSING):
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
        before = self.tokens[self.place - 1] if self.place else None
        begins = token.kind in ("name", "number", "big") or token.word in ("(", "[")
        hints: tuple[Hint, ...] = self.side_by_side(before, token) if begins and before is not None else ()
        hints = OTHERWISE.get(token.word, hints)
        earlier = self.tokens[self.place - 2] if self.place > 1 else None
        if earlier is not None and earlier.kind == "big" and token.word in LIMITS:
            hints = FAR
        elif earlier is not None and earlier.word == "," and token.word == "=":
            hints = OPTIONS
        elif token.word in CLOSING and token.kind != "end" and not hints:
            hints = (f"without it: nothing is open that {token.word} would close",)
        elif token.word == ",":
            hints = ("one value for each entry: other statements stand behind ;, definitions behind where",)
        if token.kind == "end":
            problem = "the equation ends too early"
        return self.refusal(problem, token.span, hints)

    def side_by_side(self, before: Token, token: Token) -> tuple[Hint, ...]:
        """What would do where ``token`` follows ``before`` with nothing between."""
        if before.kind == "name" and before.word in BRANCHES:
            return CASES
        if before.kind == "name":
            summed = SUMMED.fullmatch(before.word)
            if summed is not None and not summed[3].isascii():
                return (LATIN,)
            if summed is not None:
                sign = summed[1] or BIG[summed[2]]
                plain = f", or {PLAIN[sign]}_{{…}}" if sign in PLAIN else ""
                return (f"{sign}_{{{','.join(summed[3] or 'i')}}} x[…]{plain}: in braces the letters, commas between",)
            over = UNDER.fullmatch(before.word)
            if over is not None and over[1].startswith("arg"):
                return (
                    f"{over[1][3:]}_{over[2]} x[{over[2]}] is the entry itself",
                    Setting("let", "n", sentence="places as numbers: x[n[i]], {}"),
                )
            if over is not None:
                return (RUNS, f"the whole tensor in a statement of its own: h = {over[1]}(x, …); out[i] = h[i]")
            if before.word == "not":
                return ("1 − [x[i] > 0]",)
            return (PRODUCT,) if token.word in ("(", "[") else (PRODUCT, "a function has brackets: tanh(x[i])")
        if before.word == "]" and token.word == "[":
            return ("the indices of an entry stand together: x[i,j]", "a product needs a sign: x[i]·[i < j]")
        if before.kind == "power" and token.word == "(" and self.tokens[self.place - 2].kind == "name":
            return (f"the power behind the brackets: {self.tokens[self.place - 2].word}(x[i])²", PRODUCT)
        return (PRODUCT,) if before.kind in ("number", "power", "delta") or before.word in (")", "]") else ()

    def refusal(self, problem: str, span: Span, hints: tuple[Hint, ...] = ()) -> NotationError:
        """The error, with its place."""
        return NotationError(problem, span=(span[0], max(span[1], span[0] + 1)), hints=hints)

    def too_deep(self, span: Span) -> NotationError:
        """The refusal of what Python's own stack could not hold."""
        return self.refusal(f"this is nested more than {DEPTH} levels deep", span, ("name parts of it: h[i] = …; …",))

    def name(self, problem: str, hints: tuple[str, ...] = ()) -> Token:
        """A name, or a refusal."""
        if self.next.kind != "name":
            raise self.refusal(problem, self.next.span, hints)
        return self.take()

    def letter(self) -> Token:
        """One Latin letter, with digits or without."""
        counted = ("how far alone is said, from 0 on: Σ_{j<3}",) if self.next.kind == "number" else ()
        token = self.name("here an index should stand, one letter such as i", counted)
        if not re.fullmatch(LETTER, token.word):
            raise self.refusal(
                f"{token.word} is no index: an index is one Latin letter, such as i or k2", token.span, ("out[i] = …",)
            )
        return token
