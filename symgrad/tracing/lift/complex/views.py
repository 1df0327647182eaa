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
from symgrad.tracing.lift.rewrites import basic_key
from symgrad.tracing.lift.steps import joined_parts


def total(word: str) -> Rule:
    """A sum or mean over leading axes."""

    def rule(p: Pairs, x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Ref:
        ref, rank = p.pair(x), len(x.shape)
        if not rank:
            return ref
        dims = tuple(range(rank)) if dim is None or dim == () or dim == [] else dim
        dims = tuple(d % rank for d in (dims if isinstance(dims, (tuple, list)) else (dims,)))
        return p(word, ref, dims, keepdim)

    return rule


def joined(word: str) -> Rule:
    """cat or stack along one of the leading axes."""

    def rule(p: Pairs, tensors: Any, dim: int = 0) -> Ref:
        rank = len(p.node.shape)
        parts = joined_parts(tensors) if word == "cat" else tensors
        return p(word, [p.pair(t) for t in parts], dim % rank)

    return rule


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
    "sum": total("sum"), "mean": total("mean"), "cat": joined("cat"), "concat": joined("cat"),
    "concatenate": joined("cat"), "stack": joined("stack"),
    "expand": expand, "expand_as": expand, "broadcast_to": expand, "zero": zero, "copy": copied,
    "view_as_complex": lambda p, x: p.real(x), "__getitem__": indexed,
}  # fmt: skip
"""Functions by their last word."""

__all__ = ["ARRANGED"]
