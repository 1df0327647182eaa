"""Arguments of a call → operands and options of an operation, as Python binds them.

Comes in: an entry of the table and what stands between the brackets. Goes out: the operands in order and the
options with their defaults. Beyond Python's own rules: NumPy's names for options (``axis``), torch's for
operands (``input``, ``other``), integers in a row for one option (``x.permute(0, 2, 1)``), and a list of
tensors for operations that take any number (``cat([a, b], 1)``).
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union, cast, get_args, get_origin

import numpy as np
import sympy as sp

from symgrad.entries.spec import Op, is_operand
from symgrad.errors import NotationError, Setting, Span, UnknownNameError
from symgrad.functions import FLOATS_HOLD
from symgrad.language.arguments import Array
from symgrad.language.constants import is_scalar
from symgrad.language.dtypes import NARROW, DtypeKind, OperandType, number_type
from symgrad.ops import CONTRACTIONS, belongs_to
from symgrad.ops.calls.registry import Compound
from symgrad.program import Number
from symgrad.shapes import Shape


@dataclass(frozen=True)
class Ref:
    """A tensor of the program; ``pair`` marks torch's (values, indices), of which only values are here.

    ``complex`` marks one that is complex in torch: its last axis has size 2, (re, im). ``kind``
    is what torch would hold its entries as; ``few_bits`` is their type where it holds less than 64 bits.
    """

    name: str
    shape: Shape
    pair: bool = False
    complex: bool = False
    kind: DtypeKind = DtypeKind.REAL
    few_bits: str = field(default="", compare=False)


Meaning = Any
"""What a node stands for: `Ref`, `CallResults`, a number, a tuple of meanings, a string, a bool, None."""


Numbers = Callable[[Any], Any]
"""Makes a number of one that depends on sizes."""
Generator = np.random.Generator
Fill = Callable[[tuple[int, ...], Numbers, Generator], Array]
"""The numbers for a shape; what is drawn comes from the generator."""


@dataclass(frozen=True)
class LiteralTensor:
    """A tensor of the text's own: its shape, its numbers, what torch would hold them as, and whether they are drawn.

    One that ``counts`` is 0, 1, 2, … up to its length. ``held`` is the type that the text names.
    """

    shape: Shape
    fill: Fill
    kind: DtypeKind = DtypeKind.REAL
    drawn: bool = False
    counts: bool = False
    held: str = ""

    @property
    def few_bits(self) -> str:
        """The type where it holds less than 64 bits; what is computed in float32 is shown in double precision here."""
        return self.held if self.held in NARROW else ""


@dataclass(frozen=True)
class Argument:
    """One argument: what it means, where it stands, and its keyword if it has one."""

    meaning: Meaning
    span: Span
    keyword: str | None = None


@dataclass(frozen=True)
class BoundArguments:
    """The arguments of a call by role."""

    operands: tuple[tuple[Ref | Number | None, Span], ...]
    options: dict[str, Hashable]
    chosen: tuple[str, ...]


@dataclass(frozen=True)
class CallResults:
    """What ``torch.chunk(x, 2)`` gives: several tensors, of which an index or a field chooses one."""

    op: Op | Compound
    spelled: str
    arguments: tuple[Argument, ...]


RENAMED: Mapping[str, tuple[str, ...]] = {
    "input": ("x",), "self": ("x",), "tensor": ("x", "a"), "other": ("y", "a"), "mat2": ("a", "y"), "mat": ("x", "a"),
    "vec": ("a",), "vec2": ("a",), "tensor2": ("a",), "batch2": ("a",), "batch1": ("x",), "mat1": ("x",),
    "x1": ("x",), "x2": ("y", "a"), "input1": ("x",), "input2": ("y", "a", "factor"), "a": ("x",), "b": ("y", "a"),
    "exponent": ("y",), "size": ("shape",), "axis": ("dim",), "axes": ("dims", "dim"), "keepdims": ("keepdim",),
    "axis0": ("dim0",), "axis1": ("dim1",), "ddof": ("correction",), "newshape": ("shape",),
    "dim": ("dims", "dim"), "dims": ("dims", "dim"), "weight": ("weight", "w", "a"), "bias": ("bias", "b"),
    "ord": ("p",), "target": ("target", "y"), "sizes": ("shape", "size"), "condition": ("condition",),
    "A": ("x", "a"), "B": ("b", "y", "a"), "start": ("x",), "end": ("y",), "values": ("y",),
    "negative_slope": ("slope",), "indices": ("index", "n"), "index": ("n",), "vec1": ("x",), "theta": ("x",),
    "real": ("x",), "imag": ("y",), "abs": ("r",), "angle": ("t",),
}  # fmt: skip
"""What torch or NumPy calls a parameter → what it may be called in the table, most likely first."""
PLAIN = {"str": str, "bool": bool, "int": int, "float": float}
TOLD = ("dtype", "device", "layout", "pin_memory", "memory_format", "generator")
"""Arguments that are read as words, or not at all: what they name is no tensor."""
SAY_NOTHING = (*TOLD, "out", "output_size", "driver", "weight")
"""Options of torch's that the table need not have: None leaves them out."""
LIST_ALIASES = ("tensors", "arrays", "operands")


def format_call(op: Op, spelled: str, method: bool = False) -> str:
    """How ``op`` is called: ``softmax(x, dim=-1)``, or ``x.softmax(dim=-1)``."""
    own = list(op.signature.parameters.values())
    parts = [str(p.replace(annotation=inspect.Parameter.empty)) for p in own]
    if own[0].kind is inspect.Parameter.VAR_POSITIONAL:  # torch takes a list
        parts[0] = "[x, y]"
    return f"x.{spelled}({', '.join(parts[1:])})" if method else f"{spelled}({', '.join(parts)})"


def bind_arguments(
    op: Op, spelled: str, arguments: Sequence[Argument], span: Span, method: bool = False
) -> BoundArguments:
    """``arguments`` by role; a method's first one is the tensor before the dot.

    Raises `UnknownNameError` for a keyword that the operation does not have, and `NotationError` for an
    argument that is missing, given twice, of the wrong kind, or too many; each names the parameter.
    """
    form = (format_call(op, spelled, method),)
    given: dict[str, Argument] = {}
    rest = [a for a in arguments if a.keyword is None]
    parameters = list(op.signature.parameters.values())
    operands: list[Argument] = []
    if op.variadic:
        while rest and isinstance(rest[0].meaning, str):
            text = next((p for p in parameters if p.annotation is str and p.name not in given), None)
            if text is None:
                break
            given[text.name] = rest.pop(0)
        operands = take_listed_tensors(rest, in_a_row=parameters[0].annotation is str)
    open_parameters = [p for p in parameters if p.kind is not p.VAR_POSITIONAL and p.name not in given]
    packed = find_packed_option(op, open_parameters, rest)
    for position, argument in enumerate(rest):
        if packed is not None and position == packed:
            values = tuple(a.meaning for a in rest[position:])
            given[open_parameters[position].name] = Argument(values, (argument.span[0], rest[-1].span[1]))
            break
        if position >= len(open_parameters):
            raise NotationError(f"{spelled} has too many arguments", span=argument.span, hints=form)
        given[open_parameters[position].name] = argument
    names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
    for argument in arguments:
        if argument.keyword is None:
            continue
        if op.variadic and argument.keyword in LIST_ALIASES and not operands:
            operands = take_listed_tensors([argument], in_a_row=False)
            continue
        name = resolve_keyword(names, argument.keyword, given)
        if name is None and argument.meaning is None and argument.keyword in SAY_NOTHING:
            continue
        if name is None:
            raise UnknownNameError(f"{spelled} has no argument {argument.keyword}", span=argument.span, hints=form)
        if name in given:
            raise NotationError(f"{spelled} is given {name} twice", span=argument.span, hints=form)
        given[name] = argument
    return assign_roles(op, spelled, given, operands, span, form)


def assign_roles(
    op: Op, spelled: str, given: dict[str, Argument], listed: list[Argument], span: Span, form: tuple[str, ...]
) -> BoundArguments:
    """Operands and options, checked for their kind, with the defaults filled in."""
    operands: list[tuple[Ref | Number | None, Span]] = []
    options: dict[str, Hashable] = {}
    tensors = belongs_to(op.name, CONTRACTIONS) and "np" not in op.name
    for parameter in op.signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            if not listed:
                raise NotationError(f"{spelled} needs a list of tensors", span=span, hints=form)
            operands += [check_operand(spelled, parameter.name, a, form) for a in listed]
        elif is_operand(parameter.annotation) and (parameter.name in given or parameter.default is None):
            absent = parameter.name not in given or (
                parameter.default is None and given[parameter.name].meaning is None
            )
            found = (
                (None, span) if absent else check_operand(spelled, parameter.name, given[parameter.name], form, tensors)
            )
            operands.append(found)
        elif parameter.name in given:
            options[parameter.name] = check_option(spelled, parameter, given[parameter.name], form)
        elif parameter.default is parameter.empty:
            raise NotationError(f"{spelled} needs {parameter.name}", span=span, hints=form)
        else:
            options[parameter.name] = parameter.default
    while operands and operands[-1][0] is None:
        operands.pop()
    return BoundArguments(tuple(operands), options, tuple(name for name in given if name in options))


def take_listed_tensors(rest: list[Argument], in_a_row: bool) -> list[Argument]:
    """Take the tensors from the front of ``rest``: one list of them, or (for einsum) several in a row."""
    if rest and isinstance(rest[0].meaning, tuple):
        listed = rest.pop(0)
        return [Argument(m, listed.span) for m in listed.meaning]
    taken: list[Argument] = []
    while in_a_row and rest and isinstance(rest[0].meaning, Ref):
        taken.append(rest.pop(0))
    return taken


def find_packed_option(op: Op, parameters: Sequence[inspect.Parameter], rest: Sequence[Argument]) -> int | None:
    """Where integers in a row begin that are meant as one option: ``x.permute(0, 2, 1)``.

    Only where the operation has a single option without a default, as torch allows it.
    """
    options = [n for n, p in enumerate(parameters) if not is_operand(p.annotation)]
    if op.variadic or len(options) != 1 or parameters[options[0]].default is not inspect.Parameter.empty:
        return None
    first = options[0]
    row = rest[first:]
    return first if len(row) > 1 and all(is_size_like(a.meaning) for a in row) else None


def resolve_keyword(parameters: Collection[str], keyword: str, given: Collection[str] = ()) -> str | None:
    """Which of ``parameters`` the ``keyword`` means, by another name one that is not ``given``; None if none is."""
    if keyword in parameters:
        return keyword
    return next((name for name in RENAMED.get(keyword, ()) if name in parameters and name not in given), None)


def check_operand(
    spelled: str, name: str, argument: Argument, form: tuple[str, ...], tensors: bool = False
) -> tuple[Ref | Number, Span]:
    """A tensor, or a number where not only ``tensors`` will do, or a refusal."""
    meaning = argument.meaning
    if isinstance(meaning, Ref) or (is_scalar(meaning) and not tensors):
        return meaning, argument.span
    what = describe_meaning(meaning)
    named = Setting("let", sentence="give a list of numbers a name, and its value: {}")
    hint = named if isinstance(meaning, tuple) else form[0]
    raise NotationError(f"{name} of {spelled} has to be a tensor, not {what}", span=argument.span, hints=(hint,))


def check_option(spelled: str, parameter: inspect.Parameter, argument: Argument, form: tuple[str, ...]) -> Hashable:
    """The value of an option, checked against what its parameter admits."""
    meaning: Hashable = argument.meaning
    if not is_admitted(parameter.annotation, meaning):
        parts = meaning if isinstance(meaning, tuple) else ()
        other = next((f" with {describe_meaning(part)} in it" for part in parts if not is_scalar(part)), "")
        what = f"{parameter.name} of {spelled} cannot be {describe_meaning(meaning)}{other}"
        tensor = any(isinstance(part, Ref) for part in (*parts, meaning))
        sizes = ("a number in its place, in the text or as the value of a name",) if tensor else ()
        raise NotationError(what, span=argument.span, hints=(*sizes, *form))
    long = isinstance(meaning, int) and abs(meaning) >= FLOATS_HOLD and is_admitted(parameter.annotation, 0.5)
    return float(cast(int, meaning)) if long else meaning


def is_admitted(kind: Any, meaning: Meaning) -> bool:
    """Whether an option annotated ``kind`` takes ``meaning``.

    An option without a precise annotation takes numbers, None, bools and flat tuples of numbers; text only
    goes where ``str`` is written, because SymPy would evaluate it elsewhere.
    """
    kind = PLAIN.get(kind, kind) if isinstance(kind, str) else kind
    if get_origin(kind) in (Union, types.UnionType):
        return any(is_admitted(k, meaning) for k in get_args(kind))
    if kind is None or kind is type(None):
        return meaning is None
    if kind is str or isinstance(meaning, str):
        return kind is str and isinstance(meaning, str)
    if kind is bool:
        return isinstance(meaning, bool)
    if kind is int:
        return is_size_like(meaning)
    if kind is float:
        return is_scalar(meaning)
    if get_origin(kind) is tuple:
        return isinstance(meaning, tuple) and all(is_admitted(get_args(kind)[0], m) for m in meaning)
    if isinstance(meaning, tuple):
        return all(is_scalar(m) for m in meaning)
    return meaning is None or isinstance(meaning, bool) or is_scalar(meaning)


def is_size_like(meaning: Meaning) -> bool:
    """Whether ``meaning`` is an integer or an expression in sizes."""
    return isinstance(meaning, (int, sp.Expr)) and not isinstance(meaning, bool)


def describe_meaning(meaning: Meaning) -> str:
    """``meaning`` in words, for a message."""
    if isinstance(meaning, Ref):
        return "a tensor"
    if isinstance(meaning, CallResults):
        return "several tensors"
    if isinstance(meaning, tuple):
        return "a list"
    if isinstance(meaning, str):
        return f"the text {meaning!r}"
    return str(meaning)


def operand_type(meaning: Ref | Number | None) -> OperandType | None:
    """What torch would hold an operand as; None for one that is left out."""
    if isinstance(meaning, Ref):
        return OperandType(meaning.kind, few_bits=meaning.few_bits, axes=bool(meaning.shape))
    return None if meaning is None else number_type(meaning)
