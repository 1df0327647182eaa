"""The derived sweeps in numbers: vᵀJ and Ju of a whole program, step by step, J never formed.

Comes in: a program, its forward values, a seed or a tangent. Goes out: one array per input. Each step
evaluates the pullback that was derived once for its operation, ranks and options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from symgrad.calculus import (
    carry_back,
    carry_on,
    flowing,
    local_pullback,
    local_pushforward,
    positions,
    standard,
)
from symgrad.calculus.local import SEED, TANGENT
from symgrad.numeric.exact import Array, finite, plus, total
from symgrad.numeric.forward import Values, evaluated, read_by, with_numbers_read
from symgrad.numeric.playing import evaluate
from symgrad.program import Apply, Program


def pull_step(
    step: Apply, program: Program, values: Values, cotangent: Array, wanted: Sequence[int]
) -> dict[int, Array]:
    """vᵀJ of one step by each of the ``wanted`` positions among its arguments.

    What is 0 whatever the numbers is still no number beside one that is not finite.
    """
    return pull_steps(step, program, values, [cotangent], wanted)[0]


def pull_steps(
    step: Apply, program: Program, values: Values, cotangents: Sequence[Array], wanted: Sequence[int]
) -> list[dict[int, Array]]:
    """`pull_step` for several cotangents: what the step is in general is asked once."""
    form = standard(step, program)
    arrays, sizes = read_by(form, values)
    found: list[dict[int, Array]] = [{} for _ in cotangents]
    for place in wanted:
        equation = local_pullback(form.key, place)
        for parts, cotangent in zip(found, cotangents, strict=True):
            if equation.right == 0 and not (finite(cotangent).all() and finite(values[step.result.name]).all()):
                parts[place] = _unfolded(step, program, values, cotangent, place)
            else:
                parts[place] = evaluate(equation, {**arrays, SEED: cotangent}, sizes)
    return found


def _unfolded(step: Apply, program: Program, values: Values, cotangent: Array, place: int) -> Array:
    """vᵀJ of one step with nothing folded away that is 0 at these sizes and constants."""
    form, numbers = with_numbers_read(step, program, values)
    return evaluated(local_pullback(form.key, place), form, values, {SEED: cotangent, **numbers})


def push_step(step: Apply, program: Program, values: Values, tangents: Mapping[int, Array]) -> Array:
    """Σ Ju of one step over the positions whose arguments change."""
    return push_steps(step, program, values, [tangents])[0]


def push_steps(step: Apply, program: Program, values: Values, changes: Sequence[Mapping[int, Array]]) -> list[Array]:
    """`push_step` for several changes at the same positions: what the step is in general is asked once."""
    form = standard(step, program)
    equations = {place: local_pushforward(form.key, place) for place in changes[0]}
    arrays, sizes = read_by(form, values)
    return [
        total([evaluate(equations[n], {**arrays, TANGENT: u}, sizes) for n, u in moved.items()]) for moved in changes
    ]


Watcher = Callable[[Apply, int, Array, Array], Array | None]
"""Told of a step, a place among its arguments, the cotangent that came in and what goes out; may return another."""


def numeric_pullback(
    program: Program, values: Values, seed: Array, wanted: Sequence[str], seen: Watcher | None = None
) -> Mapping[str, Array]:
    """vᵀJ for each of ``wanted``, by the derived local pullbacks from the output back; ``seen`` may watch or change."""
    return numeric_pullbacks(program, values, [seed], wanted, seen)[0]


def numeric_pullbacks(
    program: Program, values: Values, seeds: Sequence[Array], wanted: Sequence[str], seen: Watcher | None = None
) -> list[Mapping[str, Array]]:
    """`numeric_pullback` for several seeds, in one walk over the program."""
    reached = flowing(program, wanted)

    def pulled(step: Apply, cotangents: list[Array]) -> Iterator[tuple[str, list[Array]]]:
        places = positions(step, reached)
        found = pull_steps(step, program, values, cotangents, places) if places else []
        for place in places:
            parts = [by_place[place] for by_place in found]
            if seen is not None:
                told = [(part, seen(step, place, c, part)) for c, part in zip(cotangents, parts, strict=True)]
                parts = [part if other is None else other for part, other in told]
            yield str(step.arguments[place]), parts

    arrived = {program.output: [np.asarray(seed) for seed in seeds]}
    carried = carry_back(program.steps, arrived, pulled, lambda one, other: [*map(plus, one, other)], wanted)
    still = {name: np.zeros(values[name].shape, dtype=np.int64) for name in wanted if name not in carried}
    return [
        {name: still[name] if name in still else carried[name][trial] for name in wanted}
        for trial in range(len(seeds))
    ]  # fmt: skip


def numeric_pushforward(program: Program, values: Values, wanted: str, tangent: Array) -> Array:
    """J·u for a change u of one input, by the derived local pushforwards from the input on."""
    return numeric_pushforwards(program, values, wanted, [tangent])[0]


def numeric_pushforwards(program: Program, values: Values, wanted: str, tangents: Sequence[Array]) -> list[Array]:
    """J·u for several changes u of one input, in one walk over the program."""

    def pushed(step: Apply, moving: Mapping[int, Sequence[Array]]) -> Sequence[Array]:
        changes = [{n: moved[trial] for n, moved in moving.items()} for trial in range(len(tangents))]
        return push_steps(step, program, values, changes)

    still = np.zeros(values[program.output].shape, dtype=np.int64)
    return list(carry_on(program.steps, {wanted: tangents}, pushed).get(program.output, [still] * len(tangents)))
