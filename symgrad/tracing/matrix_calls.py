"""Linear algebra in captured programs: results that come with others, and vectors whose sign nobody chose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from symgrad.numeric.exact import as_float
from symgrad.tracing.steps import Composition, Said, Steps, done
from symgrad.tracing.trace import Node


def inv(steps: Steps, node: Node, x: Any, *rest: Any, **keywords: Any) -> Said | None:
    """The inverse, whatever else the call returns."""
    return ("torch.inverse", (x,), {}) if node.index == 0 and not rest and not keywords.get("check_errors") else None


def solve(steps: Steps, node: Node, a: Any, b: Any, *, left: bool = True, **keywords: Any) -> Said | None:
    """The solution, whatever else the call returns; a stack of vectors is a stack of columns."""
    if node.index != 0 or keywords.get("check_errors"):
        return None
    if not left or len(b.shape) != len(a.shape) - 1 or tuple(b.shape) != tuple(a.shape[:-1]):
        return "solve", (a, b), {"left": left}
    column = steps("unsqueeze", b, -1)
    return "torch.squeeze", (steps("solve", a, column), -1), {}


COMPOSITIONS: Mapping[str, Composition] = {"inv": inv, "inv_ex": inv, "solve": solve, "solve_ex": solve}
"""Functions by their last word."""

VECTORS = frozenset({"eigh", "_linalg_eigh", "svd", "_linalg_svd"})
"""Calls whose vectors have a sign that nobody chose."""


def cut_off(steps: Steps, node: Node, last: Said) -> Said:
    """The pseudo-inverse of a matrix all of whose singular values count as 0: it stays 0 nearby."""
    nothing = (
        last[0] == "pinv" and not node.held.any() and any(bool(n.held.any()) for n in last[1] if isinstance(n, Node))
    )
    return done(steps.lifter.data("nothing", as_float(node.value()))) if nothing else last


def with_signs(steps: Steps, node: Node, last: Said, word: str) -> Said:
    """The vectors with the signs that torch gave them in this run."""
    name, operands, options = last
    if word not in VECTORS or name not in ("eigenvectors", "svd_u", "svd_vh", "mT"):
        return last
    ref = steps(name, *operands, **options)
    own, given = as_float(steps.lifter.arrays[ref.name]), as_float(node.value())
    axis = -1 if name == "svd_vh" else -2
    signs = np.where(np.sum(own * given, axis=axis, keepdims=True) < 0, -1.0, 1.0)
    return done(ref if (signs > 0).all() else steps("mul", ref, steps.lifter.data("sign", signs)))
