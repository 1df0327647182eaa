"""What local Jacobians share: their output instead of its formula, and one derivation for every position.

exp(x[p])/Σ_j exp(x[j]) is out[p]. Comes in: the Jacobian's formula and the equation that defines the output. Goes out:
the same function, with each product of factors that equals the definition at some indices replaced by that entry of the
output. Rule: t·f(p) → t·out[p]   where out[i] = f(i) or out[i] = log f(i) is the definition.

Whole numbers among an operation's options that are positions become a `SlotSymbol` each, so that one derivation serves
all of them; also given are what stands there, and the largest number that may. Positions from the front and from the
end are two families: ``x[3]`` and ``x[5]`` are one formula, ``x[-3]`` and ``x[-5]`` another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import sympy as sp

from symgrad.indexing.canonical import canonical, canonical_at
from symgrad.indexing.deltas import is_delta
from symgrad.indexing.equation import Equation
from symgrad.indexing.sums import over_terms, split_factors
from symgrad.indexing.symbols import Expr, Index, access, accesses, indices_of, name_of
from symgrad.ops.lookup import entry_of
from symgrad.program import Operation, Option
from symgrad.shapes import Shape, Size, SlotSymbol

Powers = dict[Expr, Expr]
Place = tuple[str, tuple[Expr, ...]]
"""A tensor, and where it is read."""


def powers(term: Expr) -> Powers:
    """The factors of a product with their exponents; exponentials count by what is raised."""
    result: Powers = {}
    for factor in split_factors(term):
        base, exponent = (factor, sp.S.One) if isinstance(factor, sp.exp) else factor.as_base_exp()
        if isinstance(factor, sp.exp) and factor.exp.could_extract_minus_sign():
            base, exponent = sp.exp(-factor.exp, evaluate=False), -sp.S.One
        result[base] = result.get(base, sp.S.Zero) + exponent
    return result


def instances(equation: Equation, inner: Sequence[Index], formula: Expr) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:
    """The definition at the output's own indices, and with input indices of equal range in their place.

    Only where ``formula`` reads every entry that the definition reads there: the others are not in it.
    """
    there = {place(entry) for entry in accesses(formula)}
    read = {place(entry) for entry in accesses(equation.right)}
    choices = {axis: [axis, *(p for p in inner if p.size == axis.size)] for axis in equation.axes}
    found = []
    for known in fitting(read, there, choices):
        for at in product(*([known[axis]] if axis in known else choices[axis] for axis in equation.axes)):
            new = dict(zip(equation.axes, at, strict=True))
            if len(set(at)) == len(at) and all((n, tuple(k.xreplace(new) for k in ks)) in there for n, ks in read):
                found.append(at)
    order = {axis: {index: n for n, index in enumerate(those)} for axis, those in choices.items()}
    for at in sorted(
        dict.fromkeys(found), key=lambda at: [order[a][i] for a, i in zip(equation.axes, at, strict=True)]
    ):
        yield canonical_at(at, equation.axes, equation.right), at


def fitting(read: set[Place], there: set[Place], choices: Mapping[Index, Sequence[Index]]) -> list[dict[Index, Expr]]:
    """What axes have to be for entries to be read that are there, as far as they are indices themselves.

    To try every index for every axis would be 9⁸ ways for a tensor with eight axes.
    """
    partial: list[dict[Index, Expr]] = [{}]
    for name, indices in read:
        held = [there_at for other, there_at in there if other == name and len(there_at) == len(indices)]
        partial = [
            more for known in partial for at in held if (more := extended(known, indices, at, choices)) is not None
        ]
    return partial


def extended(
    known: dict[Index, Expr], indices: Sequence[Expr], at: Sequence[Expr], choices: Mapping[Index, Sequence[Index]]
) -> dict[Index, Expr] | None:
    """``known``, and the axes among ``indices`` as what stands in their places; None where they are others."""
    more = dict(known)
    for index, stands in zip(indices, at, strict=True):
        if index in choices and (stands not in choices[index] or more.setdefault(index, stands) != stands):
            return None
    return more


def place(entry: Expr) -> Place:
    """Which tensor an access reads, and where."""
    return name_of(entry), indices_of(entry)


def reuse_output(formula: Expr, equation: Equation, inner: Sequence[Index], out: str) -> Expr:
    """``formula`` with the output's entries named wherever their definition stands as a factor."""
    known = [
        (powers(definition), named(access(out, at)))
        for right, at in instances(equation, inner, formula)
        for definition, named in ((right, lambda e: e), *([(sp.exp(right), sp.exp)] if right.has(sp.log) else []))
    ]
    known = [(factors, name) for factors, name in known if len(factors) > 1]
    return sp.Add(*(_reuse_in_term(term, known) for term in over_terms(formula, is_delta)))


def _reuse_in_term(term: Expr, known: list[tuple[Powers, Expr]]) -> Expr:
    """One product: take out the first definition it contains, again until none is left."""
    factors = powers(canonical(term))
    for definition, name in known:
        while all(_holds(factors.get(base, sp.S.Zero), exponent) for base, exponent in definition.items()):
            factors = {b: e - definition.get(b, sp.S.Zero) for b, e in factors.items()}
            base, exponent = (name, sp.S.One)
            factors[base] = factors.get(base, sp.S.Zero) + exponent
    return sp.Mul(*(base**exponent for base, exponent in factors.items() if exponent != 0))


def _holds(present: Expr, wanted: Expr) -> bool:
    """Whether an exponent contains another: at least as much of it, on the same side of the fraction line."""
    rest = present - wanted
    return bool(present.is_number and wanted.is_number and present * wanted > 0 and rest * present >= 0)


@dataclass
class Slots:
    """The slots of some steps, in order: ``found`` is the position in each, ``most`` the largest."""

    found: dict[SlotSymbol, Any] = field(default_factory=dict)
    most: dict[SlotSymbol, Size] = field(default_factory=dict)

    def open(self, position: Any, most: Size) -> Size:
        """A slot for a position from 0 to ``most``; for one from the end, −1 − a slot."""
        if not position >= 0:
            return -1 - self.open(-1 - position, most)
        slot = SlotSymbol(len(self.found))
        self.found[slot], self.most[slot] = position, most
        return slot

    def opened(self, op: Operation, shapes: Sequence[Shape | None], options: tuple[Option, ...]) -> tuple[Option, ...]:
        """The options of a step with slots for its positions."""
        entry = entry_of(op) if isinstance(op, str) else None
        if entry is None or entry.rules.slots is None:
            return options
        return tuple({**dict(options), **entry.rules.slots(self.open, shapes, **dict(options))}.items())
