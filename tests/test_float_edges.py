"""Every entrywise operation of the table where floats end: its value, its vᵀJ and its exported code are torch's.

Each entry answers to the entries at its own place alone, so that one tensor holds all points of all operands.
"""

from __future__ import annotations

import inspect
import warnings
from itertools import product

import numpy as np
import pytest
import torch

import symgrad
from symgrad.errors import SymgradError, UnsupportedError
from symgrad.language import read_program
from symgrad.numeric import forward, numeric_pullback
from symgrad.ops import Op, operations
from tests import torch_side
from tests.compare import assert_same
from tests.exports_run import run_of
from tests.sampling import draw

SIZES = (1e300, 3e38, 1e16, 1e8, 746.0, 710.0, 104.0, 89.0, 37.0, 1e-38, 1e-300, 2.3e-308)
POINTS = (*SIZES, *(-size for size in SIZES), 0.5, -0.25, 2.0)
OTHERWISE = {
    "addcdiv": "slope code: torch squares what divides, and the square underflows",
    "cosh": "value: torch's e⁷¹⁰/2 in a vector overflows, the number does not",
    "fmod": "value: torch has NaN where the quotient overflows",
    "i0": "value: torch multiplies e⁷¹⁰ by the rest, and overflows",
    "i1": "value: as i0",
    "remainder": "value slope code: as fmod; and of a quotient that underflows, the floor is 0 here and in the line",
    "sinh": "value: as cosh",
}
"""What is not torch's: the value, the slope, or the code, and why."""


def entrywise(op: Op) -> bool:
    """Whether the first example is a function of entries, at any shape: the first moves, and none of the others."""
    names = [name for name, _ in op.examples[0].shapes]
    if any(op.domain_of(name).whole for name in names):
        return False
    first, other = ({name: draw(op.domain_of(name), (3,), np.random.default_rng(n)) for name in names} for n in (0, 1))
    mixed = {name: np.array([other[name][0], *first[name][1:]]) for name in names}
    try:
        program = read_program(op.examples[0].text, shapes=dict.fromkeys(names, (3,))).program
        here, there = (forward(program, inputs)[program.output] for inputs in (first, mixed))
        turned = forward(program, {name: array[[2, 1, 0]] for name, array in first.items()})[program.output]
        read_program(op.examples[0].text, shapes=dict.fromkeys(names, (4,)))
    except SymgradError:
        return False
    return here.shape == (3,) and np.array_equal(here[1:], there[1:]) and np.array_equal(turned, here[[2, 1, 0]])


OPS = [op for op in operations() if op.examples]


def apart(op: Op) -> set[str]:
    """Which of value, slope and code are not torch's; beside a value that is none, there is no slope."""
    text, names = op.examples[0].text, [name for name, _ in op.examples[0].shapes]
    grid = list(product(POINTS, repeat=len(names))) if len(names) < 3 else [(p,) * len(names) for p in POINTS]
    inputs = dict(zip(names, np.array(grid).T, strict=True))
    leaves = {name: torch.tensor(array, requires_grad=True) for name, array in inputs.items()}
    weights = np.random.default_rng(0).integers(1, 4, len(grid)).astype(float)
    program = read_program(text, shapes={name: array.shape for name, array in inputs.items()}).program
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = torch_side.evaluate(text, leaves)
        values = forward(program, inputs)
        found = {"value": [(out, values[program.output])], "slope": [], "code": []}
        there = np.isfinite(out.detach().numpy()) & np.isfinite(np.asarray(values[program.output], float))
        slopes = numeric_pullback(program, values, weights, names)
        expected = pulled(out, leaves, weights)
        found["slope"] = [(expected[name][there], slopes[name][there]) for name in names]
        try:
            own = run_of(symgrad.export(text, shapes={name: array.shape for name, array in inputs.items()}))
        except UnsupportedError:
            own = None
        if own is not None:
            out = own(*(leaves[name] for name in inspect.signature(own).parameters))
            code = pulled(out, leaves, weights)
            found["code"] = [(expected[name][there], code[name][there]) for name in names]
    return {kind for kind, pairs in found.items() if not all(same(*pair) for pair in pairs)}


def pulled(out: torch.Tensor, leaves: dict[str, torch.Tensor], weights: np.ndarray) -> dict[str, np.ndarray]:
    """torch's vᵀJ by every leaf."""
    if not out.requires_grad:
        return {name: np.zeros(leaf.shape) for name, leaf in leaves.items()}
    found = torch.autograd.grad(out, list(leaves.values()), torch.tensor(weights), allow_unused=True)
    return {n: np.zeros(leaves[n].shape) if g is None else g.numpy() for n, g in zip(leaves, found, strict=True)}


def same(expected: object, got: object) -> bool:
    """Whether two answers agree, relative to their size."""
    try:
        assert_same(expected, got)
    except AssertionError:
        return False
    return True


PARTS = 40


@pytest.mark.one_in(8, slow=3)
@pytest.mark.parametrize("part", range(PARTS))
def test_where_floats_end_torch_agrees(part: int) -> None:
    """In parts, so that each asks which of its operations are entrywise, and not all while tests are collected."""
    looked_at = [op for op in OPS[part::PARTS] if entrywise(op)]
    assert looked_at
    expected = {op.name: set(OTHERWISE.get(op.name, "").partition(":")[0].split()) for op in looked_at}
    assert {op.name: apart(op) for op in looked_at} == expected
