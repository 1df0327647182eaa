"""A call as a graph of ATen operations: how it is traced, and what taking it apart looks at in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from symgrad.language.steps.calls import Ref
from symgrad.tracing.lift.boxes import replaced, result_of
from symgrad.tracing.record.trace import Node, tensors_in


@lru_cache(maxsize=1)
def table() -> dict[Any, Any]:
    """torch's decompositions into core ATen operations."""
    return dict(torch._decomp.core_aten_decompositions())


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Without oneDNN, whose layers nothing takes apart: a whole LSTM in single precision is one of them."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def traced(node: Node, sources: list[Node]) -> Any:
    """The graph of the call behind ``node`` as a function of ``sources``."""
    call = node.call
    assert call is not None

    def function(*tensors: Any) -> Any:
        arguments, keywords = replaced(call, sources, tensors)
        if call.in_place:
            return result_of(call, arguments, keywords, node.index)
        return list(tensors_in(call.function(*arguments, **keywords)))

    with torch._C.DisableTorchFunction(), torch.enable_grad(), plain_kernels():
        inputs = [n.tensor().detach().clone() for n in sources]
        return make_fx(function, decomposition_table=table())(*inputs)


def ordinary(value: Any) -> Any:
    """torch.fx's immutable containers as ordinary ones."""
    if isinstance(value, (list, tuple)):
        return type(value)(ordinary(v) for v in value) if type(value) in (list, tuple) else [ordinary(v) for v in value]
    if isinstance(value, dict):
        return {k: ordinary(v) for k, v in value.items()}
    return value


def replaced_by(value: Any, values: dict[Any, Any]) -> Any:
    """Graph nodes replaced by their values."""
    if isinstance(value, torch.fx.Node):
        return values[value]
    if isinstance(value, tuple):
        return tuple(replaced_by(v, values) for v in value)
    if isinstance(value, list):
        return [replaced_by(v, values) for v in value]
    if isinstance(value, dict):
        return {k: replaced_by(v, values) for k, v in value.items()}
    return value


def floating(value: Any) -> bool:
    """Whether any of the results is floating."""
    parts = value if isinstance(value, (tuple, list)) else [value]
    return any(isinstance(p, torch.Tensor) and p.is_floating_point() for p in parts)


def has_nan(value: Any) -> bool:
    """Whether a tensor, or the first of several, holds a NaN."""
    first = value[0] if isinstance(value, (tuple, list)) and value else value
    numbers = isinstance(first, torch.Tensor) and (first.is_floating_point() or first.is_complex())
    return numbers and bool(torch.isnan(first.to_dense() if first.layout is not torch.strided else first).any())


def followed_by(step: Any, refs: dict[Any, Ref]) -> bool:
    """Whether something that is followed went into ``step``."""
    return any(s in refs for s in step.all_input_nodes)


def matters(step: Any) -> bool:
    """Whether a use of a result is more than telling its shape."""
    return not str(step.target).startswith("aten.sym_")
