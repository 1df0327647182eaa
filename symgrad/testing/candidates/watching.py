"""The observation of a candidate's backward: its results before the engine repairs them, its writes, its lines.

The engine adds up a gradient that was left unreduced, casts its type and moves it to another device, so that none of
that shows in ``.grad``. Comes in: the outputs of a forward pass. Goes out: inside ``with watch_backwards(…)`` each call
of a custom ``backward`` in their graph leaves a `ReturnedGradients` and its `Mutation` s.

Python tells a trace function of every line (`sys.settrace`), so that tensors and arrays are watched alike. Inside
``with watch_lines(…)`` each tensor that a line gives leaves a `WatchedStep`; one of them can be overwritten as soon as
it is there. Whoever traced before does so afterwards.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from symgrad.numeric import Array
from symgrad.testing.candidates import Meta, Mutation, ReturnedGradients, array_mutations

MOST, MOST_ENTRIES = 60, 4096
"""Steps that are looked at, and entries of a tensor."""
MOST_WATCHED = 1 << 20
"""Entries of the largest tensor that is compared with what it was before."""
SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)
LIBRARIES = tuple(
    {str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib", "platlib")}
    | {str(Path(__file__).resolve().parents[1])}
)
Key = tuple[str, int, str, int]
"""A file, the line at which a statement begins, the name of what it gives (none: it is returned), which time it is."""


@dataclass(frozen=True, eq=False)
class WatchedStep:
    """A statement of the user's that gave a tensor; ``reads`` are the tensors and numbers that it mentions."""

    key: Key
    text: str
    value: Array
    reads: Mapping[str, Array]


@dataclass(eq=False)
class LineWatch:
    """What is seen; ``put`` is written into what the statement ``at`` gives, and ``done`` says whether it was."""

    at: Key | None = None
    put: Array | None = None
    done: bool = False
    steps: list[WatchedStep] = field(default_factory=list)
    known: dict[FrameType, dict[str, tuple[Any, bytes]]] = field(default_factory=dict)
    before: dict[FrameType, int] = field(default_factory=dict)
    counts: dict[tuple[str, int, str], int] = field(default_factory=dict)
    held: list[Any] = field(default_factory=list)

    def called(self, frame: FrameType, event: str, argument: Any) -> Any:
        """A function of the user's, of more than an expression, is followed; others are not."""
        own = frame.f_code.co_name != "<lambda>" and is_user_file(frame.f_code.co_filename)
        if event != "call" or len(self.steps) >= MOST or not own:
            return None
        self.known[frame] = {}
        self.look(frame, None)
        return self.local

    def local(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Before each line, and at the end."""
        if event in ("line", "return") and frame in self.known:
            self.look(frame, self.before.get(frame))
            self.before[frame] = frame.f_lineno
        if event == "return" and frame in self.known and argument is not None:
            parts = argument if isinstance(argument, (tuple, list)) else (argument,)
            for part in parts:
                if not any(part is other for other in self.held) and small_array(part) is not None:
                    self.note(frame, frame.f_lineno, "", part)
                    self.held.append(part)
        return self.local

    def look(self, frame: FrameType, line: int | None) -> None:
        """What the line before has changed; without one, what was there at first."""
        names = {**frame.f_locals}
        for name, value in frame.f_locals.items():
            if hasattr(value, "saved_tensors"):
                names |= {f"{name}.{n}": t for n, t in vars(value).items()}
        for name, value in names.items():
            numbers = small_array(value)
            if numbers is None:
                continue
            was = self.known[frame].get(name)
            if was is not None and was[0] is value and was[1] == numbers.tobytes():
                continue
            if line is not None:
                self.note(frame, line, name, value)
            after = small_array(value)
            self.known[frame][name] = (value, b"" if after is None else after.tobytes())
            self.held.append(value)

    def note(self, frame: FrameType, line: int, name: str, value: Any) -> None:
        """A step; where it is the one that is asked for, its value is overwritten."""
        begin, text, mentioned = statement(frame.f_code, line)
        place = (frame.f_code.co_filename, begin, name)
        count = self.counts[place] = self.counts.get(place, -1) + 1
        numbers = small_array(value)
        if numbers is None or len(self.steps) >= MOST:
            return
        reads = {}
        for other, (held, _) in self.known[frame].items():
            found = small_array(held)
            if other in mentioned and found is not None:
                reads[other] = np.frombuffer(self.known[frame][other][1]).reshape(found.shape)
        self.steps.append(WatchedStep((*place, count), text, np.array(numbers), reads))
        if self.at == (*place, count) and self.put is not None:
            self.done = overwrite_tensor(value, self.put, self.held)


@lru_cache(maxsize=1024)
def is_user_file(path: str) -> bool:
    """Whether a file is none of a library's."""
    return not path.startswith("<") and not str(Path(path).resolve()).startswith(LIBRARIES)


def small_array(value: Any, most: int = MOST_ENTRIES, whole: bool = False) -> Array | None:
    """The entries of a small tensor or array of floating numbers, or a number; with ``whole`` of whole numbers, too."""
    if isinstance(value, (float, np.floating)):
        return np.array(float(value))
    if isinstance(value, np.ndarray):
        return np.array(value, dtype=np.float64) if value.dtype.kind == "f" and value.size <= most else None
    torch: Any = sys.modules.get("torch")  # a pair of NumPy functions needs none
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    if value.numel() > most or value.is_sparse or value.is_complex() or not (whole or value.is_floating_point()):
        return None
    return to_float64(value)


def to_float64(tensor: Any) -> Array:
    """The entries of a tensor in float64."""
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    return np.array(dense.cpu().double().numpy())


def overwrite_tensor(value: Any, put: Array, held: list[Any]) -> bool:
    """Whether ``put`` could be written into a tensor that shares its memory with none that was there before."""
    if isinstance(value, np.ndarray):
        if any(other is not value and isinstance(other, np.ndarray) and np.may_share_memory(other, value)
               for other in held) or not value.flags.writeable:  # fmt: skip
            return False
        value[...] = put
        return True
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return False
    own = value.untyped_storage().data_ptr()
    if any(
        other is not value and isinstance(other, torch.Tensor) and other.untyped_storage().data_ptr() == own
        for other in held
    ):
        return False
    with contextlib.suppress(RuntimeError), torch.no_grad():  # entries that lie on top of each other
        value.copy_(torch.as_tensor(put))
        return True
    return False


@lru_cache(maxsize=64)
def function_syntax(code: CodeType) -> tuple[ast.AST, int] | None:
    """The syntax of a function, and the line before it."""
    try:
        lines, begin = inspect.getsourcelines(code)
        return ast.parse(textwrap.dedent("".join(lines))), begin - 1
    except (OSError, SyntaxError, TypeError):
        return None


@lru_cache(maxsize=1024)
def statement(code: CodeType, line: int) -> tuple[int, str, frozenset[str]]:
    """Where the statement begins that a line belongs to, its text, and the names that it reads."""
    found = function_syntax(code)
    if found is None:
        return line, "", frozenset()
    nodes = [n for n in ast.walk(found[0]) if isinstance(n, SIMPLE)]
    around = [n for n in nodes if n.lineno <= line - found[1] <= (n.end_lineno or n.lineno)]
    if not around:
        return line, "", frozenset()
    best = around[-1]  # the innermost: the walk goes down
    names = {n.id for n in ast.walk(best) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    if isinstance(best, ast.AugAssign) and isinstance(best.target, ast.Name):
        names.add(best.target.id)
    names |= {ast.unparse(n) for n in ast.walk(best) if isinstance(n, ast.Attribute)}
    return best.lineno + found[1], ast.unparse(best), frozenset(names)


@contextlib.contextmanager
def watch_lines(at: Key | None = None, put: Array | None = None) -> Iterator[LineWatch]:
    """Follow the user's functions that are called inside."""
    watch = LineWatch(at, put)
    before = sys.gettrace()
    sys.settrace(watch.called)
    try:
        yield watch
    finally:
        sys.settrace(before)
        watch.known.clear()
        watch.before.clear()
        watch.held.clear()


@dataclass
class BackwardNotes:
    """What was seen."""

    returned: list[ReturnedGradients] = field(default_factory=list)
    changes: list[Mutation] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)


def functions_of(outputs: Sequence[Any]) -> dict[type[Any], str]:
    """The user's own Functions in a graph, and which of their methods the engine calls."""
    import torch  # which a pair of NumPy functions does without

    from symgrad.tracing.session.sampling import graph_nodes

    found: dict[type[Any], str] = {}
    for node in graph_nodes(outputs):
        own = getattr(type(node), "_forward_cls", None)
        if own is None or str(own.__module__).startswith("torch."):
            continue
        found[own] = "vjp" if own.vjp is not torch.autograd.Function.vjp else "backward"
    return found


@contextlib.contextmanager
def watch_backwards(found: Mapping[type[Any], str], labels: dict[int, str]) -> Iterator[BackwardNotes]:
    """Look on while custom backwards run; ``labels`` name leaves by their identity. What was there comes back."""
    notes = BackwardNotes()
    notes.functions += [f"{own.__qualname__}.{method}" for own, method in found.items()]
    before = {own: own.__dict__.get(method) for own, method in found.items()}
    for own, method in found.items():
        setattr(own, method, staticmethod(with_notes(getattr(own, method), own.__name__, method, notes, labels)))
    try:
        yield notes
    finally:
        for own, method in found.items():
            if before[own] is None:
                delattr(own, method)
            else:
                setattr(own, method, before[own])


def with_notes(
    original: Callable[..., Any], name: str, method: str, notes: BackwardNotes, labels: dict[int, str]
) -> Callable[..., Any]:
    """``original`` with its arguments looked at before and after, and its results noted."""

    def backward(ctx: Any, *seeds: Any) -> Any:
        kept = [("mutates_seed", "v" if len(seeds) == 1 else f"v{n + 1}", t) for n, t in enumerate(seeds)]
        with contextlib.suppress(Exception):  # saved tensors that were freed: the engine says so itself
            kept += [("mutates_saved", f"saved tensor {n + 1}", t) for n, t in enumerate(ctx.saved_tensors)]
        before = [snapshot(t) for _, _, t in kept]
        result = original(ctx, *seeds)
        for (kind, what, t), was in zip(kept, before, strict=True):
            notes.changes += tensor_mutations(kind, f"{name}.{method}", {what: was}, {what: t})
        with contextlib.suppress(Exception):  # what cannot be looked at is left to the engine
            notes.returned.append(returned_gradients(ctx, result, f"{name}.{method}", labels))
        return result

    return backward


def returned_gradients(ctx: Any, result: Any, function: str, labels: dict[int, str]) -> ReturnedGradients:
    """What was returned beside what each argument of the forward pass is."""
    got = result if isinstance(result, tuple) else (result,)
    edges = iter(edge for edge in ctx.next_functions if edge[0] is not None)
    wanted: list[Meta | None] = []
    names: list[str] = []
    for needs in ctx.needs_input_grad:
        if not needs:
            wanted.append(None)
            names.append("")
            continue
        node, slot = next(edges)
        known = node._input_metadata[slot]
        wanted.append(Meta(tuple(int(n) for n in known.shape), dtype_name(known.dtype), str(known.device)))
        names.append(labels.get(id(getattr(node, "variable", None)), ""))
    metas = tuple(
        Meta(tuple(t.shape), dtype_name(t.dtype), str(t.device)) if hasattr(t, "device") else None for t in got
    )
    return ReturnedGradients(function, metas, tuple(wanted), tuple(names))


def dtype_name(dtype: Any) -> str:
    """``float64``."""
    return str(dtype).removeprefix("torch.")


def snapshot(tensor: Any) -> Array | None:
    """The numbers of a tensor as they are now; None for anything else, and for what is too large."""
    return small_array(tensor, MOST_WATCHED, whole=True)


def tensor_mutations(
    kind: str, where: str, before: Mapping[str, Array | None], tensors: Mapping[str, Any]
) -> tuple[Mutation, ...]:
    """The first entry of each tensor that is no longer what it was."""
    held = {what: was for what, was in before.items() if was is not None}
    now = {what: snapshot(tensors[what]) for what in held}
    return array_mutations(kind, where, held, now)
