"""Weak references of the observer's own: `torch.utils.swap_tensors` refuses tensors that anybody refers to weakly.

Comes in: tensors. Goes out: references that can be told from the user's, and what stands for the module ``weakref``
where torch counts them.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils.weak import WeakIdRef

SWAP: Any = torch._C._swap_tensor_impl
"""Torch's own, whatever stands in its place."""


class Weakly(weakref.ref):  # type: ignore[type-arg]  # ref[Any] is no class to derive from
    """A reference to a tensor that nobody else has; whatever has ``ours`` is one of the observer's."""

    __slots__ = ()
    ours = True


class Key(WeakIdRef):
    """A tensor by identity, as a key."""

    __slots__ = ()
    ours = True


class Uncounted:
    """The module ``weakref`` without what the observer refers to."""

    def __getattr__(self, name: str) -> Any:
        return getattr(weakref, name)

    @staticmethod
    def getweakrefs(tensor: Any) -> list[Any]:
        """Those of others."""
        return [ref for ref in weakref.getweakrefs(tensor) if not getattr(ref, "ours", False)]
