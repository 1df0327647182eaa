"""Operations defined by an equation that their result solves: the identity, its differential, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad
from symgrad.errors import DomainError, ShapeError
from symgrad.ops import find
from tests.compare import assert_same

MATRIX = [[2.0, 1.0], [1.0, 3.0]]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("inverse(x)", "-out.T @ (v @ out.T)"),
        ("a @ torch.linalg.inv(x) @ b", "-v * (inverse(x).T @ a)[:, None] * (inverse(x) @ b)"),
        ("trace(x.inverse())", "-v * (inverse(x).T @ inverse(x).T)"),
    ],
)
def test_derivatives_of_inverses_that_books_print(text: str, form: str) -> None:
    given = {name: [1.0, 2.0] for name in "ab" if name in text.split()}
    found = symgrad.explain(text, wrt="x", x=MATRIX, **given)
    assert found.gradients["x"].closed_form == form
    assert found.passed
    assert all(check.passed for check in found.gradients["x"].checks)


def test_the_page_shows_the_identity_and_its_differential() -> None:
    text = symgrad.explain("inverse(x)", x=MATRIX).to_text(width=200)
    assert "Σ_l x[i,l]·out[l,k] − δ_ik = 0" in text
    assert "Σ_l x[i,l]·dout[l,k] + Σ_j dx[i,j]·out[j,k] = 0" in text
    assert "dout[i,k] = −Σ_j out[i,j]·Σ_l out[l,k]·dx[j,l]" in text
    assert "∂out[i,k]/∂x[p,q] = −out[i,p]·out[q,k]" in text
    assert "2·out" not in text


def test_what_is_held_still_solves_for_the_result() -> None:
    """Σ_a out[i,a]·∂F[a,k]/∂out[b,l] is the identity: the step that is differentiated is Newton's."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 3))
    by_result = np.einsum("ab,kl->akbl", x, np.eye(3))
    solver = np.einsum("ia,kl->ikal", np.linalg.inv(x), np.eye(3))
    assert_same(np.eye(9), np.einsum("ikac,acbl->ikbl", solver, by_result).reshape(9, 9), what="S·∂F/∂out")


def test_second_order_goes_through_it() -> None:
    found = symgrad.hessian("trace(inverse(x))", "x", x=MATRIX)
    assert [check.passed for check in found.checks].count(True) >= 3
    assert found.passed


def test_refusals() -> None:
    with pytest.raises(DomainError, match="no inverse"):
        symgrad.explain("inverse(x)", x=[[1, 2], [2, 4]])
    with pytest.raises(ShapeError):
        symgrad.explain("inverse(x)", x=[1, 2])
    with pytest.raises(ShapeError):
        symgrad.explain("inverse(x)", x=[[1, 2, 3], [4, 5, 6]])
    assert find("np.linalg.inv") is find("inverse")
