"""Explain why a tensor gets no gradient: its graph is broken, its ``.grad`` is None, or a slope does not exist.

Comes in: the scene of a call, or a tensor whose ``.grad`` was read after it; or a program, the step at which a number
stops being finite, and the entry with its value. Goes out: sentences about the cause, with advice that fits it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np

from symgrad.explanation.notable import why_always_undefined
from symgrad.language.python_text import read_python, write_python
from symgrad.language.syntax_tree import Items, Literal, PythonCall
from symgrad.notation.tree import Name, SyntaxNode
from symgrad.numeric.exact import Array, as_float
from symgrad.ops import entry_of
from symgrad.ops.lookup import has_role
from symgrad.program import Apply, Argument, Constant, Role
from symgrad.render.numbers import format_array, format_digits
from symgrad.tracing.captured import Capture
from symgrad.tracing.lift import LiftedProgram
from symgrad.tracing.record import frame_names, frames
from symgrad.tracing.record.graph_breaks import find_unread_results
from symgrad.tracing.record.names import name_nodes
from symgrad.tracing.record.trace import GraphBreak, Node, SourceLine, upstream_nodes
from symgrad.tracing.session.failures import list_unreached_inputs, output_name
from symgrad.tracing.session.history import LastCall
from symgrad.tracing.session.own_backward import dtype_text
from symgrad.tracing.session.scene import Findings, Scene
from symgrad.tracing.story.events import list_names


def make_last_call(scene: Scene) -> LastCall:
    """Return what is kept of a call."""
    found = []
    for node in {id(n): n for call in scene.order for n in (call, *call.sources())}.values():
        if node.cut is not None:
            tensor = node.owner()
            new = node.kind == "leaf"
            found.append((node.cut, scene.sight.get(id(tensor), "it") if new else "", node.where if new else None))
    return LastCall(
        scene.where,
        output_name(scene),
        tuple(found),
        scene.passed,
        WeakSet(scene.order),
        scene.kind,
        scene.asked is not None,
        tuple(
            (WeakSet(upstream_nodes([node])), said) for node, said in scene.sensor.each() if " returned None " in said
        ),
    )


def explain_new_leaf(scene: Scene, node: Node) -> str | None:
    """Explain a leaf created from a detached value; None if the tensors before it are reached in another way."""
    assert node.cut is not None
    behind = scene.behind(node.cut)
    lost = [name for name, reached in behind if not reached]
    if behind and not lost:
        return None
    tensor = node.owner()
    who = list_without_gradient(lost or ["what it was computed from"])
    return f"{who}: {describe_graph_break(node.cut, scene.sight.get(id(tensor), 'it'), node.where, scene.where)}"


def list_without_gradient(names: Sequence[str]) -> str:
    """Write ``w gets nothing`` or ``w, b get nothing``."""
    who = list(dict.fromkeys(names))
    return f"{list_names(who)} {'gets' if len(who) == 1 else 'get'} nothing"


def describe_graph_break(cut: GraphBreak, name: str, where: SourceLine | None, call: SourceLine) -> str:
    """Write ``the path was cut in line 4 by .detach(); line 5 made loss a new leaf``; name other files."""
    said = f"the path was cut in {cut.where.seen_from(call.file)} by {cut.how}"
    return said if where is None else f"{said}; {where.seen_from(call.file)} made {name} a new leaf"


def explain_missing_gradients(call: Findings) -> list[str]:
    """Return sentences about tensors without a gradient, in the program or detached from it."""
    scene, lifted = call.scene, call.lifted
    notes: list[str] = []
    unasked: list[str] = []
    buffers = frame_names.find_buffers(frames.user_frame())  # a module's: nobody expects a gradient
    for name, node in lifted.nodes.items():
        if node.kind == "data" and node.cut is None and scene.kind != "grad":
            tensor = node.owner()
            moves = node.held.is_floating_point() or node.held.is_complex()
            known = id(node) in name_nodes([node], {}, scene.sight) and id(tensor) not in buffers
            if tensor is not None and known and moves and tensor.dim() and not tensor.requires_grad:
                unasked.append(lifted.labels[name])
        elif node.kind == "data" and node.cut is not None:
            away, here = ([name for name, reached in scene.behind(node.cut) if reached is own] for own in (False, True))
            if away and scene.kind == "grad":
                continue  # it was not asked for, so nobody expects it
            if away:
                notes.append(f"{list_without_gradient(away)}: {describe_graph_break(node.cut, '', None, scene.where)}")
            elif node.cut.meant:
                who = ", ".join(dict.fromkeys(here)) or "a leaf"
                cut = describe_graph_break(node.cut, "", None, scene.where).removeprefix("the path was ")
                notes.append(f"one path from {who} was {cut}: its share of {call.letter}ᵀJ is missing")
    notes += explain_extracted_numbers(scene, lifted)
    if scene.kind == "grad" and (nowhere := list_unreached_inputs(scene, nameless=False)):
        notes.append(f"{nowhere}: torch gives None there, or zeros with materialize_grads=True")
    if len(unasked) == 1:
        notes.append(f"{unasked[0]} has requires_grad=False, so {unasked[0]}.grad stays None")
    elif unasked:
        notes.append(f"{list_names(unasked)} have requires_grad=False, so their .grad stays None")
    if scene.kind != "grad":
        made = (explain_new_leaf(scene, node) for node in scene.order if node.kind == "leaf" and node.cut is not None)
        notes += [note for note in made if note is not None]
    return list(dict.fromkeys(notes))[:8]


def explain_unread_results(call: Findings) -> Iterator[str]:
    """Iterate over sentences about the user's functions whose result is not used."""
    recorder, reached = call.scene.watch.recorder, {id(node) for node in call.scene.order}
    left = find_unread_results(recorder.asides, call.scene.order)
    gone = [aside for aside in left if aside.call() is None]
    recorder.asides = [aside for aside in left if aside not in gone]
    for aside in gone:
        if any(id(source()) in reached for source in aside.sources):
            where = aside.where.seen_from(call.scene.where.file)
            yield (
                f"the result of {aside.spelling} ({where}) is not used, so its backward never runs; whatever should "
                "get a gradient through it has to be computed from its result"
            )


def explain_extracted_numbers(scene: Scene, lifted: LiftedProgram) -> Iterator[str]:
    """Iterate over sentences about constants that were tensors before (``.item()``)."""
    for value in (a.value for step in lifted.program.steps for a in step.arguments if isinstance(a, Constant)):
        cut = scene.watch.recorder.taken.get(value) if isinstance(value, float) else None
        if cut is not None:
            who = ", ".join(dict.fromkeys(name for name, _ in scene.behind(cut)))
            who = f" from {who}" if who else ""
            how = describe_graph_break(cut, "", None, scene.where).removeprefix("the path was ")
            yield f"one path{who} was {how}: it continues with a number ({value:.6g}), not a tensor"


def explain_none_grad(
    names: Mapping[int, str], tensor: Any, node: Node, last: LastCall, emptied: SourceLine | None,
    filled: Mapping[str, SourceLine],
) -> str:  # fmt: skip
    """Explain why ``.grad`` is None after a backward; ``names`` are in scope, ``filled`` had their ``.grad`` filled."""
    name = names.get(id(tensor)) or "it"
    none = f"{name}.grad is None"
    if node.kind == "data" and node.cut is not None:
        return f"{none}: {describe_graph_break(node.cut, name, None, last.where)}"
    if not tensor.requires_grad:
        moves = tensor.is_floating_point() or tensor.is_complex()
        could = "" if moves else f" ({dtype_text(tensor.dtype)} cannot require one)"
        return f"{none}: requires_grad=False{could}, so backward computed no gradient for {name}"
    if not tensor.is_leaf:
        return f"{none}: {explain_computed_tensor(names, tensor, node, last, filled)}"
    for cut, new, where in last.cuts:
        if any(reference() is tensor for reference in cut.leaves):
            ends = f", so the backward in line {last.where.line} stops there" if where is not None else ""
            return f"{none}: {describe_graph_break(cut, new, where, last.where)}{ends}"
    if emptied is not None:
        return f"{none}: line {emptied.line} ({emptied.text}) set it to None"
    if last.kind == "grad":
        return f"{none}: autograd.grad (line {last.where.line}) returns gradients and does not change .grad"
    if any(source is node for reached in last.reached for source in (reached, *reached.sources())):
        if last.chosen:
            return f"{none}: inputs= of the last backward (line {last.where.line}) did not include {name}"
        ended = (said for above, said in last.ended if node in above)
        return f"{none}: {next(ended, f'the backward in line {last.where.line} gave it no gradient')}"
    return f"{none}: the last backward (line {last.where.line}) had no path to {name}"


def explain_computed_tensor(
    names: Mapping[int, str], tensor: Any, node: Node, last: LastCall, filled: Mapping[str, SourceLine]
) -> str:
    """Explain that a computed tensor is not a leaf, and what to do."""
    name = names.get(id(tensor)) or "it"
    owners = [source.owner() for source in upstream_nodes([node]) if source.kind == "leaf"]
    nameless = not any(id(owner) in names for owner in owners)
    made = f" in line {node.where.line}" if node.where is not None else ""
    if (earlier := filled.get(name)) is not None:
        return (
            f"{name} is a new tensor (it was computed{made}) and not a leaf; line {earlier.line} filled .grad of the "
            f"earlier {name}. An in-place change keeps the leaf: with torch.no_grad(): {name} -= …"
        )
    what = f"{name} is not a leaf (it was computed{made})"
    if node not in last.reached:
        return f"{what}, and the last backward (line {last.where.line}) had no path to it"
    flowed = f", {format_array(last.passed[tensor])}," if tensor in last.passed else ""
    asked = "" if last.output == name else f", torch.autograd.grad({last.output}, {name}) gives it"
    return (
        f"{what}; its gradient{flowed} was not kept: only leaves keep theirs. {name}.retain_grad() before backward "
        f"keeps it{asked}{'; with requires_grad_() after that computation it is a leaf itself' if nameless else ''}"
    )


RANK = 1e-10
"""Values that differ by less than this fraction of the largest are equal."""

AT_NOTHING = "whose gradient at 0 is 0 in torch"
IN_RANGE = "which is the same function, without overflow"
BY_HAND = (
    ("sqrt(sum(pow(x, 2)))", "{x}.norm({some})", AT_NOTHING),
    ("sqrt(sum(mul(x, x)))", "{x}.norm({some})", AT_NOTHING),
    ("div(exp(x), sum(exp(x)))", "{x}.softmax({axes})", IN_RANGE),
    ("log(sum(exp(x)))", "{x}.logsumexp({axes}{kept})", IN_RANGE),
    ("log(softmax(x))", "{x}.log_softmax({axes})", IN_RANGE),
    ("log(sigmoid(x)), log(sub(1, sigmoid(x)))", "F.binary_cross_entropy_with_logits({x}, …)", IN_RANGE),
    ("log(sub(1, sigmoid(x)))", "F.logsigmoid(-{x})", IN_RANGE),
    ("log(sigmoid(x))", "F.logsigmoid({x})", IN_RANGE),
    ("log(add(exp(x), 1))", "F.softplus({x})", IN_RANGE),
    ("log(add(1, exp(x)))", "F.softplus({x})", IN_RANGE),
    ("log(p), log(sub(1, p))", "F.binary_cross_entropy({p}, …)", "which limits the logarithms to at least -100"),
)
"""Expressions written by hand, as steps; torch's function with a wider range; and the reason to use it."""


def explain_missing_slope(program: Capture, step: Apply, source: str, entry: str, value: float) -> list[str]:
    """Explain why there is no J, with advice that fits the cause."""
    if not np.isfinite(value):
        already = f"{entry} is {format_digits(value)} already"
        return [f"  {already}, and nothing has a derivative there. Look for where it comes from."]
    op = entry_of(step.op)
    known = as_float(program.arrays[source])
    if step.result.name in program.boxes or (op is not None and any(d.matrix for d in op.domain.values())):
        return explain_degenerate_vectors(known)
    if whatever := why_always_undefined(step, program.recording):
        return [f"  there is no J: {whatever}"]
    at = f"at {entry} = {format_digits(value)}"
    line = f"  there is no J {at}: the slope of {step.op} is infinite or undefined there."
    made = as_float(program.arrays[step.result.name])
    if np.isfinite(made).all():
        return [line, suggest_distance(step, entry)]
    domains = list(op.domain.values()) if op is not None else []
    outside = any(not d.low < value < d.high or value in d.avoid for d in domains)
    if not outside and not np.isnan(made).any():
        return [f"  {step.op} is too large for floats {at}: the gradient is not its slope"]
    what = ": keep its input inside its domain" if outside else ""
    return [line, f"  {step.op} has no finite value there either{what}"]


def suggest_distance(step: Apply, entry: str) -> str:
    """Suggest how to keep an entry away from a point without a slope."""
    return f"  keep {entry} away from it: clamp it, or add a small eps to it before {step.op}"


def explain_degenerate_vectors(matrix: Array) -> list[str]:
    """Explain why a decomposition has no derivative at a matrix."""
    square = matrix.ndim > 1 and matrix.shape[-1] == matrix.shape[-2] and np.isfinite(matrix).all()
    found = np.linalg.svd(matrix, compute_uv=False) if square else np.zeros(0)
    largest = float(found.max(initial=0.0))
    if found.size and np.any(found.min(axis=-1) <= RANK * largest):
        return ["  singular vectors of a zero singular value are not unique, so there is no Jacobian"]
    if found.size and np.any(np.abs(np.diff(found, axis=-1)) <= RANK * largest):
        return [
            "  two of its values are equal, so their vectors are not unique and there is no J.",
            "  the values alone have one (eigvalsh, svdvals), and so has what does not depend on the vectors;",
            "  small different numbers added to the diagonal separate the values",
        ]
    return ["  there is no J at this matrix"]


def suggest_stable_function(program: Capture, steps: Sequence[Apply]) -> list[str]:
    """Suggest torch's function for an expression that the script writes by hand and that includes one of ``steps``."""
    made = [step.result.name for step in program.recording.steps]
    for text, call, why in BY_HAND:
        whole = read_python(f"[{text}]")
        parts = whole.items if isinstance(whole, Items) else ()
        for name in made:
            met = HandwrittenPattern(program)
            if not met.reads(name, parts[0]) or not all(any(met.reads(n, part) for n in made) for part in parts[1:]):
                continue
            if any(step.result.name in met.steps for step in steps):
                names = {own: program.labels.get(n, n) for own, n in met.tensors.items()}
                return [f"  call {call.format(**names, **met.axes())} instead, {why}"]
    return []


class HandwrittenPattern:
    """A match of a handwritten expression among the steps."""

    def __init__(self, program: Capture) -> None:
        self.program = program
        self.steps, self.tensors = dict[str, Apply](), dict[str, str]()

    def reads(self, argument: Argument, part: SyntaxNode) -> bool:
        """Whether an argument is computed as the pattern describes; a failed match records nothing."""
        if isinstance(part, Literal):
            return isinstance(argument, Constant) and argument.value == part.value
        if not isinstance(argument, str):
            return False
        step = self.program.recording.makers.get(argument)
        if step is not None and (has_role(step.op, Role.COPIES) or has_role(step.op, Role.HANDS_ON)):
            return self.reads(step.arguments[0], part)
        if isinstance(part, Name):
            return self.tensors.setdefault(part.name, argument) == argument
        assert isinstance(part, PythonCall)
        if step is None or step.op != write_python(part.function) or len(step.arguments) != len(part.positional):
            return False
        held = dict(self.steps), dict(self.tensors)
        if not all(map(self.reads, step.arguments, part.positional)):
            self.steps, self.tensors = held
            return False
        self.steps[step.result.name] = step
        return True

    def axes(self) -> dict[str, str]:
        """Return the axes of its sum as options: ``axes`` always, ``some`` only if not all axes of the tensor."""
        step = next((step for step in self.steps.values() if "dim" in dict(step.options)), None)
        if step is None:
            return {}
        options, rank = dict[str, Any](step.options), np.ndim(self.program.arrays[step.tensors[0]])
        dims = options["dim"] if isinstance(options["dim"], tuple) else (options["dim"],)
        axes = f"dim={dims[0] if len(dims) == 1 else dims}"
        kept = ", keepdim=True" if options.get("keepdim") else ""
        return {"axes": axes, "kept": kept, "some": f"{axes}{kept}" if kept or len(dims) < rank else ""}
