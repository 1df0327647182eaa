"""The line that pulls a cotangent back through one group, made once for all groups of one structure.

Comes in: a group, the program it belongs to, and one tensor that it reads. Goes out: a `LineTemplate`, text over ``v``,
``out`` and ``a0, a1, …``, proven before anyone sees it; or none where there is no notation, with the index equation
that stands in its place. Twelve equal layers have one template for each of their tensors.

The closed form of a program is the line of all of it as one group, in the program's own names: of a program that is one
group, the backward has the same line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from operator import methodcaller

import numpy as np
import sympy as sp

from symgrad.backward.code import write_with_modules
from symgrad.backward.form_guards import add_guards, divide_twice, is_always_finite, product_to_where, use_letters
from symgrad.backward.groups import Group, group_program
from symgrad.backward.line_data import LineOrigin
from symgrad.backward.standard_groups import StandardGroup, group_values, standardise_group
from symgrad.backward.template_cache import (
    AUDIENCE,
    REMEMBERED,
    LineTemplate,
    TemplateKey,
    find_known_template,
    load_template,
    remember_template,
    save_template,
)
from symgrad.calculus import Rewrite, Sweep, flows
from symgrad.closed_form import UNGUARDED, find_closed_form
from symgrad.closed_form.array_code import count_grid, write_array_operations
from symgrad.closed_form.form import Form, derive_masked_form
from symgrad.errors import SymgradError
from symgrad.indexing import Equation, instantiate
from symgrad.language.python_text import add
from symgrad.language.syntax_tree import Literal
from symgrad.language.trees import FormCode, fill_slots, replace_names, tensor_names
from symgrad.lowering.graph import MOST_IN_GRID
from symgrad.notation.tree import Binary, Name, SyntaxNode
from symgrad.numeric import Array, Values, as_float, forward
from symgrad.numeric.exact import is_exact
from symgrad.oracles.forms import check_form, reader_of
from symgrad.program import Program, free_name
from symgrad.shapes import SlotSymbol

CAREFUL = frozenset({"none left out", "above the floor"})
"""Rules of closed forms that hold for the data at hand."""


def claim_form(origin: LineOrigin, masked: bool = False) -> Form | None:
    """The closed form of the pullback of a standard group, with the moves that led to it; not proven.

    If ``masked``, the one with a mask for the classes that are left out.
    """
    try:
        if masked:
            return derive_masked_form(origin.program, origin.sweep, origin.wanted)
        return find_closed_form(origin.program, origin.wanted, lambda own: replace(origin, program=own).sweep)
    except SymgradError:
        return None


@lru_cache(maxsize=REMEMBERED)
def derive_template(origin: LineOrigin, masked: bool = False) -> LineTemplate:
    """The form that is claimed for the pullback of a standard group, derived once and left for later runs."""
    question = TemplateKey(origin, "masked" if masked else "claimed")
    before = load_template(question)
    if before is not None:
        return before
    form = claim_form(origin, masked)
    if form is None:
        found = LineTemplate(None, origin)
    else:
        rules = tuple(dict.fromkeys(step.rule for step in form.steps))
        code = use_letters(origin.program, origin.wanted, form.code)
        found = LineTemplate(code, origin, rules, masked or not CAREFUL.isdisjoint(rules))
    save_template(question, found)
    return found


def template_for(
    standard: StandardGroup, wanted: str, unit: bool, values: Values | None, short: bool = False
) -> LineTemplate:
    """The proven line of a standard group by ``wanted``; without ``values`` it cannot be proven, and has no text.

    Where no notation is proven for all positions, those at hand have a line of their own; where there is none at all,
    array operations say it, unless only what is ``short`` is asked for.
    """
    found = settle_template(standard, wanted, unit, values, prove_notation)
    if found.code is not None:
        return replace(found, code=fill_slots(found.code, standard.numbers))
    if values is None:
        return found
    if standard.slots.found:
        return template_for(standard.at(standard.slots.found), wanted, unit, values, short)
    return found if short else settle_template(standard, wanted, unit, values, prove_array_operations)


Way = Callable[[StandardGroup, LineTemplate, Values], LineTemplate]
"""A way to say the line of a group that was derived and claimed, at values."""


def settle_template(standard: StandardGroup, wanted: str, unit: bool, values: Values | None, way: Way) -> LineTemplate:
    """The line as it is said one way, with its slots open; proven, unless it was before."""
    held = tuple((found.inner, name) for name, found in standard.held.items())
    origin = LineOrigin(standard.program, held, wanted, unit)
    question = TemplateKey(origin, way.__name__, AUDIENCE.get())
    before = find_known_template(question)
    if before is not None and (before.code is None or values is None or is_finite_form(before, standard, values)):
        return before
    claimed = derive_template(origin)
    if values is None:
        return replace(claimed, code=None)
    found = way(standard, claimed, values)
    if not claimed.careful and (claimed.code is None or is_finite_form(claimed, standard, values)):
        remember_template(question, found)  # where it is not defined, a convention holds, at this point
    return found


def prove_notation(standard: StandardGroup, claimed: LineTemplate, values: Values) -> LineTemplate:
    """The line as a person writes it, if that is proven."""
    audience = AUDIENCE.get()
    if claimed.code is not None and any(f"{call}(" in claimed.code.text for call in audience.unsaid):
        return LineTemplate(None, claimed.origin)
    if audience.run and claimed.code is not None:
        dropped = not UNGUARDED.isdisjoint(claimed.rules)
        held = (prove_guarded(claimed) if dropped else None) or claimed
        held = replace(held, code=held.code and held.code.changed(lambda tree: product_to_where(divide_twice(tree))))
        if held.code != claimed.code and is_proven(held, standard, values):
            return held
    if claimed.code is not None and is_proven(claimed, standard, values):
        return claimed
    masked, guarded = derive_template(claimed.origin, masked=True), prove_guarded(claimed)
    others = [other for other in (masked, guarded) if other is not None and other.code is not None]
    found = next((other for other in others if is_proven(other, standard, values)), None)
    return found or LineTemplate(None, claimed.origin, careful=claimed.code is not None or bool(others))


def prove_guarded(claimed: LineTemplate) -> LineTemplate | None:
    """The line with the condition that it leaves out elsewhere, for data at which it is 0 / 0: a norm of 0."""
    if claimed.code is None or claimed.origin.equation is None or claimed.code.definitions:
        return None
    code = add_guards(claimed.origin.program, claimed.origin.equation, claimed.code.last, claimed.origin.wanted)
    rules = tuple(rule for rule in claimed.rules if rule not in UNGUARDED)
    return None if code is None else replace(claimed, code=FormCode(code), rules=rules, careful=True)


def templates_of_group(
    form: StandardGroup, group: Group, reached: Collection[str], unit: bool, values: Values | None, short: bool = False
) -> Iterator[tuple[str, LineTemplate]]:
    """The line for each tensor that a group reads and that is ``reached``, by its standard name."""
    for own, name in form.names.items():
        if name in group.reads and name in reached and flows(form.program, own):
            yield own, template_for(form, own, unit, values, short)


def prove_array_operations(standard: StandardGroup, claimed: LineTemplate, values: Values) -> LineTemplate:
    """The line as array operations, where no notation is shorter; with the reason where there is none."""
    origin = claimed.origin
    code = write_array_line(origin)
    if code is None:
        return LineTemplate(None, origin, reason="no array operations of torch express this")
    points = count_grid(origin.sweep.equation.right, group_values(standard, values).sizes)  # no size has a slot in it
    if points > MOST_IN_GRID:
        reason = f"array operations would lay out a grid of {points:,} points"
        return LineTemplate(None, origin, (), True, reason=reason)
    code = code.changed(product_to_where) if AUDIENCE.get().run else code
    long = LineTemplate(code, origin, ("array operations",), lowered=True)
    if is_proven(long, standard, values):
        return long
    return LineTemplate(None, origin, (), True, reason="the array operations were not confirmed")


@lru_cache(maxsize=REMEMBERED)
def write_array_line(origin: LineOrigin) -> FormCode | None:
    """The line as array operations, before it is proven."""
    return write_array_operations(origin.program, origin.sweep, origin.wanted)


def is_finite_form(found: LineTemplate, standard: StandardGroup, values: Values) -> bool:
    """Whether a line has a finite value at the point: 0/0 there is not what was proven elsewhere."""
    assert found.code is not None
    code = fill_slots(found.code, standard.numbers)
    if is_always_finite(code):
        return True
    own = group_values(standard, values)
    known = {"v": np.ones(np.shape(own["out"])), "out": own["out"], **input_values(standard.program, own)}
    value = evaluate_line(code.text, known, found.lowered)
    return value is not None and bool(np.isfinite(as_float(value)).all())


def input_values(program: Program, values: Values) -> dict[str, Array]:
    """The values of the inputs alone."""
    return {tensor.name: values[tensor.name] for tensor in program.inputs}


def evaluate_line(text: str, known: Mapping[str, Array], as_lowered: bool) -> Array | None:
    """What a text comes to; None where it cannot be read, as a form that reads the output itself."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(reader_of(as_lowered)(text, known))
    except (SymgradError, ValueError, IndexError, KeyError):
        return None


def is_proven(claimed: LineTemplate, standard: StandardGroup, values: Values) -> bool:
    """Whether a line agrees with the index equation: at the point, and where that is cheap near it and elsewhere.

    With slots, at several positions: those at hand, the first, the last, and the ends against each other.
    """
    own, sweep, unit = group_values(standard, values), claimed.origin.sweep, claimed.origin.unit
    assert claimed.code is not None
    if not standard.slots.found:
        return agrees_at(claimed.code, claimed.lowered, sweep, standard, own, unit)
    for n, positions in enumerate(positions_to_try(standard, own)):
        here = standard.at(positions)
        numbers = {slot: sp.Integer(position) for slot, position in positions.items()}
        program = replace(here.program, sizes=own.sizes)
        point = forward(program, input_values(program, own)) if n else own
        code = fill_slots(claimed.code, tuple((slot.name, position) for slot, position in positions.items()))
        sized = sweep.changed(methodcaller("xreplace", numbers))
        if not agrees_at(code, claimed.lowered, sized, here, point, unit):
            return False
    return True


def positions_to_try(standard: StandardGroup, values: Values) -> Iterator[Mapping[SlotSymbol, int]]:
    """The positions at hand, and others that may stand in the slots."""
    slots, most = standard.slots, {}
    for slot, size in standard.slots.most.items():
        most[slot] = int(size.xreplace({own: sp.Integer(number) for own, number in values.sizes.items()}))
    first = dict.fromkeys(most, 0)
    mixed = {slot: last if n % 2 else 0 for n, (slot, last) in enumerate(most.items())}
    seen: list[Mapping[SlotSymbol, int]] = []
    for positions in ({slot: int(at) for slot, at in slots.found.items()}, first, most, mixed):
        if positions not in seen:
            seen.append(positions)
            yield positions


def agrees_at(
    code: FormCode, as_lowered: bool, sweep: Sweep, standard: StandardGroup, recorded: Values, unit: bool
) -> bool:
    """Whether a line agrees with the index equation, without slots."""
    program = replace(standard.program, sizes=recorded.sizes)
    held = {name: found.inner for name, found in standard.held.items()}
    if not tensor_names(code.last):  # a number reads back as no tensor
        code = replace(code, last=add(code.last, Binary("*", Literal(0), Name("v"))))
    for own in chain((recorded,), recompute_in_float64(program, recorded)):
        seed = np.ones(()) if unit else np.random.default_rng(5).integers(-4, 5, size=np.shape(own["out"]))
        if not is_exact(own["out"]):  # whole numbers beside floats would be computed in fractions
            seed = seed.astype(float)
        if check_form(code.text, program, sweep, own, seed, as_lowered, held).passed:
            return True
    return False


def recompute_in_float64(program: Program, recorded: Values) -> Iterator[Values]:
    """The values of a group in full precision: a run in floats of 32 bits rounds each of them, its output too."""
    try:
        found = forward(program, input_values(program, recorded))
    except SymgradError:
        return
    yield recorded.with_arrays(found.arrays)


@dataclass(frozen=True, eq=False)
class ProgramForm:
    """The closed form in the names of a program; ``template`` is what it was proven as, of ``standard``.

    ``bare`` is the form as symgrad reads it, its functions without their modules.
    """

    bare: str
    template: LineTemplate
    standard: StandardGroup

    @property
    def text(self) -> str:
        """The form as a page shows it: functions with their modules."""
        return write_with_modules(self.bare)

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules that led to it."""
        return self.template.rules

    @property
    def steps(self) -> tuple[Rewrite, ...]:
        """The moves that led to it, one by one, in the names of the program."""
        origin = self.template.origin
        axes, names, sizes = origin.sweep.equation.axes, self.standard.names, self.standard.own_sizes
        for form in (claim_form(origin), claim_form(origin, masked=True)):
            if form is not None and {*self.rules} <= {step.rule for step in form.steps}:
                own = [step for step in form.steps if step.rule in self.rules]
                moved = (instantiate(Equation(axes, step.formula), names, sizes) for step in own)
                return tuple(replace(step, formula=made.right) for step, made in zip(own, moved, strict=True))
        return ()


def prove_program_form(program: Program, wanted: str, values: Values) -> ProgramForm | None:
    """The gradient by ``wanted`` in matrix notation, proven at ``values``; None where there is no such form."""
    if not program.steps:
        return None
    standard = standardise_group(group_program(program), program.by_name, values, program.required)
    positions = standard.slots.found
    if len({*positions.values()}) < len(positions):  # what is read at one position twice has one term
        standard = standard.at(positions)
    own = next(std for std, name in standard.names.items() if name == wanted)
    found = template_for(standard, own, False, values, short=True)
    code = None if found.notation is None else name_form(found.notation, standard, program)
    return None if code is None else ProgramForm(code.text, found, standard)


def name_form(form: FormCode, standard: StandardGroup, program: Program) -> FormCode | None:
    """A form in the names of the program; None where it reads whole numbers that an operation found by itself."""
    if any(isinstance(node, Name) and node.name in standard.held for node in form.nodes()):
        return None
    names = {**standard.names, "v": program.seed}
    taken = {program.seed, *(t.name for t in program.inputs), *(step.result.name for step in program.forward_steps)}
    for name, _ in form.definitions:
        names[name] = free_name((name,), taken)
        taken.add(names[name])
    swap: dict[str, SyntaxNode] = {own: Name(name) for own, name in names.items()}
    named = form.changed(lambda tree: replace_names(tree, swap))
    return replace(named, definitions=tuple((names[name], value) for name, value in named.definitions))
