"""The steps of torch's own optimizers, during which nothing is recorded.

Comes in: an optimizer before and after its step. Goes out: of each weight that it wrote, a note of the line. Adam calls
some hundred functions of torch for each step, and no gradient flows through them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from symgrad.tracing.record import frames
from symgrad.tracing.record.guard import numberless
from symgrad.tracing.record.mode import Recorder
from symgrad.tracing.record.trace import Call, Node, version

STEP = "Optimizer.step"


class Steps:
    """What happens around each step; ``before`` are the weights with their values, while one runs."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.before: list[tuple[Any, Node, int | None]] | None = None

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Let torch's optimizers step with the mode off."""
        hooks = [register_optimizer_step_pre_hook(self.begin), register_optimizer_step_post_hook(self.end)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def begin(self, optimizer: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """A step begins; one that is given a closure runs the program's own lines, and is recorded."""
        self.resume()
        if self.recorder.stand_ins.rested:
            return
        own = str(type(optimizer).step.__module__).startswith("torch.")
        if own and len(args) == 1 and not keywords and self.recorder.stand_ins.rest():
            self.before = self.recorder.guard(self.weights, optimizer) or []

    def end(self, optimizer: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """A step is over."""
        before = self.before
        if self.resume() and before:
            self.recorder.guard(self.note, before)

    def resume(self) -> bool:
        """Record again, also where a step has raised; no in another thread, and where nothing was taken away."""
        if self.before is None or get_ident() != self.recorder.stand_ins.home:
            return False
        self.before = None
        self.recorder.stand_ins.resume()
        return True

    def weights(self, optimizer: Any) -> list[tuple[Any, Node, int | None]]:
        """The weights that will be written, those copied that a backward may still read."""
        recorder = self.recorder
        found = [t for group in optimizer.param_groups for t in group["params"] if t.grad is not None]
        found = [t for t in found if not numberless([t])]
        for tensor in found:
            recorder.storages.protect(tensor, False)
        return [(tensor, recorder.node_of(tensor), version(tensor)) for tensor in found]

    def note(self, before: list[tuple[Any, Node, int | None]]) -> None:
        """The line that asked for the step wrote the weights."""
        where = frames.here(self.recorder.calls)
        self.recorder.calls += 1
        call = Call(None, STEP, (), {}, where, in_place=True)  # type: ignore[arg-type]  # nobody runs it again
        for tensor, node, count in before:
            if version(tensor) != count:
                self.recorder.overwritten(tensor, node, call, where)
