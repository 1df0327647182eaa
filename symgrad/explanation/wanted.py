"""Which inputs have a gradient to be shown, where nobody chose: positions, classes and masks have none.

Comes in: a program. Goes out: names. Nothing flows to a number that only says which entry is read.
"""

from __future__ import annotations

from collections.abc import Iterator

from symgrad.calculus import local, moving
from symgrad.indexing.symbols import accesses, indices_of, name_of
from symgrad.numeric.assumed import read_as_whole
from symgrad.program import Program


def only_read(program: Program) -> tuple[str, ...]:
    """The inputs that are read as positions, classes or a mask, turned or as they are, and as nothing else."""
    read, able = {*read_as_whole(program), *positions_in(program)}, moving(program)
    fixed = [t.name for t in program.inputs if t.name not in able]
    return tuple(name for name in fixed if not read.isdisjoint(program.reached((name,))))


def positions_in(program: Program) -> Iterator[str]:
    """The tensors whose entries are an index of another's: t in x[i,t[i]]."""
    for step in program.steps:
        for entry in accesses(local(step, program).equation.right):
            for index in indices_of(entry):
                yield from map(name_of, accesses(index))


def wanted_by_itself(program: Program) -> tuple[str, ...]:
    """The inputs that something can flow to; all that the user gives where there are no others."""
    names = tuple(tensor.name for tensor in program.inputs if tensor.name not in program.made)
    read = only_read(program)
    return tuple(name for name in names if name not in read) or names
