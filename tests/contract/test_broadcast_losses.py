"""Losses and distances of two shapes that broadcast: what they divide by is torch's count, in every way in."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from symgrad import SymgradError
from tests import torch_side
from tests.compare import assert_same

Pairs = Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
PAIRS: Pairs = [
    ((3,), (3,)), ((3, 1), (1, 3)), ((3,), (2, 3)), ((2, 3), (3,)), ((2, 1), (2, 3)), ((2, 3), (2, 1)), ((1,), (3,)),
    ((3,), (1,)), ((2, 3), (4, 2, 3)), ((4, 2, 1), (2, 3)), ((), (3,)), ((2, 2), (2, 2)),
]  # fmt: skip
REDUCED = [
    "mse_loss(a, x{})", "l1_loss(a, x{})", "smooth_l1_loss(a, x, beta=0.7{})", "huber_loss(a, x, delta=0.7{})",
    "kl_div(a, x{})", "kl_div(a, x, log_target=True{})", "soft_margin_loss(a, (x > 0.5) * 2.0 - 1{})",
    "binary_cross_entropy_with_logits(a, x{})", "poisson_nll_loss(a, x{})", "poisson_nll_loss(a, x, log_input=False{})",
    "gaussian_nll_loss(a, x, torch.ones(1){})", "multilabel_soft_margin_loss(a, x{})",
    "multilabel_soft_margin_loss(a, x, weight=x{})", "margin_ranking_loss(a, x, torch.tensor([1.]){})",
    "hinge_embedding_loss(a, (x > 0.5) * 2.0 - 1{})", "binary_cross_entropy(sigmoid(a), x{})",
]  # fmt: skip
DISTANCES = [
    "F.pairwise_distance(a, x)", "F.pairwise_distance(a, x, p=1)", "F.cosine_similarity(a, x, dim=-1)",
    "F.cosine_similarity(a, x, dim=0)", "torch.dist(a, x)", "torch.dist(a, x, 1)",
]  # fmt: skip
DIVIDING = [*DISTANCES, *("F." + c.format(", reduction='mean'") for c in REDUCED)]
ADDING = ["F." + c.format(f", reduction={r!r}") for c in REDUCED for r in ("sum", "none")]
CALLS = [
    *(pytest.param(text, PAIRS, id=text) for text in DIVIDING),
    *(pytest.param(text, [PAIRS[0], *PAIRS[1 + n % 3 :: 3]], id=text) for n, text in enumerate(ADDING)),
    *(pytest.param(text, PAIRS, id=f"{text} at all", marks=pytest.mark.night) for text in ADDING),
]
"""What divides at all pairs of shapes, what does not at a third of them, and at night at all."""


def torchs(text: str, given: dict[str, np.ndarray]) -> tuple[torch.Tensor, dict[str, torch.Tensor]] | None:
    """torch's output and its leaves; None where it refuses."""
    leaves = {name: torch.tensor(array, requires_grad=True) for name, array in given.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch_side.evaluate(text, leaves), leaves
        except (RuntimeError, ValueError, IndexError):
            return None


@pytest.mark.one_in(6, alone=12)
@pytest.mark.parametrize(("text", "pairs"), CALLS)
def test_what_is_divided_by_is_torchs_count(text: str, pairs: Pairs) -> None:
    """``multilabel_soft_margin_loss`` was a mean over the classes of both sides, where torch counts those of the first."""
    drawn, tried = np.random.default_rng(4), 0
    for shape, other in pairs:
        given = {"a": drawn.uniform(0.1, 0.9, shape), "x": drawn.uniform(0.1, 0.9, other)}
        there = torchs(text, given)
        if there is None:
            continue
        out, leaves = there
        seed = drawn.integers(1, 5, tuple(out.shape)).astype(float)
        try:
            found = symgrad.explain(text, seed=seed, check=False, **given)
        except SymgradError:
            continue
        assert_same(out.detach(), found.output)
        for name in found.gradients:
            try:
                (grad,) = torch.autograd.grad(
                    out, leaves[name], torch.tensor(seed), retain_graph=True, allow_unused=True
                )
            except RuntimeError:  # no gradient by a target
                continue
            assert_same(torch.zeros(given[name].shape) if grad is None else grad, found.gradients[name].value)
            tried += 1
    assert tried


@pytest.mark.one_in(2, alone=4)
@pytest.mark.parametrize(("shape", "other"), [(("3", "1"), ("1", "3")), (("3",), ("2", "3")), (("2", "1"), ("2", "3"))])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_exports_and_formulas_divide_by_it_too(shape: tuple[str, ...], other: tuple[str, ...], reduction: str) -> None:
    text = f"F.multilabel_soft_margin_loss(a, x, reduction={reduction!r})"
    sizes = {"a": tuple(map(int, shape)), "x": tuple(map(int, other))}
    drawn = np.random.default_rng(2)
    given = {name: drawn.uniform(0.1, 0.9, size) for name, size in sizes.items()}
    there = torchs(text, given)
    assert there is not None
    out, leaves = there
    out.backward()
    space: dict[str, Any] = {}
    exec(symgrad.export(text, shapes=sizes), space)
    own = {name: torch.tensor(array, requires_grad=True) for name, array in given.items()}
    made = space["formula"](own["a"], own["x"])
    made.backward()
    assert_same(out.detach(), made.detach())
    for name, leaf in leaves.items():
        assert_same(leaf.grad, own[name].grad)


@pytest.mark.one_in(4, alone=12)
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 4)])
@pytest.mark.parametrize("rest", ["", ", label_smoothing=0.2", ", reduction='none'", ", reduction='sum'"])
def test_weights_of_classes_have_a_gradient_where_targets_are_probabilities(shape: tuple[int, ...], rest: str) -> None:
    """By classes torch refuses it."""
    drawn = np.random.default_rng(0)
    sizes = {"a": shape, "t": shape, "w": (shape[min(1, len(shape) - 1)],)}
    found = symgrad.explain(
        f"F.cross_entropy(a, t, weight=w{rest})", **{n: drawn.uniform(0.1, 1, s) for n, s in sizes.items()}
    )
    assert found.passed
    assert found.gradients["w"].value.any()
    assert found.outcome == "equal"
