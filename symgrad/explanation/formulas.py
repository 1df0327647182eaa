"""Everything about a gradient that needs no numbers: Jacobian, structure, pullback, closed form.

Comes in: a program whose sizes may be symbols. Goes out: a `Derived` for each input. A closed form is proven at some
sizes before anyone sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from symgrad.calculus import Sweep, jacobians, pullback, pullbacks
from symgrad.calculus.sweeps import Whole
from symgrad.closed_form import Form, closed_form_of, masked_form
from symgrad.errors import SymgradError
from symgrad.explanation.claims import UNSAID, Claim, Structure, proven
from symgrad.explanation.evidence import Evidence
from symgrad.explanation.structure import COMPOSED, suggested
from symgrad.indexing import Index, fresh_axes
from symgrad.indexing.symbols import Expr
from symgrad.numeric import Array, Values, forward
from symgrad.numeric.assumed import matrix_of_kind, read_as_whole
from symgrad.numeric.budget import check_program
from symgrad.oracles import Check, check_form
from symgrad.oracles.other_sizes import fits
from symgrad.program import Program

Shapes = Mapping[str, Sequence[int | str]]
WIDE, MOST_STEPS = 240, 20
"""Nodes of the formulas that a closed form may come from, in programs of at most so many steps."""
MOST_SAMPLED = 300_000
"""Entries of all tensors where formulas for every size are tried."""
SIZES: tuple[Callable[[int], Sequence[int]], ...] = (
    lambda count: range(2, 2 + count),
    lambda count: range(1 + count, 1, -1),
    lambda count: range(5 + count, 5, -1),
    lambda count: [4] * count,
)
"""What open sizes may be: all different, if that is possible."""


@dataclass(frozen=True)
class Derived:
    """Formulas for one input, for every size: the Jacobian, its structure, the pullback and its closed form.

    ``claims`` are what the formula suggests about the structure; ``structure`` what of it was tested at some sizes.
    ``whole`` is the pullback in one piece that the closed form was made from, however long it is.
    """

    name: str
    axes: tuple[Index, ...]
    inner: tuple[Index, ...]
    jacobian: Expr | None
    claims: tuple[Claim, ...]
    sweep: Sweep
    whole: Sweep
    form: Form | None
    structure: Structure = UNSAID


def derive(program: Program, wanted: Sequence[str]) -> Mapping[str, Derived]:
    """Everything about some inputs that needs no numbers, from one sweep over the program."""
    sweeps, jacobians_ = pullbacks(program, wanted), jacobians(program, wanted)
    return {name: derived_by(program, name, sweeps[name], jacobians_[name]) for name in wanted}


def derived_by(program: Program, name: str, sweep: Sweep, found: Whole | None) -> Derived:
    """Everything about one input, of its pullback and its Jacobian, None where that is too long."""
    short = sweep.whole or len(program.steps) > MOST_STEPS
    in_one = sweep if short else pullback(program, name, limit=WIDE)
    if found is None:
        axes, inner, formula = fresh_axes(program.out.shape), fresh_axes(program.tensor(name).shape, "pqrs"), None
        claims: tuple[Claim, ...] = (COMPOSED,)
    else:
        axes, inner, whole = found
        formula = whole.equation.right
        claims = suggested(program, name, axes, inner, formula)
    form = closed_form_of(program, name, lambda own: in_one if own is program else pullback(own, name, limit=WIDE))
    return Derived(name, axes, inner, formula, claims, sweep, in_one, form)


def derive_only(program: Program, wanted: Sequence[str], shapes: Shapes | None = None) -> tuple[Derived, ...]:
    """The formulas for each of ``wanted``: what `symgrad derive` shows, forms and structures proven at some sizes."""
    derived = derive(program, wanted)
    point = sample(program, shapes or {})
    return tuple(
        replace(d, form=proven_form(d, *point)[0] if point else None, structure=proven_structure(d, point))
        for d in derived.values()
    )


def proven_structure(derived: Derived, point: tuple[Program, Values, Array] | None) -> Structure:
    """The strongest claim about J that holds at a point with a number for each size."""
    if point is None or derived.jacobian is None:
        return proven(derived.claims, None)
    program, values, _ = point
    return proven(
        derived.claims, Evidence(program, derived.name, values, derived.axes, derived.inner, derived.jacobian)
    )


def sample(program: Program, shapes: Shapes) -> tuple[Program, Values, Array] | None:
    """The program with a number for each size, at a point inside every common domain, and a seed.

    The sizes are those of ``shapes``, unless those are large, and where they say nothing the first of some that go
    together; None if none do.
    """
    symbols = sorted({s for t in program.tensors() for size in t.shape for s in size.free_symbols}, key=str)
    told = {
        size: number
        for tensor in program.inputs
        for size, number in zip(tensor.shape, shapes.get(tensor.name, ()), strict=False)
        if size.is_Symbol and isinstance(number, int)
    }
    generator, whole = np.random.default_rng(3), read_as_whole(program)
    for known, numbers in product((told, {}) if told else ({},), SIZES):
        sized = replace(
            program, sizes={**dict(zip(symbols, numbers(len(symbols)), strict=True)), **known, **program.sizes}
        )
        try:
            if not fits(program, sized.sizes):
                continue
            check_program(sized, MOST_SAMPLED)
            inputs: dict[str, Array] = {
                t.name: generator.uniform(0.3, 0.9, size=sized.numbers(t.shape)) for t in program.inputs
            }
            inputs |= {
                name: generator.integers(low, high + 1, size=inputs[name].shape) for name, (low, high) in whole.items()
            }
            inputs = {name: matrix_of_kind(program, name, array) for name, array in inputs.items()}
            values = forward(sized, inputs)
        except (SymgradError, ValueError):  # a window longer than what it slides over
            continue
        return sized, values, generator.integers(-4, 5, size=sized.numbers(program.out.shape))
    return None


def proven_form(derived: Derived, program: Program, values: Values, seed: Array) -> tuple[Form | None, Check | None]:
    """The closed form if it agrees with the raw contraction; without that it is not shown, checks on or off."""
    if derived.form is None:
        return None, None
    checked = check_form(derived.form.text, program, derived.whole, values, seed)
    if checked.passed:
        return derived.form, checked
    masked = masked_form(program, derived.whole, derived.name)
    if masked is None:
        return None, None
    checked = check_form(masked.text, program, derived.whole, values, seed)
    return (masked, checked) if checked.passed else (None, None)
