"""Entries and parts that a text takes: ``x[0, 1:]``, ``x[[0, 0, 1]]``, ``x.chunk(2)[0]``, ``p, *q = x``.

Comes in: what the owner means, and what stands in the brackets. Goes out: a tensor, a number of a shape, or one of the
results of a call, as many as Python would take from it.

As in torch, whole numbers and slices are taken first. What lists or tensors of positions pick stands where the first of
them stood, or in front where something is between them; positions on several axes go together entry by entry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import RUN, NotationError, ShapeError, Span, UnsupportedError, place_errors
from symgrad.language.apply import EntryApplier, choose_from_pair, count_results
from symgrad.language.arguments import array_from_entries
from symgrad.language.binding import CallResults, LiteralTensor, Meaning, Ref, describe_meaning
from symgrad.language.builder import EntryCaller, StepBuilder
from symgrad.language.dtypes import DtypeKind
from symgrad.language.sizes import ALL, LARGEST_GUESS, Key, SizeQueries, visible_shape
from symgrad.language.syntax_tree import Subscript
from symgrad.notation.tree import SyntaxNode
from symgrad.ops.calls.registry import Compound
from symgrad.ops.lookup import basics, role_entry
from symgrad.program import Role
from symgrad.shapes import as_size

MOST_PARTS = 100
"""How many names a text may give to the parts of a tensor at once."""
MASK = ("torch.where(mask, x, 0)", "(mask * x).sum()")


@dataclass(frozen=True)
class SubscriptReader:
    """Takes entries of tensors and parts of calls; ``meaning`` says what an index stands for."""

    apply: EntryApplier
    extents: SizeQueries
    meaning: Callable[[SyntaxNode], Meaning]

    @property
    def builder(self) -> StepBuilder:
        """Where the steps go."""
        return self.apply.builder

    def subscript(self, node: Subscript, name: str | None) -> Meaning:
        """x[0, 1:], x.shape[0]."""
        owner = self.meaning(node.owner)
        if isinstance(owner, Ref) and owner.pair:
            key = self.extents.key(node.items, 1, self.meaning, node.span)
            return choose_from_pair(owner, int(key[0][1]) if key[0][0] == "int" else -1, node.span)
        if isinstance(owner, Ref):
            return self.at(owner, node, name)
        if isinstance(owner, CallResults) and len(node.items) == 1:
            kind, *part = self.extents.key(node.items, 1, self.meaning, node.span)[0]
            if kind != "int":
                raise UnsupportedError("one result at a time", span=node.span, hints=("[0], [1], …",))
            count = 0 if part[0] >= 0 else count_results(owner, self.extents, self.builder, node.span)
            if count is None:
                raise UnsupportedError(
                    "results are counted from the front here", span=node.span, hints=("[0], [1], …",)
                )
            if part[0] + count < 0:
                raise ShapeError(f"there is no part {part[0]} among {count}", span=node.span)
            return self.part(owner, part[0] + count, node.span, name)
        if isinstance(owner, tuple) and len(node.items) == 1:
            kind, *numbers = self.extents.key(node.items, 1, self.meaning, node.span)[0]
            if kind == "pick":
                raise UnsupportedError("a list takes one index at a time", span=node.span)
            if kind == "int" and not -len(owner) <= numbers[0] < len(owner):
                raise ShapeError(f"index {numbers[0]} is out of range, there are {len(owner)}", span=node.span)
            return owner[numbers[0]] if kind == "int" else owner[slice(*(numbers or [None]))]
        raise NotationError(f"{describe_meaning(owner)} cannot be indexed", span=node.span)

    def at(self, owner: Ref, node: Subscript, name: str | None) -> Ref:
        """x[0, 1:, [2, 0]]: whole numbers and slices first, then what is picked."""
        written = self.extents.key(node.items, len(visible_shape(owner)), self.meaning, node.span)
        key = tuple(ALL if item[0] == "pick" else item for item in written)
        picks = [item[1] for item in written if item[0] == "pick"]
        found = owner
        if not picks or any(item != ALL for item in key):
            found = self.taken(owner, key, node.span, None if picks else name, node.owner.span)
        if not picks:
            return found
        left = [item for item in written if item[0] != "int"]
        axes = [axis for axis, item in enumerate(left) if item[0] == "pick"]
        result: Ref = place_errors(node.span, lambda: self.gather_positions(found, axes, picks, node.span, name))
        return replace(result, kind=owner.kind, complex=owner.complex)

    def taken(self, owner: Ref, key: Key, span: Span, name: str | None, where: Span) -> Ref:
        """Whole numbers and slices of a tensor."""
        self.extents.prepare(key, owner.shape, span)
        return self.apply.step(role_entry(Role.INDEXES), [(owner, where)], {"key": key}, span, "indexing", name)

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
        if isinstance(value, CallResults):
            count = count_results(value, self.extents, self.builder, span)
        elif isinstance(value, Ref) and value.pair:
            count = 2
        elif isinstance(value, Ref) and visible_shape(value):
            size = value.shape[0]
            if wanted is not None and wanted > 0 and self.extents.sizes.number(size) is None:
                self.extents.assume(size, wanted - self.extents.extra)
            count = self.extents.whole(size, span)
        else:
            raise NotationError(f"{describe_meaning(value)} cannot be unpacked", span=span, hints=("one name",))
        if count is None or count > MOST_PARTS:
            told = "the number of values is not known here" if count is None else f"{count:,} values at once"
            raise UnsupportedError(told, span=span, hints=(RUN,))
        return count

    def one_of(self, value: Meaning, place: int, span: Span, name: str | None) -> Meaning:
        """One of the values that Python takes from ``value``."""
        if isinstance(value, tuple):
            return value[place]
        if isinstance(value, CallResults):
            return self.part(value, place, span, name)
        if value.pair:
            return choose_from_pair(value, place, span)
        key = (("int", place), *[ALL] * (len(visible_shape(value)) - 1))
        return self.taken(value, key, span, name, span)

    def part(self, parts: CallResults, place: int, span: Span, name: str | None) -> Meaning:
        """One of the tensors that a call gives."""
        cut = parts.arguments[0].meaning
        sizes = visible_shape(cut) if isinstance(cut, Ref) and not self.extents.symbolic else ()
        if not isinstance(parts.op, Compound) and any(self.extents.sizes.number(size) is None for size in sizes):
            count_results(parts, self.extents, self.builder, span)  # chooses a size
        return self.apply.part(parts, place, span, name)

    # Positions --------------------------------------------------------------------------------------

    def gather_positions(
        self, x: Ref, axes: Sequence[int], picks: Sequence[Meaning], span: Span, name: str | None
    ) -> Ref:
        """The entries of ``x`` at the positions ``picks`` on ``axes``, called ``name``."""
        call = EntryCaller(self.builder, span, None)
        places = [self.make_positions(x.shape[axis], index, span) for axis, index in zip(axes, picks, strict=True)]
        first = axes[0]
        along = self.find_axis_of_one_per_row(x, axes, places)
        if along is not None:
            place = places[along]
            sizes = list(x.shape)
            sizes[along] = as_size(1)
            index = call(basics.reshape, place, shape=tuple(sizes))
            taken = call(basics.gather, x, index, dim=along)
            return call.last(basics.reshape, (taken,), {"shape": place.shape}, name)
        if len(axes) > 1:
            together = list(axes) == list(range(first, first + len(axes)))
            sizes = [as_size(self.extents.whole(x.shape[axis], span)) for axis in axes]
            first = first if together else 0
            rest = [n for n in range(len(x.shape)) if n not in axes]
            order = (*rest[:first], *axes, *rest[first:])
            if order != tuple(range(len(x.shape))):
                x = call(basics.permute, x, dims=order)
            shape = (*x.shape[:first], sp.Mul(*sizes), *x.shape[first + len(axes) :])
            x = call(basics.reshape, x, shape=shape)
            sized = zip(places, sizes, strict=True)
            flat, *others = (self.count_from_front(call, place, int(size)) for place, size in sized)
            for place, size in zip(others, sizes[1:], strict=True):
                flat = call(basics.add, call(basics.mul, flat, int(size)), place)
            places = [replace(flat, kind=DtypeKind.WHOLE)]
        (place,) = places
        if len(place.shape) == 1:
            return call.last(basics.index_select, (x, place), {"dim": first}, name)
        shape = (*x.shape[:first], *place.shape, *x.shape[first + 1 :])
        row = call(basics.reshape, place, shape=(sp.Mul(*place.shape),))
        return call.last(basics.reshape, (call(basics.index_select, x, row, dim=first),), {"shape": shape}, name)

    def find_axis_of_one_per_row(self, x: Ref, axes: Sequence[int], places: Sequence[Ref]) -> int | None:
        """The axis on which ``x[arange(n), y]`` picks one entry of each row; None where every row has not one."""
        if len(x.shape) != 2 or list(axes) != [0, 1] or any(len(place.shape) != 1 for place in places):
            return None
        for row, place in enumerate(places):
            counts = place.name in self.builder.made and self.builder.made[place.name][1].counts
            (count,), size = place.shape, x.shape[row]
            if counts and count.is_Integer and self.extents.sizes.number(size) is None:
                self.extents.assume(size, int(count))
            known = self.extents.sizes.number(size)
            if counts and (self.extents.sizes.find(size) == count or (known is not None and known == count)):
                self.extents.sizes.unify(size, count)
                return 1 - row
        return None

    def make_positions(self, size: Any, index: Meaning, span: Span) -> Ref:
        """The positions on an axis as a tensor: a list becomes one of the text's own, counted from the front."""
        if isinstance(index, Ref):
            if index.kind is DtypeKind.TRUTH:
                raise UnsupportedError("how many entries a mask keeps depends on its values", span=span, hints=MASK)
            if index.complex or index.pair:
                raise UnsupportedError("positions are integers", span=span)
            said = self.literal_positions(index)
            if len(index.shape) > 1 or all(n >= 0 for n in said):
                self.extents.need(size, least_size(said), span)
                return index
            index = tuple(said)
        if index and all(isinstance(row, tuple) for row in index):
            # torch takes the rows for positions on one axis each; a later one will take them for one tensor's
            lists = [list(row) for row in index]
            hints = (f"x[{', '.join(map(str, lists))}]", f"x[torch.tensor({lists})]")
            raise UnsupportedError("a list of lists is ambiguous: write which is meant", span=span, hints=hints)
        if not all(isinstance(n, int) for n in index):
            raise UnsupportedError("a list of positions contains integers", span=span, hints=("x[[0, 2]]",))
        if index and all(isinstance(n, bool) for n in index):
            self.check_mask_length(size, len(index), span)
            index = tuple(n for n, kept in enumerate(index) if kept)
        least = least_size(index)
        if any(n < 0 for n in index):
            self.extents.assume(size, least)
            length = self.extents.whole(size, span)
            index = tuple(n + length if n < 0 else n for n in index)
        known = self.extents.sizes.number(size)
        outside = [n for n in index if known is not None and not 0 <= n < known]
        if outside:
            raise ShapeError(f"there is no position {outside[0]} on an axis of {known}", span=span)
        self.extents.need(size, least, span)
        listed = list(index)
        made = LiteralTensor(
            (as_size(len(listed)),), lambda shape, *_: array_from_entries(listed, shape, "the list"), DtypeKind.WHOLE
        )
        return self.builder.make(made, f"torch.tensor({listed})")

    def count_from_front(self, call: EntryCaller, place: Ref, size: int) -> Ref:
        """Positions on one of several axes, which become one number: those that are data may count from the end."""
        said = self.literal_positions(place)
        if said and min(said) >= 0 and max(said) < size:
            return place
        self.builder.positions[place.name, size] = None
        return call(basics.remainder, place, size)

    def literal_positions(self, index: Ref) -> list[int]:
        """The positions that the text itself writes, as in ``torch.tensor([0, 2])``; none where a size decides one."""
        made = self.builder.made[index.name][1] if index.name in self.builder.made else None
        if (
            made is None
            or made.drawn
            or made.kind is not DtypeKind.WHOLE
            or not all(size.is_Integer for size in made.shape)
        ):
            return []
        shape = tuple(map(int, made.shape))
        if prod(shape) > LARGEST_GUESS:
            return []
        decided: list[sp.Expr] = []

        def plain(value: Any) -> Any:
            decided.extend([value] if isinstance(value, sp.Expr) else [])
            return 0 if decided else value

        found = made.fill(shape, plain, np.random.default_rng())
        return [] if decided else [int(n) for n in found.reshape(-1)]

    def check_mask_length(self, size: Any, count: int, span: Span) -> None:
        """A list of truth values has one for each entry of its axis."""
        found = self.extents.sizes.number(size)
        if found is not None and found != count:
            raise ShapeError(f"{count} booleans do not fit an axis of {found}", span=span)
        self.extents.sizes.unify(size, as_size(count))


def least_size(positions: Sequence[int]) -> int:
    """How large an axis has to be for these positions on it."""
    return max((n + 1 if n >= 0 else -n for n in positions), default=0)
