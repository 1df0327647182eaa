"""The same program at other sizes: which ones are tried, and whether it is the same program there.

Comes in: a program and values for its inputs. Goes out: values at other sizes at which everything that the program
requires holds, the smallest first: where a size comes to 1, an axis is cut to nothing, or two sizes meet, is where what
was read at one size does not hold for all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from symgrad.calculus import local
from symgrad.errors import ShapeError, SymgradError
from symgrad.exactness import LARGEST_EXPONENT
from symgrad.indexing import Index, Ravel, Unravel
from symgrad.indexing.symbols import is_access
from symgrad.numeric import Array, Values, as_float, evaluate, finite, forward
from symgrad.numeric.arranged import matrix_of_kind
from symgrad.ops import named
from symgrad.program import Apply, Program, Stated
from symgrad.shapes import Size, Sizes, with_numbers

FEW, TOGETHER = 4, 4
"""Of each axis so many of the smallest sizes are tried, in every combination of so many axes."""
MORE, RANDOM = 6, 6
"""Random sizes are a little more than the given ones, or than so much; so many are drawn."""
HUGE = 1e12
"""Entries beyond this are no numbers of a small point."""
SHARES = (1.0, 0.5, 0.25)
"""Shares of what moves, where more entries add up to more than can be raised to."""
SMALLEST, POINTS = 2, 3
"""Points at the smallest sizes, and in all."""


def resized(values: Values, program: Program, moving: Collection[str]) -> Iterator[Values]:
    """Small points at other sizes, filled with what stands at the given one; none where no others fit.

    What is as long as something else stays so: v.diag() is right for every square matrix.
    """
    generator, found = np.random.default_rng(3), 0
    small, large = candidates(sorted(set(values.sizes.values())))
    for most, drawn in ((SMALLEST, small), (POINTS, large)):
        for numbers in drawn if values.sizes else ():
            sizes = {size: numbers[own] for size, own in values.sizes.items()}
            if found == most:
                break
            if sizes == values.sizes or not fits(program, sizes):
                continue
            other = replace(program, sizes=sizes)
            entries = {}
            for tensor in program.inputs:
                array = np.resize(values[tensor.name], other.numbers(tensor.shape))
                if tensor.name in moving:
                    array = as_float(array) * generator.uniform(0.9, 1.1, size=array.shape)
                entries[tensor.name] = array
            point = tame(other, entries, moving, values)
            if point is None:
                continue
            if not defined(program, point) and defined(program, values):  # the spread of one value
                continue
            if beyond(point, HUGE) and not beyond(values, HUGE):  # the inverse of x @ x.T, x longer than wide
                continue
            yield point
            found += 1


def defined(program: Program, values: Values) -> bool:
    """Whether everything on the way to the output has a value."""
    return all(bool(finite(values[name]).all()) for name in program.relevant())


def tame(program: Program, drawn: Mapping[str, Array], moving: Collection[str], given: Values) -> Values | None:
    """The point, or one with smaller numbers where eˣ of these is no float and of the given ones it is."""
    point = None
    for share in SHARES:
        parts = {name: array * share if name in moving and share != 1 else array for name, array in drawn.items()}
        try:
            point = forward(program, {n: matrix_of_kind(program, n, array) for n, array in parts.items()})
        except (SymgradError, ValueError, IndexError):  # a place outside, an axis of 1 where two are needed
            return None
        if not beyond(point, LARGEST_EXPONENT) or beyond(given, LARGEST_EXPONENT):  # what is right may be ∞·0 there
            break
    return point


def beyond(values: Values, size: float) -> bool:
    """Whether a value is larger than that: than `HUGE`, what rounding left of a pole."""
    return any(bool((np.abs(as_float(tensor)) > size).any()) for tensor in values.arrays.values())


def candidates(given: Sequence[int]) -> tuple[Iterator[dict[int, int]], Iterator[dict[int, int]]]:
    """Sizes in the place of the ``given`` ones: the smallest, and random ones that are larger."""
    generator = np.random.default_rng(3)
    small = sorted(product(range(1, 1 + FEW), repeat=min(len(given), TOGETHER)), key=lambda sizes: (sum(sizes), sizes))
    return (
        (dict(zip(given, numbers * len(given), strict=False)) for numbers in small),
        ({own: min(own, MORE) + int(generator.integers(1, 4)) for own in given} for _ in range(RANDOM)),
    )


def fits(program: Program, sizes: Mapping[Size, int]) -> bool:
    """Whether everything that the program requires holds at ``sizes``, and every axis has a whole size there.

    So has each range of an equation's indices, and each axis that it takes one apart into: half of the channels, for
    two groups.
    """
    rights = [local(step, program).equation.right for step in program.forward_steps]
    axes = {size for tensor in program.tensors() for size in tensor.shape}
    axes |= {size for right in rights for node in right.atoms(Ravel, Unravel) for size in node.shape}
    ranges = {index.size for right in rights for index in right.atoms(Index)}
    whole = all(with_numbers(size, sizes).is_Integer for size in axes | ranges)
    given = whole and all(with_numbers(size, sizes) >= 0 for size in (*axes, *program.required))
    return given and all(stays_inside(s, program, sizes) for s in program.forward_steps if isinstance(s.op, Stated))


def stays_inside(step: Apply, program: Program, sizes: Mapping[Size, int]) -> bool:
    """Whether an equation of the user's reads nothing outside its tensors: its conditions decide that."""
    operands = (program.tensor(a).shape if isinstance(a, str) else () for a in step.arguments)
    shapes = tuple(tuple(with_numbers(size, sizes) for size in shape) for shape in operands)
    try:
        named(step.op).resolve(Sizes(), shapes)
    except ShapeError:
        return False
    return True


def misread(program: Program, values: Values) -> str:
    """What of the program is not at these sizes what it says for all: a shape, or which entries a view reads."""
    found = replace(program, sizes=values.sizes)
    for step in found.forward_steps:
        name = step.result.name
        shape = found.numbers(step.result.shape)
        if values[name].shape != shape:
            return f"{step.op} gives {values[name].shape}, not {shape}"
        equation = local(step, found).equation
        _, entry = equation.right.as_coeff_Mul(rational=True)
        if is_access(entry) and "·" not in str(entry):
            read = as_float(evaluate(equation, values.arrays, values.sizes))
            if not np.allclose(read, as_float(values[name]), rtol=1e-12, atol=0, equal_nan=True):  # x/3 is not x·⅓
                return f"{step.op} reads other entries"
    return ""
