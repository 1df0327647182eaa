"""Where a run's gradient is another than the derived one because torch's backward of a call is no derivative there.

Comes in: a call of the script on the way back. Goes out: torch's numbers for it, and a sentence, where torch's own
forward pass of that call has the derived slopes and its backward says something else, as that of ``polar`` does at
negative lengths and that of ``cosine_similarity`` below its ``eps``. Asked only after a gradient was found to differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from symgrad.errors import SymgradError
from symgrad.numeric.exact import Array, as_float
from symgrad.oracles.own_rule import MOST, contradicted
from symgrad.tracing.lift.boxes import replaced, rerun
from symgrad.tracing.lift.origins import Origin
from symgrad.tracing.lift.singular import alike, kinds_of, rounded
from symgrad.tracing.record.numbers import digits
from symgrad.tracing.record.trace import as_array, tensors_in


def by_torchs_rule(
    origin: Origin, arrived: Mapping[str, Array], cotangent: Array, arrays: Mapping[str, Array]
) -> tuple[dict[str, Array], str]:
    """``arrived`` with torch's numbers where its forward pass contradicts its backward, and where that is.

    Nothing is put in, and nothing said, unless every entry that differs is such a one.
    """
    names = [name for name in arrived if name in origin.box.names]
    places = [origin.box.names.index(name) for name in names]
    found, reason = dict(arrived), ""
    try:
        chosen = origin.box.pull(cotangent, places)
    except SymgradError:
        return found, ""
    for name, place in zip(names, places, strict=True):
        ours, theirs = as_float(arrived[name]), as_float(chosen[place])
        if ours.shape != theirs.shape:
            continue
        differ = [
            tuple(int(i) for i in at)
            for at in np.argwhere(~alike(ours, theirs) & ~rounded(ours, theirs, kinds_of(origin)))
        ]
        if not differ:
            continue
        entries = as_float(arrays[name])
        for at in differ[:MOST]:
            total = total_of(origin, place, at, cotangent)
            if total is None or not contradicted(float(ours[at]), float(theirs[at]), float(entries[at]), total):
                return dict(arrived), ""
        at, count = differ[0], f" and {len(differ) - 1} more" if len(differ) > 1 else ""
        found[name] = theirs
        reason = reason or (
            f"its backward says {digits(float(theirs[at]))} for entry {list(at)}{count} of its argument, where its own "
            f"forward pass has the slope {digits(float(ours[at]))} on both sides"
        )
    return found, reason


def total_of(origin: Origin, place: int, at: tuple[int, ...], cotangent: Array) -> Callable[[float], float] | None:
    """Σ v·result of a call in double precision, for a shift of one entry of an argument; None where it is complex."""
    box = origin.box
    nodes = tuple({id(node): node for node in box.call.nodes()}.values())
    held = [wide(node.tensor()) for node in nodes]
    number = next(n for n, node in enumerate(nodes) if node is box.arguments[place])
    if held[number].is_complex():
        return None

    def total(shift: float) -> float:
        tensors = [tensor.clone() for tensor in held]
        tensors[number][at] += shift
        try:
            with torch.no_grad():
                results = list(tensors_in(rerun(box.call, *replaced(box.call, nodes, tensors), None)))
        except (RuntimeError, TypeError, ValueError):  # not of these types, then
            return float("nan")
        return float(np.sum(as_float(cotangent) * as_float(as_array(results[box.index])).reshape(np.shape(cotangent))))

    return total


def wide(tensor: Any) -> Any:
    """A copy in double precision, where it holds numbers."""
    copy = tensor.detach().clone()
    return copy.to(torch.complex128) if copy.is_complex() else copy.double() if copy.is_floating_point() else copy
