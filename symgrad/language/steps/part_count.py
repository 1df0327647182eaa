"""How many tensors a call gives: parts that are counted from the end need to know."""

from __future__ import annotations

from symgrad.errors import Span
from symgrad.language.steps.builder import Builder, Caller
from symgrad.language.steps.calls import Argument, Parts, Ref, bind
from symgrad.language.steps.compound_calls import results_of
from symgrad.language.steps.extents import Extents, shape_of
from symgrad.ops.calls.registry import Compound


def count_of(parts: Parts, extents: Extents, builder: Builder, span: Span) -> int | None:
    """The number of results; None where this is not known. The size of the axis that is cut becomes a number."""
    if isinstance(parts.op, Compound):
        return results_of(parts.op, parts, Caller(builder, span, extents.whole))
    arguments = [*parts.arguments, Argument(0, span, "part")]
    bound = bind(parts.op, parts.spelled, arguments, span)
    tensor, dim = bound.operands[0][0], bound.options["dim"]
    shape = shape_of(tensor) if isinstance(tensor, Ref) else ()
    if not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        return None
    length = bound.options.get("split_size_or_sections", 1)
    if isinstance(length, tuple):
        return len(length)
    size, chunks = extents.whole(shape[dim], span), bound.options.get("chunks")
    if isinstance(chunks, int) and chunks > 0:
        length = -(-size // chunks)
    return -(-size // length) if isinstance(length, int) and length > 0 and size > 0 else None
