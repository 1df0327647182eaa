"""The spelling and properties of torch functions, and the arguments of their calls.

Comes in: a function as torch passes it to a mode (a builtin, a method descriptor, a property's getter, a Python
function). Goes out: `Facts`; for a call before it runs the tensors that it reads and writes, a `PendingCall`; for a
call of ``backward`` or ``grad``, in any of torch's three forms, `BackwardArgs`, whose weights are copies, so that
writes during the call do not change them.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch.overrides import resolve_name

from symgrad.ops.calls.call_texts import IN_PLACE_OPERATORS, OPERATORS, RANDOM, REFLECTED, WRITES_STATE
from symgrad.ops.lookup import ATTRIBUTES, find
from symgrad.tracing.record.isolation import suppress_warnings
from symgrad.tracing.record.trace import Node, tensors_in

LENDING = frozenset(
    f"Tensor.{name}" for name in ("numpy", "__array__", "__dlpack__", "storage", "untyped_storage", "data_ptr")
)
"""Methods that expose the memory, where writes do not count as versions."""
BLIND = frozenset({"zero_", "fill_", "copy_", "set_", "normal_", "uniform_"})
"""Methods that overwrite a tensor without reading it."""
ASKING = "Tensor.requires_grad"
"""The property that makes a tensor a leaf, and the beginning of the method's name."""
RESOLVE = inspect.unwrap(resolve_name)
"""torch's function without its filter of warnings, which would reset the registries of all modules."""
BACKWARD = frozenset({"Tensor.backward", "torch.autograd.backward", "torch.autograd.grad"})
"""Calls that are not recorded themselves; the user's hooks and backwards inside them are."""
LIMITED = "F.embedding"
"""A function of the table that writes into its weight if ``max_norm`` limits the rows."""
CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
PROPERTIES = (*ATTRIBUTES, "H", "mH", "data", "real", "imag")
"""Properties that compute a tensor; other getters only query one."""


@dataclass(frozen=True)
class Facts:
    """The user's ``spelling`` of a function, and its properties.

    ``writes``: its first argument is overwritten; ``may_write``: others may be, too; ``random``: it may draw random
    numbers; ``silent``: it only queries a tensor; ``opened``: the body of a Python function without an entry, which is
    recorded call by call; ``custom``: a user's own function with a backward.
    """

    spelling: str
    writes: bool
    may_write: bool
    random: bool
    silent: bool
    opened: Callable[..., Any] | None
    custom: bool = False

    @property
    def reads(self) -> bool:
        """Whether an in-place function reads what it overwrites."""
        return self.writes and self.spelling.rpartition(".")[2] not in BLIND

    @property
    def unwritten(self) -> int:
        """The number of first tensors that are never written: the input of functions that write running statistics."""
        return int(not self.custom and any(word in self.spelling for word in WRITES_STATE))


@dataclass
class PendingCall:
    """A call before it runs: its arguments, the tensors that it will write and read, and their nodes."""

    function: Any
    known: Facts
    given: Any
    written: list[Any]
    reading: list[Any]
    nodes: dict[int, Node]
    random: Any
    versions: list[tuple[Any, int | None]]


@lru_cache(maxsize=4096)
def describe_function(function: Callable[..., Any]) -> Facts:
    """Return the properties of ``function``."""
    name = spell_function(function)
    word = name.rpartition(".")[2]
    setter = name.endswith("__set__")
    writes = not setter and (word in IN_PLACE_OPERATORS or (word.endswith("_") and not word.endswith("__")))
    python = isinstance(function, types.FunctionType)
    known = find(plain_spelling(name)) is not None
    return Facts(
        name,
        writes,
        writes or setter or any(w in word for w in WRITES_STATE),
        any(w in word for w in RANDOM),
        _is_query_only(name),
        None if (known and name != LIMITED) or not python or writes else unchecked(function),
    )


def spell_function(function: Callable[..., Any]) -> str:
    """Return a function's spelling: ``torch.mm``, ``F.relu``, ``Tensor.add_``, ``Tensor.T``."""
    try:
        with suppress_warnings():
            name = RESOLVE(function)
    except Exception:  # torch cannot name everything it hands out
        name = None
    if not name:
        owner = getattr(function, "__module__", None) or "torch"
        name = f"{owner}.{getattr(function, '__name__', type(function).__name__)}"
    word = getattr(function, "__name__", "")
    if name.startswith("torch.") and name.count(".") == 1 and getattr(torch, word, None) is function:
        name = f"torch.{word}"  # torch.mm is torch.spmm as well
    if name.endswith(".__get__"):
        name = name.removesuffix(".__get__")
    for long, short in (("torch.nn.functional.", "F."), ("torch.Tensor.", "Tensor."), ("torch.functional.", "torch."),
                        ("torch._C._TensorBase.", "Tensor."), ("torch._C.TensorBase.", "Tensor."),
                        ("torch._tensor.", "Tensor."), ("torch._VariableFunctions.", "torch.")):  # fmt: skip
        if name.startswith(long):
            name = short + name.removeprefix(long)
    return str(name)


def spell_aten_operation(word: str) -> str:
    """Return the public spelling of an ATen operation, if it has one."""
    linear = word.removeprefix("linalg_")
    if linear != word and hasattr(torch.linalg, linear):
        return f"torch.linalg.{linear}"
    if hasattr(torch, word):
        return f"torch.{word}"
    return f"Tensor.{word}" if hasattr(torch.Tensor, word) else f"aten.{word}"


def plain_spelling(spelling: str) -> str:
    """Return the spelling without the operator or in-place form: ``Tensor.add_`` becomes ``Tensor.add``."""
    if spelling.count(".") == 2 and (spelling.startswith("aten.") or spelling.endswith(".default")):
        spelling = spelling.rpartition(".")[0]  # aten.add.Tensor: an overload of aten.add
    module, _, word = spelling.rpartition(".")
    word = REFLECTED.get(word, OPERATORS.get(word, word))
    if word.endswith("_") and not word.startswith("__"):
        word = word.rstrip("_")
    return f"{module}.{word}" if module else word


def plain_word(spelling: str) -> str:
    """Return the last word of the plain spelling: ``add`` of ``Tensor.add_``."""
    return plain_spelling(spelling).rpartition(".")[2]


def is_grad(spelling: str) -> bool:
    """Whether a property is ``.grad``, read or set."""
    return spelling.startswith("Tensor.grad") and spelling != "Tensor.grad_fn"


def is_reflected(spelling: str) -> bool:
    """Whether the operands are swapped, as in ``__radd__``."""
    return spelling.rpartition(".")[2] in REFLECTED


def _is_query_only(name: str) -> bool:
    """Whether a function only queries a tensor."""
    module, _, word = name.rpartition(".")
    if name == "Tensor.grad.__set__":
        return True
    if name.startswith("Tensor.") and not callable(getattr(torch.Tensor, word, len)):  # a property
        return word not in PROPERTIES
    return word in ("backward", "register_hook", "retain_grad", "item", "tolist", "size", "dim", "numel", "stride",
                    "is_contiguous", "_set_grad_enabled", "__len__", "__repr__", "__format__", "__hash__") or (
        module.endswith("autograd"))  # fmt: skip


def unchecked(function: Any) -> Callable[..., Any] | None:
    """Return ``function`` without its check for overrides, so that its inner calls are recorded; None if unsafe."""
    if not any(name in function.__globals__ for name in CHECKS) or not function.__module__.startswith("torch"):
        return None
    if getattr(function, "__wrapped__", None) is not None or function.__closure__:
        return None
    world = dict(function.__globals__)
    world.update(dict.fromkeys(CHECKS, lambda *_: False))
    twin = types.FunctionType(function.__code__, world, function.__name__, function.__defaults__, function.__closure__)
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


@lru_cache(maxsize=256)
def has_own_override(types: tuple[type, ...]) -> bool:
    """Whether one of the types has its own ``__torch_function__``, which must be called first."""
    plain = (torch.Tensor.__torch_function__.__func__, torch._C._disabled_torch_function_impl)  # type: ignore[attr-defined]  # a class method
    return any(getattr(t.__torch_function__, "__func__", t.__torch_function__) not in plain for t in types)  # type: ignore[attr-defined]  # they have one


def taken_whole(known: Facts, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether a call is recorded as one, not by its inner calls."""
    limit = keywords.get("max_norm", arguments[3] if len(arguments) > 3 else None)
    return known.opened is None or (known.spelling == LIMITED and limit is None)


@lru_cache(maxsize=1024)
def in_place_position(function: Callable[..., Any]) -> int | None:
    """Return the position of the parameter ``inplace``, or None."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
    return names.index("inplace") if "inplace" in names else None


def is_called_in_place(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether this call has ``inplace=True``."""
    if "inplace" in keywords:
        return bool(keywords["inplace"])
    if not isinstance(function, types.FunctionType):
        return False
    position = in_place_position(function)
    return position is not None and len(arguments) > position and bool(arguments[position])


def tensors_written(
    function: Callable[..., Any], known: Facts, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> list[Any]:
    """Return the tensors that a call writes by its name, ``out`` or ``inplace``."""
    found = list(tensors_in(keywords.get("out")))
    if known.writes or is_called_in_place(function, arguments, keywords):
        found += tensors_in(arguments[:1] or tuple(keywords.values())[:1])
    if known.spelling.endswith("data.__set__"):
        found += tensors_in(arguments[:1])
    return found


Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class BackwardArgs:
    """The arguments of a backward: ``passed`` are the weights' tensors, ``seeds`` copies of them, None without one.

    ``asked`` are the tensors to differentiate with respect to, None for all leaves; ``batched``: each weight is a
    batch; ``again``: the result can be differentiated again (``create_graph``).
    """

    kind: str
    outputs: tuple[Any, ...]
    passed: tuple[Any, ...]
    seeds: tuple[Any, ...]
    asked: tuple[Any, ...] | None
    retained: bool
    batched: bool
    again: bool = False

    @classmethod
    def of(
        cls, kind: str, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> BackwardArgs:
        """Read the arguments as torch does."""
        bound = read_signature(function).bind(*args, **keywords).arguments
        outputs = tuple(tensors_in(next(bound[name] for name in ("self", "tensors", "outputs") if name in bound)))
        weights = next((bound[n] for n in ("gradient", "grad_tensors", "grad_outputs") if n in bound), None)
        passed = pair_seeds(weights, len(outputs))
        inputs = bound.get("inputs")
        retain = bound.get("retain_graph")
        return cls(
            kind,
            outputs,
            passed,
            tuple(None if seed is None else seed.detach().clone() for seed in passed),
            None if inputs is None else tuple(tensors_in(inputs)),
            bool(bound.get("create_graph") if retain is None else retain),
            bool(bound.get("is_grads_batched")),
            bool(bound.get("create_graph")),
        )


@lru_cache(maxsize=16)
def read_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return a function's signature, cached."""
    return inspect.signature(function)


def materialize_iterators(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Arguments:
    """Return the arguments with iterators (``net.parameters()``, ``d.values()``) as tuples.

    torch and `BackwardArgs` can then both read them; tensors, lists and dictionaries are unchanged.
    """
    try:
        bound = read_signature(function).bind(*args, **keywords)
    except TypeError:
        return args, keywords  # torch says what is wrong
    for name, value in bound.arguments.items():
        if isinstance(value, Iterable) and not isinstance(value, (Sequence, Mapping, torch.Tensor)):
            bound.arguments[name] = tuple(value)
    return bound.args, bound.kwargs


def backward_outputs(args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """Return the outputs of a call without consuming an iterator among its arguments."""
    value = args[0] if args else next((keywords[name] for name in ("tensors", "outputs") if name in keywords), ())
    return tuple(tensors_in(value))


def pair_seeds(value: Any, count: int) -> tuple[Any, ...]:
    """Return one seed for each output, None without one."""
    parts = (None,) * count if value is None else tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return parts if len(parts) == count else (None,) * count
