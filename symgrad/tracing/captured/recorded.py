"""What is kept of a run: the program, the values and the names, before anything is derived from them, and its picture.

Comes in: what `symgrad.tracing.lift.lifter` made. Goes out: `RecordedProgram`, which listings read; with its
derivatives it is a `symgrad.tracing.captured.capture.Capture`. Its picture is SVG, of one sweep back through it: what
only broadcasts an operand of the next step is no station there, the way leads past it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from symgrad.backward.forward_lines import write_pullback_code
from symgrad.backward.trees import replace_names
from symgrad.errors import SymgradError
from symgrad.language import arguments
from symgrad.numeric import Array, Values
from symgrad.program import Apply, Argument, Program, Pullback
from symgrad.render.program_picture import Watched, drawn
from symgrad.tracing.lift.lifted import autocast_method, is_implicit_step, listed_steps, rounding_method
from symgrad.tracing.lift.sweeps import pull_calls


@dataclass(frozen=True)
class OpaqueStep:
    """A black box in words: what it is called, the function, and why there is no equation."""

    name: str
    spelling: str
    reason: str


@dataclass(frozen=True, eq=False)
class RecordedProgram:
    """One run: ``recording`` with the ``arrays`` of its tensors, and what they are called.

    ``file`` is the one that asks, whose lines are told by their numbers alone.
    """

    recording: Program
    ends: tuple[str, ...]
    arrays: Mapping[str, Array]
    boxes: Mapping[str, Any]
    labels: Mapping[str, str]
    wanted: tuple[str, ...]
    lines: Mapping[str, Any] = field(default_factory=dict)
    spellings: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    origins: Mapping[str, Any] = field(default_factory=dict)
    complexes: frozenset[str] = frozenset()
    file: str = ""

    def place(self, name: str) -> str:
        """`` (line 4)``, `` (model.py:4)`` in another file than the one that asks; empty where it is not known."""
        where = self.lines.get(arguments.require_name(name, "name"))
        if where is None:
            return ""
        return f" (line {where.line})" if self.file in ("", where.file) else f" ({where.short})"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in the order of the arguments, then of the parameters."""
        return tuple(self.labels[name] for name in self.wanted)

    @property
    def data(self) -> tuple[str, ...]:
        """What is given and not differentiated by: integers, buffers, random numbers."""
        return tuple(self.labels[t.name] for t in self.recording.inputs if t.name not in self.wanted)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the results."""
        return tuple(self.labels.get(name, name) for name in self.ends)

    @cached_property
    def told(self) -> tuple[Apply, ...]:
        """The steps but those that only broadcast an operand of the next."""
        return listed_steps(self.recording, self.labels)

    @cached_property
    def conventions(self) -> Mapping[str, str]:
        """The steps that have no derivative at this point, with the reason: found by a sweep of its own, from v = 1."""
        noted: dict[str, str] = {}
        ones = {name: np.ones(np.shape(self.arrays[name]), dtype=np.int64) for name in self.ends}
        with suppress(SymgradError):  # a step without a sweep is told by whoever asks for one
            pull_calls(self.recording, self.values, self.boxes, ones, self.wanted, origins=self.origins, noted=noted)
        return noted

    @property
    def black_boxes(self) -> tuple[OpaqueStep, ...]:
        """The steps whose local products are torch's."""
        return tuple(OpaqueStep(self.labels.get(n, n), b.spelling, b.reason) for n, b in self.boxes.items())

    @cached_property
    def values(self) -> Values:
        """The value of every tensor, as torch computed it."""
        return Values(self.arrays, {})

    @property
    def results(self) -> tuple[Array, ...]:
        """The values of the outputs."""
        return tuple(self.arrays[name] for name in self.ends)

    @cached_property
    def pulled(self) -> Mapping[str, str]:
        """The code of casts, and of the steps of a backward that was recorded with ``create_graph`` that have one."""
        found: dict[str, str] = {}
        for step in self.recording.steps:
            if not autocast_method(step) and (cast := rounding_method(step, self.spellings)):
                found[step.result.name] = f"{step.arguments[0]}.{cast}()"
            code = write_pullback_code(step, self.values) if isinstance(step.op, Pullback) else None
            if code is not None:
                places = {own: ast.Name(f"at_{own.partition('·')[2]}") for _, own in step.beside}
                found[step.result.name] = ast.unparse(replace_names(code, places))
        return found


BESIDE = 4
"""Columns that have room beside the source."""


def draw_sweep(program: RecordedProgram, seeds: Mapping[str, Any], watched: Watched) -> str:
    """The picture of a sweep from ``seeds`` that was ``watched``."""
    steps, unsaid = skip_broadcast_steps(program.recording, program.labels, seeds)
    return drawn(
        program.recording, steps, watched.past(unsaid).lengths, seeds, labels=program.labels,
        shape_of=lambda name: np.shape(program.arrays[name]), seed=program.recording.seed, band=BESIDE,
    )  # fmt: skip


def skip_broadcast_steps(
    program: Program, labels: Mapping[str, str], ends: Collection[str]
) -> tuple[tuple[Apply, ...], dict[str, str]]:
    """The steps with what goes without saying passed, where one step reads it; and that, by what it reads itself."""
    readers = Counter(name for step in program.forward_steps for name in step.tensors)
    unsaid = {
        step.result.name: str(step.arguments[0])
        for step in program.forward_steps
        if is_implicit_step(step, labels) and readers[step.result.name] == 1 and step.result.name not in ends
    }

    def past(argument: Argument) -> Argument:
        while isinstance(argument, str) and argument in unsaid:
            argument = unsaid[argument]
        return argument

    steps = (step for step in program.forward_steps if step.result.name not in unsaid)
    return tuple(replace(step, arguments=tuple(map(past, step.arguments))) for step in steps), unsaid
