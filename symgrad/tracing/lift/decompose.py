"""A call that the table does not spell, taken apart by torch's own decompositions into core ATen operations.

Comes in: a call and the values it read. Goes out: steps of the table, one or more for each ATen operation. One
operation that is not in the table refuses the whole: half a derivation is none.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch

from symgrad.language.steps.calls import Ref
from symgrad.ops import ground
from symgrad.ops.calls.picks import CHOICES, RANKED
from symgrad.ops.calls.written import NEW
from symgrad.ops.lookup import find
from symgrad.program import Role
from symgrad.tracing.lift.bench import Bench
from symgrad.tracing.lift.calls.placing import COUNTED
from symgrad.tracing.lift.choices import choose, places_in
from symgrad.tracing.lift.inside import (
    floating,
    followed_by,
    has_nan,
    matters,
    ordinary,
    plain_kernels,
    replaced_by,
    traced,
)
from symgrad.tracing.lift.lifted import UNKNOWN, Refused
from symgrad.tracing.lift.rewrites import SAME, adds
from symgrad.tracing.lift.verify import disagreement
from symgrad.tracing.record.aliases import positions_in, storage
from symgrad.tracing.record.trace import Node, as_array, mapped, same

PRODUCTS = ("addmm", "addmv", "baddbmm")
"""A product of matrices added to something: two steps of the table."""
SOFT = ("_softmax", "_log_softmax")
"""Functions that take one argument more here than the table's entry."""


def by_decomposition(lifter: Bench, node: Node) -> Ref:
    """The call in core ATen operations."""
    if node.call is not None and node.call.spelling.endswith(".apply"):
        raise Refused("")
    return decomposed(lifter, node)


def decomposed(lifter: Bench, node: Node) -> Ref:
    """The steps of ``node``'s call; the reference of its result."""
    call = node.call
    assert call is not None
    if node.index in lifter.shared.get(id(call), {}):
        return lifter.shared[id(call)][node.index]
    sources = list({id(n): n for n in call.nodes() if n.carries and n.held.numel()}.values())
    if not sources or not node.held.numel():
        raise Refused("")

    given = {id(n): n for n in call.nodes() if not n.carries and n.held.is_floating_point() and n.held.numel()}
    after = torch.get_rng_state()
    try:
        try:
            graph = traced(node, [*sources, *given.values()])
        except Exception:  # a number is asked of what is given: then it is a constant of the graph
            given = {}
            graph = traced(node, sources)
        if call.random is not None:
            torch.set_rng_state(call.random)
        with torch._C.DisableTorchFunction(), torch.enable_grad(), plain_kernels():
            return Taken(lifter, node, sources, list(given.values())).run(graph)
    except (Refused, NotImplementedError):
        raise
    except Exception as error:  # whatever torch's tracing cannot do
        raise Refused(f"torch does not take it apart: {type(error).__name__}") from error
    finally:
        torch.set_rng_state(after)


def turns(before: Any, after: Any) -> bool:
    """Whether a matrix is seen turned: the same memory, with rows for columns."""
    if before.dim() != 2 or not isinstance(after, torch.Tensor) or after.data_ptr() != before.data_ptr():
        return False
    own, seen = (list(zip(tensor.shape, tensor.stride(), strict=True)) for tensor in (before, after))
    return seen == own[::-1] != own


class Taken:
    """One graph of ATen operations, run and lifted at the same time; ``sources`` are followed, ``given`` are data."""

    def __init__(self, lifter: Bench, node: Node, sources: list[Node], given: list[Node]) -> None:
        self.lifter, self.node = lifter, node
        self.given = frozenset(map(id, given))
        self.placed: dict[Any, Node] = {}
        self.refs: dict[Any, Ref] = {}
        self.values: dict[Any, Any] = {}
        self.order: dict[Any, int] = {}
        self.ends_in_nan = has_nan(node.held) or any(has_nan(source.held) for source in sources)
        self.sources = [*sources, *given]

    def run(self, graph: Any) -> Ref:
        """Every operation in order."""
        self.order = {step: n for n, step in enumerate(graph.graph.nodes)}
        sources = iter(self.sources)
        for step in graph.graph.nodes:
            if step.op == "placeholder":
                source = next(sources)
                self.placed[step] = source
                if id(source) not in self.given:
                    self.refs[step] = self.lifter.refs[id(source)]
                self.values[step] = source.tensor().detach().clone()
            elif step.op == "get_attr":
                self.values[step] = getattr(graph, step.target).clone()
            elif step.op == "output":
                ends = step.args[0] if isinstance(step.args[0], (tuple, list)) else [step.args[0]]
                found = {n: self.refs[end] for n, end in enumerate(ends) if end in self.refs}
                if self.node.index not in found:
                    raise Refused("its decomposition loses the gradient")
                self.lifter.shared[id(self.node.call)] = found
                return found[self.node.index]
            else:
                self.step(step)
        raise Refused("its decomposition has no output")

    def step(self, step: Any) -> None:
        """One ATen operation."""
        given, spoken = (replaced_by(part, self.values) for part in (step.args, dict(step.kwargs)))
        overloaded = getattr(step.target, "_schema", None)
        written = overloaded is not None and overloaded.name.endswith("_") and not overloaded.name.endswith("__")
        if written:
            self.check_written(step)
        value = step.target(*given, **spoken)
        self.values[step] = value
        if step.target is operator.getitem:
            if step.args[0] in self.refs and step.args[1] == 0:
                self.refs[step] = self.refs[step.args[0]]
            elif followed_by(step.args[0], self.refs) or step.args[0] in self.refs:
                self.pick(step)
            return
        followed = any(s in self.refs for s in step.all_input_nodes)
        if followed and has_nan(value) and not self.ends_in_nan:
            raise Refused("its decomposition passes through nan, which the whole avoids")
        name = step.target._schema.name.removeprefix("aten::")
        if not followed or name in NEW or not floating(value):
            return
        self.refs[step] = self.lifted(step, name.rstrip("_") if written else name, value)
        if written:
            self.refs[step.args[0]] = self.refs[step]

    def check_written(self, step: Any) -> None:
        """Refuse a write in place that another name for the same entries would notice later."""
        target = step.args[0]
        value = self.values[target]
        for other, held in self.values.items():
            if other is target or not isinstance(held, torch.Tensor) or storage(held) != storage(value):
                continue
            places = positions_in(held, value)
            shared = places is None or (places >= 0).any()
            if shared and any(self.order[user] > self.order[step] for user in other.users):
                raise Refused(f"its decomposition writes in place ({step.target})")

    def pick(self, step: Any) -> None:
        """The second or later result of an operation with several."""
        if not floating(self.values[step]):
            return
        maker = step.args[0]
        name = maker.target._schema.name.removeprefix("aten::")
        if name in CHOICES:
            self.refs[step] = self.chosen(maker, step.args[1])
        else:
            self.values[step] = self.values[step]
            if any(u.op == "output" or matters(u) for u in step.users):
                raise Refused(f"aten.{name}: its result {step.args[1]} {UNKNOWN}")

    def lifted(self, step: Any, name: str, value: Any) -> Ref:
        """The operation as an entry of the table, or as a choice."""
        lifter = self.lifter
        first = step.args[0] if step.args else None
        arguments, keywords = self.arguments(step)
        if name in SAME or name in ("_unsafe_view", "view"):
            shape = tuple(value.shape)
            if name in SAME or shape == tuple(self.values[first].shape):
                return self.refs[first]
            return lifter.apply_op(ground.reshape, "torch.reshape", (self.refs[first], shape), {})
        single = value[0] if isinstance(value, (tuple, list)) else value
        reason = f"aten.{name} {UNKNOWN}"
        if adds(name) and keywords.pop("alpha", 1) != 1:
            scaled = lifter.apply_op(ground.mul, "torch.mul", (arguments[1], step.kwargs["alpha"]), {})
            arguments = (arguments[0], scaled, *arguments[2:])
        if name == "embedding":
            weight, indices, *rest = arguments
            if rest[1:2] == [True]:
                raise Refused(COUNTED)
            padding = {"padding_idx": rest[0]} if rest and rest[0] >= 0 else {}
            return lifter.apply_op(ground.embedding, "F.embedding", (indices, weight), padding)
        word = name.removeprefix("_") if name in SOFT else name
        if word != name:
            arguments = arguments[:2]
        if first in self.refs and turns(self.values[first], value):
            return lifter.apply_op(ground.T, "Tensor.T", (self.refs[first],), {})
        if name in PRODUCTS:
            return self.added_product(name, step)
        for spelling in (f"aten.{name}", f"torch.{word}", f"Tensor.{word}", f"F.{word}"):
            op = find(spelling)
            if op is None or op.pairs:
                continue
            if op.role is Role.COPIES and tuple(value.shape) == tuple(self.values[first].shape):
                return self.refs[first]
            try:
                with lifter.trial():
                    ref = lifter.apply_op(op, spelling, arguments, keywords)
                    wrong = disagreement(
                        lifter.arrays[ref.name], as_array(single), str(single.dtype).removeprefix("torch.")
                    )
                    if wrong is not None:
                        raise Refused(f"{spelling} gives another value: {wrong}")
                    lifter.labels.setdefault(ref.name, ref.name)
                    return ref
            except Refused as error:
                reason = str(error)
        if name in CHOICES and isinstance(single, torch.Tensor) and first in self.refs:
            return self.chosen(step, 0 if isinstance(value, (tuple, list)) else None)
        raise Refused(reason)

    def added_product(self, name: str, step: Any) -> Ref:
        """β·base + α·(one @ other)."""
        lifter = self.lifter
        (base, one, other), keywords = self.arguments(step)
        product = lifter.apply_op(ground.matmul, "torch.matmul", (one, other), {})
        if keywords.get("alpha", 1) != 1:
            product = lifter.apply_op(ground.mul, "torch.mul", (product, keywords["alpha"]), {})
        if keywords.get("beta", 1) != 1:
            base = lifter.apply_op(ground.mul, "torch.mul", (base, keywords["beta"]), {})
        result = lifter.apply_op(ground.add, "torch.add", (product, base), {})
        lifter.labels.setdefault(result.name, result.name)
        return result

    def chosen(self, step: Any, index: int | None) -> Ref:
        """A result that holds entries of the first argument."""
        first = step.args[0]
        if [s for s in step.all_input_nodes if s in self.refs] != [first]:
            raise Refused("more than one tensor is chosen from")
        source = self.values[first]
        word = str(step.target._schema.name).removeprefix("aten::")
        self.lifter.asked_numbers |= word in RANKED

        def run(entries: Any) -> Any:
            arguments = [entries, *replaced_by(tuple(step.args[1:]), self.values)]
            return step.target(*arguments, **replaced_by(dict(step.kwargs), self.values))

        if word in RANKED:
            places = places_in(source, run) if not index else None
        else:
            sent = run(torch.arange(source.numel(), dtype=torch.float64).reshape(source.shape))
            places = np.asarray((sent if index is None else sent[index]).numpy()).astype(np.int64)
        value = self.values[step] if index is None or places is None else self.values[step][index]
        if places is None or not same(source.reshape(-1)[torch.as_tensor(places)], value):
            raise Refused("it does not only choose")
        ref = choose(self.lifter, self.refs[first], places, None)
        self.lifter.labels.setdefault(ref.name, ref.name)
        return ref

    def arguments(self, step: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with references for what is followed and data for other tensors."""

        def change(part: Any) -> Any:
            if isinstance(part, torch.fx.Node):
                if part in self.refs:
                    return self.refs[part]
                value, source = self.values[part], self.placed.get(part)
                if source is not None and same(value, source.held):  # nothing has written it on the way
                    return self.lifter.refs_in((source,))[id(source)]
                return self.lifter.data("data", as_array(value)) if isinstance(value, torch.Tensor) else value
            return part

        return mapped((tuple(ordinary(step.args)), ordinary(dict(step.kwargs))), change)  # type: ignore[no-any-return]  # the containers stay
