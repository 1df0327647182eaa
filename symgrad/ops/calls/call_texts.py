"""Calls written down: ``softmin(x, dim=-1)`` is ``softmax(-x, dim=dim)``, entries and Python's signs between them.

Comes in: the text, what applies an entry, what the names are. Goes out: the last step; those before it are applied.
Names are entries where they are called, or else other calls, and otherwise operands and options; ``x.shape`` is a
shape, ``x.shape[0]`` a size; statements before the last, with ``;`` between them, name what is used twice. A term or
a factor that is left out (None) falls away. The text is Python's by its grammar alone: nothing is evaluated but these
steps. Beside it stands which function each of Python's operators is, and which functions draw random numbers or make
data: recording reads that before a call has run, and texts are read and written with the same signs.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from typing import Any

from symgrad.entries.readings import condition_holds
from symgrad.entries.signatures import call_of
from symgrad.entries.spec import TABLE
from symgrad.errors import UnsupportedError, bug
from symgrad.ops.calls.registry import CALLED, CallApplier, Compound, Last, apply_last_step, enter
from symgrad.program import Operation

REFLECTED = {"__rsub__": "sub", "__rdiv__": "div", "__rtruediv__": "div", "__rpow__": "pow", "__rmatmul__": "matmul"}
"""Operators whose operands stand the other way round, and what they are then."""
OPERATORS = {
    **{f"__{word}__": word for word in ("add", "sub", "mul", "div", "pow", "matmul", "neg", "abs", "lt", "le", "gt", "ge", "eq", "ne")},
    **{f"__i{word}__": word for word in ("add", "sub", "mul", "div", "pow")}, "__radd__": "add", "__rmul__": "mul",
    "__truediv__": "div", "__itruediv__": "div", "__mod__": "remainder", "__pos__": "clone", "_neg_view": "neg",
}  # fmt: skip
"""Operators, and a view that torch makes of a conjugate's imaginary part, and the functions they stand for."""
IN_PLACE_OPERATORS = (*(word for word in OPERATORS if word.startswith("__i")), "__setitem__", "__imod__")
RANDOM = ("dropout", "rand", "bernoulli", "normal", "multinomial", "gumbel", "rrelu", "poisson", "exponential",
          "standard_gamma", "scaled_dot_product", "lstm", "gru", "rnn", "attention", "fractional")  # fmt: skip
"""Words in the names of functions that may draw random numbers."""
WRITES_STATE = ("batch_norm", "instance_norm")
"""Words in the names of functions that also write tensors they are given (running statistics)."""
NEW = (
    "rand_like", "randn_like", "bernoulli", "zeros_like", "ones_like", "full_like", "empty_like", "randint_like",
    "new_zeros", "new_ones", "new_full", "new_empty", "detach", "native_dropout_mask", "sign_like",
)  # fmt: skip
"""Operations whose result does not follow the values they are given: it is data."""

SIGNS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow", "@": "matmul", "%": "remainder",
    "//": "floor_divide", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne",
}  # fmt: skip
"""What a sign between two operands of a text stands for."""
LOGIC = {"&": "logical_and", "|": "logical_or", "^": "logical_xor", "~": "logical_not"}
"""What a sign between truth values, or before them, stands for."""
TO_WHOLE = "trunc"
"""The entry that makes whole numbers."""
INFIX = {entry: sign for sign, entry in SIGNS.items() if sign not in ("%", "//")} | {"mm": "@", "mv": "@"}
"""Entries that a text has between their operands."""
OF_PAIRS = {"complex_mul": "*", "complex_div": "/", "complex_matmul": "@"}
"""Those of complex tensors."""
PREFIX = {"neg": "-"}
"""Entries that a text has before their operand."""


def sign_of(op: Operation) -> str:
    """The sign between the operands of an operation; empty for one that a text does not write so."""
    return INFIX.get(op, OF_PAIRS.get(op, "")) if isinstance(op, str) else ""


Apply = Callable[..., Any]
Text = str | tuple[str | None, ...] | None
WRITTEN: Mapping[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.MatMult: "@",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


@lru_cache(maxsize=256)
def statements(text: str) -> list[Any]:
    """The statements of a text, parsed once."""
    return ast.parse(text).body


def last_step_of_text(text: str, apply: Apply, names: Mapping[str, Any]) -> Last:
    """The last step that ``text`` is made of, with ``apply(entry, *operands, **options)`` for those before."""
    known = dict(names)

    def value(node: Any) -> Any:
        match node:
            case ast.Constant() | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
                return ast.literal_eval(node)
            case ast.Name():
                return known[node.id]
            case ast.Attribute(attr="shape"):
                return tuple(value(node.value).shape)
            case ast.Tuple():
                return tuple(map(value, node.elts))
            case ast.Subscript(value=ast.Attribute(attr="shape") as shape, slice=at):
                return value(shape)[value(at)]
        name, operands, options = step(node)
        return operands[0] if name == "identity" else apply(name, *operands, **options)

    def step(node: Any) -> Last:
        match node:
            case ast.Call(func=ast.Name(id=name)):
                operands = tuple(map(value, node.args))
                while operands and operands[-1] is None:
                    operands = operands[:-1]
                return name, operands, {str(k.arg): value(k.value) for k in node.keywords}
            case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]):
                one, other = value(left), value(right)
                return ("identity", (one,), {}) if other is None else (SIGNS[WRITTEN[type(sign)]], (one, other), {})
            case ast.UnaryOp(op=ast.USub()):
                return "neg", (value(node.operand),), {}
            case ast.Name() | ast.Constant() | ast.Attribute(attr="shape"):
                return "identity", (value(node),), {}
        raise bug(f"no step is written like {ast.dump(node)}")

    *before, last = statements(text)
    for statement in before:
        known[statement.targets[0].id] = value(statement.value)
    return step(last.value)


def define_call(
    call: str, text: Text | Callable[..., Text], says: str | None, *spelled: str, instead: Mapping[str, Text] | None = None,
    counted: bool = False, **marks: Any,
) -> None:  # fmt: skip
    """Enter a call as it is written in entries, or ``instead`` under other options, or as a function has it.

    Such a function gets what it asks for, arguments by their names, and the `CallApplier`; it may have the sentence. None is the table's own entry. Of
    several results one text each, as many as there are texts if ``counted``; None is one that torch gives no gradient either.
    """
    name, read = call.partition("(")[0], cache(partial(call_of, call))

    def written(apply: CallApplier, *arguments: Any, **keywords: Any) -> tuple[Text, Mapping[str, Any]]:
        asked = inspect.signature(text).parameters if callable(text) else ()
        bound = read().signature.bind(*arguments, **keywords)
        bound.apply_defaults()
        shapes = [getattr(bound.arguments[name], "shape", None) for name in read().operands]
        given = {**bound.arguments, **read().canonical(shapes, bound.arguments)}
        usual = text(**{name: {"call": apply, **given}[name] for name in asked}) if callable(text) else text
        return next((other for when, other in (instead or {}).items() if condition_holds(when, given)), usual), given

    def steps(apply: CallApplier, part: int, *arguments: Any, **keywords: Any) -> Last | None:
        chosen, given = written(apply, *arguments, **keywords)
        own = chosen[part] if isinstance(chosen, tuple) else chosen
        if own is None and isinstance(chosen, tuple):
            told = f"{marks['fields'][part]} of {name} has no derivative, in torch neither"
            raise UnsupportedError(told, hints=(f"{name}(…).{marks['fields'][0]}",))
        return (
            None
            if own is None
            else expand_call(apply, last_step_of_text(own, partial(apply_entry_or_call, apply), given))
        )

    if counted:
        marks["count"] = lambda *given, **spoken: len(written(*given, **spoken)[0] or ())
    sentence = says or (inspect.getdoc(text) or "").splitlines()[0]
    enter(Compound(name, steps, sentence, **marks, declared=lambda: read().signature), spelled)


def expand_call(call: CallApplier, last: Last) -> Last:
    """A step that is no entry but another call, in entries."""
    name, operands, options = last
    return last if name in TABLE or name not in CALLED else CALLED[name].steps(call, 0, *operands, **options) or last


def apply_entry_or_call(call: CallApplier, name: str, *operands: Any, **options: Any) -> Any:
    """The result of an entry, or of another call."""
    return apply_last_step(call, expand_call(call, (name, operands, options)))
