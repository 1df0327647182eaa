"""Signs and margins of a line: where a person has them, and no number changes."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symgrad.backward.simplify.concat import drop_empty_margins
from symgrad.backward.simplify.factors import order_signs
from symgrad.language.python_text import read_python, write_python
from symgrad.language.syntax_tree import Unary
from symgrad.notation.tree import Binary, Name, SyntaxNode

SIGNED = [
    ("-(-a / 4) / b + -c / 2", "a / 4 / b - c / 2"),
    ("-(a / 2) * b", "-a / 2 * b"),
    ("-a + b", "b - a"),
    ("a - -b", "a + b"),
    ("-(a @ b) - -c", "-(a @ b) + c"),
    ("a ** -1 * x[-1:]", "a ** (-1) * x[-1:]"),
    ("(-a) ** 2 + -1", "(-a) ** 2 - 1"),
]


@pytest.mark.parametrize(("before", "after"), SIGNED)
def test_signs_stand_where_a_person_has_them(before: str, after: str) -> None:
    tree = read_python(before)
    assert write_python(order_signs(tree)) == write_python(read_python(after))
    assert write_python(tree) == write_python(read_python(before))


LETTERS = st.sampled_from(["a", "b", "c"])
SUMS = st.recursive(
    LETTERS,
    lambda inner: st.one_of(
        inner.map(lambda part: f"-({part})"),
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"),
    ),
    max_leaves=8,
)


def safe(above: float, below: float) -> float:
    """A quotient, and one number where there is none."""
    return above / below if below else 0.0


OF: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": safe,
}  # fmt: skip


@given(SUMS)
def test_moving_signs_changes_no_number(text: str) -> None:
    tree = read_python(text)
    names = {"a": 1.5, "b": -0.3, "c": 7.0}

    def value(node: SyntaxNode) -> float:
        match node:
            case Name(name):
                return names[name]
            case Unary(_, operand):
                return -value(operand)
            case Binary(sign, left, right):
                return OF[sign](value(left), value(right))
        raise AssertionError(write_python(node))

    assert value(order_signs(tree)) == value(tree)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pad(a, (0, x.shape[1] % 2)) / 2", "a / 2"),
        ("pad(a, (0, x.shape[0] % 2)) / 2", "pad(a, (0, x.shape[0] % 2)) / 2"),
        ("pad(a, (0, 0))", "a"),
        ("pad(a, (0, y.shape[0] % 2))", "pad(a, (0, y.shape[0] % 2))"),
        ("pad(a, (0, x.shape[2] % 2))", "pad(a, (0, x.shape[2] % 2))"),
        ("conv_transpose1d(a, b, stride=2, output_padding=(x.shape[1] - 4) % 2)", "conv_transpose1d(a, b, stride=2)"),
        ("conv_transpose1d(a, b, output_padding=x.shape[0] % 2)", "conv_transpose1d(a, b, output_padding=x.shape[0] % 2)"),
    ],
)  # fmt: skip
def test_margins_that_are_0_here_are_left_out(before: str, after: str) -> None:
    assert write_python(drop_empty_margins(read_python(before), {"x": (3, 4)})) == after
