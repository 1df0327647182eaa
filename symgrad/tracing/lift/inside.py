"""Lifting of a call through the simpler calls that it consists of.

Comes in: a recorded call, and a function that computes the same: a definition, or the call itself, whose inner torch
operations are recorded. Goes out: the last of the steps. If an inner call has no equation, the whole call is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from symgrad.backward.page_names import Suggested
from symgrad.errors import SymgradError
from symgrad.language.binding import Ref
from symgrad.ops.calls.call_texts import NEW
from symgrad.ops.lookup import find
from symgrad.reference.bounds import UncompiledMode
from symgrad.tracing.lift import Refused
from symgrad.tracing.lift.boxes import run_call, with_operands
from symgrad.tracing.lift.context import LiftContext, Ran
from symgrad.tracing.record import frames
from symgrad.tracing.record.aliases import find_data_view, map_entries, storage_of, view_text
from symgrad.tracing.record.names import name_nodes
from symgrad.tracing.record.spelling import plain_word, spell_aten_operation, spell_function
from symgrad.tracing.record.trace import Node, SourceLine, TorchCall, map_nested, tensors_in, upstream_nodes

NOWHERE = SourceLine("?", 0, "")
LONGEST = 20_000
"""The largest number of operations in an expansion."""
PRODUCTS = ("addmm", "addmv", "baddbmm")
"""Matrix products with an added term, which are two steps in the table."""
FREE = "the result depends on the arbitrary phase of each eigenvector"
"""Why the gradient through eigenvectors is left to torch."""
Definition = Callable[..., Any]
"""A function of an `Expansion` and of the call's arguments."""
DEFINITIONS: dict[str, Definition] = {}
"""Definitions in simpler functions, by the last word of torch's spelling."""


class Expansion(UncompiledMode):  # type: ignore[no-untyped-call]  # torch annotates half of it
    """Records the operations inside one call as nodes; ``program(function, x)`` records ``function`` as one call.

    ``value`` is the value of the call's result number ``index``, the one to lift.
    """

    def __init__(self, node: Node, turns: list[Node] | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch annotates half of it
        self.call, self.where = node.maker, node.where or NOWHERE
        self.value, self.index = node.held, node.index
        self.seen: dict[int, tuple[Any, Node | None]] = {}
        self.order: dict[int, int] = {}
        self.count, self.turns = 0, turns

    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the call's arguments, with copies of its tensors, registered under their nodes."""
        copies = [n.tensor().detach().clone() for n in self.call.operands]
        for tensor, node in zip(copies, self.call.operands, strict=True):
            self.seen[id(tensor)] = tensor, node
        return with_operands(self.call, self.call.operands, copies)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        word = func._schema.name.removeprefix("aten::")
        if word in PRODUCTS:
            return self.added(*args, **keywords)
        whole = word in NEW or (find(spell_aten_operation(word)) is not None and func is not self.call.function)
        simpler = None if whole else core_decompositions().get(func)
        if simpler is not None:
            with self:
                found = simpler(*args, **keywords)
            if found is not NotImplemented:
                return found
        return self.noted(func, spell_aten_operation(word), args, keywords)

    def added(self, base: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """Record β·base + α·(x @ y) as simple steps."""
        product = self(torch.matmul, x, y)
        product = product if alpha == 1 else self(torch.mul, product, alpha)
        return self(torch.add, product, base if beta == 1 else self(torch.mul, base, beta))

    def __call__(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Record one call without the operations inside it."""
        with _disable_current_modes():
            return self.noted(function, getattr(function, "spelling", None) or spell_function(function), args, keywords)

    def noted(self, function: Callable[..., Any], spelling: str, args: Any, keywords: dict[str, Any]) -> Any:
        """Run a function, and register a node for each tensor that it creates or overwrites."""
        given, spoken = (map_nested(part, lambda v: self.node(v) if isinstance(v, torch.Tensor) else v)
                         for part in (tuple(args), dict(keywords)))  # fmt: skip
        result = function(*args, **keywords)
        self.count += 1
        if self.count > LONGEST:
            raise Refused(f"more than {LONGEST} operations")
        word = plain_word(spelling)
        writes = spelling.endswith("_") and not spelling.endswith("__")
        within = frames.locate_in_torch(self.count, self.where.path)
        where = replace(self.where, turn=self.count, within=within)
        made = [*tensors_in(result)]
        call = TorchCall(
            function, spelling, given, spoken, self.where, in_place=writes, results=len(made), number=self.call.number
        )
        tracked = torch.is_grad_enabled()
        if writes:
            self.forget(args[0])
        if writes and given[0].carries and not tracked:
            raise Refused("inside it torch.no_grad() overwrites a tensor that has a gradient")
        follows = tracked and word not in NEW and any(n.carries for n in call.nodes)
        for index, tensor in enumerate(made):
            carries = follows and (tensor.is_floating_point() or tensor.is_complex())
            held = tensor.detach().clone()
            node = Node("call", held, None, where, call, index) if carries else Node("data", held, None, where)
            node.view = None if carries else find_data_view(call, tensor, index)
            self.seen[id(tensor)], self.order[id(node)] = (tensor, node), self.count
        return result

    def phases(self, like: Any) -> Any:
        """Return a factor 1 for each column, which represents any phase factor; a call has one such tensor."""
        if self.turns is None:
            raise Refused(FREE)
        ones = torch.ones_like(like).unsqueeze(-2)
        self.turns[:] = self.turns or [self.node(ones)]
        self.seen[id(ones)] = ones, self.turns[0]
        return ones

    def forget(self, written: Any) -> None:
        """Drop the nodes of tensors that share entries with an overwritten one, since their values changed."""
        for tensor, _ in list(self.seen.values()):
            if storage_of(tensor) != storage_of(written):
                continue
            places = map_entries(tensor, written)
            if places is None or (places >= 0).any():
                self.seen[id(tensor)] = tensor, None

    def node(self, tensor: Any) -> Node:
        """Return the current node of a tensor; a tensor without one becomes data."""
        if id(tensor) not in self.seen:
            self.seen[id(tensor)] = tensor, Node("data", tensor.detach().clone(), None)
        node = self.seen[id(tensor)][1]
        if node is None:
            raise Refused("it writes in place through another name")
        return node


def lift_definition(lifter: LiftContext, node: Node) -> Ref:
    """Lift the call by its definition in simpler ones."""
    definition = DEFINITIONS.get(plain_word(node.maker.spelling))
    if definition is None:
        raise Refused("")
    return lift_expansion(lifter, node, definition)


def lift_operations(lifter: LiftContext, node: Node) -> Ref:
    """Lift the operations that torch runs inside the call."""
    call = node.call
    if call is None or call.spelling.endswith(".apply"):
        raise Refused("")
    if (
        lifter.within
        and isinstance(call.function, torch._ops.OpOverload)
        and call.function not in core_decompositions()
    ):
        raise Refused("")
    return lift_expansion(lifter, node)


def lift_expansion(lifter: LiftContext, node: Node, definition: Definition | None = None) -> Ref:
    """Lift ``node``'s call by ``definition``, or by the operations that torch runs inside it."""
    call = node.maker
    turns = None if lifter.phases is None else lifter.phases.setdefault(id(call), [])
    key = id(call), node.index if call.in_place or definition else 0, definition is None
    if key not in lifter.inside:
        lifter.inside[key] = run_and_record(node, definition, turns)
        lifter.names.update(name_gates(node, lifter.inside[key]))
    ends, order = lifter.inside[key]
    end = ends[node.index] if node.index < len(ends) else None
    if end is None or not end.carries:
        raise Refused("inside it the gradient is lost")
    outer = {id(n) for n in call.nodes}
    inner = [n for n in upstream_nodes([end], outer) if id(n) not in outer and n.carries]
    inner.sort(key=lambda n: order.get(id(n), 0))  # as it ran
    if not has_nan(node.held) and any(has_nan(n.held) for n in inner):
        raise Refused("it passes through nan, which the whole avoids")
    if any(n.call is not None and n.call.function is call.function for n in lifter.within):
        raise Refused("it contains itself")
    for source in (source for each in inner for source in each.sources() if source.kind == "data"):
        text = view_text(source, lambda base: lifter.names.get(id(base)))
        if text is not None:
            lifter.names.setdefault(id(source), Suggested(text))
    lifter.within.append(node)
    try:
        for each in inner:
            if id(each) not in lifter.refs:
                lifter.said(each)
    finally:
        lifter.within.pop()
    lifter.shared[id(call)] = {n: lifter.refs[id(e)] for n, e in enumerate(ends) if id(e) in lifter.refs}
    return lifter.refs[id(end)]


def run_and_record(node: Node, definition: Definition | None, turns: list[Node] | None) -> Ran:
    """Run the call again, by its definition or unchanged, and return its results and the order of the nodes."""
    program, call = Expansion(node, turns), node.call
    assert call is not None
    after = torch.get_rng_state()
    try:
        with torch._C.DisableTorchFunction(), torch.enable_grad(), without_onednn():
            arguments, keywords = program.given()
            if call.random is not None:
                torch.set_rng_state(call.random)
            with program:
                if definition is not None:
                    found = definition(program, *arguments, **keywords)
                else:
                    found = run_call(call, arguments, keywords, node.index if call.in_place else None)
            ends = found if definition is not None and isinstance(found, tuple) else tuple(tensors_in(found))
            return tuple(None if t is None else program.node(t) for t in ends), program.order
    except Refused:
        raise
    except SymgradError as error:  # an entry of the table that was asked for numbers
        raise Refused(error.problem) from error
    except Exception as error:  # whatever torch cannot do with these arguments
        raise Refused(f"it cannot be decomposed: {type(error).__name__}") from error
    finally:
        torch.set_rng_state(after)


RECURRENT: dict[str, Callable[..., Any]] = {
    "lstm_cell": lambda own, x, hx, w, u, b=None, c=None: own.lstm_cell(own.F.linear(x, w, b), *hx, u, c, None, 1),
    "gru_cell": lambda own, x, h, w, u, b=None, c=None: own.gru_cell(own.F.linear(x, w, b), h[None], w, b, u, c),
    "lstm": lambda own, *given: own.lstm_impl(*given),
    "gru": lambda own, *given: own.gru_impl(*given),
    "rnn_tanh": lambda own, *given: own.rnn_tanh_input(*given),
    "rnn_relu": lambda own, *given: own.rnn_relu_input(*given),
}
"""torch's Python decompositions of recurrent calls, in which the gates have names."""


def name_gates(node: Node, ran: Ran) -> Iterator[tuple[int, str]]:
    """Yield names for the nodes of ``ran`` from torch's Python code for the call, for equal operations and values."""
    written = RECURRENT.get(plain_word(node.maker.spelling))
    if written is None:
        return
    try:
        again = run_and_record(node, lambda _, *given: written(torch._decomp.decompositions, *given), None)
    except Refused:
        return
    first, second = steps_by_function(ran), steps_by_function(again)
    names = name_nodes([same for nodes in second.values() for same in nodes], {}, {})
    for one, same in (pair for word in first for pair in zip(first[word], second.get(word, ()), strict=False)):
        alike = one.held.numel() == same.held.numel() and torch.allclose(one.held, same.held.reshape(one.held.shape))
        if alike and isinstance(names.get(id(same)), Suggested):
            yield id(one), names[id(same)]


def steps_by_function(ran: Ran) -> dict[str, list[Node]]:
    """Return the nodes that the results depend on, in order of execution, by the last word of their function."""
    ends, order = ran
    nodes = upstream_nodes([end for end in ends if end is not None])
    found: dict[str, list[Node]] = {}
    for node in sorted((n for n in nodes if id(n) in order and n.call is not None), key=lambda n: order[id(n)]):
        found.setdefault(plain_word(node.maker.spelling), []).append(node)
    return found


@lru_cache(maxsize=1)
def core_decompositions() -> dict[Any, Any]:
    """Return torch's decompositions into core ATen operations."""
    return dict(torch._decomp.core_aten_decompositions())


@contextmanager
def without_onednn() -> Iterator[None]:
    """Disable oneDNN, whose layers are single operations: a whole LSTM in single precision is one."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def has_nan(value: Any) -> bool:
    """Whether a tensor contains NaN."""
    numbers = value.is_floating_point() or value.is_complex()
    return numbers and bool(torch.isnan(value.to_dense() if value.layout is not torch.strided else value).any())
