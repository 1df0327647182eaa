"""The lines of a backward run as a person would run them: pasted into Python, with torch."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from symgrad.backward import Backward
from symgrad.backward.code import write_torch_code
from symgrad.language.trees import read_form

MODULES = {"torch": torch, "F": torch.nn.functional, "math": math, "np": np}
"""What the modules in a line are."""


@contextmanager
def torchs_floats(floats: torch.dtype) -> Iterator[None]:
    """Inside, torch's floats are these: (x > 0) / 3 has them."""
    precision = torch.get_default_dtype()
    torch.set_default_dtype(floats)
    try:
        yield
    finally:
        torch.set_default_dtype(precision)


def run_lines(
    lines: Backward, inputs: Mapping[str, Any], *seeds: Any, floats: torch.dtype = torch.float64
) -> dict[str, torch.Tensor]:
    """What ``lines.code()`` computes, by the tensors that the gradients belong to."""
    with torchs_floats(floats):
        return as_pasted(lines, inputs, *seeds, floats=floats)


def as_pasted(
    lines: Backward, inputs: Mapping[str, Any], *seeds: Any, floats: torch.dtype = torch.float64
) -> dict[str, torch.Tensor]:
    """The same with torch's floats as they are: what is computed of truth values alone has theirs."""
    space: dict[str, Any] = {}
    exec(lines.code(), space)
    given = [tensor_of(inputs[name]) for name in lines.inputs if name not in lines.constants]
    found = space["backward"](*given, *(tensor_of(np.asarray(seed, dtype=float)).to(floats) for seed in seeds))
    return dict(zip(lines.gradients, found if isinstance(found, tuple) else (found,), strict=True))


def tensor_of(value: Any) -> torch.Tensor:
    """A tensor as it lies in memory, or an array as one."""
    return value if isinstance(value, torch.Tensor) else torch.as_tensor(np.asarray(value))


def run_form(text: str, given: Mapping[str, torch.Tensor], floats: torch.dtype) -> torch.Tensor:
    """What a form comes to, with its functions where torch has them."""
    form = read_form(text)
    space: dict[str, Any] = {**MODULES, **given}
    with torchs_floats(floats):
        for name, value in (*form.definitions, ("", form.last)):
            space[name] = eval(write_torch_code(value, given), space)  # noqa: S307 -- symgrad's own line
    return torch.as_tensor(space[""])


def strange(text: str, known: Collection[str]) -> list[str]:
    """The names that a line reads and that are none of ``known``, no module and no function of torch's."""
    defined, found = {*known, *MODULES}, []
    for part in ast.parse(text.replace("; ", "\n")).body:
        called = {id(node.func) for node in ast.walk(part) if isinstance(node, ast.Call)}
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in defined:
                of_torch = hasattr(torch, node.id) or hasattr(torch.nn.functional, node.id)
                found += [] if id(node) in called and of_torch else [node.id]
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in MODULES:
                found += [] if hasattr(MODULES[node.value.id], node.attr) else [ast.unparse(node)]
        defined |= {
            node.id for node in ast.walk(part) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
    return found
