"""Values for inputs that nobody gave: ones, and where an operation asks for a matrix with an inverse, such a matrix.

[[2, 1], [1, 3]], ones with 1, 2, 3, … added on the diagonal, is symmetric, positive definite and has different
eigenvalues: whatever reads a matrix is defined there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.numeric.exact import Array
from symgrad.ops import named
from symgrad.program import Program

SYMMETRIC = ("symmetric", "definite")
"""The kinds whose two triangles are one set of variables."""


def both_places(gradient: Array) -> Array:
    """What flows to x[i,j] and to x[j,i] together, and to the diagonal alone: G + Gᵀ − diag(G)."""
    turned = gradient.swapaxes(-1, -2)
    return np.where(np.eye(gradient.shape[-1], dtype=bool), gradient, gradient + turned)


def read_as_matrix(program: Program) -> dict[str, str]:
    """The inputs that some operation reads as a matrix of a certain kind, which `symgrad.entries.domain` names."""
    kinds = {tensor.name: kind_of_matrix(program, tensor.name) for tensor in program.inputs}
    return {name: kind for name, kind in kinds.items() if kind}


def kind_of_matrix(program: Program, name: str) -> str:
    """The kind of matrix that an operation reads under one name, the last that has one; "" where none does."""
    found = ""
    for step in program.readers.get(name, ()):
        op = named(step.op)
        pairs = zip(op.operands, step.arguments, strict=False)
        found = next((k for n, a in pairs if a == name and (k := op.domain_of(n).matrix)), found)
    return found


def read_as_whole(program: Program) -> dict[str, tuple[int, int]]:
    """The inputs that some operation reads as whole numbers (positions, classes, a mask), and from where to where.

    As they are, or what is made of them: in another shape, counted from 1.
    """
    found: dict[str, tuple[int, int]] = {}
    for step in reversed(program.steps):
        op = named(step.op)
        if step.result.name in found and not op.pathless:  # a comparison makes truth values of any numbers
            found = dict.fromkeys(step.tensors, found[step.result.name]) | found
        for operand, a in zip(op.operands, step.arguments, strict=False):
            domain = op.domain_of(operand)
            if isinstance(a, str) and domain.whole:
                found.setdefault(a, (int(domain.draw[0]), int(domain.draw[1])))
    return {t.name: found[t.name] for t in program.inputs if t.name in found}


def with_diagonal(array: Array, unit: int = 1) -> Array:
    """``array`` with 1, 2, 3, … times ``unit`` added on the diagonal of its last two axes."""
    rows, columns = array.shape[-2:]
    return np.asarray(array + unit * np.diag(np.arange(1, max(rows, columns) + 1))[:rows, :columns])


def matrix_of_kind(program: Program, name: str, array: Array) -> Array:
    """``array`` as a matrix of the kind that an operation reads under this name, whatever kind that is."""
    kind = kind_of_matrix(program, name)
    if not kind:
        return array
    if kind != "full":
        array = np.tril(array) if kind == "lower" else (array + array.swapaxes(-1, -2)) / 2
    return with_diagonal(array)


def assumed_value(program: Program, name: str, shape: Sequence[int]) -> Array:
    """Ones; where a matrix of some kind is read, with more on the diagonal, and without the other triangle."""
    ones = np.ones(tuple(shape), dtype=np.int64)
    return np.asarray(matrix_of_kind(program, name, ones), dtype=np.int64)
