"""Where a path to the leaves ends, and how.

Comes in: a new tensor without a gradient and what it was computed from. Goes out: a `Cut` in words, or None.
"""

from __future__ import annotations

from typing import Any

import torch

from symgrad.tracing.trace import Call, Cut, Node, Where, leaves_of


def cut_of(tensor: Any, call: Call, sources: list[Node], where: Where) -> Cut | None:
    """Why ``tensor`` has no gradient although something it was computed from has one; an earlier cut is handed on."""
    carrying = [node for node in sources if node.carries]
    if not carrying:
        return next((node.cut for node in sources if node.cut is not None), None)
    word = call.spelling.removesuffix(".__get__").rpartition(".")[2]
    if word in ("detach", "detach_", "data"):
        how = f".{word}{'' if word == 'data' else '()'}"
    elif word in ("tensor", "as_tensor", "asarray"):
        how = f"torch.{word}(…), which copies numbers and no history"
    elif not torch.is_grad_enabled():
        how = "torch.no_grad()"
    elif not tensor.is_floating_point() and not tensor.is_complex():
        how = f"{word}: its result is {str(tensor.dtype).removeprefix('torch.')}, which has no derivative"
    else:
        how = f"{word}: torch has no derivative for it"
    return Cut(how, where, leaves_of(carrying))


__all__ = ["cut_of"]
