"""The closed form of a whole program: the line of the program taken as one group, in the program's own names.

Comes in: a program, one of its inputs, and values to prove the form at. Goes out: a `ProgramForm` that holds at them,
near them and at other sizes, or None. A program that is one group has this line in its backward, too: it is derived and
proven once for both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from symgrad.backward.code import recursion_room, write_with_modules
from symgrad.backward.groups import group_program
from symgrad.backward.line_templates import claim_form, claim_masked_form, template_for
from symgrad.backward.standard_groups import StandardGroup, standardise_group
from symgrad.backward.template_cache import LineTemplate
from symgrad.backward.trees import split_definitions
from symgrad.calculus import Rewrite
from symgrad.indexing import Equation, instantiate
from symgrad.numeric import Values
from symgrad.program import Program, free_name


@dataclass(frozen=True, eq=False)
class ProgramForm:
    """``text`` is the closed form in the names of a program; ``template`` is what it was proven as, of ``standard``."""

    text: str
    template: LineTemplate
    standard: StandardGroup

    @property
    def shown(self) -> str:
        """The form as a page shows it: functions with their modules."""
        return write_with_modules(self.text)

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules that led to it."""
        return self.template.rules

    @property
    def steps(self) -> tuple[Rewrite, ...]:
        """The moves that led to it, one by one, in the names of the program."""
        origin = self.template.origin
        axes, names, sizes = origin.sweep.equation.axes, self.standard.names, self.standard.own_sizes
        for form in (claim_form(origin), claim_masked_form(origin)):
            if form is not None and {*self.rules} <= {step.rule for step in form.steps}:
                own = [step for step in form.steps if step.rule in self.rules]
                moved = (instantiate(Equation(axes, step.formula), names, sizes) for step in own)
                return tuple(replace(step, formula=made.right) for step, made in zip(own, moved, strict=True))
        return ()


def prove_program_form(program: Program, wanted: str, values: Values) -> ProgramForm | None:
    """The gradient by ``wanted`` in matrix notation, proven at ``values``; None where there is no such form."""
    if not program.steps:
        return None
    with recursion_room(program):
        standard = standardise_group(group_program(program), program.by_name, values, program.required)
        own = next(std for std, name in standard.names.items() if name == wanted)
        found = template_for(standard, own, False, values, short=True)
    text = None if found.notation is None else name_form(found.notation, standard, program)
    return None if text is None else ProgramForm(text, found, standard)


WORD = re.compile(r"""(["']).*?\1|(?<![\w.])[^\W\d]\w*""")
"""What may be a name, and texts in quotation marks, which hold letters of axes."""


def name_form(text: str, standard: StandardGroup, program: Program) -> str | None:
    """A text in the names of the program; None where it reads whole numbers that an operation found by itself."""
    definitions, _ = split_definitions(text)
    names = {**standard.names, "v": program.seed}
    taken = {program.seed, *(t.name for t in program.inputs), *(step.result.name for step in program.forward_steps)}
    for name, _ in definitions:
        names[name] = free_name((name,), taken)
        taken.add(names[name])
    if any(word[0] in standard.held for word in WORD.finditer(text)):
        return None
    return WORD.sub(lambda word: names.get(word[0], word[0]), text)
