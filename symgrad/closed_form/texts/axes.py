"""What the writers ask about axes: in which order they stand, and which factors belong together.

Writing a sum of terms: what is added first, what is subtracted after it, truth values as numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sympy as sp

from symgrad.closed_form.rewriting.asking import boolean, indices_in
from symgrad.closed_form.texts.pieces import ADD, COMPARE, MULTIPLY, Axes, Piece, aligned
from symgrad.indexing import Index
from symgrad.indexing.symbols import Expr, indices_of, is_access


def axis_in(axes: Axes, index: Index) -> int:
    """The place of ``index``, -1 for the last."""
    place = axes.index(index)
    return -1 if place == len(axes) - 1 else place


def common_order(pieces: Sequence[Piece], prefer: Sequence[Index]) -> Axes:
    """The axes of all pieces: as they are where all agree, else as preferred, else as the largest piece has them."""
    own = {piece.axes for piece in pieces if piece.axes}
    if len(own) == 1 and None in next(iter(own)):
        return own.pop()
    found = list(dict.fromkeys(i for p in sorted(pieces, key=lambda p: -len(p.axes)) for i in p.indices()))
    return tuple([i for i in prefer if i in found] + [i for i in found if i not in prefer])


def joint_axes(pieces: Sequence[Piece], target: Axes) -> Axes:
    """The axes that broadcasting the lined-up pieces gives."""
    lined = [aligned(p, target).axes for p in pieces]
    rank = max((len(a) for a in lined), default=0)
    result: list[Index | None] = [None] * rank
    for axes in lined:
        for place, axis in enumerate(axes, start=rank - len(axes)):
            result[place] = axis if axis is not None else result[place]
    return tuple(result)


def components(factors: Sequence[Expr], apart: set[Index]) -> list[list[Expr]]:
    """Factors grouped so that those which share a free index, other than those ``apart``, are together."""
    groups: list[tuple[frozenset[Index], list[Expr]]] = []
    for factor in factors:
        free = indices_in(factor) - apart
        joined = [g for g in groups if g[0] & free]
        merged = (free.union(*(g[0] for g in joined)), [f for g in joined for f in g[1]] + [factor])
        groups = [g for g in groups if not any(g is j for j in joined)] + [merged]
    loose = [g for g in groups if not g[0]]
    if len(groups) > 2 and len(loose) > 1:
        groups = [g for g in groups if g[0]] + [(frozenset(), [f for g in loose for f in g[1]])]
    if len(groups) == 3 and len(loose) == 1:
        bound = [g for g in groups if g[0]]
        groups = [(bound[0][0], [*bound[0][1], *loose[0][1]]), bound[1]]
    return [g[1] for g in groups]


def place_of(free: Sequence[Index], prefer: Sequence[Index]) -> int:
    """Where a group's index stands in the result; a group without one goes to the side that is left."""
    return list(prefer).index(free[0]) if free and free[0] in prefer else len(prefer)


def body_order(factors: Sequence[Expr], bound: Sequence[Index], prefer: Sequence[Index]) -> tuple[Index, ...]:
    """The axes under a sum in the order of the largest factor, so that nothing need be transposed."""
    body = set().union(*(indices_in(f) for f in factors))
    for factor in factors:
        for node in sp.preorder_traversal(factor):
            if is_access(node) and set(indices_of(node)) == body and len(indices_of(node)) == len(body):
                return tuple(indices_of(node))
    return (*bound, *prefer)


def signed(terms: Iterable[Expr]) -> list[tuple[bool, Expr]]:
    """Terms without their minus, each with whether it had one."""
    return [(minus, -t if minus else t) for t in terms for minus in [t.could_extract_minus_sign()]]


def added(terms: Sequence[tuple[bool, Expr, Piece]], target: Axes) -> Piece:
    """Pieces as a sum, each with whether it is subtracted and the expression that it writes.

    A gradient is linear in the seed: of the terms of a sum all carry it, or none.
    """
    found = [(minus, boolean(t) or piece.binds == COMPARE, aligned(piece, target)) for minus, t, piece in terms]
    found.sort(key=lambda f: (f[0], f[1], f[2].axes == (), len(f[2].text), f[2].text))
    pieces = [piece for *_, piece in found]
    text = ""
    for minus, truth, piece in found:
        if truth and (minus or not text):  # torch neither subtracts booleans nor counts them when it adds two
            piece = Piece(f"1 * {piece.inside(MULTIPLY)}", MULTIPLY, piece.axes)
        operand = piece.text if piece.binds > ADD else piece.inside(MULTIPLY if minus else ADD)
        sign = "-" if minus else "+"
        text = f"{text} {sign} {operand}" if text else f"-{operand}" if minus else operand
    return Piece(text, ADD, joint_axes(pieces, target))
