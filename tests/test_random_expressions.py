"""Expressions nobody thought of: 300 of them agree with torch to 1e-9, or are refused with a reason.

Never a wrong number, never another exception. The same expressions are drawn in every run; for many more and
new ones: ``pytest --hypothesis-profile=nightly tests/test_random_expressions.py``. Beside the 300 each operation
of the table has its turn as the last one of an expression.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

import symgrad
from symgrad.errors import SymgradError
from symgrad.language import read
from symgrad.ops import TABLE
from tests import torch_side
from tests.compare import assert_same
from tests.expressions import Expression, ending_in, expressions
from tests.sampling import random_seed

PARTS = 6
EXAMPLES = max(300, settings.default.max_examples) // PARTS
MOST_REFUSED = 0.05

TRIES = 8

some = settings(
    max_examples=EXAMPLES,
    phases=(
        Phase.explicit,
        Phase.reuse,
        Phase.generate,
    ),  # an expression comes from one number: no smaller one is simpler
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def weights_for(drawn: Expression) -> np.ndarray:
    """Random integers in the shape of the output."""
    return random_seed(drawn.shape, np.random.default_rng(drawn.number))


def agrees_with_torch(drawn: Expression) -> bool | None:
    """Whether symgrad takes the expression; what it then says is held against torch. None if torch has no number.

    Where they differ, the smallest part that is wrong is named.
    """
    try:
        return compared(drawn)
    except Exception as error:
        for piece in drawn.pieces:
            try:
                compared(piece)
            except Exception as smaller:
                raise AssertionError(f"{drawn} is wrong because {piece} is: {smaller}") from smaller
        raise AssertionError(f"{drawn}: {error}") from error


def compared(drawn: Expression) -> bool | None:
    """`agrees_with_torch` of one expression as a whole."""
    weights = weights_for(drawn)
    try:
        out, expected = torch_side.text_gradients(drawn.torch_text, drawn.inputs, weights)
    except RuntimeError:  # torch has no backward for this: a power whose exponent is a comparison, for one
        return None
    if not all(np.isfinite(g).all() and np.abs(g).max(initial=0) < 1e5 for g in expected.values()):
        return None
    try:
        found = symgrad.explain(drawn.text, seed=weights, check=False, **drawn.inputs)
    except SymgradError as error:
        assert error.problem
        return False
    about = {"seed": drawn.number, "what": repr(drawn)}
    assert_same(out, found.output, **about)
    known = {n: torch.tensor(a) if n in drawn.positions else torch_side.tensor(a) for n, a in drawn.inputs.items()}
    known |= {"v": torch_side.tensor(weights), "out": torch_side.tensor(out)}
    for name, gradient in found.gradients.items():
        scale = max(1.0, np.abs(expected[name]).max(initial=0))
        assert_same(expected[name] / scale, np.asarray(gradient.value, dtype=float) / scale, **about)
        rows = np.asarray(gradient.jacobian.dense(), dtype=float)
        assert_same(expected[name] / scale, (weights.reshape(-1) @ rows).reshape(expected[name].shape) / scale, **about)
        if gradient.closed_form is not None:
            form = torch_side.evaluate(gradient.closed_form, known)
            assert_same(
                expected[name] / scale, form / scale, seed=drawn.number, what=f"{drawn}: {gradient.closed_form}"
            )
    return True


@pytest.mark.parametrize("part", range(PARTS))
def test_random_expressions_agree_with_torch(part: int) -> None:
    answers = []

    @seed(part)
    @some
    @given(expressions())
    def check(drawn: Expression) -> None:
        answer = agrees_with_torch(drawn)
        assume(answer is not None)
        answers.append(answer)

    check()
    assert answers.count(False) <= MOST_REFUSED * len(answers), "too many expressions that torch takes are refused"


@seed(0)
@some
@given(expressions(most=3, exact=True))
def test_random_expressions_at_ties_and_zeros_agree_with_torch(drawn: Expression) -> None:
    assume(agrees_with_torch(drawn) is not None)


@seed(0)
@settings(some, max_examples=25)
@given(expressions(most=3))
def test_every_oracle_agrees_on_random_expressions(drawn: Expression) -> None:
    try:
        found = symgrad.explain(drawn.text, seed=weights_for(drawn), **drawn.inputs)
    except SymgradError:
        return
    failed = [(n, c) for n, g in found.gradients.items() for c in g.checks if c.passed is False]
    assert found.passed, (drawn, failed)


def stands_still(drawn: Expression) -> bool:
    """Whether no input moves the output, as far as torch says."""
    try:
        _, expected = torch_side.text_gradients(drawn.torch_text, drawn.inputs, weights_for(drawn))
    except RuntimeError:
        return True
    return not any(np.abs(np.nan_to_num(g)).max(initial=0) > 1e-6 for g in expected.values())


@pytest.mark.parametrize("name", TABLE)
def test_every_operation_ends_an_expression_that_agrees_with_torch(name: str) -> None:
    """One that symgrad takes, among the first few that torch takes."""
    drawn = [found for number in range(TRIES) if (found := ending_in(TABLE[name], number)) is not None]
    drawn.sort(key=stands_still)  # the cosine of x and x shows little
    taken = next((one for one in drawn if agrees_with_torch(one)), None)
    assert taken is not None, drawn
    steps = read(taken.text, shapes={n: a.shape for n, a in taken.inputs.items()}).program.steps
    assert name in [step.op for step in steps]


def test_the_same_expressions_are_drawn_in_every_run() -> None:
    def drawn() -> list[str]:
        texts: list[str] = []

        @seed(3)
        @settings(some, max_examples=5, database=None)
        @given(expressions(), st.none())
        def collect(expression: Expression, _: None) -> None:
            texts.append(repr(expression))

        collect()
        return texts

    assert drawn() == drawn()


# What random expressions found ------------------------------------------------------------------------------

FOUND = [
    ("dist(x, x)", {"x": (2,)}),
    ("dist(x, x.clone(), 3)", {"x": (1,)}),
    ("cdist(x, x)", {"x": (3, 3)}),
    ("cdist(x, x, p=3.0)", {"x": (1, 1)}),
    ("cdist(x, x, p=1.0)", {"x": (3, 2)}),
    ("roll(x, (1, -1), (0, 1))", {"x": (0, 3)}),
    ("F.group_norm(x, 2)", {"x": (0, 2, 1)}),
    ("F.conv2d(x, y, stride=2) * a", {"x": (1, 2, 4, 3), "y": (2, 2, 2, 2), "a": (2, 3)}),
    ("where(F.normalize(x, dim=0) > a, x, a)", {"x": (3,), "a": (2, 3)}),
    ("torch.flip(x, (0, 1))", {"x": (2, 3)}),
    ("np.dot(x, y) ** 2", {"x": (2, 3), "y": (2, 3, 2)}),
]


@pytest.mark.parametrize(("text", "shapes"), FOUND, ids=[text for text, _ in FOUND])
def test_what_random_expressions_found(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    """A number, a closed form that torch reads, or arrays that torch takes was missing in each of these."""
    generator = np.random.default_rng(0)
    inputs = {name: generator.uniform(0.2, 1.8, size=shape) for name, shape in shapes.items()}
    shape = tuple(torch_side.evaluate(text, {n: torch_side.tensor(a) for n, a in inputs.items()}).shape)
    assert agrees_with_torch(Expression(text, text, inputs, shape))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("gather(x, 1, n)", {"x": np.ones((3, 1)), "n": np.ones((3, 3), dtype=int)}),
        ("take_along_dim(x, n, 1)", {"x": np.ones((3, 1)), "n": np.ones((3, 3), dtype=int)}),
        ("index_select(x, 0, n)", {"x": np.ones((3, 1)), "n": np.array([-1])}),
        ("F.embedding(n, x)", {"x": np.ones((3, 2)), "n": np.array([3])}),
        ("dist(x, x, 3)", {"x": np.ones(1)}),
    ],
)
def test_what_random_expressions_found_is_refused_with_a_reason(text: str, values: dict[str, np.ndarray]) -> None:
    """Each of these was another exception, or a number that torch does not give."""
    with pytest.raises(SymgradError) as caught:
        symgrad.explain(text, seed="random", **values)
    assert caught.value.problem
