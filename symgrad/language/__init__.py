"""Text to Program: Python's own grammar through a whitelist, and index equations; shapes are inferred.

A text goes through these modules in order: `tokens`, `syntax_tree`, `parser` (with `index_equations`), `pasted_script`,
then `statements` and `elaborate`, which append steps to a program under construction (`builder`). `attempt` does that
for one choice of shapes, and `inference` chooses. `arguments` and `literals` read what is passed beside the text.
"""

from symgrad.language.arguments import exact_array, is_boolean_data
from symgrad.language.expand import expand_composites, why_whole
from symgrad.language.index_equations import format_definition
from symgrad.language.inference import LOSSES, OUTPUTS, ParsedProgram, find_inputs, read_program
from symgrad.language.literals import Value, parse_value

__all__ = [
    "LOSSES",
    "OUTPUTS",
    "ParsedProgram",
    "Value",
    "exact_array",
    "expand_composites",
    "find_inputs",
    "format_definition",
    "is_boolean_data",
    "parse_value",
    "read_program",
    "why_whole",
]
