"""Fold repetitions in a program and in its backward: iterations of a loop, layers of a deep network.

Comes in: the steps of a program, or lines of a forward or backward, in order. Goes out: the rows to print, and a
sentence about the others. Two iterations are equal if they differ only in names of tensors and in integers that change
by a constant step, and if each reads the same rows of the iteration before. Then one is printed, with the changes of
the others.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from sympy import Integer

from symgrad.backward import Line
from symgrad.program import Apply, Program
from symgrad.render.wrapping import shorten_list, truncate_end
from symgrad.tracing.captured import Capture
from symgrad.tracing.captured.step_text import StepWriter
from symgrad.tracing.record import frames
from symgrad.tracing.record.names import parse_one

WORTH = 4
"""The least number of lines that folding must save."""
LEAST = 3
"""The least number of iterations to fold: two do not show what a third would read."""
TRIES = 24
"""The most lengths of an iteration to try at one place."""
NAMED = 3
"""The most names of other iterations that are printed before the last one."""
NUMBER, WORD = re.compile(r"\d+"), re.compile(r"[^\W\d]\w*")
VIEW = re.compile(r"[^\W\d]\w*\.\w+\([\d, ()-]*\)")
"""Matches a name that is a view of a tensor, as the input that the first of several layers reads."""
UNNAMED = re.compile(r"(\w_)?t|.*\.(?!grad$)\w+")
"""Matches generated names without their numbers: our own, and those of modules."""
DEPTH = 2
"""The most steps between parts of a tensor and the rows that read them."""
LONGEST = 60
"""The most characters of a quoted loop header."""


@dataclass(frozen=True)
class FoldingRow:
    """A step or a line: its ``kind`` is everything but the names of tensors and integers.

    ``names`` are the tensors, first the result; ``spoken`` returns the text for one of the ``numbers``, the subscript
    that contains it.
    """

    kind: Hashable
    names: tuple[str, ...]
    numbers: tuple[int, ...] = ()
    spoken: Callable[[int], str] = str


def make_folding_row(line: Line, text: str, labels: Mapping[str, str]) -> FoldingRow:
    """Return the row of a line; ``text`` is its printed form, ``labels`` are printed names by names in code."""
    own, written = str(line), line.code or line.text or ""  # what torch gives has no code of its own
    views = {name: label for name, label in labels.items() if VIEW.fullmatch(label)}
    written = WORD.sub(lambda found: views.get(found[0], found[0]), written)
    labels = {**labels, **{own: own for own in (label.partition(".")[0] for label in views.values())}}
    code, tree = written.encode(), parse_one(written)
    if tree is None or not (text == line.shown or text.startswith(own)):
        return FoldingRow(text, (line.target,))
    place, nodes = attrgetter("col_offset"), [*ast.walk(tree)]
    names = sorted((n for n in nodes if isinstance(n, ast.Name) and n.id in labels), key=place)
    numbers = sorted((n for n in nodes if isinstance(n, ast.Constant) and type(n.value) is int), key=place)
    found = sorted((*names, *numbers), key=place)
    ends = [0, *(node.end_col_offset or 0 for node in found)]
    between = (*(code[end : node.col_offset] for end, node in zip(ends, found, strict=False)), code[ends[-1] :])
    around = [node for node in ast.walk(tree) if isinstance(node, ast.Subscript)]  # outer ones first
    inside = {id(part): node for node in around for part in ast.walk(node.slice)}
    return FoldingRow(
        (between, text.removeprefix(own) if text.startswith(own) else ""),
        (line.target, *(node.id for node in names)),
        tuple(int(str(node.value)) for node in numbers),
        lambda place: write_subscript(code, numbers[place], inside.get(id(numbers[place])), labels),
    )


def write_subscript(code: bytes, number: ast.expr, around: ast.Subscript | None, labels: Mapping[str, str]) -> str:
    """Return the subscript that contains a number, with the name of the tensor."""
    if around is None:
        return code[number.col_offset : number.end_col_offset].decode()
    name = labels.get(around.value.id, "") if isinstance(around.value, ast.Name) else ""
    return name + code[around.value.end_col_offset : around.end_col_offset].decode()


# Turns ----------------------------------------------------------------------------------------------------


class Folding:
    """Rows in order; ``labels`` are printed names, ``given`` the tensors whose names distinguish iterations.

    Of a forward pass the ``last`` iteration is printed, of a backward the first: these are the same layer.
    """

    def __init__(
        self, rows: Sequence[FoldingRow], labels: Mapping[str, str], given: Collection[str], last: bool = False
    ) -> None:
        self.rows, self.labels, self.given, self.last = rows, labels, given, last
        self.makers = {row.names[0]: n for n, row in enumerate(rows)}

    def items(self) -> Iterator[int | tuple[range, str]]:
        """Iterate over the numbers of rows to print, and over folded iterations with a sentence about them."""
        places: dict[Hashable, list[int]] = {}
        for n, row in enumerate(self.rows):
            places.setdefault(row.kind, []).append(n)
        at = 0
        while at < len(self.rows):
            alike = places[self.rows[at].kind]
            after = bisect(alike, at)
            lengths = [place - at for place in alike[after : after + TRIES]]
            counts = [(steps, n) for steps in lengths if self.are_enough(at, steps, n := self.turns(at, steps))]
            steps, count = max(counts, key=lambda pair: (pair[0] * (pair[1] - 1), -pair[0]), default=(1, 1))
            if steps * (count - 1) < WORTH:
                yield at
                at += 1
                continue
            shown = range(at + steps * (count - 1), at + steps * count) if self.last else range(at, at + steps)
            head = shown, self.others(at, steps, count)
            yield from (head, *shown) if self.last else (*shown, head)
            at += steps * count

    def turns(self, begin: int, steps: int) -> int:
        """Return the number of equal iterations of ``steps`` rows from ``begin`` on.

        If the ``last`` iteration is printed, the second may read one tensor where the first read two from outside.
        """
        rows, count = self.rows, 1
        while begin + (count + 1) * steps <= len(rows):
            renamed: dict[str, str] = {}
            for n in range(begin + count * steps, begin + (count + 1) * steps):
                before, here = rows[n - steps], rows[n]
                if before.kind != here.kind or len(before.names) != len(here.names):
                    return count
                if count > 1 and not continues_evenly(rows[n - 2 * steps].numbers, before.numbers, here.numbers):
                    return count
                if not have_similar_names(self.label(before.names[0]), self.label(here.names[0])):
                    return count
                for place, (old, new) in enumerate(zip(before.names, here.names, strict=True)):
                    if renamed.setdefault(old, new) != new:
                        return count
                    if self.a_turn_on(old, new, begin, steps, count == 1):
                        continue
                    if self.makers.get(new, begin) >= begin or not self.in_a_row(old, new):
                        return count
                    read = [rows[n - 2 * steps].names[place], old, new] if count > 1 else []
                    if read and not continues_evenly(*([self.makers.get(name, -1)] for name in read)):
                        return count  # one of a row after the other, by the same step
            outside = self.last and count == 1
            own = [new for old, new in renamed.items() if self.makers.get(old, -1) >= begin or not outside]
            if len(set(own)) < len(own):
                return count
            count += 1
        return count

    def label(self, name: str) -> str:
        """Return the printed name of a tensor."""
        return self.labels.get(name, name)

    def a_turn_on(self, old: str, new: str, begin: int, steps: int, second: bool) -> bool:
        """Whether an iteration reads the next iteration's counterpart of ``old``; the first one reads from outside."""
        made, anew = self.makers.get(old, -1), self.makers.get(new, -1)
        if made >= begin:
            return anew == made + steps
        if anew >= begin:
            return second and anew < begin + steps
        return old == new or made == anew == -1

    def in_a_row(self, old: str, new: str, depth: int = DEPTH) -> bool:
        """Whether two rows differ only in numbers: they are parts of one tensor, or computed alike from such parts."""
        made, anew = (self.rows[self.makers[name]] if name in self.makers else None for name in (old, new))
        if made is None or anew is None or made.kind != anew.kind or len(made.names) != len(anew.names):
            return False
        read = zip(made.names[1:], anew.names[1:], strict=True)
        return all(one == other or (depth > 0 and self.in_a_row(one, other, depth - 1)) for one, other in read)

    def are_enough(self, begin: int, steps: int, count: int) -> bool:
        """Whether so many iterations are folded: two only if they differ in one indexed part of a network."""
        if count != 2:
            return count >= LEAST
        rows, counted = self.changes(begin, steps, count)
        return len(rows) == 1 and not counted and rows[0][0].endswith("]")

    def others(self, begin: int, steps: int, count: int) -> str:
        """Return a sentence about what the other iterations read in place of the printed one."""
        times = f"{count - 1} times" if count > 2 else "once"
        told = f"{times} first" if self.last else f"{times} more"
        changing, counted = self.changes(begin, steps, count)
        for turn, row in enumerate([*changing, *counted]):
            rest, own = (row[:-1], row[-1]) if self.last else (row[1:], row[0])
            names = rest if len(rest) <= NAMED + 1 else [*rest[:NAMED], "…", rest[-1]]
            told += f"{' and' if turn else ', with'} {', '.join(names)} in place of {own}"
        return f"{told}; then:" if self.last else told

    def changes(self, begin: int, steps: int, count: int) -> tuple[list[list[str]], list[list[str]]]:
        """Return the given names that change between iterations, and the numbers that do."""
        given = {*self.given, *(row.names[0] for row in self.rows[:begin])}
        rows: dict[tuple[str, ...], None] = {}
        counted: dict[tuple[str, ...], None] = {}
        for n in range(begin, begin + steps):
            turns = [self.rows[n + steps * turn] for turn in range(count)]
            for names in zip(*(row.names[1:] for row in turns), strict=True):
                if len(set(names)) > 1 and given.issuperset(names):
                    rows.setdefault(tuple(map(self.label, names)))
            for place, number in enumerate(turns[0].numbers):
                if turns[1].numbers[place] != number:
                    counted.setdefault(tuple(row.spoken(place) for row in turns))
        return common_changes(list(rows)), [*map(list, counted)]


def write_turns(said: tuple[range, str], what: str, place: str = "") -> str:
    """Write ``… these 5 lines 3 times more, with w6, w5, w4 in place of w7``."""
    shown, told = said
    which = f"this {what}" if len(shown) == 1 else f"these {len(shown)} {what}s"
    return f"… {which}{place} {told}"


def have_similar_names(old: str, new: str) -> bool:
    """Whether two results may be the same variable: their names differ only in a number, or one is generated.

    >>> have_similar_names("h_2", "h_11"), have_similar_names("v_t3", "v_x"), have_similar_names("q", "k")
    (True, True, False)
    """
    one, other = (NUMBER.sub("", re.sub(r"_\d+\b", "", name)) for name in (old, new))
    return one == other or bool(UNNAMED.fullmatch(one) or UNNAMED.fullmatch(other))


def continues_evenly(first: Sequence[int], second: Sequence[int], third: Sequence[int]) -> bool:
    """Whether each number changes by the same step from first to second and from second to third."""
    return all(c - b == b - a for a, b, c in zip(first, second, third, strict=True))


def common_changes(rows: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """Return the indexed prefix in which all names differ (``h[11]``, ``h[10]``, …), else the first rows."""
    heads = [[changing_prefix(name, row) for name in row] for row in rows]
    if rows and all(head == heads[0] for head in heads) and len(set(heads[0])) == len(heads[0]):
        return heads[:1]
    return [*map(list, rows[:NAMED])]


def changing_prefix(name: str, row: Sequence[str]) -> str:
    """Return the name up to the number that changes along a row of names."""
    numbers = [NUMBER.findall(other) for other in row]
    if len({len(found) for found in numbers}) == 1:
        moving = [n for n in range(len(numbers[0])) if len({found[n] for found in numbers}) > 1]
        if len(moving) == 1:
            end = list(NUMBER.finditer(name))[moving[0]].end()
            return name[:end] + "]" * name.startswith("]", end)
    return name


# What is folded -------------------------------------------------------------------------------------------


def fold_lines(lines: Sequence[tuple[str, Line]], labels: Mapping[str, str], given: Collection[str], last: bool = False
) -> list[tuple[str, Line | None]]:  # fmt: skip
    """Return pairs of printed text and line, with equal iterations folded; sentences about them have no line."""
    folding = Folding([make_folding_row(line, text, labels) for text, line in lines], labels, given, last)
    return [lines[item] if isinstance(item, int) else (write_turns(item, "line"), None) for item in folding.items()]


def list_folded_program(program: Capture) -> tuple[str, ...]:
    """Return the lines of a program: one for each step, with repetitions folded and their place in the script."""
    told, lines = program.told, StepWriter(program)
    shown = {step.result.name for step in told}
    makers = program.recording.makers

    def read(name: str) -> str:
        """Return the tensor that is printed in place of one that was only broadcast."""
        while name not in shown and name in makers and makers[name].tensors:
            name = makers[name].tensors[0]
        return name

    def row(step: Apply) -> FoldingRow:
        """Return the row of a step."""
        kind, numbers = step_kind(step, program.recording)
        names = (step.result.name, *map(read, step.tensors))
        return FoldingRow(kind, names, numbers, lambda place: lines.text(step).partition(" = ")[2])

    rows = [*map(row, told)]
    folding = Folding(rows, program.labels, {tensor.name for tensor in program.recording.inputs}, last=True)
    return tuple(
        shorten_list(lines.text(told[item]))
        if isinstance(item, int)
        else write_turns(item, "step", locate_turn([told[n] for n in item[0]], program))
        for item in folding.items()
    )


def step_kind(step: Apply, program: Program) -> tuple[Hashable, tuple[int, ...]]:
    """Return a step's operation, options and shapes without integers, and the integers of its options."""
    shapes = tuple(program.tensor(a).shape if isinstance(a, str) else repr(a) for a in step.arguments)
    numbers: list[int] = []

    def without_numbers(option: Any) -> Hashable:
        if isinstance(option, tuple):
            return tuple(map(without_numbers, option))
        if isinstance(option, bool) or not isinstance(option, (int, Integer)):
            return repr(option)
        numbers.append(int(option))
        return int

    return (step.op, shapes, without_numbers(step.options), step.result.shape), tuple(numbers)


def locate_turn(turn: Sequence[Apply], program: Capture) -> str:
    """Write ``, lines 19 to 23 in “for t in x.split(1)”,``."""
    found = {program.lines[step.result.name] for step in turn if step.result.name in program.lines}
    files = {where.file for where in found}
    if len(files) != 1:
        return ""
    (file,), numbers = files, sorted({where.line for where in found})
    place = f", line {numbers[0]}" if len(numbers) == 1 else f", lines {numbers[0]} to {numbers[-1]}"
    place += "" if program.file in ("", file) else f" of {file.rpartition('/')[2]}"
    loop = frames.find_enclosing_loop(file, numbers[0], numbers[-1])
    return f"{place} in “{truncate_end(loop, LONGEST)}”," if loop is not None else f"{place},"
