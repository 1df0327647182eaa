"""What a claim about a Jacobian is held against, and that it is not said where it fails."""

from __future__ import annotations

import pytest

import symgrad
from symgrad.explanation import evidence
from symgrad.explanation.claims import UNSAID, choose_proven
from symgrad.render.content.jacobian_matrix import sentence


def test_a_claim_that_fails_is_not_said() -> None:
    """The same claims on other numbers: those that do not hold there are passed over."""
    found = symgrad.jacobian("x * y", "x", check=False, x=[1.0, 2.0], y=[3.0, 4.0])
    other = symgrad.jacobian("x + x.flip(0)", "x", check=False, x=[1.0, 2.0])
    assert found.structure.kind == "diagonal"
    assert other.evidence is not None
    assert choose_proven(found.claims, other.evidence).kind == "dense"
    assert choose_proven(found.claims, None) == UNSAID
    assert sentence(UNSAID) == ""


@pytest.mark.parametrize(("rows", "kind"), [((300, 20), "kronecker"), ((3, 2), "kronecker")])
def test_a_large_jacobian_is_tested_on_some_of_its_rows(rows: tuple[int, int], kind: str) -> None:
    """Rows and columns come from sweeps, J is not formed; a wrong claim is seen there too."""
    found = symgrad.jacobian("x @ a", "x", check=False, shapes={"x": rows, "a": (rows[1], 30)})
    assert found.structure.kind == kind
    assert found.structure.says.startswith("one block aᵀ per row of x")
    if rows[0] > 100:
        evidence = found.evidence
        assert evidence is not None
        assert not evidence.whole
        assert len(evidence.rows) == 4
        wrong = symgrad.jacobian("tanh(x)", "x", check=False, shapes={"x": (30, 20)}).claims
        assert choose_proven(wrong, evidence) == UNSAID


@pytest.mark.slow
def test_places_of_a_large_matrix_are_told_without_filling_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "sparse_jacobian", None)  # whoever fills it stops here
    explanation = symgrad.explain("x@a", shapes={"x": (720, 720), "a": (720, 720)}, check=False)
    assert explanation.gradients["x"].jacobian.nonzeros == 720**3
