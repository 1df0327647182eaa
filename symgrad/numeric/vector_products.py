"""vᵀJ and Ju of a whole program in numbers, step by step, without forming J.

Comes in: a program, its forward values, seeds or tangents. Goes out: one array for each requested tensor. Each step
evaluates the pullback derived for its operation, ranks and options; an opaque step has torch's. For repeated sweeps
`prepared` lowers a step's pullback to a plan, or returns None if it must be evaluated as above: for exact numbers,
extreme values, and arrays that would not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from symgrad.calculus import (
    Push,
    carry_back,
    flowing,
    flowing_places,
    local_pullback,
    push,
    standard,
)
from symgrad.calculus.local_derivatives import SEED, Standard
from symgrad.indexing import Equation
from symgrad.indexing.symbols import names_read
from symgrad.lowering import Plan
from symgrad.lowering.arrays import Engine, is_rational
from symgrad.lowering.graph import TAME, NoPlan
from symgrad.numeric.exact import Array, all_tame, is_exact, is_finite, plus
from symgrad.numeric.forward_pass import Values, compute, evaluated, read_by, with_constants_as_tensors
from symgrad.numeric.playing import evaluate, integers_or_floats, plan_for, plan_key
from symgrad.ops import entry_of
from symgrad.program import Apply, Program, Pushforward
from symgrad.shapes import Size

Read = tuple[Standard, Mapping[str, Array], Mapping[Size, int]]
"""A step in standard terms, and the arrays and sizes that its equations read."""
Hook = Callable[[Apply, int, Array, Array], Array | None]
"""Called with a step, the place of an argument, the cotangent and the pullback's result, which it may replace."""
Event = tuple[Apply, int, Array, Array]
"""The arguments of a hook."""


def read(step: Apply, program: Program, values: Values) -> Read:
    """Return a step in standard terms, and the arrays and sizes that its equations read."""
    form = standard(step, program)
    return form, *read_by(form, values)


def pull_step(
    step: Apply, program: Program, values: Values, cotangent: Array, wanted: Sequence[int], known: Read | None = None
) -> dict[int, Array]:
    """Return vᵀJ of one step with respect to the arguments at the ``wanted`` places; ``known`` caches `read`.

    A pullback that is identically 0 gives NaN for a cotangent or output that is not finite.
    """
    form, arrays, sizes = known or read(step, program, values)
    found = {}
    for place in wanted:
        equation = local_pullback(form.key, place)
        if equation.right == 0 and not (is_finite(cotangent).all() and is_finite(values[step.result.name]).all()):
            found[place] = _unfolded(step, program, values, cotangent, place)
        else:
            found[place] = evaluate(equation, {**arrays, SEED: cotangent}, sizes)
    return found


def _unfolded(step: Apply, program: Program, values: Values, cotangent: Array, place: int) -> Array:
    """Return vᵀJ of one step by the general equation, without simplifications for these sizes and constants."""
    form, numbers = with_constants_as_tensors(step, program, values)
    return evaluated(local_pullback(form.key, place), form, values, {SEED: cotangent, **numbers})


Taken = Callable[[str, Array], None]
"""Receives each cotangent by name, as soon as it is complete."""


@dataclass(eq=False)
class Pull:
    """A reverse sweep to ``wanted``, for any number of seeds; arrays that steps read are looked up once.

    ``boxes`` are the opaque steps by the names of their results; ``hook`` is called for all others.
    """

    program: Program
    values: Values
    wanted: Sequence[str]
    boxes: Mapping[str, Any] = field(default_factory=dict)
    hook: Hook | None = None
    known: dict[str, Read] = field(default_factory=dict)

    @cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """The places of arguments with a gradient of each step, by the name of its result."""
        reached = flowing(self.program, self.wanted)
        return {step.result.name: found for step in self.program.steps if (found := flowing_places(step, reached))}

    @cached_property
    def steps(self) -> tuple[Apply, ...]:
        """The steps of the sweep."""
        return tuple(step for step in self.program.steps if step.result.name in self.places)

    def steps_of(self, step: Apply) -> tuple[Apply, ...]:
        """Return the steps that are evaluated together with one step."""
        return (step,)

    @cached_property
    def stations(self) -> tuple[Apply, ...]:
        """The steps of the sweep, and a placeholder before the first reader of every tensor that no step computes."""
        found: dict[str, Apply] = {}
        for step in self.steps:
            for name in (name for own in self.steps_of(step) for name in own.tensors):
                found.setdefault(name, Apply("given", (), (), self.program.tensor(name)))
            found[step.result.name] = step
        return tuple(found.values())

    def back(self, seeds: Mapping[str, Array], every: bool = False, taken: Taken | None = None) -> dict[str, Array]:
        """Return vᵀJ for each of ``wanted``; with ``every``, for each tensor of the sweep.

        Other cotangents are freed early. With ``taken``, each result is passed to it when complete, and then freed.
        """
        carried, found = {name: np.asarray(seed) for name, seed in seeds.items()}, dict[str, Array]()
        waiting, taken = dict.fromkeys(self.wanted), taken or found.__setitem__

        def pulled(step: Apply, cotangent: Array) -> Iterable[tuple[str, Array]]:
            if every or step.result.name in waiting:
                waiting.pop(step.result.name, None)
                taken(step.result.name, cotangent)
            return self.call(step, cotangent)

        carry_back(self.stations, carried, pulled, plus, ())
        for name in dict.fromkeys((*waiting, *(carried if every else ()))):  # of what no step reads or makes
            taken(name, carried[name] if name in carried else np.zeros(np.shape(self.values[name]), np.int64))
        return found if every else {name: found[name] for name in self.wanted if name in found}

    def call(self, step: Apply, cotangent: Array) -> Iterable[tuple[str, Array]]:
        """Iterate over the contributions of a step to the cotangents of its arguments."""
        return ((str(step.arguments[place]), part) for _, place, _, part in self.through(step, cotangent))

    def through(self, step: Apply, cotangent: Array) -> Iterator[Event]:
        """Iterate over the events of a step's pullbacks, after the hook."""
        name, places = step.result.name, self.places.get(step.result.name, ())
        if places and name in self.boxes:
            for place, part in self.boxes[name].pull(cotangent, places).items():
                yield step, place, cotangent, part
        elif places:
            for place, part in self.pulled(step, cotangent, places).items():
                other = None if self.hook is None else self.hook(step, place, cotangent, part)
                yield step, place, cotangent, part if other is None else other

    def pulled(self, step: Apply, cotangent: Array, places: Sequence[int]) -> Mapping[int, Array]:
        """Return the pullbacks of a step by the derived equations."""
        name = step.result.name
        if name not in self.known:
            self.known[name] = read(step, self.program, self.values)
        return pull_step(step, self.program, self.values, cotangent, places, self.known[name])


def numeric_pullback(
    program: Program, values: Values, seed: Array, wanted: Sequence[str], seen: Hook | None = None
) -> Mapping[str, Array]:
    """Return vᵀJ for each of ``wanted`` by the derived local pullbacks; the hook ``seen`` may watch or change them."""
    return Pull(program, values, wanted, hook=seen).back({program.output: seed})


@lru_cache(maxsize=64)
def pushed(program: Program, names: tuple[str, ...], ends: tuple[str, ...]) -> Push:
    """Return `calculus.push`, cached."""
    return push(program, names, ends=ends)


def push_values(
    program: Program,
    values: Values,
    tangents: Mapping[str, Array],
    ends: Sequence[str] = (),
    boxes: Mapping[str, Any] | None = None,
) -> tuple[Push, Values]:
    """Return `calculus.push` for some tangents, and the values of its steps; those of opaque steps are torch's."""
    found = pushed(program, tuple(tangents), tuple(ends))
    known: Any = values.with_arrays({own: tangents[name] for name, own in found.directions.items()}).arrays
    whole = replace(found.program, sizes=values.sizes)
    for step in found.steps:
        op, name = step.op, step.result.name
        if isinstance(op, Pushforward) and entry_of(op) is None:
            changes = {place: known[str(u)] for place, u in zip(op.positions, step.arguments, strict=False)}
            known[name] = np.asarray((boxes or {})[str(step.arguments[len(op.positions)])].push(changes))
        else:
            compute(step, whole, known)
    return replace(found, program=whole), Values(known, values.sizes)


def push_numbers(
    program: Program,
    values: Values,
    tangents: Mapping[str, Array],
    ends: Sequence[str],
    boxes: Mapping[str, Any] | None = None,
) -> list[Array]:
    """Return Ju for each of ``ends``."""
    found, known = push_values(program, values, tangents, ends, boxes)
    nothing = (np.zeros(np.shape(values[end]), np.int64) for end in ends)
    return [known[found.tangents[n]] if n in found.tangents else zeros for n, zeros in zip(ends, nothing, strict=True)]


def numeric_pushforward(program: Program, values: Values, wanted: str, tangent: Array) -> Array:
    """Return J·u for a tangent u of one input."""
    return push_numbers(program, values, {wanted: tangent}, (program.output,))[0]


def prepared(
    step: Apply, program: Program, values: Values, wanted: Sequence[int], held: MutableMapping[str, Array], on: Engine
) -> tuple[Plan, list[str]] | None:
    """Return the plan of a step's pullback, and the tensor of each of its inputs (or `SEED`); None if there is no plan.

    ``held`` caches forward values in the dtype of the computation.
    """
    form, given, sizes = read(step, program, values)
    equations = tuple(local_pullback(form.key, place) for place in wanted)
    names = dict.fromkeys(name for e in equations for name in names_read(e.right) if name != SEED)
    if not names.keys() <= given.keys() or any(stays_exact(e, given) for e in equations):
        return None
    for own in names:
        if form.names[own] not in held:
            held[form.names[own]] = integers_or_floats(given[own])
    arrays = {own: held[form.names[own]] for own in names}
    if not all(map(all_tame, arrays.values())):
        return None
    seed = np.broadcast_to(0.0, np.shape(values[step.result.name]))
    try:
        plan = plan_for(replace(plan_key(equations, {**arrays, SEED: seed}, sizes, TAME), engine=on))
    except NoPlan:
        return None
    return plan, [form.names.get(own, SEED) for own in plan.inputs]


def stays_exact(equation: Equation, arrays: Mapping[str, Array]) -> bool:
    """Whether an equation would be computed in fractions although the seed is in floats."""
    names = names_read(equation.right)
    if SEED in names:
        return False
    return is_rational(equation.right) and all(is_exact(arrays[name]) for name in names)
