"""Two calls of one line: did they run the same program, and if nearly, what is different.

Comes in: what was told of each, lines and the shapes of what was given. Goes out: the differences in words (a
smaller batch, another number of turns, another constant), none for the same program, or None for another one. Names
may be numbered otherwise, but one stands for one throughout; sizes and numbers may differ in a few places.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from symgrad.tracing.captured.words import shape_text

TOKEN = re.compile(r"[^\W\d][\w.]*(?:\[\d+\])?|\d+\.?\d*(?:e[-+]?\d+)?|\S")
Given = Sequence[tuple[str, tuple[int, ...]]]
MOST = 3
"""More differences than this are another program."""
KEPT = 12
"""Programs of one line that later ones are held against: a loop of random depth has a few."""


@dataclass(frozen=True)
class Outline:
    """The lines of a program, and each thing given with its shape."""

    lines: tuple[str, ...]
    given: Given


def nearest(told: Sequence[tuple[int, Outline]], after: Outline) -> tuple[int, tuple[str, ...]] | None:
    """Of the calls ``told`` the last with the least that is different, and what that is."""
    found = [(number, said) for number, before in told if (said := unlike(before, after)) is not None]
    if not found:
        return None
    number, said = min(reversed(found), key=lambda each: len(each[1]))
    return number, said if number == told[-1][0] else (f"as in call {number}", *said)


def unlike(before: Outline, after: Outline) -> tuple[str, ...] | None:
    """What is different, in words; None for another program."""
    if len(before.lines) != len(after.lines):
        return None
    said: list[str] = []
    names: dict[str, str] = {}
    back: dict[str, str] = {}
    for one, other in zip(before.lines, after.lines, strict=True):
        first, second = TOKEN.findall(one), TOKEN.findall(other)
        if len(first) != len(second):
            return None
        for n, (a, b) in enumerate(zip(first, second, strict=True)):
            if a[0].isalpha() or a[0] == "_":
                if stem(a) != stem(b) or names.setdefault(a, b) != b or back.setdefault(b, a) != a:
                    return None
            elif a != b:
                if not (a[0].isdigit() and b[0].isdigit()):
                    return None
                turns = n > 0 and first[n - 1] == "×"
                sign = "-" if n > 0 and first[n - 1] == "-" else ""
                a, b = in_few_digits(a, b)
                said.append(f"{b} turns instead of {a}" if turns else f"{sign}{b} instead of {sign}{a}")
    shapes = other_shapes(before.given, after.given)
    if shapes is None:
        return None
    found = tuple(dict.fromkeys([*shapes, *said]))
    if len(found) > MOST:
        return None
    rows = [text.replace(" rows", "") for text in shapes if " rows" in text]
    return tuple(text for text in found if text not in rows)  # a size that an option repeats is said once


def in_few_digits(first: str, second: str) -> tuple[str, str]:
    """Two numbers with as many digits as tell them apart; whole numbers as they are.

    >>> in_few_digits("0.55", "0.6050000000000001"), in_few_digits("0.30000000000000004", "0.3")
    (('0.55', '0.605'), ('0.30000000000000004', '0.3'))
    """
    for digits in range(3, 17):
        found = [text if text.isdigit() else f"{float(text):.{digits}g}" for text in (first, second)]
        if float(found[0]) != float(found[1]):
            return found[0], found[1]
    return first, second


def other_shapes(before: Given, after: Given) -> list[str] | None:
    """The shapes that differ; None where other things are given."""
    old, new = by_stem(before), by_stem(after)
    if list(old) != list(new):
        return None
    changed = [(name, old[name], new[name]) for name in old if old[name] != new[name]]
    if any(len(a) != len(b) or any(len(x) != len(y) for x, y in zip(a, b, strict=True)) for _, a, b in changed):
        return None
    pairs = {(x[0], y[0]) for _, a, b in changed for x, y in zip(a, b, strict=True) if x != y and x}
    rest = all(x[1:] == y[1:] for _, a, b in changed for x, y in zip(a, b, strict=True))
    if len(pairs) == 1 and rest:
        ((a, b),) = pairs
        return [f"{b} row{'' if b == 1 else 's'} instead of {a}"]
    return [
        f"{name} {shape_text(y)} instead of {shape_text(x)}"
        for name, a, b in changed
        for x, y in zip(a, b, strict=True)
        if x != y
    ]


def by_stem(given: Given) -> dict[str, list[tuple[int, ...]]]:
    """The different shapes of what has one name but for its number."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for name, shape in given:
        shapes = found.setdefault(stem(name), [])
        if shape not in shapes:
            shapes.append(shape)
    return found


def stem(name: str) -> str:
    """A name without the number that tells it from others of its kind.

    >>> stem("h_12"), stem("t7"), stem("rewards[3]"), stem("conv1.weight")
    ('h', 't', 'rewards', 'conv1.weight')
    """
    return re.sub(r"_\d+$|(?<=^t)\d+$|\[\d+\]$", "", name)
