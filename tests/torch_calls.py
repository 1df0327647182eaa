"""Calls as a text has them, by how torch spells them, and torch's own functions of these names."""

from __future__ import annotations

from typing import Any

import torch

from symgrad.entries.readings import attribute_path


def call_text(word: str, arguments: str) -> str:
    """``word`` with what stands between its brackets; a method stands behind the first of them, or behind x.

    >>> call_text("torch.sum", "x, 0"), call_text("Tensor.sum", "x, 0"), call_text("Tensor.exp", "")
    ('torch.sum(x, 0)', 'x.sum(0)', 'x.exp()')
    """
    if not word.startswith("Tensor."):
        return f"{word}({arguments})"
    first, _, rest = arguments.partition(", ")
    return f"{first or 'x'}.{word.removeprefix('Tensor.')}({rest})"


def found_in_torch(word: str) -> Any:
    """torch's own function or method; None where it has none."""
    found: Any = torch
    for part in attribute_path(word):
        found = getattr(found, part, None)
    return found
