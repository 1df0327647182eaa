"""Watching a script: each call of ``backward`` or ``grad`` is let through, and explained from what was recorded.

Comes in: the calls, as they happen. Goes out: events of `symgrad.tracing.story`, to whoever listens. The script
must not notice: whatever fails in here becomes a note, and torch's own exceptions pass through.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from symgrad.errors import SymgradError
from symgrad.tracing import diagnose, frames
from symgrad.tracing.function import active_modes, recording
from symgrad.tracing.mode import Recorder, tensors_in
from symgrad.tracing.numbers import short
from symgrad.tracing.scene import Scene
from symgrad.tracing.story import Backward, Note, Session
from symgrad.tracing.trace import Where, as_array

OFTEN = 40
"""Calls from one line after which the others are only counted."""


class Watch:
    """One watched run. ``only`` names leaves and ``call`` the number of a call that is wanted in detail."""

    def __init__(
        self,
        script: str,
        tell: Callable[[Any], None] = lambda event: None,
        only: Sequence[str] = (),
        call: int | None = None,
    ) -> None:
        self.session = Session(script, torch_version=torch.__version__.split("+")[0])
        self.recorder = Recorder(self.heard)
        self.tell, self.only, self.call = tell, tuple(only), call
        self.busy = False
        self.number = 0
        self.per_line: dict[tuple[str, int], int] = {}
        self.shown: dict[tuple[str, int], tuple[str, ...]] = {}
        self.filled: dict[int, tuple[weakref.ref[Any], Where, str]] = {}
        self.names: dict[int, str] = {}
        self.told: set[Any] = set()
        self.weights: list[tuple[Where, str]] = []

    # The calls --------------------------------------------------------------------------------------------

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Stand in for torch's three ways to run a graph backwards."""
        backward: Any = torch.Tensor.backward
        run, grad = torch.autograd.backward, torch.autograd.grad

        def tensor_backward(self_: Any, gradient: Any = None, *args: Any, **kwargs: Any) -> Any:
            return self.through(
                "backward", (self_,), (gradient,), lambda: backward(self_, gradient, *args, **kwargs), kwargs, args
            )

        def run_backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> Any:
            outputs = tuple(tensors_in(tensors if not hasattr(tensors, "__next__") else list(tensors)))
            seeds = _seeds(grad_tensors, len(outputs))
            return self.through(
                "backward", outputs, seeds, lambda: run(outputs, grad_tensors, *args, **kwargs), kwargs, args
            )

        def run_grad(outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **kwargs: Any) -> Any:
            ends = tuple(tensors_in(outputs))
            wanted = tuple(tensors_in(inputs))
            return self.through(
                "grad",
                ends,
                _seeds(grad_outputs, len(ends)),
                lambda: grad(outputs, inputs, grad_outputs, *args, **kwargs),
                {**kwargs, "inputs": wanted},
                args,
            )

        torch.Tensor.backward = tensor_backward  # type: ignore[method-assign, assignment]  # torch's own comes back below
        torch.autograd.backward = run_backward
        torch.autograd.grad = run_grad
        try:
            with recording(self.recorder):
                yield
        finally:
            torch.Tensor.backward = backward  # type: ignore[method-assign]  # torch's own comes back
            torch.autograd.backward, torch.autograd.grad = run, grad

    def through(
        self,
        kind: str,
        outputs: tuple[Any, ...],
        seeds: tuple[Any, ...],
        run: Callable[[], Any],
        keywords: dict[str, Any],
        rest: tuple[Any, ...] = (),
    ) -> Any:
        """One call: look, let it happen, explain."""
        if self.busy or not outputs or self.recorder not in active_modes():
            return run()
        self.busy = True
        try:
            return self._through(kind, outputs, seeds, run, keywords, rest)
        finally:
            self.busy = False

    def _through(
        self,
        kind: str,
        outputs: tuple[Any, ...],
        seeds: tuple[Any, ...],
        run: Callable[[], Any],
        keywords: dict[str, Any],
        rest: tuple[Any, ...],
    ) -> Any:
        with torch._C.DisableTorchFunction():
            self.number += 1
            scene = Scene(self, kind, outputs, seeds, keywords, frames.here())
            try:
                result = run()
            except Exception as error:
                self.explain(scene, None, error)
                raise
            self.explain(scene, result, None)
            retained = keywords.get("retain_graph", rest[0] if rest else None)
            if not (keywords.get("create_graph") if retained is None else retained):
                for node in scene.order:
                    node.freed = node.freed or scene.where
            return result

    def explain(self, scene: Scene, result: Any, error: Exception | None) -> None:
        """Turn one call into an event."""
        key = (scene.where.file, scene.where.line)
        count = self.per_line[key] = self.per_line.get(key, 0) + 1
        wanted = self.call is None or self.call == self.number
        if error is None and (not wanted or (count > OFTEN and self.call is None)):
            self.session.counted[scene.where.short] = self.session.counted.get(scene.where.short, 0) + 1
            scene.remember()
            return
        try:
            event = scene.event(result, error)
        except SymgradError as problem:
            event = scene.unexplained(problem.problem, (*problem.found, *problem.hints), error)
        except Exception as problem:  # the script must go on
            event = scene.unexplained(f"symgrad bug: {type(problem).__name__}: {problem}", (), error)
        scene.remember()
        self.say(event)

    def say(self, event: Backward | Note) -> None:
        """Keep an event and pass it on."""
        self.session.events.append(event)
        self.tell(event)

    # What happens in between ------------------------------------------------------------------------------

    def heard(self, spelling: str, subject: Any, where: Where) -> None:
        """The recorder saw something that may matter: a gradient overwritten, replaced, or read."""
        if self.busy:
            return
        with torch._C.DisableTorchFunction():
            if spelling == "grad":
                self.read_none(subject[0], where)
            elif spelling == "Tensor.grad.__set__" and len(subject) == 2 and subject[1] is None:
                self.dropped(subject[0], where)
            elif isinstance(subject, torch.Tensor):
                self.written(spelling, subject, where)

    def written(self, spelling: str, tensor: Any, where: Where) -> None:
        """Something was written in place; if it is a gradient, say so."""
        for leaf, _, name in self.filled.values():
            owner = leaf()
            if owner is not None and owner.grad is tensor and where.text and ("grad" in where.text):
                by_torch = frames.asked_by_torch()  # clip_grad_norm_ and the like: one note for all leaves
                key = (where.file, where.line, "written", "" if by_torch or "zero" in spelling else name)
                if key not in self.told:
                    self.told.add(key)
                    what = f"{name}.grad is {short(as_array(tensor))} from here on"
                    self.say(Note(where, f"{what}; other gradients may be changed here, too" if by_torch else what))
                return

    def dropped(self, tensor: Any, where: Where) -> None:
        """``.grad`` was set to None, by ``zero_grad`` mostly; said once for each line."""
        key = (where.file, where.line, "dropped")
        if id(tensor) in self.filled and key not in self.told:
            self.told.add(key)
            self.say(Note(where, "the .grad it sets aside is None from here on: the next backward starts afresh"))

    def read_none(self, tensor: Any, where: Where) -> None:
        """``x.grad`` was read and is None: why."""
        if not self.session.calls or frames.asked_by_torch():
            return
        key = (where.file, where.line, "read")
        if key in self.told:
            return
        self.told.add(key)
        name = frames.names_in(frames.user_frame()).get(id(tensor)) or "it"
        node = self.recorder.node_of(tensor)
        self.say(Note(where, diagnose.why_none(name, tensor, node, self.session.calls[-1].where)))


def _seeds(value: Any, count: int) -> tuple[Any, ...]:
    """One seed for each output."""
    if value is None:
        return (None,) * count
    if isinstance(value, torch.Tensor):
        return (value,)
    parts = tuple(value)
    return parts if len(parts) == count else (None,) * count


__all__ = ["Watch"]
