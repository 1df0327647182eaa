"""Values between the entries: interpolation to another size.

    out[n,c,i,j] = Σ_{h,w} x[n,c,h,w]·k[s[i] − h]·k[t[j] − w]

Every mode is this equation with a kernel k of its own: how much the entry h counts at the place s.

How much an entry counts at a distance: straight lines, cubics, windows.

Kernels are pieces between whole distances, and each piece holds its left end, so that at a border the derivative by a
place is the one of the cell that begins there, as in torch.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import op
from symgrad.entries.shaping import number
from symgrad.entries.signatures import several
from symgrad.errors import InputError, ShapeError
from symgrad.shapes import Shape, Sizes, size_of

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
    given = several(size if scale_factor is None else scale_factor)
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
        "antialias": antialias,
    }


def interpolated_shape(sizes: Sizes, shapes: tuple[Shape, ...], size: Any, scale_factor: Any, **more: Any) -> Shape:
    """The axes of space in their new size."""
    x = shapes[0]
    if scale_factor is None:
        return (*x[:2], *size)
    places = [sp.floor(n * number(f)) for n, f in zip(x[2:], scale_factor, strict=True)]
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
            down, up = number(scale_factor[a]).as_numer_denom()
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
   instead=interpolated, shape=interpolated_shape, prepare=prepare_interpolate, ranks={"x": (4, 3, 5)},
   letters="ncijk",
   examples=('F.interpolate(x, scale_factor=2, mode="bilinear") with x:1x2x2x3',
             'F.interpolate(x, size=(4, 5), mode="bilinear", align_corners=True) with x:1x1x2x3',
             "F.interpolate(x, size=5) with x:2x1x3", 'F.interpolate(x, scale_factor=1.5, mode="nearest-exact") with x:1x2x4',
             'F.interpolate(x, size=4, mode="linear") with x:1x2x3', 'F.interpolate(x, size=(3, 4), mode="bicubic") with x:1x1x2x3',
             'F.interpolate(x, size=3, mode="trilinear", align_corners=True) with x:1x1x2x2x2',
             'F.interpolate(x, size=3, mode="area") with x:1x2x5',
             'F.interpolate(x, size=(2, 2), mode="bilinear", antialias=True) with x:1x1x4x5'))  # fmt: skip
