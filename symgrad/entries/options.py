"""What the options of a call have to be: the kinds that stand behind a colon in the text of a call.

    dim: axis · n: int >= 0 · q: 0 <= any <= 1 · size: 2*size · stride: 2*int >= 1=size · mode: 'same' | 'valid'

Comes in: what is written there. Goes out: Python's type, by which texts are read, and what brings a value to its
canonical form or refuses it. An axis is counted from the front, ``tuple[axis]`` are several, ``2*int`` is an integer
for each of two axes, ``2*size`` one that may be open yet; what is ``unused`` changes nothing, what is ``unsupported``
may only be left as it is. An option whose default is the name of another one is as that one is where nobody gives it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import sympy as sp

from symgrad.entries.shaping import axis_of
from symgrad.entries.spec import Data, View
from symgrad.errors import InputError, ShapeError, UnsupportedError
from symgrad.shapes import size_of

Rule = Callable[[str, Any, int], Any]  # (name, value, rank of the operands) -> the value in canonical form

PLAIN: dict[str, Any] = {
    "float": float, "int": int, "str": str, "any": Any, "any | str": Any | str, "float | None": float | None,
    "data": Data, "axes": int | tuple[int, ...] | tuple[tuple[int, ...], ...],
}  # fmt: skip
"""Kinds that take a value as it is."""


@dataclass(frozen=True)
class Kind:
    """Python's type of an option, its canonical form, and the option that it is ``like`` where nobody gives it.

    What is ``gone`` is none of the operation's options.
    """

    type: Any
    rule: Rule | None = None
    gone: bool = False
    like: str = ""


def kind_of(written: ast.expr | None, default: Any) -> Kind:
    """The kind that is written, or else that of the default; a tensor where there is none or it is None."""
    own: Any = type(default)
    if written is None:
        return Kind(View) if default is None or own is type else KINDS["bool"] if own is bool else Kind(own)
    words = [node for node in ast.walk(written) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    if words:
        in_order = sorted(words, key=lambda node: node.col_offset)
        return Kind(str, partial(one_of, tuple(str(node.value) for node in in_order)))
    if isinstance(written, ast.Compare):
        return bounded(written)
    name = ast.unparse(written)
    if name.endswith(" * size"):
        return Kind(Any, partial(per_axis, int(name.partition(" ")[0]), 1, True))
    if name == "unused":
        return Kind(PLAIN["any | str"] if default is None else own, gone=True)
    if name == "unsupported":
        return Kind(Any, partial(left_alone, default), gone=True)
    if name not in KINDS and name not in PLAIN:
        raise InputError(f"no kind of option: {name}", hints=(*KINDS, *PLAIN, "0 <= float <= 1", "'same' | 'valid'"))
    return KINDS[name] if name in KINDS else Kind(PLAIN[name])


def bounded(written: ast.Compare) -> Kind:
    """``int >= 1``, ``float > 0``, ``0 < float <= 1``, or an integer for each of several axes, ``2*int >= 1``."""
    sides = [written.left, *written.comparators]
    (inner,) = (side for side in sides if not isinstance(side, ast.Constant))
    numbers = [side.value for side in sides if isinstance(side, ast.Constant)]
    low: Any = numbers[0]
    if isinstance(inner, ast.BinOp):
        count = ast.literal_eval(inner.left)
        return Kind(Any, partial(per_axis, count, low, False))
    kind = PLAIN[ast.unparse(inner)]
    above = isinstance(written.ops[0], (ast.Gt, ast.Lt))
    return Kind(kind, partial(within, low, numbers[1] if len(numbers) > 1 else None, kind is int, above))


def within(low: Any, high: Any, whole: bool, above: bool, name: str, value: Any, rank: int) -> Any:
    """A number between bounds, or ``above`` the lower one; a size that is open yet may be any."""
    opened = isinstance(value, sp.Basic) and value.is_number is False
    number = isinstance(value, (int, float, sp.Basic)) and not isinstance(value, bool)
    if not opened and not (number and (low < value if above else low <= value) and (high is None or value <= high)):
        least = f"above {low}" if above else f"from {low}"
        many = f"{least} to {high}" if high is not None else least if above else f"{least} up"
        raise InputError(
            f"{name} has to be {'an integer' if whole else 'a number'} {many}", found=(f"{name}={value!r}",)
        )
    return value


def per_axis(count: int, least: Any, open_yet: bool, name: str, value: Any, rank: int = 0) -> tuple[Any, ...]:
    """One integer for each axis of space, or a size that may be open yet."""
    values = several(value)
    values = values * count if len(values) == 1 else values

    def fits(v: Any) -> bool:
        whole = isinstance(v, (int, sp.Integer)) and not isinstance(v, bool) and v >= least
        return whole or (open_yet and isinstance(v, sp.Basic) and v.is_number is False)

    if len(values) != count or not all(map(fits, values)):
        raise InputError(
            f"{name} has to be an integer from {least} up, or {count} of them", found=(f"{name}={value!r}",)
        )
    return tuple(map(size_of if open_yet else int, values))


def several(value: Any) -> tuple[Any, ...]:
    """One value or several; no value is none."""
    return tuple(value) if isinstance(value, (tuple, list)) else () if value is None else (value,)


def axis_or_all(name: str, value: Any, rank: int) -> int | None:
    """One axis from the front, or None for all of them."""
    if isinstance(value, (tuple, list)):
        told = "this takes one axis, or none for all of them"
        raise InputError(told, found=(f"{name}={value}",), hints=("amax, amin, sum and mean take several",))
    return None if value is None else axis_of(value, rank)


def each_once(name: str, value: Any, rank: int, count: int | None = None) -> tuple[int, ...]:
    """Axes from the front, none of them twice."""
    if value is None:
        raise InputError(f"{name} has to be axes", found=(f"{name}=None",), hints=(f"{name}={tuple(range(rank))}",))
    axes = tuple(axis_of(axis, rank) for axis in several(value))
    if len(set(axes)) < len(axes):
        raise ShapeError(f"an axis is named twice in {name}", found=(f"{name}={value}",))
    if count not in (None, len(axes)):
        raise InputError(f"{name} has to be {count} different axes", found=(f"{name}={value}",))
    return axes


def number_given(name: str, value: Any, rank: int = 0) -> Any:
    """A number, be it infinite."""
    if isinstance(value, (str, bool, tuple)) or not isinstance(value, (int, float, sp.Basic)) or value != value:
        hints = (f"{name}=2 is Euclid's",) if name == "p" else ()
        raise InputError(f"this takes a number {name}", found=(f"{name}={value!r}",), hints=hints)
    return value


def one_of(words: tuple[str, ...], name: str, value: Any, rank: int = 0) -> str:
    """One of some words."""
    if value not in words:
        first, last = ", ".join(map(repr, words[:-1])), repr(words[-1])
        raise InputError(f"{name} is {first} or {last}", found=(f"{name}={value!r}",))
    return str(value)


def left_alone(usual: Any, name: str, value: Any, rank: int) -> Any:
    """An option that changes the result in a way that no equation says yet."""
    if value != usual:
        raise UnsupportedError(f"{name} is not supported yet", found=(f"{name}={value!r}",), hints=(f"{name}={usual}",))
    return value


def said_by_reduction(name: str, value: Any, rank: int) -> Any:
    """torch's older words for how a loss is put together; any text in their place counts as True there."""
    if value is not None:
        told = f"{name} is torch's older word for what reduction says"
        raise UnsupportedError(told, found=(f"{name}={value!r}",), hints=("reduction='sum'",))


KINDS: Mapping[str, Kind] = {
    "reduction": Kind(Any | str, said_by_reduction, gone=True),
    "bool": Kind(bool, lambda name, value, rank: bool(value)),
    "axis": Kind(int, lambda name, value, rank: axis_of(value, rank)),
    "number": Kind(float, number_given),
    "tuple": Kind(Any, lambda name, value, rank: several(value)),
    "tuple[axis]": Kind(Any, lambda name, value, rank: each_once(name, value, rank)),
    "tuple[axis, axis]": Kind(Any, lambda name, value, rank: each_once(name, value, rank, 2)),
    "axis | None": Kind(int | tuple[int, ...] | None, lambda name, value, rank: axis_or_all(name, value, rank)),
}
"""Kinds that have a canonical form, whatever their value."""
