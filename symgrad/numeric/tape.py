"""What evaluating an equation asks of NumPy, written down once and played again for other numbers.

Comes in: an evaluation as a function of arrays. Goes out: a `Tape`, the NumPy calls it made, in order, on numbered
slots. Played on other arrays of the same shapes and types it makes the very same calls, so the result is the same
to the last bit; what the evaluation asked of the numbers themselves (is all of this finite?) is asked again, and a
different answer sends the caller back to the evaluation. Whatever cannot be followed leaves no tape.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from symgrad.numeric.exact import Array

MOST = 1 << 16
"""Tapes that hold more numbers of their own than this are not kept."""


NONE: Mapping[str, Any] = {}
Evaluation = Callable[[Mapping[str, Any]], Any]


class Untraceable(Exception):
    """Something was asked of a traced array that a tape cannot repeat."""


@dataclass
class Tape:
    """Calls on slots: the inputs first, then one slot for each result. ``asked`` are answers that have to recur."""

    inputs: tuple[str, ...]
    calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    asked: list[tuple[int, int, bool]] = field(default_factory=list)
    slots: int = 0
    result: int = -1

    def new(self, value: Any) -> Traced:
        """The next slot."""
        self.slots += 1
        return Traced(self, self.slots - 1, value)

    def record(self, function: Callable[..., Any], given: Sequence[Any], keywords: Mapping[str, Any] = NONE) -> Any:
        """One call, made and written down."""
        value = function(*(mapped(part, raw) for part in given), **{k: mapped(v, raw) for k, v in keywords.items()})
        if not isinstance(value, (np.ndarray, np.generic)):
            raise Untraceable
        self.calls.append((function, tuple(slot(part) for part in given), {k: slot(v) for k, v in keywords.items()}))
        return self.new(value)

    def ask(self, traced: Traced) -> bool:
        """A question to the numbers, whose answer the evaluation depends on."""
        answer = bool(traced.value)
        self.asked.append((len(self.calls), traced.place, answer))
        return answer

    def play(self, arrays: Mapping[str, Array]) -> Array | None:
        """The result for other arrays, None where they answer a question differently."""
        values: list[Any] = [arrays[name] for name in self.inputs]
        questions = iter([*self.asked, (-1, -1, False)])
        at, place, answer = next(questions)
        for number, (function, given, spoken) in enumerate(self.calls):
            while at == number:
                if bool(values[place]) is not answer:
                    return None
                at, place, answer = next(questions)
            parts = [filled(part, values) for part in given]
            values.append(function(*parts, **{k: filled(v, values) for k, v in spoken.items()}))
        while at == len(self.calls):
            if bool(values[place]) is not answer:
                return None
            at, place, answer = next(questions)
        return np.asarray(values[self.result])

    @property
    def held(self) -> int:
        """How many numbers of its own it holds."""
        found: list[int] = []
        for _, given, spoken in self.calls:
            for part in (*given, *spoken.values()):
                mapped(part, lambda held: found.append(held.size) if isinstance(held, np.ndarray) else None)
        return sum(found)


@dataclass(frozen=True)
class Slot:
    """The place of a value on a tape."""

    place: int


@dataclass(frozen=True)
class Nested:
    """An argument with places somewhere inside its tuples and slices."""

    parts: Any


class Traced(NDArrayOperatorsMixin):
    """An array whose calls are written down; it refuses to become a plain one, since that would lose the trail."""

    def __init__(self, tape: Tape, place: int, value: Any) -> None:
        self.tape, self.place, self.value = tape, place, value

    @property
    def shape(self) -> tuple[int, ...]:
        """The same for every array that is played."""
        return tuple(self.value.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return int(self.value.ndim)

    @property
    def size(self) -> int:
        """The number of entries."""
        return int(self.value.size)

    @property
    def dtype(self) -> Any:
        """The type of the entries."""
        return self.value.dtype

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **spoken: Any) -> Any:
        if spoken.get("out") is not None:
            raise Untraceable
        return self.tape.record(ufunc if method == "__call__" else getattr(ufunc, method), given, spoken)

    def __array_function__(self, function: Any, types: Any, given: Any, spoken: Any) -> Any:
        return self.tape.record(function, given, spoken)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise Untraceable

    def __getitem__(self, key: Any) -> Any:
        return self.tape.record(operator.getitem, (self, key))

    def __bool__(self) -> bool:
        return self.tape.ask(self)

    def __iter__(self) -> Any:
        raise Untraceable

    def __getattr__(self, name: str) -> Any:
        raise Untraceable  # NumPy has it, a tape does not

    __len__ = __int__ = __index__ = __float__ = __setitem__ = __iter__

    def reshape(self, *shape: Any) -> Any:
        """As NumPy's."""
        return self.tape.record(np.reshape, (self, shape[0] if len(shape) == 1 else shape))

    def astype(self, dtype: Any) -> Any:
        """As NumPy's."""
        return self.tape.record(as_type, (self, dtype))

    def all(self) -> Any:
        """As NumPy's."""
        return self.tape.record(np.all, (self,))

    def any(self) -> Any:
        """As NumPy's."""
        return self.tape.record(np.any, (self,))


def as_type(array: Any, dtype: Any) -> Any:
    """``array.astype(dtype)`` as a function."""
    return array.astype(dtype)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """``change`` applied to what stands in tuples, lists and slices."""
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(part, change) for part in value)
    if isinstance(value, slice):
        return slice(mapped(value.start, change), mapped(value.stop, change), mapped(value.step, change))
    return change(value)


def raw(value: Any) -> Any:
    """A traced array's present value."""
    return value.value if isinstance(value, Traced) else value


def slot(value: Any) -> Any:
    """What a tape keeps of an argument: places for what is traced, everything else as it is."""
    if isinstance(value, Traced):
        return Slot(value.place)
    found: list[Traced] = []
    mapped(value, lambda part: found.append(part) if isinstance(part, Traced) else None)
    if not found:
        return value
    return Nested(mapped(value, lambda part: Slot(part.place) if isinstance(part, Traced) else part))


def filled(value: Any, values: Sequence[Any]) -> Any:
    """Places filled in."""
    if type(value) is Slot:
        return values[value.place]
    if type(value) is Nested:
        return mapped(value.parts, lambda part: values[part.place] if type(part) is Slot else part)
    return value


def called(function: Callable[..., Any], *parts: Any) -> Any:
    """``function(*parts)``: one call on the tape where a part is traced."""
    for part in parts:
        if isinstance(part, Traced):
            return part.tape.record(function, parts)
    return function(*parts)


def whole(value: Any) -> Any:
    """``value`` as an array, traced or not."""
    return value if isinstance(value, Traced) else np.asarray(value)


class Tapes:
    """Tapes by what they depend on, the latest used ``most`` of them: made at the second use, played from the third."""

    def __init__(self, most: int = 2048) -> None:
        self.most = most
        self.known: OrderedDict[Any, Tape | bool | None] = OrderedDict()

    def result(self, key: Any, evaluation: Evaluation, arrays: Mapping[str, Array]) -> Array:
        """What ``evaluation`` gives for ``arrays``. The key has to say everything else that it depends on."""
        known = self.known.pop(key, False)
        found: Array | None = None
        if isinstance(known, Tape):
            found = known.play(arrays)
        elif known is True:
            found, known = taped(evaluation, arrays)
        self.known[key] = True if known is False else known
        while len(self.known) > self.most:
            self.known.popitem(last=False)
        return np.asarray(evaluation(arrays)) if found is None else found


def taped(evaluation: Evaluation, arrays: Mapping[str, Array]) -> tuple[Array, Tape | None]:
    """An evaluation's result, and its tape where it can be followed."""
    tape = Tape(tuple(arrays))
    try:
        result = evaluation({name: tape.new(array) for name, array in arrays.items()})
        if not isinstance(result, Traced):
            raise Untraceable
    except Untraceable:
        return np.asarray(evaluation(arrays)), None
    tape.result = result.place
    return np.asarray(result.value), tape if tape.held <= MOST else None


__all__ = ["Tape", "Tapes", "Traced", "called", "taped", "whole"]
