"""Calls written down: ``softmin(x, dim=-1)`` is ``softmax(-x, dim=dim)``, entries of the table and Python's signs between them.

Comes in: the text, what applies an entry, what the names are. Goes out: the last step; those before it are applied. Names
are entries where they are called, else operands and options; ``x.shape`` is a shape; statements before the last, with ``;``
between them, name what is used twice. The text is Python's by its grammar alone: nothing is evaluated but these steps.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Unpack

from symgrad.entries.readings import holds
from symgrad.entries.signatures import call_of
from symgrad.errors import UnsupportedError, bug
from symgrad.ops.calls.operators import SIGNS
from symgrad.ops.calls.registry import Call, Compound, Last, Marks, enter

Apply = Callable[..., Any]
WRITTEN: Mapping[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.MatMult: "@",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


@lru_cache(maxsize=256)
def statements(text: str) -> list[Any]:
    """The statements of a text, parsed once."""
    return ast.parse(text).body


def last_of(text: str, apply: Apply, names: Mapping[str, Any]) -> Last:
    """The last step that ``text`` is made of, with ``apply(entry, *operands, **options)`` for those before."""
    known = dict(names)

    def value(node: Any) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return known[node.id]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
                return ast.literal_eval(node)
            case ast.Attribute(attr="shape"):
                return tuple(value(node.value).shape)
        name, operands, options = step(node)
        return apply(name, *operands, **options)

    def step(node: Any) -> Last:
        match node:
            case ast.Call(func=ast.Name(id=name)):
                return name, tuple(map(value, node.args)), {str(k.arg): value(k.value) for k in node.keywords}
            case ast.BinOp():
                return SIGNS[WRITTEN[type(node.op)]], (value(node.left), value(node.right)), {}
            case ast.Compare(ops=[sign], comparators=[right]):
                return SIGNS[WRITTEN[type(sign)]], (value(node.left), value(right)), {}
            case ast.UnaryOp(op=ast.USub()):
                return "neg", (value(node.operand),), {}
            case ast.Name() | ast.Constant() | ast.Attribute(attr="shape"):
                return "identity", (value(node),), {}
        raise bug(f"no step is written like {ast.unparse(node)}")

    *before, last = statements(text)
    for statement in before:
        known[statement.targets[0].id] = value(statement.value)
    return step(last.value)


def said(
    call: str, text: str | tuple[str | None, ...], says: str, *spelled: str, instead: Mapping[str, str | None] | None = None,
    **marks: Unpack[Marks],
) -> None:  # fmt: skip
    """Enter a call as it is written in entries, or ``instead`` under other options, None being the table's own entry.

    Of several results one text each; None is one that torch gives no gradient either.
    """
    declared, texts = call_of(call), text if isinstance(text, tuple) else (text,)

    def steps(apply: Call, part: int, *arguments: Any, **keywords: Any) -> Last | None:
        given = declared.signature.bind(*arguments, **keywords)
        given.apply_defaults()
        declared.canonical((), given.arguments)  # refuses what the options cannot be
        usual = texts[part]
        if usual is None:
            told = f"{marks['fields'][part]} of {declared.name} has no derivative, in torch neither"
            raise UnsupportedError(told, hints=(f"{declared.name}(…).{marks['fields'][0]}",))
        written = next((other for when, other in (instead or {}).items() if holds(when, given.arguments)), usual)
        return None if written is None else last_of(written, apply, given.arguments)

    parameters = [p.replace(annotation=p.empty) for p in declared.signature.parameters.values()]
    enter(Compound(declared.name, steps, says, **marks, declared=inspect.Signature(parameters)), spelled)
