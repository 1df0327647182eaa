"""Where one operation has no derivative, what its equation gives there, and what torch puts in its place.

Comes in: a program of one step, and numbers for some of its inputs. Goes out: both numbers, by each input. Or a program
with all its numbers: what its gradient is with torch's numbers at the steps that stand on an edge, or within a margin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
