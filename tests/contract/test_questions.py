"""The questions that people ask most: what is typed, and the decisive sentence of what is printed.

About one call it stands in the first ten lines of the answer. Numbered as they were ranked; the texts are the ones
from the threads in which they were asked.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from symgrad_cli.main import main
from tests.contract.stories import stories_of

HEAD = "import torch\nimport torch.nn.functional as F\ntorch.manual_seed(0)\n"
FIRST = 10
"""Lines of an answer in which the question is settled."""


def joined(lines: list[str]) -> str:
    """Lines as one."""
    return re.sub(r"\s+", " ", " ".join(lines))


EXPLAINED = [
    (4, "x@a --let x=[1,2] --let a=[[1,2,3],[3,4,5]] --seed [2,20,200]", "x.grad = v @ a.T"),
    (
        10,
        "torch.where(x>0,x.sqrt(),x) --let x=[-1,-4]",
        "At x[0] and x[1] the derivative is 1. The program's steps compute nan",
    ),
    (11, "sqrt(sum(x**2)) --let x=[0,0]", "Undefined here: there is no derivative at x[0] and x[1]"),
    (11, "norm(x) --let x=[0,0]", "x[0] = 0 is a kink of norm, one of 2 such entries: left -1, right 1"),
    (12, "softmax(x,dim=1) --let x=[[1,2,3],[0,1,0]]", "x.grad = out * (v - (v * out).sum(-1, keepdim=True))"),
    (13, "softmax(x) --let x=[1,2,3]", "The entries of softmax(x) add up to 1 whatever x is"),
    (13, "sum(softmax(x)) --let x=[1,2,3]", "the entries of softmax(x) add up to 1 whatever x is"),
    (
        14,
        "cross_entropy(z,t) --let z=[[1,2,3],[0,1,0]] --let t=[0,1] --wrt z",
        "is a mean over 2 samples, hence the factor 1/2",
    ),
    (15, "layer_norm(x) --let x=[1,2,4] --seed [1,0,0]", "v - v.mean(-1, keepdim=True) - out * (v * out).mean(-1,"),
    (
        16,
        "X+b --let X=[[1,2],[3,4],[5,6]] --let b=[1,2]",
        "b is broadcast, so its gradient is the sum over all uses",
    ),
    (19, "outer(x,x) --let x=[1,2,3,4]", "x is used 2 times: its gradient is the sum over these uses"),
    (20, "z*z.detach() --let z=[1,2]", "backward gives 1 2, the full derivative is 2 4"),
    (20, "x+(x.round()-x).detach() --let x=[1.2,2.7]", "backward gives 1 1, the full derivative is 0 0"),
    (21, "z[[0,0,1]] --let z=[1,2] --seed [.2,.3,.5]", "z.grad = "),
    (22, "einsum('bij,ji->bi',a,b) --shape a=2,3,4", "a.grad = v[:, :, None] * b.T"),
    (22, "einsum('ii->i',a) --shape a=3,3", "a.grad = v.diag()"),
    (23, "x[:,0] --shape x=2,3", "x.grad = pad(v[:, None], (0, x.shape[1] - 1))"),
    (23, "x.T --shape x=2,3", "x.grad = v.T"),
    (24, "conv1d(x,w,stride=2) --shape x=1,1,6 --shape w=1,1,3", "conv_transpose1d(v, w, stride=2, output_padding="),
    (
        25,
        "scaled_dot_product_attention(q,k,u) --shape q=3,4 --shape k=3,4 --shape u=3,4",
        "u.grad = P.T @ v with v_P = v @ u.T",
    ),
    (26, "inv(A) --let A=[[2,1],[1,3]]", "A.grad = -out.T @ (v @ out.T)"),
    (26, "solve(A,b) --let A=[[2,1],[1,3]] --let b=[1,2]", "b.grad = torch.linalg.solve(A.T, v)"),
    (26, "det(A) --let A=[[2,1],[1,3]]", "A.grad = v * out * inverse(A).T"),
    (32, "maximum(x,y) --let x=[1,2] --let y=[1,3]", "left 0, right 1, anything between is legal as long as"),
    (32, "clamp(x,-1,1) --let x=[1,0]", "x[0] = 1 is a kink of clamp: left 1, right 0"),
]


@pytest.mark.one_in(12, alone=2)
@pytest.mark.parametrize(("number", "command", "said"), EXPLAINED, ids=[f"{n} {c[:20]}" for n, c, _ in EXPLAINED])
def test_a_question_about_one_call(number: int, command: str, said: str) -> None:
    found = CliRunner().invoke(main, ["explain", *command.split(" "), "--brief", "--no-color"], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    lines = [line for line in found.stdout.splitlines() if line.strip()]
    assert said in joined(lines[:FIRST])


VECTOR = "x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)\n"
FAILS = "try:\n    {}\nexcept RuntimeError:\n    pass\n"
SCRIPTS = [
    (1, VECTOR + "y = x * 2\n" + FAILS.format("y.backward()"), "y has 3 elements, so J has 3 rows and backward() has no weights"),
    (2, VECTOR + "y = torch.outer(x, x)\n" + FAILS.format("y.backward(torch.ones(3))"), "v must be 3×3, not 3"),
    (2, VECTOR + "y = x.sum()\n" + FAILS.format("y.backward(torch.ones(3))"), "y is scalar, one output: v must be scalar, not 3"),
    (3, VECTOR + "(x * 2).backward(torch.ones(3))\n", "L = out[0] + out[1] + out[2], the sum"),
    (3, "X, A = torch.randn(3, 2, requires_grad=True), torch.randn(2, 2)\n(X @ A @ X.T).sum().backward()\n", "out sums 9 entries, so their 9 rows of J add up; jacrev returns each row"),
    (3, VECTOR + "(torch.ones(2, 3) @ x).backward(torch.ones(2))\n", "v = ones adds the 2 rows of J; v = 1 0 gives the first alone, torch.func.jacrev all of them"),
    (5, VECTOR + "y = (x**2).sum()\ny.backward()\n" + FAILS.format("y.backward()"), "saved tensors that this vᵀJ needs: x"),
    (6, VECTOR + "b = x.exp()\nb.add_(1)\n" + FAILS.format("b.sum().backward()"), "needs b, its own output; line 6"),
    (6, VECTOR + "b = x.exp()\nF.relu(b, True)\n" + FAILS.format("b.sum().backward()"), "write line 6 out of place: relu, not relu_ or inplace=True"),
    (6, VECTOR + "b = x.exp()\ntorch.relu_(b)\n" + FAILS.format("b.sum().backward()"), "write line 6 out of place: b = torch.relu(b)"),
    (7, VECTOR + "s = x[0]\n(s * 2).backward()\ns.grad\n", "s is not a leaf (it was computed in line 5); its gradient, 2, was not kept"),
    (8, VECTOR + "y = torch.tensor((x**2).sum().item())\n" + FAILS.format("y.backward()"), ".item(), float() and NumPy return numbers without a history"),
    (8, VECTOR + "x.round().sum().backward()\n", "round(x) (line 5) passes no gradient back: its slope is 0 wherever it has one"),
    (8, VECTOR + "y = x.detach().sum()\ny.requires_grad = True\ny.backward()\n", "cut in line 5 by .detach(); line 6 made y a new leaf"),
    (9, VECTOR + "(x**2).sum().backward()\n(x**2).sum().backward()\n", "x.grad still held the value from line 5; backward adds"),
    (11, "x = torch.randn(1, 3, requires_grad=True)\nx.std(0).sum().backward()\n", "there is no J: std divides 0 by 0, as one value has no variance"),
    (13, VECTOR + "F.softmax(x, 0).sum().backward()\n", "add up to 1 whatever x is, so equal weights (ones, .sum()) give 0"),
    (14, "z = torch.randn(4, 3, requires_grad=True)\nF.cross_entropy(z, torch.tensor([0, 2, 1, 1])).backward()\n", "cross_entropy is a mean over 4 samples, hence the factor 1/4"),
    (16, "x = torch.randn(3, 1, requires_grad=True)\nF.mse_loss(x, torch.randn(3)).backward()\n", "9 pairs count and not 3"),
    (16, "x = torch.randn(3, 1, requires_grad=True)\ny = torch.randn(3)\n((x - y) ** 2).mean().backward()\n", "x 3×1 meets y 3: both are broadcast to 3×3, so 9 pairs count and not 3"),
    (17, VECTOR + "a = torch.ones(3, 2)\ntorch.autograd.functional.jacobian(lambda x: x @ a, x)\n", "J with respect to x is 2×3, aᵀ: a row for each entry of out, a column"),
    (18, "x = torch.rand(2, 2)\ntorch.autograd.functional.jacobian(lambda x: (x**2).sum(1), x)\n", "torch keeps it as 2×2×2, the axes of out first"),
    (21, "z = torch.tensor([1.0, 2.0], requires_grad=True)\nz[[0, 0, 1]].backward(torch.tensor([0.2, 0.3, 0.5]))\n", "z[0] is read twice, so its 2 weights add up"),
    (20, VECTOR + "(x.round().detach() + x - x.detach()).sum().backward()\n", "the slope is 1, the full derivative is 0"),
    (21, "w, at = torch.randn(4, 2, requires_grad=True), torch.tensor([1, 1, 3])\nF.embedding(at, w).pow(2).sum().backward()\n", "w[1] is read twice, so its 2 weights add up"),
    (27, "A = torch.tensor([[2.0, 0.5], [0.5, 1.0]], requires_grad=True)\ntorch.linalg.cholesky(A).backward(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))\n", "A is symmetric here: A[1,0] and A[0,1] get 0.354 each, 0.707 as one variable"),
    (29, "X, t = torch.randn(3, 2), torch.randn(3, 1)\nW = torch.randn(2, 1, requires_grad=True)\nF.mse_loss(X @ W, t).backward()\n", "the product adds 3 rows (samples); before that sum the gradients per sample are X[:, :, None] * "),
    (28, "x, W = torch.randn(4, 3), torch.randn(3, 3)\ntorch.autograd.functional.jacobian(lambda x: (x @ W).tanh(), x)\n", "3 of 12 passes are enough: J has 4 blocks"),
    (30, VECTOR + "y = x.sin()\nfor i in range(3):\n    torch.autograd.grad(y[i], x, retain_graph=True)\n", "1 of 3 passes are enough: J is diagonal, so one backward(ones) returns all of it"),
    (31, VECTOR + "y = x.sin()\nd = torch.zeros_like(y, requires_grad=True)\n(g,) = torch.autograd.grad(y, x, d, create_graph=True)\ntorch.autograd.grad(g, d, torch.ones(3))\n", "differentiated with respect to d it gives J·u, columns of J (the double backward trick)"),
    (31, VECTOR + "(g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)\ntorch.autograd.grad(g, x, torch.ones(3))\n", "g is already a gradient with respect to x (line 5): its uᵀJ is H·u, a Hessian-vector product"),
    (32, "x = torch.zeros(2, requires_grad=True)\ntorch.relu(x).sum().backward()\n", "x[0] = 0 is a kink of relu (line 5), one of 2 such entries: left 0, right 1, anything between is legal"),
    (33, "z = torch.tensor([1 + 1j], requires_grad=True)\n(z**2).backward(torch.tensor([1 + 0j]))\n", "torch's .grad is ∂L/∂re + i·∂L/∂im"),
]  # fmt: skip


QUIET = [
    (3, VECTOR + "(x**2).sum().backward()\n", "rows"),
    (3, VECTOR + "(x * 2).backward(torch.ones(3))\n", "rows of J"),
    (
        3,
        "x = torch.tensor([-1.0, 4.0], requires_grad=True)\ntorch.where(x > 0, x.sqrt(), x).sum().backward()\n",
        "rows of J",
    ),
    (3, VECTOR + "x.mean().backward()\n", "adds"),
    (21, VECTOR + "x[[0, 2, 1]].backward(torch.ones(3))\n", "is read"),
    (27, "A = torch.eye(2, requires_grad=True)\ntorch.inverse(A).backward(torch.ones(2, 2))\n", "as symmetric"),
    (29, VECTOR + "(torch.ones(2, 3) @ x).backward(torch.ones(2))\n", "samples"),
    (
        31,
        VECTOR + "(g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)\n(g * x).sum().backward()\n",
        "Hessian",
    ),
    (
        31,
        VECTOR + "(g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)\n(g * 2).sum().backward()\n",
        "its uᵀJ is H",
    ),
]
"""What is not so is not said."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("number", "source", "unsaid"), QUIET, ids=[f"{n}-{k}" for k, (n, _, _) in enumerate(QUIET)])
def test_what_does_not_hold_is_not_said(number: int, source: str, unsaid: str, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(HEAD + source, encoding="utf-8")
    told = stories_of(path)
    assert "J" in joined(told)
    assert unsaid not in joined(told)


def test_every_question_but_those_of_the_test_tool_has_a_case() -> None:
    assert {number for number, _, _ in (*EXPLAINED, *SCRIPTS)} == set(range(1, 34))


@pytest.mark.one_in(6, alone=2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("number", "source", "said"), SCRIPTS, ids=[f"{n}-{k}" for k, (n, _, _) in enumerate(SCRIPTS)])
def test_a_question_about_a_script(number: int, source: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(HEAD + source, encoding="utf-8")
    told = stories_of(path)
    assert said in joined(told)
    answers = [[line for line in text.splitlines() if line.strip()] for text in told]
    assert any(said in joined(lines[:FIRST]) for lines in answers)


def test_a_number_made_of_a_gradient_is_a_product_with_the_hessian(tmp_path: Path) -> None:
    """As it is mostly written: (g @ w).backward()."""
    path = tmp_path / "script.py"
    made = "(g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)\n(g @ torch.ones(3)).backward()\n"
    path.write_text(HEAD + VECTOR + made, encoding="utf-8")
    told = stories_of(path)
    assert "out depends on x only through g: uᵀJ is H times the gradient of g, a Hessian-vector product" in joined(told)


def test_the_seed_has_one_letter_on_its_page(tmp_path: Path) -> None:
    """Beside a recorded gradient, whose names begin with v_, the seed was v in the head and u in the line."""
    path = tmp_path / "script.py"
    (source,) = (source for number, source, said in SCRIPTS if "H·u" in said)
    path.write_text(HEAD + source, encoding="utf-8")
    told = stories_of(path)
    assert "uᵀJ" in told[-1]
    assert all(words in joined([told[-1]]) for words in ("u = 1 1 1 (given)", "6 * u * v_t1 * x", "is called u here"))


@pytest.mark.parametrize(
    ("query", "number"),
    [("loss nan", 10), ("loss nan", 11), ("nan gradient where", 10), ("gradient nan sqrt", 11), ("grad none leaf", 7)],
)
def test_the_site_finds_a_page_by_the_words_that_people_look_for(query: str, number: int) -> None:
    """Its search shows pages that hold every word, if there are any."""
    (page,) = (Path(__file__).parents[2] / "docs" / "questions").glob(f"{number:02}-*.md")
    held = set(re.findall(r"\w+", page.read_text(encoding="utf-8").lower()))
    assert set(query.split()) <= held
