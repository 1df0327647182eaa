"""The recorded graph of a PyTorch program: values, and the calls that created them.

A `Node` is one value of one tensor: a tensor written in place gets a new node. Nodes refer to the calls that created
them and calls to the nodes they read, so that unreachable ones are freed, as in autograd's own graph. Only values with
a gradient keep their history; everything else is data of this run.
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
"""The message about a write that no version counter counts."""
BEHIND = "a saved tensor was modified through .data, which autograd does not detect: its backward uses the new values"
"""The message about a write that only another version counter counts."""
UNRECORDED = (
    "a gradient comes from something that was not recorded: torch.compile, torch.jit, torch.func, a second backward, "
    "another thread, a tensor class with a __torch_dispatch__, or a value made before recording began"
)
"""The message about a tensor whose creation was not recorded."""
COMPILED, ASIDE, UNCOMPILED = "CompiledFunctionBackward", "while recording was off", "TORCH_COMPILE_DISABLE=1"
"""The graph node of torch.compile, the label of other unrecorded nodes, and the variable that disables the compiler."""
COMPLEX = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
"""The dtypes of the real and imaginary parts."""
NOBODY: Callable[[], Any] = type(None)
"""Returns None, as a weak reference to a deleted tensor does."""
Span = tuple[tuple[int, int], tuple[int, int]]
"""Line and column of the begin and of the end of a piece of source text."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's code: file, number, text; ``turn`` numbers its executions.

    ``column`` and ``stop`` are the begin and end of the expression in the line, in bytes; −1 if unknown. ``path`` has
    the file and range of the expression, then those of the user's calls around it. ``within`` is the line of torch's
    own code; ``modules`` are the module calls around it, inner ones first.
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
        """Whether the line belongs to an installed package, whose names are not the user's."""
        return "site-packages" in self.file or "dist-packages" in self.file

    def seen_from(self, file: str) -> str:
        """``line 12`` in the file itself, ``train.py:12`` in another."""
        return f"line {self.line}" if self.file == file else self.short


@dataclass(frozen=True, eq=False)
class ModuleCall:
    """A call of ``module``, identified by ``key``; ``passed`` maps the ids of its tensors to their arguments.

    ``site`` is the user's source range of the call; None if torch calls the module.
    """

    module: weakref.ref[Any]
    key: tuple[int, ...]
    passed: dict[int, int | str]
    site: tuple[str, Span] | None


@dataclass(frozen=True)
class GraphBreak:
    """The end of a path to leaves: ``how`` in words, the leaves before it, and whether it was intended (``meant``)."""

    how: str
    where: SourceLine
    leaves: tuple[Any, ...] = ()
    meant: bool = False


@dataclass(eq=False)
class TorchCall:
    """One call of a torch function: its arguments with nodes for tensors, its source line, its random state.

    For a user's own function, ``graph`` is its node of torch's graph, ``slots`` the positions of tensors among its
    results, ``observation`` the record of its backward, and ``forward`` the nodes of its results inside its forward.
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
        """The nodes it read, in order; cached, since they are used some twenty times."""
        return tuple(instances_in((self.arguments, self.keywords), Node))

    @cached_property
    def operands(self) -> tuple[Node, ...]:
        """The nodes it read, each once."""
        return tuple({id(node): node for node in self.nodes}.values())


@dataclass(eq=False)
class Node:
    """One value of one tensor; ``owner`` returns the tensor while it is alive.

    ``kind`` is ``leaf`` (a gradient can be stored here), ``call`` (result ``index`` of ``call``), ``overwrite`` (the
    first of ``parents`` with entries of the second at ``places``), ``shift`` (the first of ``parents`` with a value
    that autograd did not see), ``gradient`` (the result for input ``index`` of ``gradient``, a backward with
    ``create_graph``), ``data`` (no gradient), or ``unknown`` (its gradient comes from something that was not recorded).

    Lines that changed it: ``destroyed`` overwrote the value, or (``beside``) other entries of its memory; ``freed`` is
    the backward that freed its saved tensors; ``behind`` wrote it through ``.data``, which its version counter does not
    count; ``exchanged`` gave the tensor other memory, which later readers see and its own call does not. Origins of
    data: ``detached`` is the node it was detached from, if that took few steps; ``past`` is its history from detached
    data or in a user's own forward (``inner``: computed there from tensors); ``parts`` are the indices that read it;
    ``made_by`` is the function that created it, or torch's graph node if unrecorded; ``made_of`` is its only source;
    ``view`` its base and the view's text. ``passed`` are the module calls that take it, with its argument there;
    ``hooks`` and ``hooked`` its tensor hooks and their lines, ``passage`` the record of them; ``leaves`` a cache of
    its upstream leaves.
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
        """Whether a gradient flows through it, or would if torch tracked the inside of a user's own forward."""
        return self.kind != "data" or self.inner

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in torch; a complex tensor's has no axis of pairs."""
        return tuple(self.held.shape)

    @property
    def changed(self) -> bool:
        """Whether the value was overwritten before it could be kept."""
        return self.version is not None and self.held._version != self.version

    @property
    def altered(self) -> bool:
        """Whether the value was written through NumPy, which shares the memory without a version counter."""
        return self.lent is not None and not holds_same_numbers(self.held, self.lent)

    def lend(self) -> None:
        """Copy the value, since code outside torch can write into it from now on."""
        if self.lent is None:
            self.lent = self.held.clone()

    def keep(self) -> None:
        """Copy the value before its storage is written."""
        if self.version is not None and not self.changed:
            self.held, self.version = self.held.clone(), None
            if self.past is not None:
                self.past.held, self.past.version = self.held, None

    def tensor(self) -> Any:
        """Return the value as a tensor; raise `UnsupportedError` if it was overwritten by an unrecorded write."""
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
        """Return the value as an array in its own precision; half precision becomes float32."""
        return as_numbers(self.tensor())

    @property
    def maker(self) -> TorchCall:
        """The call that created it; only for kinds with a call."""
        assert self.call is not None
        return self.call

    @property
    def siblings(self) -> int:
        """The number of results of its call or backward."""
        if self.gradient is not None:
            return len(self.gradient.inputs)
        return self.call.results if self.call is not None else 1

    def sources(self) -> tuple[Node, ...]:
        """Return the nodes it was computed from."""
        return self.call.nodes if self.call is not None else self.parents


def holds_same_numbers(first: Any, second: Any) -> bool:
    """Whether two tensors have equal values; NaN equals NaN."""
    return bool(((first == second) | ((first != first) & (second != second))).all())


def as_numbers(tensor: Any) -> Array:
    """Return a tensor's values as an array, without a copy if possible; complex ones as pairs on a last axis."""
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
    """Return the name of a dtype, ``float32``; for a complex one that of its parts."""
    name = str(dtype).removeprefix("torch.")
    return COMPLEX.get(name, name)


def instances_in(value: Any, kind: type[Part]) -> Iterator[Part]:
    """Iterate over all instances of one type in nested containers, in order."""
    found: list[Part] = []
    collect_parts(value, kind, found)
    return iter(found)


def collect_parts(value: Any, kind: type[Part], found: list[Part]) -> None:
    """Append all instances of one type in nested containers to ``found``."""
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
    """Apply ``change`` to everything in ``value`` that is not a container."""
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
    """Return the nodes upstream of ``starts``, sources first; none above ids in ``stops`` or where ``ends`` holds."""
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
    """Iterate over all tensors in nested containers, in order."""
    return instances_in(value, tensor_class())


@cache
def tensor_class() -> type[Any]:
    """Return the class torch.Tensor; torch is imported at the first call."""
    import torch

    return torch.Tensor
