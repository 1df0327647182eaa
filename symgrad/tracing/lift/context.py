"""The program that is being lifted, and the operations that every way of lifting a call uses.

Comes in: recorded nodes, and entries of the table to apply to them. Goes out: steps with their values, inputs, names.
`symgrad.tracing.lift.lifter` chooses the ways to try for a call; the ways depend only on this context.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp

from symgrad.backward.page_names import OPTION, ArgumentSlots, Suggested
from symgrad.entries.spec import Op
from symgrad.errors import DomainError, SourceText
from symgrad.language.binding import Ref
from symgrad.language.builder import StepBuilder, StepOperand, is_infinite_or_nan
from symgrad.language.parser import parse_script
from symgrad.language.statements import StatementReader
from symgrad.numeric.exact import Array
from symgrad.numeric.forward_pass import explain_for_reader
from symgrad.ops.lookup import entry_named
from symgrad.program import BLACK_BOX, Apply, Role, Tensor, free_name
from symgrad.shapes import Sizes
from symgrad.tracing.lift import (
    RESERVED,
    UNNAMED,
    WRITTEN,
    LiftedProgram,
    Refusals,
    Refused,
    bind_entry_arguments,
    explain_refusal,
    gather_tensor_list,
    identifier,
    to_operand,
)
from symgrad.tracing.lift.boxes import UnderivedCall, observe_opaque
from symgrad.tracing.lift.values import evaluate_step, find_difference, is_constant_array, lowest_dtype, reads_own_value
from symgrad.tracing.record.trace import Node, TorchCall, map_nested

Ran = tuple[tuple[Node | None, ...], dict[int, int]]
"""The results of a call whose inner operations were recorded, and the order of its nodes."""


class RecordingBuilder(StepBuilder):
    """Appends steps, and their values to ``arrays``; ``data`` creates an input for a number that no formula has."""

    def __init__(self, arrays: dict[str, Array], data: Callable[[str, Array], Ref]) -> None:
        super().__init__(Sizes(), {}, RESERVED)
        self.arrays, self.data = arrays, data

    def known(self, operand: StepOperand) -> StepOperand:
        """Return the operand, with an infinity or NaN as data."""
        value: Any = operand.meaning
        return replace(operand, meaning=self.data("bound", np.asarray(value))) if is_infinite_or_nan(value) else operand

    def apply(self, *given: Any, **spoken: Any) -> Ref:
        """Apply one entry, and compute its value and those of its auxiliary tensors."""
        begin, outermost = len(self.steps), not self.pending
        ref = super().apply(*given, **spoken)
        for step in self.steps[begin:] if outermost else ():
            try:
                evaluate_step(step, self.arrays)
            except DomainError as error:
                raise explain_for_reader(step, self.steps[begin:], self.arrays, error) from None
        return ref

    def renamed(self, ref: Ref, name: str) -> Ref | None:
        """Rename the last step's result, and its value."""
        found = super().renamed(ref, name)
        if found is not None:
            self.arrays[found.name] = self.arrays.pop(ref.name)
        return found


class LiftContext(LiftedProgram, ABC):
    """The program lifted so far; ``names`` are the user's names of nodes.

    Nodes with ids in ``stops`` are inputs, whatever they were computed from. ``turning``: phases of complex vectors may
    be inputs, if nothing depends on them.
    """

    def __init__(self, names: Mapping[int, str], stops: Collection[int] = (), turning: bool = True) -> None:
        super().__init__()
        self.names, self.stops = dict(names), stops
        self.suggested: dict[str, str] = {}
        self.users = frozenset(re.findall(r"(?<![\w.])\w+", " ".join(names.values())))
        self.builder = RecordingBuilder(self.arrays, self.data)
        self.inputs: list[Ref] = []
        self.keep: list[Any] = []
        self.shared: dict[int, dict[int, Ref]] = {}
        self.inside: dict[tuple[int, int, bool], Ran] = {}
        self.within: list[Node] = []
        self.phases: dict[int, list[Node]] | None = {} if turning else None
        self.casts: dict[tuple[str, str], Ref] = {}
        self.own: set[str] = set()
        self.asked_numbers = False
        self.order: Sequence[Node] = ()
        self.reached: set[int] = set()
        self.gradients: dict[int, list[Ref]] = {}
        self.orders: dict[str, int] = {}
        self.cotangents: dict[str, tuple[str, str]] = {}

    @abstractmethod
    def said(self, node: Node) -> None:
        """Lift one call like an equal one before, or by each way in turn; raise `Refused` if none works."""

    # Inputs ---------------------------------------------------------------------------------------------

    def source(self, node: Node) -> Ref:
        """Return the input for a given tensor: a leaf, or data of this run."""
        if id(node) in self.refs:
            return self.refs[id(node)]
        kind = "condition" if str(node.held.dtype) == "torch.bool" else "data"
        own = self.names.get(id(node))
        if own is not None and node.kind == "data":
            name, array = identifier(own), node.value()
            first = self.nodes.get(name)  # what was the first to bear a name, data with the same numbers: one tensor
            if first is not None and first.kind == "data" and self.names.get(id(first)) == own:
                held = self.arrays[name]
                if held.dtype == array.dtype and is_constant_array(held, array):
                    self.refs[id(node)] = self.refs[id(first)]
                    return self.refs[id(first)]
            if WRITTEN.fullmatch(own) and identifier(own) in self.builder.used:
                own = None
        ref = self.data(
            own or (kind if node.kind == "data" else "leaf" if node.kind == "leaf" else "x"),
            node.value(),
            said=own is not None,
        )
        ref = self.refs[id(node)] = replace(ref, complex=bool(node.held.is_complex()))
        self.nodes[ref.name] = node
        return ref

    def data(self, label: str, array: Array, said: bool = False) -> Ref:
        """Return a new input with a value; a generated name (not ``said`` by the user) avoids the user's names."""
        if not said and label in self.users:
            label = free_name((label,), {*self.users, *self.builder.used})
        name = self.builder.claim(identifier(label))
        ref = Ref(name, tuple(sp.Integer(int(n)) for n in np.shape(array)))
        self.builder.inputs[name] = ref.shape
        self.inputs.append(ref)
        self.arrays[name] = array
        self.labels[name] = self.shown(name, label)
        return ref

    @staticmethod
    def shown(name: str, label: str | None) -> str:
        """Return the printed form of a name: the user's label with the name's number; ``x[row]`` gets no number."""
        if label is None or not name.startswith(identifier(label)):
            return name
        number = name[len(identifier(label)) :]
        return name if number and WRITTEN.fullmatch(label) else f"{label}{number}"

    # Steps ----------------------------------------------------------------------------------------------

    def apply_op(
        self, op: Op, spelling: str, arguments: Sequence[Any], keywords: Mapping[str, Any], name: str | None = None
    ) -> Ref:
        """Apply ``op`` to arguments that contain nodes or references."""
        refs = self.refs_in((arguments, keywords))
        try:
            if op.traits.role is Role.INDEXES:
                ref = refs[id(arguments[0])]
                return self.builder.apply(op, [StepOperand(ref, ref.name)], dict(keywords), None, name=name)
            given = [to_operand(a, refs) for a in arguments]
            spoken = {k: to_operand(v, refs) for k, v in keywords.items()}
            operands, options = bind_entry_arguments(op, spelling, given, spoken)
            return self.builder.apply(op, operands, options, None, name=name)
        except Refusals as error:
            raise Refused(f"{spelling}: {explain_refusal(error)}") from error

    def __call__(self, name: str | Op, *arguments: Any, called: str | None = None, **keywords: Any) -> Ref:
        """Apply one entry to nodes, earlier steps and numbers; ``called`` is the result's name."""
        op = entry_named(name)
        return self.apply_op(op, f"torch.{op.name}", gather_tensor_list(op, arguments), keywords, called)

    def read(self, text: str, meanings: Mapping[str, Any]) -> Ref:
        """Apply the steps of a text in symgrad's language; ``meanings`` are the values of its names.

        Names that the text assigns are renamed if the user has them, too.
        """
        refs = self.refs_in(tuple(meanings.values()))
        environment = {name: refs.get(id(part), part) for name, part in meanings.items()}
        for target in {statement.target for statement in parse_script(SourceText(text)).statements} & self.users:
            text = re.sub(rf"\b{target}\b", free_name((str(target),), {*self.users, *self.builder.used}), text)
        try:
            return StatementReader(text, self.builder, environment).run(
                parse_script(SourceText(text)), self.builder.fresh_name()
            )
        except Refusals as error:
            raise Refused(explain_refusal(error)) from error

    @staticmethod
    def number(size: Any) -> int:
        """Return a size as a number."""
        return int(size)

    whole = number

    # Results --------------------------------------------------------------------------------------------

    def finish(self, node: Node, ref: Ref) -> None:
        """Take ``ref`` as ``node`` if the values agree, else raise `Refused`."""
        value = node.value()
        wrong = find_difference(self.arrays[ref.name], value, lowest_dtype(node, *self.within))
        if wrong is not None:
            raise Refused(f"the table's entry gives another value: {wrong}")
        self.settle(node, ref, value)

    def settle(self, node: Node, ref: Ref, value: Array) -> None:
        """Record the name of ``node``, and its line in the script."""
        if ref.name not in self.labels and not self.within and not self.compares_own(ref):
            self.arrays[ref.name] = value
        elif not is_constant_array(self.arrays[ref.name], value):
            self.own.add(ref.name)
        self.refs[id(node)] = replace(ref, complex=bool(node.held.is_complex()))
        label = self.names.get(id(node))
        if isinstance(label, Suggested):
            self.suggested.setdefault(ref.name, label)
            label = None
        if label and UNNAMED.fullmatch(self.labels.get(ref.name, ref.name)) and UNNAMED.fullmatch(ref.name):
            own = self.builder.claim(identifier(label))
            self.labels[ref.name] = self.shown(own, label)  # made before it was known to be what has this name
        self.labels.setdefault(ref.name, self.shown(ref.name, label))
        if node.where is not None:
            self.lines.setdefault(ref.name, node.where)
        if node.call is not None:
            self.spellings.setdefault(ref.name, node.call.spelling)

    def compares_own(self, ref: Ref) -> bool:
        """Whether ``ref`` selects among values of steps that torch does not have, so that it must equal one exactly.

        With torch's value the maximum of |z| would equal no |z| if torch rounds |z| differently.
        """
        made = self.builder.steps[-1] if self.builder.steps else None
        if made is None or made.result.name != ref.name or ref.name in self.boxes:
            return False
        early = not entry_named(made.op).smooth and any(
            name not in self.labels or name in self.own for name in made.tensors
        )
        return early or reads_own_value(made, self.arrays)

    def box(self, node: Node, call: TorchCall, reason: str) -> None:
        """Add an opaque step, whose vᵀJ is torch's."""
        read = tuple(n for n in call.operands if n.carries)
        for other in read:
            if other.changed:
                other.tensor()
        name = self.builder.claim(self.wish(node))
        ref = Ref(name, tuple(sp.Integer(n) for n in np.shape(node.value())))
        arguments = tuple(self.refs[id(n)].name for n in read)
        first = next((other for other, box in self.boxes.items() if box.call is call), name)
        options: tuple[Any, ...] = ()
        if call.slots:  # a user's own: where its tensors stand
            places = tuple(tuple(n for n, a in enumerate(call.arguments) if a is own) for own in read)
            slot, count = call.slots[node.index], call.slots[-1] + 1
            options = ((OPTION, ArgumentSlots(len(call.arguments), places, slot, count, first)),)
        step = Apply(f"{BLACK_BOX}{call.spelling}", arguments, options, Tensor(ref.name, ref.shape))
        self.builder.steps.append(step)
        self.boxes[name] = observe_opaque(
            UnderivedCall(name, call.spelling, reason, call, node.index, read), node, self.order
        )
        self.settle(node, ref, node.value())
        self.arrays[name] = node.value()

    # Bookkeeping ----------------------------------------------------------------------------------------

    def wish(self, node: Node) -> str | None:
        """Return the user's name of a node as an identifier, or None."""
        label = self.names.get(id(node))
        return identifier(label) if label and not isinstance(label, Suggested) else None

    def refs_in(self, value: Any) -> dict[int, Ref]:
        """Return references for the nodes inside ``value``; new data becomes an input."""
        found: dict[int, Ref] = {}

        def visit(part: Any) -> Any:
            if isinstance(part, Node):
                found[id(part)] = self.refs[id(part)] if id(part) in self.refs else self.source(part)
            elif isinstance(part, Ref):
                found[id(part)] = part
                self.keep.append(part)
            return part

        map_nested(value, visit)
        return found

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo everything that the block added if it raises."""
        builder = self.builder
        count, sizes, shared = builder.count, builder.sizes.copy(), dict(self.shared)
        own = (self.refs, self.arrays, self.labels, self.nodes, self.origins)
        grown: tuple[Any, ...] = (builder.steps, self.inputs, builder.inputs, *own)
        lengths = [len(each) for each in grown]
        try:
            yield
        except (Refused, *Refusals) as error:
            builder.used.free(step.result.name for step in builder.steps[lengths[0] :])
            builder.used.free(ref.name for ref in self.inputs[lengths[1] :])
            for each, length in zip(grown, lengths, strict=True):
                while len(each) > length:
                    each.popitem() if isinstance(each, dict) else each.pop()
            builder.count, builder.sizes, self.shared = count, sizes, shared
            if isinstance(error, Refused):
                raise
            raise Refused(explain_refusal(error)) from error
