"""The forward pass of a program on NumPy arrays, keeping every intermediate.

Comes in: a program and a value per input. Goes out: `Values`, the array of every tensor by name, including integers
computed by selecting operations. Exact inputs stay exact as long as the operations allow it (sums and products do, exp
does not). A program whose tensors would not fit is refused with an `InputError` that states their size.
"""

from __future__ import annotations

from collections import ChainMap, UserDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import sympy as sp

from symgrad.calculus.local_derivatives import (
    OUT,
    Standard,
    derive_local,
    known_name,
    operand_name,
    parts_of_product,
    standard,
    unfolded_standard,
)
from symgrad.entries.operands import WrittenTwice, numpy_positions
from symgrad.errors import DomainError, InputError, ShapeError, SymgradError, UnsupportedError
from symgrad.indexing import Bracket, Equation
from symgrad.indexing.symbols import is_access, name_of, names_read, number
from symgrad.lowering.graph import allowed_by_memory
from symgrad.numeric.exact import (
    EXACT_LIMIT,
    MOST_BITS,
    Array,
    as_float,
    as_fractions,
    compensated_sum,
    holds_exact,
    is_exact,
    is_finite,
    longest_bits,
)
from symgrad.numeric.playing import check_on_axis, evaluate, evaluate_forward, evaluate_stated, evaluate_with_positions
from symgrad.ops import entry_named
from symgrad.program import Apply, Constant, Program, VectorProduct
from symgrad.shapes import Size, fill_sizes

Evaluation = Callable[[Equation, Mapping[str, Array], Mapping[Size, int]], Array]

MOST_ENTRIES = 3_000_000
"""The most entries of all tensors of a program from a text."""

MOST_HELD = 100_000_000
"""The most entries of all tensors of any program."""

MOST_EXACT = 16_384
"""The most entries of all tensors of a program that is computed in fractions."""


@dataclass(frozen=True)
class Values:
    """Arrays by tensor name, and the sizes they belong to."""

    arrays: Mapping[str, Array]
    sizes: Mapping[Size, int]

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def with_arrays(self, more: Mapping[str, Array]) -> Values:
        """Return these values with ``more`` arrays."""
        if isinstance(self.arrays, dict):
            return Values({**self.arrays, **more}, self.sizes)
        return Values(ChainMap(dict(more), self.arrays), self.sizes)  # type: ignore[arg-type]  # it is only read


class Later(UserDict[str, Array]):
    """The arrays of a program by name, computed at the first access."""

    def __init__(self, program: Program, inputs: Callable[[], Mapping[str, Array]]) -> None:
        self._program, self._inputs = program, inputs

    @cached_property
    def data(self) -> dict[str, Array]:  # type: ignore[override]  # made once, and not written
        """The arrays."""
        check_program(self._program, MOST_HELD)  # before inputs that nobody gave are made
        return {**forward(self._program, self._inputs()).arrays}


def numbers(value: Any, sizes: Mapping[Size, int]) -> Any:
    """Return an option or constant with symbolic sizes replaced by numbers."""
    if isinstance(value, tuple):
        return tuple(numbers(part, sizes) for part in value)
    if hasattr(value, "xreplace"):
        value = fill_sizes(value, sizes)
        return int(value) if value.is_Integer else Fraction(value.p, value.q) if value.is_Rational else float(value)
    return value


def options_of(step: Apply, sizes: Mapping[Size, int]) -> dict[str, Any]:
    """Return a step's options in numbers."""
    return {name: numbers(value, sizes) for name, value in step.options}


def constant(argument: Constant, sizes: Mapping[Size, int]) -> Array | None:
    """Return a constant as an array of rank 0, exact if it is; None for an operand that was left out."""
    if argument.value is None:
        return None
    value = numbers(argument.value, sizes)
    return np.asarray(value) if isinstance(value, float) else as_fractions(np.asarray(value))


def forward(program: Program, inputs: Mapping[str, Array]) -> Values:
    """Compute every tensor of ``program`` for these ``inputs``."""
    check_program(program, MOST_HELD)
    small = sum(np.size(a) for a in inputs.values()) <= EXACT_LIMIT and entry_count(program)[0] <= MOST_EXACT
    arrays: dict[str, Array] = {}
    for tensor in program.inputs:
        given = np.asarray(inputs[tensor.name])
        arrays[tensor.name] = as_fractions(given) if small and is_exact(given) else as_float(given)
    for step in program.steps:
        check_positions(step, program, arrays)
        try:
            compute(step, program, arrays)
        except DomainError as error:
            raise explain_for_reader(step, program.steps, arrays, error) from None
    return Values(arrays, program.sizes)


def explain_for_reader(
    step: Apply, steps: Sequence[Apply], arrays: Mapping[str, Array], error: DomainError
) -> SymgradError:
    """Return ``error`` of a step; if only a derivative reads the step, say that the derivative is missing."""
    reader = next((s for s in steps if step.result.name in dict(s.beside).values()), None)
    if reader is None or not is_finite(arrays[reader.result.name]).all():
        return error
    told = f"symgrad takes the derivative of {reader.called} by {step.called}: {error.problem}"
    return UnsupportedError(told, span=reader.span, hints=error.hints)


def check_positions(step: Apply, program: Program, arrays: Mapping[str, Array]) -> None:
    """Raise `InputError` for positions read by ``step`` that are out of bounds; negative ones count from the end."""
    for name, count in program.positions:
        if name in step.tensors:
            try:
                check_on_axis(numpy_positions(arrays[name]), count)
            except IndexError as error:
                raise position_error("the index reads", step, error) from None


def forward_from(program: Program, values: Values, moved: Mapping[str, Array]) -> Values:
    """Return ``values`` in float64 with new numbers for the tensors ``moved``, and their dependents recomputed."""
    reached = program.reached(moved)
    arrays = {**values.arrays, **{name: as_float(array) for name, array in moved.items()}}
    for step in program.steps:
        if step.result.name in reached and step.result.name not in moved:
            compute(step, program, arrays)
    return Values(arrays, program.sizes)


def compute(step: Apply, program: Program, arrays: dict[str, Array]) -> None:
    """Compute one step, with the integers that it finds, and store the results in ``arrays``."""
    if not isinstance(step.op, str):
        try:
            arrays[step.result.name] = pulled(step, program, Values(arrays, program.sizes))
        except IndexError as error:
            hints = ("a condition beside an entry leaves it out: [n[i] ≥ 0]·x[n[i]]",)
            raise position_error("the equation reads", step, error, hints) from None
        return
    op = entry_named(step.op)
    try:
        if not compute_index_data(step, arrays, program.sizes):
            arrays[step.result.name] = by_equation(step, program, Values(arrays, program.sizes))
    except MemoryError:
        raise InputError(f"{op.name} does not fit into memory here", span=step.span) from None
    except IndexError as error:
        front = ("n % x.shape[0] in the place of n counts −1 from the end",) if "negative" in str(error) else ()
        raise position_error(f"{op.name} reads or writes", step, error, front) from None
    except WrittenTwice as error:
        raise UnsupportedError(
            f"{op.name} writes an entry twice, and the result depends on the order",
            span=step.span,
            found=(str(error),),
            hints=("each position once", "an operation that adds the values (index_add, scatter_add)"),
        ) from None
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        empty = any(isinstance(a, str) and arrays[a].size == 0 for a in step.arguments)
        at = "for a tensor without entries" if empty else "at these numbers and options"
        pythons = empty or isinstance(error, (AttributeError, TypeError))  # what it says is about its own objects
        told = f"{op.name} has no value {at}"
        raise (ShapeError if empty else InputError)(
            told, span=step.span, found=() if pythons else (str(error),)
        ) from None


def compute_index_data(step: Apply, arrays: dict[str, Array], sizes: Mapping[Size, int]) -> bool:
    """Store the integers that an operation computes, and its value if its entry has a NumPy function.

    Return whether the value was stored.
    """
    op = entry_named(step.op)
    if not op.saved.index_data and op.numpy is None:
        return False
    options = options_of(step, sizes)
    arguments = [arrays[a] if isinstance(a, str) else constant(a, sizes) for a in step.arguments]
    for name, rule in op.saved.index_data.items():
        known = rule(*arguments, **options)
        if known is not None:
            arrays[known_name(step, name)] = np.asarray(known)
    if op.numpy is not None:
        arrays[step.result.name] = apply(op.numpy, arguments, options)
    return op.numpy is not None


def position_error(what: str, step: Apply, error: IndexError, hints: tuple[str, ...] = ()) -> InputError:
    """Return the error for positions out of bounds."""
    return InputError(f"{what} at a position that does not exist", span=step.span, found=(str(error),), hints=hints)


def by_equation(step: Apply, program: Program, values: Values) -> Array:
    """Compute a step by its equation; 0·x is NaN for x not finite, though its simplified equation has lost x."""
    found = pulled(step, program, values)
    if not has_lost_tensor(step, program):
        return found
    general, numbers = with_constants_as_tensors(step, program, values)
    whole = evaluated(derive_local(general.key).equation, general, values, numbers, evaluate_forward)
    return found if is_finite(whole).all() else as_float(whole)


def has_lost_tensor(step: Apply, program: Program) -> bool:
    """Whether a constant has removed a tensor from the equation of ``step``, as in 0·x."""
    if not any(isinstance(a, Constant) and a.value is not None for a in step.arguments):
        return False
    form = standard(step, program)
    return not form.names.keys() - {OUT} <= set(names_read(derive_local(form.key).equation.right))


def with_constants_as_tensors(step: Apply, program: Program, values: Values) -> tuple[Standard, dict[str, Array]]:
    """Return a step in standard terms with constants as tensors (`unfolded_standard`), and these constants."""
    shape = program.numbers(step.result.shape)
    numbers = {n: constant(a, values.sizes) for n, a in enumerate(step.arguments) if isinstance(a, Constant)}
    read = {operand_name(n): np.broadcast_to(as_float(a), shape) for n, a in numbers.items() if a is not None}
    return unfolded_standard(step, program), read


def pulled(step: Apply, program: Program, values: Values) -> Array:
    """Compute a step whose operation has only an equation: a pullback, or one given by the user."""
    return compute_equation_as(standard(step, program), step, values)


def compute_equation_as(form: Standard, step: Apply, values: Values) -> Array:
    """Compute the same for a step in standard terms."""
    if isinstance(step.op, VectorProduct):
        return compensated_sum([evaluated(equation, own, values, {}) for equation, own in forms_of(step, form)])
    by: Evaluation = evaluate_forward
    equation = derive_local(form.key).equation
    if entry_named(step.op).data:
        by = evaluate_with_positions if isinstance(step.op, str) else evaluate_stated
    if OUT in names_read(equation.right):
        equation = drop_out_conditions(equation)
    return evaluated(equation, form, values, {}, by)


def forms_of(step: Apply, form: Standard) -> list[tuple[Equation, Standard]]:
    """Return the equations whose sum a step is, each with its standard terms.

    A product with J has those of its operation; they multiply by v last, which matters for extreme numbers.
    """
    if not isinstance(step.op, VectorProduct) or not isinstance(step.arguments[0], str):
        return [(derive_local(form.key).equation, form)]
    parts, inner = parts_of_product(step.op, form.key)
    sizes = {own: size.xreplace(form.sizes) for own, size in inner.items()}
    named = [{own: form.names[called.get(own, own)] for own in names_read(e.right)} for e, called in parts]
    return [(equation, Standard(form.key, names, sizes)) for (equation, _), names in zip(parts, named, strict=True)]


@lru_cache(maxsize=256)
def drop_out_conditions(equation: Equation) -> Equation:
    """Replace ``[out ≠ 0]·e`` by e: where the condition is false, e is 0."""
    sides = [(b, b.args[0].lhs) for b in equation.right.atoms(Bracket)]
    own = [b for b, side in sides if is_access(side) and name_of(side) == OUT]
    return Equation(equation.axes, equation.right.xreplace(dict.fromkeys(own, sp.S.One)))


def evaluated(
    equation: Equation, form: Standard, values: Values, more: Mapping[str, Array], by: Evaluation = evaluate
) -> Array:
    """Evaluate a local equation in standard names on the program's arrays and sizes."""
    arrays, sizes = read_by(form, values)
    return by(equation, {**arrays, **more}, sizes)


def read_by(form: Standard, values: Values) -> tuple[dict[str, Array], dict[Size, int]]:
    """Return a program's arrays and sizes under the standard names of one of its steps."""
    arrays = {own: values[name] for own, name in form.names.items() if name in values.arrays}
    return arrays, {own: number(size, values.sizes) for own, size in form.sizes.items()}


def apply(function: Callable[..., Any], arguments: list[Array | None], options: Mapping[str, Any]) -> Array:
    """Compute one operation's forward: exactly if its arguments are exact and it can be, in float64 otherwise."""
    with np.errstate(all="ignore"):
        if all(a is None or is_exact(a) for a in arguments):
            try:
                result = np.asarray(function(*arguments, **options))
            except (TypeError, AttributeError, ZeroDivisionError, OverflowError):
                pass
            else:
                if is_exact(result) and holds_exact(result) and longest_bits(result) <= MOST_BITS:
                    return as_fractions(result)
        return as_float(function(*(None if a is None else as_float(a) for a in arguments), **options))


def entry_count(program: Program) -> tuple[int, Apply | None]:
    """Return the number of entries of all tensors of ``program``, and the step with the largest result."""
    counts = program.entries
    largest = max(program.steps, key=lambda step: counts[step.result.name], default=None)
    return sum(counts.values()), largest


def check_entries(count: int, most: int) -> None:
    """Raise `InputError` for more than ``most`` entries."""
    if count > allowed_by_memory(most):
        raise InputError("this is too large to be computed", found=(f"{count:,} entries",))


def check_program(program: Program, most: int = MOST_ENTRIES) -> None:
    """Raise `InputError` if the tensors of a program have more than ``most`` entries together."""
    total, largest = entry_count(program)
    most = allowed_by_memory(most)
    if total <= most:
        return
    span, found = None, [f"{total:,} entries in all tensors together"]
    if largest is not None and 3 * program.entries[largest.result.name] > total:
        shape = "×".join(str(fill_sizes(size, program.sizes)) for size in largest.result.shape)
        span, found = largest.span, [*found, f"{shape} here"]
    raise InputError(
        "this is too large to be computed", span=span, found=tuple(found),
        hints=(f"at most {most:,} entries; the formulas hold for every size",),
    )  # fmt: skip
