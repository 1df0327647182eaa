"""What a note mentions though no line shows it: a step that was merged into another is written out.

Comes in: a call's notes, its program and its lines. Goes out: the same notes in names that stand on the page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from symgrad.program import Apply
from symgrad.tracing.captured.words import relabelled, right_side
from symgrad.tracing.lift.labels import UNNAMED
from symgrad.tracing.story.told_lines import ToldLines

if TYPE_CHECKING:
    from symgrad.tracing.captured.capture import Capture

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
