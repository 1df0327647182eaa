"""Explain a Jacobian that is computed row by row once: what J is, and how few seeds are enough.

Comes in: the scene of a call that is one of many backward passes, in `torch.autograd.functional.jacobian`, in
``gradcheck``, or in a loop of the script. Goes out: lines, printed once: J's size, structure and zeros, and a better
call; for gradcheck also its step, rounding, and a kink within its step.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from traceback import walk_stack
from types import FrameType
from typing import Any

import numpy as np
import torch

from symgrad.explanation.jacobian import Jacobian
from symgrad.explanation.ties import Local, differ
from symgrad.language.arguments import format_entry_name
from symgrad.numeric.exact import Array, as_float
from symgrad.numeric.patterns import measured
from symgrad.ops.lookup import entry_of
from symgrad.render.numbers import format_digits
from symgrad.tracing.captured import Capture
from symgrad.tracing.captured.step_text import format_step_shape, with_labels
from symgrad.tracing.record.aliases import WeakTensor
from symgrad.tracing.record.frame_names import argument_names
from symgrad.tracing.record.trace import upstream_nodes
from symgrad.tracing.session.scene import Scene, capture_request
from symgrad.tracing.story.folding import list_folded_program

TORCHS = {"jacobian": "torch/autograd/functional.py", "gradcheck": "torch/autograd/gradcheck.py"}
"""Functions of torch that compute J row by row, and their files."""
CHECKS, INNER = ("gradcheck", "gradgradcheck"), "new_func"
"""CHECKS compare with difference quotients; INNER is the function whose backward gradgradcheck differentiates."""
PICKS = ("Tensor.__getitem__", "Tensor.select", "torch.select", "Tensor.unbind", "torch.unbind", "Tensor.__iter__")
"""Calls that select one entry of an output."""
DIAGONAL = "J is diagonal, so one backward(ones) returns all of it"
ALL = "no two rows can share a seed"
BLOCKS = (
    "J has {count} blocks, and rows of different blocks share no column; with f for one row, "
    "torch.func.vmap(torch.func.jacrev(f))(x) computes only the blocks"
)


@dataclass(frozen=True, eq=False)
class JacobianSweep:
    """One of many backward passes for the Jacobian of ``outputs`` with respect to ``inputs``; ``key`` identifies it.

    ``by`` is the function of torch, or "loop"; ``step`` is gradcheck's eps. ``within``: the pass belongs to the
    function itself, which in gradgradcheck is a backward with the seeds ``weights``. ``names`` are the function's names
    of the inputs.
    """

    by: str
    key: Any
    outputs: tuple[Any, ...]
    inputs: tuple[Any, ...]
    step: float = 0.0
    same: weakref.ref[Any] | None = None
    within: bool = False
    weights: tuple[Any, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)

    def goes_on(self, other: JacobianSweep | None) -> bool:
        """Whether ``other`` is an earlier pass of the same Jacobian."""
        if other is None or other.key != self.key or other.same is None or self.same is None:
            return False
        return other.same() is not None and other.same() is self.same()


def find_jacobian_sweep(scene: Scene) -> JacobianSweep | None:
    """Return the Jacobian of which this call is one pass; None if it is a call of its own."""
    within = False
    for frame, _ in walk_stack(sys._getframe(1)):
        name = frame.f_code.co_name
        within |= name == INNER
        if name in TORCHS and frame.f_code.co_filename.endswith(TORCHS[name]):
            above = frame.f_back.f_code.co_name if frame.f_back is not None else ""
            sweep = read_torch_sweep(scene, above if above in CHECKS else name, frame)
            return sweep if sweep is None or above not in CHECKS else replace(sweep, within=within)
    return read_script_sweep(scene)


def read_torch_sweep(scene: Scene, name: str, frame: FrameType) -> JacobianSweep | None:
    """Return the pass of a function of torch, from that function's variables."""
    known = frame.f_locals
    inputs = scene.asked or ()
    outputs = scene.outputs if name in CHECKS else tuple(known.get("outputs") or ())
    if not inputs or not outputs or any(not hasattr(t, "requires_grad") for t in outputs):
        return None
    key = (name, id(frame), scene.where.file, scene.where.line)
    weights = frame.f_back.f_locals.get("tupled_grad_outputs", ()) if frame.f_back is not None else ()
    names = {} if name in CHECKS else argument_names(known["func"], inputs, {})  # copies, in nobody's sight
    return JacobianSweep(
        name, key, outputs, inputs, float(known.get("eps") or 0.0), WeakTensor(inputs[0]), False, tuple(weights), names
    )


def read_script_sweep(scene: Scene) -> JacobianSweep | None:
    """Return the pass of a backward from one entry of an output, or with a one-hot seed; else None."""
    if len(scene.nodes) != 1:
        return None
    node, seed, output = scene.nodes[0], scene.seeds[0], scene.outputs[0]
    if node.call is not None and node.call.spelling in PICKS and output.dim() == 0:
        whole = next(iter(node.sources()), node)
    elif seed is not None and seed.numel() > 1 and int((seed != 0).sum()) == 1:
        whole = node
    else:
        return None
    tensor = whole.owner()
    inputs = scene.asked or tuple(t for _, t in scene.leaves)
    if tensor is None or tensor.numel() < 2 or not inputs:
        return None
    key = ("loop", scene.where.file, scene.where.line)
    return JacobianSweep("loop", key, (tensor,), inputs, same=WeakTensor(whole))


# The story ------------------------------------------------------------------------------------------------


def explain_sweeps(scene: Scene, sweep: JacobianSweep) -> tuple[str, ...]:
    """Return the lines about all passes, printed once."""
    ends = [scene.watch.recorder.node_of(t) for t in sweep.outputs]
    wanted = scene.as_read(ends, sweep.inputs)
    reached = {id(node) for node in upstream_nodes(ends)}
    ask = scene.request(ends, [n for n in wanted if n.kind in ("leaf", "data") or id(n) in reached])
    pairs = [*zip(sweep.inputs, wanted, strict=True)]
    ask.inside.names |= {id(n): sweep.names[id(t)] for t, n in pairs if id(t) in sweep.names}
    program = capture_request(ask, ends)
    own = dict(zip(map(id, ask.wrt), program.wanted, strict=True))
    known = {id(t): own[id(n)] for t, n in pairs if id(n) in own}
    lines = [line if line.startswith(" ") else f"  {line}" for line in list_folded_program(program)]
    for end in dict.fromkeys(program.outputs):
        for name in program.inputs:
            lines += describe_jacobian_block(program, program.jacobian(name, output=end), end, sweep.by)
    drawn = [known[id(t)] for t in sweep.weights if id(t) in known]
    if drawn:
        them = "them" if len(drawn) > 1 else "it"
        lines.append(
            f"gradgradcheck differentiates the backward, whose v is {' and '.join(drawn)}: with respect to {them} that "
            "is the first derivative again, with respect to the rest the second"
        )
    if sweep.by in CHECKS:
        by = f"of step eps = {sweep.step:g}; it prints Jᵀ, with inputs as rows"
        lines.append(f"gradcheck compares J with difference quotients {by}")
        lines += explain_quotient_rounding(program, sweep.outputs, sweep.step)
        lines += explain_kink_within_step(program, sweep.step)
    return tuple(lines)


def describe_jacobian_block(
    program: Capture, jacobian: Jacobian, end: str, by: str, matrix: str = "J"
) -> Iterator[str]:
    """J by one input: size, structure, zeros, seeds, and the call; the ``matrix`` of a gradient's own is called H."""
    name = program.labels[jacobian.name]
    rows, columns = jacobian.shape
    structure = with_labels(str(jacobian.structure), {**program.labels, jacobian.program.output: end})
    axes = (*jacobian.out_shape, *jacobian.in_shape)
    kept = f"; torch keeps it as {format_step_shape(axes)}, the axes of {end} first" if len(axes) != 2 else ""
    found = color_rows(program, jacobian)
    kind = f", {structure}" if structure else ""
    share = "" if found is None else "over 99%" if 0.995 <= found.zeros < 1 else f"{found.zeros:.0%}"
    zeros = "" if found is None or not found.zeros else f", {share} zeros"
    sides = f"a row for each entry of {end}, a column for each of {name}"
    yield f"{matrix} with respect to {name} is {rows}×{columns}{kind}{zeros}: {sides}{kept}"
    if found is None or found.zeros == 1:
        return
    why = found.why.replace("J is", f"{matrix} is")
    if found.seeds < rows:
        yield f"{found.seeds} of {rows} passes are enough: {why}"
    elif by not in CHECKS and not (rows == 1 and by not in ("jacobian", "loop")):
        if by in ("jacobian", "loop") or not why.startswith(ALL):
            yield why
        elif rows > 1:
            fewer = "; J has fewer columns: torch.func.jacfwd takes one pass for each" if rows > columns else ""
            yield f"{ALL}{fewer if by == 'jacrev' else ''}"


# Seeds ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowColoring:
    """The number of seeds that give all of J, its share of zeros, and the reason."""

    seeds: int
    zeros: float
    why: str


def color_rows(program: Capture, jacobian: Jacobian) -> RowColoring | None:
    """Return how many seeds are enough if rows without a common column share one; None if unknown."""
    rows, columns = jacobian.shape
    evidence = jacobian.evidence
    if evidence is None or not rows * columns or len(set(program.ends)) > 1:
        return None
    allowed, seen = evidence.possible, evidence.moving
    if allowed is None or seen is None:
        return color_rows_by_structure(jacobian)
    on_the_way = jacobian.program.reached((jacobian.name,)) & jacobian.program.relevant
    ops = [entry_of(step.op) for step in jacobian.program.steps if step.result.name in on_the_way]
    smooth = all(op is not None and op.smooth for op in ops)
    places = seen if smooth else allowed  # what is smooth and 0 at several points drawn by lot is 0 everywhere
    count, least = (
        max(1, measured(*np.divmod(np.flatnonzero(some), columns), rows, columns).row_colors) for some in (places, seen)
    )
    if count == rows > least:
        return None
    return RowColoring(count, 1 - float(places.mean()), suggest_jacobian_call(jacobian, places, count))


def color_rows_by_structure(jacobian: Jacobian) -> RowColoring | None:
    """Return the same for a Jacobian too large to be examined, from its structure."""
    kind, rows, out, inner = jacobian.structure.kind, jacobian.shape[0], jacobian.out_shape, jacobian.in_shape
    if kind in ("diagonal", "identity") and out == inner:
        return RowColoring(1, 1 - 1 / rows, DIAGONAL)
    if kind == "block-diagonal" and out[0] == inner[0] > 1:
        return RowColoring(rows // out[0], 1 - 1 / out[0], BLOCKS.format(count=out[0]))
    return None


def suggest_jacobian_call(jacobian: Jacobian, places: Array, count: int) -> str:
    """Return advice on a call that computes J with fewer passes."""
    rows, columns = jacobian.shape
    out, inner = jacobian.out_shape, jacobian.in_shape
    if count == 1 and rows == columns and not (places & ~np.eye(rows, dtype=bool)).any() and out == inner:
        return DIAGONAL
    if count == 1:
        return "no two rows share a column, so one backward(ones) returns all of J"
    n = out[0] if out[:1] == inner[:1] != () else 1
    across = places.reshape(n, -1, n, columns // n).any(axis=(1, 3)) & ~np.eye(n, dtype=bool)
    if n > 1 and not across.any():
        return BLOCKS.format(count=n)
    if count < rows:
        return "rows that share no column can share a seed"
    if rows > columns:
        return f"{ALL}; J has fewer columns: torch.func.jacfwd(f)(x) takes one pass for each"
    return f"{ALL}; torch.func.jacrev(f)(x) computes all rows in one batched pass"


MOST = 64
"""The most entries of an input that is moved by gradcheck's step."""


def explain_quotient_rounding(program: Capture, outputs: Sequence[Any], step: float) -> Iterator[str]:
    """Yield a note on the rounding error of difference quotients if outputs are not float64."""
    kinds = {t.dtype for t in outputs if t.is_floating_point()} - {torch.float64}
    if not kinds or not step:
        return
    kind = max(kinds, key=lambda k: torch.finfo(k).eps)
    largest = max(float(np.abs(as_float(program.arrays[end])).max(initial=0.0)) for end in program.ends)
    moved = torch.finfo(kind).eps * largest / (2 * step)
    if np.isfinite(moved) and moved:
        yield (
            f"in {str(kind).removeprefix('torch.')} rounding alone changes such a quotient by up to "
            f"{format_digits(moved)}: give gradcheck inputs in double, x.double()"
        )


def explain_kink_within_step(program: Capture, step: float) -> Iterator[str]:
    """Yield a note about an entry with a kink within gradcheck's step."""
    if program.boxes or len(set(program.ends)) > 1 or not step:
        return
    whole = replace(program.recording, output=program.ends[0])
    arrays = {t.name: as_float(program.arrays[t.name]) for t in whole.inputs}
    weights = np.random.default_rng(1).uniform(0.5, 1.5, np.shape(program.arrays[program.ends[0]]))
    for name in program.wanted:
        array = arrays[name]
        if array.size > MOST:
            continue
        local = Local(whole, arrays, name, weights)
        for at in np.ndindex(*array.shape):
            unit: Array = np.zeros(array.shape)
            unit[at] = step
            low, high = (float(local.slope(by, np.ones(()))[at]) for by in (-unit, unit))
            if not bool(differ(np.array(low), np.array(high)).any()) or abs(low - high) < 1e3 * step * max(1, abs(low)):
                continue
            quotient = float((local.out(unit) - local.out(-unit)) / (2 * step))
            entry = format_entry_name(program.labels[name], at)
            share = (quotient - low) / (high - low)
            yield (
                f"{entry} = {format_digits(float(array[at]))} is within eps of a kink: the quotient reaches over it "
                f"and mixes {1 - share:.0%} of the slope on its left with {share:.0%} of that on its right"
            )
            return
