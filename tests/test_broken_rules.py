"""The proofs can fail: each rule is broken on purpose, and the explanation has to say so.

A check that never disagrees proves nothing. Every slip here is one that somebody could make.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

import symgrad
from symgrad.indexing import sums
from symgrad.ops import TABLE
from symgrad.oracles.numerical import check_differences
from tests.test_oracles import disagreed

# modules that the package's functions of the same names hide
rules = importlib.import_module("symgrad.calculus.differentiate")
local = importlib.import_module("symgrad.calculus.local_derivatives")

POINT = {"x": [[0.3, -1.2, 0.7], [1.1, 0.4, -0.6]], "w": [[0.5, 1.5], [-0.7, 0.2], [0.9, -1.1]], "b": [0.1, -0.3]}
NETWORK = "tanh(x @ w + b)"
SEED = [[1, -2], [3, 1]]

pytestmark = pytest.mark.usefixtures("fresh_derivations")


def explained(text: str = NETWORK, seed: Any = SEED, **values: Any) -> symgrad.Explanation:
    """The explanation of a small network, or of something else."""
    return symgrad.explain(text, seed=seed, **(values or POINT))


def test_nothing_disagrees_when_nothing_is_broken() -> None:
    found = explained()
    assert found.passed
    assert all(check.passed for gradient in found.gradients.values() for check in gradient.checks)


def doubled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Twice what ``function`` says."""
    return lambda *arguments, **options: 2 * function(*arguments, **options)


def test_a_doubled_derivative_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "differentiate", doubled(rules.differentiate))
    found = explained()
    assert not found.passed
    assert {"out.backward(v)", "SymPy"} <= disagreed(found)


def test_a_scalar_rule_with_the_wrong_sign_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sp.diff
    monkeypatch.setattr(rules.sp, "diff", lambda f, t: -right(f, t) if f.has(sp.tanh) else right(f, t))
    found = symgrad.explain("tanh(x)", x=[0.5, -0.2], seed=[1, 2])
    assert not found.passed


def test_a_delta_that_is_dropped_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sums.contracted_sum

    def careless(body: Any, indices: Any) -> Any:
        return right(body.replace(lambda n: isinstance(n, sp.KroneckerDelta), lambda n: sp.S.One), indices)

    for module in (rules, local):
        monkeypatch.setattr(module, "contracted_sum", careless)
    assert not explained().passed


def test_a_definition_that_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index equation says sine where NumPy and torch compute a cosine."""
    monkeypatch.setitem(TABLE, "cos", replace(TABLE["cos"], index=TABLE["sin"].index))
    found = symgrad.explain("cos(x)", x=[0.5, -0.2], seed=[1, 2])
    assert not found.passed
    assert "out.backward(v)" in disagreed(found)


def test_a_wrong_gradient_is_seen_beside_numbers_that_floats_do_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row that can be judged is: only the other one is left out."""
    monkeypatch.setattr(local, "differentiate", doubled(rules.differentiate))
    found = symgrad.explain("atan2(x, y)", x=[1.0, 1e-300], y=[2.0, 1e-300])
    assert "SymPy" in disagreed(found)
    wrong = check_differences(
        symgrad.explain("x ** 2", shapes={"x": (1,)}, check=False).program,
        {"x": np.array([3.0])},
        np.ones(1),
        "x",
        5 * np.ones(1),
    )
    assert wrong.passed is False
