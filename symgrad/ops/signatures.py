"""What a call of an operation is written like: its parameters, which of them are tensors, examples of it.

Comes in: ``"linear(x, weight, bias=None)"``. A parameter without a default or with None is a tensor (with None it may be
left out), unless its kind stands behind a colon: ``threshold(x, threshold: float)``; ``: data`` is a tensor to which
nothing flows back. Any other default makes an option. Nothing is evaluated.
"""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from symgrad.ops.spec import Data, Example, View, is_operand

KINDS: dict[str, Any] = {
    "float": float, "int": int, "str": str, "bool": bool, "any": Any, "any | str": Any | str, "float | None": float | None, "data": Data,
    "axes": int | tuple[int, ...] | tuple[tuple[int, ...], ...],
}  # fmt: skip
"""What may stand behind a colon."""


@dataclass(frozen=True)
class Call:
    """The name of an operation, and its parameters."""

    name: str
    signature: inspect.Signature

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """The tensors."""
        return tuple(p.name for p in self.signature.parameters.values() if is_operand(p.annotation))

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
    values = [*missing, *map(ast.literal_eval, defaults)]
    found = [parameter(a.arg, a.annotation, value) for a, value in zip(given, values, strict=True)]
    named = [parameter(a.arg, a.annotation, inspect.Parameter.empty) for a in function.args.kwonlyargs]
    found += [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in named]
    return Call(function.name, inspect.Signature(found))


def parameter(name: str, written: ast.expr | None, default: Any) -> inspect.Parameter:
    """A parameter, of the kind that is written or that its default has."""
    kind: Any = View if written is None else KINDS[ast.unparse(written)]
    if written is None and default is not None and default is not inspect.Parameter.empty:
        kind = type(default)
    if kind in (View, Data) and default is None:
        kind = kind | None
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)


def example_of(text: str, operands: tuple[str, ...]) -> Example:
    """``"prelu(x, w) with x:3x2 w:2"``; without shapes every operand that is named in it is 2×3."""
    call, _, shapes = text.partition(" with ")
    if not shapes:
        names = {node.id for node in ast.walk(ast.parse(call)) if isinstance(node, ast.Name)}
        return Example(call, tuple((name, (2, 3)) for name in operands if name in names))
    pairs = (part.split(":") for part in shapes.split())
    return Example(call, tuple((n, () if s == "scalar" else tuple(map(int, s.split("x")))) for n, s in pairs))
