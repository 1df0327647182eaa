"""What a call of ``backward`` or ``grad`` was given, in whichever of torch's three ways, and the graph behind it.

Comes in: the function and its arguments as they came. Goes out: `BackwardArgs`, whose weights are copies, so that what
happens to a tensor during the call does not change what was asked; what a function calls the tensors that it is
given; and of the graph that torch keeps behind tensors the nodes, the leaves, and what it is known by. Nothing there
is run.
"""

from __future__ import annotations

import gc
import inspect
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from symgrad.numeric.exact import as_float
from symgrad.tracing.record.numbers import format_array, format_digits, format_nested_array
from symgrad.tracing.record.trace import as_numbers, tensors_in

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class BackwardArgs:
    """``seeds`` are the weights as they were passed, ``passed`` the tensors themselves; None where there are none.

    ``asked`` are the tensors to differentiate by, None for all leaves; ``batched``: each weight is several;
    ``again``: the result can be differentiated again (``create_graph``).
    """

    kind: str
    outputs: tuple[Any, ...]
    passed: tuple[Any, ...]
    seeds: tuple[Any, ...]
    asked: tuple[Any, ...] | None
    retained: bool
    batched: bool
    again: bool = False

    @classmethod
    def of(
        cls, kind: str, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> BackwardArgs:
        """Read the arguments as torch will."""
        bound = read_signature(function).bind(*args, **keywords).arguments
        outputs = tuple(tensors_in(next(bound[name] for name in ("self", "tensors", "outputs") if name in bound)))
        weights = next((bound[n] for n in ("gradient", "grad_tensors", "grad_outputs") if n in bound), None)
        passed = pair_seeds(weights, len(outputs))
        inputs = bound.get("inputs")
        retain = bound.get("retain_graph")
        return cls(
            kind,
            outputs,
            passed,
            tuple(None if seed is None else seed.detach().clone() for seed in passed),
            None if inputs is None else tuple(tensors_in(inputs)),
            bool(bound.get("create_graph") if retain is None else retain),
            bool(bound.get("is_grads_batched")),
            bool(bound.get("create_graph")),
        )


MOST_OUTPUTS = 6
"""Outputs of one call whose weights are told one by one."""


@lru_cache(maxsize=16)
def read_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Read once."""
    return inspect.signature(function)


def materialize_iterators(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Arguments:
    """The arguments with what is only passed through (``net.parameters()``, ``d.values()``) as tuples, as torch does.

    torch and `BackwardArgs` can both read those; a tensor, a list and a dictionary stay what they are.
    """
    try:
        bound = read_signature(function).bind(*args, **keywords)
    except TypeError:
        return args, keywords  # torch says what is wrong
    for name, value in bound.arguments.items():
        if isinstance(value, Iterable) and not isinstance(value, (Sequence, Mapping, torch.Tensor)):
            bound.arguments[name] = tuple(value)
    return bound.args, bound.kwargs


def backward_outputs(args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """The outputs of a call, without reading what can be read only once."""
    value = args[0] if args else next((keywords[name] for name in ("tensors", "outputs") if name in keywords), ())
    return tuple(tensors_in(value))


def pair_seeds(value: Any, count: int) -> tuple[Any, ...]:
    """One seed for each output."""
    parts = (None,) * count if value is None else tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return parts if len(parts) == count else (None,) * count


def format_seed(seeds: tuple[Any, ...], outputs: tuple[Any, ...] = ()) -> str:
    """``1 1 1 (given)``; nothing where none was given and an output is more than one number, so that torch has none."""
    if any(seed is None and out.numel() != 1 for seed, out in zip(seeds, outputs, strict=False)):
        return ""
    if len(seeds) != 1:
        return f"one for each of {len(seeds)} outputs"
    (seed,) = seeds
    if seed is None:
        return "1 (implicit: one output)"
    array = as_float(as_numbers(seed))
    inside = format_nested_array(array) if array.size <= 8 else format_array(array)
    return f"{inside.strip('[]') if array.ndim < 2 else inside} (given)"


def write_weighted_sum(seeds: tuple[Any, ...], names: Sequence[str], letter: str = "v") -> str:
    """``L = z[0] + z[1]``: the scalar of the only one of the outputs ``names`` that the weights stand for.

    Of several each has weights of its own: ``v1 = 1 for y, v2 = [3 4] for z``.
    """
    if len(seeds) != 1 and len(set(names)) == len(names) <= MOST_OUTPUTS:
        told = ["1" if seed is None else format_array(as_float(as_numbers(seed))) for seed in seeds]
        return ": " + ", ".join(f"{letter}{n + 1} = {told[n]} for {name}" for n, name in enumerate(names))
    if len(seeds) != 1 or seeds[0] is None:
        return ""
    (name,) = names
    array = as_float(as_numbers(seeds[0]))
    if not 0 < array.size <= 6:
        return f": L = Σ {letter}·{name}" + (", the sum" if array.size and (array == 1).all() else "")
    terms = []
    for at in np.ndindex(*array.shape):
        entry = f"{name}[{','.join(map(str, at))}]" if at else name
        value = float(array[at])
        if value == 0:
            continue  # an entry that does not count
        terms.append(entry if value == 1 else f"{format_digits(value)}·{entry}")
    return ": L = " + (" + ".join(terms) or "0").replace("+ -", "- ") + (", the sum" if (array == 1).all() else "")


def argument_names(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[int, str]:
    """The name of each tensor by its identity; the first, where one tensor is given twice."""
    found: dict[int, str] = {}
    for name, value in name_arguments(function, args, keywords):
        for part, tensor in name_argument_tensors(name, value):
            found.setdefault(id(tensor), part)
    return found


def name_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Each argument under its parameter's name, of a module its forward's; numbered without signature."""
    target = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        bound = inspect.signature(target).bind(*args, **keywords)
    except (TypeError, ValueError):
        yield from ((f"x{n + 1}" if n else "x", value) for n, value in enumerate(args))
        yield from keywords.items()
        return
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            yield from value.items()
        else:
            yield name, value


def name_argument_tensors(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors inside one argument."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (tuple, list)):
        for n, part in enumerate(value):
            yield from name_argument_tensors(f"{name}[{n}]", part)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from name_argument_tensors(f"{name}.{key}", part)


AUTOGRAD: Any = torch._C._autograd
LEAST_OF_A_LEAF = 1 << 62
"""The nodes of leaves have the largest number that there is: they may be older than any other."""
NAMELESS = "CppFunction"
"""What the nodes of operations are that have no class of their own in Python."""
GLIMPSED = 3
"""Operations that are looked at in every call."""
NUMBERED = re.compile(r"Backward\d*$")


@dataclass(frozen=True)
class GraphOutline:
    """A graph by its operations and their wiring, ``kind``, and with the sizes on the way, ``program``.

    ``first`` is the number of its oldest node, ``size`` how many it has.
    """

    kind: tuple[tuple[Any, ...], Hashable, Hashable]
    program: Hashable
    first: int
    size: int

    @property
    def operations(self) -> Counter[str]:
        """How many there are of each operation."""
        names = [getattr(one, "__name__", one) for one in self.kind[0]]
        return Counter(NUMBERED.sub("", name) for name in names if name != "AccumulateGrad")


def graph_nodes(outputs: Sequence[Any]) -> list[Any]:
    """The nodes of the graph behind some tensors, each once."""
    waiting = [t.grad_fn for t in outputs if t is not None and t.grad_fn is not None]
    found: dict[int, Any] = {}
    while waiting:
        node = waiting.pop()
        if id(node) in found:
            continue
        found[id(node)] = node
        waiting += [after for after, _ in node.next_functions if after is not None]
    return list(found.values())


def graph_leaves(outputs: Sequence[Any]) -> list[Any]:
    """The leaves behind some tensors, in whose ``.grad`` a backward leaves something."""
    stores = [node.variable for node in graph_nodes(outputs) if hasattr(node, "variable")]
    return [*(t for t in outputs if t.grad_fn is None and t.requires_grad), *reversed(stores)]


def outline_graph(outputs: Sequence[Any]) -> GraphOutline:
    """What the graph behind some tensors is known by; its nodes are not kept, since each keeps all behind it.

    Nor is anything asked that a node has saved: that may be packed by the user's own hook.
    """
    collecting = gc.isenabled()
    gc.disable()  # thousands of wrappers come and go
    try:
        places: dict[Any, int] = {}
        waiting = [t.grad_fn for t in outputs if t.grad_fn is not None]
        operations, wiring, sizes, first = [], [], [], LEAST_OF_A_LEAF
        while waiting:
            node = waiting.pop()
            if node in places:
                continue
            places[node] = len(places)
            operations.append(operation_of(node))
            after = node.next_functions
            for to, place in after:
                wiring.append((places.get(to, -1), place))
                if to is not None:
                    waiting.append(to)
            for about in node._input_metadata:
                sizes += about.shape
            first = min(first, node._sequence_nr())
        ends = tuple([places.get(t.grad_fn, -1) for t in outputs])
        del waiting, places
    finally:
        if collecting:
            gc.enable()
    shapes = tuple([tuple(t.shape) for t in outputs])
    known = tuple(operations), tuple(wiring), ends
    return GraphOutline(known, (known, shapes, tuple(sizes)), first, len(operations))


def operation_of(node: Any) -> Any:
    """What tells the operation of a node: its class, or its name where that has none of its own."""
    kind = type(node)
    return node.name() if kind.__name__ == NAMELESS else kind


def outline_last_operations(tensor: Any) -> Hashable:
    """The last operations behind a tensor, and the sizes of the first of them: the batch has its size there."""
    found: list[Any] = []
    node, last = tensor.grad_fn, None
    while node is not None and len(found) < GLIMPSED:
        found.append(operation_of(node))
        after = node.next_functions
        node, last = after[0][0] if after else None, node if after else last
    sizes = () if last is None else [tuple(about.shape) for about in last._input_metadata]
    return (*found, *sizes)


def count_graph_nodes() -> int:
    """How many nodes of graphs this thread has made."""
    return int(AUTOGRAD._get_sequence_nr())
