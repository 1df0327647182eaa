"""Numbers near the end of the floats' range: what cancels or divides out on the way is not lost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

import symgrad
from symgrad.indexing import Equation, access, fresh_axes
from symgrad.numeric import evaluate
from symgrad.numeric.exact import total
from tests.compare import assert_same

FAR = st.sampled_from([1e300, -1e300, 3e200, 1.0, -2.0, 0.5, 1e-300, -7e-250])


@given(st.lists(FAR, min_size=2, max_size=2), st.sampled_from([0.5, 1.0, -3.0, 1e-300]), st.permutations(range(5)))
def test_what_cancels_takes_nothing_with_it(pair: list[float], rest: float, order: list[int]) -> None:
    """Every order of a, b, c, −a, −b is c."""
    terms = [*pair, rest, *(-term for term in pair)]
    found = total([np.array([terms[place]]) for place in order])
    assert found[0] == math.fsum(terms) or abs(pair[0]) != abs(pair[1])
    three = total([np.array([terms[place]]) for place in (0, 2, 3)])
    assert three[0] == math.fsum([pair[0], rest, -pair[0]])


def test_what_is_exact_or_not_finite_is_added_as_it_is() -> None:
    assert total([np.array([2**70]), np.array([1]), np.array([-(2**70)])])[0] == 1
    for last, expected in ((np.inf, np.inf), (-np.inf, np.nan), (np.nan, np.nan)):
        assert_same([expected], total([np.array([np.inf]), np.array([1.0]), np.array([last])]))


@given(FAR, FAR, FAR, st.integers(2, 4))
def test_a_square_below_the_line_may_be_no_float(a: float, b: float, c: float, power: int) -> None:
    """a·b/cⁿ in floats is the float that is nearest to it, wherever there is one."""
    (i,) = fresh_axes((1,))
    x, y, z = (access(name, [i]) for name in "xyz")
    exact = Fraction(a) * Fraction(b) / Fraction(c) ** power
    got = evaluate(
        Equation((i,), x * y / z**power), {n: np.array([v]) for n, v in zip("xyz", (a, b, c), strict=True)}, {}
    )
    if abs(exact) > Fraction(0.8e308):
        assert np.isinf(got[0])
    elif abs(exact) > Fraction(1e-290):
        assert_same([1.0], [float(Fraction(got[0]) / exact)], tolerance=1e-14)
    else:
        assert abs(got[0]) <= 1e-290


POWERS = ("(y / x) ** hypot(m, x)", "y / x * y", "(y / x) ** x")


@pytest.mark.parametrize("text", POWERS)
@pytest.mark.parametrize("far", [1e300, -1e300, 1e-300])
def test_a_quotient_by_what_is_far_is_torchs(text: str, far: float) -> None:
    x = torch.tensor([far, far], dtype=torch.float64, requires_grad=True)
    y, m = torch.full((2,), far, dtype=torch.float64), torch.tensor([0.0, 1.0])
    eval(text, {"x": x, "y": y, "m": m, "hypot": torch.hypot}).sum().backward()  # noqa: S307 -- a text of this test's own
    values: Mapping[str, object] = {n: v for n, v in (("x", [far] * 2), ("y", [far] * 2), ("m", [0, 1])) if n in text}
    found = symgrad.explain(text, check=False, wrt="x", **values).gradients["x"]
    scale = float(x.grad.abs().max()) if x.grad is not None else 0.0
    assert scale > 0
    assert x.grad is not None
    assert_same(x.grad / scale, np.asarray(found.value) / scale)
    assert_same(x.grad / scale, np.asarray(found.jacobian.dense()).sum(axis=0) / scale)


@pytest.mark.parametrize("far", [1e300, -1e300, 1e20])
def test_uses_of_one_tensor_cancel_in_a_step(far: float) -> None:
    """logaddexp(x, x) is x + log 2: the second derivative of (x + log 2)·x·y by x is 2·y."""
    text, values = "logaddexp(x, x) * (x * y)", {"x": [far] * 2, "y": [1.0, 3.0]}
    assert_same([2.0, 6.0], symgrad.hvp(text, "x", [1, 1], seed=[1, 1], **values))
    whole = symgrad.hessian(text, "x", seed=[1, 1], check=False, **values)
    assert_same(np.diag([2.0, 6.0]), whole.value)


@pytest.mark.parametrize(("far", "n"), [(1e300, -1), (-1e300, 1), (-1e300, 2)])
def test_the_terms_of_an_entry_of_a_jacobian_cancel(far: float, n: int) -> None:
    """exp(logaddexp(x·n, n)) is exp(n) where x·n is −∞, as far as floats go: so is its slope by n."""
    text, values = "exp(logaddexp(x * n, n))", {"x": [far] * 2, "n": [n] * 2}
    assert_same(np.exp(n) * np.eye(2), symgrad.jacobian(text, "n", **values).dense())
    assert_same([np.exp(n)] * 2, symgrad.explain(text, wrt="n", check=False, **values).gradients["n"].value)
