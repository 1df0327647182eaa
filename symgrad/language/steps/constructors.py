"""Tensors that a text makes itself: ``torch.ones(3)``, ``x.new_zeros(2)``, the list in ``x[[0, 2]]``.

Comes in: what a call is spelled like and what its arguments mean. Goes out: a `Made`, a shape and the numbers that
belong into it once every size has one. It is data: nothing flows back to it. Random numbers are drawn once, by NumPy,
with a seed that the page tells, so that they are the same here and in torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import InputError, NotationError, UnsupportedError
from symgrad.language.arguments import Array, array_from_entries, nested_shape
from symgrad.language.constants import combine_constants
from symgrad.language.steps.binding import Meaning, is_size
from symgrad.language.steps.kinds import Kind, written
from symgrad.language.steps.made import DTYPES, EXAMPLE, Fill, Generator, Given, Made, Numbers
from symgrad.ops.lookup import normal
from symgrad.shapes import size_of

Maker = Callable[[Given], Made]


def written_out(entries: list[Any], shape: tuple[int, ...], name: str) -> Array:
    """What the text writes; an infinity or NaN makes decimal numbers of all of them."""
    if all(isinstance(entry, complex) or math.isfinite(entry) for entry in entries):
        return array_from_entries(entries, shape, name)
    return np.array([float(entry) for entry in entries]).reshape(shape)


# What is known beforehand ---------------------------------------------------------------------------------------


def filled_with(value: Any) -> Fill:
    """The same number everywhere."""

    def fill(shape: tuple[int, ...], number: Numbers, _: Generator) -> Array:
        return written_out([number(value)] * math.prod(shape), shape, "the value")

    return fill


def constant(value: int) -> Maker:
    """``torch.ones(2, 3)``."""
    return lambda given: Made(given.sizes(), filled_with(value), given.kind(Kind.REAL))


def full(given: Given) -> Made:
    """``torch.full((2, 3), 0.5)``; of a truth value or an integer it holds those."""
    size = given.take("size", "shape") if given.shape is None else given.shape
    value = given.take("fill_value")
    shape = tuple(given.size(s) for s in (size if isinstance(size, tuple) else (size,)))
    kind = Kind.TRUTH if isinstance(value, bool) else written(given.number(value)).kind
    return Made(shape, filled_with(given.number(value)), given.kind(kind))


def of_type(maker: Maker) -> Maker:
    """``x.new_ones(2, 3)``: of x's own type."""

    def make(given: Given) -> Made:
        given.like = given.tensor()
        return maker(given)

    return make


def of_shape(maker: Maker) -> Maker:
    """``torch.full_like(x, 0.5)``: in x's shape, and of its type."""

    def make(given: Given) -> Made:
        given.like = given.tensor()
        given.shape = given.like.shape
        return maker(given)

    return make


def eye(given: Given) -> Made:
    """``torch.eye(3)``, ``torch.eye(2, 3)``."""
    rows = given.size(given.take("n", "N"))
    columns = given.take("m", "M")
    shape = (rows, rows if columns is None else given.size(columns))
    return Made(shape, lambda numbers, *_: np.eye(*numbers, dtype=np.int64), given.kind(Kind.REAL))


def arange(given: Given) -> Made:
    """``torch.arange(3)``, ``torch.arange(1, n + 1)``, ``torch.arange(0, 1, 0.25)``."""
    first, second, step = (given.take(name) for name in ("start", "end", "step"))
    if second is None and step is None and first is None:
        raise NotationError(f"{given.spelled} needs an end", span=given.span, hints=EXAMPLE)
    start, end = (0, first) if second is None else (first, second)
    parts = [given.number(v) for v in (start, end, 1 if step is None else step)]
    if parts[2] == 0:
        raise InputError("arange takes a step that is not 0", span=given.span)
    count = counted(given, *parts)
    whole = all(written(p).kind is Kind.WHOLE for p in parts)

    def fill(shape: tuple[int, ...], number: Numbers, _: Generator) -> Array:
        begin, by = number(parts[0]), number(parts[2])
        return array_from_entries(
            [combine_constants("+", begin, combine_constants("*", by, n)) for n in range(shape[0])], shape, "arange"
        )

    counts = whole and parts[0] == 0 and parts[2] == 1
    return Made((count,), fill, given.kind(Kind.WHOLE if whole else Kind.REAL), counts=counts)


def counted(given: Given, start: Any, end: Any, step: Any) -> Any:
    """How many numbers there are from ``start`` to below ``end``."""
    if any(isinstance(v, sp.Expr) for v in (start, end, step)):
        if step != 1 or not all(is_size(v) for v in (start, end)):
            raise UnsupportedError("this range needs sizes that are known", span=given.span, hints=("a step of 1",))
        return size_of(sp.expand(end - start))
    return size_of(max(0, math.ceil(combine_constants("/", combine_constants("-", end, start), step))))


def linspace(given: Given) -> Made:
    """``torch.linspace(0, 1, 5)``."""
    start, end = (given.number(given.take(name)) for name in ("start", "end"))
    count = given.size(given.take("steps", "num"))

    def fill(shape: tuple[int, ...], number: Numbers, _: Generator) -> Array:
        low, high, gaps = number(start), number(end), max(shape[0] - 1, 1)
        step = combine_constants("/", combine_constants("-", high, low), gaps)
        entries = [combine_constants("+", low, combine_constants("*", step, n)) for n in range(shape[0])]
        return array_from_entries(list(entries), shape, "linspace")

    return Made((count,), fill, given.kind(Kind.REAL))


def tensor(given: Given) -> Made:
    """``torch.tensor([[1, 2], [3, 4]])``."""
    return listed(given.take("data", "object"), given)


def typed(kind: Kind) -> Maker:
    """``torch.FloatTensor([1, 2])``; of sizes it holds whatever was in memory."""

    def make(given: Given) -> Made:
        if not (given.rest and isinstance(given.rest[0].meaning, (tuple, list))):
            return unwritten(given)
        made = tensor(given)
        return Made(made.shape, made.fill, kind)

    return make


def listed(entries: Meaning, given: Given) -> Made:
    """The tensor that a list of numbers spells."""
    if entries is None:
        raise NotationError(f"{given.spelled} needs numbers", span=given.span, hints=EXAMPLE)
    shape, flat = nested_shape(entries, "the list"), flat_of(entries)
    for entry in flat:
        if not isinstance(entry, bool):
            given.number(entry)
    kinds = [Kind.TRUTH if isinstance(e, bool) else written(e).kind for e in flat]
    sized = tuple(size_of(n) for n in shape)

    def fill(numbers: tuple[int, ...], number: Numbers, _: Generator) -> Array:
        return written_out([number(int(e) if isinstance(e, bool) else e) for e in flat], numbers, "the list")

    return Made(sized, fill, given.kind(max(kinds, default=Kind.REAL)))


def flat_of(entries: Meaning) -> list[Any]:
    """The entries of a nested list, row by row."""
    if not isinstance(entries, (tuple, list)):
        return [entries]
    return [entry for item in entries for entry in flat_of(item)]


# What is drawn ----------------------------------------------------------------------------------------------------


Draw = Callable[[Generator, tuple[int, ...]], Array]


def drawn_by(draw: Draw) -> Fill:
    """What a generator draws."""
    return lambda shape, number, generator: np.asarray(draw(generator, shape))


def uniform(generator: Generator, shape: tuple[int, ...]) -> Array:
    """Numbers between 0 and 1."""
    return generator.random(shape)


def normals(generator: Generator, shape: tuple[int, ...]) -> Array:
    """Normal numbers."""
    return generator.standard_normal(shape)


def drawn(draw: Draw) -> Maker:
    """``torch.randn(2, 3)``."""
    return lambda given: Made(given.sizes(), drawn_by(draw), DTYPES[given.dtype or "float64"], drawn=True)


def bounds(given: Given) -> tuple[int, int]:
    """From where to below where whole numbers are drawn."""
    found = [given.take("low")]
    more = given.rest and not isinstance(given.rest[0].meaning, tuple)
    found += [given.take("high")] if more or "high" in given.named or given.shape is not None else []
    numbers = [given.number(v) for v in found if v is not None]
    low, high = (0, *numbers)[-2:]
    if not isinstance(low, int) or not isinstance(high, int) or high <= low:
        raise InputError(f"{given.spelled} takes whole numbers, the second one larger", span=given.span)
    return low, high


def randint(given: Given) -> Made:
    """``torch.randint(0, 10, (3,))``."""
    low, high = bounds(given)
    fill = drawn_by(lambda generator, shape: generator.integers(low, high, shape))
    return Made(given.sizes(), fill, given.kind(Kind.WHOLE), drawn=True)


def randperm(given: Given) -> Made:
    """``torch.randperm(5)``."""
    fill = drawn_by(lambda generator, shape: generator.permutation(shape[0]))
    return Made((given.size(given.take("n")),), fill, given.kind(Kind.WHOLE), drawn=True)


def unwritten(given: Given) -> Made:
    """What holds whatever was in memory."""
    raise UnsupportedError(
        f"{given.spelled} holds whatever was in memory, which is no number to compute with",
        span=given.span,
        hints=("torch.zeros(…)",),
    )


MAKERS: Mapping[str, Maker] = {
    "ones": constant(1), "zeros": constant(0), "full": full, "full_like": of_shape(full), "eye": eye, "arange": arange,
    "linspace": linspace, "tensor": tensor, "as_tensor": tensor, "array": tensor, "asarray": tensor,
    "rand": drawn(uniform), "randn": drawn(normals), "rand_like": of_shape(drawn(uniform)),
    "randn_like": of_shape(drawn(normals)), "randint": randint, "randint_like": of_shape(randint), "randperm": randperm,
    "empty": unwritten, "empty_like": unwritten, "Tensor": typed(Kind.REAL), "FloatTensor": typed(Kind.REAL),
    "DoubleTensor": typed(Kind.REAL), "LongTensor": typed(Kind.WHOLE), "IntTensor": typed(Kind.WHOLE),
    "BoolTensor": typed(Kind.TRUTH),
}  # fmt: skip
METHODS: Mapping[str, Maker] = {
    "new_ones": of_type(constant(1)), "new_zeros": of_type(constant(0)), "new_full": of_type(full),
    "new_tensor": of_type(tensor), "new_empty": unwritten,
}  # fmt: skip


PYTHONS: Mapping[str, Maker] = {"range": arange}
"""Python's own, which stand for positions: ``x[range(3), y]``."""


def maker_of(spelled: str) -> Maker | None:
    """What makes the tensor for a call spelled so, or None."""
    module, _, word = normal(spelled).rpartition(".")
    if module == "Tensor":
        return METHODS.get(word)
    if not module and word in PYTHONS:
        return PYTHONS[word]
    return MAKERS.get(word) if module in ("torch", "np", "") else None
