"""Text → Program: Python's own grammar through a whitelist, shapes inferred, values as literals."""

from symgrad.language.equations import definition, in_one_line, is_equation
from symgrad.language.expand import expand_composites, why_whole
from symgrad.language.literals import Value, literal
from symgrad.language.read import LOSSES, OUTPUTS, Reading, inputs_of, read
from symgrad.language.values import holds_truths, value_from

__all__ = [
    "LOSSES",
    "OUTPUTS",
    "Reading",
    "Value",
    "definition",
    "expand_composites",
    "holds_truths",
    "in_one_line",
    "inputs_of",
    "is_equation",
    "literal",
    "read",
    "value_from",
    "why_whole",
]
