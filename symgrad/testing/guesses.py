"""What slip would turn the right gradient into the wrong one: each guess is computed before it is said.

Comes in: for one input every seed that was tried, with the gradient that was expected and the one that came, and the
program behind them. Goes out: a sentence about the first slip that gives what came in every entry for every seed, or
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from symgrad.calculus import Sweep
from symgrad.errors import SymgradError
from symgrad.numeric import Array, Values, as_float, evaluate, numeric_pullback
from symgrad.program import Program


@dataclass(frozen=True, eq=False)
class Trial:
    """One seed: its name, the weights, the gradient that was expected, and the one that came."""

    label: str
    weights: Array
    expected: Array
    got: Array


@dataclass(frozen=True, eq=False)
class Suspect:
    """A backward that was found wrong for one input: all trials, and what the right one is made of."""

    name: str
    program: Program
    values: Values
    sweep: Sweep
    trials: Sequence[Trial]
    tolerance: float

    def explains(self, slip: Callable[[Trial], Array]) -> bool:
        """Whether ``slip`` gives what came, everywhere and for every seed, and not what was expected."""
        made = [as_float(slip(trial)) for trial in self.trials]
        same = all(self.same(m, trial.got) for m, trial in zip(made, self.trials, strict=True))
        return same and not all(self.same(m, trial.expected) for m, trial in zip(made, self.trials, strict=True))

    def same(self, a: Array, b: Array) -> bool:
        """Equal within what rounding of this type leaves."""
        scale = max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0)) if np.isfinite(b).all() else 1.0
        return a.shape == b.shape and bool(np.allclose(a, b, rtol=0.0, atol=self.tolerance * max(scale, 1e-30)))

    def pulled(self, values: Values, weights: Array) -> Array:
        """The gradient by the derived steps, at other numbers or for another seed."""
        return as_float(numeric_pullback(self.program, values, weights, [self.name])[self.name])


def guess(suspect: Suspect) -> str:
    """The first slip that explains the difference everywhere; empty where none of them does."""
    seeds = {trial.weights.tobytes() for trial in suspect.trials}
    if len(seeds) < 2 or not all(np.isfinite(t.got).all() and np.isfinite(t.expected).all() for t in suspect.trials):
        return ""
    for sentence, slip in slips(suspect):
        if suspect.explains(slip):
            return sentence
    return ""


def slips(suspect: Suspect) -> Iterator[tuple[str, Callable[[Trial], Array]]]:
    """The usual slips, each with what it would make of a seed."""
    trials = suspect.trials
    yield (
        "nothing arrives: the input is detached, or its gradient is never returned",
        lambda trial: np.zeros_like(trial.got),
    )
    yield "the sign is turned", lambda trial: -trial.expected
    yield from _transposed(suspect)
    yield from _without_the_seed(suspect)
    factor = _factor(trials)
    if factor is not None:
        yield (
            f"every entry is {factor:.6g} times what it should be{_count(factor, trials)}",
            (lambda trial: factor * trial.expected),
        )
    yield from _one_use(suspect)


def _transposed(suspect: Suspect) -> Iterator[tuple[str, Callable[[Trial], Array]]]:
    """The gradient transposed, the seed, or one of the tensors that the backward reads."""
    if _square(suspect.trials[0].expected):
        yield (
            "it is the transpose of what it should be: an operand of the product may stand on the wrong side",
            lambda trial: trial.expected.swapaxes(-1, -2),
        )
    if _square(suspect.trials[0].weights):
        yield "v is transposed", lambda trial: suspect.pulled(suspect.values, trial.weights.swapaxes(-1, -2))
    for tensor in suspect.program.tensors():
        array = suspect.values[tensor.name]
        if _square(array):
            turned = suspect.values.with_arrays({tensor.name: array.swapaxes(-1, -2)})
            what = "out" if tensor.name == suspect.program.output else tensor.name
            yield (
                f"{what} is transposed, or is not where it should be: with {what}.mT in its place this comes out",
                lambda trial, turned=turned: suspect.pulled(turned, trial.weights),  # type: ignore[misc]  # a default binds
            )


def _without_the_seed(suspect: Suspect) -> Iterator[tuple[str, Callable[[Trial], Array]]]:
    """The gradient of the sum of all outputs, whatever v is."""
    ones = suspect.pulled(suspect.values, np.ones(suspect.trials[0].weights.shape, dtype=np.int64))
    yield "v is not used: this is what v = ones gives, whatever v is", lambda trial: ones
    first = suspect.trials[0].got
    if first.any():
        yield "v is not used: the same comes whatever v is", lambda trial: first


def _one_use(suspect: Suspect) -> Iterator[tuple[str, Callable[[Trial], Array]]]:
    """The share of one use of an input that is used several times."""
    uses = suspect.sweep.uses if len(suspect.sweep.uses) > 1 else ()
    for number, (_, equation) in enumerate(uses, start=1):
        share = _share(suspect, equation)
        if share is not None:
            said = f"{suspect.name} is used {len(uses)} times, and this is the share of use {number} alone"
            yield said, share


def _share(suspect: Suspect, equation: object) -> Callable[[Trial], Array] | None:
    """What one use's equation gives; None where it needs more than the forward values."""

    def share(trial: Trial) -> Array:
        known = suspect.values.with_arrays({suspect.program.seed: trial.weights})
        return as_float(evaluate(equation, known.arrays, known.sizes))  # type: ignore[arg-type]  # an index equation

    try:
        share(suspect.trials[0])
    except (SymgradError, KeyError):
        return None
    return share


def _factor(trials: Sequence[Trial]) -> float | None:
    """The number by which the largest entry is off."""
    trial = max(trials, key=lambda t: float(np.abs(t.expected).max(initial=0.0)))
    if not trial.expected.any():
        return None
    at = np.unravel_index(int(np.argmax(np.abs(trial.expected))), trial.expected.shape)
    return float(trial.got[at] / trial.expected[at])


def _count(factor: float, trials: Sequence[Trial]) -> str:
    """Whether the factor is the number of outputs, or one over it."""
    size = trials[0].weights.size
    if size > 1 and np.isclose(factor, size, rtol=1e-4):
        return f": as if multiplied by the number of outputs, {size}"
    if size > 1 and np.isclose(factor, 1 / size, rtol=1e-4):
        return f": as if divided by the number of outputs, {size}"
    return ""


def _square(array: Array) -> bool:
    """Whether the last two axes are those of a square matrix of more than one row."""
    return array.ndim > 1 and array.shape[-1] == array.shape[-2] > 1
