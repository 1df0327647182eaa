"""A gradient that was recorded with ``create_graph``, lifted: the steps of the backward join those of the program.

Comes in: a node of such a gradient. Goes out: a reference to the step that gives it. What was asked together is pulled
back together, by equations, and held against what torch gave.
"""

from __future__ import annotations

import numpy as np

from symgrad.calculus.back import ONE, steps_back
from symgrad.errors import UnsupportedError
from symgrad.language.steps.builder import Operand
from symgrad.language.steps.calls import Ref
from symgrad.ops import ground
from symgrad.program import SEEDS, Argument, Program, Tensor
from symgrad.tracing.lift.bench import Bench
from symgrad.tracing.lift.values import evaluate
from symgrad.tracing.lift.verify import disagreement, precision
from symgrad.tracing.record.gradients import Gradient
from symgrad.tracing.record.trace import Node


def lifted(lifter: Bench, node: Node) -> None:
    """One gradient, whose outputs, weights and inputs are lifted already."""
    gradient: Gradient = node.gradient
    if id(gradient) not in lifter.gradients:
        lifter.gradients[id(gradient)] = pulled(lifter, gradient)
    ref, old = lifter.gradients[id(gradient)][node.index], gradient.before[node.index]
    if old is not None:
        before = lifter.refs[id(old)]
        ref = lifter.emit(ground.add, [Operand(r, r.name) for r in (before, ref)], {}, lifter.wish(node))
    wrong = disagreement(lifter.arrays[ref.name], node.value(), precision(node))
    if wrong is not None:
        raise UnsupportedError(
            f"a gradient that was differentiated again is not what is derived: {wrong}",
            found=(f"{node.where.short}: {node.where.text}" if node.where else "",),
        )
    lifter.settle(node, ref, node.value())


def pulled(lifter: Bench, gradient: Gradient) -> list[Ref]:
    """What one backward gave by each of its inputs; its steps are the program's from here on."""
    builder = lifter.builder
    inputs = [lifter.refs[id(node)] for node in gradient.inputs]
    ends = [lifter.refs[id(node)] for node in gradient.outputs]
    weights = weights_of(lifter, gradient, ends)
    given = tuple(Tensor(ref.name, ref.shape) for ref in lifter.inputs)
    program = Program(given, tuple(builder.steps), ends[-1].name)
    order = 1 + max((lifter.orders.get(name, 0) for name in program.reaching(ref.name for ref in ends)), default=0)
    letter = letter_of(lifter, order)
    wishes = {}
    for place, ref in enumerate(inputs):
        node = gradient.results[place]() if place in gradient.results else None
        wish = None if node is None or gradient.before[place] is not None else lifter.wish(node)
        wishes[ref.name] = wish or f"{letter}_{ref.name}"

    def called(tensor: str | None) -> str:
        if tensor is None:
            return str(builder.fresh_name())
        name = builder.claim(wishes.get(tensor, f"{letter}_{tensor}"))
        builder.used.add(name)
        if tensor not in wishes:
            lifter.cotangents[name] = (letter, tensor)
        return name

    steps, found = steps_back(program, weights, [ref.name for ref in inputs], called)
    for step in steps:
        builder.steps.append(step)
        lifter.orders[step.result.name] = order
        builder.used.add(step.result.name)
        evaluate(step, lifter.arrays)
    return [result(lifter, found.get(ref.name), ref) for ref in inputs]


def weights_of(lifter: Bench, gradient: Gradient, ends: list[Ref]) -> dict[str, Argument]:
    """The weight of each output; those of one output that stands twice are added up."""
    found: dict[str, Argument] = {}
    for ref, node in zip(ends, gradient.weights, strict=True):
        if node is not None:
            weight: Argument = lifter.refs[id(node)].name
        else:
            weight = lifter.data("ones", np.ones([int(n) for n in ref.shape])).name if ref.shape else ONE
        if ref.name in found:
            raise UnsupportedError("one output stands twice in a gradient that is differentiated again")
        found[ref.name] = weight
    return found


def letter_of(lifter: Bench, order: int) -> str:
    """What cotangents of this order begin with: ``v``, and ``g`` for those of a backward of the backward."""
    taken = {*lifter.names.values(), *(ref.name for ref in lifter.inputs)}
    free = [s for s in SEEDS if not any(name == s or name.startswith(f"{s}_") for name in taken)] or list(SEEDS)
    return free[min(order, len(free)) - 1]


def result(lifter: Bench, found: Argument | None, ref: Ref) -> Ref:
    """What reaches an input, as a tensor; zeros where nothing does."""
    if isinstance(found, str):
        return Ref(found, ref.shape)
    value = np.zeros([int(n) for n in ref.shape]) if found is None else np.ones(())
    return lifter.data("zeros" if found is None else "one", value)
