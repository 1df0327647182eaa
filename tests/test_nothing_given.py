"""A text as people paste it, with no shape and no value: sizes are chosen that fit, and what is said of ones is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad
from symgrad.errors import DomainError, InputError, Setting, ShapeError, SymgradError, UnsupportedError
from symgrad.numeric.arranged import symmetric_gradient
from symgrad.ops import TABLE, Op
from tests.cases import Case, cases
from tests.compare import assert_same

TEXTS = list({case.example.text: case for case in reversed(cases())}.values())[::3]
"""One example in three, half a second each."""


@pytest.mark.one_in(56)
@pytest.mark.parametrize("case", TEXTS, ids=lambda case: case.example.text)
def test_an_example_without_its_shapes_is_explained_or_refused(case: Case) -> None:
    """No warning, no bug: ones are the numbers that generators of tests do not draw."""
    try:
        found = symgrad.explain(case.example.text)
    except SymgradError as error:
        assert str(error)
        return
    assert found.passed
    assert found.to_text()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("text", "many"),
    [("F.conv2d(x, w, groups=2, padding=1)", 2), ("F.conv1d(x, w, groups=5)", 5), ("F.group_norm(x, 4)", 4),
     ("F.conv_transpose1d(x, w, groups=3)", 3), ("F.pixel_shuffle(x, 3)", 9), ("F.glu(x)", 2)],
)  # fmt: skip
def test_sizes_that_nobody_gave_divide_as_the_text_asks(text: str, many: int) -> None:
    shape = symgrad.explain(text).gradients["x"].value.shape
    assert any(size % many == 0 for size in shape)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(x - x.mean()) / x.std()", "x is 0.47, −0.6, 0.21, …"),
        ("x.std() + y.max()", "x and y are 0.47, −0.6, 0.21, …, in turn"),
        ("norm(x - y)", "x and y are 0.47, −0.6, 0.21, …, in turn"),
        ("log(1 - x)", "x is 0.47, −0.6, 0.21, …"),
        ("log(1 - x) * log(x)", "x is 1/3, 1/4, 1/5, …"),
        ("sqrt(x - 2)", "x is 3, 4, 5, …"),
        ("sqrt(-x)", "x is −1, −2, −3, …"),
        ("inv(2 * a) @ b", "a and b are 0.47, −0.6, 0.21, …, in turn"),
        ("cholesky(x @ x.T)", "x is 0.47, −0.6, 0.21, …"),
        ("logdet(x) * log(y)", "added on the diagonal; y is 1, 2, 3, …"),
        ("softmax(q @ k.T / 2) @ u", "v is ones; q, k and u are 0.47, −0.6, 0.21, …, in turn"),
        ("F.cross_entropy(log(x - 1)[None], t)", "t is ones; x is 3, 4, 5, …"),
        ("E = 2·√c", "c is 0.47"),
        ("E[i] = log(c[i] − 1)", "c is 3, 4, 5, …"),
        ("E[i] = √(1 − c[i]²)", "c is 0.47, −0.6, 0.21, …"),
        ("out[i] = c·x[i]", "c, x and v are ones"),
        ("F.layer_norm(x, (3,))", "x is 0.47, −0.6, 0.21, …; v is 1, 2, 3, …"),
    ],
)
def test_where_ones_have_no_value_or_two_slopes_other_numbers_are_taken(text: str, words: str) -> None:
    """The page was about 0/0, −∞ or a tie that nobody asked for."""
    found = symgrad.explain(text)
    said = " ".join(found.to_text(brief=True).split())
    assert found.passed
    assert words in said
    assert "Undefined here" not in said
    assert "kink" not in said


@pytest.mark.parametrize(
    "text",
    ["x@a", "F.conv1d(x, w)", "x*w + b", "F.linear(x, w, b).T", "x.mean(0) - x", "einsum('ij,jk->ki', x, w)", "x.T/3",
     "F.bilinear(x, y, w)", "torch.where(x > 0, a, b)", "c * x.flip(0)"],
)  # fmt: skip
def test_what_is_linear_in_each_input_is_shown_at_ones(text: str) -> None:
    given = {g.name: g.value for g in symgrad.explain(text, check=False).inputs}
    moving = {name: array for name, array in given.items() if not (name == "x" and "where" in text)}
    assert all((array == 1).all() for array in moving.values())


@pytest.mark.parametrize(
    "text", ["x*x", "x@x.T", "tanh(x@w)", "softmax(x@w, -1)", "F.layer_norm(x, (3,), w, b)", "x/y", "relu(x)", "x.max()",
             "F.scaled_dot_product_attention(q, k, u)", "h = x@w; (h@h.T).sum()", "x * (x + y)", "E[i] = c[i]²·x[i]"],
)  # fmt: skip
def test_what_is_not_is_shown_where_every_gradient_says_something(text: str) -> None:
    """No two numbers are alike, and no gradient is 0 because all were."""
    found = symgrad.explain(text, check=False)
    given = [entry for g in found.inputs for entry in g.value.ravel().tolist()]
    assert len({*given}) == len(given)
    assert all(np.abs(gradient.value).max() > 1e-6 for gradient in found.gradients.values())


@pytest.mark.parametrize("text", ["softmax(x, -1)", "F.layer_norm(x, (3,))", "x - x.mean()", "softmax(x@w, -1)"])
def test_a_seed_that_nobody_gave_leaves_something(text: str) -> None:
    """Ones leave nothing of these, and stay where an input was given: that is what people ask about."""
    found = symgrad.explain(text, check=False)
    assert found.seed.ravel().tolist() == [*range(1, found.seed.size + 1)]
    assert "Ones would give a gradient of 0" in " ".join(found.to_text().split())
    assert (symgrad.explain(text, check=False, x=[[1, 2, 4], [0, 3, 1]]).seed == 1).all()


OF_ONE = [op for op in TABLE.values() if len(op.operands) == 1 and not op.variadic and "(x" in op.examples[0].text]
NOWHERE = {
    "logit(x - 1)",
    "ndtri(x - 1)",  # between 1 and 2 alone
    "sign",
    "round",
}


@pytest.mark.one_in(180)
@pytest.mark.parametrize("inner", ["2 * x", "x - 1", "1 - x"])
@pytest.mark.parametrize("op", OF_ONE, ids=lambda op: op.name)
def test_what_is_assumed_of_a_shifted_input_has_a_gradient(op: Op, inner: str) -> None:
    text = op.examples[0].text.replace("(x", f"({inner}", 1)
    try:
        found = symgrad.explain(text, check=False)
    except (ShapeError, DomainError):  # a size, or a kind of matrix, that no numbers alone give
        return
    said = found.to_text(brief=True)
    assert text in NOWHERE or not ("Undefined here" in said or "a kink of" in said)


def test_a_length_of_nothing_but_equal_numbers_is_undefined_and_warns_nobody() -> None:
    found = symgrad.explain("(x - x.mean()) / x.std()", x=[1.0, 1.0])
    assert found.passed
    assert "Undefined here" in found.to_text()


@pytest.mark.parametrize("let", ["x", "y"])
def test_what_is_given_is_kept(let: str) -> None:
    """Other numbers are taken for what nobody gave alone."""
    found = symgrad.explain("log(x - y)", **{let: [1.0, 1.0]})
    assert [g.value.tolist() for g in found.inputs if g.name == let] == [[1.0, 1.0]]
    assert "Undefined here" not in found.to_text(brief=True)
    assert "Undefined here" in symgrad.explain("log(x - y)", x=[1.0, 1.0], y=[1.0, 1.0]).to_text(brief=True)


def test_then_reads_what_the_text_before_it_was_filled_with() -> None:
    found = symgrad.explain("log(x - 1)", then="sum(out ** 2 * x)")
    assert found.passed
    assert "x is 3, 4, 5, …" in " ".join(found.to_text(brief=True).split())


def test_ones_are_kept_where_trying_others_would_take_long() -> None:
    """A million logarithms of 0 are computed once."""
    assert "x is 1, 2" not in symgrad.explain("(x - 1).std()", shapes={"x": (600, 600)}, check=False).to_text(
        brief=True
    )


@pytest.mark.slow
def test_an_entry_that_nobody_would_read_is_not_written_out() -> None:
    """Writing out one of a sampling with borders took half a minute, and then it was too long to be shown."""
    found = symgrad.explain('F.grid_sample(x, grid, padding_mode="border", align_corners=True)', check=False)
    assert found.gradients["x"].entry((0, 0, 0, 0)).terms == ()


@pytest.mark.parametrize(
    "text",
    ["F.cross_entropy(x, torch.tensor([0, 5]))", "F.embedding(torch.tensor([1, 4]), x)",
     "x.index_select(0, torch.tensor([0, 5]))", "x.gather(1, torch.tensor([[0], [3]]))"],
)  # fmt: skip
def test_a_position_beyond_a_size_that_nobody_gave_is_told_with_a_shape_that_has_it(text: str) -> None:
    with pytest.raises(InputError) as refused:
        symgrad.explain(text)
    (hint,) = refused.value.hints
    assert isinstance(hint, Setting)
    assert symgrad.explain(text, shapes={hint.name: tuple(map(int, hint.value.split(",")))}).passed


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("x[torch.tensor([0, 2])]", (3,)),
        ("x[torch.tensor([0, -3])]", (3,)),
        ("x[torch.tensor([[0, 2], [1, 5]])]", (6,)),
        ("x[torch.tensor([2, 0]), torch.tensor([1, 3])]", (3, 4)),
        ("-x.log_softmax(1)[torch.arange(3), y].mean()", (3, 2)),
        ("x[range(4), y]", (4, 2)),
        ("x[y, torch.arange(4)]", (2, 4)),
        ("x[torch.arange(3), :, y]", (3, 2, 3)),
        ("torch.linalg.norm(x, 'fro')", (2, 3)),
        ("torch.linalg.norm(x, ord='nuc')", (2, 2)),
        ("np.linalg.norm(x, 'fro')", (2, 3)),
        ("torch.norm(x, p='nuc')", (2, 2)),
    ],
)
def test_what_a_text_says_of_a_shape_is_taken(text: str, shape: tuple[int, ...]) -> None:
    """Positions that it writes itself have to be there, and two norms are of matrices: these were refused."""
    found = symgrad.explain(text)
    assert found.passed
    assert found.inputs[0].value.shape == shape


SOURCES = [
    ("x.scatter_add(0, i, s)", {}),
    ("x.scatter_add(0, i, s)", {"i": [0, 1, 0]}),
    ("x.scatter(1, i, s)", {"i": [[0, 1, 2], [1, 0, 2]]}),
    ('x.scatter_reduce(0, i, s, "amax")', {}),
    ('x.scatter_reduce(0, i, s, "amax")', {"i": [0, 1, 0]}),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("text", "given"), SOURCES)
def test_a_source_that_nobody_gave_has_an_entry_for_every_position(text: str, given: dict[str, Any]) -> None:
    """torch pulls nothing back to one with more."""
    found = symgrad.explain(text, **given)
    assert found.passed
    assert found.gradients["s"].value.shape == found.values["i"].shape


@pytest.mark.parametrize("text", ["x.scatter(0, i, s)", "x.scatter(0, i, 2.0)", "x.index_copy(0, i, s)"])
def test_an_entry_that_is_written_twice_is_refused(text: str) -> None:
    """The page said s0 + s1 = 6 where torch had kept s1, and torch's backward gives its weight to both."""
    with pytest.raises(UnsupportedError, match="writes an entry twice, and the result depends on the order"):
        symgrad.explain(text, x=[0, 0, 0], i=[1, 1], **({"s": [5, 6]} if "s)" in text else {}))


def test_repetitions_of_which_each_is_another_are_positions() -> None:
    with pytest.raises(InputError, match=r"positions: x\[\[0, 1, 1\]\]"):
        symgrad.explain("x.repeat_interleave([1, 2])")


def test_small_numbers_are_of_both_signs_and_no_two_alike() -> None:
    (x,) = symgrad.explain("x.exp()", shapes={"x": (198,)}).inputs
    assert sorted(np.asarray(x.value, dtype=float)) == [n / 100 for n in range(-99, 100) if n]


def test_what_flows_to_both_places_of_a_symmetric_matrix_is_added() -> None:
    generator = np.random.default_rng(2)
    flows = generator.normal(size=(2, 3, 3))
    expected = flows.copy()
    for n, i, j in np.ndindex(2, 3, 3):
        expected[n, i, j] += flows[n, j, i] if i != j else 0
    assert_same(expected, symmetric_gradient(flows))
    assert_same(expected[0], symmetric_gradient(flows[0]))
