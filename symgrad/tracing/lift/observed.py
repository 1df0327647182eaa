"""What went into a backward or a hook of the user's own while torch ran it, and what came out.

A user's ``forward`` and ``backward`` are never run again by the observer: they may print, count, draw random numbers.
So a call of a custom function is a black box whose product was looked at on its way, and so is a hook that changes
what comes back to its tensor. Comes in: the function's node in torch's graph, or the tensor's hooks. Goes out: v as
it was passed, vᵀJ as it was returned, and whether v was overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.hooks import RemovableHandle

from symgrad.backward.page_names import ArgumentSlots
from symgrad.errors import UnsupportedError
from symgrad.numeric.exact import Array, as_float
from symgrad.tracing.lift.boxes import UnderivedCall
from symgrad.tracing.lift.values import find_difference, lowest_dtype
from symgrad.tracing.record.numbers import format_array
from symgrad.tracing.record.trace import Node, TorchCall, as_numbers, holds_same_numbers


class Observation:
    """One passage through a custom backward; ``given`` and ``made`` are copies, None where torch passed nothing."""

    def __init__(self, spelling: str, handles: Callable[[Observation], Sequence[Any]]) -> None:
        self.spelling = spelling
        self.given: tuple[Any, ...] | None = None
        self.left: tuple[Any, ...] = ()
        self.made: tuple[Any, ...] = ()
        self.live: tuple[Any, ...] = ()
        self._handles = handles(self)

    @classmethod
    def of_call(cls, call: TorchCall, guard: Callable[..., Any]) -> Observation:
        """Of a call of a user's own function."""
        return cls(
            call.spelling,
            lambda own: (
                call.graph.register_prehook(lambda weights: guard(own._before, weights)),
                call.graph.register_hook(lambda products, weights: guard(own._after, products)),
            ),
        )

    @classmethod
    def of_hooks(cls, hooks: dict[Any, Any], guard: Callable[..., Any]) -> Observation:
        """Of the hooks on a tensor: torch runs them in the order of their dictionary, so one goes in front of all."""

        def around(own: Observation) -> list[RemovableHandle]:
            first, last, theirs = RemovableHandle(hooks), RemovableHandle(hooks), dict(hooks)
            hooks.clear()
            hooks[first.id] = lambda weights: guard(own._before, (weights,))
            hooks.update(theirs)
            hooks[last.id] = lambda product: guard(own._after, (product,))
            return [first, last]

        return cls("a hook", around)

    def _before(self, weights: tuple[Any, ...]) -> None:
        self.live = tuple(weights)
        self.given = copy_detached(weights)

    def _after(self, products: tuple[Any, ...]) -> None:
        self.left, self.made, self.live = copy_detached(self.live), copy_detached(products), ()

    def done(self) -> None:
        """Look no more."""
        for handle in self._handles:
            handle.remove()

    def kept(self, place: int) -> bool:
        """Whether what came in at one place went out there as it was."""
        before, after = (parts[place] if place < len(parts) else None for parts in (self.given or (), self.made))
        return holds_same_numbers(before, after) if before is not None and after is not None else before is after

    @property
    def overwrote(self) -> str:
        """What the backward did to its v, in a sentence; empty if nothing."""
        for before, after in zip(self.given or (), self.left, strict=False):
            if before is not None and after is not None and not holds_same_numbers(before, after):
                name = self.spelling.removesuffix(".apply")
                return f"{name}.backward overwrote the v it was given ({format_change(before, after)})"
        return ""


def format_change(before: Any, after: Any) -> str:
    """``1 → 3``; the first entry that differs where there are several."""
    old, new = as_numbers(before), as_numbers(after)
    if old.size > 1:
        at = tuple(int(i) for i in np.argwhere(~((old == new) | ((old != old) & (new != new))))[0])
        entry = f"[{','.join(map(str, at))}]"
        return (
            f"{format_array(old)} → {format_array(new)}"
            if old.size <= 4
            else f"at {entry} {format_array(old[at])} → {format_array(new[at])}"
        )
    return f"{format_array(old.reshape(()))} → {format_array(new.reshape(()))}"


def copy_detached(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Copies without a history."""
    return tuple(None if t is None else t.detach().clone() for t in tensors)


@dataclass(frozen=True, eq=False)
class Observed(UnderivedCall):
    """A black box whose product is the one that torch got from the user's backward."""

    def pull(self, cotangent: Array, wanted: Sequence[int]) -> dict[int, Array]:
        """What the backward returned, if it was given this v."""
        seen: Observation = self.call.observation
        if seen.given is None:
            raise UnsupportedError(f"torch did not run the backward of {self.spelling} in this call")
        slot = self.call.slots[self.index]
        weights = seen.given[slot]
        passed = np.zeros(np.shape(cotangent)) if weights is None else as_numbers(weights)
        kind = lowest_dtype(Node("data", weights, None, call=self.call)) if weights is not None else "float64"
        wrong = find_difference(cotangent, passed, kind)
        if wrong is not None:
            raise UnsupportedError(
                f"torch gave the backward of {self.spelling} another v than the one that was derived",
                found=(wrong.replace("torch's is", "torch's was"), *filter(None, (seen.overwrote,))),
            )
        carrying = [n for n, w in enumerate(seen.given) if w is not None and bool((w != 0).any())]
        whole = slot == (carrying[0] if carrying else slot)  # several results have one product: it counts once
        found = {}
        for n in wanted:
            total = np.zeros(np.shape(self.arguments[n].value()))
            for product in self.returned(n) if whole else ():
                total = total + as_float(as_numbers(product))
            found[n] = total
        return found

    def returned(self, place: int) -> list[Any]:
        """What the backward gave by an argument, once for each place where it stands; nothing where that was None."""
        tensors = [a for a in self.call.arguments if isinstance(a, Node)]
        pairs = zip(self.call.observation.made, tensors, strict=False)
        return [product for product, argument in pairs if product is not None and argument is self.arguments[place]]


def observe_opaque(box: UnderivedCall, node: Node) -> UnderivedCall:
    """``box``, by what was seen of it where it is a user's own; else it has to give again what it gave."""
    if box.call.observation is None:
        box.check(node)
        return box
    return Observed(box.name, box.spelling, box.reason, box.call, box.index, box.arguments)


def locate_custom_call(call: TorchCall, index: int, read: Sequence[Node], first: str) -> ArgumentSlots:
    """Where the tensors of a user's call stand; ``first`` is what its first result here is called."""
    places = tuple(tuple(n for n, own in enumerate(call.arguments) if own is node) for node in read)
    return ArgumentSlots(len(call.arguments), places, call.slots[index], call.slots[-1] + 1, first)


SPELLING = "hook"
"""What stands in a listing where the hooks of a tensor are."""


def is_hook_call(call: TorchCall) -> bool:
    """Whether a call is no call, but the hooks of a tensor."""
    return call.function is return_unchanged


def has_changing_hooks(node: Node) -> bool:
    """Whether hooks were seen to change what comes back to ``node``."""
    return node.passage is not None and bool(node.passage.made) and not node.passage.kept(0)


def return_unchanged(tensor: Any) -> Any:
    """A tensor with a hook forward: itself."""
    return tensor
