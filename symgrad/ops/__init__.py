"""The table of operations: one entry each, one file a family, families of a kind in a room.

``scalar`` has functions of entries, ``axes`` what runs along one, ``moving`` what only moves entries, ``contracting``
sums of products, ``solved`` what an equation defines, ``networks`` layers and losses, ``complex`` pairs; ``calls`` are
several entries in a row. What an entry is made with stands in `symgrad.entries`.
"""

# The order of the table is that of the families' names, wherever they stand.
# isort: off
from symgrad.ops.scalar import activations
from symgrad.ops.moving import arranging
from symgrad.ops.complex import complex_pairs
from symgrad.ops.networks import classes
from symgrad.ops.networks import composites
from symgrad.ops.contracting import contractions
from symgrad.ops.contracting import convolutions
from symgrad.ops.solved import decompositions
from symgrad.ops.moving import detached
from symgrad.ops.contracting import distances
from symgrad.ops.solved import factorizations
from symgrad.ops.complex import fourier
from symgrad.ops.moving import gathering
from symgrad.ops.moving import grids
from symgrad.ops.moving import interpolation
from symgrad.ops.moving import joining
from symgrad.ops.networks import layers
from symgrad.ops.networks import losses
from symgrad.ops.networks import normalisation
from symgrad.ops.moving import padding
from symgrad.ops.moving import parts
from symgrad.ops.scalar import pointwise
from symgrad.ops.contracting import pooling
from symgrad.ops.contracting import products
from symgrad.ops.axes import reductions
from symgrad.ops.scalar import scalars
from symgrad.ops.axes import scans
from symgrad.ops.moving import scattering
from symgrad.ops.solved import spectral
from symgrad.ops.axes import statistics
from symgrad.ops.moving import subscripts
from symgrad.ops.solved import triangles
from symgrad.ops.moving import views
from symgrad.ops.moving import windows
# isort: on

from symgrad.entries.domain import Domain
from symgrad.entries.spec import COMPOUND_SPELLINGS, FAMILIES, SPELLINGS, TABLE, Data, Example, Held, Op, View, entries
from symgrad.entries.words import functions
from symgrad.ops.calls import COMPOUNDS, Compound, find_compound
from symgrad.ops.entry import beside_letters, entry_of, found_letters, named, only_read
from symgrad.ops.lookup import close, find

ORDER = (
    activations, arranging, complex_pairs, classes, composites, contractions, convolutions, decompositions,
    detached, distances, factorizations, fourier, gathering, grids, interpolation, joining, layers, losses,
    normalisation, padding, parts, pointwise, pooling, products, reductions, scalars, scans, scattering,
    spectral, statistics, subscripts, triangles, views, windows,
)  # fmt: skip
"""The families, as they stand in the table."""

__all__ = [
    "COMPOUNDS", "COMPOUND_SPELLINGS", "FAMILIES", "ORDER", "SPELLINGS", "TABLE", "Compound", "Data", "Domain",
    "Example", "Held", "Op", "View", "beside_letters", "close", "entries", "entry_of", "find", "find_compound",
    "found_letters", "functions", "named", "only_read",
]  # fmt: skip
