"""The recorded program of a run before derivation: its steps, values and names, as text and as a picture.

Comes in: a run lifted by `symgrad.tracing.lift.lifter`. Goes out: `RecordedProgram`, the base of
`symgrad.tracing.captured.Capture`; its listing, with one operation per line in symgrad's language; a picture of one
backward sweep, without steps that only broadcast an operand.
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
    """An opaque call in words: its name, its function, and why it has no equation."""

    name: str
    spelling: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.spelling} is {NOT_CHECKED}: {self.reason or 'symgrad has no equation for it'}"


@dataclass(frozen=True, eq=False)
class RecordedProgram:
    """One run: ``recording`` with the ``arrays`` and ``labels`` of its tensors.

    ``file`` is the requesting script, whose lines are written without its name.
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
        """Return `` (line 4)``, or `` (model.py:4)`` in another file than ``file``; empty if unknown."""
        where = self.lines.get(arguments.require_name(name, "name"))
        return "" if where is None else f" ({where.seen_from(self.file or where.file)})"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in the order of the arguments, then of the parameters."""
        return tuple(self.labels[name] for name in self.wanted)

    @property
    def data(self) -> tuple[str, ...]:
        """The names of the other inputs: integers, buffers, random numbers."""
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
        """The steps without those that only broadcast an operand of the next."""
        return listed_steps(self.recording, self.labels)

    @cached_property
    def conventions(self) -> Mapping[str, str]:
        """The steps without a derivative at this point, with the reasons, found by a separate sweep from v = 1."""
        noted: dict[str, str] = {}
        ones = {name: np.ones(np.shape(self.arrays[name]), dtype=np.int64) for name in self.ends}
        with suppress(SymgradError):  # a step without a sweep is told by whoever asks for one
            pull_recording(self, ones, noted=noted)
        return noted

    @property
    def black_boxes(self) -> tuple[OpaqueStep, ...]:
        """The steps whose local products come from torch."""
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
        """The code of casts, and of steps of a backward recorded with ``create_graph``, if they have one."""
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
    """Return vᵀJ for each of ``wanted``, or all inputs, call by call; ``told`` are options of `CallwisePull`."""
    names, taken = recorded.wanted if wanted is None else wanted, told.pop("taken", None)
    own = {"program": recorded.recording, "values": recorded.values, "boxes": recorded.boxes}
    sweep = CallwisePull(wanted=names, ends=tuple(seeds), **{**own, "origins": recorded.origins, **told})
    return sweep.back(seeds, taken=taken)


def draw_sweep(program: RecordedProgram, seeds: Mapping[str, Any], watched: CotangentSums) -> str:
    """Draw a sweep from ``seeds`` with the norms in ``watched``."""
    from symgrad.render.program_drawing import draw_program

    steps, unsaid = skip_broadcast_steps(program.recording, program.labels, seeds)
    return draw_program(
        program.recording, steps, watched.past(unsaid).lengths, seeds, labels=program.labels,
        shape_of=lambda name: np.shape(program.arrays[name]), seed=program.recording.seed,
        band=4,  # columns that have room beside the source
    )  # fmt: skip


# In words ------------------------------------------------------------------------------------------------

NOT_CHECKED = "not verified"
"""The mark of a number from torch that symgrad did not derive."""


NAME = re.compile(r"(?<![\w.])[^\W\d]\w*(?![\w(])")
"""Matches a name in a formula that is no attribute and no function."""


class StepFormatter(SourceWriter):
    """Writes one step with every operand as a name; ``told`` are the names in the listing.

    ``pulled`` are the texts of steps of a recorded backward; ``complexes`` are written as complex numbers, not pairs.
    """

    told: frozenset[str] = frozenset()
    pulled: Mapping[str, str] = {}
    complexes: frozenset[str] = frozenset()

    def step(self, step: Apply) -> SyntaxNode:
        """Write one operation; pairs are written as complex numbers."""
        return write_step_of_complex(self, step, super().step, self.complexes)

    def maker(self, argument: Argument) -> None:
        """Return None, since every step has its own line."""

    def tensor(self, name: str) -> SyntaxNode:
        """Write a name; a tensor that was only broadcast has the name of its source."""
        step = self._steps.get(name)
        if step is not None and has_role(step.op, Role.COPIES) and name not in self.told:
            return self.tensor(str(step.arguments[0]))
        if step is not None and (cast := autocast_method(step)):
            return method(self.tensor(str(step.arguments[0])), cast)
        return Name(name)

    def size(self, size: Any) -> SyntaxNode:
        """Write a size."""
        return to_code(int(size)) if size.is_Integer else Name(str(size))


def format_step(program: RecordedProgram, step: Apply) -> str:
    """Write a step as ``h = relu(t1)``."""
    return StepWriter(program).text(step)


class StepWriter:
    """Writes the steps of one program with its labels."""

    def __init__(self, program: RecordedProgram) -> None:
        self.labels, self.writer = program.labels, StepFormatter(program.recording)
        self.writer.told = frozenset(program.labels)
        self.writer.pulled, self.writer.complexes = program.pulled, program.complexes

    def text(self, step: Apply, other: Mapping[str, str] | None = None) -> str:
        """Write a step as ``h = relu(t1)``; ``other`` labels replace the program's."""
        labels = {**self.labels, **other} if other else self.labels
        code = write_with_modules(write_operation(self.writer, step))
        return f"{labels.get(step.result.name, step.result.name)} = {with_labels(code, labels)}"


def right_side(
    program: Program, step: Apply, told: frozenset[str] = frozenset(), pulled: Mapping[str, str] | None = None
) -> str:
    """Write a step's right-hand side, with a writer of its own."""
    writer = StepFormatter(program)
    writer.told, writer.pulled = told, pulled or {}
    return write_operation(writer, step)


def write_operation(writer: StepFormatter, step: Apply) -> str:
    """Write a step's right-hand side in the recording's names."""
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
    """Write an argument, a name or a number."""
    if not isinstance(argument, Constant):
        return str(argument)
    try:
        return write_python(write_constant(argument.value))
    except NoForm:
        return str(argument.value)


def with_labels(text: str, labels: Mapping[str, str]) -> str:
    """Replace the recording's names in ``text`` by the user's, all at once: ``conv1_weight`` by ``conv1.weight``.

    Function names and replacements are not searched.

    >>> with_labels("diag(tanh(a)*b.T)", {"a": "b", "b": "a", "T": "u", "tanh": "w"})
    'diag(tanh(b)*a.T)'
    """
    return NAME.sub(lambda m: labels.get(m[0], m[0]), text)


def format_step_shape(shape: Any) -> str:
    """Format a shape as 2×3, or as scalar."""
    return "×".join(str(n) for n in shape) if len(shape) else "scalar"


def program_line(program: Program, pulled: Mapping[str, str]) -> str:
    """Write a program as ``h = x @ a; out = relu(h)``, a single step without ``out =``; ``pulled`` as above."""
    named = frozenset(t.name for t in program.tensors() if not HIDDEN.fullmatch(t.name))
    steps = listed_steps(program, dict.fromkeys(named, ""))
    if not steps:
        return program.output
    if len(steps) == 1 and steps[0].result.name == program.output:
        return right_side(program, steps[0], named, pulled)
    return "; ".join(f"{step.result.name} = {right_side(program, step, named, pulled)}" for step in steps)


def list_program(program: RecordedProgram) -> str:
    """List the program: inputs, data, operations with shapes, outputs, opaque calls and torch's choices."""
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
    """Return one line for each step at which a pullback takes torch's convention, or at which torch overflows."""
    return [
        f"≈ {where}: {reason}{f': {format_step_in_double(program, name)}' if reason.endswith(IN_DOUBLES) else ''}"
        if reason.startswith(OVERFLOWS)
        else f"≈ {where}{':' if reason.startswith(NEAR_AN_EDGE) else ' has no derivative at this point:'} {reason}; "
        "the numbers there follow torch's convention"
        for name, where, reason in locate_steps(program, reasons)
    ]


def format_step_in_double(program: RecordedProgram, name: str) -> str:
    """Write a step with its operands in double precision: ``atan2(a.double(), b.double())``."""
    step = program.recording.makers[name]
    labels = {n: program.labels.get(n, n) for n in step.tensors}
    wide = {n: f"{label if label.isidentifier() else f'({label})'}.double()" for n, label in labels.items()}
    return StepWriter(program).text(step, wide).partition(" = ")[2]


def torch_conventions(program: RecordedProgram, rules: Mapping[str, str]) -> list[str]:
    """Return one line for each call whose backward in torch is not the derivative."""
    return [
        f"≈ torch has a rule of its own for {where}, which is not the derivative: {reason}; vᵀJ is the derivative"
        for _, where, reason in locate_steps(program, rules)
    ]


def locate_steps(program: RecordedProgram, reasons: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Iterate over steps by name, with their text, source line and reason."""
    for name, reason in reasons.items():
        yield name, f"{format_step(program, program.recording.makers[name])}{program.place(name)}", reason
