"""Evaluate index equations on SymPy symbols x[0,1], and in high precision with mpmath.

Comes in: an equation or a formula, and the shapes of the tensors that it reads; or a program with float64 values, which
are taken as exact. Goes out: object arrays of SymPy expressions, all entries at once, for explicit Jacobians; values of
the program's equations, and of those derived from them, with many digits. `TooLong` is raised for undefined values and
for evaluations that would take too long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import mpmath
import numpy as np
import sympy as sp
from sympy.polys.domains import EXRAW
from sympy.polys.matrices import DomainMatrix

from symgrad.calculus import back, standard
from symgrad.calculus.local_derivatives import OUT, Standard
from symgrad.errors import InputError, SymgradError
from symgrad.functions import Stable, log_ndtr, sigmoid, softplus
from symgrad.indexing import Bracket, Equation, Index, Ravel, Unravel, accesses, bound_indices, fresh
from symgrad.indexing.equation import rebuild, with_names
from symgrad.indexing.symbols import Expr, access, indices_of, is_access, name_of, names_read, number
from symgrad.lowering.arrays import FUNCTIONS, RELATIONS
from symgrad.lowering.careful import Field
from symgrad.lowering.graph import Care, NoPlan, TooLarge, check_grid
from symgrad.numeric.exact import Array
from symgrad.numeric.forward_pass import Values, forms_of, read_by
from symgrad.numeric.playing import of_objects
from symgrad.numeric.sparse import reads_data_positions, sparse_jacobian
from symgrad.program import Apply, Program, VectorProduct
from symgrad.shapes import Size


def evaluate_symbols(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array:
    """Return the entries that ``equation`` defines, as SymPy expressions in entries of the tensors it reads.

    Integers from the forward pass (names with a dot) and positions that select entries are substituted as numbers.
    """
    try:
        whole = Equation(equation.axes, with_position_names(equation.right))
        return evaluate_in_symbols([whole], Values(arrays, sizes), SYMBOLS)[0]
    except TooLarge as error:
        check_grid(error.shape, 1)
        raise
    except OverflowError:
        raise InputError("this is too large to be written out", hints=("numbers instead of symbols",)) from None
    except ZeroDivisionError:  # a variance of n entries divided by n − n
        raise InputError("this divides by 0 at these sizes", hints=("numbers instead of symbols",)) from None


def evaluate_in_symbols(equations: Sequence[Equation], values: Values, care: Care) -> list[Array]:
    """Return the arrays that ``equations`` define, in symbols for the entries that they read."""
    read: dict[str, Array] = {}
    for name in {name for equation in equations for name in names_read(equation.right)}:
        held = values[name.removeprefix("·")]
        read[name] = held if "·" in name else np.arange(1, np.size(held) + 1).reshape(np.shape(held))
    found = of_objects(tuple(equations), read, values.sizes, care)
    for n, entries in enumerate(found):
        if any(entry.has(sp.zoo, sp.nan) for entry in entries.flat if isinstance(entry, sp.Basic)):
            (found[n],) = of_objects((equations[n],), read, values.sizes, care.guards)
    return [np.asarray(np.frompyfunc(as_expression, 1, 1)(a), dtype=object).reshape(a.shape) for a in found]


def write_out_at(asked: Iterable[tuple[Expr, Mapping[Index, int]]], values: Values) -> list[Expr]:
    """Return expressions at given positions, by one plan, with sums written out and index expressions as numbers."""
    one, equations = dict[Index, Index](), []
    for expression, places in asked:
        one |= {index: fresh(index.name, sp.S.One) for index in places if index not in one}
        right = with_position_names(expression, counting=True).xreplace({i: one[i] + n for i, n in places.items()})
        equations.append(Equation(tuple(one[index] for index in places), right))
    return [found.reshape(-1)[0] for found in evaluate_in_symbols(equations, values, FORMULA)]


def symbol_matrix(outer: Sequence[Index], inner: Sequence[Index], formula: Expr, values: Values, dense: bool) -> Any:
    """Return the explicit SymPy matrix of a formula, filled by index arithmetic; a sparse one unless ``dense``."""
    found = sparse_jacobian(outer, inner, formula, values, evaluate_symbols)
    rows: dict[int, dict[int, Expr]] = {}
    columns, entries = found.columns.tolist(), found.values.tolist()
    if found.in_order and found.shape[0]:
        width = len(entries) // found.shape[0]
        cuts = [(n, n * width, (n + 1) * width) for n in range(found.shape[0])]
        rows = {n: dict(zip(columns[i:j], entries[i:j], strict=True)) for n, i, j in cuts}
    else:
        for row, column, entry in zip(found.rows.tolist(), columns, entries, strict=True):
            line = rows.setdefault(row, {})
            line[column] = line[column] + entry if column in line else entry
    if any(entry.is_Number for entry in set(entries)) or not found.in_order:
        rows = {row: {n: e for n, e in line.items() if not e.is_Number or e} for row, line in rows.items()}
    table = DomainMatrix({row: line for row, line in rows.items() if line}, found.shape, EXRAW)
    kind = sp.MutableDenseMatrix if dense else sp.MutableSparseMatrix
    return kind._fromrep(table)


def with_position_names(expression: Expr, counting: bool = False) -> Expr:
    """Rename n in x[n[k]] to ·n, so that positions are evaluated to numbers and not kept as symbols.

    With ``counting``, also rename tensors in δ and in row-major entry numbers.
    """

    def entry(node: Expr) -> Expr | None:
        if counting and isinstance(node, (sp.KroneckerDelta, Ravel, Unravel)):
            return node.func(*(rebuild(a, position) for a in node.args))
        if not is_access(node):
            return None
        return node if "·" in name_of(node) else access(name_of(node), [rebuild(i, position) for i in indices_of(node)])

    def position(node: Expr) -> Expr | None:
        if not is_access(node):
            return None
        return access(f"·{name_of(node).removeprefix('·')}", [rebuild(i, position) for i in indices_of(node)])

    return rebuild(expression, entry)


def reads_positions(formula: Expr) -> bool:
    """Whether a formula reads tensors as positions; their numbers are then needed, even for symbols."""
    return reads_data_positions(formula) or with_position_names(formula) != formula


def as_expression(value: Any) -> Expr:
    """Return a number or expression as a SymPy expression."""
    return sp.sympify(value, strict=True)


def entry_function(function: Any, count: int) -> Any:
    """Return a SymPy function that is applied elementwise to object arrays."""
    return np.frompyfunc(lambda *values: function(*(as_expression(v) for v in values)), count, 1)


def symbolic_relation(kind: Any) -> Any:
    """Return a relation that gives symbolic conditions, elementwise."""
    return entry_function(lambda *sides: Bracket(kind(*sides)), 2)


def symbol_of(node: Expr) -> Any:
    """Return a constant as a SymPy number, or as an int, since integers may be positions."""
    return int(node) if node.is_Integer else node


def symbolic_power(base: Any, exponent: Any) -> Any:
    """Return an elementwise power; raise `ZeroDivisionError` if plain integers, which come from sizes, divide by 0."""
    whole, powers = (np.asarray(side, dtype=object).flat for side in (base, exponent))
    if any(type(e) is int and not e for e in whole) and any(type(e) is int and e < 0 for e in powers):
        raise ZeroDivisionError
    return entry_function(sp.Pow, 2)(base, exponent)


position_integer = lru_cache(maxsize=2048)(sp.Integer)
"""A position as a SymPy integer, cached: entries of all tensors share them."""


def named_entry(name: str, *shape: int) -> Any:
    """Return a function from an entry's number, counted from 1, to the symbol ``name[0,1]``; 0 stays 0."""

    def entry(number: int) -> Expr:
        return access(name, list(map(position_integer, np.unravel_index(number - 1, shape)))) if number else sp.S.Zero

    return np.frompyfunc(entry, 1, 1)


SYMBOLS = Care(field=Field(symbol_of, symbolic_power, entry_function, symbolic_relation, named_entry))
FORMULA = Care(
    field=Field(symbol_of, entry_function(sp.Pow, 2), entry_function, symbolic_relation, named_entry, every=True)
)
"""For formulas that are printed: functions of indices are kept symbolic, too."""


LARGEST, USUAL = 600_000, 500
"""The budget of terms of all sums of a program at `USUAL` digits, about a second; less for more digits."""

FUNCTION = 60
"""The cost of a function of one entry in terms, times n² for n times `USUAL` digits: exp takes mpmath 12 ms with 5,000
digits and 17 s with 200,000."""

CHOSEN = "≈"

LAST = 10
"""The number of last digits that may be wrong by rounding."""


class TooLong(Exception):
    """Raised when a value has no number in high precision, or takes too long."""


class ManyDigits:
    """A forward pass with a given number of ``digits``, and equations evaluated at it."""

    def __init__(self, program: Program, values: Values, digits: int) -> None:
        self.program, self.digits, self.sizes = program, digits, values.sizes
        self.left = LARGEST / max(1, digits / USUAL)
        self.asked = 0
        held = {name: array for name, array in values.arrays.items() if "·" in name}
        if any(np.any(array != np.round(array)) for array in held.values()):
            raise TooLong  # an eigenvector that the forward pass found has no more digits than floats
        given = values.arrays.keys() - held - {step.result.name for step in program.steps}
        self.arrays: dict[str, Array] = {**held, **{name: with_many_digits(values[name]) for name in given}}
        self.floats = values
        self._compute(program, program.steps)

    def _compute(self, program: Program, steps: Sequence[Apply]) -> None:
        """Compute steps of a program; in forward steps, guards against 0 are taken as true."""
        for step in steps:
            guards = not isinstance(step.op, VectorProduct)
            first, *others = (self._evaluated(*of, guards) for of in forms_of(step, standard(step, program)))
            with mpmath.workdps(self.digits):
                self.arrays[step.result.name] = sum(others, first)

    def of(self, equation: Equation) -> Array:
        """Return the value of an equation that reads the program's tensors."""
        return self._made(equation, self.arrays, self.sizes)

    def pulled(self, seed: Array, names: Sequence[str]) -> Mapping[str, Array]:
        """Return the cotangents of all tensors between ``names`` and the output, for the ``seed``."""
        try:
            found = back(self.program, names)
        except SymgradError as error:
            raise TooLong from error
        self.arrays |= {str(own): with_many_digits(seed) for own in found.weights.values()}
        self._compute(found.program, found.program.steps[len(self.program.steps) :])
        return {name: self.arrays[str(own)] for name, own in found.cotangents.items()}

    def _evaluated(self, equation: Equation, form: Standard, guards: bool) -> Array:
        """Evaluate a local equation. Extremes are chosen as in floats; with ``guards``, ≠ 0 is taken as true."""
        arrays, sizes = read_by(form, Values(self.arrays, self.sizes))
        asked = [b for b in equation.right.atoms(Bracket) if OUT in map(name_of, accesses(b))]
        renamed = {name: CHOSEN + name for name in form.names}
        chosen = {b: with_names(b, renamed) for b in asked if isinstance(b.args[0], sp.Eq)}
        passed = {b: sp.S.One for b in asked if guards and isinstance(b.args[0], sp.Ne)}
        right = equation.right.xreplace({**chosen, **passed})
        floats = {CHOSEN + name: array for name, array in read_by(form, self.floats)[0].items()} if chosen else {}
        return self._made(replace(equation, right=right), {**arrays, **floats}, sizes)

    def _spend(self, work: float) -> None:
        """Subtract ``work`` terms from the budget; raise `TooLong` if it is used up."""
        self.left -= work
        if self.left < 0:
            raise TooLong

    def _made(self, equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array:
        if not arrays.keys() >= set(names_read(equation.right)):
            raise TooLong  # an equation that its own result solves
        self._spend(count_written_terms(equation, sizes))
        used = {name: arrays[name] for name in names_read(equation.right)}
        try:
            with mpmath.workdps(self.digits), np.errstate(all="ignore"):
                digits = Digits(self._spend)
                (whole,) = of_objects((equation,), used, sizes, digits.care, kept=False)
        except (SymgradError, NoPlan, ArithmeticError, ValueError, TypeError, RecursionError) as error:
            raise TooLong from error
        self.asked = max(self.asked, digits.asked)
        if not all(mpmath.isfinite(entry) and not isinstance(entry, mpmath.mpc) for entry in whole.flat):
            raise TooLong  # the root of a negative number is no real one
        return whole


def count_written_terms(equation: Equation, sizes: Mapping[Size, int]) -> int:
    """Return the number of terms of an equation when its sums are written out."""
    indices = {*equation.axes, *bound_indices(equation.right)}
    return math.prod(number(index.size, sizes) for index in indices)


def with_many_digits(array: Array) -> Array:
    """Return the array with mpmath numbers; every float64 is converted exactly."""
    entries = np.asarray(array, dtype=object)
    return np.asarray(np.frompyfunc(mpmath.mpmathify, 1, 1)(entries), dtype=object).reshape(entries.shape)


class Digits:
    """mpmath's numbers and functions.

    ``asked`` is the number of digits needed to distinguish a function's value from its limit: 1 − tanh(100) is 2.8e-87.
    """

    def __init__(self, spend: Callable[[float], None]) -> None:
        self.asked, self.spend = 0, spend
        self.care = Care(field=Field(self.number, self.power, self.function, mpmath_relation))

    def number(self, node: Expr) -> Any:
        """Return a constant as an int or an mpmath number."""
        if node.is_Integer:
            return int(node)
        if not node.is_extended_real:
            raise TooLong
        if node.is_Float and sp.Float(repr(float(node)), precision=node._prec) == node:  # 0.1, as it was written
            return mpmath.mpf(repr(float(node)))
        return mpmath.mpf(node._to_mpmath(mpmath.mp.prec))

    def power(self, base: Any, exponent: Any) -> Any:
        """Return an elementwise power; its cost is counted unless exponents are integers."""
        power = np.frompyfunc(mpmath.power, 2, 1)
        return power(base, exponent) if are_integers(exponent) else self.counted(power, base, exponent)

    def counted(self, function: Any, *arrays: Array) -> Any:
        """Apply an expensive function and count its cost; e¹⁰⁰⁰ also needs the digits in front of the point."""
        entries, own = math.prod(np.broadcast_shapes(*map(np.shape, arrays))), max(1, mpmath.mp.dps / USUAL)
        sizes = (abs(entry) for array in arrays for entry in np.asarray(array, dtype=object).flat)
        front = max((mpmath.mag(size) * math.log10(2) for size in sizes if 0 < size < mpmath.inf), default=0)
        self.spend(FUNCTION * entries * max(own, front / USUAL) ** 2 / own)
        return function(*arrays)

    def function(self, function: Any, count: int) -> Any:
        """Return an elementwise function."""
        called = partial(self.counted, mpmath_function(function, count))
        return partial(self.measured, SATURATING[function], called) if function in SATURATING else called

    def measured(self, power: int, function: Any, array: Array) -> Any:
        """Apply a saturating function, and note the digits that distinguish its value from its limit."""
        far = max((abs(float(entry)) for entry in np.asarray(array, dtype=object).flat), default=0.0)
        self.asked = max(self.asked, math.ceil(min(far**power, 1e9)))
        return function(array)


SATURATING: dict[Any, int] = {
    sp.exp: 1, sp.tanh: 1, sp.cosh: 1, sp.sinh: 1, sigmoid: 1, softplus: 1, sp.erf: 2, sp.erfc: 2, log_ndtr: 2,
}  # fmt: skip
"""Functions f for which f or 1 + f approaches a limit like e^(−x^n), with n."""


def are_integers(exponent: Any) -> bool:
    """Whether all exponents are Python integers."""
    return all(isinstance(entry, int) for entry in np.asarray(exponent, dtype=object).flat)


def mpmath_relation(kind: Any) -> Any:
    """Return an elementwise relation."""
    return partial(relation_but_for_rounding, FUNCTIONS[RELATIONS[kind]])


def relation_but_for_rounding(relation: Callable[[Any, Any], Any], one: Array, other: Array) -> Array:
    """Return where a relation holds, with numbers that differ only by rounding taken as equal."""
    close = partial(mpmath.almosteq, rel_eps=mpmath.mpf(10) ** (LAST - mpmath.mp.dps), abs_eps=0)
    equal = np.asarray(np.frompyfunc(close, 2, 1)(one, other), dtype=bool)
    return np.asarray(relation(one, np.where(equal, one, other)))


@lru_cache(maxsize=512)
def mpmath_function(function: Any, count: int) -> Any:
    """Return a SymPy function evaluated elementwise by mpmath."""
    letters = sp.symbols(f"x:{count}", real=True)
    stable = isinstance(function, type) and issubclass(function, Stable)
    formula = function.definition(*letters) if stable else function(*letters)
    return np.frompyfunc(sp.lambdify(letters, formula, "mpmath"), count, 1)
