"""Numbers that ask for care: those at the edges of floats (∞, NaN, 1e±200, 0/0), and those that are no floats.

Comes in: equations, the shapes of what they read, the numbers of their sizes; a `Field`, which says what a constant and
a function are among numbers that are no floats. Goes out: a graph. Tame numbers take the order that costs least. At the
edges, where the order can be seen, there is one rule:

1. Of ``a·v/y²`` first ``a/(y·y)``, as one quotient whose parts may leave the range of floats, and then the numbers and
   the seed: y² may be no float where a/y² is one, and torch divides twice before it takes the seed. Without a power
   below the line the factors are multiplied as they stand.
2. A condition comes last: where it does not hold, the product is 0, whatever stands beside it, be it 1/0 or ∞.
3. A condition that compares what is no number does not hold in a forward, as in NumPy and torch; a derivative is no
   number there.
4. In a sum the conditions among the factors are taken into the product before it is summed, if the sum came to no
   number without that.

Fractions, formulas in the entries of tensors and numbers with many digits never overflow: exponentials are not shifted,
sums and products are formed as the formula has them, on arrays of Python's objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import sympy as sp

from symgrad.indexing import Bracket, Index, Ravel, Unravel, bound_indices, with_fresh_sums
from symgrad.indexing.brackets import relation_of
from symgrad.indexing.symbols import Expr, accesses, name_of
from symgrad.lowering.arrays import EITHER, FUNCTIONS, NAMES, NUMPY, ON_NUMPY, Array, Engine, Play, Primitives
from symgrad.lowering.build import Builder
from symgrad.lowering.choices import is_mask
from symgrad.lowering.exponents import in_turn
from symgrad.lowering.graph import FLOAT, TRUTH
from symgrad.lowering.terms import Term
from symgrad.lowering.windows import Fold


class Careful(Builder):
    """Lowers products by the rule."""

    def product(self, node: Expr) -> Term:
        """A product in the order of the rule; sums among its factors are formed by themselves."""
        return super().product(node) if isinstance(node, sp.Sum) else self.in_turn(self.factors(node))

    def gathered(self, node: Expr, taken: set[Index]) -> tuple[list[Expr], list[Index]]:
        """A sum is opened into another only where conditions ask for it: what cancels is formed in one way."""
        if not isinstance(node, sp.Sum):
            return super().gathered(node, taken)
        function, bound = flatten_sums(node.function, [limit[0] for limit in node.limits])
        return list(self.factors(function) if function.is_Mul else (function,)), bound

    def in_turn(self, factors: Sequence[Expr]) -> Term:
        """What is divided, then numbers and the seed, then conditions."""
        masks = [f for f in factors if is_mask(f)]
        ways = in_turn(tuple(f for f in factors if f not in masks))
        above, below, last = ([self.value(f) for f in part] for part in ways)
        if below:
            divided = [self.terms.floats(term) for term in (*above, *below)]
            last = [self.terms.applied("quotient", (len(above),), divided), *last]
        return self.guarded(last, [self.value(f) for f in masks])

    def guarded(self, parts: Sequence[Term], masks: Sequence[Term]) -> Term:
        """A product of entries, 0 where a condition does not hold."""
        terms, found = self.terms, self.terms.number(1)
        if any(terms.constant(mask) == 0 for mask in masks):
            return terms.number(0)
        kept = [mask for mask in masks if self.graph.holds(mask.node) == TRUTH]
        counted = [mask for mask in masks if mask not in kept]
        for part in (*parts, *counted):
            found = part if terms.constant(found) == 1 else terms.times([found, part])
        asked = [mask for mask in counted if terms.constant(mask) is None]
        kept += [terms.held(mask) for mask in asked]
        return terms.times([terms.times(kept), found]) if kept else found

    def summed(self, fewer: Sequence[Expr], bound: Sequence[Index], folds: Sequence[Fold], zero: bool) -> Term:
        """Σ over ``bound`` of a product."""
        parts = [self.part(f, zero) for f in fewer]
        if self.care.guarded and any(map(is_mask, fewer)):
            pairs = list(zip(fewer, parts, strict=True))
            parts = [self.guarded([p for f, p in pairs if not is_mask(f)], [p for f, p in pairs if is_mask(f)])]
        return self.contracted(parts, bound, folds)

    def condition(self, node: Expr) -> Term:
        """A condition; no number where it compares none."""
        held = super().condition(node)
        relation = relation_of(node)
        sides = [self.value(side) for side in relation.args if any(accesses(side))] if self.care.unknown else []
        sides = [side for side in sides if self.graph.floating(side.node)]
        if not sides or self.graph.holds(held.node) != TRUTH:
            return held
        none = [self.terms.map("not_equal", side, side, holds=TRUTH) for side in sides]
        mask = self.terms.folded("any", none, holds=TRUTH)
        return self.terms.applied("where", (), [mask, self.terms.number(float("nan")), self.terms.floats(held)])


OF_FLOATS = {"exp", *NAMES.values()} - {*EITHER.values()}
"""Functions that NumPy has for floats alone: all others it applies to objects, too."""


COUNTING = (Ravel, Unravel, sp.Mod, sp.floor, Bracket, sp.KroneckerDelta)
"""What tells places apart."""


@dataclass(frozen=True, eq=False)
class Field:
    """``number`` is a constant, ``power`` a power of entries; whole numbers may stand among the others.

    ``call`` is a function of the entries of tensors by its class in SymPy, None where it is left to NumPy, or any
    function if ``every``; ``relation`` is a comparison of them. ``contract`` multiplies matrices. Where entries have
    names, ``named`` by their numbers from 1 on, a comparison of them is again a formula, and nothing is put at a place
    that is one.
    """

    number: Callable[[Expr], Any]
    power: Callable[[Any, Any], Any]
    call: Callable[[Any, int], Play] | None = None
    relation: Callable[[Any], Play] | None = None
    named: Callable[..., Play] | None = None
    every: bool = False
    contract: Play = np.matmul

    @property
    def primitives(self) -> Primitives:
        """What each node does to arrays of objects."""
        found: Primitives = {
            **NUMPY,
            "map": self.mapped,
            **{kind: own for kind in ("call", "relation", "named") if (own := getattr(self, kind))},
            "where": lambda: np.where,
            "masked": lambda: lambda mask, array: np.where(mask, array, 0),
            "product": lambda: self.contract,
            "put": lambda length: lambda terms, places: add_at_object_places(length, terms, places),
        }
        return {kind: partial(arrays_of, make) for kind, make in found.items()}

    @property
    def engine(self) -> Engine:
        """What plays a plan."""
        return replace(ON_NUMPY, primitives=self.primitives, writes=False)

    def mapped(self, name: str) -> Play:
        """A function of entries."""
        if name == "float":
            return lambda array: truths_as_integers(array).astype(object)
        if name == "power":
            return self.power
        function = FUNCTIONS[name]
        if name in OF_FLOATS:
            return lambda *arrays: function(*(np.asarray(a, dtype=np.float64) for a in arrays))
        return lambda *arrays: function(*map(truths_as_integers, arrays))


def truths_as_integers(array: Array) -> Array:
    """Truths as 0 and 1: fractions and symbols multiply by no truth."""
    found = np.asarray(array)
    return found + 0 if found.dtype == np.bool_ else found


def arrays_of(make: Callable[..., Play], *told: Any) -> Play:
    """A primitive whose results are arrays: NumPy hands out the one entry of an array of objects as it is."""
    play = make(*told)
    return lambda *arrays: np.asarray(play(*arrays))


def add_at_object_places(length: int, terms: Array, places: Array) -> Array:
    """Row by row, each term added at its place; one that lies outside is left out."""
    found = np.zeros((len(terms), length), dtype=object)
    inside = (places >= 0) & (places < length)
    rows = np.broadcast_to(np.arange(len(terms)).reshape(-1, 1), places.shape)
    np.add.at(found, (rows[inside], places[inside]), terms[inside])
    return found


class Objects(Careful):
    """Lowers equations about numbers of a field."""

    @property
    def field(self) -> Field:
        """What the numbers are."""
        field: Field = self.care.field
        return field

    def entry(self, node: Expr, zero: bool = False) -> Term:
        """An entry of a tensor; of one whose entries are named, the name of the one that is read."""
        found, name = super().entry(node, zero), name_of(node)
        if not self.field.named or "·" in name:
            return found
        told = ("named", (name, *self.places.shapes[name]))
        return Term(self.graph.apply(*told, (found.node,), self.graph.shape(found.node), FLOAT), found.axes)

    def constant(self, node: Expr) -> Term:
        """A number of the field."""
        return self.terms.number(self.field.number(node))

    def at_once(self, node: Expr) -> Term | None:
        """Nothing overflows: an exponential is a function like others."""
        if isinstance(node, sp.exp) and not self.reads(node):
            return self.terms.map("exp", self.terms.floats(self.value(node.exp)))
        return None

    def factors(self, node: Expr) -> tuple[Expr, ...]:
        """The factors of a product, as they stand."""
        return tuple(node.args) if node.is_Mul else (node,)

    def in_turn(self, factors: Sequence[Expr]) -> Term:
        """A product, as it stands."""
        masks = [f for f in factors if is_mask(f)]
        return self.guarded([self.value(f) for f in factors if f not in masks], [self.value(f) for f in masks])

    def puts(self, factor: Expr) -> bool:
        """A place that is itself a formula, as index[k] of an input is, is not known: its δ stays in the formula."""
        return super().puts(factor) and not (self.field.named and any("·" not in name_of(e) for e in accesses(factor)))

    def reads(self, node: Expr) -> bool:
        """Whether a function is one of the field's own: of entries of tensors, or any but those that count."""
        if isinstance(node, (Ravel, Unravel)) and not self.field.named:
            return False  # positions, which entries of tensors may hold
        every = self.field.every and not isinstance(node, COUNTING)
        return self.field.call is not None and (every or any(accesses(node)))

    def power(self, base: Expr, exponent: Expr) -> Term:
        """A power."""
        return self.terms.map("power", *(self.terms.floats(self.value(e)) for e in (base, exponent)))

    def function(self, node: Expr) -> Term:
        """A function."""
        if self.reads(node):
            return self.applied("call", (node.func, len(node.args)), node.args)
        return super().function(node)

    def condition(self, node: Expr) -> Term:
        """A condition; one about entries of tensors is the field's."""
        relation = node.args[0] if isinstance(node, Bracket) else None
        if self.field.relation is None or not self.reads(node) or relation in (sp.true, sp.false):
            return super().condition(node)
        if relation is None:
            return super().condition(node) if not self.field.named else self.function(node)
        return self.applied("relation", (relation.func,), relation.args, FLOAT if self.field.named else TRUTH)

    def applied(self, kind: str, told: tuple[Any, ...], arguments: Sequence[Expr], holds: str = FLOAT) -> Term:
        """A node of the field's own."""
        return self.terms.applied(kind, told, [self.terms.floats(self.value(a)) for a in arguments], holds)


def flatten_sums(function: Expr, bound: list[Index]) -> tuple[Expr, list[Index]]:
    """Σ_i c(i)·Σ_j f(i,j) as Σ_i,j c(i)·f(i,j) where conditions or deltas stand among the factors."""
    factors = sp.Mul.make_args(function)
    sums = [f for f in factors if isinstance(f, sp.Sum)]
    if len(sums) != 1:
        return function, bound
    others = [f for f in factors if f is not sums[0]]
    inner = [limit[0] for limit in sums[0].limits]
    every = (*others, *sp.Mul.make_args(sums[0].function))
    if set(inner) & set(bound) or not any(isinstance(f, (Bracket, sp.KroneckerDelta)) for f in every):
        return function, bound
    if any(not bound_indices(f).isdisjoint(inner) for f in others):  # they bind the same names: these are theirs alone
        return flatten_sums(sp.Mul(*others, with_fresh_sums(sums[0])), bound)
    return flatten_sums(sp.Mul(*others, sums[0].function), [*bound, *inner])
