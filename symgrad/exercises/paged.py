"""A question with its page: `symgrad.exercise`.

Comes in: an expression. Goes out: an `Exercise`, whose `check` holds a line against the formula and whose `to_html`
does so without Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from symgrad.api import explain_values
from symgrad.errors import InputError, UnknownNameError
from symgrad.exercises.lines import Question
from symgrad.exercises.travel import asked
from symgrad.explanation.formulas import Shapes
from symgrad.language.outside import arguments


@dataclass(frozen=True, eq=False, repr=False)
class Exercise(Question):
    """A question, ``x.grad = ?``; ``check`` takes a line, ``solution`` is the closed form, None where there is none."""

    def to_html(self) -> str:
        """The question as a page in one file that checks lines without Python; its answers are hidden at first.

        Raises `InputError` where the numbers are too many to travel or the packages of ``symgrad[pages]`` are missing.
        """
        found = asked(self.explanation)
        if found is None:
            raise InputError("this exercise has no page", found=("its numbers are too many to travel",))
        return self.explanation.to_html(asked=found, hidden=self.name)


def exercise(expression: str, *, wrt: str | None = None, shapes: Shapes | None = None, **values: Any) -> Exercise:
    """A question about ``expression``: what ``backward(v)`` puts into the gradient of ``wrt`` (the first input).

    Raises `SymgradError` where the expression cannot be explained, `UnknownNameError` for an input that there is not.

    >>> question = exercise("x@a")
    >>> question.check("v @ a.T").kind, question.check("v * 2").kind
    ('exact', 'wrong')
    """
    found = explain_values(expression, values, wrt=None, shapes=shapes, check=False)
    name = next(iter(found.gradients), None) if wrt is None else arguments.name_of(wrt, "wrt")
    if name is None:
        raise InputError("there is no input to differentiate by", found=(expression,))
    if name not in found.gradients:
        raise UnknownNameError(f"there is no input {name!r}", found=(f"inputs: {', '.join(found.gradients)}",))
    return Exercise(found.expression, name, found)
