"""Writing what is 0 outside of some range of an index: triangles, zeros around a tensor, parts side by side, windows.

    [a ≤ q]·[q < b]·f(q)                →  pad(f, (a, n − b))
    Σ_j δ(q, ⌊j / 2⌋)·v[p,j]            →  v.reshape(m, n, 2).sum(-1), after `unravel_axes`
    Σ_k [2r ≤ k]·[k < 2r + 2]·v[p,k]    →  2 * avg_pool1d(v, 2), or a reshape and a sum
    Σ_k [0 ≤ r − 2k]·[r − 2k < 2]·v[p,k]   →  v.repeat_interleave(2, -1), with zeros behind what no window covers
    Σ_k [0 ≤ r − s·k + d < K]·v[p,c,k]  →  conv_transpose1d(v, x.new_ones(c, 1, K), stride=s, padding=d, groups=c)

Comes in: a product with conditions on indices among its factors, or a sum over such, as where one index stays in a
window around another. Goes out: a fragment; `NoForm` where the conditions say no such thing. A place, a step of the
window and a shift within it belong together as in `convolution_gradients`: place = stride·step + dilation·shift −
padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy as sp

from symgrad.closed_form.fragments import Fragment, Notation, axis_number, call_method, drop_size_one_axes, permute_axes
from symgrad.closed_form.number_code import NoForm, first_form
from symgrad.closed_form.rewriting.shorthands import reads_tensor
from symgrad.closed_form.rewriting.sum_rules import split_sum
from symgrad.closed_form.writing.convolution_gradients import (
    MOST_AXES,
    Slide,
    to_remainders,
    write_one_or_each,
    write_option,
    write_slides,
)
from symgrad.entries.operands import transposed_positions
from symgrad.indexing import Bracket, Index, fresh, summed
from symgrad.indexing.brackets import ORDERS, STRICT, whole_gap
from symgrad.indexing.equation import with_fresh_sums
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, bound_indices, free_indices
from symgrad.language.python_text import COLON, call, index, method, multiply
from symgrad.language.syntax_tree import Literal, Slice, Subscript
from symgrad.notation.tree import SyntaxNode
from symgrad.shapes import Size


def is_index_condition(factor: Expr) -> bool:
    """Whether a factor is a condition on indices alone, or picks one place of an axis."""
    if isinstance(factor, sp.KroneckerDelta):
        return (
            not reads_tensor(factor)
            and len(free_indices(factor)) == 1
            and any(isinstance(side, Index) for side in factor.args)
        )
    return isinstance(factor, Bracket) and not reads_tensor(factor)


def write_conditioned_product(notation: Notation, factors: Sequence[Expr], prefer: Sequence[Index]) -> Fragment:
    """A product with conditions on indices among its factors."""
    edges = [f for f in factors if is_index_condition(f)]
    rest = [f for f in factors if f not in edges]
    if len(edges) == 1 and len(free_indices(edges[0])) == 2:
        return write_triangle(notation, edges[0], rest, prefer)
    return write_pad(notation, edges, rest, prefer)


def write_triangle(notation: Notation, factor: Expr, rest: Sequence[Expr], prefer: Sequence[Index]) -> Fragment:
    """[q ≤ p + d]·f[p,q] is f.tril(d), [q ≥ p + d]·f[p,q] is f.triu(d), also of each matrix of a stack."""
    inner = notation.write(sp.Mul(*rest), prefer)
    axes = drop_size_one_axes(inner).indices()
    if len(axes) < 2 or free_indices(factor) != set(axes[-2:]):
        raise NoForm
    relation = factor.args[0]
    row, column = axes[-2:]
    difference = sp.expand(relation.gts - relation.lts) if relation.func in ORDERS else sp.S.Zero
    slope = difference.coeff(column)
    if slope not in (1, -1) or difference.coeff(row) != -slope:
        raise NoForm
    offset = -slope * (difference - slope * (column - row)) + (slope if relation.func in STRICT else 0)
    if not offset.is_Integer:
        raise NoForm
    word = "triu" if slope == 1 else "tril"
    return call_method(drop_size_one_axes(inner), axes, word, *([int(offset)] if offset else []))


def write_pad(notation: Notation, edges: Sequence[Expr], rest: Sequence[Expr], prefer: Sequence[Index]) -> Fragment:
    """[a ≤ q]·[q < b]·f(q) is f(a), …, f(b − 1) with zeros before and behind: pad(f, (a, n − b))."""
    ranges = find_index_ranges(notation, edges)
    body, inner = shift_indices_to_start(sp.Mul(*rest), ranges)
    piece = drop_size_one_axes(notation.write(body, [inner.get(i, i) for i in prefer]))
    axes = tuple(i for i in prefer if i in ranges or i in piece.axes)
    own = [inner.get(i, i) for i in axes if inner.get(i, i) in piece.axes]
    beside = [i for i in axes if inner.get(i, i) not in own]
    if not set(ranges) <= set(axes) or len(own) < len(piece.axes) or any(inner.get(i, i).size != 1 for i in beside):
        raise NoForm
    piece = permute_axes(piece, own)
    if not reads_tensor(sp.Mul(*rest)):
        raise NoForm  # a number has no axis that margins could be put around
    if beside:  # the axis of one place that was picked is not in what is put there
        items = (Literal(None) if i in beside else COLON for i in axes)
        piece = Fragment(Subscript(piece.code, tuple(items)), axes)
    margins: list[SyntaxNode] = []
    for axis in reversed(axes[min(axes.index(q) for q in ranges) :]):
        start, stop = ranges.get(axis, (sp.S.Zero, axis.size))
        margins += [notation.source.size(sp.expand(n)) for n in (start, axis.size - stop)]
    return Fragment(call("pad", piece.code, tuple(margins)), axes)


def find_index_ranges(notation: Notation, edges: Sequence[Expr]) -> dict[Index, tuple[Expr, Expr]]:
    """Where each index starts and stops by conditions on one index each; NoForm where that may be outside its axis."""
    ranges: dict[Index, tuple[Expr, Expr]] = {}
    for edge in edges:
        if len(free_indices(edge)) != 1:
            raise NoForm
        (q,) = free_indices(edge)
        ranges[q] = narrow_range(edge, q, *ranges.get(q, (sp.S.Zero, q.size)))
    amounts = (n for q, (start, stop) in ranges.items() for n in (start, stop - start, q.size - stop))
    if not all(map(notation.is_size, amounts)):
        raise NoForm
    return ranges


def shift_indices_to_start(body: Expr, ranges: Mapping[Index, tuple[Expr, Expr]]) -> tuple[Expr, dict[Index, Index]]:
    """``body`` inside its ranges, by indices of their lengths that count from where they start."""
    inner = {q: fresh(q.name, sp.expand(stop - start)) for q, (start, stop) in ranges.items()}
    if not ranges.keys().isdisjoint(bound_indices(body)):  # a sum inside has a letter of its own
        body = with_fresh_sums(body)
    return body.xreplace({q: inner[q] + start for q, (start, _) in ranges.items()}), inner


def write_sum_within_range(
    notation: Notation, factors: Sequence[Expr], bound: Sequence[Index], prefer: Sequence[Index]
) -> Fragment:
    """Σ_k [a ≤ k]·[k < b]·f(k) is f added up from a to b − 1: what is 0 is not read, as it may not be there."""
    edges = [f for f in factors if is_index_condition(f) and free_indices(f) <= set(bound)]
    if not edges or len(edges) == len(factors):
        raise NoForm
    rest = sp.Mul(*(f for f in factors if f not in edges))
    body, inner = shift_indices_to_start(rest, find_index_ranges(notation, edges))
    return notation.write(summed(body, [inner.get(k, k) for k in bound]), prefer)


def write_concatenation(notation: Notation, terms: Sequence[Expr], prefer: Sequence[Index]) -> Fragment | None:
    """[q < a]·f(q) + [q ≥ a]·g(q), two parts that fill an axis, is cat([f, g]); None where the terms are no such parts.

    Parts of one place each are a stack.
    """
    parts: dict[tuple[Expr, Expr], list[Expr]] = {}
    along: set[Index] = set()
    for term in terms:
        factors = split_factors(term)
        edges = [f for f in factors if is_index_condition(f)]
        along |= {index for edge in edges for index in free_indices(edge)}
        if not edges or len(along) != 1:
            return None
        (q,) = along
        reach: tuple[Expr, Expr] = (sp.S.Zero, q.size)
        for edge in edges:
            reach = narrow_range(edge, q, *reach)
        parts.setdefault(reach, []).append(sp.Mul(*(f for f in factors if f not in edges)))
    (q,) = along
    found = order_filling_ranges(q, list(parts))
    if len(parts) < 2 or found is None or q not in prefer:
        return None
    inner = [fresh(q.name, sp.expand(stop - start)) for start, stop in found]
    bodies = [sp.Add(*parts[reach]).xreplace({q: i + reach[0]}) for i, reach in zip(inner, found, strict=True)]
    pieces = [notation.write(body, [i if p is q else p for p in prefer]) for i, body in zip(inner, bodies, strict=True)]
    axes = tuple(i for i in prefer if i is q or any(i in piece.axes for piece in pieces))
    place = axes.index(q)
    if not any(map(reads_tensor, bodies)):
        return None  # numbers side by side are no tensor
    if all(i.size == 1 and i not in piece.axes for i, piece in zip(inner, pieces, strict=True)):
        stacked, wanted = True, [tuple(i for i in axes if i is not q)] * len(pieces)
    else:
        stacked, wanted = False, [tuple(i if p is q else p for p in axes) for i in inner]
    if any(set(piece.indices()) != set(own) for piece, own in zip(pieces, wanted, strict=True)):
        return None  # what is broadcast along another axis does not fill its part
    every = [permute_axes(piece, own).code for piece, own in zip(pieces, wanted, strict=True)]
    last = [] if place == 0 else [-1 if place == len(axes) - 1 else place]
    return Fragment(call("stack", every, *last) if stacked else call("cat", every, *last), axes)


def group_by_conditions(terms: Sequence[Expr]) -> list[Expr]:
    """[q < a]·f(q) + [q < a]·g(q) as [q < a]·(f(q) + g(q))."""
    groups: dict[frozenset[Expr], list[Expr]] = {}
    for term in terms:
        factors = split_factors(term)
        edges = frozenset(filter(is_index_condition, factors))
        groups.setdefault(edges, []).append(sp.Mul(*(f for f in factors if f not in edges)))
    return [sp.Mul(*edges, sp.Add(*rests)) for edges, rests in groups.items()]


def order_filling_ranges(q: Index, reaches: Sequence[tuple[Expr, Expr]]) -> list[tuple[Expr, Expr]] | None:
    """Parts in their order, where they fill an axis without gap or overlap."""
    found: list[tuple[Expr, Expr]] = []
    edge: Expr = sp.S.Zero
    for _ in reaches:
        following = [reach for reach in reaches if reach not in found and sp.expand(reach[0] - edge) == 0]
        if len(following) != 1:
            return None
        found += following
        edge = following[0][1]
    return found if sp.expand(edge - q.size) == 0 else None


def narrow_range(edge: Expr, q: Index, start: Expr, stop: Expr) -> tuple[Expr, Expr]:
    """Where q starts and stops by one more condition; which edge is the nearer one has to be plain."""
    if isinstance(edge, sp.KroneckerDelta):
        (place,) = (side for side in edge.args if side is not q)
        if (start, stop) == (0, q.size) and not free_indices(place):
            return place, place + 1
        raise NoForm
    relation = edge.args[0]
    if relation.func not in ORDERS:
        raise NoForm
    above = whole_gap(relation)
    slope = above.coeff(q)
    if slope == 1 and (start == 0 or (q - above - start).is_nonnegative):
        return q - above, stop
    if slope == -1 and (stop == q.size or (stop - above - q - 1).is_nonnegative):
        return start, above + q + 1
    raise NoForm


@dataclass(frozen=True)
class SumWindow:
    """0 ≤ ``place`` − ``stride``·``step`` + ``padding`` < ``length``, summed over one of the two."""

    place: Index
    step: Index
    stride: Expr
    padding: Expr
    length: Expr


def write_window_sum(notation: Notation, factors: list[Expr], bound: list[Index], prefer: Sequence[Index]) -> Fragment:
    """A sum over windows, of which each stands for one place, or each place in it for the window."""
    every, over = split_sum(summed(sp.Mul(*factors), bound))
    edges = [f for f in every if isinstance(f, Bracket) and not reads_tensor(f)]
    rest = [f for f in every if f not in edges]
    windows = [find_window(k, [e for e in edges if k in free_indices(e)]) for k in over]
    if len(edges) != 2 * len(over) or any(free_indices(w.place) <= {w.step} for w in windows):
        raise NoForm
    outer = {k: w.step if k is w.place else w.place for k, w in zip(over, windows, strict=True)}
    if len(set(outer.values())) < len(outer) or any(i in free_indices(sp.Mul(*rest)) for i in outer.values()):
        raise NoForm
    order = [next((k for k, o in outer.items() if o == i), i) for i in prefer]
    body = drop_size_one_axes(notation.write(sp.Mul(*rest), order))
    if not set(over) <= set(body.axes):
        raise NoForm
    inner = tuple(i for i in order if i in body.axes)
    body = permute_axes(body, inner)
    chosen = {w: w.step if w.step in over else w.place for w in windows}
    if not set(chosen.values()) <= set(inner):
        raise NoForm
    found = sorted(windows, key=lambda w: inner.index(chosen[w]))
    axes = tuple(outer.get(i, i) for i in inner)
    ways = (sum_blocks,) if found[0].place in over else (repeat_block, write_overlapping_windows)
    return first_form(ways, notation, body, found, axes)


def find_window(bound: Index, edges: Sequence[Expr]) -> SumWindow:
    """What two conditions on ``bound`` and another index say."""
    if len(edges) != 2 or any(edge.args[0].func not in (sp.Le, sp.Lt, sp.Ge, sp.Gt) for edge in edges):
        raise NoForm
    others = set().union(*map(free_indices, edges)) - {bound}
    if len(others) != 1:
        raise NoForm
    (other,) = others
    gaps = [whole_gap(edge.args[0]) for edge in edges]
    for place, step in ((bound, other), (other, bound)):
        for below, above in (gaps, gaps[::-1]):
            padding = sp.expand(below - place + (stride := -below.coeff(step)) * step)
            length = sp.expand(below + above + 1)
            plain = not free_indices(padding) and not free_indices(length) and stride.is_Integer
            if plain and below.coeff(place) == 1 and (stride > 1 or (stride == 1 and place is other)):
                return SumWindow(place, step, stride, padding, length)
    raise NoForm


def repeat_block(notation: Notation, body: Fragment, windows: Sequence[SumWindow], axes: tuple[Index, ...]) -> Fragment:
    """Each entry as often as its window is long, where windows lie side by side."""
    margins: dict[Index, Size] = {}
    for w in windows:
        left = to_remainders(w.place.size - w.length * w.step.size)
        if w.stride != w.length or w.padding != 0 or not notation.is_size(left):
            raise NoForm
        margins[w.place] = left
        often = notation.source.size(w.length), axis_number(axes, w.place)
        once = w.length == 1
        body = Fragment(body.code, axes) if once else call_method(body, axes, "repeat_interleave", *often)
    if all(left == 0 for left in margins.values()):
        return body
    first = min(axes.index(i) for i, left in margins.items() if left != 0)
    told = [n for i in reversed(axes[first:]) for n in (Literal(0), notation.source.size(margins.get(i, sp.S.Zero)))]
    return Fragment(call("pad", body.code, tuple(told)), axes)


def write_overlapping_windows(
    notation: Notation, body: Fragment, windows: Sequence[SumWindow], axes: tuple[Index, ...]
) -> Fragment:
    """A transposed convolution with a window of ones, channel by channel."""
    space = len(windows)
    if tuple(w.place for w in windows) != axes[-space:] or space > MOST_AXES or len(axes) - space not in (1, 2):
        raise NoForm
    channels = axes[-space - 1]
    one = notation.program.inputs[0].name
    sizes = [notation.source.size(n) for n in (channels.size, sp.S.One, *(w.length for w in windows))]
    left = [
        to_remainders(w.place.size - transposed_positions(w.step.size, w.length, w.stride, w.padding, sp.S.One))
        for w in windows
    ]
    over = [sp.S.Zero if n.is_nonpositive else n for n in left]
    if not all(notation.is_size(n) for n in over):
        raise NoForm
    told = {
        **write_slides(notation, [Slide(w.stride, sp.S.One, w.padding) for w in windows]),
        **write_option(notation, "output_padding", over, 0), **write_option(notation, "groups", [channels.size], 1),
    }  # fmt: skip
    whole = call(f"conv_transpose{space}d", body.code, method(one, "new_ones", *sizes), **told)
    ends = [
        None if n.is_nonnegative else notation.source.size(w.place.size) for n, w in zip(left, windows, strict=True)
    ]
    cut = [COLON] * (len(axes) - space) + [Slice(None, end, None) for end in ends]
    return Fragment(index(whole, cut), axes)


def sum_blocks(notation: Notation, body: Fragment, windows: Sequence[SumWindow], axes: tuple[Index, ...]) -> Fragment:
    """The sums of blocks that fill an axis."""
    if any(sp.expand(w.place.size - w.stride * w.step.size) != 0 or w.length != w.stride for w in windows):
        raise NoForm
    if any(w.padding != 0 for w in windows):
        raise NoForm
    space = len(windows)
    if tuple(w.step for w in windows) == axes[-space:] and space <= MOST_AXES and len(axes) - space in (1, 2):
        number = sp.Mul(*(w.length for w in windows))
        mean = call(f"avg_pool{space}d", body.code, write_one_or_each(notation, [w.length for w in windows]))
        return Fragment(multiply(notation.source.size(number), mean), axes)
    by_step = {w.step: w.length for w in windows}
    sizes = [n for i in axes for n in ([i.size, by_step[i]] if i in by_step else [i.size])]
    marks = [inner for i in axes for inner in ([False, True] if i in by_step else [False])]
    places = [n for n, inner in enumerate(marks) if inner]
    shaped = call_method(body, axes, "reshape", *map(notation.source.size, sizes))
    return call_method(shaped, axes, "sum", places[0] if len(places) == 1 else tuple(places))
