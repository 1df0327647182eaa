"""The closed form of a gradient: views written out, simplified by the rules, and put into matrix notation.

Comes in: a program and the sweep that derived one input's gradient. Goes out: a `Form` or None. A long part that stands
there twice has a name: ``t = (x + x ** 3).tanh(); v * (t + x * (1 - t ** 2))``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import sympy as sp

from symgrad.calculus import Rewrite, Sweep, local_jacobian
from symgrad.calculus.reverse_sweep import substitute
from symgrad.closed_form.fragments import Fragment
from symgrad.closed_form.number_code import NoForm
from symgrad.closed_form.program_facts import (
    FEW,
    equations_of,
    find_products,
    find_symmetric,
    rule_for_output,
    rules_for_program,
    sort_symmetric_indices,
    step_of_output,
)
from symgrad.closed_form.rewriting import AMONG_NAMES, APART, DIVIDING, FormRule, apply_rules
from symgrad.closed_form.rewriting.conditions import drop_class_tests, mask_ignored_classes
from symgrad.closed_form.rewriting.shorthands import Masked, ReciprocalGap, Softmax, Standardised
from symgrad.closed_form.writing import FormWriter
from symgrad.functions import sigmoid
from symgrad.indexing import Bracket, Equation, Unravel, fresh_axes
from symgrad.indexing.symbols import (
    Expr,
    access,
    accesses,
    free_indices,
    indices_of,
    is_access,
    name_of,
    names_read,
    weight,
)
from symgrad.language.python_text import call, write_python
from symgrad.language.syntax_tree import PythonCall
from symgrad.language.trees import FormCode, replace_part
from symgrad.notation.tree import SyntaxNode, walk
from symgrad.ops.lookup import has_role
from symgrad.program import Program, Role

NAMED = (Softmax, Masked, Standardised, ReciprocalGap)
PRODUCTS = (sp.Product,)
COMPARED = (Bracket, sp.KroneckerDelta)
DEEPEST = 3
"""How often what is computed entry by entry is written out."""
LONGEST = 220
"""A longer text is no closed form that anyone would write."""
Classes = Callable[[Expr, list[Rewrite]], Expr]
"""What is said of the classes that a loss leaves out."""
WIDEST, WRITTEN = 2000, 1000
"""Nodes of a formula, and of what the rules leave of it, beyond which no text is looked for: that takes minutes."""


@dataclass(frozen=True)
class Form:
    """``code`` in torch's syntax, over v, out and the inputs; ``steps`` are the rules that led to it.

    What has a name of its own in it is said before it: ``K = …; out @ (K * v) @ out.T``.
    """

    code: FormCode
    steps: tuple[Rewrite, ...]

    @property
    def text(self) -> str:
        """The code as text."""
        return self.code.text


def assign_form(target: str, text: str) -> tuple[str, ...]:
    """A form as statements that end with ``target = …``, or with what it comes to.

    >>> assign_form("x.grad", "K = 1 / w; out @ (K * v)")
    ('K = 1 / w', 'x.grad = out @ (K * v)')
    """
    *definitions, last = text.split("; ")
    return (*definitions, f"{target} = {last}" if target else last)


def find_views(program: Program) -> dict[str, Equation]:
    """The intermediates that only move, scale or compare entries, by their equations."""
    found: dict[str, Equation] = {}
    for step in program.steps:
        equation = local_jacobian(step, program).equation
        _, entry = equation.right.as_coeff_Mul(rational=True)
        if (is_access(entry) or isinstance(equation.right, COMPARED)) and step.result.name != program.output:
            found[step.result.name] = substitute(equation, found)
    found |= {name: substitute(equation, found) for name, equation in find_duplicate_tensors(program).items()}
    return found | find_transposes_of_output(program)


def find_transposes_of_output(program: Program) -> dict[str, Equation]:
    """What out is with its axes in another order, by out: inverse(X) is out.T, where out is inverse(X).T."""
    equation = step_of_output(program, {})
    places = indices_of(equation.right) if is_access(equation.right) else ()
    if not places or {*places} != {*equation.axes} or len(places) > len(equation.axes):
        return {}
    name = name_of(equation.right)
    if all(step.result.name != name for step in program.steps):
        return {}
    if tuple(place.size for place in places) != program.tensor(name).shape:
        return {}  # a part of it, as softmax(x, -1)[:2]: what lies beyond is nowhere in out
    return {name: Equation(places, access(program.output, equation.axes))}


def find_duplicate_tensors(program: Program) -> dict[str, Equation]:
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
        if has_role(step.op, Role.INVERTS):
            made[name] = str(arguments[0])
            if made[name] in made and name != program.output:
                same[name] = made[made[name]]
    axes = {name: fresh_axes(program.tensor(name).shape) for name in same}
    return {name: Equation(axes[name], access(own, axes[name])) for name, own in same.items()}


def floats_to_integers(equation: Equation) -> Equation:
    """Floats that are whole numbers as such."""
    whole = [f for f in equation.right.atoms(sp.Float) if float(f).is_integer() and abs(f) < 1e8]
    floats = {f: sp.Integer(int(f)) for f in whole}
    return Equation(equation.axes, equation.right.xreplace(floats))


def exponents_to_fractions(equation: Equation) -> Equation:
    """Exponents as fractions where they are halves: 1 / b⁰·⁵ − a / b¹·⁵ has one denominator then."""
    powers = [p for p in equation.right.atoms(sp.Pow) if p.exp.is_Float and float(2 * p.exp).is_integer()]
    exponents = {p: p.base ** sp.Rational(str(p.exp)) for p in powers}
    return Equation(equation.axes, equation.right.xreplace(exponents))


def expand_denominators(equation: Equation, program: Program, known: Mapping[str, Equation]) -> Equation:
    """``equation`` with what is computed entry by entry written out, where it is divided by: quotients may cancel."""
    for _ in range(DEEPEST):
        below = {name_of(a) for p in equation.right.atoms(sp.Pow) if p.exp.is_negative for a in accesses(p.base)}
        found = equations_of(below - {program.output}, program, known)
        found = {name: e for name, e in found.items() if is_short_elementwise(e) or adds_exponentials(e, program)}
        read = {name_of(a) for e in found.values() for a in accesses(e.right)}
        raised = equations_of(read, program, known)
        found |= {name: e for name, e in raised.items() if isinstance(e.right, (sp.exp, sigmoid))}
        if not found:
            break
        equation = substitute(equation, found | find_complements(equation, program, known))
    return equation


def adds_exponentials(equation: Equation, program: Program) -> bool:
    """Whether the entries of an exponential are added: what is divided by that may be a share of it."""
    right = equation.right
    if not isinstance(right, sp.Sum) or not is_access(right.function):
        return False
    return any(isinstance(e.right, sp.exp) for e in equations_of({name_of(right.function)}, program, {}).values())


def find_complements(equation: Equation, program: Program, known: Mapping[str, Equation]) -> dict[str, Equation]:
    """What is read and is 1 − x, or another number and a tensor: products of it cancel against others."""
    read = {name_of(a) for a in accesses(equation.right)}
    found = equations_of(read - {program.output}, program, known)
    return {n: e for n, e in found.items() if e.right.is_Add and is_short_elementwise(e) and e.right.args[0].is_number}


def expand_repeated_products(
    equation: Equation, products: Mapping[str, Equation], monomials: Mapping[str, Equation]
) -> Equation:
    """``equation`` with products of entries written out, and matrix products in sums with the same factors."""
    sums = [{*names_read(total)} for total in equation.right.atoms(sp.Sum) if equation.right.has(sp.Add)]
    read = names_read(equation.right)
    found = {name: own for name, own in monomials.items() if name in read}
    for name, own in products.items():
        if name in read and any({*names_read(own.right)} <= total - {name} for total in sums):
            found[name] = own
    return substitute(equation, found) if found else equation


def is_short_elementwise(equation: Equation) -> bool:
    """Whether an entry is computed of entries at the same place, in a few signs."""
    plain = not equation.right.has(sp.Sum, sp.Product, Bracket, sp.KroneckerDelta) and equation.right.count_ops() < FEW
    return plain and all(indices_of(a) in ((), equation.axes) for a in accesses(equation.right))


def named_output_rule(program: Program, known: Mapping[str, Equation]) -> tuple[FormRule, ...]:
    """The rule that writes out[i] where a gradient forms it again, for outputs with a named quotient in them."""
    equation = step_of_output(program, known)
    definition = apply_rules(equation.right, [])
    if not definition.has(*NAMED, *PRODUCTS):
        return ()
    return (rule_for_output(program, Equation(equation.axes, definition), "out is used, not computed again"),)


def logistic_output_rule(program: Program, known: Mapping[str, Equation]) -> tuple[FormRule, ...]:
    """σ(z) → out and σ(−z) → 1 − out, for an output that is written as 1 / (1 + e⁻ᶻ)"""
    equation = expand_denominators(step_of_output(program, known), program, known)
    definition = apply_rules(equation.right, [])
    if not isinstance(definition, sigmoid) or any(axis not in free_indices(definition) for axis in equation.axes):
        return ()
    turned = Equation(equation.axes, sigmoid(-definition.args[0]))
    return (
        rule_for_output(program, Equation(equation.axes, definition), "σ(z) → out"),
        rule_for_output(program, turned, "σ(z) → out", lambda out: 1 - out),
    )


def name_inverses(notation: FormWriter, code: SyntaxNode) -> SyntaxNode:
    """``code`` with a name for what a derivative reads beside (an inverse, eigenvectors), where it stands twice."""
    for letter, name in dict.fromkeys(pair for step in notation.program.steps for pair in step.beside):
        own = notation.source.tensor(name)
        if sum(node == own for node in walk(code)) > 1:
            code = replace_part(code, own, notation.name(letter, Fragment(own, ())).code)
    return name_repeated_calls(code, lambda part: notation.name("t", Fragment(part, ())).code)


def derive_masked_form(program: Program, sweep: Sweep, wanted: str) -> Form | None:
    """The closed form for data in which a class is left out, longer than the other; None where there are no classes."""
    if not sweep.whole or mask_ignored_classes(sweep.equation.right, []) == sweep.equation.right:
        return None
    return derive_closed_form(program, sweep, wanted, mask_ignored_classes)


def derive_closed_form(program: Program, sweep: Sweep, wanted: str, classes: Classes = drop_class_tests) -> Form | None:
    """The gradient by ``wanted`` in matrix notation; None where it has none that is short."""
    if not sweep.whole:
        return None
    known = find_views(program)
    symmetric = find_symmetric(program, known)
    equation = sort_symmetric_indices(floats_to_integers(substitute(sweep.equation, known)), symmetric)
    if weight(equation.right) > WIDEST:
        return None
    notation = partial(FormWriter, program, symmetric)
    here = partial(write_form, program, notation, wanted=wanted, known=known, classes=classes)
    rules = (*rules_for_program(program, known), *DIVIDING)
    found = here(equation, rules=rules)
    if found is None and rules != DIVIDING:  # an identity matrix within a sum has no notation
        found = here(equation, rules=DIVIDING)
    if found is None and equation.right.has(Unravel):
        found = here(equation, rules=(*APART, *rules))
    divided, products = expand_denominators(equation, program, known), find_products(program, known)
    wider = (divided, *(expand_repeated_products(one, *products) for one in (equation, divided)))
    for one in dict.fromkeys(other for other in wider if other != equation):
        form = here(sort_symmetric_indices(exponents_to_fractions(one), symmetric), rules=rules)
        found = min((own for own in (form, found) if own is not None), key=lambda own: own.code.measure, default=None)
    return found


def write_form(
    program: Program,
    forms: Callable[[], FormWriter],
    equation: Equation,
    wanted: str,
    known: Mapping[str, Equation],
    rules: Sequence[FormRule],
    classes: Classes,
) -> Form | None:
    """One way to say a gradient: simplified and in matrix notation."""
    steps: list[Rewrite] = []
    right = apply_rules(classes(equation.right, steps), steps, rules)
    if right.has(*NAMED, *PRODUCTS):
        right = apply_rules(right, steps, (*named_output_rule(program, known), *AMONG_NAMES))
    if right.has(sigmoid):
        right = apply_rules(right, steps, logistic_output_rule(program, known))
    right = floats_to_integers(Equation(equation.axes, right)).right
    if weight(right) > WRITTEN:
        return None
    notation = forms()
    try:
        piece = notation.whole(right, equation.axes, wanted) if right != 0 else None
    except NoForm:
        return None
    code = call("zeros_like", wanted) if piece is None else name_inverses(notation, piece.code)
    form = notation.with_definitions(code)
    return Form(form, tuple(steps)) if len(form.text) <= LONGEST else None


LONG = 24
"""Characters of a part that is worth a name."""


def name_repeated_calls(code: SyntaxNode, name: Callable[[SyntaxNode], SyntaxNode]) -> SyntaxNode:
    """``code`` with a name in the place of each call that is long and stands there twice, the longest first."""
    for _ in range(3):
        parts = Counter(node for node in walk(code) if isinstance(node, PythonCall))
        long = [part for part, count in parts.items() if count > 1 and len(write_python(part)) >= LONG]
        if not long:
            return code
        part = max(long, key=lambda part: len(write_python(part)))
        code = replace_part(code, part, name(part))
    return code
