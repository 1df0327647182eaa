"""What the text of a call says of its parameters, and that of an equation of its corners and letters."""

from __future__ import annotations

import pytest

from symgrad import InputError
from symgrad.entries.equations import has_edges, write_with_indices
from symgrad.entries.signatures import call_of, parse_example
from symgrad.entries.spec import Data, View


def test_a_call_says_which_parameters_are_tensors() -> None:
    call = call_of("f(x, target: data, bias=None, eps=1e-5, k: int = 2, p: any=None)")
    assert call.operands == ("x", "target", "bias")
    assert (call.optional, call.data) == ({"bias"}, {"target"})
    kinds = {name: p.annotation for name, p in call.signature.parameters.items()}
    assert (kinds["x"], kinds["target"], kinds["eps"], kinds["k"]) == (View, Data, float, int)
    assert parse_example("f(x, b) with x:2x3 b:scalar", ("x", "b")).shapes == (("x", (2, 3)), ("b", ()))
    assert parse_example("f(x)", ("x", "b")).shapes == (("x", (2, 3)),)


@pytest.mark.parametrize("shape", ["b", "b:", "b:2×3", "b:2x", "b:(2,3)"])
def test_a_shape_of_an_example_that_cannot_be_read_is_told_how_it_is_written(shape: str) -> None:
    with pytest.raises(InputError, match="an example gives operands shapes") as refused:
        parse_example(f"f(x, b) with x:2x3 {shape}", ("x", "b"))
    assert "z:scalar" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "edge"),
    [("out = x·[x > 0]", True), ("out = |x|", True), ("out = tanh(x)", False), ("out = floor(x)", True),
     ("out[i] = Σ_j [j ≤ i]·x[j]", False), ("out[i] = Σ_j [x[j] ≤ x[i]]·x[j]", True), ("out = relu(x)", True),
     ("out[c] = Σ_j [c − ⌊k/2⌋ ≤ j]·x[j]", False), ("out = Σ_j x[j]·[j < size(x, -1) − 1]", False)],
)  # fmt: skip
def test_corners_are_seen_in_the_letters_of_a_text(text: str, edge: bool) -> None:
    assert has_edges(text, call_of("f(x, k=1)")) is edge


def test_what_says_nothing_else_is_told_by_its_right_hand_side() -> None:
    assert write_with_indices("out = x / (1 + |x|)", ("x",)) == "x[i] / (1 + |x[i]|)"
    assert write_with_indices("out = exp(x)² + x²", ("x",)) == "exp(x[i])² + x[i]²"
