"""What a call of an operation is written like: its parameters, which of them are tensors, examples of it.

Comes in: ``"linear(x, weight, bias=None)"``. A parameter without a default or with None is a tensor (with None it may
be left out), unless its kind stands behind a colon: ``threshold(x, threshold: float)``; ``: data`` is a tensor to which
nothing flows back. Any other default makes an option (`symgrad.entries.options` has the kinds). Nothing is evaluated.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from symgrad.entries.options import Kind, kind_of
from symgrad.entries.spec import Data, Example, is_operand
from symgrad.errors import InputError
from symgrad.shapes import Shape


@dataclass(frozen=True)
class Call:
    """The name of an operation, its parameters, and what its options have to be."""

    name: str
    signature: inspect.Signature
    kinds: Mapping[str, Kind] = field(default_factory=dict, compare=False)

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """The tensors."""
        return tuple(p.name for p in self.signature.parameters.values() if is_operand(p.annotation))

    @property
    def variadic(self) -> bool:
        """Whether it takes any number of tensors: ``cat(*tensors)``."""
        return any(p.kind is p.VAR_POSITIONAL for p in self.signature.parameters.values())

    def names(self, values: Sequence[Any]) -> Sequence[str]:
        """What an equation calls the tensors: by their names, or x0, x1, … of any number."""
        return [f"x{n}" for n in range(len(values))] if self.variadic else self.operands

    def given(self, values: Sequence[Any]) -> dict[str, Any]:
        """Those that are there, by what an equation calls them."""
        return {name: v for name, v in zip(self.names(values), values, strict=False) if v is not None}

    @property
    def usual(self) -> dict[str, Any]:
        """The options as nobody gave them, but for those that change nothing."""
        options = [p for p in self.signature.parameters.values() if p.name not in self.operands]
        return {p.name: p.default for p in options if not self.kinds[p.name].gone}

    def canonical(self, shapes: Sequence[Shape | None], options: Mapping[str, Hashable]) -> dict[str, Any]:
        """The options as they are meant, without those that change nothing; refuses what they cannot be."""
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

    @property
    def optional(self) -> frozenset[str]:
        """The tensors that may be left out."""
        return frozenset(n for n in self.operands if self.signature.parameters[n].default is None)

    @property
    def data(self) -> frozenset[str]:
        """The tensors that are only read."""
        kinds = (Data, Data | None)
        return frozenset(n for n in self.operands if self.signature.parameters[n].annotation in kinds)


def call_of(text: str) -> Call:
    """The call that ``text`` describes."""
    (function,) = ast.parse(f"def {text}: pass").body
    assert isinstance(function, ast.FunctionDef)
    given, defaults = function.args.args, function.args.defaults
    missing = [inspect.Parameter.empty] * (len(given) - len(defaults))
    values = [*missing, *map(default_of, defaults)]
    several, alone = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    listed: list[Any] = [(a, value, several) for a, value in zip(given, values, strict=True)]
    if function.args.vararg:
        listed.append((function.args.vararg, inspect.Parameter.empty, inspect.Parameter.VAR_POSITIONAL))
    listed += [
        (a, inspect.Parameter.empty if value is None else default_of(value), alone)
        for a, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    ]
    kinds = {a.arg: kind_of(a.annotation, value) for a, value, _ in listed}
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
    return Call(function.name, inspect.Signature(found), kinds)


def default_of(node: ast.expr) -> Any:
    """The value that is written; None for another option, whose value is taken."""
    return None if isinstance(node, ast.Name) else ast.literal_eval(node)


def example_of(text: str, operands: tuple[str, ...]) -> Example:
    """``"prelu(x, w) with x:3x2 w:2"``; without shapes every operand that is named in it is 2×3."""
    call, _, shapes = text.partition(" with ")
    if not shapes:
        names = {node.id for node in ast.walk(ast.parse(call)) if isinstance(node, ast.Name)}
        return Example(call, tuple((name, (2, 3)) for name in operands if name in names))
    if not re.fullmatch(r"( *\w+:(scalar|\d+(x\d+)*))+ *", shapes):
        raise InputError("an example gives operands shapes", found=(shapes,), hints=("x:2x3 y:3 z:scalar",))
    pairs = (part.split(":") for part in shapes.split())
    return Example(call, tuple((n, () if s == "scalar" else tuple(map(int, s.split("x")))) for n, s in pairs))
