"""A captured program in words: one operation a line, in the language that symgrad reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.capture.binding import Refusals
from symgrad.closed_form.pieces import ADD, NoForm, bracketed
from symgrad.closed_form.source_text import INFIX, Writer, number_text
from symgrad.ops.spec import TABLE
from symgrad.program import Apply, Constant, Program

if TYPE_CHECKING:
    from symgrad.capture.program import Program as Captured


class OneStep(Writer):
    """Writes one step with every operand as a name; ``told`` are the names that stand in the listing."""

    told: frozenset[str] = frozenset()

    def tensor(self, name: str) -> tuple[str, int]:
        """A name; a tensor that was only broadcast goes by its own."""
        step = self._steps.get(name)
        if step is not None and step.op == "expand" and name not in self.told:
            return str(step.arguments[0]), 9
        return name, 9

    def size(self, size: Any) -> str:
        """A number."""
        return str(size)


def step_text(program: Program, step: Apply, labels: Mapping[str, str]) -> str:
    """``h = relu(t1)``."""
    told = frozenset(labels)
    return f"{labels.get(step.result.name, step.result.name)} = {relabelled(right_side(program, step, told), labels)}"


def right_side(program: Program, step: Apply, told: frozenset[str] = frozenset()) -> str:
    """What a step computes, in names."""
    if step.op not in TABLE:
        return f"{step.op.removeprefix('black box ')}({', '.join(map(str, step.arguments))})"
    if step.op == "expand":
        return f"{step.arguments[0]}.expand({', '.join(map(str, step.result.shape))})"
    if step.op == "identity":
        return str(step.arguments[0])
    try:
        writer = OneStep(program)
        writer.told = told
        return writer.step(step)[0]
    except (NoForm, *Refusals):  # showing must not fail
        return f"{step.op}({', '.join(_argument(a) for a in step.arguments)})"


def _argument(argument: Any) -> str:
    """A name or a number."""
    if not isinstance(argument, Constant):
        return str(argument)
    try:
        return bracketed(*number_text(argument.value), ADD)
    except NoForm:
        return str(argument.value)


def relabelled(text: str, labels: Mapping[str, str]) -> str:
    """``text`` with the recording's names replaced by the user's: ``conv1_weight`` is ``conv1.weight``."""
    different = {name: label for name, label in labels.items() if name != label}
    if not different:
        return text
    pattern = re.compile(
        r"(?<![\w.])(" + "|".join(sorted(map(re.escape, different), key=len, reverse=True)) + r")(?!\w)"
    )
    return pattern.sub(lambda m: different[m[1]], text)


def shape_text(shape: Any) -> str:
    """2×3; a scalar has no axes."""
    return "×".join(str(n) for n in shape) if len(shape) else "scalar"


def listing(program: Captured) -> str:
    """The whole program: inputs, data, operations with shapes, outputs, and what is not derived."""
    arrays, labels, recording = program.arrays, program.labels, program.recording
    shown = [
        (f"{program.title or 'program'}: {len(program.told)} operations, {len(program.wanted)} inputs, this run's path")
    ]
    for tensor in recording.inputs:
        array = np.asarray(arrays[tensor.name])
        kind = "input" if tensor.name in program.wanted else "data "
        shown.append(f"  {kind}  {labels[tensor.name]}  {shape_text(array.shape)} {array.dtype}")
    rows = []
    for step in program.told:
        text = step_text(recording, step, labels)
        note = "   ■ black box, not derived" if step.result.name in program.boxes else ""
        rows.append((text, shape_text(np.shape(arrays[step.result.name])) + note))
    wide = min(max((len(text) for text, _ in rows), default=0), 72)
    shown += [f"  {text.ljust(wide)}  {shape}" for text, shape in rows]
    shown.append(f"  output {', '.join(program.outputs)}")
    shown += [
        f"  ■ {box.name}: {box.spelling} is a black box: {box.reason or 'no equation reaches it'}"
        for box in program.black_boxes
    ]
    return "\n".join(shown)


INFIX_SIGNS = {name: sign for name, (sign, _) in INFIX.items()}
