"""The backward sweep of a captured program on jax's arrays, by the same plans; ``jax.jit`` can compile it.

Comes in: a program, its forward values, seeds as jax arrays or tracers. Goes out: gradients as jax arrays, computed by
pure functions, so that they can be compiled, differentiated with respect to the seeds, or mapped by ``jax.vmap``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from symgrad.errors import InputError, UnsupportedError, seed_shape_error
from symgrad.functions import PRIMITIVES
from symgrad.lowering.arrays import LIGHT, Engine, Play, Primitives
from symgrad.numeric.exact import Array
from symgrad.tracing.captured.planned import LibrarySweepCache, find_function

SAME = (
    "add", "subtract", "multiply", "divide", "power", "remainder", "floor_divide", "equal", "not_equal", "less",
    "less_equal", "greater", "greater_equal", "maximum", "minimum", "sqrt", "negative", "clip",
)  # fmt: skip
"""Elementwise functions with NumPy's names in jax."""


def import_jax() -> tuple[Any, Any]:
    """Import jax and jax.numpy; raise `UnsupportedError` if jax is not installed."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        raise UnsupportedError('backend="jax" needs jax', hints=("pip install jax",)) from None
    return jax, jnp


@lru_cache(maxsize=1)
def jax_functions() -> Mapping[str, Callable[..., Any]]:
    """Return the elementwise functions; any other has no plan on jax's arrays."""
    jax, jnp = import_jax()
    named = {name: getattr(numpys, "__name__", name) for name, (_, numpys) in PRIMITIVES.items()}
    places = (jax.scipy.special, jnp)
    return {
        **{name: getattr(jnp, name) for name in SAME},
        **{name: getattr(at, own) for at in places for name, own in named.items() if hasattr(at, own)},
        "both": jnp.logical_and, "any": jnp.logical_or, "not": jnp.logical_not,
        "softplus": lambda x: jnp.logaddexp(x, 0),
        "side": lambda x: jnp.copysign(jnp.ones_like(x), x),
        "whole": lambda x: x.astype(jnp.result_type(int)),
        "steady": lambda x: jnp.where(jnp.isfinite(x), x, 0),
    }  # fmt: skip


def jax_function(dtype: Any, name: str) -> Play:
    """Return an elementwise function, which keeps the dtype beside NumPy scalars."""
    if name == "float":
        return lambda x: x.astype(dtype)
    found = find_function(jax_functions(), name)
    return lambda *given: found(*map(to_python_scalar, given))


def to_python_scalar(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number, which does not promote dtypes."""
    return value.item() if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 else value


@lru_cache(maxsize=16)
def jax_engine(dtype: Any) -> Engine:
    """Return the engine of jax for one dtype."""
    jax, jnp = import_jax()

    def array(value: Any) -> Any:
        found = np.asarray(value)
        return jnp.asarray(found, dtype=dtype if found.dtype.kind == "f" else None)

    def windowed(axis: int, slopes: Sequence[tuple[int, int]], constant: int, zero: bool) -> Play:
        """Replace an axis by sliding windows, whose positions are constants."""
        places = np.full((), constant)
        for slope, count in slopes:
            places = places[..., None] + slope * np.arange(count)

        def slid(values: Any) -> Any:
            length = values.shape[axis]
            inside = (places >= 0) & (places < length)
            if not length:
                return jnp.zeros((*values.shape[:axis], *places.shape, *values.shape[axis + 1 :]), values.dtype)
            taken = jnp.take(values, np.clip(places, 0, length - 1), axis=axis)
            if not zero or inside.all():
                return taken
            return jnp.where(inside.reshape((*inside.shape, *(1,) * (values.ndim - axis - 1))), taken, 0)

        return slid

    def put(length: int, terms: Any, places: Any) -> Any:
        """Scatter-add terms in each row; positions outside are dropped."""
        kept = jnp.where((places >= 0) & (places < length), places, length)
        rows = jnp.arange(terms.shape[0]).reshape(-1, 1)
        return jnp.zeros((terms.shape[0], length), terms.dtype).at[rows, kept].add(terms, mode="drop")

    def placed(place: int, length: int, values: Any) -> Any:
        """Return zeros with an array at one position of a new first axis."""
        return jnp.zeros((length, *values.shape), values.dtype).at[place].set(values)

    def folded(parts: Sequence[tuple[Any, Any]], length: int, place: int, values: Any) -> Any:
        """Add slices of an axis and of the last one on a new axis at ``place``."""
        given = jnp.moveaxis(values, place, -2)
        result = jnp.zeros((*given.shape[:-2], length), values.dtype)
        for part, at in parts:
            result = result.at[at].add(given[part])
        return jnp.moveaxis(result, -1, place)

    def scanned(function: str, axis: int, backwards: bool) -> Play:
        """Return a cumulative sum, product or logsumexp."""
        scans = {"sum": jnp.add, "prod": jnp.multiply, "logaddexp": jnp.logaddexp}
        return lambda values: jax.lax.associative_scan(scans[function], values, reverse=backwards, axis=axis)

    reductions = {"sum": jnp.sum, "max": jnp.max, "prod": jnp.prod}
    primitives: Primitives = {
        "iota": lambda length: lambda: jnp.arange(length),
        "reshape": lambda shape: lambda values: jnp.reshape(values, shape),
        "transpose": lambda order: lambda values: jnp.transpose(values, order),
        "expand": lambda shape: (
            lambda values: jnp.broadcast_to(values if isinstance(values, jax.Array) else array(float(values)), shape)
        ),
        "item": lambda axis, place: lambda values: values[(slice(None),) * axis + (place,)],
        "window": windowed,
        "map": partial(jax_function, dtype),
        "where": lambda: lambda mask, one, other: jnp.where(mask, to_python_scalar(one), to_python_scalar(other)),
        "masked": lambda: lambda mask, values: jnp.where(mask, values, 0),
        "join": lambda axis: lambda *values: jnp.concatenate(values, axis),
        "scan": scanned,
        "reduce": lambda function, axes: lambda values: reductions[function](values, axis=axes),
        "product": lambda: jnp.matmul,
        "take": lambda axis: lambda values, places: jnp.take(values, places, axis=axis, mode="clip"),
        "put": lambda length: partial(put, length),
        "place": lambda place, length: partial(placed, place, length),
        "fold": lambda parts, length, place: partial(folded, parts, length, place),
    }
    return Engine(primitives, array, jnp.add, lambda value: bool(np.asarray(value).nbytes < LIGHT), False)


@dataclass(eq=False)
class OnJax(LibrarySweepCache):
    """The prepared sweeps of one program on jax's arrays, by inputs, outputs and dtype."""

    library, words = "jax", "arrays"

    def pull(self, seeds: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
        """Return vᵀJ for each of ``wanted``; raise `UnsupportedError` if a step has no plan."""
        jax, jnp = import_jax()
        types = {np.dtype(seed.dtype) for seed in seeds.values()}
        if len(types) != 1:
            raise InputError("seeds of several outputs are of one type")
        key = (tuple(wanted), tuple(seeds), dtype := types.pop())
        if key not in self.known:
            with jax.ensure_compile_time_eval():  # prepared under jit, too, from what is no tracer
                self.known[key] = self.prepared(tuple(seeds), wanted, jax_engine(dtype))
        return self.played(self.known[key], seeds, partial(jnp.zeros, dtype=dtype))

    def seed(self, seed: Any, output: Array, name: str) -> Any:
        """Return a seed as a jax array of its output's shape; for a complex output as pairs."""
        jax, jnp = import_jax()
        if seed is None and output.size == 1:
            seed = jnp.ones(output.shape)
        if not isinstance(seed, jax.Array) or not jnp.issubdtype(seed.dtype, jnp.floating):
            raise InputError('with backend="jax" a seed is an array of jax, of floats', found=(type(seed).__name__,))
        if tuple(seed.shape) != output.shape:
            raise seed_shape_error(tuple(seed.shape), name, output.shape)
        return seed
