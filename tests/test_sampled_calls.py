"""Of many calls some are told: which, and what is said of the others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from symgrad.tracing.session.sampling import OFTEN, is_checked
from symgrad.tracing.story.event_content import closing_text
from symgrad.tracing.story.events import Note
from symgrad.tracing.story.session_pages import event_markdown, sort_events
from tests.played import play_network


def test_which_calls_are_checked():
    numbers = [n for n in range(1, 100_001) if is_checked(n)]
    assert numbers[:8] == [1, 2, 3, 5, 10, 20, 50, 100]
    assert len(numbers) <= 20


@pytest.mark.slow
def test_another_program_is_told_however_late_it_comes_again(tmp_path):
    session, told = play_network(
        tmp_path,
        """
w = torch.ones(3, requires_grad=True)
for step in range(60):
    y = (w.exp() if step in (55, 57) else w * 2).sum()
    w.grad = None
    y.backward()
""",
    )
    assert [call.number for call in session.calls] == [1, 2, 3, 5, 10, 20, 50, 58]
    assert OFTEN < 58
    assert [call.repeated for call in session.calls] == [False, *[True] * 6, False]
    assert "exp(w)" in told
    note = next(event for event in session.events if isinstance(event, Note) and "a new program" in event.text)
    assert note.text == (
        "call 56 ran a new program (new: 1 Exp; gone: 1 Mul) and was not recorded: symgrad explains it when it "
        "occurs again, or with symgrad run --call 56"
    )
    assert session.counted == {"script.py:9": 52}
    assert "52 further calls with the same operations and sizes" in closing_text(session)


def test_what_comes_once_while_nobody_looks_is_not_claimed_to_be_the_same(tmp_path):
    session, _ = play_network(
        tmp_path,
        """
w = torch.ones(3, requires_grad=True)
for step in range(30):
    y = (w.exp() if step == 27 else w * 2).sum()
    w.grad = None
    y.backward()
""",
    )
    assert [call.number for call in session.calls] == [1, 2, 3, 5, 10, 20]
    assert "script.py:9: 24 further calls, counted only" in closing_text(session)
    assert closing_text(session).endswith("; 1 of them ran a program that is not shown\n")


@pytest.mark.slow
def test_a_factor_that_grows_is_no_other_program_each_time(tmp_path):
    """Annealing: a few are told with what is different, then some are looked at."""
    session, _ = play_network(
        tmp_path,
        """
w = torch.ones(3, requires_grad=True)
for step in range(60):
    loss = (w * (1 + step / 100)).exp().sum() / (step + 1)
    w.grad = None
    loss.backward()
""",
    )
    assert [call.number for call in session.calls] == [1, 2, 3, 5, 10, 20, 50]
    assert "1.01 instead of 1" in " ".join(session.calls[1].unlike)


def test_a_program_that_comes_back_is_told_once(tmp_path):
    """A loop of random depth has a few programs: each later call says which of them it ran."""
    session, told = play_network(
        tmp_path,
        """
w = torch.ones(3, requires_grad=True)
for depth in (1, 2, 1, 2, 1):
    y = ((w * 2) if depth == 1 else (w * 2).exp()).sum()
    w.grad = None
    y.backward()
""",
    )
    assert [(call.repeated, call.like, call.unlike) for call in session.calls] == [
        (False, 0, ()), (False, 0, ()), (True, 1, ("as in call 1",)), (True, 2, ()), (True, 1, ("as in call 1",)),
    ]  # fmt: skip
    assert told.count("y = ") == 2
    full, _, left = sort_events(session)
    assert ([[call.number for call in told.again] for told in full if told.again], left) == ([[3, 5], [4]], 0)


@pytest.mark.slow
def test_the_story_grows_in_its_file(tmp_path):
    """While the script still runs, what was told so far stands in the file."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, pathlib\n"
        "x = torch.ones(2, requires_grad=True)\n"
        "(x * 2).sum().backward()\n"
        "print(len(pathlib.Path('story.txt').read_text(encoding='utf-8').splitlines()))\n"
        "(x * 3).sum().backward()\n"
    )
    code = "from symgrad_cli.run import run; run()"
    found = subprocess.run([sys.executable, "-c", code, "-o", "story.txt", str(script)], capture_output=True, text=True,
                           check=True, cwd=tmp_path)  # fmt: skip
    story = (tmp_path / "story.txt").read_text(encoding="utf-8")
    assert 3 < int(found.stdout) < len(story.splitlines())
    assert "script.py:5" in story
    assert found.stderr == ""
    assert story.endswith("equals what torch computed.\n")
    assert max(map(len, story.splitlines())) <= 80


def test_a_page_grows_by_the_same_parts(tmp_path):
    session, _ = play_network(tmp_path, "x = torch.ones(2, requires_grad=True)\n(x * 2).sum().backward()\n")
    assert "| `x` |" in "\n".join(map(event_markdown, session.events))
    assert closing_text(session) == ""
