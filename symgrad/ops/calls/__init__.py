"""Calls that are several entries of the table in a row, one registry for texts and for captured programs."""

from symgrad.entries.spec import COMPOUNDS

FAMILIES = tuple(f"{__name__}.{file}" for file in ("matrix_calls", "one_line_calls", "shape_calls"))
"""Where they stand."""
COMPOUNDS.files.extend(FAMILIES)
COMPOUNDS.unread.extend(FAMILIES)
