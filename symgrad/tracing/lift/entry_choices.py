"""Calls that only select entries of their first argument: views, sorting, indexing, max pooling.

Comes in: a recorded call. Goes out: a reference to steps of the table that read the same entries. The call itself is
run on the positions of the entries, so that no rule for single functions is needed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from symgrad.language.binding import Ref
from symgrad.numeric.exact import Array
from symgrad.ops.calls.registry import CHOICES, RANKED
from symgrad.ops.lookup import basics, role_entry
from symgrad.program import Role
from symgrad.tracing.lift import Refused
from symgrad.tracing.lift.boxes import UnderivedCall, replay
from symgrad.tracing.lift.context import LiftContext
from symgrad.tracing.record.spelling import plain_word
from symgrad.tracing.record.trace import Node

WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
"""Integer dtypes."""
MOST_PIECES = 12
"""The largest number of pieces, over all axes, of a write without a mask."""


def by_index_probe(lifter: LiftContext, node: Node) -> Ref:
    """Lift the call as a selection of entries of its first argument.

    The positions are found by running the call, or its J, on the numbers of the entries.
    """
    call = node.maker
    word = plain_word(call.spelling)
    nodes = [n for n in call.nodes if n.carries]
    if word not in CHOICES or len(nodes) != 1:
        raise Refused("")
    (source,) = nodes
    if source.held.numel() == 0 or node.held.numel() == 0:
        raise Refused("")
    lifter.asked_numbers |= word in RANKED
    if word in RANKED and node.index != 0:
        raise Refused("")
    if word in RANKED:
        places = selected_indices(node, source)
    else:
        count = torch.arange(source.held.numel(), dtype=torch.float64).reshape(source.held.shape)
        places = np.asarray(replay(node, (source,), (count,)).numpy()).astype(np.int64)
    if places.shape != node.shape or places.min() < 0:
        raise Refused("")
    ref, name = lifter.refs[id(source)], lifter.wish(node)
    return pick_one_per_row(lifter, node, ref, places, name) or lift_selection(lifter, ref, places, name, call.nodes)


def pick_one_per_row(lifter: LiftContext, node: Node, source: Ref, places: Array, name: str | None) -> Ref | None:
    """Lift x[arange(n), y], one entry of each row, if an integer tensor of the call is y; else return None."""
    rows, columns = source.shape if len(source.shape) == 2 else (0, 1)
    if places.shape != (int(rows),) or not np.array_equal(places // int(columns), np.arange(int(rows))):
        return None
    own = find_equal_index_tensor(lifter, places % int(columns), node.maker.nodes)
    if own is None:
        return None
    lifter.asked_numbers = True
    picked = lifter(basics.gather, source, 1, lifter(basics.reshape, own, (-1, 1)))
    return lifter(basics.reshape, picked, (-1,), called=name)


def has_ties(node: Node) -> bool:
    """Whether the call sorts or ranks entries and some are equal, so that positions depend on the algorithm."""
    if plain_word(node.maker.spelling) not in RANKED:
        return False
    return any(n.held.unique().numel() < n.held.numel() for n in node.maker.nodes if n.carries)


BASES = {torch.float64: 2**26, torch.float32: 2**12}
"""The base whose squared digits are exact in a dtype; 16 in other dtypes."""


def selected_indices(node: Node, source: Node) -> Array:
    """Return the position in ``source`` of each entry of the result, −1 for none: J times the numbers, by digits.

    A row of J has a single 1, at the entry that torch selected among equal ones. Refuses any other J.
    """
    box = UnderivedCall("", node.maker.spelling, "", node.maker, node.index, (source,))
    base, count = BASES.get(source.held.dtype, 16), source.held.numel()
    numbers, found, scale = np.arange(1, count + 1).reshape(source.shape), np.zeros(node.shape), 1
    while scale <= count:
        digits = numbers // scale % base
        part, squares = box.push({0: digits}), box.push({0: digits**2})
        if part.shape != node.shape or not np.array_equal(squares, part**2):
            raise Refused("it does more than pick entries")
        found, scale = found + scale * part, scale * base
    return found.astype(np.int64) - 1


def lift_selection(lifter: LiftContext, source: Ref, places: Array, name: str | None, read: Sequence[Node] = ()) -> Ref:
    """Read ``source``'s entries at ``places``, by an index if one exists, else by a gather.

    An equal index tensor among the nodes ``read`` is used; indices of whole slices may have several axes.
    """
    shape = tuple(int(s) for s in source.shape)
    if np.array_equal(places.reshape(-1), np.arange(int(np.prod(shape, dtype=object)))):
        same = name is None and tuple(places.shape) == shape
        return source if same else lifter(basics.reshape, source, tuple(places.shape), called=name)
    order = find_permutation(places, shape)
    if order is not None:
        return lifter(basics.permute, source, order, called=name)
    key = find_slice_index(places, shape)
    found = find_slice_positions(places, shape) if key is None else None
    if found is not None and not found[1].ndim:
        key = tuple(("int", int(found[1])) if axis == found[0] else ("all",) for axis in range(len(shape)))
    if key is not None:
        return lifter(role_entry(Role.INDEXES), source, called=name, key=key)
    if found is None:
        return lift_gather(lifter, source, places, name)
    op, (axis, at) = role_entry(Role.PICKS), found
    index = find_equal_index_tensor(lifter, at, read) or lifter.data("places", at)
    if at.ndim == 1:
        return lifter(op, source, axis, index, called=name)
    rows = lifter(op, source, axis, lifter(basics.reshape, index, (-1,)))
    return lifter(basics.reshape, rows, tuple(places.shape), called=name)


def find_slice_positions(places: Array, shape: tuple[int, ...]) -> tuple[int, Array] | None:
    """Return the axis and positions of a read of whole slices, else None."""
    more = places.ndim - len(shape) + 1
    if more < 0 or not places.size or places.min() < 0:
        return None
    count = np.arange(int(np.prod(shape, dtype=object))).reshape(shape)
    for axis, size in enumerate(shape):
        first = places[(0,) * axis + (slice(None),) * more + (0,) * (len(shape) - axis - 1)]
        at = first // int(np.prod(shape[axis + 1 :], dtype=object)) % size
        if np.array_equal(count.take(at, axis), places):
            return axis, at
    return None


def find_equal_index_tensor(lifter: LiftContext, at: Array, read: Sequence[Node]) -> Ref | None:
    """Return a tensor of the call with these positions, if there is one."""
    for node in read:
        if not node.carries and node.held.dtype in WHOLE and np.array_equal(node.held.numpy(), at):
            return lifter.refs_in((node,))[id(node)]
    return None


def lift_gather(lifter: LiftContext, source: Ref, places: Array, name: str | None) -> Ref:
    """Flatten, gather and reshape, so that one equation serves every number of axes."""
    index = lifter.data("places", places.reshape(-1))
    flat = source if len(source.shape) == 1 else lifter(basics.reshape, source, (-1,))
    if places.ndim == 1:
        return lifter(basics.gather, flat, 0, index, called=name)
    return lifter(basics.reshape, lifter(basics.gather, flat, 0, index), tuple(places.shape), called=name)


def lift_overwrite(
    lifter: LiftContext, old: Ref, new: Ref | float, places: Array, name: str | None, chosen: bool = False
) -> Ref:
    """Write entries of ``new``, or one number, into ``old`` where ``places`` is not -1; ``chosen`` forces a mask."""
    mask = places >= 0
    if mask.all() and isinstance(new, Ref):
        return lift_selection(lifter, new, places, name)
    used = [np.unique(at) for at in np.nonzero(mask)] if mask.ndim else []
    block = np.ix_(*used)
    pieces = sum(1 + np.count_nonzero(np.diff(at) > 1) for at in used)
    if chosen or not mask[block].all() or not 0 < pieces <= MOST_PIECES:
        spread = lift_gather(lifter, new, np.maximum(places, 0), None) if isinstance(new, Ref) else new
        return lifter(basics.where, lifter.data("written", mask), spread, old, called=name)
    if isinstance(new, Ref):
        part = lift_selection(lifter, new, places[block], None)
    else:
        before = lift_selection(lifter, old, np.arange(places.size).reshape(places.shape)[block], None)
        part = lifter(basics.add, lifter(basics.zeros_like, before), new)
    return lift_block(lifter, old, part, used, name)


def lift_block(
    lifter: LiftContext, old: Ref, new: Ref, used: Sequence[Array], name: str | None = None, axis: int = 0
) -> Ref:
    """Write ``new`` into ``old`` at the positions ``used`` of each axis, by concatenating pieces of both."""
    left = [int(size) - len(at) for size, at in zip(old.shape, used, strict=False)][axis:]
    if not any(left):
        return new
    if not left[0]:
        return lift_block(lifter, old, new, used, name, axis + 1)
    pieces, at = list[Ref](), used[axis].tolist()
    for inside, (first, *rest) in itertools.groupby(range(int(old.shape[axis])), at.__contains__):
        count = len(rest) + 1
        piece = None if inside and not any(left[1:]) else lifter(basics.narrow, old, axis, first, count)
        if inside:
            part = new if count == len(at) else lifter(basics.narrow, new, axis, at.index(first), count)
            piece = part if piece is None else lift_block(lifter, piece, part, used, None, axis + 1)
        assert piece is not None
        pieces.append(piece)
    return lifter(basics.cat, pieces, axis, called=name)


def find_permutation(places: Array, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the permutation of axes with which ``places`` reads all entries, else None."""
    if places.ndim != len(shape) or places.size != int(np.prod(shape, dtype=object)) or 1 in shape:
        return None
    origin = [0] * places.ndim
    steps = [
        int(places[tuple(int(a == axis) for a in range(places.ndim))] - places[tuple(origin)])
        for axis in range(places.ndim)
    ]
    strides = [int(np.prod(shape[axis + 1 :], dtype=object)) for axis in range(len(shape))]
    if sorted(steps) != sorted(strides):
        return None
    order = tuple(strides.index(step) for step in steps)
    count = np.arange(places.size).reshape(shape)
    return order if np.array_equal(np.transpose(count, order), places) else None


def find_slice_index(places: Array, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """Return the index of slices with step 1 that reads ``places``, else None."""
    if not places.size or not shape or places.min() < 0 or places.ndim != len(shape):
        return None
    count = np.arange(int(np.prod(shape, dtype=object))).reshape(shape)
    first, last = (np.unravel_index(int(places.reshape(-1)[end]), shape) for end in (0, -1))
    slices = tuple(slice(int(a), int(b) + 1) for a, b in zip(first, last, strict=True))
    if not np.array_equal(count[slices], places):
        return None
    return tuple(
        ("all",) if s.start == 0 and s.stop == n else ("slice", s.start, s.stop, 1)
        for s, n in zip(slices, shape, strict=True)
    )
