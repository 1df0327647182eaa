"""Explain one call of ``backward`` or ``grad``.

Comes in: a `Scene`, then torch's results or exception. Goes out: a `CallEvent`: the program of the outputs, and for
each leaf the derived vᵀJ beside torch's.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from symgrad.errors import Setting, SymgradError, UnsupportedError
from symgrad.explanation.singular import Passage, record_nonfinite_origins
from symgrad.language.inference import PAIRS, complex_notes
from symgrad.numeric.exact import as_float
from symgrad.render.numbers import KEPT as KEPT_WHOLE
from symgrad.tracing.captured import Capture
from symgrad.tracing.captured.step_text import (
    draw_sweep,
    format_step_shape,
    torch_choices,
    torch_conventions,
)
from symgrad.tracing.lift.lifter import Lifter
from symgrad.tracing.lift.values import precision_of, without_composites
from symgrad.tracing.record.names import name_nodes
from symgrad.tracing.record.trace import as_numbers
from symgrad.tracing.session import failures, no_gradient, own_backward, remarks, zero_reasons
from symgrad.tracing.session.agreement import Judge
from symgrad.tracing.session.history import KEPT, Outline, nearest_outline
from symgrad.tracing.session.lessons import collect_lessons, describe_leaf_jacobian, format_jacobian_size
from symgrad.tracing.session.nonfinite import explain_nonfinite, is_lost_to_zero_weights
from symgrad.tracing.session.remarks import explain_nameless_inputs
from symgrad.tracing.session.scene import (
    Findings,
    Notes,
    Scene,
    explain_extended_gradients,
    format_seed,
    grad_state,
    write_weighted_sum,
)
from symgrad.tracing.story.events import CallEvent, Leaf
from symgrad.tracing.story.folding import list_folded_program
from symgrad.tracing.story.line_checks import expand_hidden_names, write_entry_equations
from symgrad.tracing.story.story_lines import StoryLines, make_lines

HANDFUL = 6
"""With more leaves than this, formulas are printed on request only."""
NOTES: tuple[tuple[Notes, bool], ...] = (
    (remarks.explain_accumulation, True),
    (remarks.explain_leaf_output, True),
    (lambda call: call.told.withheld, True),
    (zero_reasons.explain_zeros, False),
    (remarks.explain_broadcast_losses, False),
    (zero_reasons.explain_kinks, False),
    (collect_lessons, False),
    (explain_nameless_inputs, False),
    (no_gradient.explain_missing_gradients, False),
    (no_gradient.explain_unread_results, True),
    (zero_reasons.explain_detaches, False),
    (lambda call: dict.fromkeys(own_backward.judge_each_call(call.program)), False),
    (explain_nonfinite, True),
    (lambda call: call.closed, False),
    (remarks.explain_leaf_hooks, True),
    (lambda call: torch_choices(call.program, {} if call.real else call.judge.chosen), True),
    (remarks.explain_torch_overflow, True),
    (remarks.explain_torch_rounding, True),
    (lambda call: torch_conventions(call.program, call.judge.rules if any(r.ruled for r in call.rows) else {}), True),
    (remarks.explain_nested_backward, True),
    (remarks.explain_overwritten_seed, True),
    (lambda call: call.scene.sensor.told(), True),
    (remarks.explain_seed_letter, False),
)
"""The notes about a call, in order, and whether they are also printed for a program that was printed before."""


def explain_call(scene: Scene, result: Any, error: Exception | None) -> CallEvent:
    """Return the event of one call in full."""
    here = scene.where if scene.kind == "grad" else None  # what this line assigns is the gradient
    names = name_nodes(scene.order, scene.names, scene.sight, outside=here, given=True)
    if scene.given.batched and error is None:
        raise UnsupportedError(
            "is_grads_batched passes many v at once and returns one vᵀJ for each of them",
            hints=("call it with a single v",),
        )
    if error is not None:
        return failed_event(scene, names, error)
    lifted = Lifter(names, scene.stops()).lift(scene.nodes)
    lifted, closed = without_composites(lifted) if scene.watch.expand else (lifted, ())
    targets = scene.targets(lifted, result)
    program = scene.program(lifted, targets)
    shown = list_folded_program(program)
    key = scene.where.file, scene.where.line
    given = ((program.labels[t.name], tuple(np.shape(program.arrays[t.name]))) for t in program.recording.inputs)
    outline = Outline(shown, tuple(given))
    earlier, asked = scene.watch.shown.setdefault(key, []), scene.number == scene.watch.call
    like = None if asked else nearest_outline(earlier, outline)
    repeated = like is not None
    if not repeated:
        earlier[:] = [*earlier[1 - KEPT :], (scene.number, outline)]
    born: list[Passage] = []
    flow = zero_reasons.GradientFlow()
    seeds = scene.weights(lifted)
    judge = Judge(program, seeds, scene.types(lifted))
    met, letter = zero_reasons.KinkPassages(), program.recording.seed
    drawn = []
    if scene.watch.pictures and not repeated:
        from symgrad.render.program_drawing import CotangentSums

        drawn = [CotangentSums()]
    sweep = partial(judge.pull, [record_nonfinite_origins(born), flow.seen, *([] if repeated else [met.seen]), *drawn])
    ones = len(scene.seeds) == 1 and scene.seeds[0] is None
    unit = max((precision_of(kind)[1] for kind in judge.kinds.values()), default=0)
    told = StoryLines() if repeated else make_lines(program, seeds, ones, asked, unit, sweep)
    if not judge.pulled:
        sweep()
    scene.passed = flow.small_of(scene.order, lifted.refs)
    lost = is_lost_to_zero_weights(program, born)
    real = explain_extended_gradients(program, seeds, judge.kinds) if born and not lost else None
    open_as = "lost to 0·∞" if lost else "out of range" if real is not None else ""
    few = len(targets) <= HANDFUL or bool(scene.watch.only)
    rows = [
        make_leaf_row(scene, judge, name, tensor, true, few and not repeated, flow, open_as, told)
        for name, (tensor, true) in targets.items()
        if scene.watch.wants(program.labels[name])
    ]
    letter = told.letter(letter) if like is None else scene.watch.letters.get(like[0], letter)
    scene.watch.letters[scene.number] = letter
    ties = [] if repeated else zero_reasons.find_kinks(program, seeds, met)
    call = Findings(scene, lifted, program, names, seeds, targets, rows, judge, shown, told, letter, repeated, born,
                    real, ties, closed)  # fmt: skip
    notes = [line for say, again in NOTES if again or not repeated for line in say(call)]
    notes = expand_hidden_names(notes, program, told.source)
    spoken = [program.labels[n] for n, (t, _) in targets.items() if t.is_complex()]
    if scene.seeds[0] is not None:
        written = remarks.read_backward_call(scene.where)[1]
        scene.watch.weights.append((scene.where, written or format_seed(scene.seeds)))
    return CallEvent(
        scene.number,
        scene.where,
        format_seed(scene.seeds),
        write_weighted_sum(scene.seeds, [lifted.labels.get(name, name) for name in lifted.outputs], letter),
        shown,
        describe_roles(scene, program, targets),
        tuple(rows),
        tuple(notes),
        tuple(map(str, program.black_boxes)),
        repeated=repeated,
        like=0 if like is None else like[0],
        unlike=() if like is None else like[1],
        kind=scene.kind,
        told=told,
        letter=letter,
        lead=() if repeated else complex_notes(spoken) or ((PAIRS,) if program.complexes else ()),
        picture="".join(draw_sweep(program, seeds, ways) for ways in drawn if ways.parts),
        entries=write_entry_equations(program, told.source) if scene.watch.pictures else None,
        left_out=tuple(program.labels[n] for n in targets if not scene.watch.wants(program.labels[n])),
    )


def unexplained_event(scene: Scene, error: Exception | None, problem: str, found: tuple[str, ...]) -> CallEvent:
    """Return the event of a call that could not be explained, with the reason."""
    failure = "" if error is None else first_sentence(error)
    notes = (f"not explained: {problem}", *(f"  {line}" for line in found))
    seed = format_seed(scene.seeds, scene.outputs)
    return CallEvent(scene.number, scene.where, seed, notes=notes, failure=failure, explained=False)


def failed_event(scene: Scene, names: dict[int, str], error: Exception) -> CallEvent:
    """Return the event of a call that torch refused."""
    lifted = program = None
    shown, roles = tuple[str, ...](), tuple[str, ...]()
    with suppress(SymgradError):
        lifted = Lifter(names).lift(scene.nodes)
    if lifted is not None:
        program = scene.program(lifted, [n for n, node in lifted.nodes.items() if node.kind == "leaf"])
        shown, asked = list_folded_program(program), {*map(id, scene.asked or ())}
        named = [n for n, node in lifted.nodes.items() if id(node.owner()) in asked]
        roles = describe_roles(scene, program, program.wanted if scene.asked is None else named) if shown else ()
    reasons = scene.sensor.refused(error) or failures.explain_failure(scene, lifted, program, error)
    if not scene.recorded:
        more = Setting("run", value=f"--call {scene.number}")
        reasons = [*reasons, f"This call was not recorded; {more} explains it."]
    failure, seed = first_sentence(error), format_seed(scene.seeds, scene.outputs)
    return CallEvent(scene.number, scene.where, seed, "", shown, roles, failure=failure, reasons=tuple(reasons))


def make_leaf_row(
    scene: Scene, judge: Judge, name: str, tensor: Any, true: Any, formulas: bool, flow: zero_reasons.GradientFlow,
    lost: str, told: StoryLines,
) -> Leaf:  # fmt: skip
    """Return the row of one leaf."""
    program = judge.program
    jacobian = describe_leaf_jacobian(program, name) if formulas else format_jacobian_size(program, name)
    form = told.forms.get(program.labels[name])
    kept = scene.before.get(id(tensor)) if scene.kind == "backward" else None
    before, added = None if kept is None else as_numbers(kept), as_float(judge.derived[name])
    found = judge.verdict(name, None if true is None else as_numbers(true), kept)
    if before is not None and not (stood := np.isfinite(before)).all() and not np.any(judge.open[name] & stood):
        lost = "not finite in .grad before"
    error, agrees = found.max_error, found.passed
    boxed = program.boxed(name)
    if boxed and agrees:
        error = agrees = None  # torch beside torch
    after = tensor.grad if scene.kind == "backward" else true
    last = None if after is None else as_numbers(after)
    if last is not None and last.size <= KEPT_WHOLE:  # nobody keeps a large one when it was told
        last = last.copy()
    changed = "" if agrees is True else remarks.name_gradient_changer(scene, tensor)
    if changed:
        error = agrees = None  # what a hook made of it cannot be compared
    return Leaf(
        program.labels[name],
        tuple(tensor.shape),
        jacobian,
        form,
        before,
        added,
        last,
        error,
        agrees,
        judge.rounding(name) or bool(agrees and not added.any() and as_numbers(true)[~judge.open[name]].any()),
        boxed,
        int(np.sum(judge.open[name])),
        lost,
        "" if added.any() else flow.why(program, name),
        changed,
        found.own_rule,
        last is not None and last.shape == added.shape and bool(np.any(np.isfinite(added) & np.isinf(last))),
    )


def describe_roles(scene: Scene, program: Capture, targets: Any) -> tuple[str, ...]:
    """Return each input with its shape and role, then each output that is not an input."""
    inputs = {tensor.name: tensor.shape for tensor in program.recording.inputs}
    shapes = inputs | {end: np.shape(program.arrays[end]) for end in program.ends if end not in inputs}
    mark = " (leaf)" if scene.asked is None else " (differentiated)"
    marks = {name: mark for name in inputs if name in targets}
    return tuple(f"{program.labels.get(n, n)} {format_step_shape(s)}{marks.get(n, '')}" for n, s in shapes.items())


def remember_call(scene: Scene, ran: bool) -> None:
    """Record the leaves whose ``.grad`` this call filled, and the parts of the graph that it freed."""
    if ran:
        scene.watch.last = no_gradient.make_last_call(scene)
    scene.watch.recorder.storages.grown += 1
    for node in scene.order if ran and not scene.given.retained else ():
        node.freed = node.freed or scene.where
    for _, tensor in scene.leaves if scene.kind == "backward" else ():
        if tensor.is_leaf and tensor.grad is not None and grad_state(tensor.grad) != scene.stood.get(id(tensor)):
            _, known, _ = scene.watch.filled.get(tensor, (None, "a leaf", 0))
            scene.watch.note_filled(tensor, scene.where, scene.sight.get(id(tensor)) or known)


def first_sentence(error: Exception) -> str:
    """Return an exception's type and its first sentence; the traceback has the rest."""
    line = (str(error).splitlines() or [""])[0]
    sentence = line.split(". ")[0].split(": [")[0]
    return f"{type(error).__name__}: {sentence if len(sentence) <= 120 else f'{sentence[:117]}…'}"
