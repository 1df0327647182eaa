"""Checks of an index equation: every name and sign in it means something, and every entry stays inside its tensor.

Comes in: an equation, and the functions that may be called. An error names the place and what to write instead. Given
the shapes of the tensors, `find_checked_ranges` returns the range of each letter, where no entry is read outside, and
notes what that requires of the sizes. Whether an index can leave its axis is decided by its smallest value over all
values of its letters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

import sympy as sp

from symgrad.errors import NotationError, ShapeError, Span, UnknownNameError, UnsupportedError, close_names
from symgrad.indexing.symbols import Expr
from symgrad.notation import tree
from symgrad.notation.linear import letters_of_index
from symgrad.notation.meaning import EquationFunction
from symgrad.notation.ranges import IndexSlot, LetterRanges, NonlinearIndex, RangeFinder
from symgrad.notation.read_write import format_node
from symgrad.notation.tokens import BIG
from symgrad.shapes import Shape, Size, Sizes

GIVEN = "for one place that is given: x[1], or a number whose name is longer than a letter, x[at]"


def introduced_letters(node: tree.SyntaxNode) -> tuple[tree.Letter, ...]:
    """The letters that ``node`` introduces."""
    return node.letters if isinstance(node, (tree.BigOperator, tree.IndexEquation)) else ()


def index_has_no_entries_error(node: tree.Access | tree.FlatEntry) -> NotationError:
    """The refusal of an index with brackets behind it."""
    hints = (f"another letter for the index {node.name}, or another name for the tensor",)
    return NotationError(f"{node.name} is an index here, not a tensor", span=node.span, hints=hints)


class NameChecker:
    """Refuses what a name of ``statement`` cannot be where it stands; ``letters`` are those that it introduces."""

    def __init__(self, statement: tree.IndexEquation, functions: Mapping[str, EquationFunction]) -> None:
        self.statement, self.functions = statement, functions
        self.letters = {letter.name for node in tree.walk(statement) for letter in introduced_letters(node)}

    def access(self, node: tree.Access | tree.FlatEntry) -> None:
        """Refuse entries of what is being defined, of letters, and those that name an index nobody introduces."""
        if node.name == self.statement.name:
            raise UnsupportedError(
                f"{node.name} is defined by its own entries, which would need solving", span=node.span,
                hints=("a sum over what came before: Σ_j [j ≤ i]·a^(i − j)·x[j]", "several statements",
                       "an operation of torch that solves it"),
            )  # fmt: skip
        if node.name in self.letters:
            raise index_has_no_entries_error(node)
        for slot in node.slots if isinstance(node, tree.Access) else (node.number,):
            self.index_is_integer(slot)
            if isinstance(slot, tree.Name) and len(slot.name) == 1:
                self.letter(slot)

    def index_is_integer(self, node: tree.SyntaxNode) -> None:
        """Refuse an index that need not be a whole number: no entry stands between two others."""
        broken = isinstance(node, tree.Root) or (isinstance(node, tree.Binary) and node.sign == "/")
        if isinstance(node, tree.Number):
            broken = node.value.denominator != 1
        elif isinstance(node, tree.Power):
            broken = not isinstance(node.exponent, tree.Number)
        elif isinstance(node, tree.BigOperator):
            broken = node.sign == "mean"
        elif isinstance(node, tree.ScalarCall):
            broken = node.function in self.functions
        if broken:
            hints = ("⌊i/2⌋, which is floor(i/2)", "[i ≥ 1]·x[i − 1] + [i = 0]·x[0] for max(i − 1, 0)")
            raise NotationError("an index has to be a sum of integers", span=node.span, hints=hints)
        for part in () if isinstance(node, (tree.Access, tree.FlatEntry, tree.Floor, tree.Condition)) else node.parts:
            self.index_is_integer(part)

    def scope(self, node: tree.SyntaxNode, inside: frozenset[str] = frozenset()) -> None:
        """Refuse the letter of a sum where that sum has ended."""
        if isinstance(node, tree.Name) and node.name in self.letters and node.name not in inside:
            told = f"{node.name} is outside its sum, which reaches as far as the product after it"
            raise NotationError(told, span=node.span, hints=(f"Σ_{node.name} (… + …), or another letter here",))
        inner = inside | {letter.name for letter in introduced_letters(node)}
        for part in node.parts:
            outside = isinstance(part, tree.Letter) and not isinstance(node, tree.IndexEquation)
            self.scope(part, inside if outside else inner)

    def letter(self, node: tree.SyntaxNode) -> None:
        """Refuse an index that nobody introduces."""
        if isinstance(node, tree.Name) and node.name not in self.letters:
            ranges = (w for w in tree.walk(self.statement) if isinstance(w, tree.Letter) and w.bound is not None)
            pair = next((w.name for w in ranges if isinstance(w.bound, tree.Name) and w.bound.name == node.name), None)
            both = (f"Σ_{{{pair},{node.name}}} [{pair} < {node.name}]·…, for the pairs of both",) if pair else ()
            raise NotationError(
                f"{node.name} is neither an index of {self.statement.name} nor summed over",
                span=node.span,
                hints=both or (f"Σ_{node.name} in front, or {self.statement.name}[…,{node.name}]", GIVEN),
            )

    def bare_name(self, node: tree.Name) -> None:
        """Refuse what is being defined as a part of itself, and x_i where i is an index."""
        if node.name == self.statement.name:
            raise UnsupportedError(f"{node.name} is defined by itself, which would need solving", span=node.span)
        base, _, below = node.name.rpartition("_")
        if base and below and set(below) <= self.letters:
            raise NotationError(
                f"{node.name} is read as one name, not as an entry of {base}", span=node.span,
                hints=(f"{base}[{','.join(below)}]", "a number's name with another ending"),
            )  # fmt: skip

    def call(self, node: tree.ScalarCall) -> None:
        """Refuse functions that the notation does not have, and arguments that a function does not take."""
        word = self.functions.get(node.function)
        if word is not None:
            self.arguments(node, word)
            return
        near = close_names(node.function.lower(), self.functions)
        hint = f"did you mean {near[0]}?" if near else "exp, log, tanh, sigmoid, … by their names in torch"
        if len(node.function) == 1:
            hint = f"an entry has square brackets: {node.function}[i]"
        if node.function in BIG:
            hint = f"over an index: {node.function}_j x[j]"
        raise UnknownNameError(
            f"no function {node.function} in index equations",
            span=(node.span[0], node.span[0] + len(node.function)),
            hints=(hint,),
        )

    def arguments(self, node: tree.ScalarCall, word: EquationFunction) -> None:
        """Refuse too few or too many, and an option that is no number: nothing that is written is left unread."""
        given = len(node.arguments)
        if not word.least <= given <= word.most:
            takes = f"{word.least}" if word.least == word.most else f"{word.least} to {word.most}"
            hints = (f"over an index: {node.function}_j x[j]",) if node.function in BIG else ()
            told = f"{node.function} takes {takes} {'argument' if takes == '1' else 'arguments'}, and gets {given}"
            raise NotationError(told, span=node.span, hints=hints)
        for place in sorted(word.numbers & frozenset(range(given))):
            if not all(
                isinstance(part, (tree.Number, tree.Negative, tree.Binary)) for part in tree.walk(node.arguments[place])
            ):
                raise NotationError(
                    f"{node.function} takes a number here, written in the text", span=node.arguments[place].span
                )


Ends = tuple[Expr, Expr]
ENDS = ("before the beginning", "after the end")


def find_checked_ranges(
    statement: tree.IndexEquation, shapes: Mapping[str, Shape], sizes: Sizes, known: Mapping[str, Size] | None = None
) -> LetterRanges:
    """`ranges`, where every entry is sure to stay inside its tensor; raises `ShapeError` for one that is not."""
    finder = RangeFinder(statement, shapes, sizes, known or {})
    found = finder.find()
    inside = BoundsChecker(finder)
    for slot in finder.slots:
        inside.straight(slot)
    for bent in finder.bent:
        inside.other(bent)
    return found


class BoundsChecker:
    """Asks of each index what it may come to at least and at most, the letters being found."""

    def __init__(self, finder: RangeFinder) -> None:
        self.finder, self.sizes, self.found = finder, finder.sizes, finder.result.found

    def straight(self, slot: IndexSlot) -> None:
        """An index that is linear in the letters."""
        for slack, end in zip((slot.index, slot.size - 1 - slot.index), ENDS, strict=True):
            if self.finder.inside(slack, slot):
                continue
            worst = self.finder.worst(sp.expand(slack))
            self.require(self.lowest(slack, slot, lambda n: int(n) if n.is_Integer else None) if slot.held else worst)
            number = self.sizes.number(worst)
            if number is not None and number < 0 and slot.held:
                number = self.kept(slack, slot, number)
            if number is not None and number < 0:
                raise out_of_bounds_error(slot.entry, str(slot.index), f"{-number} {end}", slot.span)

    def other(self, bent: NonlinearIndex) -> None:
        """An index with a remainder or a rounded quotient in it; what conditions leave of it is not known."""
        ends = None if bent.held else self.ends(bent.index)
        if ends is None:
            return
        for slack, end in zip((ends[0], bent.size - 1 - ends[1]), ENDS, strict=True):
            self.require(sp.expand(slack))
            number = self.finder.number(slack)
            if number is not None and number < 0:
                raise out_of_bounds_error(bent.entry, format_node(bent.index), f"{-number} {end}", bent.index.span)

    def require(self, low: Expr | None) -> None:
        """Note that this may not be negative, where the sizes decide it."""
        low = None if low is None else self.sizes.find(low)
        number = None if low is None else self.sizes.number(low)
        if low is not None and (number is None or number >= 0) and not low.is_nonnegative:
            self.sizes.require(low)

    def ends(self, node: tree.SyntaxNode) -> Ends | None:
        """The least and the greatest value of an index; None where positions are data."""
        index = self.finder.reader.linear(node)
        if index is not None:
            index = sp.expand(index)
            return self.finder.worst(index), -self.finder.worst(-index)
        match node:
            case tree.Binary(sign="mod"):
                return self.remainder(node)
            case tree.Floor(operand=tree.Binary(sign="/", left=above, right=below)):
                inner, by = self.ends(above), self.finder.reader.size_of(below)
                if inner is None or by is None or letters_of_index(by):
                    return None
                return sp.floor(inner[0] / by), sp.floor(inner[1] / by)
            case tree.Negative():
                inner = self.ends(node.operand)
                return None if inner is None else (-inner[1], -inner[0])
            case tree.Binary(sign="+" | "−"):
                left, right = self.ends(node.left), self.ends(node.right)
                if left is None or right is None:
                    return None
                low, high = right if node.sign == "+" else (-right[1], -right[0])
                return left[0] + low, left[1] + high
        return None

    def remainder(self, node: tree.Binary) -> Ends | None:
        """i mod n is from 0 to n − 1, and i where that is no more."""
        size, inner = self.finder.reader.size_of(node.right), self.ends(node.left)
        if size is None or letters_of_index(size):
            return None
        gaps = () if inner is None else (sp.expand(inner[0]), sp.expand(size - 1 - inner[1]))
        numbers = [self.sizes.number(gap) for gap in gaps]
        if not gaps or any(number is None or number < 0 for number in numbers):
            return sp.S.Zero, size - 1
        for gap in gaps:
            self.require(gap)
        return inner

    def kept(self, slack: Expr, slot: IndexSlot, number: int) -> int | None:
        """What conditions leave of a slack that comes to ``number`` without them, at the sizes at hand."""
        low = self.lowest(slack, slot, self.finder.number)
        return number if low is None else 0 if low == sp.oo else self.sizes.number(low)

    def lowest(self, slack: Expr, slot: IndexSlot, number: Callable[[Expr], int | None]) -> Expr | None:
        """The least value of a slack where the conditions beside an entry hold, for what ``number`` knows of sizes."""
        letters = sorted(set().union(*map(letters_of_index, (slack, *slot.held))), key=str)
        return minimize_slack(slack, slot.held, {s: self.found.get(str(s)[1:]) for s in letters}, number)


def out_of_bounds_error(entry: tree.Access | tree.FlatEntry, index: str, beyond: str, span: Span) -> ShapeError:
    """``beyond`` says how far, and past which end; an ``index`` without letters stands still."""
    early = beyond.endswith("beginning")
    hints: tuple[str, ...] = (
        "a condition in front that keeps it inside: "
        + ("[j ≤ i]·x[i − j]" if early else "[i + 1 < size(x, 0)]·x[i + 1]"),
    )
    if not re.search(r"[^\W\d_]", index):
        hints = (f"counted from the end: {entry.name}[size({entry.name}, 0) − 1]",) if early else ()
    return ShapeError(f"{format_node(entry)} reads {beyond} of its axis", span=span, hints=hints)


FOUND, NOWHERE = 0, 2
"""What SciPy says where it found a least value, and where no point holds to all conditions."""
NEARLY = 1e-6
"""How far it may miss a whole number."""


def minimize_slack(
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
