"""Every operation of the table, every operand, at 0, −0, ±1, 2, ±∞ and NaN, one entry or all of them: the captured
pullback is torch's, and where torch's number is no derivative the step is named in ``conventions`` with the reason.

One of the cases of each operation is drawn in every run, always the same; the slow tests take them all.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from symgrad import SymgradError
from symgrad.documents import kinks_page
from symgrad.explanation.kinks import edges_of
from symgrad.language import read_program
from symgrad.numeric import forward
from symgrad.ops import Op, find, operations
from symgrad.oracles.comparisons import CheckVerdict, Comparison
from symgrad.oracles.torch import data_inputs, run_torch
from symgrad.oracles.torch_rules import own_rule
from symgrad.oracles.typed_text import describe_other_values
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


EDGED = [op for op in OPS if op.limits.edges]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("op", EDGED, ids=[op.name for op in EDGED])
def test_at_an_edge_torch_has_a_number_of_its_own_and_nobody_disagrees(op: Op) -> None:
    rules = list(edges_of(op))
    assert rules, "the edge is stale: torch and the equation agree"
    page = kinks_page([op]).text
    for text, place, own in rules:
        shapes = dict(next(e.shapes for e in op.examples if e.text == text))
        at = {k: float(v) for k, v in (part.split(" = ") for part in place.split(", "))}
        found = symgrad.explain(text, **{n: np.full(s, at.get(n, 0.5)) for n, s in shapes.items()})
        assert found.passed, own
        assert f"| {place} | {own.by} |" in page


@pytest.mark.parametrize("op", EDGED, ids=[op.name for op in EDGED])
def test_at_an_edge_a_captured_program_has_torchs_number(op: Op) -> None:
    """Also where all that is derived is finite, so that nothing looks singular: a Poisson loss at the target 0."""
    for example, edge in product(op.examples, op.limits.edges):
        fixed = data_inputs(read_program(example.text, shapes=dict(example.shapes)).program)
        inputs = {n: torch.full(s, edge.get(n, 0.5), dtype=torch.float64) for n, s in example.shapes}
        moving = [n for n in inputs if n not in fixed]

        def run(
            *given: torch.Tensor, text: str = example.text, names: list[str] = moving, rest: dict[str, Any] = inputs
        ) -> torch.Tensor:
            return torch_side.evaluate(text, {**rest, **dict(zip(names, given, strict=True))})

        leaves = [inputs[n].clone().requires_grad_(True) for n in moving]
        expected = torch.autograd.grad(run(*leaves).sum(), leaves, allow_unused=True)
        program = symgrad.capture(run, *(inputs[n] for n in moving))
        got = program.pullback(np.ones(tuple(run(*leaves).shape)))
        for name, value, right in zip(moving, got.values(), expected, strict=True):
            other = np.zeros(value.shape) if right is None else right.numpy()
            if op.name == "binary_cross_entropy" and np.isinf(other).any():
                logarithms_apart(name, other, value, {n: array.numpy() for n, array in inputs.items()})
            else:
                assert_same(other, value, what=f"{example.text} at {edge}")


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


def test_a_wrong_number_beside_an_edge_is_no_rule_of_torchs() -> None:
    text, values = NEAR[3]
    found = symgrad.explain(text, check=False, **values)
    inputs = {name: np.array(value) for name, value in values.items()}
    answer = run_torch(found.program, inputs, np.array(1.0), ["s"])
    assert answer is not None
    expected, got = answer.gradients["s"], np.asarray(found.gradients["s"].value)
    assert expected is not None
    for wrong, passed in (([0.0, 0.0], None), ([1e3, 0.0], False), ([0.0, 0.1], False)):
        other = got + np.array(wrong)
        values = forward(found.program, inputs)
        case = Comparison("torch", found.program, values, np.array(1.0), "s", expected, other)
        told = own_rule(case, case.check())
        assert told.passed is passed, wrong


def test_an_operation_without_edges_has_none() -> None:
    op = find("exp")
    assert op is not None
    assert list(edges_of(op)) == []
    assert "Without a derivative" not in kinks_page([op]).text


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


@pytest.mark.parametrize("text", ["r ** 2", "relu(r)", "view_as_real(torch.polar(r, t))[:, 0]"])
def test_a_derived_number_that_is_wrong_is_no_rule_of_torchs(text: str) -> None:
    values = {n: np.array(v) for n, v in (("r", [1.5, -2.0]), ("t", [1.0, 2.0])) if n == "r" or "t)" in text}
    found = symgrad.explain(text, check=False, **values)
    answer = run_torch(found.program, values, np.ones(2), ["r"])
    assert answer is not None
    expected = answer.gradients["r"]
    for wrong in (np.array([0.002, 0.0]), np.array([0.0, 0.002]), np.array([2.0, -2.0])):
        got = np.asarray(found.gradients["r"].value) + wrong
        case = Comparison("torch", found.program, forward(found.program, values), np.ones(2), "r", expected, got)
        check = case.check()
        assert own_rule(case, check) is check
        assert check.passed is False


MOVED = (
    "F.pad(x, (1, 2))", "F.pad(x, (-1, 1))", "x.roll(1)", "x.flip(0)", "cat([x, x])", "stack([x, x])", "x[1:]",
    "diag(x)", "torch.block_diag(x[None], x[None])", "F.interpolate(x[None, None], scale_factor=2)", "x.repeat(2)",
    "x.unfold(0, 2, 1)", "x.cumsum(0)", "sort(x).values", "sort(x, 0, True).values", "topk(x, 2).values",
    "topk(x, 2, 0, False).values", "kthvalue(x, 2).values", "median(x)", "median(x, 0).values", "quantile(x, 0.3)",
    "x.max()", "amin(x, 0)", "x.cummax(0).values", "F.avg_pool1d(x[None], 2)",
)  # fmt: skip


@pytest.mark.parametrize("text", MOVED)
def test_what_is_not_finite_stays_where_torch_has_it(text: str) -> None:
    """A place that is not chosen is not there: 0·NaN and 0·∞ do not come from it. And NaN is the largest in order."""
    program = read_program(text, shapes={"x": (4,)}).program
    for x in (
        [np.nan, 1.0, -2.0, 0.5],
        [1.0, np.inf, 0.0, -3.0],
        [0.5, -np.inf, np.nan, 2.0],
        [3.0, np.nan, 1.0, np.nan],
    ):
        expected = torch_side.evaluate(text, {"x": torch_side.tensor(np.array(x))})
        assert_same(expected, forward(program, {"x": np.array(x)})[program.output], what=f"{text} at {x}")


@pytest.mark.parametrize("text", ["median(z, 0).values", "topk(z, 2).values", "quantile(z, 0.5)"])
def test_the_gradient_goes_to_the_entry_that_is_no_number(text: str) -> None:
    found = symgrad.explain(f"z = x + log(u); {text}", x=[0.5, 1.0, -2.0], u=[-1.0, 1.0, 1.0], wrt="x")
    assert found.passed
    assert found.gradients["x"].value[0] == 1


OTHERWISE = {
    "batch_norm": "torch has x·(w/σ) + (b − μ·w/σ), ∞ − ∞ where w is infinite; the equation w·(x − μ)/σ + b",
    "bilinear": "torch adds up over x before it multiplies by y = ∞; the equation's terms are ∞ − ∞",
    "complex_hfft": "which ∞ − ∞ are formed on the way is the algorithm's: a sum of cosines here, a fast transform there",
    "complex_irfft": "as complex_hfft",
    "complex_matmul": "torch's product of matrices makes NaN of ∞ + bi; the equation's four real sums do not",
    "gaussian_nll_loss": "torch bounds a variance of 0 by eps; the equation divides by it",
    "hardswish": "torch has x·relu6(x + 3)/6, at −∞ that is −∞·0; the equation has the limit, 0",
    "interpolate": "torch weighs a neighbour beyond the border by 0, 0·∞ = NaN; the equation has no such term",
    "lerp": "from w = 1/2 on torch has y − (1 − w)·(y − x), without the ∞ − ∞ of x + w·(y − x)",
    "lgamma": "log|Γ| has no limit at −∞, between its poles it falls: torch says ∞, SciPy −∞",
    "mvlgamma": "as lgamma",
    "poisson_nll_loss": "the equation multiplies Stirling's term by full = 0, 0·∞ = NaN; torch leaves it out",
    "polygamma": "at a pole torch divides by sin²(π·x), which rounding keeps from 0; at −∞ there is no limit",
    "qr_r": "a matrix with ∞ has no factors: what is left is LAPACK's, of NumPy's build here, of torch's there",
    "sign": "torch says that the sign of NaN is 0",
    "solve": "a system with NaN has no solution: what is left is LAPACK's, of NumPy's build here, of torch's there",
    "svd_u": "as qr_r",
    "svd_vh": "as qr_r",
    "trapezoid": "torch has Σ y − (first + last)/2, ∞ − ∞; the equation adds up halves and wholes",
}
"""Operations whose value torch has otherwise at one of these points, and why. The page says so where it happens."""


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS, ids=[op.name for op in OPS])
def test_the_value_is_torchs_or_the_page_says_that_it_is_not(op: Op) -> None:
    apart = 0
    for inputs in cases(op):
        try:
            program = read_program(op.examples[0].text, shapes={n: a.shape for n, a in inputs.items()}).program
            ours = np.asarray(forward(program, inputs)[program.output], dtype=float)
            order = [tensor.name for tensor in program.inputs]
            given = [torch.tensor(np.asarray(inputs[n], dtype=float)) for n in order]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = torch_programs.function_of(program)(*given).detach().numpy()
        except (SymgradError, RuntimeError, IndexError, ValueError):
            continue  # one of the two refuses in words
        told = describe_other_values("out", ours, theirs)
        try:
            assert_same(theirs, ours)
        except AssertionError:
            assert told
            apart += 1
    assert (apart > 0) == (op.name in OTHERWISE)


@pytest.mark.parametrize(
    ("text", "at", "told"),
    [
        ("sign(log(x))", [-1.0, 2.0], "at out[0]: 0, by the equation nan"),
        ("hardswish(log(x))", [0.0, 1.0], "at out[0]: nan, by the equation 0"),
        ("sign(log(x))", [1.5, 2.0], ""),
    ],
)
def test_a_value_that_torch_has_otherwise_is_said(text: str, at: list[float], told: str) -> None:
    page = re.sub(r"\s+", " ", symgrad.explain(text, x=at).to_text())
    assert ("torch's own forward pass has another value" in page) == bool(told)
    assert told in page


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_a_grid_that_is_not_finite_reads_what_torch_reads(mode: str, padding: str) -> None:
    if mode == "bicubic" and padding != "zeros":
        return
    op, x = find("grid_sample"), np.arange(9.0).reshape(1, 1, 3, 3)
    assert op is not None
    assert op.numpy is not None
    for far in (np.inf, -np.inf, np.nan):
        grid, options = np.array([[[[far, 0.25]]]]), {"mode": mode, "padding_mode": padding, "align_corners": True}
        expected = torch.nn.functional.grid_sample(torch.tensor(x), torch.tensor(grid), **options)
        assert_same(expected, op.numpy(x, grid, **options), tolerance=1e-6, what=f"{mode} {padding} {far}")


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
