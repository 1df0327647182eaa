"""The lines of code that a page opens with, in the room that there is: nothing is read that is not said.

Comes in: the lines of a backward and the forms of its gradients, and the room. Goes out: lines, each of whose names is
the user's, defined by another line here, or named in words with the place where it is.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from symgrad.backward import LONG, Backward, Line
from symgrad.closed_form.form import assign_form
from symgrad.explanation import Explanation
from symgrad.explanation.notable import join_with_and
from symgrad.indexing.symbols import mentions
from symgrad.language.pasted_script import ASKS, FLAG, PARAMETERS, strip_console_prompts
from symgrad.program import UNNAMED, Program
from symgrad.render.content.forward import ERROR
from symgrad.render.content.speaker import speaker_of
from symgrad.render.content.teller import Teller, gradient_formula
from symgrad.render.page import Block, Code, EquationRow, Listing, Paragraph, Words

SHORT, SHORTER, LESS = 56, 110, 0.8
"""Characters of a gradient in the inputs alone: of a short one, and of one so much shorter than the lines."""


@dataclass(frozen=True)
class Room:
    """How many lines there is room for, and where the others are."""

    lines: int = 9
    others: str = "in section 4"

    def without(self, lines: int) -> Room:
        """What is left of it."""
        return Room(self.lines - lines, self.others)


OPENING, ALONE = Room(), Room(40, "in section 4 of the whole page")
"""Before everything else; and where nothing follows."""


def short_forms(forms: Mapping[str, str | None], lines: Backward, room: Room) -> tuple[tuple[str, ...], bool]:
    """Each gradient in the inputs alone, where all of them are short; and whether some had to go elsewhere."""
    if not all(form is not None and "; " not in form for form in forms.values()):
        return (), False
    longest = max(len(str(form)) for form in forms.values())
    if longest > SHORT and not (longest <= SHORTER and are_forms_shorter(lines, [*map(str, forms.values())])):
        return (), False
    texts = tuple(assign_form(f"{name}.grad", str(form))[0] for name, form in forms.items())
    if len(texts) <= room.lines:
        return texts, False
    return (*texts[: room.lines - 1], f"… and {len(texts) - room.lines + 1} more lines, {room.others}"), True


def with_constants(told: Sequence[str], lines: Backward) -> tuple[str, ...]:
    """Lines of code, and below them what a constant is that they read."""
    read = set(re.findall(r"(?<![\w.])[^\W\d]\w*", " ".join(line.partition("=")[2] for line in told)))
    return (*told, *(f"  with {name} = {own.code}" for name, own in lines.constants.items() if name in read))


def are_forms_shorter(lines: Backward, forms: Sequence[str]) -> bool:
    """Whether forms are a good deal shorter than the lines, and the user gave none of these a name."""
    told = [*lines.gradients.values(), *lines.lines]
    told += forward_lines_read(lines, told, frozenset({lines.source.output}))
    if not all(line.of in lines.gradients or UNNAMED.fullmatch(line.of) for line in told):
        return False
    spoken = sum(len(line.shown) for line in told)
    return any(line.text is None for line in told) or sum(map(len, forms)) < LESS * spoken


def formulas_instead(explanation: Explanation, teller: Teller) -> Iterator[tuple[str, EquationRow]]:
    """The index formula of each gradient that has no line, or one too long to be read, where that is short.

    It may not read what stands inside an opened step: nothing here says what that is.
    """
    inside, teller = inside_opened(explanation.program), replace(teller, names=replace(teller.names, definitions=()))
    for name in explanation.backward.gradients:
        sweep = explanation.gradients[name].sweep
        unsaid = any(mentions(sweep.equation.right, tensor) for tensor in inside)
        if sweep.whole and not unsaid and not has_readable_lines(explanation.backward, name):
            names = teller.names.inner(sweep.equation.axes)
            formula, left = gradient_formula(teller, f"{name}.grad", sweep.equation, names)
            if formula.fits(LONG):
                yield name, EquationRow((left, formula))


def has_readable_lines(lines: Backward, name: str) -> bool:
    """Whether a gradient has a line that can be read, and so has each cotangent that it reads."""
    line = lines.gradients[name]
    return (
        line.text is not None
        and len(line.text) <= LONG
        and all(n.text is not None and len(n.text) <= LONG for n in lines.needed(name))
    )


def opening_lines(lines: Backward, program: Program, wanted: Sequence[str], room: Room) -> tuple[tuple[str, ...], bool]:
    """The line of each gradient that is wanted, then what they read; and whether some had to go elsewhere.

    Tensors of ``program`` with names of their own are the reader's; those inside an opened step (x̂, P) are said here.
    """
    said = [lines.gradients[name] for name in wanted]
    if all(line.text is None for line in said):
        return (), False
    needed = {line.target for name in wanted for line in lines.needed(name)}
    told = [line for line in lines.lines if line.target in needed]
    found = forward_lines_read(lines, (*said, *told), user_named_tensors(program) - inside_opened(program))
    every = [line for line in (*said, *told, *found) if line.text is not None]
    unsaid = [*without_line([line.name for line in (*said, *told) if line.text is None], room)]
    unsaid += found_ahead([line.name for line in found if line.text is None])
    kept = every if len(every) + bool(unsaid) <= room.lines else every[: room.lines - 1]
    texts = [line.shown if line in said else f"  with {line.shown}" for line in kept]
    words = [*remaining_lines_words(kept, every[len(kept) :], room), *unsaid]
    return (*texts, *((f"  {'; '.join(words)}",) if words else ())), len(kept) < len(every)


def inside_opened(program: Program) -> frozenset[str]:
    """The tensors with a name inside an opened step: its steps all have its place, only the last is the reader's."""
    last = {step.span: step.result.name for step in program.steps}
    inside = {s.result.name for s in program.steps if s.span is not None and last[s.span] != s.result.name}
    return user_named_tensors(program) & inside


def user_named_tensors(program: Program) -> frozenset[str]:
    """The tensors with a name that is more than a number."""
    return frozenset(tensor.name for tensor in program.tensors() if not UNNAMED.fullmatch(tensor.name))


def forward_lines_read(lines: Backward, readers: Iterable[Line], known: frozenset[str]) -> list[Line]:
    """The lines of the forward pass that others read, in order, but for those of tensors that the user named."""
    read, found = set[str]().union(*(line.names for line in readers)), list[Line]()
    for line in reversed(lines.forward):
        if line.target in read - known:
            found.insert(0, line)
            read |= line.names
    return found


def remaining_lines_words(kept: Sequence[Line], rest: Sequence[Line], room: Room) -> Iterator[str]:
    """How many more lines there are; what of them is read here is named."""
    if not rest:
        return
    read = set[str]().union(*(line.names for line in kept))
    named = [line.name for line in rest if line.target in read]
    many = f"{len(rest)} more line{'s' if len(rest) > 1 else ''}"
    yield f"… and {many}{f' with {join_with_and(named)}' if named else ''}, {room.others}"


def without_line(unsaid: Sequence[str], room: Room) -> Iterator[str]:
    """What has no line of code: it is derived entry by entry."""
    if unsaid:
        has = "has" if len(unsaid) == 1 else "have"
        yield f"{join_with_and(unsaid)} {has} no line of code: see {room.others.removeprefix('in ')}"


def found_ahead(places: Sequence[str]) -> Iterator[str]:
    """What no line computes that a person would write: a choice that the operation made."""
    if places:
        yield f"{join_with_and(places)} {'is' if len(places) == 1 else 'are'} computed in the forward pass"


GRADIENT = "gradient computation"
"""What torch's words have when backward raises, and not a line before it."""


def raised_first(explanation: Explanation) -> Iterator[Block]:
    """What torch raises when a script that was pasted runs, and where; or that the script has no backward."""
    typed = "" if explanation.text is None else textwrap.dedent(strip_console_prompts(explanation.text.typed))
    try:
        body = ast.parse(typed).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # an index equation is no script
        return
    say, count = speaker_of(explanation.program), explanation.output.size
    calls = (node for part in body for node in ast.walk(part) if isinstance(node, ast.Call))
    call = next((c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == ASKS), None)
    if call is None:
        last = (ast.get_source_segment(typed, body[-1]) if body else "") or ""
        if any(word in typed and word not in last for word in (FLAG, PARAMETERS[0])):
            yield say.paragraph("This script has no `backward()`: running it computes no gradient. Below is what "
                                "`out.backward(v)` would compute.")  # fmt: skip
        return
    seeds = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "gradient")]
    if not explanation.refused and (count == 1 or any(getattr(seed, "value", seed) is not None for seed in seeds)):
        return
    back = not explanation.refused or GRADIENT in explanation.refused  # else an earlier line raises
    line = typed.split("\n")[call.lineno - 1].strip()
    where: Words = (f" at line {call.lineno}, ", Code(line)) if back else ()
    yield Paragraph(("torch raises an error", *where, ":"), alarm=True)
    yield Listing(f"RuntimeError: {explanation.refused}" if explanation.refused else ERROR)
    if explanation.refused:
        yield Paragraph(("What would do: ", Code(f'symgrad errors "{explanation.refused.strip()}"'), "."))
        return
    yield say.paragraph(
        "`out` has {count} elements. What would do: `out.sum().backward()`, which weighs them all by 1, or "
        "`out.backward(v)` with a weight for each. Below is what that computes.", count=count,
    )  # fmt: skip
