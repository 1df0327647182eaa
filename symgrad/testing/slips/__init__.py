"""Mistakes in a backward, first those of the whole gradient or of v: transposed, omitted, cast, clipped, off by one.

Comes in: a `Case`, one wrong gradient. Goes out: `Slip` s, each with what it would make of a seed; whoever asks
confirms them (`symgrad.testing.slips.diagnosis`). What stands at the edge of a shifted gradient is left as it came: the
inner entries decide, in every trial, and they have to be most of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric import Array, Values, as_float, numeric_pushforward, unit_at
from symgrad.program import Apply, Program
from symgrad.testing.bench import Trial, largest_at, six_digits
from symgrad.testing.references import DerivedReference
from symgrad.testing.trial_seeds import LOWER, GradientTolerance, cast_to

Made = Callable[[Trial], Array]
Clause = str | Callable[[], str]
"""A clause, or what writes it: of a hundred mistakes that are tried one is told."""
LINEAR = "vᵀJ is linear in v, whatever the function is"
LETTERS = "ijklmn"
SHIFTS = (1, -1, 2, -2)
MOST = 8
"""How far v may be shifted."""

CUTS = [digit * 10.0**power for power in range(-6, 3) for digit in (1, 2, 5)]
"""Sizes that are tried as the one below which entries are dropped."""
PLAIN: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("v is rounded to integers", np.round),
    ("v is cast to integers (.long(), .int()), which drops the decimals", np.trunc),
    ("v is cast to int8", lambda v: np.trunc(v).astype(np.int64).astype(np.int8).astype(np.float64)),
    ("negative entries of v are dropped, as by relu", lambda v: np.maximum(v, 0)),
    ("positive entries of v are dropped", lambda v: np.minimum(v, 0)),
    ("|v| is used instead of v", np.abs),
    ("only the sign of v is used", np.sign),
    ("v is squared", np.square),
)
"""What is made of v entry by entry."""


@dataclass(frozen=True, eq=False)
class Slip:
    """A mistake: its kind, a clause that names it, the gradient that it would give, and where it is made."""

    kind: str
    clause: Clause
    made: Made
    where: str = ""

    @property
    def said(self) -> str:
        """The clause, written where that was left for later."""
        return (self.clause if isinstance(self.clause, str) else self.clause()) + self.where

    def gives(self, trial: Trial) -> Array | None:
        """That gradient; None where it cannot be computed."""
        try:
            with np.errstate(all="ignore"):
                return np.asarray(self.made(trial), dtype=np.float64)
        except (SymgradError, ValueError, KeyError, IndexError, TypeError, ZeroDivisionError):
            return None


@dataclass(frozen=True, eq=False)
class Case:
    """One wrong gradient, and what is known of the rest.

    ``others`` says of the other inputs whether theirs is right, ``wrong`` are the
    trials of all that are not, ``none`` says that no gradient came, ``steady`` that the same comes for the same v.
    """

    formula: DerivedReference
    name: str
    trials: tuple[Trial, ...]
    rounding: GradientTolerance
    others: Mapping[str, bool] = field(default_factory=dict)
    wrong: Mapping[str, Sequence[Trial]] = field(default_factory=dict)
    none: bool = False
    steady: bool = True

    @property
    def single(self) -> tuple[Program, Values] | None:
        """The program and its values, where it has one output and the input stands in it."""
        if len(self.formula.programs) > 1 or self.name not in self.formula.inputs:
            return None
        return self.formula.programs[0], self.formula.values[0]

    def with_seeds(self, kind: str, said: str, change: Callable[[Array], Array]) -> Slip:
        """The right backward for other seeds."""
        return Slip(kind, said, lambda t: self.formula.pull([*map(change, t.weights.seeds)])[self.name])


def later_slips(case: Case) -> Iterator[Slip]:
    """The gradient of another input; J where Jᵀ belongs, forward instead of backward."""
    shapes = {name: np.shape(array) for name, array in case.formula.inputs.items()}
    for other in case.formula.wanted:
        if other != case.name and case.name in shapes and shapes.get(other) == shapes[case.name]:
            said = f"this is {other}.grad: the gradients are returned in another order"
            yield Slip("swapped", said, lambda t, other=other: case.formula.pull(t.weights.seeds)[other])  # type: ignore[misc]  # a default binds
    if case.single is None:
        return
    program, values = case.single
    if shapes[case.name] == np.shape(values[program.output]) != ():
        said = "this is J·v and not vᵀJ: the Jacobian is used instead of its transpose"
        pushed = partial(numeric_pushforward, program, values, case.name)
        yield Slip("transposed", said, lambda t: as_float(pushed(t.weights.seeds[0])))


def has_square_rows(array: Array) -> bool:
    """Whether the last two axes are those of a square matrix of more than one row."""
    return array.ndim > 1 and array.shape[-1] == array.shape[-2] > 1


def jacobian_rows(pull: Callable[[Array], Array], shape: tuple[int, ...]) -> Array:
    """What is pulled back of each v of a shape that is 1 in one place and 0 elsewhere."""
    return np.stack([pull(unit_at(at, shape)) for at in np.ndindex(*shape)])


def intermediate_values(formula: DerivedReference) -> Iterator[tuple[str, str, Array]]:
    """Inputs and results, also of the parts of composite steps, each once: name, how it is made, numbers."""
    seen: set[str] = set()
    for program, values in (*zip(formula.programs, formula.values, strict=True), *filter(None, formula.opened)):
        made = {step.result.name: f", {step.result.name} = {call_text(step)}" for step in program.steps}
        for tensor in program.tensors():
            if tensor.name not in seen and tensor.name in values.arrays:
                seen.add(tensor.name)
                yield tensor.name, made.get(tensor.name, ""), as_float(values[tensor.name])


def call_text(step: Apply) -> str:
    """``relu(t1)``."""
    values = [a if isinstance(a, str) else a.value for a in step.arguments]
    return f"{step.called}({', '.join(six_digits(a) if isinstance(a, float) else str(a) for a in values)})"


def seed_slips(case: Case) -> Iterator[Slip]:
    """v left out; one entry for others; then what is not linear in v."""
    formula, name, trials = case.formula, case.name, case.trials
    if len({b"".join(s.tobytes() for s in t.weights.seeds) for t in trials}) < 2:
        return

    ones = formula.pull([np.ones(s.shape) for s in trials[0].weights.seeds])[name]
    yield Slip("ignores_seed", "v is not used: this is the result for v = ones, whatever v is", lambda t: ones)
    if ones.any():
        said = "v is summed before it is used: every output gets the same weight"
        yield Slip("ignores_seed", said, lambda t: ones * sum(float(s.sum()) for s in t.weights.seeds))
    first = trials[0].got
    if first.any():
        yield Slip("ignores_seed", "v is not used: the result is the same for every v", lambda t: first)
    rank = max(s.ndim for s in trials[0].weights.seeds)
    for axis in range(rank if trials[0].expected.size > 1 else 0):
        for said, change in constant_along(axis, rank):
            yield case.with_seeds("ignores_seed", said, change)
    for lower in LOWER.get(case.rounding.dtype, ()):
        yield case.with_seeds("precision", f"v is cast to {lower}, and loses digits", lambda v, d=lower: cast_to(v, d))  # type: ignore[misc]  # a default binds
    for said, change in (*PLAIN, *clipped_seeds(case)):
        yield case.with_seeds("not_linear", f"{said}; {LINEAR}", change)


def constant_along(axis: int, rank: int) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """One entry along an axis, or their mean, for all of them."""

    def repeated(one: Callable[[Array], Any]) -> Callable[[Array], Array]:
        return lambda v: np.array(np.broadcast_to(one(v), v.shape)) if v.ndim > axis else v

    for place in (0, -1):
        entry = ", ".join([":"] * axis + [str(place)])
        said = f"v[{entry}] is used for every entry along axis {axis} of v"
        if axis == 0 and rank == 1:
            said += f": a number, v[{place}], multiplies all rows, where each has its own, v[:, None]"
        yield said, repeated(partial(np.take, indices=[place], axis=axis))
    said = f"the mean of v along axis {axis} is used for every entry of v"
    yield said, repeated(partial(np.mean, axis=axis, keepdims=True))


def clipped_seeds(case: Case) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """v clipped at a number or to a length, which the largest seed tells; and what is small dropped."""
    trials = case.trials
    largest = max(trials, key=lambda t: max((float(np.abs(s).max(initial=0.0)) for s in t.weights.seeds), default=0.0))
    seeds = largest.weights.seeds
    number = largest_ratio(largest.got, case.formula.pull([np.sign(s) for s in seeds])[case.name])
    if number > 0:
        yield f"v is clipped at ±{six_digits(number)}", lambda v: np.clip(v, -number, number)
    length = largest_ratio(largest.got, largest.expected) * float(np.linalg.norm(seeds[0]))
    if length > 0 and len(seeds) == 1:
        said = f"v is scaled down where its norm exceeds {six_digits(length)}"
        yield said, lambda v: v * min(1.0, length / max(float(np.linalg.norm(v)), 1e-300))
    sizes = np.unique(np.abs(np.concatenate([s.reshape(-1) for t in trials for s in t.weights.seeds])))
    for size in CUTS:
        small, others = sizes[(sizes < size) & (sizes > 0)], sizes[sizes >= size]
        if len(small) and len(others):
            last, next_one = six_digits(float(small[-1])), six_digits(float(others[0]))
            said = f"small entries of v are dropped: {last} is, {next_one} is not"
            yield said, lambda v, s=size: v * (np.abs(v) >= s)  # type: ignore[misc]  # a default binds


def largest_ratio(got: Array, right: Array) -> float:
    """The number that ``right`` was multiplied by, at its largest entry; 0 where there is none."""
    at = largest_at(np.abs(np.nan_to_num(right))) if right.size else ()
    found = float(got[at] / right[at]) if right.size and right[at] else 0.0
    return found if np.isfinite(found) else 0.0


@dataclass(frozen=True)
class Shift:
    """Each entry of a tensor read from ``by`` places before it, along an axis."""

    rank: int
    axis: int
    by: int

    @property
    def inner(self) -> tuple[slice, ...]:
        """The entries that have such a neighbour."""
        part = slice(self.by, None) if self.by > 0 else slice(None, self.by)
        return tuple(part if n == self.axis else slice(None) for n in range(self.rank))

    def of(self, array: Array) -> Array:
        """The entries of a tensor in their new places."""
        return np.roll(array, self.by, self.axis)

    def beside(self, edge: Array, inner: Array) -> Array:
        """Entries of ``inner``; those of ``edge`` where there is no neighbour."""
        found = np.array(edge)
        found[self.inner] = inner[self.inner]
        return found

    def said(self, clause: str) -> str:
        """A clause with room for the places, ``i,j`` and ``i,j − 1``, and then how far it is from one to the other."""
        here, there = list(LETTERS[: self.rank]), list(LETTERS[: self.rank])
        there[self.axis] += f" {'−' if self.by > 0 else '+'} {abs(self.by)}"
        told = clause.format(here=",".join(here), there=",".join(there))
        return f"{told}: it is shifted by {abs(self.by)} along axis {self.axis}"


def possible_shifts(shape: Sequence[int], by: Sequence[int], least: int = 2) -> Iterator[Shift]:
    """Those along axes that are more than ``least`` times as long."""
    for axis, size in enumerate(shape[: len(LETTERS)]):
        yield from (Shift(len(shape), axis, n) for n in by if size > least * abs(n))


def shift_slips(case: Case) -> Iterator[Slip]:
    """The gradient turned; and along each axis, to either side: the gradient, then v, then what is a factor in it."""
    formula, name, trials = case.formula, case.name, case.trials
    shape = trials[0].expected.shape
    if has_square_rows(trials[0].expected):
        yield Slip("transposed", "it is the transpose of what it should be", lambda t: t.expected.swapaxes(-1, -2))
    for shift in possible_shifts(shape, SHIFTS):
        if any(t.off[shift.inner].any() for t in trials):
            said = shift.said(f"{name}.grad[{{here}}] holds what belongs at [{{there}}]")
            yield Slip("shifted", said, lambda t, s=shift: s.beside(t.got, s.of(t.expected)))  # type: ignore[misc]  # a default binds
    if len(formula.programs) > 1:
        return
    yield from shifted_seed_slips(case)
    for tensor, called, array in intermediate_values(formula):
        for shift in possible_shifts(shape, SHIFTS) if array.shape == shape and np.isfinite(array).all() else ():
            said = shift.said(f"{tensor}[{{here}}] is used instead of {tensor}[{{there}}]")
            where = called if tensor != formula.programs[0].output else ""
            factor = array / np.where(shift.of(array) == 0, np.nan, shift.of(array))
            yield Slip("shifted", said, lambda t, s=shift, f=factor: s.beside(t.got, t.expected * f), where)  # type: ignore[misc]  # a default binds


def shifted_seed_slips(case: Case) -> Iterator[Slip]:
    """v read at the place of a neighbour, 0 where there is none."""
    shape, grad = case.trials[0].weights.seeds[0].shape, case.trials[0].expected.shape
    for shift in possible_shifts(shape, [s * n for n in range(1, MOST + 1) for s in (1, -1)], least=1):
        said = shift.said("v[{there}] is used instead of v[{here}]")
        if len(grad) == len(shape) and abs(shift.by) == shape[shift.axis] - grad[shift.axis]:
            said += (
                f", by as much as {case.name} is shorter than v; with {case.name} as long as v a test would not see it"
            )
        yield case.with_seeds("shifted", said, lambda v, s=shift: s.beside(np.zeros_like(v), s.of(v)))  # type: ignore[misc]  # a default binds
