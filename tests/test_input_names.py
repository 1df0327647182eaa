"""Any identifier may be an input: what a page calls v, out, L and J gets another name there, and so everywhere."""

from __future__ import annotations

import json
import re
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
from click.testing import CliRunner

import symgrad
from symgrad import InputError, NotationError
from symgrad.render import schema
from symgrad.render.letters import letters_of
from symgrad.tracing.session import zero_reasons
from symgrad_cli.main import main
from tests.compare import assert_same
from tests.contract.stories import stories_of

USUAL = ("x", "y", "v", "out", "L", "J")
TEXTS = ("x @ y", "tanh(x) * y", "softmax(x @ y, -1)", "h = relu(x @ y); v_h = h * h; v_h + x.sum()")
PAIRS = (
    ("v", "k"), ("q", "v"), ("out", "a"), ("v", "out"), ("L", "J"), ("J", "v"), ("g", "v"), ("out", "y"), ("i", "j"),
    ("p", "q"), ("k", "δ"), ("sum", "exp"), ("S", "N"), ("E", "I"), ("pi", "e"), ("x00", "x"), ("t1", "t2"),
    ("v_h", "v_t1"), ("loss", "L"), ("v_2", "v"), ("Σ", "Π"), ("m", "n"), ("dim", "print"), ("λ", "μ"),
    ("input", "other"), ("inf", "nan"), ("w_1", "b_1"),
)  # fmt: skip


def page(text: str, names: dict[str, str], **options: Any) -> symgrad.Explanation:
    own = re.sub(r"\b[xy]\b", lambda m: names[m[0]], text)
    shapes = {names["x"]: (2, 2), names["y"]: (2, 2)}
    values = {names["x"]: [[1, 2], [3, -4]], names["y"]: [[2, 0], [1, 3]]}
    return symgrad.explain(own, shapes=shapes, **values, **options)


def called(found: symgrad.Explanation, x: str, y: str) -> dict[str, str]:
    """What the page with inputs x and y calls what the usual one calls so."""
    letters = letters_of(found.program)
    return dict(zip(USUAL, (x, y, letters.seed, letters.output, letters.loss, letters.jacobian), strict=True))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("pair", PAIRS, ids=ascii)
def test_whatever_inputs_are_called_the_numbers_are_the_same(pair: tuple[str, str]) -> None:
    text = TEXTS[2] if pair in (("sum", "exp"), ("v", "out")) else TEXTS[0]
    names = dict(zip("xy", pair, strict=True))
    usual, other = page(text, {"x": "x", "y": "y"}, check=False), page(text, names, check=False)
    for name, own in names.items():
        assert_same(usual.gradients[name].value, other.gradients[own].value)
        assert other.gradients[own].closed_form is not None


@pytest.mark.one_in(2)
@pytest.mark.parametrize("pair", [*PAIRS[:6:2], ("v_h", "v_t1")], ids=ascii)
def test_every_oracle_agrees_whatever_inputs_are_called(pair: tuple[str, str]) -> None:
    found = page(TEXTS[3], dict(zip("xy", pair, strict=True)))
    assert found.passed
    assert found.checked
    for check in (check for gradient in found.gradients.values() for check in gradient.checks):
        assert check.passed is not False, check
    assert not {found.program.seed, found.program.output} & set(pair)
    data = json.loads(found.to_json())
    jsonschema.validate(data, schema())
    assert data["seed"].get("name", "v") == found.program.seed
    assert data["output"].get("name", "out") == found.program.output


@pytest.mark.one_in(4)
@pytest.mark.parametrize("write", ["to_text", "to_markdown", "to_latex"])
@pytest.mark.parametrize(("text", "pair"), [(TEXTS[0], ("v", "z")), (TEXTS[1], ("L", "J")), (TEXTS[2], ("z", "v"))])
def test_the_page_is_the_usual_one_under_other_names(text: str, pair: tuple[str, str], write: str) -> None:
    usual = page(text, {"x": "x", "y": "y"}, check=False, order=1)
    other = page(text, dict(zip("xy", pair, strict=True)), check=False, order=1)
    names = called(other, *pair)
    assert words(getattr(other, write)()) == words(getattr(usual, write)(), names)


def words(text: str, names: dict[str, str] | None = None) -> list[str]:
    """The words and signs of a page under other names, but for the paragraph about names and the width of lines."""
    text = re.sub(r"On this page [^.]*\.", "", text)
    text = re.sub(r"\\mathrm\{(\w+)\}", r"\1", text)
    found = re.findall(r"\\?[A-Za-z]+|[0-9.]+|[^\sA-Za-z0-9]", text)
    found = [(names or {}).get(word, word) for word in found]
    return [word for word in found if not re.fullmatch(r"[-─│┼|{}&:]+|\\[qa]?quad", word)]


@pytest.mark.one_in(10)
@pytest.mark.parametrize(
    "name", [*string.ascii_letters, *"αβγδεθλσωΩ", "ß", "x1", "变量", "_", "self", "match", "type"]
)
def test_every_letter_is_an_input(name: str) -> None:
    if name == "F":
        return
    program, derived = symgrad.derive(f"{name} * w2")
    assert derived[0].form is not None
    assert program.seed not in (name, "w2")
    assert name in CliRunner().invoke(main, ["derive", f"{name} * w2"], catch_exceptions=False).stdout


def test_names_of_modules_and_keywords_are_refused() -> None:
    for word in ("torch", "F", "np"):
        with pytest.raises(symgrad.UnknownNameError, match="means "):
            symgrad.explain(f"{word} * x")
    for word in ("lambda", "if", "class"):
        with pytest.raises(NotationError, match="keyword"):
            symgrad.explain(f"{word} * x")


def test_the_page_says_what_is_called_otherwise() -> None:
    said = symgrad.explain("v @ k", check=False).to_text()
    assert "the seed of backward is called g, since v is taken" in said
    assert "gᵀJ" in said
    assert "called" not in symgrad.explain("x @ a", check=False).to_text().splitlines()[2]


def test_a_loss_downstream_finds_letters_of_its_own() -> None:
    found = symgrad.explain(
        "x @ a", then="sum((out - v)**2) + L", shapes={"x": (2, 2)}, a=[[1, 2], [3, 5]], v=[[1, 2], [3, 4]], L=2
    )
    assert found.passed
    assert found.program.seed == "g"
    assert found.downstream is not None
    assert found.downstream.program.output == "loss"
    said = found.to_text()
    assert "g[i,j] = ∂loss/∂out[i,j] = 2·(out[i,j] − v[i,j])" in said
    with pytest.raises(InputError, match="then calls the output out"):
        symgrad.explain("x @ out", then="sum(out)")


def test_second_derivatives_under_other_names() -> None:
    usual = symgrad.hessian("sum(x * x * a)", "x", x=[1, 2], a=[3, 4])
    other = symgrad.hessian("sum(v * v * out)", "v", v=[1, 2], out=[3, 4])
    assert_same(usual.value, other.value)
    assert other.passed
    assert_same(np.asarray([2, 0]), symgrad.hvp("sum(v * v * L)", "v", [1, 0], v=[1, 2], L=[1, 1]))


@pytest.mark.slow
def test_captured_programs_keep_a_tensor_called_v() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.mT, -1) @ v

    given = [torch.randn(2, 3, generator=torch.Generator().manual_seed(n), dtype=torch.float64) for n in range(3)]
    program = symgrad.capture(attend, *given)
    assert program.inputs == ("q", "k", "v")
    assert str(program.operations[-1]).endswith("@ v")
    assert program.closed_form("v") == "softmax(q @ k.T, dim=1).T @ g"
    code = program.backward(torch.ones(2, 3)).code()
    assert "def backward(q, k, v, g):" in code
    assert "the seed of backward is called g, since v is taken" in program.explain().to_text()


V_TAKEN = "import torch\nv = torch.tensor([0.0, 2.0], requires_grad=True)\n"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("y = v.relu()\ny.backward(torch.ones(2))\n", "the slope of Σ g·y is 0 on the left, 1 on the right"),
        (
            "y = v * 2\nfor _ in range(2):\n    y = v * 2\n    y.backward(torch.ones(2))\n",
            "Two calls with g₁ and g₂ add what one with g₁ + g₂ adds",
        ),
        ("y = v.round()\ny.backward(torch.ones(2))\n", "gᵀJ with respect to v is 0"),
        ("v.register_hook(lambda n: 2 * n)\n(v * 3).backward(torch.ones(2))\n", "what the hook returns for gᵀJ"),
        ("y = v * v.detach()\ny.backward(torch.ones(2))\n", "for g = ones"),
    ],
)
def test_notes_of_a_run_call_the_seed_as_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, says: str
) -> None:
    found = zero_reasons.find_kinks  # as if the kink were one of the weighted output itself
    monkeypatch.setattr(zero_reasons, "find_kinks", lambda *of: [replace(tie, whole=True) for tie in found(*of)])
    script = tmp_path / "script.py"
    script.write_text(V_TAKEN + lines)
    said = " ".join("\n".join(stories_of(script)).split())
    assert says in said
    assert not any(other in said for other in ("vᵀJ", "v₁", "Σ v"))


def test_a_story_calls_the_seed_otherwise_where_the_script_has_a_v(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nv = torch.ones(2, requires_grad=True)\ny = v * v\ny.backward(torch.tensor([3.0, 4.0]))\n"
    )
    said = "\n".join(stories_of(script))
    assert "g = 3 4 (given): L = 3·y[0] + 4·y[1]" in said
    assert "gᵀJ" in said
    assert "v is a tensor of the script, so the seed is called g here" in said


def test_what_an_index_reads_twice_has_names_that_are_names(tmp_path: Path) -> None:
    """The rows of each expert: ``x[row]_2`` is no name, and ``x[row] 2`` no Python."""
    script = tmp_path / "experts.py"
    script.write_text(
        "import torch\nx, w = torch.ones(4, 2), torch.ones(2, requires_grad=True)\nout = 0\n"
        "for row in (torch.tensor([0, 1]), torch.tensor([2])):\n    out = out + (x[row] @ w).sum()\nout.backward()\n"
    )
    (told,) = stories_of(script)
    assert "data: x[row]" in told
    assert "]_2" not in told
