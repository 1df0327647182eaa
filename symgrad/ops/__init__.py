"""The table of operations: one entry each, one file a family."""

from symgrad.ops import (
    activations,
    arranging,
    composites,
    contractions,
    convolutions,
    decompositions,
    gathering,
    layers,
    losses,
    pointwise,
    pooling,
    products,
    reductions,
    scalars,
    scans,
    views,
)
from symgrad.ops.domain import Domain
from symgrad.ops.lookup import close, find, named
from symgrad.ops.spec import TABLE, Data, Example, Held, Op, View, entries

__all__ = [
    "TABLE",
    "Data",
    "Domain",
    "Example",
    "Held",
    "Op",
    "View",
    "activations",
    "arranging",
    "close",
    "composites",
    "contractions",
    "convolutions",
    "decompositions",
    "entries",
    "find",
    "gathering",
    "layers",
    "losses",
    "named",
    "pointwise",
    "pooling",
    "products",
    "reductions",
    "scalars",
    "scans",
    "views",
]
