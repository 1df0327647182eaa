"""The sentences about a gradient that is not finite, and about one that is 0, the same for all reports.

Comes in: a gradient, its `Singular`, the explanation. Goes out: paragraphs. A derivative that exists and is lost on the
way (0·∞) is one thing, a derivative that does not exist another, and neither is a disagreement. A gradient is 0 because
J is, because the weights are, or because the weighted rows cancel out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from symgrad.calculus.propagation import flows
from symgrad.explanation import Explanation, Gradient
from symgrad.explanation.evidence import nonzero_places
from symgrad.explanation.notable import describe_zero_by_zero
from symgrad.explanation.singular import Nothing, Point, Singular, explain_zero
from symgrad.explanation.structure import why_nothing_flows
from symgrad.indexing.symbols import Expr
from symgrad.language.arguments import format_entry_name
from symgrad.numeric import Array, as_float, without_fractions
from symgrad.oracles.comparisons import NO_GRADIENT, NO_PATH
from symgrad.oracles.digits import LARGEST
from symgrad.program import UNNAMED, Apply
from symgrad.render import numbers
from symgrad.render.content.jacobian_matrix import COUNTABLE
from symgrad.render.content.speaker import join_words, speaker_of
from symgrad.render.content.teller import Teller
from symgrad.render.page import Block, Code, Paragraph, Words

if TYPE_CHECKING:
    from symgrad.explanation.reasons import Vanishing

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
        yield teller.say.paragraph(
            "At {at} the derivative is {value}, which torch loses on the way: its steps compute {torch}.",
            at=place_words(gradient.name, nonzero_places(met.lost_by_torch)),
            value=summarize_numbers(met.steps[met.lost_by_torch]),
            torch=summarize_numbers(met.torch[met.lost_by_torch]),
            alarm=True,
        )
    apart = met.undefined & ~met.standing.void if met.without_value else np.zeros_like(met.undefined)
    for where in (met.undefined & ~apart, apart):
        if where.any():
            yield Paragraph(undefined_entry_words(teller, gradient, met, where), alarm=True)
    if met.beyond.any():
        at = place_words(gradient.name, nonzero_places(met.beyond))
        told = "At {at} the derivative is larger than any float: it evaluates to {steps}."
        yield teller.say.paragraph(told, at=at, steps=made_of(met, met.beyond), alarm=True)


def rows_without_value(teller: Teller, gradient: Gradient) -> Iterator[Block]:
    """Said beside J: the rows of outputs without a value hold nothing that means anything."""
    met = gradient.singular
    if met is None or not met.without_value or not met.undefined.any():
        return
    rows = place_words(teller.program.output, met.without_value)
    yield teller.say.paragraph(
        "{rows} {have} no finite value here. Where there is no value there is no derivative: what stands in {that} "
        "of {J} is only what floating point evaluates to.",
        rows=rows,
        have="has" if len(met.without_value) == 1 else "have",
        that="that row" if len(met.without_value) == 1 else "those rows",
    )


def _lost(teller: Teller, gradient: Gradient, met: Singular) -> Words:
    """At x[0] the derivative is 1; the steps give nan, and where."""
    where = nonzero_places(met.lost)
    values = met.standing.mathematics[met.lost]
    steps = made_of(met, met.lost)
    births = met.born(met.lost)
    born = next((b for b in births if b.of_nothing), next(iter(births), None))
    why: Words = (".",)
    if born is not None:
        by_nothing = ": in the backward of {step} a weight of 0 meets a slope that is not finite, and 0·∞ is nan."
        alone = ": the formula for the slope of {step} is not finite."
        why = teller.say(by_nothing if born.of_nothing else alone, step=_step(teller, born.step))
    return (
        *teller.say(
            "At {where} the derivative is {value}. ",
            where=place_words(gradient.name, where),
            value=summarize_numbers(values),
        ),
        *teller.say("The program's steps compute {steps} there", steps=steps),
        *why,
    )


def undefined_entry_words(teller: Teller, gradient: Gradient, met: Singular, where: Array) -> Words:
    """At x[0] there is no derivative, why, and what the arithmetic makes of it."""
    why: Words = ()
    if met.standing.void[where].any() and met.without_value:
        why = teller.say(
            ", because {rows} {have} no finite value",
            rows=place_words(teller.program.output, met.without_value),
            have="has" if len(met.without_value) == 1 else "have",
        )
        cause = describe_zero_by_zero(gradient.program, gradient.values)
        why = (*why, *((f": {cause}",) if cause else ()))
    elif births := met.born(where):
        why = teller.say(", where the slope of {step} is infinite or undefined", step=_step(teller, births[0].step))
    return (
        *teller.say(
            "Undefined here: there is no derivative at {at}", at=place_words(gradient.name, nonzero_places(where))
        ),
        *why,
        *teller.say(". Floating-point arithmetic gives {steps}.", steps=made_of(met, where)),
    )


def made_of(met: Singular, where: Array) -> str:
    """nan, as torch's do; or both numbers."""
    ours = summarize_numbers(met.steps[where])
    if met.torch is None:
        return ours
    same = np.array_equal(met.steps[where], met.torch[where], equal_nan=True)
    return f"{ours} (in torch as well)" if same else f"{ours} (in torch: {summarize_numbers(met.torch[where])})"


def summarize_numbers(values: Array) -> str:
    """One number if all are the same, else the first ones."""
    texts = [numbers.text(v) for v in values.reshape(-1)]
    if len(set(texts)) == 1:
        return texts[0]
    return ", ".join(texts[:MOST]) + (", …" if len(texts) > MOST else "")


def place_words(name: str, where: Sequence[tuple[int, ...]]) -> Words:
    """x[0], x[1] and 7 more."""
    shown: list[Words] = [(Code(format_entry_name(name, at)),) for at in where[:MOST]]
    if len(where) > MOST:
        shown.append((f"{len(where) - MOST} more",))
    return join_words(shown)


def _step(teller: Teller, step: Apply) -> Code:
    """A step as the user wrote it."""
    return Code(teller.code(step) or step.called)


SMALL = 1e-6
"""Gradients above this are not 0, whatever the Jacobian."""

WITHOUT = {NO_PATH: "torch leaves it at None", NO_GRADIENT: NO_GRADIENT}
"""What torch has instead of a gradient, by the note of its check."""


def why_zero(explanation: Explanation, teller: Teller) -> dict[str, Words]:
    """Why gradients are 0, although J is not or because J is, and where; nothing for one that is not 0."""
    names = tuple(explanation.gradients)
    point = Point(explanation.program, explanation.values, names)

    @cache
    def vanishing() -> Vanishing:
        from symgrad.explanation.reasons import Vanishing

        return Vanishing(explanation.program, explanation.values, explanation.seed, names)

    told = {name: _why_one(explanation, g, teller, point, vanishing) for name, g in explanation.gradients.items()}
    return {name: words for name, words in told.items() if words}


def _why_one(
    explanation: Explanation, gradient: Gradient, teller: Teller, point: Point, vanishing: Callable[[], Vanishing]
) -> Words:
    value = as_float(gradient.value)
    if value.size == 0 or explanation.out_of_range or any(check.cancelled for check in gradient.checks):
        return ()
    if gradient.singular is not None or not np.isfinite(value).all():
        return ()  # said by `singular_blocks`
    rows, columns = gradient.jacobian.shape
    if rows == 0 or rows * columns > COUNTABLE:
        return ()
    small = np.abs(value).max() <= SMALL
    found = explain_zero(point, gradient.name, explanation.seed, gradient.value) if small else None
    if found is None and value.size <= LARGEST and point.truth.saturates:
        told = point.truth.beside(gradient.name, explanation.seed)  # 1 - out has few digits where out is nearly 1
        return (f"{told}.",) if told else ()
    if found is None or (found.why == "J" and is_left_of_decimals(gradient.jacobian.formula)):
        return ()
    return _why_zero(explanation, gradient, found, _where(explanation, gradient, teller, vanishing))


def is_left_of_decimals(formula: Expr | None) -> bool:
    """Whether J is the same at all numbers, and decimals in it: small beside what cancelled, and yet not 0.

    A formula that grew too long is none.
    """
    return formula is not None and bool(formula.atoms(sp.Float)) and not formula.has(sp.Indexed)


def _where(explanation: Explanation, gradient: Gradient, teller: Teller, vanishing: Callable[[], Vanishing]) -> str:
    """The step at which nothing is left, and why, in a clause."""
    reason = vanishing().reason(gradient.name)
    if reason is None:
        return ""
    step = reason.step
    name, output = step.result.name, step.result.name == explanation.program.output
    called = (teller.code(step) or (name if output else str(step.op))) if output or UNNAMED.fullmatch(name) else name
    return reason.says(gradient.name, called)


def _why_zero(explanation: Explanation, gradient: Gradient, found: Nothing, where: str) -> Words:
    """Whether J is 0, or the weights are, or the weighted rows add up to 0."""
    say = speaker_of(explanation.program)
    name, zero = gradient.name, "0, up to rounding," if found.rounding else "0"
    if found.why == "weights":
        return say("`{name}.grad` is 0 because every weight in {v} is 0.", name=name)
    if found.why == "J" and not flows(explanation.program, name):
        none = next((f"; {WITHOUT[check.note]}" for check in gradient.checks if check.note in WITHOUT), "")
        why = why_nothing_flows(explanation.program, name)
        return say("`{name}.grad` is 0: {why}{none}.", name=name, why=why, none=none)
    if found.why == "floats":
        because = "`{name}.grad` is 0 in floating point: every entry of {J} is 0 at these numbers{where}."
        return say(because, name=name, where=where and f": {where}")
    if found.why == "J":
        when = "whatever the numbers" if gradient.jacobian.formula == 0 else "at these numbers"
        because = "`{name}.grad` is {zero}: every entry of {J} is 0 {when}{where}."
        return say(because, name=name, zero=zero.removesuffix(","), when=when, where=where and f": {where}")
    equal = len({numbers.text(v) for v in without_fractions(explanation.seed).reshape(-1)}) == 1
    if found.everywhere is None:
        why = "The weighted rows cancel each other out."
    elif not found.everywhere:
        why = "The weighted rows cancel each other out here; where `{name}` has other entries they do not."
    elif where:
        why = f"{where[0].upper()}{where[1:]}; other weights show more."
    elif equal:
        why = (
            "With equal weights {L} is a multiple of the sum of the outputs, and that sum stays the same whatever "
            f"`{{name}}` does{'' if len(explanation.inputs) == 1 else ' while the other inputs stay as they are'}. "
            "Other weights show more."
        )
    else:
        why = "These weights cancel: {L} does not change when `{name}` does."
    return say(
        "`{name}.grad` is {zero} although {J} is not: the rows of {J} weighted by {v} add up to 0. " + why,
        name=name,
        zero=zero,
    )
