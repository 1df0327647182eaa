"""The usual mistakes that concern a gradient as a whole: turned sign, a factor, a transpose, v left out, a swap.

Comes in: a `Case`, one wrong gradient. Goes out: `Slip` s, each with what it would make of a seed; whoever asks
confirms them (`symgrad.testing.slips.diagnosis`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np
import sympy as sp

from symgrad.calculus.local import derive, standard
from symgrad.errors import SymgradError
from symgrad.indexing import Equation
from symgrad.indexing.brackets import Bracket
from symgrad.indexing.symbols import is_access
from symgrad.numeric import Array, Values, as_float, evaluate, numeric_pushforward
from symgrad.program import Apply, Program
from symgrad.testing.right.bench import Trial, largest_at, shown
from symgrad.testing.right.rounding import Rounding
from symgrad.testing.right.truth import Formula

Made = Callable[[Trial], Array]
LARGEST = 1000
"""The largest denominator of a factor that is told as a fraction."""
LINEAR = "vᵀJ is linear in v, whatever the function is"


@dataclass(frozen=True, eq=False)
class Slip:
    """A mistake: its kind, a clause that names it, and the gradient that it would give."""

    kind: str
    said: str
    made: Made

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

    formula: Formula
    name: str
    trials: tuple[Trial, ...]
    rounding: Rounding
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

    def evaluated(self, equation: Equation) -> Made:
        """An index equation at the numbers of the only output, for a seed."""

        def made(trial: Trial) -> Array:
            known = self.formula.values[0].with_arrays({self.formula.programs[0].seed: trial.weights.seeds[0]})
            return as_float(evaluate(equation, known.arrays, known.sizes))

        return made

    def with_seeds(self, kind: str, said: str, change: Callable[[Sequence[Array]], Sequence[Array]]) -> Slip:
        """The right backward for other seeds."""
        return Slip(kind, said, lambda t: self.formula.pull(change(t.weights.seeds))[self.name])


def whole_slips(case: Case) -> Iterator[Slip]:
    """Of what came back: the sign, a transpose, a factor."""
    trial = case.trials[0]
    yield Slip("sign", "the sign is turned", lambda t: -t.expected)
    if square(trial.expected):
        kind, said = "transposed", "it is the transpose of what it should be"
        if trial.weights.seeds[0].ndim < trial.expected.ndim and only_spread(case):
            kind, said = "wrong_axis", "v is spread along the wrong axis"
        yield Slip(kind, said, lambda t: t.expected.swapaxes(-1, -2))
    yield from scaled(case)


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
        said = "this is J·v and not vᵀJ: the Jacobian itself stands where its transpose belongs"
        pushed = partial(numeric_pushforward, program, values, case.name)
        yield Slip("transposed", said, lambda t: as_float(pushed(t.weights.seeds[0])))


def square(array: Array) -> bool:
    """Whether the last two axes are those of a square matrix of more than one row."""
    return array.ndim > 1 and array.shape[-1] == array.shape[-2] > 1


def only_spread(case: Case) -> bool:
    """Whether the gradient is made of v alone: no tensor is read on the way."""
    formula, name = case.formula, case.name
    if name not in formula.inputs:
        return False
    ones = [np.ones(out.shape) for out in formula.outputs]
    inputs = {n: 2 * as_float(formula.inputs[n]) + 1 for n in formula.wanted if n in formula.inputs}
    return np.array_equal(formula.pull(ones)[name], formula.at(inputs).pull(ones)[name])


def scaled(case: Case) -> Iterator[Slip]:
    """A number times what it should be, with what that number counts."""
    whole = [t for t in case.trials if all((s == np.round(s)).all() for s in t.weights.seeds)]  # where less is rounded
    trial = max(whole or case.trials, key=lambda t: float(np.abs(t.expected).max(initial=0.0)))
    if not trial.expected.any():
        return
    at = largest_at(np.abs(trial.expected))
    factor = float(trial.got[at] / trial.expected[at])
    if factor == 0 or abs(factor - 1) < 1e-3:
        return
    known = {round(factor), 1 / round(1 / factor) if abs(1 / factor) > 0.5 else factor}
    nearest = min(known, key=lambda k: abs(k - factor))
    factor = nearest if abs(nearest - factor) < 1e-3 * abs(factor) else factor
    text, missing = told_factor(factor, case)
    said = f"the factor {missing} is missing: every entry is {text}" if missing else f"every entry is {text}"
    yield Slip("missing_factor" if missing else "scaled", said, lambda t: factor * t.expected)


def told_factor(factor: float, case: Case) -> tuple[str, str]:
    """``3 times what it should be: as if multiplied by 3, the number of rows of x``; and the factor that is missing."""
    ratio = Fraction(abs(factor)).limit_denominator(LARGEST)
    exact = abs(float(ratio) - abs(factor)) < 1e-9 * abs(factor)
    times = "of" if exact and ratio < 1 else "times"
    text = f"{'-' if factor < 0 else ''}{ratio if exact else f'{abs(factor):.6g}'} {times} what it should be"
    if said := miscounted(factor, case):
        return f"{text}: {said}", ""
    return text, missing_number(factor, case)


def miscounted(factor: float, case: Case) -> str:
    """``as if divided by 4 in place of 5 (the length of axis 1 of x is 5)``: what a factor counts, or empty."""
    counts = counted(case)
    for number in (abs(factor), 1 / abs(factor)):
        if round(number) > 2 and abs(number - round(number)) < 1e-9 and round(number) in counts:
            by, instead = ("multiplied", "sum for a mean") if number == abs(factor) else ("divided", "mean for a sum")
            return f"as if {by} by {counts[round(number)]}, {round(number)} (a {instead})"
        n = next((n for n in sorted(counts) if n > 2 and abs(number - n / (n - 1)) < 1e-9), None)
        if n is not None and divides_by_a_size(case.formula):
            less, more = (n - 1, n) if number == abs(factor) else (n, n - 1)
            return f"as if divided by {less} in place of {more} ({counts[n]} is {n})"
    return ""


def divides_by_a_size(formula: Formula) -> bool:
    """Whether a step of the forward pass averages: it divides by a number of entries, or by one less."""
    equations = (
        derive(standard(step, program).key).equation.right for program in formula.programs for step in program.steps
    )
    bases = (power.base for right in equations for power in right.atoms(sp.Pow) if power.exp.is_negative)
    return any(is_number_of_entries(base) for base in bases)


def is_number_of_entries(base: sp.Expr) -> bool:
    """Whether an expression reads sizes, or counts what holds, and reads no numbers of a tensor."""
    bare = base.xreplace(dict.fromkeys(base.atoms(Bracket), sp.S.One))
    counts = bool(base.free_symbols) or base.has(sp.Sum)
    return counts and not any(is_access(node) for node in sp.preorder_traversal(bare))


def missing_number(factor: float, case: Case) -> str:
    """The number of the forward pass that a factor is one by, or a power of it; empty where there is none."""
    for tensor, called, array in tensors_of(case.formula):
        number = abs(float(array.reshape(()))) if array.size == 1 else 0.0
        if number in (0.0, 1.0) or not np.isfinite(number):
            continue
        for power, missing in ((1, f"1/{tensor}"), (-1, tensor), (2, f"1/{tensor}²"), (-2, f"{tensor}²")):
            if abs(number**power - abs(factor)) < 1e-9 * abs(factor):
                return f"{missing} ({called[2:] or tensor} = {shown(float(array.reshape(())))})"
    return ""


def counted(case: Case) -> dict[int, str]:
    """What may have been counted."""
    found: dict[int, str] = {}
    inputs = {n: np.shape(a) for n, a in case.formula.inputs.items()}
    shapes = {"out": case.trials[0].weights.seeds[0].shape, **inputs}
    for what, shape in sorted(shapes.items(), key=lambda pair: pair[0] != case.name):
        found.setdefault(int(np.prod(shape, dtype=object)), f"the number of entries of {what}")
        for axis, size in enumerate(shape):
            found.setdefault(int(size), f"the length of axis {axis} of {what}")
    return found


def broadcasts(small: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a factor of shape ``small`` leaves the shape as it is."""
    try:
        return np.broadcast_shapes(small, shape) == shape
    except ValueError:
        return False


def tensors_of(formula: Formula) -> Iterator[tuple[str, str, Array]]:
    """Inputs and results of the first output, of composite steps also those of their parts: name, what, numbers."""
    seen: set[str] = set()
    for program, values in filter(None, ((formula.programs[0], formula.values[0]), formula.opened[0])):
        made = {step.result.name: f", {step.result.name} = {written(step)}" for step in program.steps}
        for name in (*(t.name for t in program.inputs), *made):
            if name not in seen and name in values.arrays:
                yield name, made.get(name, ""), as_float(values[name])
        seen |= {t.name for t in program.tensors()}


def written(step: Apply) -> str:
    """``relu(t1)``."""
    values = [a if isinstance(a, str) else a.value for a in step.arguments]
    return f"{step.called}({', '.join(shown(a) if isinstance(a, float) else str(a) for a in values)})"
