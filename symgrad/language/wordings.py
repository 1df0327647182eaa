"""Calls that only texts spell as several entries of the table: captured programs see torch's own arithmetic there.

Each is a compound as in `symgrad.ops.compounds`; None is the answer where the table's own entry of that name is meant.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from symgrad.errors import InputError, ShapeError, UnsupportedError
from symgrad.language.kinds import Kind
from symgrad.ops.compounds import Call, Compound, Last, find_compound
from symgrad.ops.lookup import normal

Steps = Callable[..., Last | None]


def of_reals(steps: Steps) -> Steps:
    """``steps`` for real numbers only: what torch makes of whole numbers and truth values is another matter."""

    @functools.wraps(steps)
    def checked(call: Call, part: int, *given: Any, **more: Any) -> Last | None:
        last = steps(call, part, *given, **more)
        if last is not None and any(getattr(t, "kind", Kind.REAL) is not Kind.REAL for t in (*given, *more.values())):
            raise UnsupportedError("this is not supported of whole numbers and truth values", hints=("1.0 * x",))
        return last

    return checked


def unflatten(call: Call, part: int, x: Any, dim: Any, sizes: Any) -> Last:
    """One axis as several."""
    if not isinstance(dim, int) or not -len(x.shape) <= dim < len(x.shape):
        raise ShapeError(f"there is no axis {dim} in a tensor with {len(x.shape)}")
    axis = dim % len(x.shape)
    pieces = tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,)
    return "reshape", (x,), {"shape": (*x.shape[:axis], *pieces, *x.shape[axis + 1 :])}


def std_mean(call: Call, part: int, x: Any, dim: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Last:
    """The standard deviation and the mean."""
    return moment(part, "std", x, dim, correction, keepdim)


def var_mean(call: Call, part: int, x: Any, dim: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Last:
    """The variance and the mean."""
    return moment(part, "var", x, dim, correction, keepdim)


def moment(part: int, spread: str, x: Any, dim: Any, correction: Any, keepdim: bool) -> Last:
    """What is asked for of the two."""
    if dim is not None and (isinstance(dim, bool) or not isinstance(dim, (int, tuple))):
        raise InputError(f"dim of {spread}_mean has to be an axis", found=(f"dim={dim!r}",))
    options = {"dim": dim, "keepdim": keepdim}
    return ("mean", (x,), options) if part else (spread, (x,), {**options, "correction": correction})


def div(call: Call, part: int, x: Any, other: Any, *, rounding_mode: Any = None) -> Last | None:
    """The quotient, or what is left of it when it is rounded."""
    if rounding_mode is None:
        return None
    if rounding_mode not in ("trunc", "floor"):
        raise InputError(f"rounding_mode is 'trunc' or 'floor', not {rounding_mode!r}")
    return rounding_mode, (call("div", x, other),), {}


def clamp_min(call: Call, part: int, x: Any, min: Any) -> Last:
    """At least ``min``."""
    return bounded(x, {"min": min})


def clamp_max(call: Call, part: int, x: Any, max: Any) -> Last:
    """At most ``max``."""
    return bounded(x, {"max": max})


def bounded(x: Any, bound: dict[str, Any]) -> Last:
    """clamp with one bound, which is a number here."""
    ((side, value),) = bound.items()
    if hasattr(value, "shape"):
        word = {"min": "maximum", "max": "minimum"}[side]
        raise UnsupportedError(f"clamp_{side} by a tensor is not supported in texts", hints=(f"{word}(x, bound)",))
    return "clamp", (x,), bound


def slice_scatter(
    call: Call, part: int, x: Any, src: Any, dim: Any = 0, start: Any = None, end: Any = None, step: int = 1
) -> Last:
    """x with src in the place of a slice."""
    if not isinstance(dim, int) or not -len(x.shape) <= dim < len(x.shape):
        raise ShapeError(f"there is no axis {dim} in a tensor with {len(x.shape)}")
    length = call.number(x.shape[dim])
    if length is None:
        raise UnsupportedError("slice_scatter needs a size that is known", hints=("give the tensor a shape",))
    if step < 1:
        raise UnsupportedError("slices step forwards", found=(f"a step of {step}",))
    places = range(length)[slice(start, end, step)]
    axis, rank = dim % len(x.shape), len(x.shape)
    wanted = tuple(len(places) if a == axis else call.number(size) for a, size in enumerate(x.shape))
    if len(src.shape) != rank or tuple(call.number(size) for size in src.shape) != wanted:
        raise ShapeError(f"src of slice_scatter has to be {'×'.join(map(str, wanted))}")

    def rows(tensor: Any, at: int) -> Any:
        return call("narrow", tensor, dim=axis, start=at, length=1)

    parts = [rows(src, places.index(n)) if n in places else rows(x, n) for n in range(length)]
    return "cat", tuple(parts), {"dim": axis}


def meshgrid(call: Call, part: int, *tensors: Any, indexing: Any = "ij") -> Last:
    """Each vector along an axis of its own, over all axes."""
    if indexing not in ("ij", "xy"):
        raise InputError(f"indexing is 'ij' or 'xy', not {indexing!r}")
    if len(tensors) == 1 and isinstance(tensors[0], tuple):
        tensors = tensors[0]
    if part >= len(tensors):
        raise ShapeError(f"meshgrid gives {len(tensors)} tensors here")
    if any(len(t.shape) > 1 for t in tensors):
        raise ShapeError("meshgrid takes vectors", found=tuple(f"{len(t.shape)} axes" for t in tensors))
    sizes = [t.shape[0] if t.shape else 1 for t in tensors]
    order = [1, 0, *range(2, len(sizes))] if indexing == "xy" and len(sizes) > 1 else list(range(len(sizes)))
    own = tuple(size if n == part else 1 for n, size in enumerate(sizes))
    wide = call("expand", call("reshape", tensors[part], shape=own), shape=tuple(sizes))
    return "permute", (wide,), {"dims": tuple(order)}


GRIDS = tuple(f"grid {n}" for n in range(1, 9))
"""meshgrid gives one for each vector."""
TEXT_ONLY = {
    f"torch.{name}": Compound(name, of_reals(steps), fields)
    for name, steps, fields in (
        ("unflatten", unflatten, ()),
        ("std_mean", std_mean, ("std", "mean")),
        ("var_mean", var_mean, ("var", "mean")),
        ("div", div, ()),
        ("divide", div, ()),
        ("clamp_min", clamp_min, ()),
        ("clamp_max", clamp_max, ()),
        ("slice_scatter", slice_scatter, ()),
        ("meshgrid", meshgrid, GRIDS),
    )
}
FUNCTIONS_ONLY = ("torch.std_mean", "torch.var_mean", "torch.meshgrid")
"""What tensors have no method for."""


def wording(spelled: str) -> Compound | None:
    """The compound that a text spells so."""
    path = normal(spelled)
    word = path.rpartition(".")[2]
    if path not in (word, f"torch.{word}", f"Tensor.{word}"):
        return find_compound(spelled)
    own = TEXT_ONLY.get(f"torch.{word}")
    if own is None or (path.startswith("Tensor.") and f"torch.{word}" in FUNCTIONS_ONLY):
        return find_compound(spelled)
    return own
