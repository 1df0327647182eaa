"""Complex tensors summed, joined, turned and cut: entries of the table that act on the axes before the pairs.

Comes in: a call's arguments. Goes out: the last step, with every axis counted from the front.
"""

from __future__ import annotations

from typing import Any

from symgrad.language.steps.builder import Operand
from symgrad.language.steps.calls import Ref
from symgrad.ops import ground
from symgrad.ops.entry import playing
from symgrad.program import Role
from symgrad.tracing.lift.complex.pairs import Pairs, Rule
from symgrad.tracing.lift.rewrites import basic_key
from symgrad.tracing.lift.steps import entering, joined_parts

ARRANGED: dict[str, Rule] = {}
"""Functions by their last word."""
arranged = entering(ARRANGED)


@arranged(also=("concat", "concatenate"))
def cat(p: Pairs, tensors: Any, dim: int = 0) -> Ref:
    """Joined along one of the leading axes."""
    return p(ground.cat, [p.pair(t) for t in joined_parts(tensors)], dim % len(p.node.shape))


@arranged()
def stack(p: Pairs, tensors: Any, dim: int = 0) -> Ref:
    """Joined along a new axis in front of the pairs."""
    return p(ground.stack, [p.pair(t) for t in tensors], dim % len(p.node.shape))


@arranged(also=("expand_as", "broadcast_to"))
def expand(p: Pairs, x: Any, *_: Any, **__: Any) -> Ref:
    """The same entries along new axes."""
    return p(ground.expand, p.pair(x), (*p.node.shape, 2))


@arranged("__getitem__")
def indexed(p: Pairs, x: Any, key: Any) -> Ref | None:
    """An index of integers and slices."""
    basic = basic_key(key, len(x.shape))
    if basic is None:
        return None
    ref = p.pair(x)
    return p.lifter.emit(playing(Role.INDEXES), [Operand(ref, ref.name)], {"key": (*basic, ("all",))})


@arranged("copy")
def copied(p: Pairs, x: Any, source: Any, *_: Any) -> Ref:
    """Another tensor's values, written over these."""
    return p(ground.expand, p.pair(source), (*p.node.shape, 2))


@arranged()
def zero(p: Pairs, x: Any) -> Ref:
    """0 in the same shape."""
    return p(ground.zeros_like, p.pair(x))


@arranged()
def view_as_complex(p: Pairs, x: Any) -> Ref:
    """The pairs as they are."""
    found: Ref = p.real(x)
    return found


__all__ = ["ARRANGED"]
