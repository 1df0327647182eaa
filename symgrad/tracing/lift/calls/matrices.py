"""Linear algebra in captured programs: vectors whose sign nobody chose, and what stays 0 nearby."""

from __future__ import annotations

import numpy as np

from symgrad.numeric.exact import as_float
from symgrad.ops import ground
from symgrad.tracing.lift.steps import Said, Steps, done
from symgrad.tracing.record.trace import Node

VECTORS = frozenset({"eigh", "_linalg_eigh", "svd", "_linalg_svd"})
"""Calls that give matrices of vectors, beside one value for each: their sign is one that nobody chose."""


def cut_off(steps: Steps, node: Node, last: Said) -> Said:
    """The pseudo-inverse of a matrix all of whose singular values count as 0: it stays 0 nearby."""
    nothing = (
        last[0] == "pinv" and not node.held.any() and any(bool(n.held.any()) for n in last[1] if isinstance(n, Node))
    )
    return done(steps.lifter.data("nothing", as_float(node.value()))) if nothing else last


def with_signs(steps: Steps, node: Node, last: Said, word: str) -> Said:
    """The vectors with the signs that torch gave them in this run."""
    name, operands, options = last
    if word not in VECTORS or len(node.shape) < len(operands[0].shape):
        return last
    ref = steps(name, *operands, **options)
    own, given = as_float(steps.lifter.arrays[ref.name]), as_float(node.value())
    assert node.call is not None
    axis = -1 if node.index == 2 and "linalg" in node.call.spelling else -2  # the rows of Vh, the columns of V
    signs = np.where(np.sum(own * given, axis=axis, keepdims=True) < 0, -1.0, 1.0)
    return done(ref if (signs > 0).all() else steps(ground.mul, ref, steps.lifter.data("sign", signs)))
