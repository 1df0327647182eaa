"""Values between the entries: interpolation to another size.

    out[c,i,j] = Σ_{h,w} x[c,h,w]·k(s(i) − h)·k(t(j) − w)

Every mode is this equation with a kernel k of its own: how much the entry h counts at the place s. Beyond the border the
entry at the border goes on (`weight`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import sympy as sp

from symgrad.errors import InputError, ShapeError
from symgrad.indexing import Bracket, add_up, fresh
from symgrad.indexing.symbols import Expr, Index
from symgrad.ops.moving.kernels import KEYS, SMOOTH, between, covers, cubic, hat
from symgrad.ops.moving.views import sequence
from symgrad.ops.options import one_of
from symgrad.ops.spec import At, View, example, operation
from symgrad.shapes import Shape, Size, Sizes, size_of

Ints = Any  # an int, a sequence of ints, or None, as users write them


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
    if space not in SPACE[one_of(tuple(SPACE), "mode", mode)]:
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
