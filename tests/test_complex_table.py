"""What is linear in its tensors is understood of complex ones, in a text as in a run: driven by the table.

torch is the truth, value and gradients. Which entries are linear is read off their equations
(`symgrad.entries.derived_facts`); those that torch itself refuses of complex tensors are listed, and the list may only shrink.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad
from symgrad.entries.derived_facts import multilinear
from symgrad.program import Apply, Constant
from tests import torch_side
from tests.cases import Case, cases
from tests.compare import assert_same
from tests.nights import numbers

INNER = frozenset({"triangular_factor"})
"""Entries of symgrad's own that demand something of the numbers."""
TORCH_HAS_NONE = frozenset({
    "affine_grid", "conv_tbc",
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "batch_norm", "deg2rad", "interpolate", "max_unpool1d", "max_unpool2d", "max_unpool3d", "nll_loss", "rad2deg",
    "scatter_reduce", "index_reduce", "bilinear", "embedding",
})  # fmt: skip
"""Entries that are linear, and that torch has, or differentiates, for real tensors only."""


def linear_in(case: Case) -> set[str]:
    """The inputs that an example of one step is linear in."""
    steps = [step for step in case.program.steps if isinstance(step, Apply)]
    if case.op.traits.complex_pairs or case.op.name in INNER or len(steps) != 1 or case.last.op != case.op.name:
        return set()
    shapes = {tensor.name: tensor.shape for tensor in case.program.inputs}
    given = [() if isinstance(a, Constant) and a.value is not None else shapes.get(a) for a in case.last.arguments]
    values = [a.value if isinstance(a, Constant) else None for a in case.last.arguments]
    terms = multilinear(case.op, given, values, case.last.result.shape, dict(case.last.options))
    return {str(case.last.arguments[int(n)]) for term in terms or () for n in term}


PARTS = 8
"""In so many parts the table is gone through: which entries are linear takes seconds to find."""


@pytest.mark.parametrize("part", numbers(range(1), range(1, PARTS)))
def test_what_is_linear_means_the_same_of_complex_tensors(part: int) -> None:
    linear = [case for case in cases()[part::PARTS] if linear_in(case)]
    assert len(linear) > 15
    for case in linear:
        means_the_same(case)


def means_the_same(case: Case) -> None:
    """An example with complex tensors in the places in which it is linear is what torch makes of it."""
    complex_ones = linear_in(case)
    names = "|".join(map(re.escape, complex_ones))
    text = re.sub(rf"\b({names})\b(?!\s*=)", r"view_as_complex(\1)", case.example.text)
    text = f"view_as_real({text})"
    rng = np.random.default_rng(case.seed)
    arrays = {
        name: rng.normal(size=(*array.shape, 2)) if name in complex_ones else array
        for name, array in case.inputs.items()
    }
    tensors = torch_side.tensors(arrays, case.fixed)
    try:
        shape = tuple(torch_side.evaluate(text, tensors).shape)
    except (RuntimeError, NotImplementedError, TypeError, ValueError):
        assert case.op.name in TORCH_HAS_NONE
        return
    weights = rng.normal(size=shape)
    page = symgrad.explain(text, check=False, seed=weights, **arrays)
    try:
        out, gradients = torch_side.text_gradients(text, arrays, weights, case.fixed)
    except RuntimeError:
        assert case.op.name in TORCH_HAS_NONE
        return
    assert_same(out, page.output, what=text)
    for name in complex_ones:
        assert_same(gradients[name], page.gradients[name].value, what=f"{text}: {name}")
