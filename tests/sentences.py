"""What an explanation says about a Jacobian in words, and the test of each sentence on torch's numbers.

Nothing here reads symgrad's own reading of a structure: a sentence is taken as a person takes it, and held against a
dense J. A sentence that nobody tests here fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.calculus.reverse_sweep import jacobian_formula as formula_of
from symgrad.explanation import Jacobian
from symgrad.explanation.structure import suggest_claims
from symgrad.numeric import Values
from symgrad.program import Program
from tests import torch_side


@dataclass(frozen=True)
class Numbers:
    """J by one input as torch has it, rows and columns, and what else a sentence may be about."""

    name: str
    dense: np.ndarray
    out_shape: tuple[int, ...]
    in_shape: tuple[int, ...]
    known: Mapping[str, Any]
    sizes: Mapping[str, int]

    @property
    def marks(self) -> np.ndarray:
        """Where J is not 0."""
        return self.dense != 0

    @property
    def unit(self) -> bool:
        """Whether there is nothing but 0 and 1."""
        return bool(np.isin(self.dense, (0.0, 1.0)).all())


def close(a: Any, b: Any) -> bool:
    """Equal but for rounding."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=1e-9)


def is_diagonal(j: Numbers) -> bool:
    """Nothing off the diagonal of a square matrix."""
    return j.out_shape == j.in_shape and not (j.marks & ~np.eye(len(j.dense), dtype=bool)).any()


def in_blocks(j: Numbers, unit: str) -> bool:
    """Nothing across the places that are counted: of entries, rows, matrices of the input."""
    rest = {"entry": 0, "row": 1, "matrix": 2}.get(unit)
    leads = [len(j.in_shape) - rest] if rest is not None else range(1, len(j.in_shape) - 2)
    return any(
        j.out_shape[:lead] == j.in_shape[:lead] and apart(j.marks, int(np.prod(j.in_shape[:lead]))) for lead in leads
    )


def apart(marks: np.ndarray, count: int) -> bool:
    """Nothing outside ``count`` blocks on the diagonal, of which there are several."""
    if count < 2 or marks.shape[0] % count or marks.shape[1] % count:
        return False
    table = marks.reshape(count, marks.shape[0] // count, count, marks.shape[1] // count)
    return all(not table[a, :, b].any() for a in range(count) for b in range(count) if a != b)


def equal_blocks(j: Numbers, unit: str) -> bool:
    """The blocks on the diagonal are the same."""
    rest = {"entry": 0, "row": 1, "matrix": 2}.get(unit)
    for lead in [len(j.in_shape) - rest] if rest is not None else range(1, len(j.in_shape) - 2):
        n = int(np.prod(j.in_shape[:lead]))
        table = j.dense.reshape(n, j.dense.shape[0] // n, n, -1)
        if all(close(table[0, :, 0], table[k, :, k]) for k in range(n)):
            return True
    return False


def multiples_of_identity(j: Numbers) -> bool:
    """J consists of blocks, each a number times an identity of more than one row."""
    for trail in range(1, min(len(j.out_shape), len(j.in_shape)) + 1):
        kept = j.in_shape[-trail:]
        n = int(np.prod(kept))
        if kept == j.out_shape[-trail:] and n > 1:
            table = j.dense.reshape(j.dense.shape[0] // n, n, j.dense.shape[1] // n, n)
            if all(close(block, block[0, 0] * np.eye(n)) for row in table.transpose(0, 2, 1, 3) for block in row):
                return True
    return False


def row_counts(j: Numbers) -> set[int]:
    """How many entries the rows have."""
    return set(j.marks.sum(axis=1).tolist())


def equal_in_rows(j: Numbers) -> bool:
    """The entries of a row that are not 0 are equal, and there are some."""
    return all(row.any() and close(row[row != 0], np.full((row != 0).sum(), row[row != 0][0])) for row in j.dense)


X = r"(?P<x>[\w.]+)"
SENTENCES: dict[str, Callable[..., bool]] = {
    rf"small changes of {X} do not change the output: every entry is 0": lambda j, m: not j.marks.any(),
    rf"the output does not depend on {X}: every entry is 0": lambda j, m: not j.marks.any(),
    r"(no gradient flows back through [\w<>=!]+|\w+ only reads \w+ \(as its \w+\), which gets no gradient|"
    r"\w+ holds \w+ \(its \w+\) constant, as torch does)"
    r"(( and [\w<>=!]+)|(; \w+ only reads .*))?: every entry is 0": lambda j, m: not j.marks.any(),
    rf"the pullback of [\w.]+ reads the shape of {X} alone: every entry is 0": lambda j, m: not j.marks.any(),
    rf"one row: the gradient of the one output with respect to {X}": lambda j, m: len(j.dense) == 1,
    rf"one column: the derivative of every output with respect to {X}": lambda j, m: j.dense.shape[1] == 1,
    "a product of the steps' Jacobians; its formula is too long to write out": lambda j, m: True,  # about the formula
    "the identity": lambda j, m: j.out_shape == j.in_shape and close(j.dense, np.eye(len(j.dense))),
    rf"the identity: the output holds the entries of {X} in the same order": lambda j, m: close(
        j.dense, np.eye(len(j.dense))
    ),
    rf"a multiple of the identity: each output depends only on the matching entry of {X}": (
        lambda j, m: is_diagonal(j) and close(np.diag(j.dense), np.full(len(j.dense), j.dense[0, 0]))
    ),
    rf"a permutation that leaves the entries of {X} in their order at these numbers(, found in the forward pass)?": (
        lambda j, m: close(j.dense, np.eye(len(j.dense)))
    ),
    rf"a permutation: the output holds the entries of {X} in another order(, found in the forward pass)?": (
        lambda j, m: j.unit and (j.marks.sum(axis=0) == 1).all() and row_counts(j) == {1}
    ),
    rf"an expansion: each entry of {X} is used in several outputs, whose weights are added": (
        lambda j, m: j.unit and (j.marks.sum(axis=0) > 1).all() and row_counts(j) == {1}
    ),
    rf"each entry of {X} is used in several outputs, whose weights are added": (
        lambda j, m: bool((j.marks.sum(axis=0) > 1).all())
    ),
    rf"a selection: each output copies one entry of {X}(, found in the forward pass|, which receives its weight)": (
        lambda j, m: j.unit and row_counts(j) == {1}
    ),
    rf"some outputs are entries of {X}; the others do not depend on it": (
        lambda j, m: j.unit and row_counts(j) == {0, 1}
    ),
    rf"each output adds entries of {X}: its row holds a 1 at each of them": (
        lambda j, m: j.unit and min(row_counts(j)) > 0 and max(row_counts(j)) > 1
    ),
    rf"each output adds entries of {X}: its row holds the same number at each of them": (
        lambda j, m: equal_in_rows(j) and max(row_counts(j)) > 1
    ),
    rf"diagonal: each output depends only on the matching entry of {X}": lambda j, m: is_diagonal(j),
    "a diagonal plus a term in which every output can depend on every entry": lambda j, m: len(set(j.dense.shape)) == 1,
    rf"one block (?P<block>.*) per (?P<unit>\w+) of {X}, zeros elsewhere": (
        lambda j, m: in_blocks(j, m["unit"]) and equal_blocks(j, m["unit"])
    ),
    rf"the same block for every (?P<unit>\w+) of {X}, zeros elsewhere": (
        lambda j, m: in_blocks(j, m["unit"]) and equal_blocks(j, m["unit"])
    ),
    "every block is a multiple of an identity: (columns do not mix|entries along the last ax[ie]s do not mix)": (
        lambda j, m: multiples_of_identity(j)
    ),
    rf"block-diagonal: one block per (?P<unit>\w+) of {X}, zeros elsewhere": lambda j, m: in_blocks(j, m["unit"]),
    rf"each output depends on only one entry of {X}(, found in the forward pass)?": lambda j, m: (
        max(row_counts(j)) <= 1
    ),
    rf"each output depends on at most one entry of {X}(, found in the forward pass)?": (
        lambda j, m: max(row_counts(j)) <= 1
    ),
    rf"every output can depend on every entry of {X}": lambda j, m: (
        True
    ),  # an entry may be 0 here: `test_claims` has more
    rf"no output depends on all entries of {X}": lambda j, m: max(row_counts(j)) < j.dense.shape[1],
}


def assert_sentence(says: str, numbers: Numbers, about: str) -> None:
    """One sentence about a structure holds on the numbers."""
    for pattern, test in SENTENCES.items():
        found = re.fullmatch(pattern, says)
        if found:
            assert test(numbers, found), f"{about}: not so: {says}\n{numbers.dense.tolist()}"
            return
    raise AssertionError(f"{about}: nobody tests the sentence {says!r}")


def assert_notation(notation: str, numbers: Numbers, about: str) -> None:
    """J is what its notation says, as torch evaluates it."""
    if notation in ("", "0"):
        assert notation == "" or not numbers.marks.any(), f"{about}: J is not 0"
        return
    expected = matrix_of(notation, numbers)
    assert close(expected, numbers.dense), f"{about}: J is not {notation}:\n{expected}\n{numbers.dense}"


def matrix_of(notation: str, numbers: Numbers) -> np.ndarray:
    """I, -I, 2·I, diag(…), a block, or a Kronecker product of two."""
    square = np.eye(numbers.dense.shape[0])
    if multiple := re.fullmatch(r"(?:(-)|\(?([^·()]+)\)?·)?I", notation):
        if multiple[2]:
            top, _, below = multiple[2].partition("/")
            return float(top) / float(below or 1) * square
        return -square if multiple[1] else square
    if notation.startswith("diag(") and " ⊗ " not in notation:
        return np.diag(value_of(notation[5:-1], numbers).reshape(-1))
    parts = [part_of(part, numbers) for part in notation.split(" ⊗ ")]
    return parts[0] if len(parts) == 1 else np.kron(parts[0], parts[1])


def part_of(part: str, numbers: Numbers) -> np.ndarray:
    """One side of a product: an identity, or a block; a vector is a column, transposed a row."""
    if size := re.fullmatch(r"I\((.*)\)", part):
        count = 1
        for factor in size[1].split("*"):
            count *= int(numbers.sizes.get(factor, factor))
        return np.eye(count)
    turned = part.endswith("ᵀ")
    value = value_of(part.removesuffix("ᵀ"), numbers)
    if value.ndim < 2:
        value = value.reshape(-1, 1)
    return value.T if turned else value


def value_of(text: str, numbers: Numbers) -> np.ndarray:
    """Code as torch reads it."""
    return np.asarray(torch_side.evaluate(text, numbers.known).detach().numpy(), dtype=float)


def assert_count(count: tuple[str, int], numbers: Numbers, about: str) -> None:
    """So many entries are nonzero: here, or no more than so many anywhere."""
    where, found = count
    here = int(np.count_nonzero(numbers.dense))
    assert where in ("here", "anywhere", "at most", "unknown"), where
    if where == "unknown":
        return
    assert here == found if where == "here" else here <= found, f"{about}: {here} are nonzero, said: {where} {found}"


def with_words(program: Program, values: Values, name: str) -> Jacobian | None:
    """J with what its formula suggests, the pullback and its closed form not made: they take the time."""
    found = formula_of(program, name)
    if found is None:
        return None
    outer, inner, whole = found
    formula = whole.equation.right
    claims = suggest_claims(program, name, outer, inner, formula)
    shapes = values[program.output].shape, values[name].shape
    return Jacobian(name, program, values, outer, inner, formula, claims, *shapes)


def numbers_of(jacobian: Any, dense: np.ndarray, known: dict[str, Any]) -> Numbers:
    """torch's J and what else the sentences may be about."""
    sizes = {str(size): number for size, number in jacobian.values.sizes.items()}
    return Numbers(jacobian.name, dense.reshape(jacobian.shape), jacobian.out_shape, jacobian.in_shape, known, sizes)


def assert_true(jacobian: Any, dense: np.ndarray, known: dict[str, Any], about: str) -> None:
    """All that is said about one Jacobian."""
    numbers = numbers_of(jacobian, dense, known)
    if jacobian.structure.says:
        assert_sentence(jacobian.structure.says, numbers, about)
    assert_notation(jacobian.structure.notation, numbers, about)
    assert_count(jacobian.count, numbers, about)
