"""Index equations on arrays with named axes.

Comes in: an equation, the arrays of the tensors it reads, the numbers of its sizes. Goes out: the array it
defines. A sum of products is one contraction along the path opt_einsum finds (a matmul is a BLAS call), a
condition is a mask, a sum against δ(f(i), p) is a scatter-add; the full grid of all indices is formed only
where nothing better is known. Exact where the arrays and the formula are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import sympy as sp

from symgrad import special
from symgrad.errors import bug
from symgrad.exactness import kept_short
from symgrad.indexing import Bracket, Equation, Index, Ravel, Unravel, is_constant
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, indices_of, is_access, name_of
from symgrad.lowering.arrays import FUNCTIONS as NUMPYS
from symgrad.lowering.exponents import Share, exponentials_only, quarter_zeros, rounded_once, stable_factors
from symgrad.lowering.names import EITHER, FUNCTIONS, RELATIONS
from symgrad.lowering.reading import flat, in_order, is_mask, is_rational, number, scatter_target
from symgrad.lowering.windows import absorb, fold, kept_axes, line, nothing, slide, strided
from symgrad.numeric.budget import check_grid
from symgrad.numeric.exact import EXACT_LIMIT, Array, as_float, exact, exact_power, is_exact
from symgrad.numeric.named import (
    Named,
    added,
    contract,
    divided,
    finite,
    fitting,
    in_shares,
    merged,
    multiplied,
    ravel_rows,
    union,
    unravel_rows,
)
from symgrad.numeric.reading import in_turn, real_number
from symgrad.shapes import Size

MOST_FRACTIONS = 4 * EXACT_LIMIT
"""Numbers that an equation reads and makes, of which it is made in fractions."""


def in_fractions(equation: Equation, used: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array | None:
    """The array that ``equation`` defines, in fractions where the arrays and the formula are exact; None elsewhere.

    Of many numbers it is made in floats: a fraction takes a thousand times as long.
    """
    if not (all(is_exact(a) for a in used.values()) and is_rational(equation.right)):
        return None
    shape = tuple(number(axis.size, sizes) for axis in equation.axes)
    if sum(a.size for a in used.values()) + math.prod(shape) > MOST_FRACTIONS:
        return None
    try:
        found = Evaluator({name: exact(a) for name, a in used.items()}, sizes, exactly=True).value(equation.right)
        return np.array(np.broadcast_to(kept_short(found.on(equation.axes)), shape), dtype=object)
    except (ZeroDivisionError, OverflowError):
        return None


class Evaluator:
    """One evaluation: the arrays, the sizes, and whether it is exact. Results are shared by expression."""

    def __init__(self, arrays: Mapping[str, Array], sizes: Mapping[Size, int], exactly: bool) -> None:
        self.arrays, self.sizes, self.exactly = arrays, dict(sizes), exactly
        self._known: dict[Expr, Named] = {}

    def value(self, node: Expr) -> Named:
        """The value of an expression as an array over its free indices."""
        if node not in self._known:
            self._known[node] = self._value(node)
        return self._known[node]

    def _value(self, node: Expr) -> Named:
        if is_access(node):
            return self._access(node)
        if isinstance(node, Index):
            return Named(np.arange(number(node.size, self.sizes)), (node,))
        if node.is_Symbol and node in self.sizes:
            return self._number(sp.Integer(self.sizes[node]))
        if is_constant(node):
            return self._number(node)
        if isinstance(node, sp.Sum):
            return self._sum(node)
        if isinstance(node, sp.Product):
            return self._product(node)
        if node.is_Mul:
            return self._multiply(self._stable_factors(node))
        if node.is_Add:
            return self._combine(lambda *parts: sum(parts[1:], start=parts[0]), in_order(node.args))
        if node.is_Pow:
            return self._power(node)
        if isinstance(node, sp.exp):
            return self._combine(lambda e: np.exp(as_float(e)), node.args)
        if isinstance(node, Share):
            return self._combine(lambda a, c: np.exp(as_float(a) - c), (node.args[0], sp.log(node.args[1])))
        if isinstance(node, sp.log) and exponentials_only(node.args[0]):
            return self._log_of_exponentials(node.args[0])
        if isinstance(node, (sp.KroneckerDelta, Bracket)):
            return self._condition(node)
        if isinstance(node, sp.Mod):
            return self._combine(np.mod, node.args)
        if isinstance(node, sp.floor):
            above, below = sp.fraction(sp.together(node.args[0]))
            return (
                self._combine(np.floor, node.args) if below == 1 else self._combine(lambda a, b: a // b, (above, below))
            )
        if isinstance(node, Ravel):
            return self._combine(lambda *i: ravel_rows(i, self._shape(node.shape)), node.indices)
        if isinstance(node, Unravel):
            return self._combine(lambda e: unravel_rows(e, self._shape(node.shape))[node.axis], (node.number,))
        if node.func in EITHER:
            return self._combine(NUMPYS[EITHER[node.func]], node.args)
        over = rounded_once(node)
        if over:
            return self._combine(lambda a, b: NUMPYS[FUNCTIONS[node.func]](as_float(a) / as_float(b)), over)
        if node.func in FUNCTIONS:
            found = self._combine(lambda *parts: NUMPYS[FUNCTIONS[node.func]](*(as_float(p) for p in parts)), node.args)
            return multiplied([found, *map(self.value, quarter_zeros(node))], [])
        raise bug(f"no numeric value is known for {node.func.__name__}")

    def _number(self, node: Expr) -> Named:
        if node.is_Rational and self.exactly:
            return Named(exact(np.asarray(Fraction(int(node.p), int(node.q)))), ())
        return Named(np.asarray(real_number(node)), ())

    def _shape(self, shape: Sequence[Size]) -> tuple[int, ...]:
        return tuple(number(size, self.sizes) for size in shape)

    def _combine(self, function: Callable[..., Any], nodes: Sequence[Expr]) -> Named:
        parts = [self.value(n) for n in nodes]
        axes = fitting(parts, self.exactly)
        return Named(np.asarray(function(*(part.on(axes) for part in parts))), axes)

    def _access(self, node: Expr, zero: bool = False) -> Named:
        """An entry of a tensor: axes renamed, views where an index slides, looked up one by one elsewhere.

        Outside the tensor an entry counts as 0 if ``zero``, and as the nearest inside otherwise.
        """
        array, indices = merged(self.arrays[name_of(node)], indices_of(node), self._shape)
        apart = [s for i in indices for s in i.free_symbols if isinstance(s, Index)]
        if len(apart) != len(set(apart)):
            return self._looked_up(array, indices, zero)
        axes: list[Index] = []
        for axis in range(len(indices) - 1, -1, -1):
            array, new = self._one_axis(array, axis, indices[axis], zero)
            axes = [*new, *axes]
        return Named(np.asarray(array), tuple(axes))

    def _one_axis(self, array: Array, axis: int, index: Expr, zero: bool) -> tuple[Array, tuple[Index, ...]]:
        """``array`` with ``index`` put into ``axis``: the new array, and the indices in the place of the axis."""
        length = array.shape[axis]
        if isinstance(index, Index) and number(index.size, self.sizes) == length:
            return array, (index,)
        apart = isinstance(index, Ravel) and len(set(index.indices)) == len(index.indices)
        if apart and all(isinstance(i, Index) for i in index.indices):
            shape = self._shape(index.shape)
            if shape == self._shape([i.size for i in index.indices]) and int(np.prod(shape)) == length:
                return array.reshape([*array.shape[:axis], *shape, *array.shape[axis + 1 :]]), index.indices
        straight = line(index)
        if straight is not None:
            slopes = [(slope, number(k.size, self.sizes)) for k, slope in straight.slopes]
            constant = number(straight.constant, self.sizes)
            return strided(array, axis=axis, slopes=slopes, constant=constant, zero=zero), straight.indices
        place = self.value(index)
        at = place.array.astype(np.int64)
        if length == 0:
            return np.zeros([*array.shape[:axis], *at.shape, *array.shape[axis + 1 :]], dtype=array.dtype), place.axes
        found = np.take(array, np.clip(at, 0, length - 1), axis=axis)
        outside = (at < 0) | (at >= length)
        if zero and outside.any():
            mask = outside.reshape([*at.shape, *([1] * (array.ndim - axis - 1))])
            found = np.where(mask, nothing(array), found)
        return found, place.axes

    def _looked_up(self, array: Array, indices: Sequence[Expr], zero: bool) -> Named:
        """Entry by entry, over the grid of all indices."""
        parts = [self.value(i) for i in indices]
        axes = fitting(parts)
        shape = tuple(number(a.size, self.sizes) for a in axes)
        if 0 in array.shape:
            return Named(np.zeros(shape, dtype=array.dtype), axes)
        wanted = [part.on(axes).astype(np.int64) for part in parts]
        places = [np.clip(at, 0, size - 1) for at, size in zip(wanted, array.shape, strict=True)]
        found = np.broadcast_to(array[tuple(places)], shape)
        if zero:
            inside = [at == place for at, place in zip(wanted, places, strict=True)]
            found = np.where(np.logical_and.reduce(np.broadcast_arrays(*inside)), found, nothing(array))
        return Named(np.broadcast_to(found, shape), axes)

    def _condition(self, node: Expr) -> Named:
        """1 where a condition holds, 0 elsewhere; NaN where it compares what is no number."""
        relation = node.args[0] if isinstance(node, Bracket) else sp.Eq(*node.args, evaluate=False)
        if relation in (sp.true, sp.false):
            return self._number(sp.Integer(int(relation == sp.true)))
        if relation.func not in RELATIONS:
            raise bug(f"no numeric value is known for the condition {relation}")
        held = self._combine(NUMPYS[RELATIONS[relation.func]], relation.args)
        if self.exactly:  # whole numbers are exact as they are, and a mask may be large
            return Named(np.asarray(held.array, dtype=np.int64), held.axes)
        found = held.array.astype(np.float64)
        if any(s.array.dtype == np.float64 and np.isnan(s.array).any() for s in map(self.value, relation.args)):
            unknown = self._combine(lambda a, b: np.isnan(a) | np.isnan(b), relation.args)
            found = np.where(unknown.array, np.nan, found)
        return Named(found, held.axes)

    def _power(self, node: Expr) -> Named:
        base, exponent = node.as_base_exp()
        if self.exactly:
            return self._combine(lambda b: exact_power(b, int(exponent)), (base,))
        if exponent == sp.Rational(1, 2):
            return self._combine(lambda b: np.sqrt(as_float(b)), (base,))
        if exponent == -1:
            return self._combine(lambda b: 1 / as_float(b), (base,))
        return self._combine(lambda b, e: as_float(b) ** e, (base, exponent))

    def _multiply(self, factors: Sequence[Expr]) -> Named:
        ways = ((), (), factors) if self.exactly else in_turn(tuple(factors))
        masks = [f for f in factors if is_mask(f)]
        first, below, last, zeros = ([self.value(f) for f in part] for part in (*ways, masks))
        return multiplied([*divided(first, below), *last], zeros)

    def _stable_factors(self, node: Expr) -> Sequence[Expr]:
        """The factors of a product, large exponents cancelled."""
        return stable_factors(node)

    def _log_of_exponentials(self, node: Expr) -> Named:
        """log Σ_k exp(f(k)), over the k that meet the conditions, by the largest exponent."""
        indices = tuple(limit[0] for limit in node.limits)
        factors = split_factors(node.function)
        body = self.value(sp.Add(*(f.exp for f in factors if isinstance(f, sp.exp))))
        masks = [self.value(f) for f in factors if not isinstance(f, sp.exp)]
        axes = union([body, *masks])
        kept = tuple(a for a in axes if a not in indices)
        shape = [number(a.size, self.sizes) for a in (*kept, *indices)]
        check_grid(shape)
        body_on = np.broadcast_to(as_float(body.on((*kept, *indices))), shape)
        for mask in masks:
            body_on = np.where(mask.on((*kept, *indices)) == 0, -np.inf, body_on)
        inner = tuple(range(len(kept), body_on.ndim))
        return Named(special.logsumexp(body_on, axis=inner), kept)

    def _product(self, node: Expr) -> Named:
        indices = tuple(limit[0] for limit in node.limits)
        body = self.value(node.function)
        kept = tuple(a for a in body.axes if a not in indices)
        shape = [number(a.size, self.sizes) for a in (*kept, *indices)]
        check_grid(shape)
        body_on = np.broadcast_to(body.on((*kept, *indices)), shape)
        return Named(np.prod(body_on, axis=tuple(range(len(kept), body_on.ndim))), kept)

    def _sum(self, node: Expr) -> Named:
        """Σ of a product as a contraction; where windows slide, over the window; against a δ as a scatter-add."""
        bound = [limit[0] for limit in node.limits]
        function, bound = flat(node.function, bound)
        factors = self._stable_factors(function) if function.is_Mul else [function]
        scattered = self._scattering(factors, bound)
        if scattered:
            return self._scatter(factors, bound, scattered)
        return self._slide(factors, bound)

    def _scattering(self, factors: Sequence[Expr], bound: list[Index]) -> list[Expr]:
        """The deltas δ(f(i), p) that say where each term of Σ_i is added."""
        return [f for f in factors if isinstance(f, sp.KroneckerDelta) and scatter_target(f, bound, factors)]

    def _slide(self, factors: Sequence[Expr], bound: list[Index]) -> Named:
        """Σ over ``bound`` of the product of ``factors``."""
        size = partial(number, sizes=self.sizes)
        factors, bound, folds = slide(list(factors), bound, size) or (list(factors), bound, [])
        fewer = absorb(factors, lambda node: self.arrays[name_of(node)].shape, size)
        zero = len(fewer) < len(factors)
        moving = {k for f in folds for k in f.window.top.indices}
        parts = [self._access(f, zero) if zero and is_access(f) else self.value(f) for f in fewer]
        masks = [part for f, part in zip(fewer, parts, strict=True) if is_mask(f)]
        if masks and not finite(parts):
            parts = [multiplied(parts, masks)]
        rest = [k for k in bound if k not in moving]

        def summed(parts: Sequence[Named]) -> Named:
            found = contract(parts or [self._number(sp.S.One)], rest, self.sizes, self.exactly)
            array, axes = found.array, found.axes
            for work in folds:
                array, axes = fold(array, axes=axes, work=work, number=size), kept_axes(axes, work)
            return Named(array, axes)

        return in_shares(parts, rest, {*moving, *(f.inner for f in folds)}, summed) if folds else summed(parts)

    def _scatter(self, factors: Sequence[Expr], bound: list[Index], deltas: list[Expr]) -> Named:
        """Σ_i t(i)·δ(f(i), p): each t(i) is added at p = f(i)."""
        pairs = [pair for d in deltas if (pair := scatter_target(d, bound, factors))]
        places = [self.value(place) for _, place in pairs]
        used = union(places)
        rest = self._slide([f for f in factors if f not in deltas], [k for k in bound if k not in used])
        kept = tuple(dict.fromkeys(a for a in (*rest.axes, *used) if a not in bound))
        grid = (*kept, *(k for k in bound if k in used))
        check_grid(shape := [number(a.size, self.sizes) for a in grid])
        targets = [t for target, _ in pairs for t in target]
        outer = [number(t.size, self.sizes) for t in (*kept, *targets)]
        check_grid(outer)
        where: Any = 0
        for axis, length in enumerate(shape[: len(kept)]):
            where = where * length + np.arange(length).reshape([-1, *[1] * (len(shape) - axis - 1)])
        inside: Any = True
        for (target, _), place in zip(pairs, places, strict=True):
            length = int(np.prod([number(t.size, self.sizes) for t in target]))
            at = place.on(grid).astype(np.int64)
            inside = inside & (at >= 0) & (at < length)
            where = where * length + at
        where, inside = np.broadcast_to(where, shape), np.broadcast_to(inside, shape)
        terms = np.broadcast_to(rest.on(grid), shape)
        result = added(where[inside], terms[inside], int(np.prod(outer)), self.exactly)
        return Named(result.reshape(outer), (*kept, *targets))
