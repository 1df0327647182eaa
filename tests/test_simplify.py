"""Rules that make a line shorter, each by itself."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import sympy as sp

import symgrad
from symgrad.backward.simplify.broadcasting import cancel_fractions
from symgrad.backward.simplify.concat import TensorShapes, merge_adjacent
from symgrad.backward.simplify.dtype_casts import cast_to_float
from symgrad.language.python_text import read_python, write_python
from tests.exports_run import run_of
from tests.lines_of import as_pasted


def test_what_lies_side_by_side_is_one_call_only_without_gap_and_overlap() -> None:
    m, n = sp.symbols("m n", integer=True, positive=True)

    def parts(*texts: str, shape: tuple[Any, ...] = (sp.Integer(2), sp.Integer(5))) -> str | None:
        terms = [read_python(text) for text in texts]
        found = [write_python(term) for term in merge_adjacent(terms, shape, TensorShapes({"t": shape}))]
        return None if found == [*texts] else " + ".join(found)

    assert parts("pad(a, (0, 3))", "pad(b, (2, 0))") == "cat([a, b], -1)"
    assert parts("pad(b, (2, 0))", "pad(a, (0, 3))") == "cat([a, b], -1)"
    assert parts("pad(a, (0, 0, 0, 1))", "pad(b, (0, 0, 1, 0))") == "cat([a, b], 0)"
    assert parts("pad(a[None], (0, 0, 0, 1))", "pad(b[None, :], (0, 0, 1, 0))") == "stack([a, b])"
    assert parts("pad(a[:, None], (1, 3))", "pad(b[:, None], (0, 4))") == "pad(stack([b, a], -1), (0, 3))"
    assert parts("pad(a, (1, 3))", "pad(b, (2, 0))") == "pad(cat([a, b], -1), (1, 0))"
    assert parts("pad(a, (0, 3))", "c @ w", "pad(b, (2, 0))") == "cat([a, b], -1) + c @ w"
    row = "pad(a[None, :], (0, 0, 0, t.shape[0] - 1))", "pad(b[None, :], (0, 0, 1, t.shape[0] - 2))"
    assert parts(*row, shape=(m, n)) == "pad(stack([a, b]), (0, 0, 0, t.shape[0] - 2))"
    assert parts("pad(a, (0, t.shape[0]))", "pad(b, (t.shape[0], 0))", shape=(m, 2 * m)) == "cat([a, b], -1)"
    assert parts("pad(a, (0, t.shape[0]))", "pad(b, (t.shape[0], 0))", shape=(m, n)) is None
    assert parts("pad(a, (0, 3))", "pad(b, (3, 0))") is None
    assert parts("pad(a, (0, 2))", "pad(b, (2, 0))") is None
    assert parts("pad(a, (0, 3))", "pad(b, (0, 3))", "pad(c, (2, 0))") == "cat([a, c], -1) + pad(b, (0, 3))"
    assert parts("pad(a, (0, 3))", "pad(b, (0, 0, 0, 1))") is None
    assert parts("pad(a, (-1, 3))", "pad(b, (2, 0))") is None
    assert parts("pad(a, (0, 3))", "b") is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1 * (a > 0) - 1 * (b > 0)", "1 * (a > 0) - 1 * (b > 0)"),
        ("2 * (a > 0) / 2", "1 * (a > 0)"),
        ("-(1 * isfinite(x))", "-(1 * isfinite(x))"),
        ("1 * x * 2", "2 * x"),
        ("1 * (a > 0) * x", "(a > 0) * x"),
    ],
)
def test_truth_values_stay_numbers(text: str, found: str) -> None:
    """torch refuses (a > 0) - (b > 0), and -isfinite(x)."""
    assert write_python(cancel_fractions(read_python(text), {})) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(1.0 * (x > 0)).mean(-1)", "(1.0 * (x > 0).to(x)).mean(-1)"),
        ("w * ((x > 0) / 3).std(-1)", "w * ((x > 0).to(x) / 3).std(-1)"),
        ("x.mean(-1) * (x > 0)", "x.mean(-1) * (x > 0)"),
    ],
)
def test_truth_values_below_a_method_are_as_fine_as_the_tensor(text: str, found: str) -> None:
    """torch's own product of a number and a truth value is float32."""
    assert write_python(cast_to_float(read_python(text), "x")[0]) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("v * where(x > 0, 1, 0.1)", "v * where(x > 0, x.new_full((), 1), 0.1)"),
        ("where(m, 2 / 3, -0.1) @ w", "where(m, x.new_full((), 2 / 3), -0.1) @ w"),
        ("where(x > 0, 1, x.exp())", "where(x > 0, 1, x.exp())"),
    ],
)
def test_a_choice_of_numbers_is_as_fine_as_the_tensor(text: str, found: str) -> None:
    """torch makes float32 of two numbers: 0.1 would have 8 digits beside doubles."""
    assert write_python(cast_to_float(read_python(text), "x", {"m"})[0]) == found


CHOICES = ("F.leaky_relu(x, 0.1)", "where(m, 0.1 * x, 0.3 * x)", "where(x > 0, 0.1 * x, x / 3)", "F.rrelu(x, 0.1, 0.4)")


@pytest.mark.parametrize("text", CHOICES)
def test_lines_that_choose_between_numbers_have_all_digits(text: str) -> None:
    given = {"x": np.array([-0.3, 0.7, 1.1])} | ({"m": np.array([0, 1, 1])} if "m," in text else {})
    told = symgrad.explain(text, **given, check=False, wrt=["x"])
    (found,) = as_pasted(told.backward, given, np.ones(3)).values()
    np.testing.assert_array_max_ulp(found.numpy(), np.asarray(told.gradients["x"].value, float), 2)


@pytest.mark.parametrize("text", CHOICES[1:3])
def test_a_choice_of_numbers_keeps_the_type_of_arrays(text: str) -> None:
    """NumPy makes doubles of two numbers."""
    source = symgrad.export(text, to="numpy", name="own", wrt=["x"])
    x = np.array([-0.3, 0.7], dtype=np.float32)
    given = {"x": x, "m": np.array([0, 1])}
    own = run_of(source, "own_backward")
    found = own(x, *(given[name] for name in inspect.signature(own).parameters if name in given))
    assert (found if isinstance(found, np.ndarray) else next(p for p in found if p is not None)).dtype == np.float32
