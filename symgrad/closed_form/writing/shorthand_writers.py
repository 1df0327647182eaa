"""Writing the shorthands: softmax(x, dim=-1), x - x.mean(-1, keepdim=True), layer_norm(x, x.shape[-1:]).

f(x) as torch spells it: ``x.exp()``, ``F.softplus(x)``, ``torch.special.i0e(x)``.

Comes in: a function of one expression. Goes out: its piece; `NoForm` for functions that torch has no name for.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.calculus import local
from symgrad.closed_form.fragments import (
    Axes,
    Notation,
    Piece,
    aligned,
    applied,
    axis_in,
    body_order,
    common_order,
    flat,
    lined_up,
    permuted,
)
from symgrad.closed_form.number_text import ATOM, POWER, NoForm
from symgrad.closed_form.rewriting.scalar_rules import is_difference
from symgrad.closed_form.rewriting.shorthands import (
    Apart,
    Cases,
    Centred,
    Cross,
    Masked,
    Mean,
    Normal,
    Once,
    Root,
    Softmax,
    Standardised,
    Variance,
)
from symgrad.indexing import Bracket, Index
from symgrad.indexing.symbols import Expr, accesses, free_indices, indices_of, is_access, name_of
from symgrad.ops import Op
from symgrad.ops.lookup import find, plays
from symgrad.program import Role

USUAL = sp.Rational(1, 100000)
"""What torch adds to a variance if nothing else is said."""


def softmax(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Piece:
    """The softmax of a piece along one of its axes: along the last, where it is free to choose."""
    logits, along = node.args
    inner, axis = along_an_axis(notation, [logits], along, prefer)
    return Piece(f"softmax({inner.text}, dim={axis})", ATOM, inner.axes)


def masked(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Piece:
    """P, said before as normalize(softmax(s, dim=-1).tril(), p=1, dim=-1): shares among those that take part."""
    logits, along, among = node.args
    inner, axis = along_an_axis(notation, [among, Softmax(logits, along)], along, prefer)
    return notation.name("P", Piece(f"normalize({inner.text}, p=1, dim={axis})", ATOM, inner.axes))


def along_an_axis(
    notation: Notation, factors: Sequence[Expr], along: Sequence[Index], prefer: Sequence[Index]
) -> tuple[Piece, int]:
    """A product of factors, and which of its axes runs along: the last, where there is a choice."""
    (index,) = along if len(along) == 1 else (None,)
    free = sorted(free_indices(sp.Mul(*factors)), key=str)
    order = dict.fromkeys(i for i in [*prefer, *free] if i not in along)
    whole = notation.multiplied(factors, [*order, *along])
    if index is None or index not in whole.axes:
        raise NoForm
    return whole, axis_in(whole.axes, index)


def limits_of(along: Sequence[Index]) -> list[tuple[Index, int, Expr]]:
    """The limits of a sum over every value of some indices: NoForm for a part of a `cat`, which lies at i + 3."""
    if not all(isinstance(i, Index) for i in along):
        raise NoForm
    return [(i, 0, i.size - 1) for i in along]


def centred(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Piece:
    """x - x.mean(-1, keepdim=True)"""
    entry, along = node.args
    return notation.write(sp.Add(entry, -Mean(entry, *limits_of(along)), evaluate=False), prefer)


def standardised(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Piece:
    """layer_norm where the last axes are standardised, batch_norm where all but the second are, else in full."""
    entry, along, number = node.args
    inner = flat(notation.write(entry, prefer))
    axes, places = inner.indices(), [n for n, axis in enumerate(inner.axes) if axis in along]
    told = "" if number == USUAL else f", eps={float(number)!r}"
    rank = len(axes)
    if places == list(range(rank - len(along), rank)):
        sizes = (
            f"{inner.text}.shape[-{len(along)}:]" if inner.binds == ATOM else sizes_of(notation, axes[-len(along) :])
        )
        return Piece(f"layer_norm({inner.text}, {sizes}{told})", ATOM, inner.axes)
    if rank > 1 and places == [0, *range(2, rank)]:
        return Piece(f"batch_norm({inner.text}, None, None, training=True{told})", ATOM, inner.axes)
    from_mean = sp.Add(entry, -Mean(entry, *limits_of(along)), evaluate=False)
    return notation.product([from_mean, 1 / sp.sqrt(Variance(entry, *limits_of(along)) + number)], prefer)


def apart(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Piece:
    """K, said before as where(eye(n) == 1, 0, 1 / (w - w[:, None])): ∞ where two values are equal."""
    batch = [i for i in prefer if all(i in free_indices(side) for side in node.args)]
    (column,), (row,) = (free_indices(side) - set(batch) for side in node.args)
    axes = (*batch, row, column)
    across, down = (
        aligned(notation.name("w", notation.write(side, (*batch, i))), axes).text
        for side, i in zip(node.args, (column, row), strict=True)
    )
    itself = f"eye({notation.texts.size(row.size)}) == 1"
    return notation.name("K", Piece(f"where({itself}, 0, 1 / ({across} - {down}))", ATOM, axes))


def cases(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Piece:
    """where(x > 0, 1, x.exp())"""
    condition, *entries = node.args
    pieces = [notation.write(Bracket(condition), prefer), *(notation.write(entry, prefer) for entry in entries)]
    lined, axes = lined_up(pieces, prefer)
    return Piece(f"where({', '.join(piece.text for piece in lined)})", ATOM, axes)


def sizes_of(notation: Notation, axes: Axes) -> str:
    """Sizes as a tuple."""
    texts = [notation.texts.size(axis.size) for axis in axes if axis is not None]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def norm(notation: Notation, square: Expr, prefer: Sequence[Index]) -> Piece:
    """The root of a sum of squares along some axes or all: `norm(x, dim=-1, keepdim=True)`, beside what has them."""
    bound, base = [limit[0] for limit in square.limits], square.function.base
    inner = flat(notation.write(base, body_order([base], bound, prefer)))
    rest = tuple(axis for axis in inner.axes if axis not in bound)
    if not set(bound) <= set(inner.axes) or type(square) is not sp.Sum or (rest and len(bound) > 2):
        raise NoForm
    if not rest:
        return Piece(f"norm({inner.text})", ATOM, ())
    places = [axis_in(inner.axes, i) for i in bound]
    dim = f"dim={places[0] if len(places) == 1 else tuple(sorted(places))}"
    kept = tuple(None if i in bound else i for i in inner.axes)
    whole = Piece(f"norm({inner.text}, {dim}, keepdim=True)", ATOM, kept)
    return Piece(f"norm({inner.text}, {dim})", ATOM, rest, whole)


def cross(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Piece:
    """x × y as ``cross(x, y, dim=-1)``, where both have the same axes"""
    *sides, (along,) = node.args
    pieces = [flat(notation.write(side, prefer)) for side in sides]
    axes = tuple(i for i in common_order(pieces, prefer) if i is not None)
    if along not in axes or any(set(piece.axes) != set(axes) for piece in pieces):
        raise NoForm
    texts = ", ".join(permuted(piece, axes).text for piece in pieces)
    return Piece(f"cross({texts}, dim={axis_in(axes, along)})", ATOM, axes)


def once(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Piece:
    """p, said before as softmax(x): shares of 1; u, said before as x / norm(x); t for anything else"""
    (inner,) = node.args
    piece = flat(notation.write(inner, prefer))
    shares = all(isinstance(factor, (sp.exp, Softmax)) for factor in sp.Mul.make_args(inner))
    letter = "p" if shares else "u" if " / " in piece.text else "t"
    return notation.name(letter, piece)


def root(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Piece:
    """2 ** 0.5, (2 * math.pi) ** 0.5, (2 / math.pi) ** 0.5"""
    number, turns = node.args[0].as_independent(sp.pi)
    above, below = sp.fraction(number)
    text = str(above)
    if turns == sp.pi:
        text = "math.pi" if above == 1 else f"{above} * math.pi"
    parts = [text, *([str(below)] if below != 1 else []), *(["math.pi"] if turns == 1 / sp.pi else [])]
    if turns not in (sp.S.One, sp.pi, 1 / sp.pi) or len(parts) > 2:
        raise NoForm
    whole = " / ".join(parts)
    return Piece(f"{f'({whole})' if ' ' in whole else whole} ** 0.5", POWER, ())


MODULES = ("F.", "torch.special.")
"""Where functions stand that are no methods."""

OTHERWISE = {sp.Abs: "abs", sp.loggamma: "lgamma", Normal: "ndtr"}
"""Functions that torch calls otherwise than SymPy."""


def function(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Piece:
    """A method where there is one, else a call."""
    op = find(OTHERWISE.get(node.func, node.func.__name__))
    if op is None:
        raise NoForm
    *parameters, entry = node.args
    inner = notation.write(difference(notation, entry), prefer)
    if parameters:
        return with_parameters(op, parameters, inner)
    if f"Tensor.{op.name}" in op.spelled:
        return applied(inner, f"{op.name}()")
    spelled = next((word for word in op.spelled if word.startswith(MODULES)), None)
    if spelled is None:
        raise NoForm
    kept = None if inner.kept is None else Piece(f"{spelled}({inner.kept.text})", ATOM, inner.kept.axes)
    return Piece(f"{spelled}({inner.text})", ATOM, inner.axes, kept)


def difference(notation: Notation, entry: Expr) -> Expr:
    """b − a, where −t is that of an intermediate t = a − b."""
    if not is_access(-entry):
        return entry
    right = made_of(notation, -entry)
    if right is None or not is_difference(right):
        return entry
    spread = {a: e for a in accesses(right) if (e := made_of(notation, a, copies=True)) is not None}
    return -right.xreplace(spread)


def made_of(notation: Notation, entry: Expr, copies: bool = False) -> Expr | None:
    """What an entry of an intermediate is, of those that are only repeated where that is asked for."""
    program, name = notation.program, name_of(entry)
    step = next((s for s in program.steps if s.result.name == name != program.output), None)
    if step is None or (copies and not plays(step.op, Role.COPIES)):
        return None
    equation = local(step, program).equation
    return equation.right.xreplace(dict(zip(equation.axes, indices_of(entry), strict=True)))


def with_parameters(op: Op, parameters: Sequence[Expr], inner: Piece) -> Piece:
    """``torch.polygamma(2, x)``"""
    spelled = next((word for word in op.spelled if word.startswith("torch.")), None)
    if spelled is None or not all(number.is_Integer for number in parameters):
        raise NoForm
    return Piece(f"{spelled}({', '.join([*map(str, parameters), inner.text])})", ATOM, inner.axes)


SHORTHANDS = {
    Softmax: softmax,
    Masked: masked,
    Centred: centred,
    Standardised: standardised,
    Apart: apart,
    Cases: cases,
    Normal: function,
    Root: root,
    Once: once,
    Cross: cross,
}
"""How each shorthand is written."""
