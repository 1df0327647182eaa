"""Text → Program: Python's own grammar through a whitelist, shapes inferred, values as literals."""

from symgrad.language.arguments import is_boolean_data, value_from
from symgrad.language.expand import expand_composites, why_whole
from symgrad.language.index_equations import definition, in_one_line, is_equation
from symgrad.language.literals import Value, literal
from symgrad.language.reading import LOSSES, OUTPUTS, Reading, inputs_of, read

__all__ = [
    "LOSSES",
    "OUTPUTS",
    "Reading",
    "Value",
    "definition",
    "expand_composites",
    "in_one_line",
    "inputs_of",
    "is_boolean_data",
    "is_equation",
    "literal",
    "read",
    "value_from",
    "why_whole",
]
