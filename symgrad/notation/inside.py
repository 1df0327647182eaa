"""Whether every entry of an equation stays inside its tensor: what that requires of sizes, or the refusal.

Comes in: a statement and the shapes of its tensors. Goes out: how far its letters run, where nothing is read outside.
Whether an index can leave its axis is decided by its least value over the whole numbers that its letters may be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

import sympy as sp

from symgrad.errors import ShapeError, Span
from symgrad.indexing.symbols import Expr
from symgrad.notation.linear import letters_in
from symgrad.notation.sizes import Bent, Finder, Ranges, Slot
from symgrad.notation.tree import Access, Binary, Flat, Floor, Negative, Node, Statement
from symgrad.notation.write import written
from symgrad.shapes import Shape, Size, Sizes

Ends = tuple[Expr, Expr]
ENDS = ("before the beginning", "after the end")


def checked(
    statement: Statement, shapes: Mapping[str, Shape], sizes: Sizes, known: Mapping[str, Size] | None = None
) -> Ranges:
    """`ranges`, where every entry is sure to stay inside its tensor; raises `ShapeError` for one that is not."""
    finder = Finder(statement, shapes, sizes, known or {})
    found = finder.find()
    inside = Inside(finder)
    for slot in finder.slots:
        inside.straight(slot)
    for bent in finder.bent:
        inside.other(bent)
    return found


class Inside:
    """Asks of each index what it may come to at least and at most, the letters being found."""

    def __init__(self, finder: Finder) -> None:
        self.finder, self.sizes, self.found = finder, finder.sizes, finder.result.found

    def straight(self, slot: Slot) -> None:
        """An index that is linear in the letters."""
        for slack, end in zip((slot.index, slot.size - 1 - slot.index), ENDS, strict=True):
            if self.finder.inside(slack, slot):
                continue
            worst = self.finder.worst(sp.expand(slack))
            self.require(self.lowest(slack, slot, exactly) if slot.held else worst)
            number = self.sizes.number(worst)
            if number is not None and number < 0 and slot.held:
                number = self.kept(slack, slot, number)
            if number is not None and number < 0:
                raise outside(slot.entry, str(slot.index), f"{-number} {end}", slot.span)

    def other(self, bent: Bent) -> None:
        """An index with a remainder or a rounded quotient in it; what conditions leave of it is not known."""
        ends = None if bent.held else self.ends(bent.index)
        if ends is None:
            return
        for slack, end in zip((ends[0], bent.size - 1 - ends[1]), ENDS, strict=True):
            self.require(sp.expand(slack))
            number = self.finder.number(slack)
            if number is not None and number < 0:
                raise outside(bent.entry, written(bent.index), f"{-number} {end}", bent.index.span)

    def require(self, low: Expr | None) -> None:
        """Note that this may not be negative, where the sizes decide it."""
        low = None if low is None else self.sizes.find(low)
        number = None if low is None else self.sizes.number(low)
        if low is not None and (number is None or number >= 0) and not low.is_nonnegative:
            self.sizes.require(low)

    def ends(self, node: Node) -> Ends | None:
        """The least and the greatest value of an index; None where positions are data."""
        index = self.finder.reader.linear(node)
        if index is not None:
            index = sp.expand(index)
            return self.finder.worst(index), -self.finder.worst(-index)
        match node:
            case Binary(sign="mod"):
                return self.remainder(node)
            case Floor(operand=Binary(sign="/", left=above, right=below)):
                inner, by = self.ends(above), self.finder.reader.size_of(below)
                if inner is None or by is None or letters_in(by):
                    return None
                return sp.floor(inner[0] / by), sp.floor(inner[1] / by)
            case Negative():
                inner = self.ends(node.operand)
                return None if inner is None else (-inner[1], -inner[0])
            case Binary(sign="+" | "−"):
                left, right = self.ends(node.left), self.ends(node.right)
                if left is None or right is None:
                    return None
                low, high = right if node.sign == "+" else (-right[1], -right[0])
                return left[0] + low, left[1] + high
        return None

    def remainder(self, node: Binary) -> Ends | None:
        """i mod n is from 0 to n − 1, and i where that is no more."""
        size, inner = self.finder.reader.size_of(node.right), self.ends(node.left)
        if size is None or letters_in(size):
            return None
        gaps = () if inner is None else (sp.expand(inner[0]), sp.expand(size - 1 - inner[1]))
        numbers = [self.sizes.number(gap) for gap in gaps]
        if not gaps or any(number is None or number < 0 for number in numbers):
            return sp.S.Zero, size - 1
        for gap in gaps:
            self.require(gap)
        return inner

    def kept(self, slack: Expr, slot: Slot, number: int) -> int | None:
        """What conditions leave of a slack that comes to ``number`` without them, at the sizes at hand."""
        low = self.lowest(slack, slot, self.finder.number)
        return number if low is None else 0 if low == sp.oo else self.sizes.number(low)

    def lowest(self, slack: Expr, slot: Slot, number: Callable[[Expr], int | None]) -> Expr | None:
        """The least value of a slack where the conditions beside an entry hold, for what ``number`` knows of sizes."""
        letters = sorted(set().union(*map(letters_in, (slack, *slot.held))), key=str)
        return least(slack, slot.held, {s: self.found.get(str(s)[1:]) for s in letters}, number)


def outside(entry: Access | Flat, index: str, beyond: str, span: Span) -> ShapeError:
    """``beyond`` says how far, and past which end; an ``index`` without letters stands still."""
    early = beyond.endswith("beginning")
    hints: tuple[str, ...] = (
        "a condition in front that keeps it inside: "
        + ("[j ≤ i]·x[i − j]" if early else "[i + 1 < size(x, 0)]·x[i + 1]"),
    )
    if not re.search(r"[^\W\d_]", index):
        hints = (f"counted from the end: {entry.name}[size({entry.name}, 0) − 1]",) if early else ()
    return ShapeError(f"{written(entry)} reads {beyond} of its axis", span=span, hints=hints)


FOUND, NOWHERE = 0, 2
"""What SciPy says where it found a least value, and where no point holds to all conditions."""
NEARLY = 1e-6
"""How far it may miss a whole number."""


def exactly(size: Expr) -> int | None:
    """A number that is one whatever the sizes are."""
    return int(size) if size.is_Integer else None


def least(
    slack: Expr, held: Sequence[Expr], ends: Mapping[Expr, Size | None], number: Callable[[Expr], int | None]
) -> Expr | None:
    """The least value of ``slack`` where nothing ``held`` is negative, each letter running as far as ``ends`` says.

    ``number`` is what is known of sizes; None where that is too little. ∞ where the conditions hold nowhere.
    """
    letters = list(ends)
    sizes = [None if end is None else number(end) for end in ends.values()]
    rows = [[number(sp.expand(gap).coeff(letter)) for letter in letters] for gap in (slack, *held)]
    rest = [number(gap.xreplace(dict.fromkeys(letters, sp.S.Zero))) for gap in held]
    if None in sizes or any(n is None for n in (*rest, *(n for row in rows for n in row))):
        return None
    upper = [(0, size - 1) for size in sizes if size is not None]
    if not upper or any(most < 0 for _, most in upper):
        return sp.oo if upper else slack
    from scipy.optimize import linprog  # loads for a while, and hardly an equation needs it

    found = linprog(rows[0], A_ub=[[-n for n in row if n is not None] for row in rows[1:]], b_ub=rest, bounds=upper)
    if found.status not in (FOUND, NOWHERE):
        return None
    low = sp.oo if found.status == NOWHERE else sp.Integer(math.ceil(found.fun - NEARLY))
    return sp.expand(slack.xreplace(dict.fromkeys(letters, sp.S.Zero)) + low)
