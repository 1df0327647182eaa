"""`torch.autograd.functional`'s products and Hessians in a watched script: each call is told as one event.

Comes in: `hvp`, `vhp`, `hessian` and `jvp` as the script calls them. Goes out: what torch's own give, always; and an
event. Each is two or more calls of ``grad`` inside torch, of which none is told apart; the function that they are
asked of is watched as what it is, a part of the script.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch

from symgrad.tracing.captured.function import active_modes
from symgrad.tracing.record import frames, sight
from symgrad.tracing.record.given import argument_names
from symgrad.tracing.record.guard import numberless
from symgrad.tracing.record.standing_in import caller
from symgrad.tracing.record.trace import tensors_in
from symgrad.tracing.record.transforms import Ask, Inside, wrapped
from symgrad.tracing.session import second
from symgrad.tracing.session.history import History
from symgrad.tracing.story.events import Note

PRODUCTS = ("hvp", "vhp", "jvp")
"""Those that are called with weights beside the point."""


class Functionals:
    """What stands for `torch.autograd.functional`'s functions."""

    def __init__(self, watch: History) -> None:
        self.watch, self.recorder = watch, watch.recorder
        self.seen: dict[Hashable, tuple[str, ...]] = {}

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Stand in for each of them."""
        place: Any = torch.autograd.functional
        those = [(place, word, self.standing_for(word, getattr(place, word))) for word in (*PRODUCTS, "hessian")]
        self.recorder.originals |= {value: getattr(place, word) for _, word, value in those}
        with self.recorder.stand_ins.put(*those):
            yield

    def standing_for(self, word: str, function: Any) -> Any:
        """What stands for one of them."""
        signature = inspect.signature(function)

        @wraps(function)
        def asking(*args: Any, **kwargs: Any) -> Any:
            call, watch, at = caller(sys._getframe(1)), self.watch, frames.at()
            key = (at, word)
            if watch.skips(key):
                watch.number += 1
                watch.is_told(key, at)
                with watch.apart():
                    return call(function, args, kwargs)
            with watch.awake():
                ask = self.recorder.guard(self.asked, word, signature, args, kwargs)
                if ask is None:
                    return call(function, args, kwargs)
                around, beside = watch.within, self.beside(ask)
                positional = (beside, *args[1:]) if args else ()
                watch.number += 1
                watch.within = True
                number = watch.number
                try:
                    result = call(function, positional, kwargs if args else kwargs | {"func": beside})
                finally:
                    watch.within = around
                self.recorder.guard(self.tell, ask, result, number, key)
                return result

        return asking

    def asked(self, word: str, signature: inspect.Signature, args: Any, kwargs: Any) -> Ask | None:
        """A call that is about to happen; None where it is let alone, as one that torch will refuse."""
        recorder, watch = self.recorder, self.watch
        if (
            watch.busy
            or recorder.paused
            or recorder not in active_modes()
            or torch.compiler.is_compiling()
            or recorder.abroad()
        ):
            return None
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return None
        if not callable(bound["func"]) or recorder.abroad() or numberless(list(tensors_in((args, kwargs)))):
            return None
        ask = Ask(word, bound["func"], 0, False, (args, kwargs), Inside(recorder.guard), frames.here(), False)
        ask.tangents = tuple(t.detach().clone() for t in tensors_in(bound.get("v")))
        ask.sight = sight.names_in(frames.user_frame())
        return ask

    def beside(self, ask: Ask) -> Any:
        """The function that is asked, with a look at what it is given and gives, the first time that it runs."""
        function, watch, guard = ask.function, self.watch, self.recorder.guard

        def watched(*args: Any, **kwargs: Any) -> Any:
            call, around = caller(sys._getframe(1)), watch.within
            watch.within = False
            try:
                if not ask.ran:
                    guard(self.enter, ask, args, kwargs)
                result = call(function, args, kwargs)
            finally:
                watch.within = around
            if not ask.ends:
                guard(self.leave, ask, result)
            return result

        return wraps(function)(watched) if hasattr(function, "__name__") else watched

    def enter(self, ask: Ask, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """The function begins: what it is given are the inputs, under the names of its parameters."""
        ask.ran = True
        labels = argument_names(ask.function, args, keywords)
        given = [t for t in tensors_in((args, keywords)) if not wrapped(t)]
        ask.wanted = tuple(self.recorder.node_of(t) for t in given)
        ask.inside.names |= {id(n): labels.get(id(t), "x") for n, t in zip(ask.wanted, given, strict=True)}

    def leave(self, ask: Ask, result: Any) -> None:
        """The function is over."""
        ask.ends = tuple(self.recorder.node_of(t) for t in tensors_in(result) if not wrapped(t))

    def tell(self, ask: Ask, result: Any, number: int, key: Hashable) -> None:
        """The call is over."""
        watch, where = self.watch, ask.where
        if not watch.is_told(key, where):
            return
        before = self.seen.get(key, ())
        title = f"torch.autograd.functional.{ask.word}()"
        note = watch.explained(where, title, lambda: second.told(ask, result))
        if note.more == before and note.agrees:
            note = Note(where, f"{title}, call {number}: as before, = torch in every entry")
        elif note.more:
            self.seen[key] = note.more
        watch.say(note)
