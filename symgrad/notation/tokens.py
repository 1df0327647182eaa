"""Text of an index equation → tokens, every spelling folded into one: ``sum_`` is ``Σ_``, ``<=`` is ``≤``.

The alphabet is closed: what is not in it is refused here, with its place. Names are spelled out character by character,
because what Python takes for a letter has the ² of d² among it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from symgrad.errors import NotationError, Span

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
    """A word of the equation and its place; ``kind`` is number, big, delta, name, power, sign, word or end."""

    kind: str
    word: str
    span: Span


def tokenize(text: str, start: int = 0) -> list[Token]:
    """The tokens of ``text``, which stands at ``start`` in the whole text, and one for its end.

    >>> [t.word for t in tokenize("sum_j x[j]*2 <= y")]
    ['Σ', 'j', 'x', '[', 'j', ']', '·', '2', '≤', 'y', '']

    Raises `NotationError` for anything outside the alphabet and for more than `LENGTH` characters.
    """
    if len(text) > LENGTH:
        raise NotationError(
            f"the equation has {len(text):,} characters, more than {LENGTH:,}", hints=("name parts of it: h[i] = …; …",)
        )
    found = list(_tokens(text, start))
    return [*found, Token("end", "", (start + len(text), start + len(text)))]


def _tokens(text: str, start: int) -> Iterator[Token]:
    position = 0
    while position < len(text):
        match = TOKEN.match(text, position)
        span = (start + position, start + (match.end() if match else position + 1))
        if match is None:
            raise refused(text[position], span)
        position = match.end()
        kind, word = str(match.lastgroup), match.group()
        if kind == "space":
            continue
        if kind == "number":
            check_number(word, text[position : position + 1], span)
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
        yield Token(kind, word, span)


def check_number(word: str, following: str, span: Span) -> None:
    """Refuse a number that runs into a name, and one that is too long."""
    if following.isalpha() or following in ("_", "."):
        point = "a number has one point: 1.5" if "." in word else "how far an index runs: Σ_{j<3}, from 0 on"
        raise NotationError(
            f"{word}{following} is no number",
            span=(span[0], span[1] + 1),
            hints=(point if following == "." else "a product has a sign: 2·x or 2*x",),
        )
    if len(word) > DIGITS and word.isdigit():
        raise NotationError(f"an integer of {len(word)} digits is too long", span=span, hints=(f"at most {DIGITS}",))


def refused(character: str, span: Span) -> NotationError:
    """The error for a character that no equation has."""
    usual = "names, numbers, + − · / ^ √, |x|, ⌊x⌋, [i ≤ j], Σ_j or sum_j, and where d = …"
    if character.isalpha() and character not in INSTEAD:
        usual = "a name of Latin or Greek letters: y_hat[i]"
    shown = character if character.isprintable() and character.strip() else f"U+{ord(character):04X}"
    return NotationError(
        f"the character {shown} is not part of an index equation",
        span=span,
        hints=(INSTEAD.get(character, usual),),
    )
