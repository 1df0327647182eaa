"""The domain of an operation, as pages describe it, and the point of its worked example.

Where samples are drawn (`symgrad.entries.spec`) is not where a function is defined: relu is sampled away from 0.
Comes in: an operation, one of its examples. Goes out: sentences that hold at every point of a grid, on both sides
(where the points do not fall into an interval with a few holes, or other operands decide, nothing is said); the example
whose J is best drawn; small round numbers for its inputs and seed, the same every time: integers where the domain holds
enough of them, tenths elsewhere.
"""

from __future__ import annotations

import operator
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
from math import ceil, floor, inf, prod

import numpy as np

from symgrad.calculus import flows
from symgrad.entries.operands import reals
from symgrad.errors import SymgradError
from symgrad.explanation import derive_only
from symgrad.language import read_program
from symgrad.numeric import Array, as_float, forward, numeric_pullback
from symgrad.numeric.arranged import SYMMETRIC, with_diagonal
from symgrad.ops import Domain, Example, Op
from symgrad.oracles.torch import run_torch
from symgrad.program import Program
from symgrad.render.content.jacobian_matrix import MOST_COLUMNS, MOST_ROWS

GRID = tuple(n / 2 for n in range(-8, 9))
"""The numbers that are tried for one entry."""
NEAR = 1e-3
"""How near to an edge its two sides are tried."""
OTHERS = (None, 0.0, 1.0, 2.0, -1.0)
"""What the entries of the other operands are while one is tried: samples, or a number."""
MATRICES = {"regular": "{name} has an inverse", "definite": "{name} is positive definite"}
"""Kinds of matrices without which there is no value: the others are only drawn, or read so."""


@dataclass(frozen=True)
class Where:
    """Conditions on operands: where there is a value, and where a finite derivative, too."""

    value: tuple[str, ...]
    derivative: tuple[str, ...]

    @property
    def sentences(self) -> list[str]:
        """Defined where x > 0. Its derivative is finite where …"""
        found = [f"Defined where {' and '.join(self.value)}."] if self.value else []
        more = [condition for condition in self.derivative if condition not in self.value]
        return found + ([f"Its derivative is finite where {' and '.join(more)}."] if more else [])


def where_defined(op: Op) -> Where:
    """The conditions that were confirmed for the operands of ``op``."""
    example = op.examples[0]
    program = read_program(example.text, shapes=dict(example.shapes)).program
    samples = {name: as_float(array) for name, array in sample_values(op, example).items()}
    value: list[str] = []
    derivative: list[str] = []
    for name in op.operands:
        if name not in samples or samples[name].size == 0 or op.domain_of(name).whole or name in op.data:
            continue
        domain = op.domain_of(name)
        if domain.matrix:
            value += _of_matrix(op, program, samples, name)
        elif domain.ends or domain.avoid:
            value += _of_numbers(op, program, samples, name, derivative=False)
            derivative += _of_numbers(op, program, samples, name, derivative=True)
    return Where(tuple(value), tuple(derivative))


def _of_numbers(op: Op, program: Program, samples: Mapping[str, Array], name: str, derivative: bool) -> tuple[str, ...]:
    """The condition on every entry of an operand; none where it is not the same whatever the others are."""
    domain = op.domain_of(name)
    edges = [edge for edge in (domain.low, domain.high, *domain.avoid) if np.isfinite(edge)]
    points = sorted({*GRID, *(edge + beside for edge in edges for beside in (-NEAR, 0.0, NEAR))})
    tables = [
        [is_finite_at(program, inputs_at(op, samples, name, point, others), name, derivative) for point in points]
        for others in OTHERS
    ]
    table = dict(zip(points, tables[0], strict=True))
    found = domain_conditions(name, table, edges) if all(other == tables[0] for other in tables) else ()
    if found and any(
        torch_answers(program, inputs_at(op, samples, name, point, None), name, derivative) not in (fine, None)
        for point, fine in table.items()
    ):
        return ()  # torch has a convention of its own there
    return found


def inputs_at(op: Op, samples: Mapping[str, Array], name: str, point: float, others: float | None) -> dict[str, Array]:
    """The samples with one entry at a point, and the entries of the other operands all the same."""
    inputs = dict(samples)
    for other, array in samples.items():
        domain = op.domain_of(other)
        if other != name and others is not None and not (domain.matrix or domain.whole):
            inputs[other] = np.full(array.shape, others)
    moved = samples[name].copy()
    moved.reshape(-1)[0] = point
    return {**inputs, name: moved}


COMPARED = {">": operator.gt, "≥": operator.ge, "<": operator.lt, "≤": operator.le, "≠": operator.ne}


def domain_conditions(name: str, table: Mapping[float, bool], edges: Sequence[float]) -> tuple[str, ...]:
    """``x > 0`` and the like, such that just the good points meet them; none where no such conditions are found."""
    good = [point for point, fine in table.items() if fine]
    bad = [point for point, fine in table.items() if not fine]
    if not good or not bad:
        return ()
    signs: dict[float, str] = {}
    for edge in sorted(set(edges)):
        if all(point > edge for point in good) and not any(point > edge for point in bad if point < good[0]):
            signs[edge] = ">"
        elif good[0] == edge and edge > min(table):
            signs[edge] = "≥"
        elif all(point < edge for point in good) and not any(point < edge for point in bad if point > good[-1]):
            signs[edge] = "<"
        elif good[-1] == edge and edge < max(table):
            signs[edge] = "≤"
        elif edge in bad:
            signs[edge] = "≠"
    met = {point: all(COMPARED[sign](point, edge) for edge, sign in signs.items()) for point in table}
    return tuple(f"{name} {sign} {edge:g}" for edge, sign in signs.items()) if met == dict(table) else ()


def _of_matrix(op: Op, program: Program, samples: Mapping[str, Array], name: str) -> tuple[str, ...]:
    """What a matrix has to be, if there is no value where it is not."""
    domain = op.domain_of(name)
    if domain.matrix not in MATRICES:
        return ()
    for other in others_than(domain.matrix, samples[name]):
        inputs = {**samples, name: other}
        if is_finite_at(program, inputs, name, False) or torch_answers(program, inputs, name, True):
            return ()
    return (MATRICES[domain.matrix].format(name=name),)


def others_than(kind: str, array: Array) -> list[Array]:
    """Matrices that are not of a kind: singular ones, or symmetric ones with one and two eigenvalues below 0."""
    if kind == "regular":
        return [np.zeros_like(array), np.ones_like(array)]
    values, vectors = np.linalg.eigh((array + array.swapaxes(-1, -2)) / 2)
    signs = [np.where(np.arange(values.shape[-1]) < count, -1.0, 1.0) for count in (1, 2)]
    return [(vectors * (values * sign)[..., None, :]) @ vectors.swapaxes(-1, -2) for sign in signs]


def torch_answers(program: Program, inputs: Mapping[str, Array], name: str, derivative: bool) -> bool | None:
    """Whether torch's output is finite there, with ``derivative`` its gradient too; None where it was not asked."""
    try:
        found = run_torch(program, inputs, np.ones(program.numbers(program.out.shape)), [name])
    except SymgradError:  # torch refuses the number, or the matrix
        return False
    if found is None or found.refusal:
        return None
    gradient = found.gradients[name] if derivative else None
    return bool(np.isfinite(found.output).all() and (gradient is None or np.isfinite(gradient).all()))


def is_finite_at(program: Program, inputs: Mapping[str, Array], name: str, derivative: bool) -> bool:
    """Whether the output is finite there; with ``derivative``, the gradient of its sum too."""
    try:
        with np.errstate(all="ignore"):
            values = forward(program, inputs)
            out = as_float(values[program.output])
            fine = bool(np.isfinite(out).all())
            if fine and derivative:
                gradient = numeric_pullback(program, values, np.ones(out.shape), [name])[name]
                fine = bool(np.isfinite(as_float(gradient)).all())
            return fine
    except (SymgradError, ValueError, ArithmeticError, np.linalg.LinAlgError):
        return False


PATTERN = (1, -2, 3, 2, 4, -1, -3, 5, -4, 6)
"""Signs mixed, neighbours different, no two small ones equal, and the rows of a 2×3 matrix in another order each: a
slip in a sign or an order shows, and no row is another one moved, which softmax would give the same answer."""

ORDINARY = reals().draw[1]
"""How far samples go of what takes all real numbers."""


def sample_values(op: Op, example: Example) -> Mapping[str, Array]:
    """A value for every input of ``example``."""
    values = {}
    for place, (name, shape) in enumerate(example.shapes):
        domain = op.domain_of(name if name in op.operands else op.operands[0])
        values[name] = sample_matrix(domain.matrix, sample_numbers(domain, shape, place, 0 if op.smooth else 9))
    return values


def sample_matrix(kind: str, array: Array) -> Array:
    """Small numbers as a matrix of the kind that a domain names; every kind has a large diagonal."""
    if not kind or array.ndim < 2:
        return array
    array = np.tril(array) if kind == "lower" else array + array.swapaxes(-1, -2) if kind in SYMMETRIC else array
    return with_diagonal(array, 10)


def sample_numbers(domain: Domain, shape: tuple[int, ...], shift: int, apart: int) -> Array:
    """Distinct-looking numbers in ``domain`` from one place in the pattern on, which comes again ``apart`` higher."""
    size = int(np.prod(shape, dtype=object))
    if domain.whole:
        first, last = (int(end) for end in domain.draw)
        return np.asarray([first + (i + shift) % (last - first + 1) for i in range(size)], dtype=np.int64).reshape(
            shape
        )
    low, high = ceil(max(domain.low + 1e-9, -9)), floor(min(domain.high - 1e-9, 9))
    within = [n for n in PATTERN if low <= n <= high and n not in domain.avoid]
    start, end = domain.draw
    near = domain.low == -inf and domain.high == inf and end < ORDINARY  # beyond lies little to be seen
    jumps = domain.avoid and not any(start <= n <= end for n in within)  # at whole numbers, also beyond
    if len(within) >= 3 and not near and not jumps:
        run = from_each_side(within, sorted(domain.avoid))
        run = [run[(i + shift) % len(run)] + i // len(run) * (apart if high == 9 else 0) for i in range(size)]
    else:
        tenths = [Fraction(round(10 * (start + (end - start) * (i + 1) / (size + 1))), 10) for i in range(size)]
        run = [n + Fraction(n in domain.avoid, 10) for n in tenths]
    return np.asarray(run, dtype=np.int64 if all(n.denominator == 1 for n in run) else object).reshape(shape)


def from_each_side(numbers: Sequence[Fraction | int], kinks: Sequence[float]) -> list[Fraction | int]:
    """``numbers``, first one from each side of every kink; where there is none, one is made."""
    sides = [bisect(kinks, n) for n in numbers]
    first = [n for i, n in enumerate(numbers) if sides[i] not in sides[:i]]
    pieces = pairwise([kinks[0] - 4, *kinks, kinks[-1] + 4] if kinks else [])
    made = [Fraction(round(10 * a + 30 * b) // 4, 10) for side, (a, b) in enumerate(pieces) if side not in sides]
    return [*first, *made, *(n for n in numbers if n not in first)]


def sample_seed(shape: tuple[int, ...]) -> Array:
    """1, 2, 3, … : every weight another one, so that it can be seen where each goes."""
    return np.arange(1, int(np.prod(shape, dtype=object)) + 1, dtype=np.int64).reshape(shape)


TWO_BY_THREE = (2, 3)
"""The shape that a worked example has where it can."""
SWAPPED = {2: 3, 3: 2}


def shown_example(op: Op) -> Example:
    """The example of the table whose formulas are shown: the first whose first input is 2×3, where there is one."""
    fitting = (e for e in op.examples if e.shapes and e.shapes[0][1] == TWO_BY_THREE)
    return next(fitting, op.examples[0])


def worked_example(op: Op, structure: str = "") -> tuple[Example, str]:
    """The same call with numbers, an input of it 2×3; where that is refused, at other sizes, and the reason.

    Of several the first whose Jacobian is drawn entry by entry, with the kind of ``structure`` that it has at all sizes
    where an example can hide that: a convolution whose kernel is as wide as its input has no band.

    >>> from symgrad.ops import find
    >>> worked_example(find("where"))
    (Example(text='where(x > 0, x, y)', shapes=(('x', (2, 3)), ('y', (2, 3)))), '')
    >>> worked_example(find("bmm"))[1]
    'this takes a tensor with 3 axes here, not 2'
    >>> worked_example(find("conv1d"), "sparse")[0].shapes, worked_example(find("conv2d"), "sparse")[0].shapes
    ((('x', (2, 3)), ('weight', (2, 2, 2))), (('x', (1, 1, 4, 3)), ('weight', (1, 1, 2, 2))))
    """
    shown = shown_example(op)
    as_it_is = not shown.shapes or TWO_BY_THREE in dict(shown.shapes).values()
    reason, read = "", list[tuple[Example, Program]]()
    for example in (shown,) if as_it_is and structure not in HIDDEN else (shown, *resized_examples(op, shown.text)):
        try:
            program = read_program(example.text, shapes=dict(example.shapes)).program
        except SymgradError as error:
            reason = reason or error.problem
        else:
            read.append((example, program))
    fitting = [found for found in read if as_it_is or TWO_BY_THREE in dict(found[0].shapes).values()]
    if fitting:
        found, reason = first_drawn(fitting, structure if structure in HIDDEN else ""), ""
        return (found or fitting[0][0]), reason
    other = read[1] if len(read) > 1 else read[0]
    if first_drawn([other], ""):
        return other[0], reason
    return first_drawn(smaller_examples(shown), structure) or other[0], reason


HIDDEN = ("sparse",)
"""The structures that the sizes of an example can hide."""
TRIED = 12
"""How many examples are asked for their structure."""


def first_drawn(found: Sequence[tuple[Example, Program]], structure: str) -> Example | None:
    """The first whose J by an input is small enough to be drawn entry by entry; with ``structure``, one that has it."""
    drawn = [
        (example, program, name)
        for example, program in found
        for name in [next((t.name for t in program.inputs if flows(program, t.name)), "")]
        if name and 0 < (size := jacobian_size(program, name))[0] <= MOST_ROWS and 0 < size[1] <= MOST_COLUMNS
    ]
    for example, program, name in drawn[:TRIED] if structure else ():
        if derive_only(program, [name])[0].structure.kind == structure:
            return example
    return drawn[0][0] if drawn else None


def jacobian_size(program: Program, name: str) -> tuple[int, int]:
    """Rows and columns of J by an input."""
    shape = next(tensor.shape for tensor in program.inputs if tensor.name == name)
    return prod(program.numbers(program.out.shape)), prod(program.numbers(shape))


def smaller_examples(shown: Example) -> list[tuple[Example, Program]]:
    """The same call with one sample, one channel, …, and its first input smaller.

    First those whose J has three rows and columns, of these those with the most such ones, of these the largest.
    """
    (first, whole), *_ = shown.shapes
    found: list[tuple[tuple[int, ...], Example, Program]] = []
    for lead in range(len(whole)):
        ones = [(name, ((1,) * lead + shape[lead:])[: len(shape)]) for name, shape in shown.shapes]
        for size in product(*([n // d for d in range(1, n + 1) if n % d == 0] for n in ones[0][1])):
            example = replace(shown, shapes=((first, size), *ones[1:]))
            with suppress(SymgradError):
                program = read_program(example.text, shapes=dict(example.shapes)).program
                rows, columns = jacobian_size(program, first)
                found.append(((min(rows, columns, 3), lead, rows, columns), example, program))
    return [(example, program) for _, example, program in sorted(found, key=lambda one: one[0], reverse=True)]


def resized_examples(op: Op, text: str) -> Iterator[Example]:
    """``text`` with other sizes: 2 and 3 swapped; every input or the first 2×3, one axis of another after it; pairs."""
    same = [example for example in op.examples if example.text == text]
    for example in same:
        swapped = tuple((name, tuple(SWAPPED.get(n, n) for n in shape)) for name, shape in example.shapes)
        if any(shape == TWO_BY_THREE for _, shape in swapped):
            yield replace(example, shapes=swapped)
    first, *others = same[0].shapes
    row_of_pairs = len(first[1]) == 2 and first[1][-1] == 2
    for size in [TWO_BY_THREE, (*TWO_BY_THREE, 2)] if row_of_pairs else [TWO_BY_THREE]:
        start = (first[0], size)
        if len({len(shape) for _, shape in same[0].shapes}) == 1:
            yield replace(same[0], shapes=(start, *((name, size) for name, _ in others)))
        yield replace(same[0], shapes=(start, *others))
        for place, (name, shape) in enumerate(others):
            for axis, n in product(range(len(shape)), TWO_BY_THREE):
                one = (name, (*shape[:axis], n, *shape[axis + 1 :]))
                yield replace(same[0], shapes=(start, *others[:place], one, *others[place + 1 :]))
