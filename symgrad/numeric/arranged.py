"""Assumed values of inputs: ones if the output is linear in each input, else small numbers of both signs.

Comes in: a program, the given inputs, and the shapes of the others. Goes out: a value for each of the others, with a
description. Ones would make a softmax uniform, log(x − 1) −∞, and (x − x.mean()) / x.std() 0/0. If the small numbers
give no value, a zero gradient or a tie, other numbers are tried. An input used as an invertible matrix is ones with
1, 2, 3, … added on the diagonal: [[2, 1], [1, 3]] is symmetric, positive definite and has different eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import prod
from typing import TypeAlias

import numpy as np

from symgrad.calculus import is_multilinear
from symgrad.entries.derived_facts import is_non_differentiable
from symgrad.entries.operands import Domain
from symgrad.errors import SymgradError
from symgrad.numeric.exact import Array, as_float, is_finite
from symgrad.numeric.forward_pass import entry_count, forward
from symgrad.numeric.vector_products import numeric_pullback
from symgrad.ops import entry_named
from symgrad.program import Program

SYMMETRIC = ("symmetric", "definite")
"""The kinds of matrices in which x[i,j] and x[j,i] are one variable."""


def symmetric_gradient(gradient: Array) -> Array:
    """Return the gradient with respect to x[i,j] = x[j,i] as one variable: G + Gᵀ − diag(G)."""
    turned = gradient.swapaxes(-1, -2)
    return np.where(np.eye(gradient.shape[-1], dtype=bool), gradient, gradient + turned)


def matrix_inputs(program: Program) -> dict[str, str]:
    """Return the inputs used as a matrix of some kind, with the kind (see `symgrad.entries.operands.Domain`)."""
    kinds = {tensor.name: kind_of_matrix(program, tensor.name) for tensor in program.inputs}
    return {name: kind for name, kind in kinds.items() if kind}


def kind_of_matrix(program: Program, name: str) -> str:
    """Return the kind of matrix that the last reader of a tensor with a kind requires, or an empty text."""
    found = ""
    for step in program.readers.get(name, ()):
        op = entry_named(step.op)
        pairs = zip(op.operands, step.arguments, strict=False)
        found = next((k for n, a in pairs if a == name and (k := op.domain_of(n).matrix)), found)
    return found


def integer_operands(program: Program) -> dict[str, tuple[str, Domain]]:
    """Return the inputs that are used as integers (positions, classes, a mask), with operand and domain.

    An input counts also if only a view or a shifted copy of it is used so.
    """
    found: dict[str, tuple[str, Domain]] = {}
    for step in reversed(program.steps):
        op = entry_named(step.op)
        if step.result.name in found and not is_non_differentiable(op):  # comparisons take any numbers
            found = dict.fromkeys(step.tensors, found[step.result.name]) | found
        for operand, a in zip(op.operands, step.arguments, strict=False):
            if isinstance(a, str) and op.domain_of(operand).whole:
                found.setdefault(a, (operand, op.domain_of(operand)))
    return {t.name: found[t.name] for t in program.inputs if t.name in found}


def integer_inputs(program: Program) -> dict[str, tuple[int, int]]:
    """Return the inputs that are used as integers, with the range of the integers."""
    return {name: (int(d.draw[0]), int(d.draw[1])) for name, (_, d) in integer_operands(program).items()}


def with_diagonal(array: Array, unit: int = 1) -> Array:
    """Return ``array`` with ``unit`` times 1, 2, 3, … added on the diagonal of its last two axes."""
    rows, columns = array.shape[-2:]
    return np.asarray(array + unit * np.diag(np.arange(1, max(rows, columns) + 1))[:rows, :columns])


def matrix_of_kind(program: Program, name: str, array: Array) -> Array:
    """Return ``array`` changed to the kind of matrix that the input ``name`` must be, if any."""
    kind = kind_of_matrix(program, name)
    if not kind:
        return array
    if kind != "full":
        array = np.tril(array) if kind == "lower" else (array + array.swapaxes(-1, -2)) / 2
    return with_diagonal(array)


def assumed_value(program: Program, name: str, shape: Sequence[int]) -> Array:
    """Return ones, changed to the kind of matrix that the input must be, if any."""
    ones = np.ones(tuple(shape), dtype=np.int64)
    return np.asarray(matrix_of_kind(program, name, ones), dtype=np.int64)


Numbers: TypeAlias = Callable[[int, int], Array]
"""Returns numbers to fill a tensor: the arguments are the numbers used so far and the numbers needed."""
ONES, COUNTED, DIAGONAL = "ones", "1, 2, 3, …", "a matrix of ones with 1, 2, 3, … added on the diagonal"
MOST_FRACTIONS = 100
"""Up to so many numbers fractions are exact; more are floats."""
LARGE = 300_000
"""If all tensors together have more entries, only one arrangement is computed."""
STEEP = 1e9
"""Larger slopes are taken as meaningless."""
ROUNDING, STEP, APART = 1e-9, 1e-6, 1e-3
"""Smaller gradients may be a rounded 0; the step of difference quotients; the least relative difference of slopes."""


@dataclass(frozen=True)
class Arrangement:
    """A way to fill inputs: with ``numbers`` in turn, or with ones, and 1, 2, 3, … added on the ``diagonal``."""

    words: str
    numbers: Numbers | None = None
    diagonal: bool = False

    def fill(
        self, program: Program, missing: Mapping[str, tuple[int, ...]], read: Collection[str]
    ) -> dict[str, tuple[Array, str]]:
        """Return a value with a description for each of ``missing``, given by their shapes."""
        found, begun = dict[str, tuple[Array, str]](), 0
        for name, shape in missing.items():
            array, words = assumed_value(program, name, shape), self.words
            if kind_of_matrix(program, name):
                words = DIAGONAL
            elif name in read:
                words = ONES
            elif self.numbers is not None:
                array = self.numbers(begun, prod(shape)).reshape(shape)
                begun += prod(shape)
            elif self.diagonal and len(shape) > 1:
                array = with_diagonal(array)
            else:
                words = ONES
            found[name] = array, words
        return found


def count_up_from(start: int) -> Numbers:
    """Return the numbers start, start + 1, …"""
    return lambda begun, count: np.arange(start + begun, start + begun + count)


def parts(begun: int, count: int) -> Array:
    """Return 1/3, 1/4, …"""
    below = range(3 + begun, 3 + begun + count)
    return np.array([Fraction(1, n) if begun + count <= MOST_FRACTIONS else 1 / n for n in below])


def small(begun: int, count: int) -> Array:
    """Return 0.47, −0.6, 0.21, …: numbers between −1 and 1, none 0, 198 in a row distinct: 3⁵⁹, 3⁶⁰, … modulo 199."""
    powers = np.array([pow(3, 59 + n, 199) for n in range(198)])
    spread = np.where(powers < 100, powers - 100, powers - 99) / 100
    return spread[np.arange(begun, begun + count) % 198]


ALL_ONES = Arrangement(ONES)
ARRANGEMENTS = (
    Arrangement("0.47, −0.6, 0.21, …", small),
    Arrangement(DIAGONAL, diagonal=True),
    Arrangement(COUNTED, count_up_from(1)),
    Arrangement("1/3, 1/4, 1/5, …", parts),
    Arrangement("3, 4, 5, …", count_up_from(3)),
    Arrangement("−1, −2, −3, …", lambda begun, count: -count_up_from(1)(begun, count)),
    ALL_ONES,
)


def arranged(
    program: Program, given: Mapping[str, Array], missing: Mapping[str, tuple[int, ...]], read: Collection[str] = ()
) -> dict[str, tuple[Array, str]]:
    """Return values for ``missing``: ones if suitable, else others, at which no gradient is 0 if possible.

    Those in ``read`` are used as positions, classes or a mask, and are ones.

    >>> from symgrad.language.inference import read_program
    >>> arranged(read_program("log(x - 1)", shapes={"x": (2,)}).program, {}, {"x": (2,)})
    {'x': (array([3, 4]), '3, 4, 5, …')}
    """
    if not missing or is_multilinear(program):
        return ALL_ONES.fill(program, missing, read)
    if entry_count(program)[0] > LARGE:
        return ARRANGEMENTS[0].fill(program, missing, read)
    flat, moving = None, [name for name in missing if name not in read]
    for way in ARRANGEMENTS:
        found = way.fill(program, missing, read)
        slopes = regular(program, {**given, **{name: array for name, (array, _) in found.items()}}, moving)
        if slopes is not None and all((np.abs(array) > ROUNDING).any() for array in slopes):
            return found
        flat = flat or (None if slopes is None else found)
    return flat or ALL_ONES.fill(program, missing, read)


def assumed_seed(program: Program, inputs: Mapping[str, Array], shape: Sequence[int]) -> tuple[Array, str]:
    """Return a seed of ones, or 1, 2, 3, … if ones give a zero gradient (softmax), with a description."""
    ones = np.ones(tuple(shape), dtype=np.int64)
    if entry_count(program)[0] > LARGE:
        return ones, ONES
    values = forward(program, {t.name: inputs[t.name] for t in program.inputs})

    def largest(seed: Array) -> list[float]:
        pulled = numeric_pullback(program, values, seed, [*inputs])
        return [float(np.abs(as_float(array)).max(initial=0)) for array in pulled.values()]

    sums = largest(ones)
    if all(alone > ROUNDING * STEEP for alone in sums):  # nothing is so steep that this were its rounding
        return ones, ONES
    others = largest(irregular(ones.shape))
    if any(alone <= ROUNDING * other for alone, other in zip(sums, others, strict=True) if other):
        return np.arange(1, ones.size + 1).reshape(ones.shape), COUNTED
    return ones, ONES


def regular(program: Program, inputs: Mapping[str, Array], moving: Sequence[str]) -> list[Array] | None:
    """Return the gradients if they and the output are finite and there is no kink, else None."""
    try:
        values = forward(program, {t.name: inputs[t.name] for t in program.inputs})
        seed = irregular(values[program.output].shape)
        pulled = numeric_pullback(program, values, seed, moving)
        slopes = [as_float(array) for array in pulled.values()]
        if not all(is_finite(array).all() and np.abs(array).max(initial=0) < STEEP for array in slopes):
            return None  # what has no inverse but for rounding has slopes without end
        if not is_finite(values[program.output]).all():
            return None
        return slopes if has_one_slope_along_line(program, inputs, moving, seed, values[program.output]) else None
    except SymgradError:
        return None


def has_one_slope_along_line(
    program: Program, inputs: Mapping[str, Array], moving: Sequence[str], seed: Array, out: Array
) -> bool:  # fmt: skip
    """Whether Σ seed·out has one slope along a line through the point, so that there is no kink or tie."""
    begun = accumulate((inputs[name].size for name in moving), initial=0)
    ways = {name: irregular(inputs[name].shape, start) for name, start in zip(moving, begun, strict=False)}

    def beside(shift: float) -> Array:
        moved = {name: as_float(inputs[name]) + shift * way for name, way in ways.items()}
        return forward(program, {t.name: moved.get(t.name, inputs[t.name]) for t in program.inputs})[program.output]

    low, here, high = (float(np.sum(seed * as_float(array))) for array in (beside(-STEP), out, beside(STEP)))
    below, above = (here - low) / STEP, (high - here) / STEP
    return abs(above - below) <= APART * max(1.0, abs(above), abs(below))


def irregular(shape: Sequence[int], begun: int = 0) -> Array:
    """Return numbers between 1 and 2 whose sums do not cancel: fractional parts of multiples of the golden ratio."""
    return 1 + (np.arange(begun + 1, begun + prod(shape) + 1) * ((5**0.5 - 1) / 2) % 1).reshape(shape)
