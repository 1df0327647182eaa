"""The range of every letter of an equation, found from its text and from the sizes of the tensors that it reads.

In this order. A letter with a bound (``out[i<n]``, ``Σ_{r<3}``) has that range. A letter of a sum runs over the axes in
which it stands alone (they have one size), and no further than other entries allow that only it moves; without any, as
far as entries stay inside that it moves together with letters whose range is known (``Σ_{i,r<2} x[2·i + r]``). A letter
on the left runs as far as every entry stays inside its tensor for all values of the other letters; an entry beside a
condition that keeps it inside (``[0 ≤ i − p]·x[i − p]``) does not limit it. If nothing limits it, it runs over the axis
in which it stands alone, or as far as the letter that it is compared with. If that does not decide either, the equation
is refused: its author has to give the bound. The entries that decided (`LetterRanges.told`) are named on the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import sympy as sp

from symgrad.errors import ShapeError, Span
from symgrad.indexing.brackets import expanded, reach
from symgrad.indexing.symbols import Expr
from symgrad.notation import tree
from symgrad.notation.linear import LinearReader, find_compared_letters, find_slacks, letter_symbol, letters_of_index
from symgrad.notation.read_write import format_node
from symgrad.shapes import Shape, Size, Sizes


@dataclass(frozen=True)
class IndexSlot:
    """One index of one entry: linear in the letters, on an axis of this size, beside these conditions (each ≥ 0)."""

    entry: tree.Access | tree.FlatEntry
    span: Span
    index: Expr
    size: Size
    held: tuple[Expr, ...]


@dataclass(frozen=True)
class NonlinearIndex:
    """One index of one entry that is not linear in the letters, as ``i mod 3``; whether conditions stand beside it."""

    entry: tree.Access | tree.FlatEntry
    index: tree.SyntaxNode
    size: Size
    held: bool


@dataclass
class LetterRanges:
    """The sizes of the letters, as they are found; ``told`` are the entries that decide one that no axis simply has."""

    found: dict[str, Size] = field(default_factory=dict)
    told: dict[str, tuple[str, ...]] = field(default_factory=dict)


class RangeFinder:
    """How far each letter runs of a statement that is spelled out: sums first, then the left-hand side.

    ``known`` are names that stand for sizes. Raises `ShapeError` where the text does not decide it, and `SizeMismatch`
    where one letter has two sizes.
    """

    def __init__(
        self, statement: tree.IndexEquation, shapes: Mapping[str, Shape], sizes: Sizes, known: Mapping[str, Size],
        begun: Mapping[str, Size] | None = None,
    ) -> None:  # fmt: skip
        self.statement = statement
        self.shapes = shapes
        self.sizes = sizes
        self.reader = LinearReader(shapes, known)
        self.result = LetterRanges(dict(begun or {}))
        every = tuple(self.slots_in(statement.right, ()))
        self.slots = tuple(slot for slot in every if isinstance(slot, IndexSlot))
        self.bent = tuple(slot for slot in every if isinstance(slot, NonlinearIndex))
        self.rows = tuple(self.rows_in(statement.right))

    def find(self) -> LetterRanges:
        """Every letter's size."""
        self.find_summed()
        left = [letter for letter in self.statement.letters if letter.name not in self.result.found]
        while left:
            letter = next((one for one in left if len(self.shared(one, left)) < len(self.moved_in(one))), left[0])
            self.result.found[letter.name] = self.on_the_left(letter, left)
            left.remove(letter)
        for row, size in self.rows:
            self.sizes.unify(size, sp.Mul(*(self.result.found[name] for name in row)))
        return self.result

    def find_asked(self) -> Mapping[str, Size]:
        """The sizes of the letters that a meaning needs: of sums, and of those that are one index with others."""
        if any(isinstance(slot, tree.RowIndex) for slot in self.statement.slots):
            return self.find().found
        big = any(isinstance(node, tree.BigOperator) for node in tree.walk(self.statement.right))
        return self.find_summed() if big else self.result.found

    def find_summed(self) -> Mapping[str, Size]:
        """The sizes of the letters of sums, and of those whose size is said."""
        summed = [letter for node in find_big_operators(self.statement.right) for letter in node.letters]
        for letter in (*summed, *self.statement.letters):
            if letter.bound is not None and letter.name not in self.result.found:
                self.result.found[letter.name] = self.said(letter.bound, letter)
        unsaid = [letter for letter in summed if letter.bound is None]
        for letter in sorted(unsaid, key=lambda letter: not self.moved_by(letter_symbol(letter.name))):
            self.result.found[letter.name] = self.of_sum(letter)
        return self.result.found

    # What the text holds -----------------------------------------------------------------------------------

    def slots_in(self, node: tree.SyntaxNode, held: tuple[Expr, ...]) -> Iterator[IndexSlot | NonlinearIndex]:
        """Every index of every entry in ``node``, with the conditions that are multiplied with it."""
        beside = [gap for factor in tree.product_factors(node) for gap in find_slacks(factor, self.reader)]
        inner = (*held, *beside)
        if isinstance(node, (tree.Access, tree.FlatEntry)):
            yield from self.of_access(node, inner)
        for part in node.parts:
            yield from self.slots_in(part, inner)

    def rows_in(self, node: tree.SyntaxNode) -> Iterator[tuple[tuple[str, ...], Size]]:
        """The letters of every row that is an index of an entry, and how long that axis is."""
        for entry in tree.walk(node):
            for slot, axis in self.placed(entry) if isinstance(entry, (tree.Access, tree.FlatEntry)) else ():
                if isinstance(slot, tree.RowIndex):
                    yield tuple(place.name for place in slot.places if isinstance(place, tree.Name)), axis

    def placed(self, node: tree.Access | tree.FlatEntry) -> Iterator[tuple[tree.SyntaxNode, Size]]:
        """The indices of one entry with the sizes of their axes, counted from the end where ``…`` stands in front."""
        shape = self.shapes.get(node.name, ())  # () of what is held still, and decides nothing
        if isinstance(node, tree.FlatEntry):
            yield node.number, sp.Mul(*shape)
            return
        for place, slot in enumerate(node.slots if shape else ()):
            after = len(node.slots) - place
            axis = place if not any(isinstance(s, tree.Dots) for s in node.slots[:place]) else len(shape) - after
            if not isinstance(slot, tree.Dots):
                yield slot, shape[axis]

    def of_access(
        self, node: tree.Access | tree.FlatEntry, held: tuple[Expr, ...]
    ) -> Iterator[IndexSlot | NonlinearIndex]:
        """The indices of one entry."""
        for slot, size in self.placed(node):
            index = self.reader.linear(slot)
            yield (
                NonlinearIndex(node, slot, size, bool(held))
                if index is None
                else IndexSlot(node, slot.span, index, size, held)
            )

    # Letters -----------------------------------------------------------------------------------------------

    def said(self, bound: tree.SyntaxNode, letter: tree.Letter) -> Size:
        """What stands after the <, a whole number or made of sizes."""
        found = self.reader.size_of(bound)
        if found is None or letters_of_index(found) or (found.is_Integer and found < 0):
            raise ShapeError(
                f"the range of {letter.name} is not a size: {format_node(bound)}", span=bound.span,
                hints=("a number, or sizes of tensors: size(x, 0) − 2",
                       f"with another index, a condition: Σ_{letter.name} [{letter.name} < {format_node(bound)}]·…"),
            )  # fmt: skip
        return found

    def moved_by(self, symbol: Expr, known: Iterable[str] = ()) -> list[IndexSlot]:
        """Where a letter moves an index, and no other does but those that are known."""
        letters = {symbol, *map(letter_symbol, known)}
        return [slot for slot in self.slots if symbol in letters_of_index(slot.index) <= letters]

    def of_sum(self, letter: tree.Letter) -> Size:
        """As far as the axes where it stands alone, and no further than what it moves: alone, else from others."""
        symbol = letter_symbol(letter.name)
        onwards = [s for s in self.moved_by(symbol, self.result.found) if s.index.coeff(symbol).is_positive]
        own = self.moved_by(symbol) or onwards
        alone = [slot for slot in own if slot.index == symbol]
        free = [slot for slot in alone if not (slot.held and self.inside(slot.size - 1 - symbol, slot))]
        bounds = [(b, slot) for slot in own if slot.index != symbol for b in self.bounds(slot, symbol)]
        if not free and alone:  # conditions keep it inside all of them: what lies behind the shortest is 0
            return self.least(letter, reduce(self.sizes.lesser, (slot.size for slot in alone)), bounds)
        return self.least(letter, self.unified(free), bounds)

    def shared(self, letter: tree.Letter, waiting: Sequence[tree.Letter]) -> list[IndexSlot]:
        """Where a letter moves an index together with others whose size is not known yet."""
        others = {letter_symbol(other.name) for other in waiting if other is not letter}
        return [slot for slot in self.moved_in(letter) if letters_of_index(slot.index) & others]

    def moved_in(self, letter: tree.Letter) -> list[IndexSlot]:
        """Where a letter moves an index."""
        return [slot for slot in self.slots if letter_symbol(letter.name) in letters_of_index(slot.index)]

    def on_the_left(self, letter: tree.Letter, waiting: Sequence[tree.Letter]) -> Size:
        """As far as every entry stays inside, the other letters at their worst end."""
        symbol, shared = letter_symbol(letter.name), self.shared(letter, waiting)
        own = self.moved_in(letter)
        alone = [slot for slot in own if slot.index == symbol]
        alone = [slot for slot in alone if not (slot.held and self.inside(slot.size - 1 - symbol, slot))]
        moved = [slot for slot in own if slot.index != symbol and slot not in shared]
        bounds = [(b, slot) for slot in moved for b in self.bounds(slot, symbol)]
        if shared and not alone and not bounds:
            raise self.undecided(
                letter, f"{format_node(shared[0].entry)} depends on two indices of {self.statement.name}"
            )
        if alone or bounds:
            return self.least(letter, self.unified(alone), bounds)
        for found in (self.unified([s for s in own if s.index == symbol]), self.in_rows(letter)):
            if found is not None:
                return found
        return self.compared_with(letter)

    def unified(self, slots: Sequence[IndexSlot]) -> Size | None:
        """The size that the axes have in which a letter stands alone: all of them the same."""
        if not slots:
            return None
        for slot in slots[1:]:
            self.sizes.unify(slots[0].size, slot.size)
        return self.sizes.find(slots[0].size)

    def bounds(self, slot: IndexSlot, symbol: Expr) -> Iterator[Size]:
        """How far ``symbol`` may run for an entry to stay inside, for either end of its axis."""
        for slack in (slot.index, slot.size - 1 - slot.index):
            slope = sp.expand(slack).coeff(symbol)
            if self.inside(slack, slot):
                continue
            worst = self.worst(sp.expand(slack - slope * symbol))
            if slope.is_negative:
                yield sp.expand(worst + 1) if slope == -1 else sp.floor(worst / -slope) + 1
            elif worst.is_negative:
                raise ShapeError(
                    f"{format_node(slot.entry)} reads before the beginning at {str(symbol)[1:]} = 0", span=slot.span,
                    hints=bounds_hints(slot, str(symbol)[1:], -worst if slope == 1 else None),
                )  # fmt: skip

    def inside(self, slack: Expr, slot: IndexSlot) -> bool:
        """Whether a condition beside an entry keeps a slack from being negative."""
        rests = (reach(expanded(slack - gap)) for gap in slot.held)
        return any(rest is not None and rest[0] >= 0 for rest in rests)

    def worst(self, expression: Expr) -> Expr:
        """The least value over the letters that are known."""
        for symbol in sorted(letters_of_index(expression), key=str):
            slope = expression.coeff(symbol)
            size = self.result.found.get(str(symbol)[1:])
            rest = sp.expand(expression - slope * symbol)
            expression = rest if size is None or slope.is_nonnegative else sp.expand(rest + slope * (size - 1))
        return expression

    def least(self, letter: tree.Letter, whole: Size | None, bounds: Sequence[tuple[Size, IndexSlot]]) -> Size:
        """The smallest of what was found, and where that is not one axis, what decided."""
        found = whole
        for bound, _ in bounds:
            found = bound if found is None else self.smaller(found, bound)
        if found is None and (rows := self.in_rows(letter)) is not None:
            return rows
        if found is None:
            raise self.undecided(letter, f"no tensor determines the range of {letter.name}")
        if found != whole:
            self.sizes.require(found)
            self.result.told[letter.name] = tuple(dict.fromkeys(format_node(slot.entry) for _, slot in bounds))
        return found

    def in_rows(self, letter: tree.Letter) -> Size | None:
        """How many rows of the others an axis is long, where the others of the row are known."""
        for row, size in self.rows:
            others = [self.result.found.get(name) for name in row if name != letter.name]
            if letter.name in row and None not in others:
                each = sp.Mul(*others)
                many, length = self.sizes.number(size), self.sizes.number(each)
                if length == 0 or (many is not None and length is not None and many % length):
                    raise ShapeError(f"{many} entries do not fill rows of {length}", span=letter.span)
                return size / each
        return None

    def smaller(self, first: Size, second: Size) -> Size:
        """The smaller of two sizes, for all sizes where they differ by a number."""
        gap = reach(sp.expand(second - first))
        if gap is not None and gap[0] >= 0:
            return first
        return second if gap is not None and gap[1] <= 0 else self.sizes.lesser(first, second)

    def compared_with(self, letter: tree.Letter) -> Size:
        """As far as the one letter that it is compared with."""
        symbol = letter_symbol(letter.name)
        for first, second in find_compared_letters(self.statement.right, self.reader):
            mine, others = (first, second) if symbol in first else (second, first)
            size = self.result.found.get(str(next(iter(others)))[1:]) if mine == {symbol} and len(others) == 1 else None
            if size is not None:
                return size
        raise self.undecided(letter, f"no tensor determines the range of {letter.name}")

    def undecided(self, letter: tree.Letter, why: str) -> ShapeError:
        """The refusal that asks for it."""
        signs = [
            big.sign for big in find_big_operators(self.statement.right) if any(letter is own for own in big.letters)
        ]
        say = f"{signs[0]}_{{{letter.name}<…}}" if signs else f"{self.statement.name}[{letter.name}<…]"
        numbers = [name for name, shape in self.shapes.items() if shape == ()]
        entries = [f"{name} is one number here: the entry of a tensor is {name}[{letter.name}]" for name in numbers[:1]]
        return ShapeError(why, span=letter.span, hints=(f"give its range: {say}", *entries))

    def number(self, size: Expr) -> int | None:
        """A size or a number in front of a letter, as a number."""
        return self.sizes.number(sp.expand(size))


def bounds_hints(slot: IndexSlot, letter: str, first: Expr | None) -> tuple[str, ...]:
    """What would do for an entry before the beginning, which ``letter`` is in from ``first`` on."""
    entry = format_node(slot.entry)
    if first is None or not first.is_Integer:
        return ("a condition in front that keeps it inside: [i ≥ 1]·x[i − 1]",)
    return (
        f"a condition in front that keeps it inside: [{letter} ≥ {first}]·{entry}",
        f"0 in the places outside: padded({entry})",
    )


def find_big_operators(node: tree.SyntaxNode) -> Iterator[tree.BigOperator]:
    """Every Σ, Π, max … in ``node``, outermost first."""
    return (inner for inner in tree.walk(node) if isinstance(inner, tree.BigOperator))
