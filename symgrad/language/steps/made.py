"""What a text makes itself as data, and the arguments of the calls that make it, taken by torch's names for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import InputError, NotationError, ShapeError, Span, UnknownNameError, UnsupportedError
from symgrad.language.arguments import Array
from symgrad.language.constants import is_constant_number
from symgrad.language.steps.binding import Argument, Meaning, Ref, describe_meaning, is_size_like
from symgrad.language.steps.kinds import DtypeKind
from symgrad.language.syntax_tree import Call, Literal, dotted
from symgrad.ops.lookup import normal
from symgrad.program import Number
from symgrad.shapes import Shape, size_of

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


NARROW = {
    "uint8": np.uint8, "int8": np.int8, "int16": np.int16, "short": np.int16, "int32": np.int32, "int": np.int32,
    "half": np.float16, "float16": np.float16, "bfloat16": None,
}  # fmt: skip
"""Types in which whole numbers wrap early, or numbers have few digits, and what NumPy has for them."""
HELD = {**NARROW, "float": np.float32, "float32": np.float32}


def round_to_dtype(made: LiteralTensor, array: Array, code: str) -> Array:
    """What torch makes of numbers that are to be of the type that the text names."""
    if made.kind is not DtypeKind.REAL:
        array = truncate_to_integers(made.kind, array, code)
    if made.held not in HELD or made.kind is DtypeKind.TRUTH:
        return array
    type_: Any = HELD[made.held]  # None is bfloat16, which NumPy has not
    if made.kind is DtypeKind.WHOLE:
        top = int(np.iinfo(type_).max)
        if any(entry > top or entry < -top - 1 for entry in array.reshape(-1).tolist()):
            raise InputError(
                f"{code}: torch refuses a number that {made.held} does not hold", found=(f"at most {top}",)
            )
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
        raise InputError(f"{code} is to hold whole numbers", hints=("finite numbers",)) from error
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


def named_dtype(call: Call) -> str | None:
    """The type that a call names: ``dtype=torch.long``."""
    for keyword in call.keywords:
        if keyword.name == "dtype" and keyword.value != Literal(None):
            word = (dotted(keyword.value) or "").rpartition(".")[2]
            if word not in DTYPES:
                raise UnknownNameError("this is no type of numbers", span=keyword.value.span, hints=NO_TYPE)
            return word
    return None


class ConstructorArguments:
    """The arguments of a call, taken one after the other by the names that torch has for them.

    ``like`` is the tensor whose type is taken, ``shape`` the one that is known beforehand.
    """

    def __init__(self, spelled: str, arguments: Sequence[Argument], span: Span, dtype: str | None = None) -> None:
        self.spelled = normal(spelled).removeprefix("Tensor.")
        self.span = span
        self.rest = [a for a in arguments if a.keyword is None]
        self.named = {a.keyword: a for a in arguments if a.keyword is not None}
        self.dtype = dtype
        self.like: Ref | None = None
        self.shape: Shape | None = None

    def take(self, *names: str) -> Any:
        """The next argument, or the one called by the first of ``names`` that is there; None where there is none."""
        for name in names:
            if name in self.named:
                return self.named.pop(name).meaning
        return self.rest.pop(0).meaning if self.rest else None

    def sizes(self, name: str = "size") -> Shape:
        """The shape: ``2, 3`` or ``(2, 3)``."""
        if self.shape is not None:
            return self.shape
        if name in self.named or "shape" in self.named or (self.rest and isinstance(self.rest[0].meaning, tuple)):
            found = self.take(name, "shape")
            sizes = found if isinstance(found, tuple) else (found,)
        else:
            sizes, self.rest = tuple(a.meaning for a in self.rest), []
        return tuple(self.size(size) for size in sizes)

    def size(self, value: Meaning) -> Any:
        """One size."""
        if isinstance(value, int) and value < 0:
            raise ShapeError(f"{self.spelled} takes no negative size", span=self.span, found=(str(value),))
        if not is_size_like(value):
            raise NotationError(
                f"{self.spelled} takes sizes, not {describe_meaning(value)}", span=self.span, hints=EXAMPLE
            )
        return size_of(value)

    def number(self, value: Meaning) -> Number:
        """A number that is written into the tensor."""
        if isinstance(value, bool):
            return int(value)
        if not is_constant_number(value):
            raise NotationError(
                f"{self.spelled} takes numbers, not {describe_meaning(value)}", span=self.span, hints=EXAMPLE
            )
        return value

    def tensor(self) -> Ref:
        """The tensor whose shape is taken."""
        found = self.take("input", "self")
        if not isinstance(found, Ref):
            raise NotationError(f"{self.spelled} takes a tensor, not {describe_meaning(found)}", span=self.span)
        if found.complex:
            raise UnsupportedError(f"{self.spelled} of a complex tensor is not supported yet", span=self.span)
        return found

    def kind(self, usual: DtypeKind) -> DtypeKind:
        """What torch would hold the entries as."""
        usual = usual if self.like is None else self.like.kind
        return usual if self.dtype is None else DTYPES[self.dtype]

    def finished(self) -> None:
        """Refuse what nobody has taken."""
        wanted = self.named.pop("requires_grad", None)
        if wanted is not None and wanted.meaning is True:
            raise UnsupportedError(
                "a tensor that the text makes has no gradient",
                span=wanted.span,
                hints=("a name for it: w = torch.ones(3, requires_grad=True)", "a name alone, which is an input"),
            )
        for name, argument in self.named.items():
            raise UnknownNameError(f"{self.spelled} has no argument {name}", span=argument.span)
        if self.rest:
            raise NotationError(f"{self.spelled} has too many arguments", span=self.rest[0].span)


EXAMPLE = ("torch.ones(2, 3), torch.arange(3), torch.full((2, 3), 0.5), torch.tensor([1, 2])",)
