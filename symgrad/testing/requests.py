"""What a check was asked for, looked through: which batteries, which inputs are differentiated, which candidate it is.

Comes in: the arguments of `check_backward`. Goes out: a `Request`, or a `SymgradError` about the caller's own mistakes.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import InputError, UnknownNameError, UnsupportedError
from symgrad.language import arguments, exact_array, find_inputs
from symgrad.numeric import Array, as_float
from symgrad.testing.candidates.attempts import Candidate
from symgrad.testing.candidates.pairs import Pair, in_jax_types, is_jax, jax_pair


@dataclass(frozen=True, eq=False)
class Request:
    """What a candidate is handed, and what it comes to.

    ``inputs`` as they were given, ``arrays`` the tensors among them as numbers, ``scalars`` the single numbers;
    ``types`` are those of what is differentiated.
    """

    candidate: Candidate
    function: Any
    inputs: Mapping[str, Any]
    arrays: Mapping[str, Array]
    scalars: Mapping[str, Any]
    types: tuple[str, ...]


def requested(function: Any, expression: Any, inputs: Mapping[str, Any], wrt: Sequence[str] | None) -> Request:
    """The candidate and its numbers; of an autograd.Function its ``apply`` is meant."""
    if isinstance(function, type) and callable(getattr(function, "apply", None)) and hasattr(function, "backward"):
        function = function.apply  # type: ignore[attr-defined]  # looked for on the line before
    jax = is_jax(function)
    if jax:
        inputs = in_jax_types(inputs)
    pair = jax or (isinstance(function, tuple) and len(function) == 2 and all(callable(f) for f in function))
    if not pair and not callable(function):
        raise arguments.argument_error(
            function, "the function under test has to be a function, or a pair (forward, backward)", "torch.tanh"
        )
    if not pair and importlib.util.find_spec("torch") is None:
        raise UnsupportedError("PyTorch is not installed", hints=("a pair (forward, backward) of NumPy functions",))
    if inputs and not pair:
        bound(function, list(inputs))
    given = {name: arrived(value, name, pair) for name, value in inputs.items()}
    parameters = {} if pair else parameters_of(function, expression, given, wrt)
    tensors = {n: v for n, v in {**given, **parameters}.items() if hasattr(v, "dtype") and hasattr(v, "shape")}
    arrays = {name: np.asarray(exact_array(tensor, name)) for name, tensor in tensors.items()}
    floating = [name for name, tensor in tensors.items() if is_floating(tensor)]
    for name in wrt or ():
        if name not in floating:
            known = ", ".join(floating) or "none"
            raise UnknownNameError(
                f"there is no floating-point input {name!r} to differentiate with respect to", found=(known,)
            )
    wanted = tuple(name for name in floating if wrt is None or name in wrt)
    if not wanted:
        raise InputError("no input is floating point, so none has a gradient", hints=("x=torch.randn(3, 4)",))
    scalars = {n: v for n, v in given.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    candidate: Candidate
    if pair:
        candidate = Pair(jax_pair(function, given, wanted) if jax else function, given, wanted)
    else:
        from symgrad.testing.candidates.tensors import Tensors  # loads torch, which a pair does without

        candidate = Tensors(function, given, wanted, parameters)
    types = tuple(str(tensors[name].dtype).removeprefix("torch.") for name in wanted)
    return Request(candidate, function, given, arrays, scalars, types)


def bound(function: Any, names: Sequence[str]) -> None:
    """Raises `InputError` where a function takes another number of arguments than there are inputs."""
    owner = getattr(function, "__self__", None)
    forward = getattr(owner, "forward", None) if hasattr(owner, "backward") else None
    try:
        signature = inspect.signature(function if forward is None else forward)
        places = ["ctx"] if forward is not None and "ctx" in list(signature.parameters)[:1] else []
    except (TypeError, ValueError):  # of C
        return
    try:
        signature.bind(*places, *names)
    except TypeError:
        takes = ", ".join(p for p in signature.parameters if p not in places) or "nothing"
        called = getattr(function, "__name__", type(function).__name__)
        raise InputError(
            f"{called} does not take these inputs: {', '.join(names)}",
            found=(f"it takes {takes}",), hints=(f"lambda {', '.join(names)}: …",),
        ) from None  # fmt: skip


def arrived(value: Any, name: str, pair: bool) -> Any:
    """An input as the candidate takes it: tensors for torch, arrays for a pair; anything else is an option."""
    if pair and hasattr(value, "detach"):
        return np.array(value.detach().cpu().numpy())
    if isinstance(value, np.ndarray):
        known = exact_array(value, name)  # refuses what holds no numbers
        value = np.array(value) if value.dtype.kind in "biuf" else as_float(known)
        if not pair:
            import torch

            return torch.as_tensor(value)
    return value


def is_floating(tensor: Any) -> bool:
    """Whether a tensor or an array holds floating numbers."""
    return tensor.dtype.kind == "f" if isinstance(tensor, np.ndarray) else bool(tensor.is_floating_point())


def parameters_of(function: Any, expression: Any, given: Collection[str], wrt: Sequence[str] | None) -> dict[str, Any]:
    """The parameters of a module that the formula mentions, or that are asked for; without a formula all of them."""
    owner: Any = function if hasattr(function, "named_parameters") else getattr(function, "__self__", None)
    if not hasattr(owner, "named_parameters"):
        return {}
    every = {path.replace(".", "_"): p for path, p in owner.named_parameters() if p.requires_grad}
    texts = (
        [expression] if isinstance(expression, str) else expression if isinstance(expression, (list, tuple)) else None
    )
    if texts is None:
        return {n: p for n, p in every.items() if n not in given}
    mentioned = frozenset().union(*(find_inputs(text, {*every, *given}) for text in texts if isinstance(text, str)))
    return {n: p for n, p in every.items() if n not in given and (n in mentioned or n in (wrt or ()))}
