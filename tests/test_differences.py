"""Differences and neighbouring floats excuse rounding, and no more than it does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import symgrad
from symgrad.explanation import proofs
from symgrad.oracles.numerical import check_differences, perturbed


@pytest.mark.parametrize(
    ("text", "x", "said"),
    [
        ("abs(mean(x))", [0.5, 1e300], "no digits are left"),
        ("x ** 2 / (x ** 2 + 1e-14)", [1e-7], "do not converge"),
    ],
)
def test_differences_say_where_they_are_none(text: str, x: list[float], said: str) -> None:
    found = symgrad.explain(text, x=x, check=False)
    inputs = {"x": np.array(x)}
    one = np.ones(found.output.shape)
    right = check_differences(found.program, inputs, one, "x", found.gradients["x"].value)
    assert right.passed is None
    assert said in right.note


def test_a_gradient_that_is_the_same_at_the_neighbours_excuses_no_error() -> None:
    for text, x in (("3*x", [1e16, 2.0]), ("x*x", [1e16, 2.0]), ("amax(x, 0)", [1e16, 1e16])):
        program = symgrad.explain(text, x=x, check=False).program
        arrays = {"x": np.array(x)}
        seed = np.ones(() if "amax" in text else 2)
        assert proofs.change_between_neighbours(program, arrays, seed, "x") <= 1e-15 * 2 * max(x)


@pytest.mark.parametrize("off", [0.0, 2e-6, 1e-3])
def test_what_is_wrong_beside_large_numbers_is_seen(off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding excuses no more than it does, and nothing that failed without being off."""
    own = proofs.check_adjoint

    def failing(*arguments: Any) -> Any:
        return replace(own(*arguments), passed=False, max_error=off, expected=1.0, got=1.0 + off, worst=(0,))

    monkeypatch.setattr(proofs, "check_adjoint", failing)
    assert not symgrad.explain("x*1e8 - 3.5*x", x=[0.1, 0.2]).passed


def test_what_is_shaken_moves_by_its_last_digit_and_equal_numbers_together() -> None:
    given = {"x": np.array([2.5, -2.5, 3.0, 0.0]), "s": np.array(2.5), "n": np.arange(3), "none": np.zeros((0, 2))}
    moved = [perturbed(given, number, 1e-3) for number in range(40)]
    for near in moved:
        assert near["n"] is given["n"]
        assert {name: array.shape for name, array in near.items()} == {n: a.shape for n, a in given.items()}
        assert near["x"][0] == -near["x"][1] == near["s"]
        assert abs(near["x"] - given["x"]).max() < 1.001e-3 * 3.0
    factors = {round(float(near["x"][0] / 2.5 - near["x"][2] / 3.0), 6) for near in moved}
    assert factors == {-0.002, -0.001, 0.0, 0.001, 0.002}  # each number by a lot of its own


def test_a_large_network_is_shaken_without_putting_its_weights_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking 40 million weights up in their order took minutes of a call whose digits had to be judged."""
    for slow in ("unique", "sort", "argsort", "searchsorted"):
        monkeypatch.setattr(np, slow, None)
    assert perturbed({"w": np.linspace(0, 1, 12)}, 0)["w"].shape == (12,)
