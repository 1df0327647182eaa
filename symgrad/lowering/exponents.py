"""Products and sums with exponentials, computed so that large exponents cancel before they are raised.

Comes in: a product or its factors; sums of exponentials, and what lowers the parts of them; a condition that compares
the index that is summed over with another one. Goes out: factors, without anything of arrays, as they are best
computed: exponentials as one, or inside the sum they belong to; |x| for sign(x)·x; what is below the line; conditions
by sides. Terms of sums that neither overflow nor are lost, the largest exponent of all taken off first; a `Reached`,
which makes Σ_j [j ≤ i]·f(j) in one go along j, from either end, and reads it where the condition says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from symgrad.functions import Stable, sign
from symgrad.indexing import Bracket, Index, over_same
from symgrad.indexing.brackets import ORDERS, whole_gap
from symgrad.indexing.definitions import Quotient, named_quotient
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import WEIGHTS, Expr, accesses, free_indices, is_access, name_of
from symgrad.lowering.terms import Term, Terms
from symgrad.lowering.windows import line
from symgrad.shapes import Size


class ExponentialShare(sp.Function):
    """``Share(a, c)``: exp(a)/c as exp(a − log c), which SymPy would write as a quotient again."""

    nargs = 2
    is_real = True


@lru_cache(maxsize=1024)
def stable_factors(node: Expr) -> tuple[Expr, ...]:
    """exp(a)·exp(b) / Σ exp(c) as exp(a + b − log Σ exp(c)), also where exp(a) is a factor in a sum or its terms."""
    if not node.has(sp.exp):
        return node.args if node.is_Mul else (node,)
    node = named_quotient(sp.Mul(*(f for factor in node.args for f in totals_out(factor))), over_exponentials)
    if not node.is_Mul:
        return (node,)
    exponents: list[Expr] = []
    others: list[Expr] = []
    for factor in node.args:
        base, power = factor.as_base_exp()
        if isinstance(factor, sp.exp):
            exponents.append(factor.exp)
        elif power.is_number and exponentials_only(base):
            exponents.append(power * sp.log(base, evaluate=False))
        else:
            others.append(factor)
    for n, factor in enumerate(others):
        if exponents and sums_exponentials(factor, sp.Add(*exponents)):
            inside = over_same(factor.function * sp.exp(sp.Add(*exponents), evaluate=False), factor)
            return (*others[:n], inside, *others[n + 1 :])
    if len(exponents) < 2:
        return tuple(node.args)
    return (*others, sp.exp(sp.Add(*exponents), evaluate=False))


def exponentials_only(node: Expr) -> bool:
    """Whether ``node`` is a plain sum of exponentials, or of those that meet a condition."""
    if type(node) is not sp.Sum:
        return False
    factors = split_factors(node.function)
    return any(isinstance(f, sp.exp) for f in factors) and all(isinstance(f, (sp.exp, Bracket)) for f in factors)


def over_exponentials(base: Expr) -> Quotient | None:
    """Σ_k exp(f(k)) below the line."""
    if not exponentials_only(base):
        return None
    raised = tuple(f for f in split_factors(base.function) if isinstance(f, sp.exp))
    bound = tuple(limit[0] for limit in base.limits)
    exponent = sp.Add(*(f.exp for f in raised))

    def named(at: Sequence[Expr]) -> Expr:
        return ExponentialShare(exponent.xreplace(dict(zip(bound, at, strict=True))), base)

    return Quotient(raised, bound, sp.S.One, named)


def totals_out(factor: Expr) -> tuple[Expr, ...]:
    """a/c + b/c² as (a + b/c)·1/c, where c sums exponentials."""
    if not factor.is_Add:
        return (factor,)
    for below in factor.args[0].args if factor.args[0].is_Mul else ():
        base, power = below.as_base_exp()
        if power.is_Integer and power < 0 and exponentials_only(base):
            rest = [term * base for term in factor.args]
            if not any(base in sp.Mul.make_args(term) for term in rest):
                return (sp.Add(*rest), 1 / base)
    return (factor,)


def sums_exponentials(node: Expr, exponent: Expr) -> bool:
    """Whether ``node`` is Σ c·exp(f) or Σ c/Σ exp(f), to which exp(exponent) brings no new index: it can go inside."""
    if type(node) is not sp.Sum or not node.function.is_Mul:
        return False
    bases = [f.as_base_exp() for f in node.function.args if not isinstance(f, sp.exp)]
    if any(power.is_number and power.is_negative and exponentials_only(base) for base, power in bases):
        return bool(free_indices(exponent) <= free_indices(node.function))
    found = [f.exp for f in node.function.args if isinstance(f, sp.exp)]
    return any(exponent.atoms(Index) <= f.atoms(Index) for f in found)


def with_sizes(factors: Sequence[Expr], without: Sequence[Expr]) -> list[Expr]:
    """The factors, sign(x)·x as |x|."""
    found = [f for f in factors if f not in without]
    for factor in list(found):
        if isinstance(factor, sign) and factor.args[0] in found:
            found.remove(factor)
            found[found.index(factor.args[0])] = sp.Abs(factor.args[0])
    return found


def split_denominators(factors: Sequence[Expr], bound: Sequence[Index]) -> tuple[list[Expr], list[Expr]]:
    """The factors above, and what is below that nothing sums over."""
    below = [f for f in factors if f.is_Pow and f.exp == -1 and any(accesses(f)) and free_indices(f).isdisjoint(bound)]
    return [f for f in factors if f not in below], [f.base for f in below]


DIVISIONS = 4
"""The largest power below the line that is taken apart."""


@lru_cache(maxsize=1024)
def in_turn(factors: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[Expr, ...]]:
    """a·v/y² as (a) over (y, y), then (v): y² may be no float where a/y² is one.

    Of all other products the factors are in the last part; seeds, tangents and numbers always are.
    """
    late = [f for f in factors if f.is_number or (is_access(f) and name_of(f) in WEIGHTS)]
    early = [f for f in factors if f not in late]
    below = [f for f in early if f.is_Pow and f.exp.is_Integer and -DIVISIONS <= f.exp < 0]
    if all(f.exp == -1 for f in below):
        return (), (), factors
    above = [f for f in early if f not in below]
    return powers_as_factors(above), powers_as_factors([1 / f for f in below]), tuple(late)


def powers_as_factors(factors: Sequence[Expr]) -> tuple[Expr, ...]:
    """y, y for y²; what is no such power is as it is."""
    found: list[Expr] = []
    for factor in factors:
        base, power = factor.as_base_exp()
        found += [base] * int(power) if power.is_Integer and 0 < power <= DIVISIONS else [factor]
    return tuple(found)


def rounded_once(node: Expr) -> tuple[Expr, Expr] | None:
    """What is above the line and below it in a function that jumps: 0.3 / 0.1 is less than 3, 0.3 · (1 / 0.1) is 3."""
    if not isinstance(node, Stable) or node.fdiff() != 0:
        return None
    above, below = sp.fraction(node.args[0])
    return None if below.is_number else (above, below)


def quarter_zeros(node: Expr) -> tuple[Expr, ...]:
    """That a cosine or a sine of quarter turns is not 0, a factor of it: no float is π/2, and its cosine is 6e-17."""
    if not (isinstance(node, (sp.cos, sp.sin)) and node.args[0].has(sp.pi)):
        return ()
    turns = sp.together(2 * node.args[0] / sp.pi)
    if turns.has(sp.pi) or not turns.free_symbols:
        return ()
    above, below = sp.fraction(turns)
    zero = below if isinstance(node, sp.cos) else sp.S.Zero
    return (Bracket(sp.Ne(sp.Mod(above, 2 * below, evaluate=False), zero, evaluate=False)),)


def separated_sides(relation: Expr) -> tuple[Expr, Expr]:
    """The two sides of a condition, indices that are subtracted moved to the other one: none is laid out on a grid."""
    gap = line(relation.lhs - relation.rhs)
    if gap is None or len(gap.slopes) < 2:
        left, right = relation.args
        return left, right
    left = sum((slope * k for k, slope in gap.slopes if slope > 0), gap.constant)
    return left, sum((-slope * k for k, slope in gap.slopes if slope < 0), sp.S.Zero)


def one_hot(factor: Expr, factors: Sequence[Expr], bound: Sequence[Index], size: Callable[[Size], int]) -> bool:
    """Whether ``factor`` is δ(a number, p) for a place that there is, p standing nowhere else."""
    if not isinstance(factor, sp.KroneckerDelta):
        return False
    place, index = sorted(factor.args, key=lambda a: isinstance(a, Index))
    if not (place.is_Integer and isinstance(index, Index) and index not in bound):
        return False
    return 0 <= place < size(index.size) and not any(index in free_indices(f) for f in factors if f is not factor)


class Families:
    """Families of exponentials over one graph."""

    def __init__(self, terms: Terms, value: Callable[[Expr], Term]) -> None:
        self.terms, self.value = terms, value

    def family(self, node: Expr, steady: bool = False) -> tuple[Term, Term]:
        """Of Σ_k exp(f(k)): the largest f(k), and exp(f(k) − the largest) for each k, 0 where a condition fails.

        ``steady`` takes 0 for a largest one that is infinite: so is the logarithm then, as torch has it.
        """
        bound = [limit[0] for limit in node.limits]
        raised, conditions = exponent_and_conditions(node)
        exponent = self.terms.floats(self.value(raised))
        masks = [self.value(condition) for condition in conditions]
        masks = [self.terms.held(m) for m in masks if self.terms.constant(m) != 1]
        if not set(bound) <= set(exponent.axes):
            axes = tuple(dict.fromkeys((*exponent.axes, *bound)))
            exponent = Term(self.terms.whole(exponent, axes), axes)
        counted = exponent
        if masks:
            nothing = self.terms.number(float("-inf"))
            counted = self.terms.applied("where", (), [self.terms.times(masks), exponent, nothing])
        largest = self.terms.reduced("max", counted, bound)
        if steady:
            largest = self.terms.map("steady", largest)
        return largest, self.terms.map("exp", self.terms.map("subtract", counted, largest))

    def total(self, shares: Term, node: Expr) -> Term:
        """The sum of a shifted family."""
        return self.terms.reduced("sum", shares, [limit[0] for limit in node.limits])

    def summed(self, node: Expr) -> Term:
        """Σ_k exp(f(k))."""
        largest, shares = self.family(node)
        return self.terms.map("multiply", self.terms.map("exp", largest), self.total(shares, node))

    def logarithm(self, node: Expr) -> Term:
        """log Σ_k exp(f(k)); one after the other where the condition is that k has been reached."""
        reached = reached_in(node)
        if reached is not None:
            exponent = self.terms.floats(self.value(exponent_and_conditions(node)[0]))
            running = reached.scanned("logaddexp", exponent, self.terms)
            if running is not None:
                return running
        largest, shares = self.family(node, steady=True)
        return self.terms.map("add", largest, self.terms.map("log", self.total(shares, node)))

    def raised(self, exponent: Expr) -> Term:
        """exp(a − log Σ_k exp(f(k))) as exp(a − the largest f) / Σ_k exp(f(k) − the largest f)."""
        found, totals = self.shifted(exponent)
        found = self.terms.map("exp", found)
        for times, total in totals:
            for _ in range(abs(times)):
                found = self.terms.map("multiply" if times > 0 else "divide", found, total)
        return found

    def shifted(self, node: Expr) -> tuple[Term, list[tuple[int, Term]]]:
        """a + n·log Σ_k exp(f(k)) as a + n·(the largest f); of each such logarithm n, and its sum without that."""
        rest, shifts, totals = [], [], []
        for part in sp.Add.make_args(node):
            times, inner = part.as_coeff_Mul()
            if of_family(part):
                largest, shares = self.family(inner.args[0])
                shifts.append(self.terms.scaled(int(times), largest))
                totals.append((int(times), self.total(shares, inner.args[0])))
            else:
                rest.append(part)
        found = self.terms.floats(self.value(sp.Add(*rest)))
        for shift in shifts:
            found = self.terms.map("add", found, shift)
        return found, totals

    def less(self, node: Expr) -> Term | None:
        """a − log Σ_k exp(f(k)), the largest f taken from a first: large ones cancel; None for any other sum."""
        logarithms = [of_family(part) and part.could_extract_minus_sign() for part in node.args]
        if not any(logarithms) or all(logarithms):
            return None
        found, totals = self.shifted(node)
        for times, total in totals:
            found = self.terms.map("add", found, self.terms.scaled(times, self.terms.map("log", total)))
        return found


def of_family(part: Expr) -> bool:
    """Whether a term is a whole number times log Σ_k exp(f(k)) over all k."""
    times, inner = part.as_coeff_Mul()
    if not (isinstance(inner, sp.log) and exponentials_only(inner.args[0]) and times.is_Integer):
        return False
    return reached_in(inner.args[0]) is None


def exponent_and_conditions(node: Expr) -> tuple[Expr, list[Expr]]:
    """Of Σ_k [c]·exp(f(k)) the exponent f(k), and the conditions."""
    factors = split_factors(node.function)
    raised = [f for f in factors if isinstance(f, sp.exp)]
    return sp.Add(*(f.exp for f in raised)), [f for f in factors if f not in raised]


def reached_in(node: Expr) -> Reached | None:
    """How far Σ_k [k ≤ i]·exp(f(k)) goes; None where it is over all k."""
    exponent, conditions = exponent_and_conditions(node)
    if len(conditions) == 1 == len(node.limits):
        return so_far(conditions[0], node.limits[0][0], exponent)
    return None


@dataclass(frozen=True)
class Reached:
    """j ≤ i + ``shift``, or j ≥ i + ``shift`` where ``backwards``; j is ``inner`` and i is ``outer``."""

    inner: Index
    outer: Index
    backwards: bool
    shift: int

    def scanned(self, function: str, term: Term, terms: Terms) -> Term | None:
        """The running sum of ``term`` along j, over i; None where i may lie beyond either end."""
        last = terms.lengths[self.inner] - 1
        first, end = self.shift, terms.lengths[self.outer] - 1 + self.shift
        if self.inner not in term.axes or (first < 0 and end > last):
            return None
        nothing = end > last if self.backwards else first < 0  # of no entry at all: a sum of none is 0
        if nothing and function != "sum":
            return None
        axis = term.axes.index(self.inner)
        graph, shape = terms.graph, terms.graph.shape(term.node)
        node = graph.apply("scan", (function, axis, self.backwards), (term.node,), shape, graph.holds(term.node))
        axes = (*term.axes[:axis], self.outer, *term.axes[axis + 1 :])
        if self.shift or first + last != end:
            told = (axis, ((1, terms.lengths[self.outer]),), self.shift, nothing)
            node = graph.apply("window", told, (node,), terms.shape(axes), graph.holds(term.node))
        return Term(node, axes)


def so_far(condition: Expr, inner: Index, *others: Expr) -> Reached | None:
    """A condition as how far ``inner`` goes, if it compares it with an index that stands in none of ``others``."""
    if not isinstance(condition, Bracket) or not isinstance(condition.args[0], ORDERS):
        return None
    gap = line(whole_gap(condition.args[0]))
    slopes = {} if gap is None else dict(gap.slopes)
    if gap is None or not gap.constant.is_Integer or inner not in slopes or sorted(slopes.values()) != [-1, 1]:
        return None
    backwards = slopes.pop(inner) == 1
    (outer,) = slopes
    if any(outer in free_indices(other) for other in others):
        return None
    return Reached(inner, outer, backwards, int(-gap.constant if backwards else gap.constant))
