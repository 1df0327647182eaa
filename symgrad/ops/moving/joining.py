"""Tensors joined, along an axis they have or along a new one."""

from __future__ import annotations

import sympy as sp

from symgrad.entries.equations import op
from symgrad.entries.readings import Function
from symgrad.entries.shaping import as_many
from symgrad.entries.spec import At, View, no_alignment
from symgrad.errors import ShapeError
from symgrad.indexing import bracket
from symgrad.indexing.symbols import Expr
from symgrad.program import Role
from symgrad.shapes import Shape, Sizes


def joined(sizes: Sizes, shapes: tuple[Shape, ...], dim: int) -> Shape:
    """Equal sizes but along dim, where they add up."""
    first = shapes[0]
    if not first:
        raise ShapeError("cat joins along an axis, a scalar has none", hints=("stack joins along a new axis",))
    for shape in shapes[1:]:
        as_many(sizes, first, shape)
        sizes.match((*first[:dim], *first[dim + 1 :]), (*shape[:dim], *shape[dim + 1 :]))
    return (*first[:dim], sp.Add(*(s[dim] for s in shapes)), *first[dim + 1 :])


def joint(at: At, *tensors: View, dim: int) -> Expr:
    """Each tensor where its entries begin."""
    result, begin = sp.S.Zero, sp.S.Zero
    for view in tensors:
        place = at[dim] - begin
        inside = bracket(sp.Ge(place, 0, evaluate=False)) * bracket(sp.Lt(place, view.shape[dim], evaluate=False))
        result += inside * view[[*at[:dim], place, *at[dim + 1 :]]]
        begin += view.shape[dim]
    return result


op("cat(*tensors, dim: axis=0)", "out[i<m + size(y, 0)] = [i < m]·x[i] + [m ≤ i]·y[i − m] where m = size(x, 0)", "joins tensors along an axis they have",
   ("torch.cat", "torch.concat", "torch.concatenate", "np.concatenate"), reading=Function(joint), shape=joined, align=no_alignment,
   torch=lambda torch, *tensors, dim: torch.cat(tensors, dim=dim), holds="kept", role=Role.JOINS,
   examples=("cat([x, y]) with x:2 y:3", "cat([x, y], dim=1) with x:2x2 y:2x1", "cat([x, x]) with x:2"))  # fmt: skip
op("stack(*tensors, dim: int=0)", "out[k<2] = δ(k, 0)·x0 + δ(k, 1)·x1", "joins tensors of one shape along a new axis",
   ("torch.stack", "np.stack"), axes="dim", fits=as_many, role=Role.STACKS,
   instead=lambda shapes, dim: f"out[k<{len(shapes)}] = {' + '.join(f'δ(k, {n})·x{n}' for n in range(len(shapes)))}",
   torch=lambda torch, *tensors, dim: torch.stack(tensors, dim), examples=("stack([x, y]) with x:3 y:3", "stack([x, y], dim=1) with x:2 y:2"))  # fmt: skip
