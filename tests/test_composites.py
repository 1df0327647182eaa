"""What is made of simpler operations is what these compute."""

import numpy as np
import pytest
import torch

from symgrad import operations
from symgrad.language import expand_composites, read_program
from symgrad.numeric.arranged import integer_inputs
from tests.compare import assert_same
from tests.torch_programs import function_of

COMPOSITE = [op for op in operations() if op.expands]


@pytest.mark.parametrize("op", COMPOSITE, ids=lambda op: op.name)
def test_a_composite_operation_is_what_its_expansion_computes(op: object) -> None:
    for example in op.examples:  # type: ignore[attr-defined]  # an Op, which fixtures hide
        program = read_program(example.text, shapes=dict(example.shapes)).program
        simple = expand_composites(program)
        generator = np.random.default_rng(0)
        tensors = [torch.tensor(generator.uniform(0.2, 2, program.numbers(t.shape))) for t in program.inputs]
        classes = integer_inputs(program)
        tensors = [t.round() if x.name in classes else t for x, t in zip(program.inputs, tensors, strict=True)]
        assert_same(function_of(program)(*tensors), function_of(simple)(*tensors), seed=0, what=example.text)
        assert simple.out == program.out


def test_expansion_goes_on_until_nothing_composite_is_left() -> None:
    program = expand_composites(read_program("y * silu(x)").program)
    assert [step.op for step in program.steps] == ["neg", "exp", "add", "div", "mul", "mul"]
    assert {step.span for step in program.steps[:-1]} == {(4, 11)}
    simple = read_program("x@a").program
    assert expand_composites(simple) is simple


def test_expansion_needs_no_numbers() -> None:
    program = expand_composites(read_program("log_softmax(x@w, dim=1)", symbolic=True).program)
    assert [step.op for step in program.steps] == ["matmul", "exp", "sum", "log", "expand", "sub"]
    assert {str(s) for t in program.tensors() for size in t.shape for s in size.free_symbols} == {"m", "n", "h"}


def test_an_expansion_that_ignores_an_option_holds_for_its_default_only() -> None:
    names = {step.op for step in expand_composites(read_program("mse_loss(x, y, reduction='sum')").program).steps}
    assert "mean" not in names
