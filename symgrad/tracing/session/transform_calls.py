"""`torch.func`'s transforms in a watched script: each outermost call of a transformed function is told as one event.

Comes in: the transforms as the script uses them. Goes out: what torch's own give, always; and events. The function that
is transformed runs as often as torch runs it, with a recorder beside it (`symgrad.tracing.record.transforms`).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import wraps
from typing import Any

import torch

from symgrad.tracing.captured.function import active_modes
from symgrad.tracing.record import frames, sight
from symgrad.tracing.record.batched import Batched
from symgrad.tracing.record.guard import numberless
from symgrad.tracing.record.standing_in import Caller, caller
from symgrad.tracing.record.trace import Where, mapped, tensors_in
from symgrad.tracing.record.transforms import GRADIENTS, LATER, PRODUCTS, TOLD, Ask, Inside
from symgrad.tracing.session.history import History
from symgrad.tracing.session.transformed import told
from symgrad.tracing.story.events import Note


class Transforms:
    """What stands for `torch.func`'s transforms; ``current`` is the call whose function is to run next."""

    def __init__(self, watch: History) -> None:
        self.watch, self.recorder = watch, watch.recorder
        self.current: Ask | None = None

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Stand in for each of them, under all its names."""
        func: Any = torch.func
        those = [(func, word, self.standing_for(word, getattr(func, word))) for word in TOLD]
        those += [(func, word, self.product(word, getattr(func, word))) for word in PRODUCTS]
        also = [(torch, word, value) for _, word, value in those if word == "vmap"]
        self.recorder.originals |= {value: getattr(func, word) for _, word, value in those}
        with self.recorder.stand_ins.put(*those, *also):
            yield

    def standing_for(self, word: str, transform: Any) -> Any:
        """What stands for one transform."""
        signature = inspect.signature(transform)

        @wraps(transform)
        def transforming(*args: Any, **kwargs: Any) -> Any:
            call, bound = caller(sys._getframe(1)), watchable(signature, args, kwargs)
            if bound is None:
                return call(transform, args, kwargs)
            function = bound.pop("func")
            beside = self.beside(function)
            plain = call(transform, (beside,), bound)
            facts = (word, function, bound.get("argnums", 0), bool(bound.get("has_aux")))

            @wraps(plain)
            def transformed(*given: Any, **spoken: Any) -> Any:
                if torch.compiler.is_compiling():
                    return plain(*given, **spoken)
                call, at = caller(sys._getframe(1)), frames.at()
                if self.only_counted(word, function, at):
                    with self.watch.apart():
                        return call(plain, given, spoken)
                with self.watch.awake():
                    ask = self.asked(facts, given, spoken)
                    if ask is None:
                        return call(plain, given, spoken)
                    return self.through(ask, plain, given, spoken, call)

            transformed.symgrad_title = f"torch.func.{word}({title_of(function)})"  # type: ignore[attr-defined]  # for the title of one around it
            return transformed

        return transforming

    def product(self, word: str, transform: Any) -> Any:
        """What stands for a transform that is called with the point at once: ``vjp``, ``jvp`` or ``linearize``."""
        signature = inspect.signature(transform)

        @wraps(transform)
        def transforming(*args: Any, **kwargs: Any) -> Any:
            call, bound = caller(sys._getframe(1)), watchable(signature, args, kwargs)
            if bound is None:
                return call(transform, args, kwargs)
            function, primals = bound["func"], bound.get("primals", ())
            beside = self.beside(function)
            others = (beside, *args[1:]) if args else ()
            spoken = kwargs if args else kwargs | {"func": beside}
            facts = (word, function, tuple(range(len(primals))), bool(bound.get("has_aux")))
            at = frames.at()
            if word not in LATER and self.only_counted(word, function, at):
                with self.watch.apart():
                    return call(transform, args, kwargs)
            with self.watch.awake():
                return telling(call, facts, bound, (others, spoken), (args, kwargs))

        def telling(call: Caller, facts: Any, bound: Any, given: Any, plainly: Any) -> Any:
            primals = bound.get("primals", ())
            ask = self.asked(facts, primals, {})
            if ask is not None and word == "linearize" and any(t.requires_grad for t in tensors_in(primals)):
                if not ask.inner:
                    said = "an input requires a gradient of its own, which is not followed there"
                    self.watch.say(Note(ask.where, f"{ask.title}: not explained: {said}"))
                ask = None
            if ask is None:
                return call(transform, *plainly)
            ask.tangents = tuple(tensors_in(bound.get("tangents", ())))
            result = self.through(ask, transform, given[0], given[1], call)
            if word in LATER and not ask.inner:
                return result[0], self.later(ask, result[1]), *result[2:]
            return result

        return transforming

    def later(self, ask: Ask, product: Any) -> Any:
        """What `torch.func.vjp` and `linearize` hand out: each of its calls is told."""
        self.recorder.guard(ask.inside.settle)

        @wraps(product)
        def asking(*args: Any, **kwargs: Any) -> Any:
            call, at = caller(sys._getframe(1)), frames.at()
            if self.only_counted(ask.word, ask.function, at):
                with self.watch.apart():
                    return call(product, args, kwargs)
            with self.watch.awake():
                return telling(call, args, kwargs)

        def telling(call: Caller, args: Any, kwargs: Any) -> Any:
            if self.asked((ask.word, product, 0, False), args, kwargs) is None or self.recorder.inside is not None:
                return call(product, args, kwargs)
            with self.watch.apart():  # the call of grad inside it is torch's own
                result = call(product, args, kwargs)
            given = tuple(tensors_in((args, kwargs)))
            seeds, tangents = (given, ()) if ask.word == "vjp" else ((), given)
            here = replace(ask, seeds=seeds, tangents=tangents, where=frames.here())
            self.recorder.guard(self.tell, here, result, "")
            return result

        return asking

    def beside(self, function: Any) -> Any:
        """``function``, with a recorder beside it the first time that a call of ours runs it."""

        def watched(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return function(*args, **kwargs)
            ask, call, guard = self.current, caller(sys._getframe(1)), self.recorder.guard
            if ask is None or ask.function is not function or ask.ran:
                return call(function, args, kwargs)
            ask.ran, self.current = True, None
            if ask.word == "linearize":  # its inputs are the script's own tensors here, which f may read besides
                args = guard(mapped, args, apart) or args
            guard(ask.enter, args, kwargs)
            self.recorder.inside = ask.inside
            try:
                result = call(function, args, kwargs)
            finally:
                self.recorder.inside, self.current = None, ask
            guard(ask.leave, result)
            return result

        return wraps(function)(watched) if hasattr(function, "__name__") else watched

    def only_counted(self, word: str, function: Any, at: Where) -> bool:
        """Whether a call is counted and nobody need record it; what a `vmap` is of is seen only where it runs."""
        key, watch = (at, word, title_of(function)), self.watch
        if word == "vmap" or not watch.skips(key, word not in (*GRADIENTS, *PRODUCTS)):
            return False
        watch.number += 1
        watch.is_told(key, at, once=word not in (*GRADIENTS, *PRODUCTS))
        return True

    def asked(self, facts: Any, args: Any, keywords: Any) -> Ask | None:
        """A call that is about to happen; None where it is let alone."""
        recorder, outer = self.recorder, self.recorder.inside
        if self.watch.busy or recorder.paused or recorder not in active_modes() or frames.asked_by_symgrad():
            return None
        if outer is None and (
            recorder.abroad() or recorder.guard(numberless, tensors_in((args, keywords))) is not False
        ):
            return None
        inside = outer or Inside(recorder.guard)
        word, function, argnums, aux = facts
        ask = Ask(word, function, argnums, aux, (args, keywords), inside, frames.here(), outer is not None)
        ask.sight = sight.names_in(frames.user_frame()) if outer is None else {}
        return ask

    def through(self, ask: Ask, plain: Any, args: Any, keywords: Any, call: Caller) -> Any:
        """One call of a transformed function: let it happen beside a recorder, and tell it if it is outermost."""
        recorder, outer, before = self.recorder, self.recorder.inside, self.current
        recorder.guard.problem, kept = "", recorder.guard.problem
        self.current, recorder.inside = ask, None
        below = None if ask.inner or not torch.is_grad_enabled() else Batched(recorder, ask.title)
        try:
            with nullcontext() if below is None else below:
                result = call(plain, args, keywords)
        finally:
            self.current, recorder.inside = before, outer
        if below is not None:
            recorder.guard(below.settle, result)
        if ask.inner:
            recorder.guard(ask.finished, result)
        elif ask.word not in LATER:
            recorder.guard(self.tell, ask, result, recorder.guard.problem)
        recorder.guard.problem = kept or recorder.guard.problem
        return result

    def tell(self, ask: Ask, result: Any, problem: str) -> None:
        """An outermost call is over."""
        watch = self.watch
        if ask.word == "vmap" and not any(one.word != "vmap" for one in ask.inside.nested):
            return  # nothing was differentiated
        ask.rows = next((int(t.shape[0]) for t in tensors_in(result) if t.dim()), 0)
        watch.number += 1
        key = (Where(ask.where.file, ask.where.line, ""), ask.word, title_of(ask.function))
        if not watch.is_told(key, ask.where, once=ask.word not in (*GRADIENTS, *PRODUCTS)):
            return

        def made() -> Any:
            if problem:
                raise RuntimeError(problem)
            return told(watch, ask, result)

        event = watch.explained(ask.where, ask.title, made)
        if event is not None:
            watch.say(event)


def watchable(signature: inspect.Signature, args: Any, kwargs: Any) -> dict[str, Any] | None:
    """The arguments of a call of a transform by name; None where torch is to say what is wrong, or compiles."""
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None
    whole = callable(bound.get("func")) and isinstance(bound.get("primals", ()), tuple)
    return bound if whole and not torch.compiler.is_compiling() else None


def apart(part: Any) -> Any:
    """Another tensor of the same memory; what is none stays."""
    return part.detach() if isinstance(part, torch.Tensor) else part


def title_of(function: Any) -> str:
    """What a function is called in a title."""
    name = getattr(function, "__name__", type(function).__name__)
    return getattr(function, "symgrad_title", "f" if name == "<lambda>" else name)
