"""What a capture looks at once, or not at all."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from symgrad import capture
from symgrad.program import Program
from symgrad.tracing.captured import step_text
from symgrad.tracing.lift import values
from symgrad.tracing.story.folding import list_folded_program
from tests.compare import assert_same


def test_the_steps_that_are_told_are_chosen_once(monkeypatch) -> None:
    chosen = []
    told = step_text.listed_steps
    monkeypatch.setattr(step_text, "listed_steps", lambda *asked: chosen.append(asked) or told(*asked))

    program = capture(lambda x: x.sin().cos().exp().tanh().sum(), torch.ones(2, 2))
    assert len(list_folded_program(program)) == 5
    assert len(chosen) == 1


def test_a_capture_makes_no_program_of_each_of_its_steps(monkeypatch) -> None:
    made: Counter[str] = Counter()
    own = Program.__post_init__
    monkeypatch.setattr(Program, "__post_init__", lambda self: made.update(["program"]) or own(self))

    def counts(depth):
        def run(x):
            for _ in range(depth):
                x = torch.tanh(x @ x)
            return x

        capture(run, torch.eye(3) / 2)
        made.clear()
        capture(run, torch.eye(3) / 2)
        return made["program"]

    assert counts(4) == counts(20)


def test_the_steps_of_an_equal_call_are_not_put_in_standard_terms_again(monkeypatch) -> None:
    """Nor is what its equation reads listed again: only the plan is played."""

    def run(x):
        for _ in range(5):
            x = torch.tanh(x @ x) + 1
        return x

    capture(run, torch.eye(3) / 2)
    monkeypatch.setattr(values, "standard_at", lambda *_: pytest.fail("asked again"))
    program = capture(run, torch.ones(3, 3) / 3)
    assert_same(run(torch.ones(3, 3) / 3), program.arrays[program.recording.output], tolerance=1e-6)


def test_a_capture_does_not_look_at_what_called_it(monkeypatch) -> None:
    """Forty frames of pytest or of a notebook around it cost nothing, and say nothing that differs."""

    def run(x):
        return torch.tanh(x @ x)

    def around(depth):
        return around(depth - 1) if depth else capture(run, torch.eye(3) / 2)

    def passed(depth):
        paths = [where.path for where in around(depth).lines.values()]
        assert paths
        return [[place for _, place in path] for path in paths]

    assert passed(0) == passed(30)
