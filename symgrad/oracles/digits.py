"""Loss of digits in float64: saturated slopes, cancelling terms, underflow and overflow.

Comes in: a program at a point, with an equation about it, weights for its output, or the output as the steps make it
and as torch does. Goes out: the numbers of the same derived equations with many digits, and what a gradient that is 0
in floats truly is; a sentence for the page where the forward pass overflows (``x / x.norm()`` at 1e200 is 0 to a
program, 0.7 in truth), nothing where the steps are right. What is wrong in a formula stays wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import mpmath
import numpy as np
import sympy as sp

from symgrad.calculus import flowing, flowing_places, local_pullback, standard
from symgrad.calculus.local_derivatives import derive_local
from symgrad.errors import bug
from symgrad.functions import ceil, floor, nearest, trunc
from symgrad.indexing import Equation
from symgrad.indexing.symbols import Expr
from symgrad.language.arguments import format_entry_name, unravel_place
from symgrad.numeric import numeric_pullback
from symgrad.numeric.exact import Array, all_tame, as_float, is_exact
from symgrad.numeric.forward_pass import Values
from symgrad.numeric.symbols_and_digits import LAST, SATURATING, ManyDigits, TooLong
from symgrad.numeric.vector_products import Pull
from symgrad.program import Apply, Program

if TYPE_CHECKING:
    from symgrad.oracles.elementwise import Elementwise

DIGITS = 1400
"""Between the largest square of a float and the smallest lie 10^1264."""
LARGEST = 64
"""Entries of the largest result that is made again."""
FLAT = 5.0
"""From here on erf, the quickest of the functions that saturate, is 1 to all digits of a float but the last."""
SMALLEST = float(np.finfo(float).smallest_subnormal)
SAME, FAR = 1e-6, 1e-3
"""What differs by a larger share of the number is not rounding of it; of what differs so far digits decide."""
UNKNOWN = (
    "Intermediate values, or their squares, overflow or underflow: that {name}.grad is 0 says nothing about its "
    "derivatives"
)
WHY = {
    "underflow": "{step} underflows", "overflow": "{step} overflows", "saturated": "{step} is saturated",
    "cancelled": "terms of {step} cancel", "rounded": "{step} rounds it away",
    "shares": "terms as large as {most:.2g} are summed in it and cancel, and floats keep about 16 digits of them",
}  # fmt: skip
"""How a gradient becomes 0 in floats that is not: the slope of what is saturated is rounded to 0."""
FIRST, MORE = 60, 60
"""Digits of the first pass, and what the second has beyond those that saturated functions ask for."""


def keeps_digits(values: Values) -> bool:
    """Whether no number is so large or so small that what cancels could be all of a result."""
    floats = (as_float(array) for array in values.arrays.values())
    return all(all_tame(array[np.isfinite(array)]) for array in floats)


def lost_digits(program: Program, values: Values, equation: Equation, got: Array) -> Array | None:
    """The numbers of ``equation`` where ``got`` has lost them; None where it has not, or where that cannot be told."""
    if np.size(got) > LARGEST or keeps_digits(values):
        return None
    try:
        exact = as_float(ManyDigits(program, values, DIGITS).of(equation))
    except TooLong:
        return None
    ours = as_float(got)
    with np.errstate(invalid="ignore"):
        lost = np.isfinite(exact) & np.isfinite(ours) & (np.abs(exact - ours) > SAME * np.abs(exact))
        lost &= np.abs(exact - ours) > np.finfo(float).tiny
    return np.where(lost, exact, ours) if lost.any() else None


@dataclass(frozen=True)
class Lost:
    """A gradient that is 0 in floats and not in truth: ``size`` is its largest entry, as a text.

    ``how``, a word of `WHY`, is what happened in ``step``, or between the shares of several steps, the largest of which
    is ``most``. No float is as small as what is ``beyond``.
    """

    how: str
    size: str
    step: Apply
    beyond: bool
    most: float = 0.0

    def says(self, step: str) -> str:
        """Why, and how large it is; ``step`` is what the step is called."""
        small = ", smaller than any float" if self.beyond else ""
        return f"{WHY[self.how].format(step=step, most=self.most)}, and the largest entry is {self.size}{small}"

    def rows(self, name: str, step: str) -> str:
        """The same of J, where the gradient is 0 in truth."""
        return f"{WHY[self.how].format(step=step, most=self.most)}: its derivatives are 0 only because of rounding"


class PreciseGradients:
    """What comes back to the inputs ``names`` of a program, with as many digits as it takes."""

    def __init__(self, program: Program, values: Values, names: Sequence[str]) -> None:
        self.program, self.values, self.names = program, values, tuple(names)
        self._passes: dict[int, ManyDigits] = {}

    def zero(self, name: str, gradient: Array, weights: Array, tame: bool) -> str:
        """Why a gradient of 0 does not tell that its Jacobian is; empty where it does, or where it is not 0."""
        if is_exact(gradient) or gradient.any() or not gradient.size:
            return ""
        found, rows = self.lost(weights), self.rows
        if found is None or rows is None:
            return "" if tame else UNKNOWN.format(name=name)
        lost, row = found.get(name), rows.get(name)  # a sweep in another order may leave the last digit
        if lost is not None:
            return f"{name}.grad is 0 only because of rounding: {lost.says(str(lost.step.op))}"
        return "" if row is None else f"{name}.grad is 0, but J is not: {row.rows(name, str(row.step.op))}"

    @cached_property
    def rows(self) -> Mapping[str, Lost | None] | None:
        """`lost` of rows of J weighed at random: which J are 0 in floats, and which of those in truth."""
        shape = np.shape(self.values[self.program.output])
        return self.lost(np.random.default_rng(3).uniform(0.5, 1.5, size=shape))

    def hides(self, equation: Equation, got: Array) -> bool:
        """Whether an entry of what an equation comes to is 0 in floats alone; not where that takes too long to tell."""
        zero = as_float(got) == 0
        if is_exact(got) or not zero.any() or np.size(got) > LARGEST:
            return False
        try:
            rough, asked = self.at(FIRST).of(equation), self.at(FIRST).asked
            exact = self.at(FIRST + MORE + asked).of(equation)
        except TooLong:
            return False
        return is_nonzero(rough[zero], exact[zero], FIRST + MORE + asked, 1.0)

    def moves(self, name: str, weights: Array) -> bool:
        """Whether a gradient is not 0 in truth, as far as that is known."""
        try:
            return name in self.pulled(weights, [name])
        except TooLong:
            return False

    @cached_property
    def saturates(self) -> bool:
        """Whether a function on the way is so close to a limit that floats may round what is left of it to 0."""
        largest_of = {n: np.abs(as_float(a)).max(initial=0.0) for n, a in self.values.arrays.items()}
        far = (step for step in self.program.steps if any(largest_of[name] > FLAT for name in step.tensors))
        return any(derive_local(standard(step, self.program).key).equation.right.has(*SATURATING) for step in far)

    def beside(self, name: str, weights: Array) -> str:
        """What an entry of a gradient truly is, and what floats make of it; empty where the same, or unknown."""
        try:
            exact: Array = np.array(self.pulled(weights, [name]).get(name, 0), dtype=float)
        except TooLong:
            return ""
        ours = as_float(numeric_pullback(self.program, self.values, weights, [name])[name])
        off = np.nan_to_num(np.abs(exact - ours))
        if not np.any(off > FAR * np.abs(exact)):
            return ""
        at = unravel_place(int(np.argmax(off)), off.shape)
        entry = format_entry_name(f"{name}.grad", at)
        true = np.broadcast_to(exact, off.shape)[at]
        return f"{entry} is {true:.4g} exactly, and {ours[at] + 0.0:.4g} in floating point"

    def lost(self, weights: Array) -> Mapping[str, Lost | None] | None:
        """Of each gradient that is 0 in floats what it truly is, None where that is 0; None where it is not known."""
        shares: dict[str, float] = {}

        def seen(step: Apply, place: int, came: Array, part: Array) -> None:
            name, size = str(step.arguments[place]), float(np.abs(as_float(part)).max(initial=0.0))
            shares[name] = max(shares.get(name, 0.0), size)

        sweep = Pull(self.program, self.values, self.names, hook=seen)
        floats = sweep.back({self.program.output: weights}, every=True)
        nothing = [name for name in self.names if not np.any(as_float(floats[name]))]
        try:
            true = self.pulled(weights, nothing) if nothing else {}
        except TooLong:
            return None
        return {name: self._lost(name, true, floats, shares) if name in true else None for name in nothing}

    def pulled(self, weights: Array, names: Sequence[str]) -> Mapping[str, Array]:
        """What truly comes back to each tensor on the way to ``names``, where it is not 0; raises `TooLong`."""
        first = self.at(FIRST)
        rough = first.pulled(weights, names)
        second = self.at(FIRST + MORE + first.asked)
        exact = second.pulled(weights, names)
        scale = max(1.0, float(np.abs(as_float(weights)).max(initial=0.0)))
        return {name: array for name, array in exact.items() if is_nonzero(rough[name], array, second.digits, scale)}

    def at(self, digits: int) -> ManyDigits:
        """The forward pass with so many digits."""
        if digits not in self._passes:
            self._passes[digits] = ManyDigits(self.program, self.values, digits)
        return self._passes[digits]

    def _lost(
        self, name: str, true: Mapping[str, Array], floats: Mapping[str, Array], shares: Mapping[str, float]
    ) -> Lost:
        """Where, from the output on, the digits went."""
        on_the_way = flowing(self.program, (name,))
        size = largest_magnitude(true[name])
        found = partial(Lost, size=mpmath.nstr(size, 3), beyond=size < SMALLEST)
        for step in reversed(self.program.steps):
            for place in flowing_places(step, on_the_way):
                at = str(step.arguments[place])
                if at in true and not np.any(floats.get(at, 0)):
                    if shares.get(at):
                        return found("shares", step=step, most=shares[at])
                    how, where = self._how(step, place, true[at])
                    return found(how, step=where)
        raise bug(f"{name} underflows to 0")

    def _how(self, step: Apply, place: int, true: Array) -> tuple[str, Apply]:
        """What took the digits of ``true``, which came back through a step, and in which step."""
        if largest_magnitude(true) < SMALLEST:
            return "underflow", step
        numbers, most = self.at(FIRST).arrays, [abs(entry) for entry in true.flat].index(largest_magnitude(true))
        for name in (*step.tensors, step.result.name):
            ours, theirs = as_float(self.values[name]), numbers[name]
            lost = {"underflow": (ours == 0) & (theirs != 0), "overflow": np.isinf(ours) & (theirs != ours)}
            for how, gone in lost.items():
                if gone.flat[most] if gone.shape == true.shape else gone.any():
                    return how, next((made for made in self.program.steps if made.result.name == name), step)
        form = standard(step, self.program)
        if local_pullback(form.key, place).right.has(sp.Sum):
            return "cancelled", step
        return "saturated" if derive_local(form.key).equation.right.has(*SATURATING) else "rounded", step


def largest_magnitude(array: Array) -> Any:
    """The size of the largest entry."""
    return max((abs(entry) for entry in array.flat), default=0)


def is_nonzero(rough: Array, exact: Array, digits: int, scale: float) -> bool:
    """Whether more than the last digits is left of what two passes made, the second with so many digits.

    What cancels shrinks with each digit that is added; what is saturated does not.
    """
    first, second = largest_magnitude(rough), largest_magnitude(exact)
    if abs(first - second) <= SAME * second:
        return bool(second)
    most = (
        first * mpmath.mpf(10) ** (FIRST + 2 * LAST - digits)
        if first
        else scale * mpmath.mpf(10) ** (2 * LAST - digits)
    )
    return bool(second > most)


NOTHING = 1e-300
"""What is as good as 0 beside what an overflow makes."""
WHOLE = (sp.floor, sp.ceiling, floor, ceil, trunc, nearest)
TOLD = (
    "Intermediate values overflow or underflow: for {entry} the steps compute {made}. Results that depend on it "
    "cannot be used"
)


def out_of_range(name: str, ours: Array, torch: Array | None, real: Array | None) -> str:
    """Which entry of the output the steps have otherwise than real numbers; where those are not known, than torch.

    >>> out_of_range("out", np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([0.5, 1.0]))[:96]
    'Intermediate values overflow or underflow: for out[0] the steps compute 0 (in torch as well); in'
    >>> out_of_range("out", np.array([1.0]), None, np.array([1.0]))
    ''
    """
    steps = as_float(ours)
    theirs = None if torch is None or np.shape(torch) != steps.shape else as_float(torch)
    if real is not None:
        wrong = np.isinf(real) | (np.isfinite(real) & ~np.isclose(steps, real, rtol=SAME, atol=NOTHING))
    elif theirs is not None:
        wrong = np.isfinite(steps) & ~np.isfinite(theirs)
    else:
        return ""
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    made = [f"{float(steps[at]):.6g}"]
    if theirs is not None and np.array_equal(theirs[at], steps[at], equal_nan=True):
        made[0] += " (in torch as well)"
    elif theirs is not None:
        made.append(f"torch's {float(theirs[at]):.6g}")
    truth = ""
    if real is not None:
        truth = "; in truth " + (
            f"it is {real[at]:.6g}" if np.isfinite(real[at]) else "it is outside the range of floats"
        )
    return TOLD.format(entry=format_entry_name(name, at), made=", ".join(made) + truth)


def real_output(explicit: Elementwise, anywhere: bool) -> Array:
    """Every entry of the output as a real number, if ``anywhere`` or something overflowed on the way; else NaN."""
    from symgrad.oracles.elementwise import no_deeper

    entries = explicit.entries[explicit.program.output]
    if rounds_to_integers(explicit):
        return np.full(entries.shape, np.nan)
    with no_deeper():
        told = [
            to_real_float(explicit.point.value(entry)) if anywhere or overflows(explicit, row) else np.nan
            for row, entry in enumerate(entries.reshape(-1))
        ]
    return np.array(told).reshape(entries.shape)


def rounds_to_integers(explicit: Elementwise) -> bool:
    """Whether a step rounds to whole numbers: the real ones are rounded as the program's are, and may be others."""
    from symgrad.oracles.elementwise import definition

    return any(definition(step, explicit.program).right.has(*WHOLE) for step in explicit.program.steps)


def to_real_float(found: Expr) -> float:
    """A number of SymPy's, ±∞ where no float holds it; NaN where it is none, as √−1 is no real one."""
    return float(found) if found.is_finite and found.is_real else float("nan")


def overflows(explicit: Elementwise, row: int) -> bool:
    """Whether the program has ±∞ on the way to an output where there is a real number."""
    way = explicit.way_to(row, explicit.made_of)
    beyond = ((name, at) for name, at in way if np.isinf(as_float(explicit.values[name][at])))
    found = (explicit.point.value(explicit.entries[name][at]) for name, at in beyond)
    return any(not np.isnan(to_real_float(value)) for value in found)
