"""What the two sides of a loss are before they are broadcast: predictions and targets, as somebody wrote them.

Comes in: steps. Goes out: the losses among them that have to broadcast, and the tensors on their two sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symgrad.ops.calls.operators import sign_of
from symgrad.ops.entry import plays
from symgrad.program import Apply, Role


def broadcast_sides(steps: Sequence[Apply], differences: bool = False) -> Iterator[tuple[Apply, str, str]]:
    """Each loss one side of which is broadcast to the other, or both to a third shape; predictions, then targets.

    With ``differences`` those that are written out, too.
    """
    made = {step.result.name: step for step in steps}

    def before(name: str) -> str:
        step = made.get(name)
        return before(str(step.arguments[0])) if step is not None and plays(step.op, Role.COPIES) else name

    for step in steps:
        written = differences and sign_of(step.op) == "-"
        if ("reduction" in dict(step.options) or written) and len(step.tensors) > 1:
            sides = step.tensors[:2]
            first, second = map(before, sides)
            if (first, second) != sides:
                yield step, first, second
