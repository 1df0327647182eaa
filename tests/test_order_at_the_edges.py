"""In which order a product is formed where it can be seen: the rule of `symgrad.lowering.careful`, torch being the judge.

Each case ends in another number where its part of the rule is left out.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
import torch

import symgrad
from symgrad.indexing import Bracket, Equation, access, fresh
from symgrad.lowering import arrays, lowered
from symgrad.lowering.graph import EDGES, FLOAT, FORWARD
from symgrad.numeric import playing
from symgrad.numeric.playing import evaluate, run_plan, run_plan_or_parts
from tests.compare import assert_same

LARGE = [(1e300, 1e200, 1e50), (1e-300, 1e-200, 1e-50), (-3e299, 1e-5, 1e-300), (1e160, -1e300, 1e160)]


@pytest.mark.parametrize(("above", "below", "seed"), LARGE)
def test_a_quotient_is_divided_twice_before_the_seed(above: float, below: float, seed: float) -> None:
    a, y = (torch.tensor([n], dtype=torch.float64, requires_grad=True) for n in (above, below))
    (a / y).backward(torch.tensor([seed], dtype=torch.float64))
    found = symgrad.explain("a / y", a=[above], y=[below], seed=[seed], check=False).gradients
    for name, leaf in (("a", a), ("y", y)):
        assert_same(leaf.grad, found[name].value, tolerance=1e-12, what=name)


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("out[i] = [x[i] > 0]·log(x[i])", {"x": [0.0, 2.0]}, [0.0, 0.5]),
        ("out[i] = [x[i] ≠ 0]·y/x[i]", {"x": [0.0, 2.0], "y": 3.0}, [0.0, -0.75]),
        ("out = Σ_i [x[i] > 0]·√(x[i])·y[i]", {"x": [0.0, 4.0], "y": [2.0, 1.0]}, [0.0, 0.25]),
    ],
)  # fmt: skip
def test_where_a_condition_does_not_hold_nothing_stands_beside_it(text: str, given: dict, expected: list) -> None:
    found = symgrad.explain(text, check=False, **given).gradients["x"].value
    assert_same(expected, found, tolerance=1e-12)


def test_a_condition_in_a_sum_comes_first_only_where_no_number_came_out() -> None:
    i, j = fresh("i", sp.Integer(3)), fresh("j", sp.Integer(3))
    gaps = [access(name, (j,)) - access(name, (i,)) for name in "xy"]
    equation = Equation((i,), sp.Sum(Bracket(sp.Ne(i, j)) / gaps[0] / gaps[1], (j, 0, 2)))
    given = {"x": np.array([1.0, 2.0, 4.0]), "y": np.array([1.0, 3.0, 5.0])}
    assert np.isnan(run_plan(equation, given, {}, FORWARD)).all()
    for care in (FORWARD, EDGES):
        assert_same([7 / 12, 0.75, 1 / 3], run_plan_or_parts(equation, given, {}, care), tolerance=1e-15)


def test_what_is_no_number_meets_a_condition() -> None:
    """In a forward it does not hold, as in torch; a derivative is no number there."""
    (i,) = axes = (fresh("i", sp.Integer(2)),)
    held = Equation(axes, Bracket(access("x", (i,)) > 0))
    given = {"x": np.array([np.nan, 1.0])}
    assert_same(torch.tensor(given["x"]) > 0, run_plan(held, given, {}))
    assert_same([np.nan, 1.0], evaluate(held, given, {}))


def test_of_many_numbers_a_share_is_made_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the images of a batch go back through a convolution: no array of all is larger than what is allowed."""
    generator = np.random.default_rng(0)
    given = {"x": generator.normal(size=(8, 2, 9, 9)), "w": generator.normal(size=(3, 2, 4, 4))}
    whole = symgrad.explain("F.conv2d(x, w)", **given, check=False).gradients["x"].value
    made: list[int] = []

    def counted(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        found = left @ right
        made.append(found.size)
        return found

    monkeypatch.setitem(arrays.NUMPY, "product", lambda: counted)
    monkeypatch.setattr(playing, "MOST_IN_GRID", 6000)
    assert_same(whole, symgrad.explain("F.conv2d(x, w)", **given, check=False).gradients["x"].value)
    assert 3000 < max(made) <= 6000


def test_a_condition_may_change_between_two_places() -> None:
    """At half of five entries: the formula is one, and no two pieces."""
    x, half = np.arange(1.0, 6.0), [1.0, 1.0, 1.0, 0.0, 0.0]
    found = symgrad.explain("out[i] = [i < size(x, 0)/2]·x[i] + [i ≥ size(x, 0)/2]·2·x[i]", x=x, check=False)
    assert_same(np.where(half, x, 2 * x), found.output)
    assert_same(np.where(half, 1.0, 2.0), found.gradients["x"].value)


@pytest.mark.parametrize("bound", [0.0, -2.0])
@pytest.mark.parametrize("unknown", [False, True])
def test_a_large_family_of_exponentials_keeps_to_its_condition(bound: float, unknown: bool) -> None:
    """In each order, at half the entries or at none, and where the condition compares what is no number."""
    values = np.linspace(-1, 1, 5000)
    if unknown:
        values[1] = np.nan
    k = fresh("k", sp.Integer(values.size))
    entry = access("x", (k,))
    family = sp.Sum(Bracket(sp.Lt(entry, bound)) * sp.exp(entry), (k, 0, values.size - 1))
    expected = np.nan if unknown else np.logaddexp.reduce(values[values < bound], initial=-np.inf)
    equation = Equation((), sp.log(family))
    assert_same(expected, evaluate(equation, {"x": values}, {}))
    assert_same(expected, run_plan_or_parts(equation, {"x": values}, {}, EDGES))


def test_a_choice_takes_as_few_nodes_as_its_cases_need() -> None:
    """[x > 0]·x is the larger of two; a bound that only the case below it shares is no case of its own."""
    i = fresh("i", sp.Integer(3))
    x = access("x", (i,))
    below, at, above = (Bracket(kind(x, 1)) for kind in (sp.Lt, sp.Eq, sp.Gt))
    for body, expected in ((x * Bracket(sp.Gt(x, 0)), ["maximum"]), (x * below + at + 2 * above, ["greater", "where"])):
        graph, _ = lowered((Equation((i,), body),), {}, {"x": (3,)}, {"x": FLOAT})
        found = [node.told[0] if node.kind == "map" else node.kind for node in graph.nodes]
        assert [kind for kind in found if kind not in ("input", "number")] == expected
        assert graph.nodes[-1].holds == FLOAT
