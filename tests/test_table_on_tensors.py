"""Plans of the table on torch's tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from symgrad.tracing.captured.on_torch import torch_engine
from tests.cases import Case, first_by_default
from tests.plans_of_the_table import compare_with_numpy


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", first_by_default(6))
def test_the_table_on_tensors(case: Case) -> None:
    """Each pullback that has a plan on tensors gives what it gives on NumPy."""
    on = torch_engine(torch.float64, torch.device("cpu"))
    compare_with_numpy(case, on, lambda array: torch.from_numpy(np.array(array)), ("besseli", "gamma"))
