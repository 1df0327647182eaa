"""Index equations and programs on arrays: exact where the numbers are, float64 elsewhere."""

from symgrad.numeric.exact import (
    Array,
    as_float,
    as_fractions,
    euclidean,
    is_exact,
    is_finite,
    unit_at,
    where_exact,
    without_fractions,
)
from symgrad.numeric.forward_pass import Values, forward, forward_from
from symgrad.numeric.playing import evaluate
from symgrad.numeric.sparse import chain_jacobian, sparse_jacobian, term_sizes
from symgrad.numeric.symbols_and_digits import reads_positions, symbol_matrix, write_out_at
from symgrad.numeric.vector_products import numeric_pullback, numeric_pushforward

__all__ = [
    "Array",
    "Values",
    "as_float",
    "as_fractions",
    "chain_jacobian",
    "euclidean",
    "evaluate",
    "forward",
    "forward_from",
    "is_exact",
    "is_finite",
    "numeric_pullback",
    "numeric_pushforward",
    "reads_positions",
    "sparse_jacobian",
    "symbol_matrix",
    "term_sizes",
    "unit_at",
    "where_exact",
    "without_fractions",
    "write_out_at",
]
