"""Several letters as one index: ``(i,r)`` is the number of the place i, r, counted row by row.

Comes in: the slots of a left-hand side, what stands at them, and how far letters run. Goes out: what each letter is,
how long each axis is. A letter that takes one value alone is 0 and makes no row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy as sp

from symgrad.indexing import Index, ravel, unravel
from symgrad.indexing.symbols import Expr
from symgrad.notation.tree import Access, Dots, Letter, Name, Row, Statement, walk
from symgrad.shapes import Shape, Size


def number_of(places: Sequence[Expr], sizes: Sequence[Size]) -> Expr:
    """The number of a place."""
    long = [(place, size) for place, size in zip(places, sizes, strict=True) if size != 1]
    return ravel([place for place, _ in long], tuple(size for _, size in long))


def places_of(number: Expr, sizes: Sequence[Size], whole: bool = False) -> list[Expr]:
    """The place that has this number; undoes `number_of`. A ``whole`` row keeps letters that take one value."""
    if whole:
        return list(unravel(number, tuple(sizes)))
    long = iter(unravel(number, tuple(size for size in sizes if size != 1)))
    return [sp.S.Zero if size == 1 else next(long) for size in sizes]


def letters_at(
    statement: Statement, slots: Sequence[Letter | Dots | Row], at: Sequence[Expr], ranges: Mapping[str, Size]
) -> dict[str, Expr]:
    """What the letters of a left-hand side are at some indices, one for each of its slots."""
    found: dict[str, Expr] = {}
    for slot, index in zip(slots, at, strict=True):
        if isinstance(slot, Row):
            names = names_of(slot)
            places = places_of(index, [ranges[name] for name in names], is_whole(statement, names))
            found |= zip(names, places, strict=True)
        elif isinstance(slot, Letter):
            found[slot.name] = index
    return found


def is_whole(statement: Statement, names: Sequence[str]) -> bool:
    """Whether letters stand side by side in an entry that is read: axes that are joined, as a reshape joins them."""
    reads = (node for node in walk(statement.right) if isinstance(node, Access))
    found = ([slot.name if isinstance(slot, Name) else "" for slot in node.slots] for node in reads)
    return any(each[k : k + len(names)] == list(names) for each in found for k in range(len(each)))


def in_front(
    slots: Sequence[Letter | Dots | Row], at: tuple[Index, ...]
) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
    """The indices that ``…`` stands for on a left-hand side, and those of its other slots."""
    place = next((n for n, slot in enumerate(slots) if isinstance(slot, Dots)), 0)
    stop = len(at) - sum(not isinstance(slot, Dots) for slot in slots) + place
    return at[place:stop], (*at[:place], *at[stop:])


def shape_of(slots: Sequence[Letter | Dots | Row], lead: Shape, found: Mapping[str, Size]) -> Shape:
    """The shape of what has this left-hand side, ``…`` being the axes ``lead``."""
    return tuple(n for slot in slots for n in (lead if isinstance(slot, Dots) else (length_of(slot, found),)))


def sizes_at(slots: Sequence[Letter | Dots | Row], at: Sequence[Expr]) -> dict[str, Size]:
    """How far the letters run that stand alone."""
    each = zip(slots, at, strict=True)
    return {slot.name: i.size for slot, i in each if isinstance(slot, Letter) and isinstance(i, Index)}


def names_of(slot: Letter | Dots | Row) -> tuple[str, ...]:
    """The letters of a slot."""
    each = slot.places if isinstance(slot, Row) else (slot,)
    return tuple(letter.name for letter in each if isinstance(letter, Letter))


def length_of(slot: Letter | Dots | Row, ranges: Mapping[str, Size]) -> Size:
    """How long the axis of a slot is."""
    return sp.Mul(*(ranges[name] for name in names_of(slot)))
