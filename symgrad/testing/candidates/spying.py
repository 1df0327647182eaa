"""What a custom backward really does: what it is handed, what it returns before the engine repairs it, what it writes.

The engine adds up a gradient that was left unreduced, casts its type and moves it to another device, so that none of
that shows in ``.grad``. Comes in: the outputs of a forward pass. Goes out: inside ``with spying(…)`` each call of a
custom ``backward`` in their graph leaves a `Returned` and its `Change` s.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from symgrad.numeric import Array
from symgrad.testing.candidates.attempts import Change, Meta, Returned, change_of
from symgrad.tracing.record.given import graph_behind

MOST = 1 << 20
"""Entries of the largest tensor that is compared with what it was before."""


@dataclass
class Notes:
    """What was seen."""

    returned: list[Returned] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)


def functions_of(outputs: Sequence[Any]) -> dict[type[Any], str]:
    """The user's own Functions in a graph, and which of their methods the engine calls."""
    found: dict[type[Any], str] = {}
    for node in graph_behind(outputs):
        own = getattr(type(node), "_forward_cls", None)
        if own is None or str(own.__module__).startswith("torch."):
            continue
        found[own] = "vjp" if own.vjp is not torch.autograd.Function.vjp else "backward"
    return found


@contextlib.contextmanager
def spying(found: Mapping[type[Any], str], labels: dict[int, str]) -> Iterator[Notes]:
    """Look on while custom backwards run; ``labels`` name leaves by their identity. What was there comes back."""
    notes = Notes()
    notes.functions += [f"{own.__qualname__}.{method}" for own, method in found.items()]
    before = {own: own.__dict__.get(method) for own, method in found.items()}
    for own, method in found.items():
        setattr(own, method, staticmethod(watched(getattr(own, method), own.__name__, method, notes, labels)))
    try:
        yield notes
    finally:
        for own, method in found.items():
            if before[own] is None:
                delattr(own, method)
            else:
                setattr(own, method, before[own])


def watched(
    original: Callable[..., Any], name: str, method: str, notes: Notes, labels: dict[int, str]
) -> Callable[..., Any]:
    """``original`` with its arguments looked at before and after, and its results noted."""

    def backward(ctx: Any, *seeds: Any) -> Any:
        kept = [("mutates_seed", "v" if len(seeds) == 1 else f"v{n + 1}", t) for n, t in enumerate(seeds)]
        with contextlib.suppress(Exception):  # saved tensors that were freed: the engine says so itself
            kept += [("mutates_saved", f"saved tensor {n + 1}", t) for n, t in enumerate(ctx.saved_tensors)]
        copies = [snapshot(t) for _, _, t in kept]
        result = original(ctx, *seeds)
        notes.changes += [
            c for (kind, what, t), copy in zip(kept, copies, strict=True)
            if (c := changed(kind, what, f"{name}.{method}", copy, t)) is not None
        ]  # fmt: skip
        with contextlib.suppress(Exception):  # what cannot be looked at is left to the engine
            notes.returned.append(contract(ctx, result, f"{name}.{method}", labels))
        return result

    return backward


def contract(ctx: Any, result: Any, function: str, labels: dict[int, str]) -> Returned:
    """What was returned beside what each argument of the forward pass is."""
    got = result if isinstance(result, tuple) else (result,)
    edges = iter(edge for edge in ctx.next_functions if edge[0] is not None)
    wanted: list[Meta | None] = []
    names: list[str] = []
    for needs in ctx.needs_input_grad:
        if not needs:
            wanted.append(None)
            names.append("")
            continue
        node, slot = next(edges)
        known = node._input_metadata[slot]
        wanted.append(Meta(tuple(int(n) for n in known.shape), named(known.dtype), str(known.device)))
        names.append(labels.get(id(getattr(node, "variable", None)), ""))
    metas = tuple(
        Meta(tuple(t.shape), named(t.dtype), str(t.device)) if isinstance(t, torch.Tensor) else None for t in got
    )
    return Returned(function, metas, tuple(wanted), tuple(names))


def named(dtype: Any) -> str:
    """``float64``."""
    return str(dtype).removeprefix("torch.")


def snapshot(tensor: Any) -> Array | None:
    """The numbers of a tensor as they are now; None for anything else, and for what is too large."""
    if not isinstance(tensor, torch.Tensor) or tensor.numel() > MOST or tensor.is_sparse or tensor.is_complex():
        return None
    return np.array(tensor.detach().cpu().double().numpy())


def changed(kind: str, what: str, where: str, before: Array | None, tensor: Any) -> Change | None:
    """The first entry of a tensor that is no longer what it was."""
    after = None if before is None else snapshot(tensor)
    return None if before is None or after is None else change_of(kind, what, where, before, after)
