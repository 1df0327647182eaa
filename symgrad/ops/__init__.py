"""The table of operations: one entry each, one file a family."""

from symgrad.ops import composites, contractions, convolutions, layers, pointwise, pooling, reductions, views
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
    "close",
    "composites",
    "contractions",
    "convolutions",
    "entries",
    "find",
    "layers",
    "named",
    "pointwise",
    "pooling",
    "reductions",
    "views",
]
