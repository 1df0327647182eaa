"""A pair of NumPy functions as a candidate: ``forward(*inputs)`` and ``backward(v, *inputs)``; also what JAX makes.

``backward`` returns a gradient for each input that is differentiated, in order (alone, if there is one); where forward
returns a tuple, v is a tuple of the same length. A gradient that was left unreduced is added up, as torch's engine
would, after that was noted. A function of JAX's (``custom_vjp``, ``jit``) becomes such a pair, in the types that JAX
computes in; jax is imported here, and only for such a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.numeric import Array
from symgrad.testing.candidates.attempts import (
    PLAIN,
    Change,
    Layout,
    Meta,
    Pull,
    Returned,
    Seeds,
    Variation,
    change_of,
    listening,
)

OWN = ("jax", "jaxlib")


class Pair:
    """``(forward, backward)`` on NumPy arrays."""

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

    def pushed(self, name: str, tangent: Array) -> tuple[Array, ...] | str | None:
        """There is no forward mode."""
        return None

    def second(self, name: str, seeds: Seeds, weights: Array) -> Pull:
        """There is no graph."""
        return Pull({}, "a pair of NumPy functions has no graph to differentiate again")


class PairRun:
    """One forward pass of a pair."""

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
        self.changes = written(before, given, "mutates_input", "the forward pass")

    def pull(self, seeds: Seeds, layouts: Sequence[Layout | None] = (), watched: bool = False) -> Pull:
        """The candidate's own backward."""
        chosen = [*layouts, *[None] * (len(seeds) - len(layouts))]
        parts = []
        for seed, dtype, out, layout in zip(seeds, self.dtypes, self.outputs, chosen, strict=True):
            values = np.zeros(out.shape) if seed is None else np.asarray(seed, dtype=np.float64)
            parts.append(np.array(values, dtype) if layout is None else layout.place(values).view(np.dtype(dtype)))
        before = [part.copy() for part in parts]
        arrays = {n: a.copy() for n, a in self.given.items() if isinstance(a, np.ndarray)}
        result: Any = ()
        with listening() as heard:
            result = self.owner.backward(tuple(parts) if self.several else parts[0], *self.given.values())
        names = [f"v{n + 1}" for n in range(len(parts))] if self.several else ["v"]
        changes = written(dict(zip(names, before, strict=True)), dict(zip(names, parts, strict=True)), "mutates_seed")
        changes += written(arrays, self.given, "mutates_input")
        if heard.failure:
            return Pull({}, heard.failure, heard.printed, changes)
        got = result if isinstance(result, (tuple, list)) else (result,)
        wanted = tuple(Meta(np.shape(self.given[n]), str(self.given[n].dtype)) for n in self.owner.names)
        with listening() as looked:
            arrays_got = [None if part is None else np.asarray(part) for part in got]
            metas = tuple(None if a is None else Meta(a.shape, str(a.dtype)) for a in arrays_got)
            numbers = tuple(None if a is None else a.astype(np.float64) for a in arrays_got)
        if looked.failure:
            return Pull({}, f"does not return an array: {looked.failure}", heard.printed, changes)
        returned = (Returned("backward", metas, wanted, self.owner.names),)
        if len(got) != len(wanted):
            return Pull({}, f"returns {len(got)} gradients for {len(wanted)} inputs", heard.printed, changes, returned)
        gradients: dict[str, Array | None] = {}
        for name, array, meta in zip(self.owner.names, numbers, wanted, strict=True):
            reduced = None if array is None else summed(array, meta.shape)
            if array is not None and reduced is None:
                text = f"returns the shape {array.shape} for {name}, which is {meta.shape}"
                return Pull({}, text, heard.printed, changes, returned)
            gradients[name] = reduced
        return Pull(gradients, "", heard.printed, changes, returned)

    def accumulated(self, seeds: Seeds) -> Pull | None:
        """There is no ``.grad``."""
        return None


def summed(array: Array, shape: tuple[int, ...]) -> Array | None:
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


def written(
    before: Mapping[str, Array], after: Mapping[str, Any], kind: str, where: str = "backward"
) -> tuple[Change, ...]:
    """The arrays that are no longer what they were."""
    found = [change_of(kind, name, where, was, after[name]) for name, was in before.items()]
    return tuple(change for change in found if change is not None)


def is_jax(function: Any) -> bool:
    """Whether a function was made by a transformation of JAX's: a plain function of jax.numpy does not show it."""
    return type(function).__module__.partition(".")[0] in OWN


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
