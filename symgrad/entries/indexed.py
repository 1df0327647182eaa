"""Equations with indices, of whole operands: ``out[…,i,k] = Σ_j x[…,i,j]·a[…,j,k]``.

Comes in: the text, shapes of operands and options. Goes out: the shape of the output, or an error; the axes that are
broadcast (those of ``…``); and the right-hand side in SymPy at the output's indices.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from symgrad.entries.readings import EquationText, Shapes, equation_functions, exact_options
from symgrad.entries.spec import At, HeldTensor, Options, View
from symgrad.errors import ShapeError
from symgrad.indexing.symbols import Expr
from symgrad.notation.linear import bind_letters, letter_sizes, slots_shape, split_leading_indices
from symgrad.notation.meaning import EquationMeaning
from symgrad.notation.ranges import RangeFinder
from symgrad.notation.scope import AccessPattern
from symgrad.notation.tree import Access, Dots, FlatEntry, IndexEquation
from symgrad.shapes import Shape, Sizes


@dataclass(frozen=True)
class IndexedEquation(EquationText):
    """An equation with indices: axes with one letter have one size, and ranges of sums follow from the text."""

    def patterns(self, tree: IndexEquation, names: Iterable[str]) -> dict[str, AccessPattern]:
        """Return how many axes each operand has in the text, and whether it has ``…``."""
        found = {name: AccessPattern(0, False) for name in names}
        for node in tree.entries:
            if isinstance(node, FlatEntry) and node.name in found:
                found[node.name] = AccessPattern(0, False, flat=True)
            if isinstance(node, Access) and node.name in found:
                more = any(isinstance(slot, Dots) for slot in node.slots)
                found[node.name] = AccessPattern(len(node.slots) - more, more)
        return found

    def align(self, sizes: Sizes, shapes: Shapes, **options: Hashable) -> Any:
        """Return the shapes to broadcast to: the axes of ``…`` are broadcast, the others are kept."""
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
        """Return the shape of the output: the axes of ``…``, then the sizes of the letters on the left."""
        tree, aligned = self.tree(shapes, options), self.align(sizes, shapes, **options)
        given = self.call.given(aligned)
        found = RangeFinder(tree, given, sizes, exact_options(options)).find().found
        patterns = self.patterns(tree, given)
        leads = (patterns[name].lead(shape) for name, shape in given.items())
        return sizes.shape(slots_shape(tree.slots, max(leads, key=len, default=()), found))

    def index(self, at: At, views: Sequence[View | None], held: Mapping[str, HeldTensor], options: Options) -> Expr:
        """Return the right-hand side with the output's indices in place of the letters on the left."""
        tree = self.tree(views, options)
        lead, own = split_leading_indices(tree.slots, at)
        tensors = self.call.given(views)
        entries = {node.name: node for node in tree.entries if isinstance(node, Access)}
        read = {name: view for name, view in held.items() if name in entries}
        shapes = {name: view.shape for name, view in (*tensors.items(), *read.items()) if name in ("out", *tensors)}
        tensors |= self.beside(at, held, options)
        tensors |= {name: constant_view(view, entries[name], lead) for name, view in read.items()}
        rest = own or (sp.S.Zero,) * len(tree.named)  # one number for a matrix of one row
        found = RangeFinder(tree, shapes, Sizes(), exact_options(options), letter_sizes(tree.named, rest)).find_asked()
        letters = bind_letters(tree, tree.named, rest, found)
        return EquationMeaning(tensors, letters, found, equation_functions(), lead).of(tree.right)


def constant_view(view: View, read: Access, lead: At) -> View:
    """Return the view of a constant tensor: ``…`` are the output's axes, the others may have any size."""
    own = sum(not isinstance(slot, Dots) for slot in read.slots)
    return View(view.name, (*(index.size for index in lead), *(sp.S.One,) * own))
