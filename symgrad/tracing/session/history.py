"""What a watched run remembers from one call to the next, and whom it tells.

Comes in: events, one after the other. Goes out: the same to whoever listens; to what explains a call, what was said
before it. `symgrad.tracing.session.watch` adds the standing in for torch's own calls.

Of two calls of one line it says whether they ran the same program, and if nearly, what is different (a smaller batch,
another number of turns, another constant), by their lines and the shapes of what was given. Names may be numbered
otherwise, but one stands for one throughout; sizes and numbers may differ in a few places.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from symgrad.errors import SymgradError
from symgrad.numeric.exact import Array
from symgrad.tracing.captured.step_text import format_step_shape
from symgrad.tracing.record import frames
from symgrad.tracing.record.aliases import notes_by_tensor
from symgrad.tracing.record.isolation import exception_line, preserve_global_state
from symgrad.tracing.record.mode import Recorder
from symgrad.tracing.record.trace import GraphBreak, Node, SourceLine
from symgrad.tracing.session.sampling import (
    CLOSELY,
    CallSelection,
    LineProgram,
    Sampling,
    count_graph_nodes,
    is_checked,
)
from symgrad.tracing.story.events import CallEvent, Note, Session

TOKEN = re.compile(r"[^\W\d][\w.]*(?:\[\d+\])?|\d+\.?\d*(?:e[-+]?\d+)?|\S")
Given = Sequence[tuple[str, tuple[int, ...]]]
MOST = 3
"""More differences than this are another program."""
KEPT = 12
"""Programs of one line that later ones are held against: a loop of random depth has a few."""


@dataclass(frozen=True)
class Outline:
    """The lines of a program, and each thing given with its shape."""

    lines: tuple[str, ...]
    given: Given


def nearest_outline(told: Sequence[tuple[int, Outline]], after: Outline) -> tuple[int, tuple[str, ...]] | None:
    """Of the calls ``told`` the last with the least that is different, and what that is."""
    found = [(number, said) for number, before in told if (said := compare_outlines(before, after)) is not None]
    if not found:
        return None
    number, said = min(reversed(found), key=lambda each: len(each[1]))
    return number, said if number == told[-1][0] else (f"as in call {number}", *said)


def compare_outlines(before: Outline, after: Outline) -> tuple[str, ...] | None:
    """What is different, in words; None for another program."""
    if len(before.lines) != len(after.lines):
        return None
    said: list[str] = []
    names: dict[str, str] = {}
    back: dict[str, str] = {}
    for one, other in zip(before.lines, after.lines, strict=True):
        # of what is said of further turns not what each of them reads
        lines = (line.partition(", with ")[0] if line.startswith("…") else line for line in (one, other))
        first, second = map(TOKEN.findall, lines)
        if len(first) != len(second):
            return None
        for n, (a, b) in enumerate(zip(first, second, strict=True)):
            if a[0].isalpha() or a[0] == "_":
                if strip_number(a) != strip_number(b) or names.setdefault(a, b) != b or back.setdefault(b, a) != a:
                    return None
            elif a != b:
                if not (a[0].isdigit() and b[0].isdigit()):
                    return None
                sign = "-" if n > 0 and first[n - 1] == "-" else ""
                a, b = write_distinguishable(a, b)
                if first[n + 1 : n + 2] == ["times"]:
                    said.append(f"{int(b) + 1} turns instead of {int(a) + 1}")
                else:
                    said.append(f"{sign}{b} instead of {sign}{a}")
    shapes = compare_given_shapes(before.given, after.given)
    if shapes is None:
        return None
    found = tuple(dict.fromkeys([*shapes, *said]))
    if len(found) > MOST:
        return None
    rows = [text.replace(" rows", "") for text in shapes if " rows" in text]
    return tuple(text for text in found if text not in rows)  # a size that an option repeats is said once


def write_distinguishable(first: str, second: str) -> tuple[str, str]:
    """Two numbers with as many digits as tell them apart; whole numbers as they are.

    >>> write_distinguishable("0.55", "0.6050000000000001"), write_distinguishable("0.30000000000000004", "0.3")
    (('0.55', '0.605'), ('0.30000000000000004', '0.3'))
    """
    for digits in range(3, 17):
        found = [text if text.isdigit() else f"{float(text):.{digits}g}" for text in (first, second)]
        if float(found[0]) != float(found[1]):
            return found[0], found[1]
    return first, second


def compare_given_shapes(before: Given, after: Given) -> list[str] | None:
    """The shapes that differ; None where other things are given."""
    old, new = shapes_by_stem(before), shapes_by_stem(after)
    if list(old) != list(new):
        return None
    if any(len(old[name]) != len(new[name]) for name in old):
        return None
    pairs = [(name, *pair) for name in old for pair in zip(old[name], new[name], strict=True) if pair[0] != pair[1]]
    if any(len(x) != len(y) for _, x, y in pairs):
        return None
    rows = {(x[0], y[0]) for _, x, y in pairs}
    if len(rows) == 1 and all(x[1:] == y[1:] for _, x, y in pairs):
        ((a, b),) = rows
        return [f"{b} row{'' if b == 1 else 's'} instead of {a}"]
    return [f"{name} {format_step_shape(y)} instead of {format_step_shape(x)}" for name, x, y in pairs]


def shapes_by_stem(given: Given) -> dict[str, list[tuple[int, ...]]]:
    """The different shapes of what has one name but for its number."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for name, shape in given:
        shapes = found.setdefault(strip_number(name), [])
        if shape not in shapes:
            shapes.append(shape)
    return found


def strip_number(name: str) -> str:
    """A name without the number that tells it from others of its kind.

    >>> strip_number("h_12"), strip_number("t7"), strip_number("rewards[3]"), strip_number("conv1.weight")
    ('h', 't', 'rewards', 'conv1.weight')
    """
    return re.sub(r"_\d+$|(?<=^t)\d+$|\[\d+\]$", "", name)


NUMBER = re.compile(r"\[(\d+)\]")
"""A step into a list of modules."""
UNCHANGED = "(a gap in symgrad; the script itself ran unchanged)"
"""What is said where the observer failed."""


@dataclass(frozen=True, eq=False)
class LastCall:
    """What is remembered of the last call: its line, its output, where paths ended, and what came by on the way.

    ``cuts`` are pairs of a cut and, where it made one, the new leaf's name and line; ``passed`` what reached small
    tensors that are no leaves; ``reached`` are the values that it went through; ``kind`` is backward, or grad;
    ``chosen`` says that the call named ``inputs=``, ``ended`` which backward of the user's own returned None, and what
    leads to its input.
    """

    where: SourceLine
    output: str
    cuts: tuple[tuple[GraphBreak, str, SourceLine | None], ...]
    passed: Mapping[Any, Array]
    reached: weakref.WeakSet[Node]
    kind: str
    chosen: bool
    ended: tuple[tuple[weakref.WeakSet[Node], str], ...]


class History:
    """One watched run. ``only`` names leaves, ``call`` the number of a call that is wanted in detail.

    With ``every`` each call is told whose number is a multiple of it, and no other but that one. With ``pictures`` what
    is told line by line is drawn as well; with ``order`` 2 what is told has its second derivatives, too, with
    ``expand`` composite operations are told step by step.
    """

    def __init__(
        self,
        script: str,
        tell: Callable[[Any], None] = lambda event: None,
        only: Sequence[str] = (),
        call: int | None = None,
        every: int | None = None,
        patience: Callable[[str], AbstractContextManager[None]] = lambda what: nullcontext(),
        pictures: bool = False,
        order: int = 1,
        expand: bool = False,
    ) -> None:
        self.session = Session(script, torch_version=torch.__version__.split("+")[0])
        self.recorder = Recorder(self.heard)
        self.tell, self.only, self.call = tell, tuple(only), call
        self.busy = False
        self.within = False  # a function of torch's that asks for several gradients, and is told as one
        self.during: list[Any] = []
        self.outer: tuple[Any, ...] = ()
        self.inner: list[tuple[Any, str]] = []  # the leaves of backwards during the one at hand, that of ``outer``
        self.number = 0
        self.called = notes_by_tensor()  # what leaves were called when in sight
        self.letters: dict[int, str] = {}  # what the seed was called, by the number of the call
        self.sampling, self.patience, self.pictures = Sampling(CallSelection(call, every)), patience, pictures
        self.order, self.expand = order, expand
        self.shown: dict[tuple[str, int], list[tuple[int, Outline]]] = {}
        self.filled = notes_by_tensor()  # which line filled .grad of a leaf, what that was called then, in which call
        self.unseen: dict[tuple[str, int], int] = {}  # lines of backwards that were only counted, the last of each
        self.filled_names: dict[str, SourceLine] = {}  # the same by these names, also of leaves that are gone
        self.names: dict[int, str] = {}
        self.told: set[Any] = set()
        self.times: dict[Hashable, int] = {}  # of calls that are whole in themselves
        self.last: LastCall | None = None
        self.emptied = notes_by_tensor()  # which line set .grad of a leaf to None
        self.weights: list[tuple[SourceLine, str]] = []
        self.since: tuple[str, SourceLine] | None = None  # what a line of the script left in .grad

    def over(self, at: SourceLine, program: LineProgram | None, told: bool, goes_on: bool = False) -> None:
        """A call is over: until the next one the recorder is on if that is to be told, and begins anew."""
        recorder, stand_ins = self.recorder, self.recorder.stand_ins
        recorded = not stand_ins.rested
        if not told:
            self.session.counted[at.short] += 1
            if program is not None and program.count == 1 and program.is_due:  # the first call of one that is new
                self.say(Note(frames.user_line(), self.sampling.news(at, program, self.number)))
        on = self.sampling.goes_on(self.number, at, program, recorded, told) or goes_on
        if recorded and not on and recorder.is_idle() and stand_ins.rest():
            recorder.forget()
        elif on and not recorded:
            stand_ins.resume()
            self.sampling.began = count_graph_nodes()

    # Calls that are whole in themselves -------------------------------------------------------------------

    def is_wanted(self, times: int, number: int, once: bool) -> bool:
        """Whether the call with this ``number``, one of so many alike, is told."""
        asked = self.sampling.asked
        return number in asked if asked else times == 1 if once else is_checked(times)

    @property
    def rests(self) -> bool:
        """Whether the recorder is off, in the thread in which it records."""
        return self.recorder.stand_ins.rested and self.recorder.stand_ins.here and not self.busy

    def is_told(self, key: Hashable, where: SourceLine, once: bool = False) -> bool:
        """Whether such a call is told, ``once`` or as often as others; counts it."""
        times = self.times[key] = self.times.get(key, 0) + 1
        told = self.is_wanted(times, self.number, once)
        if not told:
            self.session.counted[where.short] += 1
        return told

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Record such a call, also where the recorder rests; after several and no backward it rests in between."""
        recorder, rested = self.recorder, self.rests
        if rested:
            recorder.stand_ins.resume()
        try:
            yield
        finally:
            alone = not self.sampling.met and sum(self.times.values()) >= CLOSELY
            if (rested or alone) and recorder.is_idle() and not self.busy and recorder.stand_ins.rest():
                recorder.forget()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What runs inside such a call is not told by itself."""
        around, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = around

    def explained(self, what: str, made: Callable[[], Any], unexplained: Callable[[str, tuple[str, ...]], Any]) -> Any:
        """The event that is ``made``, or what is ``unexplained`` by a problem and its details; the script goes on."""
        with self.apart():
            try:
                with preserve_global_state(), self.patience(what):
                    return made()
            except SymgradError as error:
                return unexplained(error.problem, (*error.found, *map(str, error.hints)))
            except Exception as error:
                return unexplained(f"{exception_line(error)} {UNCHANGED}", ())

    def noted(self, where: SourceLine, title: str, made: Callable[[], Any], what: str = "explaining") -> Any:
        """The event that is ``made``, or a note of ``title`` on why there is none."""
        said = f"{title}: not explained"
        return self.explained(f"{what} {where.short}", made, lambda why, more: Note(where, f"{said}: {why}", more))

    def is_news(self, *key: Hashable) -> bool:
        """Whether what is told once was not told before; it is from now on."""
        known = key in self.told
        self.told.add(key)
        return not known

    def wants(self, label: str) -> bool:
        """Whether a leaf is to be shown; it may be asked for as ``state_dict`` has it, ``0.weight``."""
        path = NUMBER.sub(r".\1", label)
        return not self.only or not {label, path, path.partition(".")[2]}.isdisjoint(self.only)

    def name_again(self, leaves: Sequence[Any], sight: dict[int, str]) -> None:
        """Leaves out of ``sight`` are called as they were in it: ``interpolates`` of a function that has returned."""
        for tensor in leaves:
            if id(tensor) in sight:
                self.called[tensor] = sight[id(tensor)]
            elif (name := self.called.get(tensor)) is not None and name not in sight.values():
                sight[id(tensor)] = name

    def note_filled(self, tensor: Any, where: SourceLine, name: str) -> None:
        """The line ``where`` put there what ``.grad`` of a leaf holds now."""
        self.filled[tensor], self.filled_names[name] = (where, name, self.number), where

    def say(self, event: CallEvent | Note) -> None:
        """Keep an event and pass it on."""
        kept = event.given_back() if isinstance(event, CallEvent) else event
        self.session.events.append(kept)
        self.tell(kept)

    def heard(self, spelling: str, subject: Any, where: SourceLine) -> None:
        """The recorder saw something that may matter."""
