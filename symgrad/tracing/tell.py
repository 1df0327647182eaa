"""Stories of runs as text, Markdown and JSON.

Comes in: events of `symgrad.tracing.story`, one at a time for text, all together for the other two.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from symgrad.tracing.numbers import short
from symgrad.tracing.story import Backward, Leaf, Note, Session
from symgrad.tracing.words import NOT_CHECKED, counted

HANDFUL = 6
LONGEST = 12
"""Programs with more lines than this are told by their ends."""
LEGEND = (
    "J: one row for each entry of the output, one column for each entry of the leaf. v weighs the rows; added up they\n"
    "are vᵀJ, which backward adds to .grad."
)
EQUAL = '"= torch": what was derived here is what torch added.'
OWN = f'"{NOT_CHECKED}": a black box stands on the way; what it adds is what torch says.'


def event_text(event: Backward | Note) -> str:
    """One event for a terminal, with an empty line after it."""
    if isinstance(event, Note):
        return f"{event.where.short}  {event.where.text}\n  {event.text}\n"
    title = f"{event.where.short}  {event.where.text}"
    if event.failure:
        title = f"{title.ljust(60)}  fails"
    elif event.repeated:
        return f"{title}   call {event.number}: the same program; {summary(event)}\n" + _lines(event.notes, "  ")
    lines = [title, *_program(event)]
    if event.failure:
        lines += [f"  {event.failure}", *(f"  {reason}" for reason in event.reasons)]
        return "\n".join(lines) + "\n" + _lines(event.notes, "  ")
    lines.append(f"  v = {event.seed}{event.weights}")
    if not event.explained:
        return "\n".join(lines) + "\n" + _lines(event.notes, "  ")
    lines += [f"  ■ {box}" for box in event.boxes]
    lines += table(event) if event.leaves else ["  no leaf is reached: nothing is added to any .grad"]
    return "\n".join(lines) + "\n" + _lines(event.notes, "  ")


def _lines(notes: tuple[str, ...], indent: str) -> str:
    """Notes, one a line."""
    return "".join(f"{indent}{note}\n" for note in notes)


def _program(event: Backward) -> list[str]:
    """The program, shortened in the middle; beside a short one its shapes."""
    shown = list(event.program)
    if len(shown) > LONGEST + 2:
        half = LONGEST // 2
        shown = [*shown[:half], f"… {len(event.program) - 2 * half} more …", *shown[-half:]]
    roles = "   ".join(event.roles) if len(event.roles) <= HANDFUL else f"{len(event.roles)} tensors"
    if not shown:
        return [f"  {roles}"] if roles else []
    if len(shown) == 1:
        return [f"  {shown[0].ljust(46)}  {roles}"]
    return [*(f"  {line}" for line in shown), f"    {roles}"]


def summary(event: Backward) -> str:
    """``4 leaves = torch``; those that nothing derived stands beside are counted by themselves."""
    wrong = [leaf.name for leaf in event.leaves if leaf.agrees is False]
    if wrong:
        return f"{', '.join(wrong)} ≠ torch"
    undefined = sum(leaf.agrees is True and leaf.undefined > 0 for leaf in event.leaves)
    equal = sum(leaf.agrees is True for leaf in event.leaves) - undefined
    boxed = sum(leaf.boxed for leaf in event.leaves)
    parts = [f"{leaves(equal)} = torch"] if equal else []
    parts += [f"{leaves(boxed)} {NOT_CHECKED}"] if boxed else []
    parts += [f"{leaves(undefined)} undefined here, in part or whole"] if undefined else []
    rest = len(event.leaves) - equal - boxed - undefined
    parts += [f"{leaves(rest)} not compared"] if rest else []
    return ", ".join(parts or ["no leaf is reached"]) + (f", v = {event.seed}" if "given" in event.seed else "")


def leaves(count: int) -> str:
    """1 leaf, 2 leaves."""
    return f"{count} {'leaf' if count == 1 else 'leaves'}"


def agreement(leaf: Leaf) -> str:
    """How the derived vᵀJ compares with what torch did."""
    if leaf.agrees is False:
        return f"≠ torch, by {leaf.error:.2g}"
    if leaf.after is None and leaf.agrees is None:
        return "torch: None"
    if leaf.agrees is None:
        return NOT_CHECKED if leaf.boxed else "changed by a hook"
    if not leaf.undefined:
        return "= torch"
    what = "lost to 0·∞" if leaf.lost else "undefined here"
    count = int(np.prod(leaf.shape, dtype=object))
    return what if leaf.undefined == count else f"= torch, {leaf.undefined} of {count} {what}"


def table(event: Backward) -> list[str]:
    """One row for each leaf."""
    many = len(event.leaves) > HANDFUL
    head = ("", "J", "vᵀJ", ".grad before + added = after", "")
    rows = [head]
    for leaf in event.leaves:
        change = f"{short(leaf.before)}  +  {short(leaf.added)}  =  {short(leaf.after)}"
        if leaf.before is None:
            change = f"none  +  {short(leaf.added)}" if many else f"none    {short(leaf.added)}  {short(leaf.after)}"
        rows.append((leaf.name, leaf.jacobian, leaf.form or "", change, agreement(leaf)))
    if many:
        rows = [(a, b, d, e) for a, b, _, d, e in rows]  # type: ignore[misc]  # a column less
    widths = [min(max(len(row[n]) for row in rows), 60) for n in range(len(rows[0]))]
    lines = ["    " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, f"    {summary(event).partition(', v =')[0]}"] if many else lines


def closing(session: Session) -> str:
    """What is said at the end: calls that were only counted, and whether anything disagreed."""
    lines = [
        f"{line}: {counted(count, 'further call')}, counted only (--call N explains one)"
        for line, count in session.counted.items()
    ]
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
    if not told:
        return ""
    lines = [f"{LEGEND} {EQUAL}" if any(leaf.agrees for leaf in told) else LEGEND]
    lines += [OWN] if any(leaf.boxed for leaf in told) else []
    return "".join(f"{line}\n" for line in lines)


def to_markdown(session: Session) -> str:
    """The whole run as a page."""
    parts = [f"# {session.script}", ""]
    for event in session.events:
        if isinstance(event, Note):
            parts += [f"**{event.where.short}** `{event.where.text}`: {event.text}", ""]
            continue
        parts += [f"## {event.number}. `{event.where.text}` ({event.where.short})", ""]
        if event.repeated:
            parts += [f"The same program as before; {summary(event)}.", ""]
            continue
        if event.program:
            parts += ["```", *event.program, "```", ""]
        if not event.explained:
            parts += [f"v = {event.seed}", ""]
        elif event.failure:
            parts += [f"Fails: `{event.failure}`", "", *(f"- {reason.strip()}" for reason in event.reasons), ""]
        else:
            parts += [
                f"v = {event.seed}{event.weights}",
                "",
                "| | J | vᵀJ | before | added | after | |",
                "|---|---|---|---|---|---|---|",
            ]
            parts += [
                f"| `{leaf.name}` | {leaf.jacobian} | {f'`{leaf.form}`' if leaf.form else ''} | {short(leaf.before)} | "
                f"{short(leaf.added)} | {short(leaf.after)} | {agreement(leaf)} |"
                for leaf in event.leaves
            ]
            parts.append("")
        parts += [f"- {note}" for note in (*event.boxes, *event.notes)]
        parts.append("")
    end = closing(session)
    return "\n".join([*parts, end]).rstrip() + "\n"


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
        return {"note": event.text, "where": where}
    return {
        "call": event.number,
        "where": where,
        "seed": event.seed,
        "program": list(event.program),
        "repeated": event.repeated,
        "explained": event.explained,
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
        "notes": list(event.notes),
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
