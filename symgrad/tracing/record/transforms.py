"""The record of a function under a torch.func transform, whose tensors are wrappers.

Comes in: the calls that run while a function is transformed, on tensors that wrap others. Goes out: a `Node` for each,
with the values of the innermost tensor, of a batch those of the first example. Values are read after the transform has
ended. Tensors that no transform wraps have the recorder's nodes.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from symgrad.ops.calls.call_texts import NEW
from symgrad.ops.lookup import find
from symgrad.tracing.record import frames
from symgrad.tracing.record.aliases import WeakTensor
from symgrad.tracing.record.frame_names import argument_names
from symgrad.tracing.record.gradients import RecordedGradient
from symgrad.tracing.record.isolation import Guard
from symgrad.tracing.record.spelling import Facts, is_called_in_place, plain_spelling, plain_word
from symgrad.tracing.record.trace import Node, SourceLine, TorchCall, map_nested, tensors_in

INNER: Any = torch._C._functorch
GRADIENTS = ("grad", "grad_and_value")
"""Transforms that ask for the gradient of one number."""
JACOBIANS = ("jacrev", "jacfwd")
"""Those that ask for all of J."""
LATER = ("vjp", "linearize")
"""Those that hand out a function, each call of which asks for a product with J."""
PRODUCTS = (*LATER, "jvp")
"""Those that ask for products with J, and are called with the point at once."""
TOLD = (*GRADIENTS, *JACOBIANS, "hessian", "vmap")
"""Those that hand out a function, each call of which asks."""
FUNCTIONAL = ("hvp", "vhp", "jvp", "hessian")
"""What `torch.autograd.functional` is asked for."""
NOWHERE = SourceLine("?", 0, "")


def is_transform_wrapper(tensor: Any) -> bool:
    """Whether a tensor is a transform's wrapper of another."""
    return bool(INNER.is_gradtrackingtensor(tensor) or INNER.is_batchedtensor(tensor))


def unwrap_batches(tensor: Any) -> tuple[Any, list[int]]:
    """Return the innermost tensor, and the axes of its batches, that of the outermost transform last."""
    batches: list[int] = []
    while is_transform_wrapper(tensor):
        if INNER.is_batchedtensor(tensor):
            batches.append(int(INNER.maybe_get_bdim(tensor)))
        tensor = INNER.get_unwrapped(tensor)
    return tensor, batches


def copy_first_example(tensor: Any, batches: Iterable[int]) -> Any:
    """Copy the values of the first example of each batch; no transform may be active."""
    found = tensor.detach()
    for axis in reversed(list(batches)):
        found = found.select(axis, 0)
    return found.clone()


class TransformTrace:
    """The record of one outermost transform's function; ``names`` are those of its parameters, by node."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.known: dict[int, tuple[Any, Node]] = {}
        self.unread: list[tuple[Node, Any, list[int]]] = []
        self.nothing: list[Node] = []
        self.names: dict[int, str] = {}
        self.requests: list[DerivativeRequest] = []
        self.number = 0
        self.enabled = False

    def make(self, kind: str, tensor: Any, **facts: Any) -> Node:
        """Create a node for ``tensor``, whose values are read later."""
        node = Node(kind, tensor, None, **facts)
        self.unread.append((node, *unwrap_batches(tensor)))
        self.known[id(tensor)] = tensor, node  # held, so that nobody else gets its identity
        return node

    def node(self, tensor: Any) -> Node:
        """Return the node of a tensor; a plain tensor is data, an unrecorded wrapper is unknown."""
        if id(tensor) not in self.known:
            if not is_transform_wrapper(tensor):
                return self.make("data", tensor, owner=WeakTensor(tensor))
            return self.unseen(tensor, "a value in the function comes from something that is not recorded there")
        return self.known[id(tensor)][1]

    def unseen(self, tensor: Any, why: str) -> Node:
        """Create a node without a known origin, with the reason."""
        node = self.make("unknown", tensor, where=frames.user_line())
        node.notes.append(why)
        return node

    def record(self, func: Any, known: Facts, args: Any, keywords: Any, run: Callable[[], Any]) -> Any:
        """Run one call and record its results."""
        given = self.guard(map_nested, (tuple(args), dict(keywords)), self.noted)
        stopped = self.enabled and not torch.is_grad_enabled()
        why = self.guard(explain_missing_history, func, known, args, keywords, stopped)
        result = run()
        if given is not None and why is not None:
            self.guard(self.after, func, known, given, result, why)
        return result

    def noted(self, part: Any) -> Any:
        """Return a tensor's node; any other value is unchanged."""
        return self.node(part) if isinstance(part, torch.Tensor) else part

    def after(self, func: Any, known: Facts, given: Any, result: Any, why: str) -> None:
        """Create the nodes of a call's results."""
        made = list(tensors_in(result))
        self.number += 1
        where = frames.user_line(self.number)
        arguments, keywords = given
        call = TorchCall(func, known.spelling, arguments, keywords, where, results=len(made), number=self.number)
        sources = list(call.nodes)
        follows = plain_word(known.spelling) not in NEW and any(n.carries for n in sources)
        for index, tensor in enumerate(made):
            if why and follows:
                self.known.pop(id(tensor), None)
                self.unseen(tensor, why)
            elif id(tensor) not in self.known:
                carries = follows and (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
                self.make("call" if carries else "data", tensor, where=where, call=call if carries else None,
                          index=index, owner=WeakTensor(tensor))  # fmt: skip

    def settle(self) -> None:
        """Read the values of all nodes after the transform has ended."""
        for node, tensor, batches in self.unread:
            node.held = copy_first_example(tensor, batches)
        for node in self.nothing:
            node.held = torch.zeros(node.held.shape, dtype=node.held.dtype)
        self.unread, self.nothing = [], []

    def around(self, request: DerivativeRequest) -> list[DerivativeRequest]:
        """Return the finished requests whose function made this one."""
        place = self.requests.index(request)
        return [other for other in self.requests[place + 1 :] if other.begun <= place]

    def zero(self, kind: str, like: Any, **facts: Any) -> Node:
        """Create a node of zeros with the shape of ``like``, without a tensor in torch."""
        node = Node(kind, like, None, frames.user_line(self.number), **facts)
        self.nothing.append(node)
        return node

    def called(self, function: Any, *given: Node) -> Node:
        """Create the node of a call on nodes of zeros, which torch did not run."""
        where = frames.user_line(self.number)
        call = TorchCall(function, f"torch.{function.__name__}", given, {}, where, number=self.number)
        return self.zero(
            "call", given[0].held.reshape(-1)[:0].sum() if function is torch.sum else given[0].held, call=call
        )


@dataclass(eq=False)
class DerivativeRequest:
    """A request for derivatives of a function by ``word`` of ``home``, and the record of the function.

    ``wrt`` are the nodes of the differentiated arguments, ``outputs`` those of the results; ``nested`` means that
    another transform's function made the request, ``begun`` is the number of requests finished before. ``seeds`` are
    the weights of a vjp, ``tangents`` a jvp's u, and ``along`` their nodes in a transform. ``node_of`` returns the node
    of an argument that no transform wraps.
    """

    home: str
    word: str
    function: Callable[..., Any]
    argnums: int | tuple[int, ...] = 0
    aux: bool = False
    given: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
    inside: TransformTrace = field(default_factory=lambda: TransformTrace(Guard()))
    where: SourceLine = NOWHERE
    nested: bool = False
    node_of: Callable[[Any], Node] | None = None
    ran: bool = False
    wrt: tuple[Node, ...] = ()
    outputs: tuple[Node, ...] = ()
    results: tuple[Node, ...] = ()
    number: int = 0
    begun: int = 0
    seeds: tuple[Any, ...] = ()
    tangents: tuple[Any, ...] = ()
    along: tuple[Node, ...] = ()
    sight: Mapping[int, str] = field(default_factory=dict)

    @property
    def functional(self) -> bool:
        """Whether torch computes it by calls of ``grad``, without a transform."""
        return self.home == "torch.autograd.functional"

    @property
    def title(self) -> str:
        """``torch.func.grad(loss)``."""
        return f"{self.home}.{self.word}({'' if self.functional else name_transformed_function(self.function)})"

    @property
    def directions(self) -> Sequence[Any]:
        """The u of a finished product, of the first example of each batch."""
        return [node.held for node in self.along] or self.tangents

    def enter(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Register the arguments when the function begins: as inputs, or as nodes of the enclosing function."""
        self.ran, self.inside.enabled = True, torch.is_grad_enabled()
        labels, own = argument_names(self.function, args, keywords), [*tensors_in((args, keywords))]
        if self.node_of is not None:
            own = [tensor for tensor in own if not is_transform_wrapper(tensor)]
            self.wrt = tuple(map(self.node_of, own))
            self.inside.names |= {id(n): labels.get(id(t), "x") for n, t in zip(self.wrt, own, strict=True)}
            return
        chosen = self.argnums if isinstance(self.argnums, tuple) else (self.argnums,)
        asked = [] if self.word == "vmap" else [t for n in chosen for t in tensors_in(args[n])]
        for theirs, tensor in zip(tensors_in(self.given), own, strict=True):
            node = self.inside.node(theirs) if self.nested else None
            other = self.word == "vmap" and tensor is not theirs  # the first example is another value
            moved = any(tensor is one for one in asked) and node is not None and not node.carries
            if node is not None and not other and not moved:
                self.inside.known[id(tensor)] = tensor, node
            else:
                moves = tensor.dtype.is_floating_point or tensor.dtype.is_complex
                node = self.inside.make("leaf" if moves else "data", tensor, owner=WeakTensor(theirs))
                self.inside.names[id(node)] = labels.get(id(tensor), "x")
        self.wrt = tuple(map(self.inside.node, asked))

    def leave(self, result: Any) -> None:
        """Register the outputs when the function ends."""
        made = tensors_in(result[0] if self.aux else result)
        if self.node_of is None:
            self.outputs = tuple(map(self.inside.node, made))
        else:
            self.outputs = tuple(self.node_of(tensor) for tensor in made if not is_transform_wrapper(tensor))

    def finished(self, result: Any) -> None:
        """Register the transform's results, which an enclosing function goes on with."""
        found, self.along = self.returned(result), tuple(map(self.inside.node, self.tangents))
        scalar = len(self.outputs) == 1 and not self.outputs[0].held.dim()
        if self.word in (*GRADIENTS, *JACOBIANS) and scalar and len(found) == len(self.wrt):
            gradient = RecordedGradient(self.outputs, (None,), self.wrt, (None,) * len(self.wrt))
            nodes = []
            for place, tensor in enumerate(found):
                where = frames.user_line(self.inside.number)
                node = self.inside.make("gradient", tensor, where=where, index=place, parents=gradient.parents,
                                        gradient=gradient, owner=WeakTensor(tensor))  # fmt: skip
                gradient.results[place] = weakref.ref(node)
                nodes.append(node)
            self.results = tuple(nodes)
            for tensor in tensors_in(result[1]) if self.word == "grad_and_value" and not self.aux else ():
                self.inside.known[id(tensor)] = tensor, self.outputs[0]
        elif self.word == "jvp" and len(found) == len(self.outputs) and len(self.along) == len(self.wrt):
            self.results = self.moved(found)
            for tensor, node in zip(tensors_in(result[0]), self.outputs, strict=True):
                self.inside.known[id(tensor)] = tensor, node
        else:
            self.results = tuple(self.inside.make("data", t) for t in found)
            for tensor in tensors_in(result):
                self.inside.unseen(tensor, f"{self.title} inside another function is not followed")
        self.inside.number += 1
        self.inside.requests.append(self)

    def moved(self, found: Sequence[Any]) -> tuple[Node, ...]:
        """Create the nodes of Ju inside another function, as the gradient of Σ (w·J)·u with respect to w, at w = 0."""
        inside, seeds = self.inside, tuple(self.inside.zero("leaf", node.held) for node in self.outputs)
        inside.names |= {id(node): "w" for node in seeds}
        back = RecordedGradient(self.outputs, seeds, self.wrt, (None,) * len(self.wrt))
        total: Node | None = None
        for place, (own, tangent) in enumerate(zip(self.wrt, self.along, strict=True)):
            part = inside.zero("gradient", own.held, index=place, parents=back.parents, gradient=back)
            back.results[place] = weakref.ref(part)
            product = inside.called(torch.sum, inside.called(torch.mul, part, tangent))
            total = product if total is None else inside.called(torch.add, total, product)
        assert total is not None
        again = RecordedGradient((total,), (None,), seeds, (None,) * len(seeds), along=True)
        where = frames.user_line(inside.number)
        return tuple(
            inside.make("gradient", tensor, where=where, index=place, parents=again.parents, gradient=again,
                        owner=WeakTensor(tensor))
            for place, tensor in enumerate(found)
        )  # fmt: skip

    def returned(self, result: Any) -> list[Any]:
        """Return the tensors of derivatives among the results."""
        if self.word in ("jvp", "hvp", "vhp"):
            return list(tensors_in(result[1]))
        apart = self.word == "grad_and_value" or (self.aux and self.word not in LATER)
        return list(tensors_in(result[0] if apart else result))


def name_transformed_function(function: Any) -> str:
    """Return a function's name for a title."""
    name = getattr(function, "__name__", type(function).__name__)
    return str(getattr(function, "symgrad_title", "f" if name == "<lambda>" else name))


def explain_missing_history(
    function: Any, known: Facts, args: tuple[Any, ...], keywords: dict[str, Any], stopped: bool
) -> str:
    """Return why a call's results have no history in a transform; empty if they have one."""
    name = plain_spelling(known.spelling)
    if known.custom:
        return f"{known.spelling} is a function with its own backward, which is not followed there"
    if known.writes or is_called_in_place(function, args, keywords):
        return f"{known.spelling} writes in place, which is not followed inside a transform"
    if may_draw_random(known, function, args, keywords):
        return f"{name} draws random numbers, which are not seen inside a transform"
    if known.spelling.startswith("torch.autograd."):
        return f"{known.spelling} inside a transform is not followed"
    if stopped:
        return f"{name} runs under no_grad inside a transform, which is not followed"
    return ""


def may_draw_random(known: Facts, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether a call may draw random numbers with these arguments: dropout in training, or of more than 0."""
    word = plain_word(known.spelling)
    if not known.random or "normalize" in word:
        return False
    if word in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        return len(args) < 7 or bool(args[5] and args[6])
    op = find(plain_spelling(known.spelling))
    try:
        signature = inspect.signature(function) if inspect.isfunction(function) or op is None else op.signature
        bound = signature.bind(*args, **keywords)
    except (TypeError, ValueError):
        return True
    bound.apply_defaults()
    chance = bound.arguments.get("p", bound.arguments.get("dropout_p", 1.0))
    return bool(bound.arguments.get("training", True) and chance)
