"""One operand of one step of a formula: where a mistake may sit, the right local pullback there, and others.

Comes in: a program with its values. Goes out: a `Place`, with the step in standard names, its equation and its numbers;
and the local pullbacks of usual mistakes there, family by family, each with its kind and a clause.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import numpy as np
import sympy as sp

from symgrad.calculus import flowing, local_pullback, local_pushforward, standard
from symgrad.calculus.local_derivatives import SEED, TANGENT, Standard
from symgrad.entries.spec import Op
from symgrad.errors import SymgradError
from symgrad.indexing import Equation
from symgrad.indexing.symbols import names_read
from symgrad.language.expand import unify_step_shapes
from symgrad.numeric import Array, Values, as_float, forward
from symgrad.numeric.forward_pass import evaluated
from symgrad.numeric.vector_products import Pull, pull_step
from symgrad.ops.lookup import entry_of, has_role
from symgrad.program import Apply, Program, Role
from symgrad.shapes import SizeMismatch, Sizes
from symgrad.testing.bench import Trial
from symgrad.testing.slips import Case, Clause, Made, call_text, has_square_rows, jacobian_rows
from symgrad.testing.slips.formula_slips import altered_equations, describe_alteration
from symgrad.testing.trial_seeds import Weights

AXES = ("dim", "dims", "dim0", "dim1")
"""What options are called that name axes; torch calls them so in all of its functions."""
MOST_ENTRIES = 64
"""Of a local Jacobian's diagonal."""
UNFIT = (
    SymgradError, SizeMismatch, ArithmeticError, AttributeError, LookupError, ValueError, TypeError, AssertionError,
)  # fmt: skip
"""What an operation raises that was never meant for these operands or options."""

LocalPullback = Callable[[Array], Array]
"""What another local pullback makes of a cotangent."""
Found = Iterator[tuple[str, Clause, LocalPullback]]
"""The kind of a mistake, a clause, and the local pullback."""


@dataclass(frozen=True, eq=False)
class Place:
    """One operand of one step that a sweep back to the input of a case comes through, with ``cotangents`` by seed."""

    case: Case
    sweep: Pull
    cotangents: Callable[[Weights], Mapping[str, Array]]
    step: Apply
    position: int

    @property
    def program(self) -> Program:
        """The program of the sweep."""
        return self.sweep.program

    @property
    def values(self) -> Values:
        """Its numbers."""
        return self.sweep.values

    @cached_property
    def form(self) -> Standard:
        """The step in standard names."""
        return standard(self.step, self.program)

    @cached_property
    def equation(self) -> Equation:
        """Its local pullback."""
        return local_pullback(self.form.key, self.position)

    @property
    def operand(self) -> Array:
        """The operand's numbers."""
        return self.values[str(self.step.arguments[self.position])]

    @property
    def result(self) -> Array:
        """The step's result."""
        return self.values[self.step.result.name]

    @cached_property
    def read(self) -> dict[str, Array]:
        """The tensors of the forward pass that the local pullback reads."""
        read = names_read(self.equation.right)
        names = dict.fromkeys(name for own, name in self.form.names.items() if own in read)
        return {name: self.values.arrays[name] for name in names if name in self.values.arrays}

    @property
    def alone(self) -> bool:
        """Whether the program is this step."""
        return len([s for s in self.program.steps if not has_role(s.op, Role.COPIES)]) < 2

    @property
    def said(self) -> str:
        """``, in h = relu(t1)``; nothing where there is no other step."""
        return "" if self.alone else f", in {self.step.result.name} = {call_text(self.step)}"

    @property
    def seed(self) -> str:
        """What the cotangent of the result is called: v where what follows only passes it on."""
        name = self.step.result.name
        return self.program.seed if name == self.program.output or self.alone else f"v_{name}"

    def leads_to(self, names: Sequence[str]) -> bool:
        """Whether anything flows on from here to one of some inputs."""
        return str(self.step.arguments[self.position]) in flowing(self.program, names)

    def pulled(self, cotangent: Array, values: Values | None = None, step: Apply | None = None) -> Array:
        """The local pullback, with other numbers or another step in its place."""
        point = self.values if values is None else values
        return as_float(pull_step(step or self.step, self.program, point, cotangent, [self.position])[self.position])

    @cached_property
    def arrived(self) -> Callable[[Weights], tuple[Array, Array]]:
        """For a seed the cotangent of the result, and what the right local pullback makes of it."""

        def found(weights: Weights) -> tuple[Array, Array]:
            arrived = self.cotangents(weights).get(self.step.result.name)  # None where a write took its place
            cotangent = np.zeros(np.shape(self.result)) if arrived is None else as_float(arrived)
            return cotangent, self.pulled(cotangent)

        return cache(found)

    def through(self, part: Array) -> Array:
        """What of the gradient comes of a cotangent of the operand."""
        return as_float(self.sweep.back({str(self.step.arguments[self.position]): part})[self.case.name])

    def part(self, trial: Trial) -> Array:
        """What comes back through here."""
        return self.through(self.arrived(trial.weights)[1])

    def gradient(self, change: LocalPullback) -> Made:
        """The whole gradient with another local pullback here: a sweep is linear in what is carried."""

        def made(trial: Trial) -> Array:
            cotangent, right = self.arrived(trial.weights)
            return trial.expected + self.through(change(cotangent) - right)

        return made

    def reading(self, name: str, array: Array) -> LocalPullback:
        """The local pullback with other numbers in one of the tensors that it reads."""
        return partial(self.pulled, values=self.values.with_arrays({name: array}))

    def result_of(self, step: Apply, operand: Array) -> Array | None:
        """What another step gives by itself, with these numbers in the operand; None where it cannot be computed."""
        alone = self.program.alone(step)
        given = {t.name: self.values[t.name] for t in alone.inputs} | {str(step.arguments[self.position]): operand}
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an operation that was never meant for these numbers
                return as_float(forward(alone, given)[step.result.name])
        except UNFIT:
            return None

    def step_with(self, option: str, value: Hashable) -> Apply:
        """The step with another value for one of its options."""
        return replace(self.step, options=tuple((n, value if n == option else old) for n, old in self.step.options))

    def instead(self, step: Apply) -> LocalPullback:
        """The local pullback of another step in this place."""
        return partial(self.pulled, step=step)

    def fits(self, step: Apply) -> bool:
        """Whether another step, of these operands, is one, and says that its result is of the shape of this one's."""
        shapes = {n: tuple(map(sp.Integer, np.shape(self.values[n]))) for n in (*step.tensors, step.result.name)}
        try:
            unify_step_shapes(step, shapes, Sizes())  # the equation reads at the indices of a result of this shape
        except UNFIT:
            return False
        return True


def left_out_derivative(place: Place) -> Found:
    """What comes back is what came."""
    if np.shape(place.operand) == np.shape(place.result):
        said = f"v passes {place.step.called} unchanged: its derivative is left out"
        yield "missing_factor", said, lambda cotangent: cotangent


def altered_terms(place: Place) -> Found:
    """The formula with a term or a factor changed."""
    form, axes = place.form, place.equation.axes
    names = {**form.names, SEED: place.seed}
    for kind, clause, parts, right in altered_equations(place.equation):

        def change(cotangent: Array, right: sp.Expr = right) -> Array:
            return as_float(evaluated(Equation(axes, right), form, place.values, {SEED: cotangent}))

        yield kind, partial(describe_alteration, clause, parts, axes, names, form.sizes), change


def transposes(place: Place) -> Found:
    """An operand, the cotangent or what comes out of it, turned; of what reads v alone an axis is another one."""
    loses = np.ndim(place.operand) != np.ndim(place.result) and not place.read
    kind, turn = "wrong_axis" if loses else "transposed", partial(np.swapaxes, axis1=-1, axis2=-2)
    if has_square_rows(place.result):
        said = f"{place.seed} is {'summed over the wrong axis' if loses else 'transposed'}"
        yield kind, said, lambda cotangent: place.pulled(turn(cotangent))
    said = f"{place.seed} is broadcast along the wrong axis" if loses else "the gradient is transposed"
    rows = rearranged(place, has_square_rows, turn, said, "{} is transposed, or its transpose is missing")
    yield from ((kind, said, change) for said, change in rows)


def reversed_axes(place: Place) -> Found:
    """An operand, or what comes out, with the entries of its last axes in reverse order."""
    for axes, which in (((-1,), "its last axis"), ((-2, -1), "its last two axes")):
        reverse = f"in reverse order along {which}"

        def fits(array: Array, count: int = len(axes)) -> bool:
            return array.ndim >= count and array.shape[-count] > 1

        turn, said = partial(np.flip, axis=axes), f"{{}} is read {reverse}, or should be"
        rows = rearranged(place, fits, turn, f"the gradient is {reverse}", said)
        yield from (("flipped", said, change) for said, change in rows)


def rearranged(
    place: Place, fits: Callable[[Array], bool], turn: LocalPullback, result: str, operand: str
) -> Iterator[tuple[str, LocalPullback]]:
    """What comes out, then each tensor that is read, with its entries in other places; a clause for each."""
    if fits(place.operand):
        yield result, lambda cotangent: turn(place.pulled(cotangent))
    for name, array in place.read.items():
        if fits(array):
            yield operand.format(name), place.reading(name, turn(array))


def diagonal_only(place: Place) -> Found:
    """The diagonal of the local Jacobian alone, or the Jacobian without being transposed."""
    shape, form = np.shape(place.operand), place.form
    if place.alone or shape != np.shape(place.result) or not 1 < np.size(place.operand) <= MOST_ENTRIES:
        return

    def diagonally(cotangent: Array) -> Array:
        rows = jacobian_rows(place.pulled, shape).reshape(cotangent.size, -1)
        return np.diagonal(rows).reshape(shape) * cotangent

    def pushed(cotangent: Array) -> Array:
        equation = local_pushforward(form.key, place.position)
        return as_float(evaluated(equation, form, place.values, {TANGENT: cotangent}))

    yield "elementwise", "only the diagonal of the local Jacobian is there", diagonally
    yield "transposed", "the local Jacobian is used instead of its transpose", pushed


def other_operands(place: Place) -> Found:
    """Another tensor of the same shape in the place of one that the pullback reads."""
    tensors = {t.name: place.values[t.name] for t in place.program.tensors() if t.name in place.values.arrays}
    for name, own in place.read.items():
        for other, array in tensors.items():
            if other != name and np.shape(array) == np.shape(own):
                yield "wrong_operand", f"{other} is used instead of {name}", place.reading(name, array)


def wrong_axes(place: Place) -> Found:
    """Another axis in the place of the one that an option names."""
    rank, called = np.ndim(place.operand), place.step.called
    for option, value in place.step.options:
        several = isinstance(value, tuple)
        single = value[0] if isinstance(value, tuple) and len(value) == 1 else value
        if option not in AXES or type(single) is not int or not -rank <= single < rank:
            continue
        for other in (axis for axis in range(rank) if axis != single % rank):
            said = f"this is the result for axis {other}, but {called} is along axis {single % rank}"
            yield "wrong_axis", said, place.instead(place.step_with(option, (other,) if several else other))


def other_options(place: Place) -> Found:
    """The default in the place of an option, a switch the other way round, 0 or 1 for a number."""
    entry, called = entry_of(place.step.op), place.step.called
    for option, value in place.step.options:
        for other in other_option_values(entry, option, value) if entry is not None else ():
            step = place.step_with(option, other)
            result = place.result_of(step, place.operand) if place.fits(step) else None
            if result is not None and np.shape(result) == np.shape(place.result):
                said = f"this is what {option}={other!r} gives, and {called} has {option}={value!r} here"
                yield "wrong_option", said, place.instead(step)


def other_option_values(entry: Op, option: str, value: Hashable) -> list[Hashable]:
    """Other values that an option may have been given, and other words, as the examples of the entry have them."""
    if option in AXES or isinstance(value, tuple):
        return []
    parameter = entry.signature.parameters.get(option)
    found: list[Hashable] = [] if parameter is None or parameter.default is parameter.empty else [parameter.default]
    if isinstance(value, bool):
        found.append(not value)
    elif isinstance(value, (int, float)):
        found += [0, 1]
    elif isinstance(value, str):
        found += re.findall(rf"\b{option}=['\"](\w+)['\"]", " ".join(map(str, entry.examples)))
    return [other for other in dict.fromkeys(found) if other not in (None, value)]


FAMILIES: Sequence[Callable[[Place], Found]] = (
    left_out_derivative, altered_terms, transposes, wrong_axes, diagonal_only, other_operands, other_options,
    reversed_axes,
)  # fmt: skip
