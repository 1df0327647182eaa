"""Forward mode as a program: its numbers are torch's jvp, it is differentiated like any other, and its lines are read."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import symgrad
from symgrad.calculus import back, push
from symgrad.language import read_program
from symgrad.numeric import forward
from tests import torch_programs, torch_side
from tests.cases import Case, first_by_default
from tests.compare import assert_same
from tests.test_back import NOT_IN_TORCH


@pytest.mark.one_in(12)
@pytest.mark.parametrize("case", first_by_default(every=24))
def test_forward_mode_is_torchs(case: Case) -> None:
    """All inputs moved at once, against two backwards of torch's: ∂/∂w of w·J is Ju."""
    moving = [name for name in case.names if name not in case.fixed]
    found, draw = push(case.program, moving), np.random.default_rng(case.seed)
    along = {name: draw.normal(size=np.shape(case.inputs[name])) for name in moving}
    given = {own: along[name] for name, own in found.directions.items()}
    moved = forward(found.program, {**case.inputs, **given})
    end = found.tangents.get(case.program.output)
    leaves = torch_side.leaves(case.inputs, case.fixed)
    out = torch_programs.function_of(case.program)(*(leaves[t.name] for t in case.program.inputs))
    if not out.requires_grad or case.op.name in NOT_IN_TORCH:
        assert out.requires_grad or end is None
        return
    weights = torch.from_numpy(draw.normal(size=tuple(out.shape))).requires_grad_()
    asked = [leaves[name] for name in moving]
    rows = torch.autograd.grad(out, asked, weights, create_graph=True, materialize_grads=True)
    total = sum((row * torch.tensor(along[name])).sum() for row, name in zip(rows, moving, strict=True))
    assert isinstance(total, torch.Tensor)
    expected = np.zeros(tuple(out.shape))
    if total.requires_grad:
        expected = torch.autograd.grad(total, [weights], materialize_grads=True)[0].numpy(force=True)
    got = np.zeros(tuple(out.shape)) if end is None else moved[end]
    assert_same(expected, np.reshape(got, expected.shape), tolerance=1e-7)


LINES = {
    "sin(x)": ["out = sin(x)", "Ju = u * x.cos()"],
    "x @ a": ["out = x @ a", "Ju = u_x @ a + x @ u_a"],
    "h = tanh(x @ a); h * h": [
        "h = tanh(x @ a)", "out = h * h", "u_h = (u_x @ a + x @ u_a) * (1 - h ** 2)", "Ju = 2 * u_h * h",
    ],
    "softmax(x, -1)": ["out = softmax(x, dim=1)", "Ju = out * (u - (u * out).sum(-1, keepdim=True))"],
    "x.T[0].sum()": ["out = x.T[0].sum()", "Ju = u.T[0].sum()"],
    "torch.linalg.inv(x)": ["out = inverse(x)", "Ju = -out @ (u @ out)"],
    "relu(x @ a + b)": ["t3 = x @ a + b", "out = relu(t3)", "Ju = (u_x @ a + x @ u_a + u_b) * (t3 > 0)"],
    "addcmul(b, x, a)": ["out = addcmul(b, x, a)", "Ju = u_b.expand(x.shape) + u_x * a + u_a * x"],
    "maximum(x, a)": ["out = maximum(x, a)", "Ju = u_x * ((x == a) / 2 + (x > a)) + u_a * ((x == a) / 2 + (a > x))"],
    "sort(x[0]).values": ["t1 = x[0]", "out = sort(t1).values", "at_out = sort(t1).indices", "Ju = u[0][at_out]"],
}  # fmt: skip
SHAPES = {"x": (2, 2), "a": (2, 2), "b": (2,)}


@pytest.mark.parametrize("text", LINES)
def test_the_lines_are_the_chain_rule_forwards(text: str) -> None:
    shapes = {name: shape for name, shape in SHAPES.items() if name in read_program(text).program.by_name}
    found = symgrad.explain(text, shapes=shapes, check=False, forward=True)
    assert [str(line) for line in found.pushforward.lines] == LINES[text]
    assert all(line in found.to_text(brief=True, width=200) for line in LINES[text])
    known = {given.name for given in found.inputs} | {*found.pushforward.push.directions.values()}
    for line in found.pushforward.lines:
        assert line.names <= known, "code reads what stands before it"
        known.add(line.target)


def test_a_change_without_a_line_of_code_says_so() -> None:
    found = symgrad.explain("torch.special.i1(x)", x=[1.5, 2.5], check=False, forward=True)
    assert "Ju = …  # no line of code was found and proven for it" in found.to_text(brief=True)


def test_what_is_linear_is_applied_to_the_change() -> None:
    program = read_program("F.conv1d(x, w)", shapes={"x": (1, 1, 5), "w": (1, 1, 2)}).program
    assert [step.called for step in push(program, ["x"]).steps] == ["conv1d"]
    assert [step.called for step in push(program, ["x", "w"]).steps] == ["conv1d", "conv1d", "add"]


def test_names_are_free_and_of_nothing_nothing_comes() -> None:
    found = push(read_program("u * Ju", shapes={"u": (2,), "Ju": (2,)}).program, ["u"])
    assert found.directions == {"u": "d"}
    assert len({t.name for t in found.program.tensors()}) == len(list(found.program.tensors()))
    assert push(read_program("x.detach() * y", shapes={"x": (2,), "y": (2,)}).program, ["x"]).steps == ()
    for text in ("x.detach()", "floor(x)"):
        assert "Ju is 0 for every u" in symgrad.explain(text, x=[1.5, 2.5], check=False, forward=True).to_text()
    found = symgrad.explain("x", x=[1.5, 2.5], check=False, forward=True)
    assert found.pushforward.texts == ["out = x", "Ju = u"]
    assert json.loads(found.to_json())["pushforward"] == ["out = x", "Ju = u"]


@pytest.mark.parametrize("text", ["sum(tanh(x) * x)", "sum(exp(x) / (1 + x * x))", "x @ A @ x"])
def test_forward_over_reverse_and_reverse_over_forward_are_the_hessian(text: str) -> None:
    values = {"x": np.array([0.3, -0.7]), **({"A": np.array([[1.0, 2.0], [3.0, 5.0]])} if "A" in text else {})}
    program = read_program(text, shapes={name: array.shape for name, array in values.items()}).program
    u = np.array([1.5, -2.0])
    expected = symgrad.hvp(text, "x", u.tolist(), **{name: array.tolist() for name, array in values.items()})
    once = back(program, ["x"], ones=True)
    over = push(once.program, ["x"], ends=[str(once.cotangents["x"])])
    (own,) = over.directions.values()
    assert_same(expected, forward(over.program, {**values, own: u})[over.tangents[str(once.cotangents["x"])]])
    first = push(program, ["x"])
    (own,) = first.directions.values()
    under = back(first.program, ["x"], ends=[first.tangents[program.output]], ones=True)
    assert_same(expected, forward(under.program, {**values, own: u})[str(under.cotangents["x"])])


def test_the_command_and_the_data_have_the_lines() -> None:
    found = symgrad.explain("sin(x)", check=False)
    assert "Ju" not in found.to_text()
    assert "pushforward" not in found.to_json()
    assert symgrad.explain(torch.sin, torch.tensor([1.0, 2.0]), check=False, forward=True).pushforward is not None
