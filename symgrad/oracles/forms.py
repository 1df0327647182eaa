"""A closed form is a claim: its text is read back, evaluated by NumPy, and held against the raw contraction.

At the point, near it, where entries differ, and at other sizes (`symgrad.oracles.other_sizes`): a form that is right
only at ones, or only where sizes are as they happen to be, does not pass.

A form that does not pass is not shown, and nobody misses it: a writer that writes wrong text would stay unseen. So
inside ``with dropped_forms() as dropped`` each is noted, with where it failed and why; tests hold the list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
import sympy as sp

from symgrad.calculus import Sweep, moving
from symgrad.errors import DomainError, SymgradError, UndefinedError
from symgrad.indexing import Equation, Index, is_guard
from symgrad.indexing.symbols import Expr
from symgrad.language.read import LOSSES, Reading, inputs_of, read
from symgrad.numeric import Array, Values, as_float, evaluate, forward, is_exact
from symgrad.oracles.array_text import Read, evaluate_arrays
from symgrad.oracles.other_sizes import misread, resized
from symgrad.oracles.report import Check, compare
from symgrad.program import Program

WIDTHS = (0.2, 0.05, 0.005)
"""How far a point is moved, as shares of its entries: the first of them that stays in every domain."""
NAME = "the closed form, read back and evaluated"
AT_THE_POINT, NEAR_IT, RESIZED, UNREAD = "at the point", "near the point", "at other sizes", "it does not read back"
"""Where a form may fail: only at the point is it no mistake, where the gradient has no formula but a convention."""


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
    text: str,
    program: Program,
    sweep: Sweep,
    values: Values,
    seed: Array,
    lowered: bool = False,
    held: Mapping[str, str] | None = None,
) -> Check:
    """``text`` against the index formula, at the point, at a random one near it and at other sizes.

    What is ``lowered`` is read as array operations, anything else as a user would write it. ``held`` are the inputs
    that an operation finds by itself, by what they are called among the values: at another point it finds others.
    """
    where, check = _checked(text, program, sweep, values, seed, reader_of(lowered), held or {})
    noted = _noted.get()
    if not check.passed and noted is not None:
        noted.append(Dropped(text, sweep.stages[-1][0], where, check.note or f"off by {check.max_error}"))
    return check


def _checked(
    text: str,
    program: Program,
    sweep: Sweep,
    values: Values,
    seed: Array,
    read_back: Read,
    held: Mapping[str, str],
) -> tuple[str, Check]:
    """The check that failed and where, or the one at the point."""
    generator = np.random.default_rng(1)
    points = [(AT_THE_POINT, values, np.asarray(seed))]
    free = moving(program)
    others = [(NEAR_IT, jittered(values, program, free)), *((RESIZED, v) for v in resized(values, program, free))]
    for where, own in others:
        found = own.with_arrays({name: own[known] for name, known in held.items()})
        shape = np.shape(found[program.output]) if np.ndim(seed) else ()
        points.append((where, found, np.asarray(generator.integers(-4, 5, size=shape))))
    checks: list[Check] = []
    for where, found, weights in points:
        difference = misread(program, found) if where == RESIZED else ""
        if difference:
            return where, Check(NAME, None, False, note=f"it does not hold for {said(found)}: {difference}")
        inputs = {t.name: found[t.name] for t in program.inputs}
        weights = weights if all(map(is_exact, inputs.values())) else as_float(weights)
        known = {program.seed: weights, program.output: found[program.output], **inputs}
        try:
            written = read_back(text, known)
        except SymgradError as error:
            return UNREAD, Check(NAME, None, False, note=f"{UNREAD}: {error.problem}")
        arrays = {**found.arrays, program.seed: weights}
        raw, written = as_float(evaluate(sweep.equation, arrays, found.sizes)), as_float(written)
        if where == RESIZED:
            written = guarded(sweep.equation, arrays, found, raw, written)
        checks.append(compare(NAME, raw, written))
        if not checks[-1].passed:
            return where, checks[-1]
    return AT_THE_POINT, checks[0]


def guarded(equation: Equation, arrays: Mapping[str, Array], values: Values, raw: Array, written: Array) -> Array:
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


def said(values: Values) -> str:
    """Sizes in words."""
    return ", ".join(f"{size} = {number}" for size, number in values.sizes.items())


def jittered(values: Values, program: Program, moving: Collection[str]) -> Values:
    """A point near the given one where entries differ: forms that hold only for equal entries fail there.

    As near as it takes for every operation to be defined there; symmetric matrices stay symmetric only if they must,
    and inputs that are only read stay: positions next to the given ones may lie outside.
    """
    generator = np.random.default_rng(2)
    factors = {t.name: generator.uniform(-1, 1, size=values[t.name].shape) for t in program.inputs}
    factors = {name: factor for name, factor in factors.items() if name in moving}
    for symmetric, width in product((False, True), WIDTHS):
        point = {
            name: as_float(values[name]) * (1 + width * (symmetric_part(factor) if symmetric else factor))
            for name, factor in factors.items()
        }
        try:
            return forward(program, {t.name: values[t.name] for t in program.inputs} | point)
        except (DomainError, UndefinedError):
            continue
    return values


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
def _read_back(text: str, shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> Reading:
    """The program that a text spells, read once: the line of a layer is asked again at every step of a loop."""
    used = inputs_of(text, [name for name, _ in shapes])
    return read(text, shapes={name: shape for name, shape in shapes if name in used}, output=LOSSES)


def reader_of(lowered: bool) -> Read:
    """How a form is read back: as array operations, or as a user would write it."""
    return evaluate_lowered if lowered else evaluate_text


def evaluate_lowered(text: str, known: Mapping[str, Array]) -> Array:
    """The value of array operations over the seed, the output and the inputs, by NumPy."""
    return evaluate_arrays(text, known, evaluate_text)
