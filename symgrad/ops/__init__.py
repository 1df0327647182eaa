"""The table of operations: one entry each, one file a family, families of a kind in a room.

``scalar`` has functions of entries, ``axes`` what runs along one, ``moving`` what only moves entries, ``contracting``
sums of products, ``solved`` what an equation defines, ``networks`` layers and losses, ``complex`` pairs; ``calls`` are
several entries in a row. What an entry is made with stands in `symgrad.entries`.
"""

from symgrad.entries.domain import Domain
from symgrad.entries.spec import (
    COMPOUND_SPELLINGS,
    FAMILIES,
    SPELLINGS,
    TABLE,
    Data,
    Example,
    Held,
    Op,
    View,
    operations,
)
from symgrad.entries.words import functions
from symgrad.ops.axes import reductions, scans, statistics
from symgrad.ops.calls import COMPOUNDS, Compound, find_compound
from symgrad.ops.complex import complex_pairs, fourier
from symgrad.ops.contracting import contractions, convolutions, distances, pooling, products
from symgrad.ops.entry import beside_letters, entry_of, found_letters, named, only_read
from symgrad.ops.lookup import close, find
from symgrad.ops.networks import classes, composites, layers, losses, normalisation
from symgrad.ops.scalar import activations, pointwise, scalars
from symgrad.ops.solved import decompositions, factorizations, spectral, triangles

# isort: off
from symgrad.ops.moving import (
    arranging, detached, gathering, grids, interpolation, joining, padding, parts, scattering, subscripts, views, windows,
)  # fmt: skip
# isort: on

ORDER = (
    activations, arranging, complex_pairs, classes, composites, contractions, convolutions, decompositions,
    detached, distances, factorizations, fourier, gathering, grids, interpolation, joining, layers, losses,
    normalisation, padding, parts, pointwise, pooling, products, reductions, scalars, scans, scattering,
    spectral, statistics, subscripts, triangles, views, windows,
)  # fmt: skip
"""The families, which stand in the table in the order in which they need each other."""

__all__ = [
    "COMPOUNDS", "COMPOUND_SPELLINGS", "FAMILIES", "ORDER", "SPELLINGS", "TABLE", "Compound", "Data", "Domain",
    "Example", "Held", "Op", "View", "beside_letters", "close", "entry_of", "find", "find_compound",
    "found_letters", "functions", "named", "only_read", "operations",
]  # fmt: skip
