"""Black boxes: steps whose local products torch itself computes, because no equation reached them.

Comes in: a call with the values it read. Goes out: vᵀJ and Ju of that one call, by re-running it on copies, with the
random state it had. Wherever one appears it is marked as not derived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from symgrad.errors import UnsupportedError
from symgrad.numeric.exact import Array, as_float
from symgrad.tracing.lift.values import find_difference, lowest_dtype
from symgrad.tracing.record.aliases import storage_of
from symgrad.tracing.record.trace import BEHIND, Node, TorchCall, as_numbers, holds_same_numbers, map_nested, tensors_in

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
        return tensor.double()

    def run(self, tensors: Sequence[Any]) -> list[Any]:
        """`BlackBox.run`; what the call only reads is in double precision as well."""
        known = {id(node) for node in self.arguments}
        others = [n for n in {id(n): n for n in self.call.nodes()}.values() if id(n) not in known]
        read = [n for n in others if n.held.dtype.is_floating_point]
        wide = [self.fresh(n.held.detach()) for n in read]
        arguments, keywords = with_operands(self.call, (*self.arguments, *read), (*tensors, *wide))
        return list(tensors_in(rerun(self.call, arguments, keywords, None)))


def refuse_silent_write(node: Node) -> None:
    """Refuse a call whose pullback torch computes with what was written through ``.data`` after it ran."""
    call = node.call
    assert call is not None
    late = [n for n in call.nodes() if (n.behind or n.exchanged) is not None and not is_value_restored(n)]
    itself = node.behind is not None and not is_value_restored(node)
    if (late or itself) and is_saved_for_backward(call, node.index, late, itself):
        where = next(at for n in (*late, node) if (at := n.behind or n.exchanged) is not None)
        raise UnsupportedError(
            BEHIND,
            found=(f"{where.short}: {where.text}",),
            hints=("with torch.no_grad(): write in place, and backward() will say so",),
        )


def is_value_restored(node: Node) -> bool:
    """Whether the tensor holds again what it held when the call read it, as gradcheck leaves its inputs."""
    tensor = node.owner() if node.owner is not None else None
    return tensor is not None and tensor.shape == node.held.shape and holds_same_numbers(tensor.detach(), node.held)


def is_saved_for_backward(call: TorchCall, index: int, nodes: Sequence[Node], result: bool) -> bool:
    """Whether torch keeps one of ``nodes``, which the call read, for the call's pullback, or its own ``result``."""
    packed: list[Any] = []

    def pack(tensor: Any) -> Any:
        packed.append(tensor)
        return tensor

    with torch._C.DisableTorchFunction(), torch.enable_grad():
        read = tuple({id(n): n for n in call.nodes()}.values())
        copies = [n.held.detach().clone() for n in read]
        given = [c.requires_grad_(True).clone() if n.carries else c for n, c in zip(read, copies, strict=True)]
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            found = rerun(call, *with_operands(call, read, given), index)
    mine = [g for n, g in zip(read, given, strict=True) if any(n is other for other in nodes)]
    mine += [found] if result else []
    return any(storage_of(p) == storage_of(m) for p in packed for m in mine)


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
    assert node.call is not None
    return rerun(node.call, *with_operands(node.call, nodes, tensors), node.index)


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
