"""What is read off an entry's equation: in what it is linear, what it makes of whole numbers, what has no derivative."""

from __future__ import annotations

import pytest
import sympy as sp

from symgrad.entries.derived_facts import dtype_words, is_non_differentiable, multilinear, polynomial_terms
from symgrad.entries.spec import View
from symgrad.indexing import fresh
from symgrad.language import read_program
from symgrad.ops import TABLE, entry_named


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("torch.cat([x, y])", {("0",), ("1",)}),
        ("torch.outer(x, y)", {("0", "1")}),
        ("torch.mul(x, x)", {("0", "1")}),
        ("torch.square(x)", None),
        ("torch.sign(x)", None),
        ("torch.sort(x).values", None),
        ("F.pad(x, (1, 1), value=2.0)", None),
        ("torch.exp(x)", None),
    ],
)
def test_the_terms_of_an_equation_say_in_what_it_is_linear(text: str, terms: set[tuple[str, ...]] | None) -> None:
    program = read_program(text, shapes={"x": (3,), "y": (3,)} if "y" in text else {"x": (3,)}).program
    (step,) = program.steps
    shapes = [(sp.Integer(3),)] * len(step.arguments)
    given = multilinear(entry_named(step.op), shapes, [None] * len(shapes), step.result.shape, dict(step.options))
    assert given == terms


def test_a_coefficient_may_read_what_is_only_read() -> None:
    i, x, n = fresh("i", sp.Integer(3)), View("x", (sp.Integer(3),)), View("n", (sp.Integer(3),))
    assert polynomial_terms(n[i] * x[i], {"n"}) == {("x",)}
    assert polynomial_terms(x[n[i]], {"n"}) == {("x",)}
    assert polynomial_terms(x[n[i]]) is None
    assert polynomial_terms(n[i] * x[i]) == {("n", "x")}


WORDS = {
    "truth", "whole", "counted", "kept", "masked", "joined", "cut", "first", "behind", "bounded", "subscripts", "real", "alike", "numbers",
}  # fmt: skip


def test_what_entries_say_of_truth_values_is_one_of_the_words_there_are() -> None:
    assert {word for op in TABLE.values() for word in dtype_words(op)} == WORDS


@pytest.mark.parametrize(
    ("name", "words"),
    [("transpose", {"kept"}), ("matmul", {"kept", "alike"}), ("relu", {"kept"}), ("mean", {"real"}), ("sqrt", {"real"}),
     ("tanh", {"real"}), ("leaky_relu", {"real"}), ("exp2", {"real"}), ("complex_mul", {"real"}), ("sum", {"counted"}),
     ("lt", {"truth"}), ("add", {"joined"}), ("scatter_reduce", {"first", "joined"}), ("det", {"real"})],
)  # fmt: skip
def test_sums_products_and_choices_of_whole_numbers_are_whole(name: str, words: set[str]) -> None:
    """Read off the equation, or said by the entry."""
    assert dtype_words(TABLE[name]) == words


def test_torch_is_not_asked_for_a_call_by_what_stands_within_it() -> None:
    program = read_program("torch.clamp(x.exp(), y, z)", shapes=dict.fromkeys("xyz", (3,))).program
    compared = {
        name for step in program.steps if is_non_differentiable(entry_named(step.op)) for name in program.outside(step)
    }
    (inner,) = (step.result.name for step in program.steps if step.op == "exp")
    assert compared == {inner, "y", "z"}
