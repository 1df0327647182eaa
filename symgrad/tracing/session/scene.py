"""One call of ``backward`` or ``grad`` as it was found: what was there before it ran.

Comes in: the call's outputs and seeds, then torch's results. Goes out: the nodes behind the outputs, the leaves, and
torch's own vᵀJ for each. Looking comes before running, since a run overwrites ``.grad`` and frees the graph; what is
said of it, `symgrad.tracing.session.event` puts together.

A captured program's sweeps with one seed and one result for each output, however many there are.

`Capture.pullback` takes the bare seed of a single output, as ``backward(v)`` does; stories go over all outputs alike.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.numeric import Array
from symgrad.numeric.exact import as_float
from symgrad.tracing.captured.capture import Capture
from symgrad.tracing.lift.lifted import Lifted
from symgrad.tracing.lift.observed import Observation
from symgrad.tracing.record import frames, sight
from symgrad.tracing.record.given import Given
from symgrad.tracing.record.guard import unheard
from symgrad.tracing.record.trace import Cut, Node, Where, as_array, beginnings, real_precision, upstream
from symgrad.tracing.record.transforms import Request
from symgrad.tracing.session import leaves
from symgrad.tracing.session.agreement import precision_of
from symgrad.tracing.session.history import History
from symgrad.tracing.session.sensors import Sensor


class Scene:
    """One call, as it was found: nodes, leaves, what stood in ``.grad`` before."""

    def __init__(
        self, watch: History, given: Given, where: Where, found: Request | None = None, recorded: bool = True
    ) -> None:
        self.recorded = recorded
        self.watch, self.given, self.where = watch, given, where
        self.kind, self.outputs, self.seeds = given.kind, given.outputs, given.seeds
        self.number = watch.number
        self.nodes = [watch.recorder.node_of(t) for t in self.outputs] if found is None else list(found.outputs)
        self.order = upstream(self.nodes)
        self.observations = self.observe()
        self.names = {} if found is None else found.inside.names
        self.sight = sight.names_in(frames.user_frame()) if found is None else {**found.sight}
        self.passed: dict[int, tuple[weakref.ref[Any], Any]] = {}
        self.asked = given.asked
        owned = [(n, n.owner()) for n in self.order if n.kind == "leaf" and n.owner is not None]
        self.leaves: list[tuple[Node, Any]] = leaves.as_read([(n, t) for n, t in owned if t is not None], self.order)
        if found is not None:
            self.leaves = [(node, node.held) for node in found.wrt]
        elif self.asked is not None:
            known = {id(t) for _, t in self.leaves}
            read = {id(n.owner()): n for n in self.order if n.owner is not None}  # as it was when it was read
            wanted = [(read.get(id(t)) or watch.recorder.node_of(t), t) for t in self.asked]
            more = [p for p in wanted if id(p[1]) not in known]
            self.leaves = wanted if self.kind == "grad" else [*self.leaves, *more]
        watch.name_again([tensor for _, tensor in self.leaves], self.sight)
        with unheard():
            self.before = {id(t): None if t.grad is None else t.grad.detach().clone() for _, t in self.leaves}
            self.stood = {id(t): state_of(t.grad) for _, t in self.leaves}

    def observe(self) -> list[Observation]:
        """Look at what passes through functions of the user's own, and through hooks."""
        guard = self.watch.recorder.guard
        calls = {id(n.call): n.call for n in self.order if n.call is not None and n.call.graph is not None}
        for call in calls.values():
            call.observation = Observation.of_call(call, guard)
        self.sensor = Sensor(list(calls.values()))
        passages = []
        for node in self.order:
            hooks = node.hooks() if node.hooks is not None and node.kind != "leaf" else None
            node.passage = Observation.of_hooks(hooks, guard) if hooks else None
            passages += [node.passage] if hooks else []
        return [*(call.observation for call in calls.values()), *passages]

    def done(self) -> None:
        """The call is over: look no more."""
        for observation in self.observations:
            observation.done()

    def behind(self, cut: Cut) -> list[tuple[str, bool]]:
        """The leaves behind a cut that are still there: what each is called, and whether this call reaches it."""
        reached = {id(t) for _, t in self.leaves}
        held = (t for t in (reference() for reference in cut.leaves) if t is not None)
        return [(self.sight.get(id(t), "a leaf"), id(t) in reached) for t in held]

    # Parts ------------------------------------------------------------------------------------------------

    def program(self, lifted: Lifted, wanted: Iterable[str]) -> Capture:
        """What was lifted, with the tensors that a gradient goes to."""
        return Capture.of(lifted, wanted, file=self.where.file)

    def stops(self) -> frozenset[int]:
        """Where the program begins: at what was asked for, unless one of it was computed from another."""
        if self.asked is None:
            return frozenset()
        wanted = [node for node, tensor in self.leaves if any(tensor is a for a in self.asked)]
        return beginnings(wanted)

    def targets(self, lifted: Lifted, result: Any) -> dict[str, tuple[Any, Any]]:
        """The tensors a gradient went to, by name, and torch's vᵀJ for each (None: torch has none)."""
        chosen: dict[str, tuple[Any, Any]] = {}
        asked = None if self.asked is None else {id(t) for t in self.asked}
        found = list(result.values()) if isinstance(result, dict) else result
        for place, (node, tensor) in enumerate(self.leaves):
            if id(node) not in lifted.refs or (asked is not None and id(tensor) not in asked):
                continue
            if self.kind == "grad":
                true = found[place]
            else:
                before, after = self.before[id(tensor)], tensor.grad
                true = None if after is None else after.detach() if before is None else after.detach() - before
            chosen[lifted.refs[id(node)].name] = (tensor, true)
        return chosen

    def types(self, lifted: Lifted) -> dict[str, str]:
        """The types of the tensors that torch computed with, by name: the coarsest of those that are one here."""
        known = ((lifted.refs[id(n)].name, real_precision(n.held.dtype)) for n in self.order if id(n) in lifted.refs)
        found = dict(sorted(known, key=lambda pair: precision_of(pair[1])[1]))
        return found | {name: real_precision(node.held.dtype) for name, node in lifted.nodes.items() if node.carries}

    def weights(self, lifted: Lifted) -> dict[str, Any]:
        """The seeds by output name."""
        found: dict[str, Any] = {}
        for name, tensor, seed in zip(lifted.outputs, self.outputs, self.seeds, strict=True):
            array = np.ones(tuple(tensor.shape)) if seed is None else as_float(as_array(seed))
            found[name] = found[name] + array if name in found else array
        return found


def state_of(gradient: Any) -> tuple[int, int]:
    """What tells whether anything was added since: which tensor it is, and how often it was written."""
    return (0, 0) if gradient is None else (id(gradient), int(gradient._version))


def pulled(program: Capture, seeds: Sequence[Any]) -> dict[str, Any]:
    """The gradients by input, for one seed for each output."""
    return program.pullback(seeds if len(seeds) > 1 else seeds[0])


def pushed(program: Capture, tangents: Mapping[str, Any]) -> list[Array]:
    """How each output changes."""
    found = program.pushforward(tangents)
    return list(found) if isinstance(found, tuple) else [found]
