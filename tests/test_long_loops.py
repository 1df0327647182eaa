"""What the recorder does at one step of a long program does not grow with what came before it."""

from __future__ import annotations

import pytest
import torch

from symgrad.tracing.record import aliases
from symgrad.tracing.record.mode import Recorder
from symgrad.tracing.record.patching import record_calls
from symgrad.tracing.record.trace import Node


def ungraded(h):
    with torch.no_grad():
        return h + 1


TAKEN = {
    "item": lambda h: h.sum().item(),
    "detach": lambda h: h.detach(),
    "compared": lambda h: bool((h > 0).all()),
    "no_grad": ungraded,
    "numpy": lambda h: (h * 2).detach().numpy(),
}
"""Ways to take numbers out of what a loop computes; each asks which leaves are before it."""


@pytest.mark.parametrize("way", TAKEN)
def test_a_loop_that_takes_out_numbers_walks_each_step_a_few_times(way, monkeypatch):
    walked = []
    sources = Node.sources
    monkeypatch.setattr(Node, "sources", lambda node: walked.append(node) or sources(node))

    def walks(turns):
        walked.clear()
        with record_calls(Recorder()):
            h = torch.ones(2, requires_grad=True) * 1
            for _ in range(turns):
                h = h * 1.001
                TAKEN[way](h)
        return len(walked)

    assert 0 < walks(400) < 2.2 * walks(200)


def test_the_leaves_before_a_cut_are_all_of_them():
    recorder = Recorder()
    with record_calls(recorder):
        leaves = [torch.ones(2, requires_grad=True) for _ in range(4)]
        h, cuts = leaves[0] * 1, []
        for leaf in leaves[1:]:
            h = (h * leaf).relu() + (leaf * h).sum()
            cuts.append(h.detach())
    behind = [[leaf() for leaf in recorder.node_of(cut).cut.leaves] for cut in cuts]
    for turn, found in enumerate(behind):
        assert [id(t) for t in found] == [id(t) for t in leaves[: turn + 2]]


def test_each_row_of_a_tensor_is_remembered_in_the_same_time(monkeypatch):
    looked = []
    prune = aliases.Alive.prune
    monkeypatch.setattr(aliases.Alive, "prune", lambda alive: looked.append(found := prune(alive)) or found)

    def looks(rows):
        looked.clear()
        recorder = Recorder()
        with record_calls(recorder):
            x = torch.zeros(rows, 2)
            kept = [x[i] for i in range(rows)]
        assert len(recorder.storages.sharing(x)) == rows + 1
        assert kept
        return sum(looked)

    assert 0 < looks(2000) < 4 * 2000


def test_the_dead_are_forgotten():
    recorder = Recorder()
    with record_calls(recorder):
        x = torch.zeros(3000, 2)
        for i in range(3000):
            x[i].sum()
    alive = recorder.storages._by_storage[aliases.storage_of(x)]
    assert alive.those() == [x]
    assert len(alive._refs) < 50
