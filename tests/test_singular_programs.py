"""Programs nobody thought of, at points where nothing is finite: captured ones pull back as torch does, texts never
accuse torch of a number that nobody has.

Values are 0, −0, ±1, 2, ±∞, NaN, huge and tiny ones; integers and truth values stand among them. The same programs are
drawn in every run; ``pytest -m night tests/test_singular_programs.py`` draws 20,000 of each kind.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

import symgrad
from symgrad.errors import SymgradError
from symgrad.numeric import numeric_pushforward
from symgrad.oracles import numerical
from symgrad.oracles.comparisons import CheckVerdict
from tests.compare import TOLERANCE, assert_same

VALUES = (0.0, -0.0, 1.0, -1.0, 2.0, float("inf"), float("-inf"), float("nan"), 1e300, -1e300, 1e-300, 0.5)
FINITE = tuple(v for v in VALUES if np.isfinite(v))
"""A text takes no others."""
UNARY = (
    "relu({})", "abs({})", "sqrt({})", "log({})", "exp({})", "(1 / {})", "({} ** 2)", "({} * 0)", "(0 / {})", "(-{})",
    "tanh({})", "sigmoid({})", "clamp({}, -1, 1)", "sum({}, 0, keepdim=True)", "amax({}, 0, keepdim=True)",
    "amin({}, 0, keepdim=True)", "cumsum({}, 0)", "cumprod({}, 0)", "softmax({}, 0)", "log_softmax({}, 0)", "({} ** 0.5)",
    "({} ** -1)", "({} ** 3)", "F.hardtanh({})", "F.softplus({})", "F.elu({})", "F.leaky_relu({})", "{}[0:1]", "sin({})",
    "logsumexp({}, 0, keepdim=True)", "var({}, 0, keepdim=True)", "mean({}, 0, keepdim=True)", "sign({})", "floor({})",
    "prod({}, 0, keepdim=True)", "rsqrt({})", "log1p({})", "asin({})", "F.gelu({})", "F.silu({})", "norm({})",
)  # fmt: skip
BINARY = (
    "({} + {})", "({} - {})", "({} * {})", "({} / {})", "({} ** {})", "maximum({}, {})", "minimum({}, {})", "fmax({}, {})",
    "fmin({}, {})", "where({} > 0, {}, 1)", "where({} > 0, 1, {})", "atan2({}, {})", "hypot({}, {})", "xlogy({}, {})",
    "({} * ({} > 0))", "dot({}, {})", "logaddexp({}, {})",
)  # fmt: skip
SCOPE: dict[str, Any] = {
    **{name: getattr(torch, name) for name in (
        "relu", "abs", "sqrt", "log", "exp", "tanh", "sigmoid", "clamp", "sum", "amax", "amin", "cumsum", "cumprod",
        "softmax", "log_softmax", "sin", "logsumexp", "var", "mean", "sign", "floor", "prod", "rsqrt", "log1p", "asin",
        "maximum", "minimum", "fmax", "fmin", "where", "atan2", "hypot", "xlogy", "logaddexp", "norm",
    )},
    "F": F, "dot": lambda a, b: (a * b).sum().reshape(1),
}  # fmt: skip
SIZE, PAGES = 3, 4
"""Entries of each input, and how many programs there are for one whose page is written at night: that takes as long as the rest."""
FAR, SHAKES = (1e300, -1e300, 1e-300), 4
"""Numbers whose last digit may decide, and how often they are moved by it."""


@dataclass(frozen=True)
class Drawn:
    """A text over x and y (numbers), n (integers) and m (0 and 1), and their values."""

    number: int
    text: str
    values: dict[str, np.ndarray]

    def run(self, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        """The text as the Python it is."""
        result: torch.Tensor = eval(self.text, {}, {**SCOPE, **tensors})  # noqa: S307 -- a text of this test's own
        return result

    def __str__(self) -> str:
        return f"{self.number}: {self.text} at { {n: v.tolist() for n, v in self.values.items()} }"


def drawn(number: int, depth: int = 3, among: tuple[float, ...] = VALUES) -> Drawn:
    """The text of a number, at some values."""
    generator = np.random.default_rng(number)

    def text(left: int) -> str:
        if left == 0:
            return str(generator.choice(["x", "x", "x", "y", "n", "m"]))
        if generator.random() < 0.6:
            return str(generator.choice(UNARY)).format(text(left - 1))
        other = text(int(generator.integers(left)))
        return str(generator.choice(BINARY)).format(text(left - 1), other)

    values = {
        "x": generator.choice(among, SIZE), "y": generator.choice(among, SIZE),
        "n": generator.integers(-1, 3, SIZE), "m": generator.integers(0, 2, SIZE),
    }  # fmt: skip
    whole = text(depth)
    return Drawn(number, whole, {n: v for n, v in values.items() if re.search(rf"\b{n}\b", whole)})


def tensors_of(values: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Leaves, and integers and truth values as such."""
    found = {n: torch.tensor(v, requires_grad=n in "xy") for n, v in values.items()}
    return {n: v.bool() if n == "m" else v for n, v in found.items()}


class Singles(TorchFunctionMode):
    """Whether anything on the way is in single precision, as tanh of an integer is."""

    met = False

    def __torch_function__(self, function: Any, types: Any, given: Any = (), spoken: Any = None) -> Any:
        result = function(*given, **(spoken or {}))
        self.met |= isinstance(result, torch.Tensor) and result.dtype == torch.float32
        return result


def tolerance_of(program: Drawn) -> float:
    """How closely the answers have to agree: as the coarsest type on the way has it."""
    with Singles() as singles:
        program.run(tensors_of(program.values))
    return 1e-6 if singles.met else TOLERANCE


def pulled_by_torch(program: Drawn, values: dict[str, np.ndarray], weights: np.ndarray | None = None) -> Any:
    """torch's gradients by name, and the weights of the output, drawn unless given."""
    leaves = tensors_of(values)
    out = program.run(leaves)
    if weights is None:
        weights = np.random.default_rng(program.number).integers(0, 3, tuple(out.shape)).astype(float)
    out.backward(torch.tensor(weights, dtype=out.dtype))
    found = {n: np.zeros(SIZE) if t.grad is None else t.grad.numpy() for n, t in leaves.items()}
    return found, weights


def rests_on_rounding(program: Drawn, weights: np.ndarray) -> dict[str, np.ndarray]:
    """How far torch's own gradients move when the huge and the tiny numbers move by their last digit; ∞ where they
    are finite once and not another time.

    The others stay: 0, ±1 and 2 lie at kinks, where what torch chooses is the very question.
    """
    found: dict[str, list[np.ndarray]] = {}
    for number in range(SHAKES):
        lots = np.random.default_rng(number)
        moves = {v: 1 + np.finfo(float).eps * lots.choice((-1, 1)) for v in FAR}
        near = {n: v if n in "nm" else np.array([e * moves.get(e, 1.0) for e in v]) for n, v in program.values.items()}
        for name, gradient in pulled_by_torch(program, near, weights)[0].items():
            found.setdefault(name, []).append(gradient)
    with np.errstate(all="ignore"):
        spread = {n: np.ptp(np.asarray(g), axis=0) for n, g in found.items()}
    finite = {n: np.isfinite(np.asarray(g)) for n, g in found.items()}
    return {n: np.where(finite[n].all(axis=0), spread[n], np.where(finite[n].any(axis=0), np.inf, 0.0)) for n in spread}


def terms_at(program: Drawn, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Σ |the gradient by one use of it|, for each name: a sum of these terms is known to that times the last digit."""
    found: dict[str, np.ndarray] = {}
    for name in [n for n in program.values if n in "xy"]:
        pieces = re.split(rf"\b{name}\b", program.text)
        uses = {f"{name}{place}": program.values[name] for place in range(len(pieces) - 1)}
        text = "".join(p + use for p, use in zip(pieces, [*uses, ""], strict=True))
        held = {n: torch.tensor(v, requires_grad=True) for n, v in uses.items()}
        out = Drawn(program.number, text, {}).run({**tensors_of(program.values), **held})
        out.backward(torch.tensor(weights, dtype=out.dtype))
        found[name] = sum((np.abs(t.grad.numpy()) for t in held.values() if t.grad is not None), np.zeros(SIZE))
    return found


def captured_agrees(program: Drawn) -> str:
    """What became of one program: refused, no gradient, the same, the same with torch's own choice named, or the same
    but for what rounding makes of it.
    """
    try:
        expected, weights = pulled_by_torch(program, program.values)
    except (RuntimeError, TypeError, IndexError):
        return "torch refuses"
    held = {n: t.detach() for n, t in tensors_of(program.values).items()}
    try:
        found = symgrad.capture(lambda **given: program.run(given), **held)
        got = found.pullback(weights)
    except SymgradError:
        return "refused"
    shaken, tolerance = False, tolerance_of(program)
    for name, value in got.items():
        try:
            assert_same(expected[name], value, what=f"{program} by {name}", tolerance=tolerance)
        except AssertionError:
            shaken = True
            terms = np.nan_to_num(terms_at(program, weights).get(name, np.zeros(SIZE)), posinf=0.0)
            near = 16 * np.maximum(rests_on_rounding(program, weights)[name], np.finfo(float).eps * terms)
            with np.errstate(all="ignore"):
                value = np.where(np.abs(value - expected[name]) <= near, expected[name], value)
            assert_same(expected[name], value, what=f"{program} by {name}", tolerance=tolerance)
    if shaken:
        return "rounding"
    return "named" if found.conventions else "black box" if found.black_boxes else "same"


def text_is_fair(program: Drawn, page: bool = True) -> str:
    """What the page of one text comes to: never a disagreement, never another exception than a refusal."""
    try:
        found = symgrad.explain(program.text.replace("dot(", "sum("), **program.values)
    except SymgradError:
        return "refused"
    failed = [
        (n, c.oracle, c.expected, c.got, c.worst)
        for n, g in found.gradients.items()
        for c in g.checks
        if c.passed is False
    ]
    assert not failed, f"{program}: {failed}"
    if page:
        found.to_text()
    verdicts = {c.verdict for g in found.gradients.values() for c in g.checks}
    return "undefined" if CheckVerdict.UNDEFINED in verdicts else "agrees"


def text_is_fair_at_night(program: Drawn) -> str:
    """`text_is_fair`, few of the pages written."""
    return text_is_fair(program, program.number % PAGES == 0)


def higher_is_fair(program: Drawn) -> str:
    """Second derivatives of one text, its Jacobian and its Hu: never a disagreement, never another exception than a
    refusal; Hu is that of the whole H.
    """
    text, name = program.text.replace("dot(", "sum("), next((n for n in "xy" if n in program.values), None)
    if name is None:
        return "no input that moves"
    try:
        out = symgrad.explain(text, check=False, **program.values).output
        weights = np.ones(np.shape(out), dtype=int)
        symgrad.jacobian(text, name, **program.values).dense()
        found = symgrad.explain(text, seed=weights, wrt=name, order=2, **program.values).hessian(name, name)
        moved = np.asarray(symgrad.hvp(text, name, np.ones(SIZE), seed=weights, **program.values), dtype=float)
    except SymgradError:
        return "refused"
    failed = [(c.oracle, c.expected, c.got, c.worst) for c in found.checks if c.passed is False]
    assert not failed, f"{program}: {failed}"
    whole = np.asarray(found.value, dtype=float).reshape(SIZE, SIZE)
    finite = np.isfinite(whole).all(axis=1) & np.isfinite(moved)
    with np.errstate(all="ignore"):
        scale = np.maximum(1.0, np.abs(whole).max(axis=1))
        assert_same((whole.sum(axis=1) / scale)[finite], (moved / scale)[finite], what=f"Hu of {program}")
    return "undefined" if any(c.verdict is CheckVerdict.UNDEFINED for c in found.checks) else "agrees"


def ran(check: Callable[[Drawn], str], numbers: range, depth: int, among: tuple[float, ...] = VALUES) -> Counter[str]:
    """What became of many programs; every failure is shown at once."""
    found: Counter[str] = Counter()
    wrong: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's words about one number, and NumPy's about overflow
        for number in numbers:
            try:
                found[check(drawn(number, depth, among))] += 1
            except Exception as error:
                wrong.append(f"{type(error).__name__}: {error}")
    assert not wrong, f"{len(wrong)} of {len(numbers)}:\n" + "\n".join(wrong[:20])
    return found


@pytest.mark.parametrize("numbers", [range(50), pytest.param(range(50, 150), marks=pytest.mark.slow)], ids=str)
def test_captured_programs(numbers: range) -> None:
    found = ran(captured_agrees, numbers, depth=3)
    assert found["same"] > len(numbers) // 5
    assert found["named"] > len(numbers) // 15
    assert found["refused"] == 0


def test_doubles_beside_a_larger_entry_are_not_rounding() -> None:
    """1e-300 beside 1e300 decides about −∞ and no number."""
    ran(captured_agrees, range(223, 224), depth=4)


def test_terms_that_cancel_are_known_to_their_last_digit() -> None:
    """Two uses of x leave ±1e300 there: 3e284 is as good as 0."""
    assert captured_agrees(drawn(12596, depth=4)) == "rounding"


UNTAMED = {
    "log(((x / x) - logaddexp(x, n)))": {"x": [1e-300, -1e300, 0.5], "n": [0, 0, 1]},
    "(atan2(mean(x, 0, keepdim=True), (x / x)) * cumsum(x, 0))": {"x": [-1.0, 1e-300, 0.5]},
    "sin(x / x + x[0]) * y": {"x": [0.3, 1e-300, -1e-300], "y": [1.0, 2.0, 3.0]},
    "exp(x * x / x) * x.sum()": {"x": [1e300, 1e-300, 0.5]},
    "sqrt(F.hardtanh(clamp(x, -1, 1)))": {"x": [1.0, -1e300, 1.0]},  # √−1 is no real number
    "log(clamp(x, -2, 1)) + x * 1e200": {"x": [1.0, -1e300, 0.5]},
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("text", UNTAMED)
def test_no_oracle_accuses_where_digits_are_lost_on_the_way(text: str) -> None:
    """x / x at 1e-300: two terms of 1e300 cancel, and each way of adding them up leaves other digits."""
    assert text_is_fair(Drawn(0, text, {n: np.array(v) for n, v in UNTAMED[text].items()})) in ("agrees", "undefined")


def test_where_digits_are_not_lost_every_oracle_may_accuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same texts at tame numbers, with a gradient that is a little off."""

    def slanted(*given: Any) -> np.ndarray:
        return 1.001 * numeric_pushforward(*given)

    monkeypatch.setattr(numerical, "numeric_pushforward", slanted)
    found = symgrad.explain("sin(x / x + x[0]) * y", x=[0.3, 2.0, -1.0], y=[1.0, 2.0, 3.0])
    assert {c.oracle for g in found.gradients.values() for c in g.checks if c.passed is False} == {numerical.ADJOINT}


@pytest.mark.parametrize("many", [9, pytest.param(25, marks=pytest.mark.slow)])
def test_texts(many: int) -> None:
    found = ran(text_is_fair, range(many), depth=2, among=FINITE)
    assert found["undefined"] > many // 8
    assert found["agrees"] > many // 16


@pytest.mark.parametrize("many", [5, pytest.param(12, marks=pytest.mark.slow)])
def test_second_derivatives(many: int) -> None:
    found = ran(higher_is_fair, range(many), depth=2, among=FINITE)
    assert found["undefined"] > many // 12
    assert found["agrees"] > 0


LESS = (2222, 2574, 3805, 3995, 4081, 4187, 4348, 5081, 5299, 5357, 5981, 6679, 6889, 7174, 7605, 7747)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "number", [1219, 1934, 2435, 3126, 3424, 4458, *(pytest.param(n, marks=pytest.mark.slow) for n in LESS)]
)
def test_second_derivatives_that_nights_found(number: int) -> None:
    """e^(e^(10³⁰⁰)) has no digits to ask for; torch's Hessian of a power loses a part where the exponent is 0; H·u keeps
    its digits as H does; two sums over one letter are two; H jumps on a kink, and what jumps is no quotient's limit.
    """
    ran(higher_is_fair, range(number, number + 1), depth=2, among=FINITE)


def test_a_tower_of_powers_is_refused_by_its_size_and_not_by_the_depth_of_the_stack() -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)  # as some libraries do: mpmath works out e to 10³⁰⁰ digits as deep as it may
    try:
        ran(higher_is_fair, range(1219, 1220), depth=2, among=FINITE)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.night
@pytest.mark.parametrize("part", range(80))
def test_many_second_derivatives(part: int) -> None:
    ran(higher_is_fair, range(250 * part, 250 * (part + 1)), depth=2, among=FINITE)


@pytest.mark.night
@pytest.mark.parametrize("part", range(20))
def test_many_captured_programs(part: int) -> None:
    ran(captured_agrees, range(1000 * part, 1000 * (part + 1)), depth=4)


@pytest.mark.night
@pytest.mark.parametrize("part", range(80))
def test_many_texts(part: int) -> None:
    ran(text_is_fair_at_night, range(250 * part, 250 * (part + 1)), depth=3, among=FINITE)
