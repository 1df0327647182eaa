"""Values of the steps of a lifted program, expansion of composite operations, and comparison with torch's values.

Comes in: a step and the values it reads, or a `LiftedProgram`. Goes out: the step's value and the integers that its
formulas read; or a `LiftedProgram` with composite operations expanded, with values computed from torch's, and a
sentence for those that are not expanded; or whether a value or gradient equals torch's within the precision of its
dtype. If a value differs, the entry is not the right one for the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from symgrad.calculus.local_derivatives import OUT, Standard, derive_local, standard_at
from symgrad.entries.derived_facts import KEPT, dtype_words
from symgrad.entries.operands import WrittenTwice
from symgrad.indexing import Bracket
from symgrad.indexing.symbols import names_read
from symgrad.language import expand_composites, why_whole
from symgrad.numeric.exact import Array, as_float, largest_gap
from symgrad.numeric.forward_pass import Values, compute_equation_as, compute_index_data
from symgrad.ops.lookup import entry_named
from symgrad.program import Apply, Program, VectorProduct
from symgrad.shapes import Shape
from symgrad.tracing.lift import TWICE, LiftedProgram, Refused, assign_labels
from symgrad.tracing.record.trace import Node, real_precision


def evaluate_step(step: Apply, arrays: dict[str, Array], form: Standard | None = None) -> None:
    """Compute ``step`` and its integers into ``arrays``; raise `Refused` if an entry is written twice.

    ``form`` is the step in standard terms, if known. Operations that keep integer dtypes return integers, since lines
    use them as positions.
    """
    try:
        if not isinstance(step.op, VectorProduct) and compute_index_data(step, arrays, {}):
            return
    except WrittenTwice:
        raise Refused(TWICE) from None
    found = compute_equation_as(form or standard_form(step, arrays), step, Values(arrays, {}))
    kinds = [np.asarray(arrays[name]).dtype for name in step.tensors]
    if isinstance(step.op, str) and kinds and all(kind.kind in "iub" for kind in kinds):
        found = found.astype(np.result_type(*kinds)) if dtype_words(entry_named(step.op)) == KEPT else found
    arrays[step.result.name] = found


def standard_form(step: Apply, arrays: Mapping[str, Array]) -> Standard:
    """Return a step in standard terms, with the sizes of its operands' arrays."""
    return standard_at(
        step, tuple(shape_sizes(arrays[a].shape) if isinstance(a, str) else None for a in step.arguments)
    )


def reads_own_value(step: Apply, arrays: Mapping[str, Array]) -> bool:
    """Whether the equation of a step compares its own value with several sums."""
    if isinstance(step.op, VectorProduct) or entry_named(step.op).smooth or not entry_named(step.op).saved.reuse:
        return False
    brackets = derive_local(standard_form(step, arrays).key).equation.right.atoms(Bracket)
    return any(isinstance(b.args[0], sp.Eq) and OUT in names_read(b) and b.has(sp.Add) for b in brackets)


@lru_cache(maxsize=1024)
def shape_sizes(shape: tuple[int, ...]) -> Shape:
    """Return a shape in numbers as sizes."""
    return tuple(map(sp.Integer, shape))


NEAR = 1e-2
"""The allowed difference of the steps from torch's value, relative to the largest entry: half precision needs it."""


def without_composites(lifted: LiftedProgram) -> tuple[LiftedProgram, tuple[str, ...]]:
    """Expand the composite operations of ``lifted``; also return why some are not expanded."""
    if not lifted.program.steps:
        return lifted, ()
    whole = expand_composites(lifted.program)
    inside = steps_of_expansion(lifted.program, whole)
    arrays = dict(lifted.arrays)
    for step in whole.steps:
        name = step.result.name
        if name not in arrays:
            evaluate_step(step, arrays)
        elif inside[name]:
            again = {**arrays}
            evaluate_step(step, again)
            if not composite_agrees(arrays[name], [again[name], *(arrays[inner] for inner in inside[name])]):
                what = next(before.called for before in lifted.program.steps if before.result.name == name)
                return lifted, (f"{what} is not expanded: on these numbers its steps overflow or lose digits",)
    owner = {inner: name for name, steps in inside.items() for inner in steps}
    origins = {
        name: replace(origin, steps=tuple(inner for step in origin.steps for inner in (*inside.get(step, ()), step)))
        for name, origin in lifted.origins.items()
    }
    origins |= {inner: origins[name] for inner, name in owner.items() if name in origins}
    lines = {**{inner: lifted.lines[name] for inner, name in owner.items() if name in lifted.lines}, **lifted.lines}
    labels = assign_labels(whole, lifted.outputs, lifted.labels, {}, {})
    stays = why_whole(lifted.program)
    lifted.program, lifted.arrays, lifted.labels = whole, arrays, labels
    lifted.lines, lifted.origins = lines, origins
    return lifted, stays


def composite_agrees(torchs: Array, steps: Sequence[Array]) -> bool:
    """Whether the steps of an expansion, first its result, agree with torch's single call."""
    own, *inner = map(as_float, steps)
    sound = np.isfinite(as_float(torchs)).all() <= all(np.isfinite(array).all() for array in inner)
    size = float(np.abs(as_float(torchs)).max(initial=0))
    return bool(sound) and bool(np.allclose(own, as_float(torchs), rtol=0, atol=NEAR * size, equal_nan=True))


def steps_of_expansion(before: Program, after: Program) -> dict[str, tuple[str, ...]]:
    """Return the steps that replaced each step, without the last one, which keeps its name."""
    known = {step.result.name for step in before.steps}
    found: dict[str, tuple[str, ...]] = {}
    waiting: list[str] = []
    for step in after.steps:
        if step.result.name not in known:
            waiting.append(step.result.name)
        else:
            found[step.result.name] = tuple(waiting)
            waiting = []
    return found


# Against torch ---------------------------------------------------------------------------------------------

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Tolerances relative to the largest entry, by torch's precision."""
CHUNK = 1 << 14
"""Entries compared at a time."""


def lowest_dtype(*nodes: Node) -> str:
    """Return the lowest precision of nodes and their sources."""
    read = [source for node in nodes for source in node.sources()]
    kinds = {real_precision(n.held.dtype) for n in (*nodes, *read)}
    return next((p for p in ("bfloat16", "float16", "float32") if p in kinds), "float64")


def iterate_chunks(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Iterate over matching pieces of arrays of one shape, small enough for the processor's cache."""
    repeated = [all(a.strides[axis] == 0 for a in arrays) for axis in range(arrays[0].ndim)]
    once = [a[(*(slice(0, 1) if again else slice(None) for again in repeated), ...)] for a in arrays]
    alike = all(a.strides == once[0].strides for a in once) and 0 not in once[0].strides
    flat = [a.ravel(order="K" if alike and a.itemsize == once[0].itemsize else "C") for a in once]
    for start in range(0, flat[0].size, CHUNK):
        yield tuple(a[start : start + CHUNK] for a in flat)


def is_close(found: Array, expected: Array, allowed: float) -> bool:
    """Whether floats are finite and differ by at most ``allowed``, relative to the largest or to 1.

    The norm of the differences bounds each of them; if it is small, they are not examined one by one.
    """
    gap, room = 0.0, np.empty(min(CHUNK, found.size))
    with np.errstate(invalid="ignore", over="ignore"):
        for ours, theirs in iterate_chunks(found, expected):
            apart = np.subtract(ours, theirs, out=room[: ours.size])
            if float(apart @ apart) <= allowed * allowed:
                continue
            ends = float(apart.max()), -float(apart.min())
            if not np.isfinite(ends).all():
                return False
            gap = max(gap, *ends)
    return gap <= allowed or gap <= allowed * float(np.abs(expected).max())


def is_constant_array(found: Array, expected: Array) -> bool:
    """Whether two arrays are equal in every entry; stops at the first piece that differs."""
    if found.shape != expected.shape:
        return False
    return all(np.array_equal(ours, theirs) for ours, theirs in iterate_chunks(found, expected))


def find_difference(found: Array, torch_value: Array, kind: str) -> str | None:
    """Return None if two values agree, else a sentence about the difference."""
    if np.shape(found) != np.shape(torch_value):
        return f"its shape would be {np.shape(found)}, torch's is {np.shape(torch_value)}"
    if not np.size(found):
        return None
    allowed = TOLERANCE.get(kind, 1e-4)
    if found.dtype.kind == torch_value.dtype.kind == "f" and is_close(found, torch_value, allowed):
        return None
    expected, got = as_float(torch_value), as_float(found)
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.abs(expected[np.isfinite(expected)])
        scale = max(1.0, float(finite.max())) if finite.size else 1.0
        gap = np.abs(got - expected)
        same = (got == expected) | (np.isnan(got) & np.isnan(expected)) | (gap <= allowed * scale)
        overflow = ~np.isfinite(expected) & (kind != "float64") & (np.abs(got) > 1e4)
    if (same | overflow).all():
        return None
    worst = np.unravel_index(int(np.argmin(same | overflow)), gap.shape)
    at = ",".join(str(int(i)) for i in worst)
    return f"at [{at}] it would be {got[worst]:.6g}, torch's is {expected[worst]:.6g}"


PRECISION = {"float64": (1e-9, 2.3e-16), "float32": (2e-4, 1.2e-7), "float16": (2e-2, 1e-3), "bfloat16": (1e-1, 8e-3)}
"""By dtype: the tolerance relative to the largest entry, and the rounding of one operation."""


def precision_of(kind: str) -> tuple[float, float]:
    """Return the row of `PRECISION` for a dtype."""
    return PRECISION.get(kind, (1e-3, 1e-3))


def largest_entry(array: Array) -> float:
    """Return the largest absolute value."""
    own = as_float(array)
    return float(np.maximum(own.max(initial=0.0), -own.min(initial=0.0)))


def cancellation_floor(terms: float, kind: str) -> float:
    """Return the possible rounding error of terms of this size."""
    return 16 * precision_of(kind)[1] * terms if np.isfinite(terms) else 0.0


def relative_difference(
    derived: Array, got: Array, tolerance: float, before: Any = None, floor: float = 0.0, void: Array | None = None
) -> tuple[float, bool]:
    """Return the difference relative to the largest entry, and whether it is rounding; ``void`` is left out."""
    if derived.shape != got.shape:
        return float("inf"), False
    held = 0.0 if before is None else float(before.abs().max()) if before.numel() else 0.0
    worst, own, theirs = largest_gap(derived, got, void)
    scale = max(theirs, held, 1e-30)  # where torch has 0, derived is rounding
    return worst / max(scale, own), bool(worst <= max(tolerance * scale, floor))
