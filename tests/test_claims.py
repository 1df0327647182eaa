"""Sentences about structure are tested on the numbers before they are said: each one, on torch's dense J.

Here those of random expressions, of the commands' defaults and of special values; `test_every_op` has the whole table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

import symgrad
from symgrad import SymgradError, capture, derive
from symgrad.closed_form import SENTENCES
from symgrad.language import read_program
from symgrad.numeric import evaluate, forward
from tests import torch_side
from tests.compare import assert_same
from tests.expressions import Expression, expressions
from tests.sentences import Numbers, assert_sentence, assert_true, with_words

WORDS = [
    ("x[1:] ** 2", {"x": (4,)}, "one a row", ""),
    ("x.sum(0)", {"x": (2, 3)}, "sum", ""),
    ("x.mean(1)", {"x": (2, 3)}, "sum", ""),
    ("einsum('ii->i', x)", {"x": (3, 3)}, "selection", ""),
    ("F.pad(x, (1, 2))", {"x": (3,)}, "partial", ""),
    ("x * y", {"x": (2, 3), "y": (2, 3)}, "diagonal", "diag(y)"),
    ("x * y", {"x": (2, 3), "y": (3,)}, "diagonal", ""),
    ("x[:, None] * y", {"x": (4,), "y": (6,)}, "block-diagonal", ""),
    ("diag(x)", {"x": (4, 6)}, "selection", ""),
    ("2 * x", {"x": (3,)}, "diagonal", "2·I"),
    ("x / 3", {"x": (3,)}, "diagonal", "(1/3)·I"),
    ("-x", {"x": (3,)}, "diagonal", "-I"),
    ("-relu(x)", {"x": (3,)}, "diagonal", "diag(-1 * (x > 0))"),  # torch has no -mask
    ("-relu(x) * a", {"x": (3,), "a": (3,)}, "diagonal", "diag(-a * (x > 0))"),
    ("x.reshape(3, 2)", {"x": (2, 3)}, "identity", "I"),
    ("x.T", {"x": (2, 3)}, "permutation", ""),
    ("x.flip(0)", {"x": (3,)}, "permutation", ""),
    ("x.expand(2, 3)", {"x": (3,)}, "expansion", ""),
    ("x.expand(1, 3)", {"x": (3,)}, "identity", "I"),
    ("sort(x).values", {"x": (4,)}, "permutation", ""),
    ("max(x, dim=1).values", {"x": (2, 3)}, "selection", ""),
    ("softmax(x)", {"x": (4,)}, "diagonal plus dense", ""),
    ("softmax(x)", {"x": (1, 4)}, "diagonal plus dense", ""),
    ("x @ x.T", {"x": (2, 3)}, "", ""),
    ("x @ a", {"x": (2, 3), "a": (3, 4)}, "kronecker", "I(m) ⊗ aᵀ"),
    ("x @ a", {"x": (1, 3), "a": (3, 4)}, "dense", "aᵀ"),
    ("torch.mv(a, x)", {"x": (3,), "a": (4, 3)}, "dense", "a"),
    ("x.cumsum(0)", {"x": (4,)}, "sum", ""),
    ("x[1:] - x[:-1]", {"x": (4,)}, "sparse", ""),
    ("x - x", {"x": (3,)}, "zero", "0"),
    ("relu(x) * 0", {"x": (3,)}, "zero", "0"),
]


@pytest.mark.parametrize(("text", "shapes", "kind", "notation"), WORDS, ids=[f"{w[0]} {w[1]}" for w in WORDS])
def test_what_is_said(text: str, shapes: dict[str, tuple[int, ...]], kind: str, notation: str) -> None:
    """The strongest sentence that is so, and no stronger one; `derive` says the same of open sizes."""
    generator = np.random.default_rng(0)
    values = {name: generator.normal(size=shape) for name, shape in shapes.items()}
    found = symgrad.jacobian(text, "x", check=False, **values)
    assert (found.structure.kind, found.structure.notation) == (kind, notation)
    known = {n: torch_side.tensor(a) for n, a in values.items()}
    out = torch_side.evaluate(text, known)
    dense = torch.autograd.functional.jacobian(lambda x: torch_side.evaluate(text, {**known, "x": x}), known["x"])
    assert_true(found, dense.numpy(), {**known, "out": out}, text)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("part", range(6))
@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(drawn=expressions(most=3))
def test_what_is_said_of_random_expressions(part: int, drawn: Expression) -> None:
    """Each part draws its own."""
    said_of(drawn, drawn.inputs)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("part", range(2))
@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(drawn=expressions(most=3, exact=True))
def test_what_is_said_at_zeros_and_ones(part: int, drawn: Expression) -> None:
    """Equal entries and zeros make much true that is not so elsewhere; the inputs here are ones and zeros alone."""
    special = {n: a if n in drawn.positions else np.minimum(np.abs(a), 1) for n, a in drawn.inputs.items()}
    said_of(drawn, special)


def said_of(drawn: Expression, inputs: dict[str, np.ndarray]) -> None:
    """Each sentence about each Jacobian of an expression, where torch has numbers."""
    known = {n: torch.tensor(a) if n in drawn.positions else torch_side.tensor(a) for n, a in inputs.items()}
    try:
        out = torch_side.evaluate(drawn.torch_text, known)
        program = read_program(drawn.text, shapes={n: a.shape for n, a in inputs.items()}).program
        values = forward(program, inputs)
    except (SymgradError, RuntimeError, IndexError):
        return
    for name, array in inputs.items():
        if name in drawn.positions or not 0 < array.size * out.numel() < 2000:
            continue
        jacobian = with_words(program, values, name)
        if jacobian is None:
            continue
        try:
            dense = torch.autograd.functional.jacobian(
                lambda x, name=name: torch_side.evaluate(drawn.torch_text, {**known, name: x}), known[name]
            ).numpy()
        except RuntimeError:  # torch has no way back
            continue
        if np.isfinite(dense).all():
            rounded = np.where(np.abs(dense) < 1e-13, 0.0, dense)
            assert_true(jacobian, rounded, {**known, "out": out}, f"{drawn} by {name}")


def test_open_sizes() -> None:
    """`derive` says what was so at some sizes that are all different."""
    _, (by_x, by_a) = derive("x @ a", shapes={"x": ("m", "n"), "a": ("n", "k")})
    assert by_x.structure.says == "one block aᵀ per row of x, zeros elsewhere"
    assert by_a.structure.says == "every block is a multiple of an identity: columns do not mix"
    assert derive("x[1:] ** 2")[1][0].structure.kind == "one a row"


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("diff(x)", 5), ("x[1:] - 2 * x[:-1]", 4), ("x.flip(0) + x", 5), ("x.flip(0) * 2 + x", 3), ("x[:2] + x[-2:]", 3)],
)
def test_what_holds_at_small_sizes_alone_is_not_said_of_open_ones(text: str, sizes: int) -> None:
    """Of two entries each difference reads both, and turned round no entry of two meets itself."""
    (found,) = derive(text)[1]
    if not found.structure.says:
        return
    known = {"x": torch.rand(sizes, dtype=torch.float64)}
    dense = torch.autograd.functional.jacobian(lambda x: torch_side.evaluate(text, {"x": x}), known["x"]).numpy()
    assert_sentence(found.structure.says, Numbers("x", dense, dense.shape[:1], (sizes,), known, {}), text)
    assert found.structure.kind != "dense" or dense.all()


def test_captured_programs() -> None:
    """The same words for what ran."""
    program = capture(lambda x: x[1:] * x[1:], torch.randn(4, dtype=torch.float64))
    assert program.jacobian("x").structure.kind == "one a row"


COUNTS = [
    ("x @ a", {"x": [[1.0, 2.0]], "a": [[1.0, 0.0], [0.0, 1.0]]}, "2×2, all 4 entries can be nonzero"),
    ("relu(x)", {"x": [-1.0, -2.0, -3.0]}, "3×3, 3 of 9 entries can be nonzero"),
    ("max(x, dim=0).values", {"x": [[1.0], [3.0]]}, "1×2, 1 of 2 entries are not 0 here"),
    ("x * 0 * y", {"x": [1.0, 2.0], "y": [1.0, 2.0]}, None),
]


@pytest.mark.parametrize(("text", "values", "says"), COUNTS, ids=[c[0] for c in COUNTS])
def test_how_many_entries_can_be_nonzero(text: str, values: dict[str, Any], says: str | None) -> None:
    """Entries that are never seen to move are not said to; what the forward pass found is said of these numbers."""
    page = symgrad.explain(text, check=False, wrt="x", **values).to_text(width=200)
    assert says in page if says else "can be nonzero" not in page


ZEROS = [
    ("softmax(x) @ y", {"x": [0.1, 0.2, 0.3], "y": [1, 1, 1]}, None, "every entry of J is 0 at these numbers"),
    ("x - x", {"x": [1, 2]}, None, "every entry of J is 0 whatever the numbers"),
    ("relu(x)", {"x": [-1.0, -2.0]}, None, "x.grad is 0: every entry of J is 0 at these numbers"),
    ("2 * x", {"x": [1, 2]}, [0, 0], "x.grad is 0 because every weight in v is 0"),
    ("softmax(x)", {"x": [0.1, 0.2, 0.3]}, None, "add up to 1 whatever x is"),
    ("layer_norm(x)", {"x": [1.0, 2.0, 5.0]}, None, "x.grad is 0, up to rounding, although J is not"),
    ("cat([x, -2 * x])", {"x": [1, 2]}, [2, 2, 1, 1], "These weights cancel"),
    ("stack([x, x ** 2])", {"x": -0.5}, [1, 1], "cancel each other out here; where x has other entries they do not"),
    (
        "cat([x, -clamp(x, -5, 5)])",
        {"x": [1.0, 2.0]},
        None,
        "cancel each other out here; where x has other entries they",
    ),
    (
        "cat([x, -clamp(x, -100, 100)])",
        {"x": [1.0]},
        None,
        "cancel each other out here; where x has other entries they",
    ),
    ("x * 1e-14", {"x": [1.0, 2.0]}, None, ""),
    ("x * 1e-20 + x - x", {"x": [1.0, 2.0]}, None, ""),
    ("0.1 * x * 10 - x", {"x": [1.0, 2.0]}, None, "every entry of J is 0 whatever the numbers"),  # decimals as written
    ("sin(x)", {"x": [1.5707963267948966]}, None, ""),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("text", "values", "weights", "says"), ZEROS, ids=[f"{z[0]} {z[2]}" for z in ZEROS])
def test_why_a_gradient_is_zero(text: str, values: dict[str, Any], weights: Any, says: str) -> None:
    """J is 0, but for rounding; or the weights cancel, here or whatever the input is; a small number is not 0."""
    page = symgrad.explain(text, check=False, wrt="x", seed=weights, **values).to_text(width=400)
    told = [line for line in page.splitlines() if "x.grad is 0" in line]
    assert len(told) == bool(says), told
    assert says in "".join(told)
    assert ("weighted by v add up to 0" in "".join(told)) == (bool(says) and "every" not in says), told


@pytest.mark.parametrize(
    ("text", "values", "says"),
    [
        ("relu(x)", [-1.0, 2.0], "1 of 2 outputs can depend on x[0]:"),
        ("x ** 2", [3.0, 2.0], "1 of 2 outputs depends on x[0]:"),
        ("x[1:]", [3.0, 2.0], "None of the 1 outputs depends on x[0]."),
    ],
)
def test_outputs_that_move_do(text: str, values: list[float], says: str) -> None:
    """What has the slope 0 here can move; it does not."""
    page = symgrad.explain(text, check=False, x=values).to_text(entry=("x", (0,)))
    assert says.replace("x[0]", "x0") in page or says in page


@pytest.mark.parametrize("text", ["x @ x.T", "softmax(x) * x", "x[0] + x.sum(0) * x[1]"])
def test_the_shares_of_the_uses_add_up(text: str) -> None:
    """Each use has its share, and their sum is the gradient: in numbers, where it is said."""
    found = symgrad.explain(text, check=False, wrt="x", x=[[1.0, 2.0], [3.0, 5.0]], seed=None)
    gradient = found.gradients["x"]
    assert len(gradient.sweep.uses) > 1
    shares = [evaluate(e, gradient.values.arrays, gradient.values.sizes) for _, e in gradient.sweep.uses]
    assert_same(gradient.value, sum(np.asarray(s, dtype=float) for s in shares), what=text)
    assert f"x is used {len(shares)} times" in found.to_text()


GUARDS = [
    (
        "norm(A @ x - y) ** 2",
        {"A": (4, 3), "x": (3,), "y": (4,)},
        "Where the norm is 0, its gradient counts as 0",
    ),
    ("x.std()", {"x": (2, 3)}, "Where a term of this line divides by 0, that term counts as 0."),
    ("x.prod()", {"x": (3,)}, "Where a factor is 0 this line divides by 0"),
    ("F.normalize(x)", {"x": (2, 3)}, "This line is for norms above eps"),
    ("x / norm(x).clamp(min=1e-8)", {"x": (3,)}, "This line is for norms above eps"),
    ("x / x.sum()", {"x": (3,)}, ""),
    ("x.clamp(min=1e-8).log()", {"x": (3,)}, ""),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("text", "shapes", "says"), GUARDS, ids=[g[0] for g in GUARDS])
def test_a_guard_that_is_left_out_is_said_in_words(text: str, shapes: dict[str, Any], says: str) -> None:
    values = {name: 1.0 + np.arange(np.prod(shape)).reshape(shape) for name, shape in shapes.items()}
    told = " ".join(symgrad.explain(text, check=False, wrt="x", **values).to_text(width=400).split())
    assert says in told
    if not says:
        assert not any(sentence in told for sentence in SENTENCES.values())


@pytest.mark.slow
def test_a_length_below_the_floor_has_another_line() -> None:
    """The line is proven for the numbers at hand: below the floor the length counts as a constant, before and after."""
    codes = []
    for x in ([0.3, 0.4, 1.2], [1e-14, 2e-14, 0.0], [0.3, 0.4, 1.2]):
        found = symgrad.explain("F.normalize(x, dim=0)", x=x)
        assert found.passed
        codes.append((found.gradients["x"].closed_form, found.backward.gradients["x"].code))
    form = "(v - out * (v * out).sum(-1, keepdim=True)) / norm(x)"
    assert codes[0] == codes[2] == (form, form)
    assert codes[1][0] is None
    assert "(t1 >= 1e-12)" in str(codes[1][1])
