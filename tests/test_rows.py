"""A Jacobian that is asked for row by row is told once, and what is said of its seeds is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from symgrad.tracing import run_script
from symgrad.tracing.story.event_content import closing_text
from symgrad.tracing.story.events import Note, Session
from symgrad.tracing.story.session_pages import event_markdown, event_text, session_json
from tests.compare import assert_same

HEAD = "import torch\nimport torch.nn.functional as F\ntorch.manual_seed(0)\n"


def play(tmp_path: Path, body: str, **options: object) -> tuple[Session, str]:
    """A script's session, and what is told of it on one line."""
    path = tmp_path / "script.py"
    path.write_text(HEAD + body, encoding="utf-8")
    said: list[str] = []
    session = run_script(str(path), [], tell=lambda event: said.append(event_text(event)), **options)
    assert session.status == 0
    return session, re.sub(r"\s+", " ", " ".join([*said, closing_text(session)]))


def test_functional_jacobian_is_one_event(tmp_path: Path) -> None:
    body = "x, W = torch.randn(4, 6), torch.randn(6, 6)\nJ = torch.autograd.functional.jacobian(lambda x: torch.tanh(x @ W), x)\n"
    session, told = play(tmp_path, body)
    (event,) = session.events
    assert isinstance(event, Note)
    assert "jacobian() computes J row by row, one backward pass each" in told
    assert "J with respect to x is 24×24, block-diagonal, 75% zeros" in told
    assert "torch keeps it as 4×6×4×6" in told
    assert "6 of 24 passes are enough" in told
    assert "torch.func.vmap(torch.func.jacrev(f))(x)" in told
    assert "6 of 24 passes" in event_markdown(event)
    assert "6 of 24 passes" in session_json(session)


@pytest.mark.filterwarnings("ignore")
def test_the_calls_that_are_named_give_all_of_j() -> None:
    import torch

    x, W = torch.randn(4, 6), torch.randn(6, 6)
    whole = torch.autograd.functional.jacobian(lambda x: torch.tanh(x @ W), x)
    blocks = torch.func.vmap(torch.func.jacrev(lambda row: torch.tanh(row @ W)))(x)
    assert_same(torch.stack([whole[n, :, n] for n in range(4)]), blocks, tolerance=1e-5, what="blocks")
    wide = torch.randn(2, 3)
    assert_same(torch.func.jacfwd(lambda x: x @ wide)(x[0, :2]), wide.T, tolerance=1e-6, what="jacfwd")


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("F.relu(x)", "J is diagonal, so one backward(ones) returns all of it"),
        ("x.reshape(2, 3).sum(1)", "no two rows share a column, so one backward(ones) returns all of J"),
        ("x[1:] * x[:-1]", "2 of 5 passes are enough: rows that share no column can share a seed"),
        ("torch.outer(x, x).reshape(-1)", "of 36 passes are enough"),
        ("torch.softmax(x, 0)", "no two rows can share a seed; torch.func.jacrev(f)(x) computes all rows in one"),
        ("x[:2] @ torch.ones(2, 5)", "no two rows can share a seed; torch.func.jacrev(f)(x)"),
    ],
)
def test_how_many_seeds_would_do(tmp_path: Path, body: str, said: str) -> None:
    source = f"x = torch.rand(6, requires_grad=True)\ny = {body}\nfor i in range(len(y)):\n"
    _, told = play(tmp_path, f"{source}    torch.autograd.grad(y[i], x, retain_graph=True)\n")
    assert said in told
    assert "this line computes J row by row, one backward pass each" in told


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "loop",
    [
        "for i in range(4):\n    torch.autograd.grad(y[i], x, retain_graph=True)\n",
        "for part in y:\n    torch.autograd.grad(part, x, retain_graph=True)\n",
        "for part in y.unbind():\n    part.backward(retain_graph=True)\n",
        "for e in torch.eye(4):\n    torch.autograd.grad(y, x, e, retain_graph=True)\n",
        "for e in torch.eye(4):\n    y.backward(e, retain_graph=True)\n",
    ],
)
def test_a_loop_over_the_outputs_is_told_once(tmp_path: Path, loop: str) -> None:
    session, told = play(tmp_path, "x = torch.rand(4, requires_grad=True)\ny = x.sin()\n" + loop)
    assert len(session.calls) == 1
    assert told.count("J with respect to x is 4×4, diag(x.cos()), 75% zeros") == 1
    assert "3 further calls with the same operations and sizes, counted only" in told


@pytest.mark.parametrize("call", ["torch.func.jacrev(f)(x)", "torch.autograd.functional.jacobian(f, x)"])
def test_the_structure_names_the_output_as_the_lines_do(tmp_path: Path, call: str) -> None:
    """It had the name of the recording: t2."""
    body = f"w, x = torch.randn(3, 2), torch.ones(3)\nf = lambda x: torch.tanh(x @ w)\n{call}\n"
    _, told = play(tmp_path, body)
    assert "J with respect to x is 2×3, w.T * (1 - out ** 2)[:, None]" in told


def test_other_outputs_are_no_rows(tmp_path: Path) -> None:
    source = "x = torch.rand(3, requires_grad=True)\nfor i in range(3):\n    y = x.sin()\n    y[i].backward()\n"
    session, told = play(tmp_path, source)
    assert "computes J row by row" not in told
    assert len(session.calls) == 3


def test_a_row_that_is_wrong_is_told(tmp_path: Path) -> None:
    source = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g * 3
x = torch.rand(3, requires_grad=True)
y = Twice.apply(x)
for i in range(3):
    torch.autograd.grad(y[i], x, retain_graph=True)
"""
    _, told = play(tmp_path, source)
    assert "passes are enough" not in told


@pytest.mark.slow
def test_gradgradcheck_is_one_story_of_the_backward_it_differentiates(tmp_path: Path) -> None:
    """Its inner backward calls are parts of its function, and its v is said to be one."""
    session, told = play(
        tmp_path,
        "x = torch.randn(3, dtype=torch.float64, requires_grad=True)\ntorch.autograd.gradgradcheck(torch.sin, (x,))\n",
    )
    assert len(session.events) == 1
    assert told.count("gradgradcheck() computes J row by row") == 1
    assert "J with respect to x is 3×3, diag(-leaf * x.sin()), 67% zeros" in told
    assert "1 of 3 passes are enough: J is diagonal" in told
    assert (
        "gradgradcheck differentiates the backward, whose v is leaf: with respect to it that is the first derivative again"
    ) in told
    assert "not explained" not in told


def test_gradcheck_is_told_with_its_convention_and_the_kink(tmp_path: Path) -> None:
    near = "x = torch.tensor([1e-7, 1.0], dtype=torch.float64, requires_grad=True)\n"
    near += "try:\n    torch.autograd.gradcheck(F.relu, x)\nexcept Exception:\n    pass\n"
    session, told = play(tmp_path, near)
    assert len(session.events) == 1
    assert "difference quotients of step eps = 1e-06; it prints Jᵀ, with inputs as rows" in told
    assert "x[0] = 1e-07 is within eps of a kink" in told
    assert "mixes 45% of the slope on its left with 55% of that on its right" in told
    away = "W, x = torch.randn(2, 3).double(), torch.ones(3).double().requires_grad_()\n"
    _, told = play(tmp_path, away + "torch.autograd.gradcheck(lambda x: W @ x, x)\n")
    assert "J with respect to x is 2×3, W" in told
    assert "kink" not in told


def test_gradcheck_in_single_precision_is_told_what_rounding_does(tmp_path: Path) -> None:
    source = "x = torch.tensor([1., 2.], dtype=torch.{kind}, requires_grad=True)\n"
    source += "torch.autograd.gradcheck(torch.exp, x, raise_exception=False)\n"
    _, told = play(tmp_path, "import warnings; warnings.simplefilter('ignore')\n" + source.format(kind="float32"))
    assert "in float32 rounding alone changes such a quotient by up to 0.44" in told  # 2**-23 * e**2 / 2e-6
    assert "x.double()" in told
    _, told = play(tmp_path, source.format(kind="float64"))
    assert "rounding alone" not in told


def test_one_call_can_still_be_asked_for(tmp_path: Path) -> None:
    source = "x = torch.rand(3, requires_grad=True)\ny = x.sin()\nfor i in range(3):\n    torch.autograd.grad(y[i], x, retain_graph=True)\n"
    session, _ = play(tmp_path, source, call=2)
    (call,) = session.calls
    assert call.number == 2


@pytest.mark.slow
def test_inputs_are_called_as_the_function_calls_them(tmp_path: Path) -> None:
    _, told = play(
        tmp_path,
        """
W, x = torch.randn(3, 2), torch.ones(2)
torch.autograd.functional.jacobian(lambda Z, b: torch.tanh(Z @ W) + b, (torch.randn(4, 3), x))
""",
    )
    assert "t1 = Z @ W" in told
    assert "J with respect to Z is 8×12, block-diagonal" in told
    assert "J with respect to b is 8×2" in told


@pytest.mark.parametrize("before", ["", "y = x.clone().requires_grad_(); torch.tanh(y).sum().backward()"])
def test_a_jacobian_in_a_loop_is_told_now_and_then_and_never_in_part(tmp_path: Path, before: str) -> None:
    """Where the recorder began between two of its rows, it was said to come from something that was not recorded."""
    body = "x = torch.rand(3)\nfor _ in range(24):\n"
    _, told = play(
        tmp_path, f"{body}    {before}\n    torch.autograd.functional.jacobian(lambda x: torch.tanh(x), x)\n"
    )
    assert "not explained" not in told
    assert 3 <= told.count("jacobian() computes J row by row") <= 6
