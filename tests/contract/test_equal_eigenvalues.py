"""Equal eigenvalues under `symgrad run`: weights that tell them apart have no gradient, and nobody is accused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.stories import events_of

SCRIPT = """import torch
A = {matrix}.double().requires_grad_()
L = torch.linalg.eigvalsh(A, UPLO="{triangle}")
(L * torch.tensor({weights}).double()).sum().backward()
"""
ONES, APART = "torch.ones(4, 4)", "torch.diag(torch.arange(1.0, 5.0))"


@pytest.mark.parametrize("triangle", ["L", "U"])
@pytest.mark.parametrize(
    ("matrix", "weights", "open_ones"),
    [(ONES, [1, 2, 3, 4], True), (ONES, [1, 1, 1, 4], False), (APART, [1, 2, 3, 4], False)],
)
def test_what_has_no_gradient_is_undefined(
    triangle: str, matrix: str, weights: list[int], open_ones: bool, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(matrix=matrix, triangle=triangle, weights=weights), encoding="utf-8")
    (call,) = events_of(script)
    (leaf,) = call["leaves"]
    assert bool(leaf["undefined"]) is open_ones
