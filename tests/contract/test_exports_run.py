"""Every exported function runs, by torch itself: in two precisions, at several sizes, contiguous and strided.

Texts that put the table's operations beside each other (the table itself: `tests.test_lines_of_the_table`): truth values, views, casts, sizes of 1. Where a source
does not take some sizes it says so; else it has torch's output, its type and its gradients.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from tests.exports_run import leaves, run_of, slips

draw = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray:
    """Normal numbers."""
    return draw.normal(size=shape)


def truths(*shape: int) -> np.ndarray:
    """Truth values."""
    return draw.normal(size=shape) > 0


TEXTS: list[tuple[str, dict[str, Any]]] = [
    ("torch.masked_fill(x, m.double() > 0, 2.)", {"x": numbers(3), "m": truths(3)}),
    ("torch.masked_fill(x, m, 2.)", {"x": numbers(3), "m": truths(3)}),
    ("torch.masked_fill(x, m.bool(), 2.)", {"x": numbers(3), "m": truths(3)}),
    ("where(c, 0., x)", {"c": truths(3), "x": numbers(3)}),
    ("torch.where(c, 0., x)", {"c": truths(3), "x": numbers(3)}),
    ("torch.where(c > 0, 0., x)", {"c": numbers(3), "x": numbers(3)}),
    ("torch.where(x > 0, y, 0.).sum(0)", {"x": numbers(3, 2), "y": numbers(3, 2)}),
    ("torch.float_power(x, 2)", {"x": numbers(3)}),
    ("torch.float_power(x, 2).sum()", {"x": numbers(3)}),
    ("torch.float_power(x, y)*x", {"x": np.abs(numbers(3)), "y": numbers(3)}),
    ("x.double() * 2", {"x": numbers(3)}),
    ("x.to(torch.float64).sum()", {"x": numbers(3)}),
    ("x.sqrt()", {"x": np.abs(numbers(2, 3))}),
    ("x.sqrt()", {"x": np.abs(numbers(3))}),
    ("x.sqrt()", {"x": np.abs(numbers())}),
    ("b[2:-4]", {"b": numbers(7)}),
    ("b[2:-4]", {"b": numbers(6)}),
    ("b[2:-4]", {"b": numbers(9)}),
    ("b[2:-4]", {"b": numbers(4)}),
    ("w.squeeze(1)", {"w": numbers(2, 3)}),
    ("w.squeeze(1)", {"w": numbers(2, 1)}),
    ("w.squeeze()", {"w": numbers(2, 1)}),
    ("w.squeeze()", {"w": numbers(2, 3)}),
    ("w / b", {"w": numbers(3), "b": numbers(3)}),
    ("w / b", {"w": numbers(1), "b": numbers(3)}),
    ("w / b", {"w": numbers(3), "b": numbers(1)}),
    ("w * b", {"w": numbers(2, 3), "b": numbers(3)}),
    ("w * b", {"w": numbers(2, 1), "b": numbers(1, 3)}),
    ("F.lp_pool1d(x, 2, 2)", {"x": np.zeros((2, 4))}),
    ("F.lp_pool2d(x, 2, 2)", {"x": np.zeros((1, 2, 4))}),
    ("F.lp_pool1d(x, 3, 2)", {"x": np.zeros((2, 4))}),
    ("F.lp_pool1d(x, 1, 2)", {"x": np.zeros((2, 4))}),
    ("F.lp_pool1d(x, 2, 2)", {"x": numbers(2, 5)}),
    ("x.norm(3, dim=0)", {"x": np.zeros((2, 4))}),
    ("(x > 0) * y", {"x": numbers(3), "y": numbers(3)}),
    ("(x > 0).sum() * y", {"x": numbers(3), "y": numbers(3)}),
    ("(x > 0) * y / (x > 0).sum()", {"x": numbers(4), "y": numbers(4)}),
    ("((x > 0) * y).sum() + (x > 0).sum(0)", {"x": numbers(4), "y": numbers(4)}),
    ("(x[1:] * x[:-1]).cumsum(0).tanh().mean()", {"x": numbers(9)}),
    ("(x > 0).double().mean() * y", {"x": numbers(3), "y": numbers(3)}),
    ("((x > 0) & (y > 0)) * y", {"x": numbers(3), "y": numbers(3)}),
    ("~(x > 0) * y", {"x": numbers(3), "y": numbers(3)}),
    ("torch.logical_not(x > 0) * y", {"x": numbers(3), "y": numbers(3)}),
    ("x.masked_fill(x > 0, 0.) + y[:, None]", {"x": numbers(3, 2), "y": numbers(3)}),
    ("torch.linalg.solve(a, b)", {"a": numbers(2, 2) + 3 * np.eye(2), "b": numbers(2, 3)}),
    ("torch.linalg.solve(a, b)", {"a": numbers(2, 2) + 3 * np.eye(2), "b": numbers(2)}),
    ("x.mean(0) / x.std(0)", {"x": numbers(4, 3)}),
    ("x.var(0, unbiased=False)", {"x": numbers(1, 3)}),
    ("x[:, 1:] - x[:, :-1]", {"x": numbers(2, 4)}),
    ("x[::2].sum()", {"x": numbers(5)}),
    ("x[-1]", {"x": numbers(5)}),
    ("x[..., None] * y", {"x": numbers(2), "y": numbers(3)}),
    ("x.index_select(0, n)", {"n": np.array([1, 1]), "x": numbers(3, 2)}),
    ("x[n]", {"n": np.array([1, 1]), "x": numbers(3, 2)}),
    ("(x.round() == y).sum() * x", {"x": numbers(3), "y": numbers(3)}),
    ("x.sign() * y", {"x": numbers(3), "y": numbers(3)}),
    ("x.clamp(min=0).sum() / (x > 0).sum()", {"x": numbers(3)}),
    ("x / (x > 0).sum(0)", {"x": numbers(3, 2) + 2}),
    ("(x * m).sum() / m.sum()", {"x": numbers(3), "m": truths(3) | True}),
    ("torch.std_mean(x)[0]", {"x": numbers(3)}),
    ("x.cumsum(0)", {"x": numbers(3)}),
    ("x.prod(0)", {"x": numbers(3, 2)}),
    ("x.amax(1)", {"x": numbers(3, 2)}),
    ("x.pow(3).pow(0.5).nan_to_num()", {"x": numbers(3)}),
    ("x**y", {"x": np.abs(numbers(3)), "y": numbers(3)}),
    ("2**x", {"x": numbers(3)}),
    ("x % y", {"x": numbers(3), "y": numbers(3)}),
    ("torch.eq(x, y) * x", {"x": numbers(3), "y": numbers(3)}),
    ("(x >= y) * 1.0 * x", {"x": numbers(3), "y": numbers(3)}),
    ("torch.where(x > y, 1., 0.) * x", {"x": numbers(3), "y": numbers(3)}),
    ("torch.where(x > y, 1, 0) * x", {"x": numbers(3), "y": numbers(3)}),
    ("(x > 0).to(x.dtype) * x", {"x": numbers(3)}),
    ("(x > 0).type_as(x) * x", {"x": numbers(3)}),
    ("(x > 0).int() * x", {"x": numbers(3)}),
    ("(x>0).any() * x", {"x": numbers(3)}),
    ("(x>0).all() * x", {"x": numbers(3)}),
    ("torch.isnan(x) * x", {"x": numbers(3)}),
    ("x.sort().values", {"x": numbers(3)}),
    ("x.topk(2).values", {"x": numbers(3)}),
]


@pytest.mark.one_in(4, alone=4)
@pytest.mark.parametrize("known", [True, False], ids=["shapes", "open"])
@pytest.mark.parametrize("place", range(len(TEXTS)), ids=[text for text, _ in TEXTS])
def test_what_is_exported_of_a_text_is_torchs(place: int, known: bool) -> None:
    text, inputs = TEXTS[place]
    shapes = {name: np.shape(value) for name, value in inputs.items()} if known else None
    source = symgrad.export(text, shapes=shapes, name="own")
    fixed = [name for name, value in inputs.items() if np.asarray(value).dtype.kind in "ib"]
    found = [slip for slip in slips(source, text, inputs, fixed) if known or "own takes" not in slip]
    assert found == []


CONDITIONS = [
    "mean((c >= 0.5) + x > 3) * y", "mean(y * -2 >= 7) * x", "masked_fill(x, c, 2.)", "where(c, 0., x)",
    "where(c, x, y).sum()", "std((x > 0) * 1) * y",  "softmax(x > 0, 0) * x",
    "(x > 0).cumsum(0) * x", "norm(x > 0) * x", "exp(x > 0) * x", "torch.masked_fill(x, c.double(), 2.)",
]  # fmt: skip
"""Texts that torch itself refuses for a truth value, or a condition in numbers: what is exported of them runs."""


@pytest.mark.parametrize("style", ["class", "functions"])
@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions_in_numbers_and_truth_values_in_sums_run(text: str, style: str) -> None:
    source = symgrad.export(text, style=style, name="own")
    values = {"x": numbers(3), "y": numbers(3), "c": np.array([1.0, 0.0, 1.0])}
    for floats in (torch.float32, torch.float64):
        given = leaves(values, ("c",), floats, "contiguous")
        given["c"] = torch.tensor(values["c"], dtype=floats)
        own = run_of(source, "own")
        arguments = [given[name] for name in inspect.signature(own).parameters]
        out = own(*arguments)
        if style == "functions":
            assert run_of(source, "own_backward")(torch.ones_like(out), *arguments) is not None
        else:
            torch.autograd.grad(out.sum(), [t for t in arguments if t.requires_grad], allow_unused=True)


OPEN = (
    "x.sqrt()", "x * y", "x / y", "x[2:-4]", "x.squeeze(1)", "x.squeeze()", "softmax(x, dim=-1)", "x - x.mean()", "x @ w",
    "x.std()", "x.unfold(0, 2, 1)", "x[::2]", "x[1:] - x[:-1]", "F.avg_pool1d(x, 2)", "x.flip(0)", "F.pad(x, (1, 1))",
    "torch.diff(x)", "cumsum(x, 0)", "x[:, 0]", "x.T @ x", "x.roll(1)", "x.narrow(0, 0, 2)", "norm(x)",
    "F.normalize(x, dim=0)", "F.layer_norm(x, (2,))", "x.reshape(-1, 2)", "outer(x, y)", "x.var(0)", "logsumexp(x, 0)",
)  # fmt: skip


@pytest.mark.one_in(6, alone=3)
@pytest.mark.parametrize("text", OPEN)
def test_a_line_for_any_size_holds_at_small_sizes_or_says_where(text: str) -> None:
    """At 1, 2, 3 and 7: a size at which the text means other steps is refused by the source, with what it takes."""
    source, tried = symgrad.export(text, name="own"), 0
    shapes = {t.name: len(t.shape) for t in symgrad.derive(text)[0].inputs}
    for size in (1, 2, 3, 7):
        inputs = {name: 0.5 + np.abs(numbers(*[size] * rank)) for name, rank in shapes.items()}
        try:
            found = [*slips(source, text, inputs)]
        except (RuntimeError, IndexError):  # torch refuses the text at this size
            continue
        tried += not any("own takes" in slip for slip in found)
        assert all("own takes" in slip and ("≥" in slip or "×" in slip or ": " in slip) for slip in found), found
    assert tried


@pytest.mark.parametrize("text", ["x.sqrt() * y", "tanh(x)", "x / (1 + x * x)", "where(x > y, x, y)"])
def test_a_pointwise_function_takes_any_number_of_axes(text: str) -> None:
    source = symgrad.export(text, name="own")
    names = inspect.signature(run_of(source, "own")).parameters
    for shape in ((), (4,), (2, 3), (2, 1, 3)):
        assert [*slips(source, text, {name: np.abs(numbers(*shape)) + 0.1 for name in names})] == []
    if len(names) > 1:
        with pytest.raises(ValueError, match="in one shape"):
            run_of(source, "own")(torch.ones(3), torch.ones(2))


def test_sizes_that_a_text_needs_are_said() -> None:
    with pytest.raises(ValueError, match="b: m, m ≥ 6"):
        run_of(symgrad.export("b[2:-4]"))(torch.ones(5))
    from click.testing import CliRunner

    from symgrad_cli.main import main

    told = CliRunner().invoke(main, ["derive", "b[2:-4]"]).stdout
    assert "This holds for m ≥ 6" in told
    assert "This holds for" not in CliRunner().invoke(main, ["derive", "b @ a"]).stdout


SHOWN = (
    "eigh(x).eigenvalues",
    "torch.linalg.svd(x, full_matrices=False).S",
    "torch.linalg.solve(x, y)",
    "torch.linalg.pinv(x)",
)


@pytest.mark.parametrize("text", SHOWN)
def test_a_shown_function_that_is_not_torchs_or_fs_has_its_module(text: str) -> None:
    """torch.svd and torch.solve are other functions than torch.linalg.svd and torch.linalg.solve."""
    told = symgrad.explain(text, x=np.eye(2) + 0.3, **({"y": np.ones((2, 2))} if "y" in text else {}), check=False)
    lines = [line.shown for line in (*told.backward.lines, *told.backward.gradients.values(), *told.backward.forward)]
    lines += [g.closed_form or "" for g in told.gradients.values()]
    for name in ("eigh", "svd", "solve", "pinv"):
        assert not [line for line in lines if f"{name}(" in line.replace(f"torch.linalg.{name}(", "")]


@pytest.mark.parametrize("text", ["a[..., [0, 0, 0]]", "torch.logdet(torch.eye(2) + a.T @ a)", "a * torch.arange(2)"])
def test_a_constant_stands_beside_the_lines_that_read_it(text: str) -> None:
    found = symgrad.explain(text, a=np.array([[1.0, 2.0], [3.0, 5.0]]), check=False)
    (name, made), *_ = found.program.made.items()
    assert f"with {name} = {made.code}" in found.to_text()
    code = found.backward.code()
    assert f"    {name} = {made.code}" in code
    space: dict[str, Any] = {}
    exec(code, space)
    a = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    seeds = [] if found.output.size == 1 else [torch.ones(found.output.shape)]
    got = space["backward"](a, *seeds)
    np.testing.assert_allclose(got.numpy(), np.asarray(found.gradients["a"].value, float), rtol=1e-4)


def test_a_text_that_computes_in_other_floats_is_exported_so() -> None:
    source = symgrad.export("torch.float_power(x, 2)", style="functions", name="own")
    x = torch.tensor([0.1, 0.2])
    assert run_of(source, "own")(x).dtype == torch.float64
    assert "torch.float64" not in symgrad.export("x ** 2")
