"""Where anything flows back in a program: not through what is only read, nor through what torch has no backward for.

Comes in: a program and some of its tensors. Goes out: places among arguments, and tensors.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from symgrad.calculus.local import derive, local_pullback, standard
from symgrad.errors import SymgradError
from symgrad.indexing.symbols import accesses, name_of
from symgrad.ops import entry_of, named, only_read
from symgrad.program import Apply, Program


def positions(step: Apply, names: Container[str]) -> list[int]:
    """Where the arguments of ``step`` are among ``names``, but for those that nothing flows through.

    A black box is no entry of the table: everything may flow through it.
    """
    op = entry_of(step.op)
    if op is not None and op.pathless:
        return []
    places = [n for n, a in enumerate(step.arguments) if isinstance(a, str) and a in names]
    return [n for n in places if not only_read(step.op, n)]


def flowing(program: Program, names: Sequence[str]) -> frozenset[str]:
    """``names``, and every tensor from which anything flows back to them: fewer than are computed from them."""
    found = set(names)
    for step in program.steps:
        if positions(step, found):
            found.add(step.result.name)
    return frozenset(found)


def cutting(program: Program, name: str) -> list[tuple[Apply, int]]:
    """The steps that read what an input flows into without passing anything back, and where; none where something is.

    Steps that the output does not depend on are left out.
    """
    found, read = flowing(program, (name,)), program.relevant()
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
        found = derive(form.key)
    except SymgradError:  # over no entries
        return True
    decided = bool(found.residual) or bool(named(step.op).held)
    return decided or any(form.names.get(name_of(entry)) in names for entry in accesses(found.equation.right))


def moving(program: Program) -> frozenset[str]:
    """The tensors that the output has a derivative by: classes, positions and masks only decide, turned or not.

    What flows through a black box is not known, and counts.
    """
    found = {program.output}
    for step in reversed(program.steps):
        if step.result.name in found:
            found |= {str(step.arguments[n]) for n in passing(step, program)}
    return frozenset(found)


def passing(step: Apply, program: Program) -> list[int]:
    """Where among its arguments a step's derivative is not 0 everywhere."""
    places = positions(step, step.tensors)
    if entry_of(step.op) is None:
        return places
    key = standard(step, program).key
    return [n for n in places if local_pullback(key, n).right != 0]
