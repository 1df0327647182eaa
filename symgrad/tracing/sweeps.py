"""vᵀJ and Ju through a captured program: derived steps by their equations, black boxes by torch.

The same sweep as `symgrad.numeric.sweeps`, over programs that have several outputs and steps nobody derived. A
cotangent is let go as soon as it has been pulled through its step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.numeric.exact import Array, as_float, plus
from symgrad.numeric.forward import Values
from symgrad.numeric.sweeps import flowing, positions, pull_step, push_step
from symgrad.program import Apply, Program


def pull(
    program: Program,
    values: Values,
    boxes: Mapping[str, Any],
    seeds: Mapping[str, Array],
    wanted: Sequence[str],
    seen: Any = None,
    origins: Mapping[str, Any] | None = None,
    noted: list[str] | None = None,
) -> dict[str, Array]:
    """vᵀJ for each of ``wanted``; ``seen(step, position, cotangent in, cotangent out)`` may watch.

    ``origins`` are the calls behind single steps: where an equation has no finite value at this point, because
    there is no derivative or because its terms overflow, torch's choice for that call is taken if it has one,
    and the step's name goes to ``noted``.
    """
    reached = flowing(program, wanted)
    keep = set(wanted)
    carried: dict[str, Array] = {name: np.asarray(seed) for name, seed in seeds.items()}
    for step in reversed(program.steps):
        name = step.result.name
        cotangent = carried.get(name) if name in keep else carried.pop(name, None)
        places = positions(step, reached)
        if cotangent is None or not places:
            continue
        if np.size(cotangent) == 0:
            parts = {n: np.zeros(np.shape(values[str(step.arguments[n])])) for n in places}
        elif name in boxes:
            parts = boxes[name].pull(cotangent, places)
        else:
            parts = pull_step(step, program, values, cotangent, places)
            if origins and name in origins:
                plain = parts
                parts = settled(step, plain, cotangent, origins[name])
                if noted is not None and name not in noted and any(parts[n] is not plain[n] for n in parts):
                    noted.append(name)
        for place, part in parts.items():
            if seen is not None:
                seen(step, place, cotangent, part)
            source = str(step.arguments[place])
            carried[source] = plus(carried[source], part) if source in carried else part
    return {name: carried.get(name, np.zeros(np.shape(values[name]), dtype=np.int64)) for name in wanted}


def settled(step: Apply, parts: Mapping[int, Array], cotangent: Array, origin: Any) -> dict[int, Array]:
    """``parts``, with torch's own finite choice where the equation has no finite value.

    torch has one choice for each tensor; where a tensor stands at two places, the first gets it.
    """
    found = dict(parts)
    if (
        all(p.dtype == object or np.isfinite(p).all() for p in parts.values())
        or not np.isfinite(as_float(cotangent)).all()
    ):
        return found
    for source in dict.fromkeys(step.arguments[n] for n in parts):
        places = [n for n in parts if step.arguments[n] == source]
        total = sum(as_float(parts[n]) for n in places)
        if np.isfinite(total).all() or source not in origin.names:
            continue
        position = origin.names.index(source)
        choice = origin.pull(cotangent, [position])[position]
        chosen = ~np.isfinite(total)
        if choice.shape == np.shape(total) and np.isfinite(choice[chosen]).any():
            for n in places:
                found[n] = np.where(chosen, choice if n == places[0] else 0.0, parts[n])
    return found


def push(
    program: Program, values: Values, boxes: Mapping[str, Any], tangents: Mapping[str, Array], ends: Sequence[str]
) -> list[Array]:
    """Ju for each of ``ends``."""
    carried: dict[str, Array] = dict(tangents)
    for step in program.steps:
        places = positions(step, carried)
        if not places:
            continue
        changes = {n: carried[str(step.arguments[n])] for n in places}
        name = step.result.name
        carried[name] = boxes[name].push(changes) if name in boxes else push_step(step, program, values, changes)
    return [carried.get(name, np.zeros(np.shape(values[name]), dtype=np.int64)) for name in ends]
