"""The record of a derivation: each move appends what it did as it is made.

An explanation shows these records; nothing writes the story a second time.
"""

from __future__ import annotations

from dataclasses import dataclass

from symgrad.indexing.symbols import Expr


@dataclass(frozen=True)
class Step:
    """``rule`` turned what stood before into ``formula``, because ``why``."""

    rule: str
    formula: Expr
    why: str
