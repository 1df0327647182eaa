"""The line that pulls a cotangent through one group, made once for groups that are built alike.

Comes in: a group, the program it belongs to, and one tensor that it reads. Goes out: a `Template`, text over ``v``,
``out`` and ``a0, a1, …``, proven before anyone sees it; or none where there is no notation, with the index equation
that stands in its place. Twelve equal layers have one template for each of their tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache

import numpy as np
import sympy as sp

from symgrad.backward.form_text import always_defined, chosen, in_own_letters, twice_divided, with_guards
from symgrad.backward.groups import Group
from symgrad.backward.line_data import Origin
from symgrad.backward.standard_groups import Standard, own_values
from symgrad.backward.template_cache import REMEMBERED, Question, Template, known, left, recalled, remember
from symgrad.backward.trees import filled, read_by
from symgrad.calculus import Sweep, flows
from symgrad.closed_form import UNGUARDED, count_grid, derive_masked_form, find_closed_form, write_array_operations
from symgrad.errors import SymgradError
from symgrad.indexing import Equation
from symgrad.numeric import Array, Values, as_float, evaluate, forward
from symgrad.numeric.exact import is_exact
from symgrad.numeric.limits import MOST_IN_GRID
from symgrad.oracles.forms import check_form, reader_of
from symgrad.oracles.report import compare
from symgrad.program import Program
from symgrad.shapes import Size, Slot

SMALL = 20_000
"""Entries of a group up to which a line is proven at more points than the one at hand."""
CAREFUL = frozenset({"none left out", "above the floor"})
"""Rules of closed forms that hold for the data at hand."""

_unsaid: ContextVar[frozenset[str]] = ContextVar("unsaid", default=frozenset())
_run: ContextVar[bool] = ContextVar("run", default=False)


@contextmanager
def to_be_run() -> Iterator[None]:
    """Inside, a line is for a program: it has the condition beside what it divides by, and divides by no square."""
    before = _run.set(True)
    try:
        yield
    finally:
        _run.reset(before)


@contextmanager
def without(calls: frozenset[str]) -> Iterator[None]:
    """Inside, no line says one of these calls: it is for a library that has none of them."""
    before = _unsaid.set(calls)
    try:
        yield
    finally:
        _unsaid.reset(before)


@lru_cache(maxsize=REMEMBERED)
def derived(origin: Origin) -> Template:
    """The form that is claimed for the pullback of a standard group."""
    question = Question(origin, "claimed")
    return recalled(question) or claimed_anew(question)


def claimed_anew(question: Question) -> Template:
    """It as it is derived, and left for later runs."""
    origin, program, wanted = question.origin, question.origin.program, question.origin.wanted
    try:
        form = find_closed_form(program, wanted, lambda own: replace(origin, program=own).sweep)
    except SymgradError:
        form = None
    if form is None:
        found = Template(None, origin)
    else:
        rules = tuple(dict.fromkeys(step.rule for step in form.steps))
        found = Template(in_own_letters(program, wanted, form.text), origin, rules, not CAREFUL.isdisjoint(rules))
    left(question, found)
    return found


def template(standard: Standard, wanted: str, unit: bool, values: Values | None, short: bool = False) -> Template:
    """The proven line of a standard group by ``wanted``; without ``values`` it cannot be proven, and has no text.

    Where no notation is proven for all positions, those at hand have a line of their own; where there is none at all,
    array operations say it, unless only what is ``short`` is asked for.
    """
    found = settled(standard, wanted, unit, values, as_notation)
    if found.text is not None:
        text = standard.in_numbers(found.text)
        return replace(found, text=None if any(f"{piece}." in text for piece in standard.pieces) else text)
    if values is None:
        return found
    if standard.slots.found:
        return template(standard.at(standard.slots.found), wanted, unit, values, short)
    return found if short else settled(standard, wanted, unit, values, as_arrays)


Way = Callable[[Standard, Template, Values], Template]
"""A way to say the line of a group that was derived and claimed, at values."""


def settled(standard: Standard, wanted: str, unit: bool, values: Values | None, way: Way) -> Template:
    """The line as it is said one way, with its slots open; proven, unless it was before."""
    held = tuple((found.inner, name) for name, found in standard.held.items())
    origin = Origin(standard.program, held, wanted, unit)
    question = Question(origin, way.__name__, _unsaid.get(), _run.get())
    before = known(question)
    if before is not None and (before.text is None or values is None or defined(before, standard, values)):
        return before
    claimed = derived(origin)
    if values is None:
        return replace(claimed, text=None)
    found = way(standard, claimed, values)
    if not claimed.careful and (claimed.text is None or defined(claimed, standard, values)):
        remember(question, found)  # where it is not defined, a convention holds, at this point
    return found


def as_notation(standard: Standard, claimed: Template, values: Values) -> Template:
    """The line as a person writes it, if that is proven."""
    if claimed.text is not None and any(f"{call}(" in claimed.text for call in _unsaid.get()):
        return Template(None, claimed.origin)
    if _run.get() and claimed.text is not None:
        dropped = not UNGUARDED.isdisjoint(claimed.rules)
        held = (guarded(claimed) if dropped else None) or claimed
        held = replace(held, text=chosen(twice_divided(str(held.text))))
        if held.text != claimed.text and proven(held, standard, values):
            return held
    if claimed.text is not None and proven(claimed, standard, values):
        return claimed
    others = [other for other in (masked(claimed.origin), guarded(claimed)) if other is not None]
    found = next((other for other in others if proven(other, standard, values)), None)
    return found or Template(None, claimed.origin, careful=claimed.text is not None or bool(others))


def guarded(claimed: Template) -> Template | None:
    """The line with the condition that it leaves out elsewhere, for data at which it is 0 / 0: a norm of 0."""
    if claimed.text is None or claimed.origin.equation is None or "; " in claimed.text:
        return None
    text = with_guards(claimed.origin.program, claimed.origin.equation, claimed.text, claimed.origin.wanted)
    rules = tuple(rule for rule in claimed.rules if rule not in UNGUARDED)
    return None if text is None else replace(claimed, text=text, rules=rules, careful=True)


@lru_cache(maxsize=REMEMBERED)
def masked(origin: Origin) -> Template | None:
    """The line with a mask for the classes that are left out."""
    try:
        form = derive_masked_form(origin.program, origin.sweep, origin.wanted)
    except SymgradError:
        return None
    return None if form is None else Template(form.text, origin, tuple(s.rule for s in form.steps), True)


def asked_of(
    form: Standard, group: Group, reached: Collection[str], unit: bool, values: Values | None, short: bool = False
) -> Iterator[tuple[str, Template]]:
    """The line for each tensor that a group reads and that is ``reached``, by its standard name."""
    for own, name in form.names.items():
        if name in group.reads and name in reached and flows(form.program, own):
            yield own, template(form, own, unit, values, short)


def as_arrays(standard: Standard, claimed: Template, values: Values) -> Template:
    """The line as array operations, where no notation is shorter; with the reason where there is none."""
    origin = claimed.origin
    text = written_out(origin)
    if text is None:
        return Template(None, origin, reason="no array operations of torch express this")
    points = count_grid(origin.sweep.equation.right, own_values(standard, values).sizes)  # no size has a slot in it
    if points > MOST_IN_GRID:
        return Template(None, origin, (), True, reason=f"array operations would lay out a grid of {points:,} points")
    long = Template(chosen(text) if _run.get() else text, origin, ("array operations",), lowered=True)
    if proven(long, standard, values):
        return long
    return Template(None, origin, (), True, reason="the array operations were not confirmed")


@lru_cache(maxsize=REMEMBERED)
def written_out(origin: Origin) -> str | None:
    """The line as array operations, before it is proven."""
    return write_array_operations(origin.program, origin.sweep, origin.wanted)


def defined(found: Template, standard: Standard, values: Values) -> bool:
    """Whether a text has a finite value at the point: 0/0 there is not what was proven elsewhere."""
    text = filled(str(found.text), standard.numbers)
    if always_defined(text):
        return True
    own = own_values(standard, values)
    known = {"v": np.ones(np.shape(own["out"])), "out": own["out"], **of_inputs(standard.program, own)}
    value = read_back(text, known, found.lowered)
    return value is not None and bool(np.isfinite(as_float(value)).all())


def of_inputs(program: Program, values: Values) -> dict[str, Array]:
    """The values of the inputs alone."""
    return {tensor.name: values[tensor.name] for tensor in program.inputs}


def read_back(text: str, known: Mapping[str, Array], as_lowered: bool) -> Array | None:
    """What a text comes to; None where it cannot be read, as a form that reads the output itself."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(reader_of(as_lowered)(text, known))
    except (SymgradError, ValueError, IndexError, KeyError):
        return None


def proven(claimed: Template, standard: Standard, values: Values) -> bool:
    """Whether a text agrees with the index equation: at the point, and where that is cheap near it and elsewhere.

    With slots, at several positions: those at hand, the first, the last, and the ends against each other.
    """
    own, sweep, unit = own_values(standard, values), claimed.origin.sweep, claimed.origin.unit
    if not standard.slots.found:
        return proven_at(str(claimed.text), claimed.lowered, sweep, standard, own, unit)
    for n, positions in enumerate(tried(standard, own)):
        here = standard.at(positions)
        numbers = {slot: sp.Integer(position) for slot, position in positions.items()}
        program = replace(here.program, sizes=own.sizes)
        point = forward(program, of_inputs(program, own)) if n else own
        text = filled(str(claimed.text), tuple((slot.name, position) for slot, position in positions.items()))
        if not proven_at(text, claimed.lowered, called_at(sweep, numbers), here, point, unit):
            return False
    return True


def tried(standard: Standard, values: Values) -> Iterator[Mapping[Slot, int]]:
    """The positions at hand, and others that may stand in the slots."""
    slots, most = standard.slots, {}
    for slot, size in standard.slots.most.items():
        most[slot] = int(size.xreplace({own: sp.Integer(number) for own, number in values.sizes.items()}))
    first = dict.fromkeys(most, 0)
    mixed = {slot: last if n % 2 else 0 for n, (slot, last) in enumerate(most.items())}
    seen: list[Mapping[Slot, int]] = []
    for positions in ({slot: int(at) for slot, at in slots.found.items()}, first, most, mixed):
        if positions not in seen:
            seen.append(positions)
            yield positions


def called_at(sweep: Sweep, numbers: Mapping[Slot, Size]) -> Sweep:
    """``sweep`` with positions in its slots."""
    stages = tuple((name, Equation(e.axes, e.right.xreplace(dict(numbers)))) for name, e in sweep.stages)
    return replace(sweep, stages=stages)


def proven_at(text: str, as_lowered: bool, sweep: Sweep, standard: Standard, recorded: Values, unit: bool) -> bool:
    """Whether a text agrees with the index equation, without slots."""
    program = replace(standard.program, sizes=recorded.sizes)
    points = (recorded, *recomputed(program, recorded))
    return any(agrees(text, as_lowered, sweep, standard, program, own, unit) for own in points)


def recomputed(program: Program, recorded: Values) -> Iterator[Values]:
    """The values of a group in full precision: a run in floats of 32 bits rounds each of them, its output too."""
    try:
        found = forward(program, of_inputs(program, recorded))
    except SymgradError:
        return
    yield recorded.with_arrays(found.arrays)


def agrees(
    text: str, as_lowered: bool, sweep: Sweep, standard: Standard, program: Program, own: Values, unit: bool
) -> bool:
    """`proven_at` for one set of values of a group."""
    shape = np.shape(own["out"])
    seed = np.ones(()) if unit else np.random.default_rng(5).integers(-4, 5, size=shape)
    if not is_exact(own["out"]):  # whole numbers beside floats would be computed in fractions
        seed = seed.astype(float)
    if not read_by([text.rpartition("; ")[2]]):  # a number reads back as no tensor
        text = f"{text} + 0 * v"
    if sum(np.size(a) for a in own.arrays.values()) <= SMALL:
        held = {name: found.inner for name, found in standard.held.items()}
        return check_form(text, program, sweep, own, seed, as_lowered, held).passed is True
    return at_the_point(text, sweep, program, own, seed, as_lowered)


def at_the_point(text: str, sweep: Sweep, program: Program, values: Values, seed: Array, as_lowered: bool) -> bool:
    """Whether a text gives what the index equation gives at one point."""
    written = read_back(text, {"v": seed, "out": values["out"], **of_inputs(program, values)}, as_lowered)
    raw = evaluate(sweep.equation, {**values.arrays, "v": seed}, values.sizes)
    return written is not None and compare("the line, read back and evaluated", raw, written).passed is True
