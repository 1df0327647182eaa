"""Second derivatives where there are none, or where a program goes by a chosen slope; torch is asked for the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch

import symgrad
from tests.compare import assert_same

NOWHERE: list[tuple[str, Mapping[str, object]]] = [
    ("torch.logit(x)", {"x": 3.0}),
    ("torch.logit(x)", {"x": -0.5}),
    ("log(x)", {"x": 0.0}),
    ("F.hardsigmoid(x)", {"x": 3.0}),
    ("F.hardsigmoid(x)", {"x": -3.0}),
    ("F.selu(x)", {"x": 0.0}),
    ("F.elu(x)", {"x": 0.0}),
    ("F.celu(x, 2.0)", {"x": 0.0}),
    ("F.softplus(x, 2, 1)", {"x": 0.5}),
    ("F.huber_loss(x, y)", {"x": 1.0, "y": 0.0}),
    ("F.smooth_l1_loss(x, y)", {"x": 0.0, "y": 1.0}),
    ("relu(x) ** 2", {"x": 0.0}),
    ("x.clamp(0, 1) ** 2", {"x": 1.0}),
    ("F.hardswish(x)", {"x": -3.0}),
    ("torch.where(x > 0, x * x, x)", {"x": 0.0}),
    ("F.softshrink(x) ** 2", {"x": 0.5}),
    ("torch.maximum(x, y) ** 2", {"x": 1.0, "y": 1.0}),
]
CHOSEN = [
    ("exp(-norm(p - q) ** 2)", {"p": [1.0, 2.0], "q": [1.0, 2.0]}, ("p", "q"), 2.0),
    ("torch.linalg.norm(x) ** 2", {"x": [0.0, 0.0]}, ("x", "x"), 2.0),
    ("x.abs() ** 2", {"x": 0.0}, ("x", "x"), 2.0),
    ("torch.cdist(x, y).sum() ** 2", {"x": [[1.0, 2.0]], "y": [[1.0, 2.0]]}, ("x", "x"), 2.0),
    ("torch.sinc(x)", {"x": 0.0}, ("x", "x"), -(np.pi**2) / 3),
    ("(x.norm() * x.norm()).exp()", {"x": [0.0, 0.0, 0.0]}, ("x", "x"), 2.0),
]
NONE_IN_TORCH: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "F.hardsigmoid(x)": torch.nn.functional.hardsigmoid,
    "x // 1 * x": lambda x: x // 1 * x,
}


@pytest.mark.one_in(2, alone=2)
@pytest.mark.parametrize(("text", "at"), NOWHERE)
def test_where_there_is_no_second_derivative_it_is_said_so(text: str, at: Mapping[str, object]) -> None:
    """ "The oracles disagree", or agree, were both said of some."""
    found = symgrad.explain(text, order=2, **at)
    checks = found.hessian("x").checks
    assert not any(check.verdict.name == "DIFFERS" for check in checks)
    made = [check.verdict.name for check in checks[:2] if check.verdict.name != "NOT_MADE"]
    assert made
    assert set(made) == {"UNDEFINED"}


@pytest.mark.one_in(2, alone=3)
@pytest.mark.parametrize(("text", "at", "pair", "slope"), CHOSEN)
def test_a_chosen_slope_on_the_way_is_noticed_in_the_second_order(
    text: str, at: Mapping[str, object], pair: tuple[str, str], slope: float
) -> None:
    """The gradient has a slope, and the program, as torch's, gives another: it goes by a subgradient."""
    found = symgrad.explain(text, order=2, **at)
    made = [check for check in found.hessian(*pair).checks[:2] if check.verdict.name != "NOT_MADE"]
    assert made
    for check in made:
        assert check.verdict.name == "UNDEFINED"
        assert_same(slope, float(check.note.split("gradient is ")[1].split(" ")[0]), tolerance=1e-4)
    assert "has no slope of its own" in " ".join(found.to_text().split())


@pytest.mark.parametrize("text", NONE_IN_TORCH)
def test_what_torch_cannot_differentiate_twice_does_not_agree(text: str) -> None:
    """Its steps can, and that is no double backward of torch's."""
    first, *_ = symgrad.explain(text, order=2, x=1.5).hessian("x").checks
    leaf = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    out = NONE_IN_TORCH[text](leaf)

    def twice() -> None:
        (slope,) = torch.autograd.grad(out, leaf, create_graph=True)
        torch.autograd.grad(slope, leaf)

    with pytest.raises(RuntimeError, match="not implemented"):
        twice()
    assert first.verdict.name == "NOT_MADE"
    assert first.note.startswith("torch refuses: ")


def test_a_wrong_equation_does_not_agree_with_itself() -> None:
    """Torch is asked for the call as it was typed: steps that are read otherwise are seen in the second order, too."""
    at = {"a": [[0.8], [0.1], [0.5]], "x": [[0.1, 0.9, 0.2]]}
    found = symgrad.explain("F.multilabel_soft_margin_loss(a, x)", order=2, **at)
    x, a = (torch.tensor(at[name], dtype=torch.float64) for name in "xa")
    loss = torch.nn.functional.multilabel_soft_margin_loss
    hessian = torch.autograd.functional.hessian(lambda moved: loss(moved, x), a)
    assert_same(hessian, found.hessian("a").value)
    assert found.hessian("a").checks[0].verdict.name == "AGREES"
