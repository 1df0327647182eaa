"""Find where NaN and infinity first appear, and explain the mathematics there.

Comes in: a program of one run, and the pullbacks of its sweep that turned finite numbers into others. Goes out: lines
for the notes of a call. A sweep spreads NaN to everything after it, so only its origin is informative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from symgrad.errors import SymgradError
from symgrad.explanation.singular import Passage
from symgrad.language.arguments import format_entry_name
from symgrad.numeric import Values
from symgrad.numeric.exact import Array, as_float
from symgrad.numeric.forward_pass import compute, forward_from
from symgrad.numeric.vector_products import pull_step
from symgrad.ops import entry_of
from symgrad.program import Apply
from symgrad.render.numbers import format_array, format_digits
from symgrad.tracing.captured import Capture
from symgrad.tracing.captured.step_text import StepWriter, format_step, pull_recording
from symgrad.tracing.session.no_gradient import explain_missing_slope, suggest_distance, suggest_stable_function
from symgrad.tracing.session.scene import Findings

SAME = 1e-3
"""Relative tolerance between results in torch's precision and in float64."""
TRIED = (1.0, 2.0, -1.0)
"""Values given to an entry to test whether a result depends on it."""


def explain_nonfinite(call: Findings) -> list[str]:
    """Return lines about the origin of NaN and infinity, and the mathematics there.

    A pullback at a value that is NaN already is not an origin. If the gradients exist mathematically, numbers left the
    range of their dtype.
    """
    program, found, seeds, real = call.program, call.born, call.seeds, call.real
    numbers = (array for row in call.rows for array in (row.added, row.after) if array is not None)
    if not has_nan_output(program) and all(np.isfinite(array).all() for array in numbers):
        return []
    if real is not None:
        beyond = [*(describe_birth(program, found[0])[:1] if found else []), *real]
        return [*beyond, *suggest_stable_function(program, [birth.step for birth in found])]
    there = [b for b in found if all(np.isfinite(as_float(program.arrays[n])).all() for n in b.step.tensors)]
    ahead = first_nonfinite_value(program)
    if ahead and not there:
        return [*ahead, *suggest_stable_function(program, [birth.step for birth in found])]
    lines: list[list[str]] = [ahead] if ahead and has_nan_output(program) else []
    for birth in (there or found)[:2]:
        own = describe_birth(program, birth)
        if not any(own[1:] == other[1:] for other in lines):  # one place, met on both ways through a step
            lines.append(own)
    return [
        *(line for own in lines for line in own),
        *infinity_times_zero_note(program, seeds, there),
        *real_gradients_note(program, seeds, there),
        *suggest_stable_function(program, [birth.step for birth in there]),
    ]


def real_gradients_note(program: Capture, seeds: Mapping[str, Array], found: Sequence[Passage]) -> list[str]:
    """Return a line with gradients that are NaN only because of 0 · ∞ at zero cotangents; empty otherwise."""

    def left_out(step: Apply, place: int, weights: Array, result: Array) -> Array:
        own = as_float(result)
        nothing = weights.shape == own.shape and as_float(weights) == 0
        return np.where(nothing & ~np.isfinite(own), 0.0, own)

    if not is_lost_to_zero_weights(program, found):
        return []
    plain = pull_recording(program, seeds, origins=None)
    whole = pull_recording(program, seeds, origins=None, hook=left_out)
    lost = [n for n in whole if np.isnan(as_float(plain[n])).any() and np.isfinite(as_float(whole[n])).all()]
    told = [f"{program.labels[n]}.grad is {format_array(as_float(whole[n]))}" for n in lost[:2]]
    return [f"  Mathematically, {' and '.join(told)}."] if told else []


def infinity_times_zero_note(program: Capture, seeds: Mapping[str, Array], found: Sequence[Passage]) -> list[str]:
    """Return a line with the step whose slope 0 turns an infinite cotangent into NaN; empty if there is none."""
    turned: list[Apply] = []

    def seen(step: Apply, place: int, weights: Array, result: Array) -> None:
        w, r = as_float(weights), as_float(result)
        if np.isinf(w).any() and not np.isnan(w).any() and np.isnan(r).any():
            turned.append(step)

    if not any(np.isinf(birth.result).any() for birth in found):
        return []
    pull_recording(program, seeds, origins=None, seen=[seen])
    places = (f"{format_step(program, step)}{program.place(step.result.name)}" for step in turned[:1])
    return [f"  ∞ · 0 is nan: {place} has slope 0 where the infinite gradient arrives" for place in places]


def has_nan_output(program: Capture) -> bool:
    """Whether an output has a NaN entry, so that a gradient of 0 is meaningless."""
    return any(np.isnan(as_float(program.arrays[end])).any() for end in program.ends)


def first_nonfinite_value(program: Capture) -> list[str]:
    """Return a line with the first step that computes a value that is not finite from finite ones; or no line."""
    for step in program.recording.steps:
        value = program.arrays[step.result.name]
        if value.dtype == object or np.isfinite(value).all():
            continue
        if all(np.isfinite(as_float(program.arrays[name])).all() for name in step.tensors):
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(as_float(value)))[0])
            born, where = format_digits(float(as_float(value)[at])), f", at {list(at)}" if at else ""
            return [f"{born} first appears in the forward pass: {format_step(program, step)}{where}"]
    return []


def nonfinite_operand(program: Capture, birth: Passage) -> tuple[tuple[int, ...], float]:
    """Return the first entry of an operand at which the pullback is not finite, and its value."""
    at = tuple(int(i) for i in np.argwhere(~np.isfinite(birth.result))[0])
    return at, float(as_float(program.arrays[str(birth.step.arguments[birth.place])])[at])


def responsible_entry(program: Capture, birth: Passage) -> tuple[str, tuple[int, ...], float]:
    """Return the entry that must change for the pullback to be finite: that of x in 1 / x, not the numerator.

    If no operand has such an entry at the same position, return the entry that the pullback belongs to.
    """
    step, own = birth.step, str(birth.step.arguments[birth.place])
    at, value = nonfinite_operand(program, birth)
    for name in (own, *(other for other in dict.fromkeys(step.tensors) if other != own)):
        known = as_float(program.arrays[name])
        there = tuple(i if n > 1 else 0 for i, n in zip(at[len(at) - known.ndim :], known.shape, strict=False))
        if known.ndim <= len(at) and len(there) == known.ndim:
            if any(i >= n for i, n in zip(there, known.shape, strict=True)):
                continue
            moved = known.copy()
            moved[there] += 1.0
            if np.isfinite(step_with_operands(program, birth, {name: moved})[1][at]):
                return name, there, float(known[there])
    return own, at, value


def step_with_operands(program: Capture, birth: Passage, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return the step's value and pullback with other operands; NaN if they cannot be computed."""
    step, recording, known = birth.step, program.recording, {**program.arrays, **arrays}
    nothing = np.full(birth.result.shape, np.nan)
    if entry_of(step.op) is None:
        return nothing, nothing
    try:
        compute(step, recording, known)
        found = pull_step(step, recording, program.values.with_arrays(known), birth.weights, [birth.place])
    except SymgradError:
        return nothing, nothing
    return as_float(known[step.result.name]), as_float(found[birth.place])


def describe_birth(program: Capture, birth: Passage) -> list[str]:
    """Return lines about one origin of NaN or infinity."""
    step = birth.step
    first, _ = nonfinite_operand(program, birth)
    source, at, value = responsible_entry(program, birth)
    makers = program.recording.makers
    while source not in program.labels and source in makers:  # what only broadcasts stands in no listing
        source = str(makers[source].arguments[0])
        shape = np.shape(program.arrays[source])
        at = tuple(i if n > 1 else 0 for i, n in zip(at[len(at) - len(shape) :], shape, strict=True))
    name, number = program.labels.get(source, source), format_digits(float(birth.result[first]))
    entry = format_entry_name(name, at)
    place = f"{format_step(program, step)}{program.place(step.result.name)}, at {entry} = {format_digits(value)}"
    found = f"{number} first appears in the backward of {place}"
    weighed = birth.weights.shape != birth.result.shape or birth.weights[first] != 0
    if weighed or affects_result(program, birth):
        return [found, *explain_missing_slope(program, step, source, entry, value)]
    if affects_result_beside(program, birth):
        lost = (
            f"  0 · ∞: the weight arriving there is 0 and the slope is infinite, and both depend on {entry}; their "
            "product has a limit, which autograd computes as nan."
        )
        return [found, lost, suggest_distance(step, entry)]
    nothing = (
        f"  the weight arriving there is 0, so this branch should add nothing to the gradient of {entry}; "
        "autograd computes 0 · ∞ (or 0 · nan), which is nan."
    )
    return [found, nothing, *suggest_safe_operand(program, birth, source)]


def is_lost_to_zero_weights(program: Capture, found: Sequence[Passage]) -> bool:
    """Whether all origins have a zero cotangent, at entries on which no result depends."""
    counted = (affects_result(program, b) or affects_result_beside(program, b) for b in found if b.of_nothing)
    return bool(found) and all(birth.of_nothing for birth in found) and not any(counted)


def affects_result_beside(program: Capture, birth: Passage) -> bool:
    """Whether a result depends on the entry at other operands of the step, as on log(x) in x·log(x)."""
    source, at, _ = responsible_entry(program, birth)
    moved = {}
    for tensor in program.recording.inputs:
        if source == tensor.name or source in program.recording.reached([tensor.name]):
            array = as_float(program.arrays[tensor.name])
            moved[tensor.name] = array + 1.0
            if array.shape == np.shape(program.arrays[source]):
                moved[tensor.name] = array.copy()
                moved[tensor.name][at] += 1.0
    try:
        beside = forward_from(program.recording, program.values, moved)
    except SymgradError:
        return False
    return affects_result(program, birth, beside)


def affects_result(program: Capture, birth: Passage, values: Values | None = None) -> bool:
    """Whether a result depends on the step's entry: a cotangent may be 0 by convention only, as for relu at 0.

    True if that cannot be tested.
    """
    values, name = program.values if values is None else values, birth.step.result.name
    made, (at, _) = as_float(values[name]), nonfinite_operand(program, birth)
    found = []
    for value in TRIED:
        other = made.copy()
        other[at] = value
        try:
            after = forward_from(program.recording, values, {name: other})
        except SymgradError:
            return True
        found.append([as_float(after[end]) for end in program.ends])
    return any(
        not np.array_equal(a, b, equal_nan=True) for ends in found[1:] for a, b in zip(found[0], ends, strict=True)
    )


def suggest_safe_operand(program: Capture, birth: Passage, source: str) -> list[str]:
    """Suggest a safe operand if a later `where` or ``masked_fill`` does not select the step's entry.

    It was tested that the pullback is then finite and every result is unchanged.
    """
    step, recording = birth.step, program.recording
    behind = recording.reached([step.result.name])
    for choice in recording.steps:
        entry = entry_of(choice.op)
        if entry is None or entry.traits.where_like is None:
            continue
        mask, takes, place = entry.traits.where_like
        condition, known = str(choice.arguments[mask]), as_float(program.arrays[source])
        chosen = [n for n in takes if str(choice.arguments[n]) in behind]
        met = program.arrays.get(condition)
        if len(chosen) != 1 or met is None or met.shape != known.shape:
            continue
        first = chosen[0] == place
        safe = np.where((as_float(met) != 0) == first, known, 1.0)
        if not is_safe_operand(program, birth, source, safe):
            continue
        name, asked = (program.labels.get(n, n) for n in (source, condition))
        if place is not None:
            written = f"torch.where({asked}, {f'{name}, 1' if first else f'1, {name}'})"
        else:
            written = f"{name}.masked_fill({asked}, 1)"
        then = StepWriter(program).text(step, {source: "safe"})
        return [f"  give {step.op} a harmless input where its result is not used: safe = {written}, then {then}"]
    return []


def is_safe_operand(program: Capture, birth: Passage, source: str, safe: Array) -> bool:
    """Whether the pullback is finite with the operand ``safe``, and every result of the program unchanged."""
    value, part = step_with_operands(program, birth, {source: safe})
    if not np.isfinite(part).all():
        return False
    try:
        after = forward_from(program.recording, program.values, {birth.step.result.name: value})
    except SymgradError:
        return False
    return all(
        np.allclose(as_float(after[n]), as_float(program.arrays[n]), rtol=SAME, atol=0, equal_nan=True)
        for n in program.ends
    )
