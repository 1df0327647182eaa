"""The lines of a program that ran: one for each step, and one block for the turns of a loop.

Comes in: a captured program. Goes out: lines, each block as a head and the steps of one turn, set in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from symgrad.program import Apply
from symgrad.tracing.captured.words import Lines
from symgrad.tracing.record import frames
from symgrad.tracing.story.folding import Block, Folding, Item
from symgrad.tracing.story.layout import shortened

if TYPE_CHECKING:
    from symgrad.tracing.captured.capture import Capture

LONGEST = 60
"""Characters of the head of a loop that is quoted."""
LISTED = 6
"""Parts of a list that is written out."""


def passages(program: Capture) -> tuple[str, ...]:
    """The lines of ``program``."""
    told = program.told
    folding = Folding(program.recording, told, program.labels)
    items = folding.items()
    lines = Lines(program)
    return tuple(line for item in items for line in said(item, program, lines))


def said(item: Item, program: Capture, lines: Lines) -> list[str]:
    """One step, or one block with a head."""
    told = program.told
    if not isinstance(item, Block):
        return [without_length(lines.text(told[item]))]
    turn = told[item.begin + item.steps : item.begin + 2 * item.steps]
    inside = [f"  {without_length(lines.text(step, item.names))}" for step in turn]
    return [head(item, program, turn), *inside]


def head(block: Block, program: Capture, turn: Sequence[Apply]) -> str:
    """``these 37 steps × 99 lines 19 to 23 in “for t in x.split(1)”, another t each time:``."""
    found = {program.lines[step.result.name] for step in turn if step.result.name in program.lines}
    files = {where.file for where in found}
    numbers = sorted({where.line for where in found})
    place = ""
    if len(files) == 1 and numbers:
        (file,) = files
        place = f", line {numbers[0]}" if len(numbers) == 1 else f", lines {numbers[0]} to {numbers[-1]}"
        place += "" if program.file in ("", file) else f" of {file.rpartition('/')[2]}"
        loop = frames.loop_around(file, numbers[0], numbers[-1])
        place += f" in “{shortened(loop, LONGEST)}”" if loop is not None else ""
    varying = f", another {', '.join(block.varying[:3])} each time" if block.varying else ""
    varying += "".join(f", with {row} in turn" for row in block.rows[:3])
    carried = "; what is read before it is made is from the turn before" if block.carries else ""
    steps = "this step" if block.steps == 1 else f"these {block.steps} steps"
    return f"{steps} × {block.count}{place}{varying}{carried}:"


def without_length(text: str) -> str:
    """A line in which a long list is written by its ends.

    >>> without_length("y = cat([a, b[0], c, d, e, f, g, h], dim=1)")
    'y = cat([a, b[0], … 5 more …, h], dim=1)'
    """
    begin = text.find("[")
    while begin >= 0:
        depth, cuts = 0, [begin]
        for at in range(begin, len(text)):
            depth += (text[at] in "[(") - (text[at] in ")]")
            if depth == 1 and text[at] == ",":
                cuts.append(at)
            if depth == 0:
                if len(cuts) > LISTED:
                    middle = f", … {len(cuts) - 3} more …"
                    return text[: cuts[2]] + middle + text[cuts[-1] :]
                break
        begin = text.find("[", begin + 1)
    return text
