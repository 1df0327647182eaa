"""A program of one step of an operation, with sizes as symbols or as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp
import torch

from symgrad.language.builder import make_hashable
from symgrad.numeric.forward_pass import options_of
from symgrad.ops import Op, entry_named
from symgrad.program import Apply, Argument, Constant, Program, Tensor
from symgrad.shapes import Size, Sizes

Given = np.ndarray | float | None


def program_of(op: Op, given: list[Given], options: dict[str, Any], numbers: bool) -> Program:
    """One step of ``op``, after the broadcasts that it asks for."""
    sizes, known = Sizes(), dict[int, Size]()

    def size(n: int) -> Size:
        return sp.Integer(n) if numbers else known.setdefault(n, sizes.given(n))

    shapes = tuple(None if a is None else tuple(size(n) for n in np.shape(a)) for a in given)
    defaults = {n: p.default for n, p in op.signature.parameters.items() if n not in op.operands}
    prepared = op.rules.prepare(shapes, **{**defaults, **options})
    targets = op.rules.align(sizes, shapes, **prepared)
    steps: list[Apply] = []
    arguments: list[Argument] = []
    for n, (value, shape, target) in enumerate(zip(given, shapes, targets, strict=True)):
        if value is None or isinstance(value, float):
            arguments.append(Constant(value))
        elif sizes.shape(shape) == sizes.shape(target):
            arguments.append(f"x{n}")
        else:
            wide = sizes.shape(target)
            steps.append(Apply("expand", (f"x{n}",), (("shape", wide),), Tensor(f"wide{n}", wide)))
            arguments.append(f"wide{n}")
    aligned = tuple(
        None if v is None else () if isinstance(v, float) else t for v, t in zip(given, targets, strict=True)
    )
    out = sizes.shape(op.rules.shape(sizes, aligned, **prepared))
    settled = tuple(sorted((k, settle(sizes, make_hashable(v))) for k, v in prepared.items()))
    inputs = tuple(Tensor(f"x{n}", sizes.shape(s)) for n, s in enumerate(shapes) if isinstance(given[n], np.ndarray))
    return Program(
        inputs, (*steps, Apply(op.name, tuple(arguments), settled, Tensor("out", out))), "out", sizes.values()
    )


def settle(sizes: Sizes, value: Any) -> Any:
    """An option with its sizes as their representatives."""
    if isinstance(value, tuple):
        return tuple(settle(sizes, v) for v in value)
    return sizes.find(value) if isinstance(value, sp.Expr) else value


def by_torch(program: Program, leaves: dict[str, torch.Tensor]) -> torch.Tensor:
    """torch's forward, step by step."""
    tensors = dict(leaves)
    for step in program.steps:
        arguments = [
            tensors[a]
            if isinstance(a, str)
            else None
            if a.value is None
            else torch.tensor(float(a.value), dtype=torch.float64)
            for a in step.arguments
        ]
        tensors[step.result.name] = entry_named(step.op).torch(torch, *arguments, **options_of(step, program.sizes))
    return tensors[program.output]
