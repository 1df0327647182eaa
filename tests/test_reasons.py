"""Why a gradient is 0 or None: each reason was tested before it is said, on the numbers or on what was seen."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import symgrad
from symgrad import explain
from symgrad.explanation.reasons import Vanishing, passages, way
from symgrad.language.inference import read_program
from symgrad.numeric import forward
from symgrad_cli.main import main


def reason(text: str, name: str = "x", seed: object = None, **inputs: object) -> str:
    """Why vᵀJ by an input is 0, in a clause; empty where nothing is found."""
    arrays = {key: np.asarray(value) for key, value in inputs.items()}
    program = read_program(text, shapes={key: array.shape for key, array in arrays.items()}).program
    values = forward(program, arrays)
    weights = np.ones(program.numbers(program.out.shape)) if seed is None else np.asarray(seed)
    found = Vanishing(program, values, weights, (name,)).reason(name)
    return "" if found is None else found.says(name, found.step.op)


ONES = "so equal weights (ones, .sum()) give 0"


@pytest.mark.parametrize(
    ("text", "x", "said"),
    [
        ("sum(round(x))", [1.2, 2.7], "round passes no gradient back: its slope is 0 wherever it has one"),
        ("sum(sign(x)) * 3", [1, -2], "sign passes no gradient back: its slope is 0 wherever it has one"),
        ("sum(relu(x) * 2)", [-1, -2], "relu passes no gradient back: its slope with respect to x is 0 here"),
        ("relu(x - 5)", [1, 2], "relu passes no gradient back: its slope with respect to x is 0 here"),
        ("sum(clamp(x, 5, 6))", [1, 2], "clamp passes no gradient back: its slope with respect to x is 0 here"),
        ("sum(x ** 2)", [0, 0], "pow passes no gradient back: its slope with respect to x is 0 here"),
        ("softmax(x)", [1, 2, 3], f"the entries of softmax add up to 1 whatever x is, {ONES}"),
        ("sum(softmax(x)) * 5", [1, 2, 3], f"the entries of softmax add up to 1 whatever x is, {ONES}"),
        ("mean(softmax(x, dim=1))", [[1, 2], [0, 3]], "the entries of softmax add up to 1 along axis 1 whatever x is"),
        ("sum(layer_norm(x))", [1, 2, 4], "the entries of layer_norm add up to 0 whatever x is"),
        ("sum(batch_norm(x, None, None, training=True))", [[1, 2], [0, 1], [4, 5.0]], "add up to 0 along axis 0"),
        ("sum(x - mean(x))", [1, 2, 4], "the entries of sub add up to 0 whatever x is"),
        ("e = exp(x); e / e", [1, 2, 4], "stays the same whatever x is"),
        ("sum(x)", [1, 2], ""),
        ("softmax(x)[0]", [1, 2], ""),
    ],
)
def test_the_reason_for_a_zero(text: str, x: object, said: str) -> None:
    found = reason(text, x=x)
    assert said in found
    assert bool(said) == bool(found)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("p[i] = exp(-b*E[i])/sum_j exp(-b*E[j])", "b"),
        ("exp(b * E) / exp(b * E).sum()", "b"),
        ("stack([sigmoid(b * E[2]), sigmoid(-b * E[2])])", "b"),
        ("stack([tanh(b), -tanh(b)])", "b"),
        ("h = exp(-E); h / h.sum()", "E"),
    ],
)
def test_what_cancels_at_every_point_is_not_said_to_do_so_here_alone(text: str, name: str) -> None:
    """Far away one of the entries is all there is, and what its slope loses to rounding is not a gradient."""
    inputs = {key: value for key, value in {"E": [1, 2, 3], "b": 2}.items() if key in text}
    page = explain(text, wrt=[name], **inputs).to_text()
    assert "other entries they do not" not in page
    assert "other weights show more" in page


def test_weights_that_happen_to_cancel_are_no_reason() -> None:
    assert reason("x * x", x=[1.0, 1.0], seed=[0, 0]) == ""
    assert reason("x[0] * x[1] - x[0]", x=[1.0, 1.0]) == ""


def test_everything_passes_through_a_bottleneck() -> None:
    program = read_program("h = relu(x); a = tanh(h); b = exp(h); z = a * b; sum(z)", shapes={"x": (2,)}).program
    assert [step.op for step in way(passages(program), "x")] == ["relu", "mul", "sum"]


def told(tmp_path: Path, body: str) -> str:
    """What is said of a script, on one line."""
    path = tmp_path / "script.py"
    path.write_text("import torch\nw = torch.tensor([1.2, 2.7], requires_grad=True)\n" + body, encoding="utf-8")
    found = CliRunner().invoke(main, ["run", str(path)], catch_exceptions=False)
    assert found.exit_code == 0
    return re.sub(r"\s+", " ", found.stdout)


@pytest.mark.one_in(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "h = (w * 3).detach()\nloss = h.sum()\nloss.requires_grad = True\nloss.backward()\nw.grad\n",
            (
                "w.grad is None: the path was cut in line 3 by .detach(); line 5 made loss a new leaf, so the "
                "backward in line 6 stops there"
            ),
        ),
        (
            "with torch.no_grad():\n    h = w * 3\nh.requires_grad_()\nh.sum().backward()\nw.grad\n",
            "w.grad is None: the path was cut in line 4 by torch.no_grad(); line 5 made h a new leaf",
        ),
        (
            "h = torch.tensor(w, requires_grad=True)\nh.sum().backward()\nw.grad\n",
            (
                "w.grad is None: the path was cut in line 3 by torch.tensor(…), which copies numbers without their "
                "history; line 3 made h a new leaf"
            ),
        ),
        (
            "h = w.data\nh.requires_grad = True\nh.sum().backward()\nw.grad\n",
            "w.grad is None: the path was cut in line 3 by .data; line 4 made h a new leaf",
        ),
        (
            "h = torch.from_numpy(w.detach().numpy()).requires_grad_()\nh.sum().backward()\nw.grad\n",
            "w.grad is None: the last backward (line 4) had no path to w",
        ),
        ("n = torch.tensor([1, 2])\n(w * n).sum().backward()\nn.grad\n", "n.grad is None: requires_grad=False (int64"),
        ("(w * 2).sum().backward()\nw.grad = None\nw.grad\n", "w.grad is None: line 4 (w.grad = None) set it to None"),
        (
            "h = w * 2\nh.sum().backward()\nh.grad\n",
            (
                "h is not a leaf (it was computed in line 3); its gradient, [1 1], was not kept: only leaves keep theirs. "
                "h.retain_grad() before backward keeps it, torch.autograd.grad(h.sum(), h) gives it"
            ),
        ),
        ("(torch.round(w) * 2).sum().backward()\n", "round(w) (line 3) passes no gradient back: its slope is 0"),
        (
            "h = torch.relu(-w)\nh.sum().backward()\n",
            "vᵀJ with respect to w is 0: h (line 3) passes no gradient back: its slope",
        ),
        (
            "torch.softmax(w, 0).sum().backward()\n",
            f"the entries of softmax(w, dim=0) (line 3) add up to 1 whatever w is, {ONES}",
        ),
    ],
)
def test_the_reason_in_a_run(tmp_path: Path, body: str, said: str) -> None:
    assert said in told(tmp_path, body)


@pytest.mark.parametrize(
    "body",
    [
        "lp = (w[None] * torch.ones(3, 1)).log_softmax(1)\n((lp.detach().exp() * (lp.detach() - lp)).sum(1) / 3).sum().backward()",
        "h = w.tanh()\n((h - h.detach()) ** 2).sum().backward()",
    ],
)  # fmt: skip
def test_a_detached_value_that_moves_along_is_no_reason(tmp_path: Path, body: str) -> None:
    """lp.detach() − lp is 0 whatever w is, but its slope is not: of the policy's own divergence that was said."""
    page = told(tmp_path, body)
    assert "vᵀJ with respect to w is 0" in page
    assert "add up to" not in page.replace("they add up to vᵀJ", "")
    assert "stays the same" not in page


def test_a_leaf_that_was_reached_is_given_no_reason(tmp_path: Path) -> None:
    assert "None:" not in told(tmp_path, "h = w.detach()\nh.requires_grad = True\n(w * h).sum().backward()\nw.grad\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("softmax(x @ w, 1)", {"x": (2, 3), "w": (3, 4)}),
        ("var(x @ w, 1)", {"x": (2, 3), "w": (3, 4)}),
        ("layer_norm(x @ w, (4,))", {"x": (2, 3), "w": (3, 4)}),
        ("F.normalize(x * w, dim=0) - F.normalize(w * x, dim=0)", {"x": (3,), "w": (3,)}),
        ("x @ w - w[0] * x.sum()", {"x": (3,), "w": (3,)}),
    ],
)
def test_whatever_x_is_holds_of_the_formula_or_names_the_numbers(text: str, sizes: dict[str, tuple[int, ...]]) -> None:
    """With ones for w all columns are equal, and softmax gives a quarter whatever x is: with another w it does not."""
    ones = {name: np.ones(size) for name, size in sizes.items()}
    page = " ".join(symgrad.explain(text, **ones).to_text().split())
    drawn = np.random.default_rng(1)
    other = {name: drawn.uniform(0.5, 1.5, size) for name, size in sizes.items()}
    moves = (
        np.abs(np.asarray(symgrad.explain(text, wrt=["x"], **other).gradients["x"].jacobian.dense(), float)).max()
        > 1e-9
    )
    said = [part for part in page.split(". ") if "stays the same whatever x is" in part]
    for sentence in said:
        assert ("whatever x is while w has the given entries, which are all equal" in sentence) == moves
    assert said
