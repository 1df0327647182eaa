"""Iverson brackets and row-major numbering: conditions and reshapes inside index equations.

``[condition]`` is 1 where it holds and 0 elsewhere. It is locally constant, so its derivative is 0 by
definition; what an operation does *at* the edge is said by the operation's own equation.
``ravel`` numbers the entries of a tensor row by row; ``unravel`` is its inverse. A reshape is
``out[i,j] = x[unravel(ravel(i,j))]``, and because the numbering meets every entry once, a sum over all
entries against δ(ravel(i,j), e) picks out the one entry number e.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence

import sympy as sp

from symgrad.indexing.symbols import Expr, Index, Stepped, free_indices
from symgrad.shapes import Shape, Size

STRICT = (sp.Lt, sp.Gt)
ORDERS = (*STRICT, sp.Le, sp.Ge)
"""Conditions that say which of two is larger."""


class Bracket(Stepped):
    """``[condition]``: 1 where the condition holds, 0 elsewhere; constant between the edges."""

    nargs = 1

    @classmethod
    def eval(cls, condition: Expr) -> Expr | None:
        """[true] → 1, [false] → 0, [[condition] ≠ 0] → [condition], [[condition] = 0] → 1 − [condition]."""
        if isinstance(condition, (sp.Ne, sp.Eq)) and condition.rhs == 0 and isinstance(condition.lhs, Bracket):
            return condition.lhs if isinstance(condition, sp.Ne) else 1 - condition.lhs
        if condition in (sp.true, sp.false):
            return sp.S.One if condition == sp.true else sp.S.Zero
        return None

    def _eval_power(self, exponent: Expr) -> Expr | None:
        return self if exponent.is_positive else None


def expanded(expression: Expr) -> Expr:
    """A sum multiplied out; mostly it is, and SymPy takes its time to see it."""
    plain = not any(part.has(sp.Add, sp.Pow) for part in sp.Add.make_args(expression))
    return expression if plain else sp.expand(expression)


def extent(node: Expr) -> Size:
    """How many values, from 0 up, an index takes, or the number or index that a reshape makes; None for the rest."""
    if isinstance(node, Index):
        return node.size
    if isinstance(node, Ravel):
        return sp.Mul(*node.shape)
    return node.shape[node.axis] if isinstance(node, Unravel) else None


def extremes(expression: Expr) -> tuple[Expr, Expr]:
    """Least and greatest value of an index expression that is linear in its indices; ±oo where it is not."""
    low = high = sp.S.Zero
    slopes: dict[Expr, Expr] = {}
    for term in sp.Add.make_args(expression):
        indices = free_indices(term)
        if not indices:
            low, high = low + term, high + term
            continue
        slope, rest = term.as_independent(*indices, as_Add=False)
        if extent(rest) is None:
            return -sp.oo, sp.oo
        slopes[rest] = slopes.get(rest, sp.S.Zero) + slope
    for index, slope in slopes.items():
        if slope.is_nonnegative:
            high += slope * (extent(index) - 1)
        elif slope.is_nonpositive:
            low += slope * (extent(index) - 1)
        else:
            return -sp.oo, sp.oo
    return low, high


def bounds_reached(low: Expr, high: Expr) -> tuple[Expr, Expr]:
    """Two bounds, with the numbers that they reach in their place where they add up multiples of sizes."""
    least, greatest = reach(low), reach(high)
    return (low if least is None else least[0]), (high if greatest is None else greatest[1])


def reach(bound: Expr) -> tuple[Expr, Expr] | None:
    """Least and greatest value of a sum of multiples of sizes, which are at least 1; None for anything else."""
    low = high = sp.S.Zero
    for term in sp.Add.make_args(bound):
        number, size = term.as_coeff_Mul()
        if size is not sp.S.One and not (size.is_Symbol and size.is_integer and size.is_positive):
            return None
        low += number if size is sp.S.One or number > 0 else -sp.oo
        high += number if size is sp.S.One or number < 0 else sp.oo
    return low, high


def bracket(condition: Expr) -> Expr:
    """``[condition]``, or 1 when every value of the indices is known to meet it.

    Only conditions on indices are decided here: one on entries of a tensor always stays.
    """
    if isinstance(condition, ORDERS) and not condition.atoms(sp.Indexed):
        gap = condition.gts - condition.lts
        low, high = bounds_reached(*extremes(expanded(gap)))
        strict = isinstance(condition, STRICT)
        if low != -sp.oo and (low.is_positive if strict else low.is_nonnegative):
            return sp.S.One
        if high != sp.oo and (high.is_nonpositive if strict else high.is_negative):
            return sp.S.Zero
        return Bracket(in_least_steps(condition, expanded(gap), strict))
    return Bracket(condition)


def relation_of(node: Expr) -> Expr:
    """What a bracket or a δ says."""
    return node.args[0] if isinstance(node, Bracket) else sp.Eq(*node.args, evaluate=False)


def is_guard(node: Expr) -> bool:
    """Whether this is [e ≠ 0]."""
    return isinstance(node, Bracket) and isinstance(node.args[0], sp.Ne) and node.args[0].rhs == 0


def whole_gap(condition: Expr) -> Expr:
    """What is not negative where a condition on whole numbers holds."""
    return expanded(condition.gts - condition.lts - int(isinstance(condition, STRICT)))


def in_least_steps(condition: Expr, gap: Expr, strict: bool) -> Expr:
    """2·i < 4·j + 4 is i − 2·j < 2, where nothing but whole numbers stands beside the indices."""
    number, terms = gap.as_coeff_Add()
    slopes = dict(term.as_coeff_Mul()[::-1] for term in sp.Add.make_args(terms))
    if not all(isinstance(i, Index) and slope.is_Integer for i, slope in slopes.items()) or not number.is_Integer:
        return condition
    shared = math.gcd(*map(int, slopes.values()))
    if shared == 1:
        return condition
    least = sp.ceiling((strict - number) / shared)  # the sum of the indices is at least this
    total = sp.Add(*(slope / shared * i for i, slope in slopes.items()))
    plain = [i for i, slope in slopes.items() if slope == -shared]
    return sp.Lt(-total, 1 - least, evaluate=False) if plain else sp.Ge(total, least, evaluate=False)


def within(required: Sequence[Size], expression: Expr) -> Expr:
    """``expression`` without the conditions that hold for all indices where nothing in ``required`` is negative."""
    found = expression.atoms(Bracket) if required else ()
    held = {c: sp.S.One for c in found if not c.atoms(sp.Indexed) and always(required, c.args[0])}
    return expression.xreplace(held) if held else expression


def without_implied(expression: Expr) -> Expr:
    """[p < 3]·[p < 4] → [p < 3]: no product has a condition on indices that follows from another."""
    if sum(map(orders_indices, expression.atoms(Bracket))) < 2:
        return expression
    return expression.replace(lambda node: node.is_Mul, stronger)


def stronger(product: Expr) -> Expr:
    """A product without the conditions that follow from others in it."""
    gaps = {factor: whole_gap(factor.args[0]) for factor in product.args if orders_indices(factor)}
    if len(gaps) < 2:
        return product
    kept: dict[Expr, Expr] = {}
    for factor, gap in gaps.items():
        if implied(tuple(kept.values()), gap):
            continue
        kept = {known: other for known, other in kept.items() if not implied((gap,), other)} | {factor: gap}
    return sp.Mul(*(factor for factor in product.args if factor not in gaps or factor in kept))


def orders_indices(node: Expr) -> bool:
    """Whether it is a condition that says which of two indices or sizes is larger."""
    return isinstance(node, Bracket) and isinstance(node.args[0], ORDERS) and not node.args[0].atoms(sp.Indexed)


def always(required: Sequence[Size], condition: Expr) -> bool:
    """Whether an inequality between indices and sizes holds for all of them."""
    if not isinstance(condition, ORDERS):
        return False
    low, _ = extremes(expanded(condition.gts - condition.lts))
    return low != -sp.oo and implied(required, low - 1 if isinstance(condition, STRICT) else low)


def implied(required: Sequence[Size], gap: Expr) -> bool:
    """Whether ``gap`` is not negative where nothing in ``required`` is; a remainder of n is from 0 to n − 1."""
    for rest in gap.atoms(sp.Mod):
        slope = sp.expand(gap).coeff(rest)
        gap = sp.expand(gap - slope * rest + (slope * (rest.args[1] - 1) if slope.is_negative else 0))
    return bool(gap.is_nonnegative) or any((gap - size).is_nonnegative for size in required)


class Mod(sp.Mod):
    """``Mod(i, n)``: the remainder of i divided by n; SymPy's own goes round in circles at (i − 2) mod (n + 1)."""

    @classmethod
    def eval(cls, number: Expr, size: Expr) -> Expr | None:
        """As SymPy writes it, but as it stands where the size is a sum; a place in a row, where rows come out even."""
        numbered = row_major(number, size)
        if numbered is not None:
            return numbered[1]
        return None if size.is_Add else super().eval(number, size)

    def _eval_derivative(self, symbol: Expr) -> Expr:
        """Where it does not jump: x mod y is x − y·⌊x/y⌋."""
        number, size = self.args
        return number.diff(symbol) - size.diff(symbol) * sp.floor(number / size)


class Ravel(Stepped):
    """``Ravel(i, j, m, n)``: the row-major number of entry (i, j) of an m×n tensor."""

    @classmethod
    def eval(cls, *parts: Expr) -> Expr | None:
        """A number where all of them are; the one that was taken apart, where it is put together again."""
        indices, shape = parts[: len(parts) // 2], parts[len(parts) // 2 :]
        if not all(part.is_Integer for part in parts):
            longer = [index for index, size in zip(indices, shape, strict=True) if (index, size) != (0, 1)]
            return longer[0] if len(longer) == 1 and isinstance(longer[0], Index) else put_together(indices, shape)
        return functools.reduce(
            lambda number, along: number * along[1] + along[0], zip(indices, shape, strict=True), sp.S.Zero
        )

    @property
    def indices(self) -> tuple[Expr, ...]:
        """The indices, without the sizes."""
        return tuple(self.args[: len(self.args) // 2])

    @property
    def shape(self) -> Shape:
        """The sizes."""
        return tuple(self.args[len(self.args) // 2 :])


class Unravel(Stepped):
    """``Unravel(axis, e, m, n)``: the index along ``axis`` of entry number e of an m×n tensor."""

    @classmethod
    def eval(cls, axis: Expr, number: Expr, *shape: Expr) -> Expr | None:
        """A number where all of them are; 0 where no entry is there to be numbered; an index that was numbered."""
        if isinstance(number, Ravel):
            return taken_apart(int(axis), number, shape)
        if [size for size in shape if size != 1] == [getattr(number, "size", None)]:  # (i, 0) is entry i of n×1
            return number if shape[int(axis)] != 1 else sp.S.Zero
        if not all(part.is_Integer for part in (number, *shape)):
            return None
        if 0 in shape:
            return sp.S.Zero
        behind = sp.Mul(*shape[int(axis) + 1 :])
        return (number // behind) % shape[int(axis)]

    @property
    def axis(self) -> int:
        """The axis this index runs along."""
        return int(self.args[0])

    @property
    def number(self) -> Expr:
        """The row-major number of the entry."""
        return self.args[1]

    @property
    def shape(self) -> Shape:
        """The sizes."""
        return tuple(self.args[2:])


def put_together(indices: Sequence[Expr], shape: Shape) -> Expr | None:
    """The number that ``indices`` are the parts of, if they are all of them, each in its place."""
    number = indices[0].number if indices and isinstance(indices[0], Unravel) else None
    whole = number is not None and indices == tuple(Unravel(a, number, *shape) for a in range(len(shape)))
    return number if whole else None


def taken_apart(axis: int, number: Ravel, shape: Shape) -> Expr | None:
    """The part along ``axis`` of ``shape`` of an entry that is numbered in another shape, as far as both go together.

    (i, j) of 15×10, in 3×5×10, is entry i of 3×5, and j; None where no axes of both shapes have as many entries.
    """
    sizes = number.shape
    there, here = len(sizes), len(shape)
    while (groups := common_ends(sizes[:there], shape[:here])) is not None:
        start, first = groups
        if axis >= first:
            inside = ravel(number.indices[start:there], sizes[start:there])
            whole = (start, first, there, here) == (0, 0, len(sizes), len(shape))
            return None if whole and here > 1 else unravel(inside, shape[first:here])[axis - first]
        there, here = start, first
    if there == len(sizes):
        return None
    return unravel(ravel(number.indices[:there], sizes[:there]), shape[:here])[axis]


def by_whole_numbers(indices: Sequence[Expr]) -> Iterator[tuple[Expr, int]]:
    """Indices, and along how many axes each runs: those that are all parts of one number are that number."""
    place = 0
    while place < len(indices):
        first = indices[place]
        parts = tuple(indices[place : place + len(first.shape)]) if isinstance(first, Unravel) else ()
        whole = put_together(parts, first.shape) if parts else None
        yield (first, 1) if whole is None else (whole, len(parts))
        place += 1 if whole is None else len(parts)


def common_ends(sizes: Shape, others: Shape) -> tuple[int, int] | None:
    """Where the shortest ends of two shapes that have as many entries begin."""
    ends = {sp.Mul(*sizes[n:]): n for n in range(len(sizes))}
    return next(((ends[own], n) for n in reversed(range(len(others))) if (own := sp.Mul(*others[n:])) in ends), None)


def ravel(indices: Sequence[Expr], shape: Shape) -> Expr:
    """The row-major number of the entry at ``indices``."""
    if len(indices) == 1:
        return indices[0]
    return Ravel(*indices, *shape) if indices else sp.S.Zero


def unravel(number: Expr, shape: Shape) -> tuple[Expr, ...]:
    """The indices of entry ``number``; undoes `ravel`."""
    if not shape:
        return ()
    if len(shape) == 1:
        return (number,)
    return tuple(Unravel(axis, number, *shape) for axis in range(len(shape)))


def row_major(number: Expr, length: Expr) -> tuple[Expr, Expr] | None:
    """Which row of so many entries an index is in and where, if the rows come out even: ⌊i/n⌋ and i mod n."""
    if not isinstance(number, Index) or not length.is_positive:
        return None
    rows = sp.cancel(number.size / length)
    if sp.fraction(rows)[1] != 1 or not rows.is_integer:
        return None
    if rows == 1 or length == 1:
        return (sp.S.Zero, number) if rows == 1 else (number, sp.S.Zero)
    return Unravel(sp.S.Zero, number, rows, length), Unravel(sp.S.One, number, rows, length)
