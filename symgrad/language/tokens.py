"""Text → tokens, and everything that can be refused before Python's parser sees the text.

Comes in: what the user typed. Goes out: tokens grouped into statements. The alphabet is closed: a character,
keyword or operator that is not part of the language is refused here, in one sentence, with its place; so are
texts too long or nested too deep, because Python's own parser answers those with a RecursionError, a
MemoryError or a crash.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise

from symgrad.errors import RUN, Hint, NotationError, Span
from symgrad.notation.tokens import Token, scan_tokens

LENGTH = 4_000
"""Expressions may have this many characters."""
DEPTH = 100
"""Brackets and operations may be nested this deep."""
IMAGINARY = "torch.complex(a, b), with a the real part"
DIGITS = 18
"""Integers may have this many digits: they have to fit NumPy's and torch's 64 bits."""

ALLOWED = (
    "names, numbers, + - * / // % ** @, comparisons, & | ~ of those, calls, x.T, x[0, 1:], and h = … followed by ;"
)

TOKEN = re.compile(
    r"""
      (?P<newline> \n | \r\n? )
    | (?P<space>   [ \t\f]+ | \#[^\r\n]* )
    | (?P<text>    "[^"\\\r\n]*" | '[^'\\\r\n]*' )
    | (?P<number>  (?: [0-9][0-9_]* (?: \.(?!\.) [0-9_]* )? | \.[0-9][0-9_]* ) (?: [eE] [+-]? [0-9]+ )? )
    | (?P<name>    [^\W\d] \w* )
    | (?P<refused> (?: << | >> | : )=(?!=) | -> | << | >> )
    | (?P<sign>    (?: \*\* | // | [-+*/%@&|^] )=(?!=)
                 | \.\.\. | \*\* | // | <= | >= | == | != | [-+*/%@<>=.,;:()\[\]&|^~] )
    """,
    re.VERBOSE,
)

KEYWORDS = frozenset(keyword.kwlist) - {"True", "False", "None"}
IMPORTS = ("import", "from", "as")
"""Those that a statement may begin with, or that stand behind such a beginning."""
AUGMENTED = ("**=", "//=", "-=", "+=", "*=", "/=", "%=", "@=", "&=", "|=", "^=")
INSTEAD = {
    "lambda": "write what it returns, without `lambda x:`",
    **dict.fromkeys(("if", "else"), "where(x > 0, x, 0)"),
    **dict.fromkeys(("and", "or", "not"), "(x > 0) & (x < 1), | and ~"),
    **dict.fromkeys(("def", "return", "class", "while", "in"), "write the lines that compute, one after the other"),
    "for": "write the lines that compute, one after the other; a list entry by entry: [x[0], x[1]]",
    "with": "h.detach() is a tensor without a gradient",
    "del": "leave it out: a name that no line uses changes nothing",
}
"""What would do where a keyword of Python cannot stand."""
REFUSED_SIGNS = {
    ":=": "an assignment inside an expression is not allowed",
    "->": "annotations are not allowed",
    "{": "braces (dictionaries and sets) are not allowed",
    "}": "braces (dictionaries and sets) are not allowed",
    "\\": "backslashes are not allowed",
    '"': "this string does not end",
    "'": "this string does not end",
}
LOOKALIKES = {
    "−": "-", "–": "-", "×": "*", "·": "*", "∗": "*", "÷": "/", "≤": "<=", "≥": ">=", "≠": "!=",
    "²": "**2", "³": "**3", "ᵀ": ".T", "½": "1/2*", "√": "sqrt(…)",
    "“": '"', "”": '"', "‘": "'", "’": "'", "\xa0": "a space", "‖": "norm(…)", "∑": "sum(…)",
}  # fmt: skip
CLOSES = {"(": ")", "[": "]"}
COMPARE, BIT_OR, BIT_XOR, BIT_AND, ADD, MULTIPLY, NEGATE, POWER, ATOM = range(9)
"""How tightly operators bind."""
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
"""The signs that make truth values."""
BINDS = {
    "+": ADD, "-": ADD, "*": MULTIPLY, "/": MULTIPLY, "@": MULTIPLY, "//": MULTIPLY, "%": MULTIPLY, "**": POWER,
    "|": BIT_OR, "^": BIT_XOR, "&": BIT_AND, **dict.fromkeys(COMPARISONS, COMPARE),
}  # fmt: skip
"""How tightly each sign between two operands binds."""


def tokenize_python(text: str, length: int = LENGTH) -> list[Token]:
    """The tokens of ``text``.

    >>> [t.word for t in tokenize_python("x@a # product")]
    ['x', '@', 'a']

    Raises `NotationError` for anything outside the alphabet, for more than ``length`` characters, for
    brackets that do not match, and for more than `DEPTH` levels.
    """
    if len(text) > length:
        raise NotationError(
            f"the text has {len(text):,} characters, more than {length:,}",
            hints=("give parts of it names, or split it into several expressions",),
        )
    found: list[Token] = []
    for token, following in scan_tokens(text, TOKEN, unknown_word_error):
        check_word(token, following)
        found.append(token)
    check_nesting(found)
    return found


def unknown_word_error(word: str, span: Span) -> NotationError:
    """The error for a word that is not part of the language."""
    hints: tuple[Hint, ...] = (f"write {LOOKALIKES[word]} instead",) if word in LOOKALIKES else (ALLOWED,)
    if span[0] == 0 and LOOKALIKES.get(word) in ("'", '"'):
        hints = ("leave it out: an expression stands without quotes",)
    if word in REFUSED_SIGNS:
        problem, hints = REFUSED_SIGNS[word], (*hints, RUN)
    else:
        shown = word if word.isprintable() and word.strip() else f"U+{ord(word[0]):04X}"
        problem = f"the character {shown} is not part of an expression"
    return NotationError(problem, span=span, hints=hints)


def check_word(token: Token, following: str) -> None:
    """Refuse keywords, dunder names, look-alike letters, numbers that run into letters, and huge integers."""
    word, span = token.word, token.span
    if token.kind == "number":
        if following.isalnum() or following == "_" or following == ".":
            raise NotationError(
                f"{word}{following} is not a number here",
                span=(span[0], span[1] + 1),
                hints=(IMAGINARY, RUN)
                if following in "jJ"
                else ("a product needs a *: 2*x", "real decimal numbers only: 3, 0.5, 1e-3"),
            )
        if word.replace("_", "").isdigit() and len(word) > DIGITS:
            raise NotationError(
                f"an integer of {len(word)} digits is too long",
                span=span,
                hints=(f"at most {DIGITS} digits, or a decimal number such as 1e30",),
            )
    elif token.kind == "name":
        if following in ("'", '"'):
            told = "strings with a prefix are not allowed"
            raise NotationError(told, span=span, hints=("a plain string: 'mean'", RUN))
        if not word.isidentifier():
            odd = next(n for n in range(len(word)) if not word[: n + 1].isidentifier())
            raise NotationError(
                f"the character {word[odd]} is not part of a name",
                span=(span[0] + odd, span[0] + odd + 1),
                hints=(f"write {LOOKALIKES[word[odd]]} instead" if word[odd] in LOOKALIKES else ALLOWED,),
            )
        plain = unicodedata.normalize("NFKC", "".join(LOOKALIKES.get(character, character) for character in word))
        if plain != word:
            raise NotationError(
                f"the name {word} is written in look-alike letters", span=span, hints=(f"write {plain} instead",)
            )
        check_keyword(token)
        if word.startswith("__"):
            raise NotationError("names that begin with two underscores are not allowed", span=span, hints=(ALLOWED,))


def check_keyword(token: Token, inside: bool = False) -> None:
    """Refuse a keyword, ``inside`` an expression also those of an import."""
    if token.word in KEYWORDS and (inside or token.word not in IMPORTS):
        hints = (INSTEAD.get(token.word, ALLOWED), RUN)
        raise NotationError(f"the Python keyword `{token.word}` is not allowed", span=token.span, hints=hints)


def ends_operand(token: Token) -> bool:
    """Whether a minus, bracket or dot after ``token`` belongs to something on its left."""
    return token.kind in ("text", "number", "name") or token.word in (")", "]", "...")


def check_nesting(tokens: Sequence[Token]) -> None:
    """Refuse brackets that do not match, and more than `DEPTH` levels of brackets and operations.

    The depth of the tree that Python's parser will build is bounded from above: each bracket level counts
    the operations since the last looser one, because ``a+b*c*d`` nests twice in b*c*d and once in the sum.
    """
    open_brackets: list[Token] = []
    counts = [[0] * (NEGATE + 1)]
    before: Token | None = None
    for token in tokens:
        word, after_operand = token.word, before is not None and ends_operand(before)
        if token.kind != "sign":
            before = token if token.kind != "newline" else before
            if token.kind == "newline" and not open_brackets:
                counts[-1], before = [0] * (NEGATE + 1), None
            continue
        if word in CLOSES:
            counts[-1][NEGATE] += 1
            open_brackets.append(token)
            counts.append([0] * (NEGATE + 1))
        elif word in CLOSES.values():
            if not open_brackets:
                raise NotationError(f"this {word} closes nothing", span=token.span)
            opened = open_brackets.pop()
            if CLOSES[opened.word] != word:
                raise NotationError(f"this {word} does not close {opened.word}", span=token.span)
            counts.pop()
        elif (strength := BINDS.get(word, ATOM)) < NEGATE and after_operand:
            counts[-1][strength:] = [counts[-1][strength] + 1] + [0] * (NEGATE - strength)
        elif word == ";" and open_brackets:
            raise NotationError("a semicolon inside brackets", span=token.span, hints=("use a comma",))
        elif word in (",", ";", "=", ":", *AUGMENTED):
            counts[-1] = [0] * (NEGATE + 1)
        else:
            counts[-1][NEGATE] += 1
        before = token
        if sum(map(sum, counts)) > DEPTH:
            raise NotationError(
                f"this is nested more than {DEPTH} levels deep",
                span=token.span,
                hints=("give parts of it names: h = …; …",),
            )
    if open_brackets:
        raise NotationError(f"this {open_brackets[-1].word} is never closed", span=open_brackets[-1].span)


def find_missing(tokens: Sequence[Token]) -> tuple[Span, str] | None:
    """Where an operand or a sign is missing, and what would do; None where neither is seen."""
    for before, token in pairwise(tokens):
        first, second = before.word, token.word
        if ends_operand(before) and token.kind in ("text", "number", "name") and second not in KEYWORDS:
            if before.kind == "name":
                return token.span, f"{first}({second}) for a call, {first} * {second} for a product"
            return token.span, f"a sign in front of it: … * {second}"
        if {first, second} <= BINDS.keys() and second not in ("+", "-"):
            return token.span, f"an operand between {first} and {second}"
    if tokens and tokens[-1].word in BINDS:
        return tokens[-1].span, f"an operand behind it: x {tokens[-1].word} y"
    return None


def count_open_brackets(tokens: Sequence[Token]) -> int:
    """How many brackets are open behind ``tokens``; less than none where they close others."""
    signs = [token.word for token in tokens if token.kind == "sign"]
    return sum(sign in CLOSES for sign in signs) - sum(sign in CLOSES.values() for sign in signs)


def group_statements(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Groups of tokens between semicolons and line ends outside brackets; empty ones are left out."""
    group: list[Token] = []
    level = 0
    for token in tokens:
        if token.kind == "newline" or (token.word == ";" and token.kind == "sign"):
            if token.kind == "newline" and level:
                continue
            if group:
                yield group
            group = []
            continue
        level += count_open_brackets([token])
        group.append(token)
    if group:
        yield group
