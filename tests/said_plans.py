"""What `symgrad derive` and `symgrad plan` say of a Jacobian, held against torch's at random inputs of those sizes."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from symgrad.api import derive, plans
from symgrad.explanation import JacobianPlan
from tests.said_programs import Drawn
from tests.said_truth import Truth
from tests.sentences import Numbers, assert_notation, assert_sentence

POINTS = 4
"""Inputs at which an entry may turn out to move."""


def truths(drawn: Drawn) -> list[Truth]:
    """The expression at other numbers: `derive` and `plan` speak of all of them."""
    draw = np.random.default_rng(drawn.number)
    found = []
    for scale in (0.3, 1.0, 3.0, 1.0)[:POINTS]:
        inputs = {
            n: a if n in drawn.positions else np.abs(draw.normal(size=np.shape(a)) * scale) + 0.1
            for n, a in drawn.inputs.items()
        }
        inputs = {
            n: a if n in drawn.positions or scale == 3.0 else draw.choice((-1, 1), a.shape) * a
            for n, a in inputs.items()
        }
        found.append(Truth(drawn.text, inputs, np.ones(()), drawn.positions))
    return found


def derived(drawn: Drawn) -> int:
    """Each structure that `derive` says; how many there were."""
    program, found = derive(drawn.text, shapes={name: np.shape(a) for name, a in drawn.inputs.items()})
    said = 0
    for one in found:
        for truth in truths(drawn) if one.structure.says else []:
            numbers = truth.numbers(one.name)
            if not numbers.dense.size or not np.isfinite(numbers.dense).all():
                continue
            sizes = {
                str(s): n for t in program.inputs for s, n in zip(t.shape, truth.inputs[t.name].shape, strict=True)
            }
            numbers = Numbers(one.name, numbers.dense, numbers.out_shape, numbers.in_shape, numbers.known, sizes)
            assert_sentence(one.structure.says, numbers, f"{drawn} by {one.name}")
            assert_notation(one.structure.notation, numbers, f"{drawn} by {one.name}")
            said += 1
    return said


def planned(drawn: Drawn) -> int:
    """Each plan: its sizes, its count, its words; how many there were."""
    places = {name: drawn.inputs[name] for name in drawn.positions}
    found, _ = plans(drawn.text, places, shapes={n: np.shape(a) for n, a in drawn.inputs.items() if n not in places})
    for one in found:
        dense = [t.jacobian(one.name) for t in truths(drawn)]
        dense = [d for d in dense if np.isfinite(d).all()]
        if not dense or not dense[0].size:
            continue
        assert one.shape == dense[0].shape, f"{drawn}: {one}"
        every = [d != 0 for d in dense]  # a choice may be another at each
        marks = every[int(np.argmax([m.sum() for m in every]))]
        assert marks.sum() <= one.nonzeros, f"{drawn}: more than {one.nonzeros} entries are not 0\n{one}"
        words = next((test for pattern, test in WORDS.items() if re.fullmatch(pattern, one.structure)), None)
        if one.exact and one.structure != "zero" and drawn.number % 2:
            moved = np.any(every, axis=0).any() or bool(re.search(r"relu|clamp|max|min|where|\* 0", drawn.text))
            assert moved, f"{drawn}: said to be nonzero is what is 0 everywhere\n{one}"
        assert words is not None, f"{drawn}: nobody tests {one.structure!r}"
        assert words(one, marks, [int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", one.structure)]), (
            f"{drawn}:\n{one}\n{marks}"
        )
    return len(found)


def in_row(marks: np.ndarray) -> int:
    return int(marks.sum(axis=1).max(initial=0))


def in_column(marks: np.ndarray) -> int:
    return int(marks.sum(axis=0).max(initial=0))


def parts(marks: np.ndarray) -> int:
    """Blocks with zeros elsewhere, rows and columns in any order; a row without an entry is one of its own."""
    rows, columns = marks.shape
    whole = np.zeros((rows + columns, rows + columns))
    whole[:rows, rows:] = marks
    return int(connected_components(csr_array(whole), directed=False)[0])


WORDS: dict[str, Callable[[JacobianPlan, np.ndarray, list[int]], bool]] = {
    "zero": lambda p, m, n: not m.any(),
    "one entry in each row and each column": lambda p, m, n: (
        max(in_row(m), in_column(m)) <= 1 and p.nonzeros == m.shape[0] == m.shape[1]
    ),
    "at most one entry in a row, and in a column": lambda p, m, n: max(in_row(m), in_column(m)) <= 1,
    r"at most one entry in a row, at most [\d,]+ in a column": lambda p, m, n: in_row(m) <= 1 and in_column(m) <= n[0],
    r"[\d,]+ full blocks of [\d,]+ × [\d,]+, zeros elsewhere": lambda p, m, n: (
        parts(m) >= n[0] and m.shape == (n[0] * n[1], n[0] * n[2]) and in_row(m) <= n[2] and in_column(m) <= n[1]
    ),
    "every entry can be nonzero": lambda p, m, n: p.exact and p.nonzeros == m.size,
    "nothing is known to be zero": lambda p, m, n: not p.exact,
    r"at most [\d,]+ entries in a row, [\d,]+ in a column": lambda p, m, n: in_row(m) <= n[0] and in_column(m) <= n[1],
    r"[\d,]+ blocks, zeros elsewhere; at most [\d,]+ entries in a row, [\d,]+ in a column": lambda p, m, n: (
        parts(m) >= n[0] and in_row(m) <= n[1] and in_column(m) <= n[2]
    ),
}  # fmt: skip
