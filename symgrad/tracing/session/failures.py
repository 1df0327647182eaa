"""Explain an exception of ``backward`` from what was recorded, in mathematical terms.

Comes in: the scene of a call and torch's exception. Goes out: lines with values, lines and shapes of this run; the
exception's text only selects the explanation.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from symgrad.calculus import local_pullback, standard
from symgrad.errors import SymgradError
from symgrad.indexing.symbols import accesses, name_of
from symgrad.program import Apply
from symgrad.render.numbers import format_array
from symgrad.tracing.captured import Capture
from symgrad.tracing.captured.step_text import format_step, format_step_shape
from symgrad.tracing.lift import LiftedProgram
from symgrad.tracing.record import frames
from symgrad.tracing.record.trace import SourceLine
from symgrad.tracing.session.remarks import read_backward_call
from symgrad.tracing.session.scene import Scene, pull_capture
from symgrad.tracing.session.torch_messages import Refusal, describe_overwrite, find_refusal
from symgrad.tracing.story.events import list_names


def explain_failure(scene: Scene, lifted: LiftedProgram | None, program: Capture | None, error: Exception) -> list[str]:
    """Return why torch refused, and what to do."""
    inner = frames.locate_error(error)
    if inner is not None:
        return explain_inner_error(inner, error)
    match find_refusal(error):
        case Refusal.COMPLEX_OUTPUT:
            return explain_complex_output(scene)
        case Refusal.NO_SEED:
            return explain_missing_seed(scene, program)
        case Refusal.OTHER_SHAPE | Refusal.NO_TENSOR:
            return explain_seed_shape(scene)
        case Refusal.SECOND_TIME:
            return explain_freed_graph(scene, program)
        case Refusal.OVERWRITTEN:
            return explain_overwritten_value(scene, program, lifted) if scene.recorded else describe_overwrite(error)
        case Refusal.NO_PATH:
            return explain_missing_path(scene)
        case Refusal.UNUSED:
            lost = list_unreached_inputs(scene) or f"there is no path from an input to {output_name(scene)}"
            return [f"{lost}, so no J. allow_unused=True gives None, materialize_grads=True zeros."]
    return []


def explain_inner_error(inner: tuple[SourceLine, str], error: Exception) -> list[str]:
    """Explain an error inside the user's hook or backward, which torch ran during this call."""
    (place, function), refusal = inner, find_refusal(error)
    lines = [f"The error came from {place.short} ({place.text}), in {function}, which torch ran during backward."]
    answer = "" if refusal is None else refusal.answer
    if refusal is Refusal.NO_PATH:
        answer = (
            "inside a backward autograd records nothing: with torch.enable_grad(): x = x.detach().requires_grad_(), …"
        )
    return [*lines, "The call of backward itself is correct.", *([f"  {answer}"] if answer else [])]


# Seeds ----------------------------------------------------------------------------------------------------


def explain_missing_seed(scene: Scene, program: Capture | None) -> list[str]:
    """Explain a missing seed of an output that is not a scalar."""
    tensor = scene.outputs[0]
    name = output_name(scene)
    count = int(tensor.numel())
    lines = [f"{name} has {count} elements, so J has {count} rows and {scene.kind}() has no weights for them."]
    if scene.watch.weights:
        where, weights = scene.watch.weights[-1]
        lines.append(f"The call in line {where.line} passed {weights}; this one passes nothing.")
    call = f"{name}.backward(torch.ones_like({name}))"
    call = call if scene.kind == "backward" else "grad_outputs=torch.ones_like(…)"
    lines.append(f"  the gradient of the sum:      {call}   or {name}.sum().backward()")
    lines.append(f"  the gradient of one entry:    {name}[{','.join('0' * tensor.dim())}].backward()")
    if program is not None and scene.asked is None and (found := write_gradients_of_sum(program)):
        lines.append(f"  the sum would give {', '.join(found)}")
    if scene.watch.since is not None:
        stands, where = scene.watch.since
        lines.append(f"  ({stands} since line {where.line})")
    return lines


def explain_complex_output(scene: Scene) -> list[str]:
    """Explain a missing seed of a complex output."""
    name = output_name(scene)
    return [
        f"{name} is complex: two real numbers, so J has two rows for each entry, and {scene.kind}() has no weights.",
        "A loss is a real number; these are:",
        f"  the sum of the real parts:    {name}.real.sum().backward()",
        f"  the sum of squared moduli:    ({name}.abs() ** 2).sum().backward()",
        f"  weights of your own:          {name}.backward(v), v complex: v.real weighs {name}.real, v.imag {name}.imag",
    ]


def write_gradients_of_sum(program: Capture) -> list[str]:
    """Write the gradients for v = ones, in matrix notation if it is short, else in numbers."""
    found, letter = [], program.recording.seed
    if len(program.inputs) > 4:
        return []
    try:
        seed = [np.ones(np.shape(r)) for r in program.results]
        numbers = pull_capture(program, seed)
    except SymgradError:
        return []
    for name in program.inputs:
        form = None
        with suppress(SymgradError):
            form = program.closed_form(name)
        ones = f"{letter} * "
        if form is not None and form.startswith(ones) and letter not in form[len(ones) :].replace(".", " ").split():
            form = form[len(ones) :]
            found.append(f"{name}.grad += {form}")
        elif form is not None and "; " not in form and numbers[name].size > 6:
            found.append(f"{name}.grad += {form} with {letter} = ones")
        else:
            found.append(f"{name}.grad += {format_array(numbers[name])}")
    return found


def explain_seed_shape(scene: Scene) -> list[str]:
    """Explain a seed whose shape is not the output's."""
    name, tensor = output_name(scene), scene.outputs[0]
    seed: Any = next((s for s in scene.seeds if s is not None), None)
    given = format_step_shape(tuple(seed.shape)) if seed is not None else "nothing"
    want = format_step_shape(tuple(tensor.shape))
    rows = int(tensor.numel())
    counted = f": {rows} outputs, so J has {rows} rows, and v weighs each of them" if rows > 1 else ", one output"
    lines = [
        f"{name} is {want}{counted}: v must be {want}, not {given}.",
        "The shapes of inputs and parameters have nothing to do with it: they are J's columns, and the result's shape.",
    ]
    for node, leaf in scene.leaves[:4]:
        label = scene.sight.get(id(leaf), "a leaf")
        lines.append(
            f"  {label} {format_step_shape(node.shape)} → {name} {want}; J {rows}×{leaf.numel()}; "
            f"v {want} = 1×{rows}; vᵀJ 1×{leaf.numel()} → {format_step_shape(node.shape)}"
        )
    if not tensor.shape:
        lines.append(f"  without v:                {name}.backward() takes v = 1")
    else:
        lines.append(f"  the gradient of the sum:  v = torch.ones_like({name})")
    if seed is not None and seed.numel() == rows:
        lines.append(f"  the same numbers:         v.reshape({', '.join(map(str, tensor.shape))})")
    return lines


# Graphs ---------------------------------------------------------------------------------------------------


def values_read_by_pullbacks(program: Capture) -> dict[str, list[Apply]]:
    """Return the forward values that the derived pullbacks read, with the steps that read them."""
    found: dict[str, list[Apply]] = {}
    reached = program.recording.reached(program.wanted)
    for step in program.recording.steps:
        if reached.isdisjoint(step.tensors) or step.result.name in program.boxes:
            continue
        form = standard(step, program.recording)
        for place, argument in enumerate(step.arguments):
            if isinstance(argument, str) and argument in reached:
                equation = local_pullback(form.key, place)
                for own in {name_of(a) for a in accesses(equation.right)}:
                    if own in form.names:
                        steps = found.setdefault(form.names[own], [])
                        if step not in steps:
                            steps.append(step)
    return found


def explain_freed_graph(scene: Scene, program: Capture | None) -> list[str]:
    """Explain a second backward through a graph whose saved tensors were freed."""
    lines = []
    if freed := [node.freed for node in scene.order if node.freed is not None]:
        where = freed[-1]
        lines.append(
            f"The call in line {where.line} ({where.text}) already ran through this part of the graph and freed its "
            "saved tensors."
        )
    if program is not None:
        values = values_read_by_pullbacks(program)
        names = [program.labels.get(n, n) for n in values]
        if names:
            lines.append(f"saved tensors that this vᵀJ needs: {', '.join(dict.fromkeys(names))} (torch may save more)")
            first = next(iter(values.items()))
            lines.append(
                f"  {program.labels.get(first[0], first[0])} is needed by the backward of "
                f"{format_step(program, first[1][0])}"
            )
        else:
            lines.append("this backward needs no saved tensors, but PyTorch frees the graph anyway")
    lines += [
        "  two losses:                     add them and call backward once; the gradients add up just the same",
        "  the same graph again:           retain_graph=True in every call but the last",
        "  a value carried between steps:  h = h.detach(), or compute it anew",
    ]
    return lines


def explain_overwritten_value(scene: Scene, program: Capture | None, lifted: LiftedProgram | None) -> list[str]:
    """Explain that a saved tensor needed by the backward was overwritten."""
    if program is None or lifted is None:
        return []
    refs = lifted.refs
    by_name = {**lifted.nodes, **{refs[id(n)].name: n for n in scene.order if id(n) in refs and n.kind != "leaf"}}
    lines: list[str] = []
    written: dict[SourceLine, int] = {}
    elsewhere = False
    for name, steps in values_read_by_pullbacks(program).items():
        node = by_name.get(name)
        if node is None or node.destroyed is None:
            continue
        label, where = program.labels.get(name, name), node.destroyed
        steps = [step for step in steps if not _overwrites_input(program, step, name, where)]
        if not steps:
            continue
        weights = node.kind == "leaf"  # which torch lets nobody write but behind its back: a step of training
        written[where] = written.get(where, 0) + 1
        if weights and written[where] > 1:
            continue
        for step in steps[: 1 if weights else 2]:
            text = format_step(program, step)
            role = "its own output" if step.result.name == name else "its input"
            at = program.place(step.result.name)
            did = "wrote into a tensor that shares its memory" if node.beside else "overwrote it"
            here = f"line {where.line} ({where.text})"
            lines.append(f"The backward of {text}{at} needs {label}, {role}; {here} {did}.")
        if weights:
            lines.append(f"  every backward first:    then line {where.line}, which changes the weights")
            lines.append(f"  or a new output:         computed after line {where.line}, with the new weights")
        else:
            elsewhere = True
            writer = next((s for s in program.recording.steps if _overwrites_input(program, s, name, where)), None)
            first = f"  write line {where.line} out of place:   "
            lines.append(f"{first}{rewrite_out_of_place(where.text, writer)}")
            lines.append(f"{'  or overwrite a copy:':{len(first)}}{label} = {label}.clone() before line {where.line}")
    if elsewhere:
        lines.append(
            "Writing in place is safe where no backward needs the old value. The backward of x * 2 needs none, that of "
            "exp(x) its output, that of x**2 its input."
        )
    return lines


def _overwrites_input(program: Capture, step: Apply, name: str, where: SourceLine) -> bool:
    """Whether a step overwrote its own input; torch keeps a copy for its pullback, unless it reads it twice."""
    return program.lines.get(step.result.name) == where and step.arguments.count(name) == 1


MODULES = ("torch", "F")
"""Modules whose in-place functions take the tensor to write as first argument."""


def rewrite_out_of_place(text: str, writer: Apply | None) -> str:
    """Rewrite an in-place statement out of place if that is easy, else name the function or give general advice."""
    code = text.split("#")[0].strip()
    for sign in ("+=", "-=", "*=", "/="):
        target, found, value = code.partition(sign)
        if found and target.strip().isidentifier():
            return f"{target.strip()} = {target.strip()} {sign[0]} {value.strip()}"
    target, found, rest = code.partition("_(")
    name, dot, method = target.rpartition(".")
    if found and dot and name.isidentifier():
        first = rest.partition(",")[0].strip("() ")
        return f"{first if name in MODULES else name} = {name}.{method}({rest}"
    if writer is not None and len(writer.tensors) == 1:  # a function that was told to write, as layers are
        return f"{writer.op}, not {writer.op}_ or inplace=True"
    return "write the result into a new tensor"


# Paths ----------------------------------------------------------------------------------------------------


def explain_missing_path(scene: Scene) -> list[str]:
    """Explain an output without a graph."""
    name, node = output_name(scene), scene.nodes[0]
    if node.cut is not None:
        names = [name for name, _ in scene.behind(node.cut)]
        why = (
            f"the path from {', '.join(names) or 'the leaves'} to {name} was cut in line "
            f"{node.cut.where.line} ({node.cut.where.text}) by {node.cut.how}"
        )
    else:
        why = f"no input of {name} has requires_grad=True{'' if scene.recorded else ', or the path to it was cut'}"
        why += ". .item(), float() and NumPy return numbers without a history"
    return [
        f"There is no J: {why}.",
        "No path is not a zero: where J is 0 (round, sign, relu below 0), backward() works and adds 0.",
        "  requires_grad=True on the result makes a new leaf without a past: it silences this and trains nothing",
    ]


def list_unreached_inputs(scene: Scene, nameless: bool = True) -> str:
    """Return a sentence about requested inputs on which the output does not depend; empty if there is none.

    Unnamed inputs count only if ``nameless``: inside a transform they represent other tensors.
    """
    reached = {id(n.owner()) for n in scene.order}
    asked = [t for t in scene.asked or () if nameless or id(t) in scene.sight]
    lost = [scene.sight.get(id(t), "an input") for t in asked if id(t) not in reached]
    return f"there is no path from {list_names(list(dict.fromkeys(lost)))} to {output_name(scene)}" if lost else ""


def output_name(scene: Scene) -> str:
    """Return the user's name for the output."""
    return scene.sight.get(id(scene.outputs[0])) or read_backward_call(scene.where)[0] or "the output"
