"""The state of a watched run between calls, and the comparison of calls of one line.

Comes in: events, in order. Goes out: the events to a listener, and what was printed before to the code that explains a
call. `symgrad.tracing.session.watch` adds the interception of torch's calls.

Two calls of one line are compared by their lines and the shapes of their inputs: whether they ran the same program, or
nearly the same, and the differences (a smaller batch, another number of iterations, another constant). Names may be
numbered differently, as long as they correspond one to one; sizes and numbers may differ in a few places.
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
"""With more differences it is another program."""
KEPT = 12
"""The most programs of one line with which later ones are compared: a loop of random length has a few."""


@dataclass(frozen=True)
class Outline:
    """The lines of a program, and its inputs with their shapes."""

    lines: tuple[str, ...]
    given: Given


def nearest_outline(told: Sequence[tuple[int, Outline]], after: Outline) -> tuple[int, tuple[str, ...]] | None:
    """Return the last of the printed calls with the fewest differences, and these; None if all are other programs."""
    found = [(number, said) for number, before in told if (said := compare_outlines(before, after)) is not None]
    if not found:
        return None
    number, said = min(reversed(found), key=lambda each: len(each[1]))
    return number, said if number == told[-1][0] else (f"as in call {number}", *said)


def compare_outlines(before: Outline, after: Outline) -> tuple[str, ...] | None:
    """Return the differences of two outlines in words; None if they are different programs."""
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
    """Format two numbers with enough digits to distinguish them; integers are unchanged.

    >>> write_distinguishable("0.55", "0.6050000000000001"), write_distinguishable("0.30000000000000004", "0.3")
    (('0.55', '0.605'), ('0.30000000000000004', '0.3'))
    """
    for digits in range(3, 17):
        found = [text if text.isdigit() else f"{float(text):.{digits}g}" for text in (first, second)]
        if float(found[0]) != float(found[1]):
            return found[0], found[1]
    return first, second


def compare_given_shapes(before: Given, after: Given) -> list[str] | None:
    """Return the differences of shapes in words; None if the inputs are others."""
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
    """Return the different shapes of inputs whose names differ only in a number."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for name, shape in given:
        shapes = found.setdefault(strip_number(name), [])
        if shape not in shapes:
            shapes.append(shape)
    return found


def strip_number(name: str) -> str:
    """Return a name without its number.

    >>> strip_number("h_12"), strip_number("t7"), strip_number("rewards[3]"), strip_number("conv1.weight")
    ('h', 't', 'rewards', 'conv1.weight')
    """
    return re.sub(r"_\d+$|(?<=^t)\d+$|\[\d+\]$", "", name)


NUMBER = re.compile(r"\[(\d+)\]")
"""A step into a list of modules."""
UNCHANGED = "(a gap in symgrad; the script itself ran unchanged)"
"""Added to the message when the observer failed."""


@dataclass(frozen=True, eq=False)
class LastCall:
    """What is kept of the last call: its line, its output, graph breaks, and cotangents.

    ``cuts`` are graph breaks, with name and line of the new leaf if one was made. ``passed`` are the cotangents of
    small tensors that are not leaves, ``reached`` the nodes of the graph. ``kind`` is backward or grad. ``chosen``: the
    call had ``inputs=``. ``ended`` are the user's backwards that returned None, with the nodes before them.
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
    """The state of a watched run. ``only`` are names of leaves, ``call`` is the number of a call to print in detail.

    With ``every``, only calls whose number is a multiple of it, and ``call``, are printed. With ``pictures``, calls
    printed line by line have a picture; with ``order`` 2 they have second derivatives; with ``expand`` composite
    operations are printed step by step.
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
        """Finish a call: switch the recorder on if the next call is to be printed, else off."""
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
        """Whether the call with this ``number``, the ``times``-th of its kind, is printed."""
        asked = self.sampling.asked
        return number in asked if asked else times == 1 if once else is_checked(times)

    @property
    def rests(self) -> bool:
        """Whether the recorder is off, in its own thread."""
        return self.recorder.stand_ins.rested and self.recorder.stand_ins.here and not self.busy

    def is_told(self, key: Hashable, where: SourceLine, once: bool = False) -> bool:
        """Count a self-contained call, and return whether it is printed: ``once``, or as often as others."""
        times = self.times[key] = self.times.get(key, 0) + 1
        told = self.is_wanted(times, self.number, once)
        if not told:
            self.session.counted[where.short] += 1
        return told

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Record a self-contained call even if the recorder is off; switch it off again after several such calls."""
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
        """Do not print calls that run inside the block."""
        around, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = around

    def explained(self, what: str, made: Callable[[], Any], unexplained: Callable[[str, tuple[str, ...]], Any]) -> Any:
        """Return the event ``made()``, or ``unexplained(problem, details)`` on an error; the script goes on."""
        with self.apart():
            try:
                with preserve_global_state(), self.patience(what):
                    return made()
            except SymgradError as error:
                return unexplained(error.problem, (*error.found, *map(str, error.hints)))
            except Exception as error:
                return unexplained(f"{exception_line(error)} {UNCHANGED}", ())

    def noted(self, where: SourceLine, title: str, made: Callable[[], Any], what: str = "explaining") -> Any:
        """Return the event ``made()``, or a note with ``title`` and the reason why there is none."""
        said = f"{title}: not explained"
        return self.explained(f"{what} {where.short}", made, lambda why, more: Note(where, f"{said}: {why}", more))

    def is_news(self, *key: Hashable) -> bool:
        """Whether this key is new; it is known from now on."""
        known = key in self.told
        self.told.add(key)
        return not known

    def wants(self, label: str) -> bool:
        """Whether a leaf is to be printed; it may be requested by its name in ``state_dict``, ``0.weight``."""
        path = NUMBER.sub(r".\1", label)
        return not self.only or not {label, path, path.partition(".")[2]}.isdisjoint(self.only)

    def name_again(self, leaves: Sequence[Any], sight: dict[int, str]) -> None:
        """Name leaves that are out of scope as they were named in it: ``interpolates`` of a function that returned."""
        for tensor in leaves:
            if id(tensor) in sight:
                self.called[tensor] = sight[id(tensor)]
            elif (name := self.called.get(tensor)) is not None and name not in sight.values():
                sight[id(tensor)] = name

    def note_filled(self, tensor: Any, where: SourceLine, name: str) -> None:
        """Record that the line ``where`` wrote the current ``.grad`` of a leaf."""
        self.filled[tensor], self.filled_names[name] = (where, name, self.number), where

    def say(self, event: CallEvent | Note) -> None:
        """Keep an event and pass it to the listener."""
        kept = event.given_back() if isinstance(event, CallEvent) else event
        self.session.events.append(kept)
        self.tell(kept)

    def heard(self, spelling: str, subject: Any, where: SourceLine) -> None:
        """The recorder saw something that may matter."""
