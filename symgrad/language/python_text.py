"""The Python text of a syntax tree, with the brackets that it needs and that a reader needs.

Comes in: a tree of `symgrad.language.syntax_tree`, read or built. Goes out: one line of Python, the inverse of reading.
Only here does it matter how tightly an operator binds. Where two operators of one rank are not of one kind, the first
stands in brackets, ``(a @ b) * c`` and ``(n // 2) * m``: not everybody knows that Python takes one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from symgrad.errors import bug
from symgrad.language.syntax_tree import (
    Attribute,
    Items,
    Keyword,
    Literal,
    PythonCall,
    PythonExpressionReader,
    Slice,
    Star,
    Subscript,
    Unary,
)
from symgrad.notation.tree import Binary, Dots, Name, SyntaxNode

COMPARE, BIT_OR, BIT_XOR, BIT_AND, ADD, MULTIPLY, NEGATE, POWER, ATOM = range(9)
"""How tightly operators bind."""
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
"""The signs that make truth values."""
BINDS = {
    "+": ADD, "-": ADD, "*": MULTIPLY, "/": MULTIPLY, "@": MULTIPLY, "//": MULTIPLY, "%": MULTIPLY, "**": POWER,
    "|": BIT_OR, "^": BIT_XOR, "&": BIT_AND, **dict.fromkeys(COMPARISONS, COMPARE),
}  # fmt: skip
"""How tightly each sign between two operands binds."""
KINDS = {"*": "scaling", "/": "scaling", "//": "whole numbers", "%": "whole numbers"}
"""Which signs of one rank are read one after the other without a thought."""


def read_python(text: str) -> SyntaxNode:
    """The tree of one line of Python that is an expression; raises `NotationError` for what is none."""
    return PythonExpressionReader(text, 0).read()


def write_python(node: SyntaxNode) -> str:
    """A tree as one line of Python.

    >>> product = Binary("*", Binary("@", Name("x"), Name("a")), Unary("-", Literal(2)))
    >>> write_python(Binary("-", Name("b"), product))
    'b - (x @ a) * -2'
    """
    match node:
        case Name(name):
            return name
        case Literal(value):
            return write_literal(value)
        case Binary(sign, left, right):
            return f"{_left_operand(sign, left)} {sign} {_right_operand(sign, right)}"
        case Unary(sign, operand):
            return f"{sign}{write_operand(operand, NEGATE)}"
        case PythonCall(function, positional, keywords):
            return f"{write_operand(function, ATOM)}({_write_each((*positional, *keywords))})"
        case Keyword(name, value):
            return f"{name}={write_python(value)}"
        case Star(value):
            return f"*{write_operand(value, ATOM)}"
        case Attribute(owner, name):
            return f"{write_operand(owner, ATOM)}.{name}"
        case Subscript(owner, items):
            return f"{write_operand(owner, ATOM)}[{_write_each(items)}]"
        case Slice(start, stop, step):
            return ":".join("" if part is None else write_python(part) for part in (start, stop, *_given(step)))
        case Items(items, True):
            return f"[{_write_each(items)}]"
        case Items(items):
            return f"({_write_each(items)}{',' * (len(items) == 1)})"
        case Dots():
            return "..."
    raise bug(f"no Python for {type(node).__name__}")


def write_literal(value: object) -> str:
    """A number as people write it, 1e30 where Python has 1e+30; a text in double quotes, as far as it has none.

    >>> write_literal(-1e30), write_literal(0.25), write_literal(3), write_literal("ij->ji")
    ('-1e30', '0.25', '3', '"ij->ji"')
    """
    text = repr(value)
    if isinstance(value, str):
        return f'"{text[1:-1]}"' if text.startswith("'") and '"' not in text else text
    return re.sub(r"(?<=\de)\+(?=\d)", "", text)


def write_operand(node: SyntaxNode, least: int) -> str:
    """A tree as part of what binds at ``least``: in brackets where it binds less."""
    text = write_python(node)
    return text if binding(node) >= least else f"({text})"


def binding(node: SyntaxNode) -> int:
    """How tightly a tree holds together."""
    match node:
        case Binary(sign):
            return BINDS[sign]
        case Unary():
            return NEGATE
        case Literal(int() | float() as value) if str(value).startswith("-"):
            return NEGATE
    return ATOM


def _left_operand(sign: str, left: SyntaxNode) -> str:
    """What stands before a sign; x ** y is taken from the right, and comparisons do not chain."""
    least = BINDS[sign] + (sign == "**" or BINDS[sign] == COMPARE)
    if isinstance(left, Binary) and BINDS[left.sign] == MULTIPLY and _kind(left.sign) != _kind(sign):
        least = max(least, NEGATE) if BINDS[sign] == MULTIPLY else least
    return write_operand(left, least)


def _right_operand(sign: str, right: SyntaxNode) -> str:
    """What stands behind a sign; a minus may stand there alone."""
    return write_operand(right, NEGATE if sign == "**" else BINDS[sign] + 1)


def _kind(sign: str) -> str:
    """The kind of a sign among those of its rank."""
    return KINDS.get(sign, sign)


def _write_each(nodes: Iterable[SyntaxNode]) -> str:
    """Nodes side by side."""
    return ", ".join(map(write_python, nodes))


def _given(step: SyntaxNode | None) -> Sequence[SyntaxNode]:
    """A step that a slice has."""
    return () if step is None else (step,)
