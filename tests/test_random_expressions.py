"""Expressions nobody thought of: 350 of them agree with torch to 1e-9, or are refused with a reason.

Never a wrong number, never another exception. The same expressions are drawn in every run, 150 by default, the others
in the slow one; for 20,000 longer and new ones: ``pytest --hypothesis-profile=nightly
tests/test_random_expressions.py``. Beside them each operation of the table has its turn as the last one of an
expression.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from math import ceil

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

import symgrad
from symgrad.errors import SymgradError
from symgrad.language import read_program
from symgrad.numeric import forward, numeric_pullback, where_exact, without_fractions
from symgrad.ops import TABLE
from symgrad.oracles.forms import UNREAD, Dropped, dropped_forms
from tests import torch_side
from tests.compare import TOLERANCE, assert_same
from tests.expressions import LONGEST, Expression, ending_in, expressions, grown, mentions
from tests.sampling import random_seed, seed_of

NIGHTLY = settings.get_current_profile_name() == "nightly"
PARTS, EXACT_PARTS = (20, 5) if NIGHTLY else (17, 3)
EACH = 800 if NIGHTLY else 18
MOST = LONGEST if NIGHTLY else 5
"""20,000 expressions of up to 12 operations at night; 360 shorter ones before a change lands."""
DEFAULT = PARTS if NIGHTLY else 1
"""Parts of either kind that are run by default."""
SLOW = 1
"""Part of either kind that is slow, with everything made; the others are left to the night."""
EVERY = 16 if NIGHTLY else 4
"""Formulas, explicit Jacobian and closed form are made for one expression in so many: they take the time.

The slow tests have them made for all.
"""
MOST_REFUSED = 0.05
"""Rounded up: of the eighteen of one part one may be refused."""

NONE = "so there is no derivative"
"""How a form that finds equal singular values refuses to be read."""
TRIES = 8

some = settings(
    max_examples=EACH,
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


def agrees_with_torch(drawn: Expression, thorough: bool | None = None) -> bool | None:
    """Whether symgrad takes the expression; what it then says is held against torch. None if torch has no number.

    Where they differ, the smallest part that is wrong is named.
    """
    try:
        return compared(drawn, drawn.number % EVERY == 0 if thorough is None else thorough)
    except Exception as error:
        if isinstance(error, AssertionError) and (undefined_on_the_way(drawn) or rests_on_rounding(drawn)):
            return None
        for piece in drawn.pieces:
            try:
                compared(piece)
            except Exception as smaller:
                raise AssertionError(f"{drawn} is wrong because {piece} is: {smaller}") from smaller
        raise AssertionError(f"{drawn}: {error}") from error


def rests_on_rounding(drawn: Expression) -> bool:
    """Whether torch's own answer is no more than rounding: it jumps or moves by more than the tolerance when what
    it computes on the way moves in the fourteenth digit, or is the 0 that it would be without rounding. So do
    ``ceil(cross(a, a))``, ``normalize(cross(a, a))`` and ``hypot(cross(a, a), x)``. So may what flows back: of equal
    entries ``layer_norm`` keeps the difference of equal gradients, and ``rms_norm`` makes 10⁸ of it.

    Asked of expressions on which the answers differ. Where all that they are made of is the same to the last bit,
    the last operation stands at its kink, and what it does there is no matter of rounding, unless it rounds a 0 itself.
    """
    forward_too = not all(map(the_very_same, drawn.pieces)) or rounds_a_zero(drawn)
    weights, generator = weights_for(drawn), np.random.default_rng(0)

    def shake(value: torch.Tensor) -> torch.Tensor:
        return value + torch.tensor(generator.uniform(-1e-14, 1e-14, tuple(value.shape))) * (1 + value.detach().abs())

    def stir(value: torch.Tensor) -> torch.Tensor:
        if value.requires_grad:
            value.register_hook(lambda g: g * (1 + torch.tensor(generator.uniform(-1e-14, 1e-14, tuple(g.shape)))))
        return value

    def settle(value: torch.Tensor) -> torch.Tensor:
        return value - value.detach() * (value.detach().abs() < 1e-14)

    def moved(move: Callable[[torch.Tensor], torch.Tensor]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        def on_the_way(value: torch.Tensor) -> torch.Tensor:
            return move(value) if value.dtype == torch.float64 else value

        steps = drawn.torch_steps
        return torch_side.gradients(
            lambda known: torch_side.evaluate(steps, known, shake=on_the_way), drawn.inputs, weights
        )

    out, gradients = torch_side.text_gradients(drawn.torch_text, drawn.inputs, weights)
    for near, others in map(moved, (*([stir] * 3), *((settle, *([shake] * 5)) if forward_too else ()))):
        pairs = [(out, near), *((gradients[n], others[n]) for n in gradients)]
        if not all(np.abs(a - b).max(initial=0) <= TOLERANCE * max(1, np.abs(a).max(initial=0)) for a, b in pairs):
            return True
    return False


def undefined_on_the_way(drawn: Expression) -> bool:
    """Whether torch itself has no number for the gradient of a step: what it has for the inputs is what is left when a
    later step throws that away, as the gradient of a Fourier transform does with the imaginary part of entry 0.
    """
    undefined = list[bool]()

    def watch(value: torch.Tensor) -> torch.Tensor:
        if value.requires_grad:
            value.register_hook(lambda gradient: undefined.append(not bool(torch.isfinite(gradient).all())))
        return value

    torch_side.gradients(
        lambda known: torch_side.evaluate(drawn.torch_steps, known, shake=watch), drawn.inputs, weights_for(drawn)
    )
    return any(undefined)


def the_very_same(drawn: Expression) -> bool:
    """Whether torch and symgrad give the same number, to the last bit: −0 is not 0."""
    found = outputs(drawn)
    return found is not None and np.array_equal(*found) and np.array_equal(*map(np.signbit, found))


def rounds_a_zero(drawn: Expression) -> bool:
    """Whether a result is what rounding leaves of 0, as the spread of equal numbers may be."""
    return any(((array != 0) & (np.abs(array) < 1e-14)).any() for array in outputs(drawn) or ())


def outputs(drawn: Expression) -> tuple[np.ndarray, np.ndarray] | None:
    """The output by symgrad and by torch; None where symgrad refuses."""
    try:
        ours, _ = by_numbers(drawn, weights_for(drawn))
    except SymgradError:
        return None
    theirs, _ = torch_side.text_gradients(drawn.torch_text, drawn.inputs, weights_for(drawn))
    return np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)


def compared(drawn: Expression, thorough: bool = True) -> bool | None:
    """`agrees_with_torch` of one expression as a whole; only ``thorough`` has the formulas made and looks at them."""
    weights = weights_for(drawn)
    try:
        out, expected = torch_side.text_gradients(drawn.torch_text, drawn.inputs, weights)
    except RuntimeError:  # torch has no backward for this: a power whose exponent is a comparison, for one
        return None
    if not all(np.isfinite(g).all() and np.abs(g).max(initial=0) < 1e5 for g in expected.values()):
        return None
    try:
        output, gradients = by_explanation(drawn, weights, out) if thorough else by_numbers(drawn, weights)
    except SymgradError as error:
        assert error.problem
        return False
    assert_same(out, output, seed=drawn.number, what=repr(drawn))
    for name, answers in gradients.items():
        scale = max(1.0, np.abs(expected[name]).max(initial=0))
        for what, found in answers.items():
            about = f"{drawn}: {what} of {name}"
            assert_same(expected[name] / scale, np.asarray(found) / scale, seed=drawn.number, what=about)
    return True


Answers = dict[str, dict[str, np.ndarray]]
"""By input, every gradient that symgrad gives for it and how it came to it."""


def by_numbers(drawn: Expression, weights: np.ndarray) -> tuple[np.ndarray, Answers]:
    """The output and the gradients, by the sweep that `symgrad.explain` takes them from, its formulas not made."""
    program = read_program(drawn.text, shapes={n: a.shape for n, a in drawn.inputs.items()}).program
    values = forward(program, drawn.inputs)
    found = numeric_pullback(program, values, where_exact(weights), list(drawn.inputs))
    return without_fractions(values[program.output]), {
        n: {"the sweep": np.asarray(g, dtype=float)} for n, g in found.items()
    }


def written_wrongly(form: Dropped, drawn: Expression, out: np.ndarray) -> bool:
    """Whether a form that is withheld is a mistake of the writers: one that does not read back always is.

    It is none where singular values are equal, nor at ties and zeros, of an input or of the output as in the distance of a point from itself: there the
    gradient may be a convention, and a form that holds elsewhere is withheld.
    """
    if form.where == UNREAD:
        return NONE not in form.why
    moving = [array for name, array in drawn.inputs.items() if name not in drawn.positions]
    return not any((array == np.round(array)).any() for array in moving) and not (out == 0).any()


def by_explanation(drawn: Expression, weights: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, Answers]:
    """The output, and gradients by the sweep, by the explicit Jacobian, and by the closed form as torch reads it.

    A Jacobian with NaN in it says that there is none at this point, as of hypot at the origin; the sweep goes
    the way of torch's backward, in which a mask that comes later may still exclude it.
    """
    with dropped_forms() as dropped:
        found = symgrad.explain(drawn.text, seed=weights, check=False, **drawn.inputs)
        forms = {name: gradient.closed_form for name, gradient in found.gradients.items()}
    assert not [form for form in dropped if written_wrongly(form, drawn, out)], drawn
    known = {n: torch.tensor(a) if n in drawn.positions else torch_side.tensor(a) for n, a in drawn.inputs.items()}
    known |= {"v": torch_side.tensor(weights), "out": torch_side.tensor(out)}
    answers: Answers = {}
    for name, gradient in found.gradients.items():
        rows = np.asarray(gradient.jacobian.dense(), dtype=float)
        answers[name] = {"the sweep": np.asarray(gradient.value, dtype=float)}
        if not np.isnan(rows).any():
            answers[name]["the Jacobian"] = (weights.reshape(-1) @ rows).reshape(np.shape(gradient.value))
        if (form := forms[name]) is not None:
            answers[name][form] = torch_side.evaluate(form, known).numpy()
    return found.output, answers


ALL = [*((n, False) for n in range(PARTS)), *((n, True) for n in range(EXACT_PARTS))]
RUNS = [
    *((part, exact, None) for part, exact in ALL if part < DEFAULT),
    *(
        pytest.param(
            part,
            exact,
            True,
            id=f"thorough-{part}-{exact}",
            marks=pytest.mark.slow if part < SLOW else pytest.mark.night,
        )
        for part, exact in ALL
    ),
]
"""What is made thoroughly, in the slow tests, is made of the same expressions and more."""


@pytest.mark.parametrize(("part", "exact", "thorough"), RUNS)
def test_random_expressions_agree_with_torch(part: int, exact: bool, thorough: bool | None) -> None:
    """With ``exact``, at ties and zeros."""
    answers = []

    @seed(secrets.randbits(32) if NIGHTLY else part)
    @some
    @given(expressions(MOST, exact))
    def check(drawn: Expression) -> None:
        answer = agrees_with_torch(drawn, thorough)
        assume(answer is not None)
        answers.append(answer)

    check()
    assert answers.count(False) <= ceil(MOST_REFUSED * len(answers)), (
        "too many expressions that torch takes are refused"
    )


@pytest.mark.one_in(6, slow=2)
@pytest.mark.parametrize("part", range(6))
def test_every_oracle_agrees_on_random_expressions(part: int) -> None:
    @seed(part)
    @settings(some, max_examples=5)
    @given(expressions(most=3))
    def check(drawn: Expression) -> None:
        try:
            found = symgrad.explain(drawn.text, seed=weights_for(drawn), **drawn.inputs)
        except SymgradError:
            return
        failed = [(n, c) for n, g in found.gradients.items() for c in g.checks if c.passed is False]
        mixed = "np." in drawn.text and "numpy.ndarray" in found.refused  # torch is handed what NumPy made
        assert found.passed or (mixed and not failed), (drawn, failed)

    check()


def stands_still(drawn: Expression) -> bool:
    """Whether no input moves the output, as far as torch says."""
    try:
        _, expected = torch_side.text_gradients(drawn.torch_text, drawn.inputs, weights_for(drawn))
    except RuntimeError:
        return True
    return not any(np.abs(np.nan_to_num(g)).max(initial=0) > 1e-6 for g in expected.values())


SOME = [pytest.param(n, False, id=n) for n in TABLE if seed_of(n) % 26 == 0]
ENDS = [pytest.param(n, True, id=f"{n}-all", marks=pytest.mark.slow) for n in TABLE]


@pytest.mark.parametrize(("name", "thorough"), SOME + ENDS)
def test_every_operation_ends_an_expression_that_agrees_with_torch(name: str, thorough: bool) -> None:
    """One that symgrad takes, among the first few that torch takes."""
    drawn = [found for number in range(TRIES) if (found := ending_in(TABLE[name], number)) is not None]
    drawn.sort(key=stands_still)  # the cosine of x and x shows little
    taken = next((one for one in drawn if agrees_with_torch(one, thorough)), None)
    assert taken is not None, drawn
    steps = read_program(taken.text, shapes={n: a.shape for n, a in taken.inputs.items()}).program.steps
    assert name in [step.op for step in steps]


@pytest.mark.slow
def test_expressions_cover_lengths_ranks_sizes_reuse_broadcasting_and_both_sides_of_kinks() -> None:
    steps, ranks, sizes, traits = set[int](), set[int](), set[int](), set[str]()
    for number in range(300):
        drawn = grown(number, exact=number % 5 == 0).whole()
        try:
            program = read_program(drawn.text, shapes={n: a.shape for n, a in drawn.inputs.items()}).program
        except SymgradError:
            continue
        shapes = [program.numbers(tensor.shape) for tensor in program.tensors()]
        used = [name for step in program.steps for name in step.tensors]
        inputs = {tensor.name for tensor in program.inputs}
        steps.add(len(program.steps))
        ranks |= {len(shape) for shape in shapes}
        sizes |= {size for shape in shapes for size in shape}
        traits |= {"an input twice" for name in inputs if used.count(name) > 1}
        traits |= {"a result twice" for step in program.steps if used.count(step.result.name) > 1}
        traits |= {"broadcasting" for step in program.steps if step.op == "expand"}
        values = np.concatenate([np.ravel(a) for a in drawn.inputs.values()] or [np.zeros(0)])
        traits |= {f"{name} {edge}" for edge in (0, 1, 3, 6) for name, there in (
            ("below -", (values < -edge).any()), ("above", (values > edge).any())) if there}  # fmt: skip
        traits |= {"at 0" for value in values if value == 0}
    assert set(range(1, LONGEST + 1)) <= steps
    assert {0, 1, 2, 3, 4} <= ranks
    assert {0, 1, 2, 3, 4} <= sizes
    sides = {f"{name} {edge}" for edge in (0, 1, 3, 6) for name in ("below -", "above")}
    assert traits == {"an input twice", "a result twice", "broadcasting", "at 0", *sides}


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
    ("corrcoef(a)", {"a": (0, 0)}),
    ("relu(torch.diag(x).reshape(-1))", {"x": (3,)}),
    ("trace(x)", {"x": (1, 0)}),
    ("diff(diff(x))", {"x": (1,)}),
    ("diff(x, 3)", {"x": (2, 1)}),
    ("ceil(F.glu(d) + 0.3)", {"d": (2, 4)}),
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
    ("F.batch_norm(a, None, None, training=True).arctan2(x ** 2 + 0.5)", {"a": (2, 2, 3), "x": (2, 3)}),
    ("F.batch_norm(b, None, None, diagonal(y, 1), training=True)", {"b": (2, 2), "y": (2, 3)}),
    ("F.scaled_dot_product_attention(y, y, y, is_causal=True)", {"y": (0, 1)}),
    ("F.scaled_dot_product_attention(x, y, a)", {"x": (2, 3), "y": (0, 3), "a": (0, 2)}),
    ("cummax(x, 1).values", {"x": (0, 0)}),
    ("cummin(x, 1).values", {"x": (2, 0)}),
    ("F.avg_pool1d(x, 3, stride=2, padding=1)", {"x": (0, 1, 3)}),
    ("F.max_pool2d(x, 2)", {"x": (0, 1, 2, 4)}),
    ("kron(narrow(b, 0, 1, 2), b)[-1]", {"b": (3,)}),
    ("kron(x, y)[-1, 1]", {"x": (2, 2), "y": (1, 3)}),
    ("F.instance_norm(x)", {"x": (0, 0, 0)}),
    ("F.batch_norm(x, None, None, training=True)", {"x": (2, 0)}),
    ("F.rms_norm(x, (3,))", {"x": (0, 3)}),
    ("layer_norm(F.pairwise_distance(b, b))", {"b": (2, 3)}),
    ("fmax(F.softplus(addr(y, a, b)), x).repeat(2, 1, 2)", {"x": (1, 1), "y": (2, 3), "a": (2,), "b": (3,)}),
    ("atan(norm(torch.logsumexp(F.unfold(a, (2, 3), padding=1, stride=2), dim=-2), 1))", {"a": (2, 4, 5)}),
    ("torch.linalg.matrix_norm(y, 1)", {"y": (3, 0)}),
    (
        "solve(g @ g.mT + 2 * diag_embed(ones_like(diagonal(g, dim1=-2, dim2=-1))), y) ** 2",
        {"g": (2, 2, 2), "y": (2, 2)},
    ),
    ("torch.linalg.matrix_norm(y, -1)", {"y": (0, 3)}),
    ("F.pdist(x)", {"x": (0, 3)}),
    ("var(cat([x, x, y]), dim=0, keepdim=True)", {"x": (3,), "y": (1,)}),
    ("F.glu(x, 0)", {"x": (4, 2)}),
    ("F.hinge_embedding_loss(outer(d, d), y)", {"d": (2,), "y": (2, 2)}),
    ("torch.linalg.matrix_norm(a, 1).minimum(y).sum()", {"a": (2, 3), "y": (3,)}),
    ("F.avg_pool2d(a, 2, ceil_mode=True)", {"a": (1, 2, 1, 1)}),
    ("F.avg_pool2d(c, 3, stride=2, padding=1, count_include_pad=False)", {"c": (1, 2, 1, 1)}),
    (
        (
            "c = F.conv_transpose3d(y, a, b, stride=2, padding=1, output_padding=1); "
            "s = (where(b > c, b, c) ** 2) ** b; s = amax(s, dim=(0, -1), keepdim=True).squeeze(); eigvalsh(s + s.mT)"
        ),
        {"y": (1, 1, 2, 2, 2), "a": (1, 1, 2, 2, 1), "b": (1,)},
    ),
    (
        "F.scaled_dot_product_attention(view_as_real(view_as_complex(b) @ view_as_complex(c)).sin(), c, c)",
        {"b": (2, 3, 2), "c": (3, 2)},
    ),
]


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("text", "shapes"), FOUND, ids=[text for text, _ in FOUND])
def test_what_random_expressions_found(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    """A number, a closed form that torch reads, or arrays that torch takes was missing in each of these."""
    generator = np.random.default_rng(0)
    inputs = {name: generator.uniform(0.2, 1.8, size=shape) for name, shape in shapes.items()}
    shape = tuple(torch_side.evaluate(text, {n: torch_side.tensor(a) for n, a in inputs.items()}).shape)
    assert agrees_with_torch(Expression(text, text, inputs, shape))


AT_ZERO = [
    "ones_like(hypot(x, x))", "(hypot(x, x) > 1) * x", "atan2(x, x)", "atan2(x, a) * x", "atan2(sin(x), a * 0)",
    *(f"s = {masked}; hypot(s, s)" for masked in (
        "F.hardshrink(x)", "F.softshrink(x)", "tril(x, -3)", "where(x > -1, 0, x)", "where(x < -1, x, 0)",
        "masked_fill(x, x == 0, 0.0)", "maximum(x - 1, zeros_like(x))", "minimum(x + 1, zeros_like(x))",
        "F.threshold(x, 1.0, 0.0)", "relu(x - 1)",
    )),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", AT_ZERO)
def test_what_random_expressions_found_where_something_has_no_derivative(text: str) -> None:
    """hypot has none at the origin; a mask that led there excludes it, and a comparison lets nothing through."""
    inputs = {name: np.zeros((2, 2)) for name in "xa" if mentions(text, name)}
    drawn = Expression(text, text, inputs, (2, 2))
    _, expected = torch_side.text_gradients(text, inputs, weights_for(drawn))
    assert all(np.isfinite(gradient).all() for gradient in expected.values())
    assert agrees_with_torch(drawn)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "text",
    [
        "s = torch.linalg.cross(a, a) @ y; hypot(s, s)",
        "s = torch.linalg.cross(a, a); F.normalize(s)",
        "s = torch.linalg.cross(a, a) @ y; ceil(s)",
    ],
)
def test_what_torch_rounds_is_no_number_to_agree_with(text: str) -> None:
    """a × a is 0, to torch 1e-17; whoever divides by its length gets what rounding left."""
    generator = np.random.default_rng(0)
    inputs = {"a": generator.normal(size=(4, 3)), "y": generator.normal(size=3)}
    zero = "torch.linalg.cross(a, a)"
    part = Expression(zero, zero, {"a": inputs["a"]}, (4, 3), torch_steps=zero)
    if the_very_same(part):
        pytest.skip("torch computes a × a without rounding on this machine")
    read = {name: array for name, array in inputs.items() if mentions(text, name)}
    shape = symgrad.explain(text, check=False, **read).output.shape
    assert rests_on_rounding(Expression(text, text, read, shape, pieces=(part,), torch_steps=text))
    assert not rests_on_rounding(part)


def test_the_spread_of_equal_numbers_is_no_number_to_agree_with() -> None:
    """The entries are the same to the last bit, their spread is 0; what is left of it depends on how a mean is rounded."""
    inputs = {"x": np.ones((3, 2)), "y": np.asarray(np.tan(np.sin(-1.0)))}
    alike = "y * ones_like(x)"
    part = Expression(alike, alike, inputs, (3, 2), torch_steps=alike)
    whole = Expression(f"std({alike})", f"std({alike})", inputs, pieces=(part,), torch_steps=f"s1 = {alike}; std(s1)")
    assert the_very_same(part)
    assert rounds_a_zero(whole) == rests_on_rounding(whole)
    assert not rests_on_rounding(part)


def test_a_zero_with_a_minus_is_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """copysign and atan2 go by the sign of a 0, which nobody else computes alike."""
    drawn = Expression("x", "x", {"x": np.zeros(1)}, (1,), torch_steps="x")
    assert the_very_same(drawn)
    monkeypatch.setitem(globals(), "outputs", lambda drawn: (np.zeros(1), -np.zeros(1)))
    assert not the_very_same(drawn)


def test_what_torch_throws_away_is_no_number_to_agree_with() -> None:
    """The imaginary part of a transform's entry 0 is 0: torch leaves out what hypot has not got there."""
    text = "view_as_real(torch.fft.rfftn(y, (2, 3), (1, 0), 'ortho'))"
    steps = f"s = {text}; hypot(s, s)"
    inputs = {"y": np.arange(4.0).reshape(2, 2) + 1}
    drawn = Expression(steps, steps, inputs, (2, 2, 2), torch_steps=steps)
    assert agrees_with_torch(drawn) is None
    assert not undefined_on_the_way(Expression(text, text, inputs, (2, 2, 2), torch_steps=text))


def test_what_random_expressions_found_among_whole_numbers() -> None:
    """The mean over an axis whose size is computed is divided by that size, exactly."""
    x = np.arange(12).reshape(1, 2, 6)
    text = "mean(F.max_pool1d(x, 2), dim=-1, keepdim=True)"
    assert agrees_with_torch(Expression(text, text, {"x": x}, (1, 2, 1)))


EMPTY = {"x": np.zeros((2, 0)), "n": np.zeros((2, 0), dtype=int)}
STATISTICS = {"y": np.array([[1.0, 2], [3, 5], [4, 4]]), "x": np.arange(6.0).reshape(2, 3), "a": np.array([1.5, 0.5])}


@pytest.mark.parametrize(
    ("text", "torch_text", "inputs"),
    [
        (
            "chunk((y * F.one_hot(n, 4)).sum(1), 2, 1)[0]",
            "chunk((y * F.one_hot(n.long(), 4)).sum(1), 2, 1)[0]",
            {"y": np.array([0.5]), "n": np.array([[0, 3, 1], [2, 1, 0]])},
        ),
        (
            "torch.diag(F.embedding(n, x))",
            "torch.diag(F.embedding(n.long(), x))",
            {"x": np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]), "n": np.array([0, 2, 1, 1])},
        ),
        ("take(x, n)", "take(x, n.long())", EMPTY),
        ("take_along_dim(x, n, 1)", "take_along_dim(x, n.long(), 1)", EMPTY),
        ("take_along_dim(x, n)", "take_along_dim(x, n.long())", EMPTY),
        (
            "F.batch_norm(y, unbind(x, 1)[0], a ** 2, a, a)",
            "F.batch_norm(y, unbind(x, 1)[0].detach(), (a ** 2).detach(), a, a)",
            STATISTICS,
        ),
    ],
)
def test_what_random_expressions_found_with_operands_that_are_only_read(
    text: str, torch_text: str, inputs: dict[str, np.ndarray]
) -> None:
    """No number, or another one than torch: its backward reads statistics that are a column as if they were a row."""
    shape = tuple(torch_side.evaluate(torch_text, {n: torch_side.tensor(a) for n, a in inputs.items()}).shape)
    assert agrees_with_torch(Expression(text, torch_text, inputs, shape, positions=frozenset("n")))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("gather(x, 1, n)", {"x": np.ones((3, 1)), "n": np.ones((3, 3), dtype=int)}),
        ("take_along_dim(x, n, 1)", {"x": np.ones((3, 1)), "n": np.ones((3, 3), dtype=int)}),
        ("index_select(x, 0, n)", {"x": np.ones((3, 1)), "n": np.array([-1])}),
        ("F.embedding(n, x)", {"x": np.ones((3, 2)), "n": np.array([3])}),
        ("F.embedding(n, x)", {"x": np.ones((3, 2)), "n": np.array([-1])}),
        ("F.nll_loss(x, n)", {"x": np.ones((2, 3)), "n": np.array([0, -1])}),
        ("F.cross_entropy(x, n)", {"x": np.ones((2, 3)), "n": np.array([0, -1])}),
        ("F.cross_entropy(x, n)", {"x": np.ones((2, 3)), "n": np.array([0, 3])}),
        ("dist(x, x, 3)", {"x": np.ones(1)}),
    ],
)
def test_what_random_expressions_found_is_refused_with_a_reason(text: str, values: dict[str, np.ndarray]) -> None:
    """Each of these was another exception, or a number that torch does not give."""
    with pytest.raises(SymgradError) as caught:
        symgrad.explain(text, seed="random", **values)
    assert caught.value.problem
