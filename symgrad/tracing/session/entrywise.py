"""The lines of a backward entry by entry: ``v_h[p,q] = Σ_j v_logits[p,j]·W2[j,q]``, as they were derived.

Comes in: a captured program and its lines with their numbers. Goes out: equations in the names of the page. One that
reads what has no name there, or whose numbers are not the line's, is left out. Notes that mention what no line shows,
a step that was merged into another, go out with that step written out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from symgrad.backward import Backward, Line
from symgrad.calculus import local
from symgrad.errors import SymgradError
from symgrad.indexing import Equation as Entries
from symgrad.indexing.equation import replace_accesses
from symgrad.indexing.symbols import Expr, access, is_access
from symgrad.lowering.reading import names_read
from symgrad.numeric.exact import Array, as_float
from symgrad.numeric.playing import evaluate
from symgrad.program import Apply
from symgrad.render.letters import loose_names
from symgrad.render.page import Equation, Equations, Formula, named
from symgrad.tracing.captured.capture import Capture
from symgrad.tracing.captured.words import relabelled, right_side
from symgrad.tracing.lift.labels import UNNAMED
from symgrad.tracing.story.told_lines import ToldLines

MOST, LONGEST, LARGEST = 40, 300, 1_000_000
"""Lines of a program, characters of a formula, entries of a tensor that are looked at."""
DEPTH = 4
"""Views of views that are looked through."""


def entrywise(program: Capture, lines: Backward | None) -> Equations | None:
    """Every line that can be said entry by entry; None where there is none, or there are too many."""
    if lines is None or len(lines.statements) > MOST:
        return None
    known, said = numbers_of(program, lines), names_of(program, lines)
    rows = []
    for line in lines.statements:
        found = None
        with suppress(SymgradError):
            found = formula(program, line, known)
        if found is None:
            continue
        right = replace_accesses(found.right, lambda name, at: access(said.get(name, name), at))
        names = loose_names(right, found.axes)
        told = Formula(right, names)
        if len(told.text) <= LONGEST:
            rows.append(Equation((named(line.name, [names.letter(axis) for axis in found.axes]), told)))
    return Equations(tuple(rows)) if rows else None


def numbers_of(program: Capture, lines: Backward) -> dict[str, Array]:
    """The numbers of what stands on the page, by its names in Python."""
    found = {line.target: line.value for line in lines.lines if line.value is not None}
    found |= {line.target: program.arrays[line.of] for line in lines.forward if line.of in program.arrays}
    return found | {name: program.arrays[name] for name in lines.inputs if name in program.arrays}


def names_of(program: Capture, lines: Backward) -> dict[str, str]:
    """What those are called on the page."""
    found = {line.target: line.name for line in (*lines.lines, *lines.forward)}
    return found | {name: program.labels.get(name, name) for name in lines.inputs}


def formula(program: Capture, line: Line, known: Mapping[str, Array]) -> Entries | None:
    """One line; None where a part of it has no equation, or its numbers are others."""
    parts = [part.equation for part in line.parts if part.equation is not None]
    if not parts or len(parts) < len(line.parts) or line.value is None or np.size(line.value) > LARGEST:
        return None
    axes = parts[0].axes
    right = sum(part.right.xreplace(dict(zip(part.axes, axes, strict=True))) for part in parts)
    found = Entries(axes, through_views(program, right, known))
    if not set(names_read(found.right)) <= known.keys():
        return None
    with np.errstate(all="ignore"):
        mine = as_float(np.asarray(evaluate(found, known, {})))
    wanted = as_float(np.asarray(line.value))
    scale = float(np.abs(wanted).max(initial=0)) if np.isfinite(wanted).all() else np.inf
    close = mine.shape == wanted.shape and np.allclose(mine, wanted, rtol=1e-6, atol=1e-9 * scale)
    return found if close and scale < np.inf else None


def through_views(program: Capture, right: Expr, known: Mapping[str, Array]) -> Expr:
    """``t4[q,j]`` is ``W2[j,q]``, where t4 is not defined on the page and only rearranges what is."""
    given = {tensor.name for tensor in program.recording.inputs}
    page = {t.name: t.name if t.name in given else program.labels.get(t.name, t.name)
            for t in program.recording.tensors()}  # fmt: skip
    makers = {page[step.result.name]: step for step in program.recording.steps}

    def looked(name: str, at: Any) -> Expr:
        if name in known or name not in makers:
            return access(name, at)
        made = local(makers[name], program.recording).equation
        if not is_access(made.right):
            return access(name, at)
        return replace_accesses(made.at(at), lambda own, inner: access(page.get(own, own), inner))

    for _ in range(DEPTH):
        right = replace_accesses(right, looked)
    return right


TOLD = r" = (?!(?:-?[\d.]+(?:e[+-]?\d+)?|-?inf|nan)(?:[,:;)]|$))"
"""What stands between a name and what computes it; behind an entry of a kink stands a number."""
NUMBERED = re.compile(rf"(?<![\w.])({UNNAMED.pattern})(?!{TOLD})(?!\w)", re.MULTILINE)
"""The name of a tensor without one, where it is read."""
DEFINED = re.compile(rf"(?<![\w.])({UNNAMED.pattern}){TOLD}", re.MULTILINE)
"""Such a name, where a step says what it is."""


def written_out(notes: Sequence[str], program: Capture, told: ToldLines) -> list[str]:
    """The notes, with what computes it in the place of a name that is none of the page's."""
    if told.source is None or not notes:
        return [*notes]
    shown = {line.name for line in (*told.source.forward, *told.source.lines)}
    steps = {program.labels.get(step.result.name, step.result.name): step for step in program.recording.steps}
    hidden = {name: step for name, step in steps.items() if UNNAMED.fullmatch(name) and name not in shown}
    return [DEFINED.sub(lambda m: "" if m[1] in hidden else m[0], in_full(note, hidden, program)) for note in notes]


def in_full(text: str, hidden: Mapping[str, Apply], program: Capture) -> str:
    """A text with every hidden name written out."""

    def computed(m: re.Match[str]) -> str:
        if m[1] not in hidden:
            return m[0]
        found = in_full(relabelled(right_side(program.recording, hidden[m[1]]), program.labels), hidden, program)
        alone = text[: m.start()][-1:] in {"", "(", "["} and text[m.end() :][:1] in {"", ")", "]", ","}
        return found if alone or not is_sum(found) else f"({found})"

    return NUMBERED.sub(computed, text)


def is_sum(text: str) -> bool:
    """Whether a text has an operator outside of all brackets."""
    depth = 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == " " and depth == 0:
            return True
    return False
