"""Equal calls are lifted once: the steps that one call became, written again for the next.

Comes in: a call whose function, options and operands' shapes an earlier call had too. Goes out: the same steps with
other names and values, or nothing, and then the call is lifted the long way. The value is compared with torch's
either way. What looked at numbers on its way (a sort, positions, a cast that may round, random data) is no template.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from symgrad.language.binding import Ref
from symgrad.ops.lookup import entry_of
from symgrad.program import Apply, Argument, Role, Tensor
from symgrad.tracing.lift import Refused
from symgrad.tracing.lift.complexes import touches_complex
from symgrad.tracing.lift.context import LiftContext
from symgrad.tracing.lift.values import StepReplay
from symgrad.tracing.record.trace import Node

MOST = 2048
LITERAL = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Slot:
    """What a template reads: an operand of the call by its number, or behind those the result of one of its steps."""

    number: int


Part = Slot | Argument


@dataclass(frozen=True)
class CallTemplate:
    """Steps whose arguments are places; ``told`` are those with a label, ``results`` what else the call returned."""

    steps: tuple[tuple[Apply, tuple[Part, ...], tuple[tuple[str, Slot], ...], StepReplay], ...]
    told: tuple[bool, ...]
    last: Slot
    results: Mapping[int, Slot]


KNOWN: OrderedDict[Hashable, CallTemplate] = OrderedDict()


def depends_on_values(step: Apply) -> bool:
    """Whether a step stands for a call because of the numbers it was given: positions, a cast that rounded."""
    entry = entry_of(step.op)
    return entry is not None and (entry.traits.gathers or entry.traits.role is Role.HANDS_ON)


def template_key(lifter: LiftContext, node: Node) -> Hashable | None:
    """What the steps of a call depend on, but for numbers; None where it may be more."""
    call = node.call
    if call is None or touches_complex(node):
        return None
    nodes = call.operands
    numbers = {id(n): k for k, n in enumerate(nodes)}
    names = [lifter.refs[id(n)].name if id(n) in lifter.refs else f" {k}" for k, n in enumerate(nodes)]
    operands = tuple(
        (tuple(n.held.shape), str(n.held.dtype), n.carries, names.index(name))
        for n, name in zip(nodes, names, strict=True)
    )
    try:
        arguments = write_call_key((call.arguments, call.keywords), numbers)
        key = (call.function, call.spelling, call.in_place, node.whole, node.index, str(node.held.dtype))
        hash((key, arguments))
    except (TypeError, Refused):
        return None
    return (*key, arguments, operands)


def write_call_key(value: Any, numbers: Mapping[int, int]) -> Hashable:
    """Arguments with numbers for nodes; 1, 1.0 and True are three things."""
    if isinstance(value, Node):
        return Slot(numbers[id(value)])
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, *(write_call_key(part, numbers) for part in value))
    if isinstance(value, dict):
        return tuple((name, write_call_key(part, numbers)) for name, part in value.items())
    if isinstance(value, slice):
        return ("slice", *(write_call_key(part, numbers) for part in (value.start, value.stop, value.step)))
    if isinstance(value, LITERAL):
        return (type(value).__name__, repr(value))
    if type(value).__module__.startswith("torch"):  # dtypes, layouts, devices, memory formats
        return (type(value).__name__, str(value))
    if value is Ellipsis:
        return "..."
    raise Refused("an argument that may be anything")


class PendingTemplate:
    """A call that is about to be lifted, and where its steps will begin."""

    def __init__(self, lifter: LiftContext, node: Node) -> None:
        self.lifter, self.node = lifter, node
        self.key = template_key(lifter, node)
        self.begin, self.inputs = len(lifter.builder.steps), len(lifter.inputs)

    def reuse(self) -> bool:
        """Lift it as a part of one that is lifted already, or as an equal one was; whether that has its value."""
        lifter, node = self.lifter, self.node
        shared = lifter.shared.get(id(node.call), {}).get(node.index)
        template = KNOWN.get(self.key) if shared is None and self.key is not None else None
        if shared is None and template is None:
            return False
        try:
            with lifter.trial():
                lifter.finish(node, shared or instantiate_template(lifter, node, template))  # type: ignore[arg-type]  # one of the two is there
        except Refused:
            return False
        return True

    def keep(self) -> None:
        """It is lifted the long way: keep its steps as a template, if they depend on nothing else.

        Numbers that none of them reads, as a mask that happened to keep a slice, were looked at to find them.
        """
        lifter, node = self.lifter, self.node
        if self.key is None or lifter.asked_numbers:
            return
        steps = lifter.builder.steps[self.begin :]
        ref = lifter.refs[id(node)]
        made = {step.result.name: Slot(n) for n, step in enumerate(steps, len(node.maker.operands))}
        given: dict[str, Slot] = {}
        for n, source in enumerate(node.maker.operands):
            if id(source) in lifter.refs:
                given.setdefault(lifter.refs[id(source)].name, Slot(n))
        places: dict[str, Slot] = {**given, **made}
        read = {name for step in steps for name in step.tensors}
        looked_at = any(
            not source.carries and (id(source) not in lifter.refs or lifter.refs[id(source)].name not in read)
            for source in node.maker.operands
        )
        shared = lifter.shared.get(id(node.call), {})
        if (
            looked_at
            or ref.name not in made
            or any(new.name not in given for new in lifter.inputs[self.inputs :])
            or any(name not in places for step in steps for name in (*step.tensors, *(n for _, n in step.beside)))
            or any(other.name not in places for other in shared.values())
            or any(depends_on_values(step) for step in steps)
        ):
            return
        KNOWN[self.key] = CallTemplate(
            tuple(
                (
                    step,
                    tuple(places[a] if isinstance(a, str) else a for a in step.arguments),
                    tuple((read, places[name]) for read, name in step.beside),
                    StepReplay(step, lifter.arrays),
                )
                for step in steps
            ),
            tuple(step.result.name in lifter.labels for step in steps),
            made[ref.name],
            {index: places[other.name] for index, other in shared.items()},
        )
        while len(KNOWN) > MOST:
            KNOWN.popitem(last=False)


def instantiate_template(lifter: LiftContext, node: Node, template: CallTemplate) -> Ref:
    """The template's steps for another call; the reference of its result."""
    operands, steps = node.maker.operands, template.steps
    read = {
        part.number for _, parts, *_ in steps for part in (*parts, *template.results.values()) if isinstance(part, Slot)
    }
    given = [n for n in sorted(read) if n < len(operands)]
    refs = lifter.refs_in([operands[n] for n in given])
    places = {Slot(n): refs[id(operands[n])] for n in given}

    def name(part: Part) -> Argument:
        return places[part].name if isinstance(part, Slot) else part

    wish = lifter.wish(node)
    for n, (step, parts, beside, _) in enumerate(steps):
        slot = Slot(len(operands) + n)
        new = lifter.builder.claim(wish) if wish and slot == template.last else lifter.builder.fresh_name()
        lifter.builder.used.add(new)
        reads = tuple((own, str(name(place))) for own, place in beside)
        result = Tensor(new, step.result.shape)
        again = Apply(step.op, tuple(map(name, parts)), step.options, result, step.span, reads)
        lifter.builder.steps.append(again)
        places[slot] = Ref(new, step.result.shape)
        if template.told[n] and slot != template.last:
            lifter.labels[new] = new
    for step, (*_, valued) in zip(lifter.builder.steps[-len(steps) :], steps, strict=True):
        valued(step, lifter.arrays)
    if template.results:
        lifter.shared[id(node.call)] = {index: places[place] for index, place in template.results.items()}
    return places[template.last]
