"""The picture of a program and of one backward through it: how long what comes back is, on every way.

Comes in: an explanation, or a program with what was seen when it was pulled through. Goes out: SVG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from symgrad.backward.page_names import rename_results
from symgrad.explanation import Explanation
from symgrad.explanation.evidence import norm_with_rounding, shape_text
from symgrad.numeric import Array, as_float, euclidean, term_sizes
from symgrad.numeric.vector_products import numeric_pullback
from symgrad.program import Apply, Program, free_name
from symgrad.render.content.teller import teller_of
from symgrad.render.flow_layout import BAND, FlowEdge, FlowGraph, Station
from symgrad.render.flow_picture import flow_picture

TITLE = "The program, and the gradients that flow back through it"
BELOW = "grey: forward; red: the gradient on its way back, with its norm"


class CotangentSums:
    """What comes back on each way, added up where an operation reads a tensor twice."""

    def __init__(self) -> None:
        self.parts: dict[tuple[str, str], Array] = {}

    def __call__(self, step: Apply, place: int, cotangent: Array, part: Array) -> None:
        """One part of a gradient on its way."""
        way = str(step.arguments[place]), step.result.name
        found = as_float(np.asarray(part))
        self.parts[way] = self.parts[way] + found if way in self.parts else found

    @property
    def lengths(self) -> dict[tuple[str, str], float]:
        """The Euclidean lengths."""
        return {way: euclidean(part) for way, part in self.parts.items()}

    def past(self, unsaid: Mapping[str, str]) -> CotangentSums:
        """What comes back where the steps that are ``unsaid``, by what they read, are passed on the way."""
        found = CotangentSums()
        for (source, target), part in self.parts.items():
            if target in unsaid:
                continue
            first = source
            while first in unsaid:
                source, first = first, unsaid[first]
            back = part if first == source else self.parts.get((first, source))
            if back is not None:
                way = first, target
                found.parts[way] = found.parts[way] + back if way in found.parts else back
        return found


def program_picture(explanation: Explanation) -> str:
    """The program of an explanation, and behind it the loss that says what the seed is."""
    program, later = explanation.program, explanation.downstream
    lengths, shapes = lengths_of(explanation), {t.name: np.shape(explanation.values[t.name]) for t in program.tensors()}
    said = {step.result.name: teller_of(program, None if explanation.expanded else explanation.expression).code(step)
            for step in program.forward_steps}  # fmt: skip
    seed, name = explanation.seed, program.seed
    if later is not None:
        made = [step.result.name for step in later.program.steps]
        change = {own: free_name((own,), {*shapes, *made}) for own in made if own in shapes}
        teller, behind = teller_of(later.program, later.expression), rename_results(later.program, change)
        said |= {change.get(s.result.name, s.result.name): teller.code(s) for s in later.program.forward_steps}
        shapes |= {change.get(t.name, t.name): np.shape(later.values[t.name]) for t in later.program.tensors()}
        lengths |= {(change.get(a, a), change.get(b, b)): size for (a, b), size in lengths_of(later).items()}
        more = tuple(t for t in behind.inputs if t.name not in program.names)
        steps = (*program.forward_steps, *behind.forward_steps)
        program = Program((*program.inputs, *more), steps, behind.output)
        seed, name = later.seed, f"∂{behind.output}/∂{behind.output}"
    return draw_program(
        program, program.steps if later else program.forward_steps, lengths, {program.output: seed},
        shape_of=shapes.__getitem__, said=lambda step: said[step.result.name], seed=name,
    )  # fmt: skip


def lengths_of(explanation: Explanation) -> dict[tuple[str, str], float]:
    """How long what comes back on each way is, what is only rounding marked as that."""
    program, values, watched = explanation.program, explanation.values, CotangentSums()
    numeric_pullback(program, values, as_float(explanation.seed), tuple(explanation.gradients), watched)
    terms = term_sizes(program, sorted({source for source, _ in watched.parts}), values, explanation.seed, True)
    return {way: norm_with_rounding(part, terms[way[0]]) for way, part in watched.parts.items()}


def draw_program(
    program: Program, steps: Iterable[Apply], lengths: Mapping[tuple[str, str], float], seeds: Mapping[str, Any], *,
    shape_of: Callable[[str], tuple[int, ...]], said: Callable[[Apply], str] = lambda step: "",
    labels: Mapping[str, str] | None = None, seed: str = "v", band: int = BAND,
) -> str:  # fmt: skip
    """A program with the lengths that were seen on its ways."""
    labels, told = labels or {}, tuple(steps)
    called: dict[str, str] = {}
    taken: set[str] = set()
    for tensor in (*program.inputs, *(step.result for step in told)):
        name = labels.get(tensor.name, tensor.name)
        called[tensor.name] = name if name not in taken else f"{name} ({tensor.name})"
        taken.add(called[tensor.name])
    read = {name for step in told for name in step.tensors} | set(seeds)
    stations = [
        Station(called[t.name], "", shape_text(shape_of(t.name), "a number")) for t in program.inputs if t.name in read
    ]
    texts = [said(step) for step in told]
    for n, step in enumerate(told):
        text = " ".join(texts[n].split())
        own = bool(text) and len(text) <= LONGEST_SAID and texts[n] not in texts[n + 1 :]
        made = text if own else step.called
        stations.append(Station(called[step.result.name], made, shape_text(shape_of(step.result.name), "a number")))
    known = {station.name for station in stations}
    readers = dict.fromkeys((called[name], called[step.result.name]) for step in told for name in step.tensors)
    renamed = {(called[a], called[b]): value for (a, b), value in lengths.items()}
    ways = tuple(FlowEdge(*way, renamed.get(way)) for way in readers if set(way) <= known)
    ends, all_seeds = list(seeds), np.concatenate([np.ravel(as_float(s)) for s in seeds.values()])
    return flow_picture(FlowGraph(
        TITLE, BELOW, tuple(stations), ways,
        called[ends[0]] if ends else "", seed, euclidean(all_seeds), band,
    ))  # fmt: skip


LONGEST_SAID = 19
"""Characters of an operation as the user wrote it."""
