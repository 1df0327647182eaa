"""The factors of a product: numbers in lowest terms, one sign, names as powers.

    2 * n / 4        →  n / 2
    2 * v * 0.5      →  v
    2 * -0.5 * v     →  -v
    x ** 2 * x       →  x ** 3

Comes in: what is multiplied and what it is divided by. Goes out: fewer of them, of the same value.

Signs where a person has them: `-(-a / 4) / b + -c` is `a / 4 / b - c`. Every move is exact, in floats too.

Comes in: an expression. Goes out: the same with fewer minus signs and brackets.
"""

from __future__ import annotations

import ast
from decimal import Decimal
from math import gcd, inf, prod

from symgrad.backward.parts.trees import copied, rewritten
from symgrad.backward.shortening.phrasing import product
from symgrad.closed_form.lowering import CALLS
from symgrad.functions import finite

Fraction = tuple[list[ast.expr], list[ast.expr]]
"""What is multiplied, and what it is divided by."""
DIGITS = 6
"""Characters of a decimal that was multiplied out."""


def fraction(node: ast.expr) -> Fraction:
    """The factors of an expression from the left, and its divisors."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        above, below = fraction(node.left)
        if isinstance(node.op, ast.Div):
            return above, [*below, node.right]
        over, under = fraction(node.right)
        return [*above, *over], [*below, *under]
    if isinstance(node, ast.Subscript):
        return numbers_out(node)
    return [node], []


def numbers_out(node: ast.Subscript) -> Fraction:
    """2 and a[:, None], of (2 * a)[:, None]."""
    above, below = fraction(node.value)
    over, under = ([part for part in own if is_whole(part)] for own in (above, below))
    rest = [part for part in above if not is_whole(part)]
    if not rest or not (over or under):
        return [node], []
    inside = written((rest, [part for part in below if not is_whole(part)]))
    return [*over, ast.Subscript(inside, node.slice, node.ctx)], under


def powers(factors: list[ast.expr]) -> list[ast.expr]:
    """x ** 3, of x ** 2 * x: names as often as they are multiplied."""
    found: list[ast.expr] = []
    for factor in factors:
        name, times = raised(factor)
        same = next((n for n, other in enumerate(found) if name is not None and raised(other)[0] == name), None)
        if same is None or name is None:
            found.append(factor)
        else:
            found[same] = ast.BinOp(ast.Name(name), ast.Pow(), ast.Constant(raised(found[same])[1] + times))
    return found


def raised(factor: ast.expr) -> tuple[str | None, int]:
    """x and 2, of x ** 2; x and 1, of x."""
    match factor:
        case ast.Name(name):
            return name, 1
        case ast.BinOp(ast.Name(name), ast.Pow(), ast.Constant(int(times))) if times > 0:
            return name, times
    return None, 1


def sign_first(factors: list[ast.expr]) -> list[ast.expr]:
    """−2 * v, of 2 * −v; a condition has no minus."""
    first, *rest = factors or [ast.Constant(1)]
    minus = [n for n, factor in enumerate(rest) if isinstance(factor, ast.UnaryOp) and isinstance(factor.op, ast.USub)]
    if not minus or not isinstance(first, (ast.Constant, ast.Name)):
        return factors
    plain = [factor.operand if n in minus else factor for n, factor in enumerate(rest)]  # type: ignore[attr-defined]  # ``minus`` are those with an operand
    return without_ones([ast.UnaryOp(ast.USub(), first) if len(minus) % 2 else first, *plain])


def without_minus(factors: list[ast.expr]) -> tuple[bool, list[ast.expr]]:
    """Whether names and numbers among the factors have a minus together, and the factors without theirs."""
    plain, minus = [*factors], False
    for n, factor in enumerate(factors):
        match factor:
            case ast.UnaryOp(ast.USub(), operand) if isinstance(operand, ast.Name) or is_positive(operand):
                plain[n], minus = operand, not minus
    return minus, plain


def negative(factors: list[ast.expr]) -> list[ast.expr]:
    """−2 * v, of 2 * v; −1 * v, of v."""
    first = factors[0] if factors and is_positive(factors[0]) else None
    rest = factors if first is None else factors[1:]
    return [ast.UnaryOp(ast.USub(), first or ast.Constant(1)), *rest]


def is_positive(node: ast.expr) -> bool:
    """Whether a number above 0 stands there."""
    return is_whole(node) or has_point(node)


def without_minus_one(factors: list[ast.expr]) -> list[ast.expr]:
    """−t * v, of −1 * t * v; a condition has no minus."""
    first, *rest = factors or [ast.Constant(1)]
    match first:
        case ast.UnaryOp(ast.USub() as sign, ast.Constant(1)) if rest and not is_truth(rest[0]):
            return [ast.UnaryOp(sign, rest[0]), *rest[1:]]
    return factors


def cancelled(parts: Fraction) -> Fraction:
    """Whole numbers in lowest terms, which are not 0; 1 is no factor."""
    above, over_decimals = with_decimals(parts[0])
    below = [*parts[1], *over_decimals]
    flat = [factor for part in below for factor in (fraction(part)[0] if not fraction(part)[1] else [part])]
    numbers = [[part for part in own if is_whole(part)] for own in (above, flat)]
    if not numbers[0] or len(numbers[0] + numbers[1]) < 2:
        return without_ones(above), below
    over, under = (prod(int(ast.unparse(part)) for part in own) for own in numbers)
    shared = gcd(over, under)
    rest, left = ([part for part in own if not is_whole(part)] for own in (above, flat))
    last = [] if under == shared else [ast.Constant(under // shared)]
    return without_ones([ast.Constant(over // shared), *rest]), [*left, *last]


def with_decimals(factors: list[ast.expr]) -> Fraction:
    """t, of 2 * t * 0.5; 0.6 * t, of 2 * 0.3 * t; t / 32, of 0.0625 * 0.5 * t: a decimal times the other numbers."""
    numbers = [factor for factor in factors if is_whole(factor) or has_point(factor)]
    if len(numbers) < 2 or not any(map(has_point, numbers)):
        return factors, []
    value = prod((Decimal(ast.unparse(number)) for number in numbers), start=Decimal(1))
    rest = [factor for factor in factors if factor not in numbers]
    if len(str(value.normalize())) <= DIGITS:
        return [ast.Constant(int(value) if value == int(value) else float(value)), *rest], []
    below = round(1 / value)
    return (rest, [ast.Constant(below)]) if below * value == 1 else (factors, [])


def without_ones(factors: list[ast.expr]) -> list[ast.expr]:
    """Without the factors 1, but beside truth values alone: torch neither subtracts nor negates those."""
    rest = [factor for factor in factors if ast.unparse(factor) != "1"]
    needed = len(rest) < len(factors) and rest and all(map(is_truth, rest))
    return [ast.Constant(1), *rest] if needed else rest


def is_truth(node: ast.expr) -> bool:
    """Whether true and false are computed, no numbers."""
    finds = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == CALLS[finite]
    return isinstance(node, ast.Compare) or finds


def is_whole(node: ast.expr) -> bool:
    """Whether a whole number that is not 0 stands there."""
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value > 0


def has_point(node: ast.expr) -> bool:
    """Whether a number with a point stands there that is above 0."""
    return isinstance(node, ast.Constant) and type(node.value) is float and 0 < node.value < inf


def written(parts: Fraction) -> ast.expr:
    """a * b / c / d"""
    above, below = parts
    whole = product(above) if above else ast.Constant(1)
    for part in below:
        whole = ast.BinOp(whole, ast.Div(), part)
    return whole


SCALING = (ast.Mult, ast.Div)


def with_signs(expression: ast.expr) -> ast.expr:
    """``expression`` with its signs in order; the given tree stays as it is.

    >>> ast.unparse(with_signs(ast.parse("-(-a / 4) / b + -c / 2", mode="eval").body))
    'a / 4 / b - c / 2'
    """
    return rewritten(copied(expression), signed_once)


def negated(term: ast.expr) -> ast.expr | None:
    """a, of −a; a / 2, of −a / 2; None without a minus in front."""
    if isinstance(term, ast.UnaryOp) and isinstance(term.op, ast.USub):
        return term.operand
    if isinstance(term, ast.BinOp) and isinstance(term.op, (*SCALING, ast.MatMult)):
        left = negated(term.left)
        return None if left is None else ast.BinOp(left, term.op, term.right)
    return None


def minus(term: ast.expr) -> ast.expr:
    """−a, the sign at the first factor of a product."""
    without = negated(term)
    if without is not None:
        return without
    if isinstance(term, ast.BinOp) and isinstance(term.op, SCALING):
        return ast.BinOp(minus(term.left), term.op, term.right)
    return ast.UnaryOp(ast.USub(), term)


def signed_once(node: ast.expr) -> ast.expr:
    """Two minus signs are none, a negative term is subtracted, and stands behind a positive one."""
    match node:
        case ast.UnaryOp(ast.USub(), operand):
            return minus(operand)
        case ast.BinOp(left, ast.Add() | ast.Sub() as sign, right):
            plus = isinstance(sign, ast.Add)
            if (without := negated(right)) is not None:
                return ast.BinOp(left, ast.Sub() if plus else ast.Add(), without)
            if plus and (without := negated(left)) is not None:
                return ast.BinOp(right, ast.Sub(), without)
    return node
