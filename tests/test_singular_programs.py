"""Programs nobody thought of, at points where nothing is finite: captured ones pull back as torch does, texts never
accuse torch of a number that nobody has.

Values are 0, −0, ±1, 2, ±∞, NaN, huge and tiny ones; integers and truth values stand among them. The same programs are
drawn in every run; ``pytest -m night tests/test_singular_programs.py`` draws 20,000.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import symgrad
from symgrad.errors import SymgradError
from symgrad.oracles.report import Verdict
from tests.compare import assert_same

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
SIZE = 3
ROUNDING = 1e-13


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


def least(values: dict[str, np.ndarray]) -> float:
    """The smallest size of a number that is not 0."""
    sizes = np.abs(np.concatenate([np.asarray(v, dtype=float) for v in values.values()]))
    return float(sizes[np.isfinite(sizes) & (sizes > 0)].min(initial=1.0))


def captured_agrees(program: Drawn) -> str:
    """What became of one program: refused, no gradient, the same, or the same with torch's own choice named."""
    leaves = tensors_of(program.values)
    try:
        out = program.run(leaves)
        weights = np.random.default_rng(program.number).integers(0, 3, tuple(out.shape)).astype(float)
        out.backward(torch.tensor(weights, dtype=out.dtype))
    except (RuntimeError, TypeError, IndexError):
        return "torch refuses"
    held = {n: t.detach() for n, t in leaves.items()}
    try:
        found = symgrad.capture(lambda **given: program.run(given), **held)
        got = found.pullback(weights)
    except SymgradError:
        return "refused"
    for name, value in got.items():
        expected = leaves[name].grad
        right = np.zeros(SIZE) if expected is None else expected.numpy()
        with np.errstate(all="ignore"):  # terms as large as 1/x that cancel leave their rounding
            value = np.where(np.abs(value - right) <= ROUNDING / least(program.values), right, value)
        assert_same(right, value, what=f"{program} by {name}", tolerance=1e-7)
    return "named" if found.conventions else "black box" if found.black_boxes else "same"


def text_is_fair(program: Drawn) -> str:
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
    found.to_text()
    verdicts = {c.verdict for g in found.gradients.values() for c in g.checks}
    return "undefined" if Verdict.UNDEFINED in verdicts else "agrees"


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


def test_captured_programs() -> None:
    found = ran(captured_agrees, range(150), depth=3)
    assert found["same"] > 30
    assert found["named"] > 10
    assert found["refused"] == 0


def test_texts() -> None:
    found = ran(text_is_fair, range(25), depth=2, among=FINITE)
    assert found["undefined"] > 3
    assert found["agrees"] > 1


@pytest.mark.night
@pytest.mark.parametrize("part", range(20))
def test_many_captured_programs(part: int) -> None:
    ran(captured_agrees, range(1000 * part, 1000 * (part + 1)), depth=4)


@pytest.mark.night
@pytest.mark.parametrize("part", range(10))
def test_many_texts(part: int) -> None:
    ran(text_is_fair, range(100 * part, 100 * (part + 1)), depth=3, among=FINITE)
