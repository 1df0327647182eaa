"""Propagation through a program, backward and forward: of formulas, numbers, plans or names.

Comes in: steps, what is there at some tensors, what one step makes of it and how two of it are added. Goes out: what
reaches the others; and where anything flows back at all: not through what is only read, nor through what torch has no
backward for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from operator import or_
from typing import TypeVar

from symgrad.calculus.local_derivatives import (
    derive_local,
    local_pullback,
    standard,
)
from symgrad.entries.derived_facts import is_non_differentiable
from symgrad.errors import SymgradError
from symgrad.indexing.symbols import accesses, name_of
from symgrad.ops import entry_named, entry_of, is_data_argument
from symgrad.program import Apply, Program

Carried = TypeVar("Carried")


def carry_back(
    steps: Sequence[Apply],
    carried: dict[str, Carried],
    pull: Callable[[Apply, Carried], Iterable[tuple[str, Carried]]],
    add: Callable[[Carried, Carried], Carried],
    kept: Collection[str] | None = None,
) -> dict[str, Carried]:
    """What reaches each tensor, from the last step to the first: the chain rule backwards, whatever is carried.

    ``pull`` says what a step sends back to the tensors that it reads, ``add`` is the sum of two parts. What reached a
    tensor is let go when it was pulled through the step that makes it, unless it is ``kept``; None keeps all. What is
    there before the first step is ``carried``, which is filled.
    """
    for step in reversed(steps):
        name = step.result.name
        if name in carried:
            cotangent = carried[name] if kept is None or name in kept else carried.pop(name)
            for source, part in pull(step, cotangent):
                carried[source] = add(carried[source], part) if source in carried else part
    return carried


def carry_on(
    steps: Sequence[Apply], moved: Mapping[str, Carried], push: Callable[[Apply, Mapping[int, Carried]], Carried | None]
) -> dict[str, Carried]:
    """The change of each tensor, from the first step to the last: the chain rule forwards.

    ``push`` makes the change of a step's result of those of its arguments, by place; None where there is none.
    """
    carried = dict(moved)
    for step in steps:
        places = flowing_places(step, carried)
        change = push(step, {n: carried[str(step.arguments[n])] for n in places}) if places else None
        if change is not None:
            carried[step.result.name] = change
    return carried


def flowing_places(step: Apply, names: Container[str]) -> list[int]:
    """Where the arguments of ``step`` are among ``names``, but for those that nothing flows through.

    A black box is no entry of the table: everything may flow through it.
    """
    op = entry_of(step.op)
    if op is not None and is_non_differentiable(op):
        return []
    places = [n for n, a in enumerate(step.arguments) if isinstance(a, str) and a in names]
    return [n for n in places if not is_data_argument(step.op, n)]


def flowing(program: Program, names: Sequence[str]) -> frozenset[str]:
    """``names``, and every tensor from which anything flows back to them: fewer than are computed from them."""
    return frozenset(carry_on(program.steps, dict.fromkeys(names, True), lambda *_: True))


def cutting_reads(program: Program, name: str) -> list[tuple[Apply, int]]:
    """The steps that read what an input flows into without passing anything back, and where; none where something is.

    Steps that the output does not depend on are left out.
    """
    found, read = flowing(program, (name,)), program.relevant
    if program.output in found:
        return []
    steps = [step for step in program.steps if step.result.name in read - found]
    return [(step, n) for step in steps for n, a in enumerate(step.arguments) if isinstance(a, str) and a in found]


def flows(program: Program, name: str) -> bool:
    """Whether torch lets anything flow back to an input."""
    return program.output in flowing(program, (name,))


def depending(program: Program, names: Sequence[str]) -> frozenset[str]:
    """``names``, and every tensor whose numbers come from theirs: ``ones_like(x)`` reads the shape of x alone."""
    found = set(names)
    for step in program.steps:
        own = found.intersection(step.tensors)
        if own and (entry_of(step.op) is None or reads_numbers(step, program, own)):
            found.add(step.result.name)
    return frozenset(found)


def reads_numbers(step: Apply, program: Program, names: Container[str]) -> bool:
    """Whether an entry of one of some tensors stands in the equation of a step, or may decide what does."""
    form = standard(step, program)
    try:
        found = derive_local(form.key)
    except SymgradError:  # over no entries
        return True
    decided = bool(found.residual) or bool(entry_named(step.op).saved.names)
    return decided or any(form.names.get(name_of(entry)) in names for entry in accesses(found.equation.right))


def is_multilinear(program: Program) -> bool:
    """Whether the output is linear in each input, but for a constant: no derivative reads what it is taken by."""
    made_of = {tensor.name: frozenset([tensor.name]) for tensor in program.inputs}
    for step in program.steps:
        form = standard(step, program)
        try:
            found = derive_local(form.key)
        except SymgradError:
            return False
        if entry_of(step.op) is None or found.residual or entry_named(step.op).saved.names:
            return False
        made_of[step.result.name] = frozenset[str]().union(*(made_of.get(name, ()) for name in step.tensors))
        for place, derivative in found.derivatives.items():
            own = made_of.get(str(step.arguments[place]), frozenset())
            read = (form.names.get(name_of(entry), "") for entry in accesses(derivative.formula))
            if any(own & made_of.get(name, own) for name in read):
                return False
    return True


def moving(program: Program) -> frozenset[str]:
    """The tensors that the output has a derivative by: classes, positions and masks only decide, turned or not.

    What flows through a black box is not known, and counts.
    """

    def passed(step: Apply, _: bool) -> Iterable[tuple[str, bool]]:
        return ((str(step.arguments[n]), True) for n in moving_places(step, program, step.tensors))

    return frozenset(carry_back(program.steps, {program.output: True}, passed, or_))


def moving_places(step: Apply, program: Program, names: Container[str]) -> list[int]:
    """Where ``names`` are among the arguments of a step and its derivative is not 0 everywhere."""
    places = flowing_places(step, names)
    if not places or entry_of(step.op) is None:
        return places
    key = standard(step, program).key
    return [n for n in places if local_pullback(key, n).right != 0]
