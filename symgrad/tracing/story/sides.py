"""Forward and backward of one call beside each other: what a training step computes, and what comes back.

Comes in: an event, and how wide the page is. Goes out: lines; two columns where both fit, else one below the other.
A program that is longer than a page is told by its blocks, and its backward by one turn of what repeats.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.render.content.words import counted
from symgrad.tracing.story.events import MANY, Backward
from symgrad.tracing.story.layout import cut, folded

HANDFUL = 6
"""Tensors whose shapes are listed one by one."""
SHORT = 48
"""Characters of a list of shapes that has the leaves in it, too."""
PAGE = 40
"""Lines of a program that are told in full."""
MOST = 64
"""Lines of a program or a backward with its equal layers told once; a longer one is told by its ends."""
LONGEST = 12
"""Lines of a program that has no backward by lines; a longer one is told by its ends and by what has a name."""
NAME = 14
"""Names up to this length stand in a column of their own."""
BETWEEN = 4
"""Spaces between the two columns."""


def both(event: Backward, width: int) -> list[str]:
    """Program, seed and backward of a call that is explained."""
    back = back_lines(event)
    program = program_lines(event, width) if not back else []
    several = back or len(program) > 2
    told = [*seed_lines(event, width, bool(several)), *(f"  ■ {box}" for box in event.boxes)]
    told += [f"  {line}" for line in event.lead]
    if not back:
        return [*(program[:-1] if several else program), *told]
    ahead = forward_lines(event, width)
    head = f"backward: {event.told.letter(event.letter)}_name is {meaning(event)}"
    left, right = ["forward", *ahead], [head, *back]
    side = max(map(len, left)) + BETWEEN
    if side + max(map(len, right)) + 2 <= width and len(ahead) > 1:
        rows = max(len(left), len(right))
        pairs = zip(padded(left, rows), padded(right, rows), strict=True)
        lines = [f"  {a.ljust(side)}{b}".rstrip() for a, b in pairs]
        return [*lines, *told]
    return [*(f"  {line}" for line in ahead), *told, f"  {head}", *(f"    {line}" for line in back)]


def seed_lines(event: Backward, width: int, shapes: bool) -> list[str]:
    """The weights, and the shapes of what the program begins with, where nothing else says them."""
    seed = f"  {event.letter} = {event.seed}{event.weights}"
    given = inputs(event) if shapes else ""
    if not given or len(seed) + 3 + len(given) <= width:
        return [f"{seed}   {given}".rstrip()]
    return [f"    {given}", seed]  # a long list of weights has lines of its own


def meaning(event: Backward) -> str:
    """What v_name is: a derivative of the output, or of the number that the weights make of it."""
    if event.weights:
        return "∂L/∂name" if event.weights.startswith(": L = ") else "what reaches name"
    return f"∂{event.told.end}/∂name" if event.told.end else "what reaches name"


def padded(lines: Sequence[str], count: int) -> list[str]:
    """``lines`` and empty ones behind them."""
    return [*lines, *[""] * (count - len(lines))]


def program_lines(event: Backward, width: int) -> list[str]:
    """The program alone, shortened in the middle; beside a short one its shapes."""
    told = event.told.forward
    shown = list(told) if 0 < len(told) <= LONGEST else cut(event.program, LONGEST)
    roles = "   ".join(event.roles) if len(event.roles) <= HANDFUL else f"{len(event.roles)} tensors"
    if not shown:
        return [f"  {roles}"] if roles else []
    if len(shown) == 1 and 4 + max(46, len(shown[0])) + len(roles) <= width:
        return [f"  {shown[0].ljust(46)}  {roles}"]
    return [*(f"  {line}" for line in shown), f"    {roles}"]


def forward_lines(event: Backward, width: int) -> list[str]:
    """The program in as many lines as have a cotangent, with their shapes; one with too many by its blocks."""
    pairs = event.told.ahead() if is_long(event) else list(zip(event.told.forward, event.told.shapes, strict=True))
    if len(pairs) > MOST:
        return cut(event.program, PAGE)
    lines = aligned([line for line, _ in pairs])
    room = width - 4 - max((len(shape) for _, shape in pairs), default=0)
    column = max((len(line) for line in lines if len(line) <= room), default=0)
    found: list[str] = []
    for line, (_, shape) in zip(lines, pairs, strict=True):
        *before, last = folded(line, width - 2)
        if len(f"{last}  {shape}") > width - 2:
            before, last = [*before, last], ""  # the shape alone, still in its column
        found += [*before, f"{last.ljust(column)}  {shape}".rstrip()]
    return found


def is_long(event: Backward) -> bool:
    """Whether a program is too long to be told line by line."""
    return len(event.told.forward) > PAGE


def back_lines(event: Backward) -> list[str]:
    """The lines from the output back; those of many leaves stand among them, those of a few in the table."""
    if len(event.leaves) <= MANY and not is_long(event):
        return aligned(cut(event.told.lines, MOST))
    opened = is_long(event) and len(event.told.ahead()) > MOST
    lines = event.told.every(opened)
    return cut(lines if event.kind != "grad" else [returned(line, event) for line in lines], MOST)


def returned(line: str, event: Backward) -> str:
    """A gradient's line where it is handed back: nothing is put into any ``.grad``."""
    name, sign, text = line.partition(" = ")
    whose = name.removesuffix(".grad")
    return line if whose == name else f"{event.told.letter(event.letter)}_{whose}{sign}{text}"


def aligned(lines: Sequence[str]) -> list[str]:
    r"""Lines with their = below each other, where no name is long.

    >>> print(*aligned(["t1 = x @ w", "loss = t1.sum()"]), sep="\n")
    t1   = x @ w
    loss = t1.sum()
    """
    longest = max((len(line.partition(" = ")[0]) for line in lines), default=0)
    if longest > NAME:
        return list(lines)
    parts = [line.partition(" = ") for line in lines]
    return [f"{name.ljust(longest)}{sign}{text}" if sign else name for name, sign, text in parts]


def inputs(event: Backward) -> str:
    """The shapes of what the program begins with; leaves, if there are many, stand in the table alone."""
    given = list(event.roles[:-1])
    if len("   ".join(given)) > SHORT:
        given = [role for role in given if not role.endswith((" (leaf)", " (asked)"))]
    return counted(len(given), "input") if len(given) > HANDFUL else "   ".join(given)
