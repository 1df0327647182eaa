"""Convolutions and their transposes: windows that slide over the last axes.

    out[n,o,i,j] = Σ_{c,r,s} x[n, c, a·i + d·r − p, …]·w[o,c,r,s]      a: stride, d: dilation, p: padding

A transposed convolution is stated the other way round: each product of an entry and a weight is added at the
place p = a·i + d·r − padding, which a δ says; the calculus solves it. Leading axes are torch's: (n, channels,
space…) or (channels, space…). Groups number the channels as a matrix of (group, channel in the group).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import sympy as sp

from symgrad.entries.equations import op
from symgrad.entries.operands import channels_per_group, check_space, transposed_positions, unify_vector, window_count
from symgrad.entries.signatures import check_per_axis
from symgrad.errors import InputError, ShapeError
from symgrad.shapes import Shape, Size, Sizes, as_size


def check_window_counts(sizes: Sizes, places: Sequence[Size]) -> Sequence[Size]:
    """``places`` of a window, of which there has to be one on every axis."""
    known = [sizes.number(n) for n in places]
    if any(number is not None and number < 1 for number in known):
        raise ShapeError("the window is larger than the padded input")
    for number in places:
        sizes.require(number - 1)
    return places


def padding_per_side(padding: Any, weight: Shape, dilation: Sequence[int]) -> tuple[Sequence[Size], Sequence[Size]]:
    """How much is padded before and after each axis; "same" puts the odd one after."""
    if padding != "same":
        return padding, padding
    whole = [as_size(d * (k - 1)) for d, k in zip(dilation, weight[2:], strict=True)]
    return [sp.floor(w / 2) for w in whole], [w - sp.floor(w / 2) for w in whole]


def prepare(shapes: tuple[Shape, ...], stride: tuple[int, ...], padding: Any, **more: Any) -> dict[str, Hashable]:
    """A padding for each axis of space, or one of torch's two words."""
    if isinstance(padding, str) and (padding not in ("valid", "same") or (padding == "same" and set(stride) != {1})):
        raise InputError(
            "there is no such padding",
            found=(f"padding={padding!r}, stride={stride}",),
            hints=('integers, "valid", or "same" with stride 1',),
        )
    if padding != "same":
        padding = check_per_axis(len(stride), 0, False, "padding", 0 if padding == "valid" else padding)
    return {"stride": stride, "padding": padding, **more}


def slid_shape(
    sizes: Sizes, shapes: tuple[Shape, ...], stride: Any, padding: Any, dilation: Any, groups: int,
    output_padding: Any = None,
) -> Shape:  # fmt: skip
    """(n, out channels, places of the window…); of a transposed convolution what such a one would take to x."""
    x, weight, *bias = shapes
    space, made, read = len(stride), weight[0], groups * weight[1]
    made, read = (made, read) if output_padding is None else (read, made)
    sizes.unify(x[-space - 1], read)
    channels_per_group(sizes, weight[0], groups)
    unify_vector(sizes, next(iter(bias), None), made, "the bias")
    axes = x[-space:], weight[2:], stride
    if output_padding is None:
        places = [
            window_count(*axis)
            for axis in zip(*axes, *padding_per_side(padding, weight, dilation), dilation, strict=True)
        ]
    else:
        over = zip(output_padding, stride, dilation, strict=True)
        if any((sp.Max(a, d) - as_size(p)).is_nonpositive for p, a, d in over):
            raise ShapeError("output_padding has to be smaller than the stride or the dilation")
        places = [transposed_positions(*axis) for axis in zip(*axes, padding, dilation, output_padding, strict=True)]
    return (*x[: -space - 1], made, *check_window_counts(sizes, places))


def window(
    stride: Sequence[Any], before: Sequence[Any], dilation: Sequence[Any], *, over: bool = False
) -> tuple[list[str], str]:
    """What a window reads on each axis of space, and that it is inside where there is padding or it may stick ``over``."""
    space, places, held = len(stride), [], ""
    for axis, (a, p, d) in enumerate(zip(stride, before, dilation, strict=True)):
        places.append(f"{a}·{'ijk'[axis]} + {'' if d == 1 else f'{d}·'}{'rst'[axis]}{f' − {p}' if p != 0 else ''}")
        held += f"·[{places[-1]} ≥ 0]·[{places[-1]} < size(x, {axis - space})]" * bool(over or p != 0)
    return places, held


def convolved(shapes: tuple[Shape, ...], stride: Any, padding: Any, dilation: Any, groups: Any) -> str:
    """The equation, for any number of axes of space."""
    space = len(stride)
    same = [f"⌊{d}·(size(weight, {a + 2}) − 1)/2⌋" for a, d in enumerate(dilation)]
    places, held = window(stride, same if padding == "same" else padding, dilation)
    left, shifts = ",".join("ijk"[:space]), ",".join("rst"[:space])
    channel = (
        "c" if groups == 1 else "⌊o/(size(weight, 0)/groups)⌋·size(weight, 1) + c"
    )  # rows here have no short pullback
    x, held = ("x\u0302", "") if groups == 1 and 0 not in (same if padding == "same" else padding) else ("x", held)
    product = f"{x}[…,{channel},{','.join(places)}]·weight[o,c,{shifts}]{held}"
    return f"out[…,o,{left}] = (Σ_{{c,{shifts}}} {product}) + bias[o]"


def option_per_axis(option: str, space: int) -> tuple[str, ...]:
    """An option by its name on each axis of space."""
    if space == 1:
        return (option,)
    return tuple(f"{option}{axis}" for axis in range(space))


def describe_last_axes(space: int) -> str:
    """So many axes at the end, in words."""
    return "the last axis" if space == 1 else f"the last {space} axes"


BIAS = {1: "weight:2x2x3 bias:2", 2: "weight:2x2x2x2 bias:2", 3: "weight:1x1x2x2x1 bias:1"}
# fmt: off
for space, x, wide, own in ((1, "1x2x5", "1x2x6", "2x1x3"), (2, "1x2x4x3", "1x2x4x4", "2x1x2x2"), (3, "1x1x3x2x2", "1x1x4x4x3", "")):
    name, kernel = f"conv{space}d", BIAS[space].split()[0]
    op(f"{name}(x, weight, bias=None, stride: {space}*int >= 1=1, padding: any | str=0, "
       f"dilation: {space}*int >= 1=1, groups: int >= 1=1)",
       convolved((), option_per_axis("stride", space), option_per_axis("padding", space), option_per_axis("dilation", space), 1),
       f"slides every weight over {describe_last_axes(space)} and adds up the products; of several groups each reads its own channels",
       ("torch.{}", "F.{}"), variants=convolved, prepare=prepare, letters="noijkl"[: space + 2],
       shape=slid_shape, checks=partial(check_space, space=space), fits=f"weight[o,c,{','.join('rst'[:space])}]",
       ranks={"x": (space + 2, space + 1), "weight": (space + 2,), "bias": (1,)}, smooth=True,
       examples=(f"F.{name}(x, weight) with x:{x} {kernel}", f"F.{name}(x, weight, bias, padding=1) with x:{x} {BIAS[space]}",
                 f"F.{name}(x, weight, stride=2) with x:{wide} {kernel}",
                 *((f"F.{name}(x, weight, dilation=2, groups=2) with x:{wide} weight:{own}",) if own else ()),
                 *((f'F.{name}(x, weight, padding="same") with x:{x} {kernel}',) if space == 1 else ())))
# fmt: on

# Transposed -----------------------------------------------------------------------------------------


def spread_out(
    shapes: tuple[Shape, ...], stride: Any, padding: Any, output_padding: Any, dilation: Any, groups: Any
) -> str:
    """The equation, for any number of axes of space."""
    space, axes = len(stride), zip(stride, dilation, padding, strict=True)
    meets = "".join(f"·δ(p{n}, {a}·{'ijk'[n]} + {d}·{'rst'[n]} − {q})" for n, (a, d, q) in enumerate(axes))
    left, sources, shifts = ",".join(f"p{n}" for n in range(space)), ",".join("ijk"[:space]), ",".join("rst"[:space])
    target, bound = "o", "c"
    if groups != 1:
        target, bound = "q", "c,q"
        meets += "·δ(o, ⌊c/(size(weight, 0)/groups)⌋·size(weight, 1) + q)"
    product = f"x[…,c,{sources}]·weight[c,{target},{shifts}]{meets}"
    return f"out[…,o,{left}] = (Σ_{{{shifts},{bound},{sources}}} {product}) + bias[o]"


# fmt: off
for space, x, more, weight, bias in ((1, "1x2x3", "1x2x2", "2x2x2", 2), (2, "1x1x2x2", "1x1x2x2", "1x2x2x3", 2),
                                     (3, "1x1x2x1x2", "1x1x2x2x2", "1x1x2x2x1", 1)):
    name = f"conv_transpose{space}d"
    op(f"{name}(x, weight, bias=None, stride: {space}*int >= 1=1, padding: {space}*int >= 0=0, "
       f"output_padding: {space}*int >= 0=0, groups: int >= 1=1, dilation: {space}*int >= 1=1)",
       spread_out((), option_per_axis("stride", space), option_per_axis("padding", space), (), option_per_axis("dilation", space), 1),
       "adds every entry times the weight where a convolution would have read it; output_padding lengthens the far ends; each of several groups adds to its own channels", ("torch.{}", "F.{}"),
       variants=spread_out, letters="noijkl"[: space + 2],
       shape=slid_shape, checks=partial(check_space, space=space), fits=f"weight[o,c,{','.join('rst'[:space])}]",
       ranks={"x": (space + 2, space + 1), "weight": (space + 2,), "bias": (1,)},
       examples=(f"F.{name}(x, weight) with x:{x} weight:{weight}",
                 f"F.{name}(x, weight, bias, stride=2, padding=1, output_padding=1) with x:{more} weight:{weight} bias:{bias}"))
op("conv_tbc(x, weight, bias, pad: int >= 0=0)",
   "out[t<size(x, 0) + 2·pad − size(weight, 0) + 1,b,o] = (Σ_{r,c} x̂[t + r − pad,b,c]·weight[r,c,o]) + bias[o]",
   "slides every weight over time, the first axis", ("torch.{}", "F.{}"), result_dtype="first",
   examples=("torch.conv_tbc(x, weight, bias) with x:4x2x3 weight:2x3x2 bias:2",
             "torch.conv_tbc(x, weight, bias, pad=1) with x:3x1x2 weight:2x2x3 bias:3"))  # fmt: skip
