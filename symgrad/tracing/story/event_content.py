"""An event as blocks of a page: program and backward, leaves compared with torch, remarks.

Comes in: one event of `symgrad.tracing.story.events`. Goes out: a `Section` for the writers of `symgrad.render`. A long
program is printed with repetitions folded, and so is its backward.
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
"""The most tensors whose shapes are listed."""
SHORT = 48
"""The most characters of a list of shapes that includes the leaves."""
REPEATED = 8
"""The least number of lines that folding must save in a program that is not long."""
PAGE = 40
"""The most lines of a program that are printed without folding."""
MOST = 80
"""The most lines of a folded program or backward; of a longer one the ends are printed."""
LONGEST = 12
"""The most lines of a program without backward lines; of a longer one the ends are printed."""


def event_section(event: CallEvent | Note, lit: bool = False) -> Section:
    """Return the section of an event, headed by the user's line; ``lit``: for a page with highlighting of lines."""
    return Section((f"{event.where.short}  ", Code(event_title(event))), tuple(event_blocks(event, lit)))


def event_title(event: CallEvent | Note) -> str:
    """Return the user's line that made the call."""
    return event.where.text or getattr(event, "kind", "")


def event_blocks(event: CallEvent | Note, lit: bool) -> Iterator[Block]:
    """Iterate over the blocks of an event."""
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
    """Return remarks as blocks, if there are any."""
    return [Remarks(tuple(items), alarm)] if items else []


def repeat_line(event: CallEvent) -> str:
    """Return the line of a call whose program was printed before: the differences and the result."""
    return f"call {event.number}: {', '.join(('the same program', *event.unlike))}; {summarize_leaves(event)}"


# The program and its backward -----------------------------------------------------------------------------


def program_blocks(event: CallEvent, lit: bool) -> Iterator[Block]:
    """Iterate over the blocks of forward and backward; of the program alone if there are no backward lines."""
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
    """Return the blocks of a program's lines and inputs, if there are any."""
    lines = program or [beside]
    return [Listing("\n".join(lines), beside if program else "")] if any(lines) else []


def seed_listing(event: CallEvent, shapes: str) -> Listing:
    """Return the line of the seed, with the shapes of the inputs."""
    return Listing(f"{event.letter} = {event.seed}{event.weights}", shapes, column=0, runs=False)


def cotangent_meaning(event: CallEvent) -> str:
    """Return the meaning of v_name: a derivative of the output, or of the scalar L."""
    if event.weights:
        return "∂L/∂name" if event.weights.startswith(": L = ") else "the gradient of name"
    return f"∂{event.told.end}/∂name" if event.told.end else "the gradient of name"


def shorten_program(event: CallEvent, lit: bool) -> list[str]:
    """Return the lines of the program, shortened in the middle."""
    told, most = event.told.forward, PAGE if lit else LONGEST
    return list(told) if 0 < len(told) <= most else elide_lines(event.program, most)


def write_roles(event: CallEvent) -> str:
    """Return the inputs and outputs of the program."""
    return "   ".join(event.roles) if len(event.roles) <= HANDFUL else f"{len(event.roles)} tensors"


def write_inputs(event: CallEvent) -> str:
    """Return the shapes of the inputs, without leaves if the list is long."""
    given = list(event.roles[:-1])
    if len("   ".join(given)) > SHORT:
        given = [role for role in given if not role.endswith((" (leaf)", " (differentiated)"))]
    return count_noun(len(given), "input") if len(given) > HANDFUL else "   ".join(given)


def is_long_program(event: CallEvent) -> bool:
    """Whether a program is too long to be printed line by line, or has repeated blocks."""
    lines = len(event.told.forward)
    return lines > PAGE or len(event.told.ahead()) <= lines - REPEATED


def forward_code_lines(event: CallEvent) -> list[CodeLine]:
    """Return a line for each forward tensor with a cotangent, with its shape; folded if there are many."""
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
    """Return the lines from the output back; gradients of many leaves are among them, those of few in the table.

    On a ``lit`` page those of few leaves follow at the end, too.
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
    """Iterate over the lines of printed gradients."""
    asked = {leaf.name for leaf in event.leaves}
    for line in source.gradients.values():
        label = line.name.removesuffix(".grad")
        form = event.told.forms.get(label, line.text)
        if label in asked and form is not None:
            yield f"{line.name} = {form}", line


def name_returned_gradient(text: str, line: Line | None, event: CallEvent) -> str:
    """Return a gradient's line for ``autograd.grad``, which returns it and fills no ``.grad``."""
    if event.kind != "grad" or line is None or not line.name.endswith(".grad"):
        return text
    return f"{event.told.letter(event.letter)}_{line.name.removesuffix('.grad')}{text.removeprefix(line.name)}"


def source_places(event: CallEvent) -> dict[str, SourceLine | None]:
    """Return the user's lines by the tensors that they compute."""
    lines = () if event.told.source is None else event.told.source.forward
    return {line.of: where for line, where in zip(lines, event.told.places, strict=True)}


def make_code_line(text: str, line: Line | None, made: Mapping[str, SourceLine | None], shape: str = "") -> CodeLine:
    """Return a line with the names that it highlights; a sentence about folded lines has none."""
    if line is None:
        return CodeLine(text)
    name = line.of or line.name
    return CodeLine(text, shape, name, name, " ".join(sorted(line.names)), made.get(line.of))


# The leaves -----------------------------------------------------------------------------------------------


def leaf_blocks(event: CallEvent) -> Iterator[Block]:
    """Iterate over blocks with a row for each leaf; many leaves are summarized, except those that disagree."""
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
    """Return a table of the first leaves that differ from torch, if there are any."""
    return [] if event.agrees else [leaf_table(event, event.wrong[:NAMED], bare=True)]


def explain_no_leaf(event: CallEvent) -> str:
    """Explain a call that reaches no leaf."""
    if event.left_out:
        return f"no leaf of that name is reached; reached are {list_names(event.left_out)}"
    if event.kind == "grad":
        return "none of the requested tensors is reached"
    return "no leaf is reached: nothing is added to any .grad"


def leaf_table(event: CallEvent, leaves: Sequence[Leaf], bare: bool) -> Table:
    """Return the table of leaves, without formulas if ``bare``."""
    grad = event.kind == "grad"
    after = "returned" if grad else ".grad before + added = after"
    head: tuple[Words, ...] = ((), ("J",), (f"{event.letter}ᵀJ",), (after,), ())
    full, brief = (tuple(leaf_cells(leaf, grad, once) for leaf in leaves) for once in (bare, True))
    whole = Table(head, full, 3, brief)
    return whole if not bare else Table(without_formula(head), tuple(map(without_formula, full)), 2)


def without_formula(cells: tuple[Words, ...]) -> tuple[Words, ...]:
    """Return a row without its formula."""
    return (*cells[:2], *cells[3:])


def leaf_cells(leaf: Leaf, grad: bool, once: bool) -> tuple[Words, ...]:
    """Return the cells of one leaf."""
    form: Words = (Code(leaf.form),) if leaf.form else ()
    return (Code(leaf.name),), (leaf.jacobian,), form, (grad_change(leaf, grad, once),), (format_agreement(leaf),)


def grad_change(leaf: Leaf, grad: bool, once: bool) -> str:
    """Write ``.grad`` before, the gradient added, and ``.grad`` after; ``once`` omits equal values."""
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
    """Write how torch's result compares with the derived vᵀJ."""
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
    """Return the closing lines: calls that were only counted, disagreements, or that nothing was called."""
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
    """Return the explanation of the table's columns, printed once at the end."""
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
