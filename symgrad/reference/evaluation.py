"""The values of Python's expressions, evaluated from left to right, and what the names in them stand for.

Comes in: a node of Python's ``ast``. Goes out: a value, mostly a tensor with its graph. Numbers, lists and strings are
Python's own; the size of what a list or an integer would grow to is checked first.
"""

from __future__ import annotations

import ast
import operator
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from symgrad.reference.bounds import (
    ALONE,
    DIGITS,
    LIBRARIES,
    PARTS,
    PYTHONS,
    Budget,
    UnsupportedText,
    find_bare_function,
    is_allowed_word,
)
from symgrad.reference.call_dispatch import AllowedFunction, AllowedModule, TorchCaller

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Invert: operator.invert, ast.Not: operator.not_,
}  # fmt: skip
COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip


class ExpressionEvaluator:
    """What names and expressions are worth."""

    names: dict[str, Any]
    budget: Budget
    caller: TorchCaller

    @abstractmethod
    def assign(self, target: ast.expr, value: Any) -> None:
        """A value to a target."""

    # Names ----------------------------------------------------------------------------------------------

    def module(self, name: str) -> AllowedModule:
        """A module that is imported."""
        if name not in PARTS:
            raise UnsupportedText(f"{name} is not read")
        return AllowedModule(PARTS[name])

    def name(self, word: str) -> Any:
        """A name: the text's own, an input, a library, a function by the documented order."""
        known = self.names if word in self.names else ALONE
        if word in known:
            return known[word]
        if word in LIBRARIES:
            return AllowedModule(LIBRARIES[word])
        if word in PYTHONS or is_allowed_word(word):
            return AllowedFunction(word, find_bare_function(word), bare=True)
        return self.caller.attribute(AllowedModule(torch.autograd), word)  # Variable, or nothing

    def entries(self, value: Any) -> list[Any]:
        """What a loop goes over."""
        if isinstance(value, range) or (isinstance(value, (torch.Tensor, np.ndarray)) and value.ndim):
            self.budget.step(len(value))
        if isinstance(value, (str, bytes, AllowedModule, AllowedFunction)):
            raise UnsupportedText("this is not gone over")
        return list(self.budget.list(self.caller.plain(lambda: list(value))))

    # Expressions ----------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Any:
        """The value of an expression."""
        self.budget.step()
        match node:
            case ast.Constant(value=value) if not isinstance(value, bytes):
                return value
            case ast.Name(id=word):
                return self.name(word)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in BINARY:
                return self.combined(BINARY[type(sign)], self.value(left), self.value(right))
            case ast.UnaryOp(op=way, operand=operand) if type(way) in UNARY:
                return self.caller.operator(UNARY[type(way)], self.value(operand))
            case ast.Compare():
                return self.compared(node)
            case ast.BoolOp(op=way, values=parts):
                return self.either(isinstance(way, ast.Or), parts)
            case ast.Attribute(value=owner, attr=word):
                return self.caller.attribute(self.value(owner), word)
            case ast.Subscript(value=owner, slice=key):
                return self.caller.operator(operator.getitem, self.value(owner), self.value(key))
            case ast.Slice(lower=lower, upper=upper, step=step):
                return slice(*(None if part is None else self.value(part) for part in (lower, upper, step)))
            case ast.Call():
                return self.called(node)
            case ast.Tuple(elts=parts):
                return self.budget.list(tuple(self.listed(parts)))
            case ast.List(elts=parts):
                return self.budget.list(self.listed(parts))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body if self.truth(self.value(test)) else orelse)
            case ast.NamedExpr(target=target, value=value):
                found = self.value(value)
                self.assign(target, found)
                return found
            case ast.ListComp(elt=part, generators=loops) | ast.GeneratorExp(elt=part, generators=loops):
                return self.budget.list(self.made(part, loops))
            case ast.JoinedStr():
                return ""
        raise UnsupportedText(f"{type(node).__name__.lower()} is not read")

    def listed(self, parts: Sequence[ast.expr]) -> list[Any]:
        """The values of parts; one with a star is many."""
        found: list[Any] = []
        for part in parts:
            found += self.entries(self.value(part.value)) if isinstance(part, ast.Starred) else [self.value(part)]
        return found

    def made(self, part: ast.expr, loops: Sequence[ast.comprehension]) -> list[Any]:
        """A comprehension, whose names are its own."""
        outside, found = dict(self.names), list[Any]()

        def over(rest: Sequence[ast.comprehension]) -> None:
            if not rest:
                found.append(self.value(part))
                return
            for value in self.entries(self.value(rest[0].iter)):
                self.assign(rest[0].target, value)
                if all(self.truth(self.value(test)) for test in rest[0].ifs):
                    over(rest[1:])

        over(loops)
        self.names = outside
        return found

    def combined(self, sign: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        """An operator between two values; one of lists or large whole numbers is counted first."""
        for one, other in ((left, right), (right, left)):
            if isinstance(one, (list, tuple)) and isinstance(other, int):
                self.budget.entries(len(one) * max(other, 0))
        if isinstance(left, str) or isinstance(right, str):
            raise UnsupportedText("texts are not computed with")
        if isinstance(left, int) and isinstance(right, int):
            power = sign in (operator.pow, operator.ipow) and abs(left) > 1
            if max(left.bit_length(), right.bit_length(), left.bit_length() * right if power else 0) > DIGITS:
                raise UnsupportedText("a whole number is too long")
        return self.budget.list(self.caller.operator(sign, left, right))

    def compared(self, node: ast.Compare) -> Any:
        """``a < b < c``, which is ``a < b and b < c``."""
        left, found = self.value(node.left), None
        for relation, part in zip(node.ops, node.comparators, strict=True):
            right = self.value(part)
            if type(relation) not in COMPARED:
                raise UnsupportedText("this comparison is not read")
            found = self.caller.operator(COMPARED[type(relation)], left, right)
            if part is not node.comparators[-1] and not self.truth(found):
                return found
            left = right
        return found

    def either(self, stops: bool, parts: Sequence[ast.expr]) -> Any:
        """``a and b``, ``a or b``."""
        found = None
        for part in parts:
            found = self.value(part)
            if part is not parts[-1] and self.truth(found) is stops:
                return found
        return found

    def truth(self, value: Any) -> bool:
        """Whether a value is true, in Python."""
        return bool(self.caller.plain(lambda: bool(value)))

    def called(self, node: ast.Call) -> Any:
        """A call: the function first, then its arguments from the left."""
        function = self.value(node.func)
        args = self.listed(node.args)
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise UnsupportedText("** is not read")
            kwargs[keyword.arg] = self.value(keyword.value)
        return self.caller.call(function, args, kwargs)
