"""Every example of the table has a line of code for every operand, and the lines give its pullback when torch runs them.

Where there is no short notation the line is the index equation as array operations (`symgrad.closed_form.lowering`).
What has no code stands in ``WITHOUT``, with the reason; the list may only shrink.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

import symgrad
from symgrad.backward import backward
from symgrad.backward.grouping import proven, templates
from symgrad.closed_form import grid
from symgrad.errors import UnsupportedError
from symgrad.indexing import fresh
from symgrad.oracles.array_text import evaluate_arrays
from symgrad.oracles.forms import evaluate_lowered
from tests.cases import Case, cases
from tests.compare import assert_same
from tests.lines_of import run_lines
from tests.torch_side import tensors

SIGNS = "torch may hand back the other of two vectors: lines that compute the forward again pull back another sign"
OTHERWISE = {
    "eigh(x).eigenvectors": SIGNS,
    "svd(x, full_matrices=False).U": SIGNS,
    "svd(x, full_matrices=False).Vh": SIGNS,
}
"""Texts that torch does not run as they stand, or not to the same numbers."""
FOUND = "the forward pass finds numbers that no call of torch gives"
LONG = "nobody reads a line of thousands of characters"
WITHOUT: dict[str, str] = {
    "F.pdist(x)": FOUND,
    "F.pdist(x, 1.0)": FOUND,
    "F.pdist(x, 3)": FOUND,
    "quantile(x, 0.3)": FOUND,
    "quantile(x, 0.75, 1, keepdim=True)": FOUND,
    'quantile(x, 0.4, 0, interpolation="midpoint")': FOUND,
    'quantile(x, 0.4, interpolation="higher")': FOUND,
    "lu_factors(x)": "torch has the two factors, not both in one matrix",
    "i1(x)": "torch has no Bessel function of order 2",
    'F.interpolate(x, scale_factor=2, mode="bilinear")': LONG,
    'F.interpolate(x, size=(4, 5), mode="bilinear", align_corners=True)': LONG,
    'F.interpolate(x, size=(3, 4), mode="bicubic")': LONG,
    'F.interpolate(x, size=3, mode="trilinear", align_corners=True)': LONG,
    'F.interpolate(x, size=(2, 2), mode="bilinear", antialias=True)': LONG,
    'F.grid_sample(x, grid, padding_mode="border", align_corners=True)': LONG,
    'F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)': LONG,
    'F.grid_sample(x, grid, "bicubic", align_corners=False)': LONG,
    "grid_sample: F.grid_sample(x, grid, align_corners=False) with x:1x1x2x3x2 grid:1x1x2x1x3": LONG,
}
"""The examples that lack a line, and why."""


def without(case: Case) -> bool:
    """Whether an example is listed, by its text or by that and its shapes."""
    return not WITHOUT.keys().isdisjoint((case.example.text, case.name))


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_lines_of_every_example_give_its_pullback(case: Case) -> None:
    names = [name for name in case.names if name not in case.fixed]
    lines = backward(case.program, names, values=case.values)
    try:
        lines.code()
    except UnsupportedError as error:
        assert without(case), error
        return
    assert not without(case)
    if case.example.text in OTHERWISE:
        return
    (seed,) = case.weights(1)
    found = run_lines(lines, {k: v.detach() for k, v in tensors(case.inputs, case.fixed).items()}, seed)
    expected = symgrad.numeric.numeric_pullback(case.program, case.values, seed, names)
    for name in names:
        assert_same(np.asarray(expected[name], float), found[name].double(), seed=case.seed, what=case.example.text)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_what_nothing_is_asked_of_has_no_lines(case: Case) -> None:
    """``autograd.grad(out, other, allow_unused=True)``, where no path leads to the other: nothing is said, in words."""
    found = backward(case.program, [], values=case.values)
    assert not found.gradients
    assert not found.lines


PARTS = 19


@pytest.mark.one_in(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_without_a_seed_too_the_lines_give_tensors(part: int) -> None:
    """`x_grad = 1 / x.numel()` is a number, and no gradient of x. In parts: which outputs are numbers is asked in each."""
    looked_at = [case for case in cases()[part::PARTS] if case.last.result.shape == ()]
    assert looked_at
    for case in looked_at:
        if without(case) or case.example.text in OTHERWISE:
            continue
        given = {name: case.values[name] for name in case.names}
        found = symgrad.explain(case.example.text, check=False, **given)
        tensor = run_lines(found.backward, {k: v.detach() for k, v in tensors(case.inputs, case.fixed).items()})
        for name in found.backward.gradients:
            value = np.asarray(found.gradients[name].value, float)
            assert_same(value, tensor[name].double(), what=case.name)


def test_the_lists_name_examples_of_the_table() -> None:
    assert {*OTHERWISE, *WITHOUT} <= {text for case in cases() for text in (case.example.text, case.name)}


def line_of(text: str, **shapes: tuple[int, ...]) -> str | None:
    """The line of x.grad."""
    return symgrad.explain(text, shapes=shapes, check=False).backward.gradients["x"].code


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "shapes", "line"),
    [
        ("roll(x, 2)", {"x": (2, 3)}, None),
        ("F.interpolate(x, size=5)", {"x": (2, 1, 3)}, None),
        ("F.multi_margin_loss(x, target)", {"x": (3,), "target": ()}, None),
    ],
)  # fmt: skip
def test_what_has_no_short_notation_is_said_in_array_operations(
    text: str, shapes: dict[str, tuple[int, ...]], line: str | None
) -> None:
    found = line_of(text, **shapes)
    assert found is not None
    assert line in (None, found)
    assert "arange(" in found


def test_array_operations_are_confirmed_before_they_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    proven.forget()
    honest = templates.written_out
    monkeypatch.setattr(templates, "written_out", lambda *args: f"2 * {honest(*args)}")
    lines = symgrad.explain("roll(x, 1)", shapes={"x": (2, 2)}, check=False).backward
    assert not lines.whole
    assert lines.gradients["x"].own == "the array operations were not confirmed"
    with pytest.raises(UnsupportedError, match="not confirmed"):
        lines.code()
    proven.forget()


def test_a_grid_that_would_not_fit_is_refused_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    proven.forget()
    monkeypatch.setattr(templates, "MOST_IN_GRID", 7)
    line = symgrad.explain("roll(x, 1)", shapes={"x": (2, 2)}, check=False).backward.gradients["x"]
    assert line.code is None
    assert line.own == "array operations would lay out a grid of 16 points"
    proven.forget()
    i, j = fresh("i", 3), fresh("j", 4)
    assert grid(i * j, {}) == 12


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "x.__class__", "[x for x in x]", "lambda: x", "x.sum.__self__", "x[x / 1]", "f'{x}'", "(x > 1) - (x > 2)"],
)  # fmt: skip
def test_only_array_operations_are_evaluated(text: str) -> None:
    with pytest.raises(symgrad.SymgradError):
        evaluate_lowered(text, {"x": np.ones(3)})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("arange(3)[:, None] == arange(2)", np.eye(3, 2)),
        ("i = arange(3); where((i > 0) & (i < 2), x, 0)", [0, 2, 0]),
        ("x[(2 * arange(3)).clamp(0, 2)]", [1, 3, 3]),
        ("(x[:, None] * x).sum((0, 1)) / x.shape[0]", 12),
        ("arange(6) // 2 % 3", [0, 0, 1, 1, 2, 2]),
        ("-x.exp().log() @ x", -14),
        ("sort(x, 0).values", [1, 2, 3]),
    ],
)
def test_array_operations_mean_what_torch_means_by_them(text: str, value: Any) -> None:
    assert_same(np.asarray(value, float), evaluate_lowered(text, {"x": np.array([1.0, 2.0, 3.0])}), what=text)
    assert ast.parse(text)


def test_a_call_that_is_no_primitive_is_read_by_the_language() -> None:
    asked: list[str] = []

    def read(text: str, known: Any) -> np.ndarray:
        asked.append(text)
        return np.zeros(2)

    evaluate_arrays("softmax(x + 1, dim=-1)", {"x": np.ones(2)}, read)
    assert asked == ["softmax(x0, dim=-1)"]


def test_options_that_stand_before_a_tensor_have_no_name() -> None:
    """torch.polygamma's second argument is not called x."""
    found = symgrad.explain(
        "t = polygamma(1, x); h = gather(t * x, 0, index); h * t[0]", shapes={"x": (3,), "index": (2,)}, check=False
    )
    forward = {line.name: line.code for line in found.backward.forward}
    assert forward["t"] == "polygamma(1, x)"
    assert forward["h"] == "gather(t1, 0, index)"
