"""The table of operations: one entry each, one file a family, families of a kind in a room.

``scalar`` has functions of entries, ``axes`` what runs along one, ``moving`` what only moves entries, ``contracting``
sums of products, ``solved`` what an equation defines, ``networks`` layers and losses, ``complex`` pairs; ``calls`` are
several entries in a row. Beside the rooms stands what an entry is made with.
"""

# The order of the table is that of the families' names, wherever they stand.
# isort: off
from symgrad.ops.scalar import activations
from symgrad.ops.moving import arranging
from symgrad.ops.complex import complex_pairs
from symgrad.ops.networks import composites
from symgrad.ops.contracting import contractions
from symgrad.ops.contracting import convolutions
from symgrad.ops.solved import decompositions
from symgrad.ops import detached
from symgrad.ops.contracting import distances
from symgrad.ops.solved import factorizations
from symgrad.ops.complex import fourier
from symgrad.ops.moving import gathering
from symgrad.ops.networks import layers
from symgrad.ops.networks import losses
from symgrad.ops.scalar import pointwise
from symgrad.ops.contracting import pooling
from symgrad.ops.contracting import products
from symgrad.ops.axes import reductions
from symgrad.ops.moving import sampling
from symgrad.ops.scalar import scalars
from symgrad.ops.axes import scans
from symgrad.ops.moving import scattering
from symgrad.ops.solved import spectral
from symgrad.ops.axes import statistics
from symgrad.ops.solved import triangles
from symgrad.ops.moving import views
from symgrad.ops.moving import windows
# isort: on

from symgrad.ops.calls import COMPOUNDS, Compound, find_compound
from symgrad.ops.domain import Domain
from symgrad.ops.entry import beside_letters, entry_of, found_letters, named, only_read
from symgrad.ops.lookup import close, find
from symgrad.ops.spec import TABLE, Data, Example, Held, Op, View, entries

__all__ = [
    "COMPOUNDS",
    "TABLE",
    "Compound",
    "Data",
    "Domain",
    "Example",
    "Held",
    "Op",
    "View",
    "activations",
    "arranging",
    "beside_letters",
    "close",
    "complex_pairs",
    "composites",
    "contractions",
    "convolutions",
    "decompositions",
    "detached",
    "distances",
    "entries",
    "entry_of",
    "factorizations",
    "find",
    "find_compound",
    "found_letters",
    "fourier",
    "gathering",
    "layers",
    "losses",
    "named",
    "only_read",
    "pointwise",
    "pooling",
    "products",
    "reductions",
    "sampling",
    "scalars",
    "scans",
    "scattering",
    "spectral",
    "statistics",
    "triangles",
    "views",
    "windows",
]
