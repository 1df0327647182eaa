"""Lines of a backward held against the numbers of the call that they are told of: one that gives others is withheld.

Each line was proven for its group of steps; what was merged into it and shortened since was not. Comes in: a captured
program, its lines with their numbers, the seeds. Goes out: the lines without those that give other numbers, and which
these are.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from symgrad.backward import Backward, Line
from symgrad.backward.parts.code import placed, read_by
from symgrad.errors import SymgradError
from symgrad.numeric.exact import Array, as_float, euclidean
from symgrad.oracles.array_text import in_floats
from symgrad.reference.bounds import Refused, Unread
from symgrad.reference.reader import run
from symgrad.tracing.lift.sweeps import pull_by_lot
from symgrad.tracing.record.trace import as_array

if TYPE_CHECKING:
    from symgrad.tracing.captured.capture import Capture

OTHER = "withheld: at the numbers of this call it gives others than the derivation"
"""What is said of a line whose value is not the one that was derived."""
EPS = float(np.finfo(float).eps)
CLOSE, SHAKES, FACTOR = 1e-6, 2, 64
"""What may differ of the largest entry; how often a line is computed from rounded numbers, and how
many times what comes of it."""


class Evaluated:
    """The lines of a call, each read by Python's rules over the recorded tensors and the cotangents that it reads."""

    def __init__(self, program: Capture, lines: Backward, seeds: Mapping[str, Array], unit: float) -> None:
        self.program, self.lines, self.seeds, self.unit = program, lines, seeds, unit
        self.numbers = dict(zip(lines.inputs, (program.arrays.get(t.name) for t in lines.source.inputs), strict=True))
        self.numbers |= {line.target: program.arrays.get(line.of) for line in lines.forward if not is_found(line)}
        self.numbers |= {line.target: line.value for line in lines.lines}
        self.numbers |= {name or lines.letter: seeds[end] for end, name in lines.seeds.items()}
        self.numbers |= dict.fromkeys(line.target for line in lines.forward if is_found(line))
        self.codes = {line.target: line.code for line in (*lines.forward, *lines.lines)}

    def without_others(self) -> tuple[Backward, tuple[str, ...]]:
        """The lines without those that give other numbers than were derived, and which these are."""
        wrong = {line.target: replace(line, text=None, code=None, own=OTHER)
                 for line in self.lines.statements if self.strays(line)}  # fmt: skip
        if not wrong:
            return self.lines, ()
        lines = tuple(wrong.get(line.target, line) for line in self.lines.lines)
        gradients = {own: wrong.get(line.target, line) for own, line in self.lines.gradients.items()}
        told = tuple(f"the line of {line.name} is {OTHER}" for line in wrong.values())
        return replace(self.lines, lines=lines, gradients=gradients), told

    def strays(self, line: Line) -> bool:
        """Whether a line gives other numbers than the derivation, by more than rounding makes of it."""
        if line.code is None or line.value is None:
            return False
        known = {name: self.number(name) for name in line.names if name in self.numbers}
        if any(value is None for value in known.values()):  # of one that was not recorded nothing is known
            return False
        try:
            got, derived = value_of(line.code, known), as_float(line.value)
            if got.shape != derived.shape:
                return True
            same = (got == derived) | ~np.isfinite(derived)  # what left the range of floats step by step may stay in it
            if not np.isfinite(got[~same]).all():
                return True
            gap = np.abs(np.where(same, 0.0, got - derived))
            size = np.abs(derived[np.isfinite(derived)]).max(initial=0.0)
            if (gap <= CLOSE * size).all():
                return False
            lots = np.random.default_rng(0)
            others = [value_of(line.code, {n: shaken(a, self.unit, lots) for n, a in known.items()})
                      for _ in range(SHAKES)]  # fmt: skip
        except (Unread, RecursionError):  # a sum of hundreds of terms is too deep to be written again
            return False
        except Refused:
            return True
        moved = np.max([np.abs(other - got) for other in others], axis=0).max(initial=0.0)
        if not (gap > FACTOR * moved).any():
            return False
        terms = length_by_lot(self.program, self.seeds, line.of)  # which may cancel in the derivation alone
        return terms is None or bool((gap > FACTOR * EPS * terms).any())

    def number(self, name: str) -> Any:
        """What a name stands for: recorded, derived, or computed by its line."""
        if self.numbers[name] is None and (code := self.codes.get(name)) is not None:
            read = {own: self.number(own) for own in read_by([code]) if own in self.numbers}
            if all(value is not None for value in read.values()):
                with suppress(Unread, Refused, RecursionError):
                    self.numbers[name] = reference(code, read)
        return self.numbers[name]


def is_found(line: Line) -> bool:
    """Whether a line gives the whole numbers that a step finds, and not the tensor that it belongs to."""
    return line.target.startswith("at_")


def reference(code: str, known: Mapping[str, Any]) -> Any:
    """What code comes to in torch, in doubles."""
    tensors = {name: value if isinstance(value, torch.Tensor) else as_tensor(value) for name, value in known.items()}
    text = placed(code)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert) and isinstance(node.operand, ast.Name):
            tensors[node.operand.id] = tensors[node.operand.id].bool()  # recorded as numbers
    with torch.no_grad():
        return run(text, tensors).output


def as_tensor(value: Any) -> torch.Tensor:
    """An array in doubles, or in whole numbers; torch has none that is read backwards."""
    return torch.as_tensor(in_floats(np.asarray(value, order="C")))


def value_of(code: str, known: Mapping[str, Any]) -> Array:
    """`reference` as an array."""
    return as_float(as_array(reference(code, known)))


def shaken(value: Any, unit: float, lots: np.random.Generator) -> Any:
    """Floats with another last digit."""
    if isinstance(value, torch.Tensor) or np.asarray(value).dtype.kind != "f":
        return value
    return as_float(value) * (1 + unit * lots.uniform(-1.0, 1.0, np.shape(value)))


def length_by_lot(
    program: Capture, seeds: Mapping[str, Array], own: str, instead: Mapping[str, Array] | None = None
) -> float | None:
    """How long a cotangent would be if nothing cancelled on the way, and with other numbers ``instead`` of some.

    None where that cannot be computed.
    """
    if own not in program.arrays:
        return None
    values = program.values.with_arrays(instead or {})
    try:
        found = pull_by_lot(program.recording, values, program.boxes, seeds, (own,), program.origins)
    except SymgradError:  # a backward of the user's own is known for one v
        return None
    return euclidean(found[own])
