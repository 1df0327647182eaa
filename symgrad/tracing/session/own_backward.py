"""A user's own backward beside the derivative of its own forward: where the two differ, a slope was declared.

Comes in: a captured program and its black boxes whose forward and backward were seen to run. Goes out: a line for each.
What ran in the forward is lifted and derived; nothing of the user's is run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric import Values, as_float
from symgrad.numeric.exact import Array
from symgrad.numeric.length import euclidean
from symgrad.ops.entry import playing, plays
from symgrad.program import Role
from symgrad.tracing.lift import hooks
from symgrad.tracing.lift.lifter import Lifter
from symgrad.tracing.lift.observed import Observed
from symgrad.tracing.lift.rewrites import hooks_of_a_module
from symgrad.tracing.lift.sweeps import pull
from symgrad.tracing.lift.verify import precision
from symgrad.tracing.record.numbers import MOST, short
from symgrad.tracing.record.trace import as_array
from symgrad.tracing.session.agreement import difference, precision_of

if TYPE_CHECKING:
    from symgrad.tracing.captured.capture import Capture


def compared(program: Capture) -> Iterator[str]:
    """``Round.backward is not the derivative of its forward: the slope that was declared is 1, the real one 0``."""
    for name, box in program.boxes.items():
        if isinstance(box, Observed) and hooks.stand_at(box.call):
            yield from changed_by_hooks(program.labels.get(name, name), box)
            continue
        if not isinstance(box, Observed) or len(box.call.forward) != 1:
            continue
        seen = box.call.observation.given
        weights = None if not seen else seen[box.call.slots[box.index]]
        if weights is None:
            continue
        try:
            v = as_float(as_array(weights))
            declared, real = box.pull(v, range(len(box.arguments))), derived(box, v)
        except SymgradError:
            continue
        if real is None or not all(told_apart(declared[n], real[n]) for n in declared):
            continue
        others = [n for n in declared if not alike(box, n, real, declared)]
        who = box.spelling.removesuffix(".apply")
        if hooks_of_a_module(box.call):
            for n in others:
                yield f"a backward hook of a module changes what goes back: {apart(v, declared[n], real[n])}"
            continue
        if not others:
            yield f"{who}.backward gives here what its forward derives to"
        for n in others:
            by = "" if len(declared) == 1 else f" by {input_of(program, name, n)}"
            yield f"{who}.backward is not the derivative of its forward{by}: {apart(v, declared[n], real[n])}"
        ordered = in_memory(weights) if others else None
        misread = None if ordered is None else derived(box, as_float(as_array(ordered)))
        if misread is not None and all(alike(box, n, misread, declared) for n in declared):
            yield (
                f"{who}.backward reads v as if its entries lay in order, and gives just what comes of that: "
                f"v came with strides {tuple(weights.stride())}; v.contiguous() puts them in order"
            )


def told_apart(declared: Array, real: Array) -> bool:
    """Whether the two can be compared: torch adds up what comes back in a larger shape, and that is told elsewhere."""
    return declared.shape == real.shape and bool(np.isfinite(declared).all() and np.isfinite(real).all())


def alike(box: Observed, place: int, one: Mapping[int, Array], other: Mapping[int, Array]) -> bool:
    """Whether two products by an input are the same in the precision that torch has."""
    kind = precision(box.arguments[place])
    return difference(one[place], as_float(other[place]), precision_of(kind)[0], None, 0.0)[1]


def input_of(program: Capture, name: str, place: int) -> str:
    """What the program calls an input of the step whose result is ``name``."""
    step = next(step for step in program.recording.steps if step.result.name == name)
    return program.labels.get(str(step.arguments[place]), f"its input {place + 1}")


def changed_by_hooks(name: str, box: Observed) -> Iterator[str]:
    """What the hooks of a tensor made of what came back to it, as it was seen."""
    seen = box.call.observation
    v, made = (as_float(as_array(parts[0])) for parts in (seen.given, seen.made))
    factor = slope_of(v, made)
    if factor is not None:
        told = f"multiplies it by {factor}" if float(factor) else "makes it 0"
    elif made.size <= MOST:
        told = f"is given {short(v)} and makes {short(made)} of it"
    else:
        count = int(np.sum(~((v == made) | (np.isnan(v) & np.isnan(made)))))
        told = f"changes {count} of its {made.size} entries, its length {euclidean(v):.3g} → {euclidean(made):.3g}"
    yield f"a hook changes what comes back to {name}: it {told}"


def slope_of(v: Array, made: Array) -> str | None:
    """The number that was multiplied by, where it is one."""
    some = v != 0
    if v.shape != made.shape or not some.any() or made[~some].any():
        return None
    slopes = made[some] / v[some]
    alike = float(np.ptp(slopes)) <= 1e-6 * max(1.0, float(np.abs(slopes).max()))
    return short(slopes.flat[0]) if alike else None


def in_memory(v: Any) -> Any:
    """The entries in the order in which they lie, in the shape of ``v``; None where that is the order they are in."""
    if v.is_contiguous():
        return None
    steps = np.cumprod([1, *tuple(v.shape)[:0:-1]])[::-1].tolist()
    return v.as_strided(v.shape, steps)


def derived(box: Observed, v: Array) -> Mapping[int, Array] | None:
    """vᵀJ of what ran in the forward, by each input; None where that is not known, cut off, or a black box itself."""
    end, sources = box.call.forward[0], box.arguments
    if end is None:
        return None
    lifter = Lifter({}, frozenset(map(id, sources)))
    for source in sources:
        lifter.source(source)
        lifter.reached.add(id(source))
    lifted = lifter.lift([end], list(sources))
    own = [lifted.refs[id(source)].name for source in sources]
    if lifted.boxes or any(node.cut is not None for node in lifted.nodes.values()):
        return None
    steps = lifted.program.steps  # in there nothing is tracked, so that a detach cuts nothing
    uncut = (replace(step, op=playing(Role.HANDS_ON).name) if plays(step.op, Role.CUTS) else step for step in steps)
    program = replace(lifted.program, steps=tuple(uncut))
    read = [name for name in own if name in program.relevant()]
    found = pull(program, Values(lifted.arrays, {}), {}, {lifted.outputs[0]: v}, read) if read else {}
    return {
        n: as_float(found[name]) if name in found else np.zeros(source.value().shape)
        for n, (name, source) in enumerate(zip(own, sources, strict=True))
    }


def apart(v: Array, declared: Array, real: Array) -> str:
    """The two, as slopes where each is one number."""
    one, two = slope_of(v, declared), slope_of(v, real)
    if one is not None and two is not None:
        return f"the slope that was declared is {one}, the real one {two}"
    if declared.any() and (factor := slope_of(real, declared)) is not None:
        return f"what is declared is {factor} times the real one"
    if declared.size <= MOST:
        return f"for the v that it was given {short(declared)} is what is declared, {short(real)} the real one"
    gap = float(np.abs(declared - real).max())
    return f"for the v that it was given the two are up to {gap:.2g} apart"


__all__ = ["compared"]
