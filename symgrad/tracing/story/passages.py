"""The lines of a program that ran: one for each step, and one block for the turns of a loop.

Comes in: a captured program. Goes out: lines, each block as a head and the steps of one turn, set in.

Blocks of steps that repeat, said once: an unrolled loop is its body and how often it ran.

Comes in: the steps of a program that are told. Goes out: items, single steps and blocks. Two turns of a block do the
same operations with the same options on tensors of the same shapes, and each reads what the one before it read, moved
by one turn: a step of the same turn, of the turn before, something made before the block, one of a row of equal steps
before it, or one of a row of inputs whose names differ in a number only. What does not fit is not folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from symgrad.program import Apply
from symgrad.render.flow import shortened
from symgrad.tracing.captured.words import Lines
from symgrad.tracing.record import frames

if TYPE_CHECKING:
    from symgrad.tracing.captured.capture import Capture
import re
from collections.abc import Mapping
from dataclasses import dataclass

from symgrad.program import Program

MOST_STEPS = 400
"""Steps of the longest block that is looked for."""
TRIES = 16
"""Lengths of a block that are tried at one place."""
WORTH = 4
"""Lines that folding has to save."""
UNNAMED = re.compile(r"t\d+")
NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Block:
    """``count`` turns of ``steps`` steps, from step ``begin`` on; ``names`` are what the block's tensors are called.

    What has no name goes by that of the last turn, which is the first one that the backward comes to.
    ``carries``: a turn reads what the one before it made; ``varying`` is what each turn reads another one of, ``rows``
    are those that have no name in common.
    """

    begin: int
    steps: int
    count: int
    names: Mapping[str, str]
    carries: bool
    varying: tuple[str, ...]
    rows: tuple[str, ...]

    @property
    def end(self) -> int:
        """The first step behind it."""
        return self.begin + self.steps * self.count


Item = int | Block
"""A step by its number, or a block."""
Reads = tuple[tuple[str, int | str], ...]


class Folding:
    """The steps of one program, with what each reads: ``("step", number)`` or ``("given", name)``."""

    def __init__(self, program: Program, told: Sequence[Apply], labels: Mapping[str, str]) -> None:
        self.told, self.labels = told, labels
        self.number = {step.result.name: n for n, step in enumerate(told)}
        makers = {step.result.name: step for step in program.steps}
        self.names = [tuple(self.told_name(name, makers) for name in step.tensors) for step in told]
        self.reads: list[Reads] = [
            tuple(("step", self.number[n]) if n in self.number else ("given", n) for n in names) for names in self.names
        ]
        self.shapes = [step.result.shape for step in told]
        known: dict[object, int] = {}
        self.kinds = [known.setdefault(self.kind(step, program), len(known)) for step in told]

    def told_name(self, name: str, makers: Mapping[str, Apply]) -> str:
        """What is told in the place of a tensor: what was only broadcast goes by its own name."""
        while name not in self.number and name in makers and makers[name].tensors:
            name = makers[name].tensors[0]
        return name

    @staticmethod
    def kind(step: Apply, program: Program) -> object:
        """The operation, its options and numbers, and the shapes."""
        shapes = tuple(program.tensor(a).shape if isinstance(a, str) else repr(a) for a in step.arguments)
        return (step.op, shapes, repr(step.options), step.result.shape)

    def items(self) -> list[Item]:
        """The steps in order, with blocks where they repeat."""
        found: list[Item] = []
        places: dict[int, list[int]] = {}
        for n, kind in enumerate(self.kinds):
            places.setdefault(kind, []).append(n)
        at = 0
        while at < len(self.kinds):
            block = self.block(at, [p - at for p in places[self.kinds[at]] if at < p <= at + MOST_STEPS][:TRIES])
            found.append(at if block is None else block)
            at = at + 1 if block is None else block.end
        return found

    def block(self, begin: int, lengths: Sequence[int]) -> Block | None:
        """The block that begins here and leaves the fewest lines."""
        best: Block | None = None
        for steps in lengths:
            count = self.turns(begin, steps)
            if steps * (count - 1) < WORTH or (
                best is not None and steps * (count - 1) <= best.steps * (best.count - 1)
            ):
                continue
            best = self.named(begin, steps, count) or best
        return best

    def turns(self, begin: int, steps: int) -> int:
        """How many turns of ``steps`` steps follow each other."""
        count = 1
        first = self.kinds[begin : begin + steps]
        while self.kinds[begin + steps * count : begin + steps * (count + 1)] == first and all(
            self.follows(n, steps, begin, count == 1) for n in range(begin + steps * count, begin + steps * (count + 1))
        ):
            count += 1
        return count

    def follows(self, n: int, steps: int, begin: int, second: bool) -> bool:
        """Whether step ``n`` reads what the one a turn before it read, a turn on; the first turn starts outside."""
        if len(self.reads[n]) != len(self.reads[n - steps]):
            return False
        pairs = zip(self.reads[n], self.reads[n - steps], strict=True)
        for place, ((kind, here), (before, there)) in enumerate(pairs):
            if kind == "given":
                if before != "given":
                    return False
            elif not isinstance(here, int):
                return False
            elif before == "step" and (here == there or self.a_turn_on(here, int(there), n, place, steps, begin)):
                continue
            elif not (second and begin <= here < begin + steps and (before == "given" or int(there) < begin)):
                return False
        return True

    def a_turn_on(self, here: int, there: int, n: int, place: int, steps: int, begin: int) -> bool:
        """Whether a turn reads the same step of itself, or the next of alike steps before the block."""
        if there >= begin or here >= begin:
            return there >= begin and here == there + steps
        alike = self.told[here].op == self.told[there].op and self.shapes[here] == self.shapes[there]
        return alike and (n - 2 * steps < begin or self.reads[n - 2 * steps][place] == ("step", 2 * there - here))

    def named(self, begin: int, steps: int, count: int) -> Block | None:
        """The block with one name for what its turns call by several; None where they have nothing in common.

        Two tensors of one turn have two names: where both would be ``out``, they are called as in the last turn.
        """
        called: dict[tuple[str, ...], str] = {}
        varying: list[tuple[str, ...]] = []
        rows: list[tuple[str, ...]] = []
        carries = False
        for n in range(begin, begin + steps):
            turns = tuple(self.told[n + steps * turn].result.name for turn in range(count))
            labels = self.called(turns)
            spoken = [label for label in labels if not UNNAMED.fullmatch(label)]  # the last turn's may go unused
            called[turns] = stem(spoken or labels) or labels[-1]
        for n in range(begin + steps, begin + 2 * steps):
            for place, (kind, read) in enumerate(self.reads[n]):
                carries |= kind == "step" and isinstance(read, int) and begin <= read < begin + steps
                given = tuple(self.names[n + steps * (turn - 1)][place] for turn in range(count))
                labels = self.called(given)
                if isinstance(read, int) and read < begin and len(set(given)) > 1:
                    common = stem(labels)
                    called[given] = common or labels[-1]
                    (varying if common else rows).append(given)
                elif kind == "given":
                    before = self.reads[n - steps][place][0] == kind  # the first turn may begin with another
                    common = (stem(labels) if before else None) or stem(labels[1:])
                    if common is None:
                        return None
                    called[given[1:]] = common
                    varying += [given[1:]] if len(set(given[not before :])) > 1 else []
        names = apart(called, {turns: self.called(turns)[-1] for turns in called})
        if names is None:
            return None
        own = {turns: names[turns[-1]] for turns in called}
        told = (in_turn(self.called(row)) for row in rows)
        return Block(begin, steps, count, names, carries, tuple(dict.fromkeys(own[v] for v in varying)),
                     tuple(dict.fromkeys(told)))  # fmt: skip

    def called(self, names: Sequence[str]) -> list[str]:
        """What some tensors are called."""
        return [self.labels.get(name, name) for name in names]


def apart(called: Mapping[tuple[str, ...], str], last: Mapping[tuple[str, ...], str]) -> dict[str, str] | None:
    """One name for each tensor of rows of them; rows that would be called the same are called as ``last`` says.

    None where one tensor stands in two rows.
    """
    owners: dict[str, set[tuple[str, ...]]] = {}
    for row, common in called.items():
        owners.setdefault(common, set()).add(row)
    found: dict[str, str] = {}
    for row, common in called.items():
        own = common if len(owners[common]) == 1 else last[row]
        if any(found.setdefault(name, own) != own for name in row):
            return None
    return found


def in_turn(labels: Sequence[str]) -> str:
    """``t5, t6, …, t10``"""
    return ", ".join([*labels[:2], "…", labels[-1]] if len(labels) > 3 else labels)


def stem(labels: Sequence[str]) -> str | None:
    """What names have in common that differ in one number: ``h_2``, ``h_3`` are h, ``h.0.w``, ``h.1.w`` are ``h.k.w``.

    >>> stem(["x", "x_2", "x_3"]), stem(["h.0.w", "h.1.w"]), stem(["a", "b"]), stem(["w", "w"])
    ('x', 'h.k.w', None, 'w')
    """
    if len(set(labels)) == 1:
        return labels[0]
    bare = {re.sub(r"_\d+$", "", label) for label in labels}
    if len(bare) == 1:
        return bare.pop()
    if len({NUMBER.sub("0", label) for label in labels}) > 1 or all(map(UNNAMED.fullmatch, labels)):
        return None
    numbers = [NUMBER.findall(label) for label in labels]
    moving = [len({row[n] for row in numbers}) > 1 for n in range(len(numbers[0]))]
    if sum(moving) != 1:
        return None
    place = iter(range(len(moving)))
    return NUMBER.sub(lambda m: "k" if moving[next(place)] else m[0], labels[0])


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
