"""What was seen while a PyTorch program ran: values that know the call they came from.

A `Node` is one value of one tensor: a tensor written in place is a new node from there on. Nodes point at the
calls that made them and calls at the nodes they read, so that whatever nobody can reach any more is freed, as in
autograd's own graph. Only what carries a gradient keeps its history; everything else is data of this run.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.language.arguments import split_pairs
from symgrad.numeric.exact import Array

Part = TypeVar("Part")
UNSEEN = (
    "a tensor was modified through NumPy, which shares its memory: autograd does not detect that, and uses the new "
    "values"
)
"""What is said of a write that no version counter counts."""
BEHIND = "a saved tensor was modified through .data, which autograd does not detect: its backward uses the new values"
"""What is said of a write that another counter counts."""
UNRECORDED = (
    "a gradient comes from something that was not recorded: torch.compile, torch.jit, torch.func, a second backward, "
    "another thread, a tensor class with a __torch_dispatch__, or a value made before recording began"
)
"""What is said of a tensor that nobody saw being made."""
COMPILED, ASIDE, UNCOMPILED = "CompiledFunctionBackward", "while recording was off", "TORCH_COMPILE_DISABLE=1"
"""The node that torch.compile puts into the graph, and what in front of a command leaves the compiler out."""
COMPLEX = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
"""The precision of either part."""
NOBODY: Callable[[], Any] = type(None)
"""Answers None, as a reference does whose tensor is gone."""
Span = tuple[tuple[int, int], tuple[int, int]]
"""Line and column where a part of a text begins, and where it ends."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's: file, number, text; ``turn`` tells executions apart.

    ``column`` and ``stop`` are where in the line the expression begins and ends, in bytes; −1 where not known.
    ``path`` is where exactly: file, begin and end of the expression, then those of the user's calls around it.
    ``within`` is the line of torch's own code; ``modules`` are the calls of modules around it, the inner ones first.
    """

    file: str
    line: int
    text: str
    turn: int = 0
    column: int = field(default=-1, compare=False)
    stop: int = field(default=-1, compare=False)
    path: tuple[tuple[str, Span], ...] = field(default=(), compare=False, repr=False)
    within: SourceLine | None = field(default=None, compare=False, repr=False)
    modules: tuple[ModuleCall, ...] = field(default=(), compare=False, repr=False)

    @cached_property
    def short(self) -> str:
        """``train.py:12``."""
        return f"{self.file.rpartition('/')[2]}:{self.line}"

    @property
    def in_library(self) -> bool:
        """Whether it is an installed package's, whose names are none of the user's."""
        return "site-packages" in self.file or "dist-packages" in self.file

    def seen_from(self, file: str) -> str:
        """``line 12`` in the file itself, ``train.py:12`` in another."""
        return f"line {self.line}" if self.file == file else self.short


@dataclass(frozen=True, eq=False)
class ModuleCall:
    """A call of ``module``, told from others by ``key``; ``passed`` are its tensors' places, by identity while it runs.

    ``site`` is where the user calls it; None where torch does.
    """

    module: weakref.ref[Any]
    key: tuple[int, ...]
    passed: dict[int, int | str]
    site: tuple[str, Span] | None


@dataclass(frozen=True)
class GraphBreak:
    """Where a path to some leaves ends: ``how`` in words, the leaves behind it, and whether somebody asked for it."""

    how: str
    where: SourceLine
    leaves: tuple[Any, ...] = ()
    meant: bool = False


@dataclass(eq=False)
class TorchCall:
    """One call of a torch function: its arguments with nodes for tensors, where it stands, its random state.

    A call of a user's own function has its node of torch's graph in ``graph``, the places of its tensors among its
    results in ``slots``, what was seen of its backward in ``observation``, and what ran in its forward in ``forward``.
    """

    function: Callable[..., Any]
    spelling: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    where: SourceLine
    random: Any = None
    in_place: bool = False
    results: int = 1
    number: int = 0
    autocast: bool = False
    graph: Any = None
    slots: tuple[int, ...] = ()
    observation: Any = None
    forward: tuple[Node | None, ...] = ()

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes it read, in order: looked for once, since they are asked for some twenty times."""
        return tuple(instances_in((self.arguments, self.keywords), Node))

    @cached_property
    def operands(self) -> tuple[Node, ...]:
        """The nodes it read, each once."""
        return tuple({id(node): node for node in self.nodes}.values())


@dataclass(eq=False)
class Node:
    """One value of one tensor, which ``owner`` gives as long as it lives.

    ``kind`` is ``leaf`` (a gradient can be stored here), ``call`` (``call`` made it, as its result ``index``),
    ``overwrite`` (the first of ``parents`` with entries of the second put in, where ``places`` says), ``shift``
    (the first of ``parents`` with another value, behind autograd's back), ``gradient`` (what ``gradient``, a backward
    with ``create_graph``, gave by its input ``index``), ``data`` (no gradient), or ``unknown`` (a gradient comes from
    something that was not seen). ``destroyed`` says which line overwrote the value, or wrote ``beside`` it into shared
    memory, ``freed`` which backward let go of what was kept for the pullback; ``behind`` which line wrote the value
    through ``.data``, which its own counter does not count, and ``exchanged`` which gave the tensor other memory, where
    who read it finds that, and its own maker the old. ``detached`` is what data was detached from, where that was
    computed in a few steps, and ``past`` how it was made of such data, or in a user's own forward pass; ``inner`` that
    such a pass made it of tensors. ``parts`` are the numbers of the indices that read data, and ``made_by`` is what was
    called to make it, or the node of torch's graph where that was not seen; ``made_of`` is the one tensor that data was
    made of; ``passed`` are the calls of modules that it is an argument of, and its place there; ``view`` what data is a
    view of, and how. ``hooks`` are what `Tensor.register_hook` put on it, as torch holds them, ``hooked`` the lines
    that put them there, and ``passage`` what was seen to go through them; ``leaves`` are those upstream, once asked.
    """

    kind: str
    held: Any
    version: int | None
    where: SourceLine | None = None
    call: TorchCall | None = None
    index: int = 0
    parents: tuple[Node, ...] = ()
    places: Array | None = None
    cut: GraphBreak | None = None
    owner: Callable[[], Any] = NOBODY
    whole: bool = False
    notes: list[str] = field(default_factory=list)
    destroyed: SourceLine | None = None
    beside: bool = False
    freed: SourceLine | None = None
    lent: Any = None
    behind: SourceLine | None = None
    exchanged: SourceLine | None = None
    gradient: Any = None
    detached: Node | None = None
    past: Node | None = None
    inner: bool = False
    parts: tuple[str, ...] = ()
    made_by: str = ""
    made_of: Callable[[], Any] = NOBODY
    passed: tuple[tuple[ModuleCall, int | str], ...] = ()
    view: tuple[Node, str] | None = None
    hooks: weakref.ref[Any] | None = None
    hooked: tuple[SourceLine, ...] = ()
    passage: Any = None
    leaves: tuple[Any, ...] | None = field(default=None, init=False)

    @property
    def carries(self) -> bool:
        """Whether a gradient flows through it, or would if torch tracked what a forward of the user's own does."""
        return self.kind != "data" or self.inner

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that torch has; of a complex tensor without the axis of its pairs."""
        return tuple(self.held.shape)

    @property
    def changed(self) -> bool:
        """Whether the value was overwritten before it could be kept."""
        return self.version is not None and self.held._version != self.version

    @property
    def altered(self) -> bool:
        """Whether the value was written through NumPy, which shares the memory and tells torch nothing."""
        return self.lent is not None and not holds_same_numbers(self.held, self.lent)

    def lend(self) -> None:
        """Note the value, since something outside torch can write into it from now on."""
        if self.lent is None:
            self.lent = self.held.clone()

    def keep(self) -> None:
        """Copy the value now, since the storage is about to be written."""
        if self.version is not None and not self.changed:
            self.held, self.version = self.held.clone(), None
            if self.past is not None:
                self.past.held, self.past.version = self.held, None

    def tensor(self) -> Any:
        """The value as torch holds it; raises `UnsupportedError` when it was overwritten unseen."""
        if self.changed:
            raise UnsupportedError(
                "a value was overwritten by something that was not recorded",
                found=(self.where.short if self.where else "",),
            )
        if self.altered:
            raise UnsupportedError(
                UNSEEN,
                found=(f"{self.where.short}: {self.where.text}" if self.where else "a tensor that was given",),
                hints=("x.numpy().copy(): writing into a copy changes nothing here",),
            )
        return self.held

    def value(self) -> Array:
        """The value as an array: floats in their own precision, half precision in single."""
        return as_numbers(self.tensor())

    @property
    def maker(self) -> TorchCall:
        """The call that made it; only for what a call made."""
        assert self.call is not None
        return self.call

    @property
    def siblings(self) -> int:
        """How many results what made it gave."""
        if self.gradient is not None:
            return len(self.gradient.inputs)
        return self.call.results if self.call is not None else 1

    def sources(self) -> tuple[Node, ...]:
        """What it was computed from."""
        return self.call.nodes if self.call is not None else self.parents


def holds_same_numbers(first: Any, second: Any) -> bool:
    """Whether two tensors hold the same numbers; NaN equals NaN."""
    return bool(((first == second) | ((first != first) & (second != second))).all())


def as_numbers(tensor: Any) -> Array:
    """A tensor's numbers, not copied where NumPy can share them; complex ones as pairs (re, im) on one more axis."""
    if tensor.is_meta:
        raise UnsupportedError("a tensor on the device meta has a shape and no numbers", hints=("another device",))
    found = tensor.detach().cpu()
    if str(found.layout) != "torch.strided":
        found = found.to_dense()
    if found.is_complex():
        numbers = np.asarray((found.cfloat() if str(found.dtype) == "torch.complex32" else found).numpy(force=True))
        return split_pairs(numbers)
    if str(found.dtype) in ("torch.bfloat16", "torch.float16"):
        found = found.float()
    return np.asarray(found.numpy(force=True))


def real_precision(dtype: Any) -> str:
    """``float32``; of a complex type that of its parts."""
    name = str(dtype).removeprefix("torch.")
    return COMPLEX.get(name, name)


def instances_in(value: Any, kind: type[Part]) -> Iterator[Part]:
    """Everything of one kind in nested containers, in order."""
    found: list[Part] = []
    collect_parts(value, kind, found)
    return iter(found)


def collect_parts(value: Any, kind: type[Part], found: list[Part]) -> None:
    """Add everything of one kind in nested containers."""
    if isinstance(value, kind):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for part in value:
            collect_parts(part, kind, found)
    elif isinstance(value, dict):
        for part in value.values():
            collect_parts(part, kind, found)
    elif isinstance(value, slice):
        collect_parts((value.start, value.stop, value.step), kind, found)


def map_nested(value: Any, change: Callable[[Any], Any]) -> Any:
    """``value`` with ``change`` applied to everything that is not a container."""
    if isinstance(value, (tuple, list)):
        parts = [map_nested(part, change) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, dict):
        return {key: map_nested(part, change) for key, part in value.items()}
    if isinstance(value, slice):
        return slice(*(map_nested(part, change) for part in (value.start, value.stop, value.step)))
    return change(value)


def upstream_nodes(
    starts: Sequence[Node], stops: Collection[int] = (), ends: Callable[[Node], bool] = lambda node: False
) -> list[Node]:
    """Every node that carries a gradient into ``starts``, sources first; nothing beyond the identities ``stops``.

    Nor is there beyond what ``ends`` it.
    """
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(starts)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        stack.append((node, True))
        sources = () if id(node) in stops or ends(node) else reversed(node.sources())
        stack += [(parent, False) for parent in sources if id(parent) not in seen]
    return order


def tensors_in(value: Any) -> Iterator[Any]:
    """Every tensor in nested containers, in order."""
    return instances_in(value, tensor_class())


@cache
def tensor_class() -> type[Any]:
    """What torch's tensors are instances of."""
    import torch

    return torch.Tensor
