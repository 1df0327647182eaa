"""What a function calls the tensors that it is given.

Comes in: a function and the arguments of one call. Goes out: the name of every tensor among them: its parameter's, a
part of a list by its place, a part of a dictionary by its name and key.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch


def argument_names(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[int, str]:
    """The name of each tensor by its identity; the first, where one tensor is given twice."""
    found: dict[int, str] = {}
    for name, value in named_arguments(function, args, keywords):
        for part, tensor in named_parts(name, value):
            found.setdefault(id(tensor), part)
    return found


def named_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Each argument under its parameter's name, of a module its forward's; numbered without signature."""
    target = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        bound = inspect.signature(target).bind(*args, **keywords)
    except (TypeError, ValueError):
        yield from ((f"x{n + 1}" if n else "x", value) for n, value in enumerate(args))
        yield from keywords.items()
        return
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            yield from value.items()
        else:
            yield name, value


def named_parts(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors inside one argument."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (tuple, list)):
        for n, part in enumerate(value):
            yield from named_parts(f"{name}[{n}]", part)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from named_parts(f"{name}.{key}", part)
