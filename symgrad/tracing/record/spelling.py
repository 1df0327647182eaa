"""How a torch function is spelled, what kind of function it is, and what one call of it was given.

Comes in: a function as torch hands it to a mode (a builtin, a method descriptor, a property's getter, a Python
function). Goes out: `Facts`; of a call that is about to run also what it reads and writes, a `PendingCall`; of a call
of ``backward`` or ``grad``, in whichever of torch's three ways, `BackwardArgs`, whose weights are copies, so that what
happens to a tensor during the call does not change what was asked.
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
"""Methods that hand out the memory itself: what is written there is counted by no version."""
BLIND = frozenset({"zero_", "fill_", "copy_", "set_", "normal_", "uniform_"})
"""Methods that write over a tensor without reading it."""
ASKING = "Tensor.requires_grad"
"""With what a tensor is made a leaf: a property, and a method whose name begins so."""
RESOLVE = inspect.unwrap(resolve_name)
"""Without torch's own filter of warnings, after which the registries of all modules are looked through."""
BACKWARD = frozenset({"Tensor.backward", "torch.autograd.backward", "torch.autograd.grad"})
"""Silent themselves; what hooks and backwards of the user's do meanwhile is recorded."""
LIMITED = "F.embedding"
"""A function that the table knows, and that writes into the weight it is given where ``max_norm`` limits its rows."""
CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
PROPERTIES = (*ATTRIBUTES, "H", "mH", "data", "real", "imag")
"""Properties that compute a tensor; the other getters only tell something."""


@dataclass(frozen=True)
class Facts:
    """``spelling`` as users write it, and what kind of function it is.

    ``writes``: its first argument is overwritten; ``may_write``: others may be, too; ``random``: it may draw
    random numbers; ``silent``: it only tells something; ``opened``: its body, to be recorded call by call, where
    it is a Python function that the table does not know; ``custom``: a user's own function with a backward.
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
        """How many of its first tensors are never written: the input of what writes running statistics."""
        return int(not self.custom and any(word in self.spelling for word in WRITES_STATE))


@dataclass
class PendingCall:
    """A call before it ran: what it was given, what it will write and read, and the nodes of all that."""

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
    """What is known about ``function``."""
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
    """``torch.mm``, ``F.relu``, ``Tensor.add_``, ``Tensor.T``."""
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
    """An ATen operation as users spell it, where they do."""
    linear = word.removeprefix("linalg_")
    if linear != word and hasattr(torch.linalg, linear):
        return f"torch.linalg.{linear}"
    if hasattr(torch, word):
        return f"torch.{word}"
    return f"Tensor.{word}" if hasattr(torch.Tensor, word) else f"aten.{word}"


def plain_spelling(spelling: str) -> str:
    """The spelling of the same function without its operator's or in-place form: ``Tensor.add_`` is ``Tensor.add``."""
    if spelling.count(".") == 2 and (spelling.startswith("aten.") or spelling.endswith(".default")):
        spelling = spelling.rpartition(".")[0]  # aten.add.Tensor: an overload of aten.add
    module, _, word = spelling.rpartition(".")
    word = REFLECTED.get(word, OPERATORS.get(word, word))
    if word.endswith("_") and not word.startswith("__"):
        word = word.rstrip("_")
    return f"{module}.{word}" if module else word


def plain_word(spelling: str) -> str:
    """The last word of that: ``add`` of ``Tensor.add_``."""
    return plain_spelling(spelling).rpartition(".")[2]


def is_grad(spelling: str) -> bool:
    """Whether a property is ``.grad``, read or set."""
    return spelling.startswith("Tensor.grad") and spelling != "Tensor.grad_fn"


def is_reflected(spelling: str) -> bool:
    """Whether the operands stand the other way round."""
    return spelling.rpartition(".")[2] in REFLECTED


def _is_query_only(name: str) -> bool:
    """Whether a call only tells something about a tensor."""
    module, _, word = name.rpartition(".")
    if name == "Tensor.grad.__set__":
        return True
    if name.startswith("Tensor.") and not callable(getattr(torch.Tensor, word, len)):  # a property
        return word not in PROPERTIES
    return word in ("backward", "register_hook", "retain_grad", "item", "tolist", "size", "dim", "numel", "stride",
                    "is_contiguous", "_set_grad_enabled", "__len__", "__repr__", "__format__", "__hash__") or (
        module.endswith("autograd"))  # fmt: skip


def unchecked(function: Any) -> Callable[..., Any] | None:
    """``function`` with its own test for overrides answered "no", so that what it calls is seen call by call."""
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
    """Whether one of the types has a ``__torch_function__`` of its own, which then has to be asked first."""
    plain = (torch.Tensor.__torch_function__.__func__, torch._C._disabled_torch_function_impl)  # type: ignore[attr-defined]  # a class method
    return any(getattr(t.__torch_function__, "__func__", t.__torch_function__) not in plain for t in types)  # type: ignore[attr-defined]  # they have one


def taken_whole(known: Facts, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether a call is recorded as one, although what it calls could be seen."""
    limit = keywords.get("max_norm", arguments[3] if len(arguments) > 3 else None)
    return known.opened is None or (known.spelling == LIMITED and limit is None)


@lru_cache(maxsize=1024)
def in_place_position(function: Callable[..., Any]) -> int | None:
    """Where the parameter ``inplace`` stands, or None."""
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
    """The tensors that a call says it writes."""
    found = list(tensors_in(keywords.get("out")))
    if known.writes or is_called_in_place(function, arguments, keywords):
        found += tensors_in(arguments[:1] or tuple(keywords.values())[:1])
    if known.spelling.endswith("data.__set__"):
        found += tensors_in(arguments[:1])
    return found


Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class BackwardArgs:
    """``seeds`` are the weights as they were passed, ``passed`` the tensors themselves; None where there are none.

    ``asked`` are the tensors to differentiate by, None for all leaves; ``batched``: each weight is several;
    ``again``: the result can be differentiated again (``create_graph``).
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
        """Read the arguments as torch will."""
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
    """Read once."""
    return inspect.signature(function)


def materialize_iterators(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Arguments:
    """The arguments with what is only passed through (``net.parameters()``, ``d.values()``) as tuples, as torch does.

    torch and `BackwardArgs` can both read those; a tensor, a list and a dictionary stay what they are.
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
    """The outputs of a call, without reading what can be read only once."""
    value = args[0] if args else next((keywords[name] for name in ("tensors", "outputs") if name in keywords), ())
    return tuple(tensors_in(value))


def pair_seeds(value: Any, count: int) -> tuple[Any, ...]:
    """One seed for each output."""
    parts = (None,) * count if value is None else tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return parts if len(parts) == count else (None,) * count
