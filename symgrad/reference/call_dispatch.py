"""Calls and attributes of a text: looked up in the whitelist, bounded in cost, their arguments bound by torch itself.

Numbers have double precision where the text names no dtype: what torch would make in its default dtype is made in
float64. The default dtype of the process stays as it is, because other threads share it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any
from weakref import ref

import numpy as np
import torch

from symgrad.reference.bounds import (
    CONSTANTS,
    DRAWN,
    DROPS,
    IMPLICIT,
    LESS,
    LOWER,
    MAKERS,
    OF_NUMBERS,
    PARTS,
    PROPERTIES,
    PYTHONS,
    Budget,
    TextRejected,
    UnsupportedText,
    find_nested,
    is_allowed_module,
    is_allowed_word,
)

PLAIN = (int, float, complex, str, bool, type(None), slice, type(...), torch.dtype, torch.Size, torch.Tensor,
         np.ndarray, np.generic, range, torch.memory_format, torch.layout)  # fmt: skip
"""What a function of torch's or NumPy's may be handed, tuples and lists of it, and types of numbers."""
METHODS: Mapping[type, tuple[str, ...]] = {
    list: ("append", "pop"),
    dict: ("items", "keys", "values", "get"),
    torch.Size: ("numel",),
}
"""What may be called of Python's own containers."""
DEVICES, CASTS = ("cpu", "cuda", "mps", "xpu", "meta"), ("float", "int", "bool")
BINDING = ("argument", "positional", "keyword", "must be", "should be", "received an invalid combination")
"""Words of an exception that says that a function does not take its arguments."""


@dataclass(frozen=True)
class AllowedModule:
    """A module."""

    module: Any


@dataclass(frozen=True)
class AllowedFunction:
    """What may be called: a function of a module or of Python's, or a method of its ``owner``.

    A ``bare`` word may be any of these. One that only ``says`` something computes nothing that has to be counted.
    """

    name: str
    own: Any = None
    owner: Any = None
    bare: bool = False
    numpys: bool = False
    says: bool = False


SAID: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("torch", "device"): lambda *_: "cpu", ("torch", "manual_seed"): lambda *_: None,
    ("torch.nn", "Parameter"): lambda t, requires_grad=True: t.detach().requires_grad_(requires_grad),
    ("torch.autograd", "Variable"): lambda t, requires_grad=False: t.detach().requires_grad_() if requires_grad else t,
}  # fmt: skip
"""What a text says, beside what it computes."""


Draw = Callable[[str, Sequence[Any], tuple[int, ...]], Any]
"""The numbers that a function draws, by its name, its arguments and their shape."""


@dataclass
class TorchCaller:
    """Calls what a text calls; ``draws`` are the random numbers that are handed in, ``kept`` casts that kept digits.

    Where none are left, ``draw`` makes some. ``cast`` are what those casts were given and gave, with their versions:
    whether the two share entries depends on the type that the user's tensor has.
    """

    budget: Budget
    draws: list[Any]
    draw: Draw | None = None
    kept: list[str] = field(default_factory=list)
    cast: list[tuple[tuple[Any, int], ...]] = field(default_factory=list)

    def refuse_shared_casts(self) -> None:
        """Refuse a text that overwrites one side of such a cast while the other is there."""
        for pair in self.cast:
            alive = [(tensor, version) for known, version in pair if (tensor := known()) is not None]
            if len(alive) == 2 and any(tensor._version != version for tensor, version in alive):
                raise UnsupportedText("a tensor is overwritten that a cast may share with another")

    def attribute(self, owner: Any, word: str) -> Any:
        """``owner.word``."""
        if word.startswith("_"):
            raise UnsupportedText(f"{word} begins with an underscore")
        if isinstance(owner, AllowedModule):
            return self.of_library(owner.module, word)
        if isinstance(owner, (torch.Tensor, np.ndarray, np.generic)) and (is_allowed_word(word) or word in PROPERTIES):
            if not hasattr(type(owner), word):
                raise TextRejected(f"'{type(owner).__name__}' object has no attribute '{word}'")
            return (
                self.plain(lambda: getattr(owner, word)) if word in PROPERTIES else AllowedFunction(word, owner=owner)
            )
        if word in METHODS.get(type(owner), ()):
            return AllowedFunction(word, getattr(owner, word), says=True)
        found = getattr(owner, word, None) if isinstance(owner, (tuple, torch.finfo)) else None
        if found is not None and not callable(found):  # one of the results of a call
            return found
        raise UnsupportedText(f"{word} is not read")

    def of_library(self, module: Any, word: str) -> Any:
        """What a module has under a word that is allowed."""
        name = next(name for name, known in PARTS.items() if known is module)
        whole = f"{name}.{word}"
        if whole in PARTS:
            return AllowedModule(PARTS[whole])
        found = getattr(module, word, None)
        if word in CONSTANTS.get(name, ()) or is_dtype(found):
            return found
        if (name, word) in SAID:
            return AllowedFunction(word, SAID[name, word], says=True)
        if (name == "math" and word in OF_NUMBERS) or (name == "torch.nn" and is_allowed_module(word)):
            return AllowedFunction(word, found, says=True)
        if name not in ("math", "torch.nn", "torch.autograd") and is_allowed_word(word) and callable(found):
            return AllowedFunction(word, found, numpys=name.startswith("numpy"))
        raise UnsupportedText(f"{whole} is not read")

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of whatever ``function`` is; a bare word is Python's of numbers and lists, torch's, or a method."""
        kwargs.pop("device", None)
        if isinstance(function, torch.nn.Module):
            return self.counted(function, args, kwargs, type(function).__name__)
        if not isinstance(function, AllowedFunction):
            raise TextRejected(f"'{type(function).__name__}' object is not callable")
        name, own, first = function.name, function.own, next(iter((*args, *kwargs.values())), None)
        if function.owner is not None:
            return self.method(function.owner, name, args, kwargs)
        if function.bare and name in PYTHONS and (own is None or name in CASTS or not any(map(is_array, args))):
            return self.python(name, args, kwargs)
        if function.bare and isinstance(first, np.ndarray) and callable(getattr(np, name, None)):
            return self.call(AllowedFunction(name, getattr(np, name), numpys=True), args, kwargs)
        if own is None:
            if args and is_array(first) and hasattr(first, name):
                return self.method(first, name, args[1:], kwargs)
            raise UnsupportedText(f"{name} is no function of torch's")
        if isinstance(own, type) and issubclass(own, torch.nn.Module):
            return self.module(own, args, kwargs)
        if function.says:
            return self.plain(lambda: own(*args, **kwargs))
        if function.numpys:
            return self.numpy(own, args, kwargs)
        if function.bare and name in IMPLICIT and len(args) < 2 and "dim" not in kwargs:
            own = getattr(torch, name, own)  # F's chooses a dim, with a warning; torch's own wants to be told
        if kwargs.get("dropout_p") or (name.rstrip("_") in DROPS and is_random_call(name, args, kwargs)):
            raise UnsupportedText("its numbers are drawn in torch")
        try:
            return self.counted(own, args, kwargs, name)
        except TextRejected as error:  # torch's functions that are written in Python say what the array lacks
            if "ndarray" in str(error) or not any(isinstance(a, np.ndarray) for a in (*args, *kwargs.values())):
                raise
            raise TextRejected(f"{error} ({name} is given a numpy.ndarray; it takes tensors)", error.binding) from error

    def python(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Python's own function, of numbers and lists."""
        self.budget.step(1 + sum(len(value) for value in args if isinstance(value, range) and name != "range"))
        if name == "sum" and len(args) == 1 and isinstance(args[0], (list, tuple)):
            return reduce(partial(self.operator, operator.add), args[0], 0)
        if name == "pow" and any(isinstance(a, int) and abs(a) > 64 for a in args):
            raise UnsupportedText("a whole number is too long")
        found = self.plain(lambda: PYTHONS[name](*args, **kwargs))
        return self.budget.list(list(found) if name in ("zip", "enumerate", "reversed") else found)

    def module(self, kind: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A module, made without numbers: one that holds parameters is not read."""
        self.handed([a for a in (*args, *kwargs.values()) if not isinstance(a, torch.nn.Module)])
        with torch.device("meta"):
            found = self.plain(lambda: kind(*args, **kwargs))
        if any(tensor.is_meta for tensor in (*found.parameters(), *found.buffers())):
            raise UnsupportedText("a module with parameters is not read")
        return found

    def method(self, owner: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A method of a tensor or an array."""
        bound = getattr(type(owner), name)
        if not isinstance(owner, torch.Tensor):
            return self.numpy(bound, [owner, *args], kwargs)
        if name in ("to", "type", "cuda", "cpu"):
            told, args = args, [a for a in args if not (isinstance(a, str) and a.split(":")[0] in DEVICES)]
            if name in ("cuda", "cpu") or (told and not args and not kwargs):
                return owner
        types = {a for a in (*args, *kwargs.values()) if isinstance(a, torch.dtype)}
        if owner.dtype is torch.float64 and (name in LOWER or (name in ("to", "type") and types & LESS)):
            self.kept.append(name)
            found = self.counted(torch.clone, [owner], {}, name)
            self.cast.append(tuple((ref(tensor), tensor._version) for tensor in (owner, found)))
            return found
        if name == "float" and not owner.dtype.is_floating_point:
            bound = torch.Tensor.double
        return self.counted(bound, [owner, *args], kwargs, name)

    def numpy(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of NumPy's."""
        self.handed([*args, *kwargs.values()])
        self.budget.numpy((args, kwargs))
        return self.plain(lambda: function(*args, **kwargs))

    def handed(self, values: Sequence[Any]) -> None:
        """Refuse an argument that is no tensor, number or list of those."""
        for value in values:
            if isinstance(value, (list, tuple)):
                self.handed(value)
            elif isinstance(value, dict) or (not isinstance(value, PLAIN) and not is_dtype(value)):
                raise UnsupportedText("an argument that is not read")

    def counted(self, called: Any, args: list[Any], kwargs: dict[str, Any], name: str) -> Any:
        """A call of torch's, made in double precision where the text says no other type."""
        self.handed([*args, *kwargs.values()])
        wants = kwargs.pop("requires_grad", None)
        self.budget.foresee(name, called, args, kwargs, **({"device": "meta"} if name in MAKERS else {}))
        if name in DRAWN:
            found = self.drawn(name, args, kwargs)
        else:
            found = self.plain(lambda: called(*args, **kwargs), f"{name}()")
            if not is_double_precision(found, args, kwargs):
                args, kwargs = to_double_arguments(name, args, kwargs, found)
                found = self.plain(lambda: called(*args, **kwargs))
        self.budget.spend(found)
        return found if wants is None else self.plain(lambda: found.requires_grad_(bool(wants)))

    def drawn(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The next of the random numbers that were handed in."""
        size = kwargs.get("size", next((a for a in args if isinstance(a, (tuple, list))), args))
        like = name.endswith("_like")
        shape = args[0].shape if like else args[:1] if name == "randperm" else size
        if not self.draws and self.draw is not None and isinstance(shape, (tuple, list)):
            self.draws.append(self.draw(name, [*args, *kwargs.values()], tuple(shape)))
        if not self.draws or tuple(np.shape(self.draws[0])) != tuple(shape):
            raise UnsupportedText("its numbers are drawn in torch")
        usual = args[0].dtype if like else torch.int64 if name in ("randint", "randperm") else torch.float64
        return torch.tensor(np.asarray(self.draws.pop(0), dtype=float)).to(kwargs.get("dtype") or usual)

    def operator(self, sign: Callable[..., Any], *values: Any) -> Any:
        """An operator of Python's: between numbers and lists, or torch's own."""
        if any(isinstance(v, (AllowedModule, AllowedFunction, torch.nn.Module)) for v in values):
            raise TextRejected("a function is no operand")
        if any(isinstance(v, torch.Tensor) for v in values) and not isinstance(values[0], dict):
            return self.counted(sign, list(values), {}, sign.__name__)
        if any(isinstance(v, np.ndarray) for v in values):
            self.budget.numpy(values)
        return self.plain(lambda: sign(*values))

    def plain(self, compute: Callable[[], Any], call: str = "") -> Any:
        """What ``compute``, a ``call`` of torch's, gives; what it raises is a refusal, in its own words."""
        try:
            return compute()
        except (TextRejected, UnsupportedText, RecursionError):
            raise
        except MemoryError as error:
            raise UnsupportedText("it takes too much memory") from error
        except Exception as error:
            words = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            words = words.removesuffix(", but expected one of:")
            raise TextRejected(words, isinstance(error, TypeError) and any(w in words for w in BINDING)) from error


def is_random_call(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call of dropout draws numbers, as in training, which only ``rrelu`` has to be told."""
    usual = "rrelu" not in name
    training = kwargs.get("training", args[2] if usual and len(args) > 2 else usual)
    return bool(training) and kwargs.get("p", (*args, 1, 1)[1]) != 0


def is_dtype(value: Any) -> bool:
    """Whether a value is a type of numbers."""
    kinds = (np.generic, float, int, complex)
    return isinstance(value, torch.dtype) or (isinstance(value, type) and issubclass(value, kinds))


def is_array(value: Any) -> bool:
    """Whether a value is a tensor, or an array of NumPy's."""
    return isinstance(value, (torch.Tensor, np.ndarray))


def is_double_precision(found: Any, args: Any, kwargs: Any) -> bool:
    """Whether nothing was given in torch's usual type that nobody asked for."""
    usual = {torch.get_default_dtype(), torch.complex64} - {torch.float64}
    given = {t.dtype for t in find_nested((args, kwargs), torch.Tensor)}
    asked = kwargs.get("dtype") is not None or any(isinstance(a, torch.dtype) for a in args) or given & usual
    return bool(asked) or usual.isdisjoint({t.dtype for t in find_nested(found, torch.Tensor)})


def to_double_arguments(
    name: str, args: list[Any], kwargs: dict[str, Any], found: Any
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call, so that it gives double precision."""
    if name in MAKERS or name == "full_like" or name.startswith("new_"):
        pairs = any(t.dtype.is_complex for t in find_nested(found, torch.Tensor))
        return args, {**kwargs, "dtype": torch.complex128 if pairs else torch.float64}

    def double(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and not value.dtype.is_floating_point and not value.dtype.is_complex:
            return value if value.dtype is torch.bool and name == "where" else value.double()
        if isinstance(value, float):
            return torch.tensor(value, dtype=torch.float64)
        return [double(v) for v in value] if isinstance(value, list) else value

    return [double(a) for a in args], kwargs
