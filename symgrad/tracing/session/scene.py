"""One call of ``backward`` or ``grad`` as it was found, before it ran; and then what was found of it.

Comes in: the call's outputs and seeds, then torch's results. Goes out: a `Scene`, the nodes behind the outputs, the
leaves, and torch's own vᵀJ for each. Looking comes before running: a run overwrites ``.grad`` and frees the graph.
A call that is told has `Findings`, everything that a note may read: a note is a function of them that gives lines, each
worth saying at a call that went well. `symgrad.tracing.session.call_events` has them all, in the order in which they
are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch

from symgrad.errors import UnsupportedError
from symgrad.explanation.kinks import Tie
from symgrad.explanation.singular import Passage
from symgrad.language.arguments import format_entry_name
from symgrad.numeric.exact import Array, as_float
from symgrad.render.numbers import MOST, format_array, format_digits, format_nested_array
from symgrad.tracing.captured import Capture
from symgrad.tracing.captured.step_text import format_step
from symgrad.tracing.lift import LiftedProgram
from symgrad.tracing.lift.boxes import Observation
from symgrad.tracing.lift.lifter import Lifter
from symgrad.tracing.lift.values import precision_of
from symgrad.tracing.record import frame_names, frames
from symgrad.tracing.record.isolation import suppress_warnings
from symgrad.tracing.record.names import name_nodes
from symgrad.tracing.record.spelling import BackwardArgs
from symgrad.tracing.record.trace import (
    GraphBreak,
    Node,
    SourceLine,
    as_numbers,
    real_precision,
    upstream_nodes,
)
from symgrad.tracing.record.transforms import DerivativeRequest
from symgrad.tracing.session.agreement import Judge
from symgrad.tracing.session.history import History
from symgrad.tracing.session.own_backward import BackwardSensor
from symgrad.tracing.story.events import Leaf, list_names
from symgrad.tracing.story.story_lines import StoryLines


class Scene:
    """One call, as it was found: nodes, leaves, what stood in ``.grad`` before."""

    def __init__(
        self,
        watch: History,
        given: BackwardArgs,
        where: SourceLine,
        found: DerivativeRequest | None = None,
        recorded: bool = True,
    ) -> None:
        self.recorded = recorded
        self.watch, self.given, self.where = watch, given, where
        self.kind, self.outputs, self.seeds = given.kind, given.outputs, given.seeds
        self.number = watch.number
        self.nodes = [watch.recorder.node_of(t) for t in self.outputs] if found is None else list(found.outputs)
        self.order = upstream_nodes(self.nodes)
        self.observations = self.observe()
        self.names = {} if found is None else found.inside.names
        self.sight = frame_names.names_in_sight(frames.user_frame()) if found is None else {**found.sight}
        self.passed: Mapping[Any, Array] = {}
        self.asked = given.asked
        owned = [(n, n.owner()) for n in self.order if n.kind == "leaf"]
        self.leaves: list[tuple[Node, Any]] = sort_as_read([(n, t) for n, t in owned if t is not None], self.order)
        if found is not None:
            self.leaves = [(node, node.held) for node in found.wrt]
        elif self.asked is not None:
            known = {id(t) for _, t in self.leaves}
            wanted = [*zip(self.as_read(self.nodes, self.asked), self.asked, strict=True)]
            more = [p for p in wanted if id(p[1]) not in known]
            self.leaves = wanted if self.kind == "grad" else [*self.leaves, *more]
        watch.name_again([tensor for _, tensor in self.leaves], self.sight)
        with suppress_warnings():
            self.before = {id(t): None if t.grad is None else t.grad.detach().clone() for _, t in self.leaves}
            self.stood = {id(t): grad_state(t.grad) for _, t in self.leaves}

    def as_read(self, ends: Sequence[Node], tensors: Sequence[Any]) -> list[Node]:
        """Return the nodes of ``tensors`` at the time when the program that leads to ``ends`` read them."""
        read = {id(n.owner()): n for n in upstream_nodes(ends)}
        return [read.get(id(t)) or self.watch.recorder.node_of(t) for t in tensors]

    def observe(self) -> list[Observation]:
        """Start to observe the user's autograd functions and hooks during the call."""
        guard = self.watch.recorder.guard
        calls = {id(n.call): n.call for n in self.order if n.call is not None and n.call.graph is not None}
        for call in calls.values():
            call.observation = Observation.of_call(call, guard)
        self.sensor = BackwardSensor(list(calls.values()))
        passages = []
        for node in self.order:
            hooks = node.hooks() if node.hooks is not None and node.kind != "leaf" else None
            node.passage = Observation.of_hooks(hooks, guard) if hooks else None
            passages += [node.passage] if hooks else []
        return [*(call.observation for call in calls.values()), *passages]

    def done(self) -> None:
        """Stop observing: the call is over."""
        for observation in self.observations:
            observation.done()

    def behind(self, cut: GraphBreak) -> list[tuple[str, bool]]:
        """Return the living leaves behind a graph break: the name of each, and whether this call reaches it."""
        reached = {id(t) for _, t in self.leaves}
        held = (t for t in (reference() for reference in cut.leaves) if t is not None)
        return [(self.sight.get(id(t), "a leaf"), id(t) in reached) for t in held]

    def request(self, ends: Sequence[Node], wanted: Sequence[Node]) -> DerivativeRequest:
        """Return this call as a request for derivatives of ``ends`` with respect to ``wanted``."""
        found = DerivativeRequest("torch.autograd", self.kind, torch.autograd.grad, where=self.where, sight=self.sight)
        found.outputs, found.wrt = tuple(ends), tuple(wanted)
        return found

    # Parts ------------------------------------------------------------------------------------------------

    def program(self, lifted: LiftedProgram, wanted: Iterable[str]) -> Capture:
        """Return the lifted program with its gradients ``wanted``."""
        return Capture.of(lifted, wanted, file=self.where.file)

    def stops(self) -> frozenset[int]:
        """Return the nodes at which the program begins: the requested tensors, if none depends on another."""
        if self.asked is None:
            return frozenset()
        wanted = [node for node, tensor in self.leaves if any(tensor is a for a in self.asked)]
        return program_starts(wanted)

    def targets(self, lifted: LiftedProgram, result: Any) -> dict[str, tuple[Any, Any]]:
        """Return the tensors with a gradient, by name, with torch's vᵀJ (None if torch has none)."""
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

    def types(self, lifted: LiftedProgram) -> dict[str, str]:
        """Return the dtypes of torch's tensors, by name; the lowest precision if several share a name."""
        known = ((lifted.refs[id(n)].name, real_precision(n.held.dtype)) for n in self.order if id(n) in lifted.refs)
        found = dict(sorted(known, key=lambda pair: precision_of(pair[1])[1]))
        return found | {name: real_precision(node.held.dtype) for name, node in lifted.nodes.items() if node.carries}

    def weights(self, lifted: LiftedProgram) -> dict[str, Any]:
        """Return the seeds by output name."""
        given = zip(lifted.outputs, self.outputs, self.seeds, strict=True)
        return {n: np.ones(tuple(t.shape)) if v is None else as_float(as_numbers(v)) for n, t, v in given}


def program_starts(wanted: Sequence[Node]) -> frozenset[int]:
    """Return the ids of ``wanted`` as the start of a program; none if one of them depends on another."""
    own = {id(node) for node in wanted}
    above = {id(n) for node in wanted for n in upstream_nodes([node]) if n is not node}
    return frozenset(own) if own.isdisjoint(above) else frozenset()


def capture_request(ask: DerivativeRequest, ends: Sequence[Node]) -> Capture:
    """Lift the program from the requested tensors to ``ends``, named as in the function or in the caller's scope."""
    names = name_nodes(upstream_nodes(ends), ask.inside.names, ask.sight, outside=ask.where, given=True)
    given = [n for n in ask.wrt if n.kind in ("leaf", "data")]
    lifted = Lifter(names, program_starts(ask.wrt)).lift(ends, given)
    lost = [ask.inside.names.get(id(node), "an input") for node in ask.wrt if id(node) not in lifted.refs]
    if lost:
        raise UnsupportedError(f"there is no path from {list_names(lost)} to the result of its function")
    return Capture.of(lifted, (lifted.refs[id(node)].name for node in ask.wrt), file=ask.where.file)


def sort_as_read(leaves: Sequence[tuple[Node, Any]], order: Sequence[Node]) -> list[tuple[Node, Any]]:
    """Return ``leaves`` in the order in which the forward pass reads them."""
    first: dict[int, tuple[int, int]] = {}
    for node in order:
        if node.call is not None:
            for place, source in enumerate(node.call.nodes):
                first[id(source)] = min(first.get(id(source), (node.call.number, place)), (node.call.number, place))
    return sorted(leaves, key=lambda pair: first.get(id(pair[0]), (0, 0)))


def grad_state(gradient: Any) -> tuple[int, int]:
    """Return the identity and version of a gradient, which change when something is added to it."""
    return (0, 0) if gradient is None else (id(gradient), int(gradient._version))


def pull_capture(program: Capture, seeds: Sequence[Any]) -> dict[str, Any]:
    """Return the gradients by input, given one seed for each output."""
    return program.pullback(seeds if len(seeds) > 1 else seeds[0])


def push_capture(program: Capture, tangents: Mapping[str, Any]) -> list[Array]:
    """Return the tangent of each output."""
    found = program.pushforward(tangents)
    return list(found) if isinstance(found, tuple) else [found]


@dataclass(frozen=True, eq=False)
class Findings:
    """The results of explaining one call, from which notes are written.

    ``scene`` is the call, ``program`` the program of its outputs as it was ``lifted``, ``names`` the names by node.
    ``targets`` are the leaves by name with torch's gradients, ``rows`` their rows in the story by the ``judge``.
    ``shown`` and ``told`` are the forward and backward lines, ``letter`` is the seed's name. ``born`` are the pullbacks
    where a number stops being finite, ``real`` describes such gradients if they exist mathematically. ``ties`` are the
    kinks that matter, ``closed`` the steps that were expanded. ``repeated``: the program was printed before.
    """

    scene: Scene
    lifted: LiftedProgram
    program: Capture
    names: Mapping[int, str]
    seeds: Mapping[str, Array]
    targets: Mapping[str, tuple[Any, Any]]
    rows: Sequence[Leaf]
    judge: Judge
    shown: Sequence[str]
    told: StoryLines
    letter: str
    repeated: bool
    born: Sequence[Passage]
    real: Sequence[str] | None
    ties: Sequence[Tie]
    closed: Sequence[str]


Notes: TypeAlias = Callable[[Findings], Iterable[str]]
"""Writes notes about a call."""


MOST_OUTPUTS = 6
"""The most outputs of one call whose seeds are printed one by one."""


def format_seed(seeds: tuple[Any, ...], outputs: tuple[Any, ...] = ()) -> str:
    """Format seeds: ``1 1 1 (given)``; empty if none was given for an output that is not a scalar."""
    if any(seed is None and out.numel() != 1 for seed, out in zip(seeds, outputs, strict=False)):
        return ""
    if len(seeds) != 1:
        return f"one for each of {len(seeds)} outputs"
    (seed,) = seeds
    if seed is None:
        return "1 (implicit: one output)"
    array = as_float(as_numbers(seed))
    inside = format_nested_array(array) if array.size <= 8 else format_array(array)
    return f"{inside.strip('[]') if array.ndim < 2 else inside} (given)"


def write_weighted_sum(seeds: tuple[Any, ...], names: Sequence[str], letter: str = "v") -> str:
    """Write ``L = z[0] + z[1]``, the scalar whose gradient the seed of a single output gives.

    For several outputs, write the seeds: ``v1 = 1 for y, v2 = [3 4] for z``.
    """
    if len(seeds) != 1 and len(set(names)) == len(names) <= MOST_OUTPUTS:
        told = ["1" if seed is None else format_array(as_float(as_numbers(seed))) for seed in seeds]
        return ": " + ", ".join(f"{letter}{n + 1} = {told[n]} for {name}" for n, name in enumerate(names))
    if len(seeds) != 1 or seeds[0] is None:
        return ""
    (name,) = names
    array = as_float(as_numbers(seeds[0]))
    if not 0 < array.size <= 6:
        return f": L = Σ {letter}·{name}" + (", the sum" if array.size and (array == 1).all() else "")
    terms = []
    for at in np.ndindex(*array.shape):
        entry, value = format_entry_name(name, at), float(array[at])
        if value:  # another entry does not count
            terms.append(entry if value == 1 else f"{format_digits(value)}·{entry}")
    return ": L = " + (" + ".join(terms) or "0").replace("+ -", "- ") + (", the sum" if (array == 1).all() else "")


def explain_extended_gradients(
    program: Capture, seeds: Mapping[str, Array], kinds: Mapping[str, str]
) -> list[str] | None:  # fmt: skip
    """Return lines with the gradients in high precision, and the first number outside the range of its dtype.

    ``kinds`` are the dtypes by name. None if they have no number, or that would take too long.
    """
    from symgrad.numeric.symbols_and_digits import TooLong
    from symgrad.oracles.digits import DIGITS, FIRST, MORE, PreciseGradients

    if program.boxes or len(set(program.ends)) != 1:
        return None
    truth = PreciseGradients(replace(program.recording, output=program.ends[0]), program.values, program.wanted)
    for count in (FIRST, DIGITS):  # 1 - sigmoid(200) is 0 in the first ones
        try:
            found = truth.at(count + MORE + truth.at(count).asked)
            gradients = found.pulled(as_float(seeds[program.ends[0]]), program.wanted)
        except TooLong:
            continue
        own = [name for name in program.wanted if name in gradients][:2]
        parts = [describe_extended_gradient(program.labels.get(name, name), gradients[name]) for name in own]
        return [*describe_lost_number(program, found.arrays, kinds), f"  Mathematically, {' and '.join(parts)}."]
    return None


def describe_lost_number(program: Capture, true: Mapping[str, Array], kinds: Mapping[str, str]) -> Iterator[str]:
    """Yield a line with the first number outside the range of its dtype, and its ``true`` value."""
    recording, known = program.recording, program.arrays
    gone: dict[str, tuple[int, ...]] = {}
    for step in recording.steps:
        ours, real = as_float(known[step.result.name]), true[step.result.name]
        lost = ~np.isfinite(ours) | ((ours == 0) & (real != 0))
        if lost.any():
            gone[step.result.name] = tuple(int(i) for i in np.argwhere(lost)[0])
    beyond = [name for name, at in gone.items() if not np.isfinite(as_float(known[name])[at])]
    behind = recording.reaching(beyond[:1]) if beyond else gone  # what made the first of them, as 0 its logarithm
    for step in [step for step in recording.steps if step.result.name in gone and step.result.name in behind][:1]:
        name, at = step.result.name, gone[step.result.name]
        entry, kind = f" at {list(at)}" if at else "", kinds.get(name, "float64")
        made, should = format_digits(float(as_float(known[name])[at])), format_extended(true[name][at])
        yield f"  {format_step(program, step)} is {should}{entry}; in {kind} that is {made}"


def describe_extended_gradient(label: str, true: Array) -> str:
    """Describe a gradient that floats may not hold; of a large array, its largest entry."""
    if true.size <= MOST and np.isfinite(as_float(true)).all():
        return f"{label}.grad is {format_array(as_float(true))}"
    most = np.unravel_index(int(np.argmax(np.abs(true))), true.shape)
    return f"the largest entry of {label}.grad is {format_extended(true[most])}"


def format_extended(number: Any) -> str:
    """Format a number that may be outside the range of floats."""
    import mpmath

    held = float(number)
    return format_digits(held) if np.isfinite(held) and (held or not number) else str(mpmath.nstr(number, 3))
