"""Opaque calls: steps whose vᵀJ is torch's, because there is no equation, or that of the user's own backward.

Comes in: a call with the values it read. Goes out: vᵀJ and Ju of that call, by running it again on copies with the
random state it had. A user's ``forward`` and ``backward`` are never run again, since they may print, count or draw
random numbers; their inputs and outputs, and those of hooks, are observed while torch runs them. An opaque call is
marked as not derived wherever it appears.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.hooks import RemovableHandle

from symgrad.errors import UnsupportedError
from symgrad.numeric.exact import Array, as_float
from symgrad.render.numbers import format_array
from symgrad.tracing.lift.values import find_difference, lowest_dtype
from symgrad.tracing.record.trace import Node, TorchCall, as_numbers, holds_same_numbers, map_nested, tensors_in

GRAD = torch.autograd.grad
"""Torch's own function, whatever replaces it in the program."""


@dataclass(frozen=True, eq=False)
class UnderivedCall:
    """One result of one call.

    ``name`` is the result's name, ``spelling`` the function, ``reason`` why there is no equation. ``arguments`` are the
    nodes with a gradient, in the order of the step's arguments; ``names`` are their names in the program.
    """

    name: str
    spelling: str
    reason: str
    call: TorchCall
    index: int
    arguments: tuple[Node, ...]
    names: tuple[str, ...] = ()

    def run(self, tensors: Sequence[Any]) -> list[Any]:
        """Return all results of the call for other values of ``arguments``."""
        arguments, keywords = with_operands(self.call, self.arguments, tensors)
        return list(tensors_in(rerun(self.call, arguments, keywords, None)))

    def check(self, node: Node) -> None:
        """Raise `UnsupportedError` if the call now returns another value: something it read was overwritten."""
        with torch.no_grad():
            results = self.run([n.tensor().detach().clone() for n in self.arguments])
        again = results[self.index] if self.index < len(results) else None  # outside a level of forward mode none
        if again is None or find_difference(as_numbers(again), node.value(), lowest_dtype(node)) is not None:
            raise UnsupportedError(
                f"{self.spelling} now returns another value than when it ran: something it used was modified without "
                "PyTorch noticing (through NumPy, perhaps), or it depends on more than its arguments",
                found=(f"{node.where.short}: {node.where.text}" if node.where else "",),
            )

    def pull(self, cotangent: Array, wanted: Sequence[int]) -> dict[int, Array]:
        """Return torch's vᵀJ for the ``wanted`` arguments."""
        leaves, results = self._graph()
        found = results[self.index]
        weights = to_tensor_like(cotangent, found)
        chosen = [leaves[n] for n in wanted]
        if not found.requires_grad:
            return {n: np.zeros_like(as_numbers(leaves[n]), dtype=np.float64) for n in wanted}
        try:
            products: tuple[Any, ...] = GRAD(found, chosen, weights, allow_unused=True, retain_graph=True)
            if all(product is None for product in products):  # some of torch's formulas want a weight for the first
                pairs = [(r, weights if r is found else torch.zeros_like(r)) for r in results if r.requires_grad]
                products = GRAD([r for r, _ in pairs], chosen, [w for _, w in pairs], allow_unused=True)
        except RuntimeError as error:  # the parts of a complex svd have none one by one, their phases being free
            raise UnsupportedError(
                f"torch has no gradient of {self.spelling} here", found=(str(error).split(". ")[0],)
            ) from error
        return {
            n: np.zeros_like(as_numbers(leaf), dtype=np.float64) if g is None else as_numbers(g).astype(np.float64)
            for n, leaf, g in zip(wanted, chosen, products, strict=True)
        }

    def push(self, tangents: Mapping[int, Array]) -> Array:
        """Return torch's Ju: vᵀJ is linear in v, and the pullback of that linear map is J."""
        leaves, results = self._graph()
        found = results[self.index]
        chosen = [leaves[n] for n in tangents]
        nothing = np.zeros_like(as_numbers(found), dtype=np.float64)
        if not found.requires_grad:
            return nothing
        weights = torch.zeros_like(found, requires_grad=True)
        products: tuple[Any, ...] = GRAD(found, chosen, weights, create_graph=True, allow_unused=True)
        pairs = [
            (g, to_tensor_like(u, g))
            for g, u in zip(products, tangents.values(), strict=True)
            if g is not None and g.requires_grad
        ]
        if not pairs:
            return nothing
        result: Any = GRAD([g for g, _ in pairs], [weights], [u for _, u in pairs], allow_unused=True)[0]
        return nothing if result is None else as_numbers(result).astype(np.float64)

    def fresh(self, tensor: Any) -> Any:
        """Return the tensor to compute with."""
        return tensor

    def _graph(self) -> tuple[list[Any], list[Any]]:
        """Return new leaves, and the results computed from them."""
        with torch._C.DisableTorchFunction(), torch.enable_grad():
            leaves = [self.fresh(node.tensor().detach()).clone().requires_grad_(True) for node in self.arguments]
            return leaves, self.run([leaf.clone() for leaf in leaves])


@dataclass(frozen=True, eq=False)
class CallOrigin:
    """A recorded call: the steps it was lifted to, in order, and the call itself."""

    box: UnderivedCall
    steps: tuple[str, ...]


class DoublePrecisionCall(UnderivedCall):
    """The same call on the same numbers in double precision."""

    def fresh(self, tensor: Any) -> Any:
        """Return the tensor in double precision."""
        return tensor.to(torch.complex128) if tensor.is_complex() else tensor.double()

    def run(self, tensors: Sequence[Any]) -> list[Any]:
        """Return `UnderivedCall.run` with all other operands in double precision, too."""
        known = {id(node) for node in self.arguments}
        read = [n for n in self.call.operands if id(n) not in known and n.held.dtype.is_floating_point]
        wide = [self.fresh(n.held.detach()) for n in read]
        arguments, keywords = with_operands(self.call, (*self.arguments, *read), (*tensors, *wide))
        return list(tensors_in(rerun(self.call, arguments, keywords, None)))


def to_tensor_like(array: Array, tensor: Any) -> Any:
    """Return an array as a tensor with the dtype and shape of another; pairs become complex numbers if that is complex.

    The gradient of a complex leaf is ∂L/∂re + i·∂L/∂im in torch, so pairs need no conversion.
    """
    numbers = torch.as_tensor(as_float(array).copy())
    if tensor.is_complex():
        numbers = torch.view_as_complex(numbers.reshape(*tensor.shape, 2))
    return numbers.to(tensor.dtype).reshape(tensor.shape)


def with_operands(
    call: TorchCall, nodes: Sequence[Node], tensors: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the call's arguments with ``tensors`` in place of ``nodes``, and copies of all other values."""
    given = {id(node): tensor for node, tensor in zip(nodes, tensors, strict=True)}

    def value(part: Any) -> Any:
        if not isinstance(part, Node):
            return part
        return given[id(part)] if id(part) in given else part.tensor().detach().clone()

    return map_nested(call.arguments, value), map_nested(call.keywords, value)


def replay(node: Node, nodes: Sequence[Node], tensors: Sequence[Any]) -> Any:
    """Return ``node`` computed again with ``tensors`` in place of ``nodes`` in its call."""
    return rerun(node.maker, *with_operands(node.maker, nodes, tensors), node.index)


def rerun(call: TorchCall, arguments: Any, keywords: Any, index: int | None) -> Any:
    """Run the call again with the random state it had."""
    with torch._C.DisableTorchFunction():
        if call.random is None:
            return run_call(call, arguments, keywords, index)
        after = torch.get_rng_state()
        try:
            torch.set_rng_state(call.random)
            return run_call(call, arguments, keywords, index)
        finally:
            torch.set_rng_state(after)


def run_call(call: TorchCall, arguments: Any, keywords: Any, index: int | None) -> Any:
    """Run the call on other arguments and return all results, or one; an in-place call returns the tensor it wrote."""
    result = call.function(*arguments, **keywords)
    if call.in_place:
        return next(tensors_in(keywords.get("out")), None) if "out" in keywords else next(tensors_in(arguments))
    return result if index is None else list(tensors_in(result))[index]


class Observation:
    """One run of a custom backward; ``given`` and ``made`` are copies, None where torch passed nothing."""

    def __init__(self, spelling: str, handles: Callable[[Observation], Sequence[Any]]) -> None:
        self.spelling = spelling
        self.given: tuple[Any, ...] | None = None
        self.left: tuple[Any, ...] = ()
        self.made: tuple[Any, ...] = ()
        self.live: tuple[Any, ...] = ()
        self._handles = handles(self)

    @classmethod
    def of_call(cls, call: TorchCall, guard: Callable[..., Any]) -> Observation:
        """Return the observation of a call of a user's function."""
        return cls(
            call.spelling,
            lambda own: (
                call.graph.register_prehook(lambda weights: guard(own._before, weights)),
                call.graph.register_hook(lambda products, weights: guard(own._after, products)),
            ),
        )

    @classmethod
    def of_hooks(cls, hooks: dict[Any, Any], guard: Callable[..., Any]) -> Observation:
        """Return the observation of a tensor's hooks; torch runs hooks in the order of their dictionary."""

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
        """Remove the hooks of the observation."""
        for handle in self._handles:
            handle.remove()

    def kept(self, place: int) -> bool:
        """Whether the cotangent at one place was passed on unchanged."""
        before, after = (parts[place] if place < len(parts) else None for parts in (self.given or (), self.made))
        return holds_same_numbers(before, after) if before is not None and after is not None else before is after

    @property
    def overwrote(self) -> str:
        """A sentence if the backward overwrote its v, else empty."""
        for before, after in zip(self.given or (), self.left, strict=False):
            if before is not None and after is not None and not holds_same_numbers(before, after):
                name = self.spelling.removesuffix(".apply")
                return f"{name}.backward overwrote the v it was given ({format_change(before, after)})"
        return ""


def format_change(before: Any, after: Any) -> str:
    """Format a change as ``1 → 3``; of a large array, the first entry that differs."""
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
    """Return detached copies."""
    return tuple(None if t is None else t.detach().clone() for t in tensors)


@dataclass(frozen=True, eq=False)
class Observed(UnderivedCall):
    """An opaque call whose vᵀJ is what torch got from the user's backward.

    ``kind`` is the lowest precision between here and the outputs, which bounds that of v.
    """

    kind: str = "float64"

    def pull(self, cotangent: Array, wanted: Sequence[int]) -> dict[int, Array]:
        """Return what the backward returned, if it was given this v."""
        seen: Observation = self.call.observation
        if seen.given is None:
            raise UnsupportedError(f"torch did not run the backward of {self.spelling} in this call")
        slot = self.call.slots[self.index]
        weights = seen.given[slot]
        passed = np.zeros(np.shape(cotangent)) if weights is None else as_numbers(weights)
        wrong = find_difference(cotangent, passed, self.kind)
        if wrong is not None:
            raise UnsupportedError(
                f"torch gave the backward of {self.spelling} another v than the one that was derived",
                found=(wrong.replace("torch's is", "torch's was"), *filter(None, (seen.overwrote,))),
            )
        found = {}
        for n in wanted:
            total = np.zeros(np.shape(self.arguments[n].value()))
            for product in self.returned(n) if self.whole else ():
                total = total + as_float(as_numbers(product))
            found[n] = total
        return found

    @property
    def whole(self) -> bool:
        """Whether this is the first result with a nonzero cotangent, at which the call's vᵀJ is counted."""
        carrying = [n for n, w in enumerate(self.call.observation.given) if w is not None and bool((w != 0).any())]
        return not carrying or carrying[0] == self.call.slots[self.index]

    def returned(self, place: int) -> list[Any]:
        """Return the backward's results for an argument, one for each place of it; without None."""
        tensors = [a for a in self.call.arguments if isinstance(a, Node)]
        pairs = zip(self.call.observation.made, tensors, strict=False)
        return [product for product, argument in pairs if product is not None and argument is self.arguments[place]]


def observe_opaque(box: UnderivedCall, node: Node, order: Sequence[Node]) -> UnderivedCall:
    """Return ``box`` with its observed backward if it is a user's function; else check that it can be run again.

    ``order`` are the nodes of the program, each after its sources.
    """
    if box.call.observation is None:
        box.check(node)
        return box
    behind = {id(node): node}
    for other in order:
        if any(id(source) in behind for source in other.sources()):
            behind[id(other)] = other
    kind = lowest_dtype(*behind.values())
    return Observed(box.name, box.spelling, box.reason, box.call, box.index, box.arguments, kind=kind)


SPELLING = "hook"
"""The name of a tensor's hooks in a listing."""


def return_unchanged(tensor: Any) -> Any:
    """Return the tensor: the forward of a hook."""
    return tensor
