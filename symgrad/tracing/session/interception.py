"""Intercept `torch.func` and `torch.autograd.functional` in a watched script: each outermost request is one event.

Comes in: the script's calls of these transforms, products and Hessians. Goes out: torch's own results, always; and
events. The differentiated function runs as often as torch runs it; its inputs and outputs are observed
(`symgrad.tracing.record.transforms`). `torch.autograd.functional` calls ``grad`` itself; those calls have no event.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import torch

from symgrad.tracing.lift.boxes import copy_detached
from symgrad.tracing.record import frame_names, frames
from symgrad.tracing.record.gradients import BatchedRecording
from symgrad.tracing.record.isolation import Caller, caller
from symgrad.tracing.record.patching import active_modes, has_no_numbers
from symgrad.tracing.record.trace import SourceLine, map_nested, tensors_in
from symgrad.tracing.record.transforms import (
    FUNCTIONAL,
    GRADIENTS,
    LATER,
    PRODUCTS,
    TOLD,
    DerivativeRequest,
    TransformTrace,
    name_transformed_function,
)
from symgrad.tracing.session.history import History
from symgrad.tracing.session.transform_events import request_event
from symgrad.tracing.story.events import Note


class Interception:
    """The replacements of those functions; ``current`` is the request whose function is to run next."""

    def __init__(self, watch: History) -> None:
        self.watch, self.recorder = watch, watch.recorder
        self.current: DerivativeRequest | None = None
        self.seen: dict[Hashable, tuple[str, ...]] = {}

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Replace each of them, under all its names, inside the block."""
        homes: Any = {torch.func: (*TOLD, *PRODUCTS), torch.autograd.functional: FUNCTIONAL}
        those = [(home, word, self.standing_for(home, word)) for home, words in homes.items() for word in words]
        self.recorder.originals |= {value: getattr(home, word) for home, word, value in those}
        also = [(torch, word, value) for _, word, value in those if word == "vmap"]
        with self.recorder.stand_ins.put(*those, *also):
            yield

    def standing_for(self, home: Any, word: str) -> Any:
        """Return the replacement of one function: it makes a request, or returns a function whose calls do."""
        original = getattr(home, word)
        signature = inspect.signature(original)

        @wraps(original)
        def standing(*args: Any, **kwargs: Any) -> Any:
            call, bound = caller(sys._getframe(1)), arguments_by_name(signature, args, kwargs)
            if bound is None:
                return call(original, args, kwargs)
            function, beside = bound["func"], self.beside(bound["func"])
            watched = ((beside, *args[1:]), kwargs) if args else ((), kwargs | {"func": beside})
            argnums, aux = bound.get("argnums", 0), bool(bound.get("has_aux"))
            request = DerivativeRequest(home.__name__, word, function, argnums, aux)
            if home is torch.func and word in TOLD:
                return self.handed_out(request, call(original, *watched))
            primals = bound.get("primals", ())
            given = (args, kwargs) if request.functional else (primals, {})
            tangents = tuple(tensors_in(bound.get("v" if request.functional else "tangents", ())))
            request = replace(request, argnums=tuple(range(len(primals))), given=given, tangents=tangents)
            return self.ask(request, call, (original, args, kwargs), (original, *watched))

        return standing

    def handed_out(self, request: DerivativeRequest, plain: Any) -> Any:
        """Return a transformed function; each of its calls makes a request."""

        @wraps(plain)
        def transformed(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return plain(*args, **kwargs)
            asked = plain, args, kwargs
            return self.ask(replace(request, given=(args, kwargs)), caller(sys._getframe(1)), asked, asked)

        transformed.symgrad_title = request.title  # type: ignore[attr-defined]  # for the title of one around it
        return transformed

    def later(self, request: DerivativeRequest, product: Any) -> Any:
        """Return the function that `torch.func.vjp` or ``linearize`` returned; each of its calls has an event."""
        self.recorder.guard(request.inside.settle)

        @wraps(product)
        def asking(*args: Any, **kwargs: Any) -> Any:
            call, at = caller(sys._getframe(1)), frames.current_position()
            counted = self.only_counted(request, at)
            with self.watch.apart() if counted else self.watch.awake():
                if counted or self.lets_alone((args, kwargs)) or self.recorder.inside is not None:
                    return call(product, args, kwargs)
                with self.watch.apart():  # the call of grad inside it is torch's own
                    result = call(product, args, kwargs)
                given = tuple(tensors_in((args, kwargs)))
                seeds, tangents = (given, ()) if request.word == "vjp" else ((), given)
                here = replace(request, seeds=seeds, tangents=tangents, where=frames.user_line())
                self.recorder.guard(self.tell, here, result, "", at)
                return result

        return asking

    def beside(self, function: Any) -> Any:
        """Return ``function`` with its inputs and outputs observed the first time that a request runs it."""

        def watched(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return function(*args, **kwargs)
            request, call, guard, watch = self.current, caller(sys._getframe(1)), self.recorder.guard, self.watch
            if request is None or request.function is not function or request.ran:
                return call(function, args, kwargs)
            self.current, around = None, watch.within
            if request.word == "linearize":  # its inputs are the script's own tensors here, which f may read besides
                args = guard(map_nested, args, lambda v: v.detach() if isinstance(v, torch.Tensor) else v) or args
            guard(request.enter, args, kwargs)
            watch.within, self.recorder.inside = False, None if request.functional else request.inside
            try:
                result = call(function, args, kwargs)
            finally:
                self.recorder.inside, self.current, watch.within = None, request, around
            guard(request.leave, result)
            return result

        return wraps(function)(watched) if hasattr(function, "__name__") else watched

    def only_counted(self, request: DerivativeRequest, at: SourceLine) -> bool:
        """Whether a call is only counted and not recorded; a ``vmap`` must run to see what it contains."""
        key, once, watch = self.key(request, at), is_reported_once(request), self.watch
        told = watch.is_wanted(watch.times.get(key, 0) + 1, watch.number + 1, once)
        if request.word == "vmap" or told or not watch.rests:
            return False
        watch.number += 1
        watch.is_told(key, at, once)
        return True

    @staticmethod
    def key(request: DerivativeRequest, at: SourceLine) -> Hashable:
        """Return the key of calls that are alike."""
        return at, request.home, request.word, "" if request.functional else name_transformed_function(request.function)

    def lets_alone(self, given: Any) -> bool:
        """Whether a call is not the script's, or its tensors have no numbers."""
        recorder = self.recorder
        if self.watch.busy or recorder.paused or recorder not in active_modes() or frames.called_by_symgrad():
            return True
        return recorder.inside is None and (
            recorder.abroad() or recorder.guard(has_no_numbers, tensors_in(given)) is not False
        )

    def begins(self, request: DerivativeRequest) -> bool:
        """Whether a call that is about to run is observed; if so, fill in its place and scope."""
        outer = self.recorder.inside
        if self.lets_alone(request.given) or (request.functional and outer is not None):
            return False
        request.inside, request.nested = outer or TransformTrace(self.recorder.guard), outer is not None
        request.begun = len(request.inside.requests)
        request.where = frames.user_line()
        request.sight = frame_names.names_in_sight(frames.user_frame()) if outer is None else {}
        if request.functional:
            request.node_of = self.recorder.node_of
            request.tangents = self.recorder.guard(copy_detached, request.tangents) or ()
        if request.word != "linearize" or not any(t.requires_grad for t in tensors_in(request.given)):
            return True
        if not request.nested:
            said = "an input requires its own gradient, which is not followed there"
            self.watch.say(Note(request.where, f"{request.title}: not explained: {said}"))
        return False

    def ask(self, request: DerivativeRequest, call: Caller, plainly: Any, watched: Any) -> Any:
        """Run one call: only counted, not observed, or with the ``watched`` function and an event."""
        at = frames.current_position()
        if (request.word not in LATER) and self.only_counted(request, at):
            with self.watch.apart():
                return call(*plainly)
        with self.watch.awake():
            if not self.begins(request):
                return call(*plainly)
            result = self.through(request, partial(call, *watched), at)
            if request.word in LATER and not request.nested:
                return result[0], self.later(request, result[1]), *result[2:]
            return result

    def through(self, request: DerivativeRequest, run: Callable[[], Any], at: SourceLine) -> Any:
        """Run a request, and report it if it is outermost."""
        recorder, outer, before, around = self.recorder, self.recorder.inside, self.current, self.watch.within
        recorder.guard.problem, kept = "", recorder.guard.problem
        self.current, recorder.inside, self.watch.within = request, None, around or request.functional
        self.watch.number += request.functional
        request.number = self.watch.number
        follows = not request.nested and not request.functional and torch.is_grad_enabled()
        below = BatchedRecording(recorder, request.title) if follows else None
        try:
            with nullcontext() if below is None else below:
                result = run()
        finally:
            self.current, recorder.inside, self.watch.within = before, outer, around
        if below is not None:
            recorder.guard(below.settle, result)
        if request.nested:
            recorder.guard(request.finished, result)
        elif request.word not in LATER:
            recorder.guard(self.tell, request, result, "" if request.functional else recorder.guard.problem, at)
        recorder.guard.problem = kept or recorder.guard.problem
        return result

    def tell(self, request: DerivativeRequest, result: Any, problem: str, at: SourceLine) -> None:
        """Report an outermost request that has finished."""
        watch, where = self.watch, request.where
        if request.word == "vmap" and not any(one.word != "vmap" for one in request.inside.requests):
            return  # nothing was differentiated
        if not request.functional:
            watch.number += 1
            request.number = watch.number
        key = self.key(request, at)
        if not watch.is_told(key, where, once=is_reported_once(request)):
            return

        def made() -> Any:
            if problem:
                raise RuntimeError(problem)
            return request_event(watch, request, result)

        event = watch.noted(where, request.title, made)
        if isinstance(event, Note) and request.functional and event.more:
            before, self.seen[key] = self.seen.get(key), event.more
            if event.agrees and event.more == before:
                event = Note(where, f"{request.title}, call {request.number}: as before, = torch in every entry")
        if event is not None:
            watch.say(event)


def is_reported_once(request: DerivativeRequest) -> bool:
    """Whether equal calls of this kind are reported once."""
    return not request.functional and request.word not in (*GRADIENTS, *PRODUCTS)


def arguments_by_name(signature: inspect.Signature, args: Any, kwargs: Any) -> dict[str, Any] | None:
    """Return the arguments of a call by name; None if they are wrong, or torch compiles."""
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None
    whole = callable(bound.get("func")) and isinstance(bound.get("primals", ()), tuple)
    return bound if whole and not torch.compiler.is_compiling() else None
