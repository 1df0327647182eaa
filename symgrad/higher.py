"""What else follows from the same equations: the pushforward Ju, the Hessian, and its product with a direction.

Comes in: what `symgrad.explain` takes. Goes out: arrays, or a `Hessian` with formula, closed form and proofs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from symgrad.api import explain_values, seed_of
from symgrad.errors import ShapeError
from symgrad.explanation import Explanation, Hessian, of_one_number
from symgrad.explanation.assemble import along, is_alone, named_by_user, second_of, slope
from symgrad.language import value_from
from symgrad.language.outside import arguments
from symgrad.numeric import Array, forward, numeric_pushforward, plain, where_exact
from symgrad.question import ask, names_wanted, value_of
from symgrad.render import WRITERS

Shapes = Mapping[str, Sequence[int | str]]


def jvp(expression: str, wrt: str, direction: Any, /, *, shapes: Shapes | None = None, **values: Any) -> Array:
    """Ju in the shape of the output: how ``out`` moves when ``wrt`` moves in ``direction`` (forward mode).

    ``direction`` has the shape of ``wrt``. Raises `SymgradError`.

    >>> jvp("x * x", "x", [1, 0, 2], x=[3, 4, 5]).tolist()
    [6, 0, 20]
    """
    wrt = arguments.name_of(wrt, "wrt")
    found = explain_values(expression, values, wrt=[wrt], shapes=shapes, check=False)
    return plain(numeric_pushforward(found.program, found.values, wrt, _direction(found, wrt, direction)))


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
    wrt = arguments.name_of(wrt, "wrt")
    second = wrt if other is None else arguments.name_of(other, "other")
    names = tuple(dict.fromkeys((wrt, second)))
    if not arguments.flag_of(check, "check"):
        question = ask(expression, values, shapes)
        program = question.program
        (first, last) = (names_wanted((name,), program)[0] for name in (wrt, second))
        out_shape = program.numbers(program.out.shape)
        weights = seed_of(None if seed is None else value_of(seed, "the seed"), None, out_shape)
        named_by_user(weights, out_shape)
        return second_of(program, question.values, weights, first, last, WRITERS)
    found = explain_values(expression, values, seed=seed, wrt=names, shapes=shapes, check=check, order=2)
    return found.hessian(wrt, second)


def hvp(
    expression: str, wrt: str, direction: Any, /, *, seed: Any = None, shapes: Shapes | None = None, **values: Any
) -> Array:
    """H·u in the shape of ``wrt``, H never formed: the backward as a program, moved in ``direction`` (any length).

    Raises `SymgradError`, also when the output is no scalar and no seed says how to weigh it.

    >>> hvp("x @ A @ x", "x", [1, 0], x=[1, 2], A=[[1, 2], [3, 4]]).tolist()
    [2, 5]
    """
    wrt = arguments.name_of(wrt, "wrt")
    found = of_one_number(explain_values(expression, values, seed=seed, wrt=[wrt], shapes=shapes, check=False))
    tangent = _direction(found, wrt, direction)
    gradient = slope(found.program, wrt, is_alone(found.program, found.seed_info))
    known = found.values.with_arrays({found.program.seed: where_exact(found.seed)})
    there = forward(gradient, {tensor.name: known[tensor.name] for tensor in gradient.inputs})
    moved = numeric_pushforward(gradient, there, wrt, tangent)
    return plain(along(found, wrt, tangent, moved).reshape(tangent.shape))


def _direction(found: Explanation, wrt: str, direction: Any) -> Array:
    """The direction as an array in the shape of ``wrt``."""
    array = value_from(direction, "the direction")
    wanted = found.values[wrt].shape
    if array.shape != wanted:
        raise ShapeError(
            f"the direction has to have the shape of {wrt}: one number for each of its entries",
            found=(f"direction {array.shape}, {wrt} {wanted}",),
        )
    return where_exact(array)
