"""A check whose candidate is named by text, as on a command line; and the same check as a file for pytest.

Comes in: ``package.module:function`` (or ``package.module:forward,backward`` for a pair of NumPy functions) and values.
Goes out: a `BackwardReport`, or the text of a test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from symgrad.errors import InputError, UnknownNameError
from symgrad.numeric import Array, as_float
from symgrad.testing.check import check_backward
from symgrad.testing.data import BackwardReport
from symgrad.tracing import need_torch

MOST = 10_000
"""Entries of the largest value that is written into a test."""


def check_named(
    target: str, expression: str | None, values: Mapping[str, Array], wrt: Sequence[str] | None, dtype: str,
    options: Mapping[str, Any],
) -> BackwardReport:  # fmt: skip
    """Import the candidate and check it; without ``wrt`` all values are floating, else the others stay as they are.

    Raises `UnsupportedError` where PyTorch is not installed: names are found as torch's functions are.
    """
    need_torch()
    from symgrad.tracing.captured.calls import find_target, surroundings

    for name in wrt or ():
        if name not in values:
            raise UnknownNameError(f"there is no value for {name}", found=(f"given: {', '.join(values)}",))
    with surroundings():
        module, _, path = target.partition(":")
        names = path.split(",")
        found = [find_target(f"{module}:{name.strip()}", "") for name in names]
        if len(found) > 2:
            raise InputError("a pair is a forward and a backward", found=(target,), hints=("module:forward,backward",))
        candidate = found[0] if len(found) == 1 else (found[0], found[1])
        inputs = {name: handed(value, wrt is None or name in wrt, dtype) for name, value in values.items()}
        if isinstance(candidate, tuple):
            inputs = {name: tensor.numpy() for name, tensor in inputs.items()}
        return check_backward(candidate, expression, wrt=wrt, **options, **inputs)


def handed(value: Array, floating: bool, dtype: str) -> Any:
    """A value as the candidate gets it."""
    import torch

    if floating or value.dtype.kind == "O":
        return torch.tensor(as_float(value)).to(getattr(torch, dtype))
    return torch.tensor(value)


def written_test(
    target: str, expression: str | None, values: Mapping[str, Array], wrt: Sequence[str] | None, dtype: str,
    options: Mapping[str, Any],
) -> str:  # fmt: skip
    """A pytest file that makes the same check; raises `InputError` for values that are too large to be written."""
    module, _, path = target.partition(":")
    names = [f"{module}.{name.strip()}" for name in path.split(",")]
    pair = len(names) > 1
    library = "import numpy as np" if pair else "import torch"
    ours = "from symgrad.testing import assert_backward"
    lines = [f'"""Written by symgrad check {target}."""', "", library, ours, "", f"import {module}", "", ""]
    given = []
    for name, value in values.items():
        if value.size > MOST:
            raise InputError(f"{name} is too large to be written into a test", found=(f"{value.size:,} entries",))
        floating = wrt is None or name in wrt or value.dtype.kind == "O"
        numbers = as_float(value).tolist() if floating else value.tolist()
        kind = f"{'np' if pair else 'torch'}.{dtype if floating else 'int64'}"
        given.append(f"    {name} = {'np.array' if pair else 'torch.tensor'}({numbers}, dtype={kind})")
    called = names[0] if not pair else f"({', '.join(names)})"
    arguments = [called, *([repr(expression)] if expression is not None else [])]
    arguments += [f"{name}={value!r}" for name, value in options.items() if value not in (None, (), 0)]
    arguments += [f"wrt={list(wrt)!r}"] if wrt is not None else []
    arguments += [f"{name}={name}" for name in values]
    title = path.replace(".", "_").replace(",", "_").replace(" ", "").lower()
    lines += [f"def test_{title}():", *given]
    return "\n".join([*lines, f"    assert_backward({', '.join(arguments)})"])
