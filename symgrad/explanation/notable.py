"""Sentences about a program's peculiarities, and about assumed values and sizes.

Comes in: a program with its numbers, or a parsed program and its inputs. Goes out: facts found on the numbers (the
origin of a division, broadcast pairs in a loss, gradients that detach leaves out); the assumptions printed at the top
of a page, and hints how to change them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import sympy as sp

from symgrad.calculus import local_jacobian
from symgrad.errors import InputError, Setting, SymgradError
from symgrad.explanation.given import Given, Seed
from symgrad.language import ParsedProgram
from symgrad.language.complaints import join_sizes
from symgrad.language.inference import find_broadcast_losses
from symgrad.numeric import Array, Values, as_float, forward, numeric_pullback
from symgrad.numeric.arranged import ONES
from symgrad.ops.lookup import entry_of, has_role, role_entry
from symgrad.program import Apply, Program, Role

CLOSE = 1e-6
"""Numbers this close are equal, relative to the larger."""


def find_means(program: Program, values: Values) -> Iterator[tuple[Apply, float]]:
    """Iterate over the steps that take a mean, with their divisors other than 1; 0 for a mean of no entries."""
    return ((step, count) for step, count in mean_divisors(program, values) if abs(count - 1) > CLOSE)


def mean_divisors(program: Program, values: Values) -> Iterator[tuple[Apply, float]]:
    """Iterate over the steps that take a mean, with the sum divided by the mean."""
    for step in program.steps:
        options = dict(step.options)
        out = values[step.result.name]
        if has_role(step.op, Role.AVERAGES):
            yield step, np.size(values[str(step.arguments[0])]) / max(1, np.size(out))
        elif options.get("reduction") == "mean" and isinstance(step.op, str) and entry_of(step.op) is not None:
            alone = loss_with_reduction(step, "sum", program, values)
            try:
                total = forward(alone, {t.name: as_float(values[t.name]) for t in alone.inputs})[step.result.name]
            except (SymgradError, ValueError, ArithmeticError):
                continue
            one, several = float(as_float(out)), float(as_float(total))
            if np.isfinite([one, several]).all() and one:
                yield step, several / one
            elif np.isnan(one) and several == 0:
                yield step, 0.0


def describe_mean(step: Apply, count: float, program: Program, values: Values) -> str:
    """Return ``mse_loss is a mean over 32 numbers, hence the factor 1/32, which with the 2 of the square is 1/16``.

    A weighted mean is called that: the divisor depends on the weights.
    """
    if count == 0:
        return f"{step.op} averages over no entries (0 / 0), so its mean is nan"
    number = f"{round(count)}" if abs(count - round(count)) < CLOSE * count else f"{count:.4g}"
    if has_role(step.op, Role.AVERAGES):
        return f"{step.op} averages over {number} terms, hence the factor 1/{number}"
    first, second, *others = step.tensors
    if any(
        abs(by_weights - count) > CLOSE * count for by_weights in divisors_when_doubled(step, program, values, others)
    ):
        return f"{step.op} is a weighted mean: {number} is the sum of the weights"
    one, other, n = as_float(values[first]), as_float(values[second]), round(count)
    chosen = 0 < other.ndim < one.ndim and n <= other.size  # classes, one for each row
    if chosen or (one.ndim > 1 and n == len(one) < one.size):
        over = f"{number} samples" if not chosen or n == other.size else f"the {number} of {other.size} that count"
    elif n != one.size:
        return f"{step.op} is a mean, hence the factor 1/{number}"
    else:
        over = f"{number} numbers"
    alone = loss_with_reduction(step, "sum", program, values)
    known = forward(alone, {name: as_float(values[name]) for name in step.tensors})
    slope = as_float(numeric_pullback(alone, known, np.ones(()), [first])[first])
    square = n == one.size and np.isclose(np.sum(slope**2), 4 * float(as_float(known[step.result.name])))
    halves = "the 2 of the square cancels" if n == 2 else f"with the 2 of the square is 1/{n / 2:.4g}"
    half = f", which {halves}" if square else ""
    return f"{step.op} is a mean over {over}, hence the factor 1/{number}{half}"


def loss_with_reduction(step: Apply, how: str, program: Program, values: Values) -> Program:
    """Return the program of a loss alone, with another reduction."""
    options = tuple((key, how if key == "reduction" else value) for key, value in step.options)
    return program.alone(replace(step, options=options), values.sizes)


def divisors_when_doubled(step: Apply, program: Program, values: Values, names: Sequence[str]) -> Iterator[float]:
    """Iterate over the divisors when one of ``names`` is doubled: they change only for weights."""
    alone = program.alone(step, values.sizes)
    for name in names:
        twice = {t.name: as_float(values[t.name]) * (1 + (t.name == name)) for t in alone.inputs}
        yield from (count for _, count in mean_divisors(alone, forward(alone, twice)))


def describe_zero_by_zero(program: Program, values: Values) -> str | None:
    """Return which step is 0/0 for all numbers: ``std divides 0 by 0, as one value has no variance``; else None."""
    undefined = next((said for step in program.steps if (said := why_always_undefined(step, program))), None)
    return undefined or next(
        (describe_mean(step, count, program, values) for step, count in find_means(program, values) if count == 0), None
    )


def why_always_undefined(step: Apply, program: Program) -> str | None:
    """Return a sentence if this step is 0/0 for all numbers at these sizes, else None."""
    if local_jacobian(step, program).equation.right is not sp.nan:
        return None
    why = ", as one value has no variance" if "correction" in dict(step.options) else ""
    return f"{step.op} divides 0 by 0{why}"


def describe_repeated_read(name: str, counts: Array) -> Iterator[str]:
    """Yield ``x[0] is read twice, so its 2 weights add up`` for the entry, or row, that is read most often."""
    while counts.ndim > 1 and counts.size and (counts == counts[..., :1]).all():
        counts = counts[..., 0]  # rows that are read as wholes
    most = int(counts.max(initial=0))
    if most > 1 and counts.size > 1:
        at = ",".join(map(str, np.unravel_index(int(counts.argmax()), counts.shape)))
        yield f"{name}[{at}] is read {'twice' if most == 2 else f'{most} times'}, so its {most} weights add up"


def reads_at_positions(step: Apply) -> bool:
    """Whether a step reads entries at positions given by another tensor."""
    op = entry_of(step.op) if isinstance(step.op, str) else None
    return op is not None and bool(op.data) and len(step.tensors) > 1


def describe_repeated_picks(program: Program, values: Values, seed: Array, names: Sequence[str]) -> Iterator[str]:
    """Iterate over sentences about inputs whose only reader selects an entry several times."""
    for name in names:
        step, *others = program.readers.get(name, ()) or (None,)
        if step is None or others or not reads_at_positions(step):
            continue
        picked = step.result.name
        weights = seed if picked == program.output else numeric_pullback(program, values, seed, [picked])[picked]
        alone = numeric_pullback(program.alone(step), values, np.ones(np.shape(values[picked])), [name])[name]
        counts = as_float(alone)
        whole = counts.sum() == np.size(weights) and (counts == np.round(counts)).all() and (counts >= 0).all()
        if whole and (as_float(weights) != 0).all():
            yield from describe_repeated_read(name, counts)


Side = tuple[str, tuple[int, ...]]
"""A tensor on one side of a loss, and its shape."""


def find_broadcast_pairs(
    steps: Sequence[Apply], shape_of: Callable[[str], tuple[int, ...]]
) -> Iterator[tuple[Apply, Side, Side]]:
    """Iterate over the losses whose two sides are broadcast to a shape that neither has."""
    made = {step.result.name: step for step in steps}

    def turned(name: str) -> bool:
        sources = made[name].tensors if name in made else ()
        return len(sources) == 1 and len(shape_of(sources[0])) != len(shape_of(name))

    for step, *names in find_broadcast_losses(steps, differences=True):
        one, other = (tuple(shape_of(name)) for name in names)
        if np.broadcast_shapes(one, other) in (one, other):
            continue
        column = len(one) != len(other) and math.prod(one) == math.prod(other)
        if step.options or (column and not any(map(turned, names))):  # hardly meant, unless the column was made for it
            yield step, (names[0], one), (names[1], other)


def describe_broadcast_pairs(step: Apply, one: Side, other: Side) -> str:
    """Return ``mse_loss compares x 3×1 with y 3: both are broadcast to 3×3, so 9 pairs count and not 3``."""
    (a, m), (b, n) = one, other
    wide = np.broadcast_shapes(m, n)
    by, with_, together = ("×".join(map(str, shape)) for shape in (m, n, wide))
    count = max(math.prod(shape) for shape in (m, n))
    said = f"{step.op} compares {a} {by} with {b} {with_}" if step.options else f"{a} {by} meets {b} {with_}"
    return f"{said}: both are broadcast to {together}, so {math.prod(wide)} pairs count and not {count}"


def gradients_without_detach(
    program: Program, values: Values, seed: Array, wanted: Sequence[str], only: str | None = None
) -> dict[str, Array]:
    """Return vᵀJ without detach, for the inputs where it differs from vᵀJ.

    With ``only``, just the detach whose result has this name is removed.
    """
    undone = {s.result.name for s in program.steps if has_role(s.op, Role.CUTS) and only in (None, s.result.name)}
    if not undone:
        return {}
    through = role_entry(Role.HANDS_ON).operation
    steps = tuple(replace(step, op=through) if step.result.name in undone else step for step in program.steps)
    whole = replace(program, steps=steps)
    declared, real_ones = (numeric_pullback(own, values, seed, wanted) for own in (program, whole))
    found = {}
    for name in wanted:
        real = as_float(real_ones[name])
        if np.isfinite(real).all() and not np.allclose(as_float(declared[name]), real, rtol=CLOSE, atol=CLOSE):
            found[name] = real
    return found


KINDS = {0: ("a number", "numbers"), 1: ("a vector", "vectors"), 2: ("a matrix", "matrices")}


def describe_assumptions(reading: ParsedProgram, inputs: Sequence[Given], seed: Seed | None = None) -> tuple[str, ...]:
    """Return sentences about assumed values, sizes and ranks."""
    assumed = {g.name: g.words for g in inputs if not g.value_given}
    if seed is not None and seed.origin == "assumed":
        assumed[reading.program.seed] = seed.text
    filled: dict[str, list[str]] = {}
    for name, words in sorted(assumed.items(), key=lambda pair: pair[1] != ONES):
        filled.setdefault(words, []).append(name)
    alone = {g.name: str(g.value.item()) for g in inputs if g.value.shape == () and not g.value_given}
    result = [
        f"{names[0]} is {alone.get(names[0], words)}"
        if len(names) == 1
        else f"{join_with_and(names)} are {word_for_several(words)}"
        for words, names in filled.items()
    ]
    open_sized = {name for name, _, _ in reading.assumed_sizes}
    program = reading.program
    sized = [(t.name, [*map(str, program.numbers(t.shape))]) for t in program.inputs if t.name in open_sized]
    if sized:
        result.append(", ".join(f"{name} is {join_sizes(shape)}" for name, shape in sized))
    ranks: dict[int, list[str]] = {}
    for name, rank in reading.assumed_ranks:
        if name not in open_sized:
            ranks.setdefault(rank, []).append(name)
    for rank, names in ranks.items():
        one, many = KINDS.get(rank, (f"a tensor with {rank} axes", f"tensors with {rank} axes"))
        result.append(f"{join_with_and(names)} are {many}" if len(names) > 1 else f"{names[0]} is {one}")
    return tuple(result)


def word_for_several(words: str) -> str:
    """Return the description of one tensor's values, worded for several tensors."""
    return f"{words}, in turn" if words.endswith("…") else words.replace("a matrix", "matrices")


def hints_for_assumptions(reading: ParsedProgram, inputs: Sequence[Given], seed: Seed) -> tuple[Setting, ...]:
    """Return hints that change the assumptions."""
    result = []
    ones = [g.name for g in inputs if not g.value_given]
    if ones:
        result.append(Setting("let", ones[0]))
    if seed.origin == "assumed":
        result.append(Setting("seed"))
    changeable = [name for name, _, _ in reading.assumed_sizes] + [name for name, _ in reading.assumed_ranks]
    if changeable:
        name = changeable[0]
        shape = next(g.value.shape for g in inputs if g.name == name)
        result.append(Setting("shape", name, ",".join(map(str, increase_last_size(shape, name, reading)))))
    return tuple(result)


OUTSIDE = re.compile(r"index (\d+) is out of bounds for .* size (\d+)$")
"""NumPy's message for a position out of bounds, which `symgrad.numeric.playing` uses, too."""


def add_larger_shape(error: InputError, reading: ParsedProgram, inputs: Sequence[Given]) -> InputError:
    """Add to ``error`` a shape that is large enough for its position, if the size was assumed."""
    beyond = next(filter(None, map(OUTSIDE.search, error.found)), None)
    if beyond is None or error.hints:
        return error
    least, size = int(beyond[1]) + 1, int(beyond[2])
    shapes = {g.name: list(g.value.shape) for g in inputs}
    for name, axis, number in reading.assumed_sizes:
        if number == size:
            larger = [least if at == axis else n for at, n in enumerate(shapes[name])]
            error.hints = (*error.hints, Setting("shape", name, ",".join(map(str, larger))))
    return error


def increase_last_size(shape: Sequence[int], name: str, reading: ParsedProgram) -> list[int]:
    """Return a shape with the last assumed size increased by one, on every axis that has it."""
    assumed = {axis: number for of, axis, number in reading.assumed_sizes if of == name}
    last = assumed[max(assumed)] if assumed else None
    return [n + 1 if assumed.get(axis) == last is not None else n for axis, n in enumerate(shape)]


def join_with_and(words: Sequence[str]) -> str:
    """Join words as ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
