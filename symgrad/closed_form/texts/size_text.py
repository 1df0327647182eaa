"""Sizes and positions as text: whole numbers made of the inputs' own sizes, as in ``(x.shape[2] - w.shape[2]) % 2``.

Comes in: an expression in size symbols and the tensors whose shapes name them. Goes out: Python text. A size is whole,
so where it is a part of another it is divided by //.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sympy as sp

from symgrad.closed_form.texts.pieces import ADD, ATOM, MULTIPLY, NEGATE, POWER, NoForm, Text, bracketed
from symgrad.program import Tensor
from symgrad.shapes import Size, Slot


def least_sizes(required: Iterable[Size]) -> tuple[str, ...]:
    """What sizes have to be where nothing in ``required`` is negative, the strictest of each: ``m ≥ 6``.

    >>> m = sp.Symbol("m")
    >>> least_sizes([m - 2, m - 6])
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


def size_text(size: Size, tensors: Sequence[Tensor]) -> Text:
    """A size as text; `NoForm` where no tensor has a size to write it with."""
    if size.is_Integer:
        return str(size), NEGATE if size < 0 else ATOM
    found = (str(size), ATOM) if isinstance(size, Slot) else in_a_shape(size, tensors)
    if found is not None:
        return found
    if isinstance(size, sp.Mod):
        return operation("%", size.args[0], size.args[1], tensors)
    above, below = sp.fraction(sp.together(size.args[0] if isinstance(size, sp.floor) else size))
    if below != 1:
        return operation("//", sp.expand(above), below, tensors)
    if size.is_Add:
        return sum_text(size, tensors)
    if size.is_Mul:
        first, *others = size.args
        parts = [bracketed(*size_text(first, tensors), MULTIPLY)]
        parts += [bracketed(*size_text(part, tensors), POWER) for part in others]  # 2 * (n // 3) is not 2 * n // 3
        return " * ".join(parts), MULTIPLY
    if size.is_Pow and size.exp.is_Rational:
        return f"{bracketed(*size_text(size.base, tensors), ATOM)} ** {float(size.exp)!r}", POWER
    raise NoForm


def in_a_shape(size: Size, tensors: Sequence[Tensor]) -> Text | None:
    """A size that an input has, a part of one, or the number of an input's entries."""
    axes = [(tensor.name, axis, own) for tensor in tensors for axis, own in enumerate(tensor.shape)]
    for name, axis, own in axes:
        if own == size:
            return f"{name}.shape[{axis}]", ATOM
    for tensor in tensors:
        if len(tensor.shape) > 1 and (size - sp.Mul(*tensor.shape)) == 0:
            return f"{tensor.name}.numel()", ATOM
    for name, axis, own in axes if size.is_Symbol else ():
        if own != 0 and (own / size).is_Integer:
            return f"{name}.shape[{axis}] // {own / size}", MULTIPLY
    return None


def operation(sign: str, left: Size, right: Size, tensors: Sequence[Tensor]) -> Text:
    """Two sizes with a sign that binds like *; what is written with * stands in brackets beside it."""
    sides = [bracketed(*size_text(side, tensors), ATOM if sign == "%" else POWER) for side in (left, right)]
    return f"{sides[0]} {sign} {sides[1]}", MULTIPLY


def sum_text(size: Size, tensors: Sequence[Tensor]) -> Text:
    """What is added first, then what is subtracted, numbers last: unless nothing else is added."""
    terms = sorted(size.args, key=lambda t: (bool(t.is_number), bool(t.could_extract_minus_sign())))
    if terms[0].could_extract_minus_sign() and not terms[-1].could_extract_minus_sign():
        terms = [terms[-1], *terms[:-1]]
    text = ""
    for term in terms:
        minus = bool(text) and term.could_extract_minus_sign()
        part = bracketed(*size_text(-term if minus else term, tensors), MULTIPLY if minus else ADD)
        text = f"{text} {'-' if minus else '+'} {part}" if text else part
    return text, ADD
