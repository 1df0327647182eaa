"""The inputs, the seed, and the output formats of an explanation.

Also the choice of inputs whose gradient is shown by default: positions, classes and masks have none, since they only
select entries. `Written` is the base class of an explanation with a method for each format (text, Markdown, LaTeX,
JSON, SVG, HTML, notebooks), which calls the format's writer.
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
from symgrad.numeric.arranged import integer_inputs
from symgrad.program import Program


@dataclass(frozen=True, eq=False)
class Given:
    """An input: its value, whether the user gave value and shape, and a description in ``words`` if it is assumed."""

    name: str
    value: Array
    value_given: bool
    shape_given: bool
    words: str = ""


@dataclass(frozen=True, eq=False)
class Seed:
    """The seed v of the backward.

    ``origin`` is "given", "scalar" (the output has one element, v is 1), "assumed" (ones or 1, 2, 3, …, if none was
    given) or "downstream" (∂L/∂out of ``then``); for the last, ``closed_form`` is v as code if it has a form.
    """

    value: Array
    origin: str
    text: str
    closed_form: str | None = None


Writers = Callable[..., str]
"""Writes an explanation or a Jacobian in a style. It is passed in, since the data does not import renderers."""


def only_read(program: Program) -> tuple[str, ...]:
    """Return the inputs that are used only as positions, classes or a mask, directly or through views."""
    read, able = {*integer_inputs(program), *tensors_of_positions(program)}, moving(program)
    fixed = [t.name for t in program.inputs if t.name not in able]
    return tuple(name for name in fixed if not read.isdisjoint(program.reached((name,))))


def tensors_of_positions(program: Program) -> Iterator[str]:
    """Iterate over the tensors whose entries index another tensor: t in x[i,t[i]]."""
    for step in program.steps:
        for entry in accesses(local_jacobian(step, program).equation.right):
            for index in indices_of(entry):
                yield from map(name_of, accesses(index))


def default_wrt(program: Program) -> tuple[str, ...]:
    """Return the inputs that can have a gradient; all inputs of the user if none can."""
    names = tuple(tensor.name for tensor in program.inputs if tensor.name not in program.made)
    read = only_read(program)
    return tuple(name for name in names if name not in read) or names


class Rendered:
    """Rich display in notebooks, for classes with the field ``writers``."""

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
    """Methods that write an explanation in every format."""

    def to_text(self, **options: Any) -> str:
        """Return the text for a terminal; for ``width``, ``color`` and ``entry`` see `symgrad.render.to_text`."""
        return self._write("text", **options)

    def to_markdown(self, **options: Any) -> str:
        """Return Markdown with LaTeX formulas."""
        return self._write("markdown", **options)

    def to_latex(self, **options: Any) -> str:
        """Return a LaTeX fragment."""
        return self._write("latex", **options)

    def to_json(self, **options: Any) -> str:
        """Return JSON; the schema is in ``docs/reference/json.md``."""
        return self._write("json", **options)

    def to_svg(self, wrt: str | None = None, *, program: bool = False) -> str:
        """Return v × J = vᵀJ as an SVG picture for the input ``wrt`` (by default the first), with one column's sum.

        With ``program`` the picture shows the steps, and the norm of the cotangent on each edge.
        """
        name = None if wrt is None else arguments.require_name(wrt, "wrt")
        return self._write("svg", name, program=arguments.require_flag(program, "program"))

    def to_html(self, **options: Any) -> str:
        """Return an HTML page in one file, with numbers that can be edited; needs ``symgrad[pages]``."""
        return self._write("html", **options)
