"""What torch alone says of an expression: its output, J, vᵀJ, slopes on both sides of an entry, which calls ran.

Sentences are held against this (`tests.said_pages`). Nothing here is derived by symgrad: the text runs in torch, J is
torch's, a slope a difference quotient of the forward pass.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from tests import torch_side
from tests.sentences import Numbers

SPREADS = (0.05, 0.7, 3.0, 40.0)
"""How far from 0 an input is moved to see whether what is said of every input holds there."""
STEPS = (1e-3, 1e-4, 1e-5, 1e-6)
"""Steps of difference quotients."""


@dataclass(frozen=True, eq=False)
class Call:
    """One call of torch that ran: its function, what it was given, what came out."""

    function: Any
    args: tuple[Any, ...]
    options: Mapping[str, Any]
    result: Any

    @property
    def name(self) -> str:
        """What the function is called."""
        return getattr(self.function, "__name__", str(self.function)).strip("_")


class Heard(TorchFunctionMode):
    """Every call of torch, as it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls.append(Call(func, args, kwargs or {}, result))
        return result


@dataclass(frozen=True, eq=False)
class Truth:
    """``text`` as torch runs it, at ``inputs``, with the weights ``seed``; ``positions`` are whole numbers."""

    text: str
    inputs: Mapping[str, np.ndarray]
    seed: np.ndarray
    positions: frozenset[str] = frozenset()
    sizes: Mapping[str, int] | None = None

    def known(self, **moved: Any) -> dict[str, torch.Tensor]:
        """The inputs as tensors, some of them replaced."""
        own = {
            n: torch.tensor(np.asarray(a)) if n in self.positions else torch_side.tensor(a)
            for n, a in self.inputs.items()
        }
        return {**own, **{n: a if isinstance(a, torch.Tensor) else torch_side.tensor(a) for n, a in moved.items()}}

    def run(self, **moved: Any) -> torch.Tensor:
        """The output."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch_side.evaluate(self.text, self.known(**moved))

    @cached_property
    def out(self) -> np.ndarray:
        """The output here."""
        return np.asarray(self.run().detach().numpy(), dtype=float)

    def total(self, **moved: Any) -> float:
        """Σ v·out; an output that does not count may be anything."""
        out = np.asarray(self.run(**moved).detach().numpy(), dtype=float)
        weights = np.asarray(self.seed, dtype=float)
        return float(np.sum(weights[weights != 0] * out[weights != 0]))

    @lru_cache(maxsize=64)  # noqa: B019 -- a truth lives as long as its page is read
    def jacobian(self, name: str) -> np.ndarray:
        """J by an input, rows and columns; 0 where torch sees no way."""
        return self.jacobian_at(name, self.inputs[name])

    def jacobian_at(self, name: str, array: np.ndarray) -> np.ndarray:
        """J with the input moved."""
        rows = int(np.prod(self.out.shape, dtype=int))
        columns = int(np.size(array))
        if name in self.positions or rows == 0 or columns == 0:
            return np.zeros((rows, columns))
        x = torch_side.tensor(array)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = torch.autograd.functional.jacobian(lambda value: self.run(**{name: value}), x)
        except RuntimeError as error:
            if "does not require grad" not in str(error) and "not differentiable" not in str(error):
                raise
            found = torch.zeros((*self.out.shape, *x.shape))
        dense = np.asarray(found.numpy(), dtype=float).reshape(rows, columns)
        size = np.abs(dense[np.isfinite(dense)]).max(initial=0.0)
        with np.errstate(invalid="ignore"):
            return np.where(np.abs(dense) < 1e-13 * max(1.0, size), 0.0, dense)

    @cached_property
    def able(self) -> bool:
        """Whether torch has a way back: of some tensors without entries it has none."""
        try:
            return all(self.gradient(name) is not None for name in self.inputs)
        except RuntimeError:
            return False

    def gradient(self, name: str) -> np.ndarray:
        """vᵀJ, as ``out.backward(v)`` leaves it."""
        if name in self.positions:
            return np.zeros(np.shape(self.inputs[name]))
        x = torch_side.tensor(self.inputs[name]).clone().requires_grad_()
        out = self.run(**{name: x})
        weights = torch_side.tensor(self.seed).reshape(out.shape)
        if not out.requires_grad:
            return np.zeros(x.shape)
        out.backward(weights)
        return np.zeros(x.shape) if x.grad is None else x.grad.numpy()

    def numbers(self, name: str) -> Numbers:
        """J as `tests.sentences` takes it."""
        known = {**self.known(), "out": torch_side.tensor(self.out)}
        return Numbers(
            name, self.jacobian(name), self.out.shape, np.shape(self.inputs[name]), known, dict(self.sizes or {})
        )

    def elsewhere(self, name: str) -> Iterator[np.ndarray]:
        """The input moved: near by and far, of both signs, and to small whole numbers."""
        draw, shape = np.random.default_rng(91), np.shape(self.inputs[name])
        for width in SPREADS:
            yield draw.uniform(-width, width, size=shape)
            yield draw.uniform(0, width, size=shape)
        yield draw.integers(-2, 3, size=shape).astype(float)

    def rows(self) -> Iterator[Truth]:
        """The same of each entry of the output that has a weight."""
        for at in np.argwhere(np.asarray(self.seed) != 0):
            weights = np.zeros(np.shape(self.seed))
            weights[tuple(at)] = 1.0
            yield replace(self, seed=weights)

    def moved(self, name: str, at: tuple[int, ...], by: float) -> np.ndarray:
        """The input with one entry moved."""
        array = np.array(self.inputs[name], dtype=float)
        array[at] += by
        return array

    def sides(self, name: str, at: tuple[int, ...]) -> tuple[float, float]:
        """The slopes of Σ v·out left and right of an entry, the entry's own value not looked at."""

        def side(sign: float) -> float:
            best = np.nan
            for step in STEPS:
                h = sign * step * max(1.0, abs(float(np.asarray(self.inputs[name])[at])))
                one, two = (self.total(**{name: self.moved(name, at, k * h)}) for k in (1, 2))
                best = (two - one) / h
            return best

        return side(-1.0), side(1.0)

    @cached_property
    def calls(self) -> list[Call]:
        """The calls of torch that the text makes."""
        with Heard() as heard:
            self.run()
        return heard.calls
