"""What is called equal to torch is the text that the user typed: equal, refused by torch, not derived by it, or as read.

Each of the four is told apart on every page, in the data, in ``passed`` and in the exit status; and a text that is read
differently from Python is refused, with both numbers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import symgrad
from symgrad import Explanation, SymgradError, UnsupportedError, api, question
from symgrad.language import read_program as language_read
from symgrad.oracles.comparisons import TextOutcome
from symgrad.question import read_once
from symgrad.testing import check_backward, references
from symgrad_cli.main import main
from tests.compare import assert_same

X = [[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]]
VERSION = torch.__version__.partition("+")[0]
OUTCOMES: dict[str, tuple[TextOutcome, bool, str]] = {
    "x@a": (TextOutcome.EQUAL, True, f"Equal to torch {VERSION} in every entry."),
    "F.softmax(x, dim=-1)": (TextOutcome.EQUAL, True, f"Equal to torch {VERSION} in every entry"),
    "y = x.exp(); y.mul_(2); y": (TextOutcome.REFUSED, False, "PyTorch rejects this code: one of the variables needed for gradient"),
    "softmax(x)": (TextOutcome.REFUSED, True, "PyTorch rejects this code: softmax() missing 1 required positional arguments: \"dim\""),
    "layer_norm(x)": (TextOutcome.REFUSED, True, "PyTorch rejects this code: layer_norm() missing 1 required positional argument"),
    "x // a": (TextOutcome.UNDERIVED, True, "Torch has no derivative of this: derivative for aten::floor_divide is not implemented."),
    "F.nll_loss(x, y, weight=w)": (TextOutcome.EQUAL, True, f"Equal to torch {VERSION} in every entry, but for w: torch has no derivative with respect to that."),
    "out[i] = Σ_j x[i,j]*a[j]": (TextOutcome.AS_READ, True, f"Equal to torch {VERSION} in every entry, as symgrad reads it: out[i] = Σ_j x[i,j]*a[j]."),
    "ij,jk->ik": (TextOutcome.AS_READ, True, f"Equal to torch {VERSION} in every entry, as symgrad reads it: "),
    "np.dot(x, a)": (TextOutcome.AS_READ, True, f"Equal to torch {VERSION} in every entry, as symgrad reads it: out = np.dot(x, a)."),
    "x.half() * a": (TextOutcome.AS_READ, True, f"Equal to torch {VERSION} in every entry, as symgrad reads it: half() keeps all digits."),
}  # fmt: skip


def words(text: str) -> str:
    return " ".join(text.replace("`", "").replace("\\_", "_").split())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", OUTCOMES)
def test_each_outcome_is_told_on_every_page_and_in_the_data(text: str) -> None:
    outcome, passed, told = OUTCOMES[text]
    found = symgrad.explain(text)
    assert (found.outcome, found.passed) == (outcome, passed)
    for page in (found.to_text(), found.to_text(brief=True), found.to_markdown()):
        assert told in words(page)
        assert ("Equal to torch" in words(page)) == told.startswith("Equal")
    data = json.loads(found.to_json())
    assert data["agreement"]["outcome"] == outcome
    assert data["passed"] is passed
    assert ("words" in data["agreement"]) == (outcome in (TextOutcome.REFUSED, TextOutcome.UNDERIVED))
    for page in (found.to_latex(), found.to_html()):
        assert ("Equal to torch" in page) == told.startswith("Equal")
        assert ("PyTorch rejects this code" in page) == (outcome is TextOutcome.REFUSED)
    done = CliRunner().invoke(main, ["explain", text])
    assert done.exit_code == (0 if passed else 1)
    assert told in words(done.output)


WRONG: dict[str, str] = {
    "x, y = y, x; x - 2*y": "y = y; x - 2*y",
    "y = x * 2; z = y; z.mul_(5); y + 0": "y = x * 2; y + 0",
    "from torch import sin as cos; cos(x)": "cos(x)",
    "(torch.tensor([200, 1, 2], dtype=torch.uint8) + torch.tensor([100, 1, 2], dtype=torch.uint8)) * x": "torch.tensor([300, 2, 4]) * x",
    "torch.tensor([.1, .2, .3], dtype=torch.float16) * x": "torch.tensor([.1, .2, .3]) * x",
    "with torch.no_grad():\n    y = x * 2\ny * x": "y = x * 2; y * x",
    "y = x.detach() * x; y": "y = x * x; y",
    "x.sum(0)": "x.sum(1)", "x.reshape(3, 2)": "x.T", "x / 2": "x / 2.0000001", "x.std(0)": "x.std(0, unbiased=False)",
    "np.linalg.norm(x)": "torch.sum(x * x)",
}  # fmt: skip


def misread(typed: str, as_read: str, **values: Any) -> Explanation:
    """The explanation of ``typed`` where its reading would be that of another text."""
    with pytest.MonkeyPatch.context() as patch:
        real: Callable[..., Any] = language_read
        patch.setattr(question, "_READINGS", OrderedDict())  # what was read before is kept by its text
        patch.setattr(question, "read_program", lambda text, **given: real(as_read, **given))
        patch.setattr(api, "find_inputs", lambda text, given=(): frozenset(values))
        return symgrad.explain(typed, **values)


@pytest.mark.parametrize("typed", WRONG)
def test_a_text_that_is_read_otherwise_is_refused_with_both_numbers(typed: str) -> None:
    """Its value, or where that is the same its gradient: nothing of what was read is shown."""
    values = {"x": X, **({"y": [[2.0, 1.0, 0.0], [1.0, 1.0, 4.0]]} if "x, y" in typed else {})}
    with pytest.raises(UnsupportedError, match="differently from Python") as caught:
        misread(typed, WRONG[typed], **values)
    assert "in Python, " in caught.value.found[0]
    assert "as symgrad reads it" in caught.value.found[0]
    assert "run SCRIPT" in str(caught.value.hints[0])
    assert not isinstance(misread(WRONG[typed], WRONG[typed], **values), str)


def test_the_seed_that_the_text_gives_is_the_texts_own() -> None:
    with pytest.raises(UnsupportedError, match="differently from Python"):
        misread(
            "y = x * 3; y.backward(torch.tensor([1., 2., 3.]))",
            "y = x * 3; y.backward(torch.tensor([1., 2., 4.]))",
            x=[1.0, 2.0, 3.0],
        )


@pytest.mark.slow
def test_what_each_input_is_comes_from_one_account() -> None:
    """Positions are whole numbers, masks truth values, weights of a loss data, names in sizes numbers; no trial decides."""
    cases: dict[str, dict[str, Any]] = {
        "F.cross_entropy(x, y, weight=w)": {"x": X, "y": [0, 2], "w": [0.5, 1.0, 2.0]},
        "F.cross_entropy(x, y)": {"x": X, "y": [0, 2]},
        "F.embedding(y, x) * 2": {"x": X, "y": [0, 1, 1]},
        "torch.where(m, x, 2 * x)": {"x": X, "m": [[True, False, True], [False, False, True]]},
        "torch.where(m, x, 2 * x) ": {"x": X, "m": [[1, 0, 1], [0, 0, 1]]},
        "x.masked_fill(m, 0.5)": {"x": X, "m": [[1, 0, 1], [0, 0, 1]]},
        "x.gather(1, t - 1)": {"x": X, "t": [[1, 2], [3, 1]]},
        "x[t]": {"x": X, "t": [1, 0, 1]},
        "x.reshape(n, 2)": {"x": X, "n": 3},
        "x.reshape(n, 2) * n": {"x": X, "n": 3},
        "F.hinge_embedding_loss(x, y)": {"x": X, "y": [[1, -1, 1], [1, 1, -1]]},
        "F.binary_cross_entropy(x.sigmoid(), p, weight=w)": {"x": X, "p": [[0.2, 0.5, 0.7], [0.1, 0.5, 0.9]], "w": X},
        "F.batch_norm(x, m, s, training=False)": {"x": X, "m": [0.1, 0.2, 0.3], "s": [1.0, 2.0, 3.0]},
    }  # fmt: skip
    for text, values in cases.items():
        assert symgrad.explain(text, **values).outcome is TextOutcome.EQUAL, text


def test_truth_values_are_no_leaves() -> None:
    found = symgrad.explain("x * m", x=X, m=[[True, False, True], [False, False, True]])
    assert found.passed
    assert "but for m: torch has no derivative with respect to that" in words(found.to_text())


def test_only_wanted_inputs_are_leaves() -> None:
    """What is no leaf may be written over: torch says so of the text, too."""
    with pytest.raises(SymgradError, match="leaf Variable"):
        symgrad.explain("y = x; y.mul_(2); a * y", x=X, a=X)
    assert symgrad.explain("y = x; y.mul_(2); a * y", x=X, a=X, wrt="a").outcome is TextOutcome.EQUAL


def test_drawn_numbers_are_the_same_on_both_sides() -> None:
    for text in ("w = torch.randn(3, 2); b = torch.rand(2); x @ w + b", "torch.randn_like(x) * x", "x[torch.randperm(2)]", "torch.randint(0, 5, (3,)) * x",
                 "torch.manual_seed(0); w = torch.randn(3, requires_grad=True); (w * 2).sum()"):  # fmt: skip
        assert (
            symgrad.explain(
                text, **({"x": X} if "x" in text.replace("max", "") and "manual" not in text else {})
            ).outcome
            is TextOutcome.EQUAL
        ), text


def test_a_formula_that_a_backward_is_held_against_is_the_typed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate was accused by a formula that is none of its author's."""
    check_backward(torch.sin, "x.sin()", x=torch.tensor([1.0, 2.0], dtype=torch.float64))
    monkeypatch.setattr(references, "read_once", lambda text, *given: read_once("x.cos()", *given))
    with pytest.raises(UnsupportedError, match="differently from Python"):
        check_backward(torch.sin, "x.sin()", x=torch.tensor([1.0, 2.0], dtype=torch.float64))


@pytest.mark.slow
def test_what_is_small_is_not_run_without_numbers_first() -> None:
    """The device without numbers loads torch's compiler, a second of time: only what may be large goes there."""
    code = (
        "import sys, symgrad; symgrad.explain('softmax(q @ k.T / 2, dim=-1) @ u'); "
        "symgrad.explain('x@a', shapes={'x': (720, 720), 'a': (720, 720)}); symgrad.explain('F.conv2d(x, w)'); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_loss_behind_the_text_is_asked_for_as_well() -> None:
    found = symgrad.explain("x @ a", then="mean((out - y)**2)")
    assert found.downstream is not None
    assert (found.outcome, found.downstream.outcome) == (TextOutcome.EQUAL, TextOutcome.EQUAL)


@pytest.mark.slow
def test_texts_that_are_explained_in_several_threads_are_each_their_own() -> None:
    """A thread is interrupted every 10 µs: what two of them do at once, they do in any order."""
    texts = [f"y = x * {n}; y.add_(a); y * a" for n in range(2, 34)]
    filters, interval = list(warnings.filters), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda text: symgrad.explain(text, x=X, a=X), texts))
    finally:
        sys.setswitchinterval(interval)
    for n, explanation in enumerate(found, 2):
        assert explanation.outcome is TextOutcome.EQUAL
        assert_same(n * np.array(X), explanation.gradients["x"].value)
    assert warnings.filters == filters
