"""The call of an operation: its parameters, which of them are tensors, and the kinds of its options.

Comes in: ``"linear(x, weight, bias=None)"``. A parameter without a default, or with the default None, is a tensor (with
None it may be left out), unless a kind follows a colon: ``threshold(x, threshold: float)``; ``: data`` is a tensor
without a gradient. Any other default makes an option. Nothing is evaluated. Goes out: operands, options and examples.

    dim: axis · n: int >= 0 · q: 0 <= any <= 1 · size: 2*size · stride: 2*int >= 1=size · mode: 'same' | 'valid'

A kind has a Python type, by which texts are read, and a rule that converts a value to its canonical form or refuses it.
An axis is counted from the front, ``tuple[axis]`` is several axes, ``2*int`` an integer for each of two axes,
``2*size`` the same with symbolic sizes allowed. An ``unused`` option has no effect, an ``unsupported`` one must keep
its default. An option whose default is the name of another option takes that option's value by default.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import sympy as sp

from symgrad.entries.operands import axis_of
from symgrad.entries.spec import Data, Example, HasSignature, View
from symgrad.errors import InputError, ShapeError, UnsupportedError
from symgrad.shapes import Shape, as_size

Rule = Callable[[str, Any, int], Any]  # (name, value, rank of the operands) -> the value in canonical form

PLAIN: dict[str, Any] = {
    "float": float, "int": int, "str": str, "any": Any, "any | str": Any | str, "float | None": float | None,
    "data": Data, "axes": int | tuple[int, ...] | tuple[tuple[int, ...], ...], "sizes": Any | tuple[float | None, ...],
}  # fmt: skip
"""Kinds whose values are not converted; a None among ``sizes`` keeps the size."""


@dataclass(frozen=True)
class OptionKind:
    """The Python type of an option, the rule for its canonical form, and the option ``like`` that is its default.

    An option that is ``gone`` is accepted in a call and then dropped.
    """

    type: Any
    rule: Rule | None = None
    gone: bool = False
    like: str = ""


def parse_option_kind(written: ast.expr | None, text: str, default: Any) -> OptionKind:
    """Return the kind written after the colon (``text``), or else that of the default; a tensor if that is None."""
    own: Any = type(default)
    if written is None:
        return OptionKind(View) if default is None or own is type else KINDS["bool"] if own is bool else OptionKind(own)
    words = [node for node in ast.walk(written) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    if words:
        in_order = sorted(words, key=lambda node: node.col_offset)
        return OptionKind(str, partial(check_choice, tuple(str(node.value) for node in in_order)))
    if isinstance(written, ast.Compare):
        return parse_bounds(written)
    if isinstance(written, ast.BinOp) and isinstance(written.op, ast.Mult):  # 2*size
        return OptionKind(Any, partial(check_per_axis, ast.literal_eval(written.left), 1, True))
    if text == "unused":
        return OptionKind(PLAIN["any | str"] if default is None else own, gone=True)
    if text == "unsupported":
        return OptionKind(Any, partial(require_default, default), gone=True)
    if text not in KINDS and text not in PLAIN:
        raise InputError(f"no kind of option: {text}", hints=(*KINDS, *PLAIN, "0 <= float <= 1", "'same' | 'valid'"))
    return KINDS[text] if text in KINDS else OptionKind(PLAIN[text])


def parse_bounds(written: ast.Compare) -> OptionKind:
    """Parse ``int >= 1``, ``float > 0``, ``0 < float <= 1``, or ``2*int >= 1``, an integer for each of two axes."""
    sides = [written.left, *written.comparators]
    (inner,) = (side for side in sides if not isinstance(side, (ast.Constant, ast.UnaryOp)))
    numbers = [ast.literal_eval(side) for side in sides if side is not inner]
    low: Any = numbers[0]
    if isinstance(inner, ast.BinOp):
        count = ast.literal_eval(inner.left)
        return OptionKind(Any, partial(check_per_axis, count, low, False))
    assert isinstance(inner, ast.Name)
    kind = PLAIN[inner.id]
    above = isinstance(written.ops[0], (ast.Gt, ast.Lt))
    return OptionKind(kind, partial(check_bounds, low, numbers[1] if len(numbers) > 1 else None, kind is int, above))


def check_bounds(low: Any, high: Any, whole: bool, above: bool, name: str, value: Any, rank: int) -> Any:
    """Return a number that lies within bounds (strictly ``above`` the lower one); a symbolic size always passes."""
    opened = isinstance(value, sp.Basic) and value.is_number is False
    number = isinstance(value, (int, float, sp.Basic)) and not isinstance(value, bool)
    if not opened and not (number and (low < value if above else low <= value) and (high is None or value <= high)):
        least = f"above {low}" if above else f"from {low}"
        many = f"{least} to {high}" if high is not None else least if above else f"{least} up"
        raise InputError(
            f"{name} has to be {'an integer' if whole else 'a number'} {many}", found=(f"{name}={value!r}",)
        )
    return value


def check_per_axis(count: int, least: Any, open_yet: bool, name: str, value: Any, rank: int = 0) -> tuple[Any, ...]:
    """Return one integer for each of ``count`` axes; with ``open_yet`` symbolic sizes are allowed."""
    values = as_value_tuple(value)
    values = values * count if len(values) == 1 else values

    def fits(v: Any) -> bool:
        whole = isinstance(v, (int, sp.Integer)) and not isinstance(v, bool) and v >= least
        return whole or (open_yet and isinstance(v, sp.Basic) and v.is_number is False)

    if len(values) != count or not all(map(fits, values)):
        raise InputError(
            f"{name} has to be an integer from {least} up, or {count} of them", found=(f"{name}={value!r}",)
        )
    return tuple(map(as_size if open_yet else int, values))


def as_value_tuple(value: Any) -> tuple[Any, ...]:
    """Return one value, or several, as a tuple; None is the empty tuple."""
    return tuple(value) if isinstance(value, (tuple, list)) else () if value is None else (value,)


def check_axis_or_all(name: str, value: Any, rank: int) -> int | None:
    """Return one axis, counted from the front, or None for all."""
    if isinstance(value, (tuple, list)):
        problem = "this takes one axis, or none for all of them"
        raise InputError(problem, found=(f"{name}={value}",), hints=("amax, amin, sum and mean take several",))
    return None if value is None else axis_of(value, rank)


def distinct_axes(name: str, value: Any, rank: int, count: int | None = None) -> tuple[int, ...]:
    """Return axes counted from the front; raise an error if one is named twice."""
    if value is None:
        raise InputError(f"{name} has to be axes", found=(f"{name}=None",), hints=(f"{name}={tuple(range(rank))}",))
    axes = tuple(axis_of(axis, rank) for axis in as_value_tuple(value))
    if len(set(axes)) < len(axes):
        raise ShapeError(f"an axis is named twice in {name}", found=(f"{name}={value}",))
    if count not in (None, len(axes)):
        raise InputError(f"{name} has to be {count} different axes", found=(f"{name}={value}",))
    return axes


def require_number(name: str, value: Any, rank: int = 0) -> Any:
    """Return a number, which may be infinite but not NaN."""
    if isinstance(value, (str, bool, tuple)) or not isinstance(value, (int, float, sp.Basic)) or value != value:
        hints = (f"{name}=2 is Euclid's",) if name == "p" else ()
        raise InputError(f"this takes a number {name}", found=(f"{name}={value!r}",), hints=hints)
    return value


def check_choice(words: tuple[str, ...], name: str, value: Any, rank: int = 0) -> str:
    """Return ``value`` if it is one of ``words``, else raise `InputError`."""
    if value not in words:
        first, last = ", ".join(map(repr, words[:-1])), repr(words[-1])
        raise InputError(f"{name} is {first} or {last}", found=(f"{name}={value!r}",))
    return str(value)


def require_default(usual: Any, name: str, value: Any, rank: int) -> Any:
    """Return ``value`` if it is the default, else raise `UnsupportedError`: no equation covers other values."""
    if value != usual:
        raise UnsupportedError(f"{name} is not supported yet", found=(f"{name}={value!r}",), hints=(f"{name}={usual}",))
    return value


def refuse_older_reduction(name: str, value: Any, rank: int) -> Any:
    """Refuse torch's older options for ``reduction``; torch takes any text there as True."""
    if value is not None:
        problem = f"{name} is torch's older option for reduction"
        raise UnsupportedError(problem, found=(f"{name}={value!r}",), hints=("reduction='sum'",))


KINDS: Mapping[str, OptionKind] = {
    "reduction": OptionKind(Any | str, refuse_older_reduction, gone=True),
    "bool": OptionKind(bool, lambda name, value, rank: bool(value)),
    "axis": OptionKind(int, lambda name, value, rank: axis_of(value, rank)),
    "number": OptionKind(float, require_number),
    "tuple": OptionKind(Any, lambda name, value, rank: as_value_tuple(value)),
    "tuple[axis]": OptionKind(Any, lambda name, value, rank: distinct_axes(name, value, rank)),
    "tuple[axis, axis]": OptionKind(Any, lambda name, value, rank: distinct_axes(name, value, rank, 2)),
    "axis | None": OptionKind(
        int | tuple[int, ...] | None, lambda name, value, rank: check_axis_or_all(name, value, rank)
    ),
}
"""Kinds with a rule, by name."""


@dataclass(frozen=True)
class CallPattern(HasSignature):
    """The name of an operation, its parameters, and the kinds of its options."""

    name: str
    signature: inspect.Signature
    kinds: Mapping[str, OptionKind] = field(default_factory=dict, compare=False)

    def names(self, values: Sequence[Any]) -> Sequence[str]:
        """Return the tensors' names in the equation: those of the parameters, or x0, x1, … if it is variadic."""
        return [f"x{n}" for n in range(len(values))] if self.variadic else self.operands

    def given(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the values that are not None, by their names in the equation."""
        return {name: v for name, v in zip(self.names(values), values, strict=False) if v is not None}

    @property
    def usual(self) -> dict[str, Any]:
        """The defaults of the options, without those that have no effect."""
        options = [p for p in self.signature.parameters.values() if p.name not in self.operands]
        return {p.name: p.default for p in options if not self.kinds[p.name].gone}

    def canonical(self, shapes: Sequence[Shape | None], options: Mapping[str, Hashable]) -> dict[str, Any]:
        """Return the options in canonical form, without those that have no effect; raise an error for wrong values."""
        rank = max((len(shape) for shape in shapes if shape is not None), default=0)
        found = dict[str, Any]()
        given = {name: value for name, value in self.usual.items() if value is not inspect.Parameter.empty}
        values = {**given, **options}
        for name in filter(values.__contains__, {**self.usual, **values}):
            kind, value = self.kinds.get(name), values[name]
            value = tuple(value) if isinstance(value, list) else value
            left_out = value is None is given.get(name, name)  # the default is none of its kind: dim=None
            if kind is not None and kind.like and value in (None, ()):
                value = found[kind.like]
            elif kind is not None and kind.rule is not None and not left_out:
                value = kind.rule(name, value, rank)
            if kind is None or not kind.gone:
                found[name] = value
        return found


def call_of(text: str) -> CallPattern:
    """Parse the call that ``text`` describes."""
    whole = f"def {text}: pass"
    (function,) = ast.parse(whole).body
    assert isinstance(function, ast.FunctionDef)
    given, defaults = function.args.args, function.args.defaults
    missing = [inspect.Parameter.empty] * (len(given) - len(defaults))
    values = [*missing, *map(parse_default, defaults)]
    several, alone = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    listed: list[Any] = [(a, value, several) for a, value in zip(given, values, strict=True)]
    if function.args.vararg:
        listed.append((function.args.vararg, inspect.Parameter.empty, inspect.Parameter.VAR_POSITIONAL))
    listed += [
        (a, inspect.Parameter.empty if value is None else parse_default(value), alone)
        for a, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    ]
    written = {a.arg: "" if a.annotation is None else ast.get_source_segment(whole, a.annotation) for a, *_ in listed}
    kinds = {a.arg: parse_option_kind(a.annotation, written[a.arg] or "", value) for a, value, _ in listed}
    named = zip(given[::-1], defaults[::-1], strict=False)
    kinds |= {a.arg: replace(kinds[a.arg], like=node.id) for a, node in named if isinstance(node, ast.Name)}
    types = {name: kind.type for name, kind in kinds.items()}
    found = [
        inspect.Parameter(
            a.arg, place, default=value,
            annotation=types[a.arg] | None if value is None else types[a.arg],
        )
        for a, value, place in listed
    ]  # fmt: skip
    return CallPattern(function.name, inspect.Signature(found), kinds)


def parse_default(node: ast.expr) -> Any:
    """Return the default value that is written; None if it is the name of another option."""
    return None if isinstance(node, ast.Name) else ast.literal_eval(node)


def parse_example(text: str, operands: tuple[str, ...]) -> Example:
    """Parse an example such as ``"prelu(x, w) with x:3x2 w:2"``; without shapes every operand named in it is 2×3."""
    call, _, shapes = text.partition(" with ")
    if not shapes:
        names = re.findall(r"\b[^\W\d]\w*\b(?!=)", call)  # an option is no operand
        return Example(call, tuple((name, (2, 3)) for name in operands if name in names))
    if not re.fullmatch(r"( *\w+:(scalar|\d+(x\d+)*))+ *", shapes):
        raise InputError("an example gives operands shapes", found=(shapes,), hints=("x:2x3 y:3 z:scalar",))
    pairs = (part.split(":") for part in shapes.split())
    return Example(call, tuple((n, () if s == "scalar" else tuple(map(int, s.split("x")))) for n, s in pairs))
