"""How an entry calls torch: by a spelling, with its operands and options in the order that torch expects.

Comes in: torch, tensors and options. Goes out: the tensor that torch computes, the independent answer to the equation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from symgrad.entries.signatures import CallPattern
from symgrad.errors import InputError


def as_torch_reads(tensor: Any, is_data: bool, whole: bool) -> Any:
    """An operand for torch: data as a copy, integers where they are ``whole`` and their values are integers."""
    if tensor is None or not is_data:
        return tensor
    return tensor.long() if whole and (tensor == tensor.round()).all() else tensor.clone()


def path_of(spelling: str) -> list[str]:
    """Where torch has a function, attribute by attribute.

    >>> path_of("torch.linalg.inv"), path_of("F.relu"), path_of("Tensor.clamp")
    (['linalg', 'inv'], ['nn', 'functional', 'relu'], ['Tensor', 'clamp'])
    """
    return spelling.removeprefix("torch.").replace("F.", "nn.functional.", 1).split(".")


def by_spelling(
    path: str, call: CallPattern | None = None, whole: Sequence[str] = (), returns: Sequence[str] = ()
) -> Callable[..., Any]:
    """torch's function of this name, options as plain numbers; a number among tensors becomes one.

    With a ``call`` whose options stand among its tensors the arguments are in its order; those ``whole`` are integers
    if their values are.
    Of several results it is the first that ``returns`` names, or the one whose number the option ``part`` is.
    """
    steps = path_of(path)

    def by_torch(torch: Any, *tensors: Any, **options: Any) -> Any:
        function: Any = tensors[0] if steps[0] == "Tensor" else torch
        for step in steps[1:] if steps[0] == "Tensor" else steps:
            function = getattr(function, step)
        if not callable(function):
            return function
        kind = next((t.dtype for t in tensors if isinstance(t, torch.Tensor)), torch.float64)
        given = [
            t if t is None or isinstance(t, torch.Tensor) else torch.as_tensor(float(t), dtype=kind) for t in tensors
        ]
        if call and not call.variadic:  # torch writes into running statistics, and asks for them where there are none
            given = [as_torch_reads(t, n in call.data, n in whole) for n, t in zip_longest(call.operands, given)]
        if steps[0] == "Tensor":
            del given[0]
        part = options.pop("part", None)
        named = {name: plain_option(value) for name, value in options.items() if value is not None}
        several = call.signature.parameters.values() if call else ()
        order = [p.name for p in several if p.kind is not p.KEYWORD_ONLY]
        if call and call.operands != tuple(order)[: len(call.operands)]:
            there = {**dict(zip(call.operands, given, strict=False)), **named}
            before = order[: max(order.index(name) for name in call.operands if name in order) + 1]
            given = [there[name] for name in before if name in there]
            named = {name: value for name, value in there.items() if name not in before and value is not None}
        found = function(*given, **named)
        if part is not None:
            return found[part]
        return getattr(found, returns[0]) if returns and not isinstance(found, torch.Tensor) else found

    return by_torch


def call_of_torch(
    home: Sequence[str], call: CallPattern, whole: Sequence[str] = (), returns: Sequence[str] = ()
) -> Callable[..., Any]:
    """torch's function by the first spelling in ``home``; refuses an entry that says nowhere how torch computes it."""
    if not home:
        raise InputError(
            f"{call.name} has no spelling in torch, so its row has to say how torch computes it",
            found=("home=()",),
            hints=(f"torch=lambda torch, {', '.join(call.signature.parameters)}: …",),
        )
    return by_spelling(home[0].format(call.name), call, whole, returns)


def plain_option(value: Any) -> Any:
    """An option as torch takes it."""
    if isinstance(value, tuple):
        return tuple(map(plain_option, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return int(value) if getattr(value, "is_Integer", False) else float(value)
