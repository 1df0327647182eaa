"""The functions that an index equation may use: every pointwise entry of the table, and those that its formulas are in.

So ``gelu(x[i])`` is what the table says of gelu, kinks and stable evaluation included; what a page prints reads back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from symgrad.entries.shaping import common_shape
from symgrad.entries.spec import Op, Options, View, operations
from symgrad.functions import ALSO, PRIMITIVES
from symgrad.indexing.symbols import Expr
from symgrad.notation.meaning import Word, taking, word_of


@lru_cache(maxsize=1)
def functions() -> Mapping[str, Word]:
    """The functions by their names."""
    found = {op.name: word(op) for op in operations() if op.shape is common_shape and not op.held and not op.variadic}
    found |= {name: word_of(symbolic) for name, (symbolic, _) in PRIMITIVES.items()}
    return found | {other: found[name] for other, name in ALSO.items()}


def word(op: Op) -> Word:
    """A pointwise entry of numbers: its operands, then options; those nobody gives are what they are by themselves."""

    def made(parts: Sequence[Expr], given: Options) -> Expr:
        options = op.prepare(((),) * len(parts), **{**op.defaults, **given})
        return op.index((), [View("", (), part) for part in parts], {}, options)

    return taking(op.signature, op.operands, op.optional, made)
