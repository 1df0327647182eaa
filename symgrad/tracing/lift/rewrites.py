"""Ways to say what was recorded in entries of the table that spell it differently.

`normalize_call` undoes operators, in-place forms and casts; `lift_aliased_write` says a write in place as a new value;
of a gradient that was recorded with ``create_graph`` the steps of the backward join those of the program: what was
asked together is pulled back together, by equations, and held against what torch gave. Calls that only pick entries are
in `symgrad.tracing.lift.entry_choices`, the operations inside a call in `symgrad.tracing.lift.inside`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy as sp
import torch
from torch.nn.modules._functions import BackwardHookFunction

from symgrad.calculus.product_programs import ONE, steps_back
from symgrad.errors import UnsupportedError
from symgrad.language.binding import Ref, resolve_keyword
from symgrad.ops.calls.registry import Last, done, find_compound
from symgrad.ops.lookup import basics, find, role_entry
from symgrad.program import SEEDS, Argument, Program, Role, Tensor
from symgrad.tracing.lift import Refused, compositions, layer_calls, placing, without_subclass
from symgrad.tracing.lift.boxes import replay, rerun, with_operands
from symgrad.tracing.lift.context import LiftContext
from symgrad.tracing.lift.entry_choices import lift_overwrite
from symgrad.tracing.lift.values import evaluate_step, find_difference, lowest_dtype
from symgrad.tracing.record.aliases import find_read_entries, storage_of
from symgrad.tracing.record.gradients import RecordedGradient
from symgrad.tracing.record.spelling import is_reflected, plain_spelling
from symgrad.tracing.record.trace import (
    BEHIND,
    Node,
    SourceLine,
    TorchCall,
    as_numbers,
    holds_same_numbers,
)

HOOKED = "a backward hook of a module is here: the gradient is what the hook returns"
OWN = "an autograd.Function has its own backward; the gradient shown is what that returned"
"""Why torch's ``apply`` calls are not derived."""
FAMILIES = (compositions, layer_calls, placing)
"""The modules of calls that need the numbers of a run; each registers its own."""
SAME = frozenset({"float", "double", "half", "bfloat16", "to", "type", "type_as", "cpu", "contiguous", "clone", "alias",
                  "positive", "view_as_real", "lift_fresh", "lift_fresh_copy", "_to_copy", "expand_copy", "cuda",
                  "requires_grad", "_conj", "conj_physical", "resolve_conj", "resolve_neg", "real", "conj",
                  "to_sparse", "to_sparse_coo", "to_sparse_csr", "to_sparse_csc"})  # fmt: skip
"""Casts and copies, which keep the value."""


def is_module_hook_call(call: TorchCall) -> bool:
    """Whether it is torch's wrapper of a module with backward hooks: the identity, whose backward runs the hooks."""
    return getattr(call.function, "__self__", None) is BackwardHookFunction


def normalize_call(lifter: LiftContext, node: Node) -> Last:
    """Return the call without operators, in-place forms and casts; one that changes no value is its first argument."""
    call = node.maker
    hooked = is_module_hook_call(call)
    if hooked and call.observation is not None and call.observation.kept(call.slots[node.index]):
        return done(call.arguments[call.slots[node.index]])
    if call.spelling.endswith(".apply"):
        raise Refused(HOOKED if hooked else OWN)
    spelling, arguments, keywords = plain_spelling(call.spelling), call.arguments, dict(call.keywords)
    word = spelling.rpartition(".")[2]
    if is_reflected(call.spelling):
        arguments = (arguments[1], arguments[0], *arguments[2:])
    keywords.pop("out", None)
    first = arguments[0] if arguments else None
    if word in SAME and isinstance(first, Node) and not first.held.is_complex() and not node.held.is_complex():
        return done(first)
    if word == "data":
        return f"Tensor.{role_entry(Role.CUTS).name}", (first,), {}
    if word in ("mH", "adjoint") and isinstance(first, Node) and not first.held.is_complex():
        return "Tensor.mT", (first,), {}
    if word == "__getitem__":
        key = normalize_index(arguments[1], len(arguments[0].shape))
        if key is None:
            raise Refused("an index that is a tensor or a list")
        return spelling, (first,), {"key": key}
    if word == "copy":
        return "Tensor.expand", (arguments[1], node.shape), {}
    if word in ("__setitem__",):
        return lift_setitem(lifter, node)
    if "dropout" in word and call.random is not None and isinstance(first, Node):
        return lift_dropout(lifter, node)
    said = compositions.lift_composition(lifter, node, spelling, arguments, keywords)
    lifter.asked_numbers |= said is not None  # a composition may look at the value
    entry, compound = find(spelling), find_compound(spelling)
    if (
        said is None and entry is not None and compound is not None
    ):  # without alpha=1, which the several steps alone have
        others, own = compound.signature.parameters, entry.signature.parameters
        keywords = {k: v for k, v in keywords.items() if k not in others or resolve_keyword(own, k) is not None}
    return said or (spelling, arguments, keywords)


def normalize_index(key: Any, rank: int) -> tuple[Any, ...] | None:
    """Return an index in the table's form, or None if it has tensors, lists or masks."""
    items: list[Any] = []
    dots = None
    for part in key if isinstance(key, tuple) else (key,):
        if part is Ellipsis:
            dots = len(items)
        elif part is None:
            items.append(("new",))
        elif isinstance(part, (bool, Node, list, tuple)) or not isinstance(
            part, (int, slice, np.integer)):  # fmt: skip
            return None
        elif isinstance(part, slice):
            if any(isinstance(p, Node) for p in (part.start, part.stop, part.step)):
                return None
            whole = part.start in (None, 0) and part.stop is None and part.step in (None, 1)
            items.append(("all",) if whole else ("slice", part.start, part.stop, part.step or 1))
        else:
            items.append(("int", int(part)))
    reads = sum(item != ("new",) for item in items)
    fill = [("all",)] * (rank - reads)
    at = len(items) if dots is None else dots
    return (*items[:at], *fill, *items[at:])


def lift_dropout(lifter: LiftContext, node: Node) -> Last:
    """Lift dropout as a product with the mask of this run; some kinds also add a shift. Both are data."""
    call = node.maker
    first = call.arguments[0]
    like = first.tensor()
    shift, whole = (as_numbers(replay(node, (first,), (t,))) for t in (torch.zeros_like(like), torch.ones_like(like)))
    scaled: Last = "torch.mul", (first, lifter.data("mask", whole - shift)), {}
    if not shift.any():
        return scaled
    product = lifter.apply_op(basics.mul, *scaled)
    return "torch.add", (product, lifter.data("shift", shift)), {}


# Writing in place -----------------------------------------------------------------------------------------


def lift_aliased_write(lifter: LiftContext, node: Node) -> Ref:
    """Lift an overwrite of some of a tensor's entries through a view of it."""
    old, new = node.parents
    assert node.places is not None
    lifter.refs_in((old, new))
    return lift_overwrite(lifter, lifter.refs[id(old)], lifter.refs[id(new)], node.places, lifter.wish(node))


def opaque_aliased_write(node: Node) -> TorchCall:
    """Return such an overwrite as an opaque call."""
    old, new = node.parents
    places = torch.as_tensor(node.places)

    def function(first: Any, second: Any) -> Any:
        before, after = (torch.view_as_real(t) if t.is_complex() else t for t in (first, second))
        found = torch.where(places >= 0, after.reshape(-1)[places.clamp(min=0)], before)
        return torch.view_as_complex(found) if first.is_complex() else found

    where = node.where or SourceLine("?", 0, "")
    return TorchCall(function, "in-place write through a view", (old, new), {}, where)


def lift_setitem(lifter: LiftContext, node: Node) -> Last:
    """Lift ``x[key] = value``."""
    call = node.maker
    target, key, value = call.arguments
    plain_key = without_subclass(key)
    read = find_read_entries(plain_key, node.shape)
    placing.check_written_once(read)
    places = np.full(int(np.prod(node.shape, dtype=object)), -1, dtype=np.int64)
    places[read.reshape(-1)] = np.arange(read.size)
    refs = lifter.refs_in((target, value))
    source = refs.get(id(value), value)
    if isinstance(source, Ref) and tuple(source.shape) != tuple(sp.Integer(n) for n in read.shape):
        extra = len(source.shape) - read.ndim
        if extra > 0:
            source = lifter(basics.reshape, source, tuple(source.shape[extra:]))
        source = lifter(basics.expand, source, tuple(read.shape))
    keys = plain_key if isinstance(plain_key, tuple) else (plain_key,)
    masked = any(isinstance(part, torch.Tensor) and part.dtype is torch.bool for part in keys)
    old, where = refs[id(target)], places.reshape(node.shape)
    return done(lift_overwrite(lifter, old, source, where, lifter.wish(node), masked))


def lift_empty_result(lifter: LiftContext, node: Node) -> Ref:
    """Lift a result without entries, or with operands without entries, as data: its Jacobian is empty."""
    call = node.maker
    if call.spelling.endswith(".apply") or (node.held.numel() and any(n.held.numel() for n in call.nodes if n.carries)):
        raise Refused("")
    return lifter.data(lifter.wish(node) or "empty", node.value())


# Gradients that were recorded -----------------------------------------------------------------------------


def lift_gradient(lifter: LiftContext, node: Node) -> None:
    """Lift a recorded gradient whose outputs, weights and inputs are lifted already."""
    gradient: RecordedGradient = node.gradient
    if id(gradient) not in lifter.gradients:
        lifter.gradients[id(gradient)] = pull_recorded_gradient(lifter, gradient)
    ref, old = lifter.gradients[id(gradient)][node.index], gradient.before[node.index]
    if old is not None:
        ref = lifter(basics.add, lifter.refs[id(old)], ref, called=lifter.wish(node))
    wrong = find_difference(lifter.arrays[ref.name], node.value(), lowest_dtype(node))
    if wrong is not None:
        raise UnsupportedError(
            f"a gradient that was differentiated again differs from the derived one: {wrong}",
            found=(f"{node.where.short}: {node.where.text}" if node.where else "",),
        )
    lifter.settle(node, ref, node.value())


def pull_recorded_gradient(lifter: LiftContext, gradient: RecordedGradient) -> list[Ref]:
    """Return the gradients of a recorded backward, one for each input; its steps are added to the program."""
    builder = lifter.builder
    inputs = [lifter.refs[id(node)] for node in gradient.inputs]
    ends = [lifter.refs[id(node)] for node in gradient.outputs]
    weights = collect_output_weights(lifter, gradient, ends)
    given = tuple(Tensor(ref.name, ref.shape) for ref in lifter.inputs)
    program = Program(given, tuple(builder.steps), ends[-1].name)
    order = 1 + max((lifter.orders.get(name, 0) for name in program.reaching(ref.name for ref in ends)), default=0)
    taken = {*lifter.names.values(), *(ref.name for ref in lifter.inputs)}
    free = [s for s in SEEDS if not any(name == s or name.startswith(f"{s}_") for name in taken)] or list(SEEDS)
    letter = free[min(order, len(free)) - 1]  # v, and g in a backward of the backward
    wishes: dict[str, str] = {}
    for place, ref in enumerate(inputs):
        node = gradient.results[place]() if place in gradient.results else None
        wish = None if node is None or gradient.before[place] is not None else lifter.wish(node)
        wishes |= {ref.name: wish} if wish else {}

    def called(tensor: str | None) -> str:
        name = builder.claim(None if tensor is None else wishes.get(tensor, f"{letter}_{tensor}"))
        if tensor is not None and tensor not in wishes:
            lifter.cotangents[name] = (letter, tensor)
        return name

    steps, found = steps_back(program, weights, [ref.name for ref in inputs], called)
    for step in steps:
        builder.steps.append(step)
        lifter.orders[step.result.name] = order
        evaluate_step(step, lifter.arrays)
    gradients = []
    for ref in inputs:
        part = found.get(ref.name)
        if isinstance(part, str):
            gradients.append(Ref(part, ref.shape))
        elif part is None:
            gradients.append(lifter.data("zeros", np.zeros([int(n) for n in ref.shape])))
        else:
            gradients.append(lifter.data("one", np.ones(())))
    return gradients


def collect_output_weights(lifter: LiftContext, gradient: RecordedGradient, ends: list[Ref]) -> dict[str, Argument]:
    """Return the weight of each output; raise `UnsupportedError` if an output occurs twice."""
    found: dict[str, Argument] = {}
    for ref, node in zip(ends, gradient.weights, strict=True):
        if node is not None:
            weight: Argument = lifter.refs[id(node)].name
        else:
            weight = lifter.data("ones", np.ones([int(n) for n in ref.shape])).name if ref.shape else ONE
        if ref.name in found:
            raise UnsupportedError("one output occurs twice in a gradient that is differentiated again")
        found[ref.name] = weight
    return found


def refuse_silent_write(node: Node) -> None:
    """Refuse a call whose saved tensors were overwritten through ``.data`` before torch's backward."""
    call = node.maker
    late = [n for n in call.nodes if (n.behind or n.exchanged) is not None and not is_value_restored(n)]
    itself = node.behind is not None and not is_value_restored(node)
    if (late or itself) and is_saved_for_backward(call, node.index, late, itself):
        where = next(at for n in (*late, node) if (at := n.behind or n.exchanged) is not None)
        raise UnsupportedError(
            BEHIND,
            found=(f"{where.short}: {where.text}",),
            hints=("with torch.no_grad(): write in place, and backward() will say so",),
        )


def is_value_restored(node: Node) -> bool:
    """Whether the tensor again has the value that the call read, as gradcheck restores its inputs."""
    tensor = node.owner()
    return tensor is not None and tensor.shape == node.held.shape and holds_same_numbers(tensor.detach(), node.held)


def is_saved_for_backward(call: TorchCall, index: int, nodes: Sequence[Node], result: bool) -> bool:
    """Whether torch saves one of ``nodes``, operands of the call, or its ``result``, for the call's backward."""
    packed: list[Any] = []

    def pack(tensor: Any) -> Any:
        packed.append(tensor)
        return tensor

    with torch._C.DisableTorchFunction(), torch.enable_grad():
        copies = [n.held.detach().clone() for n in call.operands]
        read = [*zip(call.operands, copies, strict=True)]
        given = [copy.requires_grad_(True).clone() if n.carries else copy for n, copy in read]
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            found = rerun(call, *with_operands(call, call.operands, given), index)
    mine = [g for n, g in zip(call.operands, given, strict=True) if any(n is other for other in nodes)]
    mine += [found] if result else []
    return any(storage_of(p) == storage_of(m) for p in packed for m in mine)
