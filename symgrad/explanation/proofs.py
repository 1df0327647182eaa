"""Compare every claim of an explanation with the oracles, each of which runs once for all inputs.

Comes in: a program with its numbers, and the derivation. Goes out: `Check`s, and a `Singular` if something is not
finite. Raises an error if the typed text has another value or gradient in torch than the program read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
import sympy as sp

from symgrad.errors import SymgradError
from symgrad.explanation.formulas import Derived
from symgrad.explanation.jacobian import Jacobian
from symgrad.explanation.singular import Singular, find_singular
from symgrad.functions import FLOATS_HOLD
from symgrad.numeric import Array, Values, evaluate, forward, numeric_pullback, term_sizes, without_fractions
from symgrad.numeric.exact import LARGEST_EXPONENT, as_float, is_finite
from symgrad.ops import entry_of
from symgrad.oracles.comparisons import (
    NO_GRADIENT,
    NO_PATH,
    REFUSES,
    SINGLE,
    TURNED,
    UNTAMED,
    Check,
    CheckVerdict,
    Comparison,
    Standing,
    Text,
    compare,
    compare_mathematics,
    compare_some,
    judge,
    skipped,
)
from symgrad.oracles.digits import PreciseGradients, keeps_digits, out_of_range, real_output, rounds_to_integers
from symgrad.oracles.elementwise import Elementwise, FormulaTooLong
from symgrad.oracles.evaluators import BY_ROUNDING
from symgrad.oracles.numerical import at_kinks, check_adjoint, check_differences, largest_number
from symgrad.oracles.torch import TorchRun, run_torch
from symgrad.oracles.torch_rules import at_ties, own_rule
from symgrad.oracles.typed_text import (
    CUTS,
    ask_torch,
    check_reading,
    describe_other_values,
    reading_error,
    same_beside,
)
from symgrad.program import Program

TORCH = "out.backward(v), torch {version}, float64"
FORMULA = "the index formula of the whole expression"
SYMPY = "SymPy, every entry of J differentiated on its own"
LARGEST_SYMPY = 1200
"""Entries of the largest Jacobian that is differentiated entry by entry."""
TOO_LONG = "the explicit formulas grow too long"
ROUNDED = 8
"""The error allowed in a sum, in units in the last place of its terms."""
CANCELLED = "terms as large as {size:.2g} cancel on the way to {name}, and floats keep about 16 digits of them"
LAST_DIGIT = "values up to {value:.2g} are subtracted, which loses digits"
IN_SINGLE = "torch's own gradient is off by {error:.0e}: it keeps an intermediate value in single precision"
AT_A_POINT = (
    "there is no derivative with respect to {name} at this point: {got:.4g} here, {torch:.4g} in torch; next to the "
    "point both agree"
)
NEIGHBOURS, MOST_LOST = 8, 1e-6
"""NEIGHBOURS: points tried beside the given one. MOST_LOST: the largest relative error that rounding may explain."""


class Proofs:
    """The oracles, each run once for all inputs."""

    def __init__(
        self, program: Program, values: Values, arrays: Mapping[str, Array], seed: Array, wanted: Sequence[str],
        text: Text | None,
    ) -> None:  # fmt: skip
        self.program, self.values, self.arrays, self.seed, self.text = program, values, arrays, seed, text
        self.torch: TorchRun | None = ask_torch(text, program, arrays, seed, wanted)
        if self.torch is not None and self.tame and not self.out_of_range:
            check_reading(program, arrays, values[program.output], self.torch)
        self.version = self.torch.version if self.torch else None
        self.gradients_out_of_range: list[str] = []
        self.truth = PreciseGradients(program, values, wanted)

    @cached_property
    def tame(self) -> bool:
        """Whether the squares of all finite intermediate values are within the range of floats."""
        return keeps_digits(self.values)

    @property
    def values_apart(self) -> tuple[str, ...]:
        """A sentence if torch's forward pass has another value than the equations, else none."""
        if self.torch is None or not np.size(self.torch.output) or self.out_of_range:
            return ()
        told = describe_other_values(self.program.output, self.values[self.program.output], self.torch.output)
        return (told,) if told else ()

    @property
    def lost(self) -> str:
        """A sentence if floats overflow on the way to the output or to a gradient, else empty."""
        return self.out_of_range or next(iter(self.gradients_out_of_range), "")

    @cached_property
    def out_of_range(self) -> str:
        """A sentence if floats overflow from finite inputs and make the output wrong, else empty."""
        if not all(is_finite(array).all() for array in self.arrays.values()) or (self.tame and self.all_finite()):
            return ""
        found, explicit = self.torch, self.elementwise
        there = None if found is None or found.refusal or found.refused else found.output
        real = None if isinstance(explicit, str) else real_output(explicit, anywhere=not self.tame)
        return out_of_range(self.program.output, self.values[self.program.output], there, real)

    def of(
        self, name: str, gradient: Array, matrix: Jacobian, derived: Derived, form: Check | None
    ) -> tuple[tuple[Check, ...], Singular | None]:
        """Return the checks of one input's gradient by every oracle, and a `Singular` if it is not finite."""
        entries = self.entries(name, matrix)
        known = None if isinstance(entries, str) else entries
        found = self.torch.gradients.get(name) if self.torch is not None else None
        met = find_singular(self.program, self.values, self.seed, gradient, name, derived.sweep, found, known)
        told = []
        if known is not None and not self.tame and self.all_finite() and not self.by_steps:
            real = as_float(self.seed).reshape(-1) @ as_float(known)
            told += [out_of_range(f"{name}.grad", gradient, found, real.reshape(np.shape(gradient)))]
        if derived.jacobian != 0 and self.seed.any():
            told += [self.truth.zero(name, gradient, self.seed, self.tame)]
        self.gradients_out_of_range += filter(None, told)
        standing = met.standing if met is not None else None
        if isinstance(entries, str):
            sympys = skipped(SYMPY, entries)
        else:
            sympys = self.by_sympy(entries, gradient, matrix, standing)
        if BY_ROUNDING in sympys.note and (true := self.truth.beside(name, self.seed)):
            sympys = replace(
                sympys, note=f"rounding loses the digits that decide: {true}; {sympys.note}", cancelled=True
            )
        exponents = any(equation.right.has(sp.exp) for _, equation in derived.sweep.stages)
        proven = exponents and sympys.verdict is CheckVerdict.AGREES and not sympys.note
        checks = [
            self.by_torch(name, gradient, standing, proven),
            sympys,
            self.in_digits(check_adjoint(self.program, self.values, self.seed, name, gradient)),
        ]
        if derived.sweep.whole:
            raw = evaluate(
                derived.sweep.equation, {**self.values.arrays, self.program.seed: self.seed}, self.values.sizes
            )
            whole_ = compare_mathematics(FORMULA, raw, gradient, standing)
            checks.append(self.in_digits(whole_))
        if form is not None:
            checks.append(form)
        if self.torch is None or checks[1].passed is None:
            quotients = check_differences(self.program, self.arrays, self.seed, name, gradient, standing)
            checks.append(self.in_digits(quotients))
        return tuple(self.of_rounding(check, name) for check in checks), met

    def in_digits(self, check: Check) -> Check:
        """Return ``check``, as skipped if it failed while digits are lost: either side may have lost them."""
        return skipped(check.oracle, UNTAMED) if check.passed is False and not self.tame else check

    def all_finite(self) -> bool:
        """Whether every intermediate value is finite."""
        return all(is_finite(array).all() for array in self.values.arrays.values())

    def by_torch(self, name: str, gradient: Array, standing: Standing | None, proven: bool) -> Check:
        """Compare with torch's ``backward(v)``; no path in torch counts as a zero gradient.

        If the formula has exponentials and is ``proven`` with many digits, torch may differ by rounded exponents.
        """
        if self.torch is None:
            return skipped("out.backward(v) by torch", "torch is not installed")
        if self.out_of_range and not is_finite(self.torch.output).all():
            return skipped("out.backward(v) by torch", UNTAMED)
        if self.torch.refused or self.torch.refusal:
            return skipped("out.backward(v) by torch", f"{REFUSES}{self.torch.refused or self.torch.refusal}")
        if name in self.torch.data:
            return skipped("out.backward(v) by torch", NO_GRADIENT)
        found = self.torch.gradients[name]
        note = NO_PATH if found is None else TURNED if self.torch.turned else ""
        expected = as_integers_if_exact(np.zeros(np.shape(gradient)) if found is None else found, gradient)
        oracle = TORCH.format(version=self.torch.version)
        case = Comparison(
            oracle, self.program, self.values, self.seed, name, expected, gradient, standing, self.text
        )  # fmt: skip
        reasons: list[Callable[[Check], Check]] = [
            partial(at_kinks, case), self.of_range, lambda check: self.of_rounding(check, name)
        ]  # fmt: skip
        reasons += [self.of_exponents] if proven else []
        cut = self.text is not None and CUTS.search(self.text.typed)
        by_steps = partial(self.by_steps_of, name, gradient, expected)
        reasons += [*([by_steps] if cut else []), partial(own_rule, case), partial(at_ties, case)]
        return judge(case.check(note), [*reasons, *([by_steps] if self.torch.text else [])])

    def of_range(self, check: Check) -> Check:
        """Return ``check``, as skipped if intermediate values are so large or small that digits are lost."""
        if self.tame:
            return check
        return skipped(check.oracle, f"{UNTAMED}: here {check.got:.4g}, torch {check.expected:.4g}")

    def by_steps_of(self, name: str, gradient: Array, expected: Array, check: Check) -> Check:
        """Raise an error if torch gives the derived gradient for the program's steps and another one for the text.

        If the two differ by no more than single precision, torch keeps an intermediate value in float32.
        """
        by_steps = run_torch(self.program, self.arrays, self.seed, [name])
        found = None if by_steps is None else by_steps.gradients.get(name)
        none = np.zeros(np.shape(gradient))
        if not compare("", none if found is None else found, as_float(gradient)).passed:
            return check
        if compare("", expected, as_float(gradient), SINGLE).passed:
            return replace(skipped(check.oracle, IN_SINGLE.format(error=check.max_error)), own_rule=True)
        if self.text is None or not same_beside(self.text, self.program, self.arrays, self.seed, name):
            raise reading_error(f"{name}.grad", gradient, expected)
        return replace(
            skipped(check.oracle, AT_A_POINT.format(name=name, got=check.got, torch=check.expected)), own_rule=True
        )

    def of_rounding(self, check: Check, name: str) -> Check:
        """Return ``check``, as skipped if its error is explained by rounding of terms that cancel."""
        if check.passed is not False or not check.max_error or not np.isfinite(check.max_error):
            return check  # where nothing is off, it failed for another reason
        even = np.ones(np.shape(self.seed))
        sizes = [term_sizes(self.program, [name], self.values, weights)[name] for weights in (self.seed, even)]
        largest = max((float(size.max(initial=0.0)) for size in sizes if size is not None), default=0.0)
        if check.max_error > ROUNDED * np.finfo(float).eps * largest:
            value = largest_number(self.values.arrays.values())
            digits = min(ROUNDED * np.finfo(float).eps * value, MOST_LOST)
            lost = check.expected is not None and check.max_error <= digits * max(1.0, abs(check.expected))
            if digits == MOST_LOST and not lost:  # each side may have been rounded to another neighbour
                lost = check.max_error <= 2 * change_between_neighbours(self.program, self.arrays, self.seed, name)
            return replace(skipped(check.oracle, LAST_DIGIT.format(value=value)), cancelled=True) if lost else check
        told = self.truth.beside(name, self.seed)
        if not told and check.worst is not None:
            told = f"summed in one order they give {check.got:.4g}, in another {check.expected:.4g}"
        note = CANCELLED.format(size=largest, name=name) + (f": {told}" if told else "")
        return replace(skipped(check.oracle, note), cancelled=True)

    def of_exponents(self, check: Check) -> Check:
        """Return ``check``, as skipped if its error is explained by rounding of large exponents."""
        value = largest_number(self.values.arrays.values())
        digits = ROUNDED * np.finfo(float).eps * value
        if digits < MOST_LOST or check.max_error is None or check.expected is None:
            return check
        lost = check.max_error <= np.expm1(min(digits, LARGEST_EXPONENT)) * max(1.0, abs(check.expected))
        return replace(skipped(check.oracle, LAST_DIGIT.format(value=value)), cancelled=True) if lost else check

    @cached_property
    def by_steps(self) -> bool:
        """Whether SymPy's real numbers cannot be used, since the program rounds to integers."""
        return isinstance(self.elementwise, str) or rounds_to_integers(self.elementwise)

    @cached_property
    def elementwise(self) -> Elementwise | str:
        """The explicit scalar formulas, or the reason why they are not formed."""
        try:
            return Elementwise(self.program, self.values)
        except FormulaTooLong:
            return TOO_LONG

    def entries(self, name: str, matrix: Jacobian) -> Array | str:
        """Return every entry of J differentiated separately by SymPy, or the reason why that was not done."""
        rows, columns = matrix.shape
        if rows * columns > LARGEST_SYMPY:
            return f"{rows}×{columns} entries are too many to write out one by one"
        if isinstance(self.elementwise, str):
            return self.elementwise
        try:
            return self.elementwise.jacobian(name)
        except FormulaTooLong:
            return TOO_LONG

    def by_sympy(self, entries: Array, gradient: Array, matrix: Jacobian, standing: Standing | None) -> Check:
        """Compare J and vᵀJ with every entry differentiated separately by SymPy."""
        rows, columns = matrix.shape
        found = matrix.dense()
        checked = compare_mathematics(SYMPY, entries, found)
        if not checked.passed:
            return self.by_sympy_in_part(entries, found)
        counted = np.asarray(self.seed).reshape(-1) != 0  # 0 times what is not there is 0 in the mathematics
        weighed = np.asarray(self.seed).reshape(-1)[counted] @ entries[counted] if rows else np.zeros(columns, np.int64)
        summed = compare_mathematics(SYMPY, weighed.reshape(np.shape(gradient)), gradient, standing)
        if not summed.passed:
            assert isinstance(self.elementwise, Elementwise)
            reasons = [why for row in np.flatnonzero(counted) if (why := self.elementwise.beyond(int(row)))]
            if reasons and not self.tame:  # the whole J lost the digits that SymPy's lost, the steps did not
                return skipped(SYMPY, reasons[0])
        worse = (summed.max_error or 0) > (checked.max_error or 0) or summed.undefined > checked.undefined
        return summed if not summed.passed or worse else checked

    def by_sympy_in_part(self, entries: Array, found: Array) -> Check:
        """Compare the rows in which the program's floats follow SymPy's real numbers; skip the others."""
        assert isinstance(self.elementwise, Elementwise)
        able, reasons = np.ones(found.shape, dtype=bool), []
        for row, (theirs, ours) in enumerate(zip(entries, found, strict=True)):
            if compare_mathematics(SYMPY, theirs, ours).passed:
                continue
            why = self.elementwise.beyond(row)
            if why:
                able[row] = False
                reasons.append(why)
        standing = Standing(as_float(entries), np.zeros(found.shape, dtype=bool))
        return compare_some(SYMPY, entries, found, able, reasons[0] if reasons else "", standing=standing)


def as_integers_if_exact(expected: Array, gradient: Array) -> Array:
    """Return torch's float64 result as integers if the derived result is integral and floats hold it exactly."""
    exactly, held = without_fractions(gradient), bool(np.all(np.abs(as_float(gradient)) < FLOATS_HOLD))
    if np.issubdtype(exactly.dtype, np.integer) and held and np.all(as_float(expected) == np.round(as_float(expected))):
        return np.asarray(expected).astype(np.int64)
    return expected


def change_between_neighbours(program: Program, inputs: Mapping[str, Array], seed: Array, name: str) -> float:
    """Return the largest change of vᵀJ when inputs move to neighbouring floats; 0 if a step has kinks."""
    entries = [entry_of(step.op) for step in program.steps]
    if not all(entry is not None and entry.smooth for entry in entries):
        return 0.0
    lots, own = np.random.default_rng(13), as_float(inputs[name])
    steps = [np.spacing(np.abs(own)) * lots.choice([-1.0, 0.0, 1.0], own.shape) for _ in range(NEIGHBOURS)]
    try:
        points = [forward(program, {**inputs, name: own + step}) for step in steps]  # equal numbers part, too
        found = [as_float(numeric_pullback(program, values, seed, [name])[name]) for values in points]
    except (SymgradError, ArithmeticError):
        return 0.0
    return float(np.nan_to_num(np.ptp(np.stack(found), axis=0)).max(initial=0.0))
