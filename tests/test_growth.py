"""What a call costs at two sizes, held against what it cost when this was written: counts, never seconds.

`KEPT` was measured. A count may be 1.25 times that and a few more, so that another version of SymPy or one more check is
no alarm. A Python or SymPy object for each entry of a tensor is one: there are 230,400 at the large size.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ENTRIES = 480 * 480
FACTOR, MORE = 1.25, {"forward passes": 2, "sweeps": 2, "readings": 1, "sweeps in symbols": 1, "SymPy objects": 60,
                      "objects held": 4000, "bytes an entry": 8}  # fmt: skip
KEPT = {
    "explain shapes": (4, 2, 3, 2, 49, 3805, 120),
    "explain": (3, 1, 3, 2, 258, 3830, 137),
    "explain in part": (2, 1, 2, 2, 50, 169, 56),
    "explain nested sums": (11, 1, 3, 2, 94, 188, 64),
    "explain text": (3, 7, 4, 2, 135, 1353, 122),
    "sparse": (4, 1, 0, 0, 26, 20, 96),
    "plan": (2, 0, 0, 0, 0, 9, 17),
    "derive": (4, 0, 1, 0, 0, 159, 1),
    "vjp": (2, 1, 2, 2, 22, 17, 88),
    "hvp": (3, 1, 2, 2, 18, 13, 136),
    "capture": (6, 0, 2, 2, 157, 342, 26),
    "run": (4, 0, 2, 3, 169, 316, 291),
}
"""Forward passes, sweeps, readings, sweeps in symbols, SymPy objects, objects held, and bytes an entry at the large size."""
MODULES = {"import symgrad": 62, "import symgrad; symgrad.explain('x@a', check=False).to_text()": 903}
"""Modules that are imported, Python's own among them; one in twenty more is allowed."""
LATE = ("scipy.special", "jinja2", "torch", "symgrad.tracing", "symgrad.testing")
"""What a page of text without a check does not import."""


def in_a_process(*arguments: str) -> str:
    """What a fresh interpreter prints, with one seed of hashes: SymPy's work depends on it a little."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, dict[str, int]]]:
    """The counts of all calls, at both sizes."""
    return json.loads(in_a_process("-m", "tests.counted"))


@pytest.mark.slow
@pytest.mark.xdist_group("growth")  # what is counted is counted once
@pytest.mark.parametrize("call", KEPT)
@pytest.mark.parametrize("size", ["small", "large"])
def test_a_call_costs_what_it_did_at_every_size(call: str, size: str, found) -> None:
    counts = found[call][size]
    counts["bytes an entry"] = counts.pop("bytes") / ENTRIES
    allowed = {what: FACTOR * kept + MORE[what] for what, kept in zip(MORE, KEPT[call], strict=True)}
    assert {what: n for what, n in counts.items() if n > allowed[what]} == {}, allowed


@pytest.mark.parametrize("code", MODULES)
def test_no_more_modules_are_imported_than_were(code: str) -> None:
    loaded = in_a_process("-c", f"{code}; import sys; print(*sys.modules)").split()
    assert len(loaded) <= 1.05 * MODULES[code]
    assert not {name for name in loaded if name in LATE}
