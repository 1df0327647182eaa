"""Every operation of the table, every operand, at 0, −0, ±1, 2, ±∞ and NaN, one entry or all of them: the captured
pullback is torch's, and where torch's number is no derivative the step is named in ``conventions`` with the reason.

One of the cases of each operation is drawn in every run, always the same; the slow tests take them all.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import symgrad
from symgrad import SymgradError
from symgrad.language import read_program
from symgrad.ops import Op, find, operations
from symgrad.oracles.comparisons import CheckVerdict
from tests import torch_programs, torch_side
from tests.compare import assert_same
from tests.sampling import draw, seed_of

POINTS = (0.0, -0.0, 1.0, -1.0, 2.0, float("inf"), float("-inf"), float("nan"))


def polar_apart(name: str, expected: np.ndarray, got: np.ndarray, inputs: dict[str, np.ndarray]) -> None:
    """torch divides by |r|: its gradient by r has the sign of r in it, and is 0 at 0."""
    assert_same(expected, got * np.sign(inputs["r"]) if name == "r" else got)


def ties_apart(name: str, expected: np.ndarray, got: np.ndarray, inputs: dict[str, np.ndarray]) -> None:
    """Which vectors belong to equal eigenvalues is LAPACK's choice: Σ w·v·vᵀ has the eigenvalues w whichever they are."""
    assert_same(np.linalg.eigvalsh((expected + expected.T) / 2), np.linalg.eigvalsh((got + got.T) / 2))


def logarithms_apart(name: str, expected: np.ndarray, got: np.ndarray, inputs: dict[str, np.ndarray]) -> None:
    """torch's forward pass takes no logarithm below −100, its gradient by the targets takes that of 0 as it is."""
    beyond = np.isinf(expected) & (name == "target")
    at = np.where(inputs["x"] == 0, 100.0, -100.0)[beyond]
    assert_same(np.sign(expected[beyond]) * 100, at)
    assert_same(np.sign(at), np.sign(got[beyond]))
    assert_same(np.where(beyond, got, expected), got)
    assert np.all(np.abs(got[beyond]) <= 300)


APART = {"complex_polar": polar_apart, "eigvalsh": ties_apart, "binary_cross_entropy": logarithms_apart}
"""Where torch's number is not the derivative although everything is finite, and what it is."""
OPS = list(operations())


def cases(op: Op) -> Iterator[dict[str, np.ndarray]]:
    """The inputs of the first example with one operand, or every one, at a point."""
    shapes = dict(op.examples[0].shapes)
    numbers = [n for n in shapes if not op.domain_of(n).whole]
    base = {n: draw(op.domain_of(n), s, np.random.default_rng(0)) for n, s in shapes.items()}
    for name in numbers:
        for point in POINTS:
            one = np.array(base[name], dtype=float)
            if one.size:
                one.reshape(-1)[one.size // 2] = point
                yield base | {name: one}
                yield base | {name: np.full(one.shape, point)}
    for point in (0.0, 1.0, -1.0):
        yield base | {n: np.full(shapes[n], point) for n in numbers}
    if numbers:
        yield {n: np.ones([1] * len(s)) if n in numbers else base[n] for n, s in shapes.items()}


def agrees(op: Op, inputs: dict[str, np.ndarray]) -> bool:
    """One case; False where its shapes are none that the operation takes. Any other refusal fails."""
    try:
        program = read_program(op.examples[0].text, shapes={n: a.shape for n, a in inputs.items()}).program
    except SymgradError:
        return False
    run, order = torch_programs.function_of(program, digits={}), [t.name for t in program.inputs]
    leaves = [torch.tensor(np.asarray(inputs[n], dtype=float), requires_grad=True) for n in order]
    try:
        out = run(*leaves)
        weights = np.random.default_rng(1).integers(1, 4, tuple(out.shape)).astype(float)
        out.backward(torch.tensor(weights))
    except (RuntimeError, IndexError, ValueError):
        return True  # torch refuses the point, or has no gradient
    captured = symgrad.capture(lambda *given: run(*given), *(leaf.detach() for leaf in leaves))
    for name, got, leaf in zip(order, captured.pullback(weights).values(), leaves, strict=True):
        expected = np.zeros(tuple(leaf.shape)) if leaf.grad is None else leaf.grad.numpy()
        at = {n: a.tolist() for n, a in inputs.items()}
        try:
            assert_same(expected, got, what=f"{op.examples[0].text} by {name} at {at}")
        except AssertionError:
            if op.name not in APART:
                raise
            APART[op.name](name, expected, got, inputs)
    assert all(reason for reason in captured.conventions.values())
    return True


def checked(op: Op, inputs: dict[str, np.ndarray]) -> bool:
    """`agrees`, without torch's words about 0/0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return agrees(op, inputs)


@pytest.mark.one_in(8, slow=3)
@pytest.mark.parametrize("part", range(8))
def test_one_case_of_each(part: int) -> None:
    for op in OPS[part::8]:
        found = list(cases(op))
        if found:
            at = seed_of(op.name) % len(found)
            assert checked(op, found[at]) or at == len(found) - 1, f"only of one entry is {op.name} refused"


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS, ids=[op.name for op in OPS])
def test_every_case(op: Op) -> None:
    found = list(cases(op))
    refused = [n for n, inputs in enumerate(found) if not checked(op, inputs)]
    assert refused in ([], [len(found) - 1]), "only of one entry may it be refused"


NEAR = (
    ("F.binary_cross_entropy(sigmoid(x), t)", {"x": [28.0, 0.5], "t": [0.5, 0.5]}),
    ("F.binary_cross_entropy(sigmoid(x), t)", {"x": [36.0, -36.0], "t": [0.25, 0.5]}),
    ("F.binary_cross_entropy(x, t)", {"x": [1e-13, 1 - 2.0**-53], "t": [0.5, 0.5]}),
    ("F.gaussian_nll_loss(x, t, s)", {"x": [1.0, 2.0], "t": [1.0, 1.0], "s": [1e-8, 1.0]}),
    ("F.gaussian_nll_loss(x, t, s * s, eps=0.1)", {"x": [1.0, 2.0], "t": [1.5, 1.0], "s": [0.25, 1.0]}),
)
"""Beside an edge, where all that is derived is finite and torch still has a number of its own."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("text", "values"), NEAR, ids=[f"{text} {n}" for n, (text, _) in enumerate(NEAR)])
def test_beside_an_edge_torchs_rule_is_told_and_nobody_disagrees(text: str, values: dict[str, list[float]]) -> None:
    found = symgrad.explain(text, **values)
    assert found.passed
    assert "a rule of its own" in found.to_text() or "torch's own rule" in " ".join(found.to_text().split())
    leaves = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values.values()]

    def run(*given: torch.Tensor) -> torch.Tensor:
        return torch_side.evaluate(text, dict(zip(values, given, strict=True)))

    program = symgrad.capture(run, *(leaf.detach() for leaf in leaves))
    expected = torch.autograd.grad(run(*leaves), leaves)
    for got, right in zip(program.pullback(1.0).values(), expected, strict=True):
        assert_same(right, got, tolerance=1e-6, what=text)
    assert program.conventions or program.black_boxes


@pytest.mark.slow
def test_the_page_of_an_embedding_loss_at_0_agrees() -> None:
    """Its slope there is 1e6 times what keeps it from dividing by 0: torch has that in single precision."""
    values = {"x": [[0.0, 0, 0], [1, 2, 3]], "y": [[1.0, 2, 3], [0, 0, 0]], "t": [1, -1]}
    found = symgrad.explain("cosine_embedding_loss(x, y, t)", **values)
    assert found.passed
    assert "1e-12" in found.to_text()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("length", [0.0, -1.0, -2.5])
def test_the_page_says_where_torch_contradicts_its_own_forward_pass(length: float) -> None:
    found = symgrad.explain("view_as_real(torch.polar(r, t))", r=[length, 1.0], t=[1.0, 2.0])
    assert found.passed
    (check,) = [check for check in found.gradients["r"].checks if check.own_rule]
    assert check.verdict is CheckVerdict.NOT_MADE
    told = re.sub(r"\s+", " ", found.to_text())
    assert (
        told.count("for r[0], where its own forward pass has the slope 1.382 on both sides: that is torch's own rule")
        == 2
    )
    assert "disagree" not in told
    assert "Equal to torch" not in told


@pytest.mark.slow
def test_factors_without_exchanged_rows_are_held_against_the_same() -> None:
    """torch's `lu_factor` exchanges rows wherever a larger entry stands below the pivot."""
    x = np.array([[0.1, 2.0, -1.0], [3.0, 0.0, 0.5], [1.0, -4.0, 2.0]])
    found = symgrad.explain("lu_factors(x)", x=x)
    assert found.passed
    assert "own forward pass" not in found.to_text()
    assert any("torch" in check.oracle and check.passed for check in found.gradients["x"].checks)
    op, dominant = find("lu_factors"), torch.tensor(x + 20 * np.eye(3))
    assert op is not None
    assert_same(torch.linalg.lu_factor(dominant)[0], op.torch(torch, dominant))
