"""Where a pullback meets what is not finite, torch's own arithmetic for that one call stands in, and it is said.

Comes in: what arrives at one call's arguments by the derived steps, and the call. Goes out: the same with torch's
numbers at the entries where a derivative is none: at ±∞ and NaN, and where the equation has no finite value. There is
nothing to derive at such an entry, and every program makes a choice; whoever explains torch has to name torch's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric.exact import Array, all_tame, as_float, finite
from symgrad.program import Apply, Program
from symgrad.tracing.lift.labels import Origin
from symgrad.tracing.lift.verify import TOLERANCE
from symgrad.tracing.record.numbers import digits
from symgrad.tracing.record.trace import real_precision

NEAR_AN_EDGE = "torch has a rule of its own so near to an edge: at"
"""How a reason begins that is none of numbers that are not finite."""
OVERFLOWS = "torch's own backward overflows"
"""How a reason begins where there is a derivative."""
IN_DOUBLES = ", as torch finds in float64"
"""How one ends where torch's own backward reaches it in double precision."""
TO_DOUBLES = "the tensors are doubles from the start"
NEAR = 1e-3
"""How far apart, relative to the larger, a derived number and torch's are the same: float16 programs, too."""

LEAST = {"float64": 1e-322, "float32": 2e-44, "float16": 1e-6, "bfloat16": 1.5e-39}
"""Some sixteen times the smallest number that a type has, by torch's name."""

CANCELS = {"float64": 1e-13, "float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2}
"""What is left, relative to the largest weight, of a sum that is 0, by the type that it is added up in."""


def calls_in(program: Program, origins: Mapping[str, Origin], wanted: Sequence[str]) -> dict[str, tuple[Apply, ...]]:
    """The steps of each call, by the name of its result, where nothing else reads what lies between them."""
    made = {step.result.name: step for step in program.steps}
    readers: dict[str, set[str]] = {}
    for step in program.steps:
        for name in step.tensors:
            readers.setdefault(name, set()).add(step.result.name)
    found = {}
    for end, origin in origins.items():
        inner = {*origin.steps} - {end}
        own = inner | {end}
        alone = all(readers.get(name, set()) <= own for name in inner) and not inner & {*wanted, program.output}
        if alone and end in made and all(name in made for name in origin.steps):
            found[end] = tuple(made[name] for name in origin.steps)
    return found


def settled(
    origin: Origin, arrived: Mapping[str, Array], cotangent: Array, arrays: Mapping[str, Array]
) -> tuple[dict[str, Array], str]:
    """``arrived``, with torch's numbers where a derivative is none, and why there is none (empty: nothing was put in).

    ``arrived`` are the cotangents of the call's arguments, by name.
    """
    found = dict(arrived)
    names = [name for name in arrived if name in origin.box.names]
    try:
        chosen = origin.box.pull(cotangent, [origin.box.names.index(name) for name in names])
    except SymgradError:  # torch refuses the call's pullback, or what it read was overwritten since
        return found, ""
    reason = ""
    for name in names:
        ours, choice = as_float(arrived[name]), as_float(chosen[origin.box.names.index(name)])
        if choice.shape != ours.shape:
            continue
        differ = ~alike(ours, choice) & ~rounded(ours, choice, kinds_of(origin))
        beyond = differ & np.isfinite(ours) & np.isinf(choice) & meets_numbers(origin, cotangent, arrays)
        if beyond.any():  # the derivative is a number, which torch's own way to it does not reach
            reason = reason or overflowed(
                origin, name, tuple(map(int, np.argwhere(beyond)[0])), cotangent, ours, choice
            )
            differ &= ~beyond
        if differ.any():
            found[name] = np.where(differ, choice, ours)
            told = np.argwhere(differ & ~of_nothing(ours, choice, cotangent, kinds_of(origin)))
            if len(told):
                at = tuple(map(int, told[0]))
                reason = reason or why(origin, name, at, arrays, cotangent, (float(ours[at]), float(choice[at])))
    return found, reason


def meets_numbers(origin: Origin, cotangent: Array, arrays: Mapping[str, Array]) -> bool:
    """Whether all that a call read and gave, and what comes back to it, are numbers."""
    read = [arrays[name] for name in (*origin.box.names, origin.steps[-1])]
    return all(finite(array).all() for array in (cotangent, *read))


def overflowed(origin: Origin, name: str, at: tuple[int, ...], cotangent: Array, ours: Array, choice: Array) -> str:
    """Which number torch does not reach in the type of its tensors, and whether it does in double precision."""
    import torch  # a sweep need not load it

    from symgrad.tracing.lift.boxes import BlackBox, Wide

    kind, box = min(kinds_of(origin), default="float64"), origin.box
    said = f"{OVERFLOWS} in {kind} and gives {digits(float(choice[at]))}, the derivative is {digits(float(ours[at]))}"
    if kind == "float64" or type(box) is not BlackBox:
        return said
    place, wide = box.names.index(name), Wide(**vars(box))
    try:
        reached = bool(alike(ours, as_float(wide.pull(cotangent, [place])[place]))[at])
    except (SymgradError, RuntimeError):
        return said
    if not reached:
        return said
    held = abs(float(ours[at])) <= torch.finfo(getattr(torch, kind)).max
    return f"{said}{IN_DOUBLES if held else f', larger than any {kind}: torch finds it where {TO_DOUBLES}'}"


def alike(first: Array, second: Array) -> Array:
    """Where two arrays hold the same numbers, but for rounding; NaN is NaN."""
    with np.errstate(invalid="ignore"):
        near = np.abs(first - second) <= NEAR * np.maximum(np.abs(first), np.abs(second))
    near &= np.isfinite(first) & np.isfinite(second)
    return np.asarray(near | (first == second) | (np.isnan(first) & np.isnan(second)))


def kinds_of(origin: Origin) -> set[str]:
    """The types that a call computes in, by torch's names."""
    call = origin.box.call
    return {real_precision(node.held.dtype) for node in call.nodes()} | ({"bfloat16"} if call.autocast else set())


def rounded(first: Array, second: Array, kinds: set[str]) -> Array:
    """Where two finite numbers are apart by what rounding in these types may make of the largest beside them.

    Of doubles that is nothing but what lies below their range.
    """
    coarse = [2 * TOLERANCE.get(kind, 0.0) for kind in kinds if kind != "float64"]
    largest = np.abs(second[np.isfinite(second)]).max(initial=0.0)
    allowed = max(NEAR, *coarse) * largest if coarse else 0.0
    with np.errstate(invalid="ignore"):
        gap = np.abs(first - second)
    return np.asarray(np.isfinite(gap) & (gap <= max([allowed, *(LEAST.get(kind, 0.0) for kind in kinds)])))


def of_nothing(first: Array, second: Array, weights: Array, kinds: set[str]) -> Array:
    """Where two numbers are apart by what rounding in these types leaves of weights that cancel."""
    sizes = np.abs(as_float(weights))
    allowed = max((CANCELS.get(kind, 0.0) for kind in kinds), default=CANCELS["float64"])
    with np.errstate(invalid="ignore"):
        gap = np.abs(first - second)
    return np.asarray(np.isfinite(gap) & (gap <= allowed * sizes[np.isfinite(sizes)].max(initial=0.0)))


def why(
    origin: Origin, name: str, at: tuple[int, ...], arrays: Mapping[str, Array], cotangent: Array,
    numbers: tuple[float, float],
) -> str:  # fmt: skip
    """What is not finite where torch's number stands; where all is, the derived number and torch's, ``numbers``."""
    value = float(as_float(arrays[name])[at])
    if not np.isfinite(value):
        return f"an argument is {digits(value)}"
    for other in origin.box.names:
        if not finite(arrays[other]).all():
            return "an argument is not finite"
    if not finite(arrays[origin.steps[-1]]).all():
        return "the result has no finite value"
    if not finite(cotangent).all():
        return "what comes back to it is not finite"
    if not all(all_tame(as_float(a)) for a in (arrays[name], arrays[origin.steps[-1]], cotangent)):
        return "numbers are so large or so small that their squares are no floats"
    if np.isfinite(numbers).all():
        return f"{NEAR_AN_EDGE} {digits(value)} its number is {digits(numbers[1])}, the equation's {digits(numbers[0])}"
    return f"the slope is infinite or undefined at {digits(value)}"


def irregular(cotangent: Array, arrived: Mapping[str, Array], values: Iterator[Array]) -> bool:
    """Whether anything that a call meets on the way back is not finite, or so near to it that arithmetic ends there."""
    return any(not all_tame(a) for a in (cotangent, *arrived.values(), *values))


__all__ = ["Origin"]
