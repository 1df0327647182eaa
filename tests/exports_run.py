"""An exported function beside the text that it was made of, run by torch itself: output, its type, and gradients.

In two precisions, with inputs whose entries lie one after another and with strided ones. Comes in: a text and its
inputs. Goes out: what is not as it should be, in words.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from tests import torch_side
from tests.compare import assert_same

TOLERANCES = {torch.float64: 1e-8, torch.float32: 2e-3}
LAYOUTS = ("contiguous", "strided")


def run_of(source: str, name: str = "") -> Any:
    """The last function that a module defines, or the one by its name."""
    space: dict[str, Any] = {"__name__": "exported"}
    exec(compile(source, "exported", "exec"), space)
    last = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)][-1]
    return space[name or last]


def drawn(shapes: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    """Inputs in double precision."""
    generator = torch.Generator().manual_seed(0)
    return {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}


def leaves(inputs: Mapping[str, Any], fixed: Collection[str], floats: torch.dtype, layout: str) -> dict[str, Any]:
    """The inputs as leaves that collect gradients, but for ``fixed`` ones, which whole numbers stay."""
    found = {}
    for name, array in inputs.items():
        value = np.asarray(array)
        whole = value.dtype.kind in "iub" or (name in fixed and bool(np.all(value == np.round(value.astype(float)))))
        tensor = torch.tensor(value).long() if whole and value.dtype.kind != "b" else torch.tensor(value)
        tensor = tensor if tensor.dtype in (torch.int64, torch.bool) else tensor.to(floats)
        if layout == "strided" and tensor.dim():
            tensor = torch.stack([tensor, torch.zeros_like(tensor)], -1)[..., 0]
        found[name] = tensor.detach().requires_grad_(tensor.is_floating_point() and name not in fixed)
    return found


def slips(
    source: str, text: str, inputs: Mapping[str, Any], fixed: Collection[str] = (), name: str = "own"
) -> Iterator[str]:
    """What an exported class does otherwise than torch does with the text."""
    own = run_of(source, name)
    order = list(inspect.signature(own).parameters)
    for floats, tolerance in TOLERANCES.items():
        for layout in LAYOUTS:
            mine, theirs = (leaves(inputs, fixed, floats, layout) for _ in range(2))
            where = f"{text} in {str(floats).removeprefix('torch.')}, {layout}"
            expected = torch_side.evaluate(text, theirs, as_numbers=False, floats=floats)
            precision = torch.get_default_dtype()
            torch.set_default_dtype(floats)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    found = own(*(mine[n] for n in order))
                    yield from apart(found, expected, mine, theirs, tolerance, where)
            except Exception as error:
                yield f"{where}: {type(error).__name__}: {str(error)[:200]}"
            finally:
                torch.set_default_dtype(precision)


def apart(
    found: Any, expected: Any, mine: Mapping[str, Any], theirs: Mapping[str, Any], tolerance: float, where: str
) -> Iterator[str]:
    """Where two results differ, or their gradients."""
    if expected.is_floating_point() and found.dtype != expected.dtype:
        yield f"{where}: it has the type {found.dtype}, torch's {expected.dtype}"
    try:
        assert_same(expected.detach().double(), found.detach().double(), tolerance=tolerance, what=where)
    except AssertionError as error:
        yield f"{where}: the output: {str(error)[:300]}"
        return
    moving = [n for n, leaf in theirs.items() if leaf.requires_grad]
    if not expected.requires_grad:
        return
    weights = torch.linspace(-1, 2, expected.numel(), dtype=torch.float64).reshape(expected.shape)
    wanted = torch.autograd.grad(expected, [theirs[n] for n in moving], weights.to(expected.dtype), allow_unused=True)
    if not found.requires_grad:
        yield f"{where}: its output has no gradient"
        return
    got = torch.autograd.grad(found, [mine[n] for n in moving], weights.to(found.dtype), allow_unused=True)
    for name, one, other in zip(moving, wanted, got, strict=True):
        first, second = (torch.zeros_like(theirs[name]) if g is None else g for g in (one, other))
        if first.dtype != second.dtype:
            yield f"{where}: {name}.grad has the type {second.dtype}"
        try:
            assert_same(first.double(), second.double(), tolerance=tolerance, what=where)
        except AssertionError as error:
            yield f"{where}: {name}.grad: {str(error)[:300]}"
