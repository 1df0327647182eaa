"""Entries of the table applied to what was recorded: how arguments become operands, step after step.

torch's own names for parameters are renamed to the table's, what has no mathematics (``dtype``, ``out``, ``device``)
is dropped: the value is compared with torch's afterwards, so that a dropped argument that mattered is noticed.
Arguments are bound by `symgrad.language.binding.bind_arguments`. A composition is made of several such steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from symgrad.entries.spec import Op, is_operand
from symgrad.errors import SymgradError, UnsupportedError
from symgrad.language.binding import TOLD, Argument, Ref, bind_arguments, resolve_keyword
from symgrad.language.builder import StepOperand
from symgrad.ops.calls.registry import Last

NOWHERE = (0, 0)
"""Captured calls have no place in a text."""

DROPPED = frozenset({
    *TOLD, "out", "inplace", "requires_grad", "non_blocking", "_stacklevel", "copy", "half_to_float", "size_average",
    "reduce", "_dtype",
})  # fmt: skip
"""Keywords without mathematics."""
SORT = object()
"""A dtype, device or layout among positional arguments: it has no mathematics."""


def to_operand(value: Any, refs: Mapping[int, Any]) -> Any:
    """An argument as the language means it: a `Ref`, a number, text, a tuple, None."""
    if id(value) in refs:
        return refs[id(value)]
    if isinstance(value, (tuple, list)):
        return tuple(to_operand(part, refs) for part in value)
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**31 else value
    if type(value).__name__ in ("dtype", "device", "layout", "memory_format", "Generator"):
        return SORT
    raise UnsupportedError(f"an argument of type {type(value).__name__} has no place in the table")


def bind_entry_arguments(
    op: Op, spelling: str, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[list[StepOperand], dict[str, Any]]:
    """Operands and options for ``op``; raises `SymgradError` where the entry does not take these arguments."""
    given = [Argument(a, NOWHERE) for a in arguments if a is not SORT]
    for name, value in keywords.items():
        if (name in DROPPED and name not in op.signature.parameters) or value is SORT:
            continue
        own = resolve_keyword(op.signature.parameters, name)
        if own is None:
            if value is None or value is False:
                continue
            own = name
        given.append(Argument(value, NOWHERE, own))
    given = [a for a in given if not (a.keyword and a.meaning is None and _has_default(op, a.keyword))]
    _check_kinds(op, given)
    found = bind_arguments(op, spelling, given, NOWHERE)
    return [StepOperand(m, m.name if isinstance(m, Ref) else str(m)) for m, _ in found.operands], dict(found.options)


def _has_default(op: Op, name: str) -> bool:
    """Whether leaving a parameter out means None."""
    parameter = op.signature.parameters.get(name)
    return parameter is not None and parameter.default is None


def _check_kinds(op: Op, given: Sequence[Argument]) -> None:
    """Refuse a tensor where the entry has an option: its value would have to be known beforehand."""
    options = {p.name for p in op.signature.parameters.values() if not is_operand(p.annotation)}
    for argument in given:
        if argument.keyword in options and isinstance(argument.meaning, Ref) and not op.variadic:
            raise UnsupportedError(f"{argument.keyword} of {op.name} is a tensor here")


Refusals = (SymgradError, TypeError, ValueError, AttributeError, ArithmeticError, LookupError, NotImplementedError,
            AssertionError, RuntimeError)  # fmt: skip
"""What an entry may raise when it does not fit a call: then the next way is tried."""


Composition = Callable[..., Last | None]
Entered = TypeVar("Entered", bound=Callable[..., Any])


def register_handler(table: dict[str, Callable[..., Any]]) -> Callable[..., Callable[[Entered], Entered]]:
    """A decorator that enters a function under torch's last words for what it says, or its own name and ``also``."""

    def under(*words: str, also: Sequence[str] = ()) -> Callable[[Entered], Entered]:
        def entered(function: Entered) -> Entered:
            table.update(dict.fromkeys(words or (function.__name__, *also), function))
            return function

        return entered

    return under


COMPOSITIONS: dict[str, Composition] = {}
"""What only a run can say in entries, by the last word of torch's spelling."""
composition = register_handler(COMPOSITIONS)


def gather_tensor_list(op: Op, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The tensors of an entry that takes any number of them as torch takes them: as one list."""
    row = op.variadic and bool(arguments) and all(hasattr(a, "shape") for a in arguments)
    return (tuple(arguments),) if row else tuple(arguments)


def drop_empty_operands(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Of tensors to join those that torch does not pass over: an empty one with one axis fits any other.

    One is left where all of them are like that.
    """
    parts = tuple(tensors)
    return tuple(t for t in parts if tuple(t.shape) != (0,)) or parts[:1]


def attribute_of_result(known: Callable[..., Last | None]) -> Composition:
    """What the registry knows by the number of the result, for a node."""
    return lambda steps, node, *arguments, **keywords: known(steps, node.index or 0, *arguments, **keywords)
