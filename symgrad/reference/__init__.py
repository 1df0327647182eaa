"""An interpreter that runs a text of Python over torch tensors: torch's answer to a text is what it computes here.

Comes in: the text as it was typed, and a tensor for each input. Goes out: the output with its graph, or why there is
none: torch's own words where torch or Python rejects the text, ours where this interpreter does not support it. It
uses nothing of symgrad, so that no mistake in reading a text is made twice. Nothing is handed to ``eval``: it walks a
whitelist of syntax in Python's order (the right side first, then the targets, from left to right), looks names up in a
whitelist, and bounds the cost of a call on ``device="meta"`` before it is made (`bounds`).

Statements bind names, write into slices, unpack, loop and branch, and define functions; expressions are Python's, over
tensors, arrays, numbers, lists and dictionaries. Calls like ``print``, seeds and optimizers compute nothing. The output
is the tensor that ``backward`` is called on, or the last value.
"""

from __future__ import annotations

import ast
import operator
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from symgrad.reference.bounds import Budget, TextRejected, UnsupportedText
from symgrad.reference.call_dispatch import Draw, TorchCaller
from symgrad.reference.evaluation import BINARY, ExpressionEvaluator

__all__ = [
    "ReferenceResult",
    "TextRejected",
    "UnsupportedText",
    "is_backward_call",
    "parse_statements",
    "run_reference",
]


PROMPT = re.compile(r"[ \t]*(?:>>>|\.\.\.:?(?=[ \t]|$)|In \[\d+\]:)[ ]?")
"""What a console puts before what was typed."""
LENGTH, NODES = 20_000, 10_000
"""Characters of a text, and parts of its tree."""
SAID = ("zero_grad", "step", "manual_seed", "seed", "set_printoptions", "retain_grad")
"""Calls that compute nothing here."""
IN_PLACE = {kind: getattr(operator, f"i{sign.__name__.rstrip('_')}") for kind, sign in BINARY.items()}


@dataclass(eq=False)
class ReferenceResult:
    """What a text gives: the output with its graph, an array where the text is NumPy's.

    ``leaves`` are the tensors by name that a gradient is asked by: the inputs, and what the text makes with
    ``requires_grad=True``. ``seed`` is what the text gives to backward. ``kept`` names casts to fewer digits that keep
    all digits here.
    """

    output: Any
    leaves: Mapping[str, Any]
    seed: Any = None
    kept: tuple[str, ...] = ()


class BackwardReached(Exception):
    """The text calls backward: what follows changes no output."""


class LoopLeft(TextRejected):
    """``break``; ``continue`` where the loop goes ``on``."""

    def __init__(self, on: bool) -> None:
        super().__init__("'break' or 'continue' outside a loop")
        self.on = on


class FunctionLeft(TextRejected):
    """``return``."""

    def __init__(self, value: Any) -> None:
        super().__init__("'return' outside a function")
        self.value = value


Assigned = Callable[[str, Any], None]
"""What is told each name that a text binds, with its value."""


def run_reference(
    text: str,
    inputs: Mapping[str, Any],
    draws: Sequence[Any] = (),
    assigned: Assigned | None = None,
    draw: Draw | None = None,
) -> ReferenceResult:
    """What ``text`` gives with these tensors and numbers as ``inputs``; ``draws`` are random numbers, in order.

    ``assigned`` is told what each name is bound to, when it is; ``draw`` makes random numbers when there are no more.

    Raises `TextRejected` with the words of Python or torch, and `UnsupportedText` for what the interpreter cannot run.

    >>> run_reference("x, y = y, x; x - y", {"x": torch.tensor(1.0), "y": torch.tensor(3.0)}).output
    tensor(2.)
    """
    interpreter = ReferenceInterpreter(inputs, draws, assigned)
    interpreter.caller.draw = draw
    return interpreter.read(text)


def parse_statements(text: str) -> list[ast.stmt]:
    """The statements of a text; of a console what was typed, without what it answered."""
    lines = text.strip("\n").split("\n")
    prompts = [PROMPT.match(line) for line in lines]
    typed = "\n".join(line[p.end() :] for p, line in zip(prompts, lines, strict=True) if p)
    try:
        tree = ast.parse(typed if prompts[0] else textwrap.dedent(text).strip()) if len(text) <= LENGTH else None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnsupportedText("it is no text of Python's") from error
    if tree is None or sum(1 for _ in ast.walk(tree)) > NODES:
        raise UnsupportedText("it is too long")
    return tree.body


def is_backward_call(node: ast.AST) -> bool:
    """Whether a node is ``….backward(…)``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"


class ReferenceInterpreter(ExpressionEvaluator):
    """A walk: the names, and what is left to spend."""

    def __init__(self, inputs: Mapping[str, Any], draws: Sequence[Any], assigned: Assigned | None) -> None:
        self.names, self.budget, self.told = dict(inputs), Budget(), assigned
        self.whole = self.names
        self.caller = TorchCaller(self.budget, list(draws))
        self.leaves = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
        self.last: Any = None
        self.seed: Any = None

    def read(self, text: str) -> ReferenceResult:
        """The answer."""
        body = parse_statements(text)
        places = [n for n, node in enumerate(body) if isinstance(node, ast.Expr) and is_backward_call(node.value)]
        if sum(map(is_backward_call, (part for node in body for part in ast.walk(node)))) > len(places[:1]):
            raise UnsupportedText("backward() is called more than once, or inside a loop or a function")
        if places and not all(isinstance(node, ast.Expr) for node in body[places[0] :]):
            raise UnsupportedText("what is computed after backward() is not explained")
        try:
            self.statements(body)
        except BackwardReached:
            pass
        except RecursionError as error:
            raise UnsupportedText("it is nested too deep") from error
        if not isinstance(self.last, (torch.Tensor, np.ndarray, np.generic)):
            raise UnsupportedText("it gives no tensor")
        self.caller.refuse_shared_casts()
        for name, value in self.names.items():  # what has become a leaf since it was bound
            self.mark(name, value)
        return ReferenceResult(self.last, self.leaves, self.seed, tuple(dict.fromkeys(self.caller.kept)))

    def mark(self, name: str, value: Any) -> None:
        """The first tensor of each name that is an input, or a leaf with a gradient, is kept; no other lives longer."""
        with suppress(RuntimeError):  # a view whose base was written over says nothing any more
            own = self.names is self.whole  # a function's names are nobody else's
            if own and isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf:
                self.leaves.setdefault(name, value)

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """One after the other."""
        for statement in body:
            self.budget.step()
            if not (isinstance(statement, ast.Expr) and self.says(statement.value)):
                self.last = None  # which Python would have given back
                self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        """One statement."""
        match node:
            case ast.Expr(value=value):
                self.last = self.value(value)
            case ast.Assign(targets=targets, value=value):
                for target in targets:  # an index equation is none of Python's, whatever stands on its right
                    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                        self.owner(target.value)
                self.assigned(targets, self.value(value))
            case ast.AnnAssign(target=target, value=value):
                self.assigned([target] if value else [], self.value(value) if value else None)
            case ast.AugAssign(target=target, op=sign, value=value) if type(sign) in IN_PLACE:
                self.changed(target, IN_PLACE[type(sign)], value)
            case ast.For(target=target, iter=over, body=body, orelse=[]):
                for entry in self.entries(self.value(over)):
                    self.assign(target, entry)
                    if self.left(body):
                        break
            case ast.While(test=test, body=body, orelse=[]):
                while self.truth(self.value(test)) and not self.left(body):
                    pass
            case ast.Break() | ast.Continue():
                raise LoopLeft(isinstance(node, ast.Continue))
            case ast.FunctionDef(name=name, args=parameters, body=body, decorator_list=[]):
                self.names[name] = self.defined(name, parameters, body)
            case ast.Return(value=value):
                raise FunctionLeft(None if value is None else self.value(value))
            case ast.Assert(test=test):
                if not self.truth(self.value(test)):
                    raise TextRejected("AssertionError")
            case ast.Raise():
                raise TextRejected("the text raises an exception here")
            case ast.Try(body=body, orelse=orelse, finalbody=finalbody):
                try:
                    self.statements([*body, *orelse])
                except (FunctionLeft, LoopLeft):
                    raise
                except TextRejected as error:
                    raise UnsupportedText("an exception that the text catches") from error
                finally:
                    self.statements(finalbody)
            case ast.If(test=test, body=body, orelse=orelse):
                self.statements(body if self.truth(self.value(test)) else orelse)
            case ast.With(items=[ast.withitem(context_expr=block, optional_vars=None)], body=body):
                with self.block(block):
                    self.statements(body)
            case ast.Import(names=names):
                for alias in names:
                    first = alias.name.partition(".")[0]
                    whole = self.module(alias.name)
                    self.names[alias.asname or first] = whole if alias.asname else self.module(first)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for alias in names:
                    self.names[alias.asname or alias.name] = self.caller.attribute(self.module(module), alias.name)
            case ast.Delete(targets=[ast.Name(id=name)]):
                self.names.pop(name, None)
            case ast.Pass():
                pass
            case _:
                raise UnsupportedText(f"{type(node).__name__.lower()} is not read")

    def left(self, body: Sequence[ast.stmt]) -> bool:
        """One turn of a loop: whether it ends the loop."""
        self.budget.step()
        try:
            self.statements(body)
        except LoopLeft as left:
            return not left.on
        return False

    def returned(self, body: Sequence[ast.stmt]) -> Any:
        """What the statements of a function return."""
        try:
            self.statements(body)
        except FunctionLeft as left:
            return left.value
        return None

    def says(self, node: ast.expr) -> bool:
        """A call that only says something; ``backward``, which ends the text. What ``x.grad`` is, is not known here."""
        match node:
            case ast.Call(func=ast.Name(id="print"), args=parts) if "print" not in self.names:
                for part in parts:
                    if not any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in ast.walk(part)):
                        self.value(part)
                return True
            case ast.Call(func=ast.Attribute(value=owner, attr="backward"), args=args, keywords=keywords):
                self.last = self.value(owner)
                given = [*args, *(k.value for k in keywords if k.arg == "gradient")]
                self.seed = self.value(given[0]) if given else None
                raise BackwardReached
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAID

    def assigned(self, targets: Sequence[ast.expr], value: Any) -> None:
        """The same value to each of the targets."""
        for target in targets:
            self.assign(target, value)
        first = targets[0] if targets else None
        owner = (
            self.names.get(first.value.id)
            if isinstance(first, ast.Subscript) and isinstance(first.value, ast.Name)
            else None
        )
        self.last = owner if isinstance(owner, torch.Tensor) else value

    def assign(self, target: ast.expr, value: Any) -> None:
        """A value to a name, an entry, an attribute, or unpacked."""
        match target:
            case ast.Name(id=name):
                self.names[name] = value
                self.mark(name, value)
                if self.told is not None:
                    self.told(name, value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part, found in zip(parts, self.unpacked(parts, value), strict=True):
                    self.assign(part.value if isinstance(part, ast.Starred) else part, found)
            case ast.Subscript(value=node, slice=key):
                owner = self.owner(node)
                self.caller.operator(operator.setitem, owner, self.index(owner, key), value)
            case ast.Attribute(value=owner, attr="requires_grad"):
                of = self.value(owner)
                self.caller.plain(lambda: of.requires_grad_(bool(value)))
            case ast.Attribute(attr="grad"):
                pass
            case _:
                raise UnsupportedText("this target is not read")

    def owner(self, node: ast.expr) -> Any:
        """What is written into: a name that nothing has stands on the left of an index equation."""
        if isinstance(node, ast.Name) and node.id not in self.names:
            raise UnsupportedText(f"{node.id} is nothing yet: an index equation")
        return self.value(node)

    def unpacked(self, parts: Sequence[ast.expr], value: Any) -> list[Any]:
        """A value for each of the targets, in Python's words where their numbers differ."""
        found = self.entries(value)
        star = next((n for n, part in enumerate(parts) if isinstance(part, ast.Starred)), None)
        least = "" if star is None else "at least "
        count = len(parts) - (star is not None)
        if len(found) < count:
            raise TextRejected(f"not enough values to unpack (expected {least}{count}, got {len(found)})")
        if star is None and len(found) > count:
            raise TextRejected(f"too many values to unpack (expected {count})")
        stop = len(found) - (count - (star or 0))
        return found if star is None else [*found[:star], found[star:stop], *found[stop:]]

    def changed(self, target: ast.expr, sign: Callable[[Any, Any], Any], value: ast.expr) -> None:
        """``y += 1``: the target is read, written over where it can be, and bound again."""
        match target:
            case ast.Name():
                self.assigned([target], self.combined(sign, self.value(target), self.value(value)))
            case ast.Subscript(value=node, slice=index):
                owner = self.owner(node)
                key = self.index(owner, index)
                self.last = self.combined(sign, self.caller.operator(operator.getitem, owner, key), self.value(value))
                self.caller.operator(operator.setitem, owner, key, self.last)
                self.last = owner if isinstance(owner, torch.Tensor) else self.last
            case ast.Attribute(attr="data"):
                self.combined(sign, self.value(target), self.value(value))
            case _:
                raise UnsupportedText("this target is not read")

    def block(self, node: ast.expr) -> Any:
        """``with torch.no_grad()``."""
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="no_grad" | "enable_grad" as word), args=[]):
                if getattr(self.value(owner), "module", None) is torch:
                    return torch.no_grad() if word == "no_grad" else torch.enable_grad()
        raise UnsupportedText("this block is not read")
