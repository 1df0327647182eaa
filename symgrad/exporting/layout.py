"""Statements as lines of source: what is too long for one is broken at its outermost sign or comma."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from symgrad.closed_form import without_plus
from symgrad.exporting.parts import Statement

WIDTH = 96
"""Characters after which a line is broken, indentation not counted."""
STEP = "    "


def assignment(statement: Statement, after: str = "") -> list[str]:
    """``target = value`` and what comes ``after`` it, in as many lines as it takes."""
    text = without_plus(f"{statement.target} = {ast.unparse(statement.value)}{after}")
    if len(text) <= WIDTH:
        return [text]
    body = [f"{STEP}{without_plus(line)}" for line in broken(statement.value)]
    if after:
        body.append(f"{STEP}{after.strip()}")
    return [f"{statement.target} = (", *body, ")"]


def broken(value: ast.expr) -> list[str]:
    """An expression in lines, to stand between brackets."""
    text = ast.unparse(value)
    if len(text) <= WIDTH:
        return [text]
    if isinstance(value, ast.BinOp):
        lines = []
        for sign, operand in operands(value):
            first, *rest = bracketed(operand, value.op)
            lines += [f"{sign}{first}", *rest]
        return lines
    if isinstance(value, ast.Compare):
        sign = ast.unparse(ast.Compare(ast.Name("a"), value.ops, [ast.Name("b")]))[2:-1]
        first, *rest = bracketed(value.comparators[0], ast.BitOr())
        return [*bracketed(value.left, ast.BitOr()), f"{sign}{first}", *rest]
    if isinstance(value, ast.Call):
        head = function_lines(value.func)
        arguments: list[ast.expr | ast.keyword] = [*value.args, *value.keywords]
        tail = ", ".join(map(ast.unparse, arguments))
        if len(head[-1]) + len(tail) < WIDTH:
            return [*head[:-1], f"{head[-1]}({tail})"]
        inner = [line for argument in arguments for line in with_comma(argument)]
        return [*head[:-1], f"{head[-1]}(", *(f"{STEP}{line}" for line in inner), ")"]
    if isinstance(value, ast.Subscript):
        head = function_lines(value.value)
        places = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
        inner = [line for place in places for line in with_comma(place)]
        if not isinstance(value.slice, ast.Tuple):
            inner[-1] = inner[-1].removesuffix(",")
        return [*head[:-1], f"{head[-1]}[", *(f"{STEP}{line}" for line in inner), "]"]
    return [text]


def function_lines(function: ast.expr) -> list[str]:
    """What is called, or looked up, in lines; the last one ends where a bracket may open."""
    text = ast.unparse(function)
    signed = isinstance(function, (ast.BinOp, ast.Compare, ast.UnaryOp))
    if len(text) <= WIDTH:
        return [f"({text})" if signed else text]
    if signed:
        return ["(", *(f"{STEP}{line}" for line in broken(function)), ")"]
    if isinstance(function, ast.Attribute):
        owner = function_lines(function.value)
        return [*owner[:-1], f"{owner[-1]}.{function.attr}"]
    return broken(function)


def with_comma(argument: ast.expr | ast.keyword) -> list[str]:
    """An argument in lines, the last of which ends in a comma."""
    lines = [ast.unparse(argument)] if isinstance(argument, ast.keyword) else broken(argument)
    return [*lines[:-1], f"{lines[-1]},"]


def operands(value: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    """The operands of a chain of one kind of sign, each with the sign before it."""
    alike = (ast.Add, ast.Sub) if isinstance(value.op, (ast.Add, ast.Sub)) else (type(value.op),)
    chain: list[tuple[str, ast.expr]] = []
    node: ast.expr = value
    while isinstance(node, ast.BinOp) and isinstance(node.op, alike) and not isinstance(node.op, ast.Pow):
        sign = ast.unparse(ast.BinOp(ast.Name("a"), node.op, ast.Name("b")))[2:-1]
        chain.append((sign, node.right))
        node = node.left
    if not chain:  # a power
        return iter([("", value.left), ("** ", value.right)])
    return iter([("", node), *reversed(chain)])


def bracketed(operand: ast.expr, sign: ast.operator) -> list[str]:
    """An operand in lines, in brackets where Python needs them beside ``sign``."""
    whole = ast.unparse(ast.BinOp(ast.Name("a"), sign, operand)).removeprefix("a ").partition(" ")[2]
    if len(whole) <= WIDTH:
        return [whole]
    lines = broken(operand)
    if isinstance(operand, (ast.BinOp, ast.Compare)):
        return ["(", *(f"{STEP}{line}" for line in lines), ")"]
    return lines


def returned(names: Sequence[str]) -> list[str]:
    """``return a, b``."""
    text = f"return {', '.join(names)}"
    return [text] if len(text) <= WIDTH else ["return (", *(f"{STEP}{name}," for name in names), ")"]
