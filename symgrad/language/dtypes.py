"""Dtypes in a text: what torch would store the entries of a tensor as, and which dtype and shape a result has.

symgrad has numbers only. In torch a comparison gives truth values: + of two of them is "or", a 2.0 that is written
into them becomes True, and among integers a fraction is cut off. symgrad's comparisons are the numbers 1 and 0. Where
that would come to another number than torch's, the operation is refused; where torch itself refuses, symgrad's number
stands. Dtypes by name (``dtype=torch.long``) say how literals are rounded.

`resolve_shapes` asks the table about a step. Comes in: an entry, the shapes of its operands and the options. Goes out:
`ResolvedShapes`: the options in canonical form, the shapes that operands are broadcast to, and the result's shape.
Answers are kept where every size is a number; sizes that are symbols are unified, and asked about anew.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.derived_facts import dtype_words
from symgrad.entries.spec import Op
from symgrad.errors import InputError, UnknownNameError, UnsupportedError
from symgrad.language.arguments import Array
from symgrad.language.syntax_tree import Literal, PythonCall, dotted_name
from symgrad.ops.calls.call_texts import sign_of
from symgrad.ops.calls.registry import MOVERS
from symgrad.program import Role
from symgrad.shapes import Shape, Sizes

MOST = 4096
"""Rulings that are kept."""
PLAIN = (type(None), bool, int, float, complex, str, Fraction)
"""Options that their own words tell apart: 1, 1.0 and True are three."""

Shapes = tuple[Shape | None, ...]


@dataclass(frozen=True)
class ResolvedShapes:
    """Options, shapes to broadcast to, and the shape of the result before it is looked up among known sizes."""

    options: Mapping[str, Hashable]
    targets: Shapes
    shape: Shape


_KEPT: dict[Hashable, tuple[Op, ResolvedShapes]] = {}
"""With the entry, so that no other one gets its identity."""


def resolve_shapes(
    op: Op, sizes: Sizes, shapes: Shapes, tensors: Sequence[bool], options: Mapping[str, Any]
) -> ResolvedShapes:
    """What ``op`` says; ``tensors`` are those of the operands that are no numbers. Raises what the table raises."""
    key = shape_cache_key(op, shapes, tensors, options)
    if key is not None and key in _KEPT:
        return _KEPT[key][1]
    prepared = op.rules.resolve(sizes, shapes, **op.rules.prepare(shapes, **options))
    targets = op.rules.align(sizes, shapes, **prepared)
    whole = zip(targets, tensors, shapes, strict=True)
    aligned = tuple(sizes.shape(t) if tensor else None if s is None else () for t, tensor, s in whole)
    found = ResolvedShapes(prepared, targets, sizes.shape(op.rules.shape(sizes, aligned, **prepared)))
    if key is not None:
        if len(_KEPT) >= MOST:
            _KEPT.clear()
        _KEPT[key] = op, found
    return found


def shape_cache_key(op: Op, shapes: Shapes, tensors: Sequence[bool], options: Mapping[str, Any]) -> Hashable | None:
    """What a ruling depends on; None where that is more than numbers and words."""
    if not all(n.is_Integer for shape in shapes if shape is not None for n in shape):
        return None
    said = [(name, option_key(value)) for name, value in sorted(options.items())]
    if any(value is None for _, value in said):
        return None
    return id(op), shapes, tuple(tensors), tuple(said)


def option_key(value: Any) -> Hashable | None:
    """An option with its type, since 1, 1.0 and True are three; None where it is more than numbers and words."""
    if type(value) in (tuple, list):
        parts = tuple(option_key(part) for part in value)
        return None if None in parts else (type(value), parts)
    return (type(value), repr(value)) if type(value) in PLAIN or isinstance(value, sp.Integer) else None


class DtypeKind(IntEnum):
    """What torch would hold an entry as."""

    TRUTH = 0
    WHOLE = 1
    REAL = 2


REMEDY = "1.0 * (…) makes it floating point"


@dataclass(frozen=True)
class OperandType:
    """An operand: what torch would hold its entries as, its number where it is one, and its type of less than 64 bits.

    One without ``axes`` gives way to the type of another that has some.
    """

    kind: DtypeKind
    number: Any = None
    few_bits: str = ""
    axes: bool = True


def number_type(number: Any) -> OperandType:
    """A number that the text writes."""
    whole = isinstance(number, int) or (isinstance(number, sp.Expr) and number.is_integer)
    return OperandType(DtypeKind.WHOLE if whole else DtypeKind.REAL, number)


def result_type(op: Op, operands: Sequence[OperandType | None], options: Mapping[str, Hashable]) -> dict[str, Any]:
    """What torch holds the result as: its kind, and its type of less than 64 bits."""
    kind = result_kind(op, operands, options)
    return {"kind": kind, "few_bits": narrow_result_dtype(op, operands, kind)}


def result_kind(op: Op, operands: Sequence[OperandType | None], options: Mapping[str, Hashable]) -> DtypeKind:
    """What torch would give ``op`` on these operands, of which None are left out.

    Raises `UnsupportedError` where torch's result would be another number than that of the index equation.
    """
    how = dtype_words(op)
    if "masked" in how and list(operands[len(op.operands) - 1 :]) == [OperandType(DtypeKind.TRUTH)]:
        raise dtype_error(
            "boolean masks are not supported here, only masks that are added to the scores",
            "torch.where(mask, 0, -1000) as the mask",
        )
    if how & {"truth", "whole"}:
        return DtypeKind.TRUTH if "truth" in how else DtypeKind.WHOLE
    moving = [h for n, h in enumerate(operands) if h is not None and (op.variadic or op.operands[n] not in op.data)]
    check_operand_types(op, moving, options)
    kinds = [h.kind for h in (moving[1:] if "behind" in how else moving)]
    if "bounded" in how:
        kinds += [number_type(v).kind for v in options.values() if v is not None]
    into = operands[0] if "first" in how else None
    kind = max(kinds, default=DtypeKind.REAL) if into is None else into.kind
    if "counted" in how or ("subscripts" in how and is_reducing_einsum(options)):
        return max(kind, DtypeKind.WHOLE)
    if "real" in how:
        return DtypeKind.REAL
    if kind is not DtypeKind.REAL and "bounded" not in how:
        check_integer_result(op, kind, kinds, moving, options)
    return kind


def check_operand_types(op: Op, moving: Sequence[OperandType], options: Mapping[str, Any]) -> None:
    """Refuse what torch refuses of these types."""
    how, tensors = dtype_words(op), [h.kind for h in moving if h.number is None]
    if "numbers" in how and DtypeKind.TRUTH in tensors:
        raise dtype_error(f"torch has no {op.name} of booleans", REMEDY)
    alike = "alike" in how or ("subscripts" in how and len(tensors) > 1 and is_reducing_einsum(options))
    if alike and (len(set(tensors)) > 1 or tensors[:2] == [DtypeKind.TRUTH, DtypeKind.TRUTH]):
        raise dtype_error(f"torch's {op.name} takes tensors of one dtype", REMEDY)
    exponent = moving[-1].number if sign_of(op.operation) == "**" else None
    if (
        exponent is not None
        and max(tensors, default=DtypeKind.REAL) is DtypeKind.WHOLE
        and isinstance(exponent, int)
        and exponent < 0
    ):
        raise dtype_error("torch cannot take an integer to a negative power", REMEDY)


def narrow_result_dtype(op: Op, operands: Sequence[OperandType | None], kind: DtypeKind) -> str:
    """The type of few bits that torch holds a result of this kind in, if any; refused where that is computed in.

    Entries that are only moved stay what they are.
    """
    tensors = [h for h in operands if h is not None and h.number is None and h.kind is kind]
    if not any(h.few_bits for h in tensors) or kind is DtypeKind.TRUTH:
        return ""
    own = [h for h in tensors if h.axes] or tensors
    if any(not h.few_bits for h in own) or (kind is DtypeKind.WHOLE and "counted" in dtype_words(op)):
        return ""
    if op.name not in MOVERS and op.traits.role not in (Role.HANDS_ON, Role.CUTS, Role.COPIES, Role.INDEXES):
        does = "integers overflow" if kind is DtypeKind.WHOLE else "numbers have fewer digits"
        raise dtype_error(
            f"torch computes {op.name} in {own[0].few_bits} here, where {does}", "a 64-bit dtype: .long(), .double()"
        )
    return own[0].few_bits


def check_integer_result(
    op: Op, kind: DtypeKind, kinds: Sequence[DtypeKind], moving: Sequence[OperandType], options: Mapping[str, Any]
) -> None:
    """Refuse what does not come to the same among truth values or whole numbers."""
    what, how = "booleans" if kind is DtypeKind.TRUTH else "integers", dtype_words(op)
    if "joined" in how and all(k is DtypeKind.TRUTH for k in kinds):
        raise dtype_error(f"torch's {op.name} of booleans is a boolean, not their sum or difference", REMEDY)
    constants = [h.number for h in moving if h.number is not None]
    larger = any(h.kind > kind for h in moving if h.number is None)
    if "cut" in how or ("first" in how and (options.get("reduce") == "mean" or larger)):
        raise dtype_error(f"torch's {op.name} of integers drops the fraction", REMEDY)
    numbers = [v for v in (*constants, *options.values()) if is_plain_number(v)]
    stored = [v for v in (*constants, options.get("value")) if is_plain_number(v)] if "first" in how else []
    if any(v != int(v) for v in numbers) or (kind is DtypeKind.TRUTH and any(v not in (0, 1) for v in stored)):
        raise dtype_error(
            f"torch keeps the result of {op.name} in {what}, and converts whatever is written into it", REMEDY
        )


def is_plain_number(value: Any) -> bool:
    """Whether ``value`` is a number by itself."""
    return isinstance(value, (int, float, Fraction)) and not isinstance(value, bool)


def is_reducing_einsum(options: Mapping[str, Any]) -> bool:
    """Whether an einsum sums over a letter."""
    left, arrow, right = str(next((v for v in options.values() if isinstance(v, str)), "")).partition("->")
    return not arrow or any(c.isalpha() and c not in right for c in left)


def dtype_error(complaint: str, remedy: str) -> UnsupportedError:
    """An operation on truth values or whole numbers that is another one in torch."""
    return UnsupportedError(complaint, hints=(remedy,))


# Dtypes by name ------------------------------------------------------------------------------------------------


NARROW = {
    "uint8": np.uint8, "int8": np.int8, "int16": np.int16, "short": np.int16, "int32": np.int32, "int": np.int32,
    "half": np.float16, "float16": np.float16, "bfloat16": None,
}  # fmt: skip
"""Types in which whole numbers wrap early, or numbers have few digits, and what NumPy has for them."""
STORED = {**NARROW, "float": np.float32, "float32": np.float32}


def round_to_dtype(kind: DtypeKind, dtype: str, array: Array, code: str) -> Array:
    """The numbers that torch stores for ``array`` where the text names this dtype."""
    if kind is not DtypeKind.REAL:
        array = truncate_to_integers(kind, array, code)
    if dtype not in STORED or kind is DtypeKind.TRUTH:
        return array
    type_: Any = STORED[dtype]  # None is bfloat16, which NumPy has not
    if kind is DtypeKind.WHOLE:
        top = int(np.iinfo(type_).max)
        if any(entry > top or entry < -top - 1 for entry in array.reshape(-1).tolist()):
            raise InputError(f"{code} holds a number that does not fit into {dtype}", found=(f"at most {top}",))
        found = array.astype(np.int64).astype(type_).astype(np.int64)
    else:
        with np.errstate(over="ignore"):
            found = array.astype(np.float64)
            found = to_bfloat16(found) if type_ is None else found.astype(type_).astype(np.float64)
    return array if (found == array).all() else found


def to_bfloat16(array: Array) -> Array:
    """Numbers rounded to the eight bits that torch.bfloat16 keeps, to even at a tie."""
    bits = array.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return np.asarray(rounded.astype(np.uint32).view(np.float32).astype(np.float64))


def truncate_to_integers(kind: DtypeKind, array: Array, code: str) -> Array:
    """Numbers that are to be whole, or truth values: ``torch.tensor([1.7], dtype=torch.long)``."""
    if array.dtype != object and np.issubdtype(array.dtype, np.integer) and kind is DtypeKind.WHOLE:
        return array
    try:
        entries = [int(e != 0) if kind is DtypeKind.TRUTH else int(e) for e in array.reshape(-1).tolist()]
    except (OverflowError, ValueError) as error:
        raise InputError(f"{code} has an integer dtype", hints=("finite numbers",)) from error
    found = np.array(entries, dtype=array.dtype if array.dtype == object else np.int64).reshape(array.shape)
    return array if (found == array).all() else found


TYPE_OF = {"FloatTensor": "float32", "HalfTensor": "float16", "IntTensor": "int32"}
"""Types that the name of what makes a tensor says."""
DTYPES = {
    **dict.fromkeys(("float", "double", "half", "float16", "bfloat16", "float32", "float64"), DtypeKind.REAL),
    **dict.fromkeys(("int", "long", "short", "uint8", "int8", "int16", "int32", "int64"), DtypeKind.WHOLE),
    **dict.fromkeys(("bool", "bool_"), DtypeKind.TRUTH),
    "dtype": DtypeKind.REAL,
}
"""Types by name, x.dtype among them; all decimal numbers have double precision here."""
NO_TYPE = ("torch.float64, torch.long, torch.bool",)
TYPED = ("to", "type", "type_as", "astype")
"""Methods that are told a type, a tensor of that type, or a device."""
UNREAD = ("device", "float", "int", "bool")
"""Names that are a type or a device where a cast is told one."""


def named_dtype(call: PythonCall) -> str | None:
    """The type that a call names: ``dtype=torch.long``."""
    for keyword in call.keywords:
        if keyword.name == "dtype" and keyword.value != Literal(None):
            word = (dotted_name(keyword.value) or "").rpartition(".")[2]
            if word not in DTYPES:
                raise UnknownNameError("this is not a dtype", span=keyword.value.span, hints=NO_TYPE)
            return word
    return None
