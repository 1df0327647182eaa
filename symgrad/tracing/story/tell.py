"""Stories of runs in every format that explanations have: each event is a section of a page.

Comes in: events of `symgrad.tracing.story.events`, one at a time or all together. Goes out: text, Markdown,
LaTeX and JSON.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from symgrad.render import numbers
from symgrad.render.flow import shortened, wrapped
from symgrad.render.json import dumped
from symgrad.render.markdown import section_markdown
from symgrad.render.page import Notes, Page, Section, text_of
from symgrad.render.text import blocks_text
from symgrad.tracing.story.content import closing, legend, section_of, summary_of
from symgrad.tracing.story.events import Backward, Note, Session

WIDTH = 80
WHOLE = 64
"""Entries of the largest array that JSON has whole."""


def event_text(event: Backward | Note, width: int = WIDTH) -> str:
    """One event for a terminal, with an empty line after it; no line is longer than ``width``."""
    section = section_of(event)
    title, blocks = text_of(section.heading), section.blocks
    if isinstance(event, Backward) and event.failure:
        title = shortened(title.ljust(60), width - 7) + "  fails"
    elif isinstance(event, Backward) and event.repeated and len(one := f"{title}   {summary_of(event)}") <= width:
        title, blocks = one, blocks[1:]
    lines = [wrapped(shortened(title, width), width), blocks_text(blocks, width=width, indent=2, close=True)]
    return "\n".join(line for line in lines if line) + "\n"


def event_markdown(event: Backward | Note) -> str:
    """One event of a page."""
    return section_markdown(numbered(event))


def page_of(session: Session) -> Page:
    """The whole run, for any writer of pages."""
    return Page((session.script,), (), (), (*map(numbered, session.events), *last(session)), numbered=False)


def numbered(event: Backward | Note) -> Section:
    """An event with the number of its call."""
    section = section_of(event)
    number = f"{event.number}. " if isinstance(event, Backward) else ""
    return replace(section, heading=(number, *section.heading))


def last(session: Session) -> list[Section]:
    """What is said at the end, where there is something."""
    said = (*closing(session).splitlines(), *legend(session).splitlines())
    return [Section(("In all",), (Notes(said),))] if said else []


def ending(session: Session) -> str:
    """The same as Markdown, behind events that stand there already."""
    return "".join(map(section_markdown, last(session)))


def to_json(session: Session) -> str:
    """The whole run as data."""
    return dumped({
        "kind": "symgrad run",
        "script": session.script,
        "torch": session.torch_version,
        "status": session.status,
        "agrees": session.agrees,
        "counted": session.counted,
        "events": [event_data(event) for event in session.events],
    })  # fmt: skip


def event_data(event: Backward | Note) -> dict[str, Any]:
    """One event."""
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
                "before": entries(leaf.before),
                "added": entries(leaf.added),
                "after": entries(leaf.after),
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


def entries(array: Any) -> Any:
    """Nested lists of small arrays; large ones by their shape."""
    if array is None or np.size(array) > WHOLE:
        return None if array is None else {"shape": list(array.shape)}
    return numbers.data(np.asarray(array, dtype=np.float64))
