"""Derivations are made anew, on new indices: what a broken rule made reaches no other test, nor the other way round."""

from __future__ import annotations

from symgrad.calculus import local_derivatives as local
from symgrad.explanation.formulas import derive_once
from tests.forgotten_lines import forget_lines

CACHES = (
    local.derive_local, local._instantiated, local.local_pullback, local.local_pushforward, derive_once,
)  # fmt: skip
"""What is kept of formulas."""


def forget() -> None:
    """Derivations are made anew, and forms proven anew."""
    for cache in CACHES:
        cache.cache_clear()
    forget_lines()
