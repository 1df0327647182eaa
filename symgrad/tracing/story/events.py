"""What a script's calls of ``backward`` did: plain data, in the order it happened.

Built by `symgrad.tracing.session.watch`, written by `symgrad.tracing.story.session_pages`. A `Session` is a list of
events: a call of ``backward`` or ``grad``, or a note about something that happened between two of them. Where many
leaves are summed up, what torch computed itself (behind a black box) is counted apart, since comparing torch with torch
checks nothing; what disagrees is never summed up.
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
    """One tensor that a gradient could be stored in, at one call.

    ``jacobian`` is size and structure in words; ``form`` vᵀJ in matrix notation, where short; ``added`` is vᵀJ
    as derived, ``before`` and ``after`` what stood in ``.grad``; ``error`` is how far torch's vᵀJ is from the
    derived one, relative to the largest entry, None where they were not compared;
    ``rounding`` says that what was added is no more than rounding leaves of a zero; ``boxed`` that a black box stands
    on the way, whose product is torch's own: where the two are equal nothing was checked, and ``agrees`` is None.
    ``undefined`` is how many entries have no number to agree on: there is no derivative, or (``lost``) it is lost to
    0·∞ or out of range on the way. ``why`` says why what was added is 0, where that was seen;
    ``changed`` what else wrote what stands there, a hook or the like; ``ruled`` that torch's backward of a call on the
    way is no derivative, and what stands there follows from it; ``overflows`` that what was derived is a number that
    torch does not reach.
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
        """Whether torch has no gradient, which is another thing than one of zeros."""
        return self.after is None and self.agrees is None

    @property
    def length(self) -> float:
        """The Euclidean length of what was added."""
        return euclidean_norm(self.added)

    def given_back(self) -> Leaf:
        """What is kept of it."""
        before, added, after = map(summarize, (self.before, self.added, self.after))
        return replace(self, before=before, added=added, after=after)


@dataclass(frozen=True, eq=False)
class CallEvent:
    """One call: its number, line and text; the seed in words; the program; the leaves; what has to be said.

    ``failure`` is the exception's own text; ``reasons`` explain it. ``repeated`` says that an earlier call from
    the same line, that with the number ``like``, ran the same program but for what ``unlike`` names, ``explained`` that
    it could be explained at all.
    ``told`` is the backward, line by line; ``letter`` what the seed is called in it: v, unless a tensor is.
    ``left_out`` are the leaves that nobody wanted shown.
    ``lead`` has to be known to read the table. ``picture`` is the program as SVG, and ``entries`` are the
    lines entry by entry, where a page was asked for.
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
        """Whether nothing that was compared differs."""
        return not self.wrong

    def given_back(self) -> CallEvent:
        """What is kept of it once it is told: of large arrays what is said of them."""
        return replace(self, leaves=tuple(leaf.given_back() for leaf in self.leaves), told=self.told.given_back())


@dataclass(frozen=True)
class Note:
    """Something between two calls: a gradient set to zero, a ``.grad`` that was read and is None.

    ``more`` are further lines: what is to be said of a Jacobian that is asked for as a whole; ``agrees`` whether its
    numbers are torch's.
    """

    where: SourceLine
    text: str
    more: tuple[str, ...] = ()
    agrees: bool = True


@dataclass
class Session:
    """A script's run: its events, the calls that were only counted, and how it ended.

    ``source`` is the text that ran, ``file`` what Python calls it; ``counting`` what is known of the calls that were
    counted, by line: what they had in common with those that were told, and what not.
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
"""More leaves than this are summed up."""
NAMED = 6
"""Names that are listed before the rest is counted."""
OPEN = "undefined here, in part or whole"
"""What is said of leaves that have entries without a derivative."""


def summarize_leaves(event: CallEvent) -> str:
    """``4 leaves = torch`` on one line, what disagrees first."""
    wrong, own, equal, open_here, other = sort_leaves_by_verdict(event.leaves)
    parts = [f"{list_leaf_names(wrong)} ≠ torch"] if wrong else []
    others = zip((equal, own, open_here, other), ("= torch", NOT_CHECKED, OPEN, "not compared"), strict=True)
    parts += [f"{count_leaves(some)} {words}" for some, words in others if some]
    said = ", ".join(parts) or ("no leaf of that name is reached" if event.left_out else "no leaf is reached")
    return said + (f", {event.letter} = {event.seed}" if "given" in event.seed and not wrong else "")


def leaf_summary_lines(event: CallEvent) -> list[str]:
    """The leaves in the order in which the forward pass reads them, without those that disagree."""
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
    """What disagrees, is torch's own, was derived and agrees, has entries without a number, and was not compared."""
    found: tuple[list[Leaf], ...] = ([], [], [], [], [])
    for row in rows:
        place = 0 if row.agrees is False else 2 + (row.undefined > 0) if row.agrees else 1 if row.boxed else 4
        found[place].append(row)
    return found


def extreme_norms(rows: Sequence[Leaf]) -> str:
    """The longest and the shortest gradient, zeros and rounding left out."""
    moving = [row for row in rows if row.length > 0 and not row.rounding]
    if len(moving) < 2:
        return ""
    most, least = max(moving, key=lambda row: row.length), min(moving, key=lambda row: row.length)
    far = f"the largest gradient norm is {format_digits(most.length)} ({most.name})"
    return f"; {far}, the smallest {format_digits(least.length)} ({least.name})"


def list_leaf_names(rows: Sequence[Leaf]) -> str:
    """The names of leaves."""
    return list_names([row.name for row in rows])


def list_names(names: Sequence[str]) -> str:
    """A few names, and how many more."""
    if len(names) <= NAMED + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"


def count_leaves(rows: Sequence[Leaf]) -> str:
    """``1 leaf``, ``2 leaves``."""
    return f"{len(rows)} {'leaf' if len(rows) == 1 else 'leaves'}"
