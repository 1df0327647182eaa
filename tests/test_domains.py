"""What a page says about where an operation is defined holds on both sides: torch has numbers there and only there."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad
from symgrad.documents import operation_page
from symgrad.documents.domains import domain_conditions, sample_values, where_defined, worked_example
from symgrad.language import read_program
from symgrad.ops import Op, find, operations
from tests import torch_programs

POINTS = [*np.arange(-3.9, 4.0, 0.7), -1.0, -0.999, 0.0, 0.001, 0.999, 1.0, 1.001, -1.001, 2.0]
CONDITION = re.compile(r"(\w+) (>|≥|<|≤|≠) (-?[\d.]+)")
HOLDS = {
    ">": lambda a, b: a > b, "≥": lambda a, b: a >= b, "<": lambda a, b: a < b, "≤": lambda a, b: a <= b,
    "≠": lambda a, b: a != b,
}  # fmt: skip


def torch_is_finite(op: Op, inputs: dict[str, np.ndarray], name: str, derivative: bool) -> bool:
    """Whether torch's value is finite, and with ``derivative`` the gradient of its sum."""
    program = read_program(op.examples[0].text, shapes=dict(op.examples[0].shapes)).program
    try:
        out, gradients = torch_programs.program_gradients(program, inputs, np.ones(program.numbers(program.out.shape)))
    except (RuntimeError, ValueError):
        return False
    return bool(np.isfinite(out).all() and (not derivative or np.isfinite(gradients[name]).all()))


def met(found: tuple[str, ...], name: str, point: float) -> bool:
    """Whether a number meets all conditions on an operand."""
    parts = [CONDITION.fullmatch(text) for text in found]
    return all(HOLDS[p[2]](point, float(p[3])) for p in parts if p and p[1] == name)


@pytest.mark.slow
def test_inside_there_are_numbers_and_outside_there_are_none() -> None:
    """Of the whole table: one entry moves over the line, the others are the samples of the page."""
    said = [(op, where_defined(op)) for op in operations()]
    assert sum(bool(where.sentences) for _, where in said) > 20
    for op, where in said:
        samples = {name: np.asarray(a, dtype=float) for name, a in sample_values(op, op.examples[0]).items()}
        for derivative, found in ((False, where.value), (True, where.derivative)):
            for name in {p[1] for text in found if (p := CONDITION.fullmatch(text))}:
                for point in POINTS:
                    moved = {**samples, name: samples[name].copy()}
                    moved[name].reshape(-1)[0] = point
                    fine = torch_is_finite(op, moved, name, derivative)
                    assert fine == met(found, name, point), (op.name, found, name, point, fine, derivative)
        for text in where.value:
            if not CONDITION.fullmatch(text):
                name = text.split()[0]
                assert torch_is_finite(op, samples, name, derivative=True)
                n = samples[name].shape[-1]
                signs = [np.diag(np.where(np.arange(n) < k, -1.0, 1.0)) for k in range(1, n + 1)]
                bad = [np.ones_like(samples[name])] if "inverse" in text else [s + 0 * samples[name] for s in signs]
                for matrix in bad:
                    assert not torch_is_finite(op, {**samples, name: matrix}, name, derivative=True), (op.name, text)


EXPECTED = {
    "relu": [], "abs": [], "sinc": [], "clamp": [], "hardtanh": [], "floor": [], "norm": [], "embedding": [], "det": [],
    "pow": [], "logdet": [], "lgamma": [], "gather": [], "eigvalsh": [],
    "log": ["Defined where x > 0."],
    "reciprocal": ["Defined where x ≠ 0."],
    "sqrt": ["Defined where x ≥ 0.", "Its derivative is finite where x > 0."],
    "acosh": ["Defined where x ≥ 1.", "Its derivative is finite where x > 1."],
    "asin": ["Defined where x ≥ -1 and x ≤ 1.", "Its derivative is finite where x > -1 and x < 1."],
    "inverse": ["Defined where x has an inverse."],
    "cholesky": ["Defined where x is positive definite."],
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_where_samples_are_drawn_is_not_the_domain(name: str) -> None:
    """A kink is no hole, and what is only drawn on one side is not only defined there."""
    op = find(name)
    assert op is not None
    assert where_defined(op).sentences == EXPECTED[name]


@pytest.mark.parametrize("name", ["relu", "sqrt"])
def test_pages_say_just_that(name: str) -> None:
    """The page has these sentences and no other about where it is defined."""
    op = find(name)
    assert op is not None
    text = operation_page(op, check=False).text
    assert text.count("Defined where") == sum(s.startswith("Defined") for s in EXPECTED[name])
    assert all(sentence in text for sentence in EXPECTED[name])
    assert "≠ 0" not in text.partition("## For every size")[0]


def test_no_interval_no_words() -> None:
    """Good and bad points that no conditions on the edges tell apart."""
    line = [n / 4 for n in range(-8, 9)]
    assert domain_conditions("x", {point: point > 0 for point in line}, [0.0]) == ("x > 0",)
    assert domain_conditions("x", {point: point >= 0 for point in line}, [0.0]) == ("x ≥ 0",)
    assert domain_conditions("x", {point: point != 0 for point in line}, [0.0]) == ("x ≠ 0",)
    assert domain_conditions("x", {point: point > 0.25 for point in line}, [0.0]) == ()
    assert domain_conditions("x", {point: point > 0 or point == -1 for point in line}, [0.0]) == ()
    assert domain_conditions("x", {point: point % 1 > 0 for point in line}, [0.0]) == ()
    assert domain_conditions("x", dict.fromkeys(line, True), [0.0]) == ()


PIECEWISE = ("clamp", "hardtanh", "relu6", "hardsigmoid", "hardswish", "softshrink", "hardshrink", "threshold", "relu")


@pytest.mark.parametrize("name", [*PIECEWISE, "floor", "ceil", "trunc", "frac", "round", "abs"])
def test_a_worked_example_shows_each_piece_and_lies_at_no_kink(name: str) -> None:
    """All of clamp's was outside its bounds, and floor's at whole numbers, where it jumps."""
    op = find(name)
    assert op is not None
    example, _ = worked_example(op)
    (x,) = sample_values(op, example).values()
    told = symgrad.explain(example.text, x=x).to_text()
    assert "is a kink" not in told
    assert "is a jump" not in told
    assert "integers throughout" not in told or (x % 1 == 0).all()
    assert name == "abs" or name in PIECEWISE or not np.isin(x.astype(float), np.arange(-20, 20) / 2).any()
    pieces = {sum(n > kink for kink in op.kinks) for n in x.reshape(-1)}
    assert name not in PIECEWISE or pieces == {*range(len(op.kinks) + 1)}
