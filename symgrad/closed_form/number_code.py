"""Numbers and sizes as code: 2.8284271247461903 is ``8 ** 0.5``, half an axis is ``x.shape[2] // 2``.

Comes in: a float, or an expression in size symbols and the tensors whose shapes name them. Goes out: Python, as a tree.
A long decimal is written as what it was computed of: the root of a whole number, where Python's
own root is that very float, or the quotient of two numbers. A size is whole, so where it is a part of another it is
divided by //.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from math import isclose, isfinite, isqrt, pi, prod
from typing import Any, TypeVar

import sympy as sp

from symgrad.closed_form.rewriting.shorthands import Root
from symgrad.indexing.symbols import Expr
from symgrad.language.python_text import add, index, method, multiply, to_code
from symgrad.language.syntax_tree import Literal
from symgrad.notation.tree import Binary, Name, SyntaxNode
from symgrad.program import Constant, Program, Tensor
from symgrad.shapes import Size, SlotSymbol

LARGEST = 10**6
"""Whole numbers up to here are sizes that somebody took the root of."""

MOST_TURNS = 8
"""Multiples of π up to here are written as such."""
LONG, FEW, SIMPLE = 12, 7, 5
"""Characters of a decimal that nobody wrote, of one that somebody may have written, of one that is read at a glance."""


class NoForm(Exception):
    """There is no matrix notation for this; the index formula is the answer."""


def require_all(*conditions: object) -> None:
    """`NoForm` unless all of them hold."""
    if not all(conditions):
        raise NoForm


Written = TypeVar("Written")


def first_form(ways: Iterable[Callable[..., Written]], *given: Any) -> Written:
    """What the first way gives that can write what is ``given``; `NoForm` where none can."""
    for way in ways:
        try:
            return way(*given)
        except NoForm:
            continue
    raise NoForm


def find_root(value: float) -> int | None:
    """n, where ``value`` is n ** 0.5 to the last digit and no whole number.

    >>> find_root(2.8284271247461903), find_root(2.8284), find_root(3.0)
    (8, None, None)
    """
    if not 1 < value <= LARGEST**0.5:
        return None
    n = round(value * value)
    return n if n**0.5 == value and isqrt(n) ** 2 != n else None


PI = to_code("math.pi")


def find_multiple_of_pi(value: float) -> SyntaxNode | None:
    """``math.pi``, a multiple of it or its half, where ``value`` is that to the last digit.

    >>> from symgrad.language.python_text import write_python
    >>> [write_python(find_multiple_of_pi(value)) for value in (6.283185307179586, 1.5707963267948966)]
    ['2 * math.pi', 'math.pi / 2']
    """
    n = round(value / pi) if 0 < value <= MOST_TURNS * pi else 0
    if value == pi / 2:
        return Binary("/", PI, Literal(2))
    if not n or n * pi != value:
        return None
    return Binary("*", Literal(n), PI) if n > 1 else PI


def find_exact_code(value: float) -> SyntaxNode | None:
    """What ``value`` was computed of, a root or π, where Python comes to that very float."""
    root = find_root(value)
    return find_multiple_of_pi(value) if root is None else write_square_root(root)


def write_square_root(number: int) -> SyntaxNode:
    """``8 ** 0.5``"""
    return Binary("**", Literal(number), Literal(0.5))


def find_inverse_root(value: float) -> int | None:
    """n, where ``value`` is 1 / n ** 0.5 or n ** -0.5 to the last digit.

    >>> find_inverse_root(0.35355339059327373), find_inverse_root(0.3535533905932738), find_inverse_root(0.125)
    (8, 8, None)
    """
    if not 1 / LARGEST**0.5 <= value < 1:
        return None
    n = round(1 / (value * value))
    return n if value in (1 / n**0.5, n**-0.5) and isqrt(n) ** 2 != n else None


def write_decimal(number: Expr) -> SyntaxNode:
    """A decimal; 1e308 · 1e308 is none."""
    value = float(number)
    if not isfinite(value):
        raise NoForm
    return to_code(value)


def find_quotient(value: float, counts: Iterable[int]) -> tuple[float, float] | None:
    """Two numbers of few digits that a long one is the quotient of: a share by one of ``counts``, or 1 by a decimal.

    >>> find_quotient(0.041666666666666664, [6]), find_quotient(1 / 0.07, [6]), find_quotient(0.25, [6])
    ((0.25, 6), (1, 0.07), None)
    >>> find_quotient(1000000000000.0, [6])  # whole, and no longer than 1e-12 is
    """
    if value.is_integer() or len(repr(value)) <= LONG:
        return None
    shares = [(drop_last_digit(value * count), count) for count in counts] if value < 1 else []
    for pairs in (shares, [(1, drop_last_digit(1 / value))]):
        short = [pair for pair in pairs if max(map(len, map(repr, pair))) <= FEW]
        found = [(p, q) for p, q in short if isclose(p / q, value, rel_tol=1e-15)]
        if found:
            return min(found, key=lambda pair: len(repr(pair[0])))
    return None


def write_reciprocal(value: float) -> SyntaxNode | None:
    """``1 / 60`` or ``8 ** -0.5``, of a decimal that is that very float; None of one that somebody wrote.

    >>> from symgrad.language.python_text import write_python
    >>> [write_python(write_reciprocal(value)) for value in (0.016666666666666666, 0.35355339059327373, 8**-0.5)]
    ['1 / 60', '1 / 8 ** 0.5', '8 ** -0.5']
    >>> write_reciprocal(0.125), write_reciprocal(0.016666666666666)
    (None, None)
    """
    if (n := find_inverse_root(value)) is not None:
        whole = value == n**-0.5
        return Binary("**", Literal(n), to_code(-0.5)) if whole else Binary("/", Literal(1), write_square_root(n))
    found = find_quotient(value, ()) if value > 0 else None
    exact = found is not None and 1 / found[1] == value
    return Binary("/", Literal(1), plain_number(found[1])) if found is not None and exact else None


def plain_number(value: float) -> SyntaxNode:
    """24, of 24.0."""
    return Literal(int(value) if value == int(value) else value)


def split_decimal(number: Expr, program: Program) -> tuple[Expr, Expr]:
    """What a decimal is written as, and what divides it: a root, a size of the program, or a decimal somebody wrote."""
    value = float(number)
    n = find_inverse_root(value)
    if n is not None:
        return sp.S.One, Root(sp.Integer(n))
    found = find_quotient(value, counts_of_entries_in(program))
    if found is not None:
        return drop_decimal_point(found[0]), drop_decimal_point(found[1])
    under = find_unit_fraction(value, counts_of_entries_in(program), numbers_given_in(program))
    return (number, sp.S.One) if under is None else (sp.S.One, sp.Integer(under))


def find_unit_fraction(value: float, counts: Iterable[int], said: Iterable[float]) -> int | None:
    """8, of a 0.125 that is not ``said`` anywhere: of halves, as 0.5 in front of a mean over 4; or one of ``counts``.

    >>> find_unit_fraction(0.0625, [16], [0.0625]), find_unit_fraction(0.0625, [8], [0.0625])
    (16, None)
    >>> find_unit_fraction(0.25, [4], [0.25]), find_unit_fraction(0.125, [], [])
    (None, 8)
    """
    under = round(1 / value) if 0 < value <= 1 / 4 else 1
    if under == 1 or value * under != 1:
        return None
    if under & (under - 1) == 0 and under <= LARGEST and value not in said:
        return under
    return under if SIMPLE < len(repr(value)) <= LONG and under in counts else None


def numbers_given_in(program: Program) -> Iterator[float]:
    """The numbers that a program is told, without their signs; looked for when asked for."""
    arguments = (argument for step in program.steps for argument in step.arguments)
    yield from (abs(a.value) for a in arguments if isinstance(a, Constant) and isinstance(a.value, (int, float)))


def counts_of_entries_in(program: Program) -> Iterator[int]:
    """The sizes of a program that are numbers, and how many entries its tensors have; looked for when asked for."""
    sizes = {size for tensor in program.tensors() for size in (*tensor.shape, prod(tensor.shape))}
    yield from sorted(int(size) for size in sizes if isinstance(size, (int, sp.Integer)) and size > 1)


def write_quotient(number: Expr, program: Program) -> SyntaxNode | None:
    """``-0.1 / 12``, of the decimal that it is; None of what is no quotient by a size."""
    over, under = split_decimal(abs(number), program)
    if not (under.is_Integer and under > 1):
        return None
    return Binary("/", write_decimal(sp.sign(number) * over), Literal(int(under)))


def drop_decimal_point(value: float) -> Expr:
    """24, of 24.0."""
    return sp.Integer(int(value)) if value == int(value) else sp.Float(value)


def drop_last_digit(value: float) -> float:
    """A float without the last digit, which reckoning may have changed."""
    return float(f"{value:.14g}")


def describe_least_sizes(required: Iterable[Size]) -> tuple[str, ...]:
    """What sizes have to be where nothing in ``required`` is negative, the strictest of each: ``m ≥ 6``.

    >>> m = sp.Symbol("m")
    >>> describe_least_sizes([m - 2, m - 6])
    ('m ≥ 6',)
    """
    strictest: dict[Size, Size] = {}
    for size in required:
        least, rest = sp.expand(size).as_coeff_Add()
        strictest[rest] = min(least, strictest.get(rest, least))
    found = []
    for rest, least in strictest.items():
        taken = [-term for term in sp.Add.make_args(rest) if term.could_extract_minus_sign()]
        if rest.free_symbols:
            found.append(f"{rest + sum(taken)} ≥ {sum(taken) - least}")
    return tuple(found)


def write_size(size: Size, tensors: Sequence[Tensor]) -> SyntaxNode:
    """A size as code; `NoForm` where no tensor has a size to write it with."""
    if size.is_Integer:
        return to_code(int(size))
    found = Name(str(size)) if isinstance(size, SlotSymbol) else find_size_in_shapes(size, tensors)
    if found is not None:
        return found
    if isinstance(size, sp.Mod):
        return write_size_operation("%", size.args[0], size.args[1], tensors)
    above, below = sp.fraction(sp.together(size.args[0] if isinstance(size, sp.floor) else size))
    if below != 1:
        rooted = not size.is_Function and any(not power.exp.is_Integer for power in above.atoms(sp.Pow))
        return write_size_operation("/" if rooted else "//", sp.expand(above), below, tensors)
    if size.is_Add:
        return write_size_sum(size, tensors)
    if size.is_Mul:
        return reduce(multiply, (write_size(part, tensors) for part in size.args))
    if size.is_Pow and size.exp.is_Rational:
        return Binary("**", write_size(size.base, tensors), to_code(float(size.exp)))
    raise NoForm


def find_size_in_shapes(size: Size, tensors: Sequence[Tensor]) -> SyntaxNode | None:
    """A size that an input has, a part of one, or the number of an input's entries."""
    axes = [(tensor.name, axis, own) for tensor in tensors for axis, own in enumerate(tensor.shape)]
    for name, axis, own in axes:
        if own == size:
            return axis_size(name, axis)
    for tensor in tensors:
        if len(tensor.shape) > 1 and (size - sp.Mul(*tensor.shape)) == 0:
            return method(tensor.name, "numel")
    for name, axis, own in axes if size.is_Symbol else ():
        if own != 0 and (own / size).is_Integer:
            return Binary("//", axis_size(name, axis), Literal(int(own / size)))
    return None


def axis_size(name: str, axis: int) -> SyntaxNode:
    """``x.shape[0]``"""
    return index(f"{name}.shape", [axis])


def write_size_operation(sign: str, left: Size, right: Size, tensors: Sequence[Tensor]) -> SyntaxNode:
    """Two sizes with a sign that binds like *."""
    return Binary(sign, write_size(left, tensors), write_size(right, tensors))


def write_size_sum(size: Size, tensors: Sequence[Tensor]) -> SyntaxNode:
    """What is added first, then what is subtracted, numbers last: unless nothing else is added."""
    terms = sorted(size.args, key=lambda t: (bool(t.is_number), bool(t.could_extract_minus_sign())))
    if terms[0].could_extract_minus_sign() and not terms[-1].could_extract_minus_sign():
        terms = [terms[-1], *terms[:-1]]
    whole = write_size(terms[0], tensors)
    for term in terms[1:]:
        minus = term.could_extract_minus_sign()
        whole = add(whole, write_size(-term if minus else term, tensors), "-" if minus else "+")
    return whole
