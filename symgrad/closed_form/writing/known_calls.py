"""Gradients that torch has a call for: written at positions, selected by a view, folded, or transposed convolutions.

Each function looks at the shape of a whole formula and answers with the call, or with `NoForm`. As with every closed
form, the text is shown only after it was read back and agreed with the formula; that a call has the conditions under
which an entry is read is for that proof to say, too. Convolutions are in `convolution_gradients`.

    Σ_j δ(p, n[j])·v[j,q]              →  zeros_like(x).index_add(0, n, v)
    Σ_j δ(q, n[p,j])·v[p,j]            →  zeros_like(x).scatter_add(1, n, v)
    δ(q, n[p])·v[p]                    →  v[:, None] * one_hot(n, x.shape[1])
    δ(p, n[q])·v[q]                    →  zeros_like(x).scatter_add(0, n[None], v[None])
    Σ_j,k δ(p·m + q, n[j,k])·v[j,k]    →  zeros_like(x).flatten().scatter_add(0, n.flatten(), v.flatten())…
    [2 | p − 1]·v[⌊(p − 1)/2⌋]         →  zeros_like(x).index_add(0, arange(x.shape[0])[1::2], v)
    Σ_j v[p − j, j]                    →  zeros_like(x).index_add(0, arange(n).unfold(0, k, 1).flatten(), v.flatten())
    δ(q, p + 1)·v[p]                   →  zeros_like(x).diagonal_scatter(v, 1)
    Σ_{a,b} v[n,(c,a,b),(p−a,q−b)]     →  F.fold(v, x.shape[-2:], (k, l))
    v[n,c,p+a,q+b] for (c,a,b),(p,q)   →  F.unfold(v, (k, l))
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.closed_form.fragments import Fragment, Notation, drop_size_one_axes, shape_in_scope
from symgrad.closed_form.number_code import NoForm, first_form, require_all, write_size
from symgrad.closed_form.rewriting.shorthands import reads_tensor
from symgrad.closed_form.rewriting.sum_rules import split_sum
from symgrad.closed_form.writing.convolution_gradients import (
    USUAL,
    Slide,
    solve_slide,
    solve_straight,
    write_convolution,
    write_one_or_each,
    write_slides,
)
from symgrad.indexing import Bracket, Index
from symgrad.indexing.brackets import Ravel, Unravel
from symgrad.indexing.symbols import Expr, free_indices, indices_of, is_access, name_of
from symgrad.language.python_text import COLON, call, index, method, to_code
from symgrad.language.syntax_tree import Slice, Subscript
from symgrad.notation.tree import Binary, Name, SyntaxNode
from symgrad.shapes import Size


def write_known_call(notation: Notation, node: Expr, axes: Sequence[Index], wanted: str) -> SyntaxNode:
    """The call that gives ``node``, a formula for the whole tensor ``wanted``."""
    factors, bound = split_sum(node)
    conditions = [f for f in factors if isinstance(f, Bracket) and not reads_tensor(f)]
    rest = [f for f in factors if f not in conditions]
    deltas = [f for f in rest if isinstance(f, sp.KroneckerDelta)]
    accesses = [f for f in rest if is_access(f) and "·" not in name_of(f)]
    if len(deltas) == 1 and len(accesses) == 1 and reads_tensor(deltas[0]):
        v, beside = accesses[0], [f for f in factors if f not in (*deltas, *accesses)]
        require_all(*(free_indices(factor) <= {*indices_of(v)} for factor in beside))
        return write_index_add(notation, deltas[0], v, beside, axes, wanted)
    require_all(len(accesses) + len(deltas) == len(rest))
    if len(accesses) == 2 and bound:
        v, other = sorted(accesses, key=lambda access: name_of(access) != notation.program.seed)
        return write_convolution(notation, node, v, other, bound, axes)
    require_all(len(accesses) == 1)
    (v,) = accesses
    if len(deltas) == 1 and not deltas[0].has(sp.Mod, Unravel):
        return write_diagonal_scatter(notation, deltas[0], v, axes, wanted)
    if bound:
        ways = (write_unfolded_windows, write_fold) if len(bound) == 1 else (write_fold,)
        return first_form(ways, notation, v, bound, axes, wanted)
    return write_strided(notation, v, axes, wanted) if deltas else write_unfold(notation, v, axes)


def write_index_add(
    notation: Notation, delta: Expr, seed: Expr, beside: Sequence[Expr], axes: Sequence[Index], wanted: str
) -> SyntaxNode:
    """index_add for positions that hold for whole slices, scatter_add for positions of single entries.

    What stands ``beside`` the seed has no axis of its own.
    """
    for here, there in (delta.args, delta.args[::-1]):
        target = here.indices if isinstance(here, Ravel) else (here,)
        read = there.args[0] if isinstance(there, sp.Mod) else there
        if is_access(read) and "·" not in name_of(read) and set(target) <= set(axes):
            first = list(axes).index(target[0])
            require_all(tuple(axes[first : first + len(target)]) == tuple(target))
            sizes = shape_in_scope(notation, name_of(read))
            every = all(isinstance(i, Index) or size == 1 for i, size in zip(indices_of(read), sizes, strict=True))
            require_all(every)  # not one of several positions
            positions = write_read_positions(notation, read, seed)
            if read is not there:  # counted from the end
                size = write_size(there.args[1], notation.program.inputs)
                positions = Fragment(Binary("%", positions.code, size), positions.axes)
            return write_scatter_add(notation, (first, len(target)), positions, seed, beside, axes, wanted)
    raise NoForm


def write_read_positions(notation: Notation, read: Expr, seed: Expr) -> Fragment:
    """The positions that are read: the whole tensor, or as many as the seed has entries, ``n[:2]``."""
    indices, given = indices_of(read), shape_in_scope(notation, name_of(seed))
    whole = {i for i, size in zip(indices_of(seed), given, strict=True) if isinstance(i, Index) and i.size == size}
    found = Fragment(notation.source.tensor(name_of(read)), indices)
    pairs = list(zip(indices, shape_in_scope(notation, name_of(read)), strict=True))
    fewer = [index in whole and index.size != size for index, size in pairs]
    if not any(fewer):
        return found
    ends = [notation.source.size(i.size) if less else None for i, less in zip(indices, fewer, strict=True)]
    return Fragment(Subscript(found.code, tuple(Slice(None, end, None) for end in ends)), indices)


def write_scatter_add(
    notation: Notation, place: tuple[int, int], positions: Fragment, seed: Expr, beside: Sequence[Expr],
    axes: Sequence[Index], wanted: str,
) -> SyntaxNode:  # fmt: skip
    """The call that adds at positions on so many axes from the first on, where the other axes agree."""
    first, count = place
    before, after = tuple(axes[:first]), tuple(axes[first + count :])
    own, numbers = indices_of(seed), positions.axes
    middle = own[len(before) : len(own) - len(after)]
    require_all(own[: len(before)] == before, own[len(own) - len(after) :] == after)
    given = [shape_in_scope(notation, name_of(seed))[n] for n, index in enumerate(own) if index in (*before, *after)]
    slices = all(index.size == size for index, size in zip((*before, *after), given, strict=True))
    moving = tuple(index for index in middle if isinstance(index, Index))
    require_all(not {*moving} & {*axes}, *(m == 0 for m in middle if m not in moving))
    moved = Fragment(notation.source.tensor(name_of(seed)), own)
    if beside:
        moved = drop_size_one_axes(notation.write(sp.Mul(*beside, seed), own))
        require_all(moved.axes == own)
    if slices and count == 1 and len(middle) == len(moving) > 0 and numbers == moving:
        flat = (positions.code, moved.code)
        if len(moving) > 1:
            flat = method(positions.code, "flatten"), flatten_axes(moved.code, first, len(middle), len(own))
        return write_index_add_call(Name(wanted), first, *flat)
    require_all(numbers == own)
    if count == 1 and not middle and first == len(axes) - 1:
        require_all(slices)  # one_hot has as many rows as there are positions
        one_hot = call("one_hot", positions.code, notation.source.size(axes[-1].size))
        return Binary("*", index(moved.code, [*[COLON] * len(own), None]), one_hot)
    one = [flatten_axes(piece.code, first, len(middle), len(own)) for piece in (positions, moved)]
    whole = method(flatten_axes(call("zeros_like", wanted), first, count, len(axes)), "scatter_add", first, *one)
    return whole if count == 1 else method(whole, "reshape", f"{wanted}.shape")


def flatten_axes(code: SyntaxNode, first: int, count: int, rank: int) -> SyntaxNode:
    """``count`` axes from the first on as one: a new one for none."""
    if count == 1:
        return code
    if count == 0:
        return index(code, [*[COLON] * first, None])
    if rank == count:
        return method(code, "flatten")
    return method(code, "flatten", first, *([] if first + count == rank else [first + count - 1]))


def write_strided(notation: Notation, v: Expr, axes: Sequence[Index], wanted: str) -> SyntaxNode:
    """Every s-th entry from the a-th on; of several axes the last ones first, into zeros as others have left them."""
    indices, code, counts = indices_of(v), notation.source.tensor(name_of(v)), shape_in_scope(notation, name_of(v))
    moved = find_view_axes(indices, axes)
    places = [n for n, axis in enumerate(axes) if n in moved or counts[n] != axis.size]
    taken = {place: find_slice(indices[place], axes[place], counts[place]) for place in places}
    for place in reversed(places):
        whole = index(wanted, [taken.get(n, COLON) for n in range(place)])
        numbers = index(call("arange", notation.source.size(axes[place].size)), [taken[place]])
        code = write_index_add_call(whole, place, numbers, code)
    return code


def find_slice(step: Expr, along: Index, count: Size) -> Slice:
    """a:b:s, where an entry is read at ⌊(index − a) / s⌋."""
    slide = solve_slide(step, along, sp.S.Zero)
    start, stride = -slide.padding, slide.dilation
    require_all(stride.is_Integer, stride > 0, start.is_Integer, start >= 0)
    first, every = (None if n == usual else to_code(int(n)) for n, usual in ((start, 0), (stride, 1)))
    return Slice(first, slice_stop(count, along.size, start, stride).stop, every)


def slice_stop(count: Size, size: Size, start: Expr, stride: Expr) -> Slice:
    """Where a slice of so many entries ends: nowhere for the end of the axis, at −c for c entries before it."""
    if sp.expand(count - sp.floor((size - start + stride - 1) / stride)) == 0:
        return COLON
    if count.is_Integer:
        return Slice(None, to_code(int(start + stride * (count - 1) + 1)), None)
    steps = count.args[0] if isinstance(count, sp.floor) else count
    left = sp.expand(size - start + stride - 1 - steps * stride)
    require_all(left.is_Integer, left > 0)
    return Slice(None, to_code(-int(left)), None)


def write_unfolded_windows(
    notation: Notation, v: Expr, bound: Sequence[Index], axes: Sequence[Index], wanted: str
) -> SyntaxNode:
    """Windows that were laid along one axis, each as a last axis of its own."""
    indices, (shift,) = indices_of(v), bound
    places = find_view_axes(indices[:-1], axes)
    require_all(len(places) == 1, indices[-1:] == (shift,))
    (place,) = places
    slide = solve_slide(indices[place], axes[place], shift)  # for the step: its divisor is how far windows move
    require_all(slide.stride == 1, slide.padding == 0, slide.dilation.is_Integer)
    *counts, width = shape_in_scope(notation, name_of(v))
    many = sp.floor((axes[place].size - shift.size) / slide.dilation) + 1
    ends = slice_stop(counts[place], many, sp.S.Zero, sp.S.One), slice_stop(width, shift.size, sp.S.Zero, sp.S.One)
    require_all(*(counts[n] == axis.size for n, axis in enumerate(axes) if n != place))
    numbers = call("arange", notation.source.size(axes[place].size))
    windows = method(numbers, "unfold", 0, notation.source.size(shift.size), int(slide.dilation))
    moved = notation.source.tensor(name_of(v))
    if place < len(axes) - 1:
        moved = method(moved, "movedim", -1, place + 1)
    moved = flatten_axes(moved, place, 2, len(axes) + 1)
    part = method(index(windows, ends), "flatten")  # of the windows that there are
    return write_index_add_call(Name(wanted), place, part, moved)


def find_view_axes(indices: Sequence[Expr], axes: Sequence[Index]) -> list[int]:
    """The axes along which an entry is looked for elsewhere, all others as they are."""
    require_all(len(indices) == len(axes))
    moved = [n for n, (index, axis) in enumerate(zip(indices, axes, strict=True)) if index != axis]
    require_all(moved, *(indices[n].has(axes[n]) for n in moved))
    return moved


def write_index_add_call(like: SyntaxNode, place: int, numbers: SyntaxNode, moved: SyntaxNode) -> SyntaxNode:
    """``moved`` added at those numbers of an axis."""
    return method(call("zeros_like", like), "index_add", place, numbers, moved)


def write_diagonal_scatter(notation: Notation, delta: Expr, v: Expr, axes: Sequence[Index], wanted: str) -> SyntaxNode:
    """δ(q, p + k)·v[…, p]: the k-th diagonal above the main one, or below it; of a matrix the main one has a name."""
    for row, column in (delta.args, delta.args[::-1]):
        ahead = sp.expand(column - row)
        if not (row in axes and len(column.free_symbols & {*axes}) == 1 and not ahead.is_Integer):
            continue
        (other,) = column.free_symbols & {*axes}
        offset = sp.expand(column - other)
        require_all(offset.is_Integer, other != row, offset != 0 or len(axes) != 2)
        above = list(axes).index(row) > list(axes).index(other)
        first, second = (other, row) if above else (row, other)
        number = offset if above else -offset
        rest = [axis for axis in axes if axis not in (row, other)]
        require_all(indices_of(v) == (*rest, first if number >= 0 else second))
        planes = [] if len(axes) == 2 else [list(axes).index(first), list(axes).index(second)]
        ends = (first.size, second.size - number) if number >= 0 else (second.size, first.size + number)
        *counts, length = shape_in_scope(notation, name_of(v))
        require_all(any(sp.expand(length - end) == 0 for end in ends))  # no part of it, as x.diagonal(1)[:2]
        require_all(*(count == axis.size for count, axis in zip(counts, rest, strict=True)))
        moved = notation.source.tensor(name_of(v))
        return method(call("zeros_like", wanted), "diagonal_scatter", moved, int(number), *planes)
    raise NoForm


def write_fold(notation: Notation, v: Expr, bound: Sequence[Index], axes: Sequence[Index], wanted: str) -> SyntaxNode:
    """The call that gives Σ v, where rows and columns are numbered as in windows."""
    *lead, rows, columns = indices_of(v) if len(indices_of(v)) > 1 else (None, None)
    require_all(isinstance(rows, Ravel), isinstance(columns, Ravel) and len(columns.shape) == 2, len(axes) > 2)
    channel, shifts = rows.indices[:-2], rows.indices[-2:]
    require_all(tuple(lead) == tuple(axes[:-3]))
    require_all(channel in ((axes[-3],), *([()] if axes[-3].size == 1 else [])))
    found = [solve_window_axis(*parts, bound) for parts in zip(axes[-2:], columns.indices, shifts, strict=True)]
    sizes = index(f"{wanted}.shape", [Slice(to_code(-2), None, None)])
    window, slides = write_one_or_each(notation, rows.shape[-2:]), write_slides(notation, found, reversed(USUAL))
    return call("F.fold", notation.source.tensor(name_of(v)), sizes, window, **slides)


def write_unfold(notation: Notation, v: Expr, axes: Sequence[Index]) -> SyntaxNode:
    """The windows of v, in columns."""
    require_all(len(axes) > 1, len(indices_of(v)) == len(axes) + 1)
    *lead, channel, first, second = indices_of(v)
    rows, columns = axes[-2:]
    steps, shifts = ([u for u in v.atoms(Unravel) if u.number == number] for number in (columns, rows))
    window = shifts[0].shape[-2:] if shifts else ()
    require_all(tuple(lead) == tuple(axes[:-2]), len(steps) == 2, len(window) == 2)
    require_all(channel in (0, *(u for u in shifts if len(u.shape) > 2 and u.axis == 0)))
    found = []
    for number, place in enumerate((first, second)):
        step = next(u for u in steps if u.axis == number)
        shift = [u for u in shifts if len(u.shape) - u.axis == 2 - number]
        require_all(len(shift) > 0)
        found.append(solve_straight(place, step, shift[0]))
    slides = write_slides(notation, found, reversed(USUAL))
    return call("F.unfold", notation.source.tensor(name_of(v)), write_one_or_each(notation, window), **slides)


def solve_window_axis(place: Index, step: Expr, shift: Expr, bound: Sequence[Index]) -> Slide:
    """What one axis says, whichever of the two is summed over and the other solved for."""
    if isinstance(shift, Index) and shift in bound:
        slide = solve_slide(step, place, shift)
        return Slide(slide.dilation, slide.stride, slide.padding)
    if isinstance(step, Index) and step in bound:
        return solve_slide(shift, place, step)
    raise NoForm
