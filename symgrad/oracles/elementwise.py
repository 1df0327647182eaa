"""Element-by-element SymPy: every entry of the output as an explicit formula in scalar symbols, differentiated.

Shares the index equations (the definitions) with the derivation and nothing of the calculus: no deltas, no
index sums, no rules; sums are written out and SymPy differentiates by one plain symbol at a time. Only for
small programs: formulas grow with every step.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from itertools import islice, product
from typing import Any

import numpy as np
import sympy as sp

from symgrad.calculus.local_derivatives import derive_local, operand_name, standard
from symgrad.functions import Stable
from symgrad.indexing import Bracket, Equation, Index, Ravel, Unravel, instantiate
from symgrad.indexing.symbols import Expr, indices_of, is_access, name_of, number
from symgrad.lowering.choices import masks_apart
from symgrad.numeric.exact import Array, as_float, is_finite
from symgrad.numeric.forward_pass import Values, has_lost_tensor, with_constants_as_tensors
from symgrad.ops import is_data_argument
from symgrad.oracles.evaluators import DIGITS, EvaluationPoint, describe_gap, relation_holds, shorten_power, size_note
from symgrad.program import Apply, Program

Place = tuple[str, tuple[int, ...]]
"""One entry of a tensor."""

READ = "·read"
"""What ends the name of a tensor where an operation only reads it: its entries are numbers there, not symbols."""
SMALLEST = float(np.finfo(float).smallest_subnormal)
LARGEST = 1500
"""Nodes times entries beyond which the explicit formulas are not formed."""
MOST_TERMS = 40 * LARGEST
"""Terms of all sums, those that are 0 among them, beyond which they are not either."""


class FormulaTooLong(Exception):
    """The explicit formulas would be too long."""


@contextmanager
def no_deeper() -> Iterator[None]:
    """SymPy differentiates by recursion: what is nested too deep for Python's stack is too large."""
    try:
        yield
    except RecursionError:
        raise FormulaTooLong from None


class Elementwise:
    """The explicit formulas of one program at one point."""

    @no_deeper()
    def __init__(self, program: Program, values: Values) -> None:
        self.program = program
        self.values = values.with_arrays({f"{name}{READ}": array for name, array in values.arrays.items()})
        self.point = EvaluationPoint({})
        self.entries: dict[str, Array] = {}
        self._terms = 0
        self.made_of: dict[Place, set[Place]] = {}
        self.chosen_by: dict[Place, set[Place]] = {}
        made = {program.output, *(step.result.name for step in program.steps)}
        if any(self.values[name].size > LARGEST for name in made):  # each entry has a node at least
            raise FormulaTooLong
        for tensor in program.inputs:
            self.entries[tensor.name] = np.full(self.values[tensor.name].shape, None, dtype=object)
        for step in program.steps:
            self.entries[step.result.name] = self._explicit(step.result.name, definition(step, program))
            if has_lost_tensor(step, program):
                self._unfold(step)

    def _symbol(self, name: str, at: tuple[int, ...]) -> Expr:
        """The real symbol of one entry of an input, made when it is first asked for, and the number it has."""
        symbol = self.entries[name][at]
        if symbol is None:
            symbol = self.entries[name][at] = sp.Dummy(f"{name}{at}", real=True)
            self.point.known[symbol] = to_sympy(self.values[name][at])
        return symbol

    def _all_of(self, name: str) -> Array:
        """Every entry of a tensor in a row."""
        for at in np.ndindex(*self.entries[name].shape):
            self._symbol(name, at)
        return self.entries[name].reshape(-1)

    def _explicit(self, name: str, equation: Equation) -> Array:
        """Every entry of one step's result, in the inputs' symbols."""
        shape = tuple(number(axis.size, self.values.sizes) for axis in equation.axes)
        result = np.empty(shape, dtype=object)
        budget = LARGEST
        for at in np.ndindex(*shape):
            places = dict(zip(equation.axes, map(sp.Integer, at), strict=True))
            self._met = self.made_of[name, at] = set()
            self._asked = self.chosen_by[name, at] = set()
            result[at] = self._scalar(equation.right, places, (name,))
            budget -= count_nodes(result[at], budget)
            if budget < 0:
                raise FormulaTooLong
        return result

    def _unfold(self, step: Apply) -> None:
        """Of a step in which a number has left nothing of a tensor, 0·x say, note what its entries are made of."""
        form, numbers = with_constants_as_tensors(step, self.program, self.values)
        equation = instantiate(derive_local(form.key).equation, form.names, form.sizes)
        own, self.values = self.values, self.values.with_arrays(numbers)
        for at in np.ndindex(*self.entries[step.result.name].shape):
            self._met = self._asked = self.chosen_by[step.result.name, at]
            self._scalar(equation.right, dict(zip(equation.axes, map(sp.Integer, at), strict=True)), ())
        self.values = own

    def _scalar(self, node: Expr, places: Mapping[Index, Expr], read: Container[str]) -> Expr:
        """``node`` with indices as numbers, sums written out and accesses replaced by explicit formulas.

        Of the tensors in ``read`` the numbers are taken.
        """
        if isinstance(node, Index):
            return places[node]
        if is_access(node):
            at = tuple(self._place(i, places) for i in indices_of(node))
            name = name_of(node)
            held = name in read or name not in self.entries
            array = self.values[name] if held else self.entries[name]
            if not all(0 <= i < n for i, n in zip(at, array.shape, strict=True)):
                return sp.S.Zero
            if held:
                self._asked.add((name.removesuffix(READ), at))
                return to_sympy(array[at])
            self._met.add((name, at))
            return self._symbol(name, at)
        if not node.args:
            return sp.Integer(self.values.sizes[node]) if node in self.values.sizes else node
        if isinstance(node, (sp.Sum, sp.Product)):
            indices = [limit[0] for limit in node.limits]
            ranges = [range(number(k.size, self.values.sizes)) for k in indices]
            if math.prod(len(r) for r in ranges) > LARGEST:
                raise FormulaTooLong
            parts, budget = [], LARGEST
            for at in product(*ranges):
                inside = {**places, **dict(zip(indices, map(sp.Integer, at), strict=True))}
                parts.append(self._scalar(node.function, inside, read))
                budget, self._terms = budget - count_nodes(parts[-1], budget), self._terms + 1
                if budget < 0 or self._terms > MOST_TERMS:
                    raise FormulaTooLong
            return sp.Add(*parts) if isinstance(node, sp.Sum) else sp.Mul(*parts)
        if node.is_Mul:
            return self._multiplied(node.args, places, read)
        if isinstance(node, sp.KroneckerDelta):
            first, second = (self._number(a, places) for a in node.args)
            return sp.Integer(int(bool(sp.Eq(first, second))))
        if isinstance(node, Bracket):
            return self._condition(node.args[0], places)
        if isinstance(node, Ravel):
            shape = [number(s, self.values.sizes) for s in node.shape]
            at = tuple(self._place(i, places) for i in node.indices)
            return sp.Integer(int(np.ravel_multi_index(at, shape))) if shape else sp.S.Zero
        if isinstance(node, Unravel):
            shape = [number(s, self.values.sizes) for s in node.shape]
            return sp.Integer(int(np.unravel_index(self._place(node.number, places), shape)[node.axis]))
        if is_step(node) or (isinstance(node, Stable) and read is self.values.arrays):
            self._scalar(node.args[0], places, read)  # a number has no symbols left to tell what it was made of
            return self._computed(node, places)
        if isinstance(node, Stable):
            return node.definition(self._scalar(node.args[0], places, read))
        parts = [self._scalar(a, places, read) for a in node.args]
        try:
            return node.func(*(shorten_power(*parts) if node.is_Pow else parts))
        except TypeError:  # atan2(0, log 0) asks SymPy whether NaN < 0
            return sp.nan

    def _multiplied(self, factors: tuple[Expr, ...], places: Mapping[Index, Expr], read: Container[str]) -> Expr:
        """A product: 0 where a condition among its factors does not hold, whatever stands beside it."""
        masks, others = masks_apart(factors)
        parts = []
        for factor in masks:
            parts.append(self._scalar(factor, places, read))
            if parts[-1].is_zero:
                return sp.S.Zero
        return sp.Mul(*parts, *(self._scalar(factor, places, read) for factor in others))

    def _condition(self, relation: Expr, places: Mapping[Index, Expr]) -> Expr:
        """1 where a condition holds for the numbers of the forward pass, 0 elsewhere, NaN where one of them is none.

        A choice is made once, by the program: numbers with more digits, or with another 0, would choose otherwise
        where two are as good as equal.
        """
        if relation in (sp.true, sp.false):
            return sp.Integer(int(relation == sp.true))
        sides = [self._number(side, places) for side in relation.args]
        return sp.nan if sp.nan in sides else sp.Integer(int(relation_holds(relation, *sides)))

    def _computed(self, node: Expr, places: Mapping[Index, Expr]) -> Expr:
        """What a function of one number has for the numbers of the forward pass, −0 among them."""
        argument, entry = self._number(node.args[0], places), node.args[0]
        if not isinstance(node, Stable):
            return node.func(argument)
        if argument.is_zero and is_access(entry):
            at = tuple(self._place(i, places) for i in indices_of(entry))
            if np.signbit(as_float(self.values[name_of(entry)][at])):
                return to_sympy(node.evaluate(np.asarray(-0.0)))
        exact = argument.is_Rational
        return node.definition(argument) if exact else to_sympy(node.evaluate(np.asarray(float(argument))))

    def _number(self, node: Expr, places: Mapping[Index, Expr]) -> Expr:
        """``node`` for the numbers of the forward pass."""
        return self.point.value(self._scalar(node, places, self.values.arrays))

    def _place(self, node: Expr, places: Mapping[Index, Expr]) -> int:
        """An index as a number; one that reads a tensor of positions reads its values."""
        return int(self._number(node, places))

    @no_deeper()
    def jacobian(self, wanted: str) -> Array:
        """Every entry of ∂out/∂wanted, each differentiated on its own and evaluated at the point; exact where it is.

        No value, no derivative: the row of an output that is not a number (0/0, log 0) holds nothing but NaN.
        """
        outputs, inputs = self._all_of(self.program.output), self._all_of(wanted)
        result = np.empty((outputs.size, inputs.size), dtype=object)
        there = is_finite(self.values[self.program.output]).reshape(-1)
        for row, entry in enumerate(outputs):
            if there[row]:
                result[row] = list(map(as_number, self.point.slopes(entry, inputs)))
                continue
            present = entry.free_symbols or self._inputs_of(row, set(inputs))
            result[row] = [float("nan") if s in present or not present else Fraction(0) for s in inputs]
        if all(isinstance(e, Fraction) for e in result.reshape(-1)):
            return result
        return result.astype(np.float64)

    @no_deeper()
    def second(self, first: str, second: str, seed: Array) -> Array:
        """∂²(Σ v·out) / ∂first ∂second, entry by entry; NaN where an output that counts has no value."""
        outputs, weights = self._all_of(self.program.output), np.asarray(seed).reshape(-1)
        there = is_finite(self.values[self.program.output]).reshape(-1)
        counted = [(to_sympy(w), out, ok) for w, out, ok in zip(weights, outputs, there, strict=True) if w != 0]
        total = sp.Add(*(w * out for w, out, ok in counted if ok))
        rows, columns = self._all_of(first), self._all_of(second)
        nowhere = [
            out.free_symbols or self._inputs_of(row, {*rows, *columns}) or {*rows, *columns}
            for row, out in enumerate(outputs) if weights[row] != 0 and not there[row]
        ]  # fmt: skip
        lacking = {symbol for symbols in nowhere for symbol in symbols}
        result = np.full((rows.size, columns.size), np.nan)
        for row, a in enumerate(rows):
            slope = sp.diff(total, a)
            for column, b in enumerate(columns):
                if not {a, b} & lacking:
                    result[row, column] = float(as_number(self.point.value(sp.diff(slope, b))))
        return result

    def beyond(self, row: int) -> str:
        """Why nothing can be said of one row: what on the way to its output real numbers have otherwise than floats.

        There is no −0, nothing overflows, and asin(2) is none of them: where the forward pass has such a number, SymPy
        stands at another point. Empty where it has none.
        """
        seen = self.way_to(row, self.made_of)
        met = [(self.values[name][at], self.entries[name][at]) for name in self.entries
               for at in sorted(at for other, at in seen if other == name)]  # fmt: skip
        found = (describe_gap(value, self.point.value(entry)) for value, entry in met)
        return next(filter(None, found), next(filter(None, (size_note(value) for value, _ in met)), ""))

    def way_to(self, row: int, made_of: Mapping[Place, set[Place]]) -> set[Place]:
        """The entries that one output is made of, itself among them."""
        shape = self.values[self.program.output].shape
        left: list[Place] = [(self.program.output, tuple(int(i) for i in np.unravel_index(row, shape)))]
        seen: set[Place] = set()
        while left:
            place = left.pop()
            if place not in seen:
                seen.add(place)
                left += made_of.get(place, ())
        return seen

    def _inputs_of(self, row: int, wanted: set[Expr]) -> set[Expr]:
        """The symbols that one output is made of, where its formula came to NaN and has none left.

        Where that is none either, the ``wanted`` among those that chose its pieces.
        """
        inputs = {tensor.name for tensor in self.program.inputs}
        all_read = {place: parts | self.chosen_by.get(place, set()) for place, parts in self.made_of.items()}
        made, read = (
            {self.entries[name][at] for name, at in self.way_to(row, way) if name in inputs}
            for way in (self.made_of, all_read)
        )
        return made or read & wanted


def as_number(found: Expr) -> Fraction | float:
    """What a formula has at a point; NaN where that is no real number, ±the smallest float where floats have 0."""
    if found.is_Rational:
        return Fraction(int(found.p), int(found.q))
    if not found.is_finite:
        return float("nan")
    return float(found) or float(sp.sign(found)) * SMALLEST


def definition(step: Apply, program: Program) -> Equation:
    """The index equation of ``step``, operands to which nothing flows back apart from the others."""
    form = standard(step, program)
    places = {operand_name(n) for n in range(len(step.arguments)) if is_data_argument(step.op, n)}
    names = {n: f"{a}{READ}" if n in places else a for n, a in form.names.items()}
    return instantiate(derive_local(form.key).equation, names, form.sizes)


def is_step(node: Expr) -> bool:
    """Whether ``node`` is constant between its jumps: ⌊x⌋, sign(x)."""
    return bool(node.is_Function) and (
        isinstance(node, (sp.floor, sp.ceiling)) or (isinstance(node, Stable) and node.fdiff() == 0)
    )


def to_sympy(value: Any) -> Expr:
    """A number as SymPy has it."""
    if isinstance(value, Fraction):
        return sp.Rational(value.numerator, value.denominator)
    return sp.Integer(int(value)) if isinstance(value, (int, np.integer)) else sp.Float(float(value), DIGITS)


def count_nodes(expression: Expr, limit: int) -> int:
    """The number of nodes, one more than ``limit`` at most."""
    return sum(1 for _ in islice(sp.preorder_traversal(expression), limit + 1))
