"""What was detached from values that the same program goes on with: straight-through estimators as they are written.

Comes in: data that a detach made, with the few steps before it. Goes out: those steps and a ``detach``, where all that
they read is read by the program as well; else the data as it stands. So the slope that is left out can be said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.explanation.notable import DETACH, undetached
from symgrad.language.builder import Operand
from symgrad.numeric import as_float, numeric_pullback
from symgrad.ops.entry import named
from symgrad.tracing.lifted import Refused
from symgrad.tracing.numbers import MOST, short
from symgrad.tracing.trace import Node, upstream

if TYPE_CHECKING:
    from symgrad.program import Apply
    from symgrad.tracing.lift import Lifter
    from symgrad.tracing.program import Program


def lifted(lifter: Lifter, node: Node) -> None:
    """``node`` as a detach of steps, or as what was made of one; else as data."""
    before = node.detached or node.past
    assert before is not None
    steps = upstream([before], lifter.stops)
    waiting = [kept for n in steps if (kept := n.detached or n.past) is not None]
    while waiting:
        more = upstream([waiting.pop()], lifter.stops)
        waiting += [kept for n in more if (kept := n.detached or n.past) is not None]
        steps = [*more, *steps]
    known = all(id(n) in lifter.reached for n in steps if n.kind == "leaf" or id(n) in lifter.stops)
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
                raise Refused("a black box is on the way")
            ref = lifter.refs[id(before)]
            if node.detached is not None:
                ref = lifter.emit(named(DETACH), [Operand(ref, ref.name)], {}, lifter.wish(node))
            lifter.finish(node, ref)
    except (Refused, UnsupportedError):
        for name in list(lifter.boxes)[boxes:]:
            del lifter.boxes[name]
        lifter.source(node)


def slopes(program: Program) -> Iterator[str]:
    """What each detach leaves out: the slope that is declared and the real one, where they are one number each."""
    for step in program.recording.steps:
        join, by = where_joined(program, step) if step.op == DETACH else (None, "")
        if join is None or not program.boxes.keys().isdisjoint(program.recording.reaching([join.result.name])):
            continue
        part = replace(program.recording, output=join.result.name)
        ones = np.ones(np.shape(program.arrays[join.result.name]))
        where = program.lines.get(step.result.name)
        at = f"line {where.line}" if where is not None else "it"
        for own, real in undetached(part, program.values, ones, [by], step.result.name).items():
            declared = as_float(numeric_pullback(part, program.values, ones, [own])[own])
            if np.shape(ones) == declared.shape and np.ptp(declared) == np.ptp(real) == 0:
                said = f"the slope that was declared is {short(declared.flat[0])}, the real one {short(real.flat[0])}"
            elif declared.size <= MOST:
                both = f"{short(declared)} is what is declared, {short(real)} the real one"
                said = f"for {program.recording.seed} = ones {both}"
            else:
                said = "without it there would be another slope"
            yield f"a part of the way from {program.labels.get(own, own)} is cut in {at} by .detach(): {said}"


def where_joined(program: Program, cut: Apply) -> tuple[Apply | None, str]:
    """The step at which what a detach gave meets what it was made of, and that."""
    above, held = program.recording.reaching([str(cut.arguments[0])]), {cut.result.name}
    for step in program.recording.steps:
        if held.isdisjoint(step.tensors):
            continue
        by = next((name for name in step.tensors if name in above and name not in held), None)
        if by is not None:
            return step, by
        held.add(step.result.name)
    return None, ""


__all__ = ["lifted", "slopes"]
