"""Build an explanation: derive, evaluate, and compare every claim with the oracles; then second derivatives.

Comes in: a program with numbers for its inputs, and a seed. Goes out: an `Explanation`. `build` follows the data from
top to bottom: forward, Jacobian, pullback, closed form, numbers; the checks are in `proofs`. With ``order=2``, also a
`Hessian` with respect to each pair of inputs, with its checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from itertools import combinations_with_replacement

import numpy as np
import sympy as sp

from symgrad.backward.code import write_with_modules
from symgrad.calculus import Sweep, back, second_derivative
from symgrad.closed_form.form import derive_closed_form
from symgrad.errors import Hint, InputError, ShapeError
from symgrad.explanation.claims import Structure, certain_claim
from symgrad.explanation.data import Explanation, FormProof, Gradient
from symgrad.explanation.formulas import Entry, derive_formulas, derive_only, prove_form
from symgrad.explanation.given import Given, Seed, Writers
from symgrad.explanation.jacobian import Hessian, Jacobian, jacobian_of
from symgrad.explanation.jacobian_plan import JacobianPlan
from symgrad.explanation.singular import find_singular
from symgrad.indexing import Equation, fresh_axes
from symgrad.indexing.symbols import access, accesses, name_of
from symgrad.language.inference import PAIRS
from symgrad.numeric import (
    Array,
    Values,
    forward,
    numeric_pullback,
    numeric_pushforward,
    where_exact,
    without_fractions,
)
from symgrad.numeric.exact import is_finite
from symgrad.numeric.forward_pass import Later
from symgrad.numeric.playing import evaluate
from symgrad.ops import entry_named
from symgrad.oracles.comparisons import Check, Text
from symgrad.oracles.digits import DIGITS, LARGEST, keeps_digits, lost_digits
from symgrad.oracles.forms import check_form
from symgrad.program import Apply, Program, Tensor, free_name

__all__ = [
    "Entry",
    "Explanation",
    "Given",
    "Gradient",
    "Hessian",
    "Jacobian",
    "JacobianPlan",
    "Seed",
    "Structure",
    "Writers",
    "derive_only",
    "jacobian_of",
]


def build(
    expression: str,
    program: Program,
    inputs: Sequence[Given],
    seed: Seed,
    wanted: Sequence[str],
    *,
    check: bool = True,
    assumptions: Sequence[str] = (),
    hints: Sequence[Hint] = (),
    downstream: Explanation | None = None,
    expanded: bool = False,
    conventions: Sequence[str] = (),
    remarks: Sequence[str] = (),
    writers: Writers | None = None,
    text: Text | None = None,
) -> Explanation:
    """Return the explanation of ``program`` at ``inputs`` with the seed; ``text`` is the text it was read from."""
    arrays = {given.name: given.value for given in inputs}
    values = forward(program, arrays)
    weights = where_exact(seed.value)
    numeric = numeric_pullback(program, values, weights, wanted)
    proofs = None
    if check:
        from symgrad.explanation.proofs import Proofs

        proofs = Proofs(program, values, arrays, weights, wanted, text)
    gradients = {}
    for name, derived in derive_formulas(program, wanted).items():
        matrix = Jacobian(
            name, program, values, derived.axes, derived.inner, derived.jacobian, derived.claims,
            values[program.output].shape, values[name].shape, writers,
        )  # fmt: skip
        prove: FormProof = cache(partial(prove_form, derived, program, values, weights))
        if proofs:
            checks, met = proofs.of(name, numeric[name], matrix, derived, prove()[1])
        else:
            checks, met = (), find_singular(program, values, weights, numeric[name], name, derived.sweep, None)
        if derived.jacobian == 0 and not is_finite(values[program.output]).all():
            matrix, prove = replace(matrix, told=()), lambda: (None, None)  # 0 only because nothing is left of it
        gradients[name] = Gradient(
            name, prove, derived.sweep, without_fractions(numeric[name]), matrix, checks, program,
            values.with_arrays({program.seed: weights}), None if proofs and proofs.lost else met,
        )  # fmt: skip
    paired = any(entry_named(step.op).traits.complex_pairs for step in program.steps)
    return Explanation(
        expression, program, tuple(inputs), values, without_fractions(values[program.output]), seed, gradients,
        tuple(assumptions), tuple(hints), proofs.version if proofs else None, downstream, expanded, check, writers,
        conventions=(
            *remarks, *(conventions or ([PAIRS] if paired else [])), *(proofs.values_apart if proofs else ())
        ),
        out_of_range=proofs.lost if proofs else "", text=text, asked=proofs.torch if proofs else None,
    )  # fmt: skip


def slope_form(explanation: Explanation, name: str) -> str | None:
    """Return ∂L/∂name of a scalar L as code, without the seed 1; None if no form is found or its check fails."""
    gradient = explanation.gradients[name]
    if not gradient.sweep.whole:
        return None
    one = Equation(gradient.inner, gradient.formula.xreplace({access(explanation.program.seed, ()): sp.S.One}))
    return _form(explanation.program, explanation.values, np.ones((), dtype=np.int64), one, name)[0]


HESSIAN = certain_claim("hessian", "", "the Jacobian of the gradient")


@lru_cache(maxsize=256)
def _derived(program: Program, letter: str, first: str, second: str, alone: bool) -> Equation | None:
    """Return the second derivative as one equation, cached; with ``alone`` the seed of the scalar output is 1.

    Programs that differ only in sizes are equal, so ``letter``, the name of the seed, is part of the key.
    """
    return second_derivative(program, first, second, Equation((), sp.S.One) if alone else None)


def has_implicit_seed(program: Program, seed: Seed) -> bool:
    """Whether the output is a scalar whose seed 1 need not be written."""
    return not program.out.shape and seed.origin == "scalar"


def curvature(program: Program, seed: Seed, first: str, second: str) -> Equation | None:
    """Return ∂²L/∂first∂second as one index equation; None if it would be too long."""
    return _derived(program, program.seed, first, second, has_implicit_seed(program, seed))


def slope(program: Program, first: str, seed: Seed) -> Program:
    """Return the program whose output is ∂L/∂first: ``program`` followed by its backward."""
    found = _slope(program, program.seed, first, has_implicit_seed(program, seed))
    return replace(found, sizes=program.sizes, spoken=program.spoken, made=program.made)


@lru_cache(maxsize=256)
def _slope(program: Program, letter: str, first: str, alone: bool) -> Program:
    """Return `slope`, cached for all sizes and all inputs that the text creates."""
    found = back(program, (first,), ones=alone)
    if isinstance(found.cotangents.get(first), str):
        return found.program
    constant = "ones_like" if first in found.cotangents else "zeros_like"  # L is the input itself, or does not read it
    result = Tensor(free_name((f"{letter}_{first}",), found.program.names), program.tensor(first).shape)
    whole = found.program
    return replace(whole, steps=(*whole.steps, Apply(constant, (first,), (), result)), output=result.name)


def compute_hessian(
    program: Program, values: Values, seed: Seed, first: str, second: str, writers: Writers | None
) -> Hessian:
    """Return the Hessian with respect to two inputs, unchecked: the Jacobian of the backward.

    It has one formula unless that is too long; otherwise it is the product of the Jacobians of the backward's steps.
    """
    weights = where_exact(seed.value)
    equation, known = curvature(program, seed, first, second), values.with_arrays({program.seed: weights})
    gradient = slope(program, first, seed)
    later = Later(gradient, lambda: {tensor.name: known[tensor.name] for tensor in gradient.inputs})
    shapes = program.numbers(program.tensor(first).shape), program.numbers(program.tensor(second).shape)
    whole = Values(later, values.sizes)
    rank = len(program.tensor(first).shape)
    axes = (
        fresh_axes((*program.tensor(first).shape, *program.tensor(second).shape)) if equation is None else equation.axes
    )
    right = None if equation is None else equation.right
    matrix = Jacobian(second, gradient, whole, axes[:rank], axes[rank:], right, (HESSIAN,), *shapes, writers)
    if equation is None:
        return Hessian(first, second, without_fractions(matrix.as_torch()), matrix, False, (), lambda: None)
    changing = {first, second, *(step.result.name for step in program.steps)}
    constant = not any(name_of(entry) in changing for entry in accesses(equation.right))

    def written() -> str | None:
        return None if equation.right == 0 else _form(program, values, weights, equation, first)[0]

    value = evaluate(equation, known.arrays, known.sizes)
    exact = lost_digits(program, known, equation, value)
    if exact is not None:
        return Hessian(first, second, exact, matrix, constant, (), written, DIGITS)
    return Hessian(first, second, without_fractions(value), matrix, constant, (), written)


def hessian_vector_product(explanation: Explanation, name: str, direction: Array) -> Array:
    """Return H·u, the JVP of the gradient along u; if float64 may lose digits, compute H and multiply.

    Where an entry of H is NaN or infinite, the JVP is kept: 0 times that entry would be NaN.
    """
    program, values, seed = explanation.program, explanation.values, explanation.seed_info
    gradient, known = slope(program, name, seed), values.with_arrays({program.seed: where_exact(seed.value)})
    there = forward(gradient, {tensor.name: known[tensor.name] for tensor in gradient.inputs})
    moved = numeric_pushforward(gradient, there, name, direction).reshape(direction.shape)
    if moved.size**2 > LARGEST or keeps_digits(values):
        return moved
    whole = compute_hessian(program, values, seed, name, name, explanation.writers)
    rows = np.asarray(whole.value, dtype=float).reshape(moved.size, -1)
    with np.errstate(invalid="ignore", over="ignore"):
        product = (rows @ direction.reshape(-1).astype(float)).reshape(moved.shape)
    return np.where(np.isfinite(product), product, moved)


def hessian_of(explanation: Explanation, first: str, second: str) -> Hessian:
    """Return the Hessian with respect to two inputs of an explanation, with checks if the explanation was checked."""
    program, values, seed = explanation.program, explanation.values, explanation.seed_info
    found = compute_hessian(program, values, seed, first, second, explanation.writers)
    equation = curvature(program, seed, first, second)
    form, form_check = None, None
    if equation is not None and equation.right != 0:
        form, form_check = _form(program, values, seed.value, equation, first)
    checks: tuple[Check, ...] = ()
    if explanation.checked:
        from symgrad.oracles.second_order import second_checks

        inputs = {given.name: given.value for given in explanation.inputs}

        def near(point: Mapping[str, Array]) -> Array:
            other = compute_hessian(program, forward(program, point), seed, first, second, None)
            return np.asarray(np.reshape(other.value, found.jacobian.shape))

        numbers = np.reshape(found.value, found.jacobian.shape)
        checks = second_checks(program, inputs, where_exact(seed.value), first, second, numbers, near, explanation.text)
        checks += (form_check,) if form_check is not None else ()
    return replace(found, checks=checks, written=lambda: form)


def require_scalar_or_seed(seed: Seed, out_shape: tuple[int, ...]) -> None:
    """Raise an error unless second derivatives are those of one scalar that the user gave."""
    if seed.origin == "downstream":
        raise InputError(
            "second derivatives are those of one expression", hints=("write the scalar as the expression",)
        )
    if seed.origin == "assumed":
        raise ShapeError(
            "a Hessian is that of one number, and out has more than one entry",
            found=(f"out is {'×'.join(map(str, out_shape))}",),
            hints=("sum(…) around the expression", "a seed: the Hessian of Σ v·out"),
        )


def with_hessians(explanation: Explanation) -> Explanation:
    """Return the explanation with Hessians for every pair of inputs; positions and masks have none."""
    require_scalar_or_seed(explanation.seed_info, explanation.output.shape)
    names = tuple(explanation.gradients)
    reached = back(explanation.program, names).cotangents
    pairs = combinations_with_replacement([name for name in names if name in reached] or names, 2)
    return replace(explanation, hessians={pair: hessian_of(explanation, *pair) for pair in pairs})


def _form(
    program: Program, values: Values, seed: Array, equation: Equation, name: str
) -> tuple[str | None, Check | None]:
    """Return an equation in matrix notation and its check; (None, None) unless it reads back to the formula."""
    sweep = Sweep(((name, equation),))
    written = derive_closed_form(program, sweep, name)
    if written is None:
        return None, None
    checked = check_form(written.text, program, sweep, values, seed)
    return (write_with_modules(written.text), checked) if checked.passed else (None, None)
