"""What the names in a message stand for, where they are not the user's own: ``t4 = rsqrt((x * x).mean(-1) + eps)``.

Comes in: a formula and the lines of a message. Goes out: a line for each intermediate that they name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from symgrad.closed_form.texts.pieces import NoForm
from symgrad.closed_form.texts.source_text import Writer
from symgrad.errors import SymgradError
from symgrad.language import expand_composites
from symgrad.program import Apply, Constant, Program
from symgrad.testing.right.truth import Formula

WORD = re.compile(r"(?<![\w.])(?:v_)?([A-Za-z]\w*)")
SPAN = 80
"""A longer definition is one step, and its operands get lines of their own."""
MOST = 8


def legend(formula: Formula, lines: Sequence[str]) -> list[str]:
    """``where t3 = mean(x * x) + 1e-06``: intermediates by name, in the order in which they are met."""
    own = set(WORD.findall(formula.text))
    programs = [p for one in formula.programs for p in both(one)]
    known = {step.result.name: (program, step) for program in reversed(programs) for step in reversed(program.steps)}
    made = {name: own.code for program in programs for name, own in program.made.items()}
    ends = {program.output for program in programs}
    waiting = [name for line in lines for name in WORD.findall(line)]
    found: dict[str, str] = {}
    while waiting and len(found) < MOST:
        name = waiting.pop(0)
        if name in made and name not in own:
            found[name] = made[name]
        elif name in known and name not in found and name not in own and name not in ends:
            text, further = defined(*known[name])
            found[name] = text
            waiting += further or [word for word in WORD.findall(text) if word in made]
    return [f"where {name} = {text}" for name, text in found.items()]


def both(program: Program) -> Iterator[Program]:
    """A program as it was written, and with its composite steps opened."""
    yield program
    try:
        yield expand_composites(program)
    except SymgradError:
        return


def defined(program: Program, step: Apply) -> tuple[str, list[str]]:
    """What computes a tensor, from the inputs if that is short, else from its operands, which are then asked for."""
    try:
        text, _ = Writer(program).step(step)
    except (NoForm, SymgradError):
        text = ""
    if 0 < len(text) <= SPAN:
        return text, []
    operands = [str(a.value) if isinstance(a, Constant) else a for a in step.arguments]
    return f"{step.called}({', '.join(operands)})", list(step.tensors)
