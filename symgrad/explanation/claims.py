"""Claims about the structure of a Jacobian, each with the test that it must pass on the numbers.

Comes in: claims that a formula suggests, strongest first, and J in numbers. Goes out: the first claim that holds; none
if all fail.
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
    """The structure of J: ``kind`` is a word, ``notation`` a formula, ``says`` a sentence; all may be empty."""

    kind: str = ""
    notation: str = ""
    says: str = ""

    def __str__(self) -> str:
        return self.notation or self.kind


UNSAID = Structure()

Test = Callable[[Evidence], bool]


@dataclass(frozen=True, eq=False)
class Claim:
    """A structure and its test on numbers; ``by_shape``: it follows from the shapes or the formula, without a test."""

    structure: Structure
    holds: Test
    by_shape: bool = False


def tested_claim(kind: str, notation: str, says: str, holds: Test) -> Claim:
    """Return a claim that is tested on the numbers."""
    return Claim(Structure(kind, notation, says), holds)


def certain_claim(kind: str, notation: str, says: str) -> Claim:
    """Return a claim that is true by the shapes, or because the formula is 0."""
    return Claim(Structure(kind, notation, says), lambda e: True, by_shape=True)


def choose_proven(claims: Iterable[Claim], *evidence: Evidence | None) -> Structure:
    """Return the first of ``claims`` that holds for all evidence; `UNSAID` if none does or nothing can be tested."""
    for claim in claims:
        if claim.by_shape or (evidence and all(e is not None and e.enough and claim.holds(e) for e in evidence)):
            return claim.structure
    return UNSAID


# Tests ----------------------------------------------------------------------------------------------


def passes_all(*tests: Test) -> Test:
    """Return the test that all of ``tests`` pass."""
    return lambda e: all(test(e) for test in tests)


def is_square(e: Evidence) -> bool:
    """Whether J has as many rows as columns."""
    return e.shape[0] == e.shape[1]


def is_diagonal(e: Evidence) -> bool:
    """Whether row r is 0 outside column r, and out has the shape of the input."""
    return is_square(e) and e.out_shape == e.in_shape and all(not np.any(np.delete(row, r)) for r, row in e.rows)


def diagonal_is(text: str) -> Test:
    """Return the test that the diagonal has the entries of ``text``, a tensor with the shape of out."""

    def holds(e: Evidence) -> bool:
        value = e.value_of(text)
        if value is None or value.shape != e.out_shape:
            return False
        numbers = value.reshape(-1)
        return all(e.same(row[r], numbers[r]) for r, row in e.rows)

    return holds


def is_multiple_of_identity(factor: float) -> Test:
    """Return the test that J is ``factor`` on the diagonal and 0 elsewhere; shapes of out and input may differ."""
    return lambda e: is_square(e) and all(e.same(row[r], factor) and not np.any(np.delete(row, r)) for r, row in e.rows)


def ones_in(lines: Iterable[tuple[int, Array]], least: int, most: int) -> bool:
    """Whether each line has only 0 and 1, with ``least`` to ``most`` ones."""
    return all(bool(np.all((line == 0) | (line == 1))) and least <= np.count_nonzero(line) <= most for _, line in lines)


def is_permutation(e: Evidence) -> bool:
    """Whether there is one 1 in each row and each column."""
    return is_square(e) and ones_in(e.rows, 1, 1) and ones_in(e.columns, 1, 1)


def is_selection(e: Evidence) -> bool:
    """Whether there is one 1 in each row."""
    return ones_in(e.rows, 1, 1)


def is_partial_selection(e: Evidence) -> bool:
    """Whether some rows have one 1, and the others are 0."""
    counts = {np.count_nonzero(row) for _, row in e.rows}
    return ones_in(e.rows, 0, 1) and counts == {0, 1}


def has_copies(e: Evidence) -> bool:
    """Whether each column has several nonzero entries, and each row one."""
    return all(np.count_nonzero(c) > 1 for _, c in e.columns) and all(np.count_nonzero(r) == 1 for _, r in e.rows)


def has_equal_entries_per_row(e: Evidence) -> bool:
    """Whether the nonzero entries of each row are equal, no row is 0, and some row has several."""
    entries = [row[row != 0] for _, row in e.rows]
    counts = [len(found) for found in entries]
    return max(counts) > 1 and min(counts) > 0 and all(e.same(found, found[:1]) for found in entries)


def has_only_ones(e: Evidence) -> bool:
    """Whether all entries are 0 or 1."""
    return ones_in(e.rows, 0, e.shape[1])


def has_one_per_row(least: int) -> Test:
    """Return the test that no row has more than one possible nonzero, and each has at least ``least`` seen ones."""

    def holds(e: Evidence) -> bool:
        if e.possible is None or e.moving is None:
            return all(least <= np.count_nonzero(row) <= 1 for _, row in e.rows)
        can, did = e.possible.sum(axis=1), e.moving.sum(axis=1)
        return bool(can.max() == 1 and did.min() >= least)

    return holds


def has_blocks(lead: int) -> Test:
    """Return the test that J is block-diagonal over the first ``lead`` axes, with more than one block."""
    return lambda e: shape_size(e.out_shape[:lead]) > 1 and split_into_blocks(e, lead, 0) is not None


def has_same_blocks(lead: int, trail: int, text: str | None, as_row: bool, several: bool = True) -> Test:
    """Return the test for I ⊗ M ⊗ I: all blocks over the first and last axes are equal, and equal to ``text`` if given.

    Without ``several`` there is one block, and J is M.
    """

    def holds(e: Evidence) -> bool:
        rows, columns = (shape[lead : len(shape) - trail] for shape in (e.out_shape, e.in_shape))
        places = shape_size(e.out_shape) // shape_size(rows)
        found = split_into_blocks(e, lead, trail) if (places > 1) is several else None
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


def split_into_blocks(e: Evidence, lead: int, trail: int) -> list[tuple[int, Array]] | None:
    """Return for each row its position in its block and its entries there; None if there are nonzeros outside blocks.

    A block belongs to one index of the first axes and one of the last axes, which output and input share.
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


def is_every_entry_nonzero(e: Evidence) -> bool:
    """Whether every entry was nonzero at some point."""
    if e.moving is None:
        return all(np.all(row != 0) for _, row in e.rows)
    return bool(e.moving.all())


def has_zero_in_each_row(e: Evidence) -> bool:
    """Whether each row has an entry that is 0 for all numbers; unknown for positions from the forward pass."""
    return e.possible is not None and not e.found_on_the_way and not bool(e.possible.all(axis=1).any())


def holds_for_summands(first: Expr, one: Test, second: Expr, other: Test) -> Test:
    """Return the test that two summands of the formula each pass their test."""
    return lambda e: e.whole and one(replace(e, formula=first)) and other(replace(e, formula=second))
