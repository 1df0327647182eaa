"""Stories of runs in every format, and the HTML page of a run: its source beside its story.

Comes in: events of `symgrad.tracing.story.events`, one at a time, or a `Session`. Goes out: text, Markdown, LaTeX and
JSON, with a section for each event; and one self-contained HTML file. The size of that page is bounded: some calls are
printed in full, the next ones on a line each, the rest is counted. Its source is the script and the user's other files
with events; of a long file, the lines around events.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from symgrad.errors import SymgradError
from symgrad.render import numbers
from symgrad.render.numbers import KEPT
from symgrad.render.numbers import MOST as FEW
from symgrad.render.page import Block, Grid, Grids, Listing, Page, Remarks, Section, tensor_label, text_of
from symgrad.render.text import blocks_text
from symgrad.render.wrapping import truncate_end, wrap_lines
from symgrad.tracing.record.trace import SourceLine
from symgrad.tracing.story.event_content import closing_text, event_section, event_title, legend_text, repeat_line
from symgrad.tracing.story.events import MANY, NAMED, CallEvent, Note, Session, summarize_leaves

WIDTH = 80
WHOLE = 64
"""The most entries of an array that JSON has in full."""


def event_text(event: CallEvent | Note, width: int = WIDTH) -> str:
    """Return the text of an event for a terminal, with an empty line at the end; no line exceeds ``width``."""
    section = event_section(event)
    title, blocks = text_of(section.heading), section.blocks
    if isinstance(event, CallEvent) and event.failure:
        title = truncate_end(title.ljust(60), width - 7) + "  fails"
    elif isinstance(event, CallEvent) and event.repeated and len(one := f"{title}   {repeat_line(event)}") <= width:
        title, blocks = one, blocks[1:]
    lines = [wrap_lines(truncate_end(title, width), width), blocks_text(blocks, width=width, indent=2, close=True)]
    return "\n".join(line for line in lines if line) + "\n"


def event_markdown(event: CallEvent | Note) -> str:
    """Return the Markdown of an event."""
    from symgrad.render.markup import section_markdown

    return section_markdown(with_number(event))


def session_page(session: Session) -> Page:
    """Return the run as a page for any writer."""
    return Page((session.script,), (), (), (*map(with_number, session.events), *end_sections(session)), numbered=False)


def with_number(event: CallEvent | Note) -> Section:
    """Return the section of an event with the number of its call."""
    section = event_section(event)
    number = f"{event.number}. " if isinstance(event, CallEvent) else ""
    return replace(section, heading=(number, *section.heading))


def end_sections(session: Session) -> list[Section]:
    """Return the closing section, if there is anything to say."""
    said = (*closing_text(session).splitlines(), *legend_text(session).splitlines())
    return [Section(("In all",), (Remarks(said),))] if said else []


def closing_markdown(session: Session) -> str:
    """Return the closing section as Markdown."""
    from symgrad.render.markup import section_markdown

    return "".join(map(section_markdown, end_sections(session)))


def session_json(session: Session) -> str:
    """Return the run as JSON."""
    from symgrad.render.json import dumped

    return dumped({
        "kind": "symgrad run",
        "script": session.script,
        "torch": session.torch_version,
        "status": session.status,
        "agrees": session.agrees,
        "counted": session.counted,
        "events": [event_data(event) for event in session.events],
    })  # fmt: skip


def event_data(event: CallEvent | Note) -> dict[str, Any]:
    """Return an event as plain data."""
    where = {"file": event.where.file, "line": event.where.line, "text": event.where.text}
    if isinstance(event, Note):
        return {"note": event.text, "where": where, **({"more": list(event.more)} if event.more else {})}
    return {
        "call": event.number,
        "where": where,
        "seed": event.seed,
        "program": list(event.program),
        "repeated": event.repeated,
        "unlike": list(event.unlike),
        "explained": event.explained,
        "backward": [*event.told.opened, *event.told.lines],
        "leaves": [
            {
                "name": leaf.name,
                "shape": list(leaf.shape),
                "jacobian": leaf.jacobian,
                "closed_form": leaf.form,
                "before": json_entries(leaf.before),
                "added": json_entries(leaf.added),
                "after": json_entries(leaf.after),
                "relative_error": None if leaf.error is None else numbers.data(leaf.error),
                "agrees": leaf.agrees,
                "black_box": leaf.boxed,
                "undefined": leaf.undefined,
            }
            for leaf in event.leaves
        ],
        "black_boxes": list(event.boxes),
        "notes": [*event.lead, *event.notes],
        "failure": event.failure or None,
        "reasons": list(event.reasons),
    }


def json_entries(array: Any) -> Any:
    """Return nested lists for small arrays, the shape for large ones."""
    if array is None or np.size(array) > WHOLE:
        return None if array is None else {"shape": list(array.shape)}
    return numbers.data(np.asarray(array, dtype=np.float64))


MOST_CALLS = 24
"""The most calls and notes that are printed in full."""
MOST_SHORT = 200
"""The most further ones with a line each, and as many again that disagree."""
MOST_AGAIN, MOST_LENGTHS = 40, 8
"""The most rows and columns of the table of repeated calls."""


@dataclass(frozen=True, eq=False)
class PageEvent:
    """An event on the page: its place, verdict, blocks, folded blocks, and the calls that repeated it."""

    key: str
    where: SourceLine
    title: str
    verdict: str
    good: bool | None
    blocks: tuple[Block, ...] = ()
    picture: Any = None
    folded: tuple[tuple[str, Block], ...] = ()
    again: list[CallEvent] = field(default_factory=list)

    @property
    def same(self) -> dict[str, Any] | None:
        """The table of calls that repeated this one, with gradient norms; None if there are none."""
        if not self.again:
            return None
        names = [leaf.name for leaf in self.again[0].leaves][:MOST_LENGTHS]
        shown = self.again if len(self.again) <= MOST_AGAIN else [*self.again[: MOST_AGAIN - 5], *self.again[-5:]]
        rows = []
        for call in shown:
            lengths = {leaf.name: f"{leaf.length:.3g}" for leaf in call.leaves}
            said = "; ".join((*call.unlike, summarize_leaves(call)))
            rows.append((call.number, [lengths.get(name, "") for name in names], said))
        more = len(self.again[0].leaves) - len(names)
        return {"names": names, "rows": rows, "count": len(self.again), "left": len(self.again) - len(shown),
                "more": max(0, more)}  # fmt: skip


def session_html(session: Session) -> str:
    """Return the run as one HTML file; raise `InputError` if the packages of ``symgrad[pages]`` are missing."""
    from symgrad.render.html.pieces import environment

    full, brief, left = sort_events(session)
    sources = list_sources(session, [told.where for told in (*full, *brief)])
    wrong = sum(not event.agrees for event in session.events)
    failed = sum(bool(call.failure) for call in session.calls)
    checked = any(leaf.agrees for call in session.calls for leaf in call.leaves)
    text: str = environment().get_template("run.html.jinja").render(
        title=session.script, script=session.script, torch=session.torch_version, sources=sources, full=full,
        brief=brief, left=left, calls=len(session.calls), wrong=wrong, failed=failed, checked=checked,
        counted=sum(session.counted.values()),
        status=session.status, at=partial(source_anchor, sources), closing=closing_text(session).splitlines(),
        legend=legend_text(session).splitlines(),
    )  # fmt: skip
    return text


def source_anchor(sources: Sequence[SourceListing], where: SourceLine | None) -> str:
    """Return the id of a source line on the page; empty if the line is not shown."""
    for source in sources:
        if where is not None and where.file == source.file and any(row.number == where.line for row in source.rows):
            return f"{source.key}-{where.line}"
    return ""


def sort_events(session: Session) -> tuple[list[PageEvent], list[PageEvent], int]:
    """Return the events in full, the events on a line, and the number of others; repeated calls join the first."""
    full: list[PageEvent] = []
    brief: list[PageEvent] = []
    first: dict[tuple[str, int, int], PageEvent] = {}
    left = wrong = 0
    for number, event in enumerate(session.events):
        key, line = f"event-{number}", (event.where.file, event.where.line)
        if isinstance(event, CallEvent):
            plain = event.repeated and event.agrees and not event.failure
            if plain and not event.notes and (*line, event.like) in first:
                first[*line, event.like].again.append(event)
                continue
        if len(full) < MOST_CALLS:
            full.append(make_full_event(event, key))
            if isinstance(event, CallEvent) and not event.repeated:
                first[*line, event.number] = full[-1]
        elif (len(brief) - wrong if event.agrees else wrong) < MOST_SHORT:
            wrong += not event.agrees
            brief.append(make_brief_event(event, key))
        else:
            left += 1
    return full, brief, left


def make_brief_event(event: CallEvent | Note, key: str) -> PageEvent:
    """Return an event as one line."""
    if isinstance(event, Note):
        said = event.text
    elif event.failure or not event.explained:
        said = event.failure or event.notes[0]
    else:
        said = "; ".join((*event.unlike, summarize_leaves(event)))
    return PageEvent(key, event.where, event_title(event), said, event_verdict(event)[1])


def make_full_event(event: CallEvent | Note, key: str) -> PageEvent:
    """Return an event in full."""
    from symgrad.render.html.pieces import inline_picture

    blocks = event_section(event, lit=True).blocks
    found = PageEvent(key, event.where, event_title(event), *event_verdict(event), blocks)
    if isinstance(event, Note):
        return found
    picture = inline_picture(event.picture, key) if event.picture else None
    folded = () if event.repeated and not event.failure else tuple(list_folded_blocks(event))
    return replace(found, picture=picture, folded=folded)


def list_folded_blocks(event: CallEvent) -> Iterator[tuple[str, Block]]:
    """Iterate over the folded blocks: the lines as index equations, the numbers, and the lines as a function."""
    if event.entries is not None:
        yield "The backward, entry by entry", event.entries
    leaves = event.wrong[:NAMED] if len(event.leaves) > MANY else event.leaves
    grids = tuple(
        Grid(tensor_label(f"{leaf.name}.grad"), leaf.added) for leaf in leaves if FEW < leaf.added.size <= KEPT
    )
    if grids:
        yield "The numbers", Grids(grids)
    if event.told.source is not None:
        with suppress(SymgradError):
            yield "As Python that runs", Listing(event.told.source.code() + "\n")


def event_verdict(event: CallEvent | Note) -> tuple[str, bool | None]:
    """Return the verdict on an event in words, and whether it is good."""
    if isinstance(event, Note):
        return "", None if event.agrees else False
    if event.failure:
        return "fails", False
    if not event.agrees:
        return "≠ torch", False
    if not event.explained:
        return "not explained", None
    if any(leaf.agrees for leaf in event.leaves):
        return "= torch", True
    return ("not compared" if event.leaves else "no leaf is reached"), None


MOST_FILES, MOST_LINES = 6, 1_200
"""The most files that are shown, and the most lines of a file shown whole."""
AROUND, LONGEST = 12, 200
"""The lines shown around an event in a longer file, and the most characters of a line."""


@dataclass(frozen=True)
class SourceRow:
    """A line of source; ``skipped`` lines before it are left out; ``marked``: it has an event."""

    number: int
    text: str
    skipped: int
    marked: bool


@dataclass(frozen=True)
class SourceListing:
    """A source file on the page."""

    key: str
    name: str
    file: str
    rows: tuple[SourceRow, ...]
    left: int


def list_sources(session: Session, events: Sequence[SourceLine]) -> tuple[SourceListing, ...]:
    """Return the script, then the other files in the order of their events."""
    files = list(dict.fromkeys([session.file, *(where.file for where in events)]))[:MOST_FILES]
    found = []
    for number, file in enumerate(files):
        lines = session.source.splitlines() if file == session.file else linecache.getlines(file)
        marks = {where.line for where in events if where.file == file}
        if lines:
            rows = tuple(list_source_rows([line.rstrip("\n") for line in lines], marks))
            name = session.script if file == session.file else file.rpartition("/")[2]
            found.append(SourceListing(f"file-{number}", name, file, rows, len(lines) - rows[-1].number if rows else 0))
    return tuple(found)


def list_source_rows(lines: Sequence[str], marks: set[int]) -> Iterator[SourceRow]:
    """Iterate over the lines that are shown, numbered from 1."""
    whole, before, count = len(lines) <= MOST_LINES, 0, 0
    near = {n for mark in marks for n in range(mark - AROUND, mark + AROUND + 1)} if marks else set(range(2 * AROUND))
    for number, line in enumerate(lines, 1):
        if (whole or number in near) and count < MOST_LINES:
            yield SourceRow(number, truncate_end(line, LONGEST), number - before - 1, number in marks)
            before, count = number, count + 1
