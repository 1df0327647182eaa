"""Plans of the table on torch's tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from symgrad.lowering import lowered, make_plan
from symgrad.tracing.captured.on_torch import torch_engine
from symgrad.tracing.captured.planned import Unplanned
from tests.cases import Case, first_by_default
from tests.compare import assert_same
from tests.local_equations import by_plan, local_equations


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", first_by_default(6))
def test_the_table_on_tensors(case: Case) -> None:
    """Each pullback that has a plan on tensors gives what it gives on NumPy."""
    on = torch_engine(torch.float64, torch.device("cpu"))
    for what, equation, arrays, sizes in local_equations(case.program, case.values, case.seed):
        shapes = {name: array.shape for name, array in arrays.items()}
        holds = {name: "f" if array.dtype.kind == "f" else "i" for name, array in arrays.items()}
        graph, wanted = lowered([equation], sizes, shapes, holds)
        try:
            plan = make_plan(graph, wanted, on)
        except Unplanned as refusal:
            assert str(refusal) in ("besseli", "gamma"), refusal
            continue
        (found,) = plan.play([torch.from_numpy(np.array(arrays[name])) for name in plan.inputs])
        expected = by_plan(equation, arrays, sizes)
        if np.isfinite(expected).all():
            assert_same(expected, found, tolerance=1e-8, seed=case.seed, what=what)
