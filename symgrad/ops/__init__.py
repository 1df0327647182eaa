"""The table of operations: one entry each, one file a family, families of a kind in a room.

``scalar`` has functions of entries, ``axes`` what runs along one, ``moving`` what only moves entries, ``contracting``
sums of products, ``solved`` what an equation defines, ``networks`` layers and losses, ``complex`` pairs; ``calls`` are
several entries in a row. What an entry is made with stands in `symgrad.entries`.
"""

from symgrad.entries.readings import functions
from symgrad.entries.spec import (
    COMPOUND_SPELLINGS,
    FAMILIES,
    SPELLINGS,
    TABLE,
    Data,
    Domain,
    Example,
    Held,
    Op,
    View,
    operations,
)
from symgrad.ops.axes import reductions, statistics
from symgrad.ops.calls import COMPOUNDS, Compound, find_compound
from symgrad.ops.complex import complex_pairs, fourier
from symgrad.ops.contracting import convolutions, distances, pooling, products
from symgrad.ops.entry import beside_letters, entry_of, found_letters, named, only_read
from symgrad.ops.lookup import close, find
from symgrad.ops.moving import arranging, gathering, interpolation, subscripts, views, windows
from symgrad.ops.networks import layers, losses
from symgrad.ops.scalar import activations, pointwise, scalars
from symgrad.ops.solved import decompositions, factorizations

ORDER = (
    activations, arranging, complex_pairs, convolutions, decompositions, distances, factorizations, fourier, gathering,
    interpolation, layers, losses, pointwise, pooling, products, reductions, scalars, statistics, subscripts, views, windows,
)  # fmt: skip
"""The families, which stand in the table in the order in which they need each other."""

__all__ = [
    "COMPOUNDS", "COMPOUND_SPELLINGS", "FAMILIES", "ORDER", "SPELLINGS", "TABLE", "Compound", "Data", "Domain",
    "Example", "Held", "Op", "View", "beside_letters", "close", "entry_of", "find", "find_compound",
    "found_letters", "functions", "named", "only_read", "operations",
]  # fmt: skip
