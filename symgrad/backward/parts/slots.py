"""Positions in the lines of a backward: a line is made once for all steps of a loop, with a slot where they differ.

    pad(v[:, None], (0, 0, p0, 98 - p0))      →  pad(v[:, None], (0, 0, 19, 79))        p0 is 19 here

Comes in: text with slots, and the numbers that stand there. Goes out: the text with those numbers, arithmetic among
them done; and whether it has a value wherever what it reads has one.
"""

from __future__ import annotations

import ast
from functools import lru_cache

from symgrad.ops import find

Numbers = tuple[tuple[str, int], ...]
"""Slots by name, and what stands there."""


@lru_cache(maxsize=1024)
def filled(text: str, numbers: Numbers) -> str:
    """Text with numbers in its slots.

    >>> filled("k = x[p0:p0 + 2]; pad(k, (p0, x.shape[0] - p0 - 2))", (("p0", 3),))
    'k = x[3:5]; pad(k, (3, x.shape[0] - 5))'
    """
    tree = ast.parse(text.replace("; ", "\n"))
    return "; ".join(ast.unparse(Fill(numbers).visit(node)) for node in tree.body)


def filled_tree(tree: ast.expr, numbers: Numbers) -> ast.expr:
    """An expression with numbers in its slots."""
    return ast.parse(filled(ast.unparse(tree), numbers), mode="eval").body if numbers else tree


class Fill(ast.NodeTransformer):
    """Numbers in the place of slots; sums and differences with a slot in them are put in order, numbers last."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = dict(numbers)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A slot as its number."""
        return ast.Constant(self.numbers[node.id]) if node.id in self.numbers else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """−p0"""
        return self.added(node) if isinstance(node.op, ast.USub) else self.inside(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """p0 + 2, n − p0 − 1"""
        return self.added(node) if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)) else self.inside(node)

    def inside(self, node: ast.expr) -> ast.expr:
        """What stands in it, filled in."""
        self.generic_visit(node)
        return node

    def added(self, node: ast.expr) -> ast.expr:
        """A sum with its numbers added up, if a slot is one of its terms."""
        terms = signed(node, 1)
        if not any(isinstance(term, ast.Name) and term.id in self.numbers for term, _ in terms):
            return self.inside(node)
        known = [
            (t.value if isinstance(t, ast.Constant) else self.numbers.get(getattr(t, "id", "")), s) for t, s in terms
        ]
        number = sum(int(value) * sign for value, sign in known if isinstance(value, int))
        rest = [
            (self.visit(term), sign)
            for (term, sign), (value, _) in zip(terms, known, strict=True)
            if not isinstance(value, int)
        ]
        if number or not rest:
            rest.append((ast.Constant(abs(number)), 1 if number >= 0 else -1))
        rest.sort(key=lambda pair: pair[1] < 0 and not isinstance(pair[0], ast.Constant))
        (total, sign), *others = rest
        whole = total if sign > 0 else ast.UnaryOp(ast.USub(), total)
        for term, sign in others:
            whole = ast.BinOp(whole, ast.Add() if sign > 0 else ast.Sub(), term)
        return whole


def signed(node: ast.expr, sign: int) -> list[tuple[ast.expr, int]]:
    """The terms of a sum, each with its sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return signed(node.operand, -sign)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and ast.unparse(node.left) == "-1":
        return signed(node.right, -sign)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        other = sign if isinstance(node.op, ast.Add) else -sign
        return [*signed(node.left, sign), *signed(node.right, other)]
    return [(node, sign)]


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
