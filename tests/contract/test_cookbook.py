"""First derivatives that matrix books print (Petersen and Pedersen, The Matrix Cookbook, sections 2.1 to 2.5).

The right-hand side is the book's formula in torch, written by hand: an expectation, never an input. The derived
closed form has to exist and to give the same numbers.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad
from tests import torch_side
from tests.compare import assert_same

SHAPES = {"X": (3, 3), "A": (3, 3), "B": (3, 3), "C": (3, 3), "D": (3, 3), "W": (3, 3)} | dict.fromkeys("abxs", (3,))
GENERATOR = np.random.default_rng(11)
VALUES = {name: GENERATOR.uniform(0.2, 1.0, size=shape) for name, shape in SHAPES.items()}

BOOK = [
    ("x @ a", "x", "a"),
    ("a @ X @ b", "X", "outer(a, b)"),
    ("a @ X.T @ b", "X", "outer(b, a)"),
    ("a @ X @ a", "X", "outer(a, a)"),
    ("b @ X.T @ X @ a", "X", "X @ (outer(b, a) + outer(a, b))"),
    ("(B @ x + b) @ C @ (D @ x + a)", "x", "B.T @ C @ (D @ x + a) + D.T @ C.T @ (B @ x + b)"),
    ("x @ B @ x", "x", "(B + B.T) @ x"),
    ("a @ X.T @ D @ X @ b", "X", "D.T @ X @ outer(a, b) + D @ X @ outer(b, a)"),
    ("(X @ b + a) @ D @ (X @ b + a)", "X", "outer((D + D.T) @ (X @ b + a), b)"),
    ("(x - A @ s) @ W @ (x - A @ s)", "s", "-A.T @ (W + W.T) @ (x - A @ s)"),
    ("(x - A @ s) @ W @ (x - A @ s)", "x", "(W + W.T) @ (x - A @ s)"),
    ("(x - A @ s) @ W @ (x - A @ s)", "A", "-outer((W + W.T) @ (x - A @ s), s)"),
    ("trace(X)", "X", "torch.eye(3)"),
    ("trace(X @ A)", "X", "A.T"),
    ("trace(A @ X @ B)", "X", "A.T @ B.T"),
    ("trace(A @ X.T @ B)", "X", "B @ A"),
    ("trace(X.T @ A)", "X", "A"),
    ("trace(A @ X.T)", "X", "A"),
    ("trace(X @ X)", "X", "2 * X.T"),
    ("trace(X @ X @ B)", "X", "(X @ B + B @ X).T"),
    ("trace(X.T @ B @ X)", "X", "B @ X + B.T @ X"),
    ("trace(X @ B @ X.T)", "X", "X @ B.T + X @ B"),
    ("trace(A @ X @ B @ X)", "X", "A.T @ X.T @ B.T + B.T @ X.T @ A.T"),
    ("trace(X.T @ X)", "X", "2 * X"),
    ("trace(B.T @ X.T @ C @ X @ B)", "X", "C.T @ X @ B @ B.T + C @ X @ B @ B.T"),
    ("trace(A @ X @ B @ X.T @ C)", "X", "A.T @ C.T @ X @ B.T + C @ A @ X @ B"),
    ("trace((A @ X @ B + C) @ (A @ X @ B + C).T)", "X", "2 * A.T @ (A @ X @ B + C) @ B.T"),
    ("trace(X @ X @ X)", "X", "3 * (X @ X).T"),
    ("norm(x - a)", "x", "(x - a) / norm(x - a)"),
    ("sum((x - a) ** 2)", "x", "2 * (x - a)"),
    ("norm(X) ** 2", "X", "2 * X"),
    ("sum((X @ a - b) ** 2)", "a", "2 * X.T @ (X @ a - b)"),
    ("log(sum(exp(x)))", "x", "softmax(x)"),
    ("sum(sin(X))", "X", "torch.cos(X)"),
    ("sigmoid(x @ a)", "x", "a * sigmoid(x @ a) * (1 - sigmoid(x @ a))"),
    ("exp(a @ x)", "x", "a * torch.exp(a @ x)"),
    ("(a @ x) ** 2", "x", "2 * a * (a @ x)"),
    ("sum(relu(X @ a))", "X", "outer((X @ a > 0).double(), a)"),
    ("det(X)", "X", "det(X) * inverse(X).T"),
    ("det(A @ X @ B)", "X", "det(A @ X @ B) * inverse(X).T"),
    ("det(X.T @ X)", "X", "2 * det(X.T @ X) * inverse(X).T"),
    ("det(X.T @ A @ X)", "X", "det(X.T @ A @ X) * inverse(X).T * 2"),
    ("det(matrix_power(X, 3))", "X", "3 * det(X) ** 3 * inverse(X).T"),
    ("log(abs(det(X)))", "X", "inverse(X).T"),
    ("slogdet(X).logabsdet", "X", "inverse(X).T"),
    ("log(det(X.T @ X))", "X", "2 * inverse(X).T"),
    ("a @ inverse(X) @ b", "X", "-inverse(X).T @ outer(a, b) @ inverse(X).T"),
    ("det(inverse(X))", "X", "-det(inverse(X)) * inverse(X).T"),
    ("trace(A @ inverse(X) @ B)", "X", "-(inverse(X) @ B @ A @ inverse(X)).T"),
    ("trace(inverse(X + A))", "X", "-(inverse(X + A) @ inverse(X + A)).T"),
    (
        "trace(inverse(X.T @ C @ X) @ A)",
        "X",
        "M = inverse(X.T @ C @ X) @ A @ inverse(X.T @ C @ X); -C @ X @ M - C.T @ X @ M.T",
    ),
    ("a @ solve(X, b)", "X", "-outer(inverse(X).T @ a, solve(X, b))"),
    ("a @ solve(X, b)", "b", "inverse(X).T @ a"),
    ("trace(solve(X, A))", "A", "inverse(X).T"),
    ("sum(eigvalsh(X + X.T))", "X", "2 * torch.eye(3)"),
    ("sum(svdvals(X))", "X", "svd(X).U @ svd(X).Vh"),
    ("sum(svdvals(X) ** 2)", "X", "2 * X"),
]


@pytest.mark.one_in(8, alone=3)
@pytest.mark.parametrize(("text", "wrt", "book"), BOOK, ids=[f"d {text} / d{wrt}" for text, wrt, _ in BOOK])
def test_the_closed_form_is_the_books(text: str, wrt: str, book: str) -> None:
    used = {name: value for name, value in VALUES.items() if re.search(rf"\b{name}\b", text)}
    found = symgrad.explain(text, wrt=wrt, check=False, **used)
    form = found.gradients[wrt].closed_form
    assert form is not None
    tensors = {name: torch_side.tensor(value) for name, value in used.items()}
    expected = torch_side.evaluate(book, tensors)
    assert_same(expected, found.gradients[wrt].value, what=text)
    written = torch_side.evaluate(
        form, {**tensors, "v": torch_side.tensor(1.0), "out": torch_side.tensor(found.output)}
    )
    assert_same(expected, written, what=f"{text}: {form}")
