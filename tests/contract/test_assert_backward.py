"""The interface of `symgrad.testing`: what may be passed, what is handed back, what is refused."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from symgrad import InputError, ShapeError, UnknownNameError
from symgrad.testing import assert_backward, check_backward
from tests.candidates import draws, function, randn, with_ctx

MATMUL = function(torch.matmul, lambda v, x, a: (v @ a.T, x.T @ v))
WRONG = function(torch.matmul, lambda v, x, a: (v @ a, x.T @ v))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("call", "expression"),
    [(torch.tanh, "tanh(x)"), (lambda x: x.sum(0), "x.sum(0)"), (lambda x: x @ x.T, "x @ x.T")],
)
def test_torchs_own_backwards_pass(call: Any, expression: str, dtype: torch.dtype) -> None:
    report = assert_backward(call, expression, x=randn(3, 4, dtype=dtype))
    assert report.passed
    assert {b.name: b.count for b in report.batteries}["value"] >= 7


def test_the_assertion_is_the_report() -> None:
    """The message is the text, which names the entry, both numbers, the formula and the cause."""
    with pytest.raises(AssertionError) as caught:
        assert_backward(WRONG, "x @ a", x=randn(3, 3), a=randn(3, 3, seed=1))
    message = str(caught.value)
    assert message == check_backward(WRONG, "x @ a", x=randn(3, 3), a=randn(3, 3, seed=1)).to_text()
    for part in ("transposed: x.grad[", "yours", "Σ_j a[2,j]·v[0,j]", "equals v @ a", "torch 2.", "seed 0"):
        assert part in message


def test_a_report_is_data() -> None:
    """Frozen, and as JSON it holds the same."""
    report = check_backward(WRONG, "x @ a", x=randn(3, 3), a=randn(3, 3, seed=1))
    found = json.loads(report.to_json())
    finding = report.findings[0]
    assert found["passed"] is False
    assert found["findings"][0] == {
        "kind": finding.kind, "input": "x", "where": finding.where, "message": finding.message,
        "evidence": dict(finding.evidence),
    }  # fmt: skip
    assert [b["name"] for b in found["batteries"]] == [b.name for b in report.batteries]
    assert finding.evidence["entry"] == [0, 2]
    assert finding.evidence["cause"].startswith("equals v @ a")
    with pytest.raises(AttributeError):
        report.seed = 1  # type: ignore[misc]  # that it is frozen is the point
    assert hash(finding) == hash(report.findings[0])


def test_wrt_says_what_is_differentiated() -> None:
    """The rest are constants: nobody asks for their gradient."""
    half = function(torch.matmul, lambda v, x, a: (v @ a.T, None))
    assert check_backward(half, "x @ a", wrt="x", x=randn(2, 3), a=randn(3, 4, seed=1)).passed
    report = check_backward(half, "x @ a", x=randn(2, 3), a=randn(3, 4, seed=1))
    assert [f.kind for f in report.findings] == ["missing_path"]


def test_batteries_are_chosen() -> None:
    """By name, and a name that there is not is told."""
    inputs = {"x": randn(3, 4)}
    only = check_backward(torch.tanh, "tanh(x)", only=["value", "layout"], **inputs)
    assert [b.name for b in only.batteries] == ["value", "layout"]
    without = check_backward(torch.tanh, "tanh(x)", skip="layout", **inputs)
    assert "layout" not in [b.name for b in without.batteries]
    assert "double_backward" in [b.name for b in check_backward(torch.tanh, "tanh(x)", order=2, **inputs).batteries]
    with pytest.raises(InputError, match="no battery 'layouts'"):
        check_backward(torch.tanh, "tanh(x)", only="layouts", **inputs)


def test_the_tolerance_is_the_callers_own() -> None:
    """Relative to what is added up."""
    near = function(torch.exp, lambda v, x: v * torch.exp(x) * (1 + 1e-5))
    assert not check_backward(near, "exp(x)", x=randn(4)).passed
    assert check_backward(near, "exp(x)", tolerance=1e-4, x=randn(4)).passed


def test_nothing_of_the_callers_is_changed() -> None:
    """Tensors, parameters, their .grad and requires_grad, standard output."""
    layer = torch.nn.Linear(3, 2).double()
    layer.weight.grad = torch.ones_like(layer.weight)
    x = randn(4, 3)
    before = x.clone(), layer.weight.detach().clone()
    own = {name: dict(vars(type(MATMUL.__self__))) for name in ("x",)}  # type: ignore[attr-defined]  # a bound method
    with redirect_stdout(io.StringIO()) as printed:
        check_backward(layer, "linear(x, weight, bias)", x=x)
        check_backward(MATMUL, "x @ a", x=x, a=randn(3, 4, seed=1))
    assert torch.equal(x, before[0])
    assert torch.equal(layer.weight, before[1])
    assert torch.equal(layer.weight.grad, torch.ones_like(layer.weight))
    assert layer.bias.grad is None
    assert layer.weight.requires_grad
    assert x.grad is None
    assert not x.requires_grad
    assert printed.getvalue() == ""
    assert own["x"].keys() == dict(vars(type(MATMUL.__self__))).keys()  # type: ignore[attr-defined]  # a bound method


def test_the_function_itself_comes_back() -> None:
    """Its backward is looked at while it runs, and is the same object after, also after it raised."""

    def raising(ctx: Any, v: Any) -> Any:
        raise KeyError("weight")

    apply = with_ctx(lambda ctx, x: x * 2, raising)
    cls = apply.__self__  # type: ignore[attr-defined]  # a bound method
    before = dict(cls.__dict__)
    assert not check_backward(apply, "2 * x", x=randn(3)).passed
    assert dict(cls.__dict__) == before


def test_an_inherited_backward_stays_inherited() -> None:
    class Base(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, v: Any) -> Any:
            return v * 2

    class Child(Base):
        pass

    assert check_backward(Child.apply, "2 * x", x=randn(3)).passed
    assert "backward" not in Child.__dict__


def test_misuse_is_refused() -> None:
    """What the caller gets wrong is an error of its own."""
    with pytest.raises(ShapeError):
        check_backward(torch.matmul, "x @ a", x=randn(2, 3), a=randn(2, 3))
    with pytest.raises(InputError, match="needs a value for a"):
        check_backward(torch.tanh, "x @ a", x=randn(2, 3))
    with pytest.raises(UnknownNameError, match="no floating-point input 'w'"):
        check_backward(torch.tanh, "tanh(x)", wrt="w", x=randn(3))
    with pytest.raises(InputError, match="no input is floating point"):
        check_backward(torch.tanh, "tanh(x)", x=torch.tensor([1, 2]))
    with pytest.raises(InputError, match="tolerance has to be"):
        check_backward(torch.tanh, "tanh(x)", tolerance=2, x=randn(3))  # type: ignore[arg-type]  # that is the point
    with pytest.raises(InputError, match="has to be a function"):
        check_backward("tanh", "tanh(x)", x=randn(3))


def test_whatever_a_forward_does_is_a_finding() -> None:
    """Raising, leaving by sys.exit, returning no tensor."""

    def leaving(x: Any) -> Any:
        raise SystemExit(3)

    for candidate, said in (
        (lambda x: x.nonsense(), "raises AttributeError"),
        (leaving, "raises SystemExit"),
        (lambda x: "tanh", "returns str"),
        (lambda x: x > 0, "not a tensor of floating-point numbers"),
    ):
        (finding,) = check_backward(candidate, "tanh(x)", x=randn(3)).findings
        assert finding.kind == "raises"
        assert said in finding.message


@pytest.mark.parametrize("expression", ["tanh(x)", "tanh(x.T)"])
def test_a_forward_of_another_shape_is_a_finding_before_any_weights_are_made(expression: str) -> None:
    (finding,) = check_backward(lambda x: torch.tanh(x).sum(), expression, x=randn(3, 2)).findings
    assert finding.kind == "forward"
    assert "gives a single number, and" in finding.message


def test_an_interrupt_is_nobodys_finding() -> None:
    def interrupted(x: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_backward(interrupted, "tanh(x)", x=randn(3))


def test_what_no_mistake_explains_is_not_named() -> None:
    """A mistake has to give what came in every entry and for every seed; that it is not linear in v is seen of any."""
    for kind, backward in (
        ("not_linear", lambda v, x, a: (v @ a.T + torch.eye(3, dtype=x.dtype), x.T @ v)),
        ("value", lambda v, x, a: (v @ a.T * torch.linspace(1, 1.001, 3, dtype=x.dtype), x.T @ v)),
        ("not_linear", lambda v, x, a: (v @ a.T if v.sum() == 1 else -v @ a.T, x.T @ v)),
        ("not_linear", lambda v, x, a: (v @ a if v.sum() == 1 else v @ a.T + 1, x.T @ v)),
    ):
        report = check_backward(
            function(torch.matmul, backward), "x @ a", x=randn(3, 3), a=randn(3, 3, seed=1), only="value"
        )
        assert [f.kind for f in report.findings] == [kind]
        assert report.findings[0].evidence["cause"] == (
            "" if kind == "value" else "vᵀJ is linear in v, whatever the function is"
        )


def test_a_pair_of_numpy_functions_needs_no_graph() -> None:
    """The order of the arguments is that of the inputs; options are passed on."""
    pair = (lambda x, n, a: n * (x @ a), lambda v, x, n, a: (n * v @ a.T, n * x.T @ v))
    assert check_backward(pair, "n * (x @ a)", x=draws(2, 3), n=3, a=draws(3, 4, seed=1)).passed
    wrong = (lambda x, n, a: n * (x @ a), lambda v, x, n, a: (v @ a.T, n * x.T @ v))
    (finding,) = check_backward(wrong, "n * (x @ a)", x=draws(2, 3), n=3, a=draws(3, 4, seed=1)).findings
    assert finding.kind == "scaled"


def test_the_sample_is_the_callers() -> None:
    """Numbers of NumPy are tensors to a torch function."""
    assert check_backward(torch.exp, "exp(x)", x=np.array([0.5, 1.0])).passed


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="no input is floating point"):
        check_backward(torch.exp, "exp(x)", x=np.array([1, 2]))


@pytest.mark.parametrize(
    ("counts", "every"), [*product(["backward", "forward"], [7, 10, 11, 12, 13]), ("backward", 17), ("backward", 29)]
)
def test_what_is_wrong_in_one_call_of_many_is_found(counts: str, every: int) -> None:
    """A buffer that wraps round, or a cache that runs full: the calls that were made ended before it did."""
    made = {"backward": 0, "forward": 0}

    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        made["forward"] += 1
        ctx.save_for_backward(x)
        ctx.wrong = counts == "forward" and made["forward"] % every == 0
        return x**2

    def backward(ctx: Any, v: torch.Tensor) -> torch.Tensor:
        made["backward"] += 1
        wrong = ctx.wrong or (counts == "backward" and made["backward"] % every == 0)
        return 2 * ctx.saved_tensors[0] * v * (2 if wrong else 1)

    report = check_backward(with_ctx(forward, backward), "x ** 2", x=torch.tensor(3.0).double())
    assert "nondeterministic" in {finding.kind for finding in report.findings}, report


def test_how_many_calls_were_made_is_told() -> None:
    for size, calls in ((3, 27), (1 << 16, 11)):
        report = check_backward(lambda x: x * 2, "x * 2", x=torch.ones(size), only="determinism")
        (battery,) = report.batteries
        assert (battery.count, report.passed) == (calls, True)
        assert battery.note == f"an error that occurs less often than once in {calls} calls may be missed"
