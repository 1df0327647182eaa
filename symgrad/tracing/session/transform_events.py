"""Explain derivatives of a function (`torch.func`, `torch.autograd.functional`) as one event.

Comes in: a completed `DerivativeRequest` of `symgrad.tracing.record.transforms`, and the returned tensors. Goes out:
the event of a gradient, as for a call of ``grad``; or a note about a Jacobian, a Hessian, a product with one of them,
or per-sample gradients: size, structure and zeros, how to use fewer passes, and the lines of what ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from symgrad.errors import SymgradError, UnsupportedError
from symgrad.numeric.exact import Array, as_float
from symgrad.numeric.forward_pass import forward as run_forward
from symgrad.oracles.typed_text import torch_second
from symgrad.render.numbers import count_noun
from symgrad.tracing.captured import Capture
from symgrad.tracing.lift.values import lowest_dtype, precision_of, relative_difference
from symgrad.tracing.record.spelling import BackwardArgs
from symgrad.tracing.record.trace import Node, as_numbers, tensors_in, upstream_nodes
from symgrad.tracing.record.transforms import GRADIENTS, JACOBIANS, DerivativeRequest
from symgrad.tracing.session.call_events import explain_call
from symgrad.tracing.session.history import History
from symgrad.tracing.session.jacobian_sweeps import describe_jacobian_block
from symgrad.tracing.session.scene import Scene, capture_request, pull_capture, push_capture
from symgrad.tracing.session.second_derivatives import (
    is_recorded_gradient,
    list_function_lines,
    outputs_along,
    request_gradient_nodes,
)
from symgrad.tracing.story.events import CallEvent, Note

MOST_MOVED, CLOSE = 64, 1e-3
"""The most entries of an input that are moved one by one, and the tolerance of slopes."""
MOST = 250_000
"""The most entries of a Jacobian that is formed to be compared."""
AGAIN = ("hessian", "hvp", "vhp")
"""Requests for second derivatives."""
WHOLE = (*JACOBIANS, "hessian")
"""Requests for all of J or H, rather than a product with it."""
HOW = {
    "jacrev": ", with one backward pass for each row",
    "jacfwd": ", with one forward pass for each column",
    "hessian": ", with one forward pass through the gradient for each column",
}
"""The number of passes of each transform."""
TRICK = ("Ju inside the function is ∂/∂w of w·J for a w of zeros (the double backward trick)",)
"""The note about a product inside another function."""
SWEEPS = {
    "hvp": "H·v, second derivatives times v, in three passes: the gradient, u·H for a u of zeros, and ∂/∂u of that:",
    "vhp": "v·H, v times second derivatives, in two passes: the gradient, and v·J of the gradient:",
    "jvp": "Ju for u = v, in two passes: w·J for a w of zeros, and ∂/∂w of that (double backward trick):",
    "hessian": "all second derivatives, with one pass for the gradient and one backward through it for each entry "
    "(torch.func.hessian(f) does that in one batched pass):",
}
"""The passes of each function of `torch.autograd.functional`."""


def request_event(watch: History, ask: DerivativeRequest, result: Any) -> CallEvent | Note | None:
    """Return the event of one outermost request; None if nothing was differentiated."""
    returned = ask.returned(result)
    if ask.functional:
        if not ask.outputs or not ask.wrt:
            raise UnsupportedError("its function ran on tensors of a transform, or returned none")
        if ask.word == "hessian" and any(t.requires_grad and t.is_leaf for t in returned):
            raise UnsupportedError("it returned leaves of another graph")
        return request_note(ask, returned, ask.title)
    ask.inside.settle()
    if ask.word == "vmap":
        asked, around = [one for one in ask.inside.requests if one.word != "vmap"], ask.inside.around
        inner = next((one for one in asked if all(other.word == "vmap" for other in around(one))), None)
        return None if inner is None else vmap_event(watch, ask, inner, result)
    if not ask.ran:
        raise UnsupportedError("its function never ran")
    return transform_event(watch, ask, returned, ask.title)


def vmap_event(watch: History, ask: DerivativeRequest, inner: DerivativeRequest, result: Any) -> CallEvent | Note:
    """Return the event of ``vmap(grad(f))``: that of the first example."""
    event = transform_event(watch, inner, [node.held for node in inner.results], ask.title)
    batches = 1 + len(ask.inside.around(inner))  # each has an axis of its own
    sizes = next((t.shape[:batches] for t in tensors_in(result) if t.dim()), ())
    count = count_noun(int(np.prod(sizes, dtype=object)), "example")
    said = f"vmap runs all {count} at once; only the first is shown"
    if isinstance(event, Note):
        return replace(event, more=(f"  {said}", *event.more))
    return replace(event, lead=(said, *event.lead))


def transform_event(watch: History, ask: DerivativeRequest, returned: Sequence[Any], title: str) -> CallEvent | Note:
    """Return the event of a gradient, or the note about a Jacobian."""
    behind = upstream_nodes(list(ask.outputs))
    unknown = next((n for n in behind if n.kind == "unknown"), None)
    if unknown is not None:
        raise UnsupportedError(unknown.notes[0], found=(f"{unknown.where.short}: {unknown.where.text}",))  # type: ignore[union-attr]  # `unseen` says where
    inside = int(any(node.gradient is not None and node.gradient.along for node in behind))
    if ask.word in (*GRADIENTS, "vjp"):
        outputs, wanted = (tuple(node.held for node in nodes) for nodes in (ask.outputs, ask.wrt))
        passed = tuple(seed.detach().clone() for seed in ask.seeds) or (None,)
        given = BackwardArgs("grad", outputs, ask.seeds or (None,), passed, wanted, retained=True, batched=False)
        event = explain_call(Scene(watch, given, ask.where, ask), [t.detach() for t in returned], None)
        return replace(event, lead=(f"{title}: one backward pass through the function", *TRICK[:inside], *event.lead))
    note = request_note(ask, returned, title)
    return replace(note, more=(*TRICK[:inside], *note.more))


def request_note(ask: DerivativeRequest, returned: Sequence[Any], title: str) -> Note:
    """Return the note about J, H, or a product with one of them, compared with torch's result."""
    again, whole = ask.word in AGAIN, ask.word in WHOLE
    if whole and len(ask.outputs) != 1:
        raise UnsupportedError(f"its function returns {len(ask.outputs)} tensors, so there is one J for each of them")
    if whole and again and ask.outputs[0].held.numel() != 1:
        raise UnsupportedError("its function returns more than one number, so there is one Hessian for each of them")
    ends = request_gradient_nodes(ask, capture_request(ask, ask.outputs)) if again else ask.outputs
    second, kind = all(map(is_recorded_gradient, ends)), coarsest_dtype(ends)
    program, what = capture_request(ask, ends), "the gradient" if second else "the function"
    pairs = [(end, own) for end in dict.fromkeys(program.outputs) for own in program.wanted]
    blocks = [program.jacobian(program.labels[own], output=end) for end, own in pairs]
    lines: list[str] = []
    for (end, _), block in zip(pairs, blocks, strict=True):
        first, *more = describe_jacobian_block(program, block, end, ask.word, matrix := "H" if second else "J")
        lines += [first, *(more if whole else (f"for all of {matrix}, {line}" for line in more))]
    if whole:
        judged = [compare_block(block, torchs, kind) for block, torchs in zip(blocks, returned, strict=True)]
        beside = [line for (end, own), block, torchs in zip(pairs, blocks, returned, strict=True)
                  for line in compare_with_quotients(ask, program, end, own, block, torchs, second)]  # fmt: skip
    else:
        given = [as_numbers(t) for t in ask.directions]
        given = given or [np.ones(np.shape(program.arrays[own])) for own in program.wanted]
        if ask.word == "vhp":
            ours = [*pull_capture(program, given).values()]
        else:
            ours = push_capture(program, dict(zip(program.inputs, given, strict=True)))
        torchs = [as_float(as_numbers(t)) for t in returned]
        judged = [compare_arrays(a, b, kind) for a, b in zip(ours, torchs, strict=True)]
        beside = [] if ask.functional else [*compare_along_tangent(ask, program, ours, torchs, what)]
        lines += suggest_fewer_passes(ask, program, given, ours, kind) if ask.functional else ()
    same, _, sentence = min(judged, key=lambda one: (one[0] is not False, one[0] is not None, -one[1]))
    if any(line.startswith("undefined here") for line in beside):
        same, sentence = True, "not the same as torch's"
    lines += [sentence, *dict.fromkeys(beside)]
    lines += list_function_lines(program, second, ask.word in ("jvp", "linearize"))
    return Note(ask.where, write_title(ask, title, second), tuple(lines), same is not False)


def write_title(ask: DerivativeRequest, title: str, second: bool) -> str:
    """Write the request and its passes."""
    if ask.functional:
        return f"{title} gives {SWEEPS[ask.word]}"
    if ask.word in WHOLE:
        return f"{title} gives all {'second derivatives' if second else 'of J'}{HOW[ask.word]}:"
    labels = [ask.inside.names.get(id(node), "x") for node in ask.wrt]
    made = "H·u, second derivatives times u," if second else "Ju,"
    sweep = "a forward pass that is kept for any u" if ask.word == "linearize" else "one forward pass"
    move = "moves" if len(labels) == 1 else "move"
    return f"{title} gives {made} by {sweep}: how the outputs change if {', '.join(labels)} {move} along u"


def compare_with_quotients(
    ask: DerivativeRequest, program: Capture, end: str, own: str, block: Any, torchs: Any, second: bool
) -> Iterator[str]:  # fmt: skip
    """Iterate over lines that compare two results with difference quotients of the function or of its gradient."""
    from symgrad.oracles.second_order import two_sided_slope

    recording, (rows, columns) = program.recording, block.shape
    own_end = program.ends[list(program.outputs).index(end)]
    point = {t.name: as_float(program.values[t.name]) for t in recording.inputs}
    if columns > MOST_MOVED or rows * columns > MOST or program.black_boxes or own not in point:
        return
    try:
        slope = two_sided_slope(lambda moved: run_forward(recording, moved)[own_end], point, own, rows)
        ours, theirs = as_float(block.dense()), as_float(as_numbers(torchs)).reshape(rows, columns)
    except (SymgradError, ValueError):
        return
    yield from compare_slopes(slope, ours, theirs, "the gradient" if second else "the function")
    if second and not np.isfinite(theirs).all():
        yield from suggest_agreeing_call(ask, ours)


def compare_slopes(slope: Array, ours: Array, theirs: Array, what: str) -> Iterator[str]:
    """Iterate over lines that compare two results with slopes (NaN where there is none)."""
    with np.errstate(invalid="ignore"):
        right, theirs_too = (np.abs(one - slope) <= CLOSE * np.maximum(1.0, np.abs(slope)) for one in (ours, theirs))
    kinks, lost = np.isfinite(slope + theirs) & ~right & ~theirs_too, np.isfinite(slope) & right & ~theirs_too
    if kinks.any():
        at = tuple(int(n) for n in np.argwhere(kinks)[0])
        yield (
            f"that is not the derivative at this point: {what} has the slope {slope[at]:.6g} there, while both "
            f"answers have {ours[at]:.6g}: they use a convention (0 for the slope of a norm at 0), which has no slope "
            "of its own; (x ** 2).sum() instead of norm(x) ** 2 has no such point"
        )
    if lost.any():
        none = int((~np.isfinite(theirs)).sum())
        rest = f"torch has nan or inf in {none} of {theirs.size} entries; " if none else ""
        yield f"{rest}difference quotients of {what} confirm the derived numbers: it is smooth at this point"


def suggest_agreeing_call(ask: DerivativeRequest, ours: Array) -> Iterator[str]:
    """Which other call of torch's has the derived number, asked of the steps."""
    if ask.word != "hessian" or len(ask.wrt) != 1:
        return
    first = capture_request(ask, ask.outputs)
    (name,) = first.wanted
    point = {t.name: as_float(first.values[t.name]) for t in first.recording.inputs}
    whole = replace(first.recording, output=first.ends[0])
    try:
        answer = torch_second(None, whole, point, np.ones(np.shape(first.values[first.ends[0]])), name, name)
    except (RuntimeError, SymgradError):
        return
    if answer is not None and np.allclose(answer[0], ours, rtol=CLOSE, atol=CLOSE):
        yield "torch.autograd.functional.hessian, a backward through the backward, gives the derived numbers"


def suggest_fewer_passes(
    ask: DerivativeRequest, program: Capture, given: Sequence[Array], own: Sequence[Array], kind: str
) -> Iterator[str]:
    """How a product comes of fewer sweeps; that H is symmetric is tried with this v."""
    labels = [program.labels[own] for own in program.wanted]
    if ask.word == "jvp":
        yield f"{write_jvp_call(labels, 'f')} takes one forward pass"
    elif ask.word == "vhp":
        yield f"{write_jvp_call(labels, 'grad(f)')} takes the gradient and one forward pass through it"
    else:
        back = pull_capture(program, given).values()
        if all(compare_arrays(a, b, kind)[0] for a, b in zip(own, back, strict=True)):
            so = f"so does {write_jvp_call(labels, 'grad(f)')}"
            yield f"H·v = v·H here, as H is symmetric: vhp() takes two passes, and {so}"


def write_jvp_call(labels: Sequence[str], function: str) -> str:
    """Write ``torch.func.jvp(torch.func.grad(f), (x,), (v,))``."""
    weights = ["v"] if len(labels) == 1 else [f"v_{name}" for name in labels]
    asked = f"torch.func.{function}" if function != "f" else function
    asked = asked.replace("(f)", f"(f, argnums={tuple(range(len(labels)))})") if len(labels) > 1 else asked
    pair = [f"({', '.join(names)}{',' if len(names) == 1 else ''})" for names in (labels, weights)]
    return f"torch.func.jvp({asked}, {', '.join(pair)})"


def compare_along_tangent(
    ask: DerivativeRequest, program: Capture, own: Sequence[Array], torchs: Sequence[Array], what: str
) -> Iterator[str]:
    """Iterate over lines that compare two Ju with differences along u, and with vᵀJ by the adjoint identity."""
    from symgrad.oracles.second_order import two_sided_slope

    moves = dict(zip(program.wanted, (as_float(as_numbers(t)) for t in ask.directions), strict=True))
    if program.black_boxes or len(own) != 1:
        return
    outputs = outputs_along(program, moves)
    ours, theirs = (as_float(one).reshape(-1, 1) for one in (own[0], torchs[0]))
    try:
        slope = two_sided_slope(lambda moved: outputs(float(moved["u"])), {"u": np.zeros(())}, "u", ours.size)
    except (SymgradError, ValueError):  # u leads away from where the function is defined
        slope = None
    if slope is not None:
        yield from compare_slopes(slope, ours, theirs, what)
        apart = ~np.isclose(ours, theirs, rtol=CLOSE, atol=CLOSE)
        if apart.any() and np.isnan(slope[apart]).all():
            yield f"undefined here: {what} has no slope along u there; symgrad and torch each give a one-sided one"
            return
    v = np.random.default_rng(0).integers(1, 5, np.shape(program.arrays[program.ends[0]])).astype(float)
    back = program.pullback(v)
    right = sum(float(np.sum(as_float(back[program.labels[n]]) * u)) for n, u in moves.items())
    here, there = (float(v.reshape(-1) @ one[:, 0]) for one in (ours, theirs))
    if np.isclose(here, right) and not np.isclose(there, right):
        yield (
            "torch's forward rule violates ⟨v, Ju⟩ = ⟨vᵀJ, u⟩, symgrad's satisfies it: for v = "
            f"{' '.join(np.array2string(v, threshold=8).split())} the right side is {right:.6g}, "
            f"the left side {here:.6g} in symgrad and {there:.6g} in torch"
        )


def coarsest_dtype(ends: Sequence[Node]) -> str:
    """Return the lowest precision in which torch computed."""
    return max((lowest_dtype(n) for n in upstream_nodes(ends)), key=lambda kind: precision_of(kind)[1])


def compare_block(whole: Any, found: Any, kind: str) -> tuple[bool | None, float, str]:
    """Return whether torch's J is the derived one, the largest difference, and a sentence."""
    rows, columns = whole.shape
    if rows * columns > MOST:
        return None, 0.0, f"{rows * columns:,} entries were not compared with torch's"
    try:
        own: Array = as_float(whole.dense()).reshape(tuple(found.shape))
    except (SymgradError, ValueError):
        return None, 0.0, "its numbers were not compared with torch's"
    agrees, error, said = compare_arrays(own, as_numbers(found), kind)
    return agrees, error, said + (f" (largest difference {error:.1g} of the largest entry)" if agrees and error else "")


def compare_arrays(own: Array, other: Array, kind: str) -> tuple[bool, float, str]:
    """Return the same for two arrays."""
    error, agrees = relative_difference(as_float(own), as_float(other), precision_of(kind)[0])
    return agrees, error, "= torch in every entry" if agrees else f"≠ torch (off by {error:.2g} of the largest entry)"
