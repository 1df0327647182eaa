"""Calls and attributes: looked up in the whitelist, counted before they are made, bound by torch itself.

Numbers have double precision where the text names no other: a tensor that torch would give in its usual type is made in
float64, without changing what the process's usual type is, which other threads share.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np
import torch

from symgrad.reference.bounds import Budget, Refused, Unread, tensors_in
from symgrad.reference.words import (
    CONSTANTS,
    DRAWN,
    DROPS,
    DTYPES,
    FIELDS,
    LOWER,
    MAKERS,
    MODULES,
    OF_NUMBERS,
    PARTS,
    PROPERTIES,
    is_allowed,
)

LESS = {torch.float32, torch.float16, torch.bfloat16}
"""Types of fewer digits: a cast of an input to one of them keeps all digits here."""
IMPLICITLY = (torch.nn.functional.softmax, torch.nn.functional.log_softmax, torch.nn.functional.softmin)
IMPLICIT = "Implicit dimension choice for {} has been deprecated. Change the call to include dim=X as an argument."
"""What torch says where no dim is named."""


def parameter(tensor: Any, requires_grad: bool = True) -> Any:
    """``nn.Parameter(t)``."""
    return tensor.detach().requires_grad_(requires_grad)


def variable(tensor: Any, requires_grad: bool = False) -> Any:
    """``Variable(t)``: the tensor itself."""
    return tensor.detach().requires_grad_() if requires_grad else tensor


SAID: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("torch", "device"): lambda *_: "cpu", ("torch", "manual_seed"): lambda *_: None,
    ("torch.nn", "Parameter"): parameter, ("torch.autograd", "Variable"): variable,
}  # fmt: skip
"""What a text says, beside what it computes."""
SIMPLE = ("append", "device", "manual_seed", "numel", "Parameter", "Variable")
TYPED = ("full_like", "new_tensor", "new_full", "new_ones", "new_zeros")
DEVICES = ("cpu", "cuda", "mps", "xpu", "meta")
PLAIN = (int, float, complex, str, bool, type(None), slice, type(...), torch.dtype, torch.Size, torch.Tensor,
         np.ndarray, np.generic, range, torch.memory_format, torch.layout)  # fmt: skip
TYPES = (float, int, bool, complex, np.float64, np.float32, np.float16, np.int64, np.int32, np.int8, np.uint8, np.bool_)
"""What a function of torch's or NumPy's may be handed, and tuples and lists of it."""


@dataclass(frozen=True)
class Library:
    """A module."""

    module: Any


@dataclass(frozen=True)
class Function:
    """A function of a module."""

    name: str
    function: Callable[..., Any]
    numpys: bool = False


@dataclass(frozen=True)
class Bound:
    """A method of a value."""

    owner: Any
    name: str


@dataclass(frozen=True)
class Bare:
    """A word without a module: torch's function, Python's, or a method."""

    name: str
    torchs: Callable[..., Any] | None
    pythons: Callable[..., Any] | None


def said_by(error: BaseException) -> str:
    """What an exception says, in its first line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def is_binding(error: BaseException) -> bool:
    """Whether a call has arguments that the function does not take."""
    words = ("argument", "positional", "keyword", "must be", "should be", "received an invalid combination")
    return isinstance(error, TypeError) and any(word in str(error) for word in words)


@dataclass
class Caller:
    """Calls what a text calls; ``draws`` are the random numbers that are handed in, ``kept`` casts that kept digits."""

    budget: Budget
    draws: list[Any]
    kept: list[str] = field(default_factory=list)

    # What a value has -----------------------------------------------------------------------------------

    def attribute(self, owner: Any, word: str) -> Any:
        """``owner.word``."""
        if word.startswith("_"):
            raise Unread(f"{word} begins with an underscore")
        if isinstance(owner, Library):
            return self.of_library(owner.module, word)
        if isinstance(owner, (torch.Tensor, np.ndarray, np.generic)):
            if word in PROPERTIES:
                return self.plain(lambda: getattr(owner, word))
            if not hasattr(owner, word):
                raise Refused(f"'{type(owner).__name__}' object has no attribute '{word}'")
            if is_allowed(word) or word in ("cpu", "cuda", "requires_grad_", "retain_grad", "item", "tolist"):
                return Bound(owner, word)
        elif isinstance(owner, list) and word == "append":
            return Function(word, owner.append)
        elif isinstance(owner, torch.Size) and word == "numel":
            return Function(word, owner.numel)
        elif word in FIELDS and isinstance(owner, (tuple, torch.finfo, torch.iinfo)) and hasattr(owner, word):
            return getattr(owner, word)
        raise Unread(f"{word} is not read")

    def of_library(self, module: Any, word: str) -> Any:
        """What a module has under a word that is allowed."""
        name = next(name for name, known in PARTS.items() if known is module)
        whole = f"{name}.{word}"
        if whole in PARTS:
            return Library(PARTS[whole])
        short = "np" if module is np else name
        if word in CONSTANTS.get(short, ()):
            return getattr(module, word)
        if word in {"torch": DTYPES, "numpy": DTYPES}.get(name, ()):
            return getattr(module, word)
        if word in {"math": OF_NUMBERS, "torch.nn": MODULES}.get(name, ()):
            return Function(word, getattr(module, word))
        if (name, word) in SAID:
            return Function(word, SAID[name, word])
        found = getattr(module, word, None) if is_allowed(word) else None
        if callable(found) and name not in ("math", "torch.nn", "torch.autograd"):
            return Function(word, found, numpys=name.startswith("numpy"))
        raise Unread(f"{whole} is not read")

    # Calls ----------------------------------------------------------------------------------------------

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of whatever ``function`` is."""
        kwargs = {key: value for key, value in kwargs.items() if key != "device"}
        match function:
            case Bare(name=name, torchs=torchs, pythons=pythons):
                return self.bare(name, torchs, pythons, args, kwargs)
            case Bound(owner=owner, name=name):
                return self.method(owner, name, args, kwargs)
            case Function(name=name, function=called, numpys=numpys):
                return self.function(name, called, numpys, args, kwargs)
            case torch.nn.Module():
                return self.counted(function, args, kwargs, type(function).__name__)
            case Library():
                raise Unread("a module is not called")
        raise Refused(f"'{type(function).__name__}' object is not callable")

    def bare(self, name: str, torchs: Any, pythons: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A bare word: Python's of numbers and lists, else torch's, else a method; NumPy's of arrays."""
        first = next(iter((*args, *kwargs.values())), None)
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, (torch.Tensor, np.ndarray))]
        alone = torchs is None or name in ("float", "int", "bool") or not tensors
        if pythons is not None and alone:
            return self.pythons(name, pythons, args, kwargs)
        if isinstance(first, np.ndarray) and callable(getattr(np, name, None)):
            return self.function(name, getattr(np, name), True, args, kwargs)
        if torchs is not None:
            return self.function(name, torchs, False, args, kwargs)
        if isinstance(first, (torch.Tensor, np.ndarray)) and args and hasattr(first, name):
            return self.method(first, name, args[1:], kwargs)
        raise Unread(f"{name} is no function of torch's")

    def pythons(self, name: str, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Python's own function, of numbers and lists."""
        if name == "range":
            return self.plain(lambda: range(*args))
        for value in args:
            self.budget.steps -= len(value) if isinstance(value, range) else 0
        self.budget.step()
        if name == "sum" and len(args) == 1 and isinstance(args[0], (list, tuple)):
            return reduce(partial(self.operator, operator.add), args[0], 0)
        if name == "pow" and any(isinstance(a, int) and abs(a) > 64 for a in args):
            raise Unread("a whole number is too long")
        found = self.plain(lambda: function(*args, **kwargs))
        return self.budget.list(list(found) if name in ("zip", "enumerate", "reversed") else found)

    def method(self, owner: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A method of a tensor or an array."""
        if name in ("cpu", "cuda"):
            return owner
        if isinstance(owner, torch.Tensor):
            if name in ("to", "type"):
                told, args = args, [a for a in args if not (isinstance(a, str) and a.split(":")[0] in DEVICES)]
                if told and not args and not kwargs:
                    return owner
            types = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.dtype)]
            if owner.dtype is torch.float64 and (name in LOWER or (name in ("to", "type") and {*types} & LESS)):
                self.kept.append(name)
                return self.counted(torch.clone, [owner], {}, name)
            if name == "float" and not owner.dtype.is_floating_point:
                name = "double"
        bound = self.plain(lambda: getattr(type(owner), name))
        if isinstance(owner, torch.Tensor):
            return self.counted(bound, [owner, *args], kwargs, name)
        self.handed([*args, *kwargs.values()])
        self.budget.numpy(bound, [owner, *args], kwargs)
        return self.plain(lambda: bound(owner, *args, **kwargs))

    def function(self, name: str, called: Any, numpys: bool, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A function of a module."""
        if isinstance(called, type) and issubclass(called, torch.nn.Module):
            if any(not isinstance(a, (*PLAIN, tuple, torch.nn.Module)) for a in (*args, *kwargs.values())):
                raise Unread("this module is not read")
            return self.plain(lambda: called(*args, **kwargs), TypeError)
        if numpys:
            self.handed([*args, *kwargs.values()])
            self.budget.numpy(called, args, kwargs)
            return self.plain(lambda: called(*args, **kwargs))
        if name in SIMPLE or getattr(called, "__module__", "") == "math":
            return self.plain(lambda: called(*args, **kwargs))
        if called in IMPLICITLY and len(args) < 2 and kwargs.get("dim") is None:
            raise Refused(IMPLICIT.format(name), binding=True)
        if name.rstrip("_") in DROPS:
            self.drops(called, args, kwargs)
        if kwargs.get("dropout_p"):
            raise Unread("its numbers are drawn in torch")
        return self.counted(called, args, kwargs, name)

    def drops(self, called: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Refuse what draws numbers in training."""
        try:
            bound = inspect.signature(called).bind(*args, **kwargs)
            bound.apply_defaults()
        except TypeError:
            return
        except ValueError:
            raise Unread("its numbers are drawn in torch") from None
        if bound.arguments.get("training", bound.arguments.get("train")) and bound.arguments.get("p", 1) != 0:
            raise Unread("its numbers are drawn in torch")

    def handed(self, values: Sequence[Any]) -> None:
        """Refuse an argument that is no tensor, number or list of those."""
        for value in values:
            if isinstance(value, (list, tuple)):
                self.handed(value)
            elif isinstance(value, dict) or (not isinstance(value, PLAIN) and value not in TYPES):
                raise Unread("an argument that is not read")

    def counted(self, called: Any, args: list[Any], kwargs: dict[str, Any], name: str) -> Any:
        """A call of torch's, made in double precision where the text says no other type."""
        self.handed([*args, *kwargs.values()])
        wants = kwargs.pop("requires_grad", None)
        if not self.budget.fits(name, args, kwargs):
            self.budget.meta(called, args, {**kwargs, "device": "meta"} if name in MAKERS else kwargs)
        if name in DRAWN:
            found = self.drawn(name, args, kwargs)
        else:
            found = self.plain(lambda: called(*args, **kwargs))
            if not self.is_double(found, args, kwargs):
                args, kwargs = doubled(name, args, kwargs, found)
                found = self.plain(lambda: called(*args, **kwargs))
        self.budget.spend(found)
        if wants is not None:
            found = self.plain(lambda: found.requires_grad_(bool(wants)))
        return found

    def is_double(self, found: Any, args: Any, kwargs: Any) -> bool:
        """Whether nothing was given in torch's usual type that nobody asked for."""
        usual = torch.get_default_dtype()
        if usual is torch.float64 or kwargs.get("dtype") is not None:
            return True
        if {t.dtype for t in tensors_in(found)}.isdisjoint({usual, torch.complex64}):
            return True
        given = {t.dtype for t in tensors_in((args, kwargs))}
        return bool(given & {usual, torch.complex64}) or any(isinstance(a, torch.dtype) for a in args)

    def drawn(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The next of the random numbers that were handed in."""
        if not self.draws:
            raise Unread("its numbers are drawn in torch")
        size = kwargs.get("size", next((a for a in args if isinstance(a, (tuple, list))), args))
        shape = args[0].shape if name.endswith("_like") else args[:1] if name == "randperm" else size
        array = self.draws.pop(0)
        if tuple(np.shape(array)) != tuple(shape):
            raise Unread("its numbers are drawn in another order")
        whole = name in ("randint", "randperm")
        dtype = kwargs.get("dtype") or (
            args[0].dtype if name.endswith("_like") else torch.int64 if whole else torch.float64
        )
        return torch.tensor(np.asarray(array, dtype=float)).to(dtype)

    def operator(self, sign: Callable[..., Any], *values: Any) -> Any:
        """An operator of Python's: between numbers and lists, or torch's own."""
        if any(isinstance(v, (Library, Function, Bound, Bare, torch.nn.Module)) for v in values):
            raise Refused("a function is no operand")
        if not any(isinstance(v, torch.Tensor) for v in values):
            if any(isinstance(v, np.ndarray) for v in values):
                self.budget.numpy(sign, values, {})
            return self.plain(lambda: sign(*values))
        return self.counted(sign, list(values), {}, sign.__name__)

    def plain(self, compute: Callable[[], Any], *unread: type[Exception]) -> Any:
        """What ``compute`` gives; what it raises is a refusal, in its own words."""
        try:
            return compute()
        except (Refused, Unread, RecursionError):
            raise
        except unread as error:
            raise Unread(said_by(error)) from error
        except MemoryError as error:
            raise Unread("it takes too much memory") from error
        except Exception as error:
            raise Refused(said_by(error), binding=is_binding(error)) from error


def doubled(name: str, args: list[Any], kwargs: dict[str, Any], found: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call, so that it gives double precision."""
    if name in MAKERS or name in TYPED:
        is_complex = any(t.dtype.is_complex for t in tensors_in(found))
        return args, {**kwargs, "dtype": torch.complex128 if is_complex else torch.float64}

    def double(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and not value.dtype.is_floating_point and not value.dtype.is_complex:
            return value if value.dtype is torch.bool and name == "where" else value.double()
        if isinstance(value, float):
            return torch.tensor(value, dtype=torch.float64)
        return [double(v) for v in value] if isinstance(value, list) else value

    return [double(a) for a in args], kwargs
