"""The closed form of a gradient: views written out, simplified by the rules, and put into matrix notation.

Comes in: a program and the sweep that derived one input's gradient. Goes out: a `Form` or None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import sympy as sp

from symgrad.calculus import Step, Sweep, local
from symgrad.calculus.sweeps import substitute
from symgrad.closed_form.classes import none_left_out
from symgrad.closed_form.pieces import NoForm, Piece
from symgrad.closed_form.rules import AMONG_NAMES, Rule, simplify
from symgrad.closed_form.shorthands import Apart, Masked, Softmax, Standardised
from symgrad.closed_form.writer import Notation
from symgrad.indexing import Bracket, Equation
from symgrad.indexing.canonical import canonical
from symgrad.indexing.quotients import values_of
from symgrad.indexing.symbols import Expr, access, is_access
from symgrad.program import Program

NAMED = (Softmax, Masked, Standardised, Apart)
COMPARED = (Bracket, sp.KroneckerDelta)
LONGEST = 220
"""A longer text is no closed form that anyone would write."""
WIDEST = 2000
"""Nodes of a formula beyond which no text so short is looked for: that takes minutes, and none was ever found."""


@dataclass(frozen=True)
class Form:
    """``text`` in torch's syntax, over v, out and the inputs; ``steps`` are the rules that led to it.

    What has a name of its own in it is said before it: ``K = …; out @ (K * v) @ out.T``.
    """

    text: str
    equation: Equation
    steps: tuple[Step, ...]


def assigned(target: str, text: str) -> tuple[str, ...]:
    """A form as statements that end with ``target = …``, or with what it comes to.

    >>> assigned("x.grad", "K = 1 / w; out @ (K * v)")
    ('K = 1 / w', 'x.grad = out @ (K * v)')
    """
    *definitions, last = text.split("; ")
    return (*definitions, f"{target} = {last}" if target else last)


def views(program: Program) -> dict[str, Equation]:
    """The intermediates that only move, scale or compare entries, by their equations."""
    found: dict[str, Equation] = {}
    for step in program.steps:
        equation = local(step, program).equation
        _, entry = equation.right.as_coeff_Mul(rational=True)
        if (is_access(entry) or isinstance(equation.right, COMPARED)) and step.result.name != program.output:
            found[step.result.name] = substitute(equation, found)
    return found


def named_output(program: Program, known: Mapping[str, Equation]) -> tuple[Rule, ...]:
    """The rule that writes out[i] where a gradient forms it again, for outputs with a named quotient in them."""
    last = next((step for step in program.steps if step.result.name == program.output), None)
    if last is None:
        return ()
    equation = substitute(local(last, program).equation, known)
    definition = simplify(equation.right, [])
    if not definition.has(*NAMED):
        return ()
    axes = equation.axes

    def named(expression: Expr) -> Expr:
        if expression.func is not definition.func:
            return expression
        for at in values_of(axes, (definition,), expression):
            if canonical(definition.xreplace(dict(zip(axes, at, strict=True)))) == expression:
                return access(program.output, at)
        return expression

    return (Rule("name the output", "what out says is not computed again", named),)


def said_once(notation: Notation, text: str) -> str:
    """``text`` with a name for what a derivative reads beside (an inverse, eigenvectors), where it stands twice."""
    for letter, name in dict.fromkeys(pair for step in notation.program.steps for pair in step.beside):
        own, binds = notation.texts.tensor(name)
        found = rf"(?<![\w.]){re.escape(own)}"
        if len(re.findall(found, text)) > 1:
            text = re.sub(found, notation.name(letter, Piece(own, binds, ())).text, text)
    return text


def closed_form(program: Program, sweep: Sweep, wanted: str) -> Form | None:
    """The gradient by ``wanted`` in matrix notation; None where it has none that is short."""
    if not sweep.whole:
        return None
    known = views(program)
    equation = substitute(sweep.equation, known)
    if sum(1 for _ in sp.preorder_traversal(equation.right)) > WIDEST:
        return None
    steps: list[Step] = []
    right = simplify(none_left_out(equation.right, steps), steps)
    if right.has(*NAMED):
        right = simplify(right, steps, (*named_output(program, known), *AMONG_NAMES))
    notation = Notation(program)
    try:
        piece = notation.whole(right, equation.axes, wanted) if right != 0 else None
    except NoForm:
        return None
    text = f"zeros_like({wanted})" if piece is None else notation.with_definitions(said_once(notation, piece.text))
    return Form(text, Equation(equation.axes, right), tuple(steps)) if len(text) <= LONGEST else None
