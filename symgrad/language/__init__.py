"""Text → Program: Python's own grammar through a whitelist, shapes inferred, values as literals."""

from symgrad.language.expand import expand_composites, why_whole
from symgrad.language.grammar.equations import definition, in_one_line, is_equation
from symgrad.language.outside.literals import Value, literal
from symgrad.language.outside.values import holds_truths, value_from
from symgrad.language.read import LOSSES, OUTPUTS, Reading, inputs_of, read

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
