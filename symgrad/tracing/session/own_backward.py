"""Check the user's own backward: returned gradients that torch repaired or refused, and whether it is the derivative.

    AddBias.backward returned 4×3 for its input 2, which is 3 (train.py:8): torch added it up

A hook of torch sees the gradient after the repair, so `sys.setprofile` observes what the function returns while torch
runs the call. Nothing is run again or wrapped, and nothing is observed if a profiler is active. Comes in: calls of the
user's own functions; then a captured program and its opaque calls whose forward and backward were observed. Goes out:
sentences. The forward is lifted and derived, and its vᵀJ is compared with the backward's result.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from symgrad.backward.simplify.broadcasting import can_broadcast_to
from symgrad.errors import SymgradError
from symgrad.explanation.evidence import shape_text
from symgrad.numeric import Values, as_float
from symgrad.numeric.exact import Array, euclidean
from symgrad.ops.lookup import has_role, role_entry
from symgrad.program import Role
from symgrad.render.numbers import MOST, count_noun, format_array
from symgrad.tracing.captured import Capture
from symgrad.tracing.lift.boxes import Observed, return_unchanged
from symgrad.tracing.lift.call_sweeps import CallwisePull
from symgrad.tracing.lift.lifter import Lifter
from symgrad.tracing.lift.rewrites import is_module_hook_call
from symgrad.tracing.lift.values import lowest_dtype, precision_of, relative_difference
from symgrad.tracing.record.trace import Node, TorchCall, as_numbers
from symgrad.tracing.session.torch_messages import Refusal, find_refusal

ONE = "one number"


@dataclass(frozen=True)
class ReturnedParts:
    """Shape and dtype of each returned gradient (None for other objects), and ``where`` it was returned."""

    parts: tuple[tuple[tuple[int, ...], Any] | None, ...]
    where: str


class BackwardSensor:
    """A context manager that observes what the backwards of some calls return."""

    def __init__(self, calls: Sequence[TorchCall]) -> None:
        self.calls = {id(call.graph): call for call in calls}
        self.codes = {code for call in calls if (code := backward_code(call.graph)) is not None}
        self.seen: dict[int, ReturnedParts] = {}
        self.ended: dict[int, str] = {}

    def __enter__(self) -> None:
        """Install the profile function, unless there is one."""
        if self.codes and sys.getprofile() is None:
            sys.setprofile(self.look)

    def __exit__(self, *_: object) -> None:
        """Remove the profile function, unless the script has set another one."""
        if sys.getprofile() == self.look:
            sys.setprofile(None)

    def look(self, frame: FrameType, event: str, value: Any) -> None:
        """Record a return of one of the backwards; errors while looking at its value are ignored."""
        if event != "return" or frame.f_code not in self.codes:
            return
        try:
            context = frame.f_locals.get(frame.f_code.co_varnames[0])
            if id(context) not in self.calls:
                return
            where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            if value is None:  # so does one end that raises
                self.ended[id(context)] = where
                return
            parts = value if isinstance(value, tuple) else (value,)
            found = tuple((tuple(p.shape), p.dtype) if hasattr(p, "grad_fn") else None for p in parts)
            self.seen[id(context)] = ReturnedParts(found, where)
        except Exception:  # the script goes on, whatever its objects do when they are asked
            return

    def told(self) -> list[str]:
        """Return a sentence for each returned gradient that differs from the one torch stored."""
        return list(dict.fromkeys(said for _, said in self.each()))

    def each(self) -> Iterator[tuple[Node, str]]:
        """Iterate over these sentences, with the input of each."""
        for call, seen in self.returned():
            yield from compare_returned(call, seen)

    def returned(self) -> list[tuple[TorchCall, ReturnedParts]]:
        """Return what each backward returned in a call without an error."""
        nothing = {own: ReturnedParts((None,) * len(self.calls[own].arguments), at) for own, at in self.ended.items()}
        return [(self.calls[own], seen) for own, seen in {**nothing, **self.seen}.items()]

    def refused(self, error: Exception) -> list[str]:
        """Return sentences about the returned gradients that torch refused with ``error``."""
        refusal = find_refusal(error)
        if refusal is Refusal.MISCOUNTED:
            return [line for own, seen in self.seen.items() for line in explain_returned_count(self.calls[own], seen)]
        if refusal is Refusal.OTHER_GRADIENT:
            every = (said for call, seen in self.returned() for _, said in compare_returned(call, seen, taken=False))
            return list(dict.fromkeys(every))
        if refusal is Refusal.SHARED_MEMORY:
            return [line for own, where in self.ended.items() for line in explain_write_to_seed(self.calls[own], where)]
        return []


def explain_returned_count(call: TorchCall, seen: ReturnedParts) -> Iterator[str]:
    """Yield a sentence if the number of gradients is not that of the inputs; torch accepts extra ones that are None."""
    given, wanted = len(seen.parts), len(call.arguments)
    if given < wanted or any(part is not None for part in seen.parts[wanted:]):
        name = call.spelling.removesuffix(".apply")
        yield (
            f"{name}.backward returned {count_noun(given, 'gradient')} ({seen.where}), and {name}.forward has "
            f"{count_noun(wanted, 'input')}: return one for each, in their order, None for inputs without one"
        )


def explain_write_to_seed(call: TorchCall, where: str) -> Iterator[str]:
    """Yield a sentence if the backward wrote into a v that is an expanded scalar (stride 0)."""
    for v in call.observation.live:
        if v is not None and any(size > 1 and not step for size, step in zip(v.shape, v.stride(), strict=True)):
            name, strides = call.spelling.removesuffix(".apply"), tuple(v.stride())
            yield (
                f"{name}.backward wrote into such a tensor ({where}). The v it received is one: {shape_text(v.shape)} "
                f"with strides {strides}, as the backward of sum passes it; v must not be modified"
            )


def compare_returned(call: TorchCall, seen: ReturnedParts, taken: bool = True) -> Iterator[tuple[Node, str]]:
    """Iterate over gradients whose shape or dtype differs from the input's; ``taken``: torch accepted them."""
    name = f"{call.spelling.removesuffix('.apply')}.backward"
    for number, (node, part) in enumerate(zip(call.arguments, seen.parts, strict=False)):
        if not isinstance(node, Node) or not node.carries or node.held.is_complex():
            continue
        which = f"its input {number + 1}" if len(call.arguments) > 1 else "its input"
        if part is None:
            yield node, f"{name} returned None for {which} ({seen.where}), so no gradient flows on from there"
            continue
        shape, dtype = part
        if shape != node.shape:
            sizes = f"{shape_text(shape, ONE)} for {which}, which is {shape_text(node.shape, ONE)}"
            ends = ": autograd sums it up, other callers do not" if taken else ": the two have to be the same"
            if taken or not can_broadcast_to(node.shape, shape):
                yield node, f"{name} returned {sizes} ({seen.where}){ends}"
        elif dtype != node.held.dtype:
            types = f"{dtype_text(dtype)} for {which}, which is {dtype_text(node.held.dtype)}"
            yield node, f"{name} returned {types} ({seen.where}): torch cast it"


def backward_code(graph: Any) -> CodeType | None:
    """Return the code object of a user's backward; None if it is not a Python function."""
    function = getattr(getattr(type(graph), "_forward_cls", None), "backward", None)
    found = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return found if isinstance(found, CodeType) and found.co_argcount else None


def dtype_text(dtype: Any) -> str:
    """Format a dtype as ``float16``."""
    return str(dtype).removeprefix("torch.")


def judge_each_call(program: Capture) -> Iterator[str]:
    """Iterate over sentences about each call of a user's function."""
    for name, box in program.boxes.items():
        if isinstance(box, Observed) and box.call.function is return_unchanged:
            yield from describe_hook_change(program.labels.get(name, name), box)
            continue
        weights = result_cotangents(box) if isinstance(box, Observed) and box.call.forward else ()
        if not weights or weights[box.index] is None or not box.whole:
            continue
        try:
            declared = box.pull(as_float(as_numbers(weights[box.index])), range(len(box.arguments)))
            real = derive_from_forward(box, weights)
        except SymgradError:
            continue
        pairs = [(declared[n], real[n]) for n in declared] if real is not None else []
        # torch adds up what comes back in a larger shape, and that is told elsewhere
        if real is None or any(a.shape != b.shape or not np.isfinite([a, b]).all() for a, b in pairs):
            continue
        signs = (None if w is None else w.new_tensor([1, -1]).repeat(w.numel())[: w.numel()] for w in weights)
        other = tuple(None if s is None else w * s.reshape(w.shape) for w, s in zip(weights, signs, strict=True))
        turned = derive_from_forward(box, other) or real  # what cancels for v seldom does with every second sign turned
        sizes = {n: float(np.abs(turned[n]).max(initial=0.0)) for n in declared}  # of terms that may cancel
        others = [n for n in declared if not agrees(box, n, real, declared, sizes[n])]
        who = box.spelling.removesuffix(".apply")
        v = as_float(as_numbers(weights[box.index])) if len(weights) == 1 else None
        if is_module_hook_call(box.call):
            for n in others:
                found = describe_wrong_product(v, declared[n], real[n])
                yield f"a backward hook of a module changes the gradient: {found}"
            continue
        nothing = {n: np.zeros_like(array) for n, array in declared.items()}
        if not others and any(sizes.values()) and all(agrees(box, n, declared, nothing, sizes[n]) for n in declared):
            yield (
                f"vᵀJ of {who}'s forward is 0 for this v, and so is its backward's result: rows of J cancel, so a "
                "backward that is wrong by a factor gives 0, too; another v tests more"
            )
        elif not others:
            yield f"{who}.backward is right here"
        for n in others:
            argument = str(program.recording.makers[name].arguments[n])
            by = "" if len(declared) == 1 else f" for {program.labels.get(argument, f'its input {n + 1}')}"
            if not box.returned(n):
                found = format_array(real[n])
                yield f"{who}.backward returns None{by}, but the gradient is not 0: for this v it is {found}"
                continue
            verdict = name_estimator(v, declared[n], real[n]) or "is wrong"
            yield f"{who}.backward {verdict}{by}: {describe_wrong_product(v, declared[n], real[n])}"
        ordered = reorder_as_stored(weights[0]) if others and v is not None else None
        misread = None if ordered is None else derive_from_forward(box, (ordered,))
        if misread is not None and all(agrees(box, n, misread, declared) for n in declared):
            yield (
                f"{who}.backward reads v as if it were contiguous, which explains its result: v has strides "
                f"{tuple(weights[0].stride())}; call v.contiguous() first"
            )


def result_cotangents(box: Observed) -> tuple[Any, ...]:
    """Return the cotangent of each result of a user's call, None without one."""
    given = box.call.observation.given
    return tuple(given[slot] if given else None for slot in box.call.slots)


def agrees(box: Observed, place: int, one: Mapping[int, Array], other: Mapping[int, Array], size: float = 0.0) -> bool:
    """Whether two vᵀJ for an input are equal in torch's precision; ``size`` is the size of their terms."""
    tolerance = precision_of(lowest_dtype(box.arguments[place]))[0]
    return relative_difference(one[place], as_float(other[place]), tolerance, None, tolerance * size)[1]


def describe_hook_change(name: str, box: Observed) -> Iterator[str]:
    """Yield a sentence about the observed change of a tensor's gradient by its hooks."""
    seen = box.call.observation
    v, made = (as_float(as_numbers(parts[0])) for parts in (seen.given, seen.made))
    factor = common_factor(v, made)
    if factor is not None:
        told = f"multiplies it by {factor}" if float(factor) else "makes it 0"
    elif made.size <= MOST:
        told = f"turns {format_array(v)} into {format_array(made)}"
    else:
        count = int(np.sum(~((v == made) | (np.isnan(v) & np.isnan(made)))))
        told = f"changes {count} of its {made.size} entries, its norm {euclidean(v):.3g} → {euclidean(made):.3g}"
    yield f"a hook on {name} changes its gradient: it {told}"


def common_factor(v: Array, made: Array) -> str | None:
    """Return the number by which ``v`` was multiplied, as text; None if it is not one number."""
    some = v != 0
    if v.shape != made.shape or not some.any() or made[~some].any():
        return None
    slopes = made[some] / v[some]
    alike = float(np.ptp(slopes)) <= 1e-6 * max(1.0, float(np.abs(slopes).max()))
    return format_array(slopes.flat[0]) if alike else None


def name_estimator(v: Array | None, declared: Array, real: Array) -> str:
    """Name a backward that deliberately returns no derivative, given its result and the real vᵀJ; else empty.

    A straight-through estimator has the signs of v where the derivative is 0; gradient reversal returns −c·v where it
    is 1.
    """
    if v is None or v.shape != declared.shape:
        return ""
    if not real.any() and (declared * v >= 0).all():
        return "returns a surrogate gradient, as a straight-through estimator does"
    factor = common_factor(v, declared) if (real == v).all() else None
    return "" if factor is None or float(factor) >= 0 else "works as a gradient reversal layer"


def reorder_as_stored(v: Any) -> Any:
    """Return the entries of ``v`` in memory order, in its shape; None if it is contiguous."""
    if v.is_contiguous():
        return None
    steps = np.cumprod([1, *tuple(v.shape)[:0:-1]])[::-1].tolist()
    return v.as_strided(v.shape, steps)


def derive_from_forward(box: Observed, weights: Sequence[Any]) -> Mapping[int, Array] | None:
    """Return vᵀJ of the forward as it ran, for each input; None if it is unknown, detached, or has opaque calls.

    ``weights`` are the cotangents of the results.
    """
    sources, pairs = box.arguments, zip(box.call.forward, weights, strict=True)
    seeds = [(end, as_float(as_numbers(w))) for end, w in pairs if w is not None]
    ends = [end for end, _ in seeds if end is not None]
    if len(ends) < len(seeds):
        return None
    lifter = Lifter({}, frozenset(map(id, sources)))
    for source in sources:
        lifter.source(source)
        lifter.reached.add(id(source))
    lifted = lifter.lift(ends, list(sources))
    own = [lifted.refs[id(source)].name for source in sources]
    made = [node for name, node in lifted.nodes.items() if name not in own and node.carries]
    if lifted.boxes or any(node.inner or node.cut is not None for node in made):
        return None
    steps = lifted.program.steps  # in there nothing is tracked, so that a detach cuts nothing
    uncut = (
        replace(step, op=role_entry(Role.HANDS_ON).name) if has_role(step.op, Role.CUTS) else step for step in steps
    )
    program = replace(lifted.program, steps=tuple(uncut))
    read = [name for name in own if name in program.reaching(lifted.outputs)]
    seeded = dict(zip(lifted.outputs, (v for _, v in seeds), strict=True))
    found = CallwisePull(program, Values(lifted.arrays, {}), read).back(seeded) if read else {}
    return {
        n: as_float(found[name]) if name in found else np.zeros(source.value().shape)
        for n, (name, source) in enumerate(zip(own, sources, strict=True))
    }


def describe_wrong_product(v: Array | None, declared: Array, real: Array) -> str:
    """The two, as slopes where each is one number; ``v`` is what came back, None where that went to several results."""
    one, two = (None, None) if v is None else (common_factor(v, declared), common_factor(v, real))
    if one is not None and two is not None:
        return f"it returns the slope {one}, the derivative is {two}"
    if declared.any() and (factor := common_factor(real, declared)) is not None:
        return f"it returns {factor} times the derivative"
    if declared.size <= MOST:
        return f"for the v it received it returns {format_array(declared)}, vᵀJ is {format_array(real)}"
    gap = float(np.abs(declared - real).max())
    size = format_array(np.abs(real).max())
    return f"for the v it received it is off by up to {gap:.2g}; the largest entry of vᵀJ is {size}"
