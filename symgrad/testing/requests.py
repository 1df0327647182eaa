"""The request of a check, validated: its candidate, and the inputs to differentiate with respect to.

Comes in: the arguments of `check_backward`. Goes out: a `Request`, or a `SymgradError` about the caller's mistakes.
A pair of NumPy functions, ``forward(*inputs)`` and ``backward(v, *inputs)``, is a candidate here; a torch function is
one in `symgrad.testing.candidates.tensors`. ``backward`` returns a gradient for each input that is differentiated, in
order (alone, if there is one); where forward returns a tuple, v is a tuple of the same length. A gradient that was left
unreduced is added up, as torch's engine would, after that was noted. A function of JAX's (``custom_vjp``, ``jit``)
becomes such a pair, in the types that JAX computes in; jax is imported here, and only for such a candidate.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import InputError, UnknownNameError, UnsupportedError
from symgrad.language import arguments, exact_array
from symgrad.numeric import Array, as_float
from symgrad.question import text_inputs
from symgrad.testing.candidates import (
    PLAIN,
    Candidate,
    CandidateRun,
    MemoryLayout,
    Meta,
    PullResult,
    ReturnedGradients,
    Seeds,
    Variation,
    array_mutations,
    listening,
)


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


def read_request(function: Any, expression: Any, inputs: Mapping[str, Any], wrt: Sequence[str] | None) -> Request:
    """The candidate and its numbers; of an autograd.Function its ``apply`` is meant."""
    if isinstance(function, type) and callable(getattr(function, "apply", None)) and hasattr(function, "backward"):
        function = function.apply  # type: ignore[attr-defined]  # looked for on the line before
    jax = type(function).__module__.partition(".")[0] in OWN  # a plain function of jax.numpy does not show it
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
        check_argument_count(function, list(inputs))
    given = {name: as_candidate_input(value, name, pair) for name, value in inputs.items()}
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


def check_argument_count(function: Any, names: Sequence[str]) -> None:
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


def as_candidate_input(value: Any, name: str, pair: bool) -> Any:
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
    mentioned = frozenset().union(*(text_inputs(text, {*every, *given}) for text in texts if isinstance(text, str)))
    return {n: p for n, p in every.items() if n not in given and (n in mentioned or n in (wrt or ()))}


OWN = ("jax", "jaxlib")


class Pair(Candidate):
    """``(forward, backward)`` on NumPy arrays: there is no forward mode, and no graph to differentiate again."""

    masks, spent = False, ""

    def __init__(
        self, pair: tuple[Callable[..., Any], Callable[..., Any]], inputs: Mapping[str, Any], wanted: Sequence[str]
    ) -> None:
        self.forward, self.backward = pair
        self.inputs, self.names = dict(inputs), tuple(wanted)
        self.shapes: Mapping[str, tuple[int, ...]] = {name: np.shape(self.inputs[name]) for name in self.names}

    def run(self, variation: Variation = PLAIN) -> PairRun:
        """The forward pass on copies."""
        given = {}
        for name, value in self.inputs.items():
            if not isinstance(value, np.ndarray):
                given[name] = value
                continue
            array = np.array(variation.values.get(name, value), dtype=value.dtype)
            layout = variation.layouts.get(name)
            given[name] = array if layout is None else layout.place(array.astype(np.float64)).view(array.dtype)
        return PairRun(self, given)


class PairRun(CandidateRun):
    """One forward pass of a pair, which has no ``.grad``."""

    def __init__(self, owner: Pair, given: dict[str, Any]) -> None:
        self.owner, self.given = owner, given
        before = {n: a.copy() for n, a in given.items() if isinstance(a, np.ndarray)}
        self.several = False
        raw: tuple[Array, ...] = ()
        with listening() as heard:
            result = owner.forward(*given.values())
            self.several = isinstance(result, (tuple, list))
            raw = tuple(np.asarray(part) for part in (result if self.several else (result,)))
            if not raw or any(part.dtype.kind != "f" for part in raw):
                heard.failure = f"returns {type(result).__name__}, not an array of floating-point numbers"
        self.failure, self.printed = heard.failure, heard.printed
        raw = () if heard.failure else raw
        self.outputs = tuple(part.astype(np.float64) for part in raw)
        self.dtypes = tuple(str(part.dtype) for part in raw)
        self.cut = (False,) * len(raw)
        self.changes = array_mutations("mutates_input", "the forward pass", before, given)

    def pull(self, seeds: Seeds, layouts: Sequence[MemoryLayout | None] = (), watched: bool = False) -> PullResult:
        """The candidate's own backward."""
        chosen = [*layouts, *[None] * (len(seeds) - len(layouts))]
        parts = []
        for seed, dtype, out, layout in zip(seeds, self.dtypes, self.outputs, chosen, strict=True):
            values = np.zeros(out.shape) if seed is None else np.asarray(seed, dtype=np.float64)
            parts.append(np.array(values, dtype) if layout is None else layout.place(values).view(np.dtype(dtype)))
        names = [f"v{n + 1}" for n in range(len(parts))] if self.several else ["v"]
        weights = dict(zip(names, parts, strict=True))
        before = {n: part.copy() for n, part in weights.items()}
        arrays = {n: a.copy() for n, a in self.given.items() if isinstance(a, np.ndarray)}
        result: Any = ()
        with listening() as heard:
            result = self.owner.backward(tuple(parts) if self.several else parts[0], *self.given.values())
        changes = array_mutations("mutates_seed", "backward", before, weights)
        changes += array_mutations("mutates_input", "backward", arrays, self.given)
        if heard.failure:
            return PullResult({}, heard.failure, heard.printed, changes)
        got = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        if len(got) == len(self.given):  # one for each argument, as torch has it: what nobody asked for is not read
            got = tuple(g for n, g in zip(self.given, got, strict=True) if n in self.owner.names)
        wanted = tuple(Meta(np.shape(self.given[n]), str(self.given[n].dtype)) for n in self.owner.names)
        with listening() as looked:
            arrays_got = [None if part is None else np.asarray(part) for part in got]
            metas = tuple(None if a is None else Meta(a.shape, str(a.dtype)) for a in arrays_got)
            numbers = tuple(None if a is None else a.astype(np.float64) for a in arrays_got)
        if looked.failure:
            return PullResult({}, f"does not return an array: {looked.failure}", heard.printed, changes)
        returned = (ReturnedGradients("backward", metas, wanted, self.owner.names),)
        if len(got) != len(wanted):
            return PullResult(
                {}, f"returns {len(got)} gradients for {len(wanted)} inputs", heard.printed, changes, returned
            )
        gradients: dict[str, Array | None] = {}
        for name, array, meta in zip(self.owner.names, numbers, wanted, strict=True):
            reduced = None if array is None else sum_to_shape(array, meta.shape)
            if array is not None and reduced is None:
                text = f"returns the shape {array.shape} for {name}, which is {meta.shape}"
                return PullResult({}, text, heard.printed, changes, returned)
            gradients[name] = reduced
        return PullResult(gradients, "", heard.printed, changes, returned)


def sum_to_shape(array: Array, shape: tuple[int, ...]) -> Array | None:
    """``array`` added up to ``shape``, over which it was broadcast; None where it was not."""
    extra = array.ndim - len(shape)
    if extra < 0:
        return None
    found = array.sum(tuple(range(extra)))
    for axis, size in enumerate(shape):
        if found.shape[axis] != size:
            if size != 1:
                return None
            found = found.sum(axis, keepdims=True)
    return np.asarray(found)


def in_jax_types(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays and tensors as arrays of the types that JAX holds them in; anything else as it is."""
    import jax.numpy as jnp

    found = {}
    for name, value in inputs.items():
        array = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        found[name] = np.array(jnp.asarray(array)) if hasattr(array, "dtype") else value
    return found


def jax_pair(
    function: Any, inputs: Mapping[str, Any], wanted: Sequence[str]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Forward, and backward by ``jax.vjp`` with respect to the wanted inputs."""
    import jax
    import jax.numpy as jnp

    names = list(inputs)
    places = [names.index(name) for name in wanted]

    def handed(values: Sequence[Any]) -> list[Any]:
        return [jnp.asarray(v) if isinstance(v, np.ndarray) else v for v in values]

    def arrays(result: Any) -> Any:
        return tuple(map(np.array, result)) if isinstance(result, (tuple, list)) else np.array(result)

    def forward(*values: Any) -> Any:
        return arrays(function(*handed(values)))

    def backward(v: Any, *values: Any) -> Any:
        given = handed(values)

        def of_wanted(*moved: Any) -> Any:
            whole = list(given)
            for place, value in zip(places, moved, strict=True):
                whole[place] = value
            return function(*whole)

        result, pull = jax.vjp(of_wanted, *(given[place] for place in places))
        several = isinstance(result, (tuple, list))
        seed = type(result)(map(jnp.asarray, v)) if several else jnp.asarray(v)
        return tuple(map(np.array, pull(seed)))

    return forward, backward
