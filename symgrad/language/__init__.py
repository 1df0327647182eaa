"""Text → Program: Python's own grammar through a whitelist, shapes inferred, values as literals."""

from symgrad.language.expand import expand_composites
from symgrad.language.literals import Value, literal
from symgrad.language.read import Reading, read
from symgrad.language.values import holds_truths, value_from

__all__ = ["Reading", "Value", "expand_composites", "holds_truths", "literal", "read", "value_from"]
