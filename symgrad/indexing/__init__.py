"""The only door to SymPy's indexed objects: indices, accesses, sums, Kronecker deltas, brackets.

See the README beside this file for why indices are never written by hand.
"""

from symgrad.indexing.brackets import Bracket, Mod, Ravel, Unravel, bracket, is_guard, ravel, row_major, unravel
from symgrad.indexing.definitions import instantiate
from symgrad.indexing.equation import Equation, canonical, replace_accesses, with_fresh_sums
from symgrad.indexing.sums import contracted_sum, delta, is_constant, multiply_up, over_same, over_terms, summed
from symgrad.indexing.symbols import Index, access, accesses, bound_indices, fresh, fresh_axes

__all__ = [
    "Bracket",
    "Equation",
    "Index",
    "Mod",
    "Ravel",
    "Unravel",
    "access",
    "accesses",
    "bound_indices",
    "bracket",
    "canonical",
    "contracted_sum",
    "delta",
    "fresh",
    "fresh_axes",
    "instantiate",
    "is_constant",
    "is_guard",
    "multiply_up",
    "over_same",
    "over_terms",
    "ravel",
    "replace_accesses",
    "row_major",
    "summed",
    "unravel",
    "with_fresh_sums",
]
