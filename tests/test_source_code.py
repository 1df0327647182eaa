"""How a program is written as source: the factors of a product, numbers, and what divides."""

from __future__ import annotations

import pytest
import sympy as sp

import symgrad
from symgrad.closed_form.number_code import NoForm
from symgrad.closed_form.program_facts import is_in_denominator
from symgrad.closed_form.source_code import SourceWriter, write_real_operand
from symgrad.language.python_text import write_python
from symgrad.program import Constant


@pytest.mark.parametrize(("divisor", "below"), [("y", True), ("y**2", False), ("x", False), ("sqrt(y)", True)])
def test_what_stands_below_the_line_divides(divisor: str, below: bool) -> None:
    x, y = sp.symbols("x y", positive=True)
    known = {"x": x, "y": y, "y**2": y**2, "sqrt(y)": sp.sqrt(y)}
    assert is_in_denominator(sp.sqrt(x) / y, known[divisor]) is below


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
