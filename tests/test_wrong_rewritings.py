"""A sum that forgets an entry is seen, and a closed form by a wrong rule is never shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp

import symgrad
from symgrad.closed_form import rewriting
from symgrad.lowering.terms import Products
from symgrad.numeric import playing
from tests.forgotten import forget
from tests.test_broken_rules import explained

pytestmark = pytest.mark.usefixtures("fresh_derivations")


def test_a_sum_that_forgets_an_entry_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Products.contract

    def forgetful(self: Products, factors: Any, bound: Any) -> Any:
        found = right(self, factors, bound)
        return self.terms.scaled(0.5, found) if bound else found

    monkeypatch.setattr(Products, "contract", forgetful)
    monkeypatch.setattr(playing, "plan_for", playing.plan_for.__wrapped__)
    assert not explained().passed


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "name", ["common factor", "softmax", "merge sums", "mean", "complement", "reciprocal gap", "turn"]
)
def test_a_wrong_rewriting_is_never_shown(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A closed form is read back and evaluated before anyone sees it: a rule that is wrong leaves none."""
    texts = {
        "common factor": ("softmax(x)", (3,)), "softmax": ("cross_entropy(x, y)", (3,)), "merge sums": ("x @ x.T", (2, 3)),
        "mean": ("var(x)", (4,)), "complement": ("where(x > 0, 1, x)", (3,)),
        "reciprocal gap": ("eigh(x).eigenvectors", (3, 3)), "turn": ("eigh(x).eigenvectors", (3, 3)),
    }  # fmt: skip
    text, shape = texts[name]
    generator = np.random.default_rng(0)
    values = {n: generator.uniform(-1, 1, size=shape) for n in ("x", "y") if n in text}
    if "eigh" in text:
        values["x"] = values["x"] + values["x"].T + np.diag([1, 2, 3])
    weights = {
        "merge sums": [[1, 2], [3, 4]], "common factor": [1, 2, 3], "complement": [1, 2, 3],
        **{rule: [[1, 2, 3], [4, 5, 6], [7, 8, -9]] for rule in ("reciprocal gap", "turn")},
    }.get(name, 1)  # fmt: skip
    assert symgrad.explain(text, seed=weights, **values).gradients["x"].closed_form is not None
    fired: list[str] = []

    def slip(rule: rewriting.FormRule) -> Callable[[sp.Expr], sp.Expr]:
        def wrong(expression: sp.Expr) -> sp.Expr:
            found = rule.rewrite(expression)
            if found == expression:
                return found
            fired.append(rule.name)
            return 3 * found  # at every use: a form that was refused may be tried once more

        return wrong

    broken = tuple(rewriting.FormRule(r.name, r.says, slip(r)) if r.name == name else r for r in rewriting.RULES)
    monkeypatch.setattr(rewriting, "RULES", broken)
    forget()
    found = symgrad.explain(text, seed=weights, **values)
    assert set(fired) == {name}, "the rule was not used here: the test shows nothing"
    assert found.gradients["x"].closed_form is None
    assert found.passed, "the numbers do not depend on how a formula is written"
