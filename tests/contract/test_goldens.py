"""What people see whole: what commands print, in every format, the stories of scripts, the text of two networks.

Each is kept under ``golden/``, to be read as a page and reviewed as a difference; SYMGRAD_UPDATE_GOLDENS=1 writes it.
"""

from __future__ import annotations

import os
import re
import shlex
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from sphinx.cmd.build import build_main
from sphinx.util.docutils import docutils_namespace
from torch import nn

import symgrad
from symgrad_cli.main import main
from tests.networks import LENET

GOLDEN = Path(__file__).parent / "golden"
LONG = (
    "41-rarer-operations", "44-complex-calls", "45-complex-matrices", "46-calls-of-layers", "more_slips",
    "layers_and_losses",
)  # fmt: skip
"""Each takes as long as ten others. What the stories call is captured under ``python/``."""


def texts_in(folder: str) -> list[Any]:
    """The files of one kind; each in a process of its choice, as together they take as long as all other tests."""
    found = []
    for path in sorted((GOLDEN / folder).glob("*.txt")):
        alone = pytest.mark.xdist_group(f"{folder}/{path.stem}")
        found.append(pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in LONG else alone))
    return found


STORIES, ANSWERS, PRINTED = texts_in("run"), texts_in("answers"), texts_in("python")


def assert_kept(path: Path, found: str, before: str = "") -> None:
    """A file has ``found``, behind what it begins with."""
    if os.environ.get("SYMGRAD_UPDATE_GOLDENS"):
        path.write_text(before + found, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == before + found, (
        "SYMGRAD_UPDATE_GOLDENS=1 writes it, see the head of the file"
    )


def steady(text: str) -> str:
    """``text`` without what differs from one installation to the next; of a page, without how it looks and computes."""
    if text.startswith("<!DOCTYPE html>"):
        text = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", text).replace("><", ">\n<")
    text = re.sub(r"\d+\.\d{6,}(e-?\d+)?", lambda found: f"{float(found[0]):.4g}", text)
    text = re.sub(r"(?<=[ &|] )\de-1[5-7]\b", "equal", text)  # a processor's sine may end in another digit
    text = re.sub(r'("(?:max|relative)_error": )(?:0\.0|[\d.]+e-(?:0[7-9]|1\d))\b', r"\1ROUNDING", text)
    text = re.sub(r" \(largest difference \S+( of the largest entry)?\)", "", text)  # in its last digits
    return re.sub(r'(torch:?\s+"?)\d+\.\d+\.\d+|("torch": ")\d+\.\d+\.\d+', r"\1\2VERSION", text)


def read_of(page: str) -> str:
    """What is read on a page: a line for each paragraph, row or item, without what marks it up and computes."""
    text = re.sub(r"(?s)<(script|style|annotation)\b.*?</\1>", "", page)
    text = re.sub(r"</?(?:p|div|h\d|li|tr|pre|section|figure|header|summary|dt|dd)\b[^>]*>", "\n", text)
    lines = (" ".join(line.split()) for line in unescape(re.sub(r"<[^>]*>", " ", text)).split("\n"))
    return "".join(f"{line}\n" for line in lines if line)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("path", ANSWERS)
def test_what_commands_print(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command with all that it prints, errors too."""
    kept, told = path.read_text(encoding="utf-8"), ""
    monkeypatch.chdir(tmp_path)
    for command in re.findall(r"(?m)^\$ symgrad (.*)", kept):
        ran = CliRunner(env={"COLUMNS": "100"}).invoke(main, shlex.split(command), catch_exceptions=False)
        told += f"$ symgrad {command}\n{f'exit {ran.exit_code}: ' if ran.exit_code else ''}{steady(ran.output)}\n"
    assert_kept(path, told)


@pytest.mark.parametrize("path", PRINTED)
def test_what_lines_of_python_print(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lines, a line of dashes, and what they print."""
    source, dashes, _ = path.read_text(encoding="utf-8").partition("-----\n")
    exec(compile(source, path.name, "exec"), {})
    assert_kept(path, steady(capsys.readouterr().out), source + dashes)


REFUSED = [
    "out[i] = x[i] y[i]", "out[i] = x[i][j]", "out[i] = 2x[i]", "out[i] = sum_j x[j", "out[i] = Σ_i x[i]", "out[i] = x[i+1/2]",
    "out[i] = x[j]", "out[i,i] = x[i]", "out[i] = sin x[i]", "out[i] = x[i]^", "out[i] = foo(x[i])", "out[i] = sum_j<3 x[j]",
    "out = sum_i x[i]*y[i,", "out[i] = x[i] if x[i] > 0", "out[n-i] = x[i]", "out[i] = x[i] + 1.2.3", "x.sum(dim=2.5)", "x[1.5]", "x[::0]",
    "x.reshape(4, -1, -1)", "x.view(2)*torch.ones(3)", "softmax(x, dim=7)", "x @ x @", "x.T()", "torch.zeros(2)(x)", "x.foo", "len(x)",
    "x.permute(0, 0)", "F.conv2d(x, w, stride=0)", "x.sum(0, 0)", "torch.cat(x)", "einsum('ij,jk', x)", "einsum('ii->j', x)", "x.expand(2,",
    "one_hot(x)", "x if y else z", "x = 3; x(2)", "x := 3", "torch.sum(x, dim=0, axis=1)", "softmaks(x)", "x@a; y@", "x.unflatten(0, (2, 3)).view(5)",
    "torch.block_diag(2)", "x.masked_fill(2)", "F.interpolate(x, mode='cubic')", "torch.cross(x, x, dim=9)", "x[[0, 1.5]]",
]  # fmt: skip


def test_what_is_said_of_what_cannot_be_read() -> None:
    """What is wrong, where, and what would do."""
    told = []
    for text in REFUSED:
        with pytest.raises(symgrad.SymgradError) as caught:
            symgrad.derive(text)
        told.append(f"{text}\n{caught.value}\n\n")
    assert_kept(GOLDEN / "refused.txt", "".join(told))


DOCUMENTED = """
Foreign
=======
The product: :symgrad:`x@a -> x.grad = v @ a.T`.

.. symgrad:: x@a
   :seed: [[1,2,3,4],[5,6,7,8]]
   :show: answer equation jacobian seed backward entries proof text
   :claims: x.grad = v @ a.T
            x.grad = [[10,10,10],[26,26,26]]
            x.jacobian = 8×6
   :says: Equal to torch

.. symgrad:: x@a
   :let: x=[[1,2]]
         a=[[1,2,3]]
   :raises: shape

.. symgrad-python::
   :raises: grad can be implicitly created only for scalar outputs

   import torch
   x = torch.ones(2, requires_grad=True)
   (x * 2).backward()

.. symgrad-run::
   :says: L = out[0] + out[1]

   import torch
   x = torch.ones(2, requires_grad=True)
   (x * 2).backward(torch.ones(2))
"""
WRONG = {"-> x.grad = v @ a.T": "-> x.grad = a @ v", "26,26,26": "26,26,27", "8×6": "6×8", "Equal to torch": "nothing like it",
         ":raises: shape": ":raises: name", "only for scalar": "for no scalar", "+ out[1]": "+ out[2]"}  # fmt: skip


@pytest.mark.parametrize("true", [True, False])
def test_documentation_by_sphinx_shows_what_is_true_and_ends_at_what_is_not(
    true: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = DOCUMENTED
    for said, other in {} if true else WRONG.items():
        text = text.replace(said, other)
    (tmp_path / "conf.py").write_text('project, extensions = "foreign", ["symgrad.sphinx"]\n', encoding="utf-8")
    (tmp_path / "index.rst").write_text(text, encoding="utf-8")
    with docutils_namespace():
        status = build_main(["-q", "--no-color", str(tmp_path), str(tmp_path / "out")])
    told = capsys.readouterr().err.replace(str(tmp_path), "FOLDER")
    told = "\n".join([found[0] for found in re.finditer(r"(?m)^ERROR: .*(?:\n    .*)*", told)])
    if true:
        page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
        told += read_of("<p" + page.partition('<div class="body"')[2].partition('<div class="clearer"')[0])
    assert (status == 0) is true
    assert_kept(GOLDEN / f"sphinx-{'true' if true else 'wrong'}.txt", steady(told))


@pytest.mark.parametrize("style", ["md", "html"])
def test_the_page_of_an_operation(style: str, tmp_path: Path) -> None:
    """With its index, as files to put elsewhere and as a site."""
    ran = CliRunner().invoke(main, ["docs", str(tmp_path / "pages"), "--ops", "relu,mv", "--format", style])
    assert ran.exit_code == 0, ran.output
    page = (tmp_path / "pages" / {"md": "ops/relu.md", "html": "op-relu.html"}[style]).read_text(encoding="utf-8")
    article = page.partition("<article")[2].partition("</article>")[0]  # the rest is the theme's
    assert_kept(GOLDEN / f"relu-{style}.txt", steady(read_of(f"<article{article}") if style == "html" else page))


@pytest.mark.one_in(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", STORIES)
def test_the_stories_of_a_script(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script, with the options in its first line where it has some, a line of dashes, and what is told of it."""
    monkeypatch.chdir(tmp_path)
    source, dashes, _ = path.read_text(encoding="utf-8").partition("-----\n")
    Path("script.py").write_text(source, encoding="utf-8")
    options = " ".join(re.findall(r"\A# symgrad run (.*)", source)).split()
    precision = torch.get_default_dtype()
    try:
        ran = CliRunner().invoke(main, ["run", *options, "-o", "told.txt", "script.py"], catch_exceptions=False)
    finally:
        torch.set_default_dtype(precision)
    told = Path("told.txt").read_text(encoding="utf-8").replace(str(tmp_path), "FOLDER")
    assert ran.exit_code == int("Traceback" in ran.stderr or "≠ torch" in told), ran.output  # some end in torch's error
    assert_kept(path, steady(told), source + dashes)


def test_there_are_enough_stories() -> None:
    assert len(STORIES) >= 15


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["lenet", "transformer"])
def test_the_text_of_a_program(name: str) -> None:
    """What `repr` shows of two networks that everybody knows."""
    torch.manual_seed(0)
    if name == "lenet":
        space: dict[str, Any] = {"torch": torch, "nn": nn}
        exec(compile(LENET.partition("torch.manual_seed")[0], "lenet", "exec"), space)
        program = symgrad.capture(space["Net"](), torch.randn(1, 1, 32, 32))
    else:
        layer = nn.TransformerEncoderLayer(d_model=16, nhead=2, dim_feedforward=32, dropout=0.0, batch_first=True)
        program = symgrad.capture(layer, torch.randn(2, 5, 16))
    assert_kept(GOLDEN / f"program-{name}.txt", f"{program!r}\n")
