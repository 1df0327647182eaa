"""Lift recorded calls to a program: each call becomes steps of the table, or an opaque call.

Comes in: nodes. Goes out: a `LiftedProgram`: the program, the value of every tensor in it, and its opaque calls. A call
is tried as its entry of the table, then as a selection of entries, then as the operations that torch runs inside it.
Each try is compared with the value that torch computed, and undone if it differs.

Some steps are not in the script. A value detached from the same program (straight-through estimators) becomes these
steps and a ``detach``, so that the missing slope can be reported. Under autocast torch rounds the operands of a call to
half precision; the listing has ``linear(x.bfloat16(), weight.bfloat16())``, with torch's numbers. A hook that changes a
tensor's gradient is an opaque call after the tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.language.binding import Ref
from symgrad.numeric.exact import as_float
from symgrad.ops.calls.registry import SHARING
from symgrad.ops.lookup import basics, find, has_role, role_entry
from symgrad.program import Program, Role, Tensor, free_name
from symgrad.tracing.lift import (
    UNKNOWN,
    UNNAMED,
    LiftedProgram,
    Refused,
    assign_labels,
    boxes,
    complex_definitions,
    complexes,
    entry_choices,
    gather_tensor_list,
    inside,
    rewrites,
    templates,
)
from symgrad.tracing.lift.boxes import CallOrigin, UnderivedCall
from symgrad.tracing.lift.context import LiftContext
from symgrad.tracing.lift.rewrites import refuse_silent_write
from symgrad.tracing.record.spelling import plain_spelling, plain_word
from symgrad.tracing.record.trace import (
    ASIDE,
    COMPILED,
    NOBODY,
    UNCOMPILED,
    UNRECORDED,
    Node,
    TorchCall,
    as_numbers,
    upstream_nodes,
)


class Lifter(LiftContext):
    """Lifts the calls that lead to some nodes, each in the first way that gives torch's value."""

    def lift(self, outputs: Sequence[Node], declared: Sequence[Node] = ()) -> LiftedProgram:
        """Return the program of ``outputs``; ``declared`` nodes are inputs, used or not."""
        for node in declared:
            self.source(node)
        self.order = upstream_nodes(list(outputs), self.stops)
        self.reached |= {id(node) for node in self.order if node.carries}
        for node in self.order:
            if id(node) not in self.refs:
                self.node(node)
        names: list[str] = []
        for ref in (self.refs[id(node)] for node in outputs):  # one that is returned twice has a seed for each time
            called = None if UNNAMED.fullmatch(ref.name) else ref.name
            again = self(role_entry(Role.HANDS_ON), ref, called=called) if ref.name in names else ref
            names.append(again.name)
        self.outputs = ends = tuple(names)
        read = {*ends, *(n for s in self.builder.steps for n in (*s.tensors, *(own for _, own in s.beside)))}
        asked = {self.refs[id(node)].name for node in declared}
        inputs = tuple(Tensor(ref.name, ref.shape) for ref in self.inputs if ref.name in read | asked)
        self.program = Program(inputs, tuple(self.builder.steps), ends[-1])
        self.labels = assign_labels(self.program, ends, self.labels, self.cotangents, self.suggested)
        if complex_definitions.phases_matter(self, self.phases or {}):
            return Lifter(self.names, self.stops, turning=False).lift(outputs, declared)
        return self

    def node(self, node: Node) -> None:
        """Lift one node, whose sources are lifted already."""
        if (node.detached or node.past) and id(node) not in self.stops:
            lift_detached(self, node)
        elif node.kind in ("leaf", "data") or id(node) in self.stops:
            self.source(node)
        elif node.passage is not None and node.passage.made and not node.passage.kept(0):
            self.hooked(node)
        elif node.notes:
            raise UnsupportedError(node.notes[0], found=(node.where.short if node.where else "",))
        elif node.kind == "unknown":
            raise explain_unrecorded(node)
        elif node.kind == "shift":
            self.shifted(node)
        elif node.kind == "gradient":
            rewrites.lift_gradient(self, node)
        elif node.kind == "overwrite":
            try:
                with self.trial():
                    self.finish(node, rewrites.lift_aliased_write(self, node))
            except Refused as refusal:
                node.call = rewrites.opaque_aliased_write(node)
                self.box(node, node.call, str(refusal))
        else:
            with apply_autocast(self, node):
                self.call(node)

    # Calls ----------------------------------------------------------------------------------------------

    def call(self, node: Node) -> None:
        """Lift a call to entries of the table, or add an opaque step."""
        refuse_silent_write(node)
        begin = len(self.builder.steps)
        try:
            self.said(node)
        except Refused as refusal:
            call = node.maker
            if rewrites.is_module_hook_call(call):
                call = replace(call, spelling=boxes.SPELLING)
            self.box(node, call, str(refusal))
        else:
            self.origins.update(self.origin_of(node, begin))

    def said(self, node: Node) -> None:
        """Lift a call like an equal one before, or by each way in turn."""
        tied = entry_choices.has_ties(node)
        learning = templates.PendingTemplate(self, node)
        if not tied and learning.reuse():
            return
        self.asked_numbers, reasons = False, list[str]()
        ways: tuple[Way, ...] = (lift_by_table, entry_choices.by_index_probe, inside.lift_operations)
        if complexes.touches_complex(node):
            ways = complexes.WAYS
        elif tied:
            ways = (entry_choices.by_index_probe, *ways)  # which of equal entries it is, torch's algorithm decides
        for way in (*ways, rewrites.lift_empty_result):
            try:
                with self.trial():
                    self.finish(node, way(self, node))
                if not tied:
                    learning.keep()
                return
            except Refused as refusal:
                reasons.append(str(refusal))
        parts = list(dict.fromkeys(part for reason in reasons for part in reason.split("; ") if part))
        raise Refused("; ".join([part for part in parts if not part.endswith(UNKNOWN)] or parts[:1]))

    def shifted(self, node: Node) -> None:
        """Lift a value that was changed without autograd: the gradient passes, the difference is data."""
        (old,) = node.parents
        difference = as_float(node.value()) - as_float(old.value())
        self.settle(node, self(basics.add, self.refs[id(old)], self.data("change", difference)), node.value())

    def hooked(self, node: Node) -> None:
        """Lift ``node`` as it was computed, followed by its hooks."""
        before = replace(node, hooks=None, passage=None, owner=NOBODY)
        self.keep.append(before)
        self.node(before)
        call = TorchCall(
            boxes.return_unchanged,
            boxes.SPELLING,
            (before,),
            {},
            node.hooked[-1],
            observation=node.passage,
            slots=(0,),
        )
        put = ", ".join(dict.fromkeys(where.short for where in node.hooked))
        self.box(node, call, f"its gradient is what the hook registered in {put} returns")

    def origin_of(self, node: Node, begin: int) -> dict[str, CallOrigin]:
        """Return the call of the steps from ``begin`` on, by its result's name; empty if one is opaque."""
        call, name = node.call, self.refs[id(node)].name
        steps = tuple(step.result.name for step in self.builder.steps[begin:])
        if call is None or name not in steps or any(step in self.boxes for step in steps):
            return {}
        steps = steps[: steps.index(name) + 1]  # behind it stands what only its derivative reads
        read = tuple(n for n in call.operands if n.carries)
        names = tuple(self.refs[id(n)].name for n in read)
        return {name: CallOrigin(UnderivedCall(name, call.spelling, "", call, node.index, read, names), steps)}


def lift_detached(lifter: Lifter, node: Node) -> None:
    """Lift ``node`` as a detach of steps, or as computed from one; else as data."""
    before = node.detached or node.past
    assert before is not None
    steps = upstream_nodes([before], lifter.stops)
    waiting = [kept for n in steps if (kept := n.detached or n.past) is not None]
    while waiting:
        more = upstream_nodes([waiting.pop()], lifter.stops)
        waiting += [kept for n in more if (kept := n.detached or n.past) is not None]
        steps = [*more, *steps]
    # in a user's own forward a view of a leaf is one itself, with a past
    first = [n for n in steps if (n.kind == "leaf" and not n.past) or id(n) in lifter.stops]
    known = all(id(n) in lifter.reached for n in first)
    if not known or any(n.changed or n.altered for n in (node, *steps)):
        lifter.source(node)
        return
    boxes = len(lifter.boxes)
    try:
        with lifter.trial():
            for step in steps:
                if id(step) not in lifter.refs:
                    lifter.node(step)
            if len(lifter.boxes) > boxes:
                raise Refused("an operation on the path is not derived")
            ref = lifter.refs[id(before)]
            if node.detached is not None:
                ref = lifter(role_entry(Role.CUTS), ref, called=lifter.wish(node))
            lifter.finish(node, ref)
    except (Refused, UnsupportedError):
        for name in list(lifter.boxes)[boxes:]:
            del lifter.boxes[name]
        lifter.source(node)


def lift_by_table(bench: LiftContext, node: Node) -> Ref:
    """Lift the call as one entry of the table."""
    call = node.maker
    first = call.arguments[0] if call.arguments else None
    word = plain_word(call.spelling)
    if bench.within and isinstance(first, Node) and first.shape == node.shape:
        entry = find(f"Tensor.{word}")
        copies = entry is not None and entry.traits.role is Role.COPIES
        if copies or SHARING.get(word.removeprefix("_unsafe_")) in ("in order", "if dense"):
            return bench.refs_in(first)[id(first)]  # all entries in their order
    spelling, arguments, keywords = rewrites.normalize_call(bench, node)
    if has_role(spelling, Role.HANDS_ON):
        if isinstance(arguments[0], Ref):  # made of several entries, of which none rounds
            return arguments[0]
        ref = bench.refs_in(arguments)[id(arguments[0])]
        if np.array_equal(as_float(bench.arrays[ref.name]), as_float(node.value()), equal_nan=True):
            return ref
        return lift_rounding_cast(bench, node, ref)
    op = find(spelling)
    if op is None or op.traits.complex_pairs:
        raise Refused(f"{plain_spelling(call.spelling)} {UNKNOWN}")
    if op.traits.gathers and any(
        n.kind == "data" and not n.held.is_floating_point() and n.held.numel() and int(n.held.min()) < 0
        for n in call.nodes
    ):
        raise Refused("")  # places counted from the end: `by_index_probe` counts them from the front
    return bench.apply_op(op, spelling, gather_tensor_list(op, arguments), keywords, bench.wish(node))


IN_THE_OPEN = f"{UNCOMPILED} symgrad run … runs the same uncompiled"
"""The hint about compiled code."""


def explain_unrecorded(node: Node) -> UnsupportedError:
    """Return the error for a tensor whose creation was not recorded, by the compiler if torch's graph shows that."""
    place = f"{node.where.short}: {node.where.text}" if node.where else "an unknown place"
    said = {
        COMPILED: "a gradient comes from what torch.compile made: its program is one opaque call",
        ASIDE: "a gradient comes from something that was not recorded, such as compiled code",
    }.get(node.made_by)
    return UnsupportedError(said or UNRECORDED, found=(place,), hints=() if said is None else (IN_THE_OPEN,))


Way = Callable[[LiftContext, Node], Ref]
"""One way to lift a call."""


def lift_rounding_cast(bench: LiftContext, node: Node, ref: Ref) -> Ref:
    """Lift a rounding cast of the script as a step; without a name it is called ``x_fp16``."""
    found = bench(role_entry(Role.HANDS_ON), ref, called=bench.wish(node))
    word = HALVES.get(str(node.held.dtype), "")
    if word and not bench.within:
        bench.spellings[found.name] = f"Tensor.{word}"
        if id(node) not in bench.names:
            label_rounded(bench, found, ref, word)
            bench.arrays[found.name] = node.value()
    return found


HALVES = {"torch.bfloat16": "bfloat16", "torch.float16": "half", "torch.float32": "float"}
"""The rounding methods, by dtype."""
SHORT = {"bfloat16": "bf16", "half": "fp16", "float": "fp32"}
"""Suffixes of the names of rounded operands, by method."""


@contextmanager
def apply_autocast(lifter: LiftContext, node: Node) -> Iterator[None]:
    """Inside the block, replace the operands of ``node``'s call by those that autocast rounded."""
    call, word = node.call, HALVES.get(str(node.held.dtype))
    if call is None or not call.autocast or word in (None, "float"):
        yield
        return
    before: dict[int, Ref] = {}
    for operand in call.operands:
        if operand.held.is_floating_point() and operand.held.dtype != node.held.dtype:
            ref = before[id(operand)] = lifter.refs.get(id(operand)) or lifter.source(operand)
            if (ref.name, word) not in lifter.casts:  # a weight that several calls read is cast once, as autocast does
                found = lifter(role_entry(Role.HANDS_ON), ref, called=f"{word}_{len(lifter.casts) + 1}")
                label_rounded(lifter, found, ref, word)
                lifter.arrays[found.name] = as_numbers(operand.tensor().to(node.held.dtype))
                lifter.casts[ref.name, word] = found
            lifter.refs[id(operand)] = lifter.casts[ref.name, word]
    try:
        yield
    finally:
        lifter.refs.update(before)


def label_rounded(lifter: LiftContext, made: Ref, ref: Ref, word: str) -> None:
    """Label the rounded tensor ``x_bf16``, after the one that is rounded."""
    wish = f"{lifter.labels.get(ref.name, ref.name)}_{SHORT[word]}"
    lifter.labels[made.name] = free_name((wish,), {*lifter.labels.values(), *lifter.arrays})
