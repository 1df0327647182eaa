"""Calls with the options that torch documents: read as a text and captured as a function, each is torch's own.

The table's first examples (`test_operations`) have few options; here is what people write around them: modes of padding,
weights, several axes, steps that a call is opened into, places to read from and to write to.
"""

from __future__ import annotations

import numpy as np
import pytest

import symgrad
from tests import torch_side
from tests.calls_with_options import CALLS, RUN, inputs_of
from tests.compare import assert_same
from tests.sampling import random_seed


@pytest.mark.one_in(12, alone=3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", [*CALLS, *RUN])
def test_a_call_with_options_is_torchs_read_and_captured(text: str) -> None:
    inputs, fixed = inputs_of(text)
    given = torch_side.tensors(inputs, fixed)
    seed = random_seed(torch_side.evaluate(text, given).shape, np.random.default_rng(1))
    out, expected = torch_side.text_gradients(text, inputs, seed, fixed)
    program = symgrad.capture(lambda **tensors: torch_side.evaluate(text, tensors), **given)
    assert not program.black_boxes
    found = {"captured": program.pullback(seed)}
    if text in CALLS:
        explained = symgrad.explain(text, seed=seed, check=False, **inputs)
        assert_same(out, explained.output, what=text)
        found["read"] = {name: gradient.value for name, gradient in explained.gradients.items()}
    for way, gradients in found.items():
        for name in inputs.keys() - fixed:
            assert_same(expected[name], gradients[name], what=f"{name}.grad of {text}, {way}")
