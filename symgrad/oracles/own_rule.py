"""Whether torch's backward is a derivative of its own forward pass: that of ``polar`` is none at negative lengths.

Comes in: two slopes, and the forward pass along one entry. Goes out: whether it has the derived slope on both sides.

Where one operation has no derivative, what its equation gives there, and what torch puts in its place.

Comes in: a program of one step, and numbers for some of its inputs. Goes out: both numbers, by each input. Or a program
with all its numbers: what its gradient is with torch's numbers at the steps that stand on an edge, or within a margin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from symgrad.numeric import Array, Values, as_float, forward, numeric_pullback
from symgrad.numeric.exact import plus
from symgrad.ops import entry_of
from symgrad.oracles.torch import run_torch
from symgrad.program import Apply, Argument, Program

SAME = 1e-9
"""Relative to torch's, how far a derivative may be from it and be the same."""
ELSEWHERE = 0.5
"""What the inputs are that an edge says nothing of."""


@dataclass(frozen=True)
class OwnNumber:
    """∂L/∂x₀ by one input ``by``, L the sum of the outputs: what the equation gives ``here``, and what torch has."""

    by: str
    here: float
    torch: float


def own_numbers(program: Program, at: Mapping[str, float], names: Sequence[str]) -> Iterator[OwnNumber]:
    """Where torch has a number of its own: ``at`` are inputs of which every entry is one number."""
    inputs = {t.name: np.full(program.numbers(t.shape), at.get(t.name, ELSEWHERE)) for t in program.inputs}
    weights = np.ones(program.numbers(program.out.shape))
    answer = run_torch(program, inputs, weights, names)
    if answer is None or answer.refusal:
        return
    derived = numeric_pullback(program, forward(program, inputs), weights, names)
    for name in names:
        gradient = answer.gradients[name]
        if gradient is None or not gradient.size:
            continue
        here, torchs = float(as_float(derived[name]).reshape(-1)[0]), float(gradient.reshape(-1)[0])
        if not np.isclose(torchs, here, rtol=SAME, atol=0.0, equal_nan=True):
            yield OwnNumber(name, here, torchs)


def on_an_edge(step: Apply, arrays: Mapping[str, Array]) -> bool:
    """Whether operands have values at which torch has a number of its own, though all that is derived is finite."""
    entry = entry_of(step.op)
    if entry is None or not entry.edges:
        return False
    margin = entry.margin if isinstance(entry.margin, float) else float(dict(step.options)[entry.margin])  # type: ignore[arg-type]  # an option that is a number
    given = dict(zip(entry.operands, step.arguments, strict=False))
    return any(
        all(holds(given[name], value, margin, arrays) for name, value in edge.items() if name in given)
        for edge in entry.edges
    )


def holds(argument: Argument, value: float, margin: float, arrays: Mapping[str, Array]) -> bool:
    """Whether an argument, a tensor or a number in its place, has a value somewhere, within a margin."""
    held = arrays[argument] if isinstance(argument, str) else argument.value
    if held is None:
        return False
    near = np.abs(as_float(np.asarray(held)) - value) <= margin if margin else np.asarray(held) == value
    return bool(np.any(near))


def with_torchs_own(
    program: Program, values: Values, seed: Array, name: str, gradient: Array
) -> tuple[Array, str] | None:  # fmt: skip
    """A gradient with torch's numbers at the steps that stand on an edge, and where; None where they are the same."""
    parts: dict[str, dict[str, Array]] = {}
    arrived: dict[str, tuple[Apply, Array]] = {}

    def seen(step: Apply, place: int, weights: Array, part: Array) -> None:
        if on_an_edge(step, values.arrays):
            arrived[step.result.name] = step, weights
            own = parts.setdefault(step.result.name, {})
            source = str(step.arguments[place])
            own[source] = plus(own[source], part) if source in own else part

    numeric_pullback(program, values, seed, [name], seen)
    found, told = as_float(gradient), ""
    for result, (step, weights) in arrived.items():
        alone = program.alone(step, values.sizes)
        answer = run_torch(alone, {n: values[n] for n in step.tensors}, weights, list(parts[result]))
        for source, part in parts[result].items() if answer is not None and not answer.refusal else ():
            assert answer is not None
            torchs = answer.gradients[source]
            if torchs is None or not np.isfinite(torchs).all() or not np.isfinite(as_float(part)).all():
                continue
            change = torchs - as_float(part)
            differ = np.argwhere(np.abs(change) > SAME * np.abs(torchs))
            if len(differ):
                before = replace(program, output=source)
                whole = change if source == name else numeric_pullback(before, values, change, [name])[name]
                found, at = found + as_float(whole), tuple(int(i) for i in differ[0])
                entry = f"{source}[{','.join(map(str, at))}]" if at else source
                told = told or (
                    f"so near to the edge of what {step.called} is for, torch has a rule of its own: at {entry} = "
                    f"{float(as_float(values[source])[at])!r} its slope by {source} is {torchs[at]:.4g}, that of the "
                    f"equation {float(as_float(part)[at]):.4g}"
                )
    return (found, told) if told else None


STEPS, CLOSE, ROUGH, APART = (1e-5, 1e-8, 1e-11), 1e-6, 1e-4, 1e-3
"""How far the input moves, how closely the slope is met by both sides and by each, how far torch's number is off.

What happens below a floor of 1e-8 is seen by no larger step, and beside a 1 by no smaller one: one of them has to do.
"""
NEARER = 1e-5
"""One more step, relative to the entry: a logarithm at 1e-13 has no other side further out."""


def contradicted(derived: float, torchs: float, entry: float, total: Callable[[float], float]) -> bool:
    """Whether ``total``, torch's forward pass with an entry moved by so much, has the derived slope and not torch's."""
    steps = (*STEPS, NEARER * abs(entry)) if entry else STEPS
    return any(confirmed(derived, torchs, *slopes(entry, total, step)) for step in steps)


def confirmed(derived: float, torchs: float, left: float, right: float) -> bool:
    """Whether the sides have the derived slope, closely in the middle, and torch's number is far from it."""
    size, middle = max(1.0, abs(derived)), (left + right) / 2
    near = abs(middle - derived) <= CLOSE * size and max(abs(left - derived), abs(right - derived)) <= ROUGH * size
    return near and abs(torchs - derived) > APART * size


def slopes(entry: float, total: Callable[[float], float], step: float) -> tuple[float, float]:
    """The slopes left and right of an entry; NaN where rounding swallows the step or what comes of it."""
    low, here, high = total(-step), total(0.0), total(step)
    left, right = (here - low) / step, (high - here) / step
    noise = np.finfo(float).eps * max(abs(low), abs(here), abs(high)) / step
    moved = max(abs((entry + step) - entry - step), abs(entry - (entry - step) - step)) <= CLOSE * step
    clear = noise <= CLOSE * max(1.0, abs(left), abs(right))
    return (left, right) if moved and clear else (float("nan"), float("nan"))
