"""The lines of a deep network's backward: each gradient where it can be computed, equal layers once.

Comes in: lines as text, from the output back. Goes out: fewer of them. Two turns are equal if one is the other under
other names of tensors, with whole numbers that are the same or go on by the same step, and if what a turn reads from
the one before it is the same line of it each time; then the first is told, and of the others what changes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from symgrad.backward import Backward, Line

WORTH = 4
"""Lines that folding has to save."""
LEAST = 3
"""Turns that are folded: of two nobody could say what a third one reads of the second."""
TRIES = 24
"""Lengths of a turn that are tried at one place."""
NAMED = 3
"""Names of later turns that are written before the last."""
NAME = re.compile(r"(?<![\w.'])[A-Za-z_0-9](?:[\w.]|\[\d+\])*")
PART = re.compile(r"\.?\w*|\[\d+\]")
NUMBER = re.compile(r"\d+")
UNNAMED = re.compile(r"(\w_)?t")
"""What is left of our own names without their numbers."""
WHOLE = re.compile(r"(?<![\w.])\d+(?![\w.])")
SUBSCRIPT = re.compile(r"\[[^][]*\]|\d+")


def woven(lines: Backward, forms: Mapping[str, str], also: Sequence[Line]) -> list[str]:
    """Every cotangent, and behind the last one that it needs each gradient; ``also`` stands before it is read."""
    waiting = {line.target: line for line in also}
    place = {line.of: n for n, line in enumerate(lines.lines)}
    behind: dict[int, list[Line]] = {}
    for line in lines.gradients.values():
        behind.setdefault(max((place[of] for of in line.through if of in place), default=-1), []).append(line)
    told: list[str] = []

    def tell(line: Line) -> None:
        for name in sorted(line.names & waiting.keys()):
            if name in waiting:
                tell(waiting.pop(name))
        label = line.name.removesuffix(".grad")
        if line.name.endswith(".grad") and label in forms:
            told.append(f"{line.name} = {forms[label]}")
        elif line.is_told:
            told.append(line.shown)

    for n in range(-1, len(lines.lines)):
        if n >= 0:
            tell(lines.lines[n])
        for line in behind.get(n, ()):
            tell(line)
    return told


@dataclass(frozen=True)
class Words:
    """One line: what it says but for names of tensors and whole numbers; ``names``, the first the one it makes.

    ``spoken`` is what a number is told by, the subscript that it stands in.
    """

    kind: str
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    spoken: tuple[str, ...]


def words(line: str, known: Collection[str]) -> Words:
    """A line taken apart; ``known`` are the names of tensors."""
    names = []

    def taken(match: re.Match[str]) -> str:
        parts = PART.findall(match[0])
        for count in range(len(parts), 0, -1):  # fc[1].weight, of fc[1].weight.T
            name = "".join(parts[:count])
            if name.removesuffix(".grad") in known:
                names.append(name)
                return "".join(["·", *parts[count:]])
        return match[0]

    kind = NAME.sub(taken, line)
    found = list(WHOLE.finditer(kind))
    parts = [(part.span(), spoken(kind, part, names)) for part in SUBSCRIPT.finditer(kind)]
    told = tuple(next(text for (begin, end), text in parts if begin <= n.start() < end) for n in found)
    return Words(WHOLE.sub("#", kind), tuple(names), tuple(int(n[0]) for n in found), told)


def spoken(kind: str, part: re.Match[str], names: Sequence[str]) -> str:
    """A subscript with the name that it stands behind; ``kind`` has a dot for each of the ``names``."""
    before = kind[: part.start()]
    return f"{names[before.count('·') - 1]}{part[0]}" if before.endswith("·") else part[0]


def folded(
    lines: Sequence[str], tensors: Collection[str], given: Collection[str], last: bool = False
) -> list[tuple[str, int | None]]:
    """``lines`` with equal turns once, each with its number; what is said of the other turns has none.

    ``given`` are the ``tensors`` by which turns are told apart. Of the forward pass the ``last`` turn is told, of the
    backward the first one: those are the same layer.

    >>> names, given = {f"{w}{n}" for w in ("v", "w") for n in range(9)}, {f"w{n}" for n in range(9)}
    >>> for line, _ in folded([f"v{n} = v{n + 1} @ w{n}" for n in range(7, 0, -1)], names, given): print(line)
    v7 = v8 @ w7
    … this line 6 times more, with w6, w5, w4, …, w1 for w7
    """
    apart = [words(line, tensors) for line in lines]
    makers = {word.names[0]: n for n, word in enumerate(apart) if word.names}
    places: dict[str, list[int]] = {}
    for n, word in enumerate(apart):
        places.setdefault(word.kind, []).append(n)
    told: list[tuple[str, int | None]] = []
    at = 0
    while at < len(lines):
        lengths = [place - at for place in places[apart[at].kind] if place > at][:TRIES]
        counts = [(steps, n) for steps in lengths if (n := turns(apart, makers, at, steps, last)) >= LEAST]
        steps, count = max(counts, key=lambda pair: (pair[0] * (pair[1] - 1), -pair[0]), default=(1, 1))
        if steps * (count - 1) < WORTH:
            told.append((lines[at], at))
            at += 1
            continue
        shown = at + steps * (count - 1) if last else at
        block: list[tuple[str, int | None]] = [(lines[n], n) for n in range(shown, shown + steps)]
        head = others(apart, at, steps, count, {*given, *(word.names[0] for word in apart[:at] if word.names)}, last)
        told += [(head, None), *block] if last else [*block, (head, None)]
        at += steps * count
    return told


def turns(apart: Sequence[Words], makers: Mapping[str, int], begin: int, steps: int, last: bool) -> int:
    """How many turns of ``steps`` lines follow each other, the first included.

    Two things from outside may be one of the turn before in the second turn, where the ``last`` turn is told.
    """
    count = 1
    while begin + (count + 1) * steps <= len(apart):
        renamed: dict[str, str] = {}
        for n in range(begin + count * steps, begin + (count + 1) * steps):
            before, here = apart[n - steps], apart[n]
            if before.kind != here.kind or len(before.names) != len(here.names):
                return count
            if count > 1 and not goes_on(apart[n - 2 * steps].numbers, before.numbers, here.numbers):
                return count
            if here.names and not akin(before.names[0], here.names[0]):
                return count
            for old, new in zip(before.names, here.names, strict=True):
                if renamed.setdefault(old, new) != new:
                    return count
                if a_turn_on(old, new, makers, begin, steps, count == 1):
                    continue
                if makers.get(new, begin) >= begin or not in_a_row(apart, makers, old, new):
                    return count
        own = [new for old, new in renamed.items() if makers.get(old, -1) >= begin or not last or count > 1]
        if len(set(own)) < len(own):
            return count
        count += 1
    return count


def akin(old: str, new: str) -> bool:
    """Whether what two turns make may have one name: nothing but a number apart, or one of them is nobody's name.

    >>> akin("h_2", "h_11"), akin("v_t3", "v_x"), akin("q", "k")
    (True, True, False)
    """
    one, other = (NUMBER.sub("", re.sub(r"_\d+\b", "", name)) for name in (old, new))
    return one == other or bool(UNNAMED.fullmatch(one) or UNNAMED.fullmatch(other))


def goes_on(first: Sequence[int], second: Sequence[int], third: Sequence[int]) -> bool:
    """Whether each number is as far from the second turn to the third as from the first to the second."""
    return all(c - b == b - a for a, b, c in zip(first, second, third, strict=True))


def a_turn_on(old: str, new: str, makers: Mapping[str, int], begin: int, steps: int, second: bool) -> bool:
    """Whether what a turn reads is what the one before it read, a turn on; the first turn starts from outside."""
    made, anew = makers.get(old, -1), makers.get(new, -1)
    if made >= begin:
        return anew == made + steps
    if anew >= begin:
        return second and anew < begin + steps
    return old == new or made == anew == -1


def in_a_row(apart: Sequence[Words], makers: Mapping[str, int], old: str, new: str) -> bool:
    """Whether two lines are the same but for their numbers: parts of one thing."""
    made, anew = (apart[makers[name]] if name in makers else None for name in (old, new))
    return made is not None and anew is not None and (made.kind, made.names[1:]) == (anew.kind, anew.names[1:])


def others(apart: Sequence[Words], begin: int, steps: int, count: int, given: Collection[str], last: bool) -> str:
    """What the other turns read in the place of what this one does, by the number in which the names differ."""
    which = "this line" if steps == 1 else f"these {steps} lines"
    rows: dict[tuple[str, ...], None] = {}
    for n in range(begin, begin + steps):
        for place in range(len(apart[n].names)):
            row = [apart[n + steps * turn].names[place] for turn in range(count)]
            if place and len(set(row)) > 1 and all(other in given for other in row):
                rows.setdefault(tuple(row))
    counted: dict[tuple[str, ...], None] = {}
    for n in range(begin, begin + steps):
        for place, number in enumerate(apart[n].numbers):
            if apart[n + steps].numbers[place] != number:
                counted.setdefault(tuple(apart[n + steps * turn].spoken[place] for turn in range(count)))
    told = f"… {which} {count - 1} times {'before' if last else 'more'}"
    changing = [common(list(rows))] if rows else []
    for turn, row in enumerate([*changing, *map(list, counted)]):
        rest, own = (row[:-1], row[-1]) if last else (row[1:], row[0])
        told += f"{' and' if turn else ', with'} {listed(rest)} for {own}"
    return f"{told}; then:" if last else told


def common(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The one part in which all names differ from turn to turn (``h[11]``, ``h[10]``, …), else the first row."""
    heads = [[prefix(name, row) for name in row] for row in rows]
    if all(head == heads[0] for head in heads) and len(set(heads[0])) == len(heads[0]):
        return heads[0]
    return list(rows[0])


def prefix(name: str, row: Sequence[str]) -> str:
    """The name up to the number that changes along a row of names."""
    numbers = [NUMBER.findall(other) for other in row]
    if len({len(found) for found in numbers}) == 1:
        moving = [n for n in range(len(numbers[0])) if len({found[n] for found in numbers}) > 1]
        if len(moving) == 1:
            end = list(NUMBER.finditer(name))[moving[0]].end()
            return name[:end] + "]" * name.startswith("]", end)
    return name


def listed(names: Sequence[str]) -> str:
    """``w6, w5, w4, …, w1``"""
    return ", ".join(names) if len(names) <= NAMED + 1 else f"{', '.join(names[:NAMED])}, …, {names[-1]}"
