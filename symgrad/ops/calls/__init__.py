"""Calls that are several entries of the table in a row, one registry for texts and for captured programs."""

from symgrad.ops.calls import matrix_calls, one_line_calls, shape_calls
from symgrad.ops.calls.registry import COMPOUNDS, CallApplier, Compound, Last, compound, find_compound

FAMILIES = (matrix_calls, shape_calls, one_line_calls)
"""Where they stand."""

__all__ = ["COMPOUNDS", "FAMILIES", "CallApplier", "Compound", "Last", "compound", "find_compound"]
