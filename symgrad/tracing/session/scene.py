"""One call of ``backward`` or ``grad``: what was there before it ran, and what it did, as an event.

Comes in: the call's outputs and seeds, then torch's results or exception. Goes out: a `Backward` of
`symgrad.tracing.story.events`: the program behind the outputs, and for each leaf the derived vᵀJ beside torch's own.
Looking comes before running, since a run overwrites ``.grad`` and frees the graph.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import SymgradError, UnsupportedError
from symgrad.numeric.exact import as_float
from symgrad.render.program_picture import Watched
from symgrad.tracing.captured.capture import Capture
from symgrad.tracing.captured.pictures import picture
from symgrad.tracing.captured.words import NOT_CHECKED, chosen_by_torch, first_words, ruled_by_torch, shape_text
from symgrad.tracing.lift.complex.pairs import convention
from symgrad.tracing.lift.lifted import Lifted
from symgrad.tracing.lift.lifter import Lifter
from symgrad.tracing.lift.observed import Observation
from symgrad.tracing.record import frames
from symgrad.tracing.record.given import Found, Given, seed_text, stands_for
from symgrad.tracing.record.guard import unheard
from symgrad.tracing.record.names import node_names
from symgrad.tracing.record.trace import Node, Where, as_array, beginnings, real_precision, upstream
from symgrad.tracing.session import diagnose, kinks, leaves, own_backward, paths, remarks
from symgrad.tracing.session.agreement import Judge
from symgrad.tracing.session.births import births, not_finite, watching
from symgrad.tracing.session.entrywise import entrywise
from symgrad.tracing.session.lessons import lessons
from symgrad.tracing.session.likeness import Outline
from symgrad.tracing.session.likeness import unlike as differences
from symgrad.tracing.session.sensors import Sensor
from symgrad.tracing.session.slopes import slopes
from symgrad.tracing.story.events import Backward, Leaf
from symgrad.tracing.story.passages import passages
from symgrad.tracing.story.told_lines import ToldLines, told_lines
from symgrad.tracing.story.zeros import zeros

if TYPE_CHECKING:
    from symgrad.tracing.session.watch import Watch

HANDFUL = 6
"""With more leaves than this, formulas are shown on request only."""


class Scene:
    """One call, as it was found: nodes, leaves, what stood in ``.grad`` before."""

    def __init__(self, watch: Watch, given: Given, where: Where, found: Found | None = None) -> None:
        self.watch, self.given, self.where = watch, given, where
        self.kind, self.outputs, self.seeds = given.kind, given.outputs, given.seeds
        self.number = watch.number
        self.nodes = [watch.recorder.node_of(t) for t in self.outputs] if found is None else list(found.ends)
        self.order = upstream(self.nodes)
        self.observations = self.observe()
        self.names = {} if found is None else found.names
        self.sight = frames.names_in(frames.user_frame()) if found is None else found.sight
        self.passed: dict[int, tuple[weakref.ref[Any], Any]] = {}
        self.asked = given.asked
        owned = [(n, n.owner()) for n in self.order if n.kind == "leaf" and n.owner is not None]
        self.leaves: list[tuple[Node, Any]] = leaves.as_read([(n, t) for n, t in owned if t is not None], self.order)
        if found is not None:
            self.leaves = [(node, node.held) for node in found.wanted]
        elif self.asked is not None:
            known = {id(t) for _, t in self.leaves}
            read = {id(n.owner()): n for n in self.order if n.owner is not None}  # as it was when it was read
            wanted = [(read.get(id(t)) or watch.recorder.node_of(t), t) for t in self.asked]
            more = [p for p in wanted if id(p[1]) not in known]
            self.leaves = wanted if self.kind == "grad" else [*self.leaves, *more]
        with unheard():
            self.before = {id(t): None if t.grad is None else t.grad.detach().clone() for _, t in self.leaves}

    def observe(self) -> list[Observation]:
        """Look at what passes through functions of the user's own."""
        calls = {id(n.call): n.call for n in self.order if n.call is not None and n.call.graph is not None}
        for call in calls.values():
            call.observation = Observation(call, self.watch.recorder.guard)
        self.sensor = Sensor(list(calls.values()))
        return [call.observation for call in calls.values()]

    def done(self) -> None:
        """The call is over: look no more."""
        for observation in self.observations:
            observation.done()

    # Events -----------------------------------------------------------------------------------------------

    def event(self, result: Any, error: Exception | None) -> Backward:
        """What happened, in full."""
        here = self.where if self.kind == "grad" else None  # what this line assigns is the gradient
        names = node_names(self.order, self.names, self.sight, outside=here, given=True)
        if self.given.batched and error is None:
            raise UnsupportedError(
                "is_grads_batched gives many v at once, and one vᵀJ comes back for each of them",
                hints=("the same call with a single v is explained",),
            )
        if error is not None:
            return self.failed(names, error)
        lifted = Lifter(names, self.stops()).lift(self.nodes)
        targets = self.targets(lifted, result)
        program = self.program(lifted, targets)
        shown = self.operations(program)
        key = self.where.file, self.where.line
        outline = Outline(
            shown,
            tuple((program.labels[t.name], tuple(np.shape(program.arrays[t.name]))) for t in program.recording.inputs),
        )
        before = self.watch.shown.get(key) if self.watch.call is None else None
        unlike = None if before is None else differences(before, outline)
        repeated = unlike is not None
        if not repeated:
            self.watch.shown[key] = outline
        born: list[Any] = []
        flow = leaves.Flow()
        seeds = self.weights(lifted)
        judge = Judge(program, seeds, self.types(lifted))
        met, letter = kinks.Passages(), program.recording.seed
        ways = Watched()
        drawn = [ways] if self.watch.pictures and not repeated else []
        judge.pull(watching(births(born), flow.seen, *([] if repeated else [met.seen]), *drawn))
        self.passed = flow.small_of(self.order, lifted.refs)
        lost = bool(born) and all(birth.of_nothing for birth in born)
        few = len(targets) <= HANDFUL or bool(self.watch.only)
        ones = len(self.seeds) == 1 and self.seeds[0] is None
        told = ToldLines() if repeated else told_lines(program, seeds, ones, self.watch.call is not None)
        rows = [
            self.leaf(judge, name, tensor, true, few and not repeated, flow, lost, told)
            for name, (tensor, true) in targets.items()
            if not self.watch.only or program.labels[name] in self.watch.only
        ]
        notes = [*remarks.other_letter(letter), *remarks.accumulated(self, rows, repeated, letter)]
        notes += remarks.without_a_past(program)
        if not repeated:
            ties = kinks.found(program, seeds, met)
            notes += [*zeros(program, seeds, rows, ties), *remarks.broadcast_losses(program)]
            notes += [*kinks.lines(program, ties), *lessons(self, program, seeds, rows, told)]
            notes += [*paths.missing(self, lifted), *slopes(program), *own_backward.compared(program)]
        if any(row.added is not None and not np.isfinite(row.added).all() for row in rows) or any(
            row.after is not None and not np.isfinite(row.after).all() for row in rows
        ):
            notes += not_finite(program, born)
        notes += [*remarks.hooked(program, targets, rows), *chosen_by_torch(program)]
        notes += ruled_by_torch(program, judge.rules) if any(row.ruled for row in rows) else []
        notes += [*remarks.overwritten_weights(self), *self.sensor.told()]
        spoken = [program.labels[n] for n, (t, _) in targets.items() if t.is_complex()]
        if self.seeds[0] is not None:
            self.watch.weights.append((self.where, frames.argument(self.where.text) or seed_text(self.seeds)))
        return Backward(
            self.number,
            self.where,
            seed_text(self.seeds),
            stands_for(self.seeds, lifted.labels.get(lifted.outputs[0], lifted.outputs[0]), letter),
            shown,
            self.roles(program, targets),
            tuple(rows),
            tuple(notes),
            tuple(f"{b.name}: {b.spelling} is a black box, {NOT_CHECKED}: {b.reason}" for b in program.black_boxes),
            repeated=repeated,
            unlike=unlike or (),
            kind=self.kind,
            told=told,
            letter=letter,
            lead=(convention(spoken),) if spoken and not repeated else (),
            picture=picture(program, seeds, ways) if ways.parts else "",
            entries=entrywise(program, told.source) if self.watch.pictures else None,
        )

    def unexplained(self, problem: str, found: tuple[str, ...], error: Exception | None) -> Backward:
        """A call that could not be explained, with the reason."""
        failure = "" if error is None else f"{type(error).__name__}: {first_words(error)}"
        return Backward(
            self.number,
            self.where,
            seed_text(self.seeds),
            "",
            (),
            (),
            (),
            (f"not explained: {problem}", *(f"  {line}" for line in found)),
            failure=failure,
            explained=False,
        )

    def failed(self, names: dict[int, str], error: Exception) -> Backward:
        """A call that torch refused."""
        try:
            lifted = Lifter(names).lift(self.nodes)
        except SymgradError:
            lifted = None
        program = None
        if lifted is not None:
            program = self.program(lifted, [n for n, node in lifted.nodes.items() if node.kind == "leaf"])
        reasons = diagnose.failure(self, lifted, program, error)
        shown = self.operations(program) if program is not None else ()
        roles = self.roles(program, program.wanted) if program is not None and shown else ()
        message = first_words(error)
        return Backward(
            self.number,
            self.where,
            seed_text(self.seeds),
            "",
            shown,
            roles,
            (),
            (),
            (),
            f"{type(error).__name__}: {message}",
            tuple(reasons),
        )

    # Parts ------------------------------------------------------------------------------------------------

    @staticmethod
    def program(lifted: Lifted, wanted: Iterable[str]) -> Capture:
        """What was lifted, with the tensors that a gradient goes to."""
        return Capture(
            lifted.program,
            lifted.outputs,
            lifted.arrays,
            lifted.boxes,
            lifted.labels,
            tuple(wanted),
            lifted.lines,
            lifted.spellings,
            origins=lifted.origins,
        )

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
                true = None if after is None else after.detach().clone() if before is None else after.detach() - before
            chosen[lifted.refs[id(node)].name] = (tensor, true)
        return chosen

    def types(self, lifted: Lifted) -> dict[str, str]:
        """The types of the tensors that torch computed with, by name."""
        found = {lifted.refs[id(n)].name: real_precision(n.held.dtype) for n in self.order if id(n) in lifted.refs}
        return found | {name: real_precision(node.held.dtype) for name, node in lifted.nodes.items() if node.carries}

    def leaf(
        self, judge: Judge, name: str, tensor: Any, true: Any, formulas: bool, flow: leaves.Flow, lost: bool,
        told: ToldLines,
    ) -> Leaf:  # fmt: skip
        """One row."""
        program = judge.program
        jacobian = leaves.structure(program, name) if formulas else leaves.size(program, name)
        form = told.forms.get(program.labels[name])
        before = self.before.get(id(tensor)) if self.kind == "backward" else None
        added = as_float(judge.derived[name])
        error, agrees, ruled = judge.verdict(name, None if true is None else as_array(true), before)
        boxed = program.boxed(name)
        if boxed and agrees:
            error = agrees = None  # torch beside torch
        after = tensor.grad if self.kind == "backward" else true
        hooked = agrees is not True and remarks.touched(self, tensor)
        if hooked:
            error = agrees = None  # what a hook made of it cannot be compared
        return Leaf(
            program.labels[name],
            tuple(tensor.shape),
            jacobian,
            form,
            None if before is None else as_array(before),
            added,
            None if after is None else np.array(as_array(after)),
            error,
            agrees,
            judge.rounding(name),
            boxed,
            judge.undefined(name),
            lost,
            "" if added.any() else flow.why(program, name),
            hooked,
            ruled,
        )

    def operations(self, program: Capture) -> tuple[str, ...]:
        """The program's lines."""
        return passages(program)

    def roles(self, program: Capture, targets: Any) -> tuple[str, ...]:
        """Each input with its shape and what it is."""
        rows = []
        for tensor in program.recording.inputs:
            mark = (" (leaf)" if self.asked is None else " (asked)") if tensor.name in targets else ""
            rows.append(f"{program.labels[tensor.name]} {shape_text(tensor.shape)}{mark}")
        inputs = {tensor.name for tensor in program.recording.inputs}
        rows += [
            f"{program.labels.get(e, e)} {shape_text(np.shape(program.arrays[e]))}"
            for e in dict.fromkeys(program.ends)
            if e not in inputs
        ]
        return tuple(rows)

    def weights(self, lifted: Lifted) -> dict[str, Any]:
        """The seeds by output name."""
        found: dict[str, Any] = {}
        for name, tensor, seed in zip(lifted.outputs, self.outputs, self.seeds, strict=True):
            array = np.ones(tuple(tensor.shape)) if seed is None else as_float(as_array(seed))
            found[name] = found[name] + array if name in found else array
        return found

    def remember(self, ran: bool) -> None:
        """Whose ``.grad`` this call filled, and which parts of the graph it let go of."""
        if ran:
            self.watch.last = paths.last_of(self)
        for node in self.order if ran and not self.given.retained else ():
            node.freed = node.freed or self.where
        for _, tensor in self.leaves if self.kind == "backward" else ():
            if tensor.is_leaf and tensor.grad is not None:
                name = self.sight.get(id(tensor), "a leaf")
                self.watch.filled[id(tensor)] = (weakref.ref(tensor), self.where, name)


__all__ = ["Scene"]
