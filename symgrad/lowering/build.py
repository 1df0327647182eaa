"""One lowering: an index equation becomes array operations.

Comes in: the right-hand side of an equation, the shapes of what it reads, the numbers of its sizes. Goes out: a term of
a graph. Sums of products are contracted in the order that costs least, exponentials are shifted by the largest of their
family, windows are views, a δ that says where something goes is a put-add. What is not said here has no plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import sympy as sp

from symgrad.functions import finite
from symgrad.indexing import Bracket, Index, Ravel, Unravel, is_constant, with_fresh_sums
from symgrad.indexing.brackets import relation_of
from symgrad.indexing.symbols import Expr, bound_indices, free_indices, is_access, name_of
from symgrad.lowering.arrays import EITHER, FINITE, MOST_FACTORS, NAMES, RELATIONS
from symgrad.lowering.choices import conditions_among as conditions_in
from symgrad.lowering.choices import holds_always, in_order, lower_cases, with_truths
from symgrad.lowering.exponents import (
    ExponentialShare,
    Families,
    exponentials_only,
    one_hot,
    quarter_zeros,
    rounded_once,
    separated_sides,
    so_far,
    split_denominators,
    stable_factors,
    with_sizes,
)
from symgrad.lowering.graph import FLOAT, TRUTH, Care, Graph, NoPlan
from symgrad.lowering.places import TensorPlaces, at_one_place, join_pieces, scatter_target, split_in_pieces
from symgrad.lowering.terms import Products, Term, Terms, real_number, size_as_int
from symgrad.lowering.windows import Fold, absorb, between_places, moved, slices, slide
from symgrad.shapes import Size


class Builder:
    """Lowers expressions over one graph: what was lowered before is there already."""

    def __init__(self, products: Products, places: TensorPlaces, care: Care) -> None:
        self.products, self.places, self.care = products, places, care
        self.terms: Terms = products.terms
        self.graph: Graph = products.graph
        self.sizes = self.terms.lengths.sizes
        self.families = Families(self.terms, self.value)
        self._known: dict[Expr, Term] = {}

    def size(self, size: Size) -> int:
        """A size as a number."""
        return size_as_int(size, self.sizes)

    def value(self, node: Expr) -> Term:
        """An expression as a term over its free indices."""
        if node not in self._known:
            self._known[node] = self._value(node)
        return self._known[node]

    def _value(self, node: Expr) -> Term:
        if is_access(node) or node.is_Add:
            found = split_in_pieces(node, self.size)
            if found is not None:
                return join_pieces(self.terms, *found, self.value)
        if is_access(node):
            return self.entry(node)
        if isinstance(node, Index):
            return self.places.counted(node)
        if node.is_Symbol and node in self.sizes:
            return self.terms.number(int(self.sizes[node]))
        if is_constant(node):
            return self.constant(node)
        at_once = self.at_once(node)
        if at_once is not None:
            return at_once
        if isinstance(node, (sp.Sum, sp.Mul)):
            return self.product(node)
        if isinstance(node, sp.Product):
            return self.multiplied_up(node)
        if node.is_Add:
            return self.added(node)
        if node.is_Pow:
            return self.power(*node.as_base_exp())
        if isinstance(node, (sp.KroneckerDelta, Bracket)):
            return self.condition(node)
        return self.function(node)

    def constant(self, node: Expr) -> Term:
        """A number."""
        return self.terms.number(real_number(node))

    def at_once(self, node: Expr) -> Term | None:
        """What is more than its parts: exponentials, by the largest of them, and one of several cases; else None."""
        if node.is_Mul and not self.care.unknown:
            return lower_cases(node, self.terms, self.value, clipped=True)
        if isinstance(node, sp.Sum) and exponentials_only(node):
            return self.families.summed(node)
        if node.is_Add:
            one = None if self.care.unknown else lower_cases(node, self.terms, self.value)
            return one or self.families.less(node)
        if isinstance(node, sp.exp):
            return self.families.raised(node.exp)
        if isinstance(node, ExponentialShare):
            return self.families.raised(node.args[0] - sp.log(node.args[1], evaluate=False))
        if isinstance(node, sp.log) and exponentials_only(node.args[0]):
            return self.families.logarithm(node.args[0])
        return None

    def factors(self, node: Expr) -> tuple[Expr, ...]:
        """The factors of a product, exponentials together."""
        return stable_factors(node)

    # Entry by entry -------------------------------------------------------------------------------------

    def added(self, node: Expr) -> Term:
        """A sum of terms."""
        found: Term | None = None
        for part in in_order(node.args):
            negative = part.could_extract_minus_sign() and not part.is_number
            term = self.terms.numeric(self.value(-part if negative else part))
            if found is None:
                found = self.terms.scaled(-1, term) if negative else term
            else:
                found = self.terms.map("subtract" if negative else "add", found, term)
        assert found is not None
        return found

    def power(self, base: Expr, exponent: Expr) -> Term:
        """A power; of halves and small whole numbers by multiplication."""
        below = self.terms.floats(self.value(base))
        twice = 2 * exponent
        if not twice.is_Integer or abs(twice) > 2 * MOST_FACTORS:
            return self.terms.map("power", below, self.terms.floats(self.value(exponent)))
        if self.terms.constant(below) is not None:
            return self.terms.map("power", below, self.terms.number(float(exponent)))
        root = self.terms.map("sqrt", below) if twice % 2 else below
        times = int(abs(twice) if twice % 2 else abs(exponent))
        if exponent < 0:
            root = self.terms.map("divide", self.terms.number(1.0), root)
        found = root
        for _ in range(times - 1):
            found = self.terms.map("multiply", found, root)
        return found

    def function(self, node: Expr) -> Term:
        """Functions of numbers, and what is done to row-major numbers."""
        if isinstance(node, Ravel):
            return self.places.ravelled([self.value(i) for i in node.indices], [self.size(s) for s in node.shape])
        if isinstance(node, Unravel):
            shape = [self.size(s) for s in node.shape]
            return self.places.unravelled(self.value(node.number), shape, node.axis)
        if isinstance(node, sp.Mod):
            return self.terms.map("remainder", *map(self.value, node.args))
        if isinstance(node, sp.floor):
            above, below = sp.fraction(sp.together(node.args[0]))
            if below != 1:
                return self.terms.map("floor_divide", self.value(above), self.value(below))
        if isinstance(node, FINITE) and self.care.tame:
            if not is_access(node.args[0]):
                raise NoPlan
            return self.terms.number(1.0) if isinstance(node, finite) else self.value(node.args[0])
        if node.func in EITHER:
            given, name = [self.terms.numeric(self.value(a)) for a in node.args], EITHER[node.func]
            return self.terms.folded(name, given) if len(given) > 1 else self.terms.map(name, *given)
        if node.func in NAMES:
            over = rounded_once(node)
            given = [self.terms.floats(self.value(a)) for a in over or node.args]
            given = [self.terms.map("divide", *given)] if over else given
            found = self.terms.map(NAMES[node.func], *given, holds=FLOAT)
            return self.terms.times([found, *map(self.value, quarter_zeros(node))])
        raise NoPlan

    def condition(self, node: Expr) -> Term:
        """Whether something holds."""
        relation = relation_of(node)
        if relation in (sp.true, sp.false):
            return self.terms.number(int(relation == sp.true))
        if relation.func not in RELATIONS:
            raise NoPlan
        if holds_always(relation, self.sizes):
            return self.terms.number(1)
        left, right = (self.terms.numeric(self.value(a)) for a in separated_sides(relation))
        return self.terms.map(RELATIONS[relation.func], left, right, holds=TRUTH)

    # Sums and products ----------------------------------------------------------------------------------

    def multiplied_up(self, node: Expr) -> Term:
        """A product along axes."""
        bound = [limit[0] for limit in node.limits]
        running = self.running_product(node, bound)
        if running is not None:
            return running
        body = self.terms.numeric(self.value(node.function))
        axes = (*(a for a in body.axes if a not in bound), *bound)
        return self.terms.reduced("prod", Term(self.terms.whole(body, axes), axes), bound)

    def running_product(self, node: Expr, bound: Sequence[Index]) -> Term | None:
        """Π_j ([j ≤ i]·f(j) + 1 − [j ≤ i]): the product of what has been reached."""
        conditions = set(conditions_in(node.function))
        if len(bound) != 1 or len(conditions) != 1:
            return None
        (condition,) = conditions
        early, late = (with_truths(node.function, {condition: sp.Integer(n)}) for n in (1, 0))
        reached = so_far(condition, bound[0], early) if late == 1 else None
        return None if reached is None else reached.scanned("prod", self.terms.numeric(self.value(early)), self.terms)

    def product(self, node: Expr) -> Term:
        """A product, sums in it and sums in those together: which is formed first, the sizes decide."""
        factors, bound = self.gathered(node, {*free_indices(node)})
        deltas = [f for f in factors if self.puts(f) and scatter_target(f, bound, factors)]
        if not deltas:
            return self.slid(factors, bound)
        pairs = [pair for d in deltas if (pair := scatter_target(d, bound, factors))]
        places = [self.value(place) for _, place in pairs]
        used = {a for place in places for a in place.axes}
        rest = self.slid([f for f in factors if f not in deltas], [k for k in bound if k not in used])
        return self.places.scattered(rest, [target for target, _ in pairs], places, bound)

    def puts(self, factor: Expr) -> bool:
        """Whether a factor may say where something is put."""
        return isinstance(factor, sp.KroneckerDelta)

    def gathered(self, node: Expr, taken: set[Index]) -> tuple[list[Expr], list[Index]]:
        """The factors of a product and what they are summed over, sums among the factors opened."""
        if isinstance(node, sp.Sum):
            mine = {limit[0] for limit in node.limits}
            if mine & taken:
                node = with_fresh_sums(node)
                mine = {limit[0] for limit in node.limits}
            taken |= mine
            bound = [limit[0] for limit in node.limits]
            factors = self.factors(node.function) if node.function.is_Mul else (node.function,)
        else:
            bound, factors = [], self.factors(node)
        found: list[Expr] = []
        for factor in factors:
            if (type(factor) is sp.Sum and not exponentials_only(factor)) or factor.is_Mul:
                inner, more = self.gathered(factor, taken)
                found, bound = found + inner, bound + more
            else:
                found.append(factor)
        return found, bound

    def slid(self, factors: Sequence[Expr], bound: Sequence[Index]) -> Term:
        """Σ over ``bound`` of a product; where windows slide, over the window."""
        running = self.running_sum(factors, bound) if len(factors) > 1 else None
        if running is not None:
            return running
        if any(isinstance(f, Bracket) for f in factors):  # an index that slides is replaced: not where others bind it
            factors = [f if bound_indices(f).isdisjoint(bound) else with_fresh_sums(f) for f in factors]
        halves = [f for f in factors if between_places(f, self.sizes)]
        whole = [f for f in factors if f not in halves]
        factors, bound, folds = slide(whole, list(bound), self.size) or (whole, list(bound), [])
        fewer = [*absorb(factors, lambda node: self.places.shapes[name_of(node)], self.size), *halves]
        factors = [*factors, *halves]
        moving = {k for f in folds for k in f.window.top.indices}
        return self.summed(fewer, [k for k in bound if k not in moving], folds, len(fewer) < len(factors))

    def part(self, factor: Expr, zero: bool) -> Term:
        """A factor; an entry outside its tensor is 0 if ``zero``."""
        return self.entry(factor, zero) if zero and is_access(factor) else self.value(factor)

    def entry(self, node: Expr, zero: bool = False) -> Term:
        """An entry of a tensor; outside of it 0 if ``zero``."""
        return self.places.entry(node, self.value, zero)

    def summed(self, fewer: Sequence[Expr], bound: Sequence[Index], folds: Sequence[Fold], zero: bool) -> Term:
        """Σ over ``bound`` of a product and its folds: numbers are taken out, and so is what is divided by."""
        hot = [f for f in fewer if one_hot(f, fewer, bound, self.size)] if not folds else []
        fewer, below = (
            ([f for f in fewer if f not in hot], []) if folds else split_denominators(with_sizes(fewer, hot), bound)
        )
        number_, divisor, parts = 1.0, 1.0, []
        for factor in fewer:
            base, power = factor.as_base_exp()
            if power == -1 and (size := self.terms.constant(self.value(base))) is not None and size:
                divisor *= size
                continue
            part = self.part(factor, zero)
            known = self.terms.constant(part)
            if known is None or not math.isfinite(known):  # 1/0 of a size: arithmetic has to meet it
                parts.append(part)
            else:
                number_ *= known
        found = self.contracted(parts, bound, folds)
        found = self.terms.scaled(int(number_) if number_ == int(number_) and not parts else number_, found)
        if divisor != 1:
            found = self.terms.map("divide", self.terms.floats(found), self.terms.number(divisor))
        for base in below:
            found = self.over(found, self.terms.floats(self.value(base)))
        for delta in hot:
            found = at_one_place(self.terms, found, delta)
        return found

    def contracted(self, parts: Sequence[Term], bound: Sequence[Index], folds: Sequence[Fold]) -> Term:
        """Σ over ``bound`` of a product of terms, its windows added up."""
        self.terms.first = {**self.terms.first, **{f.inner: -1 for f in folds}}  # what is folded lies along what moves
        found = self.products.contract(parts, bound)
        for work in folds:
            found = self.folded(found, work)
        return found

    def over(self, above: Term, below: Term) -> Term:
        """A quotient; by what has fewer axes as a product, so that the division is made once for each entry."""
        above = self.terms.floats(above)
        if set(above.axes) <= set(below.axes):
            return self.terms.map("divide", above, below)
        return self.terms.times([above, self.terms.map("divide", self.terms.number(1.0), below)])

    def running_sum(self, factors: Sequence[Expr], bound: Sequence[Index]) -> Term | None:
        """Σ_j [j ≤ i]·f(j): the sum of what has been reached."""
        for condition in factors:
            others = [f for f in factors if f is not condition]
            for inner in bound:
                mine = [f for f in others if inner in free_indices(f)]
                reached = so_far(condition, inner, *mine)
                if reached is None or any(reached.outer == k for k in bound):
                    continue
                rest = self.slid(mine, [k for k in bound if k != inner and any(k in free_indices(f) for f in mine)])
                found = reached.scanned("sum", self.terms.numeric(rest), self.terms)
                if found is not None and len(mine) == len(others):
                    return found
        return None

    def folded(self, term: Term, work: Fold) -> Term:
        """What stands at (index, inner) added at the target, which stands where the index stood: rows stay together."""
        moving, _ = moved(work)
        kept = tuple(dict.fromkeys((*(a for a in term.axes if a is not work.inner), moving)))
        whole = self.terms.whole(self.terms.floats(term), (*kept, work.inner))
        axes = tuple(work.target if a is moving else a for a in kept)
        told = (slices(work, self.size), self.terms.lengths[work.target], kept.index(moving))
        return Term(self.graph.apply("fold", told, (whole,), self.terms.shape(axes), FLOAT), axes)
