"""What the equation of one line means on every line of a tensor, along one axis, several, or all; and losses of it.

Comes in: the text, the operands and options at hand. Goes out: the right-hand side in SymPy at the output's indices,
and the shape. The equation is written for one line; the indices on the other axes are the output's own. A `LossReading`
is the equation of one entry or of one line, added up or averaged as its ``reduction`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.operands import axes_of, axis_of, common_shape, reduced_shape, require_rank
from symgrad.entries.readings import (
    AxisView,
    EquationText,
    PointwiseEquation,
    drop_absent_operands,
    equation_functions,
)
from symgrad.entries.spec import At, HeldTensor, Options, View, shape_of_first
from symgrad.indexing import contracted_sum, fresh_axes
from symgrad.indexing.symbols import Expr
from symgrad.notation.meaning import EquationMeaning, combined_letter
from symgrad.notation.tree import Access, IndexEquation, walk
from symgrad.shapes import Shape, Sizes


@dataclass(frozen=True)
class InLines(EquationMeaning):
    """A meaning in which the letter of a sum runs over every axis that it stands for; over none it is 0."""

    axes: Shape = ()

    def spanned(self, letter: str) -> Shape:
        """Every one of these axes."""
        return self.axes


SPACES: Mapping[str, Callable[[int], tuple[int, ...]]] = {
    "all but channels": lambda rank: (0, *range(2, rank))[:rank],
    "space": lambda rank: tuple(range(2, rank)),
    "classes": lambda rank: (min(rank - 1, 1),),
    "last": lambda rank: tuple(range(rank))[-1:],
    "all": lambda rank: tuple(range(rank)),
}
"""Axes that go by their place: (batch, channels or classes, space…)."""
REST = "all but "
"""In front of an option that names the one axis along which the equation does not hold."""


@dataclass(frozen=True)
class EquationAlongAxes(EquationText):
    """An equation for one line of a tensor, ``option`` saying along which axes, the one axis' number, or a place.

    An operand that the text names without indices has the axes that are not the line's, or is a vector over the
    channels, axis 1; one with fewer axes than the first has the last ones alone.
    """

    option: str = "dim"
    least: int = 0

    @property
    def several(self) -> bool:
        """Whether it may run along several axes, or all."""
        chosen = self.call.signature.parameters.get(self.option)
        return chosen is not None and chosen.default is None and not self.one_or_all

    @property
    def one_or_all(self) -> bool:
        """Whether it runs along one axis, or all where none is named."""
        chosen = self.call.signature.parameters.get(self.option)
        return chosen is not None and chosen.annotation == int | tuple[int, ...] | None

    @property
    def reduces(self) -> bool:
        """Whether one line gives one entry."""
        return not self.text.startswith("out[")

    @property
    def examples(self) -> tuple[str, ...]:
        """A vector, and axes of a matrix."""
        name, shown = self.call.name, ", ".join(self.call.operands)
        if self.several:
            return (f"{name}({shown})", f"{name}({shown}, dim=0)", f"{name}({shown}, dim=-1, keepdim=True)")
        vectors, matrices = (" ".join(f"{n}:{s}" for n in self.call.operands) for s in ("4", "2x3"))
        return (f"{name}({shown}, 0) with {vectors}", f"{name}({shown}, 1) with {matrices}")

    def prepare(self, shapes: tuple[Shape | None, ...], **options: Hashable) -> dict[str, Hashable]:
        """The axes from the front."""
        longest = max((shape for shape in shapes if shape is not None), key=len)
        found, rank = {**self.call.usual, **options}, len(require_rank(longest, self.least))
        if self.option.isdigit() or self.option in SPACES:
            return found
        option = self.option.removeprefix(REST)
        dim = found[option]
        if self.one_or_all:
            return found
        return {**found, option: axes_of(dim, rank) if self.several else axis_of(dim, rank)}

    @property
    def shape(self) -> Callable[..., Shape]:
        """The operands' common shape, without the axes or with 1 there where one line gives one entry."""
        if not self.reduces:
            return shape_of_first if len(self.call.operands) == 1 else self.common
        return reduced_shape if self.several else self.without_one

    def axes(self, options: Options, rank: int) -> tuple[int, ...]:
        """The axes of a line."""
        if self.option in SPACES:
            return SPACES[self.option](rank)
        if self.option.startswith(REST):
            return tuple(a for a in range(rank) if a != options[self.option.removeprefix(REST)])
        dim: Any = int(self.option) if self.option.isdigit() else options[self.option]
        if self.option == "normalized_shape":
            return tuple(range(rank - len(dim), rank))
        return tuple(range(rank)) if dim is None else (dim if isinstance(dim, tuple) else (dim,)) if rank else ()

    def line(self, view: View, axes: tuple[int, ...], others: tuple[Expr, ...], rank: int) -> AxisView:
        """An operand on a line."""
        if view.constant is None and (view.rank < rank or not rank):
            return AxisView(view, tuple(range(view.rank)), (), joined=True)
        return AxisView(view, axes, others, joined=True)

    def common(self, sizes: Sizes, shapes: tuple[Shape | None, ...], **options: Hashable) -> Shape:
        """The operands' common shape."""
        return common_shape(sizes, shapes)

    def without_one(self, sizes: Sizes, shapes: tuple[Shape | None, ...], **options: Hashable) -> Shape:
        """The shape without one axis."""
        whole = common_shape(sizes, shapes)
        return reduced_shape(sizes, (whole,), self.axes(options, len(whole)), options.get("keepdim") is True)

    def forward(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """NumPy's function under this call; a number is a line of one entry."""

        def values(*arrays: Any, **options: Any) -> Any:
            given = {"axis" if n == self.option else "keepdims" if n == "keepdim" else n: v for n, v in options.items()}
            if np.ndim(arrays[0]) or self.several:
                return function(*arrays, **given)
            return np.reshape(function(*(np.reshape(a, (1,)) for a in arrays), **given), ())

        return values

    def by_torch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """torch's function under this call; of a number it has no axes to name."""

        def called(torch: Any, *tensors: Any, **options: Any) -> Any:
            if self.several and not tensors[0].dim():
                options = {**options, self.option: ()}
            if self.one_or_all and options[self.option] is None and not options["keepdim"]:
                del options["keepdim"]
            return function(torch, *tensors, **options)

        return called

    def index(self, at: At, views: Sequence[View | None], held: Mapping[str, HeldTensor], options: Options) -> Expr:
        """The right-hand side, on the line that the output's indices lie on."""
        return self.of(self.tree(views, options), at, views, held, options)

    def of(
        self,
        tree: IndexEquation,
        at: At,
        views: Sequence[View | None],
        held: Mapping[str, HeldTensor],
        options: Options,
    ) -> Expr:
        """The right-hand side of this equation there."""
        given = self.call.given(views)
        shape = next((view.shape for view in given.values() if view.constant is None), ())
        axes = self.axes(options, len(shape))
        stays = bool(tree.letters) or options.get("keepdim") is True
        others = tuple(i for a, i in enumerate(at) if not (stays and a in axes))
        read = {node.name for node in walk(tree.right) if isinstance(node, Access)}
        tensors: dict[str, Any] = {name: self.line(view, axes, others, len(shape)) for name, view in given.items()}
        for name, view in given.items():
            if name not in read:
                own = others if view.rank == len(others) else at[1:2] if view.rank else ()
                tensors[name] = AxisView(view, (), own)
        tensors |= self.beside(at, held, options)
        letters = {letter.name: combined_letter(tuple(at[a] for a in axes)) for letter in tree.letters}
        sizes = tuple(shape[a] for a in axes)
        return InLines(tensors, letters, {}, equation_functions(), axes=sizes).of(tree.right)


SIZE_AVERAGE, REDUCE = "size_average: reduction=None", "reduce: reduction=None"
BY_AVERAGE = f"{SIZE_AVERAGE}, {REDUCE}"
"""torch's older words, in the places that they have there: what stands third in ``F.mse_loss(x, y, 'sum')`` is one."""
BY_WORD = "reduction: 'mean' | 'sum' | 'none'='mean'"


@dataclass(frozen=True)
class LossReading:
    """The loss of one entry, or of one line, added up or averaged as ``reduction`` says.

    Where the equation defines a w the mean is weighed: divided by the sum of w. ``values`` computes it on arrays, with
    its w beside it if there is one.
    """

    entry: PointwiseEquation | EquationAlongAxes
    values: Callable[..., Any] | None = None

    @property
    def examples(self) -> tuple[str, ...]:
        """Each reduction."""
        call = self.entry.call
        plainly = f"F.{call.name}({', '.join(name for name in call.operands if name not in call.optional)}"
        return (f"{plainly})", *(f'{plainly}, reduction="{word}")' for word in ("sum", "none")))

    def shape(self, sizes: Sizes, shapes: tuple[Shape | None, ...], reduction: str, **options: Any) -> Shape:
        """That of the losses, or one number."""
        if reduction != "none":
            return ()
        first = shapes[0] or ()
        return (
            self.entry.without_one(sizes, (first,))
            if isinstance(self.entry, EquationAlongAxes)
            else common_shape(sizes, shapes)
        )

    def index(self, at: At, views: Sequence[View | None], held: Mapping[str, HeldTensor], options: Options) -> Expr:
        """The right-hand side at each entry, and their sum or mean."""
        rest = {name: value for name, value in options.items() if name != "reduction"}
        reduction = options["reduction"]
        if reduction == "none":
            return self.entry.index(at, views, held, rest)
        whole = next((v.shape for v in views if v is not None and v.constant is None), ())
        axes = self.entry.axes(rest, len(whole)) if isinstance(self.entry, EquationAlongAxes) else ()
        shape = tuple(size for a, size in enumerate(whole) if a not in axes)
        inner = fresh_axes(shape)
        total = contracted_sum(self.entry.index(inner, views, held, rest), inner)
        weight = self.weight(views, rest)
        if reduction == "mean" and weight is not None and isinstance(self.entry, EquationAlongAxes):
            return total / contracted_sum(self.entry.of(weight, inner, views, held, rest), inner)
        count = shape[:1] if reduction == "batchmean" else () if reduction == "sum" else shape
        return total / sp.Mul(*count)

    def weight(self, views: Sequence[View | None], options: Options) -> IndexEquation | None:
        """What the equation defines as w."""
        text, absent = self.entry.written(views, options)
        definitions = text.partition(" where ")[2]
        return drop_absent_operands(f"out = w where {definitions}", absent) if " w = " in text else None

    def forward(self, *arrays: Any, reduction: str, **options: Any) -> Any:
        """The same on arrays, where ``values`` computes it there."""
        assert self.values is not None
        values = self.values(*arrays, **options)
        found, weights = values if isinstance(values, tuple) else (np.asarray(values), None)
        if reduction == "none":
            return found
        weighed = found.size if weights is None else np.sum(weights)
        count = len(found) if reduction == "batchmean" else 1 if reduction == "sum" else weighed
        return np.sum(found) / (count or np.float64(0))
