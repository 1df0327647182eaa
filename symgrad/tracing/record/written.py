"""What data that nobody assigned is called: as its line writes it, ``batch[:, 0]`` or ``labels[ix]``.

Comes in: the place of the expression that made a tensor, and its indices as they were, where they are made of
numbers. Goes out: the text of the expression, if it only reads a part of something that has a name. A call is no name:
whoever reads ``rand(3)`` in a formula would have it drawn again.
"""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from types import EllipsisType
from typing import Any

from symgrad.language.steps.names import ATTRIBUTES
from symgrad.tracing.record.trace import Call, Node, Where

LONGEST = 24
"""Characters of a text that still serves as a name."""
DEEPEST = 3
"""Indices behind each other that are remembered."""
READING = (ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Constant, ast.UnaryOp, ast.BinOp,
           ast.expr_context, ast.operator, ast.unaryop)  # fmt: skip
"""What an expression may be made of that only reads."""
TURNED = (*ATTRIBUTES, "H", "mH", "real", "imag")
"""Attributes of a tensor that are tensors."""


def written(where: Where, parts: tuple[str, ...]) -> str | None:
    """The text at ``where``, with ``parts`` for its last indices, but for empty ones; None where it is no name."""
    text = text_at(where)
    return None if text is None else name_of(text, parts)


def text_at(where: Where) -> str | None:
    """The text of the expression at ``where``; None where it is on several lines or its place is not known."""
    if where.stop < 0:
        return None
    line = linecache.getline(where.file, where.line).encode()
    return line[where.column : where.stop].decode(errors="replace").strip()


def called(where: Where) -> str | None:
    """The last word of what is called at ``where``: ``grad`` of ``torch.autograd.grad(y, x)``; None for no call."""
    tree = tree_of(text_at(where) or "")
    if not isinstance(tree, ast.Call):
        return None
    return tree.func.attr if isinstance(tree.func, ast.Attribute) else getattr(tree.func, "id", "")


def tree_of(text: str) -> ast.expr | None:
    """One expression, read; None for what is none."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None


@lru_cache(maxsize=1024)
def name_of(text: str, parts: tuple[str, ...]) -> str | None:
    """One expression's text as a name.

    >>> name_of("x[ t ]", ("3",)), name_of("x[t][:n]", ("3", ":2")), name_of("labels[ix]", ("",)), name_of("x.T", ())
    ('x[3]', 'x[3][:2]', 'labels[ix]', 'x.T')
    >>> name_of("x[:, [1, 0]]", ("",))
    'x[:, [1, 0]]'
    >>> name_of("f(x)[t]", ("0",))
    """
    tree = tree_of(text.strip())
    reads = isinstance(tree, ast.Subscript) or (isinstance(tree, ast.Attribute) and tree.attr in TURNED)
    if tree is None or not reads or not all(isinstance(inner, READING) for inner in ast.walk(tree)):
        return None
    found = with_numbers(tree, parts)
    return found if len(found) <= LONGEST else None


def with_numbers(tree: ast.expr, parts: tuple[str, ...]) -> str:
    """The text of nested indices, the last ones as the numbers that they were."""
    if not parts or not isinstance(tree, ast.Subscript):
        return ast.unparse(tree)
    index = parts[-1] or ast.unparse(ast.Subscript(ast.Name("x"), tree.slice))[2:-1]  # by itself it has brackets
    return f"{with_numbers(tree.value, parts[:-1])}[{index}]"


def parts_of(call: Call) -> tuple[str, ...]:
    """The indices by which what a call made is read of a tensor: those of what it reads, and its own.

    Each is as it is written where it is made of numbers, and empty where it is not.
    """
    if not call.spelling.endswith("__getitem__") or len(call.arguments) != 2:
        return ()
    read, index = call.arguments
    texts = [text_of(entry) for entry in (index if isinstance(index, tuple) else (index,))]
    own = "" if None in texts else ", ".join(str(text) for text in texts)
    return (*(read.parts if isinstance(read, Node) else ()), own)[-DEEPEST:]


def text_of(entry: Any) -> str | None:
    """One entry of an index as it is written; None for a tensor and the like."""
    if isinstance(entry, slice):
        parts = [entry.start, entry.stop, *([] if entry.step is None else [entry.step])]
        fits = all(part is None or type(part) is int for part in parts)
        return ":".join("" if part is None else str(part) for part in parts) if fits else None
    if isinstance(entry, EllipsisType):
        return "..."
    return str(entry) if entry is None or type(entry) is int else None
