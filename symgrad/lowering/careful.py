"""In which order a product is formed at the edges of the numbers: ∞, NaN, 1e±200, 0/0.

Comes in: equations, the shapes of what they read, the numbers of their sizes. Goes out: a graph. Tame numbers take the
order that costs least. At the edges, where the order can be seen, there is one rule:

1. Of ``a·v/y²`` first ``a/(y·y)``, as one quotient whose parts may leave the range of floats, and then the numbers and
   the seed: y² may be no float where a/y² is one, and torch divides twice before it takes the seed. Without a power
   below the line the factors are multiplied as they stand.
2. A condition comes last: where it does not hold, the product is 0, whatever stands beside it, be it 1/0 or ∞.
3. A condition that compares what is no number does not hold in a forward, as in NumPy and torch; a derivative is no
   number there.
4. In a sum the conditions among the factors are taken into the product before it is summed, if the sum came to no
   number without that.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.indexing import Bracket, Index
from symgrad.indexing.symbols import Expr, accesses
from symgrad.lowering.build import Builder
from symgrad.lowering.exponents import in_turn
from symgrad.lowering.graph import FLOAT, TRUTH
from symgrad.lowering.reading import flat, is_mask
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
        function, bound = flat(node.function, [limit[0] for limit in node.limits])
        return list(self.factors(function) if function.is_Mul else (function,)), bound

    def in_turn(self, factors: Sequence[Expr]) -> Term:
        """What is divided, then numbers and the seed, then conditions."""
        masks = [f for f in factors if is_mask(f)]
        ways = in_turn(tuple(f for f in factors if f not in masks))
        above, below, last = ([self.value(f) for f in part] for part in ways)
        if below:
            axes = self.terms.union([*above, *below])
            given = [self.terms.on(self.terms.floats(term), axes) for term in (*above, *below)]
            last = [Term(self.graph.apply("quotient", (len(above),), given, self.terms.shape(axes)), axes), *last]
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
        kept += [terms.map("not_equal", mask, terms.number(0), holds=TRUTH) for mask in asked]
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
        relation = node.args[0] if isinstance(node, Bracket) else sp.Eq(*node.args, evaluate=False)
        sides = [self.value(side) for side in relation.args if any(accesses(side))] if self.care.unknown else []
        sides = [side for side in sides if self.graph.floating(side.node)]
        if not sides or self.graph.holds(held.node) != TRUTH:
            return held
        none = [self.terms.map("not_equal", side, side, holds=TRUTH) for side in sides]
        mask = none[0] if len(none) == 1 else self.terms.map("any", *none, holds=TRUTH)
        axes = self.terms.union([mask, held])
        given = (
            self.terms.on(mask, axes),
            self.graph.number(float("nan")),
            self.terms.on(self.terms.floats(held), axes),
        )
        return Term(self.graph.apply("where", (), given, self.terms.shape(axes), FLOAT), axes)
