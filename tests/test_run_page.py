"""The page of a run: the source beside the story, every line of it derived, bounded however long the run was."""

from __future__ import annotations

import contextlib
import html
import io
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import symgrad
from symgrad.render.html import pieces
from symgrad.tracing import run_script
from symgrad.tracing.record.trace import SourceLine
from symgrad.tracing.story.events import CallEvent, Note, Session
from symgrad.tracing.story.session_pages import MOST_CALLS, MOST_LINES, MOST_SHORT, session_html
from symgrad_cli.main import main
from tests.test_html import Reader

TRAIN = """\
import torch
torch.manual_seed(0)
x, y = torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
W1, b1 = torch.randn(5, 3, requires_grad=True), torch.zeros(5, requires_grad=True)
W2 = torch.randn(2, 5, requires_grad=True)
for step in range(4):
    W1.grad = b1.grad = W2.grad = None
    h = torch.relu(x @ W1.T + b1)
    loss = torch.nn.functional.cross_entropy(h @ W2.T, y)
    loss.backward()
try:
    (W1 * 2).backward()
except RuntimeError:
    print("it's <refused> & goes on")
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Session:
    path = tmp_path_factory.mktemp("run") / "train.py"
    path.write_text(TRAIN, encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()):
        return run_script(str(path), [], pictures=True)


def texts(page: str) -> str:
    """What can be read, without marks."""
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def test_the_source_stands_beside_every_line_of_the_backward(trained: Session) -> None:
    page = session_html(trained)
    found = Reader(page)
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    assert all(address.startswith("data:") for address in found.addresses)
    shown = texts(page)
    for line in TRAIN.splitlines():
        assert line in shown
    first = trained.calls[0]
    for line in (*first.told.forward, *first.told.lines):
        assert line in shown, line
    for leaf in first.leaves:
        assert leaf.form
        assert f"{leaf.name}.grad = {leaf.form}" in shown
    assert "grad can be implicitly created only for scalar outputs" in shown
    assert "2 more calls of the same program" in shown
    assert "1 further call with the same operations and sizes, counted only" in shown
    assert "def backward(" in shown


def test_lines_are_tied_to_the_source_that_made_them(trained: Session) -> None:
    page = session_html(trained)
    rows = TRAIN.splitlines()
    tied = re.findall(r'data-(makes|of)="(\w+)"[^>]*data-at="file-0-(\d+)"', page)
    assert ("makes", "h") in {(kind, name) for kind, name, _ in tied}
    for _, name, line in tied:
        if name in ("h", "loss"):
            assert rows[int(line) - 1].strip().startswith(f"{name} =")
    events = re.findall(r'<details class="event" id="event-\d+" data-at="file-0-(\d+)"', page)
    assert [rows[int(n) - 1].strip() for n in events] == [
        "loss.backward()", "W1.grad = b1.grad = W2.grad = None", "(W1 * 2).backward()"
    ]  # fmt: skip


def test_every_length_of_the_picture_is_that_of_a_cotangent(trained: Session) -> None:
    (call,) = [call for call in trained.calls if call.picture]
    values = {line.of: line.value for line in call.told.source.statements}
    lengths = dict(re.findall(r"from \w+ to (\w+) (\d[\d.]*\d)", call.picture))
    for name in ("h", "b1", "W1", "W2"):  # a broadcast or a transpose on the way changes no length
        assert float(lengths[name]) == pytest.approx(np.linalg.norm(values[name]), rel=1e-4), name


def test_lines_entry_by_entry_have_the_numbers_of_the_lines(trained: Session) -> None:
    said = {row.parts[0].text: row.parts[1].text for row in trained.calls[0].entries.rows}
    assert said["v_h[p,q]"] == "Σ_j v_t5[p,j]·W2[j,q]"  # W2.T has no name of its own on the page
    assert said["W2.grad[p,q]"] == "Σ_j v_t5[j,p]·h[j,q]"
    assert len(said) == len(trained.calls[0].told.source.statements)


@pytest.mark.parametrize("kind", ["calls", "wrong", "notes", "lines"])
def test_a_page_is_bounded(kind: str) -> None:
    count = 5_000
    where = [SourceLine("s.py", n % 900 + 1, "loss.backward()") for n in range(count)]
    if kind == "notes":
        events = [Note(where[n], "something") for n in range(count)]
    else:
        failure = "RuntimeError: no" if kind == "wrong" else ""
        events = [CallEvent(n, where[n], "1", "", ("out = x",), (), (), failure=failure) for n in range(count)]
    length = 50_000 if kind == "lines" else 900
    page = session_html(Session("s.py", events, source="x = 1\n" * length, file="s.py"))
    assert len(page) < 400_000
    assert page.count('class="event"') == MOST_CALLS
    assert page.count('<li id="file-0-') <= MOST_LINES
    left = int(re.search(r"(\d+) further events are left out", page)[1])
    assert left == count - MOST_CALLS - MOST_SHORT


def test_what_disagrees_is_told_however_late_it_comes() -> None:
    where = SourceLine("s.py", 1, "loss.backward()")
    events = [Note(where, "something") for _ in range(2_000)]
    events.append(Note(where, "the late one", agrees=False))
    assert "the late one" in session_html(Session("s.py", events, source="x", file="s.py"))


def test_what_a_script_says_stays_text() -> None:
    evil = '</details><script>alert("1")</script>&'
    where = SourceLine("s.py", 1, evil)
    page = session_html(Session(evil, [Note(where, evil), CallEvent(1, where, evil, "", (evil,), (), (), (evil,))],
                             source=evil, file="s.py"))  # fmt: skip
    assert "<script>alert" not in page
    assert Reader(page).open == []


@pytest.mark.slow
def test_the_command_leaves_standard_output_to_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script, page = tmp_path / "train.py", tmp_path / "page.html"
    script.write_text(TRAIN + "import os\nos.chdir('/')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path("train.py", run_name="__main__")
    plain = capfd.readouterr()
    told = subprocess.run(
        [sys.executable, "-m", "symgrad_cli", "run", "--format", "html", "-o", "page.html", "train.py"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert plain.out
    assert (told.stdout, told.stderr) == (plain.out, plain.err)
    assert Reader(page.read_text(encoding="utf-8")).open == []


@pytest.mark.slow
def test_a_page_or_a_picture_needs_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, ran = tmp_path / "s.py", tmp_path / "ran"
    script.write_text(
        f"import torch\nopen({str(ran)!r}, 'w').close()\nx = torch.ones(2, requires_grad=True)\n(x * x).sum().backward()\n",
        encoding="utf-8",
    )
    run = CliRunner()
    for style in ("html", "svg"):
        refused = run.invoke(main, ["run", "--format", style, str(script)])
        assert (refused.exit_code, ran.exists()) == (2, False)
        assert "standard output belongs to the script" in refused.stderr
    refused = run.invoke(main, ["run", "--format", "html", "--code", "1", "-o", str(tmp_path / "p"), str(script)])
    assert (refused.exit_code, ran.exists()) == (2, False)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "jinja2", None)
        pieces.environment.cache_clear()
        refused = run.invoke(main, ["run", "--format", "html", "-o", str(tmp_path / "p"), str(script)])
        assert (refused.exit_code, ran.exists()) == (2, False)
        assert 'pip install "symgrad[pages]"' in refused.stderr
    shown: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: shown.append(url) or True)
    assert run.invoke(main, ["run", "--open", str(script)]).exit_code == 0
    assert Reader(Path(shown[0].removeprefix("file://")).read_text(encoding="utf-8")).open == []
    picture = tmp_path / "p.svg"
    assert run.invoke(main, ["run", "--format", "svg", "-o", str(picture), str(script)]).exit_code == 0
    assert "from sum to" not in picture.read_text(encoding="utf-8")
    assert "Backward: v has norm 1" in picture.read_text(encoding="utf-8")
    script.write_text("print('nothing')\n", encoding="utf-8")
    refused = run.invoke(main, ["run", "--format", "svg", "-o", str(picture), str(script)])
    assert refused.exit_code == 2
    assert "to draw" in refused.stderr


def test_a_broadcast_on_the_way_is_no_station() -> None:
    """The names of a captured program are numbered without what only broadcasts, so they may be those of others."""
    x, w, b = torch.eye(3), torch.arange(6.0).reshape(3, 2), torch.ones(2)
    program = symgrad.capture(lambda x, w, b: torch.sin(x @ w + b).sum(), x, w, b)
    picture = program.to_svg()
    assert picture.count('class="box"') == 3 + 4
    found = float(re.search(r"from t2 to b (\d[\d.]*\d)", picture)[1])
    assert found == pytest.approx(np.linalg.norm(program.pullback()["b"]), rel=1e-4)
