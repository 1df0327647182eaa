"""The formulas of a gradient: Jacobian, structure, pullback and closed form for every size, and one entry written out.

Comes in: a program whose sizes may be symbols. Goes out: a `Derived` for each input; a closed form is proven at some
sizes before it is shown. From a gradient with numbers and the position of an entry: an `Entry`, the index formula there
with its sums expanded, in symbols and in values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, product
from typing import Any

import numpy as np
import sympy as sp

from symgrad.backward import Backward
from symgrad.backward.line_templates import ProgramForm, prove_program_form
from symgrad.calculus import Sweep, jacobian_formulas, local_jacobian, pullback, pullbacks_by
from symgrad.calculus.reverse_sweep import Whole, substitute
from symgrad.errors import ShapeError, SymgradError
from symgrad.explanation.claims import UNSAID, Claim, Structure, choose_proven
from symgrad.explanation.evidence import Evidence
from symgrad.explanation.structure import COMPOSED, suggest_claims
from symgrad.indexing import Equation, Index, canonical, fresh, fresh_axes
from symgrad.indexing.definitions import WIDEST, NamedEquation, in_names, take_apart
from symgrad.indexing.symbols import Expr, free_indices, indices_of, is_access, name_of, names_read, number, weight
from symgrad.language.python_text import read_python
from symgrad.language.trees import tensor_names
from symgrad.lowering.choices import is_mask
from symgrad.numeric import Array, Values, as_float, evaluate, forward, without_fractions, write_out_at
from symgrad.numeric.arranged import integer_inputs, matrix_of_kind
from symgrad.numeric.forward_pass import check_program
from symgrad.oracles.comparisons import Check, compare
from symgrad.oracles.evaluators import DIGITS, EvaluationPoint
from symgrad.oracles.forms import check_form, evaluate_text, sizes_fit
from symgrad.program import UNNAMED, Program
from symgrad.shapes import Size

Shapes = Mapping[str, Sequence[int | str]]
Sample = tuple[Program, Values, Array]
WIDE, MOST_STEPS = 240, 20
"""The most nodes of a formula that is turned into a closed form, and the most steps of such a program."""
MOST_SAMPLED = 300_000
"""The most entries of all tensors of a program at the sizes where formulas are tested."""
MOST_TOLD = 12
"""If a given size is larger, small sizes are tried before the given ones."""
SIZES: tuple[Callable[[int], Sequence[int]], ...] = (
    lambda count: range(2, 2 + count),
    lambda count: range(1 + count, 1, -1),
    lambda count: range(6 + count, 6, -1),
    lambda count: [4] * count,
)
"""Numbers for open sizes, in the order of trial: all different if possible."""
PLACES = 3
"""The number of points at which a structure must hold to be stated for every size."""


@dataclass(frozen=True)
class Derived:
    """Formulas for one input, for every size: the Jacobian, its structure, the pullback and its closed form.

    ``claims`` are suggested by the formula; ``structure`` is the one that held at some sizes. ``whole`` is the pullback
    as one equation, with which the closed form is compared.
    """

    name: str
    axes: tuple[Index, ...]
    inner: tuple[Index, ...]
    jacobian: Expr | None
    claims: tuple[Claim, ...]
    sweep: Sweep
    whole: Sweep
    form: ProgramForm | None = None
    structure: Structure = UNSAID


def derive_formulas(program: Program, wanted: Sequence[str]) -> Mapping[str, Derived]:
    """Return the formulas of some inputs, from one sweep over the program; no numbers are needed."""
    return derive_once(program, tuple(wanted), program.seed, tuple(program.sizes.items()))


@lru_cache(maxsize=64)
def derive_once(program: Program, wanted: Sequence[str], *_: object) -> Mapping[str, Derived]:
    """Return `derive_formulas`, cached by program, seed and sizes."""
    sweeps, jacobians_ = pullbacks_by(program, wanted), jacobian_formulas(program, wanted)
    return {name: derive_for_input(program, name, sweeps[name], jacobians_[name]) for name in wanted}


def derive_for_input(program: Program, name: str, sweep: Sweep, found: Whole | None) -> Derived:
    """Return the formulas of one input from its pullback and its Jacobian (None if that is too long)."""
    short = sweep.whole or len(program.steps) > MOST_STEPS
    in_one = sweep if short else pullback(program, name, limit=WIDE)
    if found is None:
        axes, inner, formula = fresh_axes(program.out.shape), fresh_axes(program.tensor(name).shape, "pqrs"), None
        claims: tuple[Claim, ...] = (COMPOSED,)
    else:
        axes, inner, whole = found
        formula = whole.equation.right
        claims = suggest_claims(program, name, axes, inner, formula)
    return Derived(name, axes, inner, formula, claims, sweep, in_one)


def derive_only(program: Program, wanted: Sequence[str], shapes: Shapes | None = None) -> tuple[Derived, ...]:
    """Return the formulas that `symgrad derive` prints, with forms and structures proven at some sizes."""
    derived = derive_formulas(program, wanted)
    points = tuple(islice(samples(program, shapes or {}), PLACES))
    return tuple(
        replace(d, form=prove_form(d, *points[0])[0] if points else None, structure=proven_structure(d, points))
        for d in derived.values()
    )


def proven_structure(derived: Derived, points: Sequence[Sample]) -> Structure:
    """Return the strongest claim about J that holds at every point."""
    if not points or derived.jacobian is None:
        return choose_proven(derived.claims, None)
    return choose_proven(derived.claims, *(
        Evidence(program, derived.name, values, derived.axes, derived.inner, derived.jacobian)
        for program, values, _ in points
    ))  # fmt: skip


def sample(program: Program, shapes: Shapes) -> Sample | None:
    """Return the first of `samples`, or None."""
    return next(samples(program, shapes), None)


def samples(program: Program, shapes: Shapes) -> Iterator[Sample]:
    """Iterate over the program with numbers for all sizes, values inside common domains, and a seed.

    Sizes in ``shapes`` are taken, others are chosen so that they fit. If a given size is large, small ones are tried
    first, so that the cost does not depend on the given sizes.
    """
    symbols = sorted({s for t in program.tensors() for size in t.shape for s in size.free_symbols}, key=str)
    told = {
        size: number
        for tensor in program.inputs
        for size, number in zip(tensor.shape, shapes.get(tensor.name, ()), strict=False)
        if size.is_Symbol and isinstance(number, int)
    }
    generator, whole = np.random.default_rng(3), integer_inputs(program)
    tried: list[Mapping[Size, int]] = []
    given: list[Mapping[Size, int]] = [told, {}] if told else [{}]
    if max(told.values(), default=0) > MOST_TOLD:
        given.reverse()
    for known, numbers in product(given, SIZES):
        sized = replace(
            program, sizes={**dict(zip(symbols, numbers(len(symbols)), strict=True)), **known, **program.sizes}
        )
        try:
            if not sizes_fit(program, sized.sizes):
                continue
            check_program(sized, MOST_SAMPLED)
            inputs: dict[str, Array] = {
                t.name: generator.uniform(0.3, 0.9, size=sized.numbers(t.shape)) for t in program.inputs
            }
            inputs |= {
                name: generator.integers(low, high + 1, size=inputs[name].shape) for name, (low, high) in whole.items()
            }
            inputs = {name: matrix_of_kind(program, name, array) for name, array in inputs.items()}
            values = forward(sized, inputs)
        except (SymgradError, ValueError):  # a window longer than what it slides over
            continue
        if sized.sizes not in tried:
            tried.append(sized.sizes)
            yield sized, values, generator.integers(-4, 5, size=sized.numbers(program.out.shape))


def prove_form(
    derived: Derived, program: Program, values: Values, seed: Array
) -> tuple[ProgramForm | None, Check | None]:
    """Return the closed form and its check if it agrees with the index formula, else (None, None)."""
    form = prove_program_form(program, derived.name, values) if derived.whole.whole else None
    if form is None:
        return None, None
    checked = check_form(form.bare, program, derived.whole, values, seed, elsewhere=False)
    return (form, checked) if checked.passed else (None, None)


def find_definitions(
    program: Program, lines: Backward, forms: Iterable[str | None], values: Values
) -> tuple[NamedEquation, ...]:
    """Return definitions of names in the gradients' code that the user did not give, shortest first.

    They are the output, values inside an expanded step (x̂), and divisors (1/σ); each may use the earlier ones.
    """
    read = set[str]().union(*(tensor_names(read_python(form)) for form in forms if form and "; " not in form))
    read |= {name for line in lines.statements for name in line.names}
    for line in reversed(lines.forward):
        read |= line.names if line.target in read else set()
    mine, called = {tensor.name for tensor in program.tensors()}, {line.of: line.target for line in lines.forward}
    known, found = dict[str, Equation](), dict[str, Equation]()
    beside = [line for line in lines.lines if line.shape is None and line.code is not None]
    for step in lines.source.steps:
        name = step.result.name
        if name in mine - {program.output} and not beside:
            continue
        equation = substitute(local_jacobian(step, lines.source).equation, known)
        if weight(equation.right) <= WIDEST and mine - {name} >= {*names_read(equation.right)}:
            found[called.get(name, name)] = equation
        if name not in mine:
            known[name] = equation
    parts = [part for equation in found.values() for part in divisors(equation)]
    for line in beside:
        same = next((part for part in parts if is_value(str(line.code), part, values)), None)
        found |= {} if same is None else {line.target: same}
    told: tuple[NamedEquation, ...] = ()
    taken = {str(symbol) for tensor in program.tensors() for size in tensor.shape for symbol in size.free_symbols}
    names = {name for name in read & found.keys() - taken if not UNNAMED.fullmatch(name)}
    for name in sorted(names - (mine - {program.output}), key=lambda n: weight(found[n].right)):
        axes = tuple(fresh(axis.name, axis.size) for axis in found[name].axes)
        told = (*told, NamedEquation(name, Equation(axes, in_names(canonical(found[name].at(axes)), told))))
    return told


def divisors(equation: Equation) -> Iterator[Equation]:
    """Iterate over the divisors of the right-hand side, each with the axes it depends on."""
    for base, exponent in take_apart(equation.right, sums=False).powers.items():
        if exponent.is_negative:
            yield Equation(tuple(axis for axis in equation.axes if axis in free_indices(base)), base**exponent)


def is_value(code: str, equation: Equation, values: Values) -> bool:
    """Whether code, read back, has the values of an equation, up to axes of size one."""
    try:
        written = np.squeeze(as_float(evaluate_text(code, values.arrays)))
    except (SymgradError, KeyError):  # it reads what stands inside an opened step
        return False
    own = np.squeeze(as_float(evaluate(equation, values.arrays, values.sizes)))
    return own.shape == written.shape and compare(code, own, written).passed is True


LONGEST = 64
"""The most terms of a sum that is written out."""
LARGEST = 20_000
"""The most symbols of a sum that is written out."""
CLOSE = 1e-6
"""The error allowed between the sum of the terms and the total, relative to the terms."""


@dataclass(frozen=True)
class Entry:
    """``x.grad[at]``: ``terms`` are (expression, value) of each summand, ``total`` is their sum.

    ``terms`` is empty if the sum is too long to write out, or its terms have no numbers.
    """

    name: str
    at: tuple[int, ...]
    terms: tuple[tuple[Expr, Any], ...]
    total: Any

    def __repr__(self) -> str:
        label = f"{self.name}.grad[{','.join(map(str, self.at))}]" if self.at else f"{self.name}.grad"
        number = f"{len(self.terms)} terms" if len(self.terms) != 1 else "1 term"
        total = f"{self.total:.5g}" if isinstance(self.total, float) else self.total
        return f"<{label} = {total}, {number}>" if self.terms else f"<{label} = {total}>"


def explain_entry(name: str, at: tuple[int, ...], sweep: Sweep, value: Array, values: Values, seed: str) -> Entry:
    """Return ``x.grad[at]`` with its terms written out; raise `ShapeError` if there is no such entry."""
    shape = value.shape
    if len(at) != len(shape) or not all(0 <= i < n for i, n in zip(at, shape, strict=True)):
        raise ShapeError(
            f"{name}.grad has no entry {list(at)}",
            found=(f"its shape is {'×'.join(map(str, shape)) or 'a scalar'}",),
        )
    total, formula = without_fractions(value)[at], sweep.equation.right
    terms = terms_in(formula, values.sizes)
    if not sweep.whole or terms > LONGEST or terms * weight(formula) > LARGEST:
        return Entry(name, at, (), total)
    (expanded,) = write_out_at([(formula, dict(zip(sweep.equation.axes, at, strict=True)))], values)
    found = [t for t in sp.Add.make_args(expanded) if t != 0]
    found.sort(key=lambda term: _seed_place(term, seed))
    return Entry(name, at, tuple(zip(found, term_values(found, values, total), strict=False)), total)


def terms_in(expression: Expr, sizes: Mapping[Expr, int]) -> int:
    """Return the number of terms when all sums are written out."""
    count = 1
    for node in expression.atoms(sp.Sum, sp.Product):
        for limit in node.limits:
            count *= max(1, number(limit[0].size, sizes))
    return count * len(sp.Add.make_args(expression))


def term_values(terms: Sequence[Expr], values: Values, total: Any) -> list[Any]:
    """Return the number of each written-out term; empty if they do not add up to the ``total``.

    The whole formula is evaluated without overflow (softmax), but its single terms may overflow floats:
    ``exp(800) / (exp(800) + exp(801))``.
    """
    found = [value_of(term, values) for term in terms]
    if not np.isfinite(as_float(total)) or adds_up_to(found, total):
        return found
    found = [in_digits(term, values) for term in terms]
    return found if adds_up_to(found, total) else []


def adds_up_to(found: Sequence[Any], total: Any) -> bool:
    """Whether numbers add up to the ``total``, up to rounding."""
    each, whole = as_float(found), as_float(total)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        size = max(np.abs(each).sum(), np.abs(whole), np.finfo(float).tiny)
        return bool(np.isfinite(size) and np.abs(each.sum() - whole) <= CLOSE * size)


def value_of(term: Expr, values: Values) -> Any:
    """Return the number of one written-out term."""
    found = without_fractions(evaluate(Equation((), term), values.arrays, values.sizes))
    return found[()]


def in_digits(term: Expr, values: Values) -> float:
    """Return the number of one written-out term, computed in high precision; NaN if it has none."""
    known = {
        node: sp.Float(float(value_of(node, values)), DIGITS) for node in sp.preorder_traversal(term)
        if is_access(node) or is_mask(node)
    }  # fmt: skip
    return float(EvaluationPoint(known).value(term))


def _seed_place(term: Expr, seed: str) -> tuple[Any, ...]:
    """Return the sort key of a term: the position of the seed's entry in it."""
    at = [
        tuple(int(i) for i in indices_of(n)) for n in sp.preorder_traversal(term) if is_access(n) and name_of(n) == seed
    ]
    return (min(at) if at else (), str(term))
