"""The tensors that share storage, by weak references, and the correspondence of their entries.

The recorder's weak references differ from the user's: `torch.utils.swap_tensors` refuses tensors with other weak
references.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import EllipsisType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.utils.weak import WeakIdRef, WeakTensorKeyDictionary

from symgrad.numeric.exact import Array
from symgrad.ops.calls.registry import SHARING
from symgrad.tracing.record.spelling import PROPERTIES, plain_word
from symgrad.tracing.record.trace import NOBODY, Node, SourceLine, TorchCall, holds_same_numbers, real_precision

SOME = 8
"""The number of references that are kept without looking for dead ones."""
PRUNE = 4096
"""Dead storages are dropped after this many additions."""


SMALL = 10_000
"""The largest number of entries of a tensor whose layout is cached."""


class Alive:
    """Objects by identity, held weakly; dead ones are dropped when their number has doubled, so adding costs O(1)."""

    def __init__(self) -> None:
        self._refs: dict[int, weakref.ref[Any]] = {}
        self._room = SOME

    def add(self, thing: Any, reference: type[weakref.ref[Any]]) -> None:
        """Remember ``thing``."""
        self._refs[id(thing)] = reference(thing)
        if len(self._refs) > self._room:
            self.prune()

    def prune(self) -> int:
        """Drop dead references, and return the number of live ones."""
        self._refs = {key: ref for key, ref in self._refs.items() if ref() is not None}
        self._room = SOME + 2 * len(self._refs)
        return len(self._refs)

    def those(self) -> list[Any]:
        """Return the live objects, in the order of addition."""
        return [thing for ref in [*self._refs.values()] if (thing := ref()) is not None]


class Storages:
    """The known tensors by storage, weakly held."""

    def __init__(self) -> None:
        self._by_storage: dict[int, Alive] = {}
        self._holders: dict[int, Alive] = {}
        self._count = 0
        self.grown = 0
        """The number of changes of the graph so far."""
        self._waiting: tuple[int, frozenset[int]] = 0, frozenset()

    def add(self, tensor: Any, holder: Any) -> None:
        """Add ``tensor``, and ``holder``, which needs its present value."""
        key = storage_of(tensor)
        if key is None:
            return
        self._holders.setdefault(key, Alive()).add(holder, weakref.ref)
        self._by_storage.setdefault(key, Alive()).add(tensor, WeakTensor)
        self._count += 1
        if self._count % PRUNE == 0:
            self._by_storage, self._holders = drop_dead(self._by_storage), drop_dead(self._holders)

    def relying(self, tensor: Any) -> list[Any]:
        """Return the nodes that need present values in ``tensor``'s storage."""
        key = storage_of(tensor)
        return [holder for holder in live_values(self._holders, key) if storage_of(holder.held) == key]

    def waiting(self) -> frozenset[int]:
        """Return the ids of the nodes that a graph may still read, until a backward frees it."""
        if self._waiting[0] != self.grown:
            known = [node for alive in [*self._holders.values()] for node in alive.those()]
            stack = [node for node in known if node.freed is None and node.sources()]
            found: set[int] = set()
            while stack:
                node = stack.pop()
                if id(node) not in found:
                    found.add(id(node))
                    before = () if node.freed is not None else node.sources()
                    stack += [n for n in (*before, node.past, node.detached) if n is not None]
            self._waiting = self.grown, frozenset(found)
        return self._waiting[1]

    def protect(self, tensor: Any, tracked: bool) -> None:
        """Copy the values that share storage with ``tensor`` before it may be overwritten.

        If autograd does not track the write, values that no backward reads are not copied.
        """
        waiting = self.waiting() if not tracked else frozenset()
        for node in self.relying(tensor):
            if tracked or id(node) in waiting or node.kind not in ("leaf", "data") or node.past or node.detached:
                node.keep()
        self._holders.pop(storage_of(tensor), None)  # type: ignore[arg-type]  # nothing is known of None

    def sharing(self, tensor: Any) -> list[Any]:
        """Return the known tensors that share storage with ``tensor``, including it."""
        key = storage_of(tensor)
        return [other for other in live_values(self._by_storage, key) if storage_of(other) == key]


def detached_node(kind: str, tensor: Any, where: SourceLine | None, **facts: Any) -> Node:
    """Create a node of a tensor's present value, with only a weak reference to the tensor."""
    return Node(kind, tensor.detach(), version(tensor), where, owner=WeakTensor(tensor), **facts)


def version(tensor: Any) -> int | None:
    """Return the version counter; None for inference tensors, which have none."""
    return None if tensor.is_inference() else int(tensor._version)


def is_leaf(tensor: Any) -> bool:
    """Whether a tensor is a leaf; False if torch raises because a view's base was written."""
    try:
        return bool(tensor.is_leaf)
    except RuntimeError:
        return False


def live_values(table: dict[int, Alive], key: int | None) -> list[Any]:
    """Return the live objects of ``table`` at ``key``."""
    return table[key].those() if key is not None and key in table else []


def drop_dead(table: dict[int, Alive]) -> dict[int, Alive]:
    """Return ``table`` without dead references."""
    return {key: alive for key, alive in table.items() if alive.prune()}


def storage_of(tensor: Any) -> int | None:
    """Return an id of a tensor's storage; None if it has none."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return None


def entry_addresses(tensor: Any) -> Array:
    """Return the position of each entry in the storage; of a complex tensor those of both parts, along a last axis."""
    if tensor.is_complex():
        whole = _addresses(tensor)
        return np.stack([2 * whole, 2 * whole + 1], axis=-1)
    return _addresses(tensor)


def _addresses(tensor: Any) -> Array:
    """Return the position of each entry in the storage, in entries."""
    layout = storage_offsets if tensor.numel() <= SMALL else storage_offsets.__wrapped__
    return np.asarray(layout(tuple(tensor.shape), tuple(tensor.stride())) + int(tensor.storage_offset()))


@lru_cache(maxsize=64)
def storage_offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Return each entry's offset from the first; cached, since a loop that writes row by row repeats it."""
    result = np.zeros(shape, dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        steps = np.arange(size, dtype=np.int64) * stride
        result = result + steps.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return result


def map_entries(other: Any, tensor: Any) -> Array | None:
    """Return the row-major index in ``tensor`` of each entry of ``other``, or -1; None if their dtypes differ.

    Complex entries count as two; the result is also None if only one of the tensors is conjugated or negated.
    """
    if real_precision(other.dtype) != real_precision(tensor.dtype) or read_bits(other) != read_bits(tensor):
        return None
    ours, theirs = entry_addresses(other), entry_addresses(tensor).reshape(-1)
    if not ours.size or not theirs.size:
        return np.full(ours.shape, -1)
    table = np.full(max(int(ours.max()), int(theirs.max())) + 1, -1, dtype=np.int64)
    table[theirs] = np.arange(theirs.size)
    return np.asarray(table[ours])


def find_read_entries(key: Any, shape: tuple[int, ...]) -> Array:
    """Return the row-major indices of the entries that an index reads from a tensor of ``shape``."""
    count = int(np.prod(shape, dtype=object))
    return np.asarray(torch.arange(count).reshape(shape)[key].numpy())


def read_bits(tensor: Any) -> tuple[bool, bool]:
    """Return whether a tensor is a conjugated, and whether it is a negated view of its storage."""
    return bool(tensor.is_conj()), bool(tensor.is_neg())


def related_views(first: Any, second: Any) -> bool:
    """Whether autograd treats both as views of one tensor, which it does not after ``detach()`` or ``.data``."""
    if not (first._is_view() or second._is_view()):
        return False
    a = first._base if first._is_view() else first
    b = second._base if second._is_view() else second
    return a is b


def is_outdated(node: Node, tensor: Any) -> bool:
    """Whether a copied value differs from ``tensor``: F.batch_norm writes statistics without a version count."""
    kept = node.version is None and not tensor.requires_grad and str(tensor.layout) == "torch.strided"
    return kept and node.held.shape == tensor.shape and not holds_same_numbers(node.held, tensor.detach())


SWAP: Any = torch._C._swap_tensor_impl
"""Torch's own function, also if it is patched."""


class WeakTensor(weakref.ref):  # type: ignore[type-arg]  # ref[Any] is no class to derive from
    """A weak reference of the recorder, recognised by ``ours``."""

    __slots__ = ()
    ours = True


class TensorKey(WeakIdRef):
    """A dictionary key for a tensor by identity."""

    __slots__ = ()
    ours = True


def notes_by_tensor() -> Any:
    """Return a dictionary with weak keys: tensors by identity."""
    return WeakTensorKeyDictionary(ref_type=TensorKey)


def foreign_weakrefs(tensor: Any) -> list[Any]:
    """Return the weak references to a tensor without the recorder's."""
    return [ref for ref in weakref.getweakrefs(tensor) if not getattr(ref, "ours", False)]


WEAKREF = SimpleNamespace(**{**vars(weakref), "getweakrefs": foreign_weakrefs})
"""The module ``weakref`` without the recorder's references."""


# What data is read of ------------------------------------------------------------------------------------

LONGEST = 28
"""The largest number of characters in a name."""
DEEPEST = 3
"""The largest number of successive indices that are kept."""


def only_source(sources: Sequence[Node]) -> Callable[[], Any]:
    """Return a reference to the tensor of the only source, if that is data."""
    return sources[0].owner if len(sources) == 1 and not sources[0].carries else NOBODY


def find_data_view(call: TorchCall, made: Any, index: int) -> tuple[Node, str] | None:
    """Return the base of the view ``made``, if that is data, and the view's text: ``.transpose(1, 0)``."""
    word = plain_word(call.spelling)
    base, *numbers = call.arguments or (None,)
    if word not in SHARING or call.keywords or not isinstance(base, Node) or base.carries:
        return None
    if SHARING[word] == "seen" and storage_of(made) != storage_of(base.held):  # dropout, which passes on or draws
        return None
    if SHARING[word] == "several":
        return (base, f"[{index}]") if numbers in ([], [0]) else None
    if (base.shape, base.held.stride()) == (tuple(made.shape), made.stride()):
        return base, ""
    if word in PROPERTIES:
        return base, f".{word}"
    sizes = numbers[0] if len(numbers) == 1 and isinstance(numbers[0], (tuple, list)) else numbers
    return (base, f".{word}({', '.join(map(str, sizes))})") if all(type(n) is int for n in sizes) else None


def view_text(node: Node, name: Callable[[Node], str | None]) -> str | None:
    """Return ``x.transpose(1, 0)`` for a view of data with a ``name``, else None."""
    text, view = "", node.view
    while view is not None and len(text) <= LONGEST:
        base, text = view[0], view[1] + text
        own = name(base)
        if own is not None:
            return own + text if len(own + text) <= LONGEST else None
        view = base.view
    return None


def index_chain(call: TorchCall) -> tuple[str, ...]:
    """Return the texts of the indices that select a call's result: those of its operand, and its own.

    An index of anything but numbers has an empty text.
    """
    if not call.spelling.endswith("__getitem__") or len(call.arguments) != 2:
        return ()
    read, index = call.arguments
    texts = [write_index_entry(entry) for entry in (index if isinstance(index, tuple) else (index,))]
    own = "" if None in texts else ", ".join(str(text) for text in texts)
    return (*(read.parts if isinstance(read, Node) else ()), own)[-DEEPEST:]


def write_index_entry(entry: Any) -> str | None:
    """Return the source text of one entry of an index; None for tensors and lists."""
    if isinstance(entry, slice):
        parts = [entry.start, entry.stop, *([] if entry.step is None else [entry.step])]
        fits = all(part is None or type(part) is int for part in parts)
        return ":".join("" if part is None else str(part) for part in parts) if fits else None
    if isinstance(entry, EllipsisType):
        return "..."
    return str(entry) if entry is None or type(entry) is int else None
