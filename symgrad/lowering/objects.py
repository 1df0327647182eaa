"""Numbers that are no floats: fractions, formulas in the entries of tensors, numbers with many digits.

Comes in: a `Field`, which says what a constant and a function are there. Goes out: the builder for it. Nothing
overflows there: exponentials are not shifted, sums and products are formed as the formula has them, on arrays of
Python's objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import sympy as sp

from symgrad.indexing import Bracket, Ravel, Unravel
from symgrad.indexing.symbols import Expr, accesses, name_of
from symgrad.lowering.arrays import FUNCTIONS, NUMPY, ON_NUMPY, Engine, Play, Primitives
from symgrad.lowering.careful import Careful
from symgrad.lowering.graph import FLOAT, TRUTH
from symgrad.lowering.names import EITHER
from symgrad.lowering.names import FUNCTIONS as NAMES
from symgrad.lowering.reading import is_mask
from symgrad.lowering.terms import Term

Array = Any
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
            "put": lambda length: lambda terms, places: put(length, terms, places),
        }
        return {kind: partial(arrays_of, make) for kind, make in found.items()}

    @property
    def engine(self) -> Engine:
        """What plays a plan."""
        return replace(ON_NUMPY, primitives=self.primitives, writes=False)

    def mapped(self, name: str) -> Play:
        """A function of entries."""
        if name == "float":
            return lambda array: counted(array).astype(object)
        if name == "power":
            return self.power
        function = FUNCTIONS[name]
        if name in OF_FLOATS:
            return lambda *arrays: function(*(np.asarray(a, dtype=np.float64) for a in arrays))
        return lambda *arrays: function(*map(counted, arrays))


def counted(array: Array) -> Array:
    """Truths as 0 and 1: fractions and symbols multiply by no truth."""
    found = np.asarray(array)
    return found + 0 if found.dtype == np.bool_ else found


def arrays_of(make: Callable[..., Play], *told: Any) -> Play:
    """A primitive whose results are arrays: NumPy hands out the one entry of an array of objects as it is."""
    play = make(*told)
    return lambda *arrays: np.asarray(play(*arrays))


def put(length: int, terms: Array, places: Array) -> Array:
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
        every = self.field.every and not isinstance(
            node, (Ravel, Unravel, sp.Mod, sp.floor, Bracket, sp.KroneckerDelta)
        )
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
        given = [self.terms.floats(self.value(argument)) for argument in arguments]
        axes = self.terms.union(given)
        nodes = [self.terms.on(term, axes) for term in given]
        return Term(self.graph.apply(kind, told, nodes, self.terms.shape(axes), holds), axes)
