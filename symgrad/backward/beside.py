"""Parts that lie side by side: a sum of padded tensors that fill an axis is one `cat`, or one `stack`.

    pad(a, (0, n)) + pad(b, (m, 0))                        →  cat([a, b], -1)           a is m wide, b is n wide
    pad(a[None], (…, 0, 1)) + pad(b[None], (…, 1, 0))      →  stack([a, b])
    pad(a, (0, n)) + pad(b, (0, n))                        →  pad(a + b, (0, n))
    a * (t > 0) + b * (t > 0)                              →  (a + b) * (t > 0)

Comes in: terms as Python expressions, and the shape of their sum in numbers. Goes out: one expression, or None; fewer
terms.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

PAD = "pad"
"""The call that puts zeros around a tensor."""


@dataclass(frozen=True)
class Padded:
    """``inner`` stands from ``first`` up to ``last`` on an axis counted from the end, with zeros around it."""

    inner: ast.expr
    axis: int
    first: int
    last: int


def side_by_side(terms: Sequence[ast.expr], shape: tuple[int, ...]) -> ast.expr | None:
    """The terms as one call, where they fill an axis without gap or overlap."""
    parts = [padded(term, shape) for term in terms]
    found = sorted((part for part in parts if part is not None), key=lambda part: part.first)
    if len(found) < max(2, len(terms)) or len({part.axis for part in found}) > 1:
        return None
    axis, length = found[0].axis, shape[found[0].axis]
    edges = [0, *(part.last for part in found)]
    if edges[-1] != length or any(part.first != edge for part, edge in zip(found, edges, strict=False)):
        return None
    inner = [added_axis(part.inner) for part in found]
    if axis == -len(shape) and all(rest is not None for rest in inner):
        pieces = [rest for rest in inner if rest is not None]
        return ast.Call(ast.Name("stack"), [ast.List(pieces)], [])
    place = ast.parse(str(axis if axis == -1 else len(shape) + axis), mode="eval").body
    return ast.Call(ast.Name("cat"), [ast.List([part.inner for part in found]), place], [])


def with_common_margins(terms: Sequence[ast.expr]) -> list[ast.expr]:
    """The terms, those with the same zeros around them as one.

    >>> terms = [ast.parse(text, mode="eval").body for text in ("pad(a[None], (0, 1))", "pad(b[None], (0, 1))")]
    >>> [ast.unparse(term) for term in with_common_margins(terms)]
    ['pad((a + b)[None], (0, 1))']
    """
    groups: dict[str, list[ast.expr]] = {}
    for n, term in enumerate(terms):
        match term:
            case ast.Call(ast.Name(word), [_, margins], []) if word == PAD:
                groups.setdefault(ast.unparse(margins), []).append(term)
            case _:
                groups[str(n)] = [term]
    return [group[0] if len(group) == 1 else ast.Call(ast.Name(PAD), inside(group), []) for group in groups.values()]


def with_common_conditions(terms: Sequence[ast.expr]) -> list[ast.expr]:
    """The terms, those under one condition as one.

    >>> terms = [ast.parse(text, mode="eval").body for text in ("a * (t > 0)", "b @ w", "2 * c * (t > 0)")]
    >>> [ast.unparse(term) for term in with_common_conditions(terms)]
    ['(a + 2 * c) * (t > 0)', 'b @ w']
    """
    groups: dict[str, list[ast.BinOp]] = {}
    found: list[ast.expr | str] = []
    for term in terms:
        match term:
            case ast.BinOp(_, ast.Mult(), ast.Compare() as condition):
                found += [] if ast.unparse(condition) in groups else [ast.unparse(condition)]
                groups.setdefault(ast.unparse(condition), []).append(term)
            case _:
                found.append(term)
    return [under(groups[term]) if isinstance(term, str) else term for term in found]


def under(terms: Sequence[ast.BinOp]) -> ast.expr:
    """(a + b) * c, of a * c and b * c."""
    if len(terms) == 1:
        return terms[0]
    return ast.BinOp(in_sum([term.left for term in terms]), ast.Mult(), terms[0].right)


def inside(pads: Sequence[ast.expr]) -> list[ast.expr]:
    """What is padded, added up, and the margins that all of it has."""
    calls = [pad for pad in pads if isinstance(pad, ast.Call)]
    parts = [call.args[0] for call in calls]
    subscripts = {ast.unparse(part.slice) if isinstance(part, ast.Subscript) else "" for part in parts}
    bare = [added_axis(part) for part in parts]
    if len(subscripts) > 1 or any(part is None for part in bare):
        return [in_sum(parts), calls[0].args[1]]
    first = parts[0]
    inner = in_sum([part for part in bare if part is not None])
    return [ast.Subscript(inner, first.slice if isinstance(first, ast.Subscript) else first), calls[0].args[1]]


def in_sum(parts: Sequence[ast.expr]) -> ast.expr:
    """a + b + c"""
    return reduce(lambda total, part: ast.BinOp(total, ast.Add(), part), parts)


def padded(term: ast.expr, shape: tuple[int, ...]) -> Padded | None:
    """``pad(inner, margins)`` with margins on one axis; the margins are those of the last axis first."""
    if not (isinstance(term, ast.Call) and isinstance(term.func, ast.Name) and term.func.id == PAD):
        return None
    if len(term.args) != 2 or term.keywords or not isinstance(term.args[1], ast.Tuple):
        return None
    margins = [entry.value for entry in term.args[1].elts if isinstance(entry, ast.Constant)]
    if len(margins) != len(term.args[1].elts) or not all(isinstance(m, int) for m in margins):
        return None
    sides = [(int(str(low)), int(str(high))) for low, high in zip(margins[::2], margins[1::2], strict=True)]
    wide = [n for n, side in enumerate(sides) if side != (0, 0)]
    if len(wide) != 1:
        return None
    (low, high), axis = sides[wide[0]], -1 - wide[0]
    return Padded(term.args[0], axis, low, shape[axis] - high)


def added_axis(inner: ast.expr) -> ast.expr | None:
    """a, of a[None] or a[None, :, :]."""
    if not isinstance(inner, ast.Subscript):
        return None
    entries = inner.slice.elts if isinstance(inner.slice, ast.Tuple) else [inner.slice]
    first, *rest = entries
    new = isinstance(first, ast.Constant) and first.value is None
    whole = all(isinstance(e, ast.Slice) and e.lower is None and e.upper is None and e.step is None for e in rest)
    return inner.value if new and whole else None
