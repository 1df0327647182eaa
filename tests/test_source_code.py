"""How a program is written as source: the factors of a product, numbers, and what divides."""

from __future__ import annotations

import pytest

import symgrad
from symgrad.closed_form.number_code import NoForm
from symgrad.closed_form.source_code import SourceWriter, write_real_operand
from symgrad.language.python_text import write_python
from symgrad.program import Constant


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x / y", "-(v * out).sum() / y"),
        ("sqrt(x) / y", "-(v * out).sum() / y"),
        ("x.sum() / y", "-v * out / y"),
        ("x / y / z", "-(v * x).sum() / y ** 2 / z"),
        ("x.sum() / y ** 2", "-2 * v * sum(x) / y ** 3"),
    ],
)
def test_the_output_is_named_where_all_that_it_is_divided_by_stands_below_the_line(text: str, found: str) -> None:
    shapes = {name: (3,) if name == "x" else () for name in "xyz" if name in text}
    assert symgrad.explain(text, shapes=shapes, wrt=["y"], check=False).gradients["y"].closed_form == found


@pytest.mark.parametrize(
    ("shapes", "factors"),
    [({"x": (2, 3), "w": (3, 4)}, ["x", "w"]), ({"x": (2, 3), "w": (3,)}, None), ({"x": (5, 2, 3), "w": (3, 4)}, None)],
)
def test_only_a_product_of_two_matrices_has_two_factors(shapes: dict[str, tuple[int, ...]], factors: object) -> None:
    found = SourceWriter(symgrad.derive("h = x @ w; tanh(h)", shapes=shapes)[0]).factors("h")
    assert (found and [write_python(factor) for factor in found]) == factors


def test_of_numbers_0_alone_is_written_as_a_tensor() -> None:
    program, _ = symgrad.derive("h = x * 2; tanh(h)", shapes={"x": (3,)})
    assert write_python(write_real_operand(SourceWriter(program), program.steps[0], Constant(0))) == "zeros_like(x)"
    with pytest.raises(NoForm):
        write_real_operand(SourceWriter(program), program.steps[0], Constant(2))
