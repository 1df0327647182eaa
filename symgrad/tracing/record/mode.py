"""The recording mode: every torch function that runs while it is active becomes a `TorchCall`, its results `Node`s.

Recording is cheap: it keeps references and, before a write, copies. Calls are lifted later
(`symgrad.tracing.lift.lifter`), and only those that an explanation needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from symgrad.tracing.record import aliases, frames, gradients, graph_breaks, spelling
from symgrad.tracing.record.aliases import Storages, detached_node, is_leaf, map_entries, storage_of, version
from symgrad.tracing.record.frame_names import note_module_arguments
from symgrad.tracing.record.graph_breaks import HANDS_OUT
from symgrad.tracing.record.isolation import Caller, Guard, caller, override_check
from symgrad.tracing.record.patching import TorchPatches, has_no_numbers, in_abstract_mode
from symgrad.tracing.record.spelling import ASKING, Facts, PendingCall
from symgrad.tracing.record.trace import (
    UNSEEN,
    GraphBreak,
    Node,
    SourceLine,
    TorchCall,
    holds_same_numbers,
    map_nested,
    tensors_in,
)
from symgrad.tracing.record.transforms import TransformTrace

ALIAS = "AliasBackward0"
"""The name of a whole tensor's view in torch's graph."""
Listener = Callable[[str, Any, SourceLine], None]
"""Called with ``(spelling, tensor, where)`` when a tensor is written in place, or ``.grad`` is read or set."""


class Recorder(TorchFunctionMode):
    """Records while it is entered; ``node_of`` returns the node of a tensor's present value."""

    def __init__(self, listener: Listener | None = None) -> None:
        super().__init__()
        self.nodes: Any = aliases.notes_by_tensor()
        self.storages = Storages()
        self.listener = listener
        self.calls = 0
        self.opening: list[Any] = []
        self.lent: set[int] = set()
        self.guard = Guard()
        self.stand_ins = TorchPatches(self)
        self.paused = False
        self.inside: TransformTrace | None = None
        self.forwards: list[graph_breaks.CustomForward] = []
        self.originals: dict[Any, Any] = {}
        self.left: SourceLine | None = None
        self.taken: dict[float, GraphBreak] = {}
        """The numbers that left torch, each with its break."""
        self.counts: dict[int, int | None] = {}
        self.asides: list[graph_breaks.Unread] = []
        self.where: SourceLine | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        keywords = kwargs or {}
        call = caller(sys._getframe(1))
        func = self.originals.get(func, func)
        func = self.guard(override_check, func, sys._getframe(1)) or func
        known = self.guard(spelling.describe_function, func)
        if known is None or self.paused or (self.inside is None and self.abroad()):
            return call(func, args, keywords)
        asked = None
        if known.spelling in gradients.CALLS and self.inside is None:
            asked = self.guard(gradients.expect_gradient, self, known.spelling, func, args, keywords)
        result = self.through(func, known, types, args, keywords, call)
        if known.spelling in HANDS_OUT:
            self.guard(graph_breaks.note_escape, self, known.spelling, args[0], result)
        if asked is not None:
            self.guard(gradients.note_results, self, asked, result)
        return result

    def through(
        self, func: Any, known: Facts, types: Any, args: tuple[Any, ...], keywords: dict[str, Any], call: Caller
    ) -> Any:
        """Run one call, and record it if it creates or writes tensors."""
        opens = known.opened is not None and func not in self.opening and not spelling.has_own_override(types)
        if known.silent and not (opens and known.spelling in spelling.BACKWARD):
            result = call(func, args, keywords)
            if known.spelling == "Tensor.register_hook":
                self.guard(gradients.note_hook, self, args[0])
            if self.listener is not None and spelling.is_grad(known.spelling):
                self.guard(self.asked, known.spelling, args, result)
            return result
        if opens and not spelling.taken_whole(known, args, keywords):
            self.opening.append(func)
            try:
                with self:
                    return call(known.opened, args, keywords)
            finally:
                self.opening.pop()
        return self.record(func, known, args, keywords, lambda: call(func, args, keywords))

    def is_idle(self) -> bool:
        """Whether no forward, opened function or transform is running."""
        return not self.forwards and not self.opening and self.inside is None

    def forget(self) -> None:
        """Drop the record after it was reported."""
        self.nodes, self.storages = aliases.notes_by_tensor(), Storages()
        self.counts, self.lent = {}, set()

    def abroad(self) -> bool:
        """Whether this call is not to be recorded: in an abstract mode, or symgrad's own; the first line is kept."""
        self.stand_ins.meet_dynamo()
        if (found := in_abstract_mode()) and self.left is None:
            self.left = self.guard(frames.user_line)
        return found or (self.listener is not None and frames.called_by_symgrad())

    def asked(self, word: str, args: tuple[Any, ...], result: Any) -> None:
        """Report to the listener that ``.grad`` was read or set."""
        assert self.listener is not None
        self.listener("grad" if result is None and len(args) == 1 else word, args, frames.user_line())

    def record(
        self, func: Any, known: Facts, args: tuple[Any, ...], keywords: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        """Run one call and record its effects; only ``run`` can raise."""
        if self.inside is not None:
            return self.inside.record(func, known, args, keywords, run)
        seen = self.guard(self.before, func, known, args, keywords)
        with graph_breaks.inside_forward(self.forwards, known.custom) as made:
            result = run()
        if seen is not None:
            self.guard(self.after, seen, result, made)
        return result

    def before(self, func: Any, known: Facts, args: tuple[Any, ...], keywords: dict[str, Any]) -> PendingCall | None:
        """Return the state before a call, after copying values that it may overwrite; None for abstract tensors."""
        inputs = list(tensors_in((args, keywords)))
        if has_no_numbers(inputs):
            return None
        if known.spelling in spelling.LENDING and inputs:
            self.lend(inputs[0])
        written = spelling.tensors_written(func, known, args, keywords)
        reading = [t for t in inputs if all(t is not w for w in written) or known.reads]
        nodes = {id(t): self.node_of(t) for t in inputs}
        tracked = bool(self.forwards) or (torch.is_grad_enabled() and any(t.requires_grad for t in inputs))
        self.storages.grown += tracked
        for tensor in written or (inputs[known.unwritten :] if known.may_write else ()):
            initialised = bool(written) and tensor.requires_grad and is_leaf(tensor) and not self.forwards
            self.storages.protect(tensor, tracked and not initialised)
        self.counts = {id(t): version(t) for w in written for t in self.storages.sharing(w)}
        return PendingCall(
            func,
            known,
            (args, keywords),
            written,
            reading,
            nodes,
            torch.get_rng_state() if known.random else None,
            [(t, version(t)) for t in inputs] if known.may_write else [],
        )

    def after(self, seen: PendingCall, result: Any, inside: graph_breaks.CustomForward) -> None:
        """Record the results and writes of a call; ``inside`` is the forward if it is a user's own function."""
        made, nodes = list(tensors_in(result)), seen.nodes
        if seen.known.spelling.startswith(ASKING):
            self.node_of(seen.given[0][0])  # from this line on it is a leaf
        if not made and not seen.written:
            return
        self.calls += 1
        self.where = where = frames.user_line(self.calls, () if self.where is None else self.where.modules)
        arguments, spoken = map_nested(seen.given, lambda v: nodes.get(id(v), v) if isinstance(v, torch.Tensor) else v)
        call = TorchCall(
            seen.function,
            seen.known.spelling,
            arguments,
            spoken,
            where,
            seen.random,
            bool(seen.written),
            len(made),
            self.calls,
            torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"),
        )
        for tensor in seen.written:
            self.overwritten(tensor, nodes[id(tensor)], call, where)
        known = {storage_of(w) for w in seen.written}  # whatever shares it has been seen to change
        for tensor, before in seen.versions:
            if (version(tensor) != before or aliases.is_outdated(nodes[id(tensor)], tensor)) and storage_of(
                tensor
            ) not in known:
                self.nodes.pop(tensor, None)
        note_module_arguments(seen.reading, nodes, where.modules)
        sources = [nodes[id(t)] for t in seen.reading]
        self.asides = graph_breaks.find_unread_results(self.asides, sources)
        if seen.known.custom:
            graph_breaks.note_custom(self, call, inside, result)
            self.asides += graph_breaks.Unread.of(call, sources)
        for index, tensor in enumerate(made):
            if id(tensor) not in nodes or (call.graph is not None and tensor not in self.nodes):
                self.register(tensor, self.made(tensor, call, index, sources, where))

    def made(self, tensor: Any, call: TorchCall, index: int, sources: list[Node], where: SourceLine) -> Node:
        """Create the node of a new tensor."""
        if tensor.requires_grad and not is_leaf(tensor):
            return detached_node("call", tensor, where, call=call, index=index)
        cut = graph_breaks.graph_break_of(tensor, call, sources, where)
        if tensor.requires_grad and not self.forwards:
            node = self._source(tensor, cut)
            node.made_by = call.spelling if node.kind == "leaf" else node.made_by
            if cut is not None and tensor._is_view():  # without gradients torch calls it a leaf, and what it views is
                node.leaves = cut.leaves
            return node
        node = self._source(tensor, cut) if tensor.requires_grad else detached_node("data", tensor, where, cut=cut)
        node.parts, node.made_of = aliases.index_chain(call), aliases.only_source(sources)
        node.made_by = f"{call.spelling}[{index}]" if call.results > 1 else call.spelling
        node.view = aliases.find_data_view(call, tensor, index)
        node.detached = graph_breaks.detached_from(call, sources)
        node.past = graph_breaks.history_of_data(node, call, index, sources, self.forwards)
        return node

    def knows(self, tensor: Any) -> bool:
        """Whether a tensor's present value has a node, as when a gradient is the weight itself."""
        node = self.nodes.get(tensor)
        return node is not None and node.version in (None, version(tensor))

    def node_of(self, tensor: Any) -> Node:
        """Return the node of a tensor's present value; an unrecorded tensor becomes a leaf, data, or unknown."""
        node: Node | None = self.nodes.get(tensor)
        if node is not None and node.version in (None, version(tensor)) and not node.altered:
            role_changed = (node.kind == "data" and tensor.requires_grad) or (
                node.kind == "leaf" and not tensor.requires_grad
            )
            if not role_changed:
                return node
        made = node is not None and node.kind not in ("leaf", "data")
        if node is not None and made and tensor.requires_grad:  # something wrote it without being seen
            found = detached_node("unknown", tensor, frames.user_line())
            found.notes += [UNSEEN] if node.altered else []
        else:
            found = self._source(tensor, None if node is None or made else node.cut)
        self.register(tensor, found)
        return found

    def _source(self, tensor: Any, cut: GraphBreak | None = None) -> Node:
        """Create the node of a tensor from outside, or of a new leaf after a ``cut``."""
        if not tensor.requires_grad:
            return detached_node("data", tensor, None, cut=cut)
        kind = "leaf" if is_leaf(tensor) else "unknown"
        if kind == "unknown" and graph_breaks.grad_fn_of(tensor) == ALIAS:
            base = tensor._base
            if base is not None and self.knows(base) and (base.shape, base.stride()) == (tensor.shape, tensor.stride()):
                found: Node = self.nodes[base]  # as_subclass, which no mode is told of: the value in another class
                return found
        where, by = frames.user_line(), graph_breaks.grad_fn_of(tensor, kind == "unknown" and self.stand_ins.went)
        return detached_node(kind, tensor, where, cut=cut, made_by=by)

    def register(self, tensor: Any, node: Node) -> None:
        """Register ``node`` as the present value of ``tensor``."""
        self.nodes[tensor] = node
        self.storages.add(tensor, node)
        if self.lent and storage_of(tensor) in self.lent:
            node.lend()

    def lend(self, tensor: Any) -> None:
        """Copy the values in the memory of ``tensor``, which code outside torch can now write."""
        self.node_of(tensor)
        graph_breaks.mark_escaped(self.forwards, tensor)
        key = storage_of(tensor)
        if key is not None:
            self.lent.add(key)
            for node in self.storages.relying(tensor):
                node.lend()

    def swap(self, first: Any, second: Any) -> None:
        """Swap two tensors, and drop their nodes, which have the wrong values now."""
        aliases.SWAP(first, second)
        self.guard(lambda: [self.nodes.pop(tensor, None) for tensor in (first, second)])

    def overwritten(self, tensor: Any, old: Node, call: TorchCall, where: SourceLine) -> None:
        """Register new nodes for a tensor that was written in place, and for those that share entries with it."""
        others = [t for t in self.storages.sharing(tensor) if t is not tensor and t in self.nodes]
        silent = not torch.is_grad_enabled() or "__set__" in call.spelling
        same = call.spelling.startswith((ASKING, "Tensor.detach_"))  # no entry is another one
        old.destroyed = old.destroyed or (None if same else where)
        if "data.__set__" in call.spelling:
            old.exchanged = old.exchanged or where
            graph_breaks.mark_escaped(self.forwards, tensor)
        if self.forwards and silent:
            graph_breaks.mark_escaped(self.forwards, *(t for t in (tensor, *others) if t.requires_grad))
        if tensor.requires_grad and silent and old.kind not in ("leaf", "data"):
            new = detached_node("shift", tensor, where, parents=(old,))  # behind autograd's back
        elif tensor.requires_grad and (silent or is_leaf(tensor)):
            new = self._source(tensor, old.cut)
            new.where = where
        elif tensor.requires_grad:
            new = detached_node("call", tensor, where, call=call, whole=True)
        else:
            new = detached_node("data", tensor, where)
            new.past = graph_breaks.history_inside_forward(self.forwards, new, kind="call", call=call, whole=True)
        self.register(tensor, new)
        for other in () if same else others:
            self.alias_changed(other, tensor, new, where, silent)
        if self.listener is not None and not same:
            self.listener(call.spelling, tensor, where)

    def alias_changed(self, other: Any, tensor: Any, new: Node, where: SourceLine, silent: bool) -> None:
        """Register a new node for ``other``, which shares storage with ``tensor``, whose value is now ``new``."""
        places = map_entries(other, tensor)
        if places is None and (other.is_complex() or tensor.is_complex()) and other.requires_grad:
            node = detached_node("unknown", other, where)
            node.notes.append("a conjugate of a tensor that was written in place afterwards")
            self.register(other, node)
            return
        if places is None or not (places >= 0).any():
            self.nodes[other].keep()
            self.nodes[other].version = None
            return  # no entry in common
        old: Node = self.nodes[other]
        old.beside, old.destroyed = old.destroyed is None or old.beside, old.destroyed or where
        if self.counts.get(id(other)) == version(other) and not holds_same_numbers(other, old.held):  # as by .data
            old.behind = old.behind or where
        if not other.requires_grad:
            node = detached_node("data", other, where, cut=new.cut)
            node.past = graph_breaks.history_inside_forward(
                self.forwards, node, kind="overwrite", parents=(old, new), places=places
            )
        elif is_leaf(other):
            node = self._source(other)
        elif silent or not aliases.related_views(other, tensor):
            node = detached_node("shift", other, where, parents=(old,))
        else:
            node = detached_node("overwrite", other, where, parents=(old, new), places=places)
        self.register(other, node)
