"""One operation's local Jacobians, as formulas for every size, made once per operation, ranks and options.

Comes in: a step of a program. Goes out: a `LocalJacobian`, the step's index equation and the derivative by each
operand, on indices of their own; a step that is a pullback has the equation that was derived, and is differentiated
like any other. The cache key has sizes as symbols in order of appearance, so that x@a is derived once, whatever the
program calls its sizes; and positions among the options as a `SlotSymbol` each: ``x[3]`` and ``x[5]`` are one formula,
``x[-3]`` and ``x[-5]``, which count from the end, another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy as sp

from symgrad.calculus.differentiate import Rewrite, differentiate, reuse_output
from symgrad.errors import UnsupportedError
from symgrad.indexing import Equation, Index, contracted_sum, fresh_axes, instantiate, replace_accesses
from symgrad.indexing.equation import canonical
from symgrad.indexing.symbols import WEIGHTS, Expr, access
from symgrad.ops import HeldTensor, View, auxiliary_letters, entry_named, is_data_argument
from symgrad.ops.lookup import Slots
from symgrad.program import Apply, Constant, Operation, Program, Pullback, VectorProduct
from symgrad.shapes import Shape, Size, SlotSymbol

INNER = "pqrs"
"""Letters for the entry one differentiates by."""
DIGITS = 60
"""Of decimals."""
ENDLESS, LARGEST_DIVISOR = 15, 100
"""A float with so many digits that a division by so small a number gives is read as that division."""


@dataclass(frozen=True)
class Derivative:
    """∂out[axes] / ∂operand[inner] as a formula, and the steps that led to it."""

    axes: tuple[Index, ...]
    inner: tuple[Index, ...]
    formula: Expr
    steps: tuple[Rewrite, ...]


class MadeWhenRead(Mapping[int, Derivative]):
    """The derivatives of a step by position, each on indices of its own when it is first read: most nobody reads."""

    def __init__(self, make: Callable[[int], Derivative], positions: Iterable[int]) -> None:
        self._make = make
        self._made: dict[int, Derivative | None] = dict.fromkeys(positions)

    def __getitem__(self, position: int) -> Derivative:
        found = self._made[position]
        if found is None:
            found = self._made[position] = self._make(position)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


@dataclass(frozen=True)
class LocalJacobian:
    """The index equation of a step and the derivative by each tensor operand, by position.

    ``residual`` is what is 0 at the result, for an operation that is defined by equations to be solved.
    """

    equation: Equation
    derivatives: Mapping[int, Derivative]
    residual: tuple[Equation, ...] = ()


@dataclass(frozen=True)
class Key:
    """What a local derivation depends on."""

    op: Operation
    shapes: tuple[Shape | None, ...]
    constants: tuple[Any, ...]
    options: tuple[tuple[str, Hashable], ...]
    result: Shape
    kinds: tuple[type, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "kinds", tuple(map(type, self.constants))
        )  # 2 is exact and 2.0 is not, and they are equal


def operand_name(position: int) -> str:
    """The name of an operand inside a local equation."""
    return f"#{position}"


def letter_name(letter: str) -> str:
    """The name of what is held still inside a local equation."""
    return f"#{letter}"


OUT, (SEED, TANGENT) = "#out", WEIGHTS


@dataclass(frozen=True)
class Standard:
    """A step in standard terms: the key of its derivation, and what the key's names and sizes are in the program."""

    key: Key
    names: Mapping[str, str]
    sizes: Mapping[Size, Size]


def standard(step: Apply, program: Program) -> Standard:
    """``step`` with its tensors called #0, #1, … and its sizes s0, s1, … by order of appearance.

    Numbers from 2 up become symbols like any other size, so that a derivation is made once for every size; and so do
    the positions that a view reads.
    """
    return standard_at(step, tuple(program.tensor(a).shape if isinstance(a, str) else None for a in step.arguments))


def standard_at(step: Apply, shapes: tuple[Shape | None, ...]) -> Standard:
    """`standard` of a step whose operands have these shapes."""
    constants = tuple(a.value if isinstance(a, Constant) else None for a in step.arguments)
    key, sizes = standard_key(Key(step.op, shapes, constants, step.options, step.result.shape))
    names = {operand_name(n): a for n, a in enumerate(step.arguments) if isinstance(a, str)}
    names[OUT] = step.result.name
    names |= {letter_name(k): known_name(step, k) for k in entry_named(step.op).saved.names if k != "out"}
    names |= {letter_name(k): name for k, name in step.beside}
    return Standard(key, names, sizes)


@lru_cache(maxsize=4096)
def standard_key(given: Key) -> tuple[Key, Mapping[Size, Size]]:
    """The key with its sizes as symbols and its positions as slots, and what those stand for."""
    slots = Slots()
    key = replace(given, options=slots.opened(given.op, given.shapes, given.options))
    new = {s: sp.Symbol(f"s{n}", integer=True, positive=True) for n, s in enumerate(_sizes_in(key))}
    found = {slot: sp.sympify(position, strict=True) for slot, position in slots.found.items()}
    return _rename(key, new), {**{s: old for old, s in new.items()}, **found}


def unfolded_standard(step: Apply, program: Program) -> Standard:
    """`standard`, with axes of one entry like any others and numbers as tensors: nothing that is 0 here is folded away.

    The variance of one number is 0/0 and not 0, and what is infinite times 0 is NaN: arithmetic has to do that.
    """
    form = standard(step, program)
    one = sp.Symbol("s_one", integer=True, positive=True)

    def renamed(shape: Shape | None) -> Shape | None:
        return shape if shape is None else tuple(one if size == 1 else size for size in shape)

    key, numbers = form.key, [isinstance(a, Constant) and a.value is not None for a in step.arguments]
    shapes = [key.result if number else shape for number, shape in zip(numbers, key.shapes, strict=True)]
    constants = [None if number else value for number, value in zip(numbers, key.constants, strict=True)]
    whole = Key(key.op, tuple(map(renamed, shapes)), tuple(constants), key.options, renamed(key.result) or ())
    return Standard(whole, form.names, {**form.sizes, one: sp.Integer(1)})


def local_jacobian(step: Apply, program: Program) -> LocalJacobian:
    """The equation and derivatives of ``step``, under the program's names and sizes.

    Asked again, the indices are the same. Whoever puts one formula into another does it by `Equation.at`, which
    renames what is bound in it, so that a formula never meets its own indices, however often it is put in.
    """
    form = standard(step, program)
    found, undefined = _instantiated(form.key, tuple(form.names.items()), tuple(form.sizes.items()))
    if undefined:
        raise no_number(step)
    return found


def no_number(step: Apply) -> UnsupportedError:
    """The refusal of a step whose derivative is no number whatever the entries."""
    problem = f"the derivative of {step.op} divides by zero everywhere"
    tensors = [argument for argument in step.arguments if isinstance(argument, str)]
    if len(set(tensors)) == len(tensors):
        return UnsupportedError(problem, span=step.span)
    hints = ("write one of the two as x.clone()",)
    return UnsupportedError(f"{problem}, because an argument occurs twice", span=step.span, hints=hints)


@lru_cache(maxsize=4096)
def _instantiated(
    key: Key, names: tuple[tuple[str, str], ...], sizes: tuple[tuple[Size, Size], ...]
) -> tuple[LocalJacobian, bool]:
    """What `derive_local` has, on new indices, and whether a derivative in it is no number whatever the entries."""
    found, called, sized = derive_local(key), dict(names), dict(sizes)

    def derivative(position: int) -> Derivative:
        d = found.derivatives[position]
        whole = instantiate(Equation((*d.axes, *d.inner), d.formula), called, sized)
        rank = len(d.axes)
        return Derivative(whole.axes[:rank], whole.axes[rank:], whole.right, d.steps)

    residual = tuple(instantiate(equation, called, sized) for equation in found.residual)
    derivatives = MadeWhenRead(derivative, found.derivatives)
    twice, numbers = len(set(called.values())) < len(called), any(size.is_number for size in sized.values())
    read = derivatives if twice or numbers else found.derivatives  # x − x and n − 2 may be 0 there
    undefined = found.equation.right is not sp.nan and any(d.formula.has(sp.nan, sp.zoo) for d in read.values())
    return LocalJacobian(instantiate(found.equation, called, sized), derivatives, residual), undefined


@lru_cache(maxsize=4096)
def local_pullback(key: Key, position: int) -> Equation:
    """Σ_o v[o]·J[o, p] of one operation, v called #v: made once, like the derivative."""
    d = derive_local(key).derivatives[position]
    return Equation(d.inner, canonical(contracted_sum(access(SEED, d.axes) * d.formula, d.axes)))


@lru_cache(maxsize=4096)
def local_pushforward(key: Key, position: int) -> Equation:
    """Σ_p J[o, p]·u[p] of one operation, u called #u."""
    d = derive_local(key).derivatives[position]
    return Equation(d.axes, canonical(contracted_sum(d.formula * access(TANGENT, d.inner), d.inner)))


def constant_expression(value: Any) -> Expr:
    """A number of a program; decimals as written, so that sums lose nothing: 1 + 1e20 − 1e20 = 1, 1/0.1 = 10.

    What a division left without an end is that division again: of 0.3333333333333333 nobody wrote each digit.
    """
    if not isinstance(value, float):
        return sp.sympify(value, strict=True)
    near = Fraction(value).limit_denominator(LARGEST_DIVISOR) if math.isfinite(value) else 0
    if near and len(repr(value).strip("-0.")) >= ENDLESS and float(near) == value:
        return sp.Rational(near.numerator, near.denominator)
    return sp.Float(repr(value), DIGITS)


def view_of(position: int, shape: Shape | None, value: Any) -> View | None:
    """The operand at ``position``: a tensor, a constant, or None where it was left out."""
    if shape is None:
        return None if value is None else View(operand_name(position), (), constant_expression(value))
    return View(operand_name(position), shape)


def known_name(step: Apply, name: str) -> str:
    """What a held tensor of ``step`` is called in the program's formulas."""
    return f"{name}·{step.result.name}"


@lru_cache(maxsize=4096)
def derive_local(key: Key) -> LocalJacobian:
    """The derivation itself: state the equation, differentiate by each operand, name the output where it helps."""
    op = entry_named(key.op)
    views = [view_of(n, *pair) for n, pair in enumerate(zip(key.shapes, key.constants, strict=True))]
    held = {k: HeldTensor(OUT if k == "out" else letter_name(k), key.result) for k in op.saved.names}
    if isinstance(key.op, VectorProduct):
        equation = product_equation(key.op, key)
    else:
        at = fresh_axes(key.result, op.letters_for(dict(key.options)))
        equation = Equation(at, canonical(op.index(at, views, held, dict(key.options))))
    at = equation.axes
    output = access(OUT, at) if op.saved.reuse else None

    def derivative(position: int) -> Derivative:
        shape = key.shapes[position] or ()
        inner = fresh_axes(shape, INNER)
        if is_data_argument(key.op, position):
            return Derivative(at, inner, sp.S.Zero, ())
        formula = canonical(differentiate(equation.right, operand_name(position), inner, output))
        if equation.right is sp.nan and (0 in shape or not any(0 in other for other in key.shapes if other)):
            formula = sp.nan  # 0/0 has no slope, and no operand left in it; a sum over nothing beside it is 0 to torch
        steps = [Rewrite("differentiate", formula, "the chain rule; each access of x leaves a δ for every index")]
        if op.saved.reuse:
            formula = canonical(reuse_output(formula, equation, OUT))
            if formula != steps[0].formula:
                steps.append(Rewrite("reuse the output", formula, "the forward value is named instead of formed again"))
        return Derivative(at, inner, formula, tuple(steps))

    derivatives = MadeWhenRead(derivative, (n for n, shape in enumerate(key.shapes) if shape is not None))
    solved = op.saved.residual(*views, *held.values(), **dict(key.options)) if op.saved.residual is not None else ()
    residual = tuple(Equation(e.axes, canonical(e.right)) for e in solved)
    return LocalJacobian(equation, derivatives, residual)


Part = tuple[Equation, Mapping[str, str]]
"""An equation of an operation, and what a product with its J calls what is read there."""


def parts_of_product(op: VectorProduct, key: Key) -> tuple[tuple[Part, ...], Mapping[Size, Size]]:
    """What a product is the sum of, one part for each of its vectors, and the sizes of the operation."""
    back = isinstance(op, Pullback)
    positions = (op.position,) if isinstance(op, Pullback) else op.positions
    letters, count = auxiliary_letters(op.of), len(positions)
    own = count + 1 + len(letters)
    result = key.shapes[0] or () if back else key.result
    inner, sizes = standard_key(Key(op.of, key.shapes[own:], key.constants[own:], key.options, result))
    read = (OUT, *map(letter_name, letters), *map(operand_name, range(len(inner.shapes))))
    names = {name: operand_name(count + n) for n, name in enumerate(read)}
    local, vector = (local_pullback, SEED) if back else (local_pushforward, TANGENT)
    pairs = enumerate(positions)
    return tuple((local(inner, place), {**names, vector: operand_name(n)}) for n, place in pairs), sizes


def product_equation(op: VectorProduct, key: Key) -> Equation:
    """The equation of a product, in the names of its operands; of a vector that is a number with that number."""
    (parts, sizes), value = parts_of_product(op, key), key.constants[0]
    found = [instantiate(equation, called, sizes) for equation, called in parts]
    if len(found) == 1 and value is None:
        return found[0]
    right = sp.Add(*(equation.at(found[0].axes) for equation in found))
    weight = None if value is None else constant_expression(value)
    told = replace_accesses(right, lambda name, at: weight if name == operand_name(0) else None)
    return Equation(found[0].axes, canonical(told))


def _sizes_in(key: Key) -> tuple[Size, ...]:
    """The symbols and the numbers from 2 up among the sizes of ``key``, in order of appearance."""
    found: dict[Size, None] = {}

    def visit(value: Any) -> None:
        if isinstance(value, (tuple, list)):
            for part in value:
                visit(part)
        elif isinstance(value, sp.Integer):
            found.update({value: None} if value > 1 else {})
        elif isinstance(value, sp.Expr):
            found.update(
                dict.fromkeys(sorted((s for s in value.free_symbols if not isinstance(s, SlotSymbol)), key=str))
            )

    visit((key.shapes, key.constants, tuple(v for _, v in key.options), key.result))
    return tuple(found)


def _rename(key: Key, names: Mapping[Size, Size]) -> Key:
    """``key`` with its sizes renamed."""
    symbols = {old: new for old, new in names.items() if old.is_Symbol}

    def rename(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(rename(part) for part in value)
        if isinstance(value, sp.Integer):
            return names.get(value, value)
        return value.xreplace(symbols) if isinstance(value, sp.Expr) else value

    return Key(key.op, rename(key.shapes), rename(key.constants), rename(key.options), rename(key.result))
