"""Values between the entries: reading at the places that a grid names.

    out[c,i,j] = Σ_{h,w} x[c,h,w]·k(u[i,j] − h)·k(t[i,j] − w)

Beyond the border 0 goes on, or the entry there, or the tensor mirrored.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import product
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import ShapeError, UnsupportedError
from symgrad.functions import floor, nearest, side
from symgrad.indexing import Bracket, add_up, fresh
from symgrad.indexing.symbols import Expr
from symgrad.ops.domain import reals
from symgrad.ops.moving.kernels import KEYS, cubic, hat, keys
from symgrad.ops.options import one_of
from symgrad.ops.spec import At, View, example, operation
from symgrad.shapes import Shape, Size, Sizes, size_of


def prepare_grid_sample(
    shapes: tuple[Shape, ...], mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> dict[str, Hashable]:
    """torch's modes; what goes on beyond the border for cubics is only 0."""
    one_of(("bilinear", "nearest", "bicubic"), "mode", mode)
    one_of(("zeros", "border", "reflection"), "padding_mode", padding_mode)
    if mode == "bicubic" and padding_mode != "zeros":
        raise UnsupportedError("grid_sample with cubics is supported with padding_mode='zeros' only")
    if mode == "bicubic" and len(shapes[0]) != 4:
        raise ShapeError("cubics go over two axes of space")
    return {"mode": mode, "padding_mode": padding_mode, "align_corners": bool(align_corners)}


def sampled_shape(sizes: Sizes, shapes: tuple[Shape, ...], **options: Any) -> Shape:
    """(n, c, h, w) at (n, y, x, 2) gives (n, c, y, x)."""
    x, grid = shapes
    if len(x) not in (4, 5) or len(grid) != len(x):
        raise ShapeError("grid_sample takes (n, c, h, w) and (n, y, x, 2), or both with one more axis of space")
    sizes.unify(x[0], grid[0])
    sizes.unify(grid[-1], sp.Integer(len(x) - 2))
    if any(sizes.number(n) == 0 for n in x[1:]):
        raise ShapeError("there has to be something to read")
    return (*x[:2], *grid[1:-1])


def sharp(d: Expr) -> Expr:
    """[d = 0]: only the entry that the place was rounded to."""
    return Bracket(sp.Eq(d, 0))


def mirrored(u: Expr, low: Any, span: Any) -> Expr:
    """u thrown back at ``low`` and at ``low + span``, as often as it takes."""
    if span == 0:
        return sp.S.Zero
    far_off = (u - low) * side(u - low)
    turned = far_off - 2 * span * floor((far_off + span) / (2 * span))
    return low + turned * side(turned)


def held_inside(u: Expr, size: Size) -> Expr:
    """u, or the border where it lies at or beyond that: nothing flows back from there."""
    last = size - 1
    between_ = Bracket(sp.Gt(u, 0, evaluate=False)) * Bracket(sp.Lt(u, last, evaluate=False))
    return u * between_ + last * Bracket(sp.Ge(u, last, evaluate=False))


def reached(g: Expr, size: Size, mode: str, padding_mode: str, align_corners: bool) -> Expr:
    """Where along an axis the grid's −1 … 1 lies."""
    u = (g + 1) * (size - 1) / 2 if align_corners else ((g + 1) * size - 1) / 2
    if padding_mode == "reflection":
        u = mirrored(u, 0, size - 1) if align_corners else mirrored(u, -sp.Rational(1, 2), size)
    if padding_mode != "zeros":
        u = held_inside(u, size)
    return nearest(u) if mode == "nearest" else u


def sampled(x: Any, grid: Any, mode: str, padding_mode: str, align_corners: bool) -> Any:
    """NumPy's forward: the neighbours of every place, looked up one by one."""
    x, grid = np.asarray(x, float), np.asarray(grid, float)
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    taps = {"nearest": (0,), "bilinear": (0, 1), "bicubic": (-1, 0, 1, 2)}[mode]
    for at in np.ndindex(grid.shape[:-1]):
        spots = []
        for g, size in zip(grid[at][::-1], x.shape[2:], strict=True):
            u = along_axis(g, size, padding_mode, align_corners)
            if not np.isfinite(u):
                spots.append([] if mode == "nearest" else [(0, float("nan"))])  # no entry is nearest; shares are none
                continue
            first = int(np.round(u)) if mode == "nearest" else int(np.floor(u))
            spots.append([(first + k, tap_share(u - first - k, mode)) for k in taps if 0 <= first + k < size])
        for spot in product(*spots):
            share = np.prod([s for _, s in spot])
            result[(at[0], slice(None), *at[1:])] += x[(at[0], slice(None), *(h for h, _ in spot))] * share
    return result


def tap_share(d: float, mode: str) -> float:
    """How much a neighbour counts at a distance."""
    return 1.0 if mode == "nearest" else float(keys(abs(d), -0.75)) if mode == "bicubic" else 1 - abs(d)


def along_axis(g: float, size: int, padding_mode: str, align_corners: bool) -> float:
    """One coordinate of a grid in entries."""
    g = float(g)
    u = (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2
    if padding_mode == "reflection":
        low, high = (0, size - 1) if align_corners else (-0.5, size - 0.5)
        if low == high:
            return 0.0
        rest = abs(u - low) % (2 * (high - low))
        u = low + min(rest, 2 * (high - low) - rest)
    return u if padding_mode == "zeros" else min(max(0, u), size - 1)  # of NaN, 0


@operation(
    says="the values at the places of a grid, whose coordinates go from −1 to 1 over the tensor",
    numpy=sampled,
    torch=lambda torch, x, grid, **options: torch.nn.functional.grid_sample(x, grid, **options),
    shape=sampled_shape,
    prepare=prepare_grid_sample,
    spelled=("F.grid_sample",),
    ranks={"x": (4, 5), "grid": (4, 5)},
    domain={"grid": reals(within=1.6)},
    smooth=False,
    kinks=(0.0,),
    letters="ncijk",
    examples=(
        example("F.grid_sample(x, grid, align_corners=False)", x=(1, 2, 3, 2), grid=(1, 2, 2, 2)),
        example("F.grid_sample(x, grid, align_corners=True)", x=(2, 1, 2, 3), grid=(2, 1, 2, 2)),
        example('F.grid_sample(x, grid, padding_mode="border", align_corners=True)', x=(1, 1, 3, 3), grid=(1, 2, 2, 2)),
        example(
            'F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)', x=(1, 1, 3, 2), grid=(1, 2, 2, 2)
        ),
        example('F.grid_sample(x, grid, "nearest", align_corners=False)', x=(1, 2, 3, 3), grid=(1, 2, 2, 2)),
        example('F.grid_sample(x, grid, "bicubic", align_corners=False)', x=(1, 1, 3, 4), grid=(1, 1, 2, 2)),
        example("F.grid_sample(x, grid, align_corners=False)", x=(1, 1, 2, 3, 2), grid=(1, 1, 2, 1, 3)),
    ),
)
def grid_sample(
    at: At,
    x: View,
    grid: View,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Expr:
    """out[c,i,j] = Σ_{h,w} k(u[i,j] − h)·k(t[i,j] − w)·x[c,h,w], (t, u): where the grid's entry lies in x"""
    inner = [fresh(name, n) for name, n in zip("hwd", x.shape[2:], strict=False)]
    kernel = {"bilinear": hat, "bicubic": cubic(KEYS), "nearest": sharp}[mode]
    shares = []
    for axis, h in enumerate(inner):
        g = grid[[at[0], *at[2:], sp.Integer(len(inner) - 1 - axis)]]
        shares.append(kernel(reached(g, size_of(x.shape[2 + axis]), mode, padding_mode, bool(align_corners)) - h))
    return add_up(x[[*at[:2], *inner]] * sp.Mul(*shares), inner)
