"""Lines that divide, for data at which the short ones fail: a norm of 0, and what is so small that its square is 0.

Comes in: a line as text, and the equation that it says. Goes out: the same with the conditions that it leaves out
elsewhere, and without squares below the line; or whether it has a value wherever what it reads has one.

    v * x / out     →  where(out != 0, v * x / out, 0)
    v / out @ y     →  where(out != 0, v / out, 0) @ y
    -v * x / y ** 2 →  -v * x / y / y
    v * (y > 1) / x →  where(y > 1, v / x, 0)
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import cache, lru_cache

import numpy as np
import sympy as sp

from symgrad.backward.parts.trees import rewritten
from symgrad.closed_form import condition_text
from symgrad.indexing import Bracket, Equation, is_guard
from symgrad.indexing.symbols import is_access, name_of
from symgrad.ops import TABLE, find
from symgrad.program import Program

LARGE = np.array([-1e3, 1e3])
"""Numbers at which e^x is more than a float holds, or 0."""


def with_guards(program: Program, equation: Equation, text: str, wanted: str) -> str | None:
    """``text`` with its one condition around it, or with one beside each division; None where it has neither."""
    factors = [f for f in sp.Mul.make_args(equation.right) if is_guard(f)]
    if len(factors) == 1:
        told = condition_text(program, factors[0], equation.axes, wanted)
        return None if told is None else f"where({told}, {text}, 0)"
    below = [f.args[0].lhs for f in equation.right.atoms(Bracket) if is_guard(f)]
    return guarded_inside(text, {name_of(entry) for entry in below if is_access(entry)})


def guarded_inside(text: str, names: Collection[str]) -> str | None:
    """``v / out @ y`` with a condition beside each division by one of ``names``; None where there is none.

    >>> guarded_inside("v / out @ y", {"out"})
    'where(out != 0, v / out, 0) @ y'
    """

    def guarded(node: ast.expr) -> ast.expr:
        """a / t ** 2 → where(t != 0, a / t ** 2, 0), for the tensors that are named, turned ones among them"""
        match node:
            case ast.BinOp(_, ast.Div(), ast.BinOp(base, ast.Pow()) | base):
                below = ast.unparse(base)
                if below.removesuffix(".T") in names:
                    return ast.parse(f"where({below} != 0, {ast.unparse(node)}, 0)", mode="eval").body
        return node

    before = ast.parse(text, mode="eval")
    plain, found = ast.unparse(before), ast.unparse(rewritten(before, guarded))
    return None if found == plain else found


def twice_divided(text: str) -> str:
    """Two divisions where a square stands below the line.

    >>> twice_divided("-v * x / y ** 2 + 1 / (x ** 2 + 1)")
    '-v * x / y / y + 1 / (x ** 2 + 1)'
    """

    def divided(node: ast.expr) -> ast.expr:
        """a / t ** 2 → a / t / t"""
        match node:
            case ast.BinOp(above, ast.Div(), ast.BinOp(ast.Name() as below, ast.Pow(), ast.Constant(2))):
                return ast.BinOp(ast.BinOp(above, ast.Div(), below), ast.Div(), below)
        return node

    return "; ".join(ast.unparse(rewritten(statement, divided)) for statement in ast.parse(text).body)


def chosen(text: str) -> str:
    """Choices where a condition is a factor of what may be no number: 0·∞ is NaN, and what is not chosen is not read.

    >>> chosen("v * (y > 1)[:, None] * (x.log() + 1 / x) + (y > 1) * v / 2")
    'where((y > 1)[:, None], v * (x.log() + 1 / x), 0) + (y > 1) * v / 2'
    >>> chosen("v * (x != 0) / (x + (x == 0)) - (x == out) / (x == out).sum()")
    'v * (x != 0) / (x + (x == 0)) - (x == out) / (x == out).sum()'
    """
    return "; ".join(ast.unparse(Choosing().visit(statement)) for statement in ast.parse(text).body)


class Choosing(ast.NodeTransformer):
    """(y > 1) * v / x → where(y > 1, v / x, 0)"""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """A product, as a choice."""
        conditions = [factor for factor in factors_of(node) if is_condition(factor)]
        rest = without(node, conditions) if conditions else None
        self.generic_visit(node)
        if rest is None or not may_be_none(rest):
            return node
        told = " & ".join(f"({ast.unparse(c)})" if len(conditions) > 1 else ast.unparse(c) for c in conditions)
        return ast.parse(f"where({told}, {ast.unparse(self.visit(rest))}, 0)", mode="eval").body


def factors_of(node: ast.expr) -> list[ast.expr]:
    """What is multiplied, and the first of what is divided."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Mult, ast.Div)):
        return [node]
    return [*factors_of(node.left), *(factors_of(node.right) if isinstance(node.op, ast.Mult) else ())]


def without(node: ast.expr, left_out: Collection[ast.expr]) -> ast.expr | None:
    """A product without some of its factors; None where nothing is left of it, or only what it is divided by."""
    if node in left_out:
        return None
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Mult, ast.Div)):
        return node
    left = without(node.left, left_out)
    if isinstance(node.op, ast.Div):
        return ast.BinOp(left or ast.Constant(1), ast.Div(), node.right)
    right = without(node.right, left_out)
    return ast.BinOp(left, ast.Mult(), right) if left and right else left or right


def is_condition(node: ast.expr) -> bool:
    """Whether it is a comparison, with axes put in."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Compare)


def may_be_none(node: ast.expr) -> bool:
    """Whether something may have no finite value: it is divided by a tensor, not a count, or a function ends there."""
    below = [n.right for n in ast.walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    called = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    return any(map(may_vanish, below)) or any(has_an_end(ast.unparse(f).rpartition(".")[2]) for f in called)


@cache
def has_an_end(word: str) -> bool:
    """Whether a function of one tensor has no value at some number, as a logarithm, or none that a float holds.

    >>> [has_an_end(word) for word in ("log", "rsqrt", "exp", "sin", "sum")]
    [True, True, True, False, False]
    """
    entry, own = TABLE.get(word), getattr(np, word, None)
    if entry is not None and len(entry.operands) == 1 and entry.domain_of(entry.operands[0]).ends:
        return True
    with np.errstate(all="ignore"):
        return isinstance(own, np.ufunc) and own.nin == 1 and not np.isfinite(own(LARGE)).all()


def may_vanish(node: ast.expr) -> bool:
    """Whether a tensor is read; a size is none, nor is π, and a condition keeps what holds it from 0, or is counted."""
    inside = list(ast.walk(node))
    numbers = {id(n.value) for n in inside if isinstance(n, ast.Attribute) and n.attr in ("shape", "numel", "pi")}
    held = any(isinstance(n, ast.Compare) for n in inside)
    return not held and any(isinstance(n, ast.Name) and id(n) not in numbers for n in inside)


@lru_cache(maxsize=1024)
def always_defined(text: str) -> bool:
    """Whether a text is finite wherever what it reads is: it divides by numbers alone, and takes no root or logarithm.

    >>> always_defined("v * (1 - out ** 2) / 4"), always_defined("v / a0"), always_defined("v / a0.norm()")
    (True, False, False)
    """
    return all(map(safe, ast.walk(ast.parse(text.replace("; ", "\n")))))


def safe(node: ast.AST) -> bool:
    """Whether one node of a text makes nothing infinite or undefined."""
    if isinstance(node, ast.Call):
        entry = find(node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func))
        return entry is not None and not entry.domain and not entry.edges
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Mod, ast.FloorDiv)):
        return isinstance(node.right, ast.Constant) and bool(node.right.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        power = node.right.value if isinstance(node.right, ast.Constant) else -1
        return isinstance(power, int) and power >= 0
    return True
