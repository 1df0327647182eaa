"""Text of an index equation to tokens, one spelling for each sign, and the cursor with which the parser reads them.

``sum_`` becomes ``Σ_``, ``<=`` becomes ``≤``. A character that no equation has is refused here, with its place. The
pattern of names lists its characters, because Python counts the ² of d² among letters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from symgrad.errors import Hint, NotationError, Setting, Span

Read = TypeVar("Read")
LENGTH = 6_000
"""Equations may have this many characters."""
DIGITS = 40
"""Integers may have this many digits: they are exact, and constants of the table have 31."""
LETTER = r"[A-Za-z][0-9]*"
NAME = r"[A-Za-z_\u0370-\u03FF][A-Za-z0-9_\u0370-\u03FF\u2080-\u2089]*"
BIG = {"Σ": "Σ", "∑": "Σ", "sum": "Σ", "Π": "Π", "∏": "Π", "prod": "Π", "max": "max", "min": "min", "mean": "mean"}
SAME = {
    "*": "·", "×": "·", "⋅": "·", "∗": "·", "-": "−", "–": "−", "<=": "≤", ">=": "≥", "!=": "≠", "==": "=", "**": "^",
    "...": "…", "∧": "and", "÷": "/",
}  # fmt: skip
WORDS = ("where", "and", "mod")
INSTEAD = {
    "%": "what is left of i by 3 is i − 3·⌊i/3⌋",
    ".": "a function by its name alone, exp(x[i]); a method in a statement of its own: h = x.T; out[i] = …",
    ":": "a part of a tensor in a statement of its own: h = x[1:]; out[i] = …",
    "@": "Σ_j a[i,j]·x[j], or a statement of its own: h = a @ x; out[i] = …",
    "&": "[x[i] > 0 and y[i] > 0]",
    "\\": "sum_j for a sum, sqrt(x), a*b; no commands of LaTeX's",
    "½": "1/2",
    "¼": "1/4",
    "¾": "3/4",
    "⊙": "x[i]·y[i]",
    "‖": "a length is √(Σ_j x[j]²)",
    "ᵀ": "the letters the other way round: x[j,i]",
    "'": "a name of letters and digits: x2",
    "′": "a name of letters and digits: x2",
    "!": "gamma(n + 1)",
    "±": "an equation for each of the two",
}
"""Characters of Python and of paper, and what an equation has for them."""
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")

TOKEN = re.compile(
    rf"""
      (?P<space>   \s+ )
    | (?P<number>  [0-9]+ (?: \.(?!\.) [0-9]* )? (?: [eE] [+-]? [0-9]+ )? | \.[0-9]+ (?: [eE] [+-]? [0-9]+ )? )
    | (?P<big>     (?: {"|".join(BIG)} ) _ (?= {LETTER} (?! [A-Za-z0-9_] ) | \{{ ) )
    | (?P<delta>   (?: δ | delta ) _ (?: [A-Za-z][A-Za-z] (?! [A-Za-z0-9_] ) | \{{ [^{{}}]* \}} ) )
    | (?P<name>    {NAME} )
    | (?P<power>   [⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+ )
    | (?P<sign>    \.\.\. | \*\* | <= | >= | != | == | [-+*/^=<>()\[\]{{}},|−–×⋅∗·≤≥≠…√⌊⌋⟨⟩∧÷\u0302] )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """A word of the text and its place; ``kind`` is a group of its dialect's alphabet, word or end."""

    kind: str
    word: str
    span: Span


def tokenize_equation(text: str, start: int = 0) -> list[Token]:
    """The tokens of ``text``, which stands at ``start`` in the whole text, and one for its end.

    >>> [t.word for t in tokenize_equation("sum_j x[j]*2 <= y")]
    ['Σ', 'j', 'x', '[', 'j', ']', '·', '2', '≤', 'y', '']

    Raises `NotationError` for anything outside the alphabet and for more than `LENGTH` characters.
    """
    if len(text) > LENGTH:
        raise NotationError(
            f"the equation has {len(text):,} characters, more than {LENGTH:,}",
            hints=("give parts of it names: h[i] = …; …",),
        )
    found = list(_fold_spellings(text, start))
    return [*found, Token("end", "", (start + len(text), start + len(text)))]


def _fold_spellings(text: str, start: int) -> Iterator[Token]:
    for token, following in scan_tokens(text, TOKEN, unknown_character_error, start):
        kind, word = token.kind, token.word
        if kind == "number":
            check_equation_number(word, following, token.span)
        if kind == "big":
            word = BIG[word[:-1]]
        elif kind == "delta":
            word = word.replace("delta", "δ")
        elif kind == "power":
            word = word.translate(SUPERSCRIPTS)
        elif word in WORDS or SAME.get(word) in WORDS:
            kind, word = "word", SAME.get(word, word)
        elif kind == "sign":
            word = SAME.get(word, word)
        yield Token(kind, word, token.span)


def scan_tokens(
    text: str, alphabet: re.Pattern[str], refused: Callable[[str, Span], NotationError], start: int = 0
) -> Iterator[tuple[Token, str]]:
    """The tokens of ``text`` without its blanks, each with the character behind it; raises what ``refused`` returns.

    A kind is the name of a group of the ``alphabet``; one called refused is no part of the language.
    """
    position = 0
    while position < len(text):
        match = alphabet.match(text, position)
        stop = match.end() if match else position + 1
        word, span = text[position:stop], (start + position, start + stop)
        if match is None or match.lastgroup == "refused":
            raise refused(word, span)
        if match.lastgroup != "space":
            yield Token(str(match.lastgroup), word, span), text[stop : stop + 1]
        position = stop


def check_equation_number(word: str, following: str, span: Span) -> None:
    """Refuse a number that runs into a name, and one that is too long."""
    if following.isalpha() or following in ("_", "."):
        point = "a number has one point: 1.5" if "." in word else "the range of an index: Σ_{j<3}, from 0 on"
        raise NotationError(
            f"{word}{following} is not a number",
            span=(span[0], span[1] + 1),
            hints=(point if following == "." else "write the product sign: 2·x or 2*x",),
        )
    if len(word) > DIGITS and word.isdigit():
        raise NotationError(f"an integer of {len(word)} digits is too long", span=span, hints=(f"at most {DIGITS}",))
    if math.isinf(float(word)):
        raise NotationError(f"{word} is larger than any float", span=span)


def unknown_character_error(character: str, span: Span) -> NotationError:
    """The error for a character that no equation has."""
    usual = "names, numbers, + − · / ^ √, |x|, ⌊x⌋, [i ≤ j], Σ_j or sum_j, and where d = …"
    if character.isalpha() and character not in INSTEAD:
        usual = "a name of Latin or Greek letters: y_hat[i]"
    shown = character if character.isprintable() and character.strip() else f"U+{ord(character):04X}"
    return NotationError(
        f"the character {shown} is not part of an index equation", span=span, hints=(INSTEAD.get(character, usual),)
    )


OPENING = ("(", "[", "{", "⟨", "⌊")
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
PRODUCT = "write the product sign: 2·x or 2*x"
SUMMED = re.compile(r"(?:(Σ|Π)_?|(sum|prod|mean|max|min)(?:_|$))(\w*)")
PLAIN = {"Σ": "sum", "Π": "prod"}
"""What looks like a sum and is none: its letter is missing, or there are two, or it is Greek."""
UNDER = re.compile(rf"([a-z]{{3,}})_({LETTER})")
"""What looks like a function over an index, as argmax_j does."""
RUNS = "only Σ, Π, mean, max and min run over an index"
OPTIONS = ("an option by its place, without its name: leaky_relu(x[i], 0.3)",)
LIMITS = ("^", "=", "<", "≤", ">", "≥", "≠")
FAR = ("how far: Σ_{j<n}, from 0 on", "a condition behind it: Σ_j [j ≤ i]·…")
"""What would do where a limit stands above or below a sum."""


class TokenCursor:
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

    def takes(self, *words: str) -> bool:
        """Whether one of these signs or words comes; it is read then."""
        found = self.sees(*words)
        self.place += found
        return found

    def expect(self, word: str, opened: Token | None = None) -> Token:
        """The sign ``word``, or a refusal that says what it would close."""
        if self.sees(word):
            return self.take()
        if opened is not None and (self.next.kind == "end" or self.next.word in CLOSING):
            raise self.refusal(f"this {opened.word} is not closed by {word}", opened.span)
        raise self.unexpected(f"{word} is expected here")

    def listed(
        self, rule: Callable[[], Read], closing: str, opened: Token | None = None, empty: bool = False
    ) -> list[Read]:
        """What a rule reads between commas, up to the bracket that closes; what ``opened`` it is taken, or comes."""
        opened = opened or self.take()
        found = [] if empty and self.sees(closing) else [rule()]
        while self.takes(","):
            found.append(rule())
        self.expect(closing, opened)
        return found

    @contextmanager
    def deeper(self, span: Span) -> Iterator[None]:
        """One level deeper; refused where Python's own stack could not hold it."""
        self.depth += 1
        if self.depth > DEPTH:
            raise self.refusal(
                f"this is nested more than {DEPTH} levels deep", span, ("give parts of it names: h[i] = …; …",)
            )
        yield
        self.depth -= 1

    def end(self) -> None:
        """Nothing comes any more, or a refusal."""
        if self.next.kind != "end":
            raise self.unexpected("this is not part of the equation")

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
        elif token.word in CLOSING and token.kind != "end" and not hints and not self.open_brackets():
            hints = ("leave it out: no bracket is open here",)
        elif token.word == ",":
            hints = ("one value for each entry: separate statements by ;, put definitions after where",)
        if token.kind == "end":
            problem = "the equation ends too early"
        return self.refusal(problem, token.span, hints)

    def open_brackets(self) -> int:
        """How many brackets are open before the next token."""
        words = [token.word for token in self.tokens[: self.place]]
        return sum(word in OPENING for word in words) - sum(word in CLOSING for word in words)

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
            return ("write the indices of an entry together: x[i,j]", "a product needs a sign: x[i]·[i < j]")
        if before.kind == "power" and token.word == "(" and self.tokens[self.place - 2].kind == "name":
            return (f"the power behind the brackets: {self.tokens[self.place - 2].word}(x[i])²", PRODUCT)
        return (PRODUCT,) if before.kind in ("number", "power", "delta") or before.word in (")", "]") else ()

    def refusal(self, problem: str, span: Span, hints: tuple[Hint, ...] = ()) -> NotationError:
        """The error, with its place."""
        return NotationError(problem, span=(span[0], max(span[1], span[0] + 1)), hints=hints)

    def name(self, problem: str, hints: tuple[str, ...] = ()) -> Token:
        """A name, or a refusal."""
        if self.next.kind != "name":
            raise self.refusal(problem, self.next.span, hints)
        return self.take()

    def letter(self) -> Token:
        """One Latin letter, with digits or without."""
        counted = ("only the upper end is written, from 0 on: Σ_{j<3}",) if self.next.kind == "number" else ()
        token = self.name("an index is expected here, one letter such as i", counted)
        if not re.fullmatch(LETTER, token.word):
            raise self.refusal(
                f"{token.word} is not an index: an index is one Latin letter, such as i or k2",
                token.span,
                ("out[i] = …",),
            )
        return token
