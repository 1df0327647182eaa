"""What a story says of an event, as blocks of a page: program and backward, leaves beside torch's numbers, remarks.

Comes in: one event of `symgrad.tracing.story.events`. Goes out: a `Section`, which every writer of `symgrad.render` can
write. A program that is longer than a page is told by its blocks, and its backward by one turn of what repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from symgrad.backward import Backward as Lines
from symgrad.backward import Line
from symgrad.errors import Setting
from symgrad.render.numbers import MOST as FEW
from symgrad.render.numbers import count_noun, format_array
from symgrad.render.page import Block, Both, Code, CodeLine, Listing, Paragraph, Remarks, Section, Table, Words
from symgrad.render.wrapping import elide_lines
from symgrad.tracing.captured.step_text import NOT_CHECKED, format_step_shape
from symgrad.tracing.record.trace import SourceLine
from symgrad.tracing.story.events import (
    MANY,
    NAMED,
    CallEvent,
    Leaf,
    Note,
    Session,
    leaf_summary_lines,
    list_names,
    summarize_leaves,
)

ROWS = "J: one row for each entry of the output, one column for each entry of the leaf."
EQUAL = '"= torch": the derived gradient equals what torch computed.'
OWN = f'"{NOT_CHECKED}": the number is PyTorch\'s, because symgrad does not derive an operation on the path.'
HANDFUL = 6
"""Tensors whose shapes are listed one by one."""
SHORT = 48
"""Characters of a list of shapes that has the leaves in it, too."""
REPEATED = 8
"""Lines that equal blocks have to save for them to be told once, in a program that is not long."""
PAGE = 40
"""Lines of a program that are told in full."""
MOST = 80
"""Lines of a program or a backward with its equal layers told once; a longer one is told by its ends."""
LONGEST = 12
"""Lines of a program that has no backward by lines; a longer one is told by its ends and by what has a name."""


def event_section(event: CallEvent | Note, lit: bool = False) -> Section:
    """One event, under the user's own line; ``lit``, on a page whose lines light each other: each gradient has one."""
    return Section((f"{event.where.short}  ", Code(event_title(event))), tuple(event_blocks(event, lit)))


def event_title(event: CallEvent | Note) -> str:
    """The line of the user's that called."""
    return event.where.text or getattr(event, "kind", "")


def event_blocks(event: CallEvent | Note, lit: bool) -> Iterator[Block]:
    """What is said of an event."""
    if isinstance(event, Note):
        yield Remarks((event.text, *event.more))
    elif event.repeated and not event.failure:
        yield Remarks((repeat_line(event),))
        yield from wrong_leaf_blocks(event)
        yield from note_blocks(event.notes)
    elif event.failure or not event.explained:
        yield from listing_blocks(shorten_program(event, lit), write_roles(event))
        yield from [] if event.failure or not event.seed else [seed_listing(event, "")]
        yield from note_blocks((event.failure,) if event.failure else (), alarm=True)
        yield from note_blocks((*event.reasons, *event.notes))
    else:
        yield from program_blocks(event, lit)
        yield from note_blocks((f"gradient norms: {event.told.flow}",) if event.told.flow else ())
        yield from note_blocks((event.told.warning,) if event.told.warning else (), alarm=True)
        yield from leaf_blocks(event)
        yield from note_blocks(event.notes)


def note_blocks(items: Sequence[str], alarm: bool = False) -> list[Block]:
    """Remarks, where there are any."""
    return [Remarks(tuple(items), alarm)] if items else []


def repeat_line(event: CallEvent) -> str:
    """A call of a program that was told before: what is different, and what came of it."""
    return f"call {event.number}: {', '.join(('the same program', *event.unlike))}; {summarize_leaves(event)}"


# The program and its backward -----------------------------------------------------------------------------


def program_blocks(event: CallEvent, lit: bool) -> Iterator[Block]:
    """Forward and backward; the program alone, where there are no lines of the backward."""
    back = backward_code_lines(event, lit)
    program = shorten_program(event, lit)
    several = bool(back) or len(program) > 1
    begin = (seed_listing(event, write_inputs(event) if several else ""),
             *note_blocks((*(f"■ {box}" for box in event.boxes), *event.lead)))  # fmt: skip
    if back:
        meaning = f"{event.told.letter(event.letter)}_name is {cotangent_meaning(event)}"
        yield Both(tuple(forward_code_lines(event)), tuple(back), meaning, begin)
    else:
        yield from listing_blocks(program, "" if several else write_roles(event))
        yield from begin


def listing_blocks(program: Sequence[str], beside: str) -> list[Block]:
    """A program's lines and what it reads, where there is any of it."""
    lines = program or [beside]
    return [Listing("\n".join(lines), beside if program else "")] if any(lines) else []


def seed_listing(event: CallEvent, shapes: str) -> Listing:
    """The weights, and the shapes of what the program begins with, where nothing else says them."""
    return Listing(f"{event.letter} = {event.seed}{event.weights}", shapes, column=0, runs=False)


def cotangent_meaning(event: CallEvent) -> str:
    """What v_name is: a derivative of the output, or of the number that the weights make of it."""
    if event.weights:
        return "∂L/∂name" if event.weights.startswith(": L = ") else "the gradient of name"
    return f"∂{event.told.end}/∂name" if event.told.end else "the gradient of name"


def shorten_program(event: CallEvent, lit: bool) -> list[str]:
    """The program alone, shortened in the middle."""
    told, most = event.told.forward, PAGE if lit else LONGEST
    return list(told) if 0 < len(told) <= most else elide_lines(event.program, most)


def write_roles(event: CallEvent) -> str:
    """What the program begins with and ends in."""
    return "   ".join(event.roles) if len(event.roles) <= HANDFUL else f"{len(event.roles)} tensors"


def write_inputs(event: CallEvent) -> str:
    """The shapes of what the program begins with; leaves, if there are many, stand in the table alone."""
    given = list(event.roles[:-1])
    if len("   ".join(given)) > SHORT:
        given = [role for role in given if not role.endswith((" (leaf)", " (differentiated)"))]
    return count_noun(len(given), "input") if len(given) > HANDFUL else "   ".join(given)


def is_long_program(event: CallEvent) -> bool:
    """Whether a program is too long to be told line by line, or has blocks that repeat."""
    lines = len(event.told.forward)
    return lines > PAGE or len(event.told.ahead()) <= lines - REPEATED


def forward_code_lines(event: CallEvent) -> list[CodeLine]:
    """The program in as many lines as have a cotangent, with their shapes; one with too many by its blocks."""
    told, source = event.told, event.told.source
    if source is None:
        return []
    pairs = told.ahead() if is_long_program(event) else [*zip(told.forward, source.forward, strict=True)]
    if len(pairs) > MOST:
        return [CodeLine(line) for line in elide_lines(event.program, PAGE)]
    made = source_places(event)
    shapes = [format_step_shape(line.shape) if line is not None and line.shape is not None else "" for _, line in pairs]
    return [make_code_line(text, line, made, shape) for (text, line), shape in zip(pairs, shapes, strict=True)]


def backward_code_lines(event: CallEvent, lit: bool) -> list[CodeLine]:
    """The lines from the output back; those of many leaves stand among them, those of a few in the table.

    On a page that is ``lit`` those of a few stand at the end as well.
    """
    told, source = event.told, event.told.source
    if source is None:
        return []
    if is_long_program(event) or (len(event.leaves) > MANY and not lit):
        opened = is_long_program(event) and len(told.ahead()) > MOST
        pairs = [(name_returned_gradient(text, line, event), line) for text, line in told.every(opened)]
    else:
        pairs = [(line.shown, line) for line in source.lines if line.is_told and (lit or line.shown in told.lines)]
        pairs += [*gradient_lines(event, source)] if lit else []
    found, made = dict(pairs), source_places(event)
    return [make_code_line(text, found.get(text), made) for text in elide_lines([text for text, _ in pairs], MOST)]


def gradient_lines(event: CallEvent, source: Lines) -> Iterator[tuple[str, Line | None]]:
    """The lines of the gradients that are shown, where they have one."""
    asked = {leaf.name for leaf in event.leaves}
    for line in source.gradients.values():
        label = line.name.removesuffix(".grad")
        form = event.told.forms.get(label, line.text)
        if label in asked and form is not None:
            yield f"{line.name} = {form}", line


def name_returned_gradient(text: str, line: Line | None, event: CallEvent) -> str:
    """A gradient's line where it is handed back: nothing is put into any ``.grad``."""
    if event.kind != "grad" or line is None or not line.name.endswith(".grad"):
        return text
    return f"{event.told.letter(event.letter)}_{line.name.removesuffix('.grad')}{text.removeprefix(line.name)}"


def source_places(event: CallEvent) -> dict[str, SourceLine | None]:
    """The user's lines that forward lines stand for, by what these compute."""
    lines = () if event.told.source is None else event.told.source.forward
    return {line.of: where for line, where in zip(lines, event.told.places, strict=True)}


def make_code_line(text: str, line: Line | None, made: Mapping[str, SourceLine | None], shape: str = "") -> CodeLine:
    """One line, with what it can light; what is said of several lights nothing."""
    if line is None:
        return CodeLine(text)
    name = line.of or line.name
    return CodeLine(text, shape, name, name, " ".join(sorted(line.names)), made.get(line.of))


# The leaves -----------------------------------------------------------------------------------------------


def leaf_blocks(event: CallEvent) -> Iterator[Block]:
    """One row for each leaf; more than a dozen are summed up, but for those that disagree."""
    if not event.leaves:
        yield Remarks((explain_no_leaf(event),))
    elif len(event.leaves) <= MANY:
        several = len(event.leaves) > HANDFUL
        told_above = is_long_program(event) and bool(event.told.lines)
        yield leaf_table(event, event.leaves, several and (told_above or not any(leaf.form for leaf in event.leaves)))
        if several:
            yield Paragraph((summarize_leaves(event).partition(f", {event.letter} =")[0],), aside=True)
    else:
        yield from wrong_leaf_blocks(event)
        one = Setting("run", value="--only NAME")
        said = [] if event.agrees else [summarize_leaves(event)]
        yield Remarks((*said, *leaf_summary_lines(event), f"({one} shows one of them, with its formula)"))


def wrong_leaf_blocks(event: CallEvent) -> list[Block]:
    """The first of the leaves that differ from torch, where there are any."""
    return [] if event.agrees else [leaf_table(event, event.wrong[:NAMED], bare=True)]


def explain_no_leaf(event: CallEvent) -> str:
    """What is said of a call without a leaf."""
    if event.left_out:
        return f"no leaf of that name is reached; reached are {list_names(event.left_out)}"
    if event.kind == "grad":
        return "none of the requested tensors is reached"
    return "no leaf is reached: nothing is added to any .grad"


def leaf_table(event: CallEvent, leaves: Sequence[Leaf], bare: bool) -> Table:
    """The leaves; a ``bare`` table has no formulas."""
    grad = event.kind == "grad"
    after = "returned" if grad else ".grad before + added = after"
    head: tuple[Words, ...] = ((), ("J",), (f"{event.letter}ᵀJ",), (after,), ())
    full, brief = (tuple(leaf_cells(leaf, grad, once) for leaf in leaves) for once in (bare, True))
    whole = Table(head, full, 3, brief)
    return whole if not bare else Table(without_formula(head), tuple(map(without_formula, full)), 2)


def without_formula(cells: tuple[Words, ...]) -> tuple[Words, ...]:
    """A row without its formula."""
    return (*cells[:2], *cells[3:])


def leaf_cells(leaf: Leaf, grad: bool, once: bool) -> tuple[Words, ...]:
    """One leaf."""
    form: Words = (Code(leaf.form),) if leaf.form else ()
    return (Code(leaf.name),), (leaf.jacobian,), form, (grad_change(leaf, grad, once),), (format_agreement(leaf),)


def grad_change(leaf: Leaf, grad: bool, once: bool) -> str:
    """What stood in ``.grad``, what was added, what stands there now: ``once``, where nothing stood there."""
    before, added, after = map(format_array, (leaf.before, leaf.added, leaf.after))
    if leaf.rounding:
        added = "0, up to rounding"
    if grad:
        return added
    if leaf.before is not None:
        return f"{before}  +  {added}  =  {after}"
    same = leaf.rounding or (added == after and (once or leaf.added.size > FEW))
    return f"none  +  {added}" if same else f"none    {added}  {after}"


def format_agreement(leaf: Leaf) -> str:
    """How the derived vᵀJ compares with what torch did."""
    if leaf.changed:
        return f"{'changed' if leaf.after is not None else 'set to None'} by {leaf.changed}"
    if leaf.agrees is False:
        return f"≠ torch (off by {leaf.error:.2g})"
    if leaf.ruled:
        return "≠ torch: torch has its own rule"
    if leaf.none:
        return "torch: None"
    if leaf.agrees is None:
        return NOT_CHECKED
    if not leaf.undefined:
        return "= torch"
    what = leaf.lost or ("torch overflows" if leaf.overflows else "undefined here")
    count = leaf.added.size  # of a complex tensor both parts count
    return what if leaf.undefined == count else f"= torch, {leaf.undefined} of {count} {what}"


# The end --------------------------------------------------------------------------------------------------


def closing_text(session: Session) -> str:
    """What is said at the end: calls that were only counted, whether anything disagreed, or that nothing was called."""
    jacobians = any(isinstance(event, Note) and event.more for event in session.events)
    if not (session.calls or session.counted or jacobians):
        return "no backward() or grad() ran: there is nothing to explain\n"
    lines = []
    for line, count in session.counted.items():
        checked = [str(call.number) for call in session.calls if call.where.short == line]
        several = [*checked[:NAMED], "…", *checked[-2:]] if len(checked) > NAMED + 3 else checked
        told = f"; calls {', '.join(several)} were checked" if len(checked) > 1 else ""
        asked = Setting("run", value="--call N")
        known, other = session.counting.get(line, ("", ""))
        lines.append(
            f"{line}: {count_noun(count, 'further call')}{known}, counted only ({asked} explains one){told}{other}"
        )
    wrong = [call for call in session.calls if not call.agrees]
    derived = [call for call in wrong if any(not leaf.boxed for leaf in call.wrong)]
    if derived:
        lines.append(f"torch disagrees with the derivation in call {', '.join(str(c.number) for c in derived)}")
    others = [str(c.number) for c in wrong if c not in derived]
    if others:
        lines.append(
            f"an operation that is not derived returns another gradient when it runs again, in call {', '.join(others)}"
        )
    return "".join(f"{line}\n" for line in lines)


def legend_text(session: Session) -> str:
    """What the columns are, said once, at the end."""
    told = [leaf for call in session.calls if call.explained and not call.failure for leaf in call.leaves]
    failed = [call for call in session.calls if any("J" in reason for reason in call.reasons)]
    if not told and not failed:
        return ""
    shown = [call for call in session.calls if call.explained and not call.failure] or failed
    letters = dict.fromkeys(call.letter for call in shown)
    sums = " or ".join(f"{letter}ᵀJ" for letter in letters)
    weighs = f"{' or '.join(letters)} weighs the rows; they add up to {sums}, which backward adds to .grad."
    lines = [ROWS, weighs, *([EQUAL] if any(leaf.agrees for leaf in told) else [])]
    lines += [OWN] if any(leaf.boxed for leaf in told) else []
    return "".join(f"{line}\n" for line in lines)
