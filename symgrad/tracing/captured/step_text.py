"""What is kept of a run before anything is derived from it: the program, the values, the names; in words, as a picture.

Comes in: what `symgrad.tracing.lift.lifter` made. Goes out: `RecordedProgram`, which with its derivatives is a
`symgrad.tracing.captured.Capture`; its listing, one operation a line in the language that symgrad reads; a
picture of one sweep back through it, where what only broadcasts an operand of the next step is no station.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.backward.code import write_with_modules
from symgrad.backward.forward_lines import write_pullback_code
from symgrad.backward.page_names import write_apply_call
from symgrad.backward.simplify.complex_lines import write_step_of_complex
from symgrad.closed_form.number_code import NoForm
from symgrad.closed_form.source_code import SourceWriter, write_constant
from symgrad.errors import SymgradError
from symgrad.language import arguments
from symgrad.language.python_text import method, to_code, write_python
from symgrad.language.trees import replace_names
from symgrad.notation.tree import Name, SyntaxNode
from symgrad.numeric import Array, Values
from symgrad.ops import entry_of
from symgrad.ops.lookup import has_role
from symgrad.program import Apply, Argument, Constant, Program, Pullback, Role
from symgrad.render.numbers import count_noun
from symgrad.tracing.lift import HIDDEN, Refusals, autocast_method, listed_steps, rounding_method, skip_broadcast_steps
from symgrad.tracing.lift.call_sweeps import IN_DOUBLES, NEAR_AN_EDGE, OVERFLOWS, CallwisePull

if TYPE_CHECKING:
    from symgrad.render.program_drawing import CotangentSums


@dataclass(frozen=True)
class OpaqueStep:
    """A black box in words: what it is called, the function, and why there is no equation."""

    name: str
    spelling: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.spelling} is {NOT_CHECKED}: {self.reason or 'symgrad has no equation for it'}"


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
        return "" if where is None else f" ({where.seen_from(self.file or where.file)})"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in the order of the arguments, then of the parameters."""
        return tuple(self.labels[name] for name in self.wanted)

    @property
    def data(self) -> tuple[str, ...]:
        """What is given and not differentiated by: integers, buffers, random numbers."""
        return tuple(self.labels[t.name] for t in self.recording.inputs if t.name not in self.wanted)

    @property
    def complex_inputs(self) -> frozenset[str]:
        """The inputs that are complex in torch."""
        return self.complexes & {tensor.name for tensor in self.recording.inputs}

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
            pull_recording(self, ones, noted=noted)
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
                places = {own: Name(f"at_{own.partition('·')[2]}") for _, own in step.beside}
                found[step.result.name] = write_python(replace_names(code, places))
        return found


def pull_recording(
    recorded: RecordedProgram, seeds: Mapping[str, Array], wanted: Sequence[str] | None = None, **told: Any
) -> dict[str, Array]:
    """vᵀJ for each of ``wanted``, or of all inputs, call by call; ``told`` is what else `CallwisePull` takes."""
    names, taken = recorded.wanted if wanted is None else wanted, told.pop("taken", None)
    own = {"program": recorded.recording, "values": recorded.values, "boxes": recorded.boxes}
    sweep = CallwisePull(wanted=names, ends=tuple(seeds), **{**own, "origins": recorded.origins, **told})
    return sweep.back(seeds, taken=taken)


def draw_sweep(program: RecordedProgram, seeds: Mapping[str, Any], watched: CotangentSums) -> str:
    """The picture of a sweep from ``seeds`` that was ``watched``."""
    from symgrad.render.program_drawing import draw_program

    steps, unsaid = skip_broadcast_steps(program.recording, program.labels, seeds)
    return draw_program(
        program.recording, steps, watched.past(unsaid).lengths, seeds, labels=program.labels,
        shape_of=lambda name: np.shape(program.arrays[name]), seed=program.recording.seed,
        band=4,  # columns that have room beside the source
    )  # fmt: skip


# In words ------------------------------------------------------------------------------------------------

NOT_CHECKED = "not verified"
"""What is said of a number that torch computed and nothing derived stands beside."""


NAME = re.compile(r"(?<![\w.])[^\W\d]\w*(?![\w(])")
"""A name in a formula, but for what stands behind a dot, and what is called."""


class StepFormatter(SourceWriter):
    """Writes one step with every operand as a name; ``told`` are the names that stand in the listing.

    ``pulled`` are the texts of steps of a recorded backward; ``complexes`` are numbers to the reader, and no pairs.
    """

    told: frozenset[str] = frozenset()
    pulled: Mapping[str, str] = {}
    complexes: frozenset[str] = frozenset()

    def step(self, step: Apply) -> SyntaxNode:
        """One operation; of complex numbers, where they are, though they are pairs here."""
        return write_step_of_complex(self, step, super().step, self.complexes)

    def maker(self, argument: Argument) -> None:
        """Every step has a line of its own."""

    def tensor(self, name: str) -> SyntaxNode:
        """A name; a tensor that was only broadcast goes by its own."""
        step = self._steps.get(name)
        if step is not None and has_role(step.op, Role.COPIES) and name not in self.told:
            return self.tensor(str(step.arguments[0]))
        if step is not None and (cast := autocast_method(step)):
            return method(self.tensor(str(step.arguments[0])), cast)
        return Name(name)

    def size(self, size: Any) -> SyntaxNode:
        """A number."""
        return to_code(int(size)) if size.is_Integer else Name(str(size))


def format_step(program: RecordedProgram, step: Apply) -> str:
    """``h = relu(t1)``."""
    return StepWriter(program).text(step)


class StepWriter:
    """The steps of one program in the names of its labels, and ``other`` names where they differ there."""

    def __init__(self, program: RecordedProgram) -> None:
        self.labels, self.writer = program.labels, StepFormatter(program.recording)
        self.writer.told = frozenset(program.labels)
        self.writer.pulled, self.writer.complexes = program.pulled, program.complexes

    def text(self, step: Apply, other: Mapping[str, str] | None = None) -> str:
        """``h = relu(t1)``."""
        labels = {**self.labels, **other} if other else self.labels
        code = write_with_modules(write_operation(self.writer, step))
        return f"{labels.get(step.result.name, step.result.name)} = {with_labels(code, labels)}"


def right_side(
    program: Program, step: Apply, told: frozenset[str] = frozenset(), pulled: Mapping[str, str] | None = None
) -> str:
    """What a step computes, in names."""
    writer = StepFormatter(program)
    writer.told, writer.pulled = told, pulled or {}
    return write_operation(writer, step)


def write_operation(writer: StepFormatter, step: Apply) -> str:
    """What a step computes, in the names of the recording."""
    if step.result.name in writer.pulled:
        return writer.pulled[step.result.name]
    if entry_of(step.op) is None:
        return write_apply_call(step, [*map(str, step.arguments)])
    if has_role(step.op, Role.COPIES):
        return f"{step.arguments[0]}.expand({', '.join(map(str, step.result.shape))})"
    if has_role(step.op, Role.HANDS_ON):
        return str(step.arguments[0])
    try:
        return write_python(writer.step(step))
    except (NoForm, *Refusals):  # showing must not fail
        return f"{step.op}({', '.join(_argument(a) for a in step.arguments)})"


def _argument(argument: Any) -> str:
    """A name or a number."""
    if not isinstance(argument, Constant):
        return str(argument)
    try:
        return write_python(write_constant(argument.value))
    except NoForm:
        return str(argument.value)


def with_labels(text: str, labels: Mapping[str, str]) -> str:
    """``text`` with the recording's names replaced by the user's, all at once: ``conv1_weight`` is ``conv1.weight``.

    ``a`` is not looked for in the ``tanh`` of ``tanh(a)``, nor in what already stands for another name.

    >>> with_labels("diag(tanh(a)*b.T)", {"a": "b", "b": "a", "T": "u", "tanh": "w"})
    'diag(tanh(b)*a.T)'
    """
    return NAME.sub(lambda m: labels.get(m[0], m[0]), text)


def format_step_shape(shape: Any) -> str:
    """2×3; a scalar has no axes."""
    return "×".join(str(n) for n in shape) if len(shape) else "scalar"


def program_line(program: Program, pulled: Mapping[str, str]) -> str:
    """``h = x @ a; out = relu(h)``; a single step goes without ``out =``. ``pulled`` as in `StepFormatter`."""
    named = frozenset(t.name for t in program.tensors() if not HIDDEN.fullmatch(t.name))
    steps = listed_steps(program, dict.fromkeys(named, ""))
    if not steps:
        return program.output
    if len(steps) == 1 and steps[0].result.name == program.output:
        return right_side(program, steps[0], named, pulled)
    return "; ".join(f"{step.result.name} = {right_side(program, step, named, pulled)}" for step in steps)


def list_program(program: RecordedProgram) -> str:
    """The whole program: inputs, data, operations with shapes, outputs, and what is torch's own."""
    arrays, labels, recording = program.arrays, program.labels, program.recording
    title = program.title.strip("<>") or "program"
    operations, inputs = count_noun(len(program.told), "operation"), count_noun(len(program.wanted), "input")
    shown = [f"{title}: {operations}, {inputs}, as it ran once"]
    given = []
    for tensor in recording.inputs:
        array = np.asarray(arrays[tensor.name])
        kind = "input" if tensor.name in program.wanted else "data"
        parts = ", pairs (re, im)" if tensor.name in program.complexes else ""
        given.append((kind, labels[tensor.name], format_step_shape(array.shape), f"{array.dtype}{parts}"))
    widths = [max((len(row[n]) for row in given), default=0) for n in range(4)]
    shown += ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in given]
    rows = []
    for step in program.told:
        text = format_step(program, step)
        note = f"   ■ {NOT_CHECKED}" if step.result.name in program.boxes else ""
        rows.append((text, format_step_shape(np.shape(arrays[step.result.name])) + note))
    wide = min(max((len(text) for text, _ in rows), default=0), 72)
    shown += [f"  {text.ljust(wide)}   {shape}" for text, shape in rows]
    shown.append(f"  output {', '.join(program.outputs)}")
    shown += [f"  ■ {box}" for box in program.black_boxes]
    shown += [f"  {line}" for line in torch_choices(program, program.conventions)]
    return "\n".join(shown)


def torch_choices(program: RecordedProgram, reasons: Mapping[str, str]) -> list[str]:
    """The steps at which a pullback takes torch's choice, one line each; what reaches a number that torch does not."""
    return [
        f"≈ {where}: {reason}{f': {format_step_in_double(program, name)}' if reason.endswith(IN_DOUBLES) else ''}"
        if reason.startswith(OVERFLOWS)
        else f"≈ {where}{':' if reason.startswith(NEAR_AN_EDGE) else ' has no derivative at this point:'} {reason}; "
        "the numbers there follow torch's convention"
        for name, where, reason in locate_steps(program, reasons)
    ]


def format_step_in_double(program: RecordedProgram, name: str) -> str:
    """A step, each tensor that it reads as doubles: ``atan2(a.double(), b.double())``."""
    step = program.recording.makers[name]
    labels = {n: program.labels.get(n, n) for n in step.tensors}
    wide = {n: f"{label if label.isidentifier() else f'({label})'}.double()" for n, label in labels.items()}
    return StepWriter(program).text(step, wide).partition(" = ")[2]


def torch_conventions(program: RecordedProgram, rules: Mapping[str, str]) -> list[str]:
    """The calls whose backward in torch is no derivative, one line each."""
    return [
        f"≈ torch has a rule of its own for {where}, which is not the derivative: {reason}; vᵀJ is the derivative"
        for _, where, reason in locate_steps(program, rules)
    ]


def locate_steps(program: RecordedProgram, reasons: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Steps by name, in words with the line of the script, and what is said about each."""
    for name, reason in reasons.items():
        yield name, f"{format_step(program, program.recording.makers[name])}{program.place(name)}", reason
