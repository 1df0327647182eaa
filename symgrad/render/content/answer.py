"""The answer, before anything is derived: each gradient as a line of code, whether torch agrees, what is special here.

    x.grad = v_S @ k / 2
    with v_S = P * (v_P - (v_P * P).sum(-1, keepdim=True))
    Equal to torch 2.13.0 in every entry.

Comes in: an explanation. Goes out: at most nine lines of code, and what is to be known here. What is said was tested:
a line is proven, a sentence holds here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from symgrad.backward import Backward
from symgrad.calculus import flows
from symgrad.explanation import Explanation, Gradient
from symgrad.explanation.notable import (
    describe_broadcast_pairs,
    describe_mean,
    describe_repeated_picks,
    find_broadcast_pairs,
    find_means,
    gradients_without_detach,
    join_with_and,
)
from symgrad.numeric import as_float, without_fractions
from symgrad.ops.lookup import has_role
from symgrad.oracles.comparisons import NO_GRADIENT, REFUSES, TURNED, Check, CheckVerdict, TextOutcome
from symgrad.program import UNNAMED, Program, Role, Stated
from symgrad.render import numbers
from symgrad.render.content.first_lines import (
    Room,
    formulas_instead,
    found_ahead,
    opening_lines,
    short_forms,
    with_constants,
)
from symgrad.render.content.singular_words import singular_blocks, why_zero
from symgrad.render.content.speaker import join_words, speaker_of
from symgrad.render.content.teller import Teller
from symgrad.render.page import Block, Code, EquationRow, Equations, Formula, Listing, Paragraph, Words

if TYPE_CHECKING:
    from symgrad.explanation.kinks import Tie

MOST_SAID = 160
"""Characters of the calls that are said to have been run."""
MOST_NUMBERS = 6
"""Entries of a gradient that are written into a sentence."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What a page opens with: ``lines`` of code, what torch says, and ``special``, the one thing to know here.

    ``cut`` is whether there are more lines, ``by_line`` whether they are those of the backward; ``formulas`` are those
    of gradients whose line is too long to be read, and ``places`` say which of their letters the forward pass found.
    ``zeros`` say for each gradient that is 0 why, ``kinks`` are sentences; of these ``told`` are the special thing.
    """

    lines: tuple[str, ...]
    cut: bool
    by_line: bool
    formulas: tuple[EquationRow, ...]
    places: tuple[Paragraph, ...]
    agreement: Words
    special: Words
    zeros: Mapping[str, Words]
    kinks: tuple[Words, ...]
    told: Words

    def blocks(self) -> Iterator[Block]:
        """The lines, and below them what torch says and the one thing that is special here."""
        if self.lines:
            yield Listing("\n".join(self.lines))
        if self.formulas:
            yield Equations(self.formulas)
            yield from self.places
        if self.agreement or self.special:
            yield Paragraph((*self.agreement, *((" ",) if self.agreement and self.special else ()), *self.special))

    def rest(self, name: str) -> Iterator[Block]:
        """Why one gradient is 0, where the opening does not say it."""
        if name in self.zeros and self.zeros[name] != self.told:
            yield Paragraph(self.zeros[name])


def answer_of(explanation: Explanation, teller: Teller, room: Room) -> Answer:
    """Everything that a page opens with, worked out once, in the ``room`` that there is for lines of code."""
    zeros = why_zero(explanation, teller)
    kinks = tuple((kink_sentence(explanation, tie, teller),) for tie in explanation.kinks)
    moving, cut_off = [
        [words for name, words in zeros.items() if flows(explanation.program, name) is able] for able in (True, False)
    ]
    told = next(iter((*kinks, *moving, *cut_off)), ())
    special = (
        ((f"{explanation.out_of_range}.",) if explanation.out_of_range else ())
        or undefined_sentence(explanation, teller)
        or _declared(explanation)
        or _torchs_rule(explanation)
    )
    special = special or _cancelled(explanation) or _paired(explanation, teller) or told
    told = told if special == told else ()
    special = special or _divided(explanation) or _shared(explanation)
    forms = {name: gradient.closed_form for name, gradient in explanation.gradients.items()}
    lines, cut = short_forms(forms, explanation.backward, room)
    by_line = not lines
    formulas = dict[str, EquationRow]()
    if not lines:
        formulas = dict(islice(formulas_instead(explanation, teller), room.lines - 1))
        wanted = [name for name, g in explanation.gradients.items() if name not in formulas and not nothing_left(g)]
        lines, cut = opening_lines(
            explanation.backward, explanation.program, wanted, room.without(len(formulas) + bool(formulas))
        )
    places = tuple(found_places(teller, tuple(formulas.values())))
    agreement = _agreement(explanation)
    lines = with_constants(lines, explanation.backward)
    return Answer(lines, cut, by_line, tuple(formulas.values()), places, agreement, special, zeros, kinks, told)


def nothing_left(gradient: Gradient) -> bool:
    """Whether a line would be 0 only because nothing is left of the formula at 0/0: there is no derivative."""
    met = gradient.singular
    return met is not None and gradient.jacobian.formula == 0 and bool(met.undefined.any())


def kink_sentence(explanation: Explanation, tie: Tie, teller: Teller) -> str:
    """A kink that the numbers stand on."""
    program = explanation.program
    total = program.output if explanation.output.size == 1 else f"Σ {program.seed}·{program.output}"
    step = teller.code(tie.step) or tie.step.called if tie.whole else tie.step.called
    return f"{tie.says(name_in_sentence(explanation, tie.name, teller), step, total)}."


def name_in_sentence(explanation: Explanation, name: str, teller: Teller) -> str:
    """What a tensor is called in a sentence: one without a name by its code."""
    made = (step for step in explanation.program.steps if step.result.name == name)
    code = teller.code(next(made)) if UNNAMED.fullmatch(name) else None
    return f"({code})" if code else name


def found_places(teller: Teller, formulas: Sequence[EquationRow]) -> Iterator[Paragraph]:
    """What the letters of a formula stand for that are no tensors of the page."""
    said = [part for equation in formulas for part in equation.parts if isinstance(part, Formula)]
    read = dict(entry for formula in said for entry in teller.read_by(formula))
    found, sizes = [name for name, code in read.items() if not code], teller.sizes_in(said)
    words = [f"{name} is {code}" for name, code in read.items() if code]
    words += found_ahead(found)
    words += [f"here {', '.join(f'{size} = {teller.sizes[size]}' for size in sizes)}"] if sizes else []
    if words:
        yield Paragraph((f"({'; '.join(words)})",), aside=True, notation=True)


def line_by_line(lines: Backward) -> Iterator[Block]:
    """Forward and backward, one below the other."""
    forward, back = (
        [str(line) for line in part if line.text is not None] for part in (lines.forward, lines.statements)
    )
    yield Paragraph(("Line by line, each in the names of the lines before it:",))
    yield Listing("\n".join([*forward, "", *back]))


def _agreement(explanation: Explanation) -> Words:
    """Equal to torch, where torch was asked about every gradient and agrees; else what it refused to compute."""
    asked = explanation.asked
    data = [name for name in explanation.gradients if asked is not None and name in asked.data]
    checks = [_by_torch(gradient) for name, gradient in explanation.gradients.items() if name not in data]
    if explanation.outcome in (TextOutcome.REFUSED, TextOutcome.UNDERIVED) and asked is not None:
        whole = explanation.outcome[:1].upper() + explanation.outcome[1:]
        who = "PyTorch rejects this code" if asked.refused else whole
        return (f"{who}: {(asked.refused or asked.refusal or NO_GRADIENT).rstrip('.')}.",)
    refused = [check.note for check in checks if check is not None and check.note.startswith(REFUSES)]
    if refused:
        return (f"Nothing is compared with torch, which refuses this: {refused[0].removeprefix(REFUSES).rstrip('.')}.",)
    made = [check for check in checks if check is not None and check.verdict is CheckVerdict.AGREES]
    if not made or len(made) < len(checks):
        return ()
    worst = max(check.max_error or 0.0 for check in made)
    far = "" if worst == 0 else f" (largest difference {f'{worst:.0e}'.replace('e-0', 'e-')})"
    lost = sum(_lost_by_torch(explanation, name) for name in explanation.gradients)
    but = f" but {lost}, where torch has no number" if explanation.out_of_range else " but those that follow"
    where = ", except for the signs of some vectors" if any(c.note == TURNED for c in made) else " in every entry"
    read = explanation.outcome is TextOutcome.AS_READ or (asked is not None and bool(asked.unread))
    none: Words = (
        (", but for ", *join_words([(Code(name),) for name in data]), ": torch has no derivative with respect to that")
        if data
        else ()
    )
    ran: Words = (", as symgrad reads it: ", *_ran(explanation)) if read else ()
    return (f"Equal to torch {explanation.torch_version}{where}{but if lost else ''}{far}", *none, *ran, ".")


def _ran(explanation: Explanation) -> Words:
    """What torch ran in place of the text: the equation, or the calls that were read."""
    asked, stated = explanation.asked, [s.op.text for s in explanation.program.steps if isinstance(s.op, Stated)]
    if asked is not None and asked.kept:
        return (f"{join_with_and([f'{word}()' for word in asked.kept])} keeps all digits",)
    lines = [str(line) for line in explanation.backward.forward if line.text is not None]
    told = explanation.expression if stated else "; ".join(lines)
    return (Code(told),) if len(told) <= MOST_SAID else (f"{len(lines)} steps",)


def _lost_by_torch(explanation: Explanation, name: str) -> int:
    """In how many entries torch has no number where there is a derivative, or what was derived is a number."""
    gradient = explanation.gradients[name]
    met, asked = gradient.singular, explanation.asked
    torchs = None if asked is None else asked.gradients.get(name)
    if torchs is None:
        return 0
    there = np.isfinite(as_float(gradient.value)) if met is None else ~met.undefined
    return int((there & ~np.isfinite(torchs)).sum())


def _by_torch(gradient: Gradient) -> Check | None:
    """What torch's own backward said."""
    return next((check for check in gradient.checks if check.oracle.startswith("out.backward")), None)


def undefined_sentence(explanation: Explanation, teller: Teller) -> Words:
    """A derivative that there is not, or that the steps lose."""
    for name, gradient in explanation.gradients.items():
        words = next((b.words for b in singular_blocks(teller, gradient) if isinstance(b, Paragraph)), None)
        if words is not None:
            met, rest = gradient.singular, {n: g.singular for n, g in explanation.gradients.items() if n != name}
            others = [n for n, own in rest.items() if met is not None and own is not None and met.like(own)]
            same = (" The same goes for ", *join_words([(Code(n),) for n in others]), ".") if others else ()
            return (*words, *same)
    return ()


def _torchs_rule(explanation: Explanation) -> Words:
    """Where torch's backward is no derivative of its forward pass."""
    checks = (_by_torch(gradient) for gradient in explanation.gradients.values())
    return next(((f"{check.note}.",) for check in checks if check is not None and check.own_rule), ())


def _cancelled(explanation: Explanation) -> Words:
    """Where digits are lost that decide."""
    checks = (check for gradient in explanation.gradients.values() for check in gradient.checks)
    return next(((f"{check.note[:1].upper()}{check.note[1:]}.",) for check in checks if check.cancelled), ())


def _declared(explanation: Explanation) -> Words:
    """What detach leaves out."""
    names = tuple(explanation.gradients)
    for name, real in gradients_without_detach(
        explanation.program, explanation.values, explanation.seed, names
    ).items():
        declared = explanation.gradients[name].value
        say = speaker_of(explanation.program)
        if np.size(real) > MOST_NUMBERS:
            return say("`detach` drops one use of `{name}` from its gradient.", name=name)
        both = (" ".join(map(numbers.text, without_fractions(array).reshape(-1))) for array in (declared, real))
        words = "`detach` drops one use of `{name}`: backward gives {declared}, the full derivative is {real}."
        return say(words, name=name, declared=next(both), real=next(both))
    return ()


def _paired(explanation: Explanation, teller: Teller) -> Words:
    """A loss that compares every prediction with every target."""
    found = find_broadcast_pairs(explanation.program.steps, lambda name: np.shape(explanation.values[name]))
    for step, *sides in found:
        one, other = ((name_in_sentence(explanation, name, teller), shape) for name, shape in sides)
        return (f"{describe_broadcast_pairs(step, one, other)}.",)
    return ()


def _divided(explanation: Explanation) -> Words:
    """A mean on the way, and by what it divides."""
    relevant = explanation.program.relevant
    found = [(s, n) for s, n in find_means(explanation.program, explanation.values) if s.result.name in relevant]
    if len(found) == 1:
        return (f"{describe_mean(*found[0], explanation.program, explanation.values)}.",)
    return ()


def _shared(explanation: Explanation) -> Words:
    """A gradient that is used several times, or one that is broadcast."""
    say = speaker_of(explanation.program)
    for name, gradient in explanation.gradients.items():
        if len(gradient.sweep.uses) > 1:
            count = len(gradient.sweep.uses)
            every = uses_of(explanation.program, name, count)
            words = "`{name}` is used {every} times: its gradient is the sum over these uses."
            if every > count:
                words = "`{name}` is used {every} times: its gradient is the sum over the {count} that have one."
            return say(words, name=name, every=every, count=count)
    again = next(
        describe_repeated_picks(
            explanation.program, explanation.values, explanation.seed, tuple(explanation.gradients)
        ),
        None,
    )
    if again is not None:
        return (f"{again}.",)
    names = [name for name in explanation.gradients if is_broadcast(explanation, name)]
    if names:
        are, its = ("is", "its") if len(names) == 1 else ("are", "their")
        told = join_words([(Code(name),) for name in names])
        words = "{told} {are} broadcast, so {its} gradient is the sum over all uses."
        return say(words, told=told, are=are, its=its)
    return ()


def uses_of(program: Program, name: str, sharing: int) -> int:
    """How often a tensor is read, ``sharing`` times of which something flows back; from a condition nothing does.

    A call that is several steps here reads it as often as the one of them that reads it most.
    """
    calls: dict[object, int] = {}
    for number, step in enumerate(program.steps):
        call = number if step.span is None else step.span
        calls[call] = max(calls.get(call, 0), step.tensors.count(name))
    return max(sharing, sum(calls.values()))


def is_broadcast(explanation: Explanation, name: str) -> bool:
    """Whether a tensor is read through copies of itself alone, and each holds more entries than it has."""
    readers = [step for step in explanation.program.steps if name in step.tensors]
    own = np.size(explanation.values[name])
    copied = (np.size(explanation.values[step.result.name]) > own for step in readers)
    return bool(readers) and all(has_role(step.op, Role.COPIES) for step in readers) and all(copied)
