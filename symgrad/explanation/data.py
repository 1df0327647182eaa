"""The explanation of one expression as frozen data: the derivation, its numbers and its checks.

`symgrad.explanation` builds it, renderers read it. Nothing here computes a derivative; large matrices are computed from
the formula at the first access.
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
from symgrad.explanation.formulas import Entry, explain_entry, find_definitions
from symgrad.explanation.given import Given, Seed, Writers, Written
from symgrad.explanation.jacobian import Hessian, Jacobian
from symgrad.explanation.singular import Passage, Singular
from symgrad.indexing import Equation, Index
from symgrad.indexing.definitions import NamedEquation
from symgrad.indexing.symbols import Expr
from symgrad.language import arguments
from symgrad.numeric import Array, Values, as_float, evaluate, term_sizes, without_fractions
from symgrad.numeric.arranged import SYMMETRIC, matrix_inputs, symmetric_gradient
from symgrad.numeric.sparse import terms_of
from symgrad.numeric.vector_products import numeric_pullback
from symgrad.ops import entry_of
from symgrad.oracles.comparisons import Check, CheckVerdict, Text, TextOutcome
from symgrad.program import Program

if TYPE_CHECKING:
    import symgrad.explanation.kinks  # loaded when kinks are asked for: Sphinx knows a whole name without it
    from symgrad.oracles.torch import TorchRun


FormProof = Callable[[], tuple[ProgramForm | None, Check | None]]
"""Returns the closed form and its check, or (None, None) if none was proven."""


@dataclass(frozen=True, eq=False)
class Gradient:
    """vᵀJ for one input, in the input's shape.

    ``form`` is its closed form, proven at the first access, or None. ``formula`` is the index formula
    ∂(Σ v·out)/∂x[inner] in SymPy. ``singular`` describes entries that are not finite; None if all are.
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
        """The closed form, as it was proven."""
        return self.prove()[0]

    @property
    def closed_form(self) -> str | None:
        """Text in torch's syntax in v, out and the inputs, or None; definitions come first: ``K = …; K * v``."""
        return None if self.form is None else self.form.text

    @cached_property
    def shown(self) -> Array:
        """``value``, with entries that may be a rounded 0 marked as `Rounding`."""
        return self._marked(np.asarray)

    @property
    def single_shown(self) -> Array | None:
        """`single_variable`, with entries that may be a rounded 0 marked as `Rounding`."""
        return None if self.single_variable is None else self._marked(symmetric_gradient)

    def _marked(self, made: Callable[[Array], Array]) -> Array:
        """Return ``made(value)`` with entries that may be a rounded 0 marked."""
        number = made(self.value)
        if not may_be_rounding(number, self.values):
            return number
        seed = self.values[self.program.seed]
        terms = term_sizes(self.program, [self.name], self.values, seed, within=True)[self.name]
        return with_rounding_marked(number, None if terms is None else made(terms))

    @property
    def inner(self) -> tuple[Index, ...]:
        """The free indices of ``formula``."""
        return self.sweep.equation.axes

    @property
    def formula(self) -> Expr:
        """The index formula."""
        return self.sweep.equation.right

    @property
    def steps(self) -> tuple[Rewrite, ...]:
        """The steps of the derivation, in order."""
        return (*self.sweep.steps, *(self.form.steps if self.form else ()))

    @property
    def passed(self) -> bool:
        """Whether no oracle disagreed."""
        return all(check.passed is not False for check in self.checks)

    @property
    def single_variable(self) -> Array | None:
        """For an input used as a symmetric matrix: the derivative with respect to x[i,j] = x[j,i] as one variable.

        None for other inputs. ``value`` divides it evenly between the two entries, as torch does: ⟨value, dx⟩ is the
        same for symmetric dx.
        """
        if matrix_inputs(self.program).get(self.name) not in SYMMETRIC:
            return None
        return symmetric_gradient(self.value)

    def __repr__(self) -> str:
        return f"<{'; '.join(assign_form(f'{self.name}.grad', self.closed_form or 'an index formula'))}>"

    def entry(self, at: tuple[int, ...]) -> Entry:
        """Return one entry ``x.grad[at]`` in full: its formula, its terms written out, and their numbers."""
        place = arguments.require_position(at, "at")
        return explain_entry(self.name, place, self.sweep, self.value, self.values, self.program.seed)


@dataclass(frozen=True, eq=False)
class Explanation(Written):
    """The derivation and numbers of ``out.backward(v)`` for one expression, with its checks.

    ``hessians`` holds second derivatives by pairs of inputs (``order=2``). ``conventions`` are sentences about how
    complex tensors are shown. ``out_of_range`` is a sentence if floats overflow. ``text`` is the typed text, ``asked``
    torch's result for it. With ``forward`` the page has the lines of Ju.
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
        """The seed v, in the shape of the output."""
        return self.seed_info.value

    @property
    def passed(self) -> bool:
        """Whether no oracle disagreed, here and downstream, and torch did not reject the text."""
        here = all(g.passed for g in self.gradients.values()) and all(h.passed for h in self.hessians.values())
        return here and not self.refused and (self.downstream is None or self.downstream.passed)

    @property
    def refused(self) -> str:
        """Torch's message if it rejects the text, empty otherwise, and for texts in another library's dialect."""
        return "" if self.asked is None or self.asked.dialect else self.asked.refused

    @property
    def outcome(self) -> TextOutcome:
        """The comparison of the result with torch's for the typed text."""
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
        """The lines of ``out.backward(v)`` as a person would write them, each proven, with their numbers.

        ``v_h`` has the shape of ``h`` and is the derivative of Σ v·out with respect to h. ``.code()`` returns the
        lines as a function.
        """
        return derive_backward(
            self.program, tuple(self.gradients), values=self.values, ones=self.seed_info.origin == "scalar",
            pull=lambda program, values, names, _: numeric_pullback(program, values, self.seed, names),
        )  # fmt: skip

    @cached_property
    def pushforward(self) -> ForwardMode | None:
        """The lines of Ju, the change of ``out`` along u: ``Ju = u * x.cos()``; None if no input has a gradient."""
        moved = [name for name in self.gradients if flows(self.program, name)]
        return derive_pushforward(self.program, moved, self.values) if moved else None

    @cached_property
    def definitions(self) -> tuple[NamedEquation, ...]:
        """The names that the gradients' code reads, as index equations; formulas are written with them."""
        forms = (gradient.closed_form for gradient in self.gradients.values())
        return find_definitions(self.program, self.backward, forms, self.values)

    @cached_property
    def kinks(self) -> tuple[symgrad.explanation.kinks.Tie, ...]:
        """The kinks and jumps at these numbers that affect a gradient, in order from the output back."""
        ops = [op for step in self.program.steps if (op := entry_of(step.op)) is not None]
        if self.out_of_range or all(op.smooth and not is_non_differentiable(op) for op in ops):
            return ()
        from symgrad.explanation.ties import find_switches, find_ties

        met: list[Passage] = []
        program, values, names = self.program, self.values, tuple(self.gradients)
        weights = as_float(self.seed)
        numeric_pullback(program, values, weights, names, lambda *of: met.append(Passage(*of)))

        def back(name: str, change: Array) -> Mapping[str, Array]:
            return numeric_pullback(replace(program, output=name), values, change, names)

        return (*find_ties(program, values, met, back), *find_switches(program, values, weights, names, met, self.text))

    @cached_property
    def shown(self) -> Array:
        """``output``, with entries that may be a rounded 0 marked as `Rounding`."""
        step = next((s for s in self.program.steps if s.result.name == self.program.output), None)
        if step is None or not may_be_rounding(self.output, self.values) or entry_of(step.op) is None:
            return self.output
        equation = local_jacobian(step, self.program).equation
        terms = Equation(equation.axes, terms_of(equation.right))
        return with_rounding_marked(self.output, as_float(evaluate(terms, self.values.arrays, self.values.sizes)))

    def hessian(self, first: str, second: str | None = None) -> Hessian:
        """Return the Hessian of a pair of inputs; raise `InputError` without ``order=2``."""
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
        """Whether every number is an integer or a fraction, so that equal numbers are identical."""
        return all(without_fractions(g.value).dtype != np.float64 for g in self.gradients.values())
