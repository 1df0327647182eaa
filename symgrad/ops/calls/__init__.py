"""Calls that are several entries of the table in a row, one registry for texts and for captured programs."""

from symgrad.ops.calls import matrices, shapes, short
from symgrad.ops.calls.registry import COMPOUNDS, CallApplier, Compound, Last, compound, find_compound

FAMILIES = (matrices, shapes, short)
"""Where they stand."""

__all__ = ["COMPOUNDS", "FAMILIES", "CallApplier", "Compound", "Last", "compound", "find_compound"]
