"""Chaining local derivatives through a program in formulas: the reverse sweep, and the whole Jacobian.

The reverse sweep carries G_t[p], the derivative of Σ v·out by the tensor t, from the output back:
G_x[p] = Σ over the uses of x of Σ_o G_out[o]·J[o,p]. Each G is again an index equation. A G that grows past
``LIMIT`` is given a name (``g_t``) and not put into what follows, so that a long program gets a chain of
short formulas; the sweep is linear in the length of the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy as sp

from symgrad.calculus.local import INNER, Derivative, local
from symgrad.calculus.steps import Step
from symgrad.indexing import Equation, Index, add_up, delta, fresh_axes, replace_accesses
from symgrad.indexing.brackets import within
from symgrad.indexing.canonical import canonical
from symgrad.indexing.symbols import Expr, access
from symgrad.ops import only_read
from symgrad.program import Apply, Program, Pullback

LIMIT = 60
"""Nodes of a formula beyond which it is named rather than put into the next one."""


@dataclass(frozen=True)
class Sweep:
    """Formulas in the order they are computed: named intermediates first, the wanted tensor last.

    ``uses`` holds one formula for each use of the wanted tensor, before they are added up: one through which nothing
    comes back, as the condition of ``where(x > 0, x, b)``, is none.
    """

    stages: tuple[tuple[str, Equation], ...]
    uses: tuple[tuple[str, Equation], ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def equation(self) -> Equation:
        """The formula of the wanted tensor."""
        return self.stages[-1][1]

    @property
    def whole(self) -> bool:
        """Whether one formula says it all."""
        return len(self.stages) == 1


def pull(seed: Equation, d: Derivative) -> Expr:
    """Σ_o seed[o]·J[o, p], with the deltas contracted."""
    return canonical(add_up(seed.at(d.axes) * d.formula, d.axes))


@dataclass(frozen=True)
class Reverse:
    """One reverse sweep: the named intermediates, and what reached each tensor it was asked for, use by use."""

    stages: tuple[tuple[str, Equation], ...]
    gathered: Mapping[str, Sequence[tuple[str, Equation]]]
    steps: tuple[Step, ...]


def reverse(program: Program, wanted: Sequence[str], seed: Equation | None = None, limit: int = LIMIT) -> Reverse:
    """The reverse sweep for several tensors at once."""
    if seed is None:
        at = fresh_axes(program.out.shape)
        seed = Equation(at, access(program.seed, at))
    needed = program.reached(wanted) & program.relevant()
    gathered: dict[str, list[tuple[str, Equation]]] = {program.output: [(program.seed, seed)]}
    stages: list[tuple[str, Equation]] = []
    steps: list[Step] = []
    for step in reversed(program.steps):
        name = step.result.name
        if name not in needed or name not in gathered:
            continue
        carried = _added(gathered[name])
        if _size(carried.right) > limit:
            stages.append((program.back + name, carried))
            carried = Equation(carried.axes, access(program.back + name, carried.axes))
        for position, d in local(step, program).derivatives.items():
            argument = step.arguments[position]
            if isinstance(argument, str) and argument in needed and counts(step, position):
                grown = Equation(d.inner, within(program.required, pull(carried, d)))
                gathered.setdefault(argument, []).append((f"{name}, argument {position + 1}", grown))
                steps += [
                    *d.steps,
                    Step("weigh and add", grown.right, f"each row of J times its weight, through {step.op}"),
                ]
    return Reverse(tuple(stages), gathered, tuple(steps))


def counts(step: Apply, position: int) -> bool:
    """Whether an operand of a pullback is read: one that counts by its shape alone is no use of it."""
    return not (isinstance(step.op, Pullback) and only_read(step.op, position))


def total(swept: Reverse, program: Program, wanted: str) -> Equation:
    """The sum of what reached ``wanted``; 0 when nothing did."""
    uses = swept.gathered.get(wanted, [])
    return _added(uses) if uses else Equation(fresh_axes(program.tensor(wanted).shape, INNER), sp.S.Zero)


def pullback(program: Program, wanted: str, seed: Equation | None = None, limit: int = LIMIT) -> Sweep:
    """The derivative of Σ v·out by ``wanted`` as index equations in v, inputs and forward values."""
    swept = reverse(program, (wanted,), seed, limit)
    stages = (*swept.stages, (wanted, total(swept, program, wanted)))
    uses = tuple(use for use in swept.gathered.get(wanted, ()) if use[1].right != 0)
    return Sweep(stages, uses, swept.steps)


def jacobian(
    program: Program, wanted: str, limit: int = 4 * LIMIT
) -> tuple[tuple[Index, ...], tuple[Index, ...], Sweep] | None:
    """∂out[o]/∂wanted[p] as one formula: the pullback of the seed that is 1 at o and 0 elsewhere.

    None when the formula would be longer than anyone can read; numbers come from the chain then.
    """
    outer = fresh_axes(program.out.shape)
    at = fresh_axes(program.out.shape)
    one_hot = sp.Mul(*(delta(a, o) for a, o in zip(at, outer, strict=True)))
    sweep = pullback(program, wanted, Equation(at, one_hot), limit)
    if not sweep.whole:
        return None
    return outer, sweep.equation.axes, sweep


def substitute(equation: Equation, definitions: Mapping[str, Equation]) -> Equation:
    """``equation`` with accesses of defined tensors replaced by their definitions."""

    def defined(name: str, at: tuple[Expr, ...]) -> Expr | None:
        return definitions[name].at(at) if name in definitions else None

    return Equation(equation.axes, canonical(replace_accesses(equation.right, defined)))


def _added(terms: Sequence[tuple[str, Equation]]) -> Equation:
    """The sum of equations over the indices of the first."""
    axes = terms[0][1].axes
    return Equation(axes, canonical(sp.Add(*(equation.at(axes) for _, equation in terms))))


def _size(expression: Expr) -> int:
    """The number of nodes."""
    return 1 + sum(_size(a) for a in expression.args)
