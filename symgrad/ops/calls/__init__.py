"""Calls that are several entries of the table in a row, one registry for texts and for captured programs."""

from symgrad.entries.spec import COMPOUNDS

COMPOUNDS.files.extend(f"{__name__}.{file}" for file in ("matrix_calls", "one_line_calls", "shape_calls"))
COMPOUNDS.unread.extend(COMPOUNDS.files)
