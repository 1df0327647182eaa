"""What the equations of the table's entries are read as, and the entries that are their equations."""

from __future__ import annotations

from typing import Any

from symgrad import operations
from symgrad.entries.along import EquationOnAxes, LossReading
from symgrad.entries.derived_facts import equation_text
from symgrad.entries.indexed import IndexedEquation
from symgrad.entries.readings import PointwiseEquation


def reading(op: Any) -> object:
    """What an entry's equation is read as; None for a function."""
    return getattr(op.index, "__self__", None)


SAID = [
    op
    for op in operations()
    if isinstance(reading(op), (PointwiseEquation, EquationOnAxes, LossReading, IndexedEquation)) and equation_text(op)
]
"""The entries that are their equations, each with a text of it."""
