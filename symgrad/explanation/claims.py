"""What may be said about the structure of a Jacobian: each sentence with the test that it has to pass on the numbers.

Comes in: claims that a formula suggests, strongest first, and J in numbers. Goes out: the first claim that holds. One
whose test fails is not said, and where none holds nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from symgrad.explanation.evidence import Evidence, shape_size
from symgrad.indexing.symbols import Expr
from symgrad.numeric import Array


@dataclass(frozen=True)
class Structure:
    """``kind`` in a word, ``notation`` where J has one, ``says`` in a sentence; empty where nothing is said."""

    kind: str = ""
    notation: str = ""
    says: str = ""

    def __str__(self) -> str:
        return self.notation or self.kind


UNSAID = Structure()

Test = Callable[[Evidence], bool]


@dataclass(frozen=True, eq=False)
class Claim:
    """A structure, and whether J in numbers has it; ``by_shape`` ones are true by the shapes or the formula alone."""

    structure: Structure
    holds: Test
    by_shape: bool = False


def tested(kind: str, notation: str, says: str, holds: Test) -> Claim:
    """A claim that the numbers have to bear out."""
    return Claim(Structure(kind, notation, says), holds)


def certain(kind: str, notation: str, says: str) -> Claim:
    """A claim that the shapes or a formula that is 0 make true."""
    return Claim(Structure(kind, notation, says), lambda e: True, by_shape=True)


def proven(claims: Iterable[Claim], *evidence: Evidence | None) -> Structure:
    """The first of ``claims`` that holds on all numbers; `UNSAID` where none does or nothing could be tested."""
    for claim in claims:
        if claim.by_shape or (evidence and all(e is not None and e.enough and claim.holds(e) for e in evidence)):
            return claim.structure
    return UNSAID


# Tests ----------------------------------------------------------------------------------------------


def both(*tests: Test) -> Test:
    """All of them."""
    return lambda e: all(test(e) for test in tests)


def square(e: Evidence) -> bool:
    """As many rows as columns."""
    return e.shape[0] == e.shape[1]


def in_place(e: Evidence) -> bool:
    """Row r has nothing outside column r, and out the shape of the input."""
    return square(e) and e.out_shape == e.in_shape and all(not np.any(np.delete(row, r)) for r, row in e.rows)


def diagonal_is(text: str) -> Test:
    """The diagonal holds the entries of a tensor, in matrix notation and in the shape of out."""

    def holds(e: Evidence) -> bool:
        value = e.value_of(text)
        if value is None or value.shape != e.out_shape:
            return False
        numbers = value.reshape(-1)
        return all(e.same(row[r], numbers[r]) for r, row in e.rows)

    return holds


def multiple(factor: float) -> Test:
    """A number on the diagonal, 0 elsewhere; the shapes may differ."""
    return lambda e: square(e) and all(e.same(row[r], factor) and not np.any(np.delete(row, r)) for r, row in e.rows)


def ones_in(lines: Iterable[tuple[int, Array]], least: int, most: int) -> bool:
    """Each line holds nothing but 0 and 1, and so many of the latter."""
    return all(bool(np.all((line == 0) | (line == 1))) and least <= np.count_nonzero(line) <= most for _, line in lines)


def permutation(e: Evidence) -> bool:
    """One 1 in each row and each column."""
    return square(e) and ones_in(e.rows, 1, 1) and ones_in(e.columns, 1, 1)


def selection(e: Evidence) -> bool:
    """One 1 in each row."""
    return ones_in(e.rows, 1, 1)


def part(e: Evidence) -> bool:
    """At most one 1 in each row; some rows have one, some have none."""
    counts = {np.count_nonzero(row) for _, row in e.rows}
    return ones_in(e.rows, 0, 1) and counts == {0, 1}


def several_ways(e: Evidence) -> bool:
    """Each column has more than one entry, each row one."""
    return all(np.count_nonzero(c) > 1 for _, c in e.columns) and all(np.count_nonzero(r) == 1 for _, r in e.rows)


def added_up(e: Evidence) -> bool:
    """No row is empty, some have several entries, and those of a row are equal."""
    entries = [row[row != 0] for _, row in e.rows]
    counts = [len(found) for found in entries]
    return max(counts) > 1 and min(counts) > 0 and all(e.same(found, found[:1]) for found in entries)


def all_ones(e: Evidence) -> bool:
    """Nothing but 0 and 1."""
    return ones_in(e.rows, 0, e.shape[1])


def one_at_most(least: int) -> Test:
    """No row has more than one entry that can be nonzero, and each at least so many that were, at some point."""

    def holds(e: Evidence) -> bool:
        if e.possible is None or e.moving is None:
            return all(least <= np.count_nonzero(row) <= 1 for _, row in e.rows)
        can, did = e.possible.sum(axis=1), e.moving.sum(axis=1)
        return bool(can.max() == 1 and did.min() >= least)

    return holds


def blocks(lead: int) -> Test:
    """Nothing across the first axes, which output and input have in common, with more than one place."""
    return lambda e: shape_size(e.out_shape[:lead]) > 1 and in_blocks(e, lead, 0) is not None


def same_blocks(lead: int, trail: int, text: str | None, as_row: bool, several: bool = True) -> Test:
    """I ⊗ M ⊗ I: one block for all places of the first and the last axes, that of the notation, if there is one.

    Without ``several`` they have one place, and J is M.
    """

    def holds(e: Evidence) -> bool:
        rows, columns = (shape[lead : len(shape) - trail] for shape in (e.out_shape, e.in_shape))
        places = shape_size(e.out_shape) // shape_size(rows)
        found = in_blocks(e, lead, trail) if (places > 1) is several else None
        seen: dict[int, list[Array]] = {}
        for place, row in found or ():
            seen.setdefault(place, []).append(row)
        if found is None or not all(e.same(row, same[0]) for same in seen.values() for row in same[1:]):
            return False
        value = e.value_of(text) if text else None
        if value is None:
            return not text
        # A vector stands for a column, a transposed one for a row: what is written may not be laid out otherwise.
        laid_out = value[None, :] if as_row and value.ndim == 1 else value[:, None] if value.ndim == 1 else value
        if laid_out.shape != (shape_size(rows), shape_size(columns)):
            return False
        return all(e.same(same[0], laid_out[place]) for place, same in seen.items())

    return holds


def in_blocks(e: Evidence, lead: int, trail: int) -> list[tuple[int, Array]] | None:
    """For each row its place in its block, and its entries there; None where another block's can be nonzero.

    A block is a place of the first axes and one of the last, which output and input have in common.
    """
    parts = [(s[:lead], s[lead : len(s) - trail], s[len(s) - trail :]) for s in (e.out_shape, e.in_shape)]
    if parts[0][::2] != parts[1][::2]:
        return None
    high, wide = ([shape_size(part) for part in own] for own in parts)
    found = []
    for r, row in e.rows:
        first, place, last = np.unravel_index(r, high)
        own = row.reshape(wide)[first, :, last]
        if np.count_nonzero(own) < np.count_nonzero(row):
            return None
        found.append((int(place), own))
    return found


def every_entry(e: Evidence) -> bool:
    """Every entry can be nonzero, and was at some point."""
    if e.moving is None:
        return all(np.all(row != 0) for _, row in e.rows)
    return bool(e.moving.all())


def none_answers_to_all(e: Evidence) -> bool:
    """Each row has an entry that is 0 whatever the numbers: of places found in the forward pass nobody knows that."""
    return e.possible is not None and not e.found_on_the_way and not bool(e.possible.all(axis=1).any())


def sum_of(first: Expr, one: Test, second: Expr, other: Test) -> Test:
    """The two parts of a sum of formulas, each with a test of its own."""
    return lambda e: e.whole and one(replace(e, formula=first)) and other(replace(e, formula=second))
