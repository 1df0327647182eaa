"""The events of a script's run as plain data, in order.

Built by `symgrad.tracing.session.watch`, written by `symgrad.tracing.story.session_pages`. A `Session` is a list of
events: a call of ``backward`` or ``grad``, or a note about something between two calls. In summaries of many leaves,
gradients through opaque calls are counted separately, since comparing torch with torch checks nothing; leaves that
disagree are always listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from symgrad.render.numbers import euclidean_norm, format_digits, summarize
from symgrad.render.page import Equations
from symgrad.tracing.captured.step_text import NOT_CHECKED
from symgrad.tracing.record.trace import SourceLine
from symgrad.tracing.story.story_lines import StoryLines


@dataclass(frozen=True, eq=False)
class Leaf:
    """One tensor with a gradient, at one call.

    ``jacobian`` is size and structure in words, ``form`` vᵀJ in matrix notation if short. ``added`` is the derived vᵀJ;
    ``before`` and ``after`` are values of ``.grad``. ``error`` is the distance of torch's vᵀJ from the derived one,
    relative to the largest entry; None if they were not compared. ``rounding``: the gradient is a rounded 0. ``boxed``:
    an opaque call is on the path, whose vᵀJ is torch's own, so that nothing was checked and ``agrees`` is None.
    ``undefined`` counts entries without a number to compare: there is no derivative, or (``lost``) it was lost to 0·∞
    or out of range. ``why`` explains a gradient of 0. ``changed`` names what else wrote ``.grad``, such as a hook.
    ``ruled``: torch's backward of a call is not its derivative, which explains the difference. ``overflows``: torch
    overflows and the derivation does not.
    """

    name: str
    shape: tuple[int, ...]
    jacobian: str
    form: str | None
    before: Any
    added: Any
    after: Any
    error: float | None
    agrees: bool | None
    rounding: bool = False
    boxed: bool = False
    undefined: int = 0
    lost: str = ""
    why: str = ""
    changed: str = ""
    ruled: bool = False
    overflows: bool = False

    @property
    def none(self) -> bool:
        """Whether torch has no gradient, which is not the same as zeros."""
        return self.after is None and self.agrees is None

    @property
    def length(self) -> float:
        """The Euclidean norm of the gradient."""
        return euclidean_norm(self.added)

    def given_back(self) -> Leaf:
        """Return the leaf with large arrays replaced by summaries."""
        before, added, after = map(summarize, (self.before, self.added, self.after))
        return replace(self, before=before, added=added, after=after)


@dataclass(frozen=True, eq=False)
class CallEvent:
    """One call: its number, line and text, the seed in words, the program, the leaves, and notes.

    ``failure`` is the exception's text, ``reasons`` explain it. ``repeated``: call number ``like`` of the same line ran
    the same program, up to the differences ``unlike``. ``explained``: whether the call could be explained. ``told`` is
    the backward line by line; ``letter`` is the seed's name in it. ``left_out`` are leaves excluded by ``--only``.
    ``lead`` are notes needed to read the table. For an HTML page, ``picture`` is the program as SVG, and ``entries``
    are the lines as index equations.
    """

    number: int
    where: SourceLine
    seed: str = ""
    weights: str = ""
    program: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    leaves: tuple[Leaf, ...] = ()
    notes: tuple[str, ...] = ()
    boxes: tuple[str, ...] = ()
    failure: str = ""
    reasons: tuple[str, ...] = ()
    repeated: bool = False
    like: int = 0
    explained: bool = True
    unlike: tuple[str, ...] = ()
    kind: str = "backward"
    told: StoryLines = field(default_factory=StoryLines)
    letter: str = "v"
    lead: tuple[str, ...] = ()
    picture: str = ""
    entries: Equations | None = None
    left_out: tuple[str, ...] = ()

    @property
    def wrong(self) -> list[Leaf]:
        """The leaves that differ from torch."""
        return [leaf for leaf in self.leaves if leaf.agrees is False]

    @property
    def agrees(self) -> bool:
        """Whether all compared gradients agree."""
        return not self.wrong

    def given_back(self) -> CallEvent:
        """Return the event with large arrays replaced by summaries, once it was printed."""
        return replace(self, leaves=tuple(leaf.given_back() for leaf in self.leaves), told=self.told.given_back())


@dataclass(frozen=True)
class Note:
    """A note between two calls: a gradient set to zero, a ``.grad`` that was read and is None.

    ``more`` are further lines, about a Jacobian for example; ``agrees``: whether its numbers are torch's.
    """

    where: SourceLine
    text: str
    more: tuple[str, ...] = ()
    agrees: bool = True


@dataclass
class Session:
    """A script's run: its events, the calls that were only counted, and the exit status.

    ``source`` is the text that ran, ``file`` its file name. ``counting`` has, by line, what the counted calls have in
    common with the printed ones.
    """

    script: str
    events: list[CallEvent | Note] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    counting: dict[str, tuple[str, str]] = field(default_factory=dict)
    status: int = 0
    torch_version: str = ""
    source: str = ""
    file: str = ""

    @property
    def calls(self) -> list[CallEvent]:
        """The calls that were explained."""
        return [event for event in self.events if isinstance(event, CallEvent)]

    @property
    def agrees(self) -> bool:
        """Whether torch agreed with everything that was derived."""
        return all(event.agrees for event in self.events)


MANY = 12
"""More leaves than this are summarized."""
NAMED = 6
"""Names that are listed before the rest is counted."""
OPEN = "undefined here, in part or whole"
"""The verdict on leaves that have entries without a derivative."""


def summarize_leaves(event: CallEvent) -> str:
    """Return ``4 leaves = torch`` as one line, with leaves that disagree first."""
    wrong, own, equal, open_here, other = sort_leaves_by_verdict(event.leaves)
    parts = [f"{list_leaf_names(wrong)} ≠ torch"] if wrong else []
    others = zip((equal, own, open_here, other), ("= torch", NOT_CHECKED, OPEN, "not compared"), strict=True)
    parts += [f"{count_leaves(some)} {words}" for some, words in others if some]
    said = ", ".join(parts) or ("no leaf of that name is reached" if event.left_out else "no leaf is reached")
    return said + (f", {event.letter} = {event.seed}" if "given" in event.seed and not wrong else "")


def leaf_summary_lines(event: CallEvent) -> list[str]:
    """Return lines that summarize the leaves that do not disagree."""
    _, own, equal, open_here, other = sort_leaves_by_verdict(event.leaves)
    lines = [f"{count_leaves(equal)} = torch{extreme_norms(equal)}"] if equal else []
    lines += [f"{OPEN}, with respect to {list_leaf_names(open_here)}"] if open_here else []
    zeros: dict[str, list[Leaf]] = {}
    for row in event.leaves:
        if row.added.size and not row.added.any():
            zeros.setdefault(row.why, []).append(row)
    for why, some in zeros.items():
        lines.append(f"0 with respect to {list_leaf_names(some)}{f': {why}' if why else ''}")
    others = zip((own, other), (NOT_CHECKED, "not compared"), strict=True)
    return lines + [f"{count_leaves(some)} {words}: {list_leaf_names(some)}" for some, words in others if some]


def sort_leaves_by_verdict(rows: Sequence[Leaf]) -> tuple[list[Leaf], ...]:
    """Return the leaves that disagree, are torch's own, agree, have undefined entries, and were not compared."""
    found: tuple[list[Leaf], ...] = ([], [], [], [], [])
    for row in rows:
        place = 0 if row.agrees is False else 2 + (row.undefined > 0) if row.agrees else 1 if row.boxed else 4
        found[place].append(row)
    return found


def extreme_norms(rows: Sequence[Leaf]) -> str:
    """Return the largest and the smallest gradient norm, without zeros and rounding."""
    moving = [row for row in rows if row.length > 0 and not row.rounding]
    if len(moving) < 2:
        return ""
    most, least = max(moving, key=lambda row: row.length), min(moving, key=lambda row: row.length)
    far = f"the largest gradient norm is {format_digits(most.length)} ({most.name})"
    return f"; {far}, the smallest {format_digits(least.length)} ({least.name})"


def list_leaf_names(rows: Sequence[Leaf]) -> str:
    """List the names of leaves."""
    return list_names([row.name for row in rows])


def list_names(names: Sequence[str]) -> str:
    """List a few names, and how many more there are."""
    if len(names) <= NAMED + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"


def count_leaves(rows: Sequence[Leaf]) -> str:
    """Return ``1 leaf`` or ``2 leaves``."""
    return f"{len(rows)} {'leaf' if len(rows) == 1 else 'leaves'}"
