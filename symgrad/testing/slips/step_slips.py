"""Mistakes in one step: in its pullback, or as if it were another operation of the table, or left out.

Comes in: a `Case`. Goes out: `Slip` s that pull seeds back by the derived steps but for one, whose local pullback is
another: family by family, all steps of each; of composite operations also the parts. For a relu that leaks or a maximum
that is shared the whole table is tried by differences along one direction, and what fits there is derived and confirmed
as any other slip; also the value of another operation in a slope's place. Left out is each step whose result has the
shape of an operand: a mask, a scale or a bias that the backward does not know of.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import chain, islice

import numpy as np

from symgrad.calculus import flowing
from symgrad.entries.spec import Op
from symgrad.errors import SymgradError
from symgrad.numeric import Array, Values, as_float, forward, forward_from, numeric_pullback, numeric_pushforward
from symgrad.numeric.vector_products import Pull
from symgrad.ops import TABLE
from symgrad.ops.lookup import entry_of
from symgrad.program import Apply, Program
from symgrad.testing.bench import Trial
from symgrad.testing.slips import Case, Slip, call_text
from symgrad.testing.slips.pullback_slips import AXES, FAMILIES, LocalPullback, Place
from symgrad.testing.slips.share_slips import GradientShare, Shares
from symgrad.testing.trial_seeds import Weights

MOST = 600
"""Mistakes that are tried for one gradient."""
STEP, NEAR = 1e-5, 1e-3
"""How far operands are moved, and how near to what came a difference has to be."""
TIMES = range(2, 17)
FEWEST = 3
"""Entries that a slope has to be of: fewer fit by accident."""
MOST_STEPS = 8
"""Steps that are held against the table."""
POWERS = (1.0, 0.5, -1.0, -0.5)
"""Of n / (n − 1), in a mean, a variance or a standard deviation."""


def step_slips(case: Case) -> Iterator[Slip]:
    """Family by family, first by the steps as they were written, then by what composite ones are made of."""
    return islice(every_slip(case), MOST)


def every_slip(case: Case) -> Iterator[Slip]:
    """All of them; a mistake on the way to a right gradient is believed last."""
    right = [name for name, fine in case.others.items() if fine]
    for composite in (True, False):
        places = list(gradient_places(case, composite))
        places.sort(key=lambda p: np.ndim(p.operand) == np.ndim(p.result))  # what loses an axis may lose the wrong one
        for shared in (False, True):
            chosen = [p for p in places if p.leads_to(right) == shared]
            uses = [use_shares(case, place) for place in chosen]
            yield from chain.from_iterable(shares.each() for shares in uses)
            for family in FAMILIES:
                for place in chosen:
                    for kind, said, change in family(place):
                        yield Slip(kind, said, place.gradient(change), place.said)
            for place, shares in zip(chosen, uses, strict=True):
                sizes = {n for a in (place.operand, place.result) for n in (2, *np.shape(a), np.size(a)) if n > 1}
                yield from shares.each([Fraction(a, b) for n in sorted(sizes) for a, b in ((n, 1), (1, n))])
                yield from shares.solved()


def gradient_places(case: Case, composite: bool) -> Iterator[Place]:
    """Every operand of every step that the gradient comes through; the parts of composite steps only if there are."""
    whole = zip(case.formula.programs, case.formula.values, strict=True)
    for number, found in enumerate(whole if composite else case.formula.opened):
        if found is None or not any(t.name == case.name for t in found[0].inputs):
            continue
        program, values = found
        sweep = Pull(program, values, [case.name])
        carried = cache(partial(every_cotangent, sweep, number))
        for step in (step for step in reversed(sweep.steps) if step.result.name in program.relevant):
            for position in sweep.places[step.result.name]:
                yield Place(case, sweep, carried, step, position)


def every_cotangent(sweep: Pull, number: int, weights: Weights) -> Mapping[str, Array]:
    """What arrives at each tensor of output ``number`` for a seed."""
    return sweep.back({sweep.program.output: weights.seeds[number]}, every=True)


def use_shares(case: Case, place: Place) -> Shares:
    """What comes back through one step, which may be missing or of another weight; not where that is everything."""
    what, step = str(place.step.arguments[place.position]), place.step
    several = step.tensors.count(what) > 1
    way = f"the gradient of {what}{f' as argument {place.position + 1}' if several else ''} through {step.result.name} "
    share = GradientShare(f"{way}= {call_text(step)}", place.part)
    return Shares(case, [share] if several or not place.alone else [])


def operation_slips(case: Case) -> Iterator[Slip]:
    """Of programs with one output, step by step from the end: what another operation of the table would give."""
    trial = max(case.trials, key=lambda t: float(np.abs(t.got - t.expected).max(initial=0.0)))
    for place in islice(gradient_places(case, True) if case.single else (), MOST_STEPS):
        for said, change in other_operations(case, place, trial):
            yield Slip("wrong_operation", said, place.gradient(change), place.said)


def other_operations(case: Case, place: Place, trial: Trial) -> Iterator[tuple[str, LocalPullback]]:
    """What the other operations of the table would give back along one direction, where it is what came."""
    program, values, name = place.program, place.values, case.name
    operand = str(place.step.arguments[place.position])
    carried, _ = place.arrived(trial.weights)
    along = direction = np.random.default_rng(0).uniform(0.5, 1.0, np.shape(values[name]))
    if operand != name:
        along = as_float(numeric_pushforward(replace(program, output=operand), values, name, direction))
    own = float(np.sum(place.part(trial) * direction))
    came = own + float(np.sum((trial.got - trial.expected) * direction))
    near = NEAR * max(abs(came), abs(own))
    for other in TABLE.values():
        step = step_by_operation(place, other)
        found = None if step is None else directional_slope(place, step, carried, along)
        if step is None or found is None:
            continue
        for times in (1, *TIMES) if np.shape(place.operand) != np.shape(place.result) else (1,):
            if found and abs(times * found - came) <= near:
                said = f"this is {f'{times} times ' * (times > 1)}what {other.name} gives, and not {place.step.called}"
                yield said, lambda cotangent, s=step, n=times: n * place.pulled(cotangent, step=s)  # type: ignore[misc]  # a default binds
        value = place.result_of(step, place.operand)
        if value is None or np.shape(value) != np.shape(place.operand) or len(np.unique(value)) < FEWEST:
            continue
        if not (value == np.round(value)).all() and abs(float(np.sum(carried * value * along)) - came) <= near:
            said = f"v is multiplied by {other.name}({operand}), which is not the derivative of {place.step.called}"
            yield said, partial(np.multiply, value)


def step_by_operation(place: Place, other: Op) -> Apply | None:
    """A step by another operation, with the options that both have; None where it asks for more, or fits no shape.

    Nobody takes pairs of real numbers for complex ones.
    """
    step = place.step
    entry = entry_of(step.op)
    pairs = frozenset() if entry is None else entry.traits.complex_pairs
    if other.name == step.op or other.variadic or len(other.operands) != len(step.arguments):
        return None
    if other.traits.complex_pairs != pairs:
        return None
    given, asked = dict(step.options), other.signature.parameters
    own = {name: given.get(name, asked[name].default) for name in asked if name not in other.operands}
    if any(value is inspect.Parameter.empty or (name in AXES and name not in given) for name, value in own.items()):
        return None
    found = replace(step, op=other.name, options=tuple(sorted(own.items())))
    return found if place.fits(found) else None


def directional_slope(place: Place, step: Apply, carried: Array, along: Array) -> float | None:
    """⟨carried, Ju⟩ of a step for a change u of its operand, by differences; None where it does not fit."""
    sides = [place.result_of(step, as_float(place.operand) + shift * along) for shift in (-STEP, STEP)]
    low, high = sides
    if low is None or high is None or np.shape(low) != np.shape(carried) or np.shape(high) != np.shape(carried):
        return None
    with np.errstate(all="ignore"):
        found = float(np.sum(carried * (high - low))) / (2 * STEP)
    return found if np.isfinite(found) else None


def forward_slips(case: Case) -> Iterator[Slip]:
    """The backward of another forward pass, or one that reads other numbers: a step left out, a variance by n − 1."""
    if case.single is None:
        return
    for kind, said, program, point in chain(shorter_programs(case, *case.single), recounted_points(case)):
        yield Slip(
            kind, said,
            lambda t, p=program, k=point: as_float(numeric_pullback(p, k, t.weights.seeds[0], [case.name])[case.name]),  # type: ignore[misc]  # a default binds
        )  # fmt: skip


def shorter_programs(case: Case, program: Program, values: Values) -> Iterator[tuple[str, str, Program, Values]]:
    """Each step that an input flows through left out, but for the last: that one is a factor of the pullback."""
    reached = flowing(program, case.formula.wanted)
    for step in program.steps:
        for operand in (o for o in dict.fromkeys(step.tensors) if o in reached and step.result.name != program.output):
            if np.shape(values[operand]) != np.shape(values[step.result.name]):
                continue
            other = program_without_step(program, step, operand)
            if not any(t.name == case.name for t in other.inputs) or not other.relevant:
                continue
            try:
                known = forward(other, {t.name: values[t.name] for t in other.inputs})
            except (SymgradError, ArithmeticError):
                continue
            said = f"this is the gradient of a function without {step.called}: {step.result.name} = {call_text(step)}, "
            yield "missing_step", f"{said}and the backward uses {operand} instead", other, known


def recounted_points(case: Case) -> Iterator[tuple[str, str, Program, Values]]:
    """The right lines, read at a variance or a mean that divides by n − 1 where n belongs, or the other way round."""
    for wider, known in filter(None, (case.single, *case.formula.opened)):
        for step in wider.steps:
            count = np.size(known[step.tensors[0]]) // max(np.size(known[step.result.name]), 1) if step.tensors else 0
            for power in POWERS if count > 1 else ():
                result = as_float(known[step.result.name]) * (count / (count - 1)) ** power
                point = forward_from(wider, known, {step.result.name: result})
                others = (f"n − 1 = {count - 1}", "n") if power > 0 else (f"n = {count}", "n − 1")
                said = f"the lines are right with {' in the place of '.join(others)}, in {step.result.name} = "
                yield "wrong_option", said + call_text(step), wider, point


def program_without_step(program: Program, step: Apply, operand: str) -> Program:
    """The program in which whoever read the result of ``step`` reads one of its operands."""
    gone = step.result.name
    steps = tuple(
        replace(other, arguments=tuple(operand if a == gone else a for a in other.arguments))
        for other in program.steps
        if other is not step
    )
    return replace(program, steps=steps)
