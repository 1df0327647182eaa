"""Where float64 has lost digits: what rounding leaves of 0, and the same program with many digits.

Comes in: a formula, or numbers with the sizes of the terms that they were added up from; a program with its numbers in
float64, which are taken as they stand. Goes out: the formula of those sizes, and where a number is rounding: pages,
pictures and their scripts ask here and nowhere else; what the program's equations, and the equations derived from them,
come to on numbers of mpmath. What is undefined there, or takes too long, raises `TooLong`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from symgrad.calculus import carry_back, flowing, flowing_places, local_pullback, standard
from symgrad.calculus.local_derivatives import OUT, SEED, Standard, derive_local
from symgrad.errors import SymgradError
from symgrad.functions import Stable, log_ndtr, sigmoid, softplus
from symgrad.indexing import Bracket, Equation, accesses, bound_indices
from symgrad.indexing.deltas import is_delta
from symgrad.indexing.equation import with_names
from symgrad.indexing.symbols import Expr, is_access, name_of, over
from symgrad.lowering.arrays import FUNCTIONS
from symgrad.lowering.careful import Field
from symgrad.lowering.graph import Care, NoPlan
from symgrad.lowering.reading import RELATIONS, names_read, number
from symgrad.numeric.exact import Array, as_float, euclidean, is_exact
from symgrad.numeric.forward import Values, read_by
from symgrad.numeric.playing import of_objects
from symgrad.program import Apply, Program
from symgrad.shapes import Size

ULPS = 64 * float(np.finfo(np.float64).eps)
"""A sum that is smaller than this part of its terms, signs left out, may be rounding from the first digit on."""
SMALL = 1e-6
"""Numbers larger than this part of the largest at hand are not looked at."""


class Rounding(float):
    """A number that rounding left of 0: written ``≈0``, and in JSON with its digits."""


def is_rounding(values: Array, terms: Array) -> Array:
    """Where a number is not 0 and no more than rounding leaves of ``terms``; exact numbers never are.

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
    """Whether a number is small beside all that a program computes with: then its terms are worth looking at."""
    if is_exact(numbers):
        return False
    size = np.abs(as_float(numbers))
    if not np.any((size > 0) & (size < SMALL * max(1.0, size.max(initial=0.0)))):
        finite = (a[np.isfinite(a)] for a in map(as_float, values.arrays.values()))
        scale = max((float(np.abs(a).max(initial=0.0)) for a in finite), default=0.0)
        return bool(np.any((size > 0) & (size < SMALL * scale)))
    return True


def marked(values: Array, terms: Array | None) -> Array:
    """The same numbers, each that is rounding as `Rounding`; without terms nothing is known."""
    places = np.zeros(np.shape(values), dtype=bool) if terms is None else is_rounding(values, terms)
    if not places.any():
        return values
    found = np.asarray(values, dtype=object).copy()
    for at in np.argwhere(places):
        found[tuple(at)] = Rounding(found[tuple(at)])
    return found


def length_beside(values: Array, terms: Array | None) -> float:
    """The Euclidean length; `Rounding` where it is that of nothing but rounding."""
    length = euclidean(values)
    if length == 0 or terms is None or np.shape(terms) != np.shape(values):
        return length
    return Rounding(length) if is_rounding(values, terms)[as_float(values) != 0].all() else length


@lru_cache(maxsize=1024)
def adds_up(formula: Expr) -> bool:
    """Whether terms can cancel in a formula: it adds up something outside its conditions and its positions."""
    if is_delta(formula) or is_access(formula) or isinstance(formula, Bracket):
        return False
    return isinstance(formula, (sp.Add, sp.Sum)) or any(map(adds_up, formula.args))


@lru_cache(maxsize=1024)
def terms_of(formula: Expr) -> Expr:
    """How large the terms are that a formula adds up: each sum with its terms' signs left out.

    ``s[i]·(w[p] − Σ_j s[j]·w[j])`` becomes ``|s[i]|·(|w[p]| + Σ_j |s[j]|·|w[j]|)``.
    """
    if is_delta(formula) or isinstance(formula, Bracket):
        return formula
    if isinstance(formula, (sp.Add, sp.Mul)):
        return formula.func(*map(terms_of, formula.args))
    if isinstance(formula, sp.Sum):
        return over(sp.Sum, terms_of(formula.function), *formula.limits)
    if isinstance(formula, sp.Pow) and formula.exp.is_positive:
        return sp.Pow(terms_of(formula.base), formula.exp)
    real = {node: sp.Dummy(real=True) for node in formula.atoms(sp.erfinv)}  # SymPy does not know that it is
    return sp.Abs(formula.xreplace(real)).xreplace({name: node for node, name in real.items()})


LARGEST = 600_000
"""Terms of all sums of a program, over how many times more digits than `USUAL` they have: more take over a second."""
USUAL = 500
FUNCTION = 60
"""Terms that an entry of a function counts for, and with n times `USUAL` digits n² times as many: exp of 5,000 digits
takes mpmath 12 ms, exp of 200,000 takes it 17 s."""
CHOSEN = "≈"
LAST = 10
"""So many of the last digits may be rounding."""


class TooLong(Exception):
    """This has no number with many digits, or takes too long to be worked out so."""


class ManyDigits:
    """A forward pass with so many ``digits``, and equations at it."""

    def __init__(self, program: Program, values: Values, digits: int) -> None:
        self.program, self.digits, self.sizes = program, digits, values.sizes
        self.left = LARGEST / max(1, digits / USUAL)
        self.asked = 0
        held = {name: array for name, array in values.arrays.items() if "·" in name}
        if any(np.any(array != np.round(array)) for array in held.values()):
            raise TooLong  # an eigenvector that the forward pass found has no more digits than floats
        given = values.arrays.keys() - held - {step.result.name for step in program.steps}
        self.arrays: dict[str, Array] = {**held, **{name: converted(values[name]) for name in given}}
        self.floats = values
        for step in program.steps:
            form = standard(step, program)
            self.arrays[step.result.name] = self._evaluated(derive_local(form.key).equation, form, {}, guards=True)

    def of(self, equation: Equation) -> Array:
        """What an equation about the program comes to."""
        return self._made(equation, self.arrays, self.sizes)

    def pulled(self, seed: Array, names: Sequence[str]) -> Mapping[str, Array]:
        """What comes back to every tensor between ``names`` and the output, for weights ``seed``."""
        reached = flowing(self.program, names)

        def pulled(step: Apply, cotangent: Array) -> Iterator[tuple[str, Array]]:
            form = standard(step, self.program)
            for place in flowing_places(step, reached):
                part = self._evaluated(local_pullback(form.key, place), form, {SEED: cotangent})
                yield str(step.arguments[place]), part

        def both(one: Array, other: Array) -> Array:
            with mpmath.workdps(self.digits):
                return converted(one + other)

        return carry_back(self.program.steps, {self.program.output: converted(seed)}, pulled, both)

    def _evaluated(self, equation: Equation, form: Standard, more: Mapping[str, Array], guards: bool = False) -> Array:
        """A local equation. Which entry is the largest floats have chosen; ``guards`` against 0 let pass."""
        arrays, sizes = read_by(form, Values(self.arrays, self.sizes))
        asked = [b for b in equation.right.atoms(Bracket) if OUT in map(name_of, accesses(b))]
        renamed = {name: CHOSEN + name for name in form.names}
        chosen = {b: with_names(b, renamed) for b in asked if isinstance(b.args[0], sp.Eq)}
        passed = {b: sp.S.One for b in asked if guards and isinstance(b.args[0], sp.Ne)}
        right = equation.right.xreplace({**chosen, **passed})
        floats = {CHOSEN + name: array for name, array in read_by(form, self.floats)[0].items()} if chosen else {}
        return self._made(replace(equation, right=right), {**arrays, **floats, **more}, sizes)

    def _spend(self, work: float) -> None:
        """Count so many terms, before they are formed."""
        self.left -= work
        if self.left < 0:
            raise TooLong

    def _made(self, equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array:
        if not arrays.keys() >= set(names_read(equation.right)):
            raise TooLong  # an equation that its own result solves
        self._spend(terms(equation, sizes))
        used = {name: arrays[name] for name in names_read(equation.right)}
        try:
            with mpmath.workdps(self.digits), np.errstate(all="ignore"):
                digits = Digits(self._spend)
                whole: Array = of_objects(equation, used, sizes, digits.care, kept=False)
        except (SymgradError, NoPlan, ArithmeticError, ValueError, TypeError, RecursionError) as error:
            raise TooLong from error
        self.asked = max(self.asked, digits.asked)
        if not all(mpmath.isfinite(entry) and not isinstance(entry, mpmath.mpc) for entry in whole.flat):
            raise TooLong  # the root of a negative number is no real one
        return whole


def terms(equation: Equation, sizes: Mapping[Size, int]) -> int:
    """How many terms are formed for an equation, written out."""
    indices = {*equation.axes, *bound_indices(equation.right)}
    return math.prod(number(index.size, sizes) for index in indices)


def converted(array: Array) -> Array:
    """The numbers of an array as mpmath has them: every float64 exactly."""
    entries = np.asarray(array, dtype=object)
    return np.asarray(np.frompyfunc(mpmath.mpmathify, 1, 1)(entries), dtype=object).reshape(entries.shape)


class Digits:
    """mpmath's numbers and functions.

    ``asked`` is how many digits tell a function's value from its limit: 1 − tanh(100) is 2.8e-87.
    """

    def __init__(self, spend: Callable[[float], None]) -> None:
        self.asked, self.spend = 0, spend
        self.care = Care(field=Field(self.number, self.power, self.function, comparing))

    def number(self, node: Expr) -> Any:
        """A constant."""
        if node.is_Integer:
            return int(node)
        if not node.is_extended_real:
            raise TooLong
        if node.is_Float and sp.Float(repr(float(node)), precision=node._prec) == node:  # 0.1, as it was written
            return mpmath.mpf(repr(float(node)))
        return mpmath.mpf(node._to_mpmath(mpmath.mp.prec))

    def power(self, base: Any, exponent: Any) -> Any:
        """A power, whose cost counts unless it is a whole one."""
        power = np.frompyfunc(mpmath.power, 2, 1)
        return power(base, exponent) if is_whole(exponent) else self.counted(power, base, exponent)

    def counted(self, function: Any, *arrays: Array) -> Any:
        """A function of entries that takes long."""
        entries = math.prod(np.broadcast_shapes(*map(np.shape, arrays)))
        self.spend(FUNCTION * entries * max(1, mpmath.mp.dps / USUAL))
        return function(*arrays)

    def function(self, function: Any, count: int) -> Any:
        """A function of entries."""
        called = partial(self.counted, function_of(function, count))
        return partial(self.measured, SATURATING[function], called) if function in SATURATING else called

    def measured(self, power: int, function: Any, array: Array) -> Any:
        """A function that comes close to a limit."""
        far = max((abs(float(entry)) for entry in np.asarray(array, dtype=object).flat), default=0.0)
        self.asked = max(self.asked, math.ceil(min(far**power, 1e9)))
        return function(array)


SATURATING: dict[Any, int] = {
    sp.exp: 1, sp.tanh: 1, sp.cosh: 1, sp.sinh: 1, sigmoid: 1, softplus: 1, sp.erf: 2, sp.erfc: 2, log_ndtr: 2,
}  # fmt: skip
"""Functions whose values, or those of 1 plus them, come close to a limit, as e to a power of their argument does."""


def is_whole(exponent: Any) -> bool:
    """Whether all exponents are whole numbers of Python's."""
    return all(isinstance(entry, int) for entry in np.asarray(exponent, dtype=object).flat)


def comparing(kind: Any) -> Any:
    """A relation between entries."""
    return partial(related, FUNCTIONS[RELATIONS[kind]])


def related(relation: Callable[[Any, Any], Any], one: Array, other: Array) -> Array:
    """Where a relation holds between numbers, taken as equal where no more than rounding is between them."""
    close = partial(mpmath.almosteq, rel_eps=mpmath.mpf(10) ** (LAST - mpmath.mp.dps), abs_eps=0)
    equal = np.asarray(np.frompyfunc(close, 2, 1)(one, other), dtype=bool)
    return np.asarray(relation(one, np.where(equal, one, other)))


@lru_cache(maxsize=512)
def function_of(function: Any, count: int) -> Any:
    """A function of SymPy's by mpmath, entry by entry."""
    letters = sp.symbols(f"x:{count}", real=True)
    stable = isinstance(function, type) and issubclass(function, Stable)
    formula = function.definition(*letters) if stable else function(*letters)
    return np.frompyfunc(sp.lambdify(letters, formula, "mpmath"), count, 1)
