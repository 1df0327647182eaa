"""The explanation of one expression: plain frozen data, the derivation with its numbers and its proofs.

Built by `symgrad.explanation`, read by the renderers. Nothing here computes a derivative; what is
large (matrices) is made from the formula when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from symgrad.backward import Backward, ForwardMode, derive_backward, derive_pushforward
from symgrad.backward.line_templates import ProgramForm
from symgrad.calculus import Rewrite, Sweep, flows, local_jacobian
from symgrad.closed_form.form import assign_form
from symgrad.entries.derived_facts import is_non_differentiable
from symgrad.errors import Hint, InputError
from symgrad.explanation.evidence import may_be_rounding, with_rounding_marked
from symgrad.explanation.formulas import Entry, entry_story, find_definitions
from symgrad.explanation.given import Given, Seed, Writers, Written
from symgrad.explanation.jacobian import Hessian, Jacobian
from symgrad.explanation.singular import Passage, Singular
from symgrad.indexing import Equation, Index
from symgrad.indexing.definitions import NamedEquation
from symgrad.indexing.symbols import Expr
from symgrad.language import arguments
from symgrad.numeric import Array, Values, as_float, evaluate, term_sizes, without_fractions
from symgrad.numeric.arranged import SYMMETRIC, both_places, read_as_matrix
from symgrad.numeric.sparse import terms_of
from symgrad.numeric.vector_products import numeric_pullback
from symgrad.ops import entry_of
from symgrad.oracles.comparisons import Check, CheckVerdict, Text, TextOutcome
from symgrad.program import Program

if TYPE_CHECKING:
    import symgrad.explanation.kinks  # loaded when kinks are asked for: Sphinx knows a whole name without it
    from symgrad.oracles.torch import TorchRun


FormProof = Callable[[], tuple[ProgramForm | None, Check | None]]
"""Gives a closed form that was proven, and how close it came; nothing where there is none."""


@dataclass(frozen=True, eq=False)
class Gradient:
    """vᵀJ for one input, in the input's shape.

    ``form`` is its closed form, or None where there is none, proven when it is asked for first;
    ``formula`` the index formula ∂(Σ v·out)/∂x[inner] in SymPy; ``singular`` what is to be said of the entries, where
    something is not finite.
    """

    name: str
    prove: FormProof
    sweep: Sweep
    value: Array
    jacobian: Jacobian
    checks: tuple[Check, ...]
    program: Program
    values: Values
    singular: Singular | None = None

    @property
    def form(self) -> ProgramForm | None:
        """The closed form with what it was proven as."""
        return self.prove()[0]

    @property
    def closed_form(self) -> str | None:
        """Text in torch's syntax over v, out and the inputs, or None; names come first: ``K = …; K * v``."""
        return None if self.form is None else self.form.text

    @cached_property
    def shown(self) -> Array:
        """``value``, each entry that is no more than rounding leaves of 0 as `Rounding`."""
        return self._marked(np.asarray)

    @property
    def single_shown(self) -> Array | None:
        """`single_variable`, rounding marked alike."""
        return None if self.single_variable is None else self._marked(both_places)

    def _marked(self, made: Callable[[Array], Array]) -> Array:
        """What is ``made`` of the gradient, what is rounding marked."""
        number = made(self.value)
        if not may_be_rounding(number, self.values):
            return number
        seed = self.values[self.program.seed]
        terms = term_sizes(self.program, [self.name], self.values, seed, within=True)[self.name]
        return with_rounding_marked(number, None if terms is None else made(terms))

    @property
    def inner(self) -> tuple[Index, ...]:
        """The indices of the entry that ``formula`` gives."""
        return self.sweep.equation.axes

    @property
    def formula(self) -> Expr:
        """The index formula."""
        return self.sweep.equation.right

    @property
    def steps(self) -> tuple[Rewrite, ...]:
        """The derivation, move by move, as it was made."""
        return (*self.sweep.steps, *(self.form.steps if self.form else ()))

    @property
    def passed(self) -> bool:
        """Whether no oracle disagreed."""
        return all(check.passed is not False for check in self.checks)

    @property
    def single_variable(self) -> Array | None:
        """For a matrix that is read as symmetric: the derivative by x[i,j] and x[j,i] as one variable, else None.

        ``value`` shares it evenly between the two places, as torch does: ⟨value, dx⟩ is the same for symmetric dx.
        """
        if read_as_matrix(self.program).get(self.name) not in SYMMETRIC:
            return None
        return both_places(self.value)

    def __repr__(self) -> str:
        return f"<{'; '.join(assign_form(f'{self.name}.grad', self.closed_form or 'an index formula'))}>"

    def entry(self, at: tuple[int, ...]) -> Entry:
        """The full story of one entry: ``x.grad[at]`` as formula, written out, in numbers."""
        place = arguments.require_position(at, "at")
        return entry_story(self.name, place, self.sweep, self.value, self.values, self.program.seed)


@dataclass(frozen=True, eq=False)
class Explanation(Written):
    """What ``out.backward(v)`` computes for one expression, and the proofs.

    ``hessians`` holds second derivatives by pairs of inputs, where ``order=2`` asked for them; ``conventions``
    says how complex tensors are shown, where there are any; ``out_of_range`` that floats overflow on the way. ``text``
    is what was typed, ``asked`` what torch said of it; ``forward`` asks the page for the lines of Ju.
    """

    expression: str
    program: Program
    inputs: tuple[Given, ...]
    values: Values
    output: Array
    seed_info: Seed
    gradients: Mapping[str, Gradient]
    assumptions: tuple[str, ...]
    hints: tuple[Hint, ...]
    torch_version: str | None
    downstream: Explanation | None = None
    expanded: bool = False
    checked: bool = True
    writers: Writers | None = None
    hessians: Mapping[tuple[str, str], Hessian] = field(default_factory=dict)
    conventions: tuple[str, ...] = ()
    out_of_range: str = ""
    text: Text | None = None
    asked: TorchRun | None = None
    forward: bool = False

    @property
    def seed(self) -> Array:
        """v, in the shape of the output."""
        return self.seed_info.value

    @property
    def passed(self) -> bool:
        """Whether no oracle disagreed, here and downstream, and torch does not refuse what the text does."""
        here = all(g.passed for g in self.gradients.values()) and all(h.passed for h in self.hessians.values())
        return here and not self.refused and (self.downstream is None or self.downstream.passed)

    @property
    def refused(self) -> str:
        """Torch's words where it does not run the text as it stands, whatever its arguments are called."""
        return "" if self.asked is None or self.asked.dialect else self.asked.refused

    @property
    def outcome(self) -> TextOutcome:
        """What torch says of the text."""
        asked = self.asked
        data = frozenset[str]() if asked is None else asked.data
        asked_by = [gradient for name, gradient in self.gradients.items() if name not in data]
        checks = [c for g in asked_by for c in g.checks if c.oracle.startswith("out.backward")]
        if asked is not None and asked.refused:
            return TextOutcome.REFUSED
        if asked is not None and ((asked.refusal and asked.text) or (data and not asked_by)):
            return TextOutcome.UNDERIVED
        if any(check.passed is False for check in checks):
            return TextOutcome.DIFFERS
        if asked is None or not checks or any(check.verdict is not CheckVerdict.AGREES for check in checks):
            return TextOutcome.NOT_COMPARED
        return TextOutcome.AS_READ if asked.unread or asked.kept else TextOutcome.EQUAL

    @cached_property
    def backward(self) -> Backward:
        """The lines that a person would write for ``out.backward(v)``, each proven, with their numbers.

        ``v_h`` has the shape of ``h`` and is the derivative of Σ v·out by it; ``.code()`` gives them as a function.
        """
        return derive_backward(
            self.program, tuple(self.gradients), values=self.values, ones=self.seed_info.origin == "scalar",
            pull=lambda program, values, names, _: numeric_pullback(program, values, self.seed, names),
        )  # fmt: skip

    @cached_property
    def pushforward(self) -> ForwardMode | None:
        """The lines of Ju, how ``out`` changes where the inputs change: ``Ju = u * x.cos()``; None if it does not."""
        moved = [name for name in self.gradients if flows(self.program, name)]
        return derive_pushforward(self.program, moved, self.values) if moved else None

    @cached_property
    def definitions(self) -> tuple[NamedEquation, ...]:
        """The names that the answer's code reads, as index equations: formulas are written in these."""
        forms = (gradient.closed_form for gradient in self.gradients.values())
        return find_definitions(self.program, self.backward, forms, self.values)

    @cached_property
    def kinks(self) -> tuple[symgrad.explanation.kinks.Tie, ...]:
        """The kinks and jumps that these numbers stand on, where they matter to a gradient; from the output back."""
        ops = [op for step in self.program.steps if (op := entry_of(step.op)) is not None]
        if self.out_of_range or all(op.smooth and not is_non_differentiable(op) for op in ops):
            return ()
        from symgrad.explanation.ties import switches, ties

        met: list[Passage] = []
        program, values, names = self.program, self.values, tuple(self.gradients)
        weights = as_float(self.seed)
        numeric_pullback(program, values, weights, names, lambda *of: met.append(Passage(*of)))

        def back(name: str, change: Array) -> Mapping[str, Array]:
            return numeric_pullback(replace(program, output=name), values, change, names)

        return (*ties(program, values, met, back), *switches(program, values, weights, names, met, self.text))

    @cached_property
    def shown(self) -> Array:
        """``output``, each entry that is no more than rounding leaves of 0 as `Rounding`."""
        step = next((s for s in self.program.steps if s.result.name == self.program.output), None)
        if step is None or not may_be_rounding(self.output, self.values) or entry_of(step.op) is None:
            return self.output
        equation = local_jacobian(step, self.program).equation
        terms = Equation(equation.axes, terms_of(equation.right))
        return with_rounding_marked(self.output, as_float(evaluate(terms, self.values.arrays, self.values.sizes)))

    def hessian(self, first: str, second: str | None = None) -> Hessian:
        """The second derivative by a pair of inputs; raises `InputError` when it was not asked for."""
        first = arguments.require_name(first, "the first input")
        pair = (first, first if second is None else arguments.require_name(second, "the second input"))
        if pair not in self.hessians:
            raise InputError(
                f"there is no Hessian with respect to {' and '.join(pair)} here", hints=("explain(…, order=2)",)
            )
        return self.hessians[pair]

    def __repr__(self) -> str:
        forms = ", ".join(
            "; ".join(assign_form(f"{n}.grad", g.closed_form or "an index formula")) for n, g in self.gradients.items()
        )
        return f"<explanation of {self.expression!r}: {forms}>"

    @property
    def exact(self) -> bool:
        """Whether every number is an integer or a fraction, so that equal means identical."""
        return all(without_fractions(g.value).dtype != np.float64 for g in self.gradients.values())
