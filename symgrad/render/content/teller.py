"""The shared state of a page's sections: names, folded steps, and the notation that is explained once.

Unnamed steps that only move entries (a transpose, a broadcast) are folded into the formulas that read them, so that
x @ x.T is a formula in x alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import sympy as sp

from symgrad.calculus import Sweep, local_jacobian
from symgrad.calculus.reverse_sweep import substitute
from symgrad.closed_form.form import find_views
from symgrad.explanation import Explanation
from symgrad.indexing import Bracket, Equation, Index, Ravel, Unravel
from symgrad.indexing.definitions import NamedEquation, in_names
from symgrad.indexing.symbols import Expr, accesses, indices_of, is_access, mentions, name_of, names_read
from symgrad.numeric import Values, write_out_at
from symgrad.program import UNNAMED, Apply, Program
from symgrad.render.arrange import ordered_delta_sides, reading_parts
from symgrad.render.content.speaker import Speaker, join_words, speaker_of
from symgrad.render.letters import Names, choose_names, visible
from symgrad.render.page import Formula, Paragraph, Ready, Words, tensor_label
from symgrad.shapes import Size


@dataclass
class Teller:
    """One page in the making; ``source`` is the text that the program's spans are places in.

    ``derivatives`` are the formulas of derivatives on it.
    """

    program: Program
    source: str | None
    names: Names
    folded: Mapping[str, Equation]
    sizes: Mapping[Size, int]
    derivatives: tuple[Expr, ...] = ()
    told: set[str] = field(default_factory=set)

    @cached_property
    def say(self) -> Speaker:
        """Who speaks on the page."""
        return speaker_of(self.program)

    @cached_property
    def steps(self) -> tuple[tuple[Apply, Equation], ...]:
        """The steps that are shown, with the folded ones put in."""
        shown = [step for step in self.program.forward_steps if step.result.name not in self.folded]
        return tuple((step, self.fold(local_jacobian(step, self.program).equation)) for step in shown)

    def code(self, step: Apply) -> str:
        """How the user wrote a step; empty where that is not known."""
        return self.source[slice(*step.span)] if self.source and step.span else ""

    def fold(self, equation: Equation) -> Equation:
        """``equation`` without folded tensors."""
        if any(mentions(equation.right, name) for name in self.folded):
            return substitute(equation, self.folded)
        return equation

    def named(self, expression: Expr) -> Expr:
        """A formula with folded tensors put in, in the names that the answer has."""
        return in_names(self.fold(Equation((), expression)).right, self.names.definitions)

    def in_numbers(self, expression: Expr) -> Expr:
        """A formula as it is written out in numbers: in the names of what the program computes."""
        whole = self.fold(Equation((), expression)).right
        named = in_names(whole, tuple(own for own in self.names.definitions if own not in self.inside))
        return expression if named is whole else named

    @cached_property
    def inside(self) -> tuple[NamedEquation, ...]:
        """What is defined beside the tensors of the program."""
        return tuple(own for own in self.names.definitions if own.name not in self.program.names)

    def defined(self, formulas: Iterable[Expr]) -> Iterator[tuple[Ready, Formula]]:
        """The names inside operations that ``formulas`` read and those that these read, as equations, each once."""
        read = {name for formula in formulas for name in names_read(formula)} if self.inside else set[str]()
        for definition in reversed(self.inside):
            read |= {*names_read(definition.equation.right)} if definition.name in read else set()
        for name, equation in ((own.name, own.equation) for own in self.inside if own.name in read - self.told):
            self.told.add(name)
            names = self.names.entry(equation.axes, name)
            axes = tuple(axis for axis in equation.axes if axis.size != 1)
            yield self.left(name, axes, names), Formula(equation.right, names)

    def left(self, name: str, axes: tuple[Index, ...], names: Names) -> Ready:
        """``out[i,k]``."""
        return tensor_label(names.name(name), [names.letter(i) for i in axes])

    def numbered(self, asked: Iterable[tuple[Expr, Mapping[Index, int]]], values: Values) -> list[Expr]:
        """Expressions, each at its numbered places: sums written out, folded tensors put in."""
        written = write_out_at(asked, values)
        whole = [self.fold(Equation((), found)).right for found in written]
        again = [new for found, new in zip(written, whole, strict=True) if new is not found]
        put_in = iter(write_out_at([(new, {}) for new in again], values) if again else ())
        return [found if new is found else next(put_in) for found, new in zip(written, whole, strict=True)]

    def aside(self, *formulas: Formula) -> tuple[Paragraph, ...]:
        """The notation of ``formulas``, explained where it is met for the first time."""
        fresh: dict[str, Words] = {}
        for formula in formulas:
            for kind, words in notation_words(formula.expression, formula.names):
                if kind not in self.told:
                    fresh.setdefault(kind, words)
        sizes = self.sizes_in(formulas)
        self.told |= set(fresh) | {str(s) for s in sizes}
        parts = list(fresh.values())
        if sizes:
            parts.append((f"here {', '.join(f'{s} = {self.sizes[s]}' for s in sizes)}",))
        if not parts:
            return ()
        return (Paragraph(("(", *join_words(parts, "; ", "; "), ")"), aside=True, notation=True),)

    def read_by(self, formula: Formula) -> list[tuple[str, str]]:
        """What a formula reads that nobody named: letters for what the forward pass found, steps and their code."""
        names, made = formula.names, {step.result.name: step for step in self.program.forward_steps}
        every = dict.fromkeys(name_of(entry) for entry in accesses(formula.expression))
        steps = {name: made[name] for name in every if UNNAMED.fullmatch(name) and name in made}
        told = {name: self.code(step) or step.called for name, step in steps.items()}
        return [(names.name(name), told.get(name, "")) for name in every if name in told or "·" in name]

    def sizes_in(self, formulas: Sequence[Formula]) -> list[Size]:
        """The sizes that are read in ``formulas`` and have not been told."""
        seen = {n for f in formulas for n in visible(f.expression) if n in self.sizes and str(n) not in self.told}
        return sorted(seen, key=str)


def teller_of(
    program: Program,
    source: str | None = None,
    symbolic: bool = False,
    definitions: Sequence[NamedEquation] = (),
    derivatives: Iterable[tuple[Expr | None, Sweep]] = (),
) -> Teller:
    """Everything a page about ``program`` needs to know first; ``derivatives`` are J and vᵀJ by each input."""
    seen = find_views(program).items()
    folded = {n: e for n, e in seen if re.fullmatch(r"t\d+", n) and not mentions(e.right, program.output)}
    teller = Teller(program, source, choose_names(program), folded, {} if symbolic else program.sizes)
    names = choose_names(program, [replace(own, equation=teller.fold(own.equation)) for own in definitions])
    formulas = [f for j, sweep in derivatives for f in (j, *(e.right for _, e in (*sweep.stages, *sweep.uses)))]
    return replace(teller, names=names, derivatives=tuple(formula for formula in formulas if formula is not None))


def naming_teller(explanation: Explanation, source: str | None) -> Teller:
    """`teller_of` an explanation, in the names of its answer."""
    derived = [(gradient.jacobian.formula, gradient.sweep) for gradient in explanation.gradients.values()]
    return teller_of(explanation.program, source, False, explanation.definitions, derived)


def notation_words(expression: Expr, names: Names) -> list[tuple[str, Words]]:
    """The marks in a formula that have to be read aloud once, by kind."""
    found: dict[str, Words] = {}
    deltas: dict[str, Words] = {}
    for node, here in nodes_with_names(expression, names):
        if isinstance(node, sp.KroneckerDelta) and all(isinstance(a, Index) for a in node.args):
            i, p = (here.letter(side) for side in ordered_delta_sides(node, here))
            deltas[i + p] = (Formula(node, here), " is 1 where ", Ready(f"{i} = {p}", f"{i} = {p}"), " and 0 elsewhere")
        elif isinstance(node, (Bracket, sp.KroneckerDelta)):
            found.setdefault("[]", (Formula(node, here), " is 1 where the condition holds and 0 elsewhere"))
        elif isinstance(node, sp.Sum):
            k = here.bound([node.limits[0][0]], node.function).letter(node.limits[0][0])
            found.setdefault("Σ", (Ready(f"Σ_{k}", f"\\sum_{{{k}}}"), " adds up over every ", Ready(k, k)))
        elif isinstance(node, sp.Product):
            k = here.bound([node.limits[0][0]], node.function).letter(node.limits[0][0])
            found.setdefault("Π", (Ready(f"Π_{k}", f"\\prod_{{{k}}}"), " multiplies over every ", Ready(k, k)))
        elif isinstance(node, (sp.floor, sp.Mod, Unravel)):
            written = Formula(node, here).text
            if "⌊" in written:
                found.setdefault("⌊⌋", (Ready("⌊ ⌋", r"\lfloor\;\rfloor"), " rounds down"))
            if " mod " in written:
                found.setdefault("mod", ("mod is the remainder of a division",))
        elif is_access(node) and "·" in name_of(node):
            found.setdefault(name_of(node), (Formula(node, here), " is the position found in the forward pass"))
        elif isinstance(node, Ravel):
            found.setdefault("ravel", (Formula(node, here), " counts the entries row by row"))
    first = [("δ", deltas[min(deltas)])] if deltas else []
    return [*first, *found.items()]


def nodes_with_names(expression: Expr, names: Names) -> Iterator[tuple[Expr, Names]]:
    """Every visible node with the names that are in scope there."""
    yield expression, names
    if isinstance(expression, (sp.Sum, sp.Product)):
        yield from nodes_with_names(
            expression.function, names.bound([limit[0] for limit in expression.limits], expression.function)
        )
    elif isinstance(expression, sp.KroneckerDelta):
        return
    else:
        for part in indices_of(expression) if is_access(expression) else reading_parts(expression, names):
            yield from nodes_with_names(part, names)


def gradient_formula(teller: Teller, name: str, equation: Equation, names: Names) -> tuple[Formula, Ready]:
    """A gradient's formula with folded tensors put in, and its left-hand side."""
    left = tensor_label(name, [names.letter(i) for i in equation.axes])
    return Formula(teller.named(equation.right), names), left
