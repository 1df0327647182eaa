"""The backward sweep of a captured program on torch's tensors, by the same plans, in the seed's dtype and device.

Comes in: a program, its forward values, seeds as tensors. Goes out: gradients as tensors, computed by torch functions,
so that they can be differentiated with respect to the seeds, or mapped over many seeds by `torch.vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch

from symgrad.errors import InputError, seed_shape_error
from symgrad.functions import PRIMITIVES
from symgrad.lowering.arrays import LIGHT, Engine, Play, Primitives, Put
from symgrad.numeric.exact import Array
from symgrad.tracing.captured.planned import LibrarySweepCache, find_function

Functions = Mapping[str, Callable[..., Any]]


def with_tensor_operands(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that takes only tensors, so that it takes numbers, too."""

    def called(first: Any, second: Any) -> Any:
        if not isinstance(first, torch.Tensor):
            first = torch.as_tensor(first, dtype=second.dtype, device=second.device)
        if not isinstance(second, torch.Tensor):
            second = torch.as_tensor(second, dtype=first.dtype, device=first.device)
        return function(first, second)

    return called


FUNCTIONS: Functions = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b, "power": lambda a, b: a**b, "remainder": lambda a, b: a % b,
    "floor_divide": lambda a, b: a // b, "equal": lambda a, b: a == b, "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b, "less_equal": lambda a, b: a <= b, "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b, "both": torch.logical_and, "any": torch.logical_or, "not": torch.logical_not,
    "clip": torch.clamp, "maximum": with_tensor_operands(torch.maximum), "minimum": with_tensor_operands(torch.minimum),
    "sqrt": torch.sqrt, "negative": torch.neg,
    **{name: getattr(place, name) for place in (torch.special, torch) for name in PRIMITIVES if hasattr(place, name)},
    "atan2": with_tensor_operands(torch.atan2), "nearest": torch.round,
    "polygamma": lambda n, x: torch.polygamma(int(n), x),
    "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "side": lambda x: torch.copysign(torch.ones_like(x), x),
    "whole": lambda x: x.to(torch.int64),
    "steady": lambda x: torch.where(torch.isfinite(x), x, x.new_zeros(())),
}  # fmt: skip
"""Elementwise functions; any other has no plan on tensors."""


def expand_entries(dtype: Any, device: Any, shape: tuple[int, ...]) -> Play:
    """Return a function that expands a tensor or number to ``shape``."""

    def repeated(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.expand(shape)
        return torch.full(shape, float(value), dtype=dtype, device=device)

    return repeated


def slide_windows(axis: int, slopes: Sequence[tuple[int, int]], constant: int, zero: bool) -> Play:
    """Replace an axis by sliding windows: a view if they have unit steps, else a gather."""

    def slid(array: Any) -> Any:
        length = array.shape[axis]
        most = constant + sum(max(s * (n - 1), 0) for s, n in slopes)
        least = constant + sum(min(s * (n - 1), 0) for s, n in slopes)
        before, after = max(0, -least), max(0, most - length + 1)
        if (before or after) and zero:
            widths = [0, 0] * (array.ndim - axis - 1) + [before, after]
            array, start = torch.nn.functional.pad(array, widths), constant + before
        else:
            start = constant
        unit = next((n for n, (s, _) in enumerate(slopes) if s == 1), None)
        if len(slopes) == 2 and unit is not None and slopes[1 - unit][0] > 0 and least + before >= 0 and (
            zero or not (before or after)
        ):  # fmt: skip
            (jump, count), (_, size) = slopes[1 - unit], slopes[unit]
            part = array.narrow(axis, start, jump * (count - 1) + size).unfold(axis, size, jump)
            return part.movedim(-1, axis + 1 if unit else axis)
        places = torch.full((), start, dtype=torch.int64, device=array.device)
        for slope, count in slopes:
            places = places.unsqueeze(-1) + slope * torch.arange(count, device=array.device)
        places = places.clamp(0, array.shape[axis] - 1)
        return gather_clamped(axis, array, places)

    return slid


def gather_clamped(axis: int, array: Any, places: Any) -> Any:
    """Gather entries along an axis; positions outside are clamped."""
    length = array.shape[axis]
    flat = places.clamp(0, length - 1).reshape(-1)
    shape = (*array.shape[:axis], *places.shape, *array.shape[axis + 1 :])
    return array.index_select(axis, flat).reshape(shape)


def reduce_with_torch(function: str, axes: tuple[int, ...]) -> Play:
    """Return a reduction by its name."""
    if function == "prod":

        def multiplied(array: Any) -> Any:
            for axis in reversed(axes):
                array = array.prod(axis)
            return array

        return multiplied
    return lambda array: array.sum(axes) if function == "sum" else array.amax(axes)


class ScatterRows(Put):
    """Scatter-add of terms in each row; positions outside are dropped."""

    def __call__(self, terms: Any, places: Any) -> Any:
        """Scatter terms at positions that are computed at run time."""
        return self.put(places, (places >= 0) & (places < self.length), terms)

    def put(self, places: Any, inside: Any, terms: Any) -> Any:
        """Scatter the terms that are ``inside``."""
        if inside is not None:
            places, terms = places.clamp(0, self.length - 1), torch.where(inside, terms, torch.zeros_like(terms))
        return terms.new_zeros((terms.shape[0], self.length)).scatter_add(1, places, terms)


def fold_windows(parts: Sequence[tuple[Any, Any]], length: int, place: int) -> Play:
    """Return a function that adds slices of an axis and of the last one on a new axis at ``place``."""
    told = [(forward_slice(part), any(is_reversed_slice(along) for along in part[1:]), at) for part, at in parts]

    def added(array: Any) -> Any:
        result = array.new_zeros((*array.shape[:place], length, *array.shape[place + 1 : -1]))
        into, given = result.movedim(place, -1), array.movedim(place, -2)
        for part, backwards, at in told:
            piece = given[part]
            into[at].add_(piece.flip(-1) if backwards else piece)
        return result

    return added


def is_reversed_slice(along: Any) -> bool:
    """Whether a slice runs backwards, which torch's do not."""
    return isinstance(along, slice) and along.step is not None and along.step < 0


def forward_slice(part: Sequence[Any]) -> tuple[Any, ...]:
    """The same entries in the order of the axis; a slice that runs backwards takes every one."""
    return tuple(slice(0 if a.stop is None else a.stop + 1, a.start + 1) if is_reversed_slice(a) else a for a in part)


def select_by_condition(mask: Any, array: Any, other: Any) -> Any:
    """One of two by a condition."""
    like = array if isinstance(array, torch.Tensor) else other
    one, two = (a if isinstance(a, torch.Tensor) else torch.full_like(like, a) for a in (array, other))
    return torch.where(mask, one, two)


SCANS: Mapping[str, Any] = {"sum": torch.cumsum, "prod": torch.cumprod, "logaddexp": torch.logcumsumexp}


def scan_with_torch(function: str, axis: int, backwards: bool) -> Play:
    """What the entries so far come to."""
    if backwards:
        return lambda array: SCANS[function](array.flip(axis), axis).flip(axis)
    return lambda array: SCANS[function](array, axis)


@lru_cache(maxsize=64)
def torch_engine(dtype: Any, device: Any) -> Engine:
    """torch, in one type on one device."""

    def array(value: Any) -> Any:
        found = torch.as_tensor(
            np.array(value, order="C"), device=device
        )  # its own: torch takes none that may not be written
        return found.to(dtype) if found.is_floating_point() else found

    primitives: Primitives = {
        "iota": lambda length: lambda: torch.arange(length, device=device),
        "reshape": lambda shape: lambda a: a.reshape(shape),
        "transpose": lambda order: lambda a: a.permute(order),
        "expand": partial(expand_entries, dtype, device),
        "item": lambda axis, place: lambda a: a.select(axis, place),
        "window": slide_windows,
        "map": lambda name: (lambda x: x.to(dtype)) if name == "float" else find_function(FUNCTIONS, name),
        "where": lambda: select_by_condition,
        "masked": lambda: lambda mask, array: torch.where(mask, array, array.new_zeros(())),
        "join": lambda axis: lambda *parts: torch.cat(parts, axis),
        "scan": scan_with_torch,
        "reduce": reduce_with_torch,
        "product": lambda: torch.matmul,
        "take": lambda axis: partial(gather_clamped, axis),
        "put": ScatterRows,
        "place": lambda place, length: (
            lambda a: torch.nn.functional.pad(a.unsqueeze(0), [0, 0] * a.ndim + [place, length - place - 1])
        ),
        "fold": fold_windows,
    }

    def is_small_or_view(value: Any) -> bool:
        return not isinstance(value, torch.Tensor) or value.nbytes < LIGHT or bool(value._is_view())

    return Engine(primitives, array, torch.add, is_small_or_view, False)


@dataclass(eq=False)
class OnTorch(LibrarySweepCache):
    """The prepared sweeps of one program on tensors, by outputs, inputs, dtype and device."""

    library, words = "torch", "tensors"

    def pull(self, seeds: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
        """Return vᵀJ for each of ``wanted``; raise `UnsupportedError` if a step has no plan."""
        if len({(seed.dtype, seed.device) for seed in seeds.values()}) != 1:
            raise InputError("seeds of several outputs are of one type, on one device")
        first = next(iter(seeds.values()))
        key = (tuple(seeds), tuple(wanted), first.dtype, first.device)
        self.prepare(*key)
        return self.played(self.known[key], seeds, first.new_zeros)

    def seed(self, seed: Any, output: Array, name: str) -> Any:
        """Return a seed as a tensor of its output's shape; a complex one as pairs."""
        if seed is None and output.size == 1:
            seed = torch.as_tensor(np.ones_like(output))
        if not isinstance(seed, torch.Tensor) or not (seed.is_floating_point() or seed.is_complex()):
            raise InputError('with backend="torch" a seed is a tensor of floats', found=(type(seed).__name__,))
        given = torch.view_as_real(seed) if seed.is_complex() else seed
        if tuple(given.shape) != output.shape:
            raise seed_shape_error(tuple(given.shape), name, output.shape)
        return given

    def prepare(self, ends: tuple[str, ...], wanted: tuple[str, ...], dtype: Any, device: Any) -> bool:
        """Prepare a sweep if it is new."""
        key = (ends, wanted, dtype, device)
        if key not in self.known:
            with torch.no_grad():
                self.known[key] = self.prepared(ends, wanted, torch_engine(dtype, device))
        return True

    # torch.compile runs it, and does not look inside. torch.compiler.assume_constant_result sets this mark, too, but
    # loads Dynamo first: a second that every capture would wait.
    prepare._dynamo_marked_constant = True  # type: ignore[attr-defined]  # an attribute of a function
