"""What goes into an explanation: its inputs, the seed, and how it is written out.

Which inputs have a gradient to be shown, where nobody chose: positions, classes and masks have none.

Comes in: a program. Goes out: names. Nothing flows to a number that only says which entry is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from symgrad.calculus import local, moving
from symgrad.indexing.symbols import accesses, indices_of, name_of
from symgrad.numeric import Array
from symgrad.numeric.arranged import read_as_whole
from symgrad.program import Program


@dataclass(frozen=True, eq=False)
class Given:
    """An input as it was used: its value, and whether the user gave value and shape; else what it is, in ``words``."""

    name: str
    value: Array
    value_given: bool
    shape_given: bool
    words: str = ""


@dataclass(frozen=True, eq=False)
class Seed:
    """v: the weights of the outputs.

    ``origin`` is "given", "scalar" (the output has one element, v is 1), "assumed" (ones, since nothing was
    given) or "downstream" (∂L/∂out of ``then``); ``closed_form`` is then v as code, where it has such a form.
    """

    value: Array
    origin: str
    text: str
    closed_form: str | None = None


@dataclass(frozen=True)
class Writers:
    """How an explanation is written, handed in from above: the data does not know its renderers."""

    text: Callable[..., str]
    markdown: Callable[..., str]
    latex: Callable[..., str]
    json: Callable[..., str]
    svg: Callable[..., str]
    html: Callable[..., str]
    notebook: Callable[..., str]
    matrix: Callable[..., str]


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
