"""Checks of the arguments of public functions: names, flags, shapes, and numbers.

Comes in: an argument of any type. Goes out: the same in a plain type, or an `InputError` with the required form.
Numbers (nested lists, fractions, NumPy arrays, torch tensors) become NumPy arrays that are exact where they can be:
int64 where all entries are integers, fractions in an object array where some are, float64 otherwise. Entries that are
not finite or not real, ragged lists and arrays that are too large are refused by name and position. A torch tensor is
recognised by its methods; torch is never imported here.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from inspect import signature
from numbers import Rational
from operator import index
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from symgrad.errors import InputError, ShapeError, UnsupportedError
from symgrad.language.index_equations import equation_from_einsum

LONGEST = 60
"""Characters of what was passed that a message repeats."""


def require_text(value: object, what: str) -> str:
    """``value``, which has to be text; einsum's subscripts alone are short for an index equation."""
    if isinstance(value, str):
        return equation_from_einsum(value) or value
    raise argument_error(value, f"{what} has to be text", '"x@a"')


def require_name(value: object, what: str) -> str:
    """``value``, which has to be the name of one input."""
    if isinstance(value, str):
        return value
    raise argument_error(value, f"{what} has to be the name of an input", '"x"')


def require_names(value: object, what: str) -> tuple[str, ...] | None:
    """Names of inputs, as ``"x, a"`` or as a list of them; None stays None."""
    if value is None:
        return None
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(","))
    if isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping)) and not hasattr(value, "dtype"):
        names = list(value)
        if names and all(isinstance(name, str) for name in names):
            return tuple(names)
    raise argument_error(value, f"{what} has to name inputs", '"x", or ["x", "a"]')


def require_flag(value: object, what: str) -> bool:
    """``value``, which has to be True or False."""
    if isinstance(value, bool):
        return value
    raise argument_error(value, f"{what} has to be True or False", "True")


def require_order(value: object) -> int:
    """How many derivatives are taken."""
    if isinstance(value, int) and not isinstance(value, bool) and value in (1, 2):
        return value
    raise argument_error(value, "order has to be 1 or 2", "order=2")


def require_count(value: object, what: str) -> int:
    """``value``, which has to be a whole number that is not negative."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    raise argument_error(value, f"{what} has to be a whole number", "0")


def require_position(value: object, what: str) -> tuple[int, ...]:
    """``value``, which has to be the place of an entry: whole numbers."""
    numbers = tuple(value) if isinstance(value, (tuple, list)) else None
    if numbers is not None and all(isinstance(n, SupportsIndex) and not isinstance(n, bool) for n in numbers):
        return tuple(index(n) for n in numbers)
    raise argument_error(value, f"{what} has to be the index of an entry", "(0, 1)")


def require_entry(value: object) -> tuple[str, tuple[int, ...]] | None:
    """The name of an input and the place of one of its entries; None stays None."""
    if value is None:
        return None
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return require_name(value[0], "the first part of entry"), require_position(value[1], "the second part of entry")
    raise argument_error(value, "entry has to be an input and the index of an entry", '("x", (0, 1))')


def require_shapes(value: object) -> dict[str, Sequence[Any]]:
    """Shapes by name; what they consist of is looked at where they are read."""
    if value is None:
        return {}
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        bad = [name for name, shape in value.items() if not isinstance(shape, (tuple, list))]
        if not bad:
            return {name: tuple(shape) for name, shape in value.items()}
        raise argument_error(value[bad[0]], f"the shape of {bad[0]} has to be a list of sizes", "(2, 3)")
    raise argument_error(value, "shapes have to be given by name", '{"x": (2, 3)}')


def require_values(value: object) -> dict[str, Any]:
    """Values by name."""
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return dict(value)
    raise argument_error(value, "values have to be given by name", '{"x": [1, 2]}')


def require_fitting_inputs(
    function: Callable[..., object], inputs: Sequence[object], values: Mapping[str, object]
) -> None:
    """Refuse inputs that a function does not take."""
    try:
        signature(function).bind(*inputs, **values)
    except TypeError as error:
        raise InputError("the function does not take these inputs", found=(str(error),)) from None
    except ValueError:  # torch's own say theirs when they are called
        return


def argument_error(value: object, problem: str, example: str) -> InputError:
    """The refusal of an argument."""
    return InputError(problem, found=(f"{type(value).__name__} {abbreviate_repr(value)}".strip(),), hints=(example,))


def abbreviate_repr(value: object) -> str:
    """The beginning of what was passed, where it can be shown."""
    try:
        return reprlib.repr(value)[:LONGEST]
    except Exception:  # whatever a stranger's __repr__ raises
        return ""


Array = npt.NDArray[Any]

MOST = 10**7
"""No array has more entries than this."""
MOST_AXES = 16
"""More axes than anybody has; keeps the work for nonsense small."""


def exact_array(given: object, name: str = "the value") -> Array:
    """``given`` as an array.

    >>> exact_array([[1, 2], [3, 4]]).dtype, exact_array([0.5, 1]).dtype
    (dtype('int64'), dtype('float64'))
    >>> exact_array([Fraction(1, 2), 1])
    array([Fraction(1, 2), Fraction(1, 1)], dtype=object)

    Raises `InputError` for entries that are no finite numbers and for arrays that are too large, `ShapeError`
    for ragged lists, `UnsupportedError` for complex numbers.
    """
    if isinstance(given, Mapping):
        keys = [str(key) for key in given if str(key).isidentifier()][:3]
        raise InputError(
            f"{name} is a dictionary, not numbers", found=(abbreviate_repr(given),),
            hints=(f"each input by its own name: {', '.join(f'{key}=…' for key in keys or ['x'])}",
                   "sizes: shapes={'x': (2, 3)}"),
        )  # fmt: skip
    if hasattr(given, "detach") and hasattr(given, "cpu"):
        given = array_from_torch(given, name)
    if isinstance(given, (np.ndarray, np.generic)):
        return array_from_numpy(np.asarray(given), name)
    shape = nested_shape(given, name)
    if math.prod(shape) > MOST:
        raise too_large_error(shape, name)
    return array_from_entries(flatten_nested(given), shape, name)


def too_large_error(shape: Sequence[int], name: str) -> InputError:
    """The refusal of an array with more than `MOST` entries."""
    return InputError(
        f"{name} is too large", found=(f"{'×'.join(map(str, shape))} entries",), hints=(f"at most {MOST:,} entries",)
    )


def array_from_torch(tensor: Any, name: str) -> Array:
    """The entries of a torch tensor, wherever it lives and whether or not it requires a gradient."""
    try:
        plain = tensor.detach().cpu()
        try:
            return np.asarray(plain.numpy())
        except TypeError:  # bfloat16, which NumPy lacks
            return np.asarray(plain.double().numpy())
    except (TypeError, RuntimeError, ValueError, AttributeError) as error:
        raise InputError(f"{name} cannot be read as an array", found=(str(error).splitlines()[0],)) from None


def is_boolean_data(given: object) -> bool:
    """Whether ``given`` is an array, a list or a `Value` of truth values, which torch takes for a mask."""
    if hasattr(given, "truths"):
        return bool(given.truths)
    if hasattr(given, "dtype"):
        return str(given.dtype) in ("bool", "torch.bool")
    entries = flatten_nested(given)
    return bool(entries) and all(isinstance(entry, (bool, np.bool_)) for entry in entries)


def split_pairs(given: Any) -> Array:
    """The real and imaginary parts of complex numbers, on a last axis."""
    held = array_from_torch(given, "") if hasattr(given, "detach") and hasattr(given, "cpu") else given
    return np.stack([np.real(held), np.imag(held)], axis=-1)


def array_from_numpy(array: Array, name: str) -> Array:
    """A NumPy array in one of the three types."""
    if array.size > MOST:
        raise too_large_error(array.shape, name)
    if array.dtype.kind == "c":
        raise complex_values_error(name)
    if array.dtype.kind == "O":
        return array_from_entries(list(array.reshape(-1)), array.shape, name)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} does not hold numbers", found=(f"dtype {array.dtype}",))
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise integer_too_long_error(int(array.max()), name)
    if array.dtype.kind != "f":
        return np.array(array, dtype=np.int64)
    result = np.array(array, dtype=np.float64)
    finite = np.isfinite(result)
    if not finite.all():
        bad = np.argwhere(~finite)[0]
        raise not_finite_error(float(result[tuple(bad)]), tuple(int(i) for i in bad), name)
    return result


def array_from_entries(entries: list[object], shape: tuple[int, ...], name: str) -> Array:
    """An array of ``shape`` from its entries in row-major order."""
    numbers = [check_entry(entry, n, shape, name) for n, entry in enumerate(entries)]
    if any(isinstance(entry, float) for entry in numbers):
        return np.array([float(entry) for entry in numbers], dtype=np.float64).reshape(shape)
    if any(isinstance(entry, Fraction) for entry in numbers):
        result = np.empty(len(numbers), dtype=object)
        result[:] = [Fraction(entry) for entry in numbers]
        return result.reshape(shape)
    return np.array(numbers, dtype=np.int64).reshape(shape)


def check_entry(entry: object, place: int, shape: tuple[int, ...], name: str) -> int | float | Fraction:
    """The entry at ``place`` (in row-major order) as an int, a fraction or a finite float."""
    if isinstance(entry, np.generic) or (hasattr(entry, "detach") and hasattr(entry, "item")):
        entry = entry.item()
    if isinstance(entry, (bool, int)):
        if abs(int(entry)) > np.iinfo(np.int64).max:
            raise integer_too_long_error(int(entry), name)
        return int(entry)
    if isinstance(entry, Rational):
        fraction = Fraction(int(entry.numerator), int(entry.denominator))
        if max(abs(fraction.numerator), fraction.denominator) > np.iinfo(np.int64).max:
            raise integer_too_long_error(max(abs(fraction.numerator), fraction.denominator), name)
        return int(fraction) if fraction.denominator == 1 else fraction
    if isinstance(entry, complex):
        raise complex_values_error(name)
    if isinstance(entry, float):
        if not math.isfinite(entry):
            raise not_finite_error(entry, unravel_place(place, shape), name)
        return entry
    raise InputError(
        f"{format_entry_name(name, unravel_place(place, shape))} is not a number", found=(abbreviate_repr(entry),)
    )


def unravel_place(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The indices of an entry counted in row-major order."""
    return tuple(int(i) for i in np.unravel_index(place, shape)) if shape else ()


def format_entry_name(name: str, at: Sequence[Any]) -> str:
    """``x[0,1]``; a scalar is just its name."""
    return f"{name}[{','.join(map(str, at))}]" if at else name


def not_finite_error(entry: float, at: tuple[int, ...], name: str) -> InputError:
    """The refusal of nan and infinities."""
    return InputError(f"{format_entry_name(name, at)} is not a finite number", found=(str(entry),))


def complex_values_error(name: str) -> UnsupportedError:
    """The refusal of complex numbers."""
    return UnsupportedError(
        f"{name} holds complex numbers, which symgrad does not differentiate yet",
        hints=("pairs (re, im): view_as_complex(x)", "symgrad.capture takes complex tensors"),
    )


def integer_too_long_error(entry: int, name: str) -> InputError:
    """The refusal of integers beyond 64 bits."""
    digits = len(f"{abs(entry):x}") * 4
    return InputError(
        f"{name} holds an integer of about {digits} bits", hints=("at most 63 bits, or a decimal number",)
    )


def nested_shape(given: object, name: str) -> tuple[int, ...]:
    """The shape of a nested list; raises `ShapeError` where its rows differ."""
    shape: list[int] = []
    level: list[tuple[tuple[int, ...], object]] = [((), given)]
    while level and any(isinstance(entry, (list, tuple)) for _, entry in level):
        first = len(level[0][1]) if isinstance(level[0][1], (list, tuple)) else None
        for place, entry in level:
            length = len(entry) if isinstance(entry, (list, tuple)) else None
            if length != first:
                raise ragged_error(name, place, length, level[0][0], first)
        shape.append(first or 0)
        if len(shape) > MOST_AXES or len(level) * (first or 0) > MOST:
            raise too_large_error((*shape,), name)
        level = [
            ((*place, n), item)
            for place, entry in level
            if isinstance(entry, (list, tuple))
            for n, item in enumerate(entry)
        ]
    return tuple(shape)


def ragged_error(
    name: str, place: tuple[int, ...], length: int | None, first: tuple[int, ...], expected: int | None
) -> ShapeError:
    """The refusal of a list whose rows differ."""

    def told(where: tuple[int, ...], count: int | None) -> str:
        row = f"{name}{''.join(f'[{n}]' for n in where)}"
        entries = "1 entry" if count == 1 else f"{count} entries"
        return f"{row} has {entries}" if count is not None else f"{row} is a single number"

    return ShapeError(
        f"{name} is ragged", found=(f"{told(first, expected)}, {told(place, length)}",), hints=("rows of one length",)
    )


def flatten_nested(given: object) -> list[object]:
    """The entries of a nested list in row-major order."""
    if not isinstance(given, (list, tuple)):
        return [given]
    entries: list[object] = []
    for item in given:
        if isinstance(item, (list, tuple)):
            entries += flatten_nested(item)
        else:
            entries.append(item)
    return entries
