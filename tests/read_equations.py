"""What the text of an equation means, on tensors of known sizes and at letters of known ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from symgrad.entries.spec import View
from symgrad.notation.meaning import EquationMeaning
from symgrad.notation.ranges import RangeFinder
from symgrad.ops import equation_functions
from symgrad.shapes import Sizes


def meaning_of(whole: Any, letters: Mapping[str, Any], tensors: Mapping[str, Any], symbols: Mapping[str, Any]) -> Any:
    """The right-hand side of an equation that was parsed; ``letters`` are the indices on its left.

    ``tensors`` are the names and the shapes of what it reads, ``symbols`` the sizes that it names.
    """
    views = {shown: View(name, shape) for shown, (name, shape) in tensors.items()}
    sizes, known = Sizes.of(symbols.values(), {}), {n: size for n, size in symbols.items() if n not in letters}
    found = RangeFinder(whole, {name: view.shape for name, view in views.items()}, sizes, known).find().found
    return EquationMeaning(views, {**symbols, **letters}, found, equation_functions()).of(whole.right)
