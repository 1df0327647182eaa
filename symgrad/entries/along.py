"""Equations on axes that options name (``dim``), for every rank; and losses made of such equations.

Comes in: the text, operands and options. Goes out: the options in canonical form, the right-hand side in SymPy at the
output's indices, and the shape. ``out[i,j] = x[j,i]`` has a letter for each of the axes dim0 and dim1; in
``out = Σ_j x[j]`` j is one axis, several, or all, joined to one line. On the other axes every tensor has the output's
indices. A `LossReading` is the sum or mean of the equation of one entry or of one line, as its ``reduction`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.operands import axes_of, axis_of, common_shape, reduced_shape, require_equal_rank, require_rank
from symgrad.entries.readings import (
    AxisView,
    EquationText,
    PointwiseEquation,
    Shapes,
    drop_absent_operands,
    equation_functions,
    exact_options,
    sizes_on,
)
from symgrad.entries.spec import At, HeldTensor, Options, View
from symgrad.errors import InputError, ShapeError
from symgrad.indexing import contracted_sum, fresh_axes
from symgrad.indexing.symbols import Expr
from symgrad.notation.checks import find_checked_ranges
from symgrad.notation.linear import bind_letters, slot_size
from symgrad.notation.meaning import EquationMeaning, combined_letter
from symgrad.notation.ranges import RangeFinder
from symgrad.notation.tree import Access, IndexEquation, walk
from symgrad.shapes import Shape, Sizes


@dataclass(frozen=True)
class InLines(EquationMeaning):
    """A meaning in which the letter of a sum runs over all ``axes`` of a line; over no axes it is 0."""

    axes: Shape | None = None

    def spanned(self, letter: str) -> Shape:
        """Return the sizes of the axes that ``letter`` runs over."""
        return super().spanned(letter) if self.axes is None else self.axes


SPACES: Mapping[str, Callable[[int], tuple[int, ...]]] = {
    "all but channels": lambda rank: (0, *range(2, rank))[:rank],
    "space": lambda rank: tuple(range(2, rank)),
    "classes": lambda rank: (min(rank - 1, 1),),
    "last": lambda rank: tuple(range(rank))[-1:],
    "all": lambda rank: tuple(range(rank)),
}
"""Axes by their place: (batch, channels or classes, space…)."""
REST = "all but "
"""Prefix of an option that names the one axis which is not an axis of the equation."""


def find_named_axes(name: str, options: Options, rank: int) -> tuple[int, ...]:
    """Return the axes that ``name`` denotes: an option, a number, or one of `SPACES`."""
    if name in SPACES:
        return SPACES[name](rank)
    if name.startswith(REST):
        return tuple(a for a in range(rank) if a != options[name.removeprefix(REST)])
    dim: Any = int(name) if name.isdigit() else options[name]
    if name == "normalized_shape":
        return tuple(range(rank - len(dim), rank))
    return tuple(range(rank)) if dim is None else dim if isinstance(dim, tuple) else (dim,)


@dataclass(frozen=True)
class Axes:
    """The ``options`` that name one axis each, separated by spaces; an equation has its indices on these axes.

    Operands listed in ``apart`` have no other axes, like the index of `index_select`. If ``repeated``, two options may
    name the same axis. If ``joined``, one option names all the axes, or the number of an axis, or one of `SPACES`.
    """

    options: str = ""
    apart: str = ""
    repeated: bool = False
    joined: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The options, one by one, as a tuple."""
        return (self.options,) if self.joined else tuple(self.options.split())


def axes_with_indices(count: int, axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return the axes of ``count`` indices: the named ``axes``, then the last ones; too few indices are all last."""
    behind = count - len(axes) if count >= len(axes) else count
    return (*(axes if count >= len(axes) else ()), *range(rank - behind, rank))


@dataclass(frozen=True)
class EquationOnAxes(EquationText):
    """An equation on the axes that options name: a letter for each axis, or one letter for axes joined to a line.

    A tensor with as many indices in the text as named axes has its indices on these. Further indices are on its last
    axes. With fewer indices, all are on its last axes, and it lacks the named ones. On a line, a tensor with fewer axes
    than the first operand is a line itself. A tensor without indices has the axes outside the line, or is a vector over
    the channels, axis 1.
    """

    named: Axes
    least: int = 0

    @property
    def several(self) -> bool:
        """Whether the option takes several axes, or None for all."""
        chosen = self.call.signature.parameters.get(self.named.options)
        return chosen is not None and chosen.default is None and not self.one_or_all

    @property
    def one_or_all(self) -> bool:
        """Whether the option takes one axis, or None for all."""
        chosen = self.call.signature.parameters.get(self.named.options)
        return chosen is not None and chosen.annotation == int | tuple[int, ...] | None

    @property
    def reduces(self) -> bool:
        """Whether each line is reduced to one entry."""
        return not self.text.startswith("out[")

    @property
    def examples(self) -> tuple[str, ...]:
        """Example calls: along a vector, and along axes of a matrix."""
        name, shown = self.call.name, ", ".join(self.call.operands)
        if self.several:
            return (f"{name}({shown})", f"{name}({shown}, dim=0)", f"{name}({shown}, dim=-1, keepdim=True)")
        vectors, matrices = (" ".join(f"{n}:{s}" for n in self.call.operands) for s in ("4", "2x3"))
        return (f"{name}({shown}, 0) with {vectors}", f"{name}({shown}, 1) with {matrices}")

    def counts(self, tree: IndexEquation) -> dict[str, int]:
        """Return the number of indices of each tensor in the text."""
        return {node.name: len(node.slots) for node in walk(tree.right) if isinstance(node, Access)}

    def axes(self, options: Options, rank: int) -> tuple[int, ...]:
        """Return the named axes, counted from the front; a scalar has no axes to join."""
        found = sum((find_named_axes(name, options, rank) for name in self.named.names), ())
        return found if rank or not self.named.joined else ()

    def others(self, tree: IndexEquation, shapes: Shapes) -> int | None:
        """Return the number of axes outside the equation; None if all operands are scalars."""
        counts = self.counts(tree)
        named = self.call.given(shapes).items()
        ranks = [len(s) - counts.get(n, 0) for n, s in named if n not in self.named.apart.split() and s != ()]
        return max(ranks, default=None)

    def prepare(self, shapes: Shapes, **given: Hashable) -> dict[str, Hashable]:
        """Return the options with axes counted from the front."""
        found = {**self.call.usual, **given}
        tree, names = self.tree(shapes, found), [name.removeprefix(REST) for name in self.named.names]
        require_rank(shapes[0] or (), self.least)
        others = self.others(tree, shapes)
        held = others is not None or self.counts(tree).get(self.call.operands[0], 0) < len(names)
        rank = (others or 0) + len(names) if held else 0
        for name in names:
            if name in found and not self.one_or_all:
                found[name] = axes_of(found[name], rank) if self.several else axis_of(found[name], rank)
        axes = self.axes(found, rank)
        if len(set(axes)) < len(axes) and not self.named.repeated:
            repeated = ", ".join(f"{name}={given.get(name, found[name])}" for name in names)
            raise InputError("this takes two different axes", found=(repeated,))
        return found

    @property
    def shape(self) -> Callable[..., Shape]:
        """The rule for the shape of the output."""
        if not self.named.joined:
            return self.lettered_shape
        return reduced_shape if self.reduces and self.several else self.joined_shape

    def joined_shape(self, sizes: Sizes, shapes: Shapes, **options: Hashable) -> Shape:
        """Return the common shape of the operands, without the axes (or with 1 there) if lines are reduced."""
        whole = common_shape(sizes, shapes)
        if not self.reduces:
            return whole
        return reduced_shape(sizes, (whole,), self.axes(options, len(whole)), options.get("keepdim") is True)

    def lettered_shape(self, sizes: Sizes, shapes: Shapes, **options: Hashable) -> Shape:
        """Return the shape of the output: sizes of the letters on the left on their axes, other axes as they are."""
        tree, axes, first = self.tree(shapes, options), self.axes(options, 0), shapes[0] or ()
        counts, named = self.counts(tree), self.call.given(shapes)
        lines: dict[str, Shape] = {}
        rests: list[Shape] = []
        for name, own in named.items():
            spots, apart = self.spots(name, counts.get(name, 0), axes, len(own)), name in self.named.apart.split()
            if name in counts:
                lines[name] = sizes_on(own, spots)
            if apart and len(own) > len(spots):
                raise ShapeError(f"{name} has {len(own)} axes here, and not {len(spots)}")
            if not apart and own:
                rests.append(tuple(size for a, size in enumerate(own) if a not in spots))
        letters = find_checked_ranges(tree, lines, sizes, exact_options(options)).found
        require_equal_rank(sizes, *rests)
        for rest in rests[1:]:
            sizes.match(rests[0], rest)
        others = rests[0] if rests else ()
        rank = (self.others(tree, shapes) or 0) + len(tree.slots)
        if not first and len(tree.slots) == counts.get(self.call.operands[0]):
            return ()
        left = dict(zip(axes_with_indices(len(tree.slots), axes, rank), tree.slots, strict=True))
        if len(others) < sum(a not in left for a in range(rank)):
            raise ShapeError(f"the result has {rank} axes, more than its operands give it")
        remaining = iter(others)
        return tuple(sizes.find(slot_size(left[a], letters)) if a in left else next(remaining) for a in range(rank))

    def spots(self, name: str, count: int, axes: tuple[int, ...], rank: int, whole: int = 0) -> tuple[int, ...]:
        """Return the axes of a tensor's indices; a tensor with fewer axes than ``whole`` is a line itself."""
        if self.named.joined and count:
            return axes if rank and rank >= whole else tuple(range(rank))
        return tuple(range(count)) if name in self.named.apart.split() else axes_with_indices(count, axes, rank)

    def forward(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return NumPy's ``function`` with this call's parameters; a scalar is treated as a line of one entry."""

        def values(*arrays: Any, **options: Any) -> Any:
            own = {self.named.options: "axis", "keepdim": "keepdims"}
            given = {own.get(name, name): value for name, value in options.items()}
            if np.ndim(arrays[0]) or self.several:
                return function(*arrays, **given)
            return np.reshape(function(*(np.reshape(a, (1,)) for a in arrays), **given), ())

        return values

    def by_torch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return torch's ``function`` with this call's parameters; a scalar has no axes to name."""

        def called(torch: Any, *tensors: Any, **options: Any) -> Any:
            if self.several and not tensors[0].dim():
                options = {**options, self.named.options: ()}
            if self.one_or_all and options[self.named.options] is None and not options["keepdim"]:
                del options["keepdim"]
            return function(torch, *tensors, **options)

        return called

    def index(self, at: At, views: Sequence[View | None], held: Mapping[str, HeldTensor], options: Options) -> Expr:
        """Return the right-hand side with the output's indices on these axes in place of the letters on the left."""
        return self.of(self.tree(views, options), at, views, held, options)

    def of(
        self,
        tree: IndexEquation,
        at: At,
        views: Sequence[View | None],
        held: Mapping[str, HeldTensor],
        options: Options,
    ) -> Expr:
        """Return the right-hand side of ``tree`` at the output's indices ``at``."""
        given, counts, joined = self.call.given(views), self.counts(tree), self.named.joined
        whole = next((view.shape for view in given.values() if view.constant is None), ())
        axes = self.axes(options, len(whole))
        spots = self.spots("out", len(tree.slots) or (joined and options.get("keepdim") is True), axes, len(at))
        others = tuple(index for a, index in enumerate(at) if a not in spots)
        tensors: dict[str, Any] = {}
        for name, view in given.items():
            if name in counts:
                own = self.spots(name, counts[name], axes, view.rank, len(whole))
                tensors[name] = AxisView(view, own, others, joined)
            else:
                tensors[name] = AxisView(view, (), others if view.rank == len(others) else at[1:2])
        lines = {name: line.shape for name, line in tensors.items()}
        tensors |= self.beside(at, held, options)
        places: list[Any] = [at[a] if at else sp.S.Zero for a in spots]
        if joined:
            places = [combined_letter(tuple(places))] * len(tree.slots)
        found = {} if joined else RangeFinder(tree, lines, Sizes(), exact_options(options)).find_asked()
        letters = bind_letters(tree, tree.slots, places, found)
        line = tuple(whole[a] for a in axes) if joined else None
        return InLines(tensors, letters, found, equation_functions(), axes=line).of(tree.right)


SIZE_AVERAGE, REDUCE = "size_average: reduction=None", "reduce: reduction=None"
BY_AVERAGE = f"{SIZE_AVERAGE}, {REDUCE}"
"""torch's older options, in their positions: the third argument of ``F.mse_loss(x, y, 'sum')`` is one of them."""
BY_WORD = "reduction: 'mean' | 'sum' | 'none'='mean'"


@dataclass(frozen=True)
class LossReading:
    """The sum or mean, as ``reduction`` says, of the loss of one entry or of one line.

    If the equation defines a weight w, the mean is weighted: the sum is divided by the sum of w. ``values`` computes
    the losses on arrays, and returns them with w if there is one.
    """

    entry: PointwiseEquation | EquationOnAxes
    values: Callable[..., Any] | None = None

    @property
    def examples(self) -> tuple[str, ...]:
        """Example calls: one for each reduction."""
        call = self.entry.call
        plainly = f"F.{call.name}({', '.join(name for name in call.operands if name not in call.optional)}"
        return (f"{plainly})", *(f'{plainly}, reduction="{word}")' for word in ("sum", "none")))

    def shape(self, sizes: Sizes, shapes: tuple[Shape | None, ...], reduction: str, **options: Any) -> Shape:
        """Return the shape of the losses, or () for their sum or mean."""
        if reduction != "none":
            return ()
        first = shapes[0] or ()
        return (
            self.entry.joined_shape(sizes, (first,), **options)
            if isinstance(self.entry, EquationOnAxes)
            else common_shape(sizes, shapes)
        )

    def index(self, at: At, views: Sequence[View | None], held: Mapping[str, HeldTensor], options: Options) -> Expr:
        """Return the loss of each entry, or the sum or mean of all."""
        rest = {name: value for name, value in options.items() if name != "reduction"}
        reduction = options["reduction"]
        if reduction == "none":
            return self.entry.index(at, views, held, rest)
        whole = next((v.shape for v in views if v is not None and v.constant is None), ())
        axes = self.entry.axes(rest, len(whole)) if isinstance(self.entry, EquationOnAxes) else ()
        shape = tuple(size for a, size in enumerate(whole) if a not in axes)
        inner = fresh_axes(shape)
        total = contracted_sum(self.entry.index(inner, views, held, rest), inner)
        weight = self.weight(views, rest)
        if reduction == "mean" and weight is not None and isinstance(self.entry, EquationOnAxes):
            return total / contracted_sum(self.entry.of(weight, inner, views, held, rest), inner)
        count = shape[:1] if reduction == "batchmean" else () if reduction == "sum" else shape
        return total / sp.Mul(*count)

    def weight(self, views: Sequence[View | None], options: Options) -> IndexEquation | None:
        """Return the equation's definition of the weight w; None if it has none."""
        text, absent = self.entry.written(views, options)
        definitions = text.partition(" where ")[2]
        return drop_absent_operands(f"out = w where {definitions}", absent) if " w = " in text else None

    def forward(self, *arrays: Any, reduction: str, **options: Any) -> Any:
        """Return the loss of arrays, computed by ``values``."""
        assert self.values is not None
        values = self.values(*arrays, **options)
        found, weights = values if isinstance(values, tuple) else (np.asarray(values), None)
        if reduction == "none":
            return found
        weighed = found.size if weights is None else np.sum(weights)
        count = len(found) if reduction == "batchmean" else 1 if reduction == "sum" else weighed
        return np.sum(found) / (count or np.float64(0))
