"""Writing the shorthands: softmax(x, dim=-1), x - x.mean(-1, keepdim=True), layer_norm(x, x.shape[-1:]).

Other functions are written as torch spells them: ``x.exp()``, ``F.softplus(x)``, ``torch.special.i0e(x)``.

Comes in: a function of one expression. Goes out: its fragment; `NoForm` for functions that torch has no name for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

import sympy as sp

from symgrad.calculus import local_jacobian
from symgrad.closed_form.fragments import (
    Fragment,
    Notation,
    align_all,
    align_axes,
    axis_number,
    call_elementwise,
    choose_body_order,
    common_axis_order,
    drop_size_one_axes,
    permute_axes,
)
from symgrad.closed_form.number_code import PI, NoForm
from symgrad.closed_form.rewriting.scalar_rules import is_difference
from symgrad.closed_form.rewriting.shorthands import (
    Cases,
    Centred,
    Cross,
    Masked,
    Mean,
    Normal,
    Once,
    ReciprocalGap,
    Root,
    Softmax,
    Standardised,
    Variance,
)
from symgrad.closed_form.rewriting.sum_rules import FourierTransform
from symgrad.functions import finite, nearest
from symgrad.indexing import Bracket, Index
from symgrad.indexing.symbols import Expr, accesses, free_indices, indices_of, is_access, name_of, ordered_indices
from symgrad.language.python_text import Part, binding, call, index, method, to_code
from symgrad.language.syntax_tree import Attribute, Literal, Slice
from symgrad.language.tokens import ATOM
from symgrad.notation.tree import Binary, SyntaxNode, walk
from symgrad.ops.lookup import find, has_role
from symgrad.program import Role
from symgrad.shapes import Size

USUAL = sp.Rational(1, 100000)
"""What torch adds to a variance if nothing else is said."""


def write_softmax(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Fragment:
    """The softmax of a piece along one of its axes: along the last, where it is free to choose."""
    logits, along = node.args
    inner, axis = write_along_axis(notation, [logits], along, prefer)
    return Fragment(call("softmax", inner.code, dim=axis), inner.axes)


def write_masked_softmax(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Fragment:
    """P, said before as normalize(softmax(s, dim=-1).tril(), p=1, dim=-1): shares among those that take part."""
    logits, along, among = node.args
    inner, axis = write_along_axis(notation, [among, Softmax(logits, along)], along, prefer)
    return notation.name("P", Fragment(call("normalize", inner.code, p=1, dim=axis), inner.axes))


def write_along_axis(
    notation: Notation, factors: Sequence[Expr], along: Sequence[Index], prefer: Sequence[Index]
) -> tuple[Fragment, int]:
    """A product of factors, and which of its axes runs along: the last, where there is a choice."""
    (index,) = along if len(along) == 1 else (None,)
    free = ordered_indices(free_indices(sp.Mul(*factors)))
    order = dict.fromkeys(i for i in [*prefer, *free] if i not in along)
    whole = notation.multiplied(factors, [*order, *along])
    if index is None or index not in whole.axes:
        raise NoForm
    return whole, axis_number(whole.axes, index)


def limits_over_axes(along: Sequence[Index]) -> list[tuple[Index, int, Expr]]:
    """The limits of a sum over every value of some indices: NoForm for a part of a `cat`, which lies at i + 3."""
    if not all(isinstance(i, Index) for i in along):
        raise NoForm
    return [(i, 0, i.size - 1) for i in along]


def write_centred(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Fragment:
    """x - x.mean(-1, keepdim=True)"""
    entry, along = node.args
    return notation.write(sp.Add(entry, -Mean(entry, *limits_over_axes(along)), evaluate=False), prefer)


def write_standardised(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Fragment:
    """layer_norm where the last axes are standardised, batch_norm where all but the second are, else in full."""
    entry, along, number = node.args
    inner = drop_size_one_axes(notation.write(entry, prefer))
    axes, places = inner.indices(), [n for n, axis in enumerate(inner.axes) if axis in along]
    told: dict[str, Part] = {} if number == USUAL else {"eps": float(number)}
    rank = len(axes)
    if places == list(range(rank - len(along), rank)):
        last = index(Attribute(inner.code, "shape"), [Slice(to_code(-len(along)), None, None)])
        sizes = tuple(notation.source.size(axis.size) for axis in axes[-len(along) :])
        return Fragment(
            call("layer_norm", inner.code, last if binding(inner.code) == ATOM else sizes, **told), inner.axes
        )
    if rank > 1 and places == [0, *range(2, rank)]:
        return Fragment(call("batch_norm", inner.code, None, None, training=True, **told), inner.axes)
    from_mean = sp.Add(entry, -Mean(entry, *limits_over_axes(along)), evaluate=False)
    return notation.product([from_mean, 1 / sp.sqrt(Variance(entry, *limits_over_axes(along)) + number)], prefer)


def write_eigengap(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Fragment:
    """K, said before as where(eye(n) == 1, 0, 1 / (w - w[:, None])): ∞ where two values are equal."""
    batch = [i for i in prefer if all(i in free_indices(side) for side in node.args)]
    (column,), (row,) = (free_indices(side) - set(batch) for side in node.args)
    axes = (*batch, row, column)
    across, down = (
        align_axes(notation.name("w", notation.write(side, (*batch, i))), axes).code
        for side, i in zip(node.args, (column, row), strict=True)
    )
    itself = Binary("==", call("eye", notation.source.size(row.size)), Literal(1))
    gap = Binary("/", Literal(1), Binary("-", across, down))
    return notation.name("K", Fragment(call("where", itself, 0, gap), axes))


def write_where(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Fragment:
    """where(x > 0, 1, x.exp())"""
    condition, *entries = node.args
    pieces = [notation.write(Bracket(condition), prefer), *(notation.write(entry, prefer) for entry in entries)]
    lined, axes = align_all(pieces, prefer)
    return Fragment(call("where", *(piece.code for piece in lined)), axes)


def write_norm(notation: Notation, square: Expr, prefer: Sequence[Index]) -> Fragment:
    """The root of a sum of squares along some axes or all: `norm(x, dim=-1, keepdim=True)`, beside what has them."""
    bound, base = [limit[0] for limit in square.limits], square.function.base
    inner = drop_size_one_axes(notation.write(base, choose_body_order([base], bound, prefer)))
    rest = tuple(axis for axis in inner.axes if axis not in bound)
    if not set(bound) <= set(inner.axes) or type(square) is not sp.Sum or (rest and len(bound) > 2):
        raise NoForm
    if not rest:
        return Fragment(call("norm", inner.code), ())
    places = [axis_number(inner.axes, i) for i in bound]
    dim: Part = places[0] if len(places) == 1 else tuple(sorted(places))
    kept = tuple(None if i in bound else i for i in inner.axes)
    whole = Fragment(call("norm", inner.code, dim=dim, keepdim=True), kept)
    return Fragment(call("norm", inner.code, dim=dim), rest, whole)


def write_cross(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Fragment:
    """x × y as ``cross(x, y, dim=-1)``, where both have the same axes"""
    *sides, (along,) = node.args
    pieces = [drop_size_one_axes(notation.write(side, prefer)) for side in sides]
    axes = tuple(i for i in common_axis_order(pieces, prefer) if i is not None)
    if along not in axes or any(set(piece.axes) != set(axes) for piece in pieces):
        raise NoForm
    both = (permute_axes(piece, axes).code for piece in pieces)
    return Fragment(call("cross", *both, dim=axis_number(axes, along)), axes)


def write_named_once(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Fragment:
    """p, said before as softmax(x): shares of 1; u, said before as x / norm(x); t for anything else"""
    (inner,) = node.args
    piece = drop_size_one_axes(notation.write(inner, prefer))
    shares = all(isinstance(factor, (sp.exp, Softmax)) for factor in sp.Mul.make_args(inner))
    divides = any(isinstance(part, Binary) and part.sign == "/" for part in walk(piece.code))
    letter = "p" if shares else "u" if divides else "t"
    return notation.name(letter, piece)


def write_root(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Fragment:
    """2 ** 0.5, (2 * math.pi) ** 0.5, (2 / math.pi) ** 0.5"""
    number, turns = node.args[0].as_independent(sp.pi)
    above, below = sp.fraction(number)
    whole: SyntaxNode = Literal(int(above))
    if turns == sp.pi:
        whole = PI if above == 1 else Binary("*", whole, PI)
    under = [*([Literal(int(below))] if below != 1 else []), *([PI] if turns == 1 / sp.pi else [])]
    if turns not in (sp.S.One, sp.pi, 1 / sp.pi) or len(under) > 1:
        raise NoForm
    return Fragment(Binary("**", reduce(partial(Binary, "/"), under, whole), Literal(0.5)), ())


MODULES = ("F.", "torch.special.")
"""Where functions stand that are no methods."""

OTHERWISE = {sp.Abs: "abs", sp.loggamma: "lgamma", Normal: "ndtr", nearest: "round"}
"""Functions that torch calls otherwise than SymPy."""
CALLS = {sp.atan2: "atan2", finite: "isfinite"}
"""What torch has for several entries, or for none that is differentiated."""


def write_plain_call(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Fragment:
    """atan2(y, x), isfinite(x)"""
    lined, axes = align_all([notation.write(part, prefer) for part in node.args], prefer)
    return Fragment(call(CALLS[node.func], *(piece.code for piece in lined)), axes)


def write_bessel(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Fragment:
    """i0(x) and i1(x), of which SymPy has the order as a number."""
    order, entry = node.args
    if order not in (0, 1):
        raise NoForm
    return call_elementwise(notation.write(entry, prefer), partial(call, f"i{order}"))


def write_function_call(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Fragment:
    """A method where there is one, else a call."""
    op = find(OTHERWISE.get(node.func, node.func.__name__))
    if op is None:
        raise NoForm
    *parameters, entry = node.args
    inner = notation.write(write_reversed_difference(notation, entry), prefer)
    if not parameters and f"Tensor.{op.name}" in op.spellings:
        return call_elementwise(inner, partial(method, word=op.name))
    modules = "torch." if parameters else MODULES  # ``torch.polygamma(2, x)``
    spelled = next((word for word in op.spellings if word.startswith(modules)), None)
    if spelled is None or not all(number.is_Integer for number in parameters):
        raise NoForm
    return call_elementwise(inner, partial(call, spelled, *map(int, parameters)))


def write_reversed_difference(notation: Notation, entry: Expr) -> Expr:
    """b − a, where −t is that of an intermediate t = a − b."""
    if not is_access(-entry):
        return entry
    right = expand_intermediate(notation, -entry)
    if right is None or not is_difference(right):
        return entry
    spread = {a: e for a in accesses(right) if (e := expand_intermediate(notation, a, copies=True)) is not None}
    return -right.xreplace(spread)


def expand_intermediate(notation: Notation, entry: Expr, copies: bool = False) -> Expr | None:
    """What an entry of an intermediate is, of those that are only repeated where that is asked for."""
    program, name = notation.program, name_of(entry)
    step = next((s for s in program.steps if s.result.name == name != program.output), None)
    if step is None or (copies and not has_role(step.op, Role.COPIES)):
        return None
    equation = local_jacobian(step, program).equation
    return equation.right.xreplace(dict(zip(equation.axes, indices_of(entry), strict=True)))


SHORTHANDS = {
    Softmax: write_softmax,
    Masked: write_masked_softmax,
    Centred: write_centred,
    Standardised: write_standardised,
    ReciprocalGap: write_eigengap,
    Cases: write_where,
    Normal: write_function_call,
    Root: write_root,
    Once: write_named_once,
    Cross: write_cross,
    sp.besseli: write_bessel,
    **dict.fromkeys(CALLS, write_plain_call),
}
"""How each shorthand is written."""


TRANSFORM_CALLS: Mapping[int, tuple[str, Mapping[str, Part]]] = {
    -1: ("fft", {}), 1: ("ifft", {"norm": Literal("forward")}),
}  # fmt: skip
"""The transform that turns forwards or back, neither divided by n."""


def write_transform(made: FourierTransform, inner: SyntaxNode, size: Callable[[Size], SyntaxNode]) -> SyntaxNode:
    """A Fourier transform as torch is called; ``size`` writes a length."""
    word, norm = TRANSFORM_CALLS[made.sign]
    kept = made.kept
    if made.real and made.sign < 0 and sp.expand(made.points[-1] - 2 * kept[-1]) in (-2, -1):
        word, kept = f"r{word}", (*kept[:-1], made.points[-1])  # half of the transform of real numbers
    several, options = len(made.dims) > 1, dict[str, Part]()
    if made.points != made.given:
        lengths = tuple(map(size, made.points))
        options |= {"s": lengths} if several else {"n": lengths[0]}
    if made.dims != (tuple(range(made.rank)) if several else (made.rank - 1,)):
        options["dim"] = made.dims if several else made.dims[0]
    found = call(f"torch.fft.{word}{'n' * several}", inner, **options, **norm)
    cut = dict(zip(made.dims, kept, strict=True)) if kept != made.points else {}
    return index(found, [Slice(None, size(cut[d]) if d in cut else None, None) for d in range(made.rank)])
