"""Mistakes in one step of the pullback: a term, a factor, an axis, an operand, or the whole step left out.

Comes in: the formula, an input and its trials. Goes out: `Slip` s that pull seeds back by the derived steps but
for one, whose local pullback is another: family by family, all steps of each; of composite operations also the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import sympy as sp

from symgrad.calculus import flowing, local_pushforward, positions
from symgrad.calculus.local import SEED, TANGENT
from symgrad.errors import SymgradError
from symgrad.indexing import Equation
from symgrad.language import expand_composites
from symgrad.numeric import Array, as_float, forward, numeric_pullback, unit_at
from symgrad.numeric.forward import evaluated
from symgrad.program import Apply
from symgrad.testing.right.bench import Trial
from symgrad.testing.right.truth import Formula
from symgrad.testing.slips.places import Change, Place, altered_equations, axes, options
from symgrad.testing.slips.slips import Slip, square

MOST = 600
"""Mistakes that are tried for one gradient."""
MOST_ENTRIES = 64


class Wrong(Protocol):
    """What the diagnosis knows of a wrong gradient."""

    @property
    def formula(self) -> Formula:
        """The right one."""

    @property
    def name(self) -> str:
        """By which input."""

    @property
    def trials(self) -> tuple[Trial, ...]:
        """What came."""

    @property
    def others(self) -> Mapping[str, bool]:
        """Of the other inputs, whether theirs is right."""


def step_slips(case: Wrong) -> Iterator[Slip]:
    """At most so many of them."""
    for count, slip in enumerate(every_slip(case)):
        if count == MOST:
            return
        yield slip


def every_slip(case: Wrong) -> Iterator[Slip]:
    """Family by family, first by the steps as they were written, then by what composite ones are made of."""
    right = [name for name, fine in case.others.items() if fine]
    for composite in (True, False):
        places = list(places_of(case.formula, case.name, composite))
        places.sort(key=lambda p: np.ndim(p.operand) == np.ndim(p.result))  # what loses an axis may lose the wrong one
        for shared in (False, True):  # a mistake on the way to a right gradient is believed last
            for family in FAMILIES:
                for place in (p for p in places if p.leads_to(right) == shared):
                    for kind, said, change in family(place):
                        yield Slip(kind, said, made(case.formula, case.name, place, change))


def places_of(formula: Formula, name: str, composite: bool) -> Iterator[Place]:
    """Every operand of every step that the gradient comes through; the parts of composite steps only if there are."""
    for number, (program, values) in enumerate(zip(formula.programs, formula.values, strict=True)):
        if not any(t.name == name for t in program.inputs):
            continue
        if not composite:
            try:
                wider = expand_composites(program)
                if len(wider.steps) == len(program.steps):
                    continue
                program, values = wider, forward(wider, {t.name: values[t.name] for t in wider.inputs})
            except SymgradError:
                continue
        reached = flowing(program, [name]) & program.relevant() | {name}
        for step in reversed(program.steps):
            if step.result.name in program.relevant():
                for position in positions(step, reached):
                    yield Place(program, values, number, step, position)


def made(formula: Formula, name: str, place: Place, change: Change) -> Callable[[Trial], Array]:
    """The gradient with one local pullback changed; the other outputs contribute what they should."""

    def gradient(trial: Trial) -> Array:
        seeds = trial.weights.seeds
        found = altered(place, seeds[place.number], name, change)
        rest = [formula.part(n, s)[name] for n, s in enumerate(seeds) if n != place.number]
        return np.asarray(sum(rest, found))

    return gradient


def altered(place: Place, seed: Array, name: str, change: Change) -> Array:
    """vᵀJ by the derived steps but for one."""

    def instead(step: Apply, position: int, cotangent: Array, part: Array) -> Array | None:
        return change(as_float(cotangent)) if step is place.step and position == place.position else None

    return as_float(numeric_pullback(place.program, place.values, seed, [name], instead)[name])


Family = Callable[[Place], Iterator[tuple[str, str, Change]]]


def left_out(place: Place) -> Iterator[tuple[str, str, Change]]:
    """Nothing comes back, or everything does."""
    zero = np.zeros(np.shape(place.operand))
    what = str(place.step.arguments[place.position])
    if not place.alone or len([a for a in place.step.tensors if a == what]) > 1:
        said = f"nothing comes back to {what} through {place.step.result.name} = {place.step.called}(…)"
        yield "missing_path", said, lambda cotangent: zero
    if np.shape(place.operand) == np.shape(place.result):
        said = f"v passes {place.step.called} unchanged: its derivative is left out{place.said}"
        yield "missing_factor", said, lambda cotangent: cotangent


def terms(place: Place) -> Iterator[tuple[str, str, Change]]:
    """The formula with a term or a factor changed."""
    form = place.form
    names = {**form.names, SEED: place.seed}
    for kind, said, right in altered_equations(place.equation, names, form.sizes):

        def change(cotangent: Array, right: sp.Expr = right) -> Array:
            wrong = Equation(place.equation.axes, right)
            return as_float(evaluated(wrong, form, place.values, {SEED: cotangent}))

        yield kind, f"{said}{place.said}", change


def transposed(place: Place) -> Iterator[tuple[str, str, Change]]:
    """An operand, the cotangent or what comes out of it, turned."""
    loses = np.ndim(place.operand) != np.ndim(place.result)
    seed = place.seed
    if square(place.result):
        kind = "wrong_axis" if loses else "transposed"
        said = f"{seed} is added up along the wrong axis" if loses else f"{seed} is transposed"
        yield kind, said + place.said, lambda cotangent: place.pulled(cotangent.swapaxes(-1, -2))
    if square(place.operand):
        kind = "wrong_axis" if loses else "transposed"
        said = f"{seed} is spread along the wrong axis" if loses else "what comes back is transposed"
        yield kind, said + place.said, lambda cotangent: place.pulled(cotangent).swapaxes(-1, -2)
    for name in dict.fromkeys(place.form.names.values()):
        array = place.values.arrays.get(name)
        if array is not None and square(array):
            turned = place.values.with_arrays({name: array.swapaxes(-1, -2)})
            said = f"{name} is transposed, or its transpose is missing{place.said}"
            yield "transposed", said, lambda cotangent, v=turned: place.pulled(cotangent, v)  # type: ignore[misc]  # a default binds


def flipped(place: Place) -> Iterator[tuple[str, str, Change]]:
    """An operand, or what comes out, with the entries of its last axes in reverse order."""
    for count in (1, 2):
        axes = tuple(range(-count, 0))
        reverse = f"in reverse order along {'its last axis' if count == 1 else 'its last two axes'}{place.said}"
        if np.ndim(place.operand) >= count:
            said = f"what comes back is {reverse}"
            yield "flipped", said, lambda cotangent, a=axes: np.flip(place.pulled(cotangent), a)  # type: ignore[misc]  # a default binds
        for name in dict.fromkeys(place.form.names.values()):
            array = place.values.arrays.get(name)
            if array is not None and array.ndim >= count and array.shape[-1] > 1:
                turned = place.values.with_arrays({name: np.flip(array, axes)})
                said = f"{name} is read {reverse}, or should be"
                yield "flipped", said, lambda cotangent, v=turned: place.pulled(cotangent, v)  # type: ignore[misc]  # a default binds


def scaled(place: Place) -> Iterator[tuple[str, str, Change]]:
    """What comes back through one step, times a number."""
    if place.alone:
        return
    sizes = {int(n) for a in (place.operand, place.result) for n in (*np.shape(a), np.size(a)) if n > 1} | {2}
    yield "sign", f"the sign is turned{place.said}", lambda cotangent: -place.pulled(cotangent)
    for n in sorted(sizes):
        for factor, text in ((float(n), f"{n} times"), (1 / n, f"1/{n} of")):
            said = f"what comes back is {text} what it should be{place.said}"
            yield "scaled", said, lambda cotangent, f=factor: f * place.pulled(cotangent)  # type: ignore[misc]  # a default binds


def diagonal(place: Place) -> Iterator[tuple[str, str, Change]]:
    """The diagonal of the local Jacobian alone, or the Jacobian without being transposed."""
    shape = np.shape(place.operand)
    if shape != np.shape(place.result) or not 1 < np.size(place.operand) <= MOST_ENTRIES:
        return
    if place.alone:
        return

    def diagonally(cotangent: Array) -> Array:
        found = np.zeros(shape)
        for at in np.ndindex(*shape):
            found[at] = place.pulled(unit_at(at, shape))[at]
        return found * cotangent

    yield "elementwise", f"only the diagonal of the local Jacobian is there{place.said}", diagonally
    form = place.form

    def pushed(cotangent: Array) -> Array:
        equation = local_pushforward(form.key, place.position)
        return as_float(evaluated(equation, form, place.values, {TANGENT: cotangent}))

    said = f"the local Jacobian itself stands where its transpose belongs{place.said}"
    yield "transposed", said, pushed


def operands(place: Place) -> Iterator[tuple[str, str, Change]]:
    """Another tensor of the same shape in the place of one that the pullback reads."""
    tensors = {t.name: place.values[t.name] for t in place.program.tensors() if t.name in place.values.arrays}
    for name in dict.fromkeys(place.form.names.values()):
        own = place.values.arrays.get(name)
        if own is None:
            continue
        for other, array in tensors.items():
            if other != name and np.shape(array) == np.shape(own):
                swapped = place.values.with_arrays({name: array})
                said = f"{other} is read where {name} belongs{place.said}"
                yield "wrong_operand", said, lambda cotangent, v=swapped: place.pulled(cotangent, v)  # type: ignore[misc]  # a default binds


FAMILIES: Sequence[Family] = (left_out, terms, transposed, axes, scaled, diagonal, operands, options, flipped)
