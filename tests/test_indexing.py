"""Indices, deltas, brackets and row-major numbers: the algebra that every derivative goes through.

What is claimed here for formulas is checked by naive loops over all indices, at sizes drawn at random.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import symgrad
from symgrad.calculus.differentiate import differentiate
from symgrad.indexing import (
    Bracket,
    Equation,
    Ravel,
    access,
    bracket,
    canonical,
    contracted_sum,
    delta,
    fresh,
    fresh_axes,
    multiply_up,
    ravel,
    unravel,
    with_fresh_sums,
)  # fmt: skip
from symgrad.indexing.sums import total
from symgrad.indexing.symbols import bound_indices, free_indices, ordered_indices
from symgrad.numeric import evaluate
from tests import torch_side
from tests.compare import assert_same
from tests.naive import Loops
from tests.sampling import random_seed, seed_of

n, m = (sp.Symbol(name, integer=True, positive=True) for name in "nm")


def deltas_under_sums(expression: sp.Expr) -> list[sp.Expr]:
    """Deltas that a sum could have taken away."""
    return [d for s in expression.atoms(sp.Sum) for d in s.function.atoms(sp.KroneckerDelta)]


# --- capture ------------------------------------------------------------------------------------------------


def test_a_bound_index_does_not_capture_the_entry_one_differentiates_by() -> None:
    k = fresh("k", n)
    squares = total(n, lambda j: access("x", [j]) ** 2, hint="k")
    assert differentiate(squares, "x", [k]) == 2 * access("x", [k])


def test_sympys_own_derivative_does_capture() -> None:
    """Why indices are dummies: with a plain symbol the answer is a sum that should not be there."""
    x, k = sp.IndexedBase("x"), sp.Symbol("k", integer=True)
    captured = sp.diff(sp.Sum(x[k] ** 2, (k, 0, n - 1)), x[k])
    assert captured.has(sp.Sum)


def test_an_equation_put_into_itself_keeps_its_sums_apart() -> None:
    (i,) = fresh_axes((n,))
    mean_free = Equation((i,), access("x", [i]) - total(n, lambda j: access("x", [j])) / n)
    twice = mean_free.at((i,)) * mean_free.at((i,))
    sums = list(twice.expand().atoms(sp.Sum))
    assert not bound_indices(mean_free.at((i,))) & bound_indices(mean_free.at((i,)))
    assert all(not free_indices(s) for s in sums)


@settings(max_examples=25)  # what is random are the numbers and two small sizes
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**16))
def test_renaming_every_index_changes_nothing(rows: int, columns: int, number: int) -> None:
    generator = np.random.default_rng(number)
    (i,) = fresh_axes((m,))
    body = total(n, lambda j: access("a", [i, j]) * total(m, lambda k: access("a", [k, j]) ** 2))
    equation = Equation((i,), body * total(n, lambda j: access("a", [i, j])))
    arrays, sizes = {"a": generator.normal(size=(rows, columns))}, {m: rows, n: columns}
    renamed = Equation((i,), with_fresh_sums(equation.right))
    assert not bound_indices(renamed.right) & bound_indices(equation.right)
    assert canonical(renamed.right) == canonical(equation.right)
    assert_same(Loops(arrays, sizes).array(equation), Loops(arrays, sizes).array(renamed), seed=number)
    assert_same(Loops(arrays, sizes).array(equation), evaluate(renamed, arrays, sizes), seed=number)


# --- canonical form -----------------------------------------------------------------------------------------


def test_a_sum_of_nothing_is_nothing() -> None:
    """What was put into it made its summand 0, and the page said Σ_{j<n} 0."""
    j = fresh("j", sp.Integer(3))
    assert canonical(sp.Sum(sp.S.Zero, (j, 0, 2))) == 0


def test_indices_of_one_letter_are_in_the_order_in_which_they_were_made() -> None:
    """Sets have none: a derivation of im2col was written with r and s in each other's place in every other run."""
    made = [fresh("q", sp.Integer(2)) for _ in range(20)]
    assert ordered_indices(frozenset(made)) == made
    assert ordered_indices([made[0], fresh("p", sp.Integer(2))])[1] == made[0]


def test_equal_sums_are_equal_whatever_their_indices_are_called() -> None:
    first = total(n, lambda j: access("x", [j]) * access("y", [j]), hint="j")
    second = total(n, lambda k: access("y", [k]) * access("x", [k]), hint="k")
    assert first != second
    assert canonical(first - second) == 0
    assert canonical(first + second) == 2 * canonical(first)


def test_canonical_form_is_reached_at_once() -> None:
    nested = total(n, lambda j: access("x", [j]) * total(m, lambda k: access("a", [j, k]) * access("y", [k])))
    assert canonical(canonical(nested)) == canonical(nested)


def test_double_sums_are_equal_in_either_order() -> None:
    def both(flip: bool) -> sp.Expr:
        j, k = fresh("j", n), fresh("k", m)
        return contracted_sum(access("a", [j, k]) * access("x", [j]), [k, j] if flip else [j, k])

    assert canonical(both(flip=True)) == canonical(both(flip=False))


# --- deltas -------------------------------------------------------------------------------------------------


def test_deltas_are_contracted_until_none_is_left() -> None:
    """xᵀAx needs more than one pass: a delta survives until each sum is treated by itself."""
    (p,) = fresh_axes((n,))
    form = total(n, lambda i: total(n, lambda j: access("x", [i]) * access("a", [i, j]) * access("x", [j])))
    gradient = differentiate(form, "x", [p])
    assert not gradient.atoms(sp.KroneckerDelta)
    assert not gradient.atoms(sp.Piecewise)
    columns = total(n, lambda j: access("a", [j, p]) * access("x", [j]))
    rows = total(n, lambda j: access("a", [p, j]) * access("x", [j]))
    assert canonical(gradient - rows - columns) == 0


@pytest.mark.slow
@given(
    size=st.integers(1, 5), longer=st.integers(0, 3), step=st.sampled_from((-2, -1, 1, 2, 3)),
    start=st.integers(-3, 4), number=st.integers(0, 2**16),
)  # fmt: skip
def test_a_sum_against_a_delta_is_what_loops_find(size: int, longer: int, step: int, start: int, number: int) -> None:
    """Σ_i δ(a·i + b, p)·x[i]: where a·i + b leaves the axis of p or misses it, the result is 0."""
    i, p = fresh("i", sp.Integer(size)), fresh("p", sp.Integer(size + longer))
    found = Equation((p,), contracted_sum(delta(step * i + start, p) * access("x", [i]), [i]))
    x = np.random.default_rng(number).normal(size=size)
    expected = np.zeros(size + longer)
    for place, value in enumerate(x):
        if 0 <= step * place + start < size + longer:
            expected[step * place + start] += value
    assert_same(expected, Loops({"x": x}, {}).array(found), seed=number, what=str(found.right))
    assert_same(expected, evaluate(found, {"x": x}, {}), seed=number, what=str(found.right))


@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=3), other=st.integers(1, 4), number=st.integers(0, 2**16))
def test_a_reshape_undone_is_the_identity(shape: list[int], other: int, number: int) -> None:
    """Σ_e δ(number of e in one shape, number of p in another)·v[e] puts every entry in its place."""
    sizes = tuple(sp.Integer(s) for s in shape)
    flat = (sp.Integer(int(np.prod(shape)) * other),) if other > 1 else (sp.Integer(int(np.prod(shape))),)
    outer, inner = fresh_axes(flat), fresh_axes(sizes, "pqr")
    whole = contracted_sum(delta(ravel(outer, flat), ravel(inner, sizes)) * access("v", outer), outer)
    v = np.random.default_rng(number).normal(size=int(flat[0]))
    expected = v[: int(np.prod(shape))].reshape(shape)
    assert_same(expected, Loops({"v": v}, {}).array(Equation(inner, whole)), seed=number)
    assert_same(expected, evaluate(Equation(inner, whole), {"v": v}, {}), seed=number)


def test_a_number_beyond_the_axis_is_not_met() -> None:
    """Rows of a longer tensor read row by row: only the first ones have a counterpart among the shorter's indices."""
    j, k = fresh("j", m), fresh("k", n)
    i = fresh("i", m * 2 * n)
    read = contracted_sum(delta(i, Ravel(j, k, m, 2 * n)) * access("y", [j, k]), [j, k])
    y = np.arange(1.0, 7.0).reshape(2, 3)
    expected = np.concatenate([y, np.zeros((2, 3))], axis=1).reshape(-1)
    assert_same(expected, Loops({"y": y}, {m: 2, n: 3}).array(Equation((i,), read)))
    assert_same(expected, evaluate(Equation((i,), read), {"y": y}, {m: 2, n: 3}))


# --- brackets -----------------------------------------------------------------------------------------------


def test_brackets_that_the_sizes_prove_are_not_written() -> None:
    i = fresh("i", n)
    assert bracket(sp.Ge(i, 0, evaluate=False)) == 1
    assert bracket(sp.Lt(i, n, evaluate=False)) == 1
    assert bracket(sp.Lt(i, n + 2, evaluate=False)) == 1
    assert bracket(sp.Ge(i, n, evaluate=False)) == 0
    assert bracket(sp.Lt(unravel(i, (m, n))[1], n, evaluate=False)) == 1
    assert bracket(sp.Lt(Ravel(fresh("j", m), i, m, n), m * n, evaluate=False)) == 1


def test_brackets_that_the_sizes_do_not_prove_stay() -> None:
    i = fresh("i", n)
    for condition in (sp.Lt(i, m), sp.Ge(i - 1, 0), sp.Lt(i + 1, n), sp.Lt(unravel(i, (m, 2 * n))[1], n)):
        assert isinstance(bracket(condition), Bracket), condition


@pytest.mark.parametrize(("text", "guarded"), [("x[1:]", True), ("x[:-1]", True), ("x[:]", False), ("x[::2]", True)])
def test_a_pullback_is_guarded_exactly_where_entries_are_left_out(text: str, guarded: bool) -> None:
    found = symgrad.explain(text, x=[1, 2, 3, 4, 5], check=False)
    assert bool(found.gradients["x"].formula.atoms(Bracket)) is guarded


def test_a_false_bracket_beats_an_infinity() -> None:
    (i,) = fresh_axes((sp.Integer(3),))
    x = np.array([0.0, 1.0, 2.0])
    equation = Equation((i,), Bracket(access("x", [i]) > 0) / access("x", [i]))
    for value in (evaluate(equation, {"x": x}, {}), Loops({"x": x}, {}).array(equation)):
        assert_same([0, 1, 0.5], value)
    j = fresh("j", sp.Integer(3))
    summed = Equation((), total(sp.Integer(3), lambda k: equation.right.xreplace({i: k})))
    assert_same(1.5, evaluate(summed, {"x": x}, {}))
    assert j not in free_indices(summed.right)


# --- row-major numbers --------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_ravel_and_unravel_undo_each_other(shape: list[int], data: st.DataObject) -> None:
    sizes = tuple(sp.Integer(s) for s in shape)
    axes = fresh_axes(sizes)
    assert unravel(ravel(axes, sizes), sizes) == axes
    number = fresh("e", sp.Integer(int(np.prod(shape))))
    assert ravel(unravel(number, sizes), sizes) == number
    at = [data.draw(st.integers(0, s - 1)) for s in shape]
    loops = Loops({}, {})
    places = dict(zip(axes, at, strict=True))
    assert loops.whole(ravel(axes, sizes), places) == int(np.ravel_multi_index(at, shape))
    entry = int(np.ravel_multi_index(at, shape))
    assert [loops.whole(i, {number: entry}) for i in unravel(number, sizes)] == at
    numbers = [sp.Integer(i) for i in at]
    assert ravel(numbers, sizes) == entry
    assert list(unravel(sp.Integer(entry), sizes)) == numbers


@pytest.mark.parametrize("shift", range(-3, 4))
def test_a_remainder_by_a_size_that_is_a_sum(shift: int) -> None:
    """SymPy's own remainder of i − 2 by n + 1 never comes to an end."""
    found = symgrad.explain(f"roll(F.pad(x, (0, 1)), {shift})", x=[1.0, 2.0, 4.0], seed=[1, 2, 3, 4])
    assert found.passed
    assert found.gradients["x"].value.tolist() == np.roll([1, 2, 3, 4], -shift)[:3].tolist()


def test_the_only_place_there_is_has_a_number() -> None:
    """Row by row, entry (0, 0) of 1×1 is entry 0."""
    found = symgrad.explain("take(max(y * a, dim=1, keepdim=True).values, n)", y=[[0.1]], a=[1.0, 3.0, 2.0], n=[[0]])
    assert found.passed
    assert found.gradients["a"].value.tolist() == [0, 0.1, 0]


# --- where SymPy's matrix derivatives go wrong ---------------------------------------------------------------

CORPUS = {
    # silently wrong with MatrixSymbol: a scalar made of a matrix counts as a constant
    "softmax(x)": {"x": (3,)},
    "softmax(x, dim=1)": {"x": (2, 3)},
    "logsumexp(x, dim=0)": {"x": (3,)},
    "log(x @ S @ x)": {"x": (3,), "S": (3, 3)},
    "x / (x @ x)": {"x": (3,)},
    "x / norm(x)": {"x": (3,)},
    "trace(X.T @ X) + trace(Y.T @ Y)": {"X": (2, 3), "Y": (2, 3)},
    "trace(X.T @ X) + 1": {"X": (2, 3)},
    # raised
    "sin(exp(X))": {"X": (2, 3)},
    "diag(x)": {"x": (3,)},
    "sum(log(1 + exp(-y * (X @ w))))": {"X": (3, 2), "w": (2,), "y": (3,)},
    # right only as an array expression
    "X @ A": {"X": (2, 3), "A": (3, 2)},
    "W @ x": {"W": (2, 3), "x": (3,)},
    "tanh(W @ x + b)": {"W": (2, 3), "x": (3,), "b": (2,)},
    "exp(X)": {"X": (2, 3)},
    "X * Y": {"X": (2, 3), "Y": (2, 3)},
    "X * X": {"X": (2, 3)},
    "X ** 2": {"X": (2, 3)},
    "sum(exp(X))": {"X": (2, 3)},
    "S @ S @ S": {"S": (2, 2)},
    "S @ S.T": {"S": (2, 3)},
    "trace(S) * S": {"S": (2, 2)},
    "X + b": {"X": (2, 3), "b": (3,)},
    "X.sum(1)": {"X": (2, 3)},
    "X.mean(0)": {"X": (2, 3)},
    'einsum("ij,kl->ikjl", A, B).reshape(4, 6)': {"A": (2, 3), "B": (2, 2)},
    "X.T": {"X": (2, 3)},
    "outer(x, x)": {"x": (3,)},
    # right
    "W @ x + b": {"W": (2, 3), "x": (3,), "b": (2,)},
    "sigmoid(W @ x)": {"W": (2, 3), "x": (3,)},
    "x @ S @ x": {"x": (3,), "S": (3, 3)},
    "sqrt(x @ x)": {"x": (3,)},
    "sum((X @ A - V) ** 2)": {"X": (2, 3), "A": (3, 2), "V": (2, 2)},
    "relu(x)": {"x": (4,)},
    "x * (x @ x)": {"x": (3,)},
    "a @ (sin(X) @ x)": {"a": (2,), "X": (2, 3), "x": (3,)},
    # X / Y failed in the inner-product form
    "X / (1 + Y * Y)": {"X": (2, 3), "Y": (2, 3)},
    "(S @ S).T @ (S @ S)": {"S": (2, 2)},
    "trace(A @ X @ B @ X.T)": {"A": (2, 2), "X": (2, 3), "B": (3, 3)},
    "mean((X - X.mean(0)) ** 2)": {"X": (3, 2)},
}
"""What was measured on SymPy 1.14's matrix derivatives, in symgrad's spelling; inv and det are not in the table yet."""


@pytest.mark.one_in(12)
@pytest.mark.parametrize("text", CORPUS)
def test_what_sympys_matrix_derivatives_get_wrong_is_right(text: str) -> None:
    number = seed_of(text)
    generator = np.random.default_rng(number)
    inputs = {name: generator.uniform(0.3, 1.7, size=shape) for name, shape in CORPUS[text].items()}
    shape = tuple(torch_side.evaluate(text, {name: torch_side.tensor(a) for name, a in inputs.items()}).shape)
    weights = random_seed(shape, generator)
    _, expected = torch_side.text_gradients(text, inputs, weights)
    found = symgrad.explain(text, seed=weights, **inputs)
    assert found.passed, [(name, c) for name, g in found.gradients.items() for c in g.checks if not c.passed]
    for name, gradient in found.gradients.items():
        assert_same(expected[name], gradient.value, seed=number, what=f"{text} by {name}")
        assert gradient.jacobian.nonzeros > 0, "a zero because nothing was derived"
        if gradient.jacobian.formula is not None:
            assert not deltas_under_sums(gradient.formula)


def test_standard_names_inside_catch_none_outside() -> None:
    """Σ_j x[j,p]·Σ_l y[l,j], where j and l are standard names already, in any order: those of a larger sum, say."""
    n = sp.Symbol("n", integer=True, positive=True)
    free, axes = fresh("p", n), [fresh(letter, n) for letter in "jkl"]
    flat = canonical(sp.Sum(sp.Mul(*(access("z", (k,)) for k in axes)), *((k, 0, n - 1) for k in axes)))
    arrays = {"x": np.arange(9.0).reshape(3, 3), "y": np.arange(9.0, 18.0).reshape(3, 3) ** 2}
    expected = np.einsum("jp,lj->p", arrays["x"], arrays["y"])
    names = [limit[0] for limit in flat.limits]
    for j in names:
        for k in (k for k in names if k != j):
            inner = sp.Sum(access("y", (k, j)), (k, 0, n - 1))
            again = canonical(sp.Sum(access("x", (j, free)) * inner, (j, 0, n - 1)))
            assert_same(
                expected, Loops(arrays, {n: 3}).array(Equation((free,), again)), what=f"{j} outside, {k} inside"
            )


@pytest.mark.parametrize("size", [0, 1, 3])
def test_sums_and_products_over_an_index_that_nothing_mentions(size: int) -> None:
    """A sum that is written down as it stands, and a product of numbers, of no entries as well as of some."""
    k, arrays = fresh("k", n), {"x": np.array(5.0)}
    written = Equation((), sp.Sum(access("x", ()), (k, 0, n - 1)))
    assert_same(5.0 * size, evaluate(written, arrays, {n: size}), what="n times x")
    assert_same(
        3.0**size, Loops(arrays, {}).array(Equation((), multiply_up(sp.Integer(size), lambda j: sp.Integer(3))))
    )
    rows = {"y": np.arange(2.0, 2.0 + size)}
    product = multiply_up(sp.Integer(size), lambda j: access("y", (j,)))
    assert_same(np.prod(rows["y"]), evaluate(Equation((), product), rows, {}), what="the product of y")


@pytest.mark.parametrize(
    ("there", "here"),
    [((15, 4), (3, 5, 4)), ((3, 5, 4), (15, 4)), ((2, 6, 5), (2, 3, 2, 5)), ((4, 3), (2, 6)), ((6, 2), (3, 4)),
     ((2, 3, 4), (24,)), ((3, 1, 5), (3, 5)), ((3, 5), (3, 1, 5)), ((2, 3), (5, 3)), ((2, 2, 2, 3), (4, 6))],
)  # fmt: skip
def test_an_entry_numbered_in_one_shape_is_the_same_in_another(there: tuple[int, ...], here: tuple[int, ...]) -> None:
    """Whatever is simplified, the parts are those that counting row by row gives."""
    indices = [fresh("p", sp.Integer(size)) for size in there]
    found = unravel(ravel(indices, tuple(map(sp.Integer, there))), tuple(map(sp.Integer, here)))
    for place in np.ndindex(*there):
        numbers = dict(zip(indices, map(sp.Integer, place), strict=True))
        own = np.unravel_index(np.ravel_multi_index(place, there), here)
        assert [int(part.xreplace(numbers)) for part in found] == [int(part) for part in own]


def test_axes_that_both_shapes_have_are_not_counted_together() -> None:
    """(i, j) of 15×4 is, in 3×5×4, entry i of 3×5, and j; what was taken apart is put together again."""
    i, j, e = (fresh(name, sp.Integer(size)) for name, size in (("i", 15), ("j", 4), ("e", 60)))
    sizes = (sp.Integer(3), sp.Integer(5), sp.Integer(4))
    assert unravel(ravel((i, j), (sp.Integer(15), sp.Integer(4))), sizes) == (*unravel(i, sizes[:2]), j)
    assert ravel(unravel(e, sizes), sizes) == e
