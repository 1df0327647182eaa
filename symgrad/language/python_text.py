"""The Python text of a syntax tree, with the brackets that it and its reader need; and short ways to build one.

Comes in: a tree of `symgrad.language.syntax_tree`, read or built. Goes out: one line of Python, the inverse of reading.
Only here does it matter how tightly an operator binds. Where two operators of one rank are not of one kind, the first
stands in brackets, ``(a @ b) * c`` and ``(n // 2) * m``: not everybody knows that Python takes one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

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
from symgrad.language.tokens import ATOM, BINDS, COMPARE, COMPARISONS, MULTIPLY, NEGATE
from symgrad.notation.tree import Binary, Dots, Name, SyntaxNode

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
        case Binary():
            return _write_binary(node)
        case Unary(sign, operand):
            return f"{sign}{write_operand(operand, NEGATE)}"
        case PythonCall(function, positional, keywords):
            return f"{write_operand(function, ATOM)}({_write_each((*positional, *keywords))})"
        case Keyword(name, value):
            return f"{name}={write_python(value)}"
        case Star(value):
            return f"*{write_operand(value, ATOM)}"
        case Attribute(Literal(value), name):  # 1.sum() is no Python
            return f"({write_literal(value)}).{name}"
        case Attribute(owner, name):
            return f"{write_operand(owner, ATOM)}.{name}"
        case Subscript(owner, items):
            return f"{write_operand(owner, ATOM)}[{_write_each(items)}]"
        case Slice(start, stop, step):
            ends = (start, stop) if step is None else (start, stop, step)
            return ":".join("" if part is None else write_python(part) for part in ends)
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
    return tidy_exponents(text)


def tidy_exponents(text: str) -> str:
    """Python's text with its numbers as people write them.

    >>> tidy_exponents("x * -1e+30 + e")
    'x * -1e30 + e'
    """
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


def _write_binary(node: Binary) -> str:
    """Two operands; of a sum of hundreds of terms, from the last to the first: no call for each of them."""
    behind: list[str] = []
    while True:
        sign, left = node.sign, node.left
        behind.append(f" {sign} {write_operand(node.right, NEGATE if sign == '**' else BINDS[sign] + 1)}")
        least = _least_before(sign, left)
        if not isinstance(left, Binary) or binding(left) < least:
            return "".join([write_operand(left, least), *reversed(behind)])
        node = left


def _least_before(sign: str, left: SyntaxNode) -> int:
    """How tightly what stands before a sign has to bind: x ** y is taken from the right, comparisons do not chain."""
    if isinstance(left, Binary) and BINDS[left.sign] == BINDS[sign] == MULTIPLY and _kind(left.sign) != _kind(sign):
        return NEGATE
    return BINDS[sign] + (sign == "**" or BINDS[sign] == COMPARE)


def _kind(sign: str) -> str:
    """The kind of a sign among those of its rank."""
    return KINDS.get(sign, sign)


def _write_each(nodes: Iterable[SyntaxNode]) -> str:
    """Nodes side by side."""
    return ", ".join(map(write_python, nodes))


COLON, NEW_AXIS = Slice(None, None, None), Literal(None)
"""The whole of an axis and one that is put in, between brackets."""
Part = SyntaxNode | str | int | float | complex | tuple[Any, ...] | list[Any] | None
"""What a tree is built of: a tree, a name with dots, a number, several of them in brackets, None."""


def to_code(part: Part) -> SyntaxNode:
    """A part as a tree.

    >>> write_python(to_code(("x.shape", -1, None)))
    '(x.shape, -1, None)'
    """
    match part:
        case SyntaxNode():
            return part
        case str():
            owner, _, word = part.rpartition(".")
            return Attribute(to_code(owner), word) if owner else Name(word)
        case list() | tuple():
            return Items(tuple(map(to_code, part)), isinstance(part, list))
        case int() | float() if repr(part).startswith("-"):
            return Unary("-", Literal(-part))
    return Literal(part)


def call(function: Part, *positional: Part, **keywords: Part) -> PythonCall:
    """A call of a function.

    >>> write_python(call("F.pad", "x", (1, 0), value=2))
    'F.pad(x, (1, 0), value=2)'
    """
    options = tuple(Keyword(name, to_code(value)) for name, value in keywords.items())
    return PythonCall(to_code(function), tuple(map(to_code, positional)), options)


def method(owner: Part, word: str, *positional: Part, **keywords: Part) -> PythonCall:
    """A call of a method.

    >>> write_python(method("x", "sum", -1, keepdim=True))
    'x.sum(-1, keepdim=True)'
    """
    return call(Attribute(to_code(owner), word), *positional, **keywords)


def index(owner: Part, items: Iterable[Part]) -> SyntaxNode:
    """Entries of a tensor; colons at the end say nothing.

    >>> write_python(index("x", [None, COLON])), write_python(index("x", [COLON]))
    ('x[None]', 'x')
    """
    needed = list(map(to_code, items))
    while needed and needed[-1] == COLON:
        needed.pop()
    return Subscript(to_code(owner), tuple(needed)) if needed else to_code(owner)


def negate(node: SyntaxNode) -> SyntaxNode:
    """−a, the sign at the first factor of a product; a, of −a.

    >>> [write_python(negate(read_python(text))) for text in ("a * b / c", "(a @ b) * c", "-a / 2", "a // 2")]
    ['-a * b / c', '-(a @ b) * c', 'a / 2', '-(a // 2)']
    """
    if (without := strip_minus(node)) is not None:
        return without
    if isinstance(node, Binary) and node.sign in ("*", "/", "@"):  # -a // 2 is another whole number
        apart = isinstance(node.left, Binary) and _kind(node.left.sign) != _kind(node.sign)
        return Binary(node.sign, Unary("-", node.left) if apart else negate(node.left), node.right)
    return Unary("-", node)


def strip_minus(term: SyntaxNode) -> SyntaxNode | None:
    """a, of −a; a / 2, of −a / 2; None without a minus in front."""
    match term:
        case Unary("-", operand):
            return operand
        case Binary("*" | "/" | "@" as sign, left, right):
            without = strip_minus(left)
            return None if without is None else Binary(sign, without, right)
    return None


def multiply(left: SyntaxNode, right: SyntaxNode) -> SyntaxNode:
    """a * b * c, of a and b * c."""
    if isinstance(right, Binary) and right.sign in ("*", "/"):
        return Binary(right.sign, multiply(left, right.left), right.right)
    return Binary("*", left, right)


def add(left: SyntaxNode, right: SyntaxNode, sign: str = "+") -> SyntaxNode:
    """a + b − c, of a and b − c."""
    if sign == "+" and isinstance(right, Binary) and right.sign in ("+", "-"):
        return Binary(right.sign, add(left, right.left), right.right)
    return Binary(sign, left, right)


def is_comparison(node: SyntaxNode) -> bool:
    """Whether two things are compared."""
    return isinstance(node, Binary) and node.sign in COMPARISONS
