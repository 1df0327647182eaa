"""A step pulled back with another option than it has: along another axis, with a default, with a switch turned.

Comes in: a `Place`. Goes out: kinds, clauses and changed pullbacks, for `symgrad.testing.slips.step_slips`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Hashable, Iterator
from dataclasses import replace

import numpy as np
import sympy as sp

from symgrad.entries.spec import Op
from symgrad.errors import SymgradError
from symgrad.language.open_ones import retype
from symgrad.numeric import forward
from symgrad.ops.entry import entry_of
from symgrad.program import Apply
from symgrad.shapes import SizeMismatch, Sizes
from symgrad.testing.slips.places import Change, Place

AXES = ("dim", "dims", "dim0", "dim1")
"""What options are called that name axes; torch calls them so in all of its functions."""


def axes(place: Place) -> Iterator[tuple[str, str, Change]]:
    """Another axis in the place of the one that an option names."""
    rank = np.ndim(place.operand)
    for number, (option, value) in enumerate(place.step.options):
        single = value if isinstance(value, int) else value[0] if isinstance(value, tuple) and len(value) == 1 else None
        if option not in AXES or not isinstance(single, int) or isinstance(single, bool) or not -rank <= single < rank:
            continue
        for other in range(rank):
            if other == single % rank:
                continue
            step = with_option(place.step, number, (other,) if isinstance(value, tuple) else other)
            said = f"this is what axis {other} gives, and {place.step.called} is along axis {single % rank}{place.said}"
            yield "wrong_axis", said, lambda cotangent, s=step: place.pulled(cotangent, None, s)  # type: ignore[misc]  # a default binds


def options(place: Place) -> Iterator[tuple[str, str, Change]]:
    """The default in the place of an option, a switch the other way round, 0 or 1 for a number."""
    entry = entry_of(place.step.op)
    for number, (option, value) in enumerate(place.step.options):
        if entry is None or option in AXES or isinstance(value, tuple):
            continue
        for other in (*instead(entry.signature.parameters.get(option), value), *words(entry, option, value)):
            step = with_option(place.step, number, other)
            if fits(place, step):
                called = f"{place.step.called} has {option}={value!r} here{place.said}"
                said = f"this is what {option}={other!r} gives, and {called}"
                yield "wrong_option", said, lambda cotangent, s=step: place.pulled(cotangent, None, s)  # type: ignore[misc]  # a default binds


def instead(parameter: inspect.Parameter | None, value: Hashable) -> list[Hashable]:
    """Other values that an option may have been given."""
    default = inspect.Parameter.empty if parameter is None else parameter.default
    found: list[Hashable] = [] if default is inspect.Parameter.empty or default is None else [default]
    if isinstance(value, bool):
        found.append(not value)
    elif isinstance(value, (int, float)):
        found += [0, 1]
    return [other for other in dict.fromkeys(found) if other != value]


def words(entry: Op, option: str, value: Hashable) -> list[str]:
    """Other words for an option, as the examples of the entry have them."""
    if not isinstance(value, str):
        return []
    found = [word for text in entry.examples for word in re.findall(rf"\b{option}=['\"](\w+)['\"]", str(text))]
    return [word for word in dict.fromkeys(found) if word != value]


def with_option(step: Apply, number: int, value: Hashable) -> Apply:
    """A step with another value for one of its options."""
    changed = list(step.options)
    changed[number] = (changed[number][0], value)
    return replace(step, options=tuple(changed))


def fits(place: Place, step: Apply) -> bool:
    """Whether the step with another option is still one, with a result of the same shape."""
    alone = place.program.alone(step)
    shapes = {name: tuple(map(sp.Integer, np.shape(place.values[name]))) for name in (*step.tensors, step.result.name)}
    try:
        retype(step, shapes, Sizes())  # a forward pass by the equation reads at the indices of a result of this shape
        with np.errstate(all="ignore"):
            result = forward(alone, {t.name: place.values[t.name] for t in alone.inputs})[step.result.name]
    except (SymgradError, SizeMismatch, ArithmeticError, ValueError, TypeError, AssertionError):
        return False
    return np.shape(result) == np.shape(place.result)
