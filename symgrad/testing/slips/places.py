"""One operand of one step of a formula: where a mistake may sit, the right local pullback there, and other options.

Comes in: a program with its values. Goes out: a `Place`, with the step in standard names, its equation and its numbers;
and pullbacks along another axis, with a default, with a switch turned.

An index equation with one mistake in it: a term or a factor left out, a sign turned, a mean for a sum.

Comes in: the equation of a local pullback. Goes out: other right-hand sides, each with its kind and a clause.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import sympy as sp

from symgrad.calculus import flowing, local_pullback, standard
from symgrad.calculus.local import SEED, Standard
from symgrad.entries.spec import Op
from symgrad.errors import SymgradError
from symgrad.indexing import Bracket, Equation, instantiate
from symgrad.indexing.symbols import Expr, accesses, free_indices, indices_of, is_access, name_of
from symgrad.language.expand import retype
from symgrad.numeric import Array, Values, as_float, forward
from symgrad.numeric.sweeps import pull_step
from symgrad.ops.entry import entry_of, plays
from symgrad.program import Apply, Program, Role
from symgrad.render import formula_text
from symgrad.shapes import Size, SizeMismatch, Sizes

AXES = ("dim", "dims", "dim0", "dim1")
"""What options are called that name axes; torch calls them so in all of its functions."""

Change = Callable[[Array], Array]
"""What another local pullback makes of a cotangent."""
LONGEST = 40
"""A longer term is not repeated in a clause."""
DELTA = re.compile(r"δ_(\w)(\w)")


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


def axes(place: Place) -> Iterator[tuple[str, str, Change]]:
    """Another axis in the place of the one that an option names."""
    rank = np.ndim(place.operand)
    for number, (option, value) in enumerate(place.step.options):
        single = value if isinstance(value, int) else value[0] if isinstance(value, tuple) and len(value) == 1 else None
        if option not in AXES or not isinstance(single, int) or isinstance(single, bool) or not -rank <= single < rank:
            continue
        for other in range(rank):
            if other == single % rank:
                continue
            step = with_option(place.step, number, (other,) if isinstance(value, tuple) else other)
            said = f"this is what axis {other} gives, and {place.step.called} is along axis {single % rank}{place.said}"
            yield "wrong_axis", said, lambda cotangent, s=step: place.pulled(cotangent, None, s)  # type: ignore[misc]  # a default binds


def options(place: Place) -> Iterator[tuple[str, str, Change]]:
    """The default in the place of an option, a switch the other way round, 0 or 1 for a number."""
    entry = entry_of(place.step.op)
    for number, (option, value) in enumerate(place.step.options):
        if entry is None or option in AXES or isinstance(value, tuple):
            continue
        for other in (*instead(entry.signature.parameters.get(option), value), *words(entry, option, value)):
            step = with_option(place.step, number, other)
            if fits(place, step):
                called = f"{place.step.called} has {option}={value!r} here{place.said}"
                said = f"this is what {option}={other!r} gives, and {called}"
                yield "wrong_option", said, lambda cotangent, s=step: place.pulled(cotangent, None, s)  # type: ignore[misc]  # a default binds


def instead(parameter: inspect.Parameter | None, value: Hashable) -> list[Hashable]:
    """Other values that an option may have been given."""
    default = inspect.Parameter.empty if parameter is None else parameter.default
    found: list[Hashable] = [] if default is inspect.Parameter.empty or default is None else [default]
    if isinstance(value, bool):
        found.append(not value)
    elif isinstance(value, (int, float)):
        found += [0, 1]
    return [other for other in dict.fromkeys(found) if other != value]


def words(entry: Op, option: str, value: Hashable) -> list[str]:
    """Other words for an option, as the examples of the entry have them."""
    if not isinstance(value, str):
        return []
    found = [word for text in entry.examples for word in re.findall(rf"\b{option}=['\"](\w+)['\"]", str(text))]
    return [word for word in dict.fromkeys(found) if word != value]


def with_option(step: Apply, number: int, value: Hashable) -> Apply:
    """A step with another value for one of its options."""
    changed = list(step.options)
    changed[number] = (changed[number][0], value)
    return replace(step, options=tuple(changed))


def fits(place: Place, step: Apply) -> bool:
    """Whether the step with another option is still one, with a result of the same shape."""
    alone = place.program.alone(step)
    shapes = {name: tuple(map(sp.Integer, np.shape(place.values[name]))) for name in (*step.tensors, step.result.name)}
    try:
        retype(step, shapes, Sizes())  # a forward pass by the equation reads at the indices of a result of this shape
        with np.errstate(all="ignore"):
            result = forward(alone, {t.name: place.values[t.name] for t in alone.inputs})[step.result.name]
    except (SymgradError, SizeMismatch, ArithmeticError, ValueError, TypeError, AssertionError):
        return False
    return np.shape(result) == np.shape(place.result)


def altered_equations(
    equation: Equation, names: Mapping[str, str], sizes: Mapping[Size, Size]
) -> Iterator[tuple[str, str, Expr]]:
    """Terms first, then factors, sums and powers; what would read between two entries is nobody's mistake.

    Nor is what stood inside of a sum without that sum: it has an index that nothing says.
    """
    own = {index for access in accesses(equation.right) for index in indices_of(access)}
    for kind, said, right in every_alteration(equation, names, sizes):
        if free_indices(right) <= {*equation.axes} and all(
            whole(index) for access in accesses(right) for index in set(indices_of(access)) - own
        ):
            yield kind, said, right


def whole(index: Expr) -> bool:
    """Whether an index that was altered is a place: nothing in it is a fraction, or it is rounded down."""
    below = any(power.exp.is_negative for power in index.atoms(sp.Pow))
    return bool(index.has(sp.floor)) or (not below and all(n.is_integer for n in index.atoms(sp.Number)))


def every_alteration(
    equation: Equation, names: Mapping[str, str], sizes: Mapping[Size, Size]
) -> Iterator[tuple[str, str, Expr]]:
    """All of them, whether they can be evaluated or not."""
    right = equation.right

    def told(node: Expr) -> str:
        """A part of the formula in the names of the program; empty where it is too long or says nothing alone."""
        placed = instantiate(Equation(equation.axes, node), names, sizes)
        others = [k for k in free_indices(placed.right) if k not in placed.axes]
        text = formula_text(placed.right, (*placed.axes, *sorted(others, key=str)))
        if len(text) <= LONGEST or node in telling(node):
            return text
        inner = [told(part) for part in telling(node)]
        return f"with {min(inner, key=len)}" if inner else "…"

    for where in (distributed(right), right):
        for node in nodes(where, sp.Add):
            for term in node.args:
                rest = node - term
                yield "missing_term", f"the term {told(term)} is missing", where.xreplace({node: rest})
                if not carries(node) or len(node.args) > 1:
                    yield (
                        "missing_term",
                        f"the term {told(term)} has the wrong sign",
                        where.xreplace({node: rest - term}),
                    )
            if len(node.args) > 2 and carries(node):
                for term in node.args:
                    yield "missing_term", f"only the term {told(term)} is there", where.xreplace({node: term})
    for node in nodes(right, sp.Sum):
        body, limits = node.function, node.limits
        for factor in sp.Mul.make_args(body):
            if carries(factor) or factor.is_number:
                continue
            plain = node.func(body / factor, *limits)
            size = sp.Mul(*(high - low + 1 for _, low, high in limits))
            said = f"{told(factor)} is missing in the sum"
            yield (
                "missing_factor",
                f"a mean stands where a mean weighted by {told(factor)} belongs",
                right.xreplace({node: plain / size}),
            )  # one sentence
            yield "missing_factor", said, right.xreplace({node: plain})
        if carries(body):
            bare = body.xreplace({limit[0]: axis for limit, axis in zip(limits, equation.axes, strict=False)})
            yield "missing_term", "the sum over the other entries is missing", right.xreplace({node: bare})
    for node in nodes(right, sp.Mul):
        for factor in node.args:
            if carries(factor):
                continue
            kind, text = "scaled" if factor.is_number else "missing_factor", told(factor)
            letters = DELTA.fullmatch(text)
            means = ", which is 1 where {} = {} and 0 elsewhere".format(*letters.groups()) if letters else ""
            yield kind, f"the factor {text} is missing{means}", right.xreplace({node: node / factor})
    for node in nodes(right, sp.Pow):
        base, exponent = node.args
        if carries(base):
            continue
        for other in (exponent - 1, exponent + 1, -exponent):
            said = f"{told(node)} should stand where {told(sp.Pow(base, other))} does"
            yield "missing_factor", said, right.xreplace({node: sp.Pow(base, other)})


def telling(node: Expr) -> list[Expr]:
    """What of a long term says most: its sums over v, or v."""
    sums = [n for n in nodes(node, sp.Sum) if carries(n)]
    return sums or [a for a in accesses(node) if name_of(a) == SEED]


def distributed(expression: Expr) -> Expr:
    """A product of a sum as a sum of products, at the top."""
    if not expression.is_Mul:
        return expression
    inner = next((f for f in expression.args if f.is_Add), None)
    if inner is None:
        return expression
    rest = expression / inner
    return sp.Add(*(rest * term for term in inner.args))


def nodes(expression: Expr, kind: type[Expr]) -> list[Expr]:
    """The nodes of a kind, outermost first, each once; a position that is read is no part that may be missing."""
    found: dict[Expr, None] = {}
    walk = sp.preorder_traversal(expression)
    for node in walk:
        if is_access(node) or isinstance(node, (Bracket, sp.KroneckerDelta)):
            walk.skip()
        elif isinstance(node, kind):
            found[node] = None
    return list(found)


def carries(expression: Expr) -> bool:
    """Whether v stands in it."""
    return any(name_of(a) == SEED for a in accesses(expression))
