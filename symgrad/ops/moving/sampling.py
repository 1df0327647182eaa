"""Values between the entries: interpolation to another size, and reading at the places that a grid names.

    out[c,i,j] = Σ_{h,w} x[c,h,w]·k(s(i) − h)·k(t(j) − w)

Every mode is this equation with a kernel k of its own: how much the entry h counts at the place s. Kernels are
pieces between whole distances, and each piece holds its left end, so that at a border the derivative by a place
is the one of the cell that begins there, as in torch. Beyond the border the entry at the border goes on
(`weight`), or 0 does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import InputError, ShapeError, UnsupportedError
from symgrad.indexing import Bracket, add_up, fresh
from symgrad.indexing.symbols import Expr, Index
from symgrad.ops.domain import reals
from symgrad.ops.functions import floor, nearest, side
from symgrad.ops.moving.views import sequence
from symgrad.ops.spec import At, View, example, operation
from symgrad.shapes import Shape, Size, Sizes, size_of

Ints = Any  # an int, a sequence of ints, or None, as users write them

# Kernels --------------------------------------------------------------------------------------------


def covers(place: Expr, entry: Any, places: Size) -> Expr:
    """[⌊i·n/m⌋ ≤ j < ⌈(i+1)·n/m⌉] in whole numbers: i·n < (j+1)·m and j·m < (i+1)·n."""
    if places == 1:
        return sp.S.One
    first = Bracket(sp.Lt(place * entry.size, (entry + 1) * places, evaluate=False))
    return first * Bracket(sp.Lt(entry * places, (place + 1) * entry.size, evaluate=False))


def between(low: Any, value: Expr, high: Any) -> Expr:
    """[low ≤ value < high]"""
    return Bracket(sp.Le(low, value, evaluate=False)) * Bracket(sp.Lt(value, high, evaluate=False))


def hat(d: Expr) -> Expr:
    """1 − |d| up to distance 1: a straight line from entry to entry."""
    return (1 + d) * between(-1, d, 0) + (1 - d) * between(0, d, 1)


def near(d: Expr, a: Any) -> Expr:
    """Keys' cubic up to distance 1."""
    return (a + 2) * d**3 - (a + 3) * d**2 + 1


def far(d: Expr, a: Any) -> Expr:
    """Keys' cubic from distance 1 to 2."""
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a


def cubic(a: Any) -> Callable[[Expr], Expr]:
    """Keys' kernel: four pieces of a cubic, with continuous slope."""

    def kernel(d: Expr) -> Expr:
        pieces = [(-2, far, -1), (-1, near, -1), (0, near, 1), (1, far, 1)]
        return sp.Add(*(piece(sign * d, a) * between(left, d, left + 1) for left, piece, sign in pieces))

    return kernel


KEYS, SMOOTH = sp.Rational(-3, 4), sp.Rational(-1, 2)
"""torch's slope of the cubic, and the one it takes where it smooths."""
REACH: dict[str, tuple[int, Callable[[Expr], Expr]]] = {
    **dict.fromkeys(("linear", "bilinear", "trilinear"), (1, hat)),
    "bicubic": (2, cubic(KEYS)),
}
"""How many entries beyond the border a kernel can meet, and the kernel."""
SPACE = {
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "area": (1, 2, 3),
}
"""Over how many axes of space each mode goes."""


# Interpolation --------------------------------------------------------------------------------------


def fraction(scale: Any) -> Fraction:
    """A scale factor as the fraction that it is written as."""
    return Fraction(str(scale)) if isinstance(scale, float) else Fraction(int(scale))


def prepare_interpolate(
    shapes: tuple[Shape, ...],
    size: Ints = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> dict[str, Hashable]:
    """The sizes of space, or one factor for each; torch's rules about which options go together."""
    space = len(shapes[0]) - 2
    if mode not in SPACE:
        raise InputError("there is no such interpolation", found=(f"mode={mode!r}",), hints=tuple(SPACE))
    if space not in SPACE[mode]:
        raise ShapeError(
            f"mode={mode!r} takes a batch axis, a channel axis and {' or '.join(map(str, SPACE[mode]))} of space",
            found=(f"{len(shapes[0])} axes",),
        )
    if (size is None) == (scale_factor is None):
        raise InputError("interpolate takes either size or scale_factor")
    if align_corners is not None and mode not in REACH:
        raise InputError(f"align_corners means nothing for mode={mode!r}")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise InputError("antialias goes with the modes bilinear and bicubic")
    given = sequence(size if scale_factor is None else scale_factor)
    given = given * space if len(given) == 1 and not isinstance(size, (tuple, list)) else given
    if len(given) != space:
        raise ShapeError(f"there are {space} axes of space", found=(f"{len(given)} sizes or factors",))
    if not all(isinstance(g, sp.Basic) or g > 0 for g in given):
        raise InputError("sizes and factors are positive numbers", found=(f"{given!r}",))
    return {
        "size": None if size is None else tuple(map(size_of, given)),
        "scale_factor": None if scale_factor is None else tuple(given),
        "mode": mode,
        "align_corners": None if mode not in REACH else bool(align_corners),
        "recompute_scale_factor": bool(recompute_scale_factor) or None,
        "antialias": bool(antialias),
    }


def interpolated_shape(sizes: Sizes, shapes: tuple[Shape, ...], size: Any, scale_factor: Any, **more: Any) -> Shape:
    """The axes of space in their new size."""
    (x,) = shapes
    if scale_factor is None:
        return (*x[:2], *size)
    factors = [sp.Rational(fraction(f).numerator, fraction(f).denominator) for f in scale_factor]
    places = [sp.floor(n * f) for n, f in zip(x[2:], factors, strict=True)]
    if any(sizes.number(n) == 0 for n in places):
        raise ShapeError("nothing is left at this scale")
    return (*x[:2], *places)


def ratio(old: Any, new: Any, factor: Any, corners: bool | None) -> Any:
    """How far one place of the output is along the input."""
    if corners:
        return (old - 1) / (new - 1) if new != 1 else old * 0
    return old / new if factor is None else 1 / factor


def place(i: Any, step: Any, corners: bool | None) -> Any:
    """s(i): where the i-th place of the output lies along the input."""
    half = sp.Rational(1, 2)
    return i * step if corners else (i + half) * step - half


def weight(s: Expr, h: Index, kernel: Callable[[Expr], Expr], reach: int) -> Expr:
    """How much entry h counts at s; the entries at the border stand for those beyond it, too."""
    if h.size == 1:
        return sp.S.One
    first = sp.Add(*(kernel(s + k) for k in range(1, reach + 1)))
    last = sp.Add(*(kernel(s - (h.size - 1) - k) for k in range(1, reach + 1)))
    return kernel(s - h) + Bracket(sp.Eq(h, 0)) * first + Bracket(sp.Eq(h, h.size - 1)) * last


def smoothed(i: Expr, h: Index, step: Expr, mode: str) -> Expr:
    """How much entry h counts where the kernel is as wide as a step, if that is more than 1: shares of 1."""
    kernel = cubic(SMOOTH) if mode == "bicubic" else hat
    half = sp.Rational(1, 2)

    def share(k: Index) -> Expr:
        return kernel((k + half - (i + half) * step) / sp.Max(step, 1))

    k = fresh("k", h.size)
    return share(h) / add_up(share(k), [k])


def average(i: Expr, h: Index, new: Size) -> Expr:
    """How much entry h counts among those that a place covers."""
    k = fresh("k", h.size)
    return covers(i, h, new) / add_up(covers(i, k, new), [k])


def counts(i: Index, h: Index, factor: Fraction | None, mode: str, align_corners: bool | None, antialias: bool) -> Expr:
    """How much entry h counts at the i-th place of the output."""
    new = size_of(i.size)
    if mode == "area":
        return average(i, h, new)
    if mode.startswith("nearest"):  # h ≤ i·up/down < h + 1 in whole numbers
        up, down = (h.size, new) if factor is None else (factor.denominator, factor.numerator)
        at, unit = ((2 * i + 1) * up, 2 * down) if mode == "nearest-exact" else (i * up, down)
        return between(h * unit, at, (h + 1) * unit)
    exact = None if factor is None else sp.Rational(factor.numerator, factor.denominator)
    step = size_of(ratio(h.size, new, exact, align_corners))
    if antialias:
        return smoothed(i, h, step, mode)
    reach, kernel = REACH[mode]
    return weight(place(i, step, align_corners), h, kernel, reach)


def factors_of(scale_factor: Any, recompute: bool | None, mode: str, space: int) -> list[Fraction | None]:
    """The factors that places are found by; without one they are found by the sizes, as for averages."""
    if scale_factor is None or recompute or mode == "area":
        return [None] * space
    return [fraction(f) for f in scale_factor]


def matrix(new: int, old: int, factor: Fraction | None, mode: str, align_corners: bool | None, antialias: bool) -> Any:
    """NumPy: how much each entry counts at each place of one axis, found by looking up the neighbours."""
    step = float(ratio(old, new, None if factor is None else float(factor), align_corners))
    found, rows = np.zeros((new, old)), np.arange(new)
    if mode == "area":
        for i in rows:
            found[i, i * old // new : -(-(i + 1) * old // new)] = 1
        return found / found.sum(axis=1, keepdims=True)
    if mode.startswith("nearest"):
        exact = Fraction(old, new) if factor is None else 1 / factor
        for k in range(new):
            found[k, int((Fraction(2 * k + 1, 2) if mode == "nearest-exact" else k) * exact)] = 1
        return found
    if antialias:
        width = max(step, 1.0)
        far_off = np.abs(np.arange(old)[None, :] + 0.5 - (rows[:, None] + 0.5) * step) / width
        found = keys(far_off, -0.5) if mode == "bicubic" else np.maximum(1 - far_off, 0)
        return found / found.sum(axis=1, keepdims=True)
    s = rows * step if align_corners else (rows + 0.5) * step - 0.5
    first = np.floor(s).astype(int)
    for tap in range(-1, 3):
        d = np.abs(s - first - tap)
        share = keys(d, -0.75) if mode == "bicubic" else np.maximum(1 - d, 0)
        np.add.at(found, (rows, np.clip(first + tap, 0, old - 1)), share)
    return found


def keys(d: Any, a: float) -> Any:
    """NumPy: Keys' cubic of a distance."""
    inner = ((a + 2) * d - (a + 3)) * d * d + 1
    return np.where(d <= 1, inner, np.where(d < 2, ((d - 5) * d + 8) * d * a - 4 * a, 0))


def interpolated(
    x: Any, size: Any, scale_factor: Any, mode: str, align_corners: Any, recompute_scale_factor: Any, antialias: bool
) -> Any:
    """NumPy's forward: one axis after the other."""
    x = np.asarray(x, float)
    space = x.ndim - 2
    news = (
        size if scale_factor is None else [int(n * fraction(f)) for n, f in zip(x.shape[2:], scale_factor, strict=True)]
    )
    factors = factors_of(scale_factor, recompute_scale_factor, mode, space)
    for axis, new, factor in zip(range(2, x.ndim), map(int, news), factors, strict=True):
        along = matrix(new, x.shape[axis], factor, mode, align_corners, antialias)
        if np.isfinite(x).all():
            found = np.tensordot(x, along, ([axis], [1]))
        else:  # what does not count is not there: 0·∞ would be NaN
            rows = np.moveaxis(x, axis, -1)[..., None, :]
            with np.errstate(invalid="ignore"):
                found = np.where(along != 0, along * rows, 0.0).sum(-1)
        x = np.moveaxis(found, -1, axis)
    return x


def torch_interpolate(torch: Any, x: Any, size: Any, scale_factor: Any, **options: Any) -> Any:
    """torch's forward."""
    return torch.nn.functional.interpolate(
        x,
        None if size is None else tuple(map(int, size)),
        None if scale_factor is None else tuple(map(float, scale_factor)),
        **options,
    )


@operation(
    says="the values at other places of the last axes: by the nearest entry, straight lines, cubics, or averages",
    numpy=interpolated,
    torch=torch_interpolate,
    shape=interpolated_shape,
    prepare=prepare_interpolate,
    spelled=("F.interpolate", "F.upsample"),
    ranks={"x": (4, 3, 5)},
    letters="ncijk",
    examples=(
        example('F.interpolate(x, scale_factor=2, mode="bilinear")', x=(1, 2, 2, 3)),
        example('F.interpolate(x, size=(4, 5), mode="bilinear", align_corners=True)', x=(1, 1, 2, 3)),
        example("F.interpolate(x, size=5)", x=(2, 1, 3)),
        example('F.interpolate(x, scale_factor=1.5, mode="nearest-exact")', x=(1, 2, 4)),
        example('F.interpolate(x, size=4, mode="linear")', x=(1, 2, 3)),
        example('F.interpolate(x, size=(3, 4), mode="bicubic")', x=(1, 1, 2, 3)),
        example('F.interpolate(x, size=3, mode="trilinear", align_corners=True)', x=(1, 1, 2, 2, 2)),
        example('F.interpolate(x, size=3, mode="area")', x=(1, 2, 5)),
        example('F.interpolate(x, size=(2, 2), mode="bilinear", antialias=True)', x=(1, 1, 4, 5)),
    ),
)
def interpolate(
    at: At,
    x: View,
    size: Ints = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Expr:
    """out[c,i] = Σ_h k(s(i) − h)·x[c,h], s(i): where place i lies along the input, k: the mode's kernel"""
    inner = [fresh(name, n) for name, n in zip("hwd", x.shape[2:], strict=False)]
    factors = factors_of(scale_factor, recompute_scale_factor, mode, len(inner))
    shares = [
        counts(i, h, factor, mode, align_corners, antialias)
        for i, h, factor in zip(at[2:], inner, factors, strict=True)
    ]
    return add_up(x[[*at[:2], *inner]] * sp.Mul(*shares), inner)


# At the places of a grid ----------------------------------------------------------------------------


def prepare_grid_sample(
    shapes: tuple[Shape, ...], mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> dict[str, Hashable]:
    """torch's modes; what goes on beyond the border for cubics is only 0."""
    for name, value, known in (
        ("mode", mode, ("bilinear", "nearest", "bicubic")),
        ("padding_mode", padding_mode, ("zeros", "border", "reflection")),
    ):
        if value not in known:
            raise InputError(f"there is no such {name}", found=(f"{name}={value!r}",), hints=known)
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
