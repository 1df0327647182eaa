"""Values between the entries: interpolation to another size, and reading at the places that a grid names.

    out[n,c,i,j] = Σ_{h,w} x[n,c,h,w]·k[s[i] − h]·k[t[j] − w]

Every mode is this equation with a kernel k of its own: how much the entry h counts at the place s. Kernels are pieces
between whole distances, and each piece holds its left end, so that at a border the derivative by a place is the one
of the cell that begins there, as in torch. Beyond the border of a grid's tensor 0 goes on, or the entry there, or the
tensor mirrored.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import product
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import op
from symgrad.entries.operands import exact_number, reals
from symgrad.entries.signatures import as_value_tuple
from symgrad.entries.spec import no_alignment
from symgrad.errors import InputError, ShapeError, UnsupportedError
from symgrad.shapes import Shape, Sizes, as_size

HAT = "k[d] = (1 + d)·[−1 ≤ d < 0] + (1 − d)·[0 ≤ d < 1]"
"""1 − |d| up to distance 1: a straight line from entry to entry."""

COVERS = "covers[i,h,n,m] = [i·n < (h + 1)·m]·[h·m < (i + 1)·n]"
"""Whether the i-th of m windows over n entries holds the entry h: ⌊i·n/m⌋ ≤ h < ⌈(i + 1)·n/m⌉."""


def cubic(a: str) -> str:
    """Keys' kernel: four pieces of a cubic, with continuous slope."""
    return (
        "k[d] = far[−d]·[−2 ≤ d < −1] + near[−d]·[−1 ≤ d < 0] + near[d]·[0 ≤ d < 1] + far[d]·[1 ≤ d < 2], "
        f"near[d] = ({a} + 2)·d^3 − ({a} + 3)·d² + 1, far[d] = {a}·d^3 − 5·{a}·d² + 8·{a}·d − 4·{a}"
    )


def keys(d: Any, a: float) -> Any:
    """NumPy: Keys' cubic of a distance."""
    inner = ((a + 2) * d - (a + 3)) * d * d + 1
    return np.where(d <= 1, inner, np.where(d < 2, ((d - 5) * d + 8) * d * a - 4 * a, 0))


REACH = {"linear": 1, "bilinear": 1, "trilinear": 1, "bicubic": 2}
"""How many entries beyond the border a kernel can meet."""
KERNELS = {
    **dict.fromkeys(("linear", "bilinear", "trilinear", "bilinear antialias"), HAT),
    "bicubic": cubic("(−3/4)"),
    "bicubic antialias": cubic("(−1/2)"),
    "area": COVERS,
}
"""How much an entry counts at a distance; of averages, whether a place covers it."""
SPACE = {
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
    **dict.fromkeys(("nearest", "nearest-exact", "area"), (1, 2, 3)),
}
"""Over how many axes of space each mode goes."""


def prepare_interpolate(
    shapes: tuple[Shape, ...], size: Any, scale_factor: Any, mode: str, align_corners: Any,
    recompute_scale_factor: Any, antialias: bool,
) -> dict[str, Hashable]:  # fmt: skip
    """The sizes of space, or one factor for each; torch's rules about which options go together."""
    space = len(shapes[0]) - 2
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
    given = as_value_tuple(size if scale_factor is None else scale_factor)
    given = given * space if len(given) == 1 and not isinstance(size, (tuple, list)) else given
    if len(given) != space:
        raise ShapeError(f"there are {space} axes of space", found=(f"{len(given)} sizes or factors",))
    if not all(isinstance(g, sp.Basic) or g > 0 for g in given):
        raise InputError("sizes and factors are positive numbers", found=(f"{given!r}",))
    return {
        "size": None if size is None else tuple(map(as_size, given)),
        "scale_factor": None if scale_factor is None else tuple(given),
        "mode": mode,
        "align_corners": None if mode not in REACH else bool(align_corners),
        "recompute_scale_factor": bool(recompute_scale_factor) or None,
        "antialias": antialias,
    }


def interpolated_shape(sizes: Sizes, shapes: tuple[Shape, ...], size: Any, scale_factor: Any, **more: Any) -> Shape:
    """The axes of space in their new size."""
    x = shapes[0]
    if scale_factor is None:
        return (*x[:2], *size)
    places = [sp.floor(n * exact_number(f)) for n, f in zip(x[2:], scale_factor, strict=True)]
    if any(sizes.number(n) == 0 for n in places):
        raise ShapeError("nothing is left at this scale")
    return (*x[:2], *places)


def share(axis: int, size: Any, places: str, up: Any, down: Any, mode: str, antialias: bool) -> str:
    """How much the entry h counts at the place i: by the mode's kernel k, which the equation defines.

    From place to place it is up/down entries. Beyond the border the entry at the border goes on: it stands for those that
    the kernel would reach there.
    """
    i, h, n, step = "ijl"[axis], "hwd"[axis], f"size(x, {axis + 2})", f"{up}/{down}"
    if mode == "area":
        return f"covers[{i},{h},{n},{places}]/(Σ_{{o<{n}}} covers[{i},o,{n},{places}])"
    if mode.startswith("nearest"):  # h ≤ i·up/down < h + 1 in whole numbers
        at, unit = (f"(2·{i} + 1)·{up}", f"2·{down}") if mode == "nearest-exact" else (f"{i}·{up}", down)
        return f"[{h}·{unit} ≤ {at} < ({h} + 1)·{unit}]"
    if antialias:  # the kernel is as wide as a step, if that is more than 1
        wide = f"({step}·[{step} > 1] + [{step} ≤ 1])"
        near, each = (f"k[({o} + 1/2 − ({i} + 1/2)·{step})/{wide}]" for o in (h, "o"))
        return f"{near}/(Σ_{{o<{n}}} {each})"
    if size == 1:
        return "1"
    s = f"{'stu'[axis]}[{i}]"
    beyond = "".join(
        f" + [{h} < 1]·k[{s} + {k}] + [{h} ≥ {n} − 1]·k[{s} − {n} − {k - 1}]" for k in range(1, REACH[mode] + 1)
    )
    return f"(k[{s} − {h}]{beyond})".replace(" − 0", "")


def interpolated(
    shapes: tuple[Shape, ...], size: Any, scale_factor: Any, mode: str, align_corners: bool | None,
    recompute_scale_factor: bool | None, antialias: bool,
) -> str:  # fmt: skip
    """The equation, for any number of axes of space; s[i] is where the i-th place of the output lies along the input."""
    left, shares, said = list[str](), list[str](), list[str]()
    for a, old in enumerate(shapes[0][2:]):
        n, places = f"size(x, {a + 2})", f"⌊size(x, {a + 2})·scale_factor{a}⌋" if size is None else f"size{a}"
        up, down = n, places
        if scale_factor is not None and not recompute_scale_factor and mode != "area":
            down, up = exact_number(scale_factor[a]).as_numer_denom()
        if align_corners:
            up, down = ("0", "1") if size and size[a] == 1 else (f"({n} − 1)", f"({places} − 1)")
        left.append(f"{'ijl'[a]}<{places}")
        shares.append(share(a, old, places, up, down, mode, antialias))
        said.append(f"{'stu'[a]}[i] = {f'i·{up}/{down}' if align_corners else f'(i + 1/2)·{up}/{down} − 1/2'}")
    kernel = KERNELS.get(f"{mode} antialias" if antialias else mode, "")
    where = ", ".join((*said * (mode in REACH), kernel))
    inner = ",".join("hwd"[: len(left)])
    over = f"{{{inner}}}" if len(left) > 1 else inner
    return f"out[n,c,{','.join(left)}] = Σ_{over} x[n,c,{inner}]·{'·'.join(shares)}{f' where {where}' * bool(where)}"


op("interpolate(x, size: any=None, scale_factor: any=None, mode: "
   f"{' | '.join(map(repr, SPACE))}='nearest', align_corners: bool=None, "
   "recompute_scale_factor: bool=None, antialias: bool=False)",
   interpolated(((0,) * 3,), (0,), None, "linear", False, None, False),
   "the values at other places s of the last axes, size of them or scale_factor times as many, the outer entries going on beyond: by"
   " a kernel k of straight lines, as here, of cubics, by the nearest entry, or by averages, as mode says; with align_corners the outer"
   " entries stay outermost, with antialias a kernel is as wide as a step, recompute_scale_factor counts steps by the sizes", ("F.{}", "F.upsample"),
   variants=interpolated, shape=interpolated_shape, prepare=prepare_interpolate, ranks={"x": (4, 3, 5)},
   letters="ncijk",
   examples=('F.interpolate(x, scale_factor=2, mode="bilinear") with x:1x2x2x3',
             'F.interpolate(x, size=(4, 5), mode="bilinear", align_corners=True) with x:1x1x2x3',
             "F.interpolate(x, size=5) with x:2x1x3", 'F.interpolate(x, scale_factor=1.5, mode="nearest-exact") with x:1x2x4',
             'F.interpolate(x, size=4, mode="linear") with x:1x2x3', 'F.interpolate(x, size=(3, 4), mode="bicubic") with x:1x1x2x3',
             'F.interpolate(x, size=3, mode="trilinear", align_corners=True) with x:1x1x2x2x2',
             'F.interpolate(x, size=3, mode="area") with x:1x2x5',
             'F.interpolate(x, size=(2, 2), mode="bilinear", antialias=True) with x:1x1x4x5'))  # fmt: skip

# Places that a grid names -------------------------------------------------------------------------


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


def write_grid_coordinate(axis: int, space: int, mode: str, padding_mode: str, align_corners: bool, size: Any) -> str:
    """u, where along an axis the grid's −1 … 1 lies: thrown back at both ends, as often as it takes, or held inside."""
    n, u = f"size(x, {axis + 2})", "str"[axis]
    reached = f"grid[n,{','.join('ijl'[:space])},{space - 1 - axis}] + 1"
    said = f"({reached})·({n} − 1)/2" if align_corners else f"(({reached})·{n} − 1)/2"
    if padding_mode == "reflection":
        low, span = ("0", f"({n} − 1)") if align_corners else ("−1/2", n)
        far, turned = f"({u}1 − ({low}))·side({u}1 − ({low}))", f"{u}2 − 2·{span}·floor(({u}2 + {span})/(2·{span}))"
        said = (
            "0"
            if align_corners and size == 1
            else f"({low}) + {u}3·side({u}3), {u}3 = {turned}, {u}2 = {far}, {u}1 = {said}"
        )
    if padding_mode != "zeros":
        said = f"{u}4·[{u}4 > 0]·[{u}4 < {n} − 1] + ({n} − 1)·[{u}4 ≥ {n} − 1], {u}4 = {said}"
    return f"{u} = nearest({u}5), {u}5 = {said}" if mode == "nearest" else f"{u} = {said}"


def sampled(shapes: tuple[Shape, ...], **options: Any) -> str:
    """The equation for two axes of space, or three."""
    space = len(shapes[0]) - 2
    inner, at = ",".join("hwd"[:space]), ",".join("ijl"[:space])
    shares = "·".join(f"k[{u} − {h}]" for u, h in zip("str"[:space], "hwd"[:space], strict=True))
    places = ", ".join(write_grid_coordinate(axis, space, **options, size=shapes[0][axis + 2]) for axis in range(space))
    return f"out[n,c,{at}] = Σ_{{{inner}}} x[n,c,{inner}]·{shares} where {places}, {KERNELS.get(options['mode'], 'k[d] = [d = 0]')}"


TAPS: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "nearest": ((0,), np.ones_like),
    "bilinear": ((0, 1), lambda d: 1 - d),
    "bicubic": ((-1, 0, 1, 2), lambda d: keys(d, -0.75)),
}
"""Which entries around a place are read, and how much one counts at a distance."""


def values(x: Any, grid: Any, mode: str, padding_mode: str, align_corners: bool) -> Any:
    """NumPy's forward: the neighbours of every place, looked up."""
    x, grid = np.asarray(x, float), np.asarray(grid, float)
    space, (taps, counts) = len(x.shape) - 2, TAPS[mode]
    lines = []
    for axis in range(space):
        size = x.shape[axis + 2]
        u = along_axis(grid[..., space - 1 - axis], size, padding_mode, align_corners)
        lost, at = ~np.isfinite(u), np.where(np.isfinite(u), u, 0.0)
        first = (np.round(at) if mode == "nearest" else np.floor(at)).astype(np.int64)
        lines.append([(first + k, counts(abs(at - first - k)), lost, size) for k in taps])
    result = np.zeros((grid.shape[0], *grid.shape[1:-1], x.shape[1]))
    batch = np.arange(len(x)).reshape(-1, *[1] * space)
    for tap in product(*lines):
        share, spots, read = np.ones(grid.shape[:-1]), [], np.ones(grid.shape[:-1], bool)
        for spot, own, lost, size in tap:
            inside = (spot >= 0) & (spot < size)
            spots.append(np.where(inside, spot, 0))
            read &= inside | lost  # beside the tensor nothing is read, and nothing of its first entry
            # of a place that is no number no entry is the nearest; shares of it are none
            share = share * np.where(lost, 0.0 if mode == "nearest" else np.nan, np.where(inside, own, 0.0))
        result += np.where(read[..., None], np.moveaxis(x, 1, -1)[(batch, *spots)] * share[..., None], 0.0)
    return np.moveaxis(result, -1, 1)


def along_axis(g: Any, size: int, padding_mode: str, align_corners: bool) -> Any:
    """The coordinates of a grid in entries."""
    u = (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2
    if padding_mode == "reflection":
        low, high = (0, size - 1) if align_corners else (-0.5, size - 0.5)
        if low == high:
            return np.zeros_like(u)
        rest = np.where(np.isfinite(u), abs(u - low), np.nan) % (2 * (high - low))
        u = low + np.minimum(rest, 2 * (high - low) - rest)
    return u if padding_mode == "zeros" else np.where(np.isnan(u), 0.0, np.clip(u, 0, size - 1))


op("grid_sample(x, grid, mode: 'bilinear' | 'nearest' | 'bicubic'='bilinear', padding_mode: 'zeros' | 'border' | 'reflection'='zeros', "
   "align_corners: bool=False)", sampled(((0,) * 4,), mode="bilinear", padding_mode="zeros", align_corners=False),
   "the values at the places of a grid, whose coordinates go from −1 to 1 over the tensor (with align_corners from the middle of its first entry to that of its last): by kernels k of straight lines,"
   " cubics or the nearest entry, as mode says; beyond it 0, or with padding_mode the entry at the border, or x mirrored", ("F.{}",), variants=sampled,
   shape=sampled_shape, align=no_alignment, forward=values, kinks=0, letters="ncijk",
   checks={"mode=bicubic and not padding_mode=zeros": (UnsupportedError, "grid_sample with cubics is supported with padding_mode='zeros' only"),
           "mode=bicubic and not rank(x)=4": (ShapeError, "cubics go over two axes of space")},
   ranks={"x": (4, 5), "grid": (4, 5)}, domain={"grid": reals(within=1.6)},
   examples=("F.grid_sample(x, grid, align_corners=False) with x:1x2x3x2 grid:1x2x2x2",
             "F.grid_sample(x, grid, align_corners=True) with x:2x1x2x3 grid:2x1x2x2",
             'F.grid_sample(x, grid, padding_mode="border", align_corners=True) with x:1x1x3x3 grid:1x2x2x2',
             'F.grid_sample(x, grid, padding_mode="reflection", align_corners=False) with x:1x1x3x2 grid:1x2x2x2',
             'F.grid_sample(x, grid, "nearest", align_corners=False) with x:1x2x3x3 grid:1x2x2x2',
             'F.grid_sample(x, grid, "bicubic", align_corners=False) with x:1x1x3x4 grid:1x1x2x2',
             "F.grid_sample(x, grid, align_corners=False) with x:1x1x2x3x2 grid:1x1x2x1x3"))  # fmt: skip


def grid_shape(sizes: Sizes, shapes: tuple[Shape, ...], size: Any, align_corners: bool) -> Shape:
    """(n, 2, 3) at the size (n, c, h, w) gives (n, h, w, 2)."""
    space = len(size) - 2
    if space not in (2, 3) or len(shapes[0]) != 3 or 0 in size:
        raise ShapeError("affine_grid takes (n, 2, 3) for (n, c, h, w), and (n, 3, 4) with one more axis of space")
    for own, wanted in zip(shapes[0], (size[0], space, space + 1), strict=True):
        sizes.unify(own, as_size(wanted))
    return tuple(map(as_size, (size[0], *size[2:], space)))


def grid(shapes: tuple[Shape, ...], size: Any, align_corners: bool) -> str:
    """The equation: matrices by places from −1 to 1, the last axis of space first; its only place is 0."""
    space = len(size) - 2
    ends = ("2·{}/(size{} − 1)" if align_corners else "(2·{} + 1)/size{}").format
    wide = [(space - 1 - axis, axis) for axis in reversed(range(space)) if size[axis + 2] != 1]
    terms = [f"theta[n,d,{k}]·({ends('ijl'[axis], axis + 2)} − 1)" for k, axis in wide]
    return f"out[n,{','.join('ijl'[:space])},d] = {' + '.join([*terms, f'theta[n,d,{space}]'])}"


op("affine_grid(theta, size: tuple, align_corners: bool=False)", grid((), (1, 1, 2, 3), False),
   "where the entries of a tensor of this size lie between −1 and 1 (with align_corners the outer ones at ±1), moved by a matrix each", ("F.{}",), variants=grid,
   shape=grid_shape,
   letters="nijld", ranks={"theta": (3,)},
   examples=("F.affine_grid(theta, (2, 1, 2, 3), align_corners=False) with theta:2x2x3",
             "F.affine_grid(theta, (1, 2, 2, 3, 2), align_corners=True) with theta:1x3x4"))  # fmt: skip
