"""The table of operations: one entry each, a file a family.

Comes in: the family files, whose rows are made with `symgrad.entries`. Goes out: the table, its families in groups, and
how an entry is found. `symgrad.ops.calls` has the calls that are several entries in a row.
"""

from symgrad.entries.operands import Domain
from symgrad.entries.readings import equation_functions
from symgrad.entries.spec import (
    COMPOUNDS,
    FAMILIES,
    FILES,
    SPELLINGS,
    TABLE,
    Example,
    HeldTensor,
    Op,
    View,
    operations,
)
from symgrad.ops.calls.registry import Compound, find_compound
from symgrad.ops.lookup import (
    auxiliary_letters,
    close_spellings,
    entry_named,
    entry_of,
    find,
    index_data_letters,
    is_data_argument,
)

FIRST = ("products", "views", "pointwise", "arranging", "scalars", "reductions", "activations", "layers", "losses")
"""Where a name is looked for before the other files are loaded: what texts have most."""
FILES[0].extend(f"{__name__}.{family}" for family in (
    "activations", "arranging", "products", "complex_pairs", "convolutions", "decompositions", "distances",
    "factorizations", "gathering", "fold_unfold", "fourier", "interpolation", "layers", "losses", "pointwise", "pooling",
    "reductions", "scalars", "statistics", "subscripts", "views",
))  # fmt: skip
FILES[1].extend(dict.fromkeys((*(f"{__name__}.{family}" for family in FIRST), *FILES[0])))
CONTRACTIONS = ("convolutions", "distances", "pooling", "products")
GROUPS: dict[str, tuple[str, ...]] = {
    "Operations on each entry by itself": ("activations", "pointwise", "scalars"),
    "Sums of products, and operations that count, slide or measure with them": CONTRACTIONS,
    "Sums, running operations and choices along an axis": ("reductions", "statistics"),
    "Views, indexing and rearranging": (
        "arranging", "gathering", "interpolation", "subscripts", "views", "fold_unfold",
    ),
    "Layers of neural networks, and losses": ("layers", "losses"),
    "Linear algebra: operations that are defined by an equation which their result solves": (
        "decompositions", "factorizations",
    ),
    "Complex numbers as pairs": ("complex_pairs", "fourier"),
}  # fmt: skip
"""The families by their group, in the order in which the table is read."""


def belongs_to(name: str, families: tuple[str, ...]) -> bool:
    """Whether the entry with this name stands in one of these files."""
    return FAMILIES.get(name, "").rpartition(".")[2] in families


__all__ = [
    "COMPOUNDS", "CONTRACTIONS", "FAMILIES", "GROUPS", "SPELLINGS", "TABLE", "Compound", "Domain", "Example",
    "HeldTensor", "Op", "View", "auxiliary_letters", "belongs_to", "close_spellings", "entry_named",
    "entry_of", "equation_functions", "find", "find_compound", "index_data_letters", "is_data_argument",
    "operations",
]  # fmt: skip
