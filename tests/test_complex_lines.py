"""Gradients of complex tensors as people write them: the conjugate of a slope times v, in complex words."""

from __future__ import annotations

import re

import pytest

import symgrad
from tests.compare import assert_same

SHAPES = {"z": (3, 2), "w": (3, 2), "A": (3, 4, 2), "B": (4, 5, 2)}
LINES = [
    ("z ** 2", "z", "2 * v * z.conj()"),
    ("z ** 3", "z", "3 * v * z.conj() ** 2"),
    ("z * w", "z", "v * w.conj()"),
    ("z / w", "z", "v / w.conj()"),
    ("z / w", "w", "-v * z.conj() / w.conj() ** 2"),
    ("1 / z", "z", "-v * out.conj() ** 2"),
    ("z * z.conj()", "z", "z * (v + v.conj())"),
    ("z.conj()", "z", "v.conj()"),
    ("exp(z)", "z", "v * out.conj()"),
    ("log(z)", "z", "v / z.conj()"),
    ("sqrt(z)", "z", "v / out.conj() / 2"),
    ("sin(z)", "z", "v * z.conj().cos()"),
    ("cosh(z)", "z", "v * z.conj().sinh()"),
    ("sqrt(z) * w", "w", "v * torch.sqrt(z).conj()"),
    ("A @ B", "A", "v @ B.conj().T"),
    ("A @ B", "B", "A.conj().T @ v"),
]


@pytest.mark.parametrize(("text", "by", "line"), LINES, ids=lambda part: part)
def test_a_complex_gradient_is_written_as_that_of_complex_numbers(text: str, by: str, line: str) -> None:
    names = sorted({*re.findall(r"\b[zwAB]\b", text)})
    pairs = re.sub(r"\b([zwAB])\b", r"view_as_complex(\1)", text)
    found = symgrad.explain(f"view_as_real({pairs})", shapes={name: SHAPES[name] for name in names})
    assert found.gradients[by].closed_form == f"view_as_real({in_pairs(line)})"


def test_the_slope_of_a_length_is_a_direction_and_0_at_0() -> None:
    found = symgrad.explain("abs(view_as_complex(z))", z=[[3, 4], [0, 0]])
    assert found.gradients["z"].closed_form == "view_as_real(v * view_as_complex(z).sgn())"


def test_sgn_of_0_is_0() -> None:
    found = symgrad.explain("view_as_real(sgn(view_as_complex(z)))", z=[[3, 4], [0, 0]])
    assert_same([[0.6, 0.8], [0, 0]], found.values["out"])


def in_pairs(line: str) -> str:
    """A line of complex tensors as one of tensors of pairs."""
    return re.sub(r"(?<!\.)\b(v|z|w|A|B|out)\b", r"view_as_complex(\1)", line)
