"""The functions that an index equation may use: every pointwise entry of the table, and those that its formulas are in.

So ``gelu(x[i])`` in an equation is what the table says of gelu, kinks and stable evaluation included, and what a page
prints (``side(x[i])``, ``polygamma(0, x[i])``) reads back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from symgrad.functions import PRIMITIVES
from symgrad.indexing.symbols import Expr
from symgrad.ops.shaping import common_shape
from symgrad.ops.spec import Op, View, entries

ALSO = {"σ": "sigmoid", "Γ": "gamma", "logΓ": "lgamma", "max": "maximum", "min": "minimum", "ln": "log"}
"""Other words for entries of the table."""
JUMPS = frozenset({"sign", "floor", "ceil", "trunc", "nearest", "side", "high", "low", "i0e", "i1e"})
"""Those among the primitives that have a kink or a jump."""


@lru_cache(maxsize=1)
def functions() -> Mapping[str, Callable[..., Expr]]:
    """The functions by their names."""
    found = {op.name: word(op) for op in entries() if op.shape is common_shape and not op.held and not op.variadic}
    found |= {name: symbolic for name, (symbolic, _) in PRIMITIVES.items()}
    return found | {other: found[name] for other, name in ALSO.items()}


def word(op: Op) -> Callable[..., Expr]:
    """What a pointwise entry makes of numbers, its options at what they are by themselves."""
    return lambda *parts: op.index((), [View("", (), part) for part in parts], {}, op.defaults)
