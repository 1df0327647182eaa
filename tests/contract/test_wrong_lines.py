"""The line of a candidate's own backward that is wrong: named where it is, no other one, and nothing is left behind."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from symgrad.testing import check_backward
from tests.candidates import function, randn
from tests.nights import numbers

PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "an MLP": ("h = tanh(x @ w); h @ u", {"x": (2, 3), "w": (3, 2), "u": (2, 2)}),
    "attention": ("p = softmax(q @ k.T, dim=-1); p @ u", {"q": (3, 2), "k": (2, 2), "u": (2, 3)}),
    "layer norm": ("layer_norm(x, (4,), w, b)", {"x": (3, 4), "w": (4,), "b": (4,)}),
    "a gate": ("g = sigmoid(x @ w); g * tanh(x @ u)", {"x": (2, 3), "w": (3, 2), "u": (3, 2)}),
}
SLIPS = ("{} * 1.3", "{} + 0.1", "({}) ** 2")


def backward_of(text: str, shapes: dict[str, tuple[int, ...]]) -> list[str]:
    """The exported functions, line by line."""
    return symgrad.export(text, shapes=shapes, to="torch", style="functions", name="own").splitlines()


def loaded(path: Path, lines: list[str]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Forward and backward of a module that is written first."""
    path.write_text("\n".join(lines), encoding="utf-8")
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.own, module.own_backward


def assignments(lines: list[str]) -> list[int]:
    """The lines of backward that give a tensor, in one line each."""
    begin = next(n for n, line in enumerate(lines) if line.startswith("def own_backward"))
    return [n for n in range(begin, len(lines)) if " = " in lines[n] and not lines[n].endswith("(")]


def spoiled(lines: list[str], number: int, slip: str) -> list[str]:
    """One line with another right-hand side."""
    target, _, value = lines[number].partition(" = ")
    return [*lines[:number], f"{target} = {slip.format(value)}", *lines[number + 1 :]]


@pytest.mark.parametrize("every", numbers([2], [1]))
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_line_that_was_spoiled_is_the_one_that_is_named(name: str, every: int, tmp_path: Path) -> None:
    """Every second line of every program, at night every one, each spoiled in a way that no list of mistakes knows."""
    text, shapes = PROGRAMS[name]
    lines = backward_of(text, shapes)
    told = harmless = 0
    places = assignments(lines)
    for count, number in list(enumerate(places))[every - 1 :: every]:
        pair = loaded(tmp_path / f"spoiled{count}.py", spoiled(lines, number, SLIPS[count % len(SLIPS)]))
        inputs: dict[str, Any] = {n: randn(*shape, seed=i) for i, (n, shape) in enumerate(shapes.items())}
        report = check_backward(function(*pair), text, only="value", **inputs)
        harmless += report.passed  # v_xhat + 0.1: the mean of v_xhat is taken away from it
        named = {at["line"] for f in report.findings for at in f.evidence.get("lines", ())}
        assert named <= {number + 1}, report.to_text()
        told += bool(named)
    assert harmless == (name == "layer norm")
    assert told >= len(places[every - 1 :: every]) - 1 - harmless


def odd_dt(v: Any, x: Any, w: Any, u: Any) -> Any:
    h = np.tanh(x @ w)
    dh = v @ u.T
    dt = dh * (1 - h**2) + 0.1 * h
    return dt @ w.T, x.T @ dt, h.T @ v


@pytest.mark.slow
def test_a_line_of_a_pair_is_named_with_what_belongs_there() -> None:
    """And whoever traced before does so afterwards, and the inputs are what they were."""
    draw = np.random.default_rng(0).standard_normal
    inputs: dict[str, Any] = {"x": draw((2, 2)), "w": draw((2, 2)), "u": draw((2, 1))}
    copies = {name: array.copy() for name, array in inputs.items()}

    def tracer(frame: Any, event: str, argument: Any) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        pair = (lambda x, w, u: np.tanh(x @ w) @ u), odd_dt
        report = check_backward(pair, "h = tanh(x @ w); h @ u", only="value", **inputs)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    assert {f.kind for f in report.findings} == {"wrong_line"}
    said = " ".join(report.to_text().split())
    assert "`dt = dh * (1 - h ** 2) + 0.1 * h`: what it reads is right; with v_t1 for dt every gradient" in said
    assert "where v_t1 = v_h * (1 - h ** 2)" in said
    assert all(np.array_equal(inputs[name], copies[name]) for name in inputs)


@pytest.mark.slow
def test_two_wrong_lines_are_not_told_as_one() -> None:
    def twice(v: Any, x: Any, w: Any, u: Any) -> Any:
        h = torch.tanh(x @ w)
        dt = (v @ u.T) * h
        du = h.T @ v + 0.3
        return dt @ w.T, x.T @ dt, du

    made = function(lambda x, w, u: torch.tanh(x @ w) @ u, twice)
    inputs: dict[str, Any] = {"x": randn(2, 3), "w": randn(3, 4, seed=1), "u": randn(4, 2, seed=2)}
    report = check_backward(made, "h = tanh(x @ w); h @ u", only="value", **inputs)
    assert not report.passed
    assert "in line" not in report.to_text()
