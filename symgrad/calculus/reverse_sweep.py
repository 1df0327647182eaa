"""Chaining local derivatives through a program in formulas: the reverse sweep, whole Jacobians, second derivatives.

Comes in: a program, the weights of its output, the inputs that are asked for. Goes out: index equations, and the steps
that led to them.

The reverse sweep carries G_t[p], the derivative of Σ v·out by the tensor t, from the output back:
G_x[p] = Σ over the uses of x of Σ_o G_out[o]·J[o,p]. Each G is again an index equation. A G that grows past
``LIMIT`` is given a name (``g_t``) and not put into what follows, so that a long program gets a chain of
short formulas; the sweep is linear in the length of the program.

A second derivative is the gradient's index equation, differentiated once more, or None when the formula would be longer
than anyone can read; conditions are locally constant, so a kink adds nothing, as in torch's double backward:

    H[p, q] = ∂G[p]/∂x[q] + Σ_t Σ_r ∂G[p]/∂t[r] · ∂t[r]/∂x[q]        (the t are the forward values in G)

Of a step whose result solves an equation F(x, out) = 0 a `Differential` says how it moves with its operands:

    Σ ∂F/∂x·dx + Σ ∂F/∂out·dout = 0,   and solved for dout:   dout = Σ ∂out/∂x·dx
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import sympy as sp

from symgrad.calculus.differentiate import Rewrite, differentiate
from symgrad.calculus.local_derivatives import (
    INNER,
    SEED,
    Derivative,
    derive_local,
    local_jacobian,
    local_pullback,
    no_number,
    standard,
)
from symgrad.calculus.propagation import carry_back
from symgrad.indexing import (
    Equation,
    Index,
    access,
    accesses,
    contracted_sum,
    delta,
    fresh_axes,
    instantiate,
    replace_accesses,
)
from symgrad.indexing.brackets import Bracket, within, without_implied
from symgrad.indexing.equation import canonical
from symgrad.indexing.symbols import Expr, name_of, weight
from symgrad.ops import is_data_argument
from symgrad.program import Apply, Program, VectorProduct

LIMIT = 60
"""Nodes of a formula beyond which it is named rather than put into the next one."""
MANY = 20
"""Steps of a program beyond which everything is named that is made of a named gradient."""


@dataclass(frozen=True)
class Sweep:
    """Formulas in the order they are computed: named intermediates first, the wanted tensor last.

    ``uses`` holds one formula for each use of the wanted tensor, before they are added up: one through which nothing
    comes back, as the condition of ``where(x > 0, x, b)``, is none.
    """

    stages: tuple[tuple[str, Equation], ...]
    uses: tuple[tuple[str, Equation], ...] = ()
    steps: tuple[Rewrite, ...] = ()

    @property
    def equation(self) -> Equation:
        """The formula of the wanted tensor."""
        return self.stages[-1][1]

    @property
    def whole(self) -> bool:
        """Whether one formula says it all."""
        return len(self.stages) == 1

    def changed(self, change: Callable[[Expr], Expr]) -> Sweep:
        """The same with every formula changed."""
        return replace(self, stages=tuple((name, Equation(e.axes, change(e.right))) for name, e in self.stages))


def pull(seed: Equation, d: Derivative) -> Expr:
    """Σ_o seed[o]·J[o, p], with the deltas contracted."""
    return canonical(contracted_sum(seed.at(d.axes) * d.formula, d.axes))


Uses = tuple[tuple[str, Equation], ...]
"""What reached a tensor, use by use, with the use in words."""


@dataclass(frozen=True)
class Reverse:
    """One reverse sweep: the named intermediates, and what reached each tensor, use by use.

    ``steps`` say which tensor each led to; a tensor that nothing in one piece could reach has gathered None.
    """

    program: Program
    stages: tuple[tuple[str, Equation], ...]
    gathered: Mapping[str, Uses | None]
    steps: tuple[tuple[str, Rewrite], ...]

    def total(self, wanted: str) -> Equation:
        """The sum of what reached ``wanted``; 0 when nothing did."""
        uses = self.gathered.get(wanted)
        return added_uses(uses) if uses else Equation(fresh_axes(self.program.tensor(wanted).shape, INNER), sp.S.Zero)

    def by(self, wanted: str) -> Sweep:
        """What of it leads to one tensor."""
        way = self.program.reached((wanted,))
        back = len(self.program.back)
        stages = (stage for stage in self.stages if stage[0][back:] in way)
        steps = tuple(step for tensor, step in self.steps if tensor in way)
        uses = tuple(use for use in self.gathered.get(wanted) or () if use[1].right != 0)
        return Sweep((*stages, (wanted, self.total(wanted))), uses, steps)


def reverse(
    program: Program, wanted: Sequence[str], seed: Equation | None = None, limit: int = LIMIT, in_one: bool = False
) -> Reverse:
    """The reverse sweep for several tensors at once; ``in_one``: what would have to be named is given up instead.

    In a program of many steps, whatever reads a named gradient has a name itself: its lines are alike then.
    """
    if seed is None:
        at = fresh_axes(program.out.shape)
        seed = Equation(at, access(program.seed, at))
    needed = program.reached(wanted) & program.relevant
    many = len(program.steps) > MANY
    stages: dict[str, Equation] = {}
    steps: list[tuple[str, Rewrite]] = []

    def pulled(step: Apply, uses: Uses | None) -> Iterator[tuple[str, Uses | None]]:
        name = step.result.name
        places = [n for n in range(len(step.arguments)) if name in needed and leads_to_needed(step, n, needed)]
        carried = None if uses is None or name not in needed else added_uses(uses)
        if carried is not None and (weight(carried.right) > limit or (many and reads_any(carried, stages))):
            stages[program.back + name] = carried
        for position in places:
            argument = str(step.arguments[position])
            named = program.back + name in stages
            if carried is None or (in_one and named):
                yield argument, None
                continue
            through, moves = (
                named_pull(step, program, position) if named else formula_pull(carried, step, program, position)
            )
            grown = Equation(through.axes, without_implied(within(program.required, through.right)))
            weighed = Rewrite("weigh and add", grown.right, f"each row of J times its weight, through {step.op}")
            steps.extend((argument, made) for made in (*moves, weighed))
            yield argument, ((f"{name}, argument {position + 1}", grown),)

    def both(one: Uses | None, other: Uses | None) -> Uses | None:
        return None if one is None or other is None else (*one, *other)

    arrived: dict[str, Uses | None] = {program.output: ((program.seed, seed),)}
    gathered = carry_back(program.steps, arrived, pulled, both)
    return Reverse(program, tuple(stages.items()), gathered, tuple(steps))


Pulled = tuple[Equation, tuple[Rewrite, ...]]
"""What is pulled through a step, and how the derivative of its operation was made."""


def formula_pull(carried: Equation, step: Apply, program: Program, position: int) -> Pulled:
    """The formula ``carried`` pulled through a step, in one piece."""
    d = local_jacobian(step, program).derivatives[position]
    return Equation(d.inner, pull(carried, d)), d.steps


def named_pull(step: Apply, program: Program, position: int) -> Pulled:
    """A gradient that has a name pulled through a step: the pullback of the operation, in those words."""
    form = standard(step, program)
    d = derive_local(form.key).derivatives[position]
    if d.formula.has(sp.nan, sp.zoo):
        raise no_number(step)
    names = {**form.names, SEED: program.back + step.result.name}
    return instantiate(local_pullback(form.key, position), names, form.sizes), d.steps


def leads_to_needed(step: Apply, position: int, needed: Collection[str]) -> bool:
    """Whether an operand is one of those that are needed, and is used here.

    One of a pullback that counts by its shape alone is not.
    """
    argument = step.arguments[position]
    read = isinstance(argument, str) and argument in needed
    return read and not (isinstance(step.op, VectorProduct) and is_data_argument(step.op, position))


def reads_any(equation: Equation, names: Collection[str]) -> bool:
    """Whether a formula reads one of some tensors."""
    return bool(names) and any(name_of(entry) in names for entry in accesses(equation.right))


def pullback(program: Program, wanted: str, seed: Equation | None = None, limit: int = LIMIT) -> Sweep:
    """The derivative of Σ v·out by ``wanted`` as index equations in v, inputs and forward values."""
    return reverse(program, (wanted,), seed, limit).by(wanted)


def pullbacks_by(program: Program, wanted: Sequence[str]) -> Mapping[str, Sweep]:
    """`pullback` by several tensors, all from one sweep."""
    swept = reverse(program, wanted)
    return {name: swept.by(name) for name in wanted}


Whole = tuple[tuple[Index, ...], tuple[Index, ...], Sweep]
"""The axes of the output, those of an input, and ∂out/∂input."""


def jacobian_formula(program: Program, wanted: str, limit: int = 4 * LIMIT) -> Whole | None:
    """∂out[o]/∂wanted[p] as one formula: the pullback of the seed that is 1 at o and 0 elsewhere.

    None when the formula would be longer than anyone can read; numbers come from the chain then.
    """
    return jacobian_formulas(program, (wanted,), limit)[wanted]


def jacobian_formulas(program: Program, wanted: Sequence[str], limit: int = 4 * LIMIT) -> Mapping[str, Whole | None]:
    """`jacobian_formula` by several tensors, all from one sweep."""
    outer = fresh_axes(program.out.shape)
    at = fresh_axes(program.out.shape)
    one_hot = sp.Mul(*(delta(a, o) for a, o in zip(at, outer, strict=True)))
    swept = reverse(program, wanted, Equation(at, one_hot), limit, in_one=True)
    sweeps = {name: swept.by(name) for name in wanted if swept.gathered.get(name, ()) is not None}
    return dict.fromkeys(wanted) | {n: (outer, s.equation.axes, s) for n, s in sweeps.items() if s.whole}


def substitute(equation: Equation, definitions: Mapping[str, Equation]) -> Equation:
    """``equation`` with accesses of defined tensors replaced by their definitions."""

    def defined(name: str, at: tuple[Expr, ...]) -> Expr | None:
        return definitions[name].at(at) if name in definitions else None

    return Equation(equation.axes, canonical(replace_accesses(equation.right, defined)))


def added_uses(terms: Sequence[tuple[str, Equation]]) -> Equation:
    """The sum of equations over the indices of the first."""
    if len(terms) == 1 and all(edge.has(sp.Indexed) for edge in terms[0][1].right.atoms(Bracket)):
        return terms[0][1]  # conditions on indices alone may be decided when they are written anew
    axes = terms[0][1].axes
    return Equation(axes, canonical(sp.Add(*(equation.at(axes) for _, equation in terms))))


LETTERS = "pqrstuwz"
"""Letters for the entries of both inputs: the second goes on where the first ends."""
LONGEST = 400
"""Nodes of the longest gradient that is differentiated again."""


def second_derivative(program: Program, first: str, second: str, seed: Equation | None = None) -> Equation | None:
    """∂²(Σ v·out) / ∂first[p] ∂second[q] on the axes of ``first``, then those of ``second``."""
    swept = pullback(program, first, seed, LONGEST)
    if not swept.whole:
        return None
    gradient = swept.equation
    rank, shape = len(gradient.axes), program.tensor(second).shape
    inner = fresh_axes((*(a.size for a in gradient.axes), *shape), LETTERS)[rank:]
    right = differentiate(gradient.right, second, inner)
    results = {step.result.name for step in program.steps}
    for name in sorted({name_of(entry) for entry in accesses(gradient.right)} & results):
        moved = jacobian_formula(replace(program, output=name), second, LONGEST)
        if moved is None:
            return None
        outer, by, sweep = moved
        at = fresh_axes(program.tensor(name).shape)
        through = Equation((*outer, *by), sweep.equation.right).at((*at, *inner))
        right += contracted_sum(differentiate(gradient.right, name, at) * through, at)
    return Equation((*gradient.axes, *inner), canonical(right))


@dataclass(frozen=True)
class Differential:
    """``identity`` are the equations with small changes put in, each 0; ``solved`` is dout."""

    identity: tuple[Equation, ...]
    solved: Equation


def small_change(name: str) -> str:
    """What a small change of a tensor is called."""
    return f"d{name}"


def differential(step: Apply, program: Program) -> Differential:
    """The differential of what ``step`` solves, and its solution.

    An equation that holds whatever is solved for, in which another result of the operands stands, has no line.
    """
    found = local_jacobian(step, program)
    moving = dict.fromkeys((*step.tensors, step.result.name))
    identity = tuple(
        Equation(equation.axes, canonical(sp.Add(*(_moved(equation, name, program) for name in moving))))
        for equation in found.residual
        if {name_of(entry) for entry in accesses(equation.right)} <= set(moving)
    )
    (axes, *_) = (d.axes for d in found.derivatives.values())
    parts = []
    for position, d in found.derivatives.items():
        formula = d.formula.xreplace(dict(zip(d.axes, axes, strict=True)))
        parts.append(contracted_sum(formula * access(small_change(str(step.arguments[position])), d.inner), d.inner))
    return Differential(identity, Equation(axes, canonical(sp.Add(*parts))))


def _moved(equation: Equation, name: str, program: Program) -> sp.Expr:
    """Σ ∂F/∂name·dname"""
    at = fresh_axes(program.tensor(name).shape)
    return contracted_sum(differentiate(equation.right, name, at) * access(small_change(name), at), at)
