"""Tensors that a text makes itself: ``torch.ones(3)``, ``x.new_zeros(2)``, the list in ``x[[0, 2]]``.

Comes in: the spelling of a call and what its arguments mean. Goes out: a `LiteralTensor`, a shape and the numbers that
fill it once every size has one. It is data: no gradient flows to it. Random numbers are drawn once, by NumPy, with a
seed that the page names, so that they are the same here and in torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import InputError, NotationError, ShapeError, Span, UnknownNameError, UnsupportedError
from symgrad.language.arguments import Array, array_from_entries, flatten_nested, nested_shape
from symgrad.language.binding import (
    Argument,
    Fill,
    Generator,
    LiteralTensor,
    Meaning,
    Numbers,
    Ref,
    describe_meaning,
    is_size_like,
)
from symgrad.language.constants import combine_constants, is_scalar
from symgrad.language.dtypes import DTYPES, DtypeKind, number_type
from symgrad.language.literals import RANDOM
from symgrad.ops.lookup import short_spelling
from symgrad.program import Number
from symgrad.shapes import Shape, as_size


class ConstructorArguments:
    """The arguments of a call, taken one after the other by the names that torch has for them.

    ``like`` is the tensor whose type is taken, ``shape`` the one that is known beforehand.
    """

    def __init__(self, spelled: str, arguments: Sequence[Argument], span: Span, dtype: str | None = None) -> None:
        self.spelled = short_spelling(spelled).removeprefix("Tensor.")
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
        return as_size(value)

    def number(self, value: Meaning) -> Number:
        """A number that is written into the tensor."""
        if isinstance(value, bool):
            return int(value)
        if not is_scalar(value):
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
                "a tensor that the text creates has no gradient",
                span=wanted.span,
                hints=("a name for it: w = torch.ones(3, requires_grad=True)", "a name alone, which is an input"),
            )
        for name, argument in self.named.items():
            raise UnknownNameError(f"{self.spelled} has no argument {name}", span=argument.span)
        if self.rest:
            raise NotationError(f"{self.spelled} has too many arguments", span=self.rest[0].span)


Maker = Callable[[ConstructorArguments], LiteralTensor]
EXAMPLE = ("torch.ones(2, 3), torch.arange(3), torch.full((2, 3), 0.5), torch.tensor([1, 2])",)


def array_from_literals(entries: list[Any], shape: tuple[int, ...], name: str) -> Array:
    """What the text writes; an infinity or NaN makes decimal numbers of all of them."""
    if all(isinstance(entry, complex) or math.isfinite(entry) for entry in entries):
        return array_from_entries(entries, shape, name)
    return np.array([float(entry) for entry in entries]).reshape(shape)


# What is known beforehand ---------------------------------------------------------------------------------------


def constant_fill(value: Any) -> Fill:
    """The same number everywhere."""

    def fill(shape: tuple[int, ...], number: Numbers, _: Generator) -> Array:
        return array_from_literals([number(value)] * math.prod(shape), shape, "the value")

    return fill


def make_constant(value: int) -> Maker:
    """``torch.ones(2, 3)``."""
    return lambda given: LiteralTensor(given.sizes(), constant_fill(value), given.kind(DtypeKind.REAL))


def make_full(given: ConstructorArguments) -> LiteralTensor:
    """``torch.full((2, 3), 0.5)``; of a truth value or an integer it holds those."""
    size = given.take("size", "shape") if given.shape is None else given.shape
    value = given.take("fill_value")
    shape = tuple(given.size(s) for s in (size if isinstance(size, tuple) else (size,)))
    kind = DtypeKind.TRUTH if isinstance(value, bool) else number_type(given.number(value)).kind
    return LiteralTensor(shape, constant_fill(given.number(value)), given.kind(kind))


def like_first(maker: Maker, shape: bool = True) -> Maker:
    """``torch.full_like(x, 0.5)``: of x's own type, and in its ``shape``, which ``x.new_ones(2, 3)`` is not."""

    def make(given: ConstructorArguments) -> LiteralTensor:
        given.like = given.tensor()
        given.shape = given.like.shape if shape else None
        return maker(given)

    return make


def make_eye(given: ConstructorArguments) -> LiteralTensor:
    """``torch.eye(3)``, ``torch.eye(2, 3)``."""
    rows = given.size(given.take("n", "N"))
    columns = given.take("m", "M")
    shape = (rows, rows if columns is None else given.size(columns))
    return LiteralTensor(shape, lambda numbers, *_: np.eye(*numbers, dtype=np.int64), given.kind(DtypeKind.REAL))


def make_arange(given: ConstructorArguments) -> LiteralTensor:
    """``torch.arange(3)``, ``torch.arange(1, n + 1)``, ``torch.arange(0, 1, 0.25)``."""
    first, second, step = (given.take(name) for name in ("start", "end", "step"))
    if second is None and step is None and first is None:
        raise NotationError(f"{given.spelled} needs an end value", span=given.span, hints=EXAMPLE)
    start, end = (0, first) if second is None else (first, second)
    parts = [given.number(v) for v in (start, end, 1 if step is None else step)]
    if parts[2] == 0:
        raise InputError("arange takes a step that is not 0", span=given.span)
    count = arange_length(given, *parts)
    whole = all(number_type(p).kind is DtypeKind.WHOLE for p in parts)

    def fill(shape: tuple[int, ...], number: Numbers, _: Generator) -> Array:
        begin, by = number(parts[0]), number(parts[2])
        return array_from_entries(
            [combine_constants("+", begin, combine_constants("*", by, n)) for n in range(shape[0])], shape, "arange"
        )

    counts = whole and parts[0] == 0 and parts[2] == 1
    return LiteralTensor((count,), fill, given.kind(DtypeKind.WHOLE if whole else DtypeKind.REAL), counts=counts)


def arange_length(given: ConstructorArguments, start: Any, end: Any, step: Any) -> Any:
    """How many numbers there are from ``start`` to below ``end``."""
    if any(isinstance(v, sp.Expr) for v in (start, end, step)):
        if step != 1 or not all(is_size_like(v) for v in (start, end)):
            raise UnsupportedError("this range needs sizes that are known", span=given.span, hints=("a step of 1",))
        return as_size(sp.expand(end - start))
    return as_size(max(0, math.ceil(combine_constants("/", combine_constants("-", end, start), step))))


def make_linspace(given: ConstructorArguments) -> LiteralTensor:
    """``torch.linspace(0, 1, 5)``."""
    start, end = (given.number(given.take(name)) for name in ("start", "end"))
    count = given.size(given.take("steps", "num"))

    def fill(shape: tuple[int, ...], number: Numbers, _: Generator) -> Array:
        low, high, gaps = number(start), number(end), max(shape[0] - 1, 1)
        step = combine_constants("/", combine_constants("-", high, low), gaps)
        entries = [combine_constants("+", low, combine_constants("*", step, n)) for n in range(shape[0])]
        return array_from_entries(list(entries), shape, "linspace")

    return LiteralTensor((count,), fill, given.kind(DtypeKind.REAL))


def make_from_list(given: ConstructorArguments) -> LiteralTensor:
    """``torch.tensor([[1, 2], [3, 4]])``."""
    entries = given.take("data", "object")
    if entries is None:
        raise NotationError(f"{given.spelled} needs numbers", span=given.span, hints=EXAMPLE)
    shape, flat = nested_shape(entries, "the list"), flatten_nested(entries)
    for entry in flat:
        if not isinstance(entry, bool):
            given.number(entry)
    kinds = [DtypeKind.TRUTH if isinstance(e, bool) else number_type(e).kind for e in flat]
    sized = tuple(as_size(n) for n in shape)

    def fill(numbers: tuple[int, ...], number: Numbers, _: Generator) -> Array:
        return array_from_literals([number(int(e) if isinstance(e, bool) else e) for e in flat], numbers, "the list")

    return LiteralTensor(sized, fill, given.kind(max(kinds, default=DtypeKind.REAL)))


def make_typed(kind: DtypeKind) -> Maker:
    """``torch.FloatTensor([1, 2])``; of sizes it holds whatever was in memory."""

    def make(given: ConstructorArguments) -> LiteralTensor:
        if not (given.rest and isinstance(given.rest[0].meaning, (tuple, list))):
            return refuse_uninitialized(given)
        made = make_from_list(given)
        return LiteralTensor(made.shape, made.fill, kind)

    return make


# What is drawn ----------------------------------------------------------------------------------------------------


Draw = Callable[[Generator, tuple[int, ...]], Array]


def fill_with_draws(draw: Draw) -> Fill:
    """What a generator draws."""
    return lambda shape, number, generator: np.asarray(draw(generator, shape))


def make_random(draw: Draw) -> Maker:
    """``torch.randn(2, 3)``."""
    return lambda given: LiteralTensor(
        given.sizes(), fill_with_draws(draw), DTYPES[given.dtype or "float64"], drawn=True
    )


def integer_bounds(given: ConstructorArguments) -> tuple[int, int]:
    """From where to below where whole numbers are drawn."""
    found = [given.take("low")]
    more = given.rest and not isinstance(given.rest[0].meaning, tuple)
    found += [given.take("high")] if more or "high" in given.named or given.shape is not None else []
    numbers = [given.number(v) for v in found if v is not None]
    low, high = (0, *numbers)[-2:]
    if not isinstance(low, int) or not isinstance(high, int) or high <= low:
        raise InputError(f"{given.spelled} takes integers, the second one larger", span=given.span)
    return low, high


def make_randint(given: ConstructorArguments) -> LiteralTensor:
    """``torch.randint(0, 10, (3,))``."""
    low, high = integer_bounds(given)
    fill = fill_with_draws(lambda generator, shape: generator.integers(low, high, shape))
    return LiteralTensor(given.sizes(), fill, given.kind(DtypeKind.WHOLE), drawn=True)


def make_randperm(given: ConstructorArguments) -> LiteralTensor:
    """``torch.randperm(5)``."""
    fill = fill_with_draws(lambda generator, shape: generator.permutation(shape[0]))
    return LiteralTensor((given.size(given.take("n")),), fill, given.kind(DtypeKind.WHOLE), drawn=True)


def refuse_uninitialized(given: ConstructorArguments) -> LiteralTensor:
    """What holds whatever was in memory."""
    raise UnsupportedError(
        f"{given.spelled} contains whatever was in memory", span=given.span, hints=("torch.zeros(…)",)
    )


RAND, RANDN = make_random(RANDOM["rand"]), make_random(RANDOM["randn"])
FLOATS, INTEGERS, TRUTHS = map(make_typed, (DtypeKind.REAL, DtypeKind.WHOLE, DtypeKind.TRUTH))
MAKERS: Mapping[str, Maker] = {
    "ones": make_constant(1), "zeros": make_constant(0), "full": make_full, "full_like": like_first(make_full),
    "eye": make_eye, "arange": make_arange, "linspace": make_linspace,
    **dict.fromkeys(("tensor", "as_tensor", "array", "asarray"), make_from_list),
    "rand": RAND, "randn": RANDN, "rand_like": like_first(RAND), "randn_like": like_first(RANDN),
    "randint": make_randint, "randint_like": like_first(make_randint), "randperm": make_randperm,
    "empty": refuse_uninitialized, "empty_like": refuse_uninitialized,
    "Tensor": FLOATS, "FloatTensor": FLOATS, "DoubleTensor": FLOATS, "LongTensor": INTEGERS, "IntTensor": INTEGERS,
    "BoolTensor": TRUTHS,
}  # fmt: skip
METHODS: Mapping[str, Maker] = {
    "new_ones": like_first(make_constant(1), shape=False), "new_zeros": like_first(make_constant(0), shape=False),
    "new_full": like_first(make_full, shape=False), "new_tensor": like_first(make_from_list, shape=False),
    "new_empty": refuse_uninitialized,
}  # fmt: skip
PYTHONS: Mapping[str, Maker] = {"range": make_arange}
"""Python's own, which stand for positions: ``x[range(3), y]``."""


def find_constructor(spelled: str) -> Maker | None:
    """What makes the tensor for a call spelled so, or None."""
    module, _, word = short_spelling(spelled).rpartition(".")
    if module == "Tensor":
        return METHODS.get(word)
    if not module and word in PYTHONS:
        return PYTHONS[word]
    return MAKERS.get(word) if module in ("torch", "np", "") else None
