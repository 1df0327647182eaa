"""What is computed entry by entry is its text, read on arrays; a condition in it is a choice."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from symgrad.entries.readings import PointwiseEquation
from symgrad.language import read_program
from symgrad.numeric import forward
from symgrad.numeric.forward_pass import options_of
from symgrad.ops import TABLE
from tests import on_arrays
from tests.cases import Case, cases
from tests.compare import assert_same
from tests.entry_readings import reading

POINTWISE = [case for case in cases() if isinstance(reading(case.op), PointwiseEquation) and not case.op.saved.names]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", POINTWISE, ids=lambda case: case.name)
def test_the_forward_pass_is_the_text_read_on_arrays(case: Case) -> None:
    """The lowering computes an entry, or NumPy's function for its digits; a reading of its own is the other witness."""
    step, found = next(s for s in case.program.steps if s.op == case.op.name), reading(case.op)
    assert isinstance(found, PointwiseEquation)
    given = [case.values[a] if isinstance(a, str) else a.value for a in step.arguments]
    arrays = [None if a is None else np.asarray(a, float) for a in given]
    with np.errstate(all="ignore"):
        expected = on_arrays.forward(found, *arrays, **options_of(step, case.program.sizes))
    assert_same(expected, case.values[step.result.name], what=case.name)


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "elu", "hardtanh", "softshrink", "threshold"])
def test_a_condition_is_a_choice(name: str) -> None:
    """Where it fails, what is infinite there counts for nothing; what cannot be compared is no number, as in torch."""
    op, points = TABLE[name], np.array([-np.inf, -1.0, -0.0, 0.0, 2.0, np.inf, np.nan])
    options = {**op.defaults, **({"threshold": 0.5, "value": 1.0} if name == "threshold" else {})}
    program = read_program(
        f"F.{name}({', '.join(['x', *map(str, options.values())])})", shapes={"x": points.shape}
    ).program
    with np.errstate(all="ignore"):
        found = forward(program, {"x": points})[program.output]
    expected = op.torch(torch, torch.tensor(points), **options).numpy()
    assert_same(expected, np.asarray(found, dtype=float), what=name)
