"""Calls that are several entries of the table in a row, one registry for texts and for captured programs."""

from symgrad.ops.calls import (
    elementwise,
    factors,
    joining,
    layers,
    norms,
    powers,
    shapes,
    short,
    spectra,
    statistics,
    systems,
)
from symgrad.ops.calls.registry import COMPOUNDS, Call, Compound, Last, compound, find_compound

FAMILIES = (elementwise, factors, joining, layers, norms, powers, shapes, short, spectra, statistics, systems)
"""Where they stand."""

__all__ = ["COMPOUNDS", "FAMILIES", "Call", "Compound", "Last", "compound", "find_compound"]
