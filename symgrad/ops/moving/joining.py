"""Tensors joined, along an axis they have or along a new one."""

from __future__ import annotations

from collections.abc import Hashable

import sympy as sp

from symgrad.errors import ShapeError
from symgrad.indexing import bracket
from symgrad.indexing.symbols import Expr
from symgrad.ops.shaping import axis_of
from symgrad.ops.spec import At, View, example, operation
from symgrad.shapes import Shape, Sizes


def prepare_joint(shapes: tuple[Shape, ...], dim: int = 0) -> dict[str, Hashable]:
    """The axis from the front."""
    return {"dim": axis_of(dim, len(shapes[0]))}


def joined(sizes: Sizes, shapes: tuple[Shape, ...], dim: int) -> Shape:
    """Equal sizes but along dim, where they add up."""
    first = shapes[0]
    if not first:
        raise ShapeError("cat joins along an axis, a scalar has none", hints=("stack joins along a new axis",))
    for shape in shapes[1:]:
        if len(shape) != len(first):
            raise ShapeError(f"cat joins tensors with as many axes each, not {len(first)} and {len(shape)}")
        for axis, (a, b) in enumerate(zip(first, shape, strict=True)):
            if axis != dim:
                sizes.unify(a, b)
    return (*first[:dim], sp.Add(*(s[dim] for s in shapes)), *first[dim + 1 :])


@operation(
    holds="kept",
    says="joins tensors along an axis they have",
    torch=lambda torch, *tensors, dim: torch.cat(tensors, dim=dim),
    shape=joined, prepare=prepare_joint, spelled=("torch.cat", "torch.concat", "torch.concatenate", "np.concatenate"),
    examples=(example("cat([x, y])", x=(2,), y=(3,)), example("cat([x, y], dim=1)", x=(2, 2), y=(2, 1)),
              example("cat([x, x])", x=(2,))),
)  # fmt: skip
def cat(at: At, *tensors: View, dim: int = 0) -> Expr:
    """out[i] = x[i] where i < m, y[i − m] from there on"""
    result, begin = sp.S.Zero, sp.S.Zero
    for view in tensors:
        place = at[dim] - begin
        inside = bracket(sp.Ge(place, 0, evaluate=False)) * bracket(sp.Lt(place, view.shape[dim], evaluate=False))
        result += inside * view[[*at[:dim], place, *at[dim + 1 :]]]
        begin += view.shape[dim]
    return result


def stacked(sizes: Sizes, shapes: tuple[Shape, ...], dim: int) -> Shape:
    """Equal shapes, with a new axis that counts them."""
    first = shapes[0]
    for shape in shapes[1:]:
        if len(shape) != len(first):
            raise ShapeError(f"stack joins tensors of one shape, not {len(first)} and {len(shape)} axes")
        for a, b in zip(first, shape, strict=True):
            sizes.unify(a, b)
    return (*first[:dim], sp.Integer(len(shapes)), *first[dim:])


@operation(
    holds="kept",
    says="joins tensors of one shape along a new axis",
    torch=lambda torch, *tensors, dim: torch.stack(tensors, dim),
    shape=stacked, prepare=lambda shapes, dim=0: {"dim": axis_of(dim, len(shapes[0]) + 1)},
    spelled=("torch.stack", "np.stack"),
    examples=(example("stack([x, y])", x=(3,), y=(3,)), example("stack([x, y], dim=1)", x=(2,), y=(2,))),
)  # fmt: skip
def stack(at: At, *tensors: View, dim: int = 0) -> Expr:
    """out[0,i] = x[i], out[1,i] = y[i]"""
    rest = [*at[:dim], *at[dim + 1 :]]
    return sp.Add(*(sp.KroneckerDelta(at[dim], n) * view[rest] for n, view in enumerate(tensors)))
