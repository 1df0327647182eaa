"""Linear algebra of complex matrices against torch, and of real ones with complex eigenvalues.

Vectors have phases that nobody chose: what does not depend on them is derived, what does is torch's own, with its
refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from symgrad import capture
from symgrad.errors import UnsupportedError
from symgrad.tracing.lift import complex_definitions as complex_spectra
from tests.compare import assert_same
from tests.complex_draws import draw, held_against_torch, real

L = torch.linalg
A, B = draw(3, 3), draw(3, 2)
DEFINITE = A @ A.mH + 3 * torch.eye(3)
TALL, STACK = draw(4, 2), draw(2, 2, 2)
TURNED = torch.tensor([[1.0, 2.0, 0.0], [-3.0, 1.0, 0.5], [0.0, 1.0, 4.0]], dtype=torch.float64)


def hermitian(z: Any) -> Any:
    """As torch's own checks make one: its gradient off such matrices is torch's own choice."""
    return (z + z.mH) / 2


def projections(vectors: Any) -> Any:
    """v·vᴴ of each column, which no phase changes."""
    return vectors.mT.unsqueeze(-1) * vectors.mT.conj().unsqueeze(-2)


DERIVED: dict[str, tuple[Any, ...]] = {
    "inv": (lambda z: L.inv(z) + torch.inverse(z) @ L.inv_ex(z)[0], A),
    "solve": (lambda a, b: L.solve(a, b) + L.solve(a, b.mT, left=False).mT, A, B),
    "solve vectors": (L.solve, STACK, draw(2, 2, seed=1)),
    "solve triangular": (lambda a, b: L.solve_triangular(a, b, upper=True, unitriangular=True), A, B),
    "pinv": (lambda z: L.pinv(z).mT + L.lstsq(z, z[:, :1])[0].mT, TALL),
    "tensorinv": (lambda z: L.tensorinv(z.reshape(2, 2, 4)), draw(4, 4)),
    "powers": (lambda z: L.matrix_power(z, 3) + L.matrix_power(z, -2) + torch.matrix_exp(z / 2), A),
    "cholesky": (lambda z: L.cholesky(hermitian(z)) + L.cholesky(hermitian(z), upper=True), DEFINITE),
    "cholesky solve": (lambda b, z: torch.cholesky_solve(b, z.tril()) + torch.cholesky_inverse(z.tril())[:, :2], B, DEFINITE),
    "Q": (lambda z: L.qr(z)[0], TALL),
    "R": (lambda z: L.qr(z)[1], TALL),
    "QR of a wide matrix": (lambda z: L.qr(z)[0] @ L.qr(z)[1] + L.qr(z)[1], TALL.mT),
    "L and U": (lambda z: L.lu(z)[1] @ L.lu(z)[1] - L.lu(z)[2], A),
    "L and U of a tall matrix": (lambda z: L.lu(z)[1] @ L.lu(z)[2] + L.lu(z)[1], TALL),
    "LU solves": (lambda a, b: L.lu_solve(*L.lu_factor(a), b) + L.lu_solve(*L.lu_factor(a), b, adjoint=True), A, B),
    "det": (lambda z: L.det(z) + L.slogdet(z)[0] * L.slogdet(z)[1], STACK),
    "reflections": (lambda z, t: L.householder_product(z, t) + torch.ormqr(z, t, z.clone(), transpose=True), A, draw(3)[:3]),
    "eigenvalues": (lambda z: L.eigvals(z), A),
    "eigenvectors": (lambda z: projections(L.eig(z)[1]), STACK),
    "eigenvalues of a real matrix": (lambda x: L.eigvals(x), TURNED),
    "eigenvectors of a real matrix": (lambda x: projections(L.eig(x)[1]), TURNED),
    "Hermitian eigenvalues": (lambda z: L.eigvalsh(hermitian(z)), A),
    "Hermitian eigenvectors": (lambda z: projections(L.eigh(hermitian(z), "U")[1]), A),
    "singular values": (lambda z: L.svdvals(z) * L.svd(z)[1] * L.matrix_norm(z, "nuc"), TALL),
    "singular vectors": (lambda z: projections(L.svd(z, full_matrices=False)[0]), TALL),
    "one call's vectors": (lambda z: (lambda u, s, vh: u @ vh)(*L.svd(z, full_matrices=False)), TALL),
    "condition": (lambda z: L.cond(z) + L.cond(z, -2), A),
}  # fmt: skip


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", list(DERIVED))
def test_derived(name: str) -> None:
    fn, *tensors = DERIVED[name]
    assert not held_against_torch(fn, *tensors).black_boxes


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("fn", "z"),
    [
        (lambda z: L.svd(z).U.real.sum(), STACK),
        (lambda z: L.eigh(hermitian(z))[1].imag.sum(), A),
        (lambda z: (torch.svd(z)[0] @ torch.svd(z)[2].mH).real.sum(), STACK),  # of two calls, each with its own
    ],
)
def test_what_depends_on_a_phase_is_refused_in_torchs_words(fn: Callable[[Any], Any], z: Any) -> None:
    program = capture(fn, z)
    assert "phase" in program.black_boxes[0].reason
    with pytest.raises(UnsupportedError, match="no gradient of torch"):
        program.pullback()


@pytest.mark.parametrize(
    ("fn", "z", "words"),
    [
        (lambda z: projections(L.eigh(hermitian(z))[1]), torch.eye(2) + 0j, "two eigenvalues are equal"),
        (
            lambda z: L.eigvals(z),
            torch.tensor([[1.0, 1.0], [0.0, 1.0]]).to(torch.complex128),
            "two eigenvalues are equal",
        ),
        (lambda z: projections(L.svd(z)[0]), torch.eye(2).to(torch.complex128), "two singular values are equal"),
        (lambda z: projections(L.svd(z)[0]), TALL, "arbitrary"),
        (lambda z: L.qr(z, mode="complete")[0], TALL, "arbitrary"),
        (lambda z: L.det(z), torch.tensor([[1.0, 2.0], [2.0, 4.0]]), "a pivot is 0"),
    ],
)
def test_where_there_is_no_derivative_the_reason_is_said(fn: Callable[[Any], Any], z: Any, words: str) -> None:
    assert any(words in box.reason for box in capture(fn, z.to(torch.complex128)).black_boxes)


def test_equal_eigenvalues_have_a_sum() -> None:
    program = capture(lambda z: L.eigvalsh(hermitian(z)).sum(), torch.eye(3, dtype=torch.complex128))
    assert not program.black_boxes
    assert_same(torch.view_as_real(torch.eye(3) + 0j), program.pullback()["z"])


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_step_to_the_eigenvalue_is_right_to_third_order(order: int) -> None:
    """λ'(A + tE) − λ(A + tE) shrinks as t⁴, so halving t divides it by about 16."""
    a, e = draw(3, 3), draw(3, 3, seed=order)
    values, right = L.eig(a)
    left = L.inv(right).mH

    class Plain:
        """The same calls, of which nothing is noted."""

        def __call__(self, function: Any, *arguments: Any) -> Any:
            return function(*arguments)

    def gap(t: float) -> Any:
        moved, _ = complex_spectra.track_eigenpairs(Plain(), a + t * e, values, right, left)  # type: ignore[arg-type]  # it is called, and no more
        true = L.eigvals(a + t * e)
        return (moved.unsqueeze(-1) - true).abs().amin(-1)

    assert (gap(0.02) < gap(0.04) / 10).all()
    assert (gap(0.04) > 0).all()


def test_a_real_matrix_stays_with_the_real_entries() -> None:
    program = capture(lambda x: L.inv(x), real(2, 2))
    assert not any("complex" in line for line in program.operations)
