"""Equations as a page has them, parsed again, and that such a text is written as it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.notation.read_write import format_node, read_statement
from symgrad.notation.scope import inline_definitions
from symgrad.notation.tokens import LENGTH
from symgrad.render.formula import formula_text


def printed(equation: Any, names: Any) -> str:
    """The equation as the page has it."""
    letters = ",".join(names.letter(axis) for axis in equation.axes)
    return f"out{f'[{letters}]' if letters else ''} = {formula_text(equation.right, names)}"


def parsed(text: str, axes: Sequence[Any], names: Any) -> Any:
    """What is printed, with the ends of the letters on its left: those of ``axes``."""
    left = ", ".join(f"{names.letter(axis)}<{formula_text(axis.size, names)}" for axis in axes)
    right = text.partition(" = ")[2]
    return inline_definitions(read_statement(f"out[{left}] = {right}" if left else f"out = {right}"))


def is_too_long(text: str) -> bool:
    """Whether a text has more characters than an equation may have."""
    return len(text) > LENGTH


def assert_written_as_read(text: str) -> None:
    """What is read of a text is written so that the same is read again."""
    assert read_statement(format_node(read_statement(text))) == read_statement(text)
