"""The plans of the table on an engine, beside those on NumPy."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from symgrad.tracing.captured.planned import Unplanned
from tests.cases import Case
from tests.compare import assert_same
from tests.local_equations import by_plan, local_equations, plan_of


def compare_with_numpy(case: Case, on: Any, array: Callable[[Any], Any], lacks: Collection[str]) -> None:
    """Each equation of a case with a plan on an engine gives what it gives on NumPy; only ``lacks`` have none.

    ``array`` makes one of the engine's arrays.
    """
    for what, equation, arrays, sizes in local_equations(case.program, case.values, case.seed):
        try:
            plan = plan_of(equation, arrays, sizes, on)
        except Unplanned as refusal:
            assert str(refusal) in lacks, refusal
            continue
        (found,) = plan.play([array(arrays[name]) for name in plan.inputs])
        expected = by_plan(equation, arrays, sizes)
        if np.isfinite(expected).all():
            assert_same(expected, np.asarray(found), tolerance=1e-8, seed=case.seed, what=what)
