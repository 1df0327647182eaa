"""The public functions, and the pipeline from a question to an explanation: read, give values, derive, prove.

Reads top to bottom as the picture in docs/explanation/pipeline.md. Comes in: a text, values, shapes, weights. Goes out:
an `Explanation`; formulas alone; and what else follows from the same equations: a Jacobian, vᵀJ, the pushforward Ju,
a `Hessian` with formula, closed form and proofs, and its product with a direction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from symgrad.errors import InputError, Setting, ShapeError, seed_shape_error
from symgrad.explanation import (
    Explanation,
    Given,
    Hessian,
    Jacobian,
    JacobianPlan,
    Seed,
    build,
    compute_hessian,
    hessian_vector_product,
    jacobian_of,
    require_scalar_or_seed,
    slope_form,
    with_hessians,
)
from symgrad.explanation.evidence import shape_text
from symgrad.explanation.formulas import Derived, Shapes, derive_only
from symgrad.explanation.notable import add_larger_shape, describe_assumptions, hints_for_assumptions
from symgrad.language import LOSSES, OUTPUTS, Value, arguments, expand_composites, find_inputs, read_program, why_whole
from symgrad.numeric import Array, numeric_pushforward, where_exact, without_fractions
from symgrad.numeric.arranged import assumed_seed
from symgrad.numeric.forward_pass import MOST_ENTRIES
from symgrad.program import Program
from symgrad.question import (
    ask,
    choose_wrt,
    given_by_name,
    given_values,
    known_shapes,
    parse_given_value,
    read_once,
    read_text,
    refuse_too_many_entries,
    scalars_of,
    synchronized,
    text_inputs,
    torch_expression,
)
from symgrad.render import write


def explain(
    expression: str | Callable[..., Any],
    *inputs: Any,
    seed: Any = None,
    wrt: str | Sequence[str] | None = None,
    then: str | None = None,
    shapes: Shapes | None = None,
    check: bool = True,
    expand: bool = False,
    order: int = 1,
    forward: bool = False,
    **values: Any,
) -> Explanation:
    """Explain ``out.backward(seed)`` for ``expression``, derived and proven.

    ``values`` are the inputs by name (NumPy arrays, torch tensors, nested lists, fractions). An input without a value
    has ones if the output is linear in each input, else small numbers of both signs (others if the text has no value,
    no gradient or a tie there); its sizes are inferred. ``seed`` has the shape of the output. The default is 1 for a
    scalar output and ones for any other, which is the gradient of the sum; if no number was given and the gradient for
    ones is 0, as of softmax, it is 1, 2, 3, …. ``then`` is a scalar expression in ``out`` from which the seed is
    derived. ``wrt`` names the inputs to differentiate with respect to (default: all). ``expand`` shows the steps inside
    composite operations; ``order=2`` adds the second derivatives with respect to every pair of inputs, ``forward`` the
    lines of Ju. A PyTorch function or module with its ``inputs`` is run by `symgrad.capture`. Raises `SymgradError`.

    >>> result = explain("x@a", seed=[[1, 2, 3, 4], [5, 6, 7, 8]], check=False)
    >>> result.gradients["x"].closed_form, result.gradients["x"].value.tolist()
    ('v @ a.T', [[10, 10, 10], [26, 26, 26]])
    """
    if callable(expression) and not isinstance(expression, type):
        from symgrad.tracing import capture  # a text needs none of its modules

        if then is not None or shapes is not None or expand:
            raise InputError("a function takes no then, shapes and expand", hints=("then inside the function",))
        arguments.require_fitting_inputs(expression, inputs, values)
        names = None if wrt is None else arguments.require_names(wrt, "wrt")
        found = capture(expression, *inputs, **values).explain(seed, wrt=names, check=check, order=order)
    elif inputs:
        raise InputError("inputs of an expression are given by name", hints=(Setting("let", "x", "[1, 2]"),))
    else:
        text = arguments.require_text(expression, "the expression")
        found = explain_values(
            text, values, seed=seed, wrt=wrt, then=then, shapes=shapes, check=check, expand=expand, order=order
        )
    return replace(found, forward=arguments.require_flag(forward, "forward"))


@synchronized
def explain_values(
    expression: str, values: Mapping[str, Any], *, seed: Any = None, wrt: str | Sequence[str] | None = None,
    then: str | None = None, shapes: Shapes | None = None, check: bool = True, expand: bool = False, order: int = 1,
) -> Explanation:  # fmt: skip
    """`explain` with the values in a mapping, for inputs that are called ``seed`` or ``check``."""
    expression, shapes = arguments.require_text(expression, "the expression"), arguments.require_shapes(shapes)
    wrt, then = arguments.require_names(wrt, "wrt"), None if then is None else arguments.require_text(then, "then")
    check, expand = arguments.require_flag(check, "check"), arguments.require_flag(expand, "expand")
    values, order = arguments.require_values(values), arguments.require_order(order)
    weights = None if seed is None else parse_given_value(seed, "the seed")
    own, later = text_inputs(expression, {*values, *shapes}), frozenset() if then is None else find_inputs(then, values)
    given = given_by_name(values, own | later)
    late = {name for name in given if then is not None and name not in own}
    here = {name: value for name, value in given.items() if name not in late}
    known = known_shapes(here, {n: s for n, s in shapes.items() if n not in late})
    wished = weights.shape if weights is not None else _out_shape(then, {n: given[n] for n in late})
    output = OUTPUTS if then is None else ("out",)
    reading = read_once(expression, known, wished, output, later - {"out"}, here, wrt)
    if reading.seed is not None and (weights is not None or then is not None):
        raise InputError(
            "the text defines v itself", found=(f"backward({reading.seed[0]})",), hints=("one of the two",)
        )
    weights = weights if reading.seed is None else parse_given_value(reading.seed[1], reading.seed[0])
    program = expand_composites(reading.program) if expand else reading.program
    refuse_too_many_entries(reading, program, MOST_ENTRIES)
    inputs = given_values(program, here, shapes, reading.made)
    out_shape = program.numbers(program.out.shape)
    downstream = None
    if then is not None:
        if seed is not None:
            raise InputError("seed and then both define v", hints=("give one of them",))
        if program.output != "out":
            raise InputError(
                "then calls the output out, and the expression has an input of that name",
                hints=("another name for the input",),
            )
        downstream = _explain_loss(then, program, inputs, {n: given[n] for n in late}, shapes, out_shape, check)
    chosen = resolve_seed(weights, downstream, out_shape)
    if chosen.origin == "assumed" and not (given or reading.made):  # numbers that show something are nobody's loss
        value, words = assumed_seed(program, {g.name: g.value for g in inputs}, out_shape)
        chosen = Seed(value, "assumed", words)
    try:
        first_order = build(
            reading.source.text, program, inputs, chosen, choose_wrt(wrt, program), conventions=reading.conventions,
            assumptions=(
                *describe_assumptions(reading, inputs, chosen),
                *(downstream.assumptions if downstream else ()),
            ),
            hints=(*(downstream.hints if downstream else ()), *hints_for_assumptions(reading, inputs, chosen)),
            downstream=downstream, expanded=expand, writers=write, text=torch_expression(expression, reading, here),
            remarks=(*reading.remarks, *(why_whole(reading.program) if expand else ())), check=check,
        )  # fmt: skip
    except InputError as error:
        raise add_larger_shape(error, reading, inputs) from None
    return first_order if order == 1 else with_hessians(first_order)


def jacobian(expression: str, wrt: str, *, shapes: Shapes | None = None, check: bool = True, **values: Any) -> Jacobian:
    """∂out/∂wrt of ``expression``: formula, structure, plan, symbols, numbers, operator.

    The formula is derived at once; numbers are computed when they are asked for. With ``check`` everything is computed
    and held against the oracles first.

    >>> jacobian("x@a", "x", check=False).shape
    (8, 6)
    """
    wrt = arguments.require_name(wrt, "wrt")
    if arguments.require_flag(check, "check"):
        return explain(expression, wrt=[wrt], shapes=shapes, check=True, **values).gradients[wrt].jacobian
    question = ask(expression, values, shapes)
    return jacobian_of(question.program, choose_wrt((wrt,), question.program)[0], question.values, write)


def plans(
    expression: str, values: Mapping[str, Any], *, wrt: str | Sequence[str] | None = None, shapes: Shapes | None = None
) -> tuple[tuple[JacobianPlan, ...], tuple[str, ...]]:
    """What the Jacobians of ``expression`` would be, before any is computed, and what was assumed about sizes."""
    question = ask(expression, values, shapes)
    names = choose_wrt(arguments.require_names(wrt, "wrt"), question.program)
    found = (jacobian_of(question.program, name, question.values, write).plan() for name in names)
    return tuple(found), describe_assumptions(question.reading, ())


def vjp(
    expression: str, wrt: str, *, seed: Any = None, shapes: Shapes | None = None, check: bool = True, **values: Any
) -> Array:
    """vᵀJ in the shape of ``wrt``: what ``out.backward(seed)`` adds to ``wrt.grad``.

    >>> vjp("x@a", "x", seed=[[1, 2, 3, 4], [5, 6, 7, 8]], check=False).tolist()
    [[10, 10, 10], [26, 26, 26]]
    """
    wrt = arguments.require_name(wrt, "wrt")
    return explain(expression, wrt=[wrt], seed=seed, shapes=shapes, check=check, **values).gradients[wrt].value


def derive(
    expression: str, *, wrt: str | Sequence[str] | None = None, shapes: Shapes | None = None, expand: bool = False
) -> tuple[Program, tuple[Derived, ...]]:
    """The formulas alone: sizes stay symbols, no numbers, no torch; a text that has to be run has the sizes of its run.

    ``expand`` writes composite operations out in their steps; `why_whole` says what stays as it is.

    >>> [step.op for step in derive("silu(x)", expand=True)[0].steps]
    ['neg', 'exp', 'add', 'div', 'mul']
    """
    shapes = arguments.require_shapes(shapes)
    program = read_text(expression, shapes, symbolic=True).program
    program = expand_composites(program) if arguments.require_flag(expand, "expand") else program
    return program, derive_only(program, choose_wrt(arguments.require_names(wrt, "wrt"), program), shapes)


def jvp(expression: str, wrt: str, direction: Any, /, *, shapes: Shapes | None = None, **values: Any) -> Array:
    """Ju in the shape of the output: how ``out`` moves when ``wrt`` moves in ``direction`` (forward mode).

    ``direction`` has the shape of ``wrt``. Raises `SymgradError`.

    >>> jvp("x * x", "x", [1, 0, 2], x=[3, 4, 5]).tolist()
    [6, 0, 20]
    """
    wrt = arguments.require_name(wrt, "wrt")
    found = explain_values(expression, values, wrt=[wrt], shapes=shapes, check=False)
    return without_fractions(numeric_pushforward(found.program, found.values, wrt, _direction(found, wrt, direction)))


def hessian(
    expression: str,
    wrt: str,
    other: str | None = None,
    /,
    *,
    seed: Any = None,
    shapes: Shapes | None = None,
    check: bool = True,
    **values: Any,
) -> Hessian:
    """∂²L/∂wrt∂other (``other`` is ``wrt`` unless given), L the scalar output or Σ seed·out.

    Raises `SymgradError`, also when the output is no scalar and no seed says how to weigh it.

    >>> found = hessian("x @ A @ x", "x", x=[1, 2], A=[[1, 2], [3, 4]], check=False)
    >>> found.closed_form, found.value.tolist()
    ('A + A.T', [[2, 5], [5, 8]])
    """
    wrt = arguments.require_name(wrt, "wrt")
    second = wrt if other is None else arguments.require_name(other, "other")
    if not arguments.require_flag(check, "check"):
        question = ask(expression, values, shapes)
        program = question.program
        (first, last) = (choose_wrt((name,), program)[0] for name in (wrt, second))
        out_shape = program.numbers(program.out.shape)
        weights = resolve_seed(None if seed is None else parse_given_value(seed, "the seed"), None, out_shape)
        require_scalar_or_seed(weights, out_shape)
        return compute_hessian(program, question.values, weights, first, last, write)
    found = explain_values(expression, values, seed=seed, wrt=(wrt, second), shapes=shapes, check=check, order=2)
    return found.hessian(wrt, second)


def hvp(
    expression: str, wrt: str, direction: Any, /, *, seed: Any = None, shapes: Shapes | None = None, **values: Any
) -> Array:
    """H·u in the shape of ``wrt``, H never formed: the backward as a program, moved in ``direction`` (any length).

    Raises `SymgradError`, also when the output is no scalar and no seed says how to weigh it.

    >>> hvp("x @ A @ x", "x", [1, 0], x=[1, 2], A=[[1, 2], [3, 4]]).tolist()
    [2, 5]
    """
    wrt = arguments.require_name(wrt, "wrt")
    found = explain_values(expression, values, seed=seed, wrt=[wrt], shapes=shapes, check=False)
    require_scalar_or_seed(found.seed_info, found.output.shape)
    return without_fractions(hessian_vector_product(found, wrt, _direction(found, wrt, direction)))


def _out_shape(then: str | None, late: Mapping[str, Value]) -> tuple[int, ...] | None:
    """The shape that ``then`` wants ``out`` to have, where the values given for it say so."""
    known = known_shapes(late, {})
    if then is None or not known:
        return None
    program = read_program(then, shapes=known, output=LOSSES, scalars=scalars_of(late)).program
    return next((program.numbers(t.shape) for t in program.inputs if t.name == "out"), None)


def resolve_seed(weights: Value | None, downstream: Explanation | None, shape: tuple[int, ...]) -> Seed:
    """v, and where it comes from."""
    if downstream is not None:
        form = slope_form(downstream, "out")
        return Seed(downstream.gradients["out"].value, "downstream", downstream.expression, form)
    if weights is None:
        scalar = int(np.prod(shape, dtype=object)) == 1
        return Seed(np.ones(shape, dtype=np.int64), "scalar" if scalar else "assumed", "1" if scalar else "ones")
    if weights.shape is not None and tuple(weights.shape) != shape:
        raise seed_shape_error(
            shape_text(weights.shape), "out", shape_text(shape), f"a seed of shape {shape}",
            "seed ones for the gradient of the sum", "seed onehot(…) for one row of J",
        )  # fmt: skip
    return Seed(weights.array(shape, "v"), "given", weights.text)


def _explain_loss(
    then: str, program: Program, inputs: Sequence[Given], late: Mapping[str, Value], shapes: Shapes,
    out_shape: tuple[int, ...], check: bool,
) -> Explanation:  # fmt: skip
    """∂L/∂out for a scalar L that is computed from ``out``: an explanation of its own."""
    from_first = build(
        "", program, inputs, Seed(np.ones(out_shape, dtype=np.int64), "assumed", "ones"), (), check=False
    )
    shared = {g.name: g for g in inputs}
    known: dict[str, Sequence[int | str]] = {n: s for n, s in shapes.items() if n not in shared}
    known |= known_shapes(late, {}) | {"out": out_shape} | {n: g.value.shape for n, g in shared.items()}
    names = find_inputs(then)
    if "out" not in names:
        raise InputError(
            "then has to be computed from out", found=(then,), hints=(Setting("then", value="sum((out-y)**2)"),)
        )
    here = {n: s for n, s in known.items() if n in names}
    reading = read_program(then, shapes=here, output=LOSSES, spoken=program.names - {"out"}, scalars=scalars_of(late))
    later = reading.program
    if later.out.shape:
        shape = later.numbers(later.out.shape)
        raise ShapeError("then has to give one number", found=(f"its shape is {shape_text(shape)}",), hints=("sum(…)",))
    shared["out"] = Given("out", from_first.output, True, True)
    made = {**reading.made, **{name: g.value for name, g in shared.items()}}
    given = [shared.get(g.name, g) for g in given_values(later, late, shapes, made)]
    own = [g for g in given if g.name not in shared]
    return build(
        then, later, given, Seed(np.ones((), dtype=np.int64), "scalar", "1"), ("out",), check=check,
        assumptions=[f"for the loss, {', '.join(said)}"] if (said := describe_assumptions(reading, own)) else [],
        hints=[Setting("let", g.name) for g in own if not g.value_given],
        remarks=reading.remarks, writers=write, text=torch_expression(then, reading, late),
    )  # fmt: skip


def _direction(found: Explanation, wrt: str, direction: Any) -> Array:
    """The direction as an array in the shape of ``wrt``."""
    array = arguments.exact_array(direction, "the direction")
    wanted = found.values[wrt].shape
    if array.shape != wanted:
        raise ShapeError(
            f"the direction must have the shape of {wrt}: one number for each of its entries",
            found=(f"direction {array.shape}, {wrt} {wanted}",),
        )
    return where_exact(array)
