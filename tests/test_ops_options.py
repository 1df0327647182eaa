"""Options and positions that the table's own examples do not reach, against torch, at many shapes.

Programs are built from the table directly: an operation, arrays (None: left out, a number: a constant), options.
Each is run with sizes as symbols, as text gives them, and as numbers, as a running program does.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from symgrad import ShapeError, SymgradError
from symgrad.calculus import local_jacobian
from symgrad.language import read_program
from symgrad.numeric import Values, forward, numeric_pullback, numeric_pushforward
from symgrad.ops import entry_named
from tests import torch_side
from tests.naive import Loops
from tests.one_step import Given, by_torch, program_of


def draw(*shape: int) -> np.ndarray:
    """Normal numbers, the same in every run."""
    return np.random.default_rng(sum(shape) + 17 * len(shape)).standard_normal(shape)


def places(high: int, *shape: int) -> np.ndarray:
    """Positions below ``high``."""
    return np.random.default_rng(high).integers(0, high, size=shape)


def same(expected: Any, got: Any, what: str) -> None:
    """Equal to nine digits."""
    np.testing.assert_allclose(np.asarray(got, float), np.asarray(expected, float), rtol=1e-9, atol=1e-9, err_msg=what)


INF = float("inf")
C2 = (draw(1, 4, 5, 4), draw(6, 2, 3, 2), draw(6))
CASES: list[tuple[str, list[Given], dict[str, Any]]] = [
    ("conv1d", [draw(2, 2, 7), draw(3, 2, 3), draw(3)], {"padding": 2, "stride": 2, "dilation": 2}),
    ("conv1d", [draw(2, 2, 8), draw(3, 2, 3), None], {"padding": 2, "stride": 3, "dilation": 2}),
    ("conv1d", [draw(4, 6), draw(6, 2, 4)], {"padding": "same", "groups": 2, "dilation": 3}),
    ("conv2d", [*C2], {"groups": 2, "padding": (1, 2), "stride": (2, 1), "dilation": (1, 2)}),
    ("conv3d", [draw(1, 2, 3, 4, 3), draw(2, 2, 2, 2, 2), draw(2)], {"padding": (1, 0, 1), "stride": (1, 2, 2)}),
    (
        "conv_transpose1d",
        [draw(2, 4, 3), draw(4, 2, 3), draw(4)],
        {"stride": 2, "padding": 1, "dilation": 3, "groups": 2},
    ),
    (
        "conv_transpose2d",
        [draw(1, 2, 3, 2), draw(2, 2, 2, 3)],
        {"stride": (2, 1), "padding": 1, "output_padding": (1, 0)},
    ),
    ("max_pool2d", [draw(2, 1, 5, 6)], {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1, "dilation": (1, 2)}),
    ("max_pool2d", [np.round(draw(1, 2, 6, 6))], {"kernel_size": 3, "stride": 1}),
    ("avg_pool2d", [draw(2, 5, 6)], {"kernel_size": (2, 3), "stride": (1, 2), "divisor_override": 3}),
    ("adaptive_avg_pool2d", [draw(2, 5, 6)], {"output_size": (None, 4)}),
    ("batch_norm", [draw(2, 3, 2, 2), None, None, None, draw(3)], {"training": True}),
    ("group_norm", [draw(2, 6, 2), draw(6), draw(6)], {"num_groups": 3}),
    ("layer_norm", [draw(2, 3), None, draw(3)], {"normalized_shape": (None,)}),
    ("embedding", [places(3, 2, 3), draw(3, 2)], {"padding_idx": -1}),
    ("scaled_dot_product_attention", [draw(2, 1, 2, 2), draw(2, 2, 3, 2), draw(2, 2, 3, 2), draw(2, 3)], {}),
    ("prelu", [draw(), draw(1)], {}),
    ("nll_loss", [draw(4, 3), np.array([0, -100, 2, 1]), np.array([0.5, 1.0, 2.0])], {}),
    ("cross_entropy", [draw(2, 3, 2), places(3, 2, 2), np.array([0.5, 1.0, 2.0])], {"label_smoothing": 0.1}),
    ("cross_entropy", [draw(4, 3), np.array([0, -100, 2, 1])], {"reduction": "none"}),
    ("huber_loss", [np.array([1.0, 2, 3, 0]), np.array([1.0, 3, 4, 2])], {"reduction": "none"}),
    ("pad", [draw(1, 2, 3, 4)], {"pad": (1, 2, 2, 0), "mode": "reflect"}),
    ("pad", [draw(2, 4)], {"pad": (-1, 2, 1, -1)}),
    ("roll", [draw(3, 2)], {"shifts": (1, 1), "dims": (0, 0)}),
    ("diagonal", [draw(2, 4, 3)], {"offset": 1, "dim1": -1, "dim2": 1}),
    ("gather", [draw(3, 4, 2), places(3, 2, 3, 1)], {"dim": 0}),
    ("take_along_dim", [draw(1, 3), places(3, 4, 2)], {"dim": 1}),
    ("scatter_add", [draw(2, 3), places(3, 2, 4), draw(2, 4)], {"dim": 1}),
    ("index_add", [draw(2, 3), places(3, 4), draw(2, 4)], {"dim": 1, "alpha": 2}),
    ("cummax", [np.array([1.0, 3, 3, 2, 3])], {"dim": 0}),
    ("cumprod", [np.array([1.0, 0, 3, 0, 2])], {"dim": 0}),
    ("sort", [np.array([2.0, 1, 2, 1, 2])], {}),
    ("triplet_margin_loss", [draw(3, 4), draw(3, 4) + 1, draw(3, 4) ** 2], {"swap": True, "p": 1.0, "margin": 3.0}),
    ("lerp", [draw(2, 3), draw(3), 0.3], {}),
    ("interpolate", [draw(1, 2, 3, 4)], {"scale_factor": (1.5, 0.8), "mode": "bicubic"}),
    ("interpolate", [draw(2, 1, 5, 1)], {"size": (3, 2), "mode": "bilinear", "align_corners": True}),
    ("interpolate", [draw(1, 1, 5, 4)], {"size": (3, 6), "mode": "bicubic", "antialias": True}),
    ("grid_sample", [draw(1, 2, 3, 3), np.round(3 * draw(1, 2, 4, 2)) / 2], {}),
    ("grid_sample", [draw(1, 2, 3, 4), np.round(3 * draw(1, 2, 4, 2)) / 2], {"padding_mode": "reflection"}),
    ("grid_sample", [draw(1, 2, 3, 4), draw(1, 2, 4, 2)], {"padding_mode": "border", "mode": "nearest"}),
    ("max_pool2d", [draw(1, 2, 5, 4)], {"kernel_size": (2, 3), "padding": 1, "stride": 3, "ceil_mode": True}),
    ("avg_pool2d", [draw(1, 2, 5, 4)], {"kernel_size": (2, 3), "padding": 1, "stride": 3, "ceil_mode": True}),
    ("im2col", [draw(2, 4, 5)], {"kernel_size": (1, 2), "stride": (2, 1), "padding": (0, 1)}),
    ("col2im", [draw(1, 4, 12)], {"output_size": (4, 5), "kernel_size": 2}),
    (
        "scatter_reduce",
        [np.array([[2.0, 0, 3]] * 2), places(2, 1, 3), np.array([[0.0, 2, 0]])],
        {"dim": 0, "reduce": "prod"},
    ),
    ("scatter_reduce", [draw(3, 4), places(3, 3, 2), draw(3, 2)], {"dim": 0, "reduce": "prod", "include_self": False}),
    ("scatter_reduce", [np.round(draw(3, 2)), places(3, 3, 2), np.round(draw(3, 2))], {"dim": 0, "reduce": "amax"}),
    ("index_reduce", [np.round(draw(2, 3)), places(3, 4), np.round(draw(2, 4))], {"dim": 1, "reduce": "amin"}),
    ("index_reduce", [draw(2, 3), places(3, 2), draw(2, 2)], {"dim": 1, "reduce": "mean", "include_self": False}),
    *[("norm", [np.round(draw(3, 4))], {"p": p, "dim": 0}) for p in (0, 0.5, -1, -0.5, 1.5, INF, -INF)],
    *[("cdist", [np.round(draw(3, 2)), np.round(draw(4, 2))], {"p": p}) for p in (0, 0.5, 1.5, 3, INF)],
    *[("pdist", [np.round(draw(4, 3))], {"p": p}) for p in (0, 0.5, 1.5, 3, INF)],
    ("pairwise_distance", [draw(2, 3), draw(3)], {"p": INF, "keepdim": True}),
    ("quantile", [draw(3, 4)], {"q": 0.35, "interpolation": "nearest", "keepdim": True}),
    ("cov", [draw(3, 4), np.array([1, 2, 1, 3]), np.array([0.5, 1.0, 2.0, 0.1])], {"correction": 0}),
    ("trace", [draw(4, 2)], {}),
    ("diag", [draw(4, 2)], {}),
]


@pytest.mark.one_in(30)
@pytest.mark.filterwarnings("ignore:Using padding")  # torch copies the input for an odd margin
@pytest.mark.parametrize("numbers", [False, True], ids=["symbols", "numbers"])
@pytest.mark.parametrize(
    ("name", "given", "options"), CASES, ids=lambda value: value if isinstance(value, str) else None
)
def test_forward_pullback_and_pushforward_are_torchs(
    name: str, given: list[Given], options: dict[str, Any], numbers: bool
) -> None:
    op = entry_named(name)
    program = program_of(op, given, options, numbers)
    arrays = {f"x{n}": a for n, a in enumerate(given) if isinstance(a, np.ndarray)}
    values: Values = forward(program, arrays)
    read_only = {f"x{n}" for n, o in enumerate(op.operands) if o in op.data}
    smooth = [n for n, a in arrays.items() if a.dtype == np.float64 and n not in read_only]
    leaves = {n: torch.tensor(np.asarray(a, float), requires_grad=n in smooth) for n, a in arrays.items()}
    out = by_torch(program, leaves)
    same(out.detach(), values["out"], "the forward value")
    seed = np.random.default_rng(3).integers(-3, 4, size=values["out"].shape).astype(float)
    expected = torch.autograd.grad(out, [leaves[n] for n in smooth], torch.tensor(seed), allow_unused=True)
    found = numeric_pullback(program, values, seed, list(arrays))
    for n, gradient in zip(smooth, expected, strict=True):
        same(np.zeros(arrays[n].shape) if gradient is None else gradient, found[n], f"the pullback by {n}")
        tangent = draw(*arrays[n].shape)
        moved = numeric_pushforward(program, values, n, tangent)
        same(np.sum(found[n] * tangent), np.sum(seed * moved), f"⟨vᵀJ, u⟩ = ⟨v, Ju⟩ by {n}")
    for n in set(arrays) - set(smooth):
        assert not np.any(found[n]), f"nothing flows to {n}"


def test_an_operand_that_may_be_left_out_says_so() -> None:
    for name, optional in {"linear": {"bias"}, "layer_norm": {"weight", "bias"}}.items():
        assert entry_named(name).optional == optional
    assert entry_named("linear").signature.parameters["bias"].default is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("take(x, n)", {"x": np.arange(6).reshape(2, 3), "n": np.array([-1, 0, -4, 5])}),
        ("take(x, n)", {"x": np.arange(4), "n": np.array([[-4, -1], [3, 0]])}),
        ("take_along_dim(x, n, 1)", {"x": np.arange(6).reshape(2, 3), "n": np.array([[-1, 0], [-3, 2]])}),
    ],
)
def test_positions_counted_from_the_end(text, values):
    result = symgrad.explain(
        text, seed=np.arange(1, 1 + values["n"].size).reshape(values["n"].shape), wrt="x", **values
    )
    assert result.passed
    gradient = np.zeros(values["x"].size)
    places = values["n"] if text.startswith("take(") else values["n"] % 3 + 3 * np.arange(2)[:, None]
    np.add.at(gradient, places.reshape(-1), np.arange(1, 1 + values["n"].size))
    np.testing.assert_array_equal(result.gradients["x"].value.reshape(-1), gradient)


@pytest.mark.parametrize(
    ("text", "shape"), [("roll(x, 1, 0)", (0, 2)), ("roll(x, 1)", (0,)), ("roll(x, 1, 1)", (0, 2))]
)
def test_rolling_nothing(text, shape):
    result = symgrad.explain(text, x=np.zeros(shape))
    assert result.passed
    assert result.gradients["x"].value.shape == shape


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "text",
    [
        "scatter_add(x, 0, n, s) ** 2",
        "index_add(x, 0, n, s).tanh()",
        "gather(x, 0, n) ** 2 * s",
        *(f'scatter_reduce(x, 0, n, s, "{kind}")' for kind in ("sum", "prod", "mean", "amax", "amin")),
        'index_reduce(x, 0, n, s, "prod", include_self=False)',
    ],
)
def test_a_page_with_positions_inside_a_formula_is_written(text):
    x, n, s = np.array([1, 2, 3]), np.array([0, 0, 1]), np.array([4, 5, 0])
    told = symgrad.explain(text, x=x, n=n, s=s)
    assert told.passed
    assert "x.grad" in told.to_text()


@pytest.mark.parametrize("text", ["trace(x)", "diag(x).sum()"])
def test_the_diagonal_of_any_matrix(text):
    for shape in ((2, 3), (3, 2)):
        told = symgrad.explain(text, shapes={"x": shape})
        assert told.passed
        np.testing.assert_array_equal(np.asarray(told.gradients["x"].value, float), np.eye(*shape))
    square = symgrad.explain("trace(x)")
    assert square.gradients["x"].value.shape == (2, 2)  # what nothing gives is square


def test_what_is_left_over_at_the_end_is_refused_where_torch_refuses_it() -> None:
    x, w = draw(1, 1, 3), draw(1, 1, 2)
    for over, stride, dilation in itertools.product(range(4), (1, 2, 3), (1, 2)):
        text = f"F.conv_transpose1d(x, w, stride={stride}, output_padding={over}, dilation={dilation})"
        try:
            torch_side.evaluate(text, torch_side.tensors({"x": x, "w": w}, ()))
        except RuntimeError:
            with pytest.raises(ShapeError, match="output_padding has to be smaller"):
                read_program(text, shapes={"x": x.shape, "w": w.shape})
        else:
            read_program(text, shapes={"x": x.shape, "w": w.shape})


@pytest.mark.parametrize("low_and_high", ["1, 1", "3, 1", "-1, 1", "1, 1.0"])
@pytest.mark.parametrize("call", ["clamp", "F.hardtanh"])
def test_bounds_may_meet_and_a_lower_one_lie_above(call: str, low_and_high: str) -> None:
    """The equation is held against torch, entry by entry: at a bound twice that bound had come out."""
    text, x = f"{call}(x, {low_and_high})", np.array([0.5, 1.0, 2.0, 3.0, 4.0])
    if call == "F.hardtanh" and low_and_high == "3, 1":
        with pytest.raises(SymgradError, match="min_val cannot be greater than max_val"):
            symgrad.explain(text, x=x)
        return
    program = read_program(text, shapes={"x": x.shape}).program
    by_loops = Loops({"x": x}, program.sizes).array(local_jacobian(program.steps[0], program).equation)
    same(torch_side.evaluate(text, {"x": torch.tensor(x)}), by_loops, text)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("F.conv1d(x, w, groups=3)", {"x": (1, 6, 3), "w": (4, 2, 2)}),
        ("F.conv_transpose1d(x, w, groups=3)", {"x": (1, 2, 3), "w": (2, 2, 2)}),
        ("F.conv_transpose3d(x, w, groups=2)", {"x": (1, 1, 1, 1, 1), "w": (1, 1, 1, 1, 1)}),
        ("F.group_norm(x, 2)", {"x": (2, 3, 2)}),
    ],
)
def test_channels_that_do_not_make_equal_groups_are_refused(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(ShapeError, match=r"channels do not make \d equal groups"):
        read_program(text, shapes=shapes)


def test_the_first_power_alone_is_torchs() -> None:
    """torch.vander takes N=1, torch.linalg.vander does not, and the first was said to be refused."""
    for increasing in (True, False):
        told = symgrad.explain(f"torch.vander(x, 1, increasing={increasing})", x=[1.0, 2.0, 3.0])
        same(torch.ones(3, 1), told.output, "one column of ones")
        assert told.passed
    with pytest.raises(SymgradError, match="N has to be an integer from 2 up"):
        symgrad.explain("torch.linalg.vander(x, N=1)", x=[1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "text",
    [
        "F.conv1d(x, w, groups=x.shape[1])",
        "F.conv_transpose1d(x, w, groups=x.shape[1])",
        "F.group_norm(x, x.shape[1] // 2)",
    ],
)
def test_groups_may_be_read_from_a_size(text: str) -> None:
    x, w = draw(1, 4, 3), draw(4, 1, 2)
    found = symgrad.explain(text, x=x, **({"w": w} if "w" in text else {}))
    assert found.passed


@pytest.mark.parametrize(
    ("text", "shapes", "told"),
    [
        ("flatten(x, 1, end_dim=0)", {"x": (2, 2, 3)}, "start_dim comes before end_dim"),
        ("F.max_unpool2d(x, n, 3, output_size=2)", {"x": (1, 4, 1, 1), "n": (1, 4, 1, 1)}, "output_size has 2 sizes"),
        ("chunk(x, -3, 1)[0]", {"x": (2, 3)}, "chunks has to be an integer from 1 up"),
    ],
)
def test_options_that_do_not_go_together_are_refused(text: str, shapes: dict[str, tuple[int, ...]], told: str) -> None:
    with pytest.raises(SymgradError, match=told):
        read_program(text, shapes=shapes)
