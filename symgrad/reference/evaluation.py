"""The values of Python's expressions, evaluated from left to right, and what the names in them stand for.

Comes in: a node of Python's ``ast``. Goes out: a value, mostly a tensor with its graph. Numbers, lists and strings are
Python's own; the size of what a list or an integer would grow to is checked first.
"""

from __future__ import annotations

import ast
import operator
from abc import abstractmethod
from collections import ChainMap
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
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
    TextRejected,
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


MEMBER: dict[type[ast.cmpop], bool] = {ast.In: True, ast.NotIn: False}
"""Whether an entry has to be there."""


@dataclass(frozen=True, eq=False)
class TextFunction:
    """A function that the text defines: its parameters, what they are if nobody says so, and the names around it.

    ``body`` is a list of statements, or the expression of a lambda; ``local`` are the names that it binds.
    """

    name: str
    parameters: Sequence[str]
    defaults: dict[str, Any]
    body: Sequence[ast.stmt] | ast.expr
    around: MutableMapping[str, Any]
    local: frozenset[str]


class ExpressionEvaluator:
    """What names and expressions are worth."""

    names: MutableMapping[str, Any]
    unbound: frozenset[str] = frozenset()
    budget: Budget
    caller: TorchCaller

    @abstractmethod
    def assign(self, target: ast.expr, value: Any) -> None:
        """A value to a target."""

    @abstractmethod
    def returned(self, body: Sequence[ast.stmt]) -> Any:
        """What the statements of a function return."""

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
        if word in self.unbound:
            raise TextRejected(f"cannot access local variable '{word}' where it is not associated with a value")
        if word in LIBRARIES:
            return AllowedModule(LIBRARIES[word])
        if word in PYTHONS or is_allowed_word(word):
            return AllowedFunction(word, find_bare_function(word), bare=True)
        if word != "Variable":
            raise UnsupportedText(f"{word} is not known here")
        return self.caller.attribute(AllowedModule(torch.autograd), word)

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
                of = self.value(owner)
                return self.caller.operator(operator.getitem, of, self.index(of, key))
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
            case ast.Dict(keys=keys, values=parts) if None not in keys:
                pairs = [(self.value(key), self.value(part)) for key, part in zip(keys, parts, strict=True) if key]
                return self.budget.list(self.keyed(pairs))
            case ast.DictComp(key=key, value=part, generators=loops):
                return self.budget.list(self.keyed(self.made(ast.Tuple([key, part], ast.Load()), loops)))
            case ast.Lambda(args=parameters, body=body):
                return self.defined("<lambda>", parameters, body)
            case ast.JoinedStr(values=parts):
                return self.joined(parts)
        raise UnsupportedText(f"{type(node).__name__.lower()} is not read")

    def listed(self, parts: Sequence[ast.expr]) -> list[Any]:
        """The values of parts; one with a star is many."""
        found: list[Any] = []
        for part in parts:
            found += self.entries(self.value(part.value)) if isinstance(part, ast.Starred) else [self.value(part)]
        return found

    def made(self, part: ast.expr, loops: Sequence[ast.comprehension]) -> list[Any]:
        """A comprehension, whose names are its own."""
        outside, found = self.names, list[Any]()
        self.names = ChainMap({}, outside)

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

    def joined(self, parts: Sequence[ast.expr]) -> str:
        """A string with numbers in it; "" where it says something of tensors or is laid out, for nobody reads it."""
        found = [self.value(part.value if isinstance(part, ast.FormattedValue) else part) for part in parts]
        laid_out = any(isinstance(p, ast.FormattedValue) and (p.format_spec or p.conversion > 0) for p in parts)
        return "" if laid_out or not all(isinstance(f, (int, str)) for f in found) else "".join(map(str, found))

    def keyed(self, pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
        """A dictionary."""
        found: dict[Any, Any] = {}
        for key, value in pairs:
            found[self.key(key)] = value
        return found

    def key(self, value: Any) -> Any:
        """A key of a dictionary: a whole number, or a string that is known."""
        if not isinstance(value, (int, str)) or value == "":
            raise UnsupportedText("this key is not read")
        return value

    def index(self, owner: Any, node: ast.expr) -> Any:
        """What stands in the brackets behind ``owner``."""
        found = self.value(node)
        return self.key(found) if isinstance(owner, dict) else found

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
            if type(relation) in MEMBER:
                found = self.holds(right, left) is MEMBER[type(relation)]
            else:
                found = self.caller.operator(COMPARED[type(relation)], left, right)
            if part is not node.comparators[-1] and not self.truth(found):
                return found
            left = right
        return found

    def holds(self, several: Any, one: Any) -> bool:
        """``one in several``, of numbers and strings: what tensors are equal to is a tensor."""
        parts = list(several) if isinstance(several, (list, tuple, dict, range)) else None
        if parts is None or not all(isinstance(part, (int, float, str)) for part in (*parts, one)):
            raise UnsupportedText("this comparison is not read")
        self.budget.step(len(parts))
        return one in parts

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
        if isinstance(function, TextFunction):
            return self.applied(function, args, kwargs)
        return self.caller.call(function, args, kwargs)

    # Functions of the text's own ------------------------------------------------------------------------

    def defined(self, name: str, given: ast.arguments, body: Sequence[ast.stmt] | ast.expr) -> TextFunction:
        """The function that a ``def`` or a ``lambda`` makes; its defaults are computed here."""
        if given.vararg or given.kwarg or given.posonlyargs:
            raise UnsupportedText("a function of any number of arguments is not read")
        parameters, last = [part.arg for part in given.args], given.args[len(given.args) - len(given.defaults) :]
        defaults = {part.arg: self.value(value) for part, value in zip(last, given.defaults, strict=True)}
        for part, value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
            parameters.append(part.arg)
            defaults |= {} if value is None else {part.arg: self.value(value)}
        inside = [] if isinstance(body, ast.expr) else list(body)
        local = frozenset(parameters).union(*map(bound_names, inside))
        return TextFunction(name, parameters, defaults, body, self.names, local)

    def applied(self, function: TextFunction, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of a function of the text's own: its body is run where its names are its own."""
        given = dict(zip(function.parameters, args, strict=False))
        twice, odd = given.keys() & kwargs.keys(), kwargs.keys() - {*function.parameters}
        missing = [n for n in function.parameters if n not in {*given, *kwargs, *function.defaults}]
        if len(args) > len(function.parameters) or twice or odd or missing:
            raise TextRejected(f"{function.name}() is not called with its arguments: {', '.join(function.parameters)}")
        before = self.names, self.unbound
        around = {name: value for name, value in function.around.items() if name not in function.local}
        self.names, self.unbound = {**around, **function.defaults, **given, **kwargs}, function.local
        try:
            return self.value(function.body) if isinstance(function.body, ast.expr) else self.returned(function.body)
        finally:
            self.names, self.unbound = before


def bound_names(node: ast.stmt) -> frozenset[str]:
    """The names that a statement binds, those inside functions and comprehensions left out.

    >>> sorted(bound_names(ast.parse("for i, a in p: y = [k for k in a]").body[0]))
    ['a', 'i', 'y']
    """
    found, waiting = set[str](), list[ast.AST]([node])
    while waiting:
        match part := waiting.pop():
            case ast.FunctionDef(name=name):
                found.add(name)
            case ast.Lambda() | ast.ListComp() | ast.GeneratorExp() | ast.DictComp():
                pass
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name.partition(".")[0])
            case _:
                waiting += ast.iter_child_nodes(part)
    return frozenset(found)
