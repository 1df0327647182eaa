"""A torch call's arguments → operands and options of an entry of the table.

torch's own names for parameters are renamed to the table's, what has no mathematics (``dtype``, ``out``,
``device``) is dropped: the value is compared with torch's afterwards, so that a dropped argument that mattered
is noticed. Binding itself is the language's (`symgrad.language.steps.calls.bind`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.entries.spec import Op, is_operand
from symgrad.errors import SymgradError, UnsupportedError
from symgrad.language.steps.builder import Operand
from symgrad.language.steps.calls import TOLD, Argument, Ref, bind, parameter_name

NOWHERE = (0, 0)
"""Captured calls have no place in a text."""

DROPPED = frozenset({
    *TOLD, "out", "inplace", "requires_grad", "non_blocking", "_stacklevel", "copy", "half_to_float", "size_average",
    "reduce", "_dtype",
})  # fmt: skip
"""Keywords without mathematics."""


class Sort:
    """A dtype, device or layout among positional arguments: it has no mathematics."""


SORT = Sort()


def meaning(value: Any, refs: Mapping[int, Any]) -> Any:
    """An argument as the language means it: a `Ref`, a number, text, a tuple, None."""
    if id(value) in refs:
        return refs[id(value)]
    if isinstance(value, (tuple, list)):
        return tuple(meaning(part, refs) for part in value)
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**31 else value
    if type(value).__name__ in ("dtype", "device", "layout", "memory_format", "Generator"):
        return SORT
    raise UnsupportedError(f"an argument of type {type(value).__name__} has no place in the table")


def bound(
    op: Op, spelling: str, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[list[Operand], dict[str, Any]]:
    """Operands and options for ``op``; raises `SymgradError` where the entry does not take these arguments."""
    given = [Argument(a, NOWHERE) for a in arguments if a is not SORT]
    for name, value in keywords.items():
        if (name in DROPPED and name not in op.signature.parameters) or value is SORT:
            continue
        own = parameter_name(op.signature.parameters, name)
        if own is None:
            if value is None or value is False:
                continue
            own = name
        given.append(Argument(value, NOWHERE, own))
    given = [a for a in given if not (a.keyword and a.meaning is None and _has_default(op, a.keyword))]
    _check_kinds(op, given)
    found = bind(op, spelling, given, NOWHERE)
    return [Operand(m, m.name if isinstance(m, Ref) else str(m)) for m, _ in found.operands], dict(found.options)


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
