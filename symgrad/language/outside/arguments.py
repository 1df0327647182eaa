"""Arguments of the functions that users call: of the right kind, or refused by name.

Comes in: whatever was passed. Goes out: the same, plain, or an `InputError` that says what it has to be.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from operator import index
from typing import Any, SupportsIndex

from symgrad.errors import InputError
from symgrad.language.grammar.equations import of_einsum

LONGEST = 60
"""Characters of what was passed that a message repeats."""


def text_of(value: object, what: str) -> str:
    """``value``, which has to be text; einsum's subscripts alone are short for an index equation."""
    if isinstance(value, str):
        return of_einsum(value) or value
    raise wrong(value, f"{what} has to be text", '"x@a"')


def name_of(value: object, what: str) -> str:
    """``value``, which has to be the name of one input."""
    if isinstance(value, str):
        return value
    raise wrong(value, f"{what} has to be the name of an input", '"x"')


def names_of(value: object, what: str) -> tuple[str, ...] | None:
    """Names of inputs, as ``"x, a"`` or as a list of them; None stays None."""
    if value is None:
        return None
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(","))
    if isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping)) and not hasattr(value, "dtype"):
        names = list(value)
        if names and all(isinstance(name, str) for name in names):
            return tuple(names)
    raise wrong(value, f"{what} has to name inputs", '"x", or ["x", "a"]')


def flag_of(value: object, what: str) -> bool:
    """``value``, which has to be True or False."""
    if isinstance(value, bool):
        return value
    raise wrong(value, f"{what} has to be True or False", "True")


def order_of(value: object) -> int:
    """How many derivatives are taken."""
    if isinstance(value, int) and not isinstance(value, bool) and value in (1, 2):
        return value
    raise wrong(value, "order has to be 1 or 2", "order=2")


def number_of(value: object, what: str) -> int:
    """``value``, which has to be a whole number that is not negative."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    raise wrong(value, f"{what} has to be a whole number", "0")


def place_of(value: object, what: str) -> tuple[int, ...]:
    """``value``, which has to be the place of an entry: whole numbers."""
    numbers = tuple(value) if isinstance(value, (tuple, list)) else None
    if numbers is not None and all(isinstance(n, SupportsIndex) and not isinstance(n, bool) for n in numbers):
        return tuple(index(n) for n in numbers)
    raise wrong(value, f"{what} has to be the place of an entry", "(0, 1)")


def entry_of(value: object) -> tuple[str, tuple[int, ...]] | None:
    """The name of an input and the place of one of its entries; None stays None."""
    if value is None:
        return None
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return name_of(value[0], "the first part of entry"), place_of(value[1], "the second part of entry")
    raise wrong(value, "entry has to be an input and the place of an entry", '("x", (0, 1))')


def shapes_of(value: object) -> dict[str, Sequence[Any]]:
    """Shapes by name; what they consist of is looked at where they are read."""
    if value is None:
        return {}
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        bad = [name for name, shape in value.items() if not isinstance(shape, (tuple, list))]
        if not bad:
            return {name: tuple(shape) for name, shape in value.items()}
        raise wrong(value[bad[0]], f"the shape of {bad[0]} has to be a list of sizes", "(2, 3)")
    raise wrong(value, "shapes have to be given by name", '{"x": (2, 3)}')


def values_of(value: object) -> dict[str, Any]:
    """Values by name."""
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return dict(value)
    raise wrong(value, "values have to be given by name", '{"x": [1, 2]}')


def taken_by(function: Callable[..., object], inputs: Sequence[object], values: Mapping[str, object]) -> None:
    """Refuse inputs that a function does not take."""
    try:
        signature(function).bind(*inputs, **values)
    except TypeError as error:
        raise InputError("the function does not take these inputs", found=(str(error),)) from None
    except ValueError:  # torch's own say theirs when they are called
        return


def wrong(value: object, problem: str, example: str) -> InputError:
    """The refusal of an argument."""
    return InputError(problem, found=(f"{type(value).__name__} {shown(value)}".strip(),), hints=(example,))


def shown(value: object) -> str:
    """The beginning of what was passed, where it can be shown."""
    try:
        return reprlib.repr(value)[:LONGEST]
    except Exception:  # whatever a stranger's __repr__ raises
        return ""
