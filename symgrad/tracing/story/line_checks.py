"""Check the lines of a backward on the numbers of its call; lines with other numbers are withheld.

Each line was proven for its group of steps, but not after merging and shortening. Comes in: a captured program, the
seeds, its lines and then their numbers. Goes out: the lines that agree, and the names of the others. Also the lines as
index equations, ``v_h[p,q] = Σ_j v_logits[p,j]·W2[j,q]``, in the names of the page; those that read unnamed tensors or
have other numbers are left out. And notes in which names of hidden steps are replaced by their expressions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from symgrad.backward import Backward, Line
from symgrad.backward.code import write_torch_code
from symgrad.backward.page_names import is_named
from symgrad.calculus import local_jacobian
from symgrad.errors import SymgradError
from symgrad.indexing import Equation as Entries
from symgrad.indexing.equation import replace_accesses
from symgrad.indexing.symbols import Expr, access, is_access, names_read
from symgrad.language.python_text import read_python
from symgrad.language.syntax_tree import Unary
from symgrad.language.trees import tensor_names
from symgrad.notation.tree import Name, SyntaxNode, walk
from symgrad.numeric.exact import Array, as_float, euclidean, largest_gap
from symgrad.numeric.playing import evaluate, integers_or_floats
from symgrad.numeric.vector_products import Taken
from symgrad.program import Apply
from symgrad.reference import run_reference
from symgrad.reference.bounds import TextRejected, UnsupportedText
from symgrad.render.letters import loose_names
from symgrad.render.page import EquationRow, Equations, Formula, tensor_label
from symgrad.render.wrapping import bracket_depth
from symgrad.tracing.captured import Capture
from symgrad.tracing.captured.step_text import pull_recording, right_side, with_labels
from symgrad.tracing.lift import UNNAMED
from symgrad.tracing.lift.call_sweeps import draw_weights
from symgrad.tracing.record.trace import as_numbers

SHORT, LONGEST = 14, 56
"""The most steps of a program, and characters of a gradient, that may be written in the inputs alone."""
ROOM = 2_000_000
"""The most entries of all lines that are kept until their call is printed."""
OTHER = "not shown: at the numbers of this call it differs from the derivation"
"""The text in place of a line whose value is not the derived one."""
EPS = float(np.finfo(float).eps)
CLOSE, SHAKES, FACTOR = 1e-6, 2, 64
"""The tolerance relative to the largest entry; the number of evaluations with perturbed operands; and the allowed
multiple of their effect."""


class LineEvaluation:
    """Evaluates the lines of a call as Python, on the recorded tensors and the cotangents that they read.

    Cotangents arrive one after the other, from the output back, and are freed after the last line that reads them.
    The ``lengths`` (norms) of all are kept, and the ``forms`` of gradients of a short program.
    """

    def __init__(self, program: Capture, seeds: Mapping[str, Array], unit: float) -> None:
        self.program, self.seeds, self.unit, self.room = program, seeds, unit, ROOM
        self.lengths: dict[str, float] = {}
        self.forms: dict[str, str | None] = {}
        self.kept: dict[str, Array] = {}
        self.wrong: set[str] = set()

    def begin(self, lines: Backward) -> Taken:
        """Store the lines, and return the function that takes each cotangent."""
        program, self.lines = self.program, lines
        self.numbers = dict(zip(lines.inputs, (program.arrays.get(t.name) for t in lines.source.inputs), strict=True))
        self.numbers |= {line.target: program.arrays.get(line.of) for line in lines.forward}
        self.numbers |= {name or lines.letter: self.seeds[end] for end, name in lines.seeds.items()}
        places = [line for line in lines.forward if line.target.startswith("at_")]  # whole numbers that a step finds
        self.numbers |= dict.fromkeys(line.target for line in (*places, *lines.lines))
        self.codes = {line.target: line.tree for line in (*lines.forward, *lines.lines)}
        own = {line.target for line in lines.lines if line.shape is not None}
        self.reads: dict[str, frozenset[str]] = {}  # with what is read to compute what has no numbers
        for line in (*lines.forward, *lines.statements):
            others = (self.reads.get(n, ()) for n in line.names - own if self.numbers.get(n) is None)
            self.reads[line.target] = line.names.union(*others)
        valued = [line for line in lines.statements if line.shape is not None]
        self.readers = Counter(name for line in valued for name in self.reads[line.target])
        self.of: dict[str, list[Line]] = {}
        for line in valued:
            self.of.setdefault(line.of, []).append(line)
        return self.taken

    def taken(self, of: str, value: Array) -> None:
        """Compare the lines of a tensor with its numbers."""
        if np.size(value) <= self.room:
            self.kept[of], self.room = value, self.room - np.size(value)
        for line in self.of[of]:
            self.lengths[line.target] = euclidean(value)
            self.wrong |= {line.target} if self.strays(line, value) else set()
            self.numbers |= {line.target: value} if self.readers[line.target] else {}
            self.readers.subtract(self.reads[line.target])
            for name in self.codes.keys() & self.reads[line.target]:
                if not self.readers[name]:
                    self.numbers[name] = None
        if of in self.lines.gradients and len(self.program.recording.steps) <= SHORT:
            self.forms[of] = self.shortest(of, value)

    def shortest(self, own: str, value: Array) -> str | None:
        """Return a gradient's line, or its form in the inputs alone if that is shorter than all lines it needs."""
        program, lines = self.program, self.without_others()[0]
        line, needed = lines.gradients[own], lines.needed(own)
        if (line.text is not None and not needed) or line.own == OTHER:
            return line.text
        if any(is_named(program.labels.get(one.of, one.of)) for one in needed if one.shape is not None):
            return line.text  # the cotangents of tensors that the user has named are told
        told = None if None in (texts := [n.text for n in (*needed, line)]) else sum(len(str(text)) for text in texts)
        alone, longest = None, LONGEST if told is None else min(LONGEST, told - 1)
        if len(program.ends) == 1 and lines.letter == program.recording.seed and not program.complex_inputs:
            with suppress(SymgradError):
                alone = program.closed_form(program.labels[own], longest=longest)
        if alone is not None and "; " not in alone:  # a form with a definition is no line
            return line.text if self.strays(replace(line, tree=read_python(alone)), value) else alone
        return line.text

    def without_others(self) -> tuple[Backward, tuple[str, ...]]:
        """Return the lines without those that have other numbers than the derivation, and sentences about these."""
        known = self.lines.with_values(self.kept)
        wrong = {line.target: replace(line, text=None, tree=None, own=OTHER)
                 for line in known.statements if line.target in self.wrong}  # fmt: skip
        lines = tuple(wrong.get(line.target, line) for line in known.lines)
        gradients = {own: wrong.get(line.target, line) for own, line in known.gradients.items()}
        told = tuple(f"the line of {line.name} is {OTHER}" for line in wrong.values())
        return replace(known, lines=lines, gradients=gradients), told

    def strays(self, line: Line, value: Array) -> bool:
        """Whether a line's numbers differ from the derived ones by more than rounding."""
        if line.tree is None:
            return False
        known = {name: self.number(name) for name in line.names if name in self.numbers}
        if any(value is None for value in known.values()):  # of one that was not recorded nothing is known
            return False
        try:
            got, derived = line_value(line.tree, known), as_float(value)
            if got.shape != derived.shape:
                return True
            # what left the range of floats step by step may stay in it
            gap, _, size = largest_gap(got, derived, ~np.isfinite(derived))
            if gap <= CLOSE * size or gap == np.inf:
                return gap == np.inf
            lots = np.random.default_rng(0)
            others = [line_value(line.tree, {n: perturb_last_digit(a, self.unit, lots) for n, a in known.items()})
                      for _ in range(SHAKES)]  # fmt: skip
        except (UnsupportedText, RecursionError):  # a sum of hundreds of terms is too deep to be written again
            return False
        except TextRejected:
            return True
        moved = np.max([np.abs(other - got) for other in others], axis=0).max(initial=0.0)
        if gap <= FACTOR * moved:
            return False
        terms = uncancelled_norm(self.program, self.seeds, line.of)  # which may cancel in the derivation alone
        return terms is None or gap > FACTOR * EPS * terms

    def number(self, name: str) -> Any:
        """Return the value of a name: recorded, derived, or computed by its line."""
        if self.numbers[name] is None and (code := self.codes.get(name)) is not None:
            read = {own: self.number(own) for own in tensor_names(code) if own in self.numbers}
            if all(value is not None for value in read.values()):
                with suppress(UnsupportedText, TextRejected, RecursionError):
                    self.numbers[name] = run_line(code, read)
        return self.numbers[name]


def run_line(code: SyntaxNode, known: Mapping[str, Any]) -> Any:
    """Evaluate code in torch, in float64."""
    tensors = {  # torch has no array that is read backwards
        name: value
        if isinstance(value, torch.Tensor)
        else torch.as_tensor(integers_or_floats(np.asarray(value, order="C")))
        for name, value in known.items()
    }
    for node in walk(code):
        if isinstance(node, Unary) and node.sign == "~" and isinstance(node.operand, Name):
            tensors[node.operand.name] = tensors[node.operand.name].bool()  # recorded as numbers
    with torch.no_grad():
        return run_reference(write_torch_code(code), tensors).output


def line_value(code: SyntaxNode, known: Mapping[str, Any]) -> Array:
    """`run_line` as an array."""
    return as_float(as_numbers(run_line(code, known)))


def perturb_last_digit(value: Any, unit: float, lots: np.random.Generator) -> Any:
    """Floats with another last digit."""
    if isinstance(value, torch.Tensor) or np.asarray(value).dtype.kind != "f":
        return value
    return as_float(value) * (1 + unit * lots.uniform(-1.0, 1.0, np.shape(value)))


def uncancelled_norm(
    program: Capture, seeds: Mapping[str, Array], own: str, instead: Mapping[str, Array] | None = None
) -> float | None:
    """How long a cotangent would be if nothing cancelled on the way, and with other numbers ``instead`` of some.

    None where that cannot be computed.
    """
    if own not in program.arrays:
        return None
    values = program.values.with_arrays(instead or {})
    try:
        found = pull_recording(program, seeds, (own,), values=values, drawn=draw_weights())
    except SymgradError:  # a backward of the user's own is known for one v
        return None
    return euclidean(found[own])


MOST, CHARACTERS, LARGEST = 40, 300, 1_000_000
"""Lines of a program, characters of a formula, entries of a tensor that are looked at."""
DEPTH = 4
"""Views of views that are looked through."""


def write_entry_equations(program: Capture, lines: Backward | None) -> Equations | None:
    """Return the lines as index equations; None if there are none, or too many."""
    if lines is None or len(lines.statements) > MOST:
        return None
    known, said = values_on_page(program, lines), names_on_page(program, lines)
    rows = []
    for line in lines.statements:
        found = None
        with suppress(SymgradError):
            found = line_equation(program, line, known)
        if found is None:
            continue
        right = replace_accesses(found.right, lambda name, at: access(said.get(name, name), at))
        names = loose_names(right, found.axes)
        told = Formula(right, names)
        if len(told.text) <= CHARACTERS:
            rows.append(EquationRow((tensor_label(line.name, [names.letter(axis) for axis in found.axes]), told)))
    return Equations(tuple(rows)) if rows else None


def values_on_page(program: Capture, lines: Backward) -> dict[str, Array]:
    """Return the values of names on the page, by their names in code."""
    found = {line.target: line.value for line in lines.lines if line.value is not None}
    found |= {line.target: program.arrays[line.of] for line in lines.forward if line.of in program.arrays}
    return found | {name: program.arrays[name] for name in lines.inputs if name in program.arrays}


def names_on_page(program: Capture, lines: Backward) -> dict[str, str]:
    """Return the printed names, by names in code."""
    found = {line.target: line.name for line in (*lines.lines, *lines.forward)}
    return found | {name: program.labels.get(name, name) for name in lines.inputs}


def line_equation(program: Capture, line: Line, known: Mapping[str, Array]) -> Entries | None:
    """Return the index equation of a line; None if a part has no equation, or its numbers differ."""
    parts = [part.equation for part in line.parts if part.equation is not None]
    if not parts or len(parts) < len(line.parts) or line.value is None or np.size(line.value) > LARGEST:
        return None
    axes = parts[0].axes
    right = sum(part.right.xreplace(dict(zip(part.axes, axes, strict=True))) for part in parts)
    found = Entries(axes, resolve_views(program, right, known))
    if not set(names_read(found.right)) <= known.keys():
        return None
    with np.errstate(all="ignore"):
        mine = as_float(np.asarray(evaluate(found, known, {})))
    wanted = as_float(np.asarray(line.value))
    scale = float(np.abs(wanted).max(initial=0)) if np.isfinite(wanted).all() else np.inf
    close = mine.shape == wanted.shape and np.allclose(mine, wanted, rtol=1e-6, atol=1e-9 * scale)
    return found if close and scale < np.inf else None


def resolve_views(program: Capture, right: Expr, known: Mapping[str, Array]) -> Expr:
    """Replace ``t4[q,j]`` by ``W2[j,q]`` if t4 is not on the page and is a view of a tensor that is."""
    given = {tensor.name for tensor in program.recording.inputs}
    page = {t.name: t.name if t.name in given else program.labels.get(t.name, t.name)
            for t in program.recording.tensors()}  # fmt: skip
    makers = {page[step.result.name]: step for step in program.recording.steps}

    def looked(name: str, at: Any) -> Expr:
        if name in known or name not in makers:
            return access(name, at)
        made = local_jacobian(makers[name], program.recording).equation
        if not is_access(made.right):
            return access(name, at)
        return replace_accesses(made.at(at), lambda own, inner: access(page.get(own, own), inner))

    for _ in range(DEPTH):
        right = replace_accesses(right, looked)
    return right


TOLD = r" = (?!(?:-?[\d.]+(?:e[+-]?\d+)?|-?inf|nan)(?:[,:;)]|$))"
"""Matches the equals sign of a definition; after an entry at a kink follows a number instead."""
NUMBERED = re.compile(rf"(?<![\w.])({UNNAMED.pattern})(?!{TOLD})(?!\w)", re.MULTILINE)
"""Matches a generated name where it is read."""
DEFINED = re.compile(rf"(?<![\w.])({UNNAMED.pattern}){TOLD}", re.MULTILINE)
"""Matches a generated name where it is defined."""


def expand_hidden_names(notes: Sequence[str], program: Capture, source: Backward | None) -> list[str]:
    """Return the notes with names that are not on the page replaced by their expressions."""
    if source is None or not notes:
        return [*notes]
    shown = {line.name for line in (*source.forward, *source.lines)}
    steps = {program.labels.get(step.result.name, step.result.name): step for step in program.recording.steps}
    hidden = {name: step for name, step in steps.items() if UNNAMED.fullmatch(name) and name not in shown}
    return [DEFINED.sub(lambda m: "" if m[1] in hidden else m[0], expand_all(note, hidden, program)) for note in notes]


def expand_all(text: str, hidden: Mapping[str, Apply], program: Capture) -> str:
    """Return a text with every hidden name replaced by its expression."""

    def computed(m: re.Match[str]) -> str:
        if m[1] not in hidden:
            return m[0]
        found = expand_all(with_labels(right_side(program.recording, hidden[m[1]]), program.labels), hidden, program)
        alone = text[: m.start()][-1:] in {"", "(", "["} and text[m.end() :][:1] in {"", ")", "]", ","}
        return found if alone or not has_outer_operator(found) else f"({found})"

    return NUMBERED.sub(computed, text)


def has_outer_operator(text: str) -> bool:
    """Whether a text has an operator outside of all brackets."""
    return any(letter == " " and bracket_depth(text, place) == 0 for place, letter in enumerate(text))
