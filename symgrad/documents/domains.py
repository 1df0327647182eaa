"""Where an operation is defined and where its worked example is taken: what pages may say about its domain.

Where samples are drawn (`symgrad.entries.spec`) is not where a function is defined: relu is sampled away from 0.
Comes in: an operation, one of its examples, a condition in the text of the table (``rank(x)=1 and not eps=None``). Goes
out: sentences that hold at every point of a grid, on both sides (where the points do not fall into an interval with a
few holes, or other operands decide, nothing is said); the condition in words; small round numbers for the example's
inputs and seed, the same every time: integers where the domain holds enough of them, tenths elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf

import numpy as np

from symgrad.entries.operands import reals
from symgrad.errors import SymgradError
from symgrad.language import read_program
from symgrad.numeric import Array, as_float, forward, numeric_pullback
from symgrad.numeric.arranged import SYMMETRIC, with_diagonal
from symgrad.ops import Domain, Example, Op
from symgrad.oracles import run_torch
from symgrad.program import Program

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


def domain_conditions(name: str, table: Mapping[float, bool], edges: Sequence[float]) -> tuple[str, ...]:
    """``x > 0`` and the like, such that just the good points meet them; none where no such conditions are found."""
    good = [point for point, fine in table.items() if fine]
    bad = [point for point, fine in table.items() if not fine]
    if not good or not bad:
        return ()
    tests: list[tuple[str, Callable[[float], bool]]] = []
    for edge in sorted(set(edges)):
        if all(point > edge for point in good) and not any(point > edge for point in bad if point < good[0]):
            tests.append((f"{name} > {edge:g}", lambda point, edge=edge: point > edge))  # type: ignore[misc]  # a default binds
        elif good[0] == edge and edge > min(table):
            tests.append((f"{name} ≥ {edge:g}", lambda point, edge=edge: point >= edge))  # type: ignore[misc]  # a default binds
        elif all(point < edge for point in good) and not any(point < edge for point in bad if point > good[-1]):
            tests.append((f"{name} < {edge:g}", lambda point, edge=edge: point < edge))  # type: ignore[misc]  # a default binds
        elif good[-1] == edge and edge < max(table):
            tests.append((f"{name} ≤ {edge:g}", lambda point, edge=edge: point <= edge))  # type: ignore[misc]  # a default binds
        elif edge in bad:
            tests.append((f"{name} ≠ {edge:g}", lambda point, edge=edge: point != edge))  # type: ignore[misc]  # a default binds
    met = {point: all(test(point) for _, test in tests) for point in table}
    return tuple(text for text, _ in tests) if met == dict(table) else ()


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
            if not np.isfinite(out).all():
                return False
            if not derivative:
                return True
            return bool(
                np.isfinite(as_float(numeric_pullback(program, values, np.ones(out.shape), [name])[name])).all()
            )
    except (SymgradError, ValueError, ArithmeticError, np.linalg.LinAlgError):
        return False


def condition_words(condition: str) -> str:
    """What options are, in words.

    >>> [condition_words(text) for text in ("rank(x)=1 and rank(a)=1",
    ...                                          "not eps=None", "causal and scale=None", "offset<0")]
    ['rank(x) = 1 and rank(a) = 1', 'with eps', 'with causal and without scale', 'offset < 0']
    """
    return " and ".join(map(one_condition_words, condition.split(" and ")))


def one_condition_words(part: str) -> str:
    """One of several conditions."""
    there = part.startswith("not ") == part.endswith("=None")
    name = part.removeprefix("not ").removesuffix("=None")
    return f"with{'' if there else 'out'} {name}" if name.isidentifier() else re.sub(r"[=<]", r" \g<0> ", name)


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
    low, high = (
        (ceil(domain.low + 1e-9) if domain.low > -inf else -9),
        (floor(domain.high - 1e-9) if domain.high < inf else 9),
    )
    within = [n for n in PATTERN if low <= n <= high and n not in domain.avoid]
    near = domain.low == -inf and domain.high == inf and domain.draw[1] < ORDINARY  # beyond lies little to be seen
    if len(within) >= 3 and not near:
        run = [within[(i + shift) % len(within)] + i // len(within) * (apart if high == 9 else 0) for i in range(size)]
        return np.asarray(run, dtype=np.int64).reshape(shape)
    start, end = domain.draw
    tenths = [Fraction(round(10 * (start + (end - start) * (i + 1) / (size + 1))), 10) for i in range(size)]
    return np.asarray(tenths, dtype=object).reshape(shape)


def sample_seed(shape: tuple[int, ...]) -> Array:
    """1, 2, 3, … : every weight another one, so that it can be seen where each goes."""
    return np.arange(1, int(np.prod(shape, dtype=object)) + 1, dtype=np.int64).reshape(shape)
