"""A hook on a tensor, which changes what comes back to it: a black box between the tensor and what reads it.

Comes in: a node whose hooks were seen at work (`symgrad.tracing.lift.observed`). Goes out: the tensor before the hook,
which has no name, and behind it the one that has. A hook that leaves what it is given is no step at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from symgrad.tracing.lift.bench import Bench
from symgrad.tracing.record.trace import Call, Node

SPELLING = "hook"
"""What stands in a listing where the hooks of a tensor are."""


def stand_at(call: Call) -> bool:
    """Whether a call is no call, but the hooks of a tensor."""
    return call.function is handed_on


def changing(node: Node) -> bool:
    """Whether hooks were seen to change what comes back to ``node``."""
    return node.passage is not None and bool(node.passage.made) and not node.passage.kept(0)


def lifted(bench: Bench, node: Node) -> None:
    """``node`` as what it was computed as, and the hooks behind it."""
    before = replace(node, hooks=None, passage=None, owner=None)
    bench.keep.append(before)
    bench.node(before)
    call = Call(handed_on, SPELLING, (before,), {}, node.hooked[-1], observation=node.passage, slots=(0,))
    put = ", ".join(dict.fromkeys(where.short for where in node.hooked))
    bench.box(node, call, f"what goes back is what was made of it by the hook put there in {put}")


def handed_on(tensor: Any) -> Any:
    """A tensor with a hook forward: itself."""
    return tensor
