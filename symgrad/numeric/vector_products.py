"""The derived sweeps in numbers: vᵀJ and Ju of a whole program, step by step, J never formed.

Comes in: a program, its forward values, seeds or tangents. Goes out: one array per tensor that is asked for. Each step
evaluates the pullback that was derived once for its operation, ranks and options; one that nobody derived is a black
box, which has its own. Whoever goes through a step again and again asks for its pullback as a plan: `prepared` has
it lowered, or None where it has to be done step by step: exact numbers, values at the edges, arrays that would not fit.
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
from symgrad.numeric.forward_pass import Values, compute, evaluated, read_by, with_numbers_read
from symgrad.numeric.playing import asked_of, evaluate, in_type, plan_for
from symgrad.ops import entry_of
from symgrad.program import Apply, Program, Pushforward
from symgrad.shapes import Size

Read = tuple[Standard, Mapping[str, Array], Mapping[Size, int]]
"""A step in standard terms, and the arrays and sizes that its equations read."""
Hook = Callable[[Apply, int, Array, Array], Array | None]
"""Told of a step, a place among its arguments, the cotangent that came in and what goes out; may return another."""
Event = tuple[Apply, int, Array, Array]
"""What a hook is told."""


def read(step: Apply, program: Program, values: Values) -> Read:
    """What the equations of a step read."""
    form = standard(step, program)
    return form, *read_by(form, values)


def pull_step(
    step: Apply, program: Program, values: Values, cotangent: Array, wanted: Sequence[int], known: Read | None = None
) -> dict[int, Array]:
    """vᵀJ of one step by each of the ``wanted`` positions among its arguments; ``known`` is what it reads.

    What is 0 whatever the numbers is still no number beside one that is not finite.
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
    """vᵀJ of one step with nothing folded away that is 0 at these sizes and constants."""
    form, numbers = with_numbers_read(step, program, values)
    return evaluated(local_pullback(form.key, place), form, values, {SEED: cotangent, **numbers})


Taken = Callable[[str, Array], None]
"""What is given each cotangent by name, as soon as nothing more is added to it."""


@dataclass(eq=False)
class Pull:
    """A sweep back to ``wanted``, for as many seeds as are given: what a step reads is asked once.

    ``boxes`` are the steps that nobody derived, by the names of their results; ``hook`` is told of all others.
    """

    program: Program
    values: Values
    wanted: Sequence[str]
    boxes: Mapping[str, Any] = field(default_factory=dict)
    hook: Hook | None = None
    known: dict[str, Read] = field(default_factory=dict)

    @cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """Where among the arguments of each step anything flows back, by the name of its result."""
        reached = flowing(self.program, self.wanted)
        return {step.result.name: found for step in self.program.steps if (found := flowing_places(step, reached))}

    @cached_property
    def steps(self) -> tuple[Apply, ...]:
        """The steps that are pulled through."""
        return tuple(step for step in self.program.steps if step.result.name in self.places)

    def steps_of(self, step: Apply) -> tuple[Apply, ...]:
        """The steps that are pulled through together with one."""
        return (step,)

    @cached_property
    def stations(self) -> tuple[Apply, ...]:
        """Those steps, and one for every tensor that none of them makes, before the first that reads it."""
        found: dict[str, Apply] = {}
        for step in self.steps:
            for name in (name for own in self.steps_of(step) for name in own.tensors):
                found.setdefault(name, Apply("given", (), (), self.program.tensor(name)))
            found[step.result.name] = step
        return tuple(found.values())

    def back(self, seeds: Mapping[str, Array], every: bool = False, taken: Taken | None = None) -> dict[str, Array]:
        """vᵀJ for each of ``wanted``; with ``every``, of each tensor on the way: else what reached it is let go.

        ``taken`` is given each as soon as nothing more is added to it, and then it is let go, too.
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
        """What a step sends back to each of its arguments."""
        return ((str(step.arguments[place]), part) for _, place, _, part in self.through(step, cotangent))

    def through(self, step: Apply, cotangent: Array) -> Iterator[Event]:
        """The same place by place, as the hook has it."""
        name, places = step.result.name, self.places.get(step.result.name, ())
        if places and name in self.boxes:
            for place, part in self.boxes[name].pull(cotangent, places).items():
                yield step, place, cotangent, part
        elif places:
            for place, part in self.pulled(step, cotangent, places).items():
                other = None if self.hook is None else self.hook(step, place, cotangent, part)
                yield step, place, cotangent, part if other is None else other

    def pulled(self, step: Apply, cotangent: Array, places: Sequence[int]) -> Mapping[int, Array]:
        """By the derived equations."""
        name = step.result.name
        if name not in self.known:
            self.known[name] = read(step, self.program, self.values)
        return pull_step(step, self.program, self.values, cotangent, places, self.known[name])


def numeric_pullback(
    program: Program, values: Values, seed: Array, wanted: Sequence[str], seen: Hook | None = None
) -> Mapping[str, Array]:
    """vᵀJ for each of ``wanted``, by the derived local pullbacks from the output back; ``seen`` may watch or change."""
    return Pull(program, values, wanted, hook=seen).back({program.output: seed})


@lru_cache(maxsize=64)
def pushed(program: Program, names: tuple[str, ...], ends: tuple[str, ...]) -> Push:
    """`calculus.push`, made once."""
    return push(program, names, ends=ends)


def push_values(
    program: Program,
    values: Values,
    tangents: Mapping[str, Array],
    ends: Sequence[str] = (),
    boxes: Mapping[str, Any] | None = None,
) -> tuple[Push, Values]:
    """`calculus.push` for some changes, and the numbers of its steps beside ``values``; those of ``boxes`` by torch."""
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
    """Ju for each of ``ends``."""
    found, known = push_values(program, values, tangents, ends, boxes)
    nothing = (np.zeros(np.shape(values[end]), np.int64) for end in ends)
    return [known[found.tangents[n]] if n in found.tangents else zeros for n, zeros in zip(ends, nothing, strict=True)]


def numeric_pushforward(program: Program, values: Values, wanted: str, tangent: Array) -> Array:
    """J·u for a change u of one input."""
    return push_numbers(program, values, {wanted: tangent}, (program.output,))[0]


def prepared(
    step: Apply, program: Program, values: Values, wanted: Sequence[int], held: MutableMapping[str, Array], on: Engine
) -> tuple[Plan, list[str]] | None:
    """The plan of a step's pullback, and which tensor each of its inputs is, or `SEED`.

    ``held`` are forward values in the type in which they are computed with.
    """
    form, given, sizes = read(step, program, values)
    equations = tuple(local_pullback(form.key, place) for place in wanted)
    names = dict.fromkeys(name for e in equations for name in names_read(e.right) if name != SEED)
    if not names.keys() <= given.keys() or any(stays_exact(e, given) for e in equations):
        return None
    for own in names:
        if form.names[own] not in held:
            held[form.names[own]] = in_type(given[own])
    arrays = {own: held[form.names[own]] for own in names}
    if not all(map(all_tame, arrays.values())):
        return None
    seed = np.broadcast_to(0.0, np.shape(values[step.result.name]))
    try:
        plan = plan_for(replace(asked_of(equations, {**arrays, SEED: seed}, sizes, TAME), engine=on))
    except NoPlan:
        return None
    return plan, [form.names.get(own, SEED) for own in plan.inputs]


def stays_exact(equation: Equation, arrays: Mapping[str, Array]) -> bool:
    """Whether an equation would be computed in fractions, beside a seed in floats."""
    names = names_read(equation.right)
    if SEED in names:
        return False
    return is_rational(equation.right) and all(is_exact(arrays[name]) for name in names)
