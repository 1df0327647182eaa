"""Complex tensors summed, joined, turned and cut: entries of the table that act on the axes before the pairs.

Comes in: a call's arguments. Goes out: the last step, with every axis counted from the front.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from symgrad.language.builder import Operand
from symgrad.language.calls import Ref
from symgrad.ops import ground
from symgrad.ops.entry import playing
from symgrad.program import Role
from symgrad.tracing.lift.complex.pairs import Pairs, Rule
from symgrad.tracing.lift.lifted import by_own_name
from symgrad.tracing.lift.rewrites import basic_key
from symgrad.tracing.lift.steps import joined_parts


def cat(p: Pairs, tensors: Any, dim: int = 0) -> Ref:
    """Joined along one of the leading axes."""
    return p(ground.cat, [p.pair(t) for t in joined_parts(tensors)], dim % len(p.node.shape))


def stack(p: Pairs, tensors: Any, dim: int = 0) -> Ref:
    """Joined along a new axis in front of the pairs."""
    return p(ground.stack, [p.pair(t) for t in tensors], dim % len(p.node.shape))


def expand(p: Pairs, x: Any, *_: Any, **__: Any) -> Ref:
    """The same entries along new axes."""
    return p(ground.expand, p.pair(x), (*p.node.shape, 2))


def indexed(p: Pairs, x: Any, key: Any) -> Ref | None:
    """An index of integers and slices."""
    basic = basic_key(key, len(x.shape))
    if basic is None:
        return None
    ref = p.pair(x)
    return p.lifter.emit(playing(Role.INDEXES), [Operand(ref, ref.name)], {"key": (*basic, ("all",))})


def copied(p: Pairs, x: Any, source: Any, *_: Any) -> Ref:
    """Another tensor's values, written over these."""
    return p(ground.expand, p.pair(source), (*p.node.shape, 2))


def zero(p: Pairs, x: Any) -> Ref:
    """0 in the same shape."""
    return p(ground.zeros_like, p.pair(x))


ARRANGED: Mapping[str, Rule] = {
    **by_own_name(cat, stack, expand, zero), **dict.fromkeys(("concat", "concatenate"), cat), "copy": copied,
    **dict.fromkeys(("expand_as", "broadcast_to"), expand),
    "view_as_complex": lambda p, x: p.real(x), "__getitem__": indexed,
}  # fmt: skip
"""Functions by their last word."""

__all__ = ["ARRANGED"]
