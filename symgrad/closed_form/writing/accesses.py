"""Writing one access: x[p,q] is x, a shift is a slice, a row-major number a reshape; and δ: one_hot, diagonals.

Entries in another order are axes that are numbered through, taken apart, and put together again otherwise:

    v[p, ⌊q/4⌋, 2·r + (⌊q/2⌋ mod 2), 2·s + (q mod 2)]
        →  v.reshape(m, n // 4, h, 2, w, 2).permute(0, 1, 3, 5, 2, 4).reshape(x.shape)

Each place of an axis is a number, its parts are digits: pixels laid out as channels are the same digits in another
order, and so is the way back. Classes of which some are left out have a mask with a name: ``one_hot(t * m, n)``.

A matrix that is 0 off its diagonal is f.diag(), and c * eye(n) where every entry there is the same.

Comes in: an access, a δ of classes, or δ(p, q) and what it multiplies. Goes out: a fragment; `NoForm` where a digit is
read twice or not at all, or where one of p and q is no index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice

import sympy as sp

from symgrad.closed_form.fragments import (
    Axes,
    Fragment,
    Notation,
    call_method,
    drop_size_one_axes,
    fill_with_number,
    shape_in_scope,
)
from symgrad.closed_form.number_code import NoForm
from symgrad.closed_form.rewriting.conditions import ignores_class
from symgrad.closed_form.rewriting.shorthands import reads_tensor
from symgrad.indexing import Index, Ravel, Unravel
from symgrad.indexing.brackets import by_whole_numbers
from symgrad.indexing.symbols import Expr, accesses, free_indices, indices_of, is_access, name_of
from symgrad.language.python_text import COLON, call, index, method
from symgrad.language.syntax_tree import Slice, Subscript
from symgrad.language.trees import fill_ones, transpose_matrix
from symgrad.notation.tree import Binary, Dots, SyntaxNode
from symgrad.shapes import Size


def write_access(notation: Notation, node: Expr, prefer: Sequence[Index] = ()) -> Fragment:
    """x[p,q] is x; constants and shifts are slices; row-major numbers are reshapes."""
    name, indices = name_of(node), indices_of(node)
    shape = shape_in_scope(notation, name)
    piece = Fragment(notation.source.tensor(name), ())
    if len(shape) != len(indices):  # half of a number that is written as a complex one beside it
        raise NoForm
    if all(isinstance(i, Index) and i.size == size for i, size in zip(indices, shape, strict=True)):
        if len(set(indices)) == len(indices):
            flipped = write_transposed_product(notation, name, indices)
            return Fragment(piece.code, indices, flipped=flipped, inverts=find_inverted(notation, name, indices))
        if len(indices) == 2:
            return call_method(piece, (indices[0],), "diag")
    if any(isinstance(i, (Ravel, Unravel)) for i in indices):
        return write_digit_permutation(notation, piece, indices, shape, prefer)
    if any(reads_tensor(i) for i in indices):
        return write_selection(notation, piece, indices, shape)
    if len(moving := [i for place in indices for i in free_indices(place)]) > len(set(moving)):
        return write_diagonal(notation, piece, indices, shape)
    items: list[SyntaxNode] = []
    axes: list[Index | None] = []
    turns: list[Turn] = []
    for place, size in zip(indices, shape, strict=True):
        if isinstance(place, Index) and place.size == size:
            items.append(COLON)
            axes.append(place)
        elif place == 0 and size == 1:
            items.append(COLON)
            axes.append(None)
        elif not free_indices(place):
            items.append(notation.source.size(place))
        else:
            item, turn = write_shift(notation, place, size, axes)
            items.append(item)
            turns += [turn] if turn is not None else []
    return Fragment(reduce(lambda code, turn: turn(code), turns, index(piece.code, items)), tuple(axes))


def write_transposed_product(notation: Notation, name: str, indices: Sequence[Index]) -> Fragment | None:
    """The transpose of a forward value that is a matrix product: (a @ b).T is b.T @ a.T; a symmetric one is its own."""
    if name in notation.symmetric:
        return Fragment(notation.source.tensor(name), tuple(reversed(indices)))
    factors = notation.source.factors(name)
    if factors is None or len(indices) != 2:
        return None
    return Fragment(Binary("@", *map(transpose_matrix, reversed(factors))), tuple(reversed(indices)))


def find_inverted(notation: Notation, name: str, indices: Sequence[Index]) -> Fragment | None:
    """The matrix of a linear system whose inverse is read: who solves wants to solve again, not to invert."""
    matrix = notation.solved.get(name)
    if matrix is None or len(indices) != 2:
        return None
    return Fragment(
        notation.source.tensor(matrix), tuple(indices), flipped=write_transposed_product(notation, matrix, indices)
    )


Turn = Callable[[SyntaxNode], SyntaxNode]
"""What turns an axis round."""


def write_shift(
    notation: Notation, position: Expr, size: Size, axes: list[Index | None]
) -> tuple[SyntaxNode, Turn | None]:
    """x[c + p] for p below n is x[c:c + n]; x[c − p] is one that is flipped; x[(c + p) mod n] is rolled by −c."""
    around = isinstance(position, sp.Mod) and position.args[1] == size
    place = position.args[0] if around else position
    if len(free_indices(place)) != 1:
        raise NoForm
    (moving,) = free_indices(place)
    slope = place.coeff(moving)
    start = place - slope * moving
    if slope not in (1, -1) or free_indices(start) or (around and (slope < 0 or moving.size != size)):
        raise NoForm
    axes.append(moving)
    axis = len(axes) - 1
    if around:
        start = sp.expand(start - sp.expand(start).coeff(size) * size)  # once around is where it was
        by = notation.source.size(-start)
        return COLON, (lambda code: method(code, "roll", by, axis)) if start != 0 else None
    if slope < 0:
        start = start - moving.size + 1
    start, stop = sp.expand(start), sp.expand(start + moving.size)
    if not notation.is_size(start) or not notation.is_size(sp.expand(size - stop)):
        raise NoForm  # a place outside the axis: read only where something else is 0
    first, last = (None if end == usual else notation.source.size(end) for end, usual in ((start, 0), (stop, size)))
    return Slice(first, last, None), (lambda code: method(code, "flip", axis)) if slope < 0 else None


def write_selection(notation: Notation, piece: Fragment, indices: Sequence[Expr], shape: Sequence[Size]) -> Fragment:
    """x[p, n[q]] is x[:, n]; x[p, n[p, q]] is x.gather(1, n)."""
    read = [place for place, i in enumerate(indices) if not isinstance(i, Index)]
    if len(read) != 1 or any(i.size != size for i, size in other_axes(indices, shape, read)):
        raise NoForm
    positions = write_class_tensor(notation, indices[read[0]])
    if len(positions.axes) == len(indices) > 1:
        if any(
            i != axis for place, (i, axis) in enumerate(zip(indices, positions.axes, strict=True)) if place not in read
        ):
            raise NoForm
        return call_method(piece, positions.axes, "gather", read[0], positions.code)
    axes = [positions.axes[0] if place in read and len(positions.axes) == 1 else i for place, i in enumerate(indices)]
    if len(set(axes)) < len(axes) or not all(isinstance(i, Index) for i in axes):
        raise NoForm
    return Fragment(index(piece.code, [*[COLON] * read[0], positions.code]), tuple(axes))


def write_diagonal(notation: Notation, piece: Fragment, indices: Sequence[Expr], shape: Sequence[Size]) -> Fragment:
    """x[p, p + d] is x.diagonal(d), along all of which p runs."""
    moving = [i for place in indices for i in free_indices(place)]
    twice = [n for n, place in enumerate(indices) if any(moving.count(i) > 1 for i in free_indices(place))]
    if len(twice) != 2 or not all(isinstance(i, Index) and i.size == n for i, n in other_axes(indices, shape, twice)):
        raise NoForm
    (row, column), (rows, columns) = ([part[place] for place in twice] for part in (indices, shape))
    if len(free_indices(row) | free_indices(column)) != 1:
        raise NoForm
    (along,) = free_indices(row)
    ahead = column - row
    below, above = row - along, column - along
    if not ahead.is_Integer or 0 not in (below, above) or (ahead > 0) != (below == 0 and above != 0):
        raise NoForm
    beyond = [sp.expand(rows - below - along.size), sp.expand(columns - above - along.size)]
    if 0 not in beyond or not all(map(notation.is_size, beyond)):
        raise NoForm
    first, second = twice
    told = ([int(ahead)] if ahead else []) if (first, second) == (0, 1) else [int(ahead), first, second]
    rest = [i for i, _ in other_axes(indices, shape, twice)]
    return call_method(piece, (*rest, along), "diagonal", *told)


def other_axes(indices: Sequence[Expr], shape: Sequence[Size], but: Sequence[int]) -> list[tuple[Expr, Size]]:
    """What stands on the other axes, and how long they are."""
    return [pair for place, pair in enumerate(zip(indices, shape, strict=True)) if place not in but]


Digit = tuple[Index, int]
"""A part of an index: which, counted from the first; one that is read whole has one."""


def write_digit_permutation(
    notation: Notation, piece: Fragment, indices: Sequence[Expr], shape: Sequence[Size], prefer: Sequence[Index]
) -> Fragment:
    """x.reshape(…).permute(…).reshape(…), as far as each of the three changes something.

    Where that takes a permutation, the same one brings the axes into the order of ``prefer``.
    """
    read = [([*split_into_digits(number)], size) for number, size in merge_digits_of_axes(indices, shape)]
    sizes = {digit: size for digits, _ in read for digit, size in digits}
    flat = [digit for digits, _ in read for digit, _ in digits]
    axes = tuple(dict.fromkeys(index for index, _ in flat))
    if concatenate_digits(axes, sizes) != flat:
        axes = tuple(sorted(axes, key=lambda i: prefer.index(i) if i in prefer else len(prefer)))
    wanted = concatenate_digits(axes, sizes)
    if len(sizes) < len(flat) or not all(reads_all_digits(axis, sizes) for axis in axes):
        raise NoForm
    if not all(fills_axis(size, [own for _, own in digits]) for digits, size in read):
        raise NoForm  # a part of the axis is read
    once = wanted == flat and len(axes) < len(wanted)  # one reshape is enough
    if not once and (len(read) < len(shape) or any(len(digits) != 1 for digits, _ in read)):
        piece = write_reshape(notation, piece, [sizes[digit] for digit in flat])
    if wanted != flat:
        piece = call_method(piece, (), "permute", *map(flat.index, wanted))
    if len(axes) < len(wanted):
        return write_reshape(notation, piece, [axis.size for axis in axes], axes)
    return Fragment(piece.code, axes)


def merge_digits_of_axes(indices: Sequence[Expr], shape: Sequence[Size]) -> Iterator[tuple[Expr, Size]]:
    """What stands at each axis, and its size; axes that are all parts of one number are that number."""
    sizes = iter(shape)
    for number, many in by_whole_numbers(indices):
        yield number, sp.Mul(*islice(sizes, many))


def concatenate_digits(axes: Sequence[Index], digits: Collection[Digit]) -> list[Digit]:
    """The digits of one axis after those of another, the first of each first."""
    return [digit for axis in axes for digit in sorted((d for d in digits if d[0] is axis), key=lambda d: d[1])]


def split_into_digits(index: Expr) -> Iterator[tuple[Digit, Size]]:
    """The digits of a place along an axis, the first counts most; each with how many values it takes."""
    if index == 0:
        return  # an axis of one entry
    if isinstance(index, Index):
        yield (index, 0), index.size
    elif isinstance(index, Unravel) and isinstance(index.number, Index):
        yield (index.number, index.axis), index.shape[index.axis]
    elif isinstance(index, Ravel):
        for part, size in zip(index.indices, index.shape, strict=True):
            inner = [*split_into_digits(part)]
            if not fills_axis(size, [own for _, own in inner]):
                raise NoForm
            yield from inner
    else:
        raise NoForm


def reads_all_digits(axis: Index, digits: Mapping[Digit, Size]) -> bool:
    """Whether all digits of an index are read."""
    own = concatenate_digits([axis], digits)
    return [place for _, place in own] == list(range(len(own))) and fills_axis(
        axis.size, [digits[digit] for digit in own]
    )


def fills_axis(size: Size, parts: Sequence[Size]) -> bool:
    """Whether the parts of an axis are the whole of it, at every size."""
    return bool(sp.expand(sp.Mul(*parts) - size) == 0)


def write_reshape(notation: Notation, piece: Fragment, sizes: Sequence[Size], axes: Axes = ()) -> Fragment:
    """``piece.reshape(sizes)``; an input's own shape by its name."""
    for tensor in notation.program.inputs:
        if tensor.shape == tuple(sizes) and len(sizes) > 1:
            return call_method(piece, axes, "reshape", f"{tensor.name}.shape")
    return call_method(piece, axes, "reshape", *map(notation.source.size, sizes))


def is_class_delta(node: Expr) -> bool:
    """Whether a δ says which class an entry has."""
    return isinstance(node, sp.KroneckerDelta) and any(isinstance(s, Index) for s in node.args) and reads_tensor(node)


def write_one_hot(notation: Notation, node: Expr) -> Fragment:
    """The δ of classes by its name in torch."""
    (place,), (entry,) = ([s for s in node.args if isinstance(s, Index) == own] for own in (True, False))
    classes, size = write_class_tensor(notation, entry), notation.source.size(place.size)
    told = max(find_class_count(notation, entry), default=0)
    if place.size.is_Integer and told > place.size:  # the first of more
        every = call("one_hot", classes.code, told)
        return Fragment(Subscript(every, (Dots(), Slice(None, size, None))), (*classes.axes, place))
    return Fragment(call("one_hot", classes.code, size), (*classes.axes, place))


def find_class_count(notation: Notation, entry: Expr) -> Iterator[int]:
    """How many classes the program says that there are."""
    names = {name_of(part) for part in accesses(entry)}
    for step in notation.program.steps:
        told = dict(step.options).get("num_classes")
        if isinstance(told, int) and not names.isdisjoint(step.tensors):
            yield told


def write_class_tensor(notation: Notation, entry: Expr) -> Fragment:
    """The tensor of classes t, or ``t * m`` where a mask leaves some out, which has a name."""
    if is_access(entry):
        return drop_size_one_axes(notation.write(entry, ()))
    masks = [factor for factor in entry.args if ignores_class(factor)] if entry.is_Mul else []
    if len(masks) != 1 or len(entry.args) != 2 or not is_access(masks[0].args[0].lhs):
        raise NoForm
    classes, mask = (drop_size_one_axes(notation.write(node, ())) for node in (masks[0].args[0].lhs, masks[0]))
    if classes.axes != mask.axes:
        raise NoForm
    return Fragment(Binary("*", classes.code, notation.name("m", mask).code), classes.axes)


def write_diag(notation: Notation, factor: Expr, rest: Sequence[Expr]) -> Fragment:
    """δ_pq·f(p) is f.diag(), with zeros behind it where there are more rows or columns."""
    p, q = factor.args
    if not (isinstance(p, Index) and isinstance(q, Index)):
        raise NoForm
    less, more = (p, q) if notation.is_size(q.size - p.size) else (q, p)
    behind = sp.expand(more.size - less.size)
    inner = drop_size_one_axes(notation.write(sp.Mul(*rest).xreplace({more: less}), (less,)))
    if inner.axes not in ((less,), ()) or not notation.is_size(behind):
        raise NoForm
    if not inner.axes and (notation.is_hessian or not any(sign.isalpha() for sign in inner.text)):
        return write_scaled_eye(notation, inner, p, q)
    if not inner.axes:
        inner = expand_number(notation, inner, less)
    square = call_method(inner, (less, more), "diag")
    if behind == 0:
        return square
    return Fragment(call("pad", square.code, (0, notation.source.size(behind))), (less, more))


def write_scaled_eye(notation: Notation, number: Fragment, p: Index, q: Index) -> Fragment:
    """A number on the diagonal of a matrix."""
    sizes = dict.fromkeys(notation.source.size(axis.size) for axis in (p, q))
    return Fragment(fill_ones(number.code, call("eye", *sizes)), (p, q))


def expand_number(notation: Notation, number: Fragment, axis: Index) -> Fragment:
    """A number at every place of a vector: by a vector of that size where there is one."""
    alike = [t.name for t in notation.program.inputs if t.shape == (axis.size,)]
    if not alike:
        return call_method(number, (axis,), "expand", notation.source.size(axis.size))
    return fill_with_number(number, alike[0], (axis,))
