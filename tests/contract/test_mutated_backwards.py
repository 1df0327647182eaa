"""Right backwards with one small change in their code: each that changes a gradient is caught, whatever it is called.

The code is what symgrad writes for an expression; the changes are made in its syntax tree and know nothing of the
diagnosis: an operand of @ turned, operands swapped, a term dropped, a sign or an axis changed, a number doubled.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from symgrad.testing import check_backward
from tests.candidates import function, randn

EXPRESSIONS = {
    "x @ a": {"x": (3, 3), "a": (3, 3)},
    "softmax(x, dim=-1)": {"x": (3, 3)},
    "log_softmax(x, dim=-1)": {"x": (3, 3)},
    "tanh(x)": {"x": (3, 3)},
    "sigmoid(x) * x": {"x": (4,)},
    "x / y": {"x": (4,), "y": (4,)},
    "(x - y) ** 2": {"x": (3,), "y": (3,)},
    "h = tanh(x @ w); h @ u": {"x": (3, 3), "w": (3, 3), "u": (3, 3)},
    "softmax(q @ k.T, dim=-1) @ u": {"q": (3, 3), "k": (3, 3), "u": (3, 3)},
    "x @ w.T + b": {"x": (3, 3), "w": (3, 3), "b": (3,)},
    "logsumexp(x, dim=-1)": {"x": (3, 3)},
    "cumsum(x, dim=-1)": {"x": (3, 3)},
    "exp(x).sum(0)": {"x": (3, 3)},
}


def mutants(code: str) -> Iterator[tuple[str, str]]:
    """The code with one change, and what was changed."""
    tree = ast.parse(code)
    for number, node in enumerate(ast.walk(tree)):
        for name, change in changes(node):
            other = copy.deepcopy(tree)
            target = list(ast.walk(other))[number]
            swap(other, target, change(target))
            yield name, ast.unparse(ast.fix_missing_locations(other))


def changes(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """What can be changed about a node."""
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield "transpose dropped", lambda n: n.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield "operands swapped", lambda n: ast.BinOp(n.right, n.op, n.left)
        yield "left operand turned", lambda n: ast.BinOp(ast.Attribute(n.left, "T"), n.op, n.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield "second term dropped", lambda n: n.left
        other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield "sign turned", lambda n: ast.BinOp(n.left, other, n.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        yield "first factor alone", lambda n: n.left
        yield "doubled", lambda n: ast.BinOp(ast.Constant(2), ast.Mult(), n)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "minus dropped", lambda n: n.operand
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant) and node.operand.value == 1:
        yield "another axis", lambda n: ast.Constant(0)


def swap(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put ``new`` where ``old`` stands."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list):
                value[:] = [new if part is old else part for part in value]


def compiled(code: str, names: list[str]) -> Any:
    """The code as a backward: ``backward(v, *inputs)``."""
    scope: dict[str, Any] = {}
    exec(code, scope)
    return lambda v, *inputs: scope["backward"](*inputs, v)


def forward_of(expression: str, names: list[str]) -> Any:
    """The expression, run by torch."""
    *lines, last = expression.split("; ")
    body = "\n".join([*(f"    {line}" for line in lines), f"    return {last}"])
    head = "from torch import *\nfrom torch.nn.functional import softmax, log_softmax\n"
    scope: dict[str, Any] = {}
    exec(f"{head}def forward({', '.join(names)}):\n{body}", scope)
    return scope["forward"]


def tried(expression: str) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Of one expression: the mutants that were caught, that changed nothing, and by what each was called."""
    shapes = EXPRESSIONS[expression]
    inputs = {
        name: randn(*shape, seed=n) + (2.0 if name == "y" else 0.0) for n, (name, shape) in enumerate(shapes.items())
    }
    names = list(inputs)
    right = symgrad.explain(expression, check=False, **inputs).backward.code()
    forward = forward_of(expression, names)
    v = randn(*forward(*inputs.values()).shape, seed=9)
    answer = gradients(compiled(right, names), v, inputs)
    assert answer is not None
    assert check_backward(function(forward, compiled(right, names)), expression, **inputs).passed
    caught, same, called = [], [], []
    for what, code in mutants(right):
        backward = compiled(code, names)
        came = gradients(backward, v, inputs)
        if came is not None and all(
            a.shape == b.shape and np.allclose(a, b, rtol=1e-7, atol=1e-9) for a, b in zip(answer, came, strict=True)
        ):
            same.append(what)
            continue
        report = check_backward(function(forward, backward), expression, **inputs)
        assert not report.passed, (expression, what, code)
        caught.append(what)
        called.append((what, report.findings[0].kind))
    return caught, same, called


def gradients(backward: Any, v: torch.Tensor, inputs: dict[str, torch.Tensor]) -> list[np.ndarray] | None:
    """What a backward returns; None where it raises."""
    try:
        found = backward(v, *inputs.values())
    except (RuntimeError, TypeError, IndexError, ValueError):
        return None
    return [np.asarray(part) for part in (found if isinstance(found, tuple) else (found,))]


WITHOUT_NAMES = {"cumsum(x, dim=-1)"}
"""A scan is three calls with an axis each: one of them along another axis is no mistake that has a name."""


@pytest.mark.slow
@pytest.mark.one_in(13)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_change_of_a_gradient_is_caught(expression: str) -> None:
    """And most of them by a name: what is left is an order of factors that no slip swaps."""
    caught, same, called = tried(expression)
    assert caught
    assert not same
    unnamed = [what for what, kind in called if kind == "value"]
    assert expression in WITHOUT_NAMES or len(unnamed) <= len(called) / 3, unnamed
