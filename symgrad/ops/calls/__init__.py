"""Calls that are several entries of the table in a row, one registry for texts and for captured programs."""

from symgrad.ops.calls import matrix_calls, one_line_calls, shape_calls

FAMILIES = (matrix_calls, shape_calls, one_line_calls)
"""Where they stand."""
