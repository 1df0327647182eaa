"""Sentences of a story that are easily true of one step, one write or one path, and false where several meet."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from symgrad.testing import check_backward
from tests.compare import assert_same
from tests.contract.stories import stories_of

HEAD = """import torch
import torch.nn.functional as F
torch.manual_seed(0)
class Some(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *inputs):
        return sum(inputs)
    @staticmethod
    def backward(ctx, v):
        return tuple(v if n in CARRIED else None for n in range(3))
"""


def story(tmp_path: Path, body: str) -> str:
    """What is told of a script, on one line."""
    path = tmp_path / "script.py"
    path.write_text(HEAD + body + "\n", encoding="utf-8")
    return re.sub(r"\s+", " ", " ".join(stories_of(path)))


# Rounding -------------------------------------------------------------------------------------------------

BEFORE_SOFTMAX = [
    "x.view(2, 3)",
    "x.view(2, 3).T",
    "x * 2",
    "x.view(2, 3) @ torch.randn(3, 4)",
    "x.exp().cumsum(0)",
    "x",
]


@pytest.mark.parametrize("kind", ["half", "float", "double"])
@pytest.mark.parametrize("before", BEFORE_SOFTMAX)
def test_what_cancels_before_the_last_step_is_rounding_at_the_leaf(before: str, kind: str, tmp_path: Path) -> None:
    if "@" in before:
        before = before.replace("3, 4)", f"3, 4).{kind}()")
    told = story(
        tmp_path,
        f"x = torch.linspace(-1, 1, 6).{kind}().requires_grad_()\ny = torch.softmax({before}, 0)\ny.sum().backward()",
    )
    assert re.search(
        r"ᵀJ with respect to x is 0(?: \(the digits are rounding\))?: the entries of y \(line 12\) add up to 1", told
    )
    assert "apart" not in told
    assert " off " not in told


def test_a_gradient_that_is_tiny_is_not_called_rounding(tmp_path: Path) -> None:
    """It shrinks in each step, and nothing cancels: there are digits, and they are told."""
    told = story(
        tmp_path,
        "x = torch.tensor([3.0, 5.0], requires_grad=True)\nh = x\nfor _ in range(9):\n    h = torch.sigmoid(h) * 1e-3\nh.sum().backward()",
    )
    assert "rounding" not in told
    assert re.search(r"none \+ \[\d\S*e-\d+ \d\S*e-\d+\] = torch", told)


def test_beside_a_gradient_of_zeros_the_other_is_no_billion_times_as_large(tmp_path: Path) -> None:
    """What is off is told relative to the larger of the two."""
    told = story(
        tmp_path, "x = torch.arange(6.).requires_grad_()\ntorch.softmax(x.view(2, 3).T * 3, 1).sum().backward()"
    )
    assert all(float(share) <= 1 for share in re.findall(r"up to (\S+) (?:off|apart)", told))


# Writes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zeroed", [
    "torch.optim.SGD([w, b], lr=0.1).zero_grad(set_to_none=False)",
    "torch.optim.SGD([w, b], lr=0.1, foreach=False).zero_grad(set_to_none=False)",
    "m = torch.nn.ParameterList([w, b])\nm.zero_grad(set_to_none=False)",
    "w.grad.requires_grad_(False)\nw.grad.zero_()",
    "w.grad.detach_()\nw.grad.mul_(0)",
])  # fmt: skip
def test_a_gradient_is_told_as_it_is_after_it_was_written(zeroed: str, tmp_path: Path) -> None:
    told = story(
        tmp_path,
        "w, b = (torch.nn.Parameter(torch.tensor([1., 2.])) for _ in range(2))\n((w * b) ** 2).sum().backward()\n"
        + zeroed,
    )
    assert re.findall(r"\w\.grad is (\S+ ?\S*) from here on", told) == ["[0 0]"]


@pytest.mark.parametrize(("body", "said"), [
    ("y = x * 2\ny[0] = y[2] * x[1]\nz = y * y", "wrote into a tensor that shares its memory"),
    ("y = x * 2\nt = y[1:]\nz = t * t\ny[0] = 1.0", "wrote into a tensor that shares its memory"),
    ("y = x * 2\nt = y[1:]\nz = t * t\nt.mul_(2)", "overwrote it"),
    ("y = x.exp()\ny[0] = 1.0\nz = y * 1", "overwrote it"),
])  # fmt: skip
def test_a_write_beside_a_value_is_no_write_over_it(body: str, said: str, tmp_path: Path) -> None:
    """torch counts the writes to a tensor and to its views together, whichever entries they change."""
    told = story(
        tmp_path,
        f"x = torch.ones(3, requires_grad=True)\n{body}\ntry:\n    z.sum().backward()\nexcept RuntimeError:\n    pass",
    )
    assert [words for words in ("wrote into a tensor that shares its memory", "overwrote it") if words in told] == [
        said
    ]


def test_of_several_writes_in_one_line_the_first_is_not_told_as_the_last(tmp_path: Path) -> None:
    told = story(
        tmp_path,
        "w = torch.tensor([3., 4.], requires_grad=True)\n(w ** 2).sum().backward()\ntorch.nn.utils.clip_grad_value_([w], 1.0)",
    )
    assert "w.grad is overwritten here" in told
    assert "from here on" not in told


def test_a_line_is_not_held_against_rounding(tmp_path: Path) -> None:
    told = story(
        tmp_path,
        "x = torch.randn(6, 3, requires_grad=True)\n(torch.nn.BatchNorm1d(3, affine=False)(torch.relu(x) + x) * 2).sum().backward()",
    )
    assert "zeros_like(x)" in told
    assert "0, up to rounding" in told
    assert "withheld" not in told


# Paths ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("carried", [(), (0,), (1,), (2,), (0, 2)])
def test_a_leaf_without_gradient_has_the_input_that_leads_to_it(carried: tuple[int, ...], tmp_path: Path) -> None:
    names = "abc"
    reads = "\n".join(f"{n}.grad" for n in names)
    told = story(tmp_path, f"CARRIED = {carried}\na, b, c = (torch.ones(2, requires_grad=True) for _ in range(3))\n"
                 f"(Some.apply(a * 2, b.exp(), c) ** 2).sum().backward()\n{reads}")  # fmt: skip
    for place, name in enumerate(names):
        found = re.findall(rf" {name}\.grad is None: Some\.backward returned None for its input (\d)", told)
        assert found == ([] if place in carried else [str(place + 1)])


@pytest.mark.parametrize(("off", "said"), [
    ("with torch.no_grad():\n    y = x * 2", "torch.no_grad()"),
    ("with torch.inference_mode():\n    y = x * 2", "torch.inference_mode()"),
    ("torch.set_grad_enabled(False)\ny = x * 2\ntorch.set_grad_enabled(True)", "torch.set_grad_enabled(False)"),
])  # fmt: skip
def test_what_switched_gradients_off_is_named(off: str, said: str, tmp_path: Path) -> None:
    told = story(
        tmp_path,
        f"x = torch.ones(3, requires_grad=True)\n{off}\ntry:\n    y.sum().backward()\nexcept RuntimeError:\n    pass",
    )
    assert f"by {said}." in told


@pytest.mark.parametrize("how", ["allow_unused=True", "materialize_grads=True", ""])
def test_inputs_that_reach_nothing_are_named(how: str, tmp_path: Path) -> None:
    told = story(tmp_path, "x, z, w = (torch.ones(3, requires_grad=True) for _ in range(3))\ny = (x ** 2).sum()\n"
                 f"try:\n    torch.autograd.grad(y, [x, z, w], {how})\nexcept RuntimeError:\n    pass")  # fmt: skip
    assert told.count("there is no path from z, w to y") == 1


def test_what_a_transform_asks_for_has_a_path(tmp_path: Path) -> None:
    told = story(
        tmp_path,
        "w = torch.ones(3)\ntorch.func.vmap(torch.func.grad(lambda w, x: (w * x).sum() ** 2), (None, 0))(w, torch.randn(4, 3))",
    )
    assert "= torch" in told
    assert "no path" not in told


def test_of_several_detaches_none_is_said_to_hide_the_real_slope(tmp_path: Path) -> None:
    """a·a³ + a² at 2: declared is 8; the whole slope, 36, comes of undoing both."""
    told = story(
        tmp_path,
        "a = torch.tensor(2.0, requires_grad=True)\nb = (a ** 3).detach()\nc = a * b + a.detach() ** 2\nc.backward()",
    )
    assert ".detach() in line 12 hides one use of a: the slope is 8, without this detach it is 32" in told
    assert ".detach() in line 13 hides one use of a: the slope is 8, without this detach it is 12" in told
    assert "the full derivative is" not in told


def test_the_weights_of_several_outputs_are_named(tmp_path: Path) -> None:
    told = story(tmp_path, "x = torch.ones(2, requires_grad=True)\ny, z, w = (x * 2).sum(), (x * 3).prod(), x.exp()\n"
                 "torch.autograd.backward([y, z, w], [torch.tensor(5.0), None, torch.tensor([3., 4.])])")  # fmt: skip
    assert "v = one for each of 3 outputs: v1 = 5 for y, v2 = 1 for z, v3 = [3 4] for w" in told
    assert "v3 * w + v2 * z / x + 2 * v1" in told


@pytest.mark.parametrize("kept", ["out = [x * 2, x * 3]", "out = {0: x * 2, 1: x * 3}"])
def test_the_output_is_not_called_as_a_collection_that_it_is_made_of(kept: str, tmp_path: Path) -> None:
    told = story(tmp_path, f"x = torch.ones(2, requires_grad=True)\n{kept}\n(out[0] * out[1]).sum().backward()")
    assert "out[0] = x * 2" in told
    assert not re.search(r"\bout = ", told)


def test_a_watched_tensor_may_be_swapped_with_another(tmp_path: Path) -> None:
    """torch refuses that where somebody else refers to one of them: what is noted of a tensor does not count."""
    told = story(tmp_path, "a, b = torch.ones(2, requires_grad=True), torch.zeros(2, requires_grad=True)\n"
                 "(a * 2).sum().backward()\ntorch.utils.swap_tensors(a, b)\n(a * 3).sum().backward()")  # fmt: skip
    assert told.count("= torch ") == 2


@pytest.mark.parametrize(("numbers", "alike"), [("torch.zeros(3)", "all 0"), ("torch.ones(3)", "all equal")])
def test_entries_that_are_0_are_not_only_equal(numbers: str, alike: str, tmp_path: Path) -> None:
    made = "c * x" if alike == "all 0" else "F.layer_norm(x, (3,), c)"
    told = story(
        tmp_path, f"x = torch.tensor([1., 2., 4.], requires_grad=True)\nc = {numbers}\ny = {made}\ny.sum().backward()"
    )
    assert f"c has the given entries, which are {alike}" in told


def test_what_two_inputs_hold_alone_is_not_said_to_hold_whatever_they_are(tmp_path: Path) -> None:
    """softmax(q @ k.T) @ v stays the same whatever q is where k is 0, or v the same in every row."""
    told = story(tmp_path, "q, k = (torch.zeros(1, 4, 8, requires_grad=True) for _ in range(2))\nv = torch.ones(1, 4, 8, requires_grad=True)\n"
                 "F.scaled_dot_product_attention(q, k, v).sum().backward()")  # fmt: skip
    assert (
        "whatever q is while k has the given entries, which are all 0, and v has the given entries, which are all equal"
        in told
    )


def test_the_2_of_a_square_cancels_a_mean_of_two(tmp_path: Path) -> None:
    told = story(tmp_path, "x = torch.tensor([1., 2.], requires_grad=True)\nF.mse_loss(x, torch.zeros(2)).backward()")
    assert "mse_loss is a mean over 2 numbers, hence the factor 1/2, which the 2 of the square cancels" in told


# Kinks ----------------------------------------------------------------------------------------------------

KINKS = {
    "torch.relu(x).sum()": (lambda x: x.relu().sum(), "each"),
    "x.abs().sum()": (lambda x: x.abs().sum(), "each"),
    "x.max()": (lambda x: x.max(), "sum"),
    "-x.amin()": (lambda x: -x.amin(), "sum"),
    "F.max_pool1d(x[None], 3).sum()": (lambda x: x.max(), "sum"),
    "x.norm()": (lambda x: x.norm(), "alone"),
    "torch.linalg.vector_norm(x, 3)": (lambda x: torch.linalg.vector_norm(x, 3), "alone"),
    "torch.cdist(x[None], torch.zeros(1, 3)).sum()": (lambda x: x.norm(), "alone"),
    "x.std()": (lambda x: x.std(), "alone"),
}
"""Convex functions with a kink at 0: the same for torch's doubles, and what is legal there."""


@pytest.mark.parametrize("text", KINKS)
def test_what_is_legal_for_one_entry_is_not_always_for_all(text: str, tmp_path: Path) -> None:
    """Slopes g are legal together where g·u is at most the slope of the function along u, whatever u is."""
    function, legal = KINKS[text]
    told = story(tmp_path, f"x = torch.zeros(3, requires_grad=True)\n({text}).backward()")
    found = re.search(
        r"left (\S+), right ([^ ,]+), (for this entry alone )?anything between is legal( as long as)?", told
    )
    assert found is not None
    assert ("alone" if found[3] else "sum" if found[4] else "each") == legal
    low, high = sorted(map(float, found.groups()[:2]))
    draws = np.random.default_rng(0)
    parts = draws.dirichlet(np.ones(3), 200) if legal == "sum" else draws.uniform(0, 1, (200, 3))
    slopes, ways = low + (high - low) * parts, draws.normal(size=(200, 3))
    along = np.array([float(function(torch.tensor(1e-6 * way)) / 1e-6) for way in ways])
    sign = -1 if text.startswith("-") else 1  # the kink is told of what is negated
    assert bool((sign * slopes @ ways.T <= along + 1e-3).all()) is (legal != "alone")


@pytest.mark.parametrize(("text", "told_of"), [
    ("torch.linalg.svdvals(x).sum()", False),
    ("torch.linalg.eigvalsh(x).sum()", False),
    ("(torch.linalg.svdvals(x) * torch.tensor([1., 2., 4.])).sum()", True),
    ("torch.linalg.svdvals(x)[0]", True),
    ("torch.linalg.eigvalsh(x)[0] * 1e-6", True),
])  # fmt: skip
def test_kinks_that_even_out_in_the_sum_are_not_told(text: str, told_of: bool, tmp_path: Path) -> None:
    """Where values cross each has two slopes, and their sum has one."""
    told = story(tmp_path, f"x = torch.eye(3, requires_grad=True)\n({text}).backward()")
    assert ("is a kink of" in told) is told_of


# Ranges ---------------------------------------------------------------------------------------------------

BEYOND = {
    "(x ** 3).sum()": (lambda x: (x**3).sum(), [1e20, 2.0], "x ** 3 is 1e60 at [0]; in float32 that is inf"),
    "torch.log(1 + torch.exp(x)).sum()": (lambda x: (1 + x.exp()).log().sum(), [200.0, 1.0], "exp(x) is 7.23e86 at [0]; in float32 that is inf"),
    "torch.log(torch.sigmoid(x)).mean()": (lambda x: x.sigmoid().log().mean(), [-200.0, 1.0], "sigmoid(x) is 1.38e-87 at [0]; in float32 that is 0"),
    "-torch.softmax(x, 0).log()[0]": (lambda x: -x.softmax(0).log()[0], [1.0, 300.0], "softmax(x, dim=0) is 1.4e-130 at [0]; in float32 that is 0"),
    "(x.exp() / x.exp().sum())[1]": (lambda x: (x.exp() / x.exp().sum())[1], [99.0, 98.0], "exp(x) is 9.89e42 at [0]; in float32 that is inf"),
    "(x ** 2).sum().sqrt()": (lambda x: (x**2).sum().sqrt(), [1e-30, 1e-30], "x ** 2 is 1e-60 at [0]; in float32 that is 0"),
    "torch.log(2 + torch.exp(x)).sum()": (lambda x: F.softplus(x - math.log(2)).sum(), [800.0, 1.0], "exp(x) is 2.73e+347 at [0]; in float64 that is inf"),
    "torch.log(3 + torch.exp(x)).sum()": (lambda x: (3 + x.exp()).log().sum(), [12.0, 1.0], "exp(x) is 1.63e05 at [0]; in float16 that is inf"),
}  # fmt: skip
"""What leaves the range of its type, and the same for doubles, which hold it."""


@pytest.mark.parametrize("text", BEYOND)
def test_what_leaves_the_range_of_its_type_has_a_derivative(text: str, tmp_path: Path) -> None:
    """The gradient that is told is that of the same function in doubles."""
    function, numbers, said = BEYOND[text]
    (kind,) = re.findall(r"in (\w+) that", said)
    told = story(tmp_path, f"x = torch.tensor({numbers}, dtype=torch.{kind}, requires_grad=True)\n({text}).backward()")
    assert said in told
    assert "out of range" in told
    assert not re.search("undefined|no derivative|has the slope 0|withheld", told)
    (found,) = re.findall(r"Mathematically, x\.grad is \[(.*?)\]", told)
    x = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(function(x), x)
    scale = np.abs(gradient.numpy()).max()
    assert_same(gradient.numpy() / scale, np.array(found.split(), dtype=float) / scale, tolerance=6e-3)


@pytest.mark.parametrize(
    "text", ["x.sqrt().sum()", "x.log().sum()", "(x.sqrt() * x.exp()).sum()", "(1 / x).sum()", "x.norm() / x.prod()"]
)
def test_a_singular_point_is_no_matter_of_range(text: str, tmp_path: Path) -> None:
    told = story(tmp_path, f"x = torch.tensor([0., 1.], requires_grad=True)\n({text}).backward()")
    assert "out of range" not in told
    assert "Mathematically" not in told


# Checks ---------------------------------------------------------------------------------------------------


def candidate(forward, backward):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, v):
            return backward(v, *ctx.saved_tensors)

    return Own.apply


@pytest.mark.one_in(4, alone=4)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("cast", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("factor", [2, 3, 6, 0.75, 5, 7, 9])
def test_no_factor_hides_that_v_is_cast(factor: float, cast: torch.dtype, kind: torch.dtype) -> None:
    """Seeds that a factor of the formula makes short again would let it pass."""
    own = candidate(lambda x: x * factor, lambda v, x: (v.to(cast) * factor).to(v.dtype))
    assert not check_backward(own, f"x * {factor}", x=torch.randn(4, dtype=kind)).passed


@pytest.mark.parametrize(("text", "forward", "backward", "passes"), [
    ("x.max()", lambda x: x.max(), lambda v, x: v * (x == x.max()), False),
    ("x.max()", lambda x: x.max(), lambda v, x: 0 * v * x, False),
    ("x.max()", lambda x: x.max(), lambda v, x: v * (torch.arange(3) == x.argmax()), True),
    ("x.max(0, keepdim=True)[0]", lambda x: x.max(0, keepdim=True)[0], lambda v, x: v * (x == x.max()), False),
    ("x.norm()", lambda x: x.norm(), lambda v, x: v * torch.ones(3), False),
    ("x.norm()", lambda x: x.norm(), lambda v, x: v * torch.tensor([0.5, -0.5, 0.5]), True),
    ("relu(x).sum()", lambda x: x.relu().sum(), lambda v, x: v * (x >= 0), True),
])  # fmt: skip
def test_choices_at_ties_of_one_number_are_held_together(text, forward, backward, passes) -> None:
    """Each may lie between its two slopes, and all of them add up to a choice that there is not."""
    assert check_backward(candidate(forward, backward), text, x=torch.zeros(3)).passed is passes
