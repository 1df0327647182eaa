"""A JAX function as a candidate: what ``custom_vjp``, ``jit`` and the like return, as a pair of functions on arrays.

Comes in: the function and its inputs. Goes out: ``(forward, backward)`` for `symgrad.testing.candidates.pairs`, and
the inputs in the types that JAX computes in (float64 only where it was enabled). jax is imported here, and only for
such a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

OWN = ("jax", "jaxlib")


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
