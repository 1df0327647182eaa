"""The outcome of holding a derived result against an independent one, and the reasons why the two may differ.

Comes in: two arrays and how closely they have to agree. Goes out: a `Check` with one of four verdicts, and the worst
entry named. A check that disagrees is a result, not an exception; and where the mathematics has no number there is
nothing to agree on: that is a verdict of its own, and no disagreement. `judge` asks for reasons, in order, while a
`Comparison` fails: each leaves entries out, or says why the check cannot be made. Kinks are in
`symgrad.oracles.numerical`, ties and torch's own rules in `symgrad.oracles.torch_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from symgrad.language.arguments import format_entry_name
from symgrad.numeric import Array, Values, as_float, forward, is_exact, is_finite
from symgrad.numeric.exact import gaps, largest_finite
from symgrad.program import Number, Program

TOLERANCE = 1e-9
"""How closely float64 results have to agree, relative to the largest entry."""
SINGLE = 2.0**-23
"""The last digit of single precision, in which torch keeps some numbers."""
TURNED = "signs of some vectors differ from torch (equally valid); they were aligned before comparing"
UNTAMED = "intermediate values overflow or underflow when squared, so digits are lost"


class CheckVerdict(StrEnum):
    """What a comparison came to."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNDEFINED = "undefined here"
    NOT_MADE = "skipped"


class TextOutcome(StrEnum):
    """What torch says of the text that the user typed."""

    EQUAL = "equal"
    AS_READ = "equal, as read here"
    REFUSED = "torch refuses this text"
    UNDERIVED = "torch has no derivative of this"
    DIFFERS = "differs"
    NOT_COMPARED = "not compared"


@dataclass(frozen=True, eq=False)
class Text:
    """A text as it was ``typed``; the ``numbers`` that names in it stand for; the random numbers drawn, in order.

    ``made`` are the inputs that it makes itself, ``truths`` those that were given in truth values, ``fixed`` those
    that are read as positions, classes or a mask, ``pairs`` those that are complex to torch.
    """

    typed: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    draws: tuple[Array, ...] = ()
    made: frozenset[str] = frozenset()
    truths: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    pairs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Check:
    """The result of one oracle.

    ``oracle`` names it in words; ``max_error`` is the largest difference (0 when the comparison is exact and
    holds, None when the check was skipped); ``passed`` is None when it was skipped, and ``note`` says why.
    ``undefined`` entries were left out, because there is no number there to agree on. ``own_rule`` is said where the
    oracle contradicts itself, and ``note`` says how; ``cancelled`` where rounding may have left any number.
    """

    oracle: str
    max_error: float | None
    passed: bool | None
    exact: bool = False
    note: str = ""
    worst: tuple[int, ...] | None = None
    expected: float | None = None
    got: float | None = None
    undefined: int = 0
    own_rule: bool = False
    cancelled: bool = False

    def __repr__(self) -> str:
        why = f": {self.note}" if self.note else ""
        return f"<{self.oracle}: {self.verdict.value}{why}>"

    @property
    def verdict(self) -> CheckVerdict:
        """In one word: agrees, differs, undefined here (and what is defined agrees), skipped."""
        if self.passed is None:
            return CheckVerdict.NOT_MADE
        if not self.passed:
            return CheckVerdict.DIFFERS
        return CheckVerdict.UNDEFINED if self.undefined else CheckVerdict.AGREES


@dataclass(frozen=True, eq=False)
class Standing:
    """What can be said at each entry of a gradient that meets what is not finite.

    ``mathematics`` is the derivative, NaN where there is none. ``void`` are entries of which nothing can be said
    at all: an output that they move and that counts has no value, or they lie at a kink, where any number between
    two slopes is as good as another.
    """

    mathematics: Array
    void: Array

    def apart(self, first: Array, second: Array, allowed: float) -> tuple[Array, Array]:
        """Where two answers are not to be held against each other, and where because nothing is defined there.

        A number that stands where the other answer has lost it to 0·∞ has to be the mathematics' own.
        """
        finite = np.isfinite(first) & np.isfinite(second)
        there = np.where(np.isfinite(first), first, np.where(np.isfinite(second), second, self.mathematics))
        with np.errstate(invalid="ignore"):
            right = np.abs(there - self.mathematics) <= np.maximum(allowed, TOLERANCE * np.abs(self.mathematics))
        undefined = self.void | (~finite & ~np.isfinite(self.mathematics))
        return undefined | (~finite & right), undefined


REFUSES = "torch refuses: "
"""What a check that was not made says, before torch's own words."""
NO_PATH = "torch leaves .grad at None: there is no path"
NO_GRADIENT = "torch refuses an input that requires a gradient"
"""Why torch has no gradient by an input."""


def skipped(oracle: str, why: str) -> Check:
    """A check that was not made, and why."""
    return Check(oracle, None, None, note=why)


def compare(
    oracle: str,
    expected: Array,
    got: Array,
    tolerance: float = TOLERANCE,
    note: str = "",
    standing: Standing | None = None,
) -> Check:
    """``got`` (derived) against ``expected`` (the oracle's), entry by entry.

    Exact arrays are compared exactly, others within ``tolerance`` of the largest entry. A NaN agrees only
    with a NaN, an infinity with itself; ``standing`` says where there is nothing to compare.
    """
    expected, got = np.asarray(expected), np.asarray(got)
    if expected.shape != got.shape:
        return Check(
            oracle, float("inf"), False, note=f"the oracle's shape is {expected.shape}, the derived {got.shape}"
        )
    a, b, gap, undefined = as_float(expected), as_float(got), gaps(expected, got), 0
    exact = is_exact(expected) and is_exact(got) and standing is None
    allowed = tolerance * max(1.0, largest_finite(a))
    if standing is not None:
        apart, void = standing.apart(a, b, allowed)
        gap, undefined = np.where(apart, 0.0, gap), int(void.sum())
    if gap.size == 0:
        return Check(oracle, 0.0, True, exact, note)
    equal = np.asarray(expected == got if exact else gap <= allowed, dtype=bool)
    gap = np.where(equal, 0.0, gap) if exact else gap
    worst = np.unravel_index(int(np.argmax(gap if equal.all() else np.where(equal, -1.0, gap))), gap.shape)
    at = tuple(int(i) for i in worst)
    return Check(oracle, float(gap.max()), bool(equal.all()), exact, note, at, float(a[at]), float(b[at]), undefined)


def compare_mathematics(oracle: str, mathematics: Array, program: Array, standing: Standing | None = None) -> Check:
    """A formula for the whole against what the program's steps give, one after the other.

    Where the steps meet 0·∞ the program has NaN and the formula may have a number, and where J does not
    exist the program's convention has a number and the formula none: neither is an error.
    """
    formula, steps = as_float(mathematics), as_float(program)
    if formula.shape != steps.shape or (is_finite(mathematics) & is_finite(program)).all():
        return compare(oracle, mathematics, program)
    void = np.zeros(formula.shape, dtype=bool) if standing is None else standing.void
    return compare(oracle, formula, steps, standing=Standing(formula, void))


def compare_some(
    oracle: str, expected: Array, got: Array, able: Array, why: str, tolerance: float = TOLERANCE,
    standing: Standing | None = None,
) -> Check:  # fmt: skip
    """`compare` where the oracle is ``able`` to judge; not made where it nowhere is. ``why`` says what hinders it."""
    if not able.any():
        return skipped(oracle, why)
    left = int(able.size - able.sum())
    note = f"{left} of {able.size} entries are left out: {why}" if left else ""
    return compare(oracle, np.where(able, as_float(expected), as_float(got)), as_float(got), tolerance, note, standing)


Place = tuple[int, ...]


def judge(found: Check, reasons: Iterable[Callable[[Check], Check]]) -> Check:
    """``found`` with the first reason that explains a difference; as it is where there is none, or no reason holds."""
    for reason in reasons:
        if found.passed is not False:
            break
        found = reason(found)
    return found


@dataclass(frozen=True, eq=False)
class Comparison:
    """vᵀJ by the input ``name`` as it was ``derived``, beside ``reference``, which ``oracle`` gave."""

    oracle: str
    program: Program
    values: Values
    seed: Array
    name: str
    reference: Array
    derived: Array
    standing: Standing | None = None
    text: Text | None = None
    tolerance: float = TOLERANCE
    answers: tuple[Array, Array] = field(init=False)
    """Both as floats, the reference first."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "answers", (as_float(self.reference), as_float(self.derived)))

    @cached_property
    def inputs(self) -> dict[str, Array]:
        """The numbers of the inputs."""
        return {t.name: self.values[t.name] for t in self.program.inputs}

    @cached_property
    def scale(self) -> float:
        """The largest number of the reference, 1 at least."""
        return max(1.0, largest_finite(self.answers[0]))

    @cached_property
    def differ(self) -> Sequence[Place]:
        """Where the two differ, by more than the last digit of single precision: that is no choice or other rule."""
        with np.errstate(invalid="ignore"):
            gap, size = np.abs(self.answers[0] - self.answers[1]), np.maximum(1.0, np.abs(self.answers[0]))
            off = gap > np.maximum(self.tolerance * self.scale, SINGLE * size)
        return [tuple(int(i) for i in at) for at in np.argwhere(off)]

    def check(self, note: str = "") -> Check:
        """The two as they are."""
        return compare(self.oracle, self.reference, self.derived, self.tolerance, note, self.standing)

    def without(self, places: Iterable[Place], note: str) -> Check:
        """The two without some entries, at which any number between is as good."""
        void = np.zeros(self.answers[0].shape, dtype=bool) if self.standing is None else self.standing.void.copy()
        for at in places:
            void[at] = True
        known = self.answers[1] if self.standing is None else self.standing.mathematics
        return replace(self, standing=Standing(as_float(known), void)).check(note)

    def entry(self, at: Place) -> str:
        """What an entry is called."""
        return format_entry_name(self.name, at)

    def total(self, at: Place) -> Callable[[float], float]:
        """Σ v·out for a shift of one entry."""
        return lambda shift: self.weighted(forward(self.program, self.moved(at, shift))[self.program.output])

    def weighted(self, output: Array) -> float:
        """Σ v·out; an output with the weight 0 does not count, even where it has no value."""
        counted = np.asarray(self.seed) != 0
        return float(np.sum(as_float(self.seed)[counted] * as_float(output)[counted]))

    def moved(self, at: Place, shift: float) -> dict[str, Array]:
        """The inputs, one entry shifted."""
        moved = as_float(self.values[self.name]).copy()
        moved[at] += shift
        return {**{name: as_float(array) for name, array in self.inputs.items()}, self.name: moved}
