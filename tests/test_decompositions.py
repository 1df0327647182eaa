"""Operations defined by an equation that their result solves: the identity, its differential, refusals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import symgrad
from symgrad.errors import (
    DomainError,
    NotationError,
    ShapeError,
    SymgradError,
    UndefinedError,
    UnsupportedError,
)
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


GILES = [
    ("A + B", "A", "v"),
    ("A @ B", "A", "v @ B.T"),
    ("A @ B", "B", "A.T @ v"),
    ("A.T @ B @ A", "B", "A @ (v @ A.T)"),
    ("inverse(A)", "A", "-out.T @ (v @ out.T)"),
    ("solve(A, B)", "A", "-torch.linalg.solve(A.T, v @ out.T)"),
    ("solve(A, B)", "B", "torch.linalg.solve(A.T, v)"),
    ("det(A)", "A", "v * out * inverse(A).T"),
    ("slogdet(A).logabsdet", "A", "v * inverse(A).T"),
    ("eigh(A).eigenvalues", "A", "V = torch.linalg.eigh(A).eigenvectors; V @ v.diag() @ V.T"),
    (
        "eigh(A).eigenvectors", "A",
        ("w = sum(out * (A @ out), dim=0); K = where(eye(A.shape[0]) == 1, 0, 1 / (w - w[:, None])); "
         "(out @ ((out.T @ v - v.T @ out) * K) @ out.T) / 2"),
    ),
    ("svdvals(A)", "A", "t = torch.linalg.svd(A, full_matrices=False); t.U @ v.diag() @ t.Vh"),
    (
        "cholesky(A)", "A",
        ("inv = inverse(out); (inv.T @ (v * out).sum(0).diag() @ inv + inv.T @ (v.T @ out).triu(1) @ inv "
         "+ inv.T @ (out.T @ v).tril(-1) @ inv) / 2"),
    ),
    ("torch.linalg.norm(A)", "A", "v * A / out"),
    (
        "torch.linalg.matrix_norm(A, 2)", "A",
        ("t = torch.linalg.svd(A, full_matrices=False); v * ((t.U * (torch.linalg.svdvals(A) == out)) @ t.Vh) "
         "/ (torch.linalg.svdvals(A) == out).sum()"),
    ),
]  # fmt: skip
"""The reverse mode of M. Giles, Collected matrix derivative results for forward and reverse mode AD (2008), section 2.

Symmetric matrices are read as such, so what his formulas give for them is made symmetric.
"""


@pytest.mark.one_in(10)
@pytest.mark.parametrize(("text", "wrt", "form"), GILES)
@pytest.mark.parametrize("size", [pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(4, marks=pytest.mark.night)])
def test_giles_results_are_derived_at_every_size(text: str, wrt: str, form: str, size: int) -> None:
    generator = np.random.default_rng(size)
    given = {"A": definite(size, generator)} | ({"B": generator.normal(size=(size, size))} if "B" in text else {})
    found = symgrad.explain(text, wrt=wrt, seed="random", **given)
    assert found.gradients[wrt].closed_form == form
    assert found.passed


def definite(size: int, generator: np.random.Generator) -> np.ndarray:
    """A symmetric positive definite matrix whose eigenvalues are apart."""
    half = generator.normal(size=(size, size)) / 4
    return half @ half.T + np.diag(np.arange(1.0, size + 1))


def test_the_page_shows_the_identity_and_its_differential() -> None:
    text = symgrad.explain("inverse(x)", x=MATRIX).to_text(width=200)
    assert "Σ_l x[i,l]·out[l,k] − δ_ik = 0" in text
    assert "Σ_l x[i,l]·dout[l,k] + Σ_j dx[i,j]·out[j,k] = 0" in text
    assert "dout[i,k] = −Σ_j out[i,j]·Σ_l out[l,k]·dx[j,l]" in text
    assert "∂out[i,k]/∂x[p,q] = −out[i,p]·out[q,k]" in text
    assert "2·out" not in text


SYMMETRIC = [[2.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 4.0]]
TALL = [[2.0, 1.0], [0.25, 3.0], [0.75, 0.125]]


@pytest.mark.one_in(15)
@pytest.mark.parametrize(
    ("text", "x"),
    [
        ("trace(inverse(x))", MATRIX),
        ("det(x)", MATRIX),
        ("logdet(x)", SYMMETRIC),
        ("torch.linalg.slogdet(x).logabsdet", MATRIX),
        ("sum(solve(x, b))", MATRIX),
        ("sum(torch.linalg.cholesky(x))", SYMMETRIC),
        ("sum(torch.linalg.eigvalsh(x) ** 3)", SYMMETRIC),
        pytest.param("sum(torch.linalg.eigh(x).eigenvectors ** 3)", SYMMETRIC, marks=pytest.mark.slow),
        ("sum(torch.linalg.svdvals(x) ** 3)", TALL),
        ("sum(torch.linalg.svd(x, full_matrices=False).U ** 3)", TALL),
        pytest.param("sum(torch.linalg.svd(x, full_matrices=False).Vh ** 3)", TALL, marks=pytest.mark.slow),
        ("sum(torch.linalg.qr(x).Q ** 3)", TALL),
        pytest.param("sum(torch.linalg.qr(x).R ** 3)", TALL, marks=pytest.mark.slow),
        ("sum(torch.linalg.pinv(x) ** 2)", TALL),
        ("sum(torch.linalg.matrix_power(x, 3))", MATRIX),
    ],
)
def test_second_order_goes_through(text: str, x: list[list[float]]) -> None:
    """What is read beside the result has a derivative of its own: held against torch's double backward."""
    found = symgrad.hessian(text, "x", x=x, **({"b": [1.0, 2.0]} if "b)" in text else {}))
    assert [check.passed for check in found.checks].count(True) >= 3
    assert found.passed


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("text", "torch_function", "x"),
    [
        ("q, r = torch.linalg.qr(x); r", lambda x: torch.linalg.qr(x)[1], TALL),
        ("q, r = torch.linalg.qr(x); q @ r", lambda x: x * 1, TALL),
        ("torch.linalg.qr(x)[0]", lambda x: torch.linalg.qr(x)[0], [[2.0, 1.0, 0.5], [0.25, 3.0, 1.0]]),
        ("torch.linalg.qr(x).R", lambda x: torch.linalg.qr(x)[1], [[2.0, 1.0, 0.5], [0.25, 3.0, 1.0]]),
        ("torch.linalg.cholesky(x, upper=True)", lambda x: torch.linalg.cholesky(x, upper=True), SYMMETRIC),
        ("torch.linalg.eigh(x)[0]", lambda x: torch.linalg.eigh(x)[0], SYMMETRIC),
        ("torch.linalg.svd(x).S", lambda x: torch.linalg.svd(x)[1], TALL),
        ("torch.svd(x).V ** 2", lambda x: torch.linalg.svd(x)[2].mT ** 2, TALL),
        ("torch.slogdet(x)[0] * x", lambda x: torch.slogdet(x)[0] * x, MATRIX),
        (
            "torch.linalg.solve_triangular(x, x, upper=False)",
            lambda x: torch.linalg.solve_triangular(x, x, upper=False),
            MATRIX,
        ),
        (
            "torch.linalg.solve_triangular(x, x, upper=True, unitriangular=True)",
            lambda x: torch.linalg.solve_triangular(x, x, upper=True, unitriangular=True),
            MATRIX,
        ),
        ("torch.cholesky_solve(x @ x, tril(x))", lambda x: torch.cholesky_solve(x @ x, x.tril()), MATRIX),
        ("torch.cholesky_inverse(triu(x), upper=True)", lambda x: torch.cholesky_inverse(x.triu(), upper=True), MATRIX),
        ("torch.linalg.lstsq(x, x @ x.T).solution", lambda x: torch.linalg.lstsq(x, x @ x.T).solution, TALL),
        ("torch.matrix_power(x, 5)", lambda x: torch.matrix_power(x, 5), MATRIX),
        ("torch.matrix_power(x, -2)", lambda x: torch.matrix_power(x, -2), MATRIX),
        ("torch.matrix_power(x, 0) * x", lambda x: torch.matrix_power(x, 0) * x, MATRIX),
        ("torch.matrix_exp(x)", torch.matrix_exp, MATRIX),
        ("torch.linalg.multi_dot([x, x, x])", lambda x: x @ x @ x, MATRIX),
        ("torch.linalg.tensorinv(x[:, None], ind=1)", lambda x: torch.linalg.tensorinv(x[:, None], ind=1), MATRIX),
        ("torch.linalg.tensorsolve(x[:, None], x[0])", lambda x: torch.linalg.tensorsolve(x[:, None], x[0]), MATRIX),
    ],
)
def test_calls_that_are_several_entries(
    text: str, torch_function: Callable[[torch.Tensor], torch.Tensor], x: list[list[float]]
) -> None:
    """Value and gradient are those of torch's own call, in texts and in captured programs."""
    leaf = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    out = torch_function(leaf)
    weights = torch.arange(1.0, 1.0 + out.numel(), dtype=torch.float64).reshape(out.shape)
    out.backward(weights)
    found = symgrad.explain(text, x=x, seed=weights, check=False)
    assert_same(out, found.output, what=text)
    assert_same(leaf.grad, found.gradients["x"].value, tolerance=1e-8, what=text)
    program = symgrad.capture(torch_function, leaf.detach().clone())
    assert not program.black_boxes
    assert_same(leaf.grad, program.pullback(weights)["x"], tolerance=1e-8, what=f"{text}, captured")


def test_a_symmetric_matrix_has_two_representatives() -> None:
    found = symgrad.explain("torch.linalg.eigvalsh(x)", x=SYMMETRIC, seed=[1, 2, 3]).gradients["x"]
    shared, single = found.value, found.single_variable
    assert single is not None
    rng = np.random.default_rng(0)
    change = rng.normal(size=(3, 3))
    change = change + change.T
    assert_same(np.sum(shared * change), np.sum(np.triu(single * change)), what="⟨g, dx⟩ either way")
    assert "as one variable" in symgrad.explain("torch.linalg.eigvalsh(x)", x=SYMMETRIC, check=False).to_text()
    assert symgrad.explain("det(x)", x=SYMMETRIC, check=False).gradients["x"].single_variable is None


@pytest.mark.parametrize(
    ("text", "x", "kind", "says"),
    [
        ("inverse(x)", [[1, 2], [2, 4]], DomainError, "no inverse"),
        ("solve(x, x)", [[1, 2], [2, 4]], DomainError, "no inverse"),
        ("det(x)", [[1, 2], [2, 4]], UnsupportedError, "takes the derivative of det by inverse: .* no inverse"),
        ("logdet(x)", [[1, 2], [2, 4]], DomainError, "no inverse"),
        ("torch.linalg.cholesky(x)", [[1, 2], [2, 1]], DomainError, "not positive definite"),
        ("torch.linalg.cholesky(x)", [[2, 1], [0, 2]], DomainError, "not symmetric"),
        ("torch.linalg.eigh(x)[1]", [[1, 0], [0, 1]], UndefinedError, "two eigenvalues are equal"),
        ("torch.linalg.svd(x).U", [[1, 0], [0, 1]], UndefinedError, "two singular values are equal"),
        ("torch.linalg.svd(x).U", [[1, 2], [2, 4]], UndefinedError, "a singular value is 0"),
        ("torch.linalg.qr(x).Q", [[1, 2], [2, 4]], UndefinedError, "depend on each other"),
        ("torch.linalg.pinv(x)", [[1, 2], [2, 4]], UndefinedError, "full rank"),
        ("torch.cholesky_inverse(x)", [[1, 2], [2, 4]], DomainError, "not lower triangular"),
        ("torch.linalg.svd(x).U", TALL, UnsupportedError, "full_matrices=True"),
        ("torch.linalg.qr(x, mode='complete').Q", TALL, UnsupportedError, "mode"),
        ("torch.linalg.lstsq(x, x)[3]", TALL, UnsupportedError, "no derivative, in torch neither"),
        ("torch.matrix_power(x, 1000)", MATRIX, UnsupportedError, "beyond 64"),
        ("inverse(x)", [1, 2], ShapeError, "at least 2 axes"),
        ("inverse(x)", [[1, 2, 3], [4, 5, 6]], ShapeError, "inverse"),
        ("torch.linalg.qr(x)", MATRIX, NotationError, "several tensors"),
        ("torch.linalg.qr(x, 1, 2).Q", MATRIX, NotationError, "too many"),
    ],
)
def test_refusals(text: str, x: list[list[float]], kind: type[SymgradError], says: str) -> None:
    with pytest.raises(kind, match=says):
        symgrad.explain(text, x=x)


def test_numpys_spelling_is_known() -> None:
    assert find("np.linalg.inv") is find("inverse")


@pytest.mark.parametrize("text", ["torch.linalg.eigvalsh(x).sum()", "torch.linalg.svdvals(x).sum()"])
def test_equal_values_have_a_sum_that_moves(text: str) -> None:
    """Which vector belongs to which value does not matter to their sum: at I its gradient is I."""
    found = symgrad.explain(text, x=[[1, 0], [0, 1]])
    assert found.passed
    assert_same(np.eye(2), found.gradients["x"].value, what=text)


def test_a_column_that_begins_with_minus_0_is_turned_as_torch_turns_it() -> None:
    found = symgrad.explain("qr(x).Q", x=[[-0.0, 1], [1, 2], [1, 0]])
    assert found.passed
    assert found.output[1, 0] < 0


def test_why_a_call_is_a_black_box_is_one_sentence() -> None:
    """What would do in a text is no part of it."""
    program = symgrad.capture(lambda x: torch.linalg.svd(x, full_matrices=True)[2], torch.ones(2, 3).double().cumsum(1))
    (box,) = program.boxes.values()
    assert box.reason == "svd: the extra vectors of full_matrices=True are arbitrary, so they have no derivative"


def test_a_story_says_that_the_derivative_of_det_is_missing_and_not_its_value() -> None:
    told = repr(symgrad.capture(torch.det, torch.tensor([[1.0, 2.0], [2.0, 4.0]])))
    assert "not verified: torch.det: symgrad takes the derivative of det by inverse: this matrix has no inverse" in told
