"""The backward as a program: its numbers are those of the sweep, and its own backward is torch's double backward."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch

import symgrad
from symgrad.calculus import Back, back
from symgrad.errors import InputError, UnsupportedError
from symgrad.language import read_program
from symgrad.numeric import forward, numeric_pullback
from symgrad.program import BLACK_BOX, Apply, Program, Pullback, Tensor
from tests import torch_programs, torch_side
from tests.cases import Case, first_by_default
from tests.compare import assert_same


def numbers(found: Back, inputs: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What reaches each tensor, by the steps of the program alone; ``weights`` by output."""
    values = forward(found.program, {**inputs, **{str(found.weights[end]): w for end, w in weights.items()}})
    return {name: values[end] for name, end in found.cotangents.items() if isinstance(end, str)}


NOT_IN_TORCH = ("cdist", "pdist", "multi_margin_loss")
"""Operations whose backward torch cannot differentiate."""


@pytest.mark.one_in(12)
@pytest.mark.parametrize("case", first_by_default(every=24))
def test_the_backward_of_the_backward_is_torchs(case: Case) -> None:
    """First order against the sweep in numbers, second order of Σ u·gradient against torch's create_graph."""
    (seed,), moving = case.weights(1), [name for name in case.names if name not in case.fixed]
    first = back(case.program, moving)
    found = numbers(first, case.inputs, {case.program.output: seed})
    expected = numeric_pullback(case.program, case.values, seed, moving)
    for name in moving:
        assert_same(expected[name], found.get(name, np.zeros(np.shape(case.inputs[name]))), what=f"{name}, first order")
    ends = {name: str(first.cotangents[name]) for name in moving if name in first.cotangents}
    if not ends or case.op.name in NOT_IN_TORCH:
        return
    generator, weight = np.random.default_rng(case.seed), str(first.weights[case.program.output])
    along = {end: generator.normal(size=np.shape(found[name])) for name, end in ends.items()}
    second = numbers(
        back(first.program, [*moving, weight], ends=tuple(along), prefix="w"), {**case.inputs, weight: seed}, along
    )
    leaves = torch_side.leaves(case.inputs, case.fixed)
    v = torch_side.tensor(seed).to(torch.float64).requires_grad_()
    out = torch_programs.function_of(case.program)(*(leaves[t.name] for t in case.program.inputs))
    asked = [leaves[name] for name in ends]
    gradients = torch.autograd.grad(out, asked, v.reshape(out.shape), create_graph=True, materialize_grads=True)
    total = sum((g * torch.tensor(along[end])).sum() for g, end in zip(gradients, ends.values(), strict=True))
    assert isinstance(total, torch.Tensor)
    wrt = {**{name: leaves[name] for name in moving}, weight: v}
    twice = torch.autograd.grad(total, tuple(wrt.values()), materialize_grads=True)
    for (name, leaf), true in zip(wrt.items(), twice, strict=True):
        got = second.get(name, np.zeros(tuple(leaf.shape)))
        assert_same(true.numpy(force=True), got, tolerance=1e-7, what=f"{name}, second order")


def test_a_backward_is_a_program_like_any_other() -> None:
    """Third order of x³ is 6, and each order is made by the same call."""
    program = read_program("sum(x ** 3)", shapes={"x": (2,)}).program
    for prefix, expected in (("v", [12.0, 27.0]), ("w", [12.0, 18.0]), ("u", [6.0, 6.0])):
        found = back(program, ["x"], ones=prefix == "v", prefix=prefix)
        program, end = found.program, str(found.cotangents["x"])
        weights = {str(w): np.ones(2) for w in found.weights.values() if isinstance(w, str)}
        given = {t.name: weights.get(t.name, np.ones(2)) for t in program.inputs} | {"x": np.array([2.0, 3.0])}
        assert_same(expected, forward(program, given)[end], what=f"order {prefix}")


def test_a_tensor_that_is_read_twice_has_a_sum_and_one_that_is_not_reached_none() -> None:
    found = back(read_program("h = tanh(x); h * h + y", shapes={"x": (2,), "y": (2,)}).program, ["x"])
    steps = {step.result.name: step for step in found.program.steps}
    assert steps[str(found.cotangents["h"])].op == "add"
    assert "y" not in found.cotangents
    assert str(found.cotangents["x"]) == "v_x"
    assert steps["v_x"].op == Pullback("tanh", 0, (0, 1)), "tanh's slope is written through its output, x is not read"
    assert steps["v_x"].tensors == ("v_h", "h", "x")


def test_names_of_the_way_back_are_free() -> None:
    found = back(read_program("v_x * x", shapes={"x": (2,), "v_x": (2,)}).program, ["x", "v_x"])
    assert len({t.name for t in found.program.tensors()}) == len(list(found.program.tensors()))


def test_a_cotangent_of_a_residual_sum_is_the_weight_itself() -> None:
    found = back(read_program("x + y", shapes={"x": (2,), "y": (2,)}).program, ["x", "y"])
    assert_same([3.0, 4.0], numbers(found, {"x": np.ones(2), "y": np.ones(2)}, {"out": np.array([3.0, 4.0])})["x"])


def test_a_black_box_on_the_way_is_refused() -> None:
    x, y = Tensor("x", ()), Tensor("y", ())
    with pytest.raises(
        UnsupportedError, match=r"my_function cannot be differentiated again: that operation is not derived"
    ):
        back(Program((x,), (Apply(f"{BLACK_BOX}my_function", ("x",), (), y),), "y"), ["x"])


def test_the_lines_know_the_program_that_they_are() -> None:
    found = symgrad.explain("sum(tanh(x @ a))", check=False, x=[[1.0, 2.0]], a=[[1.0], [2.0]])
    assert [step.called for step in found.backward.program.steps[3:]] == [
        "the pullback of sum", "the pullback of tanh", "the pullback of matmul", "the pullback of matmul",
    ]  # fmt: skip
    got = numbers(found.backward.back, {given.name: given.value for given in found.inputs}, {})
    for name, gradient in found.gradients.items():
        assert_same(gradient.value, got[name], what=name)


@pytest.mark.parametrize("name", ["a b", "def", "3", "", "x(): pass\nimport os\ndef y", "torch", "math", 3, None])
def test_code_is_called_by_a_name_of_python(name: object) -> None:
    with pytest.raises(InputError, match="function"):
        symgrad.explain("x @ a", check=False).backward.code(name)  # type: ignore[arg-type]  # that is what is tried


@pytest.mark.parametrize("text", ["torch.linalg.inv(x)", "torch.linalg.solve(x, b)", "x * 2"])
def test_a_pullback_takes_what_its_operation_takes_and_what_it_found(text: str) -> None:
    shapes = {"x": (3, 3), **({"b": (3, 2)} if "b" in text else {})}
    program = read_program(text, shapes=shapes).program
    steps = [step for step in back(program, ["x"]).program.steps if isinstance(step.op, Pullback)]
    for step in steps:
        own = next(s for s in program.steps if s.op == step.op.of)
        assert len(step.arguments) == 2 + len(own.beside) + len(own.arguments)
    assert steps
