"""Watch a script: each call of ``backward`` or ``grad`` runs as usual, and is explained from what was recorded.

Comes in: the calls, as they happen. Goes out: events of `symgrad.tracing.story.events`, passed to a listener. The
script must not notice: an error in this package becomes a note, and torch's exceptions pass through.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial, wraps
from typing import Any

import torch

from symgrad.render.numbers import format_array
from symgrad.tracing.record import frame_names, frames
from symgrad.tracing.record.aliases import WEAKREF
from symgrad.tracing.record.isolation import Caller, caller_with_frames, preserve_global_state
from symgrad.tracing.record.patching import OptimizerSteps, has_no_numbers, record_calls
from symgrad.tracing.record.spelling import BackwardArgs, backward_outputs, materialize_iterators
from symgrad.tracing.record.trace import SourceLine, as_numbers, tensors_in
from symgrad.tracing.session import jacobian_sweeps, no_gradient, remarks, second_derivatives
from symgrad.tracing.session.call_events import explain_call, remember_call, unexplained_event
from symgrad.tracing.session.history import UNCHANGED, History
from symgrad.tracing.session.interception import Interception
from symgrad.tracing.session.sampling import LineProgram, graph_leaves, is_checked
from symgrad.tracing.session.scene import Scene
from symgrad.tracing.story.events import CallEvent, Note, summarize_leaves

TRIES = 10
"""The most backward passes of one Jacobian to try; the first that can be explained stands for all."""
NUMBERLESS = "its tensors have no values, or their class has a __torch_dispatch__ that would observe symgrad's calls"


class WatchedRun(History):
    """A watched run; the arguments are those of `History`."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        here = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _stop_in_child(here()))
        self.steps = OptimizerSteps(self.recorder)
        self.sweep: jacobian_sweeps.JacobianSweep | None = None
        self.sweeps, self.settled, self.sweeping, self.counted = 0, False, False, False
        self.unsaid: CallEvent | None = None
        self.onward: tuple[Any, Any] = None, None  # what stands for the function that Tensor.backward calls, and it

    # The calls --------------------------------------------------------------------------------------------

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Replace torch's three functions that run a backward inside the block."""
        ways: tuple[tuple[Any, str], ...] = (
            (torch.Tensor, "backward"),
            (torch.autograd, "backward"),
            (torch.autograd, "grad"),
        )
        those = [(home, word, self.standing_for(word, getattr(home, word))) for home, word in ways]
        self.onward = those[1][2], torch.autograd.backward
        self.recorder.originals = {value: getattr(home, word) for home, word, value in those}
        stand_in = self.recorder.stand_ins.put(
            *those,
            (torch.utils, "weakref", WEAKREF),
            (torch._C, "_swap_tensor_impl", self.recorder.swap),
        )
        with stand_in, Interception(self).standing(), self.steps.unrecorded():
            try:
                with record_calls(self.recorder):
                    yield
            finally:
                self.recorder.guard(self.leave_sweeps)
                self.session.counting = self.sampling.words()

    def standing_for(self, kind: str, run: Callable[..., Any]) -> Any:
        """Return the replacement of one of them."""

        @wraps(run)
        def asking(*args: Any, **kwargs: Any) -> Any:
            return self.through(kind, run, args, kwargs, caller_with_frames(sys._getframe(1)))

        return asking

    def through(
        self, kind: str, run: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], call: Caller
    ) -> Any:
        """Run one call, and explain it."""
        guard, stand_ins = self.recorder.guard, self.recorder.stand_ins
        self.steps.resume()
        if self.busy or self.recorder.paused or not stand_ins.here or self.recorder.abroad():
            if self.busy and kind == "backward" and not stand_ins.rested:
                guard(self.nested, BackwardArgs.of(kind, run, args, keywords))
            return call(run, args, keywords)
        if stand_ins.rested:
            return self.unrecorded(kind, run, args, keywords, call)
        args, keywords = materialize_iterators(run, args, keywords)
        given = guard(BackwardArgs.of, kind, run, args, keywords)
        if given is None or not given.outputs:
            return call(run, args, keywords)
        if guard(has_no_numbers, given.outputs):
            self.number += not self.within
            guard(lambda: self.say(make_unseen_event(self.number, frames.user_line(), NUMBERLESS)))
            return call(run, args, keywords)
        self.busy, self.during, self.number = True, [], self.number + (not self.within)
        self.outer, self.inner = given.outputs, []
        at = frames.current_position()
        program = None if self.within else guard(self.sampling.meet, at, given.outputs)
        scene = guard(lambda: Scene(self, given, frames.user_line()))
        self.recorder.paused = given.batched  # its tensors are several in one
        told = True
        try:
            with nullcontext() if scene is None else scene.sensor:
                result = call(run, args, keywords)
        except Exception as error:
            guard(self.explain, scene, program, None, error)
            raise
        else:
            told = guard(self.explain, scene, program, result, None) is not False
            return result
        finally:
            self.busy = self.recorder.paused = False
            if scene is not None:
                guard(scene.done)
            del scene
            if not self.within:
                guard(self.over, at, program, told, self.sweeping)

    def unrecorded(
        self, kind: str, run: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], call: Caller
    ) -> Any:
        """Run one call while the recorder is off, and look at its graph cheaply."""
        guard, self.number = self.recorder.guard, self.number + (not self.within)
        if self.within:
            return call(run, args, keywords)
        at = frames.current_position()
        if kind == "backward":
            self.unseen[at.file, at.line] = self.number
        program = guard(self.sampling.meet, at, backward_outputs(args, keywords))
        self.busy, said = True, False
        self.hand_on(*self.onward)
        try:
            return call(run, args, keywords)
        except Exception as error:
            said = True
            guard(self.refused, BackwardArgs.of(kind, run, args, keywords), error)
            raise
        finally:
            self.busy = False
            self.hand_on(*reversed(self.onward))
            guard(self.over, at, program, said)

    @staticmethod
    def hand_on(here: Any, instead: Any) -> None:
        """Replace the function that Tensor.backward calls by ``instead``, if it is ``here``."""
        place: Any = torch.autograd
        if place.backward is here:
            place.backward = instead

    def refused(self, given: BackwardArgs, error: Exception) -> None:
        """Explain, from torch's own graph, a call that torch refused while the recorder was off."""
        scene = Scene(self, given, frames.user_line(), recorded=False)
        scene.leaves = [(self.recorder.node_of(tensor), tensor) for tensor in graph_leaves(given.outputs)]
        self.say(self.told_by(scene, None, error))

    def nested(self, given: BackwardArgs) -> None:
        """Record a backward that runs during another one, unless it is torch's call of itself."""
        if [*map(id, given.outputs)] != [*map(id, self.outer)]:
            places = ("inside", "in another thread")
            self.inner += [(leaf, places[self.recorder.stand_ins.elsewhere]) for leaf in graph_leaves(given.outputs)]

    def explain(self, scene: Scene | None, program: LineProgram | None, result: Any, error: Exception | None) -> bool:
        """Turn one call into an event, or count it; return whether recording it was useful."""
        if scene is None:
            self.say(make_unseen_event(self.number, frames.user_line(), f"{self.recorder.guard.problem} {UNCHANGED}"))
            return True
        self.sweeping = False
        whole = program is not None and program.graph.first >= self.sampling.began
        if error is None and (self.within or (whole and self.swept(scene, program, result))):
            self.sweeping = self.sweep is None or self.sweep.by != "loop"  # there are more, up to its story
            self.sampling.tell(program)
            remember_call(scene, True)
            return True
        if error is None and not self.sampling.chosen(self.number, program):
            remember_call(scene, True)
            return False
        event = self.told_by(scene, result, error)
        self.sampling.tell(program)
        remember_call(scene, error is None)
        self.say(event)
        if self.order == 2 and error is None and event.explained:
            twice = partial(second_derivatives.explain_second_order, scene)
            self.say(self.noted(scene.where, "order 2", twice, "the second derivatives of"))
        return True

    def swept(self, scene: Scene, program: LineProgram | None, result: Any) -> bool:
        """Whether this call was one of many backward passes of one Jacobian, and needs no event of its own."""
        sweep = self.recorder.guard(jacobian_sweeps.find_jacobian_sweep, scene)
        if sweep is not None and sweep.within:
            return True
        if sweep is None or not sweep.goes_on(self.sweep):
            self.leave_sweeps()
            self.sweep = sweep
            self.counted = (
                sweep is not None and sweep.by != "loop" and not self.is_told((sweep.by, program), scene.where)
            )
        if self.counted:
            return True
        self.sweeps += 1
        first = 2 if sweep is not None and sweep.by == "loop" else 1  # of a loop the first call is as any other
        if sweep is None or self.sweeps < first:
            return False
        tries = self.sweeps < first + TRIES and not self.settled  # gradcheck overwrites what some sweeps have kept
        event = None
        if tries or (is_checked(self.sweeps) and not scene.given.batched):
            event = self.told_by(scene, result, None)
        note = self.recorder.guard(self.story, scene, sweep, event) if tries else None
        if note is not None:
            self.settled, self.unsaid = True, None
            self.say(note)
        elif tries and sweep.by == "loop":
            self.sweep = None
            return False
        elif tries:
            self.unsaid = self.unsaid or event
        if sweep.by == "loop":
            self.session.counted[scene.where.short] += 1
        if event is not None and not event.agrees:
            self.say(event)
        return True

    def leave_sweeps(self) -> None:
        """Finish the passes of one Jacobian; report once why none of them could be explained, if so."""
        if self.unsaid is not None:
            self.say(self.unsaid)
        self.sweep, self.sweeps, self.settled, self.unsaid = None, 0, False, None

    def story(self, scene: Scene, sweep: jacobian_sweeps.JacobianSweep, event: CallEvent | None) -> Note:
        """Return a note for all passes of one Jacobian, with the comparison of ``event`` with torch."""
        with preserve_global_state(), self.patience(f"explaining {scene.where.short}, call {scene.number}"):
            lines = jacobian_sweeps.explain_sweeps(scene, sweep)
        if event is not None and event.explained:
            lines += (f"this pass: {summarize_leaves(event)}",)
        who = "this line" if sweep.by == "loop" else f"{sweep.by}()"
        return Note(scene.where, f"{who} computes J row by row, one backward pass each:", lines)

    def told_by(self, scene: Scene, result: Any, error: Exception | None) -> CallEvent:
        """Return the event of one call, or one with the reason why it is not explained."""
        what = f"explaining {scene.where.short}, call {scene.number}"
        made, unexplained = partial(explain_call, scene, result, error), partial(unexplained_event, scene, error)
        event: CallEvent = self.explained(what, made, unexplained)
        return event

    # What happens in between ------------------------------------------------------------------------------

    def heard(self, spelling: str, subject: Any, where: SourceLine) -> None:
        """Handle an observation of the recorder: a gradient was overwritten, replaced, or read."""
        if self.busy:
            self.during += tensors_in(subject)
        elif spelling == "grad":
            self.read_none(subject[0], where)
        elif spelling == "Tensor.grad.__set__" and len(subject) == 2:
            (self.dropped if subject[1] is None else self.assigned)(subject[0], where)
        elif isinstance(subject, torch.Tensor):
            self.written(spelling, subject, where)

    def written(self, spelling: str, tensor: Any, where: SourceLine) -> None:
        """Note an in-place write into a gradient."""
        for leaf, (_, name, _) in self.filled.items():
            if leaf.grad is tensor and "grad" in where.text:
                by_torch = frames.called_by_torch()  # one note for all leaves
                clips = remarks.explain_clipping(frames.find_torch_variables(*remarks.CLIPPING)) if by_torch else ""
                key = (where.file, where.line, "written", "" if by_torch or "zero" in spelling else name, clips[:30])
                if self.is_news(*key):
                    others = "; this line may change other gradients, too" if by_torch else ""
                    last = not by_torch or "zero" in spelling  # whether nothing else of this line writes it again
                    stands = f"{name}.grad is {format_array(as_numbers(tensor))}"
                    now = f"{stands} from here on" if last else f"{name}.grad is overwritten here"
                    self.since = (f"{stands}{others}", where) if last and not clips else self.since
                    self.say(Note(where, clips or f"{now}{others}"))
                return

    def dropped(self, tensor: Any, where: SourceLine) -> None:
        """Note, once for each line, that ``.grad`` was set to None, usually by ``zero_grad``."""
        self.emptied[tensor] = where
        if tensor in self.filled and self.is_news(where.file, where.line, "dropped"):
            self.since = ".grad was set to None", where
            self.say(Note(where, "this sets .grad to None: the next backward() starts from zero"))

    def assigned(self, tensor: Any, where: SourceLine) -> None:
        """Record that ``.grad`` was set to another tensor in this line."""
        self.note_filled(tensor, where, self.called.get(tensor, "a leaf"))

    def read_none(self, tensor: Any, where: SourceLine) -> None:
        """Explain why ``x.grad`` was read and is None."""
        if not self.session.calls or frames.called_by_torch() or has_no_numbers([tensor]):
            return
        if not self.is_news(where.file, where.line, "read"):
            return
        names = frame_names.names_in_sight(frames.user_frame())
        node = self.recorder.node_of(tensor)
        if self.last is not None:
            said = no_gradient.explain_none_grad(
                names, tensor, node, self.last, self.emptied.get(tensor), self.filled_names
            )
            self.say(Note(where, said))


def _stop_in_child(watch: WatchedRun | None) -> None:
    """A forked child is a process of its own: nothing is told of it."""
    if watch is not None:
        watch.busy = watch.recorder.paused = True


def make_unseen_event(number: int, where: SourceLine, problem: str) -> CallEvent:
    """A call of which nothing is known but why."""
    return CallEvent(number, where, notes=(f"not explained: {problem}",), explained=False)
