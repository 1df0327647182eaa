"""When a gradient is 0, the reason: J is 0, the weights are, or the weighted rows cancel out."""

from __future__ import annotations

import numpy as np
import sympy as sp

from symgrad.backward.parts.names import UNNAMED
from symgrad.calculus.flow import flows
from symgrad.explanation import Explanation, Gradient, Nothing, nothing
from symgrad.explanation.cuts import why_nothing_flows
from symgrad.explanation.nothing import Point
from symgrad.explanation.reasons import Vanishing
from symgrad.indexing.symbols import Expr
from symgrad.numeric import as_float, plain
from symgrad.oracles.report import NO_GRADIENT, NO_PATH
from symgrad.render import numbers
from symgrad.render.content.jacobian import COUNTABLE
from symgrad.render.content.speaker import speaker_of
from symgrad.render.content.teller import Teller
from symgrad.render.page import Words

SMALL = 1e-6
"""Gradients above this are not 0, whatever the Jacobian."""

WITHOUT = {NO_PATH: "torch leaves it at None", NO_GRADIENT: NO_GRADIENT}
"""What torch has instead of a gradient, by the note of its check."""


def why_zero(explanation: Explanation, teller: Teller) -> dict[str, Words]:
    """Why gradients are 0, although J is not or because J is, and where; nothing for one that is not 0."""
    names = tuple(explanation.gradients)
    point = Point(explanation.program, explanation.values, names)
    vanishing = Vanishing(explanation.program, explanation.values, explanation.seed, names)
    told = {name: _why_one(explanation, g, teller, point, vanishing) for name, g in explanation.gradients.items()}
    return {name: words for name, words in told.items() if words}


def _why_one(explanation: Explanation, gradient: Gradient, teller: Teller, point: Point, vanishing: Vanishing) -> Words:
    value = as_float(gradient.value)
    if value.size == 0 or explanation.out_of_range or any(check.cancelled for check in gradient.checks):
        return ()
    if gradient.singular is not None or not np.isfinite(value).all():
        return ()  # said by `symgrad.render.content.singular`
    rows, columns = gradient.jacobian.shape
    if rows == 0 or rows * columns > COUNTABLE or np.abs(value).max() > SMALL:
        return ()
    found = nothing(point, gradient.name, explanation.seed, gradient.value)
    if found is None or (found.why == "J" and is_left_of_decimals(gradient.jacobian.formula)):
        return ()
    return _why_zero(explanation, gradient, found, _where(explanation, gradient, teller, vanishing))


def is_left_of_decimals(formula: Expr | None) -> bool:
    """Whether J is the same at all numbers, and decimals in it: small beside what cancelled, and yet not 0.

    A formula that grew too long is none.
    """
    return formula is not None and bool(formula.atoms(sp.Float)) and not formula.has(sp.Indexed)


def _where(explanation: Explanation, gradient: Gradient, teller: Teller, vanishing: Vanishing) -> str:
    """The step at which nothing is left, and why, in a clause."""
    reason = vanishing.reason(gradient.name)
    if reason is None:
        return ""
    step = reason.step
    name, output = step.result.name, step.result.name == explanation.program.output
    called = (teller.code(step) or (name if output else str(step.op))) if output or UNNAMED.fullmatch(name) else name
    return reason.says(gradient.name, called)


def _why_zero(explanation: Explanation, gradient: Gradient, found: Nothing, where: str) -> Words:
    """Whether J is 0, or the weights are, or the weighted rows add up to 0."""
    say = speaker_of(explanation.program)
    name, zero = gradient.name, "0, but for rounding," if found.rounding else "0"
    if found.why == "weights":
        return say("`{name}.grad` is 0 because every weight in {v} is 0.", name=name)
    if found.why == "J" and not flows(explanation.program, name):
        none = next((f"; {WITHOUT[check.note]}" for check in gradient.checks if check.note in WITHOUT), "")
        why = why_nothing_flows(explanation.program, name)
        return say("`{name}.grad` is 0: {why}{none}.", name=name, why=why, none=none)
    if found.why == "floats":
        because = "`{name}.grad` is 0 in floats, where every entry of {J} is 0 at these numbers{where}."
        return say(because, name=name, where=where and f": {where}")
    if found.why == "J":
        when = "whatever the numbers" if gradient.jacobian.formula == 0 else "at these numbers"
        because = "`{name}.grad` is {zero} because every entry of {J} is 0 {when}{where}."
        return say(because, name=name, zero=zero, when=when, where=where and f": {where}")
    equal = len({numbers.text(v) for v in plain(explanation.seed).reshape(-1)}) == 1
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
        why = "These weights balance each other out: {L} does not move when `{name}` does."
    return say(
        "`{name}.grad` is {zero} although {J} is not: {vJ} = 0, {v} lies in the left null space of {J}. " + why,
        name=name,
        zero=zero,
    )
