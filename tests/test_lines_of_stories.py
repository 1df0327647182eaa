"""Every line of every story, pasted into Python with the script's tensors, runs and has the numbers of torch.

The listing, the lines of the backward, each gradient's own line, and what ``--code`` gives; a name in a line is one of
the script's, one that a line before it defines, or a function of torch.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from symgrad.backward.cotangent_lines import CotangentLines
from symgrad.language.python_text import write_python
from symgrad.language.syntax_tree import Literal
from symgrad.tracing.session import call_events as events
from tests.contract.stories import stories_of
from tests.forgotten_lines import forget_lines
from tests.pasted_lines import Ear
from tests.pasted_stories import scripts, slips_of

EVERY = [*scripts()]


def pasted(source: str, tmp_path: Path) -> Ear:
    """What came of pasting the lines of a script's story."""
    path, precision = tmp_path / "script.py", torch.get_default_dtype()
    path.write_text(source, encoding="utf-8")
    torch.manual_seed(0)
    try:
        return slips_of(path)
    finally:
        torch.set_default_dtype(precision)
        torch.set_grad_enabled(True)
        torch.set_printoptions(profile="default")


@pytest.mark.one_in(24, slow=4)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", [text for _, text in EVERY], ids=[name for name, _ in EVERY])
def test_every_line_of_a_story_runs_and_is_right(source: str, tmp_path: Path) -> None:
    assert pasted(source, tmp_path).wrong == []


def test_there_are_many_stories() -> None:
    assert len(EVERY) > 140


ROWS = """import torch
H, A = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0], [0.0, 1.0]], requires_grad=True)
P, m = torch.eye(2), 0
for k in range(2):
    P = A @ P @ A.T
    m = m + (H @ P @ H.T).sum() + (P @ H.T).sum()
m.backward()
"""
"""What comes back to H @ P is one row of H.T, which a product does not fill by itself."""
SOLVED = """import torch
a, b = torch.tensor([[2.0, 1.0], [0.0, 3.0]], requires_grad=True), torch.ones(2)
w = torch.linalg.eigvalsh(a @ a.T)
out = torch.linalg.solve(a, b) * w
out.backward()
"""
"""The listing of a call that fails has functions that torch has below torch.linalg."""
SPOKEN = """import torch
z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
x = torch.arange(6.0, requires_grad=True)
(torch.fft.fft(z * 2).abs() ** 2).sum().backward()
(torch.fft.rfft(x).abs() ** 2).sum().backward()
"""
SPECTRAL = """import torch
x, y = torch.randn(2, 3, 8, requires_grad=True), torch.randn(2, 3, 8)
w = torch.randn(3, 4, 3, dtype=torch.cfloat, requires_grad=True)
(torch.fft.rfft(x) - torch.fft.rfft(y)).abs().mean().backward()
modes = torch.einsum("bix,iox->box", torch.fft.rfft(x)[:, :, :3], w)
(torch.fft.irfft(torch.cat([modes, torch.zeros(2, 4, 2)], 2), n=8) ** 2).mean().backward()
"""
"""What is complex between real numbers: the lines say so, and view_as_real where a part needs pairs."""
NUMBERS = """import torch
x, w = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
(x.mean() + w.sum()).backward()
"""
"""A gradient with one number everywhere is a tensor."""
DEFINED = """import torch
x = torch.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)
torch.linalg.eigvalsh(x).sum().backward()
"""
"""The closed form names the eigenvectors first, so it is no line."""


BOX = """import torch
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return 2 * x
    @staticmethod
    def backward(ctx, v): return 2 * v
x = torch.tensor([1.0, 2.0], requires_grad=True)
((Twice.apply(x.expand(3, 2)) ** 2).sum() + (x * 3).sum()).backward()
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "source",
    [ROWS, SPOKEN, SPECTRAL, NUMBERS, DEFINED, BOX],
    ids=["rows", "spoken", "spectral", "numbers", "defined", "box"],
)
def test_lines_that_once_did_not_run(source: str, tmp_path: Path) -> None:
    forget_lines()
    ear = pasted(source, tmp_path)
    assert ear.forms
    assert ear.wrong == []


MODES = """import torch
w, x = torch.randn(2, 3, 4, dtype=torch.cfloat, requires_grad=True), torch.randn(5, 2, 16, requires_grad=True)
out = torch.zeros(5, 3, 9, dtype=torch.cfloat)
out[:, :, :4] = torch.einsum("bix,iox->box", torch.fft.rfft(x)[:, :, :4], w)
torch.fft.irfft(out, n=16).pow(2).mean().backward()
"""


def test_positions_that_a_write_computes_are_whole_numbers_to_its_lines(tmp_path: Path) -> None:
    """A layer of a Fourier neural operator: the line of what is written was withheld, its positions were floats."""
    path = tmp_path / "script.py"
    path.write_text(MODES, encoding="utf-8")
    (page,) = stories_of(path)
    assert ".index_add(0, " in page
    assert "not shown: at the numbers" not in page


def test_a_form_counts_what_comes_back_through_a_step_without_an_equation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (event,) = pasted(BOX, tmp_path).told
    assert [leaf.form for leaf in event.leaves] == ["3 * ones_like(x) + v_t1.sum(0)"]
    monkeypatch.setattr(CotangentLines, "gather", without_boxes(CotangentLines.gather))
    (event,) = pasted(BOX, tmp_path).told
    assert [leaf.form for leaf in event.leaves] == [None]
    assert any("the line of x.grad is not shown" in note for note in event.notes)


WHOLE = """import torch
t = torch.tensor(3.0, requires_grad=True)
torch.ldexp(t, torch.tensor(-1)).backward()
"""


def test_a_form_that_is_right_by_numpy_and_not_by_torch_is_withheld(tmp_path: Path) -> None:
    """``2 ** data`` of the whole number -1 is 0 in torch."""
    ear = pasted(WHOLE, tmp_path)
    assert ear.wrong == []
    assert all("2 ** " not in str(leaf.form) for event in ear.told for leaf in event.leaves)


def without_boxes(gather: Any) -> Any:
    """What gathers the terms of a cotangent, as if nothing came back through a tensor that a box reads."""

    def gathered(self: Any, name: str, term: Any, *rest: Any) -> None:
        gather(self, name, None if term is None else Literal(0) if "t1" in write_python(term) else term, *rest)

    return gathered


def test_a_listing_gives_each_function_its_module(tmp_path: Path) -> None:
    (event,) = pasted(SOLVED, tmp_path).told
    assert any("= torch.linalg.eigvalsh(" in line for line in event.program)
    assert any("torch.linalg.solve(a, b)" in line for line in event.program)


def test_a_form_with_other_numbers_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told_lines = events.make_lines

    def twice(*given: Any) -> Any:
        found = told_lines(*given)
        return replace(found, forms={name: f"2 * ({form})" for name, form in found.forms.items()})

    monkeypatch.setattr(events, "make_lines", twice)
    ear = pasted("import torch\nx = torch.ones(2, requires_grad=True)\n(x * x).sum().backward()\n", tmp_path)
    assert ear.wrong
    assert all("x.grad = 2 * (2 * x)" in what for what in ear.wrong)
