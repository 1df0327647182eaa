"""What a run understands of complex tensors, a text understands: by a rule of the registry, or because it is linear."""

from __future__ import annotations

import pytest

from symgrad.ops.calls.complex_rules import ARITHMETIC
from symgrad.ops.calls.registry import OF_RUNS
from symgrad.tracing.lift.complexes import DEFINED
from symgrad.tracing.lift.inside import DEFINITIONS
from tests.cases import cases
from tests.test_complex_table import linear_in

RUNS_ONLY = {
    "cholesky", "cholesky_ex", "cholesky_inverse", "cholesky_solve", "constant_pad_nd", "cumprod", "det",
    "dist", "eig", "eigh", "eigvals", "fill", "inv_ex", "ldexp",
    "linalg_lu_factor_ex", "logcumsumexp", "lstsq", "matrix_exp", "pinv", "pinverse", "prod", "qr", "slogdet",
    "solve", "solve_ex", "solve_triangular", "svd", "triangular_solve", "var_mean",
}  # fmt: skip
"""What is understood of complex tensors in a run, and neither by a rule of the registry nor refused in a text with a
reason (`OF_RUNS`): may only shrink."""


@pytest.mark.slow
def test_what_a_run_understands_of_complex_tensors_a_text_understands() -> None:
    assert DEFINED  # the modules whose import fills DEFINITIONS
    known = {*ARITHMETIC, *OF_RUNS, *(case.op.name for case in cases() if linear_in(case))}
    assert {word for word in DEFINITIONS if word not in known and not word.startswith("_")} == RUNS_ONLY
