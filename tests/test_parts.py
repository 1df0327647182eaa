"""Parts that decide what is said and that random changes of the source showed nobody to look at."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from symgrad import explain
from symgrad.backward.groups import make_groups
from symgrad.backward.standard_groups import standardise_group
from symgrad.calculus import back
from symgrad.closed_form.number_code import NoForm
from symgrad.closed_form.program_facts import is_in_denominator
from symgrad.closed_form.source_code import SourceWriter, write_real_operand
from symgrad.indexing import Equation, Ravel, access, fresh_axes
from symgrad.language import read_program
from symgrad.language.python_text import write_python
from symgrad.numeric.playing import evaluate
from symgrad.program import Constant, Pullback
from tests.compare import assert_same


def test_a_place_that_names_an_index_twice_lies_on_the_diagonal() -> None:
    (i,) = fresh_axes((sp.Integer(3),))
    x = np.arange(9.0)
    found = evaluate(Equation((i,), access("x", (Ravel(i, i, 3, 3),))), {"x": x}, {})
    assert_same(x.reshape(3, 3).diagonal(), found)


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
    found = SourceWriter(read_program("h = x @ w; tanh(h)", shapes=shapes).program).factors("h")
    assert (found and [write_python(factor) for factor in found]) == factors


def test_of_numbers_0_alone_is_written_as_a_tensor() -> None:
    program = read_program("h = x * 2; tanh(h)", shapes={"x": (3,)}).program
    assert write_python(write_real_operand(SourceWriter(program), program.steps[0], Constant(0))) == "zeros_like(x)"
    with pytest.raises(NoForm):
        write_real_operand(SourceWriter(program), program.steps[0], Constant(2))


@pytest.mark.parametrize("text", ["torch.linalg.inv(x)", "torch.linalg.solve(x, b)", "x * 2"])
def test_a_pullback_takes_what_its_operation_takes_and_what_it_found(text: str) -> None:
    shapes = {"x": (3, 3), **({"b": (3, 2)} if "b" in text else {})}
    program = read_program(text, shapes=shapes).program
    steps = [step for step in back(program, ["x"]).program.steps if isinstance(step.op, Pullback)]
    for step in steps:
        own = next(s for s in program.steps if s.op == step.op.of)
        assert len(step.arguments) == 2 + len(own.beside) + len(own.arguments)
    assert steps


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "shapes"),
    [("F.selu(chunk(y, 2)[1])", {"y": (4, 3)}), ("addmv(diff(y), c, diff(y))", {"y": (4,), "c": (3, 3)})],
)
def test_a_group_without_a_line_falls_apart_whatever_its_steps_are_called(text: str, shapes: dict[str, object]) -> None:
    assert explain(text, shapes=shapes, check=False).backward.lines


def test_what_a_derivation_requires_is_of_the_sizes_it_knows() -> None:
    """Those of its inputs: what another step requires says nothing here, and a number is decided already."""
    program = read_program(
        "h = x[1:3].tanh(); h * y[2:4] * z[:2].exp()", shapes={"x": ("n",), "y": ("m",), "z": ("k",)}
    ).program
    assert len(program.required) > 2
    tensors, kept = {tensor.name: tensor for tensor in program.tensors()}, 0
    for group in make_groups(program, {step.result.name for step in program.steps}):
        found = standardise_group(group, tensors, None, program.required)
        known = {s for own in found.program.inputs for size in own.shape for s in size.free_symbols}
        required = [size for size in found.program.required if not size.free_symbols & set(found.slots.found)]
        assert all(size.free_symbols and size.free_symbols <= known for size in required), required
        kept += len(required)
    assert kept
