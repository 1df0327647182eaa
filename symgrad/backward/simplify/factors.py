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

from dataclasses import replace
from decimal import Decimal
from math import gcd, inf, prod

from symgrad.closed_form.writing.shorthand_writers import CALLS
from symgrad.functions import finite
from symgrad.language.python_text import call, is_comparison, negate, strip_minus, write_python
from symgrad.language.syntax_tree import Attribute, Literal, PythonCall, Unary
from symgrad.language.trees import (
    FormCode,
    Fraction,
    is_natural,
    rewrite_tree,
    split_fraction,
    tensor_names,
)
from symgrad.notation.tree import Binary, Name, SyntaxNode
from symgrad.ops import TABLE

DIGITS = 6
"""Characters of a decimal that was multiplied out."""


def collect_powers(factors: list[SyntaxNode]) -> list[SyntaxNode]:
    """x ** 3, of x ** 2 * x: names as often as they are multiplied."""
    found: list[SyntaxNode] = []
    for factor in factors:
        name, times = split_power(factor)
        same = next((n for n, other in enumerate(found) if name is not None and split_power(other)[0] == name), None)
        if same is None or name is None:
            found.append(factor)
        else:
            found[same] = Binary("**", Name(name), Literal(split_power(found[same])[1] + times))
    return found


def split_power(factor: SyntaxNode) -> tuple[str | None, int]:
    """x and 2, of x ** 2; x and 1, of x."""
    match factor:
        case Name(name):
            return name, 1
        case Binary("**", Name(name), Literal(int(times))) if times > 0:
            return name, times
    return None, 1


def split_minus(factors: list[SyntaxNode]) -> tuple[bool, list[SyntaxNode]]:
    """Whether the factors have a minus together, and the factors without theirs; a condition has none."""
    plain, minus = [*factors], False
    for n, factor in enumerate(factors):
        match factor:
            case Unary("-", operand) if not computes_truths(operand):
                plain[n], minus = operand, not minus
    return minus, plain


def negate_product(factors: list[SyntaxNode]) -> list[SyntaxNode]:
    """−2 * v, of 2 * v; −1 * v, of v."""
    first = next((f for f in factors[:1] if is_natural(f) or is_positive_decimal(f)), None)
    rest = factors if first is None else factors[1:]
    return [Unary("-", first or Literal(1)), *rest]


def drop_minus_one(factors: list[SyntaxNode]) -> list[SyntaxNode]:
    """−t * v, of −1 * t * v; a condition has no minus."""
    first, *rest = factors or [Literal(1)]
    match first:
        case Unary("-" as sign, Literal(1)) if rest and not computes_truths(rest[0]):
            return [Unary(sign, rest[0]), *rest[1:]]
    return factors


def cancel_integers(parts: Fraction) -> Fraction:
    """Whole numbers in lowest terms, which are not 0; 1 is no factor."""
    above, over_decimals = multiply_decimals(parts[0])
    below = [*parts[1], *over_decimals]
    flat = [factor for part in below for factor in (split_fraction(part)[0] if not split_fraction(part)[1] else [part])]
    numbers = [[part for part in own if is_natural(part)] for own in (above, flat)]
    if not numbers[0]:
        return drop_ones(above), below
    over, under = (prod(int(write_python(part)) for part in own) for own in numbers)
    shared = gcd(over, under)
    rest, left = ([part for part in own if not is_natural(part)] for own in (above, flat))
    last = [] if under == shared else [Literal(under // shared)]
    return drop_ones([Literal(over // shared), *rest]), [*left, *last]


def multiply_decimals(factors: list[SyntaxNode]) -> Fraction:
    """t, of 2 * t * 0.5; 0.6 * t, of 2 * 0.3 * t; t / 32, of 0.0625 * 0.5 * t: a decimal times the other numbers."""
    numbers = [factor for factor in factors if is_natural(factor) or is_positive_decimal(factor)]
    if len(numbers) < 2 or not any(map(is_positive_decimal, numbers)):
        return factors, []
    value = prod((Decimal(write_python(number)) for number in numbers), start=Decimal(1))
    rest = [factor for factor in factors if factor not in numbers]
    if len(str(value.normalize())) <= DIGITS:
        return [Literal(int(value) if value == int(value) else float(value)), *rest], []
    below = round(1 / value)
    return (rest, [Literal(below)]) if below * value == 1 else (factors, [])


def drop_ones(factors: list[SyntaxNode]) -> list[SyntaxNode]:
    """Without the factors 1, but beside truth values alone: torch neither subtracts nor negates those."""
    rest = [factor for factor in factors if factor != Literal(1)]
    needed = len(rest) < len(factors) and rest and all(map(computes_truths, rest))
    return [Literal(1), *rest] if needed else rest


def computes_truths(node: SyntaxNode) -> bool:
    """Whether true and false are computed, no numbers."""
    finds = isinstance(node, PythonCall) and isinstance(node.function, Name) and node.function.name == CALLS[finite]
    return is_comparison(node) or finds


def is_positive_decimal(node: SyntaxNode) -> bool:
    """Whether a number with a point stands there that is above 0."""
    return isinstance(node, Literal) and type(node.value) is float and 0 < node.value < inf


def order_signs(expression: SyntaxNode) -> SyntaxNode:
    """``expression`` with its signs in order.

    >>> from symgrad.language.python_text import read_python
    >>> write_python(order_signs(read_python("-(-a / 4) / b + -c / 2")))
    'a / 4 / b - c / 2'
    """
    return rewrite_tree(expression, simplify_signs)


def simplify_signs(node: SyntaxNode) -> SyntaxNode:
    """Two minus signs are none, a negative term is subtracted, and stands behind a positive one."""
    match node:
        case Unary("-", operand):
            product = isinstance(operand, Binary) and operand.sign == "@"  # -(a @ b)
            return node if product and strip_minus(operand) is None else negate(operand)
        case Binary("+" | "-" as sign, left, right):
            plus = sign == "+"
            if (without := strip_minus(right)) is not None:
                return Binary("-" if plus else "+", left, without)
            if plus and (without := strip_minus(left)) is not None:
                return Binary("-", right, without)
    return node


LONG, DEEP = 90, 24
"""Characters of a form whose divisor has a name of its own, and of that divisor."""
ROOT = "r"
"""The reciprocal of a standard deviation in textbooks."""


def name_divisor(form: FormCode) -> FormCode:
    """A long quotient with its divisor, which reads no cotangent, named; anything else as it is.

    >>> from symgrad.language.trees import read_form
    >>> long = "v * x - v.mean(-1, keepdim=True) - x * (v * x).mean(-1, keepdim=True)"
    >>> name_divisor(read_form(f"({long}) / (x.var(-1, keepdim=True) + 1).sqrt()")).text[:53]
    'r = 1 / (x.var(-1, keepdim=True) + 1).sqrt(); r * (v '
    """
    known, last = {name for name, _ in form.definitions}, form.last
    if len(write_python(last)) <= LONG or not isinstance(last, Binary) or last.sign != "/":
        return form
    names = tensor_names(last.right)
    if not names or "v" in names or names & known or ROOT in known or len(write_python(last.right)) <= DEEP:
        return form
    over = Binary("/", Literal(1), last.right)
    return FormCode(Binary("*", Name(ROOT), last.left), (*form.definitions, (ROOT, over)))


def drop_ones_like(value: SyntaxNode, like: str) -> SyntaxNode:
    """``1 / 8``, of ``ones_like(a0) / 8`` where ``like`` is a0: what a number gives in the place of a tensor.

    >>> from symgrad.language.python_text import read_python
    >>> write_python(drop_ones_like(read_python("ones_like(a0) / 8"), "a0"))
    '1 / 8'
    """
    if isinstance(value, Unary):
        inner = drop_ones_like(value.operand, like)
        return value if inner is value.operand else Unary(value.sign, inner)
    if not isinstance(value, Binary) or value.sign != "/":
        return value
    above = Literal(1) if value.left == call("ones_like", like) else drop_ones_like(value.left, like)
    return value if above is value.left else Binary("/", above, value.right)


def strip_transpose(node: SyntaxNode) -> SyntaxNode | None:
    """What is turned: x of x.T."""
    return node.owner if isinstance(node, Attribute) and node.name == "T" else None


def strip_reshape(node: SyntaxNode) -> SyntaxNode | None:
    """x, of x.reshape(…)."""
    match node:
        case PythonCall(Attribute(inner, word), _, []) if word in TABLE:
            given = TABLE[word].signature.parameters  # the one operation with a shape that does no more
            return inner if "shape" in given and TABLE[word].traits.role is None else None
    return None


def cancel_transposes(node: SyntaxNode) -> SyntaxNode:
    """(a.T @ b).T → b.T @ a, v.reshape(t.shape).reshape(x.shape) → v.reshape(x.shape)"""
    match node:
        case PythonCall(Attribute(_, word)):
            inner = strip_reshape(node)
            first = None if inner is None else strip_reshape(inner)
            if first is not None:
                return replace(node, function=Attribute(first, word))
        case Attribute(Binary("@", left, right), word) if strip_transpose(node) is not None:
            first = strip_transpose(left)
            return node if first is None else Binary("@", Attribute(right, word), first)
    return node


def drop_double_transposes(value: SyntaxNode) -> SyntaxNode:
    """Products that are not turned twice.

    >>> from symgrad.language.python_text import read_python
    >>> write_python(drop_double_transposes(read_python("(x.T @ v).T")))
    'v.T @ x'
    """
    return rewrite_tree(value, cancel_transposes)
