"""Stories of runs as text, Markdown and JSON.

Comes in: events of `symgrad.tracing.story.events`, one at a time for text, all together for the other two.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.render.content.words import counted
from symgrad.tracing.captured.words import NOT_CHECKED
from symgrad.tracing.record.numbers import MOST, short
from symgrad.tracing.story.events import MANY, NAMED, Backward, Leaf, Note, Session, some, summary, summed_up
from symgrad.tracing.story.layout import shortened, wrapped
from symgrad.tracing.story.layout import table as columns
from symgrad.tracing.story.sides import HANDFUL, both, is_long, program_lines
from symgrad.ways import Setting

WIDTH = 80
ROWS = "J: one row for each entry of the output, one column for each entry of the leaf."
EQUAL = '"= torch": what was derived here is what torch added.'
OWN = f'"{NOT_CHECKED}": a black box is on the way; it adds what torch says.'


def event_text(event: Backward | Note, width: int = WIDTH) -> str:
    """One event for a terminal, with an empty line after it; no line is longer than ``width``."""
    return wrapped("\n".join(_told(event, width)) + "\n", width)


def _told(event: Backward | Note, width: int) -> list[str]:
    """The lines of one event, as long as they are."""
    if isinstance(event, Note):
        title = shortened(f"{event.where.short}  {event.where.text}", width)
        return [title, f"  {event.text}", *(f"  {line}" for line in event.more)]
    title = f"{event.where.short}  {event.where.text}"
    notes = [f"  {note}" for note in event.notes]
    if event.repeated and not event.failure:
        return [*_again(event, title, width), *notes]
    title = shortened(title.ljust(60), width - 7) + "  fails" if event.failure else shortened(title, width)
    if event.failure:
        failed = [f"  {event.failure}", *(f"  {reason}" for reason in event.reasons)]
        return [title, *program_lines(event, width), *failed, *notes]
    if not event.explained:
        seed = [f"  {event.letter} = {event.seed}{event.weights}"] if event.seed else []
        return [title, *program_lines(event, width), *seed, *notes]
    lines = [title, *both(event, width)]
    lines += [f"  lengths: {event.told.flow}"] if event.told.flow else []
    lines += [f"  {event.told.warning}"] if event.told.warning else []
    nothing = "no leaf is reached: nothing is added to any .grad"
    if event.left_out:
        nothing = f"no leaf of that name is reached; reached are {some(event.left_out)}"
    elif event.kind == "grad":
        nothing = "nothing that was asked for is reached"
    lines += table(event, width) if event.leaves else [f"  {nothing}"]
    return [*lines, *notes]


def _again(event: Backward, title: str, width: int) -> list[str]:
    """A call of a program that was told before: what is different, and what came of it."""
    which = f"call {event.number}: {', '.join(('the same program', *event.unlike))}; {summary(event)}"
    one = f"{title}   {which}"
    lines = [one] if len(one) <= width else [shortened(title, width), f"  {which}"]
    wrong = [leaf for leaf in event.leaves if leaf.agrees is False]
    return lines + (rows_of(wrong[:NAMED], width, True) if wrong else [])


def agreement(leaf: Leaf) -> str:
    """How the derived vᵀJ compares with what torch did."""
    if leaf.changed:
        return f"{'changed' if leaf.after is not None else 'set to None'} by {leaf.changed}"
    if leaf.agrees is False:
        return f"≠ torch, by {leaf.error:.2g}"
    if leaf.ruled:
        return "≠ torch: a rule of its own"
    if leaf.none:
        return "torch: None"
    if leaf.agrees is None:
        return NOT_CHECKED
    if not leaf.undefined:
        return "= torch"
    what = leaf.lost or ("torch overflows" if leaf.overflows else "undefined here")
    count = int(np.prod(leaf.shape, dtype=object))
    return what if leaf.undefined == count else f"= torch, {leaf.undefined} of {count} {what}"


def table(event: Backward, width: int = WIDTH) -> list[str]:
    """One row for each leaf; more than a dozen are summed up, but for those that disagree."""
    grad = event.kind == "grad"
    if len(event.leaves) <= MANY:
        told_above = is_long(event) and bool(event.told.lines)
        bare = len(event.leaves) > HANDFUL and (told_above or not any(leaf.form for leaf in event.leaves))
        lines = rows_of(event.leaves, width, bare, grad, event.letter)
        several = [f"    {summary(event).partition(f', {event.letter} =')[0]}"]
        return [*lines, *(several if len(event.leaves) > HANDFUL else [])]
    wrong = [leaf for leaf in event.leaves if leaf.agrees is False]
    told = rows_of(wrong[:NAMED], width, True, grad)
    lines = [*told, f"  {summary(event)}"] if wrong else []
    one = Setting("run", value="--only NAME")
    return [*lines, *(f"  {line}" for line in summed_up(event)), f"  ({one} shows one of them, with its formula)"]


def rows_of(leaves: Sequence[Leaf], width: int, bare: bool, grad: bool = False, letter: str = "v") -> list[str]:
    """The table itself; a ``bare`` one has no formulas."""
    head = ("", "J", f"{letter}ᵀJ", "returned" if grad else ".grad before + added = after", "")
    full, brief = (
        [
            head,
            *(
                (leaf.name, leaf.jacobian, leaf.form or "", change(leaf, grad, once), agreement(leaf))
                for leaf in leaves
            ),
        ]
        for once in (bare, True)
    )
    if bare:
        return ["    " + line for line in columns([(a, b, d, e) for a, b, _, d, e in full], width - 4, 2)]
    lines = columns(full, width - 4, 3)
    return ["    " + line for line in (lines if len(lines) == len(full) else columns(brief, width - 4, 3))]


def change(leaf: Leaf, grad: bool, once: bool) -> str:
    """What stood in ``.grad``, what was added, what stands there now: ``once``, where nothing stood there."""
    before, added, after = map(short, (leaf.before, leaf.added, leaf.after))
    if leaf.rounding:
        added = "0, but for rounding"
    if grad:
        return added
    if leaf.before is not None:
        return f"{before}  +  {added}  =  {after}"
    large = leaf.added is not None and leaf.added.size > MOST
    same = leaf.rounding or (added == after and (once or large))
    return f"none  +  {added}" if same else f"none    {added}  {after}"


def closing(session: Session) -> str:
    """What is said at the end: calls that were only counted, and whether anything disagreed."""
    lines = []
    for line, count in session.counted.items():
        checked = [str(call.number) for call in session.calls if call.where.short == line]
        several = [*checked[:NAMED], "…", *checked[-2:]] if len(checked) > NAMED + 3 else checked
        told = f"; checked were calls {', '.join(several)}" if len(checked) > 1 else ""
        asked = Setting("run", value="--call N")
        known, other = session.counting.get(line, ("", ""))
        lines.append(
            f"{line}: {counted(count, 'further call')}{known}, counted only ({asked} explains one){told}{other}"
        )
    wrong = [call for call in session.calls if not call.agrees]
    derived = [c for c in wrong if any(leaf.agrees is False and not leaf.boxed for leaf in c.leaves)]
    if derived:
        lines.append(f"torch disagrees with what was derived in call {', '.join(str(c.number) for c in derived)}")
    others = [str(c.number) for c in wrong if c not in derived]
    if others:
        lines.append(f"a black box gives another gradient when it is asked again, in call {', '.join(others)}")
    return "".join(f"{line}\n" for line in lines)


def legend(session: Session) -> str:
    """What the columns are, said once, at the end."""
    told = [leaf for call in session.calls if call.explained and not call.failure for leaf in call.leaves]
    failed = [call for call in session.calls if any("J" in reason for reason in call.reasons)]
    if not told and not failed:
        return ""
    shown = [call for call in session.calls if call.explained and not call.failure] or failed
    letters = dict.fromkeys(call.letter for call in shown)
    sums = " or ".join(f"{letter}ᵀJ" for letter in letters)
    weighs = f"{' or '.join(letters)} weighs the rows; added up they are {sums}, which backward adds to .grad."
    lines = [ROWS, weighs, *([EQUAL] if any(leaf.agrees for leaf in told) else [])]
    lines += [OWN] if any(leaf.boxed for leaf in told) else []
    return "".join(f"{line}\n" for line in lines)


def to_markdown(session: Session) -> str:
    """The whole run as a page."""
    parts = [f"# {session.script}\n", *(event_markdown(event) for event in session.events), closing(session)]
    return "\n".join(parts).rstrip() + "\n"


def event_markdown(event: Backward | Note) -> str:
    """One event of a page."""
    if isinstance(event, Note):
        more = "".join(f"\n- {line.strip()}" for line in event.more)
        return f"**{event.where.short}** `{event.where.text}`: {event.text}\n{more}"
    parts = [f"## {event.number}. `{event.where.text}` ({event.where.short})", ""]
    if event.repeated and not event.failure:
        parts += [f"{', '.join(('The same program as before', *event.unlike))}; {summary(event)}.", ""]
    else:
        parts += _page(event)
    parts += [f"- {note}" for note in (*(() if event.repeated else event.boxes), *event.lead, *event.notes)]
    return "\n".join([*parts, ""])


def _page(event: Backward) -> list[str]:
    """One call that was not told before."""
    parts = ["```", *event.program, "```", ""] if event.program else []
    if not event.explained:
        return [*parts, *([f"{event.letter} = {event.seed}", ""] if event.seed else [])]
    if event.failure:
        return [*parts, f"Fails: `{event.failure}`", "", *(f"- {reason.strip()}" for reason in event.reasons), ""]
    head = [f"| | J | {event.letter}ᵀJ | before | added | after | |", "|---|---|---|---|---|---|---|"]
    rows = [
        f"| `{leaf.name}` | {leaf.jacobian} | {f'`{leaf.form}`' if leaf.form else ''} | {short(leaf.before)} | "
        f"{short(leaf.added)} | {short(leaf.after)} | {agreement(leaf)} |"
        for leaf in event.leaves
    ]
    told = event.told
    back = ["```", *told.opened, *told.lines, "```", ""] if told.lines else []
    flow = [f"Lengths: {told.flow}.", ""] if told.flow else []
    flow += [f"{told.warning[0].upper()}{told.warning[1:]}.", ""] if told.warning else []
    return [*parts, f"{event.letter} = {event.seed}{event.weights}", "", *back, *flow, *head, *rows, ""]


def to_json(session: Session) -> str:
    """The whole run as data."""
    return (
        json.dumps(
            {
                "kind": "symgrad run",
                "script": session.script,
                "torch": session.torch_version,
                "status": session.status,
                "agrees": session.agrees,
                "counted": session.counted,
                "events": [_event(e) for e in session.events],
            },
            indent=2,
            ensure_ascii=False,
        )
        + "\n"
    )


def _event(event: Backward | Note) -> dict[str, Any]:
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
                "before": _numbers(leaf.before),
                "added": _numbers(leaf.added),
                "after": _numbers(leaf.after),
                "relative_error": _number(leaf.error),
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


def _numbers(array: Any) -> Any:
    """Nested lists of small arrays; what is not finite as text, large arrays by their shape."""
    if array is None:
        return None
    values = np.asarray(array, dtype=np.float64)
    if values.size > 64:
        return {"shape": list(values.shape)}
    return _listed(values.tolist())


def _listed(value: Any) -> Any:
    return [_listed(v) for v in value] if isinstance(value, list) else _number(value)


def _number(value: float | None) -> float | str | None:
    return value if value is None or np.isfinite(value) else str(value)
