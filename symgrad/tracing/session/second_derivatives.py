"""The second derivatives of one call (``--order 2``).

Comes in: the scene of a call that was printed. Goes out: a note with H for each pair of leaves, and the lines of gᵀH
for seeds g of the gradients. Torch did not compute H; instead a product with H is computed in two other ways: forward
through the gradient, and by difference quotients of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from symgrad.backward import derive_pushforward
from symgrad.calculus import flowing
from symgrad.errors import Setting, SymgradError, UnsupportedError
from symgrad.numeric import forward_from
from symgrad.numeric.exact import Array, as_float
from symgrad.tracing.captured import Capture
from symgrad.tracing.captured.step_text import format_step_shape
from symgrad.tracing.lift.values import largest_entry
from symgrad.tracing.record.gradients import RecordedGradient
from symgrad.tracing.record.trace import Node, as_numbers
from symgrad.tracing.record.transforms import DerivativeRequest
from symgrad.tracing.session.jacobian_sweeps import describe_jacobian_block
from symgrad.tracing.session.scene import Scene, capture_request, pull_capture, push_capture
from symgrad.tracing.story.events import Note, list_names
from symgrad.tracing.story.folding import list_folded_program
from symgrad.tracing.story.story_lines import MOST_STEPS, make_lines

PAIRS = 10
"""The most blocks of H that are printed one by one."""
STEPS = (1e-3, 1e-4, 1e-5)
"""Steps of the difference quotients."""
NEAR, EQUAL = 1e-5, 1e-9
"""Tolerances of difference quotients and of another sweep, relative to the largest entry of the product."""


def explain_second_order(scene: Scene) -> Note:
    """Return the note of one call; raise `UnsupportedError` if its gradient cannot be differentiated."""
    program = capture_gradient(scene)
    if program.boxes:
        spelling = program.black_boxes[0].spelling
        raise UnsupportedError(f"{spelling} is not derived: what its gradient depends on is not known")
    letter, shown, weights = derive_lines_for_any_seed(program, True)
    said = [*describe_hessian_blocks(program), *confirm_hessian_product(program, weights)]
    if shown:
        seeds = f"{letter} of the shape {format_step_shape(weights[program.ends[0]].shape)}"
        if len(weights) > 1:
            seeds = f"{letter}1 … {letter}{len(weights)}, weights of the gradients of {', '.join(program.inputs)}"
        said += [f"the backward of the backward, {letter}ᵀH for {seeds}:"]
        said += [f"  {name_hessian_product(line, program.inputs, letter)}" for line in shown]
    size = sum(int(np.size(program.arrays[own])) for own in program.wanted)
    what = f"call {scene.number}, order 2: H holds the second derivatives of Σ v·out, {size}×{size} in all:"
    return Note(scene.where, what, tuple(said))


def capture_gradient(scene: Scene) -> Capture:
    """Return the program of the call's gradients, whose Jacobian is H."""
    reached = {id(node) for node in scene.order}
    ask = scene.request(scene.nodes, [node for node, _ in scene.leaves if id(node) in reached])
    if not ask.wrt:
        raise UnsupportedError("no leaf is reached")
    first = capture_request(ask, ask.outputs)
    pairs = [*zip(first.wanted, ask.wrt, strict=True)]
    only = [pair for pair in pairs if scene.watch.wants(first.labels[pair[0]])] or pairs
    wanted, ask.wrt = zip(*only, strict=True)
    return capture_request(ask, request_gradient_nodes(ask, replace(first, wanted=wanted), scene.seeds))


def request_gradient_nodes(ask: DerivativeRequest, first: Capture, seeds: Sequence[Any] = (None,)) -> list[Node]:
    """Return nodes for the gradients that are differentiated again, with derived numbers.

    ``first`` is the program of the outputs.
    """
    pairs = zip(first.results, seeds, strict=True)
    pulled = pull_capture(first, [np.ones(np.shape(r)) if v is None else as_numbers(v) for r, v in pairs])
    weights = tuple(None if seed is None else Node("data", seed, None, ask.where) for seed in seeds)
    gradient = RecordedGradient(ask.outputs, weights, ask.wrt, (None,) * len(ask.wrt))
    return [
        Node("gradient", torch.as_tensor(as_float(pulled[name])).to(node.held.dtype), None, ask.where,
             index=place, parents=gradient.parents, gradient=gradient)
        for place, (node, name) in enumerate(zip(ask.wrt, first.inputs, strict=True))
    ]  # fmt: skip


def list_function_lines(program: Capture, second: bool, forward: bool = False) -> Iterator[str]:
    """Iterate over the lines of a function, of vᵀJ for any seed (or Ju if ``forward``), and its opaque calls."""
    ran = list_folded_program(program)
    if ran:
        yield "the function, and its gradient:" if second else "the function:"
    yield from (f"  {line}" for line in ran)
    if forward:
        yield from list_pushforward_lines(program, second)
    else:
        letter, lines, seeds = derive_lines_for_any_seed(program, False)
        if lines:
            shapes = " and ".join(dict.fromkeys(format_step_shape(weights.shape) for weights in seeds.values()))
            yield f"{letter}ᵀJ, for {letter} of the shape {shapes}:"
            yield from (f"  {line}" for line in lines)
    yield from map(str, program.black_boxes)


def list_pushforward_lines(program: Capture, second: bool) -> Iterator[str]:
    """Iterate over the lines of Ju, and the forward lines that they need and that were not printed."""
    recording, ends = program.recording, tuple(dict.fromkeys(program.ends))
    moved = [name for name in program.wanted if flowing(recording, (name,)) & {*ends}]
    if not moved or len(recording.steps) > MOST_STEPS:
        return
    try:
        found = derive_pushforward(
            recording, moved, program.values, ends=ends, labels=program.labels, boxes=program.boxes
        )
    except SymgradError as error:
        yield f"Ju cannot be shown line by line: {error.problem}"
        return
    if not found.changes:
        yield "Ju is 0 for every u"
        return
    listed, own = {*program.labels.values()}, {line.of for line in found.changes}
    read = {name for line in found.changes for name in line.names}
    also = [line for line in found.lines if line.of not in own and line.name not in listed and line.target in read]
    directions = list_names([f"{own} of the shape {format_step_shape(np.shape(program.arrays[name]))}"
                             for name, own in found.push.directions.items()])  # fmt: skip
    yield f"Ju{' of the gradient, which is H·u' if second else ''}, for {directions}:"
    yield from (f"  {line.shown}" for line in (*also, *found.changes))


def derive_lines_for_any_seed(program: Capture, asked: bool) -> tuple[str, Sequence[str], dict[str, Array]]:
    """Return the seed's name, the lines of vᵀJ, and the random seeds with which the lines were proven."""
    draw = np.random.default_rng(0)
    weights = {end: draw.uniform(0.5, 1.5, np.shape(program.arrays[end])) for end in program.ends}
    lines = make_lines(program, weights, False, asked)
    return lines.letter(program.recording.seed), [line for line, _ in lines.every(opened=True)], weights


def is_recorded_gradient(end: Node) -> bool:
    """Whether an output is itself a gradient, so that its derivative is a second derivative."""
    return end.kind == "gradient" and not end.gradient.along


def describe_hessian_blocks(program: Capture) -> Iterator[str]:
    """Iterate over lines about H for each pair of leaves: size, structure, zeros; for many leaves their number only."""
    ends, inputs = program.outputs, program.inputs
    pairs = [(m, n) for m in range(len(inputs)) for n in range(m, len(inputs))]
    if len(pairs) > PAIRS:
        yield f"{len(pairs)} blocks for {len(inputs)} leaves, of which {Setting('run', value='--only NAME')} shows one"
        return
    for m, n in pairs:
        whole = program.jacobian(inputs[n], output=ends[m])
        size, *seeds = describe_jacobian_block(program, whole, ends[m], "order 2", "H")
        pair = inputs[n] if m == n else f"{inputs[m]} and {inputs[n]}"
        yield size.partition(": a row")[0].replace(f"H with respect to {inputs[n]}", f"H with respect to {pair}", 1)
        yield from seeds


def name_hessian_product(line: str, names: Sequence[str], letter: str) -> str:
    """Rename the left side of a line whose result is a product with H."""
    left, equals, right = line.partition(" = ")
    name = left.removesuffix(".grad")
    return f"{letter}ᵀH for {name}{equals}{right}" if equals and name != left and name in names else line


def confirm_hessian_product(program: Capture, weights: dict[str, Array]) -> Iterator[str]:
    """Iterate over lines that compare three computations of a product with H."""
    draw = np.random.default_rng(1)
    ways = {own: draw.uniform(-1, 1, np.shape(program.arrays[own])) for own in program.wanted}
    forward = push_capture(program, {program.labels[own]: way for own, way in ways.items()})
    moved = np.concatenate([as_float(part).reshape(-1) for part in forward])
    terms = moved * np.concatenate([weights[end].reshape(-1) for end in program.ends])
    back = pull_capture(program, list(weights.values()))
    other = sum(float(np.sum(ways[own] * as_float(back[program.labels[own]]))) for own in ways)
    outputs, allowed = outputs_along(program, ways), NEAR * max(largest_entry(moved), 1e-3)
    quotients = ((outputs(step) - outputs(-step)) / (2 * step) for step in STEPS)
    if abs(terms.sum() - other) > EQUAL * max(1e-300, np.abs(terms).sum()):
        yield f"symgrad's two computations of H disagree: {terms.sum():.6g} and {other:.6g}"
    elif any(np.all(np.abs(quotient - moved) <= allowed) for quotient in quotients):
        yield "confirmed by difference quotients of the gradient, and by a forward pass through it"
    else:
        yield "a forward pass through the gradient agrees; difference quotients do not: a kink nearby, or lost digits"


def outputs_along(program: Capture, ways: Mapping[str, Array]) -> Callable[[float], Array]:
    """All outputs, one after the other, with some tensors moved along ``ways`` as far as asked."""
    here = {name: as_float(program.arrays[name]) for name in ways}

    def outputs(by: float) -> Array:
        there = {name: here[name] + by * way for name, way in ways.items()}
        values = forward_from(program.recording, program.values, there)
        return np.concatenate([as_float(values[end]).reshape(-1) for end in program.ends])

    return outputs
