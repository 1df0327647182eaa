"""What `torch.func` differentiates in a script is told as one event, agrees with torch, and changes nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from symgrad.explanation.data import Jacobian
from symgrad.tracing import run_script
from symgrad.tracing.story.event_content import closing_text
from symgrad.tracing.story.events import CallEvent, Note, Session
from symgrad.tracing.story.session_pages import event_markdown, event_text, session_json

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # torch's own

HEAD = """
import torch
import torch.nn.functional as F
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
torch.manual_seed(0)
x = torch.tensor([1.0, 2.0, 3.0])
A, X = torch.randn(4, 3), torch.randn(5, 3)
"""


def play(tmp_path: Path, body: str, **options: object) -> tuple[Session, str]:
    """A script's session, and what is told of it on one line."""
    path = tmp_path / "script.py"
    path.write_text(HEAD + body + "\n", encoding="utf-8")
    said: list[str] = []
    session = run_script(str(path), [], tell=lambda event: said.append(event_text(event)), **options)
    assert session.status == 0
    return session, re.sub(r"\s+", " ", " ".join([*said, closing_text(session)]))


QUIET = "import warnings; warnings.simplefilter('ignore')\n"
"""torch warns of what its own linearize does."""
TOLD = {
    "grad": (
        "grad(lambda x: (x**3).sum())(x)",
        ["torch.func.grad(f): one backward pass through the function", "x 1×3 row 3 * x ** 2 [3 12 27] = torch"],
    ),
    "grad_and_value": ("grad_and_value(lambda a: torch.sin(a).sum())(x)", ["a 1×3 row a.cos()", "= torch"]),
    "argnums": (
        "grad(lambda a, b: ((a * b).sum(), a), argnums=(0, 1), has_aux=True)(x, X[0])",
        ["a 1×3 row b", "b 1×3 row a"],
    ),
    "a dictionary of parameters": (
        """net = torch.nn.Linear(3, 1)
p = dict(net.named_parameters())
grad(lambda p, x: F.mse_loss(functional_call(net, p, (x,)), torch.zeros(5, 1)))(p, X)""",
        ["weight 1×3 row v_net.out.T @ x", "bias 1×1 v_net.out.sum(0)"],
    ),
    "jacrev": (
        "jacrev(torch.sin)(x)",
        ["torch.func.jacrev(sin) gives all of J, with one backward pass for each row", "x.grad = v * x.cos()",
         "J with respect to x is 3×3, diag(x.cos()), 67% zeros", "1 of 3 passes are enough: J is diagonal", "= torch in every entry"],
    ),
    "jacrev of what has fewer columns": (
        "jacrev(lambda x: A @ x)(x)",
        ["J with respect to x is 4×3", "no two rows can share a seed; J has fewer columns: torch.func.jacfwd"],
    ),
    "jacfwd": (
        "jacfwd(lambda x: torch.softmax(x, 0))(x)",
        ["with one forward pass for each column", "J with respect to x is 3×3, diagonal plus dense", "no two rows can share a seed",
         "x.grad = out * (v - (v * out).sum(-1, keepdim=True))", "= torch in every entry"],
    ),
    "blocks": ("jacrev(lambda x: torch.softmax(x, 1))(X)", ["block-diagonal, 80% zeros", "3 of 15 passes are enough"]),
    "hessian": (
        "hessian(lambda x: (x**3).sum())(x)",
        ["torch.func.hessian(f) gives all second derivatives", "H with respect to x is 3×3, diagonal, 67% zeros",
         "1 of 3 passes are enough: H is diagonal", "= torch in every entry"],
    ),
    "a hessian by hand": (
        "jacfwd(jacrev(lambda x: (x**3).sum()))(x)",
        ["torch.func.jacfwd(torch.func.jacrev(f)) gives all second derivatives", "H with respect to x is 3×3, diagonal"],
    ),
    "a jacobian of a gradient": (
        "jacrev(grad(lambda x: torch.logsumexp(A @ x, 0)))(x)", ["H with respect to x is 3×3", "= torch in every entry"],
    ),
    "a gradient of a gradient": (
        "grad(lambda x: grad(lambda y: (y**3).sum())(x).pow(2).sum())(x)", ["= torch", "[36 288 972]"],
    ),
    "the gradient of each example": (
        "vmap(grad(lambda w, a: torch.tanh(w @ a)), in_dims=(None, 0))(x, X)",
        ["vmap runs all 5 examples at once; only the first is shown",
         "torch.func.vmap(torch.func.grad(f))", "w 1×3 row (1 - out ** 2) * a", "= torch"],
    ),
    "the gradient of each of a batch of batches": (
        "vmap(vmap(grad(lambda a, t: a * t**2), in_dims=(None, 0)), in_dims=(0, None))(x, X[0, :2])",
        ["vmap runs all 6 examples", "t1 = t ** 2", "a 1×1 t1", "= torch"],
    ),
    "batches behind what the function does": (
        "vmap(lambda row: vmap(grad(torch.sin))(2 * row))(X)", ["15 examples", "x.cos()", "= torch"],
    ),
    "the jacobian of each example": ("vmap(jacrev(lambda a: a * a.sum()))(X)", ["5 examples", "J with respect to a is 3×3"]),
    "batches on another axis": ("vmap(grad(lambda a: (a * x).prod()), in_dims=1)(X.T)", ["5 examples", "= torch"]),
    "vjp": (
        "out, pull = vjp(lambda x: x**3, x)\npull(torch.tensor([1.0, 0.0, 2.0]))",
        ["torch.func.vjp(f)", "v = 1 0 2 (given)", "3 * v * x ** 2 [3 0 54] = torch"],
    ),
    "jvp": ("jvp(lambda x: x**3, (x,), (torch.ones(3),))", ["gives Ju, by one forward pass", "= torch in every entry"]),
    "jvp of a jvp": (
        "jvp(lambda t: jvp(lambda t: t**3, (t,), (x,))[1], (x,), (torch.ones(3),))",
        ["Ju inside the function is ∂/∂w of w·J for a w of zeros", "gives Ju, by one forward pass", "J with respect to t is 3×3, diagonal",
         "= torch in every entry"],
    ),
    "the gradient of a jvp": (
        "grad(lambda t: jvp(lambda t: (t**3).sum(), (t,), (x,))[1])(x)", ["(the double backward trick)", "[6 24 54] = torch"],
    ),
    "batches of a jvp of a jvp": (
        "vmap(lambda r: jvp(lambda t: jvp(torch.sin, (t,), (x,))[1], (r,), (r,))[1])(X)",
        ["Ju inside the function", "5 examples", "J with respect to r is 3×3", "v_r = w * r.cos()"],
    ),
    "a derivative by what is constant outside": ("grad(lambda t: grad(lambda b: (b.sin() * t).sum())(A[0]).sum())(x)", ["= torch"]),
    "columns of a jvp of two": (
        "jacfwd(lambda t: jvp(lambda a, b: a * b.sin(), (t, x), (x, X[0]))[1])(x)", ["J with respect to t is 3×3", "= torch in every entry"],
    ),
    "linearize": (
        f"{QUIET}out, along = torch.func.linearize(lambda x: x**3, x)\nalong(torch.ones(3))\nalong(x)",
        ["torch.func.linearize(f) gives Ju, by a forward pass that is kept for any u", "= torch in every entry",
         "Ju = 3 * u * x ** 2"],
    ),
    "linearize of two": (
        f"{QUIET}f = lambda a, b: dict(s=a @ b, m=(a * b).sum())\nout, along = torch.func.linearize(f, x, x)\nalong(x, X[0])",
        ["how the outputs change if a, b move along u", "= torch in every entry"],
    ),
    "linearize reads its input besides": (
        f"{QUIET}out, along = torch.func.linearize(lambda a: x * a**2, x)\nalong(torch.ones(3))",
        ["t1 = a ** 2", "= torch in every entry"],
    ),
    "under no_grad": ("with torch.no_grad():\n    jacfwd(torch.sin)(x), jvp(torch.exp, (x,), (x,))", ["J with respect to x is 3×3"]),
    "called again": ("for n in range(4):\n    grad(lambda x: (x**2).sum())(x)", ["1 further call, counted only"]),
    "as a decorator": ("@torch.func.grad\ndef slope(x):\n    return x.sin().sum()\nslope(x)", ["x.cos()", "= torch"]),
}  # fmt: skip


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", TOLD)
def test_a_transform_is_one_event(name: str, tmp_path: Path) -> None:
    body, sentences = TOLD[name]
    session, told = play(tmp_path, body)
    assert session.agrees
    assert "not explained" not in told
    assert "≠" not in told
    assert [s for s in sentences if s not in told] == [], told
    for event in session.events:
        assert event_markdown(event)
    assert session_json(session)


REFUSED = {
    "writes in place": ("def f(x):\n    y = x * 2\n    y.add_(1)\n    return y.sum()\ngrad(f)(x)", "Tensor.add_ writes in"),
    "draws": ("vmap(grad(lambda x: F.dropout(x).sum()), randomness='different')(X)", "draws random numbers"),
    "vmap inside": ("grad(lambda w: vmap(lambda a: a @ w)(X).sum())(x)", "torch.func.vmap(f) inside another function"),
    "several outputs": ("jacrev(lambda x: (x, x.sum()))(x)", "its function returns 2 tensors"),
    "no_grad inside": ("def f(x):\n    with torch.no_grad():\n        y = x * 2\n    return (x * y).sum()\ngrad(f)(x)", "runs under no_grad"),
    "its own backward": (
        """class Twice(torch.autograd.Function):
    generate_vmap_rule = True
    forward = staticmethod(lambda x: 2 * x)
    setup_context = staticmethod(lambda ctx, inputs, output: None)
    backward = staticmethod(lambda ctx, v: 2 * v)
grad(lambda x: Twice.apply(x).sum())(x)""",
        "Twice.apply is a function with its own backward",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("t ** 3", "= torch in every entry"),
        ("torch.det(torch.stack([t, I, 2 * I, t]).reshape(2, 2))", "≠ torch (off by 0.6"),
    ],
)
def test_a_jvp_of_a_jvp_of_one_number_is_told(function: str, said: str, tmp_path: Path) -> None:
    """Of tensors without axes, too; where torch is wrong that is told."""
    body = (
        f"I = torch.ones(()).double()\nd = lambda t: jvp(lambda t: {function}, (t,), (I,))[1]\njvp(d, (3 * I,), (I,))"
    )
    session, told = play(tmp_path, body)
    assert len(session.events) == 1
    assert said in told
    assert "gives Ju, by one forward pass" in told


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_explained_says_why(name: str, tmp_path: Path) -> None:
    body, why = REFUSED[name]
    session, told = play(tmp_path, body)
    assert len(session.events) == 1
    assert "not explained" in told
    assert why in told
    assert "a gap in symgrad" not in told


@pytest.mark.parametrize("body", ["vmap(torch.sin)(X)", "grad", "jacrev(torch.sin)", "vmap(vmap(torch.exp))(X)"])
def test_what_differentiates_nothing_is_not_told(body: str, tmp_path: Path) -> None:
    assert play(tmp_path, body)[0].events == []


def test_one_call_is_chosen(tmp_path: Path) -> None:
    body = "for n in range(1, 4):\n    grad(lambda x: (x**n).sum())(x)"
    session, told = play(tmp_path, body, call=2)
    (event,) = session.events
    assert isinstance(event, CallEvent)
    assert event.number == 2
    assert "2 * x" in told
    assert "2 further calls, counted only" in told


def test_a_jacobian_that_is_not_torchs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Jacobian.dense
    monkeypatch.setattr(Jacobian, "dense", lambda self: right(self) * 1.5)
    session, told = play(tmp_path, "jacrev(torch.sin)(x)")
    (event,) = session.events
    assert isinstance(event, Note)
    assert not event.agrees
    assert not session.agrees
    assert "≠ torch" in told


def test_an_exception_passes_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = (
        "for f in (lambda x: x, lambda x: 1 / 0):\n    try:\n        grad(f)(x)\n"
        "    except (RuntimeError, ZeroDivisionError) as error:\n        print(type(error).__name__)"
    )
    assert play(tmp_path, body)[0].events == []
    assert capsys.readouterr().out == "RuntimeError\nZeroDivisionError\n"
    assert "= torch" in play(tmp_path, body + "\ngrad(lambda x: x.sum())(x)")[1]


BESIDE = {
    "det at the identity": (
        "I = torch.eye(3, dtype=torch.float64)\ntorch.func.hessian(torch.det)(I)",
        [
            "nan or inf in 81 of 81 entries",
            "it is smooth at this point",
            "torch.autograd.functional.hessian",
        ],
    ),
    "the forward rule of cholesky_inverse": (
        (
            "L = torch.tensor([[1., 0.], [.5, 2.]], dtype=torch.float64)\n"
            "u = torch.tensor([[1., 2.], [.5, 2.]], dtype=torch.float64)\n"
            "torch.func.jvp(torch.cholesky_inverse, (L,), (u,))"
        ),
        ["torch's forward rule violates ⟨v, Ju⟩ = ⟨vᵀJ, u⟩, symgrad's satisfies it"],
    ),
    "norm at 0, twice": (
        (
            "f = lambda p, q: torch.exp(-torch.linalg.norm(p - q) ** 2)\n"
            "p = torch.tensor([1.0, 2.0], dtype=torch.float64)\n"
            "torch.func.jacfwd(torch.func.grad(f), argnums=1)(p, p)"
        ),
        [
            "that is not the derivative at this point: the gradient has the slope 2 there",
            "(x ** 2).sum() instead of norm(x) ** 2",
        ],
    ),
    "|FFT| at 0, along u": (
        (
            "z, u = torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)\n"
            "torch.func.jvp(torch.func.grad(lambda x: (torch.fft.fft(x).abs() ** 2).sum()), (z,), (u,))"
        ),
        ["the gradient has the slope 8 there, while both answers have 0"],
    ),
    "elu at 0, along u": (
        (
            "x, u = torch.tensor([0., 1.], dtype=torch.float64), torch.ones(2, dtype=torch.float64)\n"
            "torch.func.jvp(torch.func.grad(lambda x: torch.nn.functional.elu(x).sum()), (x,), (u,))"
        ),
        ["undefined here: the gradient has no slope along u there"],
    ),
}
"""Points where torch has lost a derivative, or both go by a chosen slope: what moving the point shows is said."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", BESIDE)
def test_what_moving_the_point_shows_is_said_beside_two_answers(name: str, tmp_path: Path) -> None:
    body, wanted = BESIDE[name]
    _, said = play(tmp_path, f"import torch\n{body}")
    said = " ".join(said.split())
    assert not [part for part in wanted if part not in said], said
    assert "elu" not in name or "forward rule violates" not in said
