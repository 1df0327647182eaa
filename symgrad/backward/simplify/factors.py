"""Products, quotients and signs in their simplest form: fewer numbers, fewer brackets, one minus. Every rule is exact.

    2 * n / 4        →  n / 2
    2 * v * 0.5      →  v
    2 * -0.5 * v     →  -v
    x ** 2 * x       →  x ** 3
    -(-a / 4) / b + -c                   →  a / 4 / b - c
    (x.T @ v).T                          →  v.T @ x
    v.reshape(t.shape).reshape(x.shape)  →  v.reshape(x.shape)
    ones_like(x) / 8                     →  1 / 8, where a number does
    (a − b) / (x.var(…) + ε).sqrt()      →  r = 1 / (x.var(…) + ε).sqrt(); r * (a − b)

Comes in: an expression, or factors and divisors. Goes out: an expression of the same value, as a person writes it.
"""

from __future__ import annotations

import ast
from decimal import Decimal
from math import gcd, inf, prod

from symgrad.backward.trees import (
    SCALING,
    Fraction,
    copy_tree,
    is_natural,
    rewrite_tree,
    split_fraction,
    strip_minus,
    tensor_names,
)
from symgrad.closed_form.array_text import CALLS
from symgrad.functions import finite
from symgrad.ops import TABLE

DIGITS = 6
"""Characters of a decimal that was multiplied out."""


def collect_powers(factors: list[ast.expr]) -> list[ast.expr]:
    """x ** 3, of x ** 2 * x: names as often as they are multiplied."""
    found: list[ast.expr] = []
    for factor in factors:
        name, times = split_power(factor)
        same = next((n for n, other in enumerate(found) if name is not None and split_power(other)[0] == name), None)
        if same is None or name is None:
            found.append(factor)
        else:
            found[same] = ast.BinOp(ast.Name(name), ast.Pow(), ast.Constant(split_power(found[same])[1] + times))
    return found


def split_power(factor: ast.expr) -> tuple[str | None, int]:
    """x and 2, of x ** 2; x and 1, of x."""
    match factor:
        case ast.Name(name):
            return name, 1
        case ast.BinOp(ast.Name(name), ast.Pow(), ast.Constant(int(times))) if times > 0:
            return name, times
    return None, 1


def split_minus(factors: list[ast.expr]) -> tuple[bool, list[ast.expr]]:
    """Whether the factors have a minus together, and the factors without theirs; a condition has none."""
    plain, minus = [*factors], False
    for n, factor in enumerate(factors):
        match factor:
            case ast.UnaryOp(ast.USub(), operand) if not computes_truths(operand):
                plain[n], minus = operand, not minus
    return minus, plain


def negate_product(factors: list[ast.expr]) -> list[ast.expr]:
    """−2 * v, of 2 * v; −1 * v, of v."""
    first = next((f for f in factors[:1] if is_natural(f) or is_positive_decimal(f)), None)
    rest = factors if first is None else factors[1:]
    return [ast.UnaryOp(ast.USub(), first or ast.Constant(1)), *rest]


def drop_minus_one(factors: list[ast.expr]) -> list[ast.expr]:
    """−t * v, of −1 * t * v; a condition has no minus."""
    first, *rest = factors or [ast.Constant(1)]
    match first:
        case ast.UnaryOp(ast.USub() as sign, ast.Constant(1)) if rest and not computes_truths(rest[0]):
            return [ast.UnaryOp(sign, rest[0]), *rest[1:]]
    return factors


def cancel_integers(parts: Fraction) -> Fraction:
    """Whole numbers in lowest terms, which are not 0; 1 is no factor."""
    above, over_decimals = multiply_decimals(parts[0])
    below = [*parts[1], *over_decimals]
    flat = [factor for part in below for factor in (split_fraction(part)[0] if not split_fraction(part)[1] else [part])]
    numbers = [[part for part in own if is_natural(part)] for own in (above, flat)]
    if not numbers[0]:
        return drop_ones(above), below
    over, under = (prod(int(ast.unparse(part)) for part in own) for own in numbers)
    shared = gcd(over, under)
    rest, left = ([part for part in own if not is_natural(part)] for own in (above, flat))
    last = [] if under == shared else [ast.Constant(under // shared)]
    return drop_ones([ast.Constant(over // shared), *rest]), [*left, *last]


def multiply_decimals(factors: list[ast.expr]) -> Fraction:
    """t, of 2 * t * 0.5; 0.6 * t, of 2 * 0.3 * t; t / 32, of 0.0625 * 0.5 * t: a decimal times the other numbers."""
    numbers = [factor for factor in factors if is_natural(factor) or is_positive_decimal(factor)]
    if len(numbers) < 2 or not any(map(is_positive_decimal, numbers)):
        return factors, []
    value = prod((Decimal(ast.unparse(number)) for number in numbers), start=Decimal(1))
    rest = [factor for factor in factors if factor not in numbers]
    if len(str(value.normalize())) <= DIGITS:
        return [ast.Constant(int(value) if value == int(value) else float(value)), *rest], []
    below = round(1 / value)
    return (rest, [ast.Constant(below)]) if below * value == 1 else (factors, [])


def drop_ones(factors: list[ast.expr]) -> list[ast.expr]:
    """Without the factors 1, but beside truth values alone: torch neither subtracts nor negates those."""
    rest = [factor for factor in factors if ast.unparse(factor) != "1"]
    needed = len(rest) < len(factors) and rest and all(map(computes_truths, rest))
    return [ast.Constant(1), *rest] if needed else rest


def computes_truths(node: ast.expr) -> bool:
    """Whether true and false are computed, no numbers."""
    finds = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == CALLS[finite]
    return isinstance(node, ast.Compare) or finds


def is_positive_decimal(node: ast.expr) -> bool:
    """Whether a number with a point stands there that is above 0."""
    return isinstance(node, ast.Constant) and type(node.value) is float and 0 < node.value < inf


def order_signs(expression: ast.expr) -> ast.expr:
    """``expression`` with its signs in order; the given tree stays as it is.

    >>> ast.unparse(order_signs(ast.parse("-(-a / 4) / b + -c / 2", mode="eval").body))
    'a / 4 / b - c / 2'
    """
    return rewrite_tree(copy_tree(expression), simplify_signs)


def add_minus(term: ast.expr) -> ast.expr:
    """−a, the sign at the first factor of a product."""
    without = strip_minus(term)
    if without is not None:
        return without
    if isinstance(term, ast.BinOp) and isinstance(term.op, SCALING):
        return ast.BinOp(add_minus(term.left), term.op, term.right)
    return ast.UnaryOp(ast.USub(), term)


def simplify_signs(node: ast.expr) -> ast.expr:
    """Two minus signs are none, a negative term is subtracted, and stands behind a positive one."""
    match node:
        case ast.UnaryOp(ast.USub(), operand):
            return add_minus(operand)
        case ast.BinOp(left, ast.Add() | ast.Sub() as sign, right):
            plus = isinstance(sign, ast.Add)
            if (without := strip_minus(right)) is not None:
                return ast.BinOp(left, ast.Sub() if plus else ast.Add(), without)
            if plus and (without := strip_minus(left)) is not None:
                return ast.BinOp(right, ast.Sub(), without)
    return node


LONG, DEEP = 90, 24
"""Characters of a form whose divisor has a name of its own, and of that divisor."""
ROOT = "r"
"""The reciprocal of a standard deviation in textbooks."""
Definitions = list[tuple[str, ast.expr]]


def name_divisor(definitions: Definitions, last: ast.expr) -> tuple[Definitions, ast.expr]:
    """A long quotient with its divisor, which reads no cotangent, named; anything else as it is.

    >>> long = "v * x - v.mean(-1, keepdim=True) - x * (v * x).mean(-1, keepdim=True)"
    >>> names, last = name_divisor([], ast.parse(f"({long}) / (x.var(-1, keepdim=True) + 1).sqrt()", mode="eval").body)
    >>> print(ast.unparse(names[0][1]), "|", ast.unparse(last)[:9])
    1 / (x.var(-1, keepdim=True) + 1).sqrt() | r * (v *
    """
    known = {name for name, _ in definitions}
    if len(ast.unparse(last)) <= LONG or not isinstance(last, ast.BinOp) or not isinstance(last.op, ast.Div):
        return definitions, last
    names = tensor_names(last.right)
    if not names or "v" in names or names & known or ROOT in known or len(ast.unparse(last.right)) <= DEEP:
        return definitions, last
    over = ast.BinOp(ast.Constant(1), ast.Div(), last.right)
    return [*definitions, (ROOT, over)], ast.BinOp(ast.Name(ROOT), ast.Mult(), last.left)


def drop_ones_like(value: ast.expr, like: str) -> ast.expr:
    """``1 / 8``, of ``ones_like(a0) / 8`` where ``like`` is a0: what a number gives in the place of a tensor.

    >>> ast.unparse(drop_ones_like(ast.parse("ones_like(a0) / 8", mode="eval").body, "a0"))
    '1 / 8'
    """
    if isinstance(value, ast.UnaryOp):
        inner = drop_ones_like(value.operand, like)
        return value if inner is value.operand else ast.UnaryOp(value.op, inner)
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Div):
        return value
    above = ast.Constant(1) if ast.unparse(value.left) == f"ones_like({like})" else drop_ones_like(value.left, like)
    return value if above is value.left else ast.BinOp(above, ast.Div(), value.right)


def fill_ones(number: ast.expr, ones: ast.expr) -> ast.expr:
    """A number everywhere, the other way round.

    >>> ast.unparse(fill_ones(ast.parse("-1 / 8", mode="eval").body, ast.Name("ones")))
    '-ones / 8'
    >>> ast.unparse(fill_ones(ast.Constant(-1), ast.Name("ones")))
    '-ones'
    """
    if isinstance(number, ast.Constant) and number.value == 1:
        return ones
    if isinstance(number, ast.Constant) and number.value == -1:
        return ast.UnaryOp(ast.USub(), ones)
    if isinstance(number, ast.UnaryOp):
        return ast.UnaryOp(number.op, fill_ones(number.operand, ones))
    if isinstance(number, ast.BinOp) and isinstance(number.op, ast.Div):
        return ast.BinOp(fill_ones(number.left, ones), ast.Div(), number.right)
    return ast.BinOp(number, ast.Mult(), ones)


def strip_transpose(node: ast.expr) -> ast.expr | None:
    """What is turned: x of x.T."""
    return node.value if isinstance(node, ast.Attribute) and node.attr == "T" else None


def strip_reshape(node: ast.expr) -> ast.expr | None:
    """x, of x.reshape(…)."""
    match node:
        case ast.Call(ast.Attribute(inner, word), _, []) if word in TABLE:
            given = TABLE[word].signature.parameters  # the one operation with a shape that does no more
            return inner if "shape" in given and TABLE[word].traits.role is None else None
    return None


def cancel_transposes(node: ast.expr) -> ast.expr:
    """(a.T @ b).T → b.T @ a, v.reshape(t.shape).reshape(x.shape) → v.reshape(x.shape)"""
    match node:
        case ast.Call(ast.Attribute(_, word)):
            inner = strip_reshape(node)
            first = None if inner is None else strip_reshape(inner)
            if first is not None:
                node.func = ast.Attribute(first, word)
        case ast.Attribute(ast.BinOp(left, ast.MatMult(), right), word) if strip_transpose(node) is not None:
            first = strip_transpose(left)
            return node if first is None else ast.BinOp(ast.Attribute(right, word), ast.MatMult(), first)
    return node


def drop_double_transposes(value: ast.expr) -> ast.expr:
    """Products that are not turned twice.

    >>> ast.unparse(drop_double_transposes(ast.parse("(x.T @ v).T", mode="eval").body))
    'v.T @ x'
    """
    return rewrite_tree(value, cancel_transposes)
