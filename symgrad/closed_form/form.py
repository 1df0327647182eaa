"""The closed form of a gradient: views written out, simplified by the rules, and put into matrix notation.

Comes in: a program and the sweep that derived one input's gradient. Goes out: a `Form` or None. A long part that stands
there twice has a name: ``t = (x + x ** 3).tanh(); v * (t + x * (1 - t ** 2))``.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import sympy as sp

from symgrad.calculus import Step, Sweep, local
from symgrad.calculus.sweeps import substitute
from symgrad.closed_form.fragments import Piece
from symgrad.closed_form.number_text import ATOM, NoForm
from symgrad.closed_form.program_facts import in_one_order, of_output, program_rules, symmetric_in
from symgrad.closed_form.rewriting import AMONG_NAMES, APART, DIVIDING, Rule, simplify
from symgrad.closed_form.rewriting.conditions import none_left_out, some_left_out
from symgrad.closed_form.rewriting.shorthands import Apart, Masked, Softmax, Standardised
from symgrad.closed_form.writing import Forms
from symgrad.functions import sigmoid
from symgrad.indexing import Bracket, Equation, Index, Unravel, fresh_axes
from symgrad.indexing.canonical import canonical_at, values_of
from symgrad.indexing.symbols import Expr, access, accesses, free_indices, indices_of, is_access, name_of, weight
from symgrad.ops.lookup import plays
from symgrad.program import Program, Role

NAMED = (Softmax, Masked, Standardised, Apart)
PRODUCTS = (sp.Product,)
COMPARED = (Bracket, sp.KroneckerDelta)
FEW, DEEPEST = 4, 3
"""Signs of what is computed entry by entry and written out, and how often that is done."""
LONGEST = 220
"""A longer text is no closed form that anyone would write."""
Classes = Callable[[Expr, list[Step]], Expr]
"""What is said of the classes that a loss leaves out."""
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
    found |= {name: substitute(equation, found) for name, equation in said_again(program).items()}
    return found | turned_into_the_output(program)


def turned_into_the_output(program: Program) -> dict[str, Equation]:
    """What out is with its axes in another order, by out: inverse(X) is out.T, where out is inverse(X).T."""
    if not program.steps or program.steps[-1].result.name != program.output:
        return {}
    equation = local(program.steps[-1], program).equation
    places = indices_of(equation.right) if is_access(equation.right) else ()
    inside = any(step.result.name == name_of(equation.right) for step in program.steps) if places else False
    if not inside or sorted(places, key=str) != sorted(equation.axes, key=str) or len(set(places)) < len(places):
        return {}
    if tuple(place.size for place in places) != program.tensor(name_of(equation.right)).shape:
        return {}  # a part of it, as softmax(x, -1)[:2]: what lies beyond is nowhere in out
    return {name_of(equation.right): Equation(places, access(program.output, equation.axes))}


def said_again(program: Program) -> dict[str, Equation]:
    """The intermediates that are another tensor: what is computed twice, and the inverse of an inverse."""
    same: dict[str, str] = {}
    first: dict[Hashable, str] = {}
    made: dict[str, str] = {}
    for step in program.steps:
        name = step.result.name
        arguments = tuple(same.get(a, a) if isinstance(a, str) else a for a in step.arguments)
        own = first.setdefault((step.op, arguments, step.options), name)
        if name != program.output and own != program.output and own != name:
            same[name] = own
        if plays(step.op, Role.INVERTS):
            made[name] = str(arguments[0])
            if made[name] in made and name != program.output:
                same[name] = made[made[name]]
    return {name: Equation(axes, access(own, axes)) for name, own in same.items() for axes in [axes_of(program, name)]}


def axes_of(program: Program, name: str) -> tuple[Index, ...]:
    """New indices for a tensor."""
    return fresh_axes(program.tensor(name).shape)


def without_floats(equation: Equation) -> Equation:
    """Floats that are whole numbers as such."""
    whole = [f for f in equation.right.atoms(sp.Float) if float(f).is_integer() and abs(f) < 1e8]
    floats = {f: sp.Integer(int(f)) for f in whole}
    return Equation(equation.axes, equation.right.xreplace(floats))


def with_fractions(equation: Equation) -> Equation:
    """Exponents as fractions where they are halves: 1 / b⁰·⁵ − a / b¹·⁵ has one denominator then."""
    powers = [p for p in equation.right.atoms(sp.Pow) if p.exp.is_Float and float(2 * p.exp).is_integer()]
    exponents = {p: p.base ** sp.Rational(str(p.exp)) for p in powers}
    return Equation(equation.axes, equation.right.xreplace(exponents))


def written_out(equation: Equation, program: Program, known: Mapping[str, Equation]) -> Equation:
    """``equation`` with what is computed entry by entry written out, where it is divided by: quotients may cancel."""
    for _ in range(DEEPEST):
        below = {name_of(a) for p in equation.right.atoms(sp.Pow) if p.exp.is_negative for a in accesses(p.base)}
        steps = [s for s in program.steps if s.result.name in below and s.result.name != program.output]
        found = {step.result.name: substitute(local(step, program).equation, known) for step in steps}
        found = {name: e for name, e in found.items() if entry_by_entry(e) or adds_exponentials(e, program)}
        read = {name_of(a) for e in found.values() for a in accesses(e.right)}
        inner = [s for s in program.steps if s.result.name in read]
        raised = {s.result.name: substitute(local(s, program).equation, known) for s in inner}
        found |= {name: e for name, e in raised.items() if isinstance(e.right, (sp.exp, sigmoid))}
        if not found:
            break
        equation = substitute(equation, found | complements(equation, program, known))
    return equation


def adds_exponentials(equation: Equation, program: Program) -> bool:
    """Whether the entries of an exponential are added: what is divided by that may be a share of it."""
    right = equation.right
    if not isinstance(right, sp.Sum) or not is_access(right.function):
        return False
    step = next((s for s in program.steps if s.result.name == name_of(right.function)), None)
    return step is not None and isinstance(local(step, program).equation.right, sp.exp)


def complements(equation: Equation, program: Program, known: Mapping[str, Equation]) -> dict[str, Equation]:
    """What is read and is 1 − x, or another number and a tensor: products of it cancel against others."""
    read = {name_of(a) for a in accesses(equation.right)}
    steps = [s for s in program.steps if s.result.name in read and s.result.name != program.output]
    found = {step.result.name: substitute(local(step, program).equation, known) for step in steps}
    return {n: e for n, e in found.items() if e.right.is_Add and entry_by_entry(e) and e.right.args[0].is_number}


def multiplied_again(equation: Equation, program: Program, known: Mapping[str, Equation]) -> Equation:
    """``equation`` with matrix products written out whose factors are multiplied in it as well: terms may be alike."""
    if not equation.right.atoms(sp.Add):
        return equation
    products: dict[str, Equation] = {}
    for step in program.steps:
        own = local(step, program).equation
        if type(own.right) is sp.Sum and step.result.name != program.output:
            products[step.result.name] = substitute(own, {**known, **products})
    sums = [{name_of(a) for a in accesses(total)} for total in equation.right.atoms(sp.Sum)]
    read = {name_of(a) for a in accesses(equation.right)} & products.keys()
    factors = {name: {name_of(a) for a in accesses(products[name].right)} for name in read}
    found = {name: products[name] for name in read if any(factors[name] <= {*total} - {name} for total in sums)}
    return substitute(equation, found) if found else equation


def entry_by_entry(equation: Equation) -> bool:
    """Whether an entry is computed of entries at the same place, in a few signs."""
    plain = not equation.right.has(sp.Sum, sp.Product, Bracket, sp.KroneckerDelta) and equation.right.count_ops() < FEW
    return plain and all(indices_of(a) in ((), equation.axes) for a in accesses(equation.right))


def named_output(program: Program, known: Mapping[str, Equation]) -> tuple[Rule, ...]:
    """The rule that writes out[i] where a gradient forms it again, for outputs with a named quotient in them."""
    equation = of_output(program, known)
    if equation is None:
        return ()
    definition = simplify(equation.right, [])
    if not definition.has(*NAMED, *PRODUCTS):
        return ()
    axes, single = [i for i in equation.axes if i.size != 1], {i: sp.S.Zero for i in equation.axes if i.size == 1}

    def named(expression: Expr) -> Expr:
        if expression.func is not definition.func:
            return expression
        anywhere = [] if free_in_accesses(definition) >= set(axes) else alike(axes, expression)
        for at in (*values_of(axes, (definition,), expression), *anywhere):
            if canonical_at(at, axes, definition) == expression:
                found = dict(zip(axes, at, strict=True))
                return access(program.output, [found.get(i, single.get(i)) for i in equation.axes])
        return expression

    return (Rule("name the output", "what out says is not computed again", named),)


def logistic_output(program: Program, known: Mapping[str, Equation]) -> tuple[Rule, ...]:
    """σ(z) → out and σ(−z) → 1 − out, for an output that is written as 1 / (1 + e⁻ᶻ)"""
    own = of_output(program, known)
    if own is None:
        return ()
    equation = written_out(own, program, known)
    definition = simplify(equation.right, [])
    if not isinstance(definition, sigmoid) or free_in_accesses(definition) != {*equation.axes}:
        return ()

    def named(expression: Expr) -> Expr:
        for turn in (1, -1) if isinstance(expression, sigmoid) else ():
            own = sigmoid(turn * definition.args[0])
            for at in values_of(equation.axes, (own,), expression):
                if canonical_at(at, equation.axes, own) == expression:
                    out = access(program.output, at)
                    return out if turn == 1 else 1 - out
        return expression

    return (Rule("name the output", "σ(z) → out", named),)


def free_in_accesses(expression: Expr) -> set[Expr]:
    """The indices at which tensors are read."""
    return {index for entry in accesses(expression) for index in indices_of(entry)}


def alike(axes: Sequence[Index], expression: Expr) -> Iterator[tuple[Index, ...]]:
    """The free indices of an expression that may stand for ``axes``, which have their sizes."""
    free = sorted(free_indices(expression), key=str)
    return product(*([i for i in free if i.size == axis.size] for axis in axes))


def said_once(notation: Forms, text: str) -> str:
    """``text`` with a name for what a derivative reads beside (an inverse, eigenvectors), where it stands twice."""
    for letter, name in dict.fromkeys(pair for step in notation.program.steps for pair in step.beside):
        own, binds = notation.texts.tensor(name)
        found = rf"(?<![\w.]){re.escape(own)}"
        if len(re.findall(found, text)) > 1:
            text = re.sub(found, notation.name(letter, Piece(own, binds, ())).text, text)
    return named_twice(text, lambda part: notation.name("t", Piece(part, ATOM, ())).text)


def masked_form(program: Program, sweep: Sweep, wanted: str) -> Form | None:
    """The closed form for data in which a class is left out, longer than the other; None where there are no classes."""
    if not sweep.whole or some_left_out(sweep.equation.right, []) == sweep.equation.right:
        return None
    return closed_form(program, sweep, wanted, some_left_out)


def closed_form(program: Program, sweep: Sweep, wanted: str, classes: Classes = none_left_out) -> Form | None:
    """The gradient by ``wanted`` in matrix notation; None where it has none that is short."""
    if not sweep.whole:
        return None
    known = views(program)
    symmetric = symmetric_in(program, known)
    equation = in_one_order(without_floats(substitute(sweep.equation, known)), symmetric)
    if weight(equation.right) > WIDEST:
        return None
    notation = partial(Forms, program, symmetric)
    here = partial(written, program, notation, wanted=wanted, known=known, classes=classes)
    rules = (*program_rules(program, known), *DIVIDING)
    found = here(equation, rules=rules)
    if found is None and rules != DIVIDING:  # an identity matrix within a sum has no notation
        found = here(equation, rules=DIVIDING)
    if found is None and equation.right.has(Unravel):
        found = here(equation, rules=(*APART, *rules))
    for wider in (written_out(equation, program, known), multiplied_again(equation, program, known)):
        if wider != equation:
            other = here(in_one_order(with_fractions(wider), symmetric), rules=rules)
            found = min((form for form in (other, found) if form is not None), key=lambda f: len(f.text), default=None)
    return found


def written(
    program: Program,
    forms: Callable[[], Forms],
    equation: Equation,
    wanted: str,
    known: Mapping[str, Equation],
    rules: Sequence[Rule],
    classes: Classes,
) -> Form | None:
    """One way to say a gradient: simplified and in matrix notation."""
    steps: list[Step] = []
    right = simplify(classes(equation.right, steps), steps, rules)
    if right.has(*NAMED, *PRODUCTS):
        right = simplify(right, steps, (*named_output(program, known), *AMONG_NAMES))
    if right.has(sigmoid):
        right = simplify(right, steps, logistic_output(program, known))
    right = without_floats(Equation(equation.axes, right)).right
    notation = forms()
    try:
        piece = notation.whole(right, equation.axes, wanted) if right != 0 else None
    except NoForm:
        return None
    text = f"zeros_like({wanted})" if piece is None else notation.with_definitions(said_once(notation, piece.text))
    return Form(text, Equation(equation.axes, right), tuple(steps)) if len(text) <= LONGEST else None


LONG = 24
"""Characters of a part that is worth a name."""


def named_twice(text: str, name: Callable[[str], str]) -> str:
    """``text`` with a name in the place of each call that is long and stands there twice, the longest first."""
    for _ in range(3):
        try:
            tree = ast.parse(text, mode="eval")
        except SyntaxError:  # a text that does not read is no form: its proof withholds it, and counts it
            return text
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        parts = Counter(str(ast.get_source_segment(text, call)) for call in calls)
        long = [part for part, count in parts.items() if count > 1 and len(part) >= LONG]
        if not long:
            return text
        part = max(long, key=len)
        text = re.sub(rf"(?<![\w.]){re.escape(part)}", name(part).replace("\\", r"\\"), text)
    return text
