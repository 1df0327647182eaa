"""The numbers on which a claim about a Jacobian is tested before it is printed.

Comes in: the formula of J with values of its tensors. Goes out: rows and columns of J: all of them if J is small,
otherwise some of them, computed by one sweep each, so that J is not formed. Also the one test whether a number may be a
rounded 0, given the sizes of the terms of its sum; pages, pictures and their scripts use this test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import sympy as sp

from symgrad.calculus import moving
from symgrad.errors import SymgradError
from symgrad.indexing import Bracket, Index
from symgrad.indexing.sums import is_delta
from symgrad.indexing.symbols import Expr, accesses, is_access, name_of
from symgrad.numeric import Array, Values, as_float, forward, numeric_pullback, numeric_pushforward, sparse_jacobian
from symgrad.numeric.exact import euclidean, is_exact, largest_finite, unit_at
from symgrad.numeric.jacobian_places import Triplets
from symgrad.numeric.patterns import Pattern, pattern_of
from symgrad.numeric.sparse import terms_of
from symgrad.ops import entry_of
from symgrad.oracles.forms import evaluate_text, nearby_points
from symgrad.program import Program

WHOLE = 40_000
"""The most entries of a Jacobian that is tested whole."""
LONGEST_LINE = 200_000
"""The most entries of a row or column that is tested; for longer ones nothing is claimed."""
ELSEWHERE = 3
"""The number of random other points."""
CLOSE, TINY = 1e-7, 1e-10
"""Numbers this close are equal, relative to the larger one or to the largest of all."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """J with respect to ``name`` at some numbers; ``axes`` and ``inner`` are the free indices of ``formula``."""

    program: Program
    name: str
    values: Values
    axes: tuple[Index, ...]
    inner: tuple[Index, ...]
    formula: Expr

    @cached_property
    def out_shape(self) -> tuple[int, ...]:
        """The shape of the output."""
        return self.program.numbers(self.program.out.shape)

    @cached_property
    def in_shape(self) -> tuple[int, ...]:
        """The shape of the input."""
        return self.program.numbers(self.program.tensor(self.name).shape)

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of J."""
        return shape_size(self.out_shape), shape_size(self.in_shape)

    @property
    def whole(self) -> bool:
        """Whether J is small enough to be tested whole."""
        return self.shape[0] * self.shape[1] <= WHOLE

    @property
    def enough(self) -> bool:
        """Whether anything can be tested."""
        return min(self.shape) > 0 and max(self.shape) <= LONGEST_LINE

    @cached_property
    def triplets(self) -> Triplets:
        """The entries in the formula's sparsity pattern, with their values."""
        return sparse_jacobian(self.axes, self.inner, self.formula, self.values)

    @cached_property
    def pattern(self) -> Pattern:
        """The counts of the formula's sparsity pattern; nothing of the size of J is allocated."""
        return pattern_of(self.axes, self.inner, self.formula, self.values.sizes, self.values.arrays)

    @cached_property
    def places(self) -> int:
        """The number of entries in the sparsity pattern: from its deltas if they determine it, else counted."""
        return self.pattern.nonzeros if self.pattern.exact else self.triplets.places

    @cached_property
    def dense(self) -> Array:
        """J as a dense array."""
        return as_float(self.triplets.dense())

    @cached_property
    def rows(self) -> tuple[tuple[int, Array], ...]:
        """Pairs of a row's number and the row."""
        if self.whole:
            return tuple(enumerate(self.dense))
        return sample_lines(
            self.out_shape, lambda v: numeric_pullback(self.program, self.values, v, [self.name])[self.name]
        )

    @cached_property
    def columns(self) -> tuple[tuple[int, Array], ...]:
        """Pairs of a column's number and the column."""
        if self.whole:
            return tuple(enumerate(self.dense.T))
        return sample_lines(self.in_shape, lambda u: numeric_pushforward(self.program, self.values, self.name, u))

    @cached_property
    def scale(self) -> float:
        """The largest finite entry of the rows tested."""
        return max((largest_finite(row) for _, row in self.rows), default=0.0)

    def same(self, a: Array | float, b: Array | float) -> bool:
        """Whether numbers are equal up to rounding; NaN equals NaN."""
        return bool(np.allclose(a, b, rtol=CLOSE, atol=TINY * self.scale, equal_nan=True))

    @cached_property
    def possible(self) -> Array | None:
        """The sparsity pattern of the formula; None if J is too large."""
        if not self.whole:
            return None
        places = np.zeros(self.shape, dtype=bool)
        places[self.triplets.rows, self.triplets.columns] = True
        return places

    @cached_property
    def moving(self) -> Array | None:
        """The entries that are nonzero here or at another point; None if J is too large."""
        if self.possible is None:
            return None
        found = self.clear
        for values in elsewhere(self.program, self.values):
            if np.array_equal(found, self.possible):
                break
            there = Evidence(self.program, self.name, values, self.axes, self.inner, self.formula)
            found = found | (there.clear & self.possible)
        return found

    @property
    def clear(self) -> Array:
        """The entries that are finite, nonzero, and not a rounded 0."""
        known: Array = np.isfinite(self.dense) & (self.dense != 0)
        return known if self.terms is None else known & ~is_rounding(self.dense, as_float(self.terms.dense()))

    @cached_property
    def terms(self) -> Triplets | None:
        """The sum of absolute terms of each entry; None if entries are not sums."""
        if not adds_up(self.formula):
            return None
        return sparse_jacobian(self.axes, self.inner, terms_of(self.formula), self.values)

    def count(self, here: int) -> tuple[str, int]:
        """Return the number of entries that can be nonzero and its scope; ``here`` are nonzero at these numbers."""
        can = self.places
        if self.found_on_the_way:
            return ("here", here) if here == can else ("unknown", 0)
        seen = here if here == can or self.moving is None else int(self.moving.sum())
        return ("anywhere" if seen == can else "at most"), can

    @property
    def found_on_the_way(self) -> bool:
        """Whether the formula reads positions computed in the forward pass, which depend on the numbers."""
        return any("·" in name_of(entry) for entry in accesses(self.formula))

    def value_of(self, text: str) -> Array | None:
        """Return the value of a piece of matrix notation at these numbers; None if it cannot be read."""
        known = {t.name: self.values[t.name] for t in self.program.tensors() if t.name in self.values.arrays}
        try:
            return as_float(evaluate_text(text, known))
        except SymgradError:
            return None


def elsewhere(
    program: Program, values: Values, only: str | None = None, widths: Sequence[float] = ()
) -> Iterator[Values]:  # fmt: skip
    """Iterate over other points with the same sizes: far from the given one, then near it.

    With ``only``, just that input moves. With ``widths``, entries are also drawn from these ranges and from small
    integers, some of them equal or 0.
    """
    if any(entry_of(step.op) is None for step in program.steps):  # a black box: nothing is known of it elsewhere
        return
    generator, able = np.random.default_rng(5), moving(program)
    free = [t.name for t in program.inputs if only in (None, t.name) and t.name in able]
    drawn = [{n: generator.uniform(-2, 2, size=np.shape(values[n])) for n in free} for _ in range(ELSEWHERE)]
    drawn[-1] = {name: np.abs(array) for name, array in drawn[-1].items()}
    lots = np.random.default_rng(23)
    drawn += [{n: lots.uniform(-width, width, np.shape(values[n])) for n in free} for width in widths if free]
    drawn += [{n: lots.integers(-2, 3, np.shape(values[n])).astype(float) for n in free}] if widths and free else []
    given = {t.name: values[t.name] for t in program.inputs}
    for moved in drawn:
        with suppress(SymgradError, ValueError, ArithmeticError):
            yield forward(program, {**given, **moved})
    yield from nearby_points(values, program, free)


def sample_positions(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return two positions, and those that combine leading indices of one with trailing indices of the other."""
    generator = np.random.default_rng(7)
    first, last = (tuple(int(generator.integers(n)) for n in shape) for _ in range(2))
    last = tuple((a + 1) % n if a == b else b for a, b, n in zip(first, last, shape, strict=True))
    mixed = [part for k in range(1, len(shape)) for part in ((*first[:k], *last[k:]), (*last[:k], *first[k:]))]
    return list(dict.fromkeys([first, last, *mixed]))


def sample_lines(shape: tuple[int, ...], swept: Callable[[Array], Array]) -> tuple[tuple[int, Array], ...]:
    """Return some rows or columns with their row-major numbers, each by ``swept`` of a one-hot seed."""
    numbered = (
        (int(np.ravel_multi_index(at, shape)) if shape else 0, unit_at(at, shape)) for at in sample_positions(shape)
    )
    return tuple((place, as_float(swept(unit)).reshape(-1)) for place, unit in numbered)


def nonzero_places(where: Array) -> list[tuple[int, ...]]:
    """Return the positions at which ``where`` is true."""
    return [tuple(int(i) for i in at) for at in np.argwhere(where)]


def shape_text(shape: Sequence[object], alone: str = "a scalar") -> str:
    """Format a shape as 2×3; the empty shape is ``alone``."""
    return "×".join(map(str, shape)) or alone


def shape_size(shape: tuple[int, ...]) -> int:
    """Return the number of entries of a shape."""
    return int(np.prod(shape, dtype=object))


ULPS = 64 * float(np.finfo(np.float64).eps)
"""A sum smaller than this fraction of its absolute terms may be nothing but rounding."""

SMALL = 1e-6
"""Numbers larger than this fraction of the largest one are not tested for rounding."""


class Rounding(float):
    """A number that may be a rounded 0: printed as ``≈0``, and in JSON with its digits."""


def is_rounding(values: Array, terms: Array) -> Array:
    """Return where a number is not 0 but may be a rounded 0, given the sizes of its terms; exact numbers never are.

    >>> is_rounding(np.array([1e-17, 1e-17, 0.0, np.inf]), np.array([0.5, 1e-17, 1.0, np.inf])).tolist()
    [True, False, False, False]
    """
    if is_exact(values):
        return np.zeros(np.shape(values), dtype=bool)
    size = np.abs(as_float(values))
    with np.errstate(invalid="ignore"):
        found: Array = (size > 0) & np.isfinite(terms) & (size <= ULPS * terms)
    return found


def may_be_rounding(numbers: Array, values: Values) -> bool:
    """Whether a number is small compared with the values of the program, so that its terms should be examined."""
    if is_exact(numbers):
        return False
    size = np.abs(as_float(numbers))
    if not np.any((size > 0) & (size < SMALL * max(1.0, size.max(initial=0.0)))):
        finite = (a[np.isfinite(a)] for a in map(as_float, values.arrays.values()))
        scale = max((float(np.abs(a).max(initial=0.0)) for a in finite), default=0.0)
        return bool(np.any((size > 0) & (size < SMALL * scale)))
    return True


def with_rounding_marked(values: Array, terms: Array | None) -> Array:
    """Return the numbers with entries that may be a rounded 0 as `Rounding`; unchanged without terms."""
    places = np.zeros(np.shape(values), dtype=bool) if terms is None else is_rounding(values, terms)
    if not places.any():
        return values
    found = np.asarray(values, dtype=object).copy()
    for at in nonzero_places(places):
        found[at] = Rounding(found[at])
    return found


def norm_with_rounding(values: Array, terms: Array | None) -> float:
    """Return the Euclidean norm, as `Rounding` if every entry may be a rounded 0."""
    length = euclidean(values)
    if length == 0 or terms is None or np.shape(terms) != np.shape(values):
        return length
    return Rounding(length) if is_rounding(values, terms)[as_float(values) != 0].all() else length


@lru_cache(maxsize=1024)
def adds_up(formula: Expr) -> bool:
    """Whether terms can cancel in a formula: it has a sum outside of conditions and positions."""
    if is_delta(formula) or is_access(formula) or isinstance(formula, Bracket):
        return False
    return isinstance(formula, (sp.Add, sp.Sum)) or any(map(adds_up, formula.args))
