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
    "explain shapes": (19, 1, 3, 2, 65, 4786, 154),
    "explain": (19, 1, 3, 2, 354, 6351, 177),
    "explain in part": (10, 1, 2, 2, 123, 1068, 74),
    "explain nested sums": (10, 1, 2, 2, 7111, 8614, 88),
    "explain text": (11, 7, 3, 2, 78, 1008, 122),
    "sparse": (12, 1, 0, 2, 40, 445, 121),
    "plan": (2, 0, 0, 0, 0, 13, 17),
    "derive": (22, 0, 1, 2, 99, 930, 2),
    "vjp": (10, 1, 2, 2, 24, 612, 106),
    "hvp": (11, 1, 2, 2, 20, 615, 144),
    "capture": (8, 0, 2, 2, 144, 2006, 32),
    "run": (4, 0, 1, 3, 195, 1701, 291),
}
"""Forward passes, sweeps, readings, sweeps in symbols, SymPy objects, objects held, and bytes an entry at the large size."""
MODULES = {"import symgrad": 62, "import symgrad; symgrad.explain('x@a', check=False).to_text()": 1362}
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
