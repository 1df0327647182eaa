"""Torch calls that only a run can say in entries of the table, one family a file; each enters itself."""

from symgrad.tracing.lift.calls import (
    compositions,
    factors,
    layers,
    placing,
    sequences,
)
from symgrad.tracing.lift.steps import COMPOSITIONS

FAMILIES = (compositions, factors, layers, placing, sequences)
"""Where they stand."""

__all__ = ["COMPOSITIONS", "FAMILIES"]
