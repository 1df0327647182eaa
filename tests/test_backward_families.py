"""Families of right and of wrong backwards, made and not written: torch's own operations, and what is done to v.

No right one is accused, in any type, size, layout and with any seed; each wrong one is seen, and called what it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from symgrad.errors import InputError
from symgrad.testing import BackwardReport, check_backward
from symgrad.testing.report import BLIND
from symgrad.testing.trial_seeds import integer_seeds
from symgrad.tracing import capture
from tests.candidates import DOUBLE, function, randn, with_ctx

Function = Callable[..., Any]

OPERATIONS: dict[str, Function] = {
    "x.mean()": lambda x: x.mean(),
    "x.sum()": lambda x: x.sum(),
    "x.max()": lambda x: x.max(),
    "amax(x, 0)": lambda x: x.amax(0),
    "tanh(x)": torch.tanh,
    "exp(x)": torch.exp,
    "exp(8 * x)": lambda x: torch.exp(8 * x),
    "softmax(x, dim=0)": lambda x: x.softmax(0),
    "log_softmax(x, dim=0)": lambda x: x.log_softmax(0),
    "cumsum(x, 0)": lambda x: x.cumsum(0),
    "x.prod()": lambda x: x.prod(),
    "x.var()": lambda x: x.var(),
    "logsumexp(x, 0)": lambda x: x.logsumexp(0),
    "relu(x)": torch.relu,
    "gelu(x)": F.gelu,
    "x / 3": lambda x: x / 3,
    "x ** 3": lambda x: x**3,
    "clamp(x, -1, 1)": lambda x: x.clamp(-1, 1),
    "cumprod(x, 0)": lambda x: x.cumprod(0),
    "softplus(x)": F.softplus,
    "x * 20000": lambda x: x * 20000,
    "x / 20000": lambda x: x / 20000,
    "5 * x.mean()": lambda x: 5 * x.mean(),
    "x - x.mean()": lambda x: x - x.mean(),
    "(x * x).mean()": lambda x: (x * x).mean(),
    "log1p(exp(4 * x))": lambda x: torch.log1p(torch.exp(4 * x)),
    "normalize(x, dim=0)": lambda x: F.normalize(x, dim=0),
    "avg_pool1d(x[None], 3)": lambda x: F.avg_pool1d(x[None], 3),
    "avg_pool1d(x[None], 5)": lambda x: F.avg_pool1d(x[None], 5),
    "adaptive_avg_pool1d(x[None], 1)": lambda x: F.adaptive_avg_pool1d(x[None], 1),
    "max_pool1d(x[None], 2)": lambda x: F.max_pool1d(x[None], 2),
}
TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
SIZES = (0, 1, 3, 5, 7)
LAYOUTS: dict[str, Function] = {
    "contiguous": lambda x: x,
    "strided": lambda x: torch.stack([x, x], -1)[..., 0],
    "at an offset": lambda x: torch.cat([x.new_zeros(1), x])[1:],
    "with ties": torch.round,
}


def accused(text: str, seeds: range, every: int) -> list[str]:
    """The reports on one operation that find something, each with what it was made of."""
    found = []
    for dtype, size, name in [*product(TYPES, SIZES, LAYOUTS)][::every]:
        for number in seeds:
            x = LAYOUTS[name](randn(size, seed=number, dtype=dtype))
            try:
                OPERATIONS[text](x)
            except (RuntimeError, IndexError):  # of no entries, or of too few
                continue
            report = check_backward(OPERATIONS[text], text, x=x, seed=number)
            if not report.passed:
                found.append(f"{dtype} {size} {name} {number}: {report}")
    return found


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.one_in(8)
@pytest.mark.parametrize(("seeds", "every"), [(range(1), 7), pytest.param(range(40), 1, marks=pytest.mark.night)])
@pytest.mark.parametrize("text", OPERATIONS)
def test_torch_itself_is_not_accused(text: str, seeds: range, every: int) -> None:
    """At every size, type and layout, at night at all of them together: 0.4 is no number in float32."""
    assert not accused(text, seeds, every)


@pytest.mark.parametrize(
    ("fn", "text", "x"),
    [
        (torch.exp, "exp(x)", torch.tensor([11.0]).half()),
        (torch.exp, "exp(x)", torch.tensor([12.0, 1.0]).half()),
        (torch.exp, "exp(x)", torch.tensor([88.0])),
        (torch.reciprocal, "reciprocal(x)", torch.tensor([0.004]).half()),
        (lambda x: x.exp() / (1 + x.exp()), "exp(x) / (1 + exp(x))", torch.tensor([12.0]).half()),
    ],
)
def test_what_a_type_does_not_hold_is_not_the_candidates_fault(fn: Function, text: str, x: torch.Tensor) -> None:
    """Torch's own backward is run in the type of the check, and not in float64."""
    report = check_backward(fn, text, x=x)
    assert report.passed, report.to_text()
    wrong = check_backward(function(fn, lambda v, x: 3 * v * torch.tanh(x)), text, x=x)
    assert wrong.passed == ("there was no reference for its numbers" in wrong.headline)
    if not wrong.passed or len(x) == 2:
        return
    assert "is out of range on the way in float16" in wrong.to_text().replace("\n" + " " * 32, " ")


def test_an_infinite_gradient_where_the_type_holds_the_right_one_is_found() -> None:
    x = torch.tensor([1.0, 2.0]).half()
    report = check_backward(function(torch.exp, lambda v, x: v * torch.exp(x) / 0 * 1), "exp(x)", x=x)
    assert [f.kind for f in report.findings] == ["not_finite"]


def cast(dtype: torch.dtype) -> Function:
    return lambda v: v.to(dtype).to(v.dtype)


CHANGES: dict[str, tuple[Function, str, str]] = {
    "round": (torch.round, "not_linear", "rounded to integers"),
    "floor": (torch.floor, "not_linear", ""),
    "ceil": (torch.ceil, "not_linear", ""),
    "long": (cast(torch.long), "not_linear", "cast to integers"),
    "int8": (cast(torch.int8), "not_linear", ""),
    "bfloat16": (cast(torch.bfloat16), "precision", "v is cast to bfloat16"),
    "float16": (cast(torch.float16), "precision", "float16"),
    "float32": (cast(torch.float32), "precision", "float32"),
    "clip at 1": (lambda v: v.clamp(-1, 1), "not_linear", "clipped at ±1;"),
    "clip at 5": (lambda v: v.clamp(-5, 5), "not_linear", "clipped at ±5;"),
    "clip at 100": (lambda v: v.clamp(-100, 100), "not_linear", "clipped at ±100;"),
    "clip at 1000": (lambda v: v.clamp(-1000, 1000), "not_linear", "clipped at ±1000;"),
    "clip the norm": (lambda v: v * (5 / v.norm().clamp_min(1e-30)).clamp(max=1), "not_linear", "5;"),
    "drop below 0.5": (lambda v: v * (v.abs() >= 0.5), "not_linear", "small entries of v are dropped"),
    "drop below 0.01": (lambda v: v * (v.abs() >= 0.01), "not_linear", "small entries of v are dropped"),
    "drop below 0.001": (lambda v: v * (v.abs() >= 0.001), "not_linear", "small entries of v are dropped"),
    "relu": (lambda v: v.clamp(min=0), "not_linear", "negative entries of v are dropped"),
    "minus relu": (lambda v: v.clamp(max=0), "not_linear", "positive entries of v are dropped"),
    "abs": (torch.abs, "not_linear", "|v| is used instead of v"),
    "sign": (torch.sign, "not_linear", "only the sign of v"),
    "square": (torch.square, "not_linear", "v is squared"),
    "tanh": (torch.tanh, "not_linear", ""),
    "normalised": (lambda v: v / v.norm().clamp_min(1e-30), "not_linear", ""),
    "above 2": (lambda v: v + (v.abs() > 2), "not_linear", ""),
    "above 50": (lambda v: torch.where(v.abs() > 50, 2 * v, v), "not_linear", ""),
    "in eighths": (lambda v: (v * 8).round() / 8, "not_linear", ""),
    "in thousandths": (lambda v: (v * 1000).round() / 1000, "not_linear", ""),
    "root": (lambda v: v.abs().sqrt() * v.sign(), "not_linear", ""),
}
"""What a backward does to v, the kind that it is called by, and what is said of it (nothing: any words)."""
UNDER: dict[str, tuple[Function, tuple[tuple[int, ...], ...]]] = {
    "tanh(x)": (torch.tanh, ((4,),)),
    "softmax(x, dim=-1)": (lambda x: x.softmax(-1), ((3, 4),)),
    "x @ w": (torch.matmul, ((3, 4), (4, 2))),
    "layer_norm(x, (4,))": (lambda x: F.layer_norm(x, (4,)), ((3, 4),)),
    "exp(x).sum()": (lambda x: x.exp().sum(), ((5,),)),
    "x.mean()": (lambda x: x.mean(), ((5,),)),
    "x * w": (torch.mul, ((9, 9), (9, 9))),
}


def changed(text: str, change: Function, dtype: torch.dtype) -> BackwardReport:
    """A check of a backward that takes ``change`` of v for v, and is right otherwise."""
    forward, shapes = UNDER[text]
    inputs = {n: randn(*s, seed=k, dtype=dtype) for k, (n, s) in enumerate(zip("xw", shapes, strict=False))}

    def backward(v: Any, *given: Any) -> Any:
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in given]
            return torch.autograd.grad(forward(*leaves), leaves, change(v))

    return check_backward(function(forward, backward), text, only=("value", "purity"), **inputs)


ALL_CHANGES = [*product(CHANGES, UNDER, (torch.float64, torch.float32))]
CHOSEN = {
    (name, text, (torch.float64, torch.float32)[(place + n // 7) % 2])
    for n, name in enumerate(CHANGES)
    for place, step in enumerate((0, 3))
    for text in [[*UNDER][(n + step) % len(UNDER)]]
}
"""Every change under two of the operations, one in each type; every operation under eight of the changes, in both."""


@pytest.mark.one_in(16)
@pytest.mark.parametrize(
    ("name", "text", "dtype"),
    [pytest.param(*one, marks=[] if one in CHOSEN else [pytest.mark.night]) for one in ALL_CHANGES],
)
def test_a_backward_that_does_not_take_v_as_it_is_is_seen(name: str, text: str, dtype: torch.dtype) -> None:
    """All seeds were small and whole: a cast, a clip or a threshold changed none of them."""
    change, kind, said = CHANGES[name]
    report = changed(text, change, dtype)
    if name == "float32" and dtype == torch.float32:
        assert report.passed
        return
    assert {f.kind for f in report.findings} == {kind}, report.to_text()
    assert all(said in f.message for f in report.findings), report.to_text()
    assert "whatever v is" not in report.to_text()


def test_the_seeds_of_a_check_are_few() -> None:
    """Each is a call of the backward: integers, the basis, zeros, and one seed with all its digits in three sizes.

    One of them is pulled back 24 times more, by turns through the same graph and a new one.
    """
    calls = [0, 0]

    def forward(ctx: Any, x: Any) -> Any:
        calls[0] += 1
        ctx.save_for_backward(x.softmax(-1))
        return x.softmax(-1)

    def backward(ctx: Any, v: Any) -> Any:
        calls[1] += 1
        (p,) = ctx.saved_tensors
        return p * (v - (v * p).sum(-1, keepdim=True))

    report = check_backward(with_ctx(forward, backward), "softmax(x, dim=-1)", x=randn(3, 4))
    assert report.passed
    assert {b.name: b.count for b in report.batteries}["value"] == 1 + 12 + 1 + 3 + 1
    assert calls[0] <= 8 + 12
    assert calls[1] <= 32 + 24


@pytest.mark.parametrize("often", [2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 17, 19])
def test_what_comes_now_and_then_is_no_layout(often: int) -> None:
    """It was told as the layout, the value or the mask at which it happened to come."""
    calls = [0]

    def backward(v: Any, x: Any, y: Any) -> Any:
        calls[0] += 1
        times = 1.5 if calls[0] % often == 0 else 1.0
        return times * v * y, v * x

    report = check_backward(function(torch.mul, backward), "x * y", x=randn(4), y=randn(4, seed=1))
    assert {f.kind for f in report.findings} == {"nondeterministic"}, report.to_text()


def test_noise_of_rounding_hides_no_other_finding() -> None:
    drawn = random.Random(0)

    def noise() -> float:
        return drawn.uniform(-5e-15, 5e-15)

    x = randn(4)
    off = function(torch.tanh, lambda v, x: v * (1 - x.tanh() ** 2) + noise() + 0.1 * (x > 0) * v)
    assert [f.kind for f in check_backward(off, "tanh(x)", x=x).findings] == ["nondeterministic", "value"]
    lying = function(torch.tanh, lambda v, x: v.as_strided((4,), (1,)) * (1 - x.tanh() ** 2) + noise())
    assert [f.kind for f in check_backward(lying, "tanh(x)", x=x).findings] == ["nondeterministic", "layout"]
    only = function(torch.tanh, lambda v, x: v * (1 - x.tanh() ** 2) + noise())
    assert [f.kind for f in check_backward(only, "tanh(x)", x=x).findings] == ["nondeterministic"]


@pytest.mark.parametrize("noise", [1e-3, 0.1, 1.0])
def test_noise_alone_is_no_wrong_value_and_an_error_beyond_it_is(noise: float) -> None:
    drawn = random.Random(0)
    x = randn(4)

    def noisy(times: float) -> Function:
        return function(torch.tanh, lambda v, x: times * v * (1 - x.tanh() ** 2) * (1 + noise * drawn.uniform(-1, 1)))

    assert [f.kind for f in check_backward(noisy(1), "tanh(x)", x=x).findings] == ["nondeterministic"]
    if noise < 0.1:
        assert [f.kind for f in check_backward(noisy(3), "tanh(x)", x=x).findings] == ["nondeterministic", "value"]


@pytest.mark.parametrize("number", [0.7, 0.3, 2.5, 1 / 3])
def test_a_factor_that_is_a_number_of_the_forward_pass_is_called_missing(number: float) -> None:
    length = torch.tensor(number, dtype=DOUBLE)

    def kernel(x: Any, r: Any) -> Any:
        return torch.exp(-(x**2) / (2 * r**2))

    def backward(v: Any, x: Any, r: Any) -> Any:
        return -v * kernel(x, r) * x / r, (v * kernel(x, r) * x**2).sum() / r**3

    report = check_backward(function(kernel, backward), "exp(-x**2 / (2 * r**2))", x=randn(4), r=length)
    assert [f.kind for f in report.findings] == ["missing_factor"]
    assert f"the factor 1/r (r = {number:.6g}) is missing" in report.findings[0].message


def scan(a: Any, x: Any) -> Any:
    h, every = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        h = a[:, t] * h + x[:, t]
        every.append(h)
    return torch.stack(every, 1)


def scan_backward(by: int) -> Function:
    """With the state read ``by`` steps late."""

    def backward(v: Any, a: Any, x: Any) -> Any:
        states = scan(a, x)
        v_a, v_x, g = torch.zeros_like(a), torch.zeros_like(x), torch.zeros_like(x[:, 0])
        for t in reversed(range(x.shape[1])):
            g = g + v[:, t]
            v_x[:, t] = g
            v_a[:, t] = g * (states[:, t - 1 + by] if t - 1 + by >= 0 else 0)
            g = g * a[:, t]
        return v_a, v_x

    return backward


@pytest.mark.slow
@pytest.mark.parametrize("by", [0, 1])
def test_a_scan_that_reads_its_neighbours_state_is_called_shifted(by: int) -> None:
    a, x = randn(2, 5).sigmoid(), randn(2, 5, seed=1)
    report = check_backward(function(scan, scan_backward(by)), capture(scan, a, x), a=a, x=x)
    assert [f.kind for f in report.findings] == ["shifted"] * by, report.to_text()
    if by:
        assert "out[i,j] is used instead of out[i,j − 1]" in report.findings[0].message


def test_v_that_is_read_at_another_place_is_told_with_the_size_at_which_it_shows() -> None:
    """The state of a causal convolution, when the chunk is shorter than the kernel."""
    wrong = function(lambda h, x: torch.cat([h, x])[-3:], lambda v, h, x: (torch.cat([v.new_zeros(1), v[:2]]), v[:1]))
    (found,) = check_backward(wrong, "cat([h, x])[-3:]", h=randn(3), x=randn(1, seed=1)).findings
    assert found.kind == "shifted"
    assert "v[i − 2] is used instead of v[i]" in found.message
    assert "with x as long as v a test would not see it" in found.message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda v: v[0], "v[0] is used for every entry along axis 0 of v"),
        (lambda v: v[-1], "v[-1] is used for every entry along axis 0 of v"),
        (lambda v: v.mean(), "the mean of v along axis 0 is used for every entry of v"),
        (lambda v: v.sum(), "v is summed before it is used"),
    ],
)
def test_one_number_in_the_place_of_a_seed_of_each_row_is_named(change: Function, said: str) -> None:
    """The gradient of a loss without a reduction, times the first entry of v."""
    t = torch.tensor([0, 2, 1, 1])
    wrong = function(
        lambda z, t: F.cross_entropy(z, t, reduction="none"),
        lambda v, z, t: ((z.softmax(-1) - F.one_hot(t, 3)) * change(v), None),
    )
    (found,) = check_backward(wrong, "cross_entropy(z, t, reduction='none')", z=randn(4, 3), t=t).findings
    assert found.kind == "ignores_seed"
    assert said in found.message


def test_a_crash_with_a_frozen_input_is_told_with_its_exception() -> None:
    """Also where the backward writes into what it saved, and a second call through the same graph raises."""

    def backward(ctx: Any, v: Any) -> Any:
        w, x = ctx.saved_tensors
        w *= v
        if not ctx.needs_input_grad[1]:
            raise ValueError("no gradient of w")
        return w, v * x

    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(w.clone(), x.clone())
        return x * w

    report = check_backward(with_ctx(forward, backward), "x * w", x=randn(3), w=randn(3, seed=1))
    assert [f.kind for f in report.findings] == ["mutates_input", "mask"]
    assert "when w requires no gradient, backward raises ValueError: no gradient of w" in report.findings[1].message
    assert not [b for b in report.batteries if b.note == "backward gives no gradients"]


def test_a_graph_that_serves_once_hides_no_wrong_number() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.slope = x.cos()
        return x.sin()

    def backward(ctx: Any, v: Any) -> Any:
        slope = ctx.slope
        del ctx.slope
        return 2 * v * slope

    report = check_backward(with_ctx(forward, backward), "sin(x)", x=randn(3))
    assert [f.kind for f in report.findings] == ["raises", "scaled"]
    assert "when it is called a second time through the same graph" in report.findings[0].message


def test_a_backward_that_raises_for_some_v_is_judged_by_the_others() -> None:
    def backward(v: Any, x: Any) -> Any:
        if v.abs().max() > 100:
            raise OverflowError("too large")
        return 2 * v * torch.cos(x)

    report = check_backward(function(torch.sin, backward), "sin(x)", x=randn(3))
    assert [f.kind for f in report.findings] == ["raises", "scaled"]
    assert "raises OverflowError: too large" in report.findings[0].message


@pytest.mark.parametrize("factor", [1, 7])
@pytest.mark.parametrize(
    ("text", "fn"),
    [
        ("softmax(x, dim=-1).sum()", lambda x: x.softmax(-1).sum()),
        ("layer_norm(x, (3,)).sum(-1)", lambda x: F.layer_norm(x, (3,)).sum(-1)),
    ],
)
def test_a_test_that_can_see_nothing_says_so(text: str, fn: Function, factor: int) -> None:
    """Any factor passes where the rows of J weighted by v add up to 0 of J: the test is graded, and not only the backward."""
    backward = function(fn, lambda v, x: torch.zeros_like(x) * factor)
    report = check_backward(backward, text, x=randn(2, 3))
    assert report.passed
    assert BLIND in report.headline
    assert "use different weights for its entries" in report.to_text().replace("\n" + " " * 32, " ")


@pytest.mark.parametrize("text", ["softmax(x, dim=-1)", "sign(x)", "x.sum()", "softmax(x, dim=-1).prod()"])
def test_a_test_that_sees_is_not_called_blind(text: str) -> None:
    calls = {"sign(x)": torch.sign, "x.sum()": torch.sum, "softmax(x, dim=-1)": lambda x: x.softmax(-1)}
    report = check_backward(calls.get(text, lambda x: x.softmax(-1).prod()), text, x=randn(3))
    assert report.headline.endswith("passes")


def test_a_test_of_which_most_entries_lie_on_a_kink_says_so() -> None:
    x = torch.tensor([-2.0, 0.4, 3.0, 3.0, -2.0], dtype=DOUBLE)
    zero = function(lambda x: x.clamp(-2, 3), lambda v, x: v * ((x > -2) & (x < 3)))
    report = check_backward(zero, "clamp(x, -2, 3)", x=x)
    assert report.passed
    (kink,) = (b for b in report.batteries if b.name == "kink")
    assert kink.note.startswith("4 of the 5 entries of x lie at or beside a kink")


def test_inputs_that_the_function_does_not_take_are_the_callers_mistake() -> None:
    x, w = randn(3, 3), randn(3, 3, seed=1)
    with pytest.raises(InputError, match="does not take these inputs: x, w"):
        check_backward(lambda x: x @ w, "x @ w", x=x, w=w)
    with pytest.raises(InputError, match="does not take these inputs: x"):
        check_backward(lambda x, y: x, "x.clone()", x=x)


@pytest.mark.parametrize("counted", [0, 1])
def test_a_variance_that_divides_by_one_less_is_named(counted: int) -> None:
    def normal(x: Any, correction: int = 0) -> Any:
        return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, correction=correction)

    def backward(v: Any, x: Any) -> Any:
        y = normal(x, counted)
        return (v - v.mean(-1, keepdim=True) - y * (v * y).mean(-1, keepdim=True)) / x.std(
            -1, keepdim=True, correction=counted
        )

    text = "(x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, correction=0)"
    report = check_backward(function(normal, backward), text, x=randn(3, 4))
    assert [f.kind for f in report.findings] == ["wrong_option"] * counted
    if counted:
        assert "n − 1 = 3 in the place of n" in report.findings[0].message


def test_an_input_that_the_formula_does_not_mention_may_have_a_gradient_that_is_wrong() -> None:
    """It ended in a KeyError of ours."""
    wrong = function(lambda y, extra: y.clone(), lambda v, y, extra: (v, torch.ones_like(extra)))
    report = check_backward(wrong, "y.clone()", y=randn(2), extra=torch.tensor(0.5, dtype=DOUBLE))
    assert [f.input for f in report.findings] == ["extra"]


def test_numbers_of_a_pair_are_seen_with_all_their_digits() -> None:
    """NumPy functions are tried with the same seeds."""
    right = (np.tanh, lambda v, x: v * (1 - np.tanh(x) ** 2))
    cut = (np.tanh, lambda v, x: np.clip(v, -5, 5) * (1 - np.tanh(x) ** 2))
    x = np.array([0.5, -1.0, 2.0])
    assert check_backward(right, "tanh(x)", x=x).passed
    assert [f.kind for f in check_backward(cut, "tanh(x)", x=x).findings] == ["not_linear"]


@pytest.mark.parametrize("seed", range(4))
def test_no_entry_of_a_random_seed_is_blind(seed: int) -> None:
    drawn = [w for w in integer_seeds([(1, 1), (2,)], seed) if "random" in w.name]
    assert all((part != 0).all() for w in drawn for part in w.seeds)


def gated(x: Any, w: Any) -> Any:
    d = x - x.mean(-1, keepdim=True)
    h = d / torch.sqrt((d * d).mean(-1, keepdim=True) + 0.001) * w
    return h * torch.sigmoid(h) + torch.tanh(x) * x


def gated_backward(share: float) -> Function:
    """With another weight for what comes back through the mean."""

    def backward(v: Any, x: Any, w: Any) -> Any:
        d, t = x - x.mean(-1, keepdim=True), torch.tanh(x)
        s = torch.sqrt((d * d).mean(-1, keepdim=True) + 0.001)
        h = d / s * w
        p = torch.sigmoid(h)
        g = v * p * (1 + h * (1 - p))
        c = g * w / s - d * (g * w * d).sum(-1, keepdim=True) / s**3 / 4
        return c - share * c.mean(-1, keepdim=True) + v * (t + x * (1 - t**2)), (g * d / s).sum(0)

    return backward


@pytest.mark.parametrize(("share", "said"), [(1, ""), (0.5, "is 1/2 of what"), (3, "is 3 times what")])
def test_a_share_is_weighed_at_the_far_end_of_a_long_program(share: float, said: str) -> None:
    """Mistakes that change nothing, a tensor in another's place where no pullback reads it, had used up all tries."""
    text = "d = x - x.mean(-1, keepdim=True); h = d / sqrt((d * d).mean(-1, keepdim=True) + 0.001) * w"
    text += "; h * sigmoid(h) + tanh(x) * x"
    wrong = function(gated, gated_backward(share))
    found = check_backward(wrong, text, only="value", x=randn(3, 4), w=randn(4, seed=1)).findings
    assert [f.kind for f in found] == ["scaled"] * bool(said)
    assert all(f"the gradient of t2 through d = sub(x, t2) {said} it should be" in f.message for f in found)


def test_a_pair_may_return_none_for_an_input_without_a_gradient():
    x, classes = np.random.default_rng(0).standard_normal((4, 3)), np.array([0, 2, 1, 1])
    rows = np.arange(4)

    def loss(x, y):
        return -np.log((np.exp(x) / np.exp(x).sum(1, keepdims=True))[rows, y]).mean()

    def slope(v, x, y):
        p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
        p[rows, y] -= 1
        return v * p / len(y)

    text = "F.cross_entropy(x, y)"
    for returned in (lambda v, x, y: slope(v, x, y), lambda v, x, y: (slope(v, x, y), None)):
        assert check_backward((loss, returned), text, x=x, y=classes).passed
    wrong = check_backward((loss, lambda v, x, y: (slope(v, x, y) * 2, None)), text, x=x, y=classes)
    assert [finding.kind for finding in wrong.findings] == ["scaled"]


def test_what_was_found_in_the_forward_pass_is_no_product():
    backward = with_ctx(
        lambda ctx, x: (ctx.save_for_backward(x.sort(-1).indices), x.sort(-1).values)[1],
        lambda ctx, v: v.gather(-1, ctx.saved_tensors[0]),
    )
    report = check_backward(backward, "torch.sort(x, dim=-1).values", x=torch.tensor([[0.3, -0.1, 0.2, 0.7]]), seed=1)
    said = " ".join(finding.message for finding in report.findings)
    assert "n_out[0," in said
    assert "n·out" not in said
