"""A cache of lifted calls, so that equal calls are lifted once.

Comes in: a call with the function, options and operand shapes of an earlier one. Goes out: the same steps with other
names and values, or nothing, and then the call is lifted as usual. The value is compared with torch's either way.
Steps that depend on values (a sort, positions, a cast that may round, random data) are not cached.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from symgrad.calculus.local_derivatives import Standard
from symgrad.language.binding import Ref
from symgrad.ops.lookup import entry_of
from symgrad.program import Apply, Role, Tensor
from symgrad.tracing.lift import Refused
from symgrad.tracing.lift.complexes import touches_complex
from symgrad.tracing.lift.context import LiftContext
from symgrad.tracing.lift.values import evaluate_step, standard_form
from symgrad.tracing.record.trace import Node, map_nested

MOST = 2048
LITERAL = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class CallTemplate:
    """The steps of a lifted call with their standard forms; ``last`` is its result, ``results`` its other results.

    ``given`` maps the names of operands in the steps to their positions; ``told`` are the steps with a label.
    """

    steps: tuple[tuple[Apply, Standard], ...]
    given: Mapping[str, int]
    told: frozenset[str]
    last: str
    results: Mapping[int, str]


KNOWN: OrderedDict[Hashable, CallTemplate] = OrderedDict()


def template_key(lifter: LiftContext, node: Node) -> Hashable | None:
    """Return the key of a call's template: all that its steps depend on but values; None if they may depend on more."""
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

    def written(value: Any) -> Hashable:
        """Return a hashable form of an argument; 1, 1.0 and True differ, and a node is a number."""
        if isinstance(value, Node):
            return Node, numbers[id(value)]
        if isinstance(value, LITERAL):
            return type(value).__name__, repr(value)
        if value is not Ellipsis and not type(value).__module__.startswith("torch"):
            raise Refused("an argument that may be anything")
        return type(value).__name__, str(value)  # dtypes, layouts, devices, memory formats

    try:
        arguments = repr(map_nested((call.arguments, call.keywords), written))
        key = (call.function, call.spelling, call.in_place, node.whole, node.index, str(node.held.dtype))
        hash((key, arguments))
    except (TypeError, Refused):
        return None
    return (*key, arguments, operands)


class PendingTemplate:
    """A call before lifting, and the position of its first step."""

    def __init__(self, lifter: LiftContext, node: Node) -> None:
        self.lifter, self.node = lifter, node
        self.key = template_key(lifter, node)
        self.begin, self.inputs = len(lifter.builder.steps), len(lifter.inputs)

    def reuse(self) -> bool:
        """Lift it as another result of a lifted call, or from a template; return whether that gave its value."""
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
        """Keep the steps of the lifted call as a template, unless they depend on values.

        They do if an operand is read by no step (a mask that happened to keep a slice), or if a step was chosen by
        values: positions, or a cast that rounded.
        """
        lifter, node = self.lifter, self.node
        if self.key is None or lifter.asked_numbers:
            return
        steps, made = tuple(lifter.builder.steps[self.begin :]), lifter.refs[id(node)].name
        given: dict[str, int] = {}
        for n, source in enumerate(node.maker.operands):
            if id(source) in lifter.refs:
                given.setdefault(lifter.refs[id(source)].name, n)
        own, read = {step.result.name for step in steps}, {name for step in steps for name in step.tensors}
        results = {index: other.name for index, other in lifter.shared.get(id(node.call), {}).items()}
        forms, ops = [standard_form(step, lifter.arrays) for step in steps], [step.op for step in steps]
        asked = {*read, *results.values(), *(name for form in forms for name in form.names.values())}
        looked_at = any(
            not source.carries and (id(source) not in lifter.refs or lifter.refs[id(source)].name not in read)
            for source in node.maker.operands
        )
        if (
            looked_at
            or made not in own
            or any(new.name not in given for new in lifter.inputs[self.inputs :])
            or not asked <= {*given, *own}
            or any(e.traits.gathers or e.traits.role is Role.HANDS_ON for e in map(entry_of, ops) if e is not None)
        ):
            return
        used = {name: n for name, n in given.items() if name in asked}
        told = frozenset(own.intersection(lifter.labels))
        KNOWN[self.key] = CallTemplate(tuple(zip(steps, forms, strict=True)), used, told, made, results)
        while len(KNOWN) > MOST:
            KNOWN.popitem(last=False)


def instantiate_template(lifter: LiftContext, node: Node, template: CallTemplate) -> Ref:
    """Add the template's steps for another call, and return the reference of its result."""
    operands, builder, wish = node.maker.operands, lifter.builder, lifter.wish(node)
    refs = lifter.refs_in([operands[n] for n in template.given.values()])
    places = {name: refs[id(operands[n])] for name, n in template.given.items()}
    for step, _ in template.steps:
        own = step.result.name
        new = builder.claim(wish if own == template.last else None)
        places[own] = Ref(new, step.result.shape)
        if own in template.told and own != template.last:
            lifter.labels[new] = new
    for step, form in template.steps:
        arguments = tuple(places[a].name if isinstance(a, str) else a for a in step.arguments)
        beside = tuple((key, places[name].name) for key, name in step.beside)
        result = Tensor(places[step.result.name].name, step.result.shape)
        builder.steps.append(Apply(step.op, arguments, step.options, result, step.span, beside))
        names = {own: places[name].name for own, name in form.names.items()}
        evaluate_step(builder.steps[-1], lifter.arrays, Standard(form.key, names, form.sizes))
    if template.results:
        lifter.shared[id(node.call)] = {index: places[name] for index, name in template.results.items()}
    return places[template.last]
