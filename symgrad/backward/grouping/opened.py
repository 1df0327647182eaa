"""Composite operations opened where that reads better: attention by its scores and weights, a normalisation by its x̂.

Comes in: a program, which tensors it asks for, and its values. Goes out: the same program with some steps written out
one level down, under the names that the textbook has for what they compute, and the values of those.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence

from symgrad.backward.grouping.groups import groups
from symgrad.backward.grouping.standard import standard_group
from symgrad.backward.grouping.templates import asked_of
from symgrad.backward.parts.code import in_parts
from symgrad.backward.shortening.phrasing import with_a_root
from symgrad.calculus import flowing
from symgrad.errors import InputError
from symgrad.language.expand import expanded_once, expansion
from symgrad.numeric import Values
from symgrad.numeric.budget import MOST_HELD, check_entries
from symgrad.numeric.forward import compute
from symgrad.ops import named
from symgrad.ops.entry import plays
from symgrad.program import Program, Role

UNREADABLE = 150
"""A composite operation whose lines have more characters than this is opened; a divisor with a name does not count."""
DEEPEST = 4
"""Levels that are opened at most."""

Unreadable = Callable[[Program, Values | None], Collection[str]]
"""The results of those steps of a program whose lines are missing or too long to read."""


def opened(program: Program, values: Values | None, unreadable: Unreadable) -> tuple[Program, Values | None]:
    """``program`` with composite steps opened as long as their lines do not read well."""
    for _ in range(DEEPEST):
        shapes = {tensor.name: tensor.shape for tensor in program.tensors()}
        composite = {step.result.name for step in program.steps if expansion(step, shapes) is not None}
        chosen = composite & set(unreadable(program, values)) if composite else set()
        if not chosen:
            break
        wider = expanded_once(program, chosen)
        try:
            values = None if values is None else with_new(program, wider, values)
        except InputError:  # too many numbers to be held
            break
        program = wider
    return program, values


def with_new(program: Program, wider: Program, values: Values) -> Values:
    """The values of ``program`` and those of the steps that opening it made; raises `InputError` where they are many.

    What is only broadcast takes no room.
    """
    known, made = {tensor.name for tensor in program.tensors()}, {step.result.name for step in program.steps}
    steps = [s for s in wider.steps if s.result.name not in known or (s.result.name in made and s not in program.steps)]
    new = [s.result.name for s in steps if s.result.name not in known and not plays(s.op, Role.COPIES)]
    check_entries(sum(wider.entries[name] for name in new), MOST_HELD)
    arrays = dict(values.arrays)
    for step in steps:
        compute(step, wider, arrays)
    return values.with_arrays({name: array for name, array in arrays.items() if name not in values.arrays})


def unreadable(program: Program, wanted: Sequence[str], values: Values | None) -> Iterator[str]:
    """The results of the steps that have no line, or one that nobody reads."""
    tensors = {tensor.name: tensor for tensor in program.tensors()}
    reached = flowing(program, wanted)
    for group in groups(program, tensors):
        if group.black or group.output not in reached or named(group.steps[-1].op).expands is None:
            continue
        form = standard_group(group, tensors, values, program.required)
        texts = [found.notation for _, found in asked_of(form, group, reached, False, values, short=True)]
        if None in texts or sum(read_at_once(text) for text in texts if text is not None) > UNREADABLE:
            yield group.output


def read_at_once(text: str) -> int:
    """Characters of a form; without its divisor where that, and nothing else, has a line of its own."""
    definitions, last = in_parts(text)
    return len(text) if definitions else len(ast.unparse(with_a_root([], last)[1]))
