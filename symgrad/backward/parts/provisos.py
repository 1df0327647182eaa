"""Where the lines of a backward do not hold as they stand, in a sentence each.

Comes in: the lines of a backward, and the program that they are of. Goes out: sentences; none where the lines hold
wherever their formulas do and torch agrees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sympy as sp

from symgrad.backward.parts.divided import chosen
from symgrad.backward.parts.line import Line, Part
from symgrad.closed_form import DIVIDED, guards
from symgrad.ops.entry import entry_of
from symgrad.oracles.edges import own_numbers
from symgrad.program import Apply, Argument, Constant, Program

LEFT_OUT = "No class may be left out (ignore_index)."
OTHERWISE = "At and beyond the edges of what it is for, as at {}, torch's {} may answer otherwise than these lines."


def provisos(
    program: Program, inputs: Sequence[str], ahead: Sequence[Line], behind: Sequence[Line]
) -> tuple[str, ...]:  # fmt: skip
    """What has to be said beside the lines ``ahead`` and ``behind``; ``inputs`` as Python names them."""
    page = dict(zip((tensor.name for tensor in program.inputs), inputs, strict=True))
    page |= {line.of: line.target for line in reversed(ahead)}
    told = [*of_lines(behind), *of_steps(program, program.reached(line.of for line in behind), page)]
    return tuple(dict.fromkeys(told))


def of_lines(lines: Sequence[Line]) -> Iterator[str]:
    """What the rules left out that led to them."""
    parts = [part for line in lines for part in line.parts if not is_void(part)]
    rules = {rule for part in parts for rule in part.rules}
    yield from guards(rules)
    if "none left out" in rules:
        yield LEFT_OUT
    if any(line.code is not None and chosen(line.code) != line.code for line in lines):
        yield DIVIDED


def is_void(part: Part) -> bool:
    """Whether it is 0/0 at every number."""
    return part.derived is not None and part.derived.right is sp.nan


def of_steps(program: Program, moving: frozenset[str], page: Mapping[str, str]) -> Iterator[str]:
    """Where torch's own backward of a step has other numbers than its equation, by what is ``moving``."""
    for step in program.steps:
        points = list(at_edges(program, step, moving, page))
        if points:
            yield OTHERWISE.format(" or ".join(points), step.called)


def at_edges(program: Program, step: Apply, moving: frozenset[str], page: Mapping[str, str]) -> Iterator[str]:
    """The edges of a step at which torch has numbers of its own: ``x = 0, y = 2 (by y)``."""
    entry = entry_of(step.op)
    given = dict(zip(entry.operands, step.arguments, strict=False)) if entry else {}
    names = [str(argument) for argument in dict.fromkeys(given.values()) if argument in moving]
    for edge in entry.edges if entry and names else ():
        if all(may_be(given[operand], value) for operand, value in edge.items()):
            at = {a: value for operand, value in edge.items() if isinstance(a := given[operand], str)}
            found = list(own_numbers(program.alone(step), at, names))
            if found:
                told = ", ".join(f"{page.get(name, name)} = {value:g}" for name, value in at.items())
                yield f"{told} (by {' and '.join(page.get(own.by, own.by) for own in found)})"


def may_be(argument: Argument, value: float) -> bool:
    """Whether an argument can have a value: a tensor any, a number its own."""
    return not isinstance(argument, Constant) or argument.value == value


__all__ = ["provisos"]
