"""What goes into an explanation: its inputs, the seed, and the writers of every form that it comes out in.

Which inputs have a gradient to be shown, where nobody chose: positions, classes and masks have none, since nothing
flows to a number that only says which entry is read. `Written` is what an explanation inherits: a method for text,
Markdown, LaTeX, JSON, SVG, HTML, and what notebooks ask for, each of which hands it to its writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from symgrad.calculus import local_jacobian, moving
from symgrad.errors import bug
from symgrad.indexing.symbols import accesses, indices_of, name_of
from symgrad.language import arguments
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

    ``origin`` is "given", "scalar" (the output has one element, v is 1), "assumed" (ones or 1, 2, 3, …: none was
    given) or "downstream" (∂L/∂out of ``then``); ``closed_form`` is then v as code, where it has such a form.
    """

    value: Array
    origin: str
    text: str
    closed_form: str | None = None


Writers = Callable[..., str]
"""What writes an explanation or a Jacobian in a style, handed in from above: the data does not know its renderers."""


def only_read(program: Program) -> tuple[str, ...]:
    """The inputs that are read as positions, classes or a mask, turned or as they are, and as nothing else."""
    read, able = {*read_as_whole(program), *positions_in(program)}, moving(program)
    fixed = [t.name for t in program.inputs if t.name not in able]
    return tuple(name for name in fixed if not read.isdisjoint(program.reached((name,))))


def positions_in(program: Program) -> Iterator[str]:
    """The tensors whose entries are an index of another's: t in x[i,t[i]]."""
    for step in program.steps:
        for entry in accesses(local_jacobian(step, program).equation.right):
            for index in indices_of(entry):
                yield from map(name_of, accesses(index))


def wanted_by_itself(program: Program) -> tuple[str, ...]:
    """The inputs that something can flow to; all that the user gives where there are no others."""
    names = tuple(tensor.name for tensor in program.inputs if tensor.name not in program.made)
    read = only_read(program)
    return tuple(name for name in names if name not in read) or names


class Rendered:
    """What notebooks show; the class that inherits it has the field ``writers``."""

    writers: Writers | None

    def _repr_html_(self) -> str:
        return self._write("notebook")

    def _repr_markdown_(self) -> str:
        return self._write("markdown")

    def _repr_latex_(self) -> str:
        return self._write("latex")

    def _write(self, style: str, *given: Any, **options: Any) -> str:
        if self.writers is None:  # built beside the public functions
            raise bug("an explanation without writers")
        return self.writers(self, style, *given, **options)


class Written(Rendered):
    """What can be written in every form."""

    def to_text(self, **options: Any) -> str:
        """For a terminal; ``width``, ``color`` and ``entry`` as `symgrad.render.to_text` takes them."""
        return self._write("text", **options)

    def to_markdown(self, **options: Any) -> str:
        """As Markdown with LaTeX formulas."""
        return self._write("markdown", **options)

    def to_latex(self, **options: Any) -> str:
        """As a LaTeX fragment."""
        return self._write("latex", **options)

    def to_json(self, **options: Any) -> str:
        """As JSON, by the schema in ``docs/reference/json.md``."""
        return self._write("json", **options)

    def to_svg(self, wrt: str | None = None, *, program: bool = False) -> str:
        """v × J = vᵀJ as a picture, for the input ``wrt`` (the first one by default), with one column's sum.

        With ``program``, the steps instead, and how long the cotangent is that comes back on each way.
        """
        name = None if wrt is None else arguments.require_name(wrt, "wrt")
        return self._write("svg", name, program=arguments.require_flag(program, "program"))

    def to_html(self, **options: Any) -> str:
        """As a page for a browser, in one file, whose numbers can be edited; needs ``symgrad[pages]``."""
        return self._write("html", **options)
