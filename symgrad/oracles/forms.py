"""A closed form is a claim: its text is read back, evaluated by NumPy, and held against the raw contraction.

At the point, near it, where entries differ, and at other sizes: a form that is right only at ones, or only where sizes
are as they happen to be, does not pass. Of the sizes at which the program has a meaning the smallest come first: where
a size is 1, an axis is cut to nothing, or two sizes are equal, what was read at one size may not hold.

A form that does not pass is not shown; inside ``with dropped_forms() as dropped`` it is noted, with where it failed and
why, so that a writer of wrong text is seen; tests hold the list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import product

import numpy as np
import sympy as sp

from symgrad.calculus import Sweep, local_jacobian, moving
from symgrad.errors import DomainError, ShapeError, SymgradError, UndefinedError
from symgrad.indexing import Equation, Index, Ravel, Unravel, is_guard
from symgrad.indexing.symbols import Expr, is_access
from symgrad.language.inference import LOSSES, ParsedProgram, find_inputs, read_program
from symgrad.numeric import Array, Values, as_float, evaluate, forward, is_exact, is_finite
from symgrad.numeric.arranged import matrix_of_kind
from symgrad.numeric.exact import LARGEST_EXPONENT
from symgrad.ops import entry_named
from symgrad.oracles.comparisons import Check, compare
from symgrad.oracles.evaluators import Read, evaluate_arrays
from symgrad.program import Apply, Program, Stated
from symgrad.shapes import Size, Sizes, fill_sizes

WIDTHS = (0.2, 0.05, 0.005)
"""How far a point is moved, as shares of its entries: the first of them that stays in every domain."""
NAME = "the closed form, read back and evaluated"
AT_THE_POINT, NEAR_IT, RESIZED, UNREAD = "at the point", "near the point", "at other sizes", "it cannot be read back"
"""Where a form may fail: only at the point is it no mistake, where the gradient has no formula but a convention."""
MOST_KEPT = 20_000
"""Entries up to which the answer is kept, and the numbers with it."""


@dataclass(frozen=True)
class Dropped:
    """A closed form that was written and is withheld: its text, by which input, where it failed, and how."""

    text: str
    wanted: str
    where: str
    why: str


_noted: ContextVar[list[Dropped] | None] = ContextVar("dropped forms", default=None)


@contextmanager
def dropped_forms() -> Iterator[list[Dropped]]:
    """The closed forms that are withheld inside the block, each as often as it is checked."""
    found: list[Dropped] = []
    before = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(before)


def check_form(
    text: str, program: Program, sweep: Sweep, values: Values, seed: Array, lowered: bool = False,
    held: Mapping[str, str] | None = None, elsewhere: bool = True,
) -> Check:  # fmt: skip
    """``text`` against the index formula, at the point, at a random one near it and at other sizes.

    Of more than `MOST_KEPT` entries there is no point near it: at other sizes entries differ as well.
    What is ``lowered`` is read as array operations, anything else as a user would write it. ``held`` are the inputs
    that an operation finds by itself, by what they are called among the values: at another point it finds others.
    One that is proven already is not held against other points ``elsewhere``.
    """
    small, given = is_small(values), tuple((held or {}).items())
    point = fingerprint_numbers(values, seed) + repr(program.positions) if small else ""
    asked = FormQuestion(text, program, sweep, lowered, given, elsewhere, point, values, seed)
    where, check = _checked(asked) if small else _checked.__wrapped__(asked)
    noted = _noted.get()
    if not check.passed and noted is not None:
        noted.append(Dropped(text, sweep.stages[-1][0], where, check.note or f"off by {check.max_error}"))
    return check


def is_small(values: Values) -> bool:
    """Whether there are so few numbers that what is made of them is kept."""
    return sum(map(np.size, values.arrays.values())) <= MOST_KEPT


@dataclass(frozen=True)
class FormQuestion:
    """What `check_form` is asked. The ``point`` stands for the numbers: of the same ones the answer is the same."""

    text: str
    program: Program
    sweep: Sweep
    lowered: bool
    held: tuple[tuple[str, str], ...]
    elsewhere: bool
    point: str
    values: Values = field(compare=False, repr=False)
    seed: Array = field(compare=False, repr=False)

    def points(self) -> Iterator[tuple[str, Values, Array]]:
        """The point, one near it and some at other sizes, each with weights; made one by one, as they may be large."""
        generator, free, values = np.random.default_rng(1), moving(self.program), self.values
        yield AT_THE_POINT, values, np.asarray(self.seed)
        for where, some in (
            (NEAR_IT, nearby_points(values, self.program, free) if is_small(values) else ()),
            (RESIZED, resized_points(values, self.program, free)),
        ):
            for own in some if self.elsewhere else ():
                found = own.with_arrays({name: own[known] for name, known in self.held})
                shape = np.shape(found[self.program.output]) if np.ndim(self.seed) else ()
                yield where, found, np.asarray(generator.integers(-4, 5, size=shape))

    def at(self, where: str, found: Values, weights: Array) -> Check:
        """The text against the index formula at one point."""
        program, equation = self.program, self.sweep.equation
        inputs = {t.name: found[t.name] for t in program.inputs}
        weights = weights if all(map(is_exact, inputs.values())) else as_float(weights)
        known = {program.seed: weights, program.output: found[program.output], **inputs}
        written = as_float(reader_of(self.lowered)(self.text, known))
        arrays = {**found.arrays, program.seed: weights}
        raw = as_float(evaluate(equation, arrays, found.sizes))
        return compare(NAME, raw, guard_zeros(equation, arrays, found, raw, written) if where == RESIZED else written)


def fingerprint_numbers(values: Values, seed: Array) -> str:
    """A short text that differs where numbers, types, names or sizes do."""
    found = blake2b(repr(sorted((str(size), number) for size, number in values.sizes.items())).encode())
    for name, array in (*sorted(values.arrays.items()), ("", np.asarray(seed))):
        found.update(f"{name} {array.dtype} {array.shape} ".encode())
        found.update(repr(array.tolist()).encode() if array.dtype.hasobject else np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


@lru_cache(maxsize=128)
def _checked(asked: FormQuestion) -> tuple[str, Check]:
    """The check that failed and where, or the one at the point."""
    checks: list[Check] = []
    for where, found, weights in asked.points():
        difference = difference_at_sizes(asked.program, found) if where == RESIZED else ""
        if difference:
            sizes = ", ".join(f"{size} = {number}" for size, number in found.sizes.items())
            return where, Check(NAME, None, False, note=f"it does not hold for {sizes}: {difference}")
        try:
            checks.append(asked.at(where, found, weights))
        except SymgradError as error:
            return UNREAD, Check(NAME, None, False, note=f"{UNREAD}: {error.problem}")
        if not checks[-1].passed:
            return where, checks[-1]
    return AT_THE_POINT, checks[0]


def guard_zeros(equation: Equation, arrays: Mapping[str, Array], values: Values, raw: Array, written: Array) -> Array:
    """``written`` with a 0 that its formula guards in the place of 0/0, as the sentence beside such a form says.

    At other sizes a length may be 0 whatever stands there: of ``c - c.flip(0)``, for one, where c has one row. Where
    another factor is 0 too, the formula without its guards shows nothing: the guards say where they are shut.
    """
    if raw.shape != written.shape or not (np.isnan(written) & (raw == 0)).any():
        return written

    def valued(right: Expr) -> Array:
        return as_float(evaluate(Equation(equation.axes, right), arrays, values.sizes))

    guards = [g for g in equation.right.find(is_guard) if g.atoms(Index) <= set(equation.axes)]
    bare = valued(equation.right.replace(is_guard, lambda _: sp.S.One))
    shut = np.isnan(bare) | (valued(sp.Mul(*guards)) == 0)
    return np.where(np.isnan(written) & shut & (raw == 0), 0.0, written)


def nearby_points(values: Values, program: Program, moving: Collection[str]) -> Iterator[Values]:
    """A point near the given one where entries differ: forms that hold only for equal entries fail there.

    As near as it takes for every operation to be defined there; symmetric matrices stay symmetric only if they must,
    and inputs that are only read stay: positions next to the given ones may lie outside.
    """
    for symmetric, width in product((False, True), WIDTHS):
        generator, point = np.random.default_rng(2), dict[str, Array]()
        for tensor in program.inputs:
            factor, own = generator.uniform(-1, 1, size=values[tensor.name].shape), values[tensor.name]
            factor = symmetric_part(factor) if symmetric else factor
            point[tensor.name] = as_float(own) * (1 + width * factor) if tensor.name in moving else own
        try:
            yield forward(program, point)
        except (DomainError, UndefinedError):
            continue
        return
    yield values


def symmetric_part(array: Array) -> Array:
    """(a + aᵀ)/2 of a square matrix; anything else as it is."""
    square = array.ndim > 1 and array.shape[-1] == array.shape[-2]
    return (array + array.swapaxes(-1, -2)) / 2 if square else array


def evaluate_text(text: str, known: Mapping[str, Array]) -> Array:
    """The value of an expression over the seed, the output and the inputs in symgrad's own language, by NumPy."""
    found = _read_back(text, tuple((name, np.shape(array)) for name, array in known.items()))
    program, arrays = found.program, {**known, **found.made}
    return forward(program, {t.name: arrays[t.name] for t in program.inputs})[program.output]


@lru_cache(maxsize=512)
def _read_back(text: str, shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> ParsedProgram:
    """The program that a text spells, read once: the line of a layer is asked again at every step of a loop."""
    used = find_inputs(text, [name for name, _ in shapes])
    return read_program(text, shapes={name: shape for name, shape in shapes if name in used}, output=LOSSES)


def reader_of(lowered: bool) -> Read:
    """How a form is read back: as array operations, or as a user would write it."""
    return (lambda text, known: evaluate_arrays(text, known, evaluate_text)) if lowered else evaluate_text


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


def resized_points(values: Values, program: Program, moving: Collection[str]) -> Iterator[Values]:
    """Small points at other sizes, filled with what stands at the given one; none where no others fit.

    What is as long as something else stays so: v.diag() is right for every square matrix.
    """
    generator, found = np.random.default_rng(3), 0
    small, large = candidate_sizes(sorted(set(values.sizes.values())))
    for most, drawn in ((SMALLEST, small), (POINTS, large)):
        for numbers in drawn if values.sizes else ():
            sizes = {size: numbers[own] for size, own in values.sizes.items()}
            if found == most:
                break
            if sizes == values.sizes or not sizes_fit(program, sizes):
                continue
            other = replace(program, sizes=sizes)
            entries = {}
            for tensor in program.inputs:
                array = np.resize(values[tensor.name], other.numbers(tensor.shape))
                if tensor.name in moving:
                    array = as_float(array) * generator.uniform(0.9, 1.1, size=array.shape)
                entries[tensor.name] = array
            point = scaled_point(other, entries, moving, values)
            if point is None:
                continue
            if not is_defined(program, point) and is_defined(program, values):  # the spread of one value
                continue
            if exceeds(point, HUGE) and not exceeds(values, HUGE):  # the inverse of x @ x.T, x longer than wide
                continue
            yield point
            found += 1


def is_defined(program: Program, values: Values) -> bool:
    """Whether everything on the way to the output has a value."""
    return all(bool(is_finite(values[name]).all()) for name in program.relevant)


def scaled_point(program: Program, drawn: Mapping[str, Array], moving: Collection[str], given: Values) -> Values | None:
    """The point, or one with smaller numbers where eˣ of these is no float and of the given ones it is."""
    point = None
    for share in SHARES:
        parts = {name: array * share if name in moving and share != 1 else array for name, array in drawn.items()}
        try:
            point = forward(program, {n: matrix_of_kind(program, n, array) for n, array in parts.items()})
        except (SymgradError, ValueError, IndexError):  # a place outside, an axis of 1 where two are needed
            return None
        if not exceeds(point, LARGEST_EXPONENT) or exceeds(given, LARGEST_EXPONENT):  # what is right may be ∞·0 there
            break
    return point


def exceeds(values: Values, size: float) -> bool:
    """Whether a value is larger than that: than `HUGE`, what rounding left of a pole."""
    return any(bool((np.abs(as_float(tensor)) > size).any()) for tensor in values.arrays.values())


def candidate_sizes(given: Sequence[int]) -> tuple[Iterator[dict[int, int]], Iterator[dict[int, int]]]:
    """Sizes in the place of the ``given`` ones: the smallest, and random ones that are larger."""
    generator = np.random.default_rng(3)
    small = sorted(product(range(1, 1 + FEW), repeat=min(len(given), TOGETHER)), key=lambda sizes: (sum(sizes), sizes))
    return (
        (dict(zip(given, numbers * len(given), strict=False)) for numbers in small),
        ({own: min(own, MORE) + int(generator.integers(1, 4)) for own in given} for _ in range(RANDOM)),
    )


def sizes_fit(program: Program, sizes: Mapping[Size, int]) -> bool:
    """Whether everything that the program requires holds at ``sizes``, and every axis has a whole size there.

    So has each range of an equation's indices, and each axis that it takes one apart into: half of the channels, for
    two groups.
    """
    rights = [local_jacobian(step, program).equation.right for step in program.forward_steps]
    axes = {size for tensor in program.tensors() for size in tensor.shape}
    axes |= {size for right in rights for node in right.atoms(Ravel, Unravel) for size in node.shape}
    ranges = {index.size for right in rights for index in right.atoms(Index)}
    whole = all(fill_sizes(size, sizes).is_Integer for size in axes | ranges)
    given = whole and all(fill_sizes(size, sizes) >= 0 for size in (*axes, *program.required))
    return given and all(stays_inside(s, program, sizes) for s in program.forward_steps if isinstance(s.op, Stated))


def stays_inside(step: Apply, program: Program, sizes: Mapping[Size, int]) -> bool:
    """Whether an equation of the user's reads nothing outside its tensors: its conditions decide that."""
    operands = (program.tensor(a).shape if isinstance(a, str) else () for a in step.arguments)
    shapes = tuple(tuple(fill_sizes(size, sizes) for size in shape) for shape in operands)
    try:
        entry_named(step.op).rules.resolve(Sizes(), shapes)
    except ShapeError:
        return False
    return True


def difference_at_sizes(program: Program, values: Values) -> str:
    """What of the program is not at these sizes what it says for all: a shape, or which entries a view reads."""
    found = replace(program, sizes=values.sizes)
    for step in found.forward_steps:
        name = step.result.name
        shape = found.numbers(step.result.shape)
        if values[name].shape != shape:
            return f"{step.op} gives {values[name].shape}, not {shape}"
        equation = local_jacobian(step, found).equation
        _, entry = equation.right.as_coeff_Mul(rational=True)
        if is_access(entry) and "·" not in str(entry):
            read = as_float(evaluate(equation, values.arrays, values.sizes))
            if not np.allclose(read, as_float(values[name]), rtol=1e-12, atol=0, equal_nan=True):  # x/3 is not x·⅓
                return f"{step.op} reads other entries"
    return ""
