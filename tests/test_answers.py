"""The answer first: what a page, a derivation and a run open with, and that what is said there is so."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import symgrad
from symgrad.language.inference import find_inputs
from symgrad.tracing import run_script
from symgrad.tracing.story import story_lines
from symgrad.tracing.story.session_pages import event_text
from symgrad.tracing.story.story_lines import format_norm_flow, warn_of_norms
from symgrad_cli.main import main
from tests.compare import assert_same

SEED = [[1, 2, 3, 4], [5, 6, 7, 8]]


def brief(text: str, **options: object) -> list[str]:
    """The answer alone, without its title, line by line."""
    page = symgrad.explain(text, **options).to_text(brief=True)
    return [line.strip() for line in page.splitlines()[1:] if line.strip()]


def test_a_product_is_answered_in_three_lines() -> None:
    assert brief("x@a", seed=SEED)[:3] == [
        "x.grad = v @ a.T",
        "a.grad = x.T @ v",
        "Equal to torch 2.13.0 in every entry.",
    ]


@pytest.mark.slow
def test_a_long_gradient_stands_in_the_names_of_the_steps() -> None:
    lines = brief("S = q @ k.T / 2; P = softmax(S, dim=-1); P @ u", shapes={"q": (3, 4), "u": (3, 5), "k": (3, 4)})
    assert lines[:5] == [
        "q.grad = (v_S @ k) / 2",
        "k.grad = (v_S.T @ q) / 2",
        "u.grad = P.T @ v",
        "with v_P = v @ u.T",
        "with v_S = P * (v_P - (v_P * P).sum(-1, keepdim=True))",
    ]


def test_numpys_spelling_is_written_as_torch() -> None:
    code = symgrad.explain("h = np.dot(x, x); np.tanh(h)", x=[1, 2], check=False).backward.code()
    assert "h = torch.dot(x, x)" in code
    assert "np" not in code


def test_what_has_no_name_in_the_text_is_said_beside_the_lines() -> None:
    lines = brief("softmax(x) @ w + b", x=[1, 2, 3], shapes={"w": (3, 2)})
    assert "with t1 = softmax(x, dim=0)" in lines


def test_the_one_special_thing_is_said() -> None:
    assert "x is used 2 times: its gradient is the sum over these uses." in " ".join(brief("x @ x"))
    assert "b is broadcast, so its gradient is the sum over all uses." in " ".join(
        brief("x @ w + b", shapes={"b": (3,)})
    )
    assert "the rows of J weighted by v add up to 0" in " ".join(brief("softmax(x)", x=[1, 2, 3]))


@pytest.mark.parametrize(
    ("text", "values", "said"),
    [
        ("x[[0,0,1]]", {"x": [1, 2]}, "x[0] is read twice, so its 2 weights add up"),
        ("x.gather(0, i)", {"x": [1, 2, 3], "i": [2, 0, 2, 2]}, "x[2] is read 3 times, so its 3 weights add up"),
        ("F.embedding(i, x)", {"x": [[1, 2], [3, 4]], "i": [1, 1]}, "x[1] is read twice, so its 2 weights add up"),
        ("x[[1,0]]", {"x": [1, 2]}, ""),
        ("tanh(x[[0,0]])", {"x": [1, 2]}, "x[0] is read twice, so its 2 weights add up"),
        ("x[[1,0,1]][:1]", {"x": [1, 2]}, ""),
        ("F.nll_loss(x, i)", {"x": [[1, 2], [3, 4]], "i": [1, 1]}, ""),
    ],
)  # fmt: skip
def test_what_is_picked_twice_is_said(text: str, values: dict[str, object], said: str) -> None:
    page = " ".join(brief(text, **values))
    assert said in page
    assert ("is read" in page.partition("i is read")[0]) is bool(said)


def test_pi_is_a_number_where_nothing_is_called_so() -> None:
    assert find_inputs("sin(π*x)") == {"x"}
    assert find_inputs("sin(π*x)", ["π"]) == {"x", "π"}
    assert symgrad.explain("sin(π*x)", x=[1.0, 2.0]).passed


def test_two_gradients_that_are_undefined_at_one_place_are_both_named() -> None:
    """At (0, 0) neither slope of hypot is defined; of a product of roots each has its own reason."""
    values = {"x": [0.0, 2.0], "y": [0.0, 1.0]}
    assert "(in torch as well). The same goes for y." in " ".join(brief("hypot(x, y)", **values))
    assert "The same goes" not in " ".join(brief("sqrt(x) * sqrt(y)", **values))
    assert "The same goes" not in " ".join(brief("x ** y", **values))


def test_a_use_from_which_nothing_flows_back_is_counted_as_such() -> None:
    said = "x is used 4 times: its gradient is the sum over the 3 that have one."
    assert said in " ".join(brief("where(x > 0, x*x, sin(x))"))
    page = symgrad.explain("where(x > 0, x*x, sin(x))").to_text()
    assert "x is used 4 times. Its gradient is the sum over the 3 uses that have one:" in " ".join(page.split())


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "times"),
    [("x.clamp(min=x.mean())", 2), ("x * x.clamp(max=x)", 3), ("F.cosine_similarity(x, x, dim=0)", 2)],
)
def test_a_call_that_is_several_steps_reads_a_tensor_as_often_as_it_is_written(text: str, times: int) -> None:
    """The condition of a clamp is a step of ours and no use of the reader's."""
    page = " ".join(symgrad.explain(text, check=False, x=[1.0, 2.0, -3.0]).to_text().split())
    assert f"x is used {times} times. Its gradient is the sum over these uses" in page


def test_what_the_text_makes_is_said_once() -> None:
    lines = brief("z[[0,0,1]]")
    assert [line for line in lines if line.startswith("c is ")] == [
        "c is torch.tensor([0, 0, 1]), a constant: it gets no gradient."
    ]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "name", "shape"),
    [("x * x", "x", (3,)), ("cholesky(A)", "A", (3, 3)), ("x @ a", "x", (2, 4)), ("softmax(x @ x.T)", "x", (2, 4))],
)
def test_another_shape_is_another_one_and_fits(text: str, name: str, shape: tuple[int, ...]) -> None:
    assert f'shapes={{"{name}": {shape}}}' in " ".join(brief(text))
    assert symgrad.explain(text, shapes={name: shape}).gradients[name].value.shape == shape


@pytest.mark.parametrize(("text", "shape"), [("x + expand(b, (1, 3))", (1, 3)), ("x[:, :1] * b", (1,))])
def test_a_copy_of_the_same_size_is_no_broadcast(text: str, shape: tuple[int, ...]) -> None:
    assert "broadcast" not in " ".join(brief(text, shapes={"x": (1, 3), "b": shape}))


@pytest.mark.slow
def test_more_lines_than_fit_stand_in_section_four() -> None:
    text, shapes = "h = relu(x@w + b); k = tanh(h@u + c); z = k@w2 + b2; sum(z**2)", {"b": (4,), "b2": (2,), "c": (5,)}
    page = symgrad.explain(text, shapes=shapes).to_text()
    opening, _, rest = page.partition("\n1  Forward")
    told = re.search(r"… and (\d+) more lines with .*, in section 4", opening)
    assert told
    section = rest.partition("4  vᵀJ")[2]
    assert "Line by line, each in the names of the lines before it:" in section
    for line in symgrad.explain(text, shapes=shapes, check=False).backward.statements:
        assert str(line) in section
    alone = " ".join(brief(text, shapes=shapes))  # where nothing follows, all lines stand
    assert "section" not in alone
    assert "with v_k = v_z @ w2.T" in alone


@pytest.mark.slow
def test_lines_that_subtract_conditions_run_as_they_are_printed() -> None:
    """torch refuses t13 * (cos >= 0) - t10 of truth values, where the weight 1 is left out."""
    x, y = (torch.tensor(value, requires_grad=True) for value in ([1.0, 2.0], [2.0, 0.5]))
    t = torch.tensor(-1)
    page = symgrad.explain("F.cosine_embedding_loss(x, y, t)", x=[1.0, 2.0], y=[2.0, 0.5], t=-1).to_text()
    section = page.partition("in the names of the lines before it:\n")[2].partition("x.grad[p]")[0]
    known = {**vars(torch), "x": x.detach().clone(), "y": y.detach().clone(), "t": t}
    for line in filter(None, map(str.strip, section.splitlines())):
        exec(line, known)
    torch.nn.functional.cosine_embedding_loss(x, y, t).backward()
    assert_same(x.grad, known["x"].grad, tolerance=1e-6, what="x")
    assert_same(y.grad, known["y"].grad, tolerance=1e-6, what="y")


def test_nothing_is_called_equal_that_was_not_compared() -> None:
    assert not any("Equal to torch" in line for line in brief("x@a", check=False))


def test_the_command_has_a_brief_form_and_derive_has_the_lines() -> None:
    found = CliRunner().invoke(main, ["explain", "x@a", "--seed", str(SEED), "--brief"])
    assert found.exit_code == 0, found.output
    assert "x.grad = v @ a.T" in found.output
    assert "Forward" not in found.output
    derived = CliRunner().invoke(main, ["derive", "P = softmax(q @ k.T, dim=-1); P @ u"]).output
    assert "v_P = v @ u.T" in derived


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("sort(x)[0]", ["at_t1 = sort(x).indices", "x.grad = zeros_like(x).index_add(0, at_t1, v)"]),
        ("max(y, dim=1)[0]", ["at_t1 = max(y, dim=1).indices", "y.grad = v[:, None] * one_hot(at_t1, y.shape[1])"]),
        ("max_pool1d(z, 2)", ["at_out = max_pool1d(z, kernel_size=(2,), return_indices=True)[1]"]),
        ("F.group_norm(z, 2, w, b)", ["xhat = t1.reshape(z.shape)", "z.grad = v_rows.reshape(z.shape)"]),
    ],
)
def test_derive_says_what_was_found_and_names_every_size(text: str, lines: list[str]) -> None:
    shapes = ["--shape", "y=3,4", "--shape", "z=2,4,6", "--shape", "x=n"]
    used = [part for n in (0, 2, 4) for part in shapes[n : n + 2] if shapes[n + 1][0] in find_inputs(text)]
    page = CliRunner().invoke(main, ["derive", text, *used], catch_exceptions=False).output
    assert all(line in page for line in lines), page
    section = page.partition("Line by line")[2]
    assert not re.search(r"(reshape|expand)\([^)]*\b[3-9]\b", section)  # sizes that the page made up for its proof
    assert "No short matrix notation" not in section.partition("w.grad[")[0]


# Runs -----------------------------------------------------------------------------------------------

TRAINING = """
import torch
import torch.nn.functional as F
torch.manual_seed(0)
x, y = torch.randn(6, 5), torch.randint(3, (6,))
W1, b1 = torch.randn(4, 5, requires_grad=True), torch.zeros(4, requires_grad=True)
W2, b2 = torch.randn(3, 4, requires_grad=True), torch.zeros(3, requires_grad=True)
h = F.relu(x @ W1.T + b1)
logits = h @ W2.T + b2
loss = F.cross_entropy(logits, y)
loss.backward()
"""


@pytest.mark.slow
def test_a_training_step_is_told_line_by_line(tmp_path) -> None:
    path = tmp_path / "train.py"
    path.write_text(TRAINING, encoding="utf-8")
    session = run_script(str(path), [], tell=lambda event: None)
    (call,) = session.calls
    assert call.told.forward == (
        "t3 = x @ W1.T + b1",
        "h = relu(t3)",
        "logits = h @ W2.T + b2",
        "loss = cross_entropy(logits, y)",
    )
    assert call.told.lines == (
        "v_logits = (softmax(logits, dim=-1) - one_hot(y, 3)) / 6",
        "v_h = v_logits @ W2",
        "v_t3 = v_h * (t3 > 0)",
    )
    forms = {leaf.name: leaf.form for leaf in call.leaves}
    assert forms == {"W1": "v_t3.T @ x", "b1": "v_t3.sum(0)", "W2": "v_logits.T @ h", "b2": "v_logits.sum(0)"}
    assert call.agrees

    text = event_text(call)
    plain = re.sub(" +", " ", text)  # the = stand below each other
    assert all(line in plain for line in (*call.told.forward, *call.told.lines))
    wide = event_text(call, 120).splitlines()
    assert [line for line in wide if "t3 " in line and "v_logits = (softmax" in line]  # forward and backward
    assert "backward: v_name is ∂loss/∂name" in text
    lengths = dict(re.findall(r"(v_\w+) ([\d.e-]+)", call.told.flow))
    assert call.told.source is not None
    for line in call.told.source.lines:
        assert_same(np.linalg.norm(line.value), float(lengths[line.name]), tolerance=1e-2, what=line.name)


def test_a_call_is_written_as_python_that_runs(tmp_path) -> None:
    path = tmp_path / "train.py"
    path.write_text(TRAINING, encoding="utf-8")
    found = CliRunner().invoke(main, ["run", "--code", "1", str(path)])
    assert found.exit_code == 0, found.output
    space: dict[str, object] = {}
    exec(found.output, space)
    scene: dict[str, object] = {}
    exec(TRAINING, scene)
    given = [scene[name].detach() for name in ("x", "W1", "b1", "W2", "b2", "y")]
    for name, gradient in zip(("W1", "b1", "W2", "b2"), space["backward"](*given), strict=True):
        assert_same(scene[name].grad, gradient, tolerance=1e-5, what=name)
    missing = CliRunner().invoke(main, ["run", "--code", "7", str(path)])
    assert missing.exit_code == 2
    assert "no call 7" in missing.output


@pytest.mark.slow
def test_a_long_program_is_told_line_by_line_only_where_it_is_asked_for(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(story_lines, "MOST_STEPS", 3)
    path = tmp_path / "train.py"
    path.write_text(TRAINING, encoding="utf-8")
    (call,) = run_script(str(path), [], tell=lambda event: None).calls
    assert not call.told.lines
    assert "not shown line by line" in event_text(call)
    (asked,) = run_script(str(path), [], tell=lambda event: None, call=1).calls
    assert asked.told.lines


LONG = """import torch
from torch import nn
torch.manual_seed(0)
net = nn.LSTM(3, 4, bidirectional=True)
out, _ = net(torch.randn(40, 2, 3))
loss = out.square().mean()
loss.backward()
"""


@pytest.mark.slow
def test_an_unrolled_layer_of_over_a_thousand_steps_is_told_as_one_turn(tmp_path) -> None:
    path = tmp_path / "long.py"
    path.write_text(LONG, encoding="utf-8")
    (call,) = run_script(str(path), [], tell=lambda event: None).calls
    story = event_text(call)
    assert story.count("lines 39 times first, with ") == 2
    assert story.count(" times more, with ") == 2
    assert len(story.splitlines()) < 150


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ([("v_h", 1.0), ("v_t", 0.5)], ""),
        ([("v_h", 1.0), ("v_t", 1e-9)], "vanishes: from v_h to v_t its norm shrinks by a factor of 1e+09"),
        ([("v_h", 1.0), ("v_t", 1e9)], "explodes: from v_h to v_t its norm grows by a factor of 1e+09"),
        ([("v_h", 1.0), ("v_t", 0.0), ("v_s", 0.0)], "vanishes at v_t"),
        ([("v_h", 1.0), ("v_masked", 0.0), ("v_s", 0.5)], ""),
        ([("v_h", 1.0), ("v_t", 1e-9), ("v_s", 0.5)], ""),
        ([("v_h", 1.0), ("v_masked", 0.0), ("v_s", 1e-8)], "vanishes: from v_h to v_s"),
        ([("v_h", 0.0), ("v_t", 0.0)], ""),
        ([], ""),
    ],
)
def test_a_gradient_that_vanishes_is_named_where_it_does(lengths: list[tuple[str, float]], said: str) -> None:
    found = warn_of_norms(lengths)
    assert said in found
    assert bool(said) == bool(found)


def test_a_long_way_back_is_told_by_its_ends() -> None:
    told = format_norm_flow([(f"v_{n}", float(n)) for n in range(20)])
    assert told.startswith("v_0 0 → v_1 1")
    assert "… 12 more" in told
    assert told.endswith("v_19 19")


@pytest.mark.slow
def test_a_line_that_nobody_would_read_gives_way_to_its_formula() -> None:
    """Array operations are for programs; the answer has the index formula, or says how long the line is."""
    pooled = symgrad.explain("F.avg_pool2d(x, 2, ceil_mode=True)", shapes={"x": (1, 1, 4, 4)}, check=False)
    assert "arange" in pooled.backward.code()
    assert "x.grad[p,q,r,s] = Σ_i" in pooled.to_text(brief=True)
    assert "arange" not in pooled.to_text(brief=True)
    longer_turned = symgrad.explain("torch.fft.fft(x, n=6).real", shapes={"x": (4,)}, check=False)
    assert "x.grad[p] = [p < 6]·Σ_i cos(π·p·i/3)·v[i]" in longer_turned.to_text(brief=True)
    turned = symgrad.explain("torch.fft.fft(x).real", shapes={"x": (4,)}, check=False)
    assert "x.grad = torch.fft.fft(v).real\n" in turned.to_text(brief=True)
    text = "quantile(x * 2, 0.3) * y * exp(quantile(y * x[0], 0.3))"
    longer = symgrad.explain(text, shapes={"x": (4,), "y": (3,)}, check=False).to_text(brief=True)
    assert re.search(r"with v_t\d = …  # \d+ characters of code", longer)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x @ a", ["x.grad = v @ a.T", "a.grad = x.T @ v"]),
        ("softmax(x, dim=-1)", ["x.grad = out * (v - (v * out).sum(-1, keepdim=True))"]),
        ("F.layer_norm(x, (4,))", ["x.grad = r * (", "with r = "]),
        ("h = relu(x @ w); h @ u", ["x.grad = ", "w.grad = ", "u.grad = "]),
        ("out[i] = sum_j x[i+j]*w[j]", ["x.grad = conv_transpose1d(", "w.grad = conv1d("]),
    ],
)
def test_derive_opens_with_the_lines_of_the_gradients(text: str, lines: list[str]) -> None:
    opening = CliRunner().invoke(main, ["derive", text]).output.partition("\n1  Forward")[0].splitlines()
    assert len(opening) <= 8
    assert [next((told for told in opening if line in told), None) for line in lines].count(None) == 0, opening


READ_ONLY = {
    "F.nll_loss(x, t)": "t", "x[i] * y": "i", "torch.where(m, x, y)": "m", "x.gather(1, i)": "i",
    "F.embedding(i, x)": "i", "x.masked_fill(m, 0)": "m", "x.scatter_add(0, i, y)": "i",
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", READ_ONLY)
def test_positions_classes_and_masks_have_no_gradient_unless_asked_for(text: str) -> None:
    name, program = READ_ONLY[text], symgrad.derive(text)[0]
    others = [t.name for t in program.inputs if t.name != name]
    said = f"{name} is read as positions, classes or a mask: it gets no gradient."
    found = symgrad.explain(text, check=False, **{name: "zeros"})
    assert list(found.gradients) == others
    assert said in " ".join(found.to_text().split())
    page = symgrad.explain(text, check=False, wrt=name, **{name: "zeros"})
    assert list(page.gradients) == [name]
    assert not np.any(page.gradients[name].value)
    assert said not in " ".join(page.to_text().split())


@pytest.mark.parametrize("text", ["F.one_hot(i, 4)", "round(x)", "(x > y) * 1", "x.detach() * y"])
def test_a_number_that_nothing_flows_to_keeps_its_gradient_of_0(text: str) -> None:
    assert list(symgrad.explain(text, check=False).gradients) == [t.name for t in symgrad.derive(text)[0].inputs]


@pytest.mark.slow
def test_a_line_that_no_code_says_stands_among_the_others(tmp_path) -> None:
    path, said = tmp_path / "script.py", []
    path.write_text(
        "import torch\nx = torch.randn(1, 2, 3, 3, requires_grad=True)\na = torch.relu(x)\n"
        "torch.nn.functional.interpolate(a, scale_factor=2, mode='bilinear').square().sum().backward()\n",
        encoding="utf-8",
    )
    run_script(str(path), [], tell=lambda event: said.append(event_text(event)))
    assert "v_a  = …  # no array operations of torch express this" in "".join(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("norm(x, dim=1)", "out[i] = √(Σ_j x[i,j]²)\n"),  # and no [out[i] ≠ 0]: a definition does not read itself
        ("cdist(x, y)", "X.grad[p,q] = Σ_j v[p,j]·[out[p,j] ≠ 0]·(X[p,q] − Y[j,q]) / out[p,j]\n".replace("X", "x").replace("Y", "y")),
        ("max(x, dim=1)[0]", "x.grad[p,q] = [n_t1[p] = q]·v[p]\n"),  # n is a size: x m×n
    ],
)  # fmt: skip
def test_an_equation_defines_and_has_no_number_that_cancels(text: str, said: str) -> None:
    page = CliRunner().invoke(main, ["derive", text], catch_exceptions=False).output
    assert said in page
