"""What is said of a gradient at a point where something is not finite: the same in every section of the page.

Comes in: the `Singular` of a gradient. Goes out: paragraphs. A derivative that exists and is lost on the way (0·∞) is
one thing, a derivative that does not exist another, and neither is a disagreement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from symgrad.explanation import Gradient, Singular
from symgrad.explanation.notable import nothing_by_nothing
from symgrad.numeric import Array
from symgrad.program import Apply
from symgrad.render import numbers
from symgrad.render.content.teller import Teller
from symgrad.render.content.words import listed
from symgrad.render.page import Block, Code, Paragraph, Words

MOST = 4
"""Places that are named."""


def singular_blocks(teller: Teller, gradient: Gradient) -> Iterator[Block]:
    """The entries whose derivative the steps lose, and those that have none."""
    met = gradient.singular
    if met is None:
        return
    if met.lost.any():
        yield Paragraph(_lost(teller, gradient, met), alarm=True)
    if met.torch is not None and met.lost_by_torch.any():
        where = [tuple(int(i) for i in at) for at in np.argwhere(met.lost_by_torch)]
        yield Paragraph(
            teller.say(
                "At {at} the derivative is {value}, which torch loses on its way: its steps give {torch}.",
                at=places(gradient.name, where),
                value=_numbers(met.steps[met.lost_by_torch]),
                torch=_numbers(met.torch[met.lost_by_torch]),
            ),
            alarm=True,
        )
    if met.undefined.any():
        yield Paragraph(_undefined(teller, gradient, met), alarm=True)


def rows_without_value(teller: Teller, gradient: Gradient) -> Iterator[Block]:
    """Said beside J: the rows of outputs without a value hold nothing that means anything."""
    met = gradient.singular
    if met is None or not met.without_value or not met.undefined.any():
        return
    rows = places(teller.program.output, met.without_value)
    yield Paragraph(
        teller.say(
            "{rows} {have} no finite value here. Where there is no value there is no derivative: what stands in "
            "{that} of {J} is only what the arithmetic makes of it.",
            rows=rows,
            have="has" if len(met.without_value) == 1 else "have",
            that="that row" if len(met.without_value) == 1 else "those rows",
        )
    )


def _lost(teller: Teller, gradient: Gradient, met: Singular) -> Words:
    """At x[0] the derivative is 1; the steps give nan, and where."""
    where = [tuple(int(i) for i in at) for at in np.argwhere(met.lost)]
    values = met.standing.mathematics[met.lost]
    steps = made_of(met, met.lost)
    born = next((b for b in met.births if b.of_nothing), next(iter(met.births), None))
    why: Words = (".",)
    if born is not None:
        by_nothing = ": going back through {step} a weight of 0 meets a slope that is not finite, and 0·∞ is nan."
        alone = ": the slope of {step}, as its formula has it, comes out not finite."
        why = teller.say(by_nothing if born.of_nothing else alone, step=_step(teller, born.step))
    return (
        *teller.say(
            "At {where} the derivative is {value}. ", where=places(gradient.name, where), value=_numbers(values)
        ),
        *teller.say("The program's steps give {steps} there", steps=steps),
        *why,
    )


def _undefined(teller: Teller, gradient: Gradient, met: Singular) -> Words:
    """At x[0] there is no derivative, why, and what the arithmetic makes of it."""
    where = [tuple(int(i) for i in at) for at in np.argwhere(met.undefined)]
    why: Words = ()
    if met.standing.void.any() and met.without_value:
        why = teller.say(
            ", because {rows} {have} no finite value",
            rows=places(teller.program.output, met.without_value),
            have="has" if len(met.without_value) == 1 else "have",
        )
        cause = nothing_by_nothing(gradient.program, gradient.values)
        why = (*why, *((f": {cause}",) if cause else ()))
    elif met.births:
        why = teller.say(": the slope of {step} is infinite or undefined there", step=_step(teller, met.births[0].step))
    return (
        *teller.say("Undefined here: at {where} there is no derivative", where=places(gradient.name, where)),
        *why,
        *teller.say(". The arithmetic makes {steps} of it.", steps=made_of(met, met.undefined)),
    )


def made_of(met: Singular, where: Array) -> str:
    """nan, as torch's do; or both numbers."""
    ours = _numbers(met.steps[where])
    if met.torch is None:
        return ours
    same = np.array_equal(met.steps[where], met.torch[where], equal_nan=True)
    return f"{ours} (torch's, too)" if same else f"{ours} (torch's: {_numbers(met.torch[where])})"


def _numbers(values: Array) -> str:
    """One number if all are the same, else the first ones."""
    texts = [numbers.text(v) for v in values.reshape(-1)]
    if len(set(texts)) == 1:
        return texts[0]
    return ", ".join(texts[:MOST]) + (", …" if len(texts) > MOST else "")


def places(name: str, where: Sequence[tuple[int, ...]]) -> Words:
    """x[0], x[1] and 7 more."""
    shown: list[Words] = [(Code(f"{name}[{','.join(map(str, at))}]" if at else name),) for at in where[:MOST]]
    if len(where) > MOST:
        shown.append((f"{len(where) - MOST} more",))
    return listed(shown)


def _step(teller: Teller, step: Apply) -> Code:
    """A step as the user wrote it."""
    return Code(teller.code(step) or step.called)
