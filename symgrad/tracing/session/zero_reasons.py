"""Explain why a gradient is 0 or not the derivative: kinks, zero slopes, rows that cancel, detached paths.

Comes in: the findings of a call, and its sweep while it runs. Goes out: lines for its notes. Reasons were tested on the
numbers and at other points (`symgrad.explanation.reasons`); for a long program only the steps without a gradient are
named. A kink is reported only if the number chosen there affects a gradient, a detach only if both slopes are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from symgrad.explanation.kinks import Tie
from symgrad.explanation.notable import gradients_without_detach
from symgrad.explanation.reasons import Vanishing
from symgrad.explanation.singular import Passage
from symgrad.explanation.ties import LARGEST, find_switches, find_ties
from symgrad.numeric import numeric_pullback
from symgrad.numeric.exact import Array, as_float
from symgrad.ops.lookup import entry_of, has_role
from symgrad.program import Apply, Role
from symgrad.render.numbers import MOST, format_array
from symgrad.tracing.captured import Capture
from symgrad.tracing.captured.step_text import format_step, pull_recording, right_side, with_labels
from symgrad.tracing.lift import UNNAMED, autocast_method, is_implicit_step
from symgrad.tracing.record.aliases import notes_by_tensor
from symgrad.tracing.record.trace import Node
from symgrad.tracing.session.nonfinite import has_nan_output
from symgrad.tracing.session.scene import Findings
from symgrad.tracing.story.events import MANY, Leaf, list_leaf_names

KINKS = 2
"""The most kinks with a line each; further ones are counted."""
ENTRIES = 2_000_000
"""The most entries searched in one call."""

FEW = 60
"""The most steps of a program that is swept again for a note."""


class KinkPassages:
    """The pullbacks of steps that may have kinks."""

    def __init__(self) -> None:
        self.met: list[Passage] = []
        self.entries = 0

    def seen(self, step: Apply, place: int, weights: Array, result: Array) -> None:
        """One step of the sweep."""
        op = entry_of(step.op)
        size = max(np.size(weights), np.size(result))
        if op is not None and not op.smooth and size <= LARGEST and self.entries + size <= ENTRIES:
            self.entries += size
            self.met.append(Passage(step, place, weights, result))


def find_kinks(program: Capture, seeds: Mapping[str, Array], met: KinkPassages) -> list[Tie]:
    """Return the kinks of one call that affect a gradient."""

    def back(name: str, change: Array) -> Mapping[str, Array]:
        if name in program.wanted:
            return {name: change}
        return pull_recording(program, {name: change}, origins=None)

    here = list(find_ties(program.recording, program.values, met.met, back))
    if len(program.ends) == 1 and not program.boxes:
        whole = replace(program.recording, output=program.ends[0])
        here += find_switches(whole, program.values, as_float(seeds[program.ends[0]]), program.wanted, met.met)
    return here


def explain_kinks(call: Findings) -> list[str]:
    """Return lines ``h[0,1] = 0 is a kink of relu: left 0, right 1, anything between is legal; torch takes 0``."""
    met = call.ties
    told = list(dict.fromkeys(describe_kink(call.program, tie) for tie in met[:KINKS]))
    rest = len(met) - KINKS
    return [*told, f"{rest} more {'step is' if rest == 1 else 'steps are'} at kinks"] if rest > 0 else told


def describe_kink(program: Capture, tie: Tie) -> str:
    """Describe one kink in the script's names."""
    labels = program.labels
    step = with_labels(right_side(program.recording, tie.step), labels) if tie.whole else str(tie.step.op)
    end, out = program.ends[0], program.outputs[0]
    total = out if np.size(program.arrays[end]) == 1 else f"Σ {program.recording.seed}·{out}"
    return tie.says(labels.get(tie.name, tie.name), f"{step}{program.place(tie.step.result.name)}", total)


def explain_zeros(call: Findings) -> list[str]:
    """Return lines ``vᵀJ with respect to x is 0: round(x) (line 5) passes no gradient back: its slope is 0 …``.

    A zero slope at a kink is reported with the kink.
    """
    program, rows, letter = call.program, call.rows, call.letter
    if has_nan_output(program):
        return []
    held = frozenset(name for name, node in call.lifted.nodes.items() if node.kind == "data" and node.cut is not None)
    found: dict[tuple[str, str, bool], list[Leaf]] = {}
    own = {label: name for name, label in program.labels.items()}
    whole = replace(program.recording, output=program.ends[0])
    short = len(program.ends) == 1 and len(program.recording.steps) <= FEW and not program.boxes
    names = tuple(own[row.name] for row in rows)
    vanishing = Vanishing(whole, program.values, as_float(call.seeds[program.ends[0]]), names, held) if short else None
    for row in rows:
        if not row.added.size or row.undefined or row.none or (row.added.any() and not row.rounding):
            continue
        reason = vanishing.reason(own[row.name]) if vanishing is not None and len(rows) <= MANY else None
        if reason is None and not row.added.any() and len(rows) > MANY:
            continue  # said where the leaves are summed up
        if reason is not None and reason.kind == "slope" and any(reason.step is tie.step for tie in call.ties):
            continue
        digits = " (the digits are rounding)" if row.rounding else ""
        said = row.why
        if reason is not None:
            said = reason.says(row.name, describe_step(program, call.told.said, reason.step), program.labels)
        found.setdefault((digits, said, row.boxed), []).append(row)
    return [
        f"{'the gradient in torch' if boxed else f'{letter}ᵀJ'} with respect to {list_leaf_names(some)} is "
        f"0{digits}{f': {said}' if said else ''}"
        for (digits, said, boxed), some in found.items()
        if said or digits
    ]


def describe_step(program: Capture, lines: Mapping[str, str], step: Apply) -> str:
    """Return the script's name of a step's result, or its expression, with its place."""
    name = step.result.name
    label = program.labels.get(name, name)
    numbered = UNNAMED.fullmatch(label) or name in program.ends
    merged = any(UNNAMED.fullmatch(program.labels.get(read, read)) and read not in lines for read in step.tensors)
    text = lines.get(name) if merged else None
    if text is None:
        text = with_labels(right_side(program.recording, step), program.labels)
    return f"{text if numbered else label}{program.place(name)}"


def explain_detaches(call: Findings) -> Iterator[str]:
    """Iterate over notes on each detach: the slope with it and the slope without it.

    Several detaches of one tensor are removed one at a time, so none of these is the full derivative.
    """
    program = call.program
    found = [*compare_detaches(program)]
    names = [name for name, *_ in found]
    for own, at, ones, declared, real in found:
        other = "the full derivative is" if names.count(own) == 1 else "without this detach it is"
        if np.shape(ones) == declared.shape and np.ptp(declared) == np.ptp(real) == 0:
            said = f"the slope is {format_array(declared.flat[0])}, {other} {format_array(real.flat[0])}"
        elif declared.size <= MOST:
            gives = f"for {program.recording.seed} = ones backward gives {format_array(declared)}"
            said = f"{gives}, {other} {format_array(real)}"
        else:
            said = "without it the slope is different"
        name = program.labels.get(own, own)
        yield f".detach() in {at} hides one use of {name}: {said}; that is what detach() is for"


def compare_detaches(program: Capture) -> Iterator[tuple[str, str, Array, Array, Array]]:
    """Iterate over detaches: the tensor, the place, the seed, and vᵀJ with and without the detach."""
    for step in program.recording.steps:
        join, by = find_join(program, step) if has_role(step.op, Role.CUTS) else (None, "")
        if join is None or not program.boxes.keys().isdisjoint(program.recording.reaching([join.result.name])):
            continue
        part = replace(program.recording, output=join.result.name)
        ones = np.ones(np.shape(program.arrays[join.result.name]))
        at = program.place(step.result.name).strip(" ()") or "it"
        for own, real in gradients_without_detach(part, program.values, ones, [by], step.result.name).items():
            yield own, at, ones, as_float(numeric_pullback(part, program.values, ones, [own])[own]), real


def find_join(program: Capture, cut: Apply) -> tuple[Apply | None, str]:
    """Return the step where a detached value meets the tensor it was computed from, or one derived from that."""
    recording, source = program.recording, str(cut.arguments[0])
    above, below, held = recording.reaching([source]), recording.reached([source]), {cut.result.name}
    for step in program.recording.steps:
        if held.isdisjoint(step.tensors):
            continue
        others = [name for name in step.tensors if name not in held]
        by = next((name for name in others if name in above), None)
        if by is None and not below.isdisjoint(others):
            by = source
        if by is None:  # m * W meets W.norm().detach(): both were made of W
            shared = (name for name in program.wanted if name in above)
            by = next((name for name in shared if not recording.reached([name]).isdisjoint(others)), None)
        if by is not None:
            return step, by
        held.add(step.result.name)
    return None, ""


class GradientFlow:
    """Observes a sweep: whether the cotangent of a step, and the result of its pullback, are not 0."""

    def __init__(self) -> None:
        self.arrived: dict[str, bool] = {}
        self.passed: dict[tuple[str, int], bool] = {}
        self.small: dict[str, Array] = {}

    def seen(self, step: Apply, place: int, weights: Array, result: Array) -> None:
        """One step of the sweep."""
        name = step.result.name
        if name not in self.arrived:
            self.arrived[name] = bool(np.any(weights))
            if np.size(weights) <= MOST:
                self.small[name] = np.array(weights)
        self.passed[name, place] = self.arrived[name] and bool(np.any(result))

    def small_of(self, order: Sequence[Node], refs: Mapping[int, Any]) -> Mapping[Any, Array]:
        """Return the cotangents of small living tensors that are not leaves."""
        found: MutableMapping[Any, Array] = notes_by_tensor()
        for node in order:
            tensor = node.owner() if node.kind != "leaf" else None
            name = refs[id(node)].name if id(node) in refs else ""
            if tensor is not None and name in self.small:
                found[tensor] = self.small[name]
        return found

    def stopped(self, program: Capture, name: str) -> tuple[list[Apply], bool]:
        """Return the steps whose pullbacks stop all paths to ``name``, and whether something reaches it."""
        found: dict[str, Apply] = {}
        reaches, stack, known = False, [name], {name}
        while stack:
            read = stack.pop()
            for step in program.recording.readers.get(read, ()):
                own = step.result.name
                if any(self.passed.get((own, place)) for place, a in enumerate(step.arguments) if a == read):
                    reaches = True
                elif self.arrived.get(own):
                    found[own] = step
                elif own not in known:
                    known.add(own)
                    stack.append(own)
        return list(found.values()), reaches

    def why(self, program: Capture, name: str) -> str:
        """Return why the gradient with respect to ``name`` is 0, as seen in the sweep; empty if unknown."""
        steps, reaches = self.stopped(program, name)
        if reaches:
            return "the gradients that reach it cancel"
        if len(steps) != 1:
            return f"{len(steps)} steps pass no gradient back" if steps else ""
        (step,) = steps
        if is_implicit_step(step, program.labels) and not autocast_method(step):
            (source,) = step.tensors
            return f"the gradients that reach {'it' if source == name else program.labels.get(source, source)} cancel"
        return f"{format_step(program, step)}{program.place(step.result.name)} passes no gradient back"
