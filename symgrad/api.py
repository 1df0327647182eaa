"""The pipeline, from what a user says to an explanation: read, give values, derive, prove.

Reads top to bottom as the picture in docs/explanation/pipeline.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.errors import InputError, ShapeError, UnknownNameError
from symgrad.explanation import Explanation, Given, Jacobian, Seed, build, slope_form, with_hessians
from symgrad.explanation.assumed import assumptions_of, hints_of
from symgrad.explanation.formulas import Derived, Shapes, derive_only
from symgrad.language import (
    LOSSES,
    OUTPUTS,
    Value,
    arguments,
    expand_composites,
    holds_truths,
    inputs_of,
    literal,
    read,
    value_from,
    why_whole,
)
from symgrad.numeric import Array, where_exact
from symgrad.numeric.assumed import assumed_value
from symgrad.numeric.budget import check_program
from symgrad.program import Program
from symgrad.render import WRITERS


def explain(
    expression: str,
    *,
    seed: Any = None,
    wrt: str | Sequence[str] | None = None,
    then: str | None = None,
    shapes: Shapes | None = None,
    check: bool = True,
    expand: bool = False,
    order: int = 1,
    **values: Any,
) -> Explanation:
    """What ``out.backward(seed)`` computes for ``expression``, derived and proven.

    ``values`` are the inputs by name (NumPy arrays, torch tensors, nested lists, fractions); an input without
    a value is ones, its sizes inferred. ``seed`` has the shape of the output; without one a scalar output
    takes 1 and any other takes ones, which is the gradient of the sum. ``then`` is a scalar expression in
    ``out`` from which the seed is derived. ``wrt`` names the inputs to differentiate by (default: all).
    ``expand`` shows the steps inside composite operations; ``order=2`` adds the second derivatives by every pair
    of inputs. Raises `SymgradError`.

    >>> result = explain("x@a", seed=[[1, 2, 3, 4], [5, 6, 7, 8]], check=False)
    >>> result.gradients["x"].closed_form, result.gradients["x"].value.tolist()
    ('v @ a.T', [[10, 10, 10], [26, 26, 26]])
    """
    return explain_values(
        expression, values, seed=seed, wrt=wrt, then=then, shapes=shapes, check=check, expand=expand, order=order
    )


def explain_values(
    expression: str,
    values: Mapping[str, Any],
    *,
    seed: Any = None,
    wrt: str | Sequence[str] | None = None,
    then: str | None = None,
    shapes: Shapes | None = None,
    check: bool = True,
    expand: bool = False,
    order: int = 1,
) -> Explanation:
    """`explain` with the values in a mapping, for inputs that are called ``seed`` or ``check``."""
    expression, values, shapes = (
        arguments.text_of(expression, "the expression"),
        arguments.values_of(values),
        arguments.shapes_of(shapes),
    )
    wrt, then = arguments.names_of(wrt, "wrt"), None if then is None else arguments.text_of(then, "then")
    check, expand, order = (
        arguments.flag_of(check, "check"),
        arguments.flag_of(expand, "expand"),
        arguments.order_of(order),
    )
    given = {name: _value(value, name) for name, value in values.items()}
    weights = None if seed is None else _value(seed, "the seed")
    own, later = inputs_of(expression), inputs_of(then) if then is not None else frozenset()
    late = {name for name in given if then is not None and name not in own}
    here = {name: value for name, value in given.items() if name not in late}
    known = _known_shapes(here, {n: s for n, s in shapes.items() if n not in late})
    wished = weights.shape if weights is not None else _out_shape(then, {n: given[n] for n in late})
    truths = [name for name in here if holds_truths(values[name])]
    output = OUTPUTS if then is None else ("out",)
    reading = read(
        expression, shapes=known, out_shape=wished, truths=truths, output=output, spoken=later - {"out"},
        scalars=_scalars(here),
    )  # fmt: skip
    program = expand_composites(reading.program) if expand else reading.program
    try:
        check_program(program)
    except InputError as error:
        raise reading.source.locate(error) from None
    inputs = _inputs(program, here, shapes, reading.made)
    out_shape = program.numbers(program.out.shape)
    downstream = None
    if then is not None:
        if seed is not None:
            raise InputError("seed and then both say what v is", hints=("give one of them",))
        if program.output != "out":
            raise InputError(
                "then calls the output out, and the expression has an input of that name",
                hints=("another name for the input",),
            )
        downstream = _downstream(then, program, inputs, {n: given[n] for n in late}, shapes, out_shape, check)
    chosen = _seed(weights, downstream, out_shape)
    first_order = build(
        expression, program, inputs, chosen, _wanted(wrt, program), check=check,
        assumptions=assumptions_of(reading, inputs), hints=hints_of(reading, inputs), downstream=downstream,
        expanded=expand, remarks=(*reading.remarks, *(why_whole(reading.program) if expand else ())), writers=WRITERS,
    )  # fmt: skip
    return first_order if order == 1 else with_hessians(first_order)


def jacobian(expression: str, wrt: str, *, shapes: Shapes | None = None, check: bool = True, **values: Any) -> Jacobian:
    """∂out/∂wrt of ``expression``: formula, structure, symbols and numbers.

    >>> jacobian("x@a", "x", check=False).shape
    (8, 6)
    """
    wrt = arguments.name_of(wrt, "wrt")
    return explain(expression, wrt=[wrt], shapes=shapes, check=check, **values).gradients[wrt].jacobian


def vjp(
    expression: str, wrt: str, *, seed: Any = None, shapes: Shapes | None = None, check: bool = True, **values: Any
) -> Array:
    """vᵀJ in the shape of ``wrt``: what ``out.backward(seed)`` adds to ``wrt.grad``.

    >>> vjp("x@a", "x", seed=[[1, 2, 3, 4], [5, 6, 7, 8]], check=False).tolist()
    [[10, 10, 10], [26, 26, 26]]
    """
    wrt = arguments.name_of(wrt, "wrt")
    return explain(expression, wrt=[wrt], seed=seed, shapes=shapes, check=check, **values).gradients[wrt].value


def derive(
    expression: str, *, wrt: str | Sequence[str] | None = None, shapes: Shapes | None = None
) -> tuple[Program, tuple[Derived, ...]]:
    """The formulas alone: sizes stay symbols, no numbers, no torch."""
    expression, shapes = arguments.text_of(expression, "the expression"), arguments.shapes_of(shapes)
    program = read(expression, shapes=shapes, symbolic=True).program
    return program, derive_only(program, _wanted(arguments.names_of(wrt, "wrt"), program), shapes)


def _out_shape(then: str | None, late: Mapping[str, Value]) -> tuple[int, ...] | None:
    """The shape that ``then`` wants ``out`` to have, where the values given for it say so."""
    known = _known_shapes(late, {})
    if then is None or not known:
        return None
    program = read(then, shapes=known, output=LOSSES, scalars=_scalars(late)).program
    return next((program.numbers(t.shape) for t in program.inputs if t.name == "out"), None)


def _known_shapes(given: Mapping[str, Value], shapes: Shapes) -> dict[str, Sequence[int | str]]:
    """Shapes from values, and the ones that were said."""
    known: dict[str, Sequence[int | str]] = {name: tuple(shape) for name, shape in shapes.items()}
    for name, value in given.items():
        if value.shape is None:
            continue
        said = known.get(name)
        if said is not None and (len(said) != len(value.shape) or any(
            isinstance(s, int) and s != n for s, n in zip(said, value.shape, strict=True)
        )):  # fmt: skip
            raise ShapeError(
                f"the value of {name} does not have the shape that was given for it",
                found=(f"value {'×'.join(map(str, value.shape))}, shape {'×'.join(map(str, said))}",),
            )
        known[name] = value.shape
    return known


def _scalars(given: Mapping[str, Value]) -> dict[str, Any]:
    """The single numbers among the values."""
    return {name: value.array(()).item() for name, value in given.items() if value.shape == ()}


def _inputs(
    program: Program, given: Mapping[str, Value], shapes: Shapes, made: Mapping[str, Array]
) -> tuple[Given, ...]:
    """A value for every input, assumed where none was given and the text makes none."""
    result = []
    for tensor in program.inputs:
        if tensor.name in made:
            result.append(Given(tensor.name, where_exact(made[tensor.name]), True, True))
            continue
        shape = program.numbers(tensor.shape)
        value = given.get(tensor.name)
        array = assumed_value(program, tensor.name, shape) if value is None else value.array(shape)
        sized = tensor.name in shapes or (value is not None and value.shape is not None)
        result.append(Given(tensor.name, array, value is not None, sized))
    return tuple(result)


def _wanted(wrt: Sequence[str] | None, program: Program) -> tuple[str, ...]:
    """The inputs to differentiate by."""
    names = tuple(tensor.name for tensor in program.inputs if tensor.name not in program.made)
    if wrt is None:
        return names
    for name in wrt:
        if name not in names:
            raise UnknownNameError(
                f"there is no input {name!r} to differentiate by", found=(f"inputs: {', '.join(names)}",)
            )
    return tuple(dict.fromkeys(wrt))


def _value(value: Any, name: str) -> Value:
    """A value as it was given: an array of some kind, or a literal such as ``ones`` or ``onehot(0,1)``."""
    if isinstance(value, Value):
        return value
    if isinstance(value, str):
        return literal(value)
    array = value_from(value, name)
    return Value(name, array.shape, lambda shape: array)


def _seed(weights: Value | None, downstream: Explanation | None, shape: tuple[int, ...]) -> Seed:
    """v, and where it comes from."""
    if downstream is not None:
        form = slope_form(downstream, "out")
        return Seed(downstream.gradients["out"].value, "downstream", downstream.expression, form)
    if weights is None:
        scalar = int(np.prod(shape, dtype=object)) == 1
        return Seed(np.ones(shape, dtype=np.int64), "scalar" if scalar else "assumed", "1" if scalar else "ones")
    if weights.shape is not None and tuple(weights.shape) != shape:
        raise ShapeError(
            "the seed has to have the shape of the output: one weight for each of its entries",
            found=(f"seed {_size(weights.shape)}, out {_size(shape)}",),
            hints=(
                f"a seed of shape {shape}",
                "seed ones for the gradient of the sum",
                "seed onehot(…) for one row of J",
            ),
        )
    return Seed(weights.array(shape), "given", weights.text)


def _downstream(
    then: str, program: Program, inputs: Sequence[Given], late: Mapping[str, Value], shapes: Shapes,
    out_shape: tuple[int, ...], check: bool,
) -> Explanation:  # fmt: skip
    """∂L/∂out for a scalar L that is computed from ``out``: an explanation of its own."""
    from_first = build(
        "", program, inputs, Seed(np.ones(out_shape, dtype=np.int64), "assumed", "ones"), (), check=False
    )
    shared = {g.name: g for g in inputs}
    known: dict[str, Sequence[int | str]] = {n: s for n, s in shapes.items() if n not in shared}
    known |= _known_shapes(late, {}) | {"out": out_shape} | {n: g.value.shape for n, g in shared.items()}
    names = inputs_of(then)
    if "out" not in names:
        raise InputError("then has to be computed from out", found=(then,), hints=('--then "sum((out-y)**2)"',))
    here = {n: s for n, s in known.items() if n in names}
    reading = read(then, shapes=here, output=LOSSES, spoken=program.names - {"out"}, scalars=_scalars(late))
    later = reading.program
    if later.out.shape:
        shape = later.numbers(later.out.shape)
        raise ShapeError("then has to give one number", found=(f"its shape is {_size(shape)}",), hints=("sum(…)",))
    given = [
        Given("out", from_first.output, True, True) if g.name == "out" else shared.get(g.name, g)
        for g in _inputs(later, late, shapes, reading.made)
    ]
    seed = Seed(np.ones((), dtype=np.int64), "scalar", "1")
    return build(
        then, later, given, seed, ("out",), check=check, assumptions=assumptions_of(reading, given),
        remarks=reading.remarks, writers=WRITERS,
    )  # fmt: skip


def _size(shape: Sequence[int]) -> str:
    """2×3, or the word for a scalar."""
    return "×".join(map(str, shape)) if shape else "a scalar"
