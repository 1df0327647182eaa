"""What was detached from values that the same program goes on with: straight-through estimators as they are written.

Comes in: data that a detach made, with the few steps before it. Goes out: those steps and a ``detach``, where all that
they read is read by the program as well; else the data as it stands. So the slope that is left out can be said.
"""

from __future__ import annotations

from symgrad.errors import UnsupportedError
from symgrad.language.steps.builder import Operand
from symgrad.ops.entry import playing
from symgrad.program import Role
from symgrad.tracing.lift.bench import Bench
from symgrad.tracing.lift.lifted import Refused
from symgrad.tracing.record.trace import Node, upstream


def lifted(lifter: Bench, node: Node) -> None:
    """``node`` as a detach of steps, or as what was made of one; else as data."""
    before = node.detached or node.past
    assert before is not None
    steps = upstream([before], lifter.stops)
    waiting = [kept for n in steps if (kept := n.detached or n.past) is not None]
    while waiting:
        more = upstream([waiting.pop()], lifter.stops)
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
                raise Refused("a black box is on the way")
            ref = lifter.refs[id(before)]
            if node.detached is not None:
                ref = lifter.emit(playing(Role.CUTS), [Operand(ref, ref.name)], {}, lifter.wish(node))
            lifter.finish(node, ref)
    except (Refused, UnsupportedError):
        for name in list(lifter.boxes)[boxes:]:
            del lifter.boxes[name]
        lifter.source(node)
