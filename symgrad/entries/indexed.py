"""Equations with indices: of whole operands, ``out[…,i,k] = Σ_j x[…,i,j]·a[…,j,k]``, or on some of their axes.

Comes in: the text, shapes of operands and options. Goes out: the shape that follows from it, or the refusal; which axes
are broadcast (those of ``…``); and the right-hand side in SymPy at the output's indices.

An equation on axes that options name holds for every rank: ``out[i,j] = x[j,i]`` on dim0 and dim1. A tensor that the
text reads with as many indices as there are such axes has them there; with more, the others are its last ones; with
fewer, all of them are its last ones, and it lacks the axes. On the other axes every tensor has the output's own
indices, but for those that are ``apart``: they have only what the text says.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from symgrad.entries.operands import axis_of, require_equal_rank, require_rank
from symgrad.entries.readings import AxisView, EquationText, equation_functions, exact_options, sizes_on
from symgrad.entries.spec import At, HeldTensor, Options, View
from symgrad.errors import InputError, ShapeError
from symgrad.indexing.symbols import Expr
from symgrad.notation.checks import find_checked_ranges
from symgrad.notation.linear import bind_letters, letter_sizes, slot_size, slots_shape, split_leading_indices
from symgrad.notation.meaning import EquationMeaning
from symgrad.notation.ranges import RangeFinder
from symgrad.notation.scope import AccessPattern
from symgrad.notation.tree import Access, Dots, FlatEntry, IndexEquation, walk
from symgrad.shapes import Shape, Sizes

Shapes = tuple[Shape | None, ...]


@dataclass(frozen=True)
class Axes:
    """The ``options`` that name one axis each, with spaces between; an equation has its indices on these axes.

    Operands that lie ``apart`` have no other axes: the index of `index_select`. If ``repeated``, two options may name
    the same axis.
    """

    options: str = ""
    apart: str = ""
    repeated: bool = False


@dataclass(frozen=True)
class IndexedEquation(EquationText):
    """Letters that are equal are equally long; how far the others run follows from the text."""

    def patterns(self, tree: IndexEquation, names: Iterable[str]) -> dict[str, AccessPattern]:
        """How each operand is read."""
        found = {name: AccessPattern(0, False) for name in names}
        for node in tree.entries:
            if isinstance(node, FlatEntry) and node.name in found:
                found[node.name] = AccessPattern(0, False, flat=True)
            if isinstance(node, Access) and node.name in found:
                more = any(isinstance(slot, Dots) for slot in node.slots)
                found[node.name] = AccessPattern(len(node.slots) - more, more)
        return found

    def align(self, sizes: Sizes, shapes: Shapes, **options: Hashable) -> Any:
        """The axes of ``…`` broadcast; the others are as the letters say."""
        given = self.call.given(shapes)
        patterns = self.patterns(self.tree(shapes, options), given)
        for name, shape in given.items():
            axes, more = patterns[name].axes, patterns[name].more
            if not patterns[name].fits(shape):
                least = "at least " if more else ""
                many = f"{axes} {'axis' if axes == 1 else 'axes'}"
                raise ShapeError(f"this takes a tensor with {least}{many} here, not {len(shape)}")
        common = sizes.broadcast_shapes([patterns[n].lead(shape) for n, shape in given.items() if patterns[n].more])
        whole = {name: patterns[name].under(common, shape) for name, shape in given.items()}
        return tuple(whole.get(name) for name, _ in zip(self.call.names(shapes), shapes, strict=False))

    def shape(self, sizes: Sizes, shapes: Shapes, **options: Hashable) -> Shape:
        """The sizes of the letters on the left, in front of them those of ``…``."""
        tree, aligned = self.tree(shapes, options), self.align(sizes, shapes, **options)
        given = self.call.given(aligned)
        found = RangeFinder(tree, given, sizes, exact_options(options)).find().found
        patterns = self.patterns(tree, given)
        leads = (patterns[name].lead(shape) for name, shape in given.items())
        return sizes.shape(slots_shape(tree.slots, max(leads, key=len, default=()), found))

    def index(self, at: At, views: Sequence[View | None], held: Mapping[str, HeldTensor], options: Options) -> Expr:
        """The right-hand side, the letters of the left being the output's indices."""
        tree = self.tree(views, options)
        lead, own = split_leading_indices(tree.slots, at)
        tensors = self.call.given(views)
        entries = {node.name: node for node in tree.entries if isinstance(node, Access)}
        read = {name: view for name, view in held.items() if name in entries}
        shapes = {name: view.shape for name, view in (*tensors.items(), *read.items()) if name in ("out", *tensors)}
        tensors |= self.beside(at, held, options)
        tensors |= {name: still(view, entries[name], lead) for name, view in read.items()}
        rest = own or (sp.S.Zero,) * len(tree.named)  # one number for a matrix of one row
        found = RangeFinder(tree, shapes, Sizes(), exact_options(options), letter_sizes(tree.named, rest)).find_asked()
        letters = bind_letters(tree, tree.named, rest, found)
        return EquationMeaning(tensors, letters, found, equation_functions(), lead).of(tree.right)


def still(view: View, read: Access, lead: At) -> View:
    """What is held still and read at places of its own: ``…`` are the output axes, the others may have any length."""
    own = sum(not isinstance(slot, Dots) for slot in read.slots)
    return View(view.name, (*(index.size for index in lead), *(sp.S.One,) * own))


def axes_with_indices(count: int, axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The axes that ``count`` indices of a text are on."""
    behind = count - len(axes) if count >= len(axes) else count
    return (*(axes if count >= len(axes) else ()), *range(rank - behind, rank))


@dataclass(frozen=True)
class EquationOnAxes(EquationText):
    """An equation on the axes that ``options`` name."""

    options: tuple[str, ...]
    apart: frozenset[str] = frozenset()
    least: int = 0
    repeated: bool = False

    def counts(self, tree: IndexEquation) -> dict[str, int]:
        """How many indices each tensor has in the text."""
        return {node.name: len(node.slots) for node in walk(tree.right) if isinstance(node, Access)}

    def axes(self, options: Options) -> tuple[int, ...]:
        """The axes, counted from the front."""
        given: list[Any] = [int(name) if name.isdigit() else options[name] for name in self.options]
        return tuple(given)

    def others(self, tree: IndexEquation, shapes: Shapes) -> int:
        """On how many axes the text says nothing."""
        counts = self.counts(tree)
        named = self.call.given(shapes).items()
        ranks = [len(s) - counts.get(n, 0) for n, s in named if n not in self.apart and s != ()]
        return max(ranks, default=0)

    def prepare(self, shapes: Shapes, **given: Hashable) -> dict[str, Hashable]:
        """The axes from the front."""
        found = {**self.call.usual, **given}
        tree, first = self.tree(shapes, found), require_rank(shapes[0] or (), self.least)
        held = first or self.counts(tree).get(self.call.operands[0], 0) < len(self.options)
        rank = self.others(tree, shapes) + len(self.options) if held else 0
        for name in self.options:
            if not name.isdigit():
                found[name] = axis_of(found[name], rank)
        if not self.repeated and len(set(self.axes(found))) < len(self.options):
            told = ", ".join(f"{name}={given.get(name, found[name])}" for name in self.options)
            raise InputError("this takes two different axes", found=(told,))
        return found

    def shape(self, sizes: Sizes, shapes: Shapes, **options: Hashable) -> Shape:
        """The sizes of the letters on the left, on the axes where they stand."""
        tree, axes, first = self.tree(shapes, options), self.axes(options), shapes[0] or ()
        counts, named = self.counts(tree), self.call.given(shapes)
        lines: dict[str, Shape] = {}
        rests: list[Shape] = []
        for name, own in named.items():
            spots = self.spots(name, counts.get(name, 0), axes, len(own))
            if name in counts:
                lines[name] = sizes_on(own, spots)
            if name in self.apart and len(own) > len(spots):
                raise ShapeError(f"{name} has {len(own)} axes here, and not {len(spots)}")
            if name not in self.apart and own:
                rests.append(tuple(size for a, size in enumerate(own) if a not in spots))
        letters = find_checked_ranges(tree, lines, sizes, exact_options(options)).found
        require_equal_rank(sizes, *rests)
        for rest in rests[1:]:
            sizes.match(rests[0], rest)
        others = rests[0] if rests else ()
        rank = self.others(tree, shapes) + len(tree.slots)
        if not first and len(tree.slots) == counts.get(self.call.operands[0]):
            return ()
        left = dict(zip(axes_with_indices(len(tree.slots), axes, rank), tree.slots, strict=True))
        if len(others) < sum(a not in left for a in range(rank)):
            raise ShapeError(f"the result has {rank} axes, more than its operands give it")
        remaining = iter(others)
        return tuple(sizes.find(slot_size(left[a], letters)) if a in left else next(remaining) for a in range(rank))

    def spots(self, name: str, count: int, axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
        """The axes that the indices of a tensor are on."""
        return tuple(range(count)) if name in self.apart else axes_with_indices(count, axes, rank)

    def index(self, at: At, views: Sequence[View | None], held: Mapping[str, HeldTensor], options: Options) -> Expr:
        """The right-hand side, the letters of the left being the output's indices on these axes."""
        tree, axes = self.tree(views, options), self.axes(options)
        counts = self.counts(tree)
        spots = axes_with_indices(len(tree.slots), axes, len(at))
        others = tuple(index for a, index in enumerate(at) if a not in spots)
        tensors: dict[str, Any] = {}
        for name, view in self.call.given(views).items():
            own = self.spots(name, counts[name], axes, view.rank) if name in counts else ()
            tensors[name] = AxisView(view, own, others if view.rank else ())
        lines = {name: line.shape for name, line in tensors.items()}
        tensors |= self.beside(at, held, options)
        found = RangeFinder(tree, lines, Sizes(), exact_options(options)).find_asked()
        letters = bind_letters(tree, tree.slots, [at[a] if at else sp.S.Zero for a in spots], found)
        return EquationMeaning(tensors, letters, found, equation_functions()).of(tree.right)
