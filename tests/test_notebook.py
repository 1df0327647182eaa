"""What notebooks show: every form is there, in itself complete, and says the numbers."""

from __future__ import annotations

import base64
import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import symgrad
from symgrad.errors import file_or_cell_name
from symgrad.testing import check_backward
from tests.forum import forum

EVIL = "<script>alert(1)</script>"


def everything() -> dict[str, Any]:
    """One of each kind."""
    explanation = forum()
    captured = symgrad.capture(lambda x: torch.tanh(x * 2).sum(), torch.ones(3))
    report = check_backward(lambda x: x * 2, "x*2", x=torch.tensor([1.0, 2.0]))
    return {
        "explanation": explanation, "jacobian": explanation.gradients["x"].jacobian,
        "backward": explanation.backward, "captured": captured, "report": report,
    }  # fmt: skip


SAID = {
    "explanation": "v @ a.T", "jacobian": "8 by 6", "backward": "x.grad = v @ a.T", "captured": "tanh",
    "report": "passes",
}  # fmt: skip


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    return everything()


@pytest.mark.parametrize("kind", SAID)
def test_every_form_is_there_and_says_it(shown: dict[str, Any], kind: str) -> None:
    found = shown[kind]
    html = found._repr_html_()
    assert SAID[kind] in html
    closed = re.sub(r"(<img [^>]*)>", r"\1/>", html)
    ElementTree.fromstring(f"<div>{closed}</div>")
    assert found._repr_markdown_()
    latex = found._repr_latex_()
    assert latex.count("{") - latex.count(r"\{") == latex.count("}") - latex.count(r"\}")


def test_the_picture_in_a_notebook_is_an_image_with_words(shown: dict[str, Any]) -> None:
    html = shown["explanation"]._repr_html_()
    picture = base64.b64decode(re.search(r"base64,([\w+/=]+)", html)[1]).decode()
    assert picture == shown["explanation"].to_svg()
    assert "x.grad is 10, 10, 10, 26, 26, 26." in re.search(r'alt="([^"]*)"', html)[1]


def test_what_a_user_wrote_is_no_markup(shown: dict[str, Any]) -> None:
    for kind in ("explanation", "report"):
        changed = dataclasses.replace(shown[kind], expression=EVIL)
        assert EVIL not in changed._repr_html_()


def test_a_captured_program_is_a_picture_of_what_flows_back() -> None:
    weight = torch.nn.Linear(3, 2)
    program = symgrad.capture(lambda x: torch.tanh(weight(x)).sum(), torch.ones(4, 3))
    picture = program.to_svg()
    ElementTree.fromstring(picture)
    lengths = {match[0]: float(match[1]) for match in re.findall(r"from [\w.]+ to ([\w.]+) (\d[\d.e-]*\d|0)", picture)}
    found = program.pullback()
    for name in program.inputs:
        wanted = float((found[name] ** 2).sum() ** 0.5)
        assert lengths[name] == pytest.approx(wanted, rel=1e-4), name


def test_what_a_console_shows_is_one_short_line() -> None:
    """`repr` of a frozen class is all that it holds: the program, its symbols, its numbers."""
    result = symgrad.explain("x@A@x", x=[1, 2], wrt="x", order=2)
    x = result.gradients["x"]
    report = check_backward(torch.tanh, "tanh(2*x)", x=torch.ones(2))
    for shown, said in (
        (x, "<x.grad = v * ((A + A.T) @ x)>"),
        (x.jacobian, "<Jacobian 1×2: a row for each entry of out, a column for each of x>"),
        (result.hessian("x"), "<Hessian 2×2 by x, twice>"),
        (x.entry((1,)), "<x.grad[1] = 2.09, 2 terms>"),
        (x.checks[-1], "<the closed form, read back and evaluated: agrees>"),
        (report, "<this is not the backward of 'tanh(2*x)': forward>"),
    ):
        assert repr(shown) == said


def test_a_cell_is_named_as_the_notebook_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = pytest.importorskip("IPython.core.compilerop").CachingCompiler()
    cell = compiler.cache("def back(v, x):\n    return v * (1 - x)\n", number=7)
    shell = SimpleNamespace(compile=compiler)
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    assert (file_or_cell_name(cell), file_or_cell_name("/a/b/mlp.py")) == ("In[7]", "mlp.py")


@pytest.fixture
def shell() -> Any:
    """A shell of IPython as a notebook has it, in which symgrad is loaded."""
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    found = interactive.InteractiveShell(colors="nocolor", history_length=0)
    found.run_cell("%load_ext symgrad")
    return found


def test_a_cell_is_told_as_a_script_is(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("import torch; x = torch.tensor([1., 2.], requires_grad=True)")
    shell.run_cell("%%symgrad\ny = (x*x).sum()\ny.backward()\nprint(x.grad)")
    told = capsys.readouterr().out
    assert ":2  y.backward()" in told
    assert "x  1×2 row  2 * x" in told
    assert "tensor([2., 4.])" in told
    assert shell.user_ns["y"].item() == 5
    shell.run_cell("%%symgrad\n%pwd\nz = x * 2")
    assert "no backward() or grad() ran" in capsys.readouterr().out


def test_what_a_cell_raises_is_its_own(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("import torch; x = torch.tensor([1., 2.], requires_grad=True)")
    ran = shell.run_cell("%%symgrad\nz = x.relu()\nz.backward()")
    assert isinstance(ran.error_in_exec, RuntimeError)
    told = capsys.readouterr().out
    assert "z has 2 elements" in told
    frames = re.findall(r"File (\S+?):\d+", told)
    assert frames
    home = Path(symgrad.__file__).parent  # not a word of the path: a checkout may be called so, with its environment
    assert sum(frame.startswith(f"{home}/") for frame in frames) <= 1, frames


def test_a_notebook_shows_the_message_of_an_error_and_no_frames(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("import symgrad; symgrad.explain('softmaks(x)')")
    told = "".join(capsys.readouterr())
    assert "symgrad knows no function softmaks" in told
    assert "softmax" in told
    assert "File " not in told


def test_a_module_and_its_inputs_are_explained() -> None:
    model = torch.nn.Linear(3, 2)
    given = torch.arange(12.0).reshape(4, 3)
    found = symgrad.explain(model, given, seed=torch.ones(4, 2))
    assert found.passed
    assert found.gradients["weight"].closed_form == "v.T @ input"
    assert symgrad.explain(torch.tanh, torch.ones(2)).passed


@pytest.mark.parametrize("options", [{"then": "sum(out)"}, {"shapes": {"x": (2,)}}, {"expand": True}])
def test_what_a_function_does_not_take_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(symgrad.InputError, match="a function takes no"):
        symgrad.explain(torch.tanh, torch.ones(2), **options)


def test_values_of_a_text_without_names_are_refused() -> None:
    with pytest.raises(symgrad.InputError, match="by name"):
        symgrad.explain("x*2", [1, 2])
