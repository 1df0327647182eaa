"""``symgrad run`` on random scripts at singular points: it changes nothing, accuses nobody, and nothing falls over.

The same scripts are drawn in every run; ``SYMGRAD_SCRIPTS=3000 pytest -m slow tests/test_singular_scripts.py`` draws as
many as are asked for.
"""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

import numpy as np
import pytest

from symgrad.errors import InputError
from symgrad.tracing import run_script
from symgrad.tracing.lift.call_sweeps import differs_by_rounding
from symgrad.tracing.story.event_content import closing_text
from symgrad.tracing.story.session_pages import event_text
from tests.singular_scripts import script

FOUND = (1, 1294, 1446, 1887)
"""Scripts that something was wrong with once."""


def printed(path: Path) -> str:
    """What the script prints by itself."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "__main__"})
    return out.getvalue()


def assert_unchanged_and_unaccused(number: int, folder: Path) -> None:
    """One script, both ways."""
    path = folder / "script.py"
    path.write_text(script(number), encoding="utf-8")
    alone, told, out = printed(path), [], io.StringIO()
    with contextlib.redirect_stdout(out):
        session = run_script(str(path), [], tell=lambda event: told.append(event_text(event)))
    about = f"script {number}\n{script(number)}\n{''.join(told)}"
    assert session.status == 0, about
    assert out.getvalue() == alone, about
    assert session.agrees, about
    assert "gap in symgrad" not in "".join(told) + closing_text(session), about


@pytest.mark.one_in(12)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", [*FOUND, *range(12)])
def test_at_singular_points_nothing_is_changed_and_nobody_accused(number: int, tmp_path: Path) -> None:
    assert_unchanged_and_unaccused(number, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_scripts_at_singular_points(tmp_path: Path) -> None:
    for number in range(100, 100 + int(os.environ.get("SYMGRAD_SCRIPTS", "75"))):
        assert_unchanged_and_unaccused(number, tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_rounding_is_not_said_to_be_a_point_without_a_derivative() -> None:
    """A small entry may be far from torch's in its own digits and near among its neighbours: nothing is singular there."""
    ours, choice = np.array([1.0, 3.1e-9, np.nan, 0.5, 2.0]), np.array([1.0, 3.0e-9, 0.0, 0.58, np.inf])
    assert differs_by_rounding(ours, choice, {"float32"}).tolist() == [True, True, False, False, False]
    assert differs_by_rounding(ours, choice, {"bfloat16"}).tolist() == [True, True, False, True, False]
    assert differs_by_rounding(ours, choice, {"float64"}).tolist() == [True, False, False, False, False]


ATTENTION = """
import torch
import torch.nn.functional as F
torch.manual_seed(0)
for half in (False, True):
    x = torch.randn(4, 8, 16)
    layer = torch.nn.Linear(16, 48, bias=False)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        q, k, u = (part.view(4, 8, 2, 8).transpose(1, 2) for part in layer(x).split(16, dim=2))
        y = F.scaled_dot_product_attention(q, k, u, attn_mask=None, dropout_p=0.1, is_causal=True)
        loss = y.pow(2).mean()
    loss.backward()
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_mask_of_infinities_is_no_singular_point(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(ATTENTION, encoding="utf-8")
    session = run_script(str(path), [])
    assert [note for call in session.calls for note in call.notes if "derivative" in note] == []
    assert session.agrees


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a device that never ends")
def test_a_device_that_never_ends_is_no_script() -> None:
    with pytest.raises(InputError, match="/dev/zero is not a script"):
        run_script("/dev/zero", [])
