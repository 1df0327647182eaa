"""One operand of one step of a formula: where a mistake may sit, and what the right local pullback there is.

Comes in: a program with its values. Goes out: a `Place`, with the step in standard names, its equation and its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from symgrad.calculus import flowing, local_pullback, standard
from symgrad.calculus.local import Standard
from symgrad.indexing import Equation
from symgrad.numeric import Array, Values, as_float
from symgrad.numeric.sweeps import pull_step
from symgrad.ops.entry import plays
from symgrad.program import Apply, Program, Role

Change = Callable[[Array], Array]
"""What another local pullback makes of a cotangent."""


@dataclass(frozen=True, eq=False)
class Place:
    """One operand of one step, in a program that computes output ``number``."""

    program: Program
    values: Values
    number: int
    step: Apply
    position: int

    @property
    def form(self) -> Standard:
        """The step in standard names."""
        return standard(self.step, self.program)

    @property
    def equation(self) -> Equation:
        """Its local pullback."""
        return local_pullback(self.form.key, self.position)

    @property
    def operand(self) -> Array:
        """The operand's numbers."""
        return self.values[str(self.step.arguments[self.position])]

    @property
    def result(self) -> Array:
        """The step's result."""
        return self.values[self.step.result.name]

    @property
    def alone(self) -> bool:
        """Whether the program is this step."""
        return len([s for s in self.program.steps if not plays(s.op, Role.COPIES)]) < 2

    @property
    def said(self) -> str:
        """``, in h = relu(t1)``; nothing where there is no other step."""
        arguments = ", ".join(a if isinstance(a, str) else str(a.value) for a in self.step.arguments)
        return "" if self.alone else f", in {self.step.result.name} = {self.step.called}({arguments})"

    @property
    def seed(self) -> str:
        """What the cotangent of the result is called: v where what follows only passes it on."""
        name = self.step.result.name
        return self.program.seed if name == self.program.output or self.alone else f"v_{name}"

    def leads_to(self, names: Sequence[str]) -> bool:
        """Whether anything flows on from here to one of some inputs."""
        operand = str(self.step.arguments[self.position])
        return operand in names or operand in flowing(self.program, names)

    def pulled(self, cotangent: Array, values: Values | None = None, step: Apply | None = None) -> Array:
        """The local pullback, with other numbers or another step in its place."""
        point = self.values if values is None else values
        return as_float(pull_step(step or self.step, self.program, point, cotangent, [self.position])[self.position])
