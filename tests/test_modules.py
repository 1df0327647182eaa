"""Modules without parameters in texts: what torch's own module gives when the same line runs."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import symgrad
from symgrad.errors import SymgradError
from symgrad.language.pasted_script import parameterless_function
from tests.compare import assert_same

TOLD = {
    "Threshold": "0.1, 20", "Unfold": "2", "Fold": "(3, 3), 2", "PixelShuffle": "2", "PixelUnshuffle": "2",
    "ChannelShuffle": "2", "LocalResponseNorm": "2", "Softmax2d": "", "AdaptiveAvgPool1d": "2", "AdaptiveAvgPool2d": "2",
    "AdaptiveAvgPool3d": "2", "AdaptiveMaxPool1d": "2", "AdaptiveMaxPool2d": "2", "AdaptiveMaxPool3d": "2",
    "AvgPool1d": "2", "AvgPool2d": "2, stride=1", "AvgPool3d": "2", "MaxPool1d": "2", "MaxPool2d": "2, 1, 1",
    "MaxPool3d": "2", "LPPool1d": "2, 2", "LPPool2d": "2, 2", "LPPool3d": "2, 2",
    "Upsample": "None, 2", "Softmin": "dim=-1",
}  # fmt: skip
"""What a module needs to be told when it is made, and some of what it can be."""
SHAPES = ((4,), (4, 3), (2, 4, 4), (1, 4, 4, 4), (1, 4, 4), (1, 8, 4), (1, 2, 4, 4, 4))
MODULES = sorted(
    name
    for name, found in vars(nn).items()
    if inspect.isclass(found) and issubclass(found, nn.Module) and parameterless_function(name) is not None
)


def test_the_modules_that_people_write_are_among_them() -> None:
    """The rule finds losses, activations and pooling; it finds nothing that has parameters, or that draws."""
    assert {"ReLU", "Softmax", "MSELoss", "CrossEntropyLoss", "BCEWithLogitsLoss", "MaxPool2d", "GELU"} <= set(MODULES)
    for name in MODULES:
        try:
            module = eval(f"nn.{name}({TOLD.get(name, '')})", {"nn": nn})  # noqa: S307 -- the tests' own texts
        except TypeError:  # what it has to be told is nowhere here
            continue
        assert not list(module.parameters()), name
    assert not {"Linear", "LayerNorm", "PReLU", "Conv2d", "Embedding", "Dropout", "RReLU"} & set(MODULES)


def ran(text: str, values: dict[str, np.ndarray], seed: np.ndarray | None) -> tuple[torch.Tensor, dict[str, Any]]:
    """The output of the line in torch, and the gradients."""
    given = {n: torch.tensor(v, requires_grad=v.dtype == float) for n, v in values.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of the axis that it takes
        out = eval(text, {"nn": nn, **given})  # noqa: S307 -- the tests' own texts
    leaves = {n: t for n, t in given.items() if t.requires_grad}
    if seed is None:
        return out, {}
    return out, dict(zip(leaves, torch.autograd.grad(out, list(leaves.values()), torch.tensor(seed)), strict=True))


@pytest.mark.one_in(27, slow=5)
@pytest.mark.parametrize("name", [m for m in MODULES if not m.startswith("MaxUnpool")])  # of places, not of numbers
def test_a_module_is_the_function_that_it_calls(name: str) -> None:
    """With what it is told and what it takes by itself, at as many axes as it takes."""
    generator, compared = np.random.default_rng(0), 0
    for shape in SHAPES:
        for others in ({}, {"y": float}, {"y": int}, {"y": float, "z": float}, {"y": float, "z": int}):
            values = {"x": generator.uniform(0.1, 0.9, shape)}
            for n, kind in others.items():
                at = shape[:1] if kind is int else shape
                values[n] = generator.integers(0, 2, at) if kind is int else generator.uniform(0.1, 0.9, shape)
            text = f"nn.{name}({TOLD.get(name, '')})({', '.join(values)})"
            try:
                out, _ = ran(text, values, None)
                seed = generator.integers(-4, 5, tuple(out.shape)).astype(float)
                _, gradients = ran(text, values, seed)
                found = symgrad.explain(text, seed=seed, check=False, **values)
            except (RuntimeError, TypeError, IndexError, ValueError, SymgradError, AssertionError, NotImplementedError):
                continue
            compared += 1
            for n, expected in gradients.items():
                assert_same(expected, found.gradients[n].value, what=f"{n} of {text} at {shape}", tolerance=1e-6)
    assert compared, name


def test_a_module_that_has_a_name_is_called_by_it() -> None:
    """As people write a training step; a name that is given again is no module any more."""
    x, y = np.array([[1.0, -2.0], [0.5, 3.0]]), np.array([0, 1])
    found = symgrad.explain(
        "criterion = nn.CrossEntropyLoss(label_smoothing=0.1)\nact = nn.ReLU(inplace=True)\n"
        "loss = criterion(act(2 * x), y)\nloss.backward()", x=x, y=y,
    )  # fmt: skip
    leaf = torch.tensor(x, requires_grad=True)
    F.cross_entropy(F.relu(2 * leaf), torch.tensor(y), label_smoothing=0.1).backward()
    assert found.passed
    assert_same(leaf.grad, found.gradients["x"].value, what="x")
    with pytest.raises(SymgradError, match="is a tensor, not a function"):
        symgrad.explain("act = nn.ReLU(); act = 2 * x; act(x)")


@pytest.mark.parametrize("text", ["nn.Identity()(2 * x)", "m = torch.nn.Identity(5); m(x) * 2", "nn.Identity()(x) + x"])
def test_identity_gives_back_what_it_is_given(text: str) -> None:
    found = symgrad.explain(text, shapes={"x": (3,)})
    assert found.passed
    assert_same(np.full(3, 2), found.gradients["x"].value, what=text)


def test_one_with_parameters_is_refused_with_its_function() -> None:
    """They would have a gradient that nobody sees."""
    for text, hint in {"nn.Linear(3, 4)(x)": "F.linear", "nn.LayerNorm(3)(x)": "F.layer_norm"}.items():
        with pytest.raises(SymgradError, match="weights of its own") as caught:
            symgrad.explain(text, shapes={"x": (2, 3)})
        assert any(hint in str(h) for h in caught.value.hints)
