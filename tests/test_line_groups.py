"""The groups of steps that lines are made of: the same at other sizes, and each name is asked for as often as it is needed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

import symgrad
from symgrad import capture
from symgrad.backward import standard_groups
from symgrad.backward.cotangent_lines import CotangentLines
from symgrad.backward.groups import make_groups
from symgrad.backward.page_names import PageNames
from tests.networks import chain


@pytest.mark.slow
def test_the_lines_of_twice_as_long_a_chain_ask_for_twice_as_many_names(monkeypatch):
    asked: Counter[str] = Counter()
    own = PageNames.page
    monkeypatch.setattr(PageNames, "page", lambda self, name: asked.update(["page"]) or own(self, name))
    counts = []
    for layers_ in (20, 40, 80):
        asked.clear()
        weights = [torch.eye(3, dtype=torch.float64) for _ in range(layers_)]

        def run(x, weights=weights):
            for w in weights:
                x = torch.tanh(x @ w)
            return x.sum()

        capture(run, torch.ones(2, 3, dtype=torch.float64)).backward()
        counts.append(asked["page"])
    assert counts[2] - counts[1] <= 2.2 * (counts[1] - counts[0])


def test_a_group_is_the_same_at_other_sizes_and_positions():
    """`put_in` leaves no slot and no size behind."""
    program = symgrad.explain("tanh(x[1])", shapes={"x": (4, 3)}, check=False).program
    tensors = {t.name: t for t in program.tensors()}
    (group,) = make_groups(program, {program.output})
    form = standard_groups.standardise_group(group, tensors, None)
    assert list(form.slots.found.values()) == [1]
    fixed = form.at(dict.fromkeys(form.slots.found, 2))
    assert "2" in str(fixed.program.steps[0].options)
    assert "p0" not in str(fixed.program)


def test_what_reads_many_tensors_is_a_line_of_its_own() -> None:
    """The cat behind an unrolled loop went into the view of it: each of its operands was derived through all of that."""

    def joined(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([(x * k).tanh() for k in range(12)]).reshape(6, -1).T

    program = symgrad.capture(joined, torch.ones(2, 3, dtype=torch.float64)).recording
    sizes = {group.steps[-1].op: len(group.steps) for group in make_groups(program, {program.output})}
    assert sizes["cat"] == 1
    assert sizes["T"] == 2


def test_the_lines_grow_with_the_program_and_no_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    own = CotangentLines.gather
    monkeypatch.setattr(
        CotangentLines, "gather", lambda self, name, *rest: (calls.append(name), own(self, name, *rest))[1]
    )
    counts = []
    for layers in (10, 20, 40):
        calls.clear()
        chain(layers).backward(np.ones((2, 3)))
        counts.append(len(calls))
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])
