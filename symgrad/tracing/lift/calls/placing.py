"""Torch calls that write entries of one tensor at places of another, in entries of the table.

Where things land is found by sending numbers through the call, or read off its positions, which are data. What is
written over is chosen (`symgrad.tracing.lift.choices.put`); what is added or reduced there is one entry of the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from symgrad.numeric.exact import Array
from symgrad.ops import ground
from symgrad.tracing.lift.boxes import replayed
from symgrad.tracing.lift.choices import put
from symgrad.tracing.lift.lifted import TWICE, Refused
from symgrad.tracing.lift.steps import Said, Steps, composition, done
from symgrad.tracing.record.trace import Node, plainly

ANOTHER = "torch's backward passes on what was written over, and nothing from what was kept"
"""Why a write by strides is left to torch."""


@composition("slice_scatter", "diagonal_scatter", "masked_scatter")
def scattered(steps: Steps, node: Node, *_: Any, **__: Any) -> Said | None:
    """Entries of one tensor written over another's: which ones is found by sending numbers through the call."""
    call = node.call
    assert call is not None
    read = [n for n in call.nodes() if n.held.is_floating_point()]
    if len(read) != 2 or read[0] is not call.arguments[0] or not read[1].held.numel():
        raise Refused("")
    old, new = read
    count = torch.arange(new.held.numel(), dtype=torch.float64).reshape(new.held.shape)
    nothing = torch.full(old.held.shape, -1.0, dtype=torch.float64)
    places = np.asarray(replayed(node, (old, new), (nothing, count)).numpy()).astype(np.int64)
    if places.shape != node.shape:
        raise Refused("")
    refs = steps.lifter.refs_in((old, new))
    return done(put(steps.lifter, refs[id(old)], refs[id(new)], places, steps.lifter.wish(node)))


def once(places: Array) -> None:
    """Refuse places that are written more than once: torch's backward then is no derivative of what it computed."""
    if len(np.unique(places)) < places.size:
        raise Refused(TWICE)


def numbers(x: Node) -> torch.Tensor:
    """The entries' own numbers in the shape of ``x``."""
    return torch.arange(int(np.prod(x.shape, dtype=object))).reshape(x.shape)


def landed(steps: Steps, x: Any, places: Array, values: Any) -> Said:
    """x plus the values, each added at the entry whose number is in ``places``."""
    spread = steps(ground.expand, values, tuple(places.shape)) if tuple(values.shape) != places.shape else values
    index = steps.lifter.data("places", places.reshape(-1))
    total = steps(ground.index_add, steps(ground.reshape, x, (-1,)), 0, index, steps(ground.reshape, spread, (-1,)))
    return done(steps(ground.reshape, total, tuple(map(int, x.shape))))


@composition()
def index_put(steps: Steps, node: Node, x: Any, indices: Any, values: Any, accumulate: bool = False) -> Said | None:
    """x with values at some places, or with values added there."""
    places = numbers(x)[tuple(slice(None) if i is None else i for i in plainly(tuple(indices)))].numpy()
    if accumulate:
        return landed(steps, x, places, values)
    if not places.size:
        return "Tensor.clone", (x,), {}
    once(places)
    return scattered(steps, node)


@composition("put")
def put_at(steps: Steps, node: Node, x: Any, index: Any, source: Any, accumulate: bool = False) -> Said | None:
    """The same by the entries' numbers, row by row."""
    places = np.mod(np.asarray(plainly(index).numpy()), max(int(np.prod(x.shape, dtype=object)), 1))
    if not places.size:
        return "Tensor.clone", (x,), {}
    if accumulate:
        return landed(steps, x, places, source if tuple(source.shape) == places.shape else
                      steps(ground.reshape, source, tuple(places.shape)))  # fmt: skip
    once(places)
    return scattered(steps, node)


def beside_diagonal(shape: tuple[int, ...], wrap: bool) -> Array:
    """Where no entry of the diagonal stands, which begins again below its end if it is to ``wrap``."""
    kept = np.ones(shape, dtype=bool)
    np.fill_diagonal(kept, False, wrap=wrap)
    return kept


@composition()
def fill_diagonal(steps: Steps, node: Node, x: Any, fill_value: Any, wrap: bool = False) -> Said | None:
    """A number on the diagonal."""
    kept = steps.lifter.data("kept", beside_diagonal(tuple(x.shape), wrap))
    return done(steps(ground.where, kept, x, fill_value))


@composition("_unsafe_masked_index_put_accumulate")
def masked_put(steps: Steps, node: Node, x: Any, mask: Any, indices: Any, values: Any) -> Said | None:
    """Values added at positions where the mask holds; elsewhere the positions mean nothing."""
    key = []
    for axis, part in enumerate(plainly(tuple(indices))):
        size = x.shape[axis]
        key.append(slice(None) if part is None else part.clamp(-size, size - 1))
    places = numbers(x)[tuple(key)].numpy()
    spread = steps(ground.expand, values, tuple(places.shape)) if tuple(values.shape) != places.shape else values
    return landed(steps, x, places, steps(ground.where, mask, spread, 0.0))


@composition("as_strided_scatter")
def strided(steps: Steps, node: Node, *_: Any, **__: Any) -> Said | None:
    """x with the source written where strides say, of which torch's own backward is another function's."""
    raise Refused(ANOTHER)
