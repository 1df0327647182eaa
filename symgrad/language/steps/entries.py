"""Entries and parts that a text takes: ``x[0, 1:]``, ``x.chunk(2)[0]``, ``p, *q = x``.

Comes in: what the owner means, and what stands in the brackets. Goes out: a tensor, a number of a shape, or one of the
results of a call, as many as Python would take from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from symgrad.errors import RUN, NotationError, ShapeError, Span, UnsupportedError
from symgrad.language.grammar.nodes import Subscript
from symgrad.language.steps.apply import Applier, first_of_pair, placed, results_of
from symgrad.language.steps.builder import Builder, Caller
from symgrad.language.steps.calls import Argument, Meaning, Parts, Ref, bind, kind_of
from symgrad.language.steps.extents import ALL, LARGEST_GUESS, Extents, Key, key_of, shape_of
from symgrad.language.steps.picks import picked
from symgrad.language.steps.sharing import Sharing
from symgrad.notation.tree import Node
from symgrad.ops.calls.registry import SHARING, Compound
from symgrad.ops.entry import playing
from symgrad.program import Role

MOST_PARTS = 100
"""How many names a text may give to the parts of a tensor at once."""


@dataclass(frozen=True)
class Entries:
    """Takes entries of tensors and parts of calls; ``meaning`` says what an index stands for."""

    apply: Applier
    extents: Extents
    sharing: Sharing
    meaning: Callable[[Node], Meaning]

    @property
    def builder(self) -> Builder:
        """Where the steps go."""
        return self.apply.builder

    def subscript(self, node: Subscript, name: str | None) -> Meaning:
        """x[0, 1:], x.shape[0]."""
        owner = self.meaning(node.owner)
        if isinstance(owner, Ref) and owner.pair:
            key = key_of(node.items, 1, self.meaning, self.extents.whole, node.span)
            return first_of_pair(owner, int(key[0][1]) if key[0][0] == "int" else -1, node.span)
        if isinstance(owner, Ref):
            return self.at(owner, node, name)
        if isinstance(owner, Parts) and len(node.items) == 1:
            kind, *part = key_of(node.items, 1, self.meaning, self.extents.whole, node.span)[0]
            if kind != "int":
                raise UnsupportedError("one part at a time", span=node.span, hints=("[0], [1], …",))
            count = 0 if part[0] >= 0 else count_of(owner, self.extents, self.builder, node.span)
            if count is None:
                raise UnsupportedError("parts are counted from the front here", span=node.span, hints=("[0], [1], …",))
            if part[0] + count < 0:
                raise ShapeError(f"there is no part {part[0]} among {count}", span=node.span)
            return self.part(owner, part[0] + count, node.span, name)
        if isinstance(owner, tuple) and len(node.items) == 1:
            kind, *numbers = key_of(node.items, 1, self.meaning, self.extents.whole, node.span)[0]
            if kind == "pick":
                raise UnsupportedError("a list has no entries at several places", span=node.span)
            if kind == "int" and not -len(owner) <= numbers[0] < len(owner):
                raise ShapeError(f"index {numbers[0]} is out of range, there are {len(owner)}", span=node.span)
            return owner[numbers[0]] if kind == "int" else owner[slice(*(numbers or [None]))]
        raise NotationError(f"{kind_of(owner)} has no indices", span=node.span)

    def at(self, owner: Ref, node: Subscript, name: str | None) -> Ref:
        """x[0, 1:, [2, 0]]: whole numbers and slices first, then what is picked."""
        written = key_of(node.items, len(shape_of(owner)), self.meaning, self.extents.whole, node.span)
        key = tuple(ALL if item[0] == "pick" else item for item in written)
        picks = [item[1] for item in written if item[0] == "pick"]
        found = owner
        if not picks or any(item != ALL for item in key):
            found = self.taken(owner, key, node.span, None if picks else name, node.owner.span)
        if not picks:
            return found
        left = [item for item in written if item[0] != "int"]
        axes = [axis for axis, item in enumerate(left) if item[0] == "pick"]
        result: Ref = placed(node.span, lambda: picked(self.builder, self.extents, found, axes, picks, node.span, name))
        return replace(result, kind=owner.kind, complex=owner.complex)

    def taken(self, owner: Ref, key: Key, span: Span, name: str | None, where: Span, several: bool = False) -> Ref:
        """Whole numbers and slices of a tensor, which share its entries."""
        self.extents.prepare(key, owner.shape, span)

        def again(ref: Ref, wish: str | None = None) -> Ref:
            return self.apply.step(playing(Role.INDEXES), [(ref, where)], {"key": key}, span, "indexing", wish)

        found = again(owner, name)
        if several:
            self.sharing.part(owner, found, again)
        else:
            self.sharing.indexed(owner, key, found, again, span)
        return found

    def unpacked(
        self,
        value: Meaning,
        names: Sequence[str | None],
        unread: Collection[str | None],
        stars: Sequence[int],
        span: Span,
    ) -> list[Meaning]:
        """The values for several targets, one of which may be starred; raises `ShapeError` as Python would.

        What is read from ``names`` that are ``unread`` is not computed.
        """
        least = len(names) - len(stars)
        count = self.counted(value, None if stars else least, span)
        if len(stars) > 1:
            raise NotationError("two starred names in one assignment", span=span)
        if count < least or (count > least and not stars):
            few = f"not enough values to unpack (expected {'at least ' * bool(stars)}{least}, got {count})"
            told = few if count < least else f"too many values to unpack (expected {least})"
            raise ShapeError(told, span=span)
        rest = count - least
        found: list[Meaning] = []
        place = 0
        for n, name in enumerate(names):
            if n in stars:
                found.append(tuple(self.one_of(value, place + k, span, None) for k in range(rest)))
                place += rest
                continue
            needed = name is None or name not in unread or isinstance(value, tuple)
            found.append(self.one_of(value, place, span, name) if needed else None)
            place += 1
        return found

    def counted(self, value: Meaning, wanted: int | None, span: Span) -> int:
        """How many values Python takes from ``value``."""
        if isinstance(value, tuple):
            return len(value)
        if isinstance(value, Parts):
            count = count_of(value, self.extents, self.builder, span)
        elif isinstance(value, Ref) and value.pair:
            count = 2
        elif isinstance(value, Ref) and shape_of(value):
            size = value.shape[0]
            if wanted is not None and wanted > 0 and self.extents.sizes.number(size) is None:
                self.extents.assume(size, wanted - self.extents.extra)
            count = self.extents.whole(size, span)
        else:
            raise NotationError(f"{kind_of(value)} is no several values", span=span, hints=("one name",))
        if count is None or count > MOST_PARTS:
            told = "how many values this gives is not known here" if count is None else f"{count:,} values at once"
            raise UnsupportedError(told, span=span, hints=(RUN,))
        return count

    def one_of(self, value: Meaning, place: int, span: Span, name: str | None) -> Meaning:
        """One of the values that Python takes from ``value``."""
        if isinstance(value, tuple):
            return value[place]
        if isinstance(value, Parts):
            return self.part(value, place, span, name)
        if value.pair:
            return first_of_pair(value, place, span)
        key = (("int", place), *[ALL] * (len(shape_of(value)) - 1))
        return self.taken(value, key, span, name, span, several=True)

    def part(self, parts: Parts, place: int, span: Span, name: str | None) -> Meaning:
        """One of the tensors that a call gives: of ``chunk`` and the like they are views."""

        def again(first: Ref, wish: str | None = None) -> Meaning:
            given = (replace(parts.arguments[0], meaning=first), *parts.arguments[1:])
            return self.apply.part(replace(parts, arguments=given), place, span, wish)

        cut = parts.arguments[0].meaning
        sizes = shape_of(cut) if isinstance(cut, Ref) and not self.extents.symbolic else ()
        if not isinstance(parts.op, Compound) and any(self.extents.sizes.number(size) is None for size in sizes):
            count_of(parts, self.extents, self.builder, span)  # chooses a size
        found = self.apply.part(parts, place, span, name)
        if SHARING.get(parts.spelled.rpartition(".")[2]) == "several":
            self.sharing.part(parts.arguments[0].meaning, found, again)
        return found


def count_of(parts: Parts, extents: Extents, builder: Builder, span: Span) -> int | None:
    """The number of results; None where this is not known. The size of the axis that is cut becomes a number."""
    if isinstance(parts.op, Compound):
        return results_of(parts.op, parts, Caller(builder, span, extents.whole))
    arguments = [*parts.arguments, Argument(0, span, "part")]
    bound = bind(parts.op, parts.spelled, arguments, span)
    tensor, dim = bound.operands[0][0], bound.options["dim"]
    shape = shape_of(tensor) if isinstance(tensor, Ref) else ()
    if not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        return None
    length = bound.options.get("split_size_or_sections", 1)
    chunks = bound.options.get("chunks")
    each = chunks if isinstance(chunks, int) else length
    wanted = sum(length) if isinstance(length, tuple) else 2 * each if isinstance(each, int) else None
    if extents.sizes.number(shape[dim]) is None and not extents.symbolic and isinstance(wanted, int):
        if wanted > LARGEST_GUESS:
            raise ShapeError("this needs a tensor with a given shape", span=span)
        extents.assume(shape[dim], max(wanted, 1))
    if isinstance(length, tuple):
        return len(length)
    size = extents.whole(shape[dim], span)
    if isinstance(chunks, int) and chunks > 0:
        length = -(-size // chunks)
    return -(-size // length) if isinstance(length, int) and length > 0 and size > 0 else None
