"""Why nothing flows back to an input whose Jacobian is 0 for every number: the sentence, from the program alone."""

from __future__ import annotations

from symgrad.calculus.flow import cutting
from symgrad.ops import entry_of, only_read
from symgrad.ops.calls.operators import sign_of
from symgrad.program import Apply, Program, Pullback


def why_nothing_flows(program: Program, name: str) -> str:
    """What cuts the way back, or that there is none to cut.

    >>> from symgrad.language import read
    >>> why_nothing_flows(read("x.detach() * y").program, "x")
    'nothing flows back through detach'
    >>> why_nothing_flows(read("take(x, n)").program, "n")
    'take only reads n (as its index): nothing flows back to that'
    """
    if name not in program.relevant():
        return f"the output does not depend on {name}"
    cuts = cutting(program, name)
    through = list(dict.fromkeys(sign_of(step.op) or str(step.op) for step, _ in cuts if reads_all(step)))
    told = [f"nothing flows back through {' and '.join(through)}"] if through else []
    for step, place in cuts:
        entry = entry_of(step.op)
        if isinstance(step.op, Pullback):
            told.append(f"{step.called} reads the shape of {step.arguments[place]} alone")
        elif not reads_all(step) and entry is not None:
            told.append(f"{step.op} only reads {step.arguments[place]} (as its {entry.operands[place]}): "
                        "nothing flows back to that")  # fmt: skip
    return "; ".join(dict.fromkeys(told)) or f"small changes of {name} leave the output as it is"


def reads_all(step: Apply) -> bool:
    """Whether nothing flows back to any operand."""
    if isinstance(step.op, Pullback):
        return False
    entry = entry_of(step.op)
    return entry is not None and (entry.pathless or all(only_read(step.op, n) for n in range(len(step.arguments))))
