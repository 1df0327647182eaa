"""How long a vector is: (Σ |d|ᵖ)^(1/p) for every p, as the text of an equation, and on arrays.

At an entry that is 0 torch's derivative of |d|ᵖ is 0, also for p below 1, where there is none; for p below 0 one
entry that is 0 makes the length 0. For p = ±∞ the entries that are as large as the length count alike, or each in
full, as between two sets of points (``apart``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.entries.shaping import number
from symgrad.errors import UnsupportedError


def length(value: Any, p: str = "p", d: str = "d", apart: bool = False) -> str:
    """The length of what has the entries d[j], for this value of the option p, where it may be ``out`` itself.

    >>> length(2), length(3), length(1), length(0)
    ('√(Σ_j d[j]²)', '(Σ_j |d[j]|^p)^(1/p)', 'Σ_j |d[j]|', 'Σ_j [d[j] ≠ 0]')
    """
    exact, size = number(value), f"|{d}[j]|"
    if exact.is_infinite:
        one = f"|{d}[j]| = out"
        return f"out + Σ_j [{one}]·({size} − out)" if apart else f"(Σ_j {size}·[{one}]) / (Σ_k [|{d}[k]| = out])"
    if exact in (0, 1):
        return f"Σ_j {size}" if exact else f"Σ_j [{d}[j] ≠ 0]"
    if exact == 2:
        return f"√(Σ_j {d}[j]²)"
    if exact.is_Integer and exact > 0:
        return f"(Σ_j {size if exact % 2 else f'{d}[j]'}^{p})^(1/{p})"
    there = f"[Σ_k [{d}[k] = 0] = 0]·" if exact < 0 else ""
    return f"{there}(Σ_j [{d}[j] ≠ 0]·{size}^{p})^(1/{p})"


def as_long_as(entry: str, left: str = "out", p: str = "p", apart: bool = False) -> Callable[..., str]:
    """The equation of a length that is the output, where its root has no derivative, at 0, with torch's: 0."""

    def text(shapes: Any, **options: Any) -> str:
        value = options[p]
        rooted = float(value) not in (0, 1) and not np.isinf(float(value))
        return f"{left} = {'[out ≠ 0]·' * rooted}{length(value, p, apart=apart)} where d[j] = {entry}"

    return text


def of_length(equation: str) -> Callable[..., str]:
    """The equation, with the length of what has the entries d[j] in the place of its LENGTH."""
    return lambda shapes, p, **options: equation.replace("LENGTH", inner_length(p))


def inner_length(value: Any, d: str = "d") -> str:
    """A length that is not the output: no p that is infinite, whose ties the output tells."""
    if np.isinf(float(value)):
        raise UnsupportedError("an infinite p is not supported here")
    return length(value, d=d)


def numpy_length(d: Any, p: Any, axis: Any, keepdims: bool = False) -> Any:
    """NumPy: (Σ |d|ᵖ)^(1/p)."""
    if p == 1:
        return np.sum(np.abs(d), axis=axis, keepdims=keepdims)
    d, p = np.abs(np.asarray(d, float)), float(p)
    if p == 0:
        return np.sum(d != 0, axis=axis, keepdims=keepdims).astype(float)
    if np.isinf(p):
        return (np.amax if p > 0 else np.amin)(d, axis=axis, keepdims=keepdims)
    with np.errstate(divide="ignore"):
        return np.sum(d**p, axis=axis, keepdims=keepdims) ** (1 / p)
