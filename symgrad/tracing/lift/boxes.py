"""Black boxes: steps whose local products are torch's, because no equation reached them, or the user's own backward's.

Comes in: a call with the values it read. Goes out: vᵀJ and Ju of that one call, by re-running it on copies, with the
random state it had. A user's ``forward`` and ``backward`` are never run again: they may print, count, draw random
numbers. What went into those, or into a hook, while torch ran them, and what came out is looked at on its way. Wherever
a black box appears it is marked as not derived.
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
"""Torch's own, whatever the program puts in its place."""


@dataclass(frozen=True, eq=False)
class UnderivedCall:
    """One result of one call.

    ``name`` is what the result is called, ``spelling`` the function; ``reason`` says why there is no equation;
    ``arguments`` are the nodes it differentiates by, in the order of the step's arguments; ``names`` what the
    program calls them.
    """

    name: str
    spelling: str
    reason: str
    call: TorchCall
    index: int
    arguments: tuple[Node, ...]
    names: tuple[str, ...] = ()

    def run(self, tensors: Sequence[Any]) -> list[Any]:
        """All results of the call on other values for ``arguments``."""
        arguments, keywords = with_operands(self.call, self.arguments, tensors)
        return list(tensors_in(rerun(self.call, arguments, keywords, None)))

    def check(self, node: Node) -> None:
        """Refuse a call that no longer gives the value it gave: what it read was written, and nobody saw it."""
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
        """vᵀJ by the ``wanted`` arguments, from torch."""
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
        """Ju for changes of some arguments, from torch: the pullback is linear in v, and its own pullback is J."""
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
        """The numbers to compute with."""
        return tensor

    def _graph(self) -> tuple[list[Any], list[Any]]:
        """Fresh leaves, and the results computed from them."""
        with torch._C.DisableTorchFunction(), torch.enable_grad():
            leaves = [self.fresh(node.tensor().detach()).clone().requires_grad_(True) for node in self.arguments]
            return leaves, self.run([leaf.clone() for leaf in leaves])


@dataclass(frozen=True, eq=False)
class CallOrigin:
    """One call of the user's: the steps that say what it does, in order, and the call itself."""

    box: UnderivedCall
    steps: tuple[str, ...]


class DoublePrecisionCall(UnderivedCall):
    """The same call on the same numbers in double precision."""

    def fresh(self, tensor: Any) -> Any:
        """The numbers, as doubles."""
        return tensor.to(torch.complex128) if tensor.is_complex() else tensor.double()

    def run(self, tensors: Sequence[Any]) -> list[Any]:
        """`UnderivedCall.run`; what the call only reads is in double precision as well."""
        known = {id(node) for node in self.arguments}
        read = [n for n in self.call.operands if id(n) not in known and n.held.dtype.is_floating_point]
        wide = [self.fresh(n.held.detach()) for n in read]
        arguments, keywords = with_operands(self.call, (*self.arguments, *read), (*tensors, *wide))
        return list(tensors_in(rerun(self.call, arguments, keywords, None)))


def to_tensor_like(array: Array, tensor: Any) -> Any:
    """An array as a tensor of the type and shape of another; pairs as complex numbers where that is complex.

    What autograd adds to a complex leaf's gradient is ∂L/∂re + i·∂L/∂im, so pairs go in and come out as they are.
    """
    numbers = torch.as_tensor(as_float(array).copy())
    if tensor.is_complex():
        numbers = torch.view_as_complex(numbers.reshape(*tensor.shape, 2))
    return numbers.to(tensor.dtype).reshape(tensor.shape)


def with_operands(
    call: TorchCall, nodes: Sequence[Node], tensors: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the call was given, with ``tensors`` in place of ``nodes`` and copies of all other values."""
    given = {id(node): tensor for node, tensor in zip(nodes, tensors, strict=True)}

    def value(part: Any) -> Any:
        if not isinstance(part, Node):
            return part
        return given[id(part)] if id(part) in given else part.tensor().detach().clone()

    return map_nested(call.arguments, value), map_nested(call.keywords, value)


def replay(node: Node, nodes: Sequence[Node], tensors: Sequence[Any]) -> Any:
    """What ``node`` would be with ``tensors`` in place of ``nodes`` among what its call was given."""
    return rerun(node.maker, *with_operands(node.maker, nodes, tensors), node.index)


def rerun(call: TorchCall, arguments: Any, keywords: Any, index: int | None) -> Any:
    """The call once more, with the random state it had."""
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
    """What the call gives on other arguments, all of it or one result; an in-place call gives what it wrote."""
    result = call.function(*arguments, **keywords)
    if call.in_place:
        return next(tensors_in(keywords.get("out")), None) if "out" in keywords else next(tensors_in(arguments))
    return result if index is None else list(tensors_in(result))[index]


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
    """A black box whose product is the one that torch got from the user's backward.

    ``kind`` is the coarsest type in which torch computed on the way from here to the outputs: v is no finer than that.
    """

    kind: str = "float64"

    def pull(self, cotangent: Array, wanted: Sequence[int]) -> dict[int, Array]:
        """What the backward returned, if it was given this v."""
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
        """Whether the one product of a call is counted here: at the first result to which something came but 0."""
        carrying = [n for n, w in enumerate(self.call.observation.given) if w is not None and bool((w != 0).any())]
        return not carrying or carrying[0] == self.call.slots[self.index]

    def returned(self, place: int) -> list[Any]:
        """What the backward gave by an argument, once for each place where it stands; nothing where that was None."""
        tensors = [a for a in self.call.arguments if isinstance(a, Node)]
        pairs = zip(self.call.observation.made, tensors, strict=False)
        return [product for product, argument in pairs if product is not None and argument is self.arguments[place]]


def observe_opaque(box: UnderivedCall, node: Node, order: Sequence[Node]) -> UnderivedCall:
    """``box``, by what was seen of it where it is a user's own; else it has to give again what it gave.

    ``order`` are the nodes of the program, each behind its sources.
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
"""What stands in a listing where the hooks of a tensor are."""


def return_unchanged(tensor: Any) -> Any:
    """A tensor with a hook forward: itself."""
    return tensor
