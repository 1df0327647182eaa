"""Index equations and programs on arrays: exact where the numbers are, float64 elsewhere."""

from symgrad.numeric.exact import Array, as_float, euclidean, exact, finite, is_exact, plain, unit_at, where_exact
from symgrad.numeric.forward import Values, forward, forward_from
from symgrad.numeric.playing import evaluate
from symgrad.numeric.sparse import chain_jacobian, sparse_jacobian, term_sizes
from symgrad.numeric.sweeps import numeric_pullback, numeric_pushforward
from symgrad.numeric.symbols import evaluate_symbols, reads_positions, symbol_matrix, written_out

__all__ = [
    "Array",
    "Values",
    "as_float",
    "chain_jacobian",
    "euclidean",
    "evaluate",
    "evaluate_symbols",
    "exact",
    "finite",
    "forward",
    "forward_from",
    "is_exact",
    "numeric_pullback",
    "numeric_pushforward",
    "plain",
    "reads_positions",
    "sparse_jacobian",
    "symbol_matrix",
    "term_sizes",
    "unit_at",
    "where_exact",
    "written_out",
]
