"""Trying a way to lift a call: what it added is taken back when it is refused.

Comes in: a lifter. Goes out: the same lifter, as it was before where the body was refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from symgrad.errors import SymgradError
from symgrad.tracing.lift.binding import Refusals
from symgrad.tracing.lift.lifted import Refused

if TYPE_CHECKING:
    from symgrad.tracing.lift.lifter import Lifter


@contextmanager
def trial(lifter: Lifter) -> Iterator[None]:
    """Take everything back when the body is refused: until then things are only added."""
    builder = lifter.builder
    count, sizes, shared = builder.count, builder.sizes.copy(), dict(lifter.shared)
    own = (lifter.refs, lifter.arrays, lifter.labels, lifter.nodes, lifter.origins)
    grown: tuple[Any, ...] = (builder.steps, lifter.inputs, builder.inputs, *own)
    lengths = [len(each) for each in grown]
    try:
        yield
    except (Refused, *Refusals) as error:
        builder.used -= {step.result.name for step in builder.steps[lengths[0] :]}
        builder.used -= {ref.name for ref in lifter.inputs[lengths[1] :]}
        for each, length in zip(grown, lengths, strict=True):
            while len(each) > length:
                each.popitem() if isinstance(each, dict) else each.pop()
        builder.count, builder.sizes, lifter.shared = count, sizes, shared
        if isinstance(error, Refused):
            raise
        raise Refused(error.problem if isinstance(error, SymgradError) else str(error)) from error
