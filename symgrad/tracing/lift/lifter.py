"""From what was seen to a program: each recorded call becomes steps of the table, or a black box.

Comes in: nodes. Goes out: a `Lifted`: the program, the value of every tensor in it, and its black boxes. A call
is tried as its entry of the table, then as a choice of entries, then as its decomposition into simpler calls;
each try is held against the value torch computed, and taken back as a whole when it does not agree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import SymgradError, UnsupportedError
from symgrad.language.builder import Builder, Operand
from symgrad.language.calls import Ref
from symgrad.numeric.exact import Array, as_float
from symgrad.ops.entry import named
from symgrad.ops.lookup import find
from symgrad.ops.spec import Op
from symgrad.program import BLACK_BOX, Apply, Program, Tensor
from symgrad.shapes import Sizes
from symgrad.tracing.lift import again, choices, detached, phases, rewrites, templates
from symgrad.tracing.lift.binding import Refusals, bound, meaning
from symgrad.tracing.lift.boxes import BlackBox, origin_of, refuse_written_behind
from symgrad.tracing.lift.casts import rounded
from symgrad.tracing.lift.complex import complexes
from symgrad.tracing.lift.labels import UNNAMED, settled_labels
from symgrad.tracing.lift.lifted import RESERVED, Lifted, Refused, identifier
from symgrad.tracing.lift.observed import looked_at
from symgrad.tracing.lift.singular import Origin
from symgrad.tracing.lift.steps import in_one_list
from symgrad.tracing.lift.trials import trial
from symgrad.tracing.lift.values import evaluate
from symgrad.tracing.lift.verify import disagreement, equal, precision
from symgrad.tracing.record.spelling import plain_spelling
from symgrad.tracing.record.trace import UNRECORDED, Node, Where, mapped, upstream

LOOKUPS = frozenset({"take", "gather", "index_select", "take_along_dim", "embedding", "index"})
"""Entries that read positions from a tensor of integers."""


class Lifter:
    """Lifts the calls behind some nodes; ``names`` gives nodes the names that the user knows them by.

    Nodes whose identities are in ``stops`` are inputs, whatever they were computed from. ``turning``: the phases of
    complex vectors may be inputs, if nothing depends on them.
    """

    def __init__(self, names: Mapping[int, str], stops: Collection[int] = (), turning: bool = True) -> None:
        self.names, self.stops = names, stops
        self.builder = Builder(Sizes(), {}, RESERVED)
        self.refs: dict[int, Ref] = {}
        self.inputs: list[Ref] = []
        self.arrays: dict[str, Array] = {}
        self.boxes: dict[str, BlackBox] = {}
        self.labels: dict[str, str] = {}
        self.nodes: dict[str, Node] = {}
        self.lines: dict[str, Where] = {}
        self.spellings: dict[str, str] = {}
        self.keep: list[Any] = []
        self.shared: dict[int, dict[int, Ref]] = {}
        self.inside: dict[tuple[int, int, bool], tuple[Node | None, ...]] = {}
        self.within: list[Node] = []
        self.phases: dict[int, list[Node]] | None = {} if turning else None
        self.origins: dict[str, Origin] = {}
        self.casts: dict[tuple[str, str], Ref] = {}
        self.own: set[str] = set()
        self.asked_numbers = False
        self.reached: set[int] = set()
        self.gradients: dict[int, list[Ref]] = {}
        self.orders: dict[str, int] = {}
        self.cotangents: dict[str, tuple[str, str]] = {}

    def lift(self, outputs: Sequence[Node], declared: Sequence[Node] = ()) -> Lifted:
        """The program behind ``outputs``; ``declared`` nodes are inputs, used or not."""
        for node in declared:
            self.source(node)
        order = upstream(list(outputs), self.stops)
        self.reached |= {id(node) for node in order if node.carries}
        for node in order:
            if id(node) not in self.refs:
                self.node(node)
        ends = rewrites.apart(self, [self.refs[id(node)] for node in outputs])
        inputs = tuple(Tensor(ref.name, ref.shape) for ref in self.inputs)
        program = Program(inputs, tuple(self.builder.steps), ends[-1])
        lifted = Lifted(
            ends,
            program,
            self.arrays,
            self.boxes,
            settled_labels(program, ends, self.labels, self.cotangents),
            self.nodes,
            self.lines,
            self.spellings,
            self.refs,
            self.origins,
        )
        if phases.matter(lifted, self.phases or {}):
            return Lifter(self.names, self.stops, turning=False).lift(outputs, declared)
        return lifted

    def node(self, node: Node) -> None:
        """One node, whose sources are lifted already."""
        if (node.detached or node.past) and id(node) not in self.stops:
            detached.lifted(self, node)
        elif node.kind in ("leaf", "data") or id(node) in self.stops:
            self.source(node)
        elif node.notes:
            raise UnsupportedError(node.notes[0], found=(node.where.short if node.where else "",))
        elif node.kind == "unknown":
            place = f"{node.where.short}: {node.where.text}" if node.where else "an unknown place"
            raise UnsupportedError(UNRECORDED, found=(place,))
        elif node.kind == "shift":
            self.shifted(node)
        elif node.kind == "gradient":
            again.lifted(self, node)
        elif node.kind == "overwrite":
            try:
                with self.trial():
                    self.finish(node, rewrites.overwrite(self, node))
            except Refused as refusal:
                node.call = rewrites.overwriting(node)
                self.box(node, str(refusal))
        else:
            with rounded(self, node):
                self.call(node)

    # Inputs ---------------------------------------------------------------------------------------------

    def source(self, node: Node) -> Ref:
        """A tensor that is given: a leaf, or data of this run."""
        if id(node) in self.refs:
            return self.refs[id(node)]
        kind = "condition" if str(node.held.dtype) == "torch.bool" else "data"
        label = self.names.get(id(node)) or (kind if node.kind == "data" else "x")
        ref = self.data(label, node.value())
        self.refs[id(node)] = ref
        self.nodes[ref.name] = node
        return ref

    def data(self, label: str, array: Array) -> Ref:
        """A new input with a value."""
        name = self.builder.claim(identifier(label))
        self.builder.used.add(name)
        ref = Ref(name, tuple(sp.Integer(int(n)) for n in np.shape(array)))
        self.builder.inputs[name] = ref.shape
        self.inputs.append(ref)
        self.arrays[name] = array
        self.labels[name] = self.shown(name, label)
        return ref

    @staticmethod
    def shown(name: str, label: str | None) -> str:
        """What a name is shown as: the user's own word, numbered as the name is."""
        if label is None or not name.startswith(identifier(label)):
            return name
        return f"{label}{name[len(identifier(label)) :]}"

    # Calls ----------------------------------------------------------------------------------------------

    def call(self, node: Node) -> None:
        """A call in entries of the table, or a black box."""
        refuse_written_behind(node)
        begin = len(self.builder.steps)
        try:
            self.said(node)
        except Refused as refusal:
            self.box(node, str(refusal))
        else:
            self.origins.update(origin_of(self, node, begin))

    def said(self, node: Node) -> None:
        """A call as an equal one before it, or each way in turn."""
        tied = choices.tied(node)
        if not tied and templates.again(self, node):
            return
        learning = templates.Learning(self, node)
        reasons = []
        ways: tuple[Way, ...] = (Lifter.by_table, choices.by_choice, rewrites.by_decomposition)
        if complexes.touches(node):
            ways = complexes.WAYS
        elif tied:
            ways = (choices.by_choice, *ways)  # which of equal entries it is, torch's algorithm decides
        for way in (*ways, rewrites.by_emptiness):
            try:
                with self.trial():
                    self.finish(node, way(self, node))
                if not tied:
                    learning.keep()
                return
            except Refused as refusal:
                reasons.append(str(refusal))
        raise Refused("; ".join(dict.fromkeys(part for reason in reasons for part in reason.split("; ") if part)))

    def by_table(self, node: Node) -> Ref:
        """The call as one entry of the table."""
        call = node.call
        assert call is not None
        spelling, arguments, keywords = rewrites.plain(self, node)
        if not spelling:
            ref = arguments[0] if isinstance(arguments[0], Ref) else self.refs_in(arguments)[id(arguments[0])]
            if np.array_equal(as_float(self.arrays[ref.name]), as_float(node.value()), equal_nan=True):
                return ref
            return self.emit(named("identity"), [Operand(ref, ref.name)], {}, self.wish(node))  # a cast that rounds
        op = find(spelling)
        if op is None or op.pairs:
            raise Refused(f"{plain_spelling(call.spelling)} is not in the table")
        if op.name in LOOKUPS and any(
            n.kind == "data" and not n.held.is_floating_point() and n.held.numel() and int(n.held.min()) < 0
            for n in call.nodes()
        ):
            raise Refused("")  # places counted from the end: `by_choice` counts them from the front
        return self.apply_op(op, spelling, in_one_list(op, arguments), keywords, self.wish(node))

    def apply_op(
        self, op: Op, spelling: str, arguments: Sequence[Any], keywords: Mapping[str, Any], name: str | None = None
    ) -> Ref:
        """``op`` on arguments that hold nodes or references."""
        refs = self.refs_in((arguments, keywords))
        try:
            if op.name == "getitem":
                ref = refs[id(arguments[0])]
                return self.emit(op, [Operand(ref, ref.name)], dict(keywords), name)
            given = [meaning(a, refs) for a in arguments]
            spoken = {k: meaning(v, refs) for k, v in keywords.items()}
            operands, options = bound(op, spelling, given, spoken)
            return self.emit(op, operands, options, name)
        except Refusals as error:
            problem = error.problem if isinstance(error, SymgradError) else str(error)
            raise Refused(f"{spelling}: {problem}") from error

    def emit(self, op: Op, operands: Sequence[Operand], options: Mapping[str, Any], name: str | None = None) -> Ref:
        """Append a step with its value; what broadcasts its operands comes before it."""
        begin = len(self.builder.steps)
        ref = self.builder.apply(op, [self.finite(o) for o in operands], options, None, name=name)
        for step in self.builder.steps[begin:]:
            evaluate(step, self.arrays)
        return ref

    def finite(self, operand: Operand) -> Operand:
        """Infinities as data: no formula has them."""
        value = operand.meaning
        if isinstance(value, float) and not np.isfinite(value):
            return Operand(self.data("bound", np.asarray(value)), operand.text)
        return operand

    def finish(self, node: Node, ref: Ref) -> None:
        """``ref`` is ``node``, if the values agree."""
        value = node.value()
        wrong = disagreement(self.arrays[ref.name], value, precision(node, *self.within))
        if wrong is not None:
            raise Refused(f"the table's entry gives another value: {wrong}")
        self.settle(node, ref, value)

    def settle(self, node: Node, ref: Ref, value: Array) -> None:
        """Note what ``node`` is called from now on, and where it was written."""
        if ref.name not in self.labels and not self.within and not self.compares_own(ref):
            self.arrays[ref.name] = value
        elif not equal(self.arrays[ref.name], value):
            self.own.add(ref.name)
        self.refs[id(node)] = ref
        label = self.names.get(id(node))
        if label and UNNAMED.fullmatch(self.labels.get(ref.name, "")) and UNNAMED.fullmatch(ref.name):
            own = self.builder.claim(identifier(label))
            self.builder.used.add(own)
            self.labels[ref.name] = self.shown(own, label)  # made before it was known to be what has this name
        self.labels.setdefault(ref.name, self.shown(ref.name, label))
        if node.where is not None:
            self.lines.setdefault(ref.name, node.where)
        if node.call is not None:
            self.spellings.setdefault(ref.name, node.call.spelling)

    def compares_own(self, ref: Ref) -> bool:
        """Whether ``ref`` comes by a comparison from steps that torch has not got: to the last bit it is one of them.

        The largest of |z| is no |z| any more where torch's own |z| rounds otherwise.
        """
        made = self.builder.steps[-1] if self.builder.steps else None
        return (
            made is not None
            and made.result.name == ref.name
            and ref.name not in self.boxes
            and not named(made.op).smooth
            and any(name not in self.labels or name in self.own for name in made.tensors)
        )

    def shifted(self, node: Node) -> None:
        """A value changed behind autograd's back: the gradient passes, the difference is data."""
        (old,) = node.parents
        difference = as_float(node.value()) - as_float(old.value())
        ref = self.refs[id(old)]
        shift = self.data("change", difference)
        self.settle(
            node, self.emit(named("add"), [Operand(ref, ref.name), Operand(shift, shift.name)], {}), node.value()
        )

    def box(self, node: Node, reason: str) -> None:
        """A black box: torch's own local product."""
        call = node.call
        assert call is not None
        read = tuple({id(n): n for n in call.nodes() if n.carries}.values())
        for other in read:
            if other.changed:
                other.tensor()
        name = self.builder.claim(self.wish(node) or self.builder.fresh_name())
        ref = Ref(name, tuple(sp.Integer(n) for n in np.shape(node.value())))
        self.builder.used.add(name)
        arguments = tuple(self.refs[id(n)].name for n in read)
        self.builder.steps.append(Apply(f"{BLACK_BOX}{call.spelling}", arguments, (), Tensor(ref.name, ref.shape)))
        self.boxes[name] = looked_at(BlackBox(name, call.spelling, reason, call, node.index, read), node)
        self.settle(node, ref, node.value())
        self.arrays[name] = node.value()

    # Bookkeeping ----------------------------------------------------------------------------------------

    def wish(self, node: Node) -> str | None:
        """The name the user knows a node by, as an identifier."""
        label = self.names.get(id(node))
        return identifier(label) if label else None

    def refs_in(self, value: Any) -> dict[int, Ref]:
        """References for the nodes inside ``value``; data that nobody used so far becomes an input."""
        found: dict[int, Ref] = {}

        def visit(part: Any) -> Any:
            if isinstance(part, Node):
                found[id(part)] = self.refs[id(part)] if id(part) in self.refs else self.source(part)
            elif isinstance(part, Ref):
                found[id(part)] = part
                self.keep.append(part)
            return part

        mapped(value, visit)
        return found

    def trial(self) -> AbstractContextManager[None]:
        """Take everything back when the body is refused."""
        return trial(self)


Way = Callable[[Lifter, Node], Ref]
"""One way to lift a call."""


__all__ = ["Lifter"]
