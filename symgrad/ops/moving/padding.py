"""Copies and margins: tensors repeated, every entry several times over, something put around.

Each output entry is one input entry or a constant, found by arithmetic on its indices.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import product
from typing import Any

import sympy as sp

from symgrad.errors import InputError, ShapeError
from symgrad.indexing import bracket
from symgrad.indexing.symbols import Expr
from symgrad.ops.equations import METHOD, op
from symgrad.ops.moving.views import sequence
from symgrad.ops.options import one_of
from symgrad.ops.shaping import axis_of, moved, number
from symgrad.ops.spec import At, View, example, operation
from symgrad.shapes import Shape, Size, Sizes, size_of

Ints = Any  # one int or several, as users write them


def prepare_repeat(shapes: tuple[Shape, ...], repeats: Ints) -> dict[str, Hashable]:
    """One number for each axis of the result."""
    amounts = sequence(repeats)
    if len(amounts) < len(shapes[0]):
        raise ShapeError(f"repeat takes at least one number for each of the {len(shapes[0])} axes")
    return {"repeats": tuple(amounts)}


def copies_of(times: str) -> Callable[..., str]:
    """Each axis several times over: the equation, by the option that says how often."""

    def text(shapes: tuple[Shape, ...], **options: tuple[Any, ...]) -> str:
        rank, count = len(shapes[0]), len(options[times])
        new = count - rank
        empty = [a for a in range(new, count) if shapes[0][a - new] == 0]  # no place in a row of none

        def size(a: int) -> str:
            own = f"size(x, {a - new})"
            return own if a in empty else f"{times}{a}·{own}" if a >= new else f"{times}{a}"

        def place(a: int) -> str:
            return f"i{a}" if a in empty else f"i{a} mod size(x, {a - new})" if a >= new else ""

        return moved(count, place, size)

    return text


def prepare_tile(shapes: tuple[Shape, ...], dims: Ints) -> dict[str, Hashable]:
    """As for repeat; missing leading numbers are 1."""
    amounts = sequence(dims)
    return {"dims": (*[1] * (len(shapes[0]) - len(amounts)), *amounts)}


# fmt: off
op("repeat(x, repeats: any)", "out[i<repeats0·size(x, 0)] = x[i mod size(x, 0)]", "the tensor several times along each axis",
   ("Tensor.{}", "aten.{}"), instead=copies_of("repeats"), prepare=prepare_repeat,
   examples=("x.repeat(2) with x:3", "x.repeat(2, 1, 2) with x:2x3"))
op("tile(x, dims: any)", "out[i,j<dims0·size(x, 1)] = x[i,j mod size(x, 1)]", "the tensor several times along each axis",
   instead=copies_of("dims"), prepare=prepare_tile,
   examples=("tile(x, (2,))", "tile(x, (2, 1)) with x:3"), arrays="x, *dims: np.tile(x, dims)")
# fmt: on


def prepare_interleave(shapes: tuple[Shape, ...], repeats: Any, dim: Any = None) -> dict[str, Hashable]:
    """The same number for every entry."""
    if not isinstance(repeats, (int, sp.Integer)):
        raise InputError("repeat_interleave takes one number of repetitions", found=(f"repeats={repeats!r}",))
    if dim is not None and not shapes[0]:
        raise ShapeError("a tensor without axes has none to repeat along")
    return {"repeats": int(repeats), "dim": None if dim is None else axis_of(dim, len(shapes[0]))}


def interleaved(shapes: tuple[Shape, ...], repeats: int, dim: Any) -> str:
    """Copies side by side, along dim or of all entries as one row."""
    letters = [f"i{a}" for a in range(len(shapes[0]))]
    row = letters if dim is None else letters[dim : dim + 1]
    copies = f"({','.join((*row, 'r<repeats'))})"
    left = [copies] if dim is None else [*letters[:dim], copies, *letters[dim + 1 :]]
    return f"out[{','.join(left)}] = x{f'[{chr(44).join(letters)}]' if letters else ''}"


op("repeat_interleave(x, repeats: any, dim: any=None)", "out[(i,r<repeats)] = x[i]", "every entry several times in a row", METHOD,
   "np.repeat", instead=interleaved, prepare=prepare_interleave,
   examples=("repeat_interleave(x, 2) with x:2x2", "repeat_interleave(x, 2, 0) with x:3", "repeat_interleave(x, 2, 1)"))  # fmt: skip


# Padded ---------------------------------------------------------------------------------------------

MODES = ("constant", "reflect", "replicate", "circular")


def prepare_pad(shapes: tuple[Shape, ...], pad: Ints, mode: str = "constant", value: Any = None) -> dict[str, Hashable]:
    """Pairs of margins, from the last axis on; around constants they may be sizes, as in ``x.shape[0] - 1``."""
    sizes = mode == "constant"
    margins = tuple(p if sizes and isinstance(p, sp.Expr) else int(p) for p in sequence(pad))
    one_of(MODES, "mode", mode)
    if len(margins) % 2 or len(margins) > 2 * len(shapes[0]):
        raise ShapeError("pad takes two numbers for each axis, from the last axis on", found=(f"pad={margins}",))
    if mode != "constant" and len(shapes[0]) - len(margins) // 2 not in (1, 2):
        raise ShapeError(
            f"mode={mode!r} pads all axes but the first one or two",
            found=(f"{len(margins) // 2} pairs for {len(shapes[0])} axes",),
        )
    if mode != "constant" and any(m < 0 for m in margins):
        raise InputError("negative padding only goes with mode='constant'")
    return {"pad": margins, "mode": mode, "value": 0 if value is None else value}


def margins_of(pad: tuple[int, ...], rank: int) -> list[tuple[int, int]]:
    """The margins before and after every axis."""
    pairs = list(zip(pad[::2], pad[1::2], strict=True))
    return [(0, 0)] * (rank - len(pairs)) + pairs[::-1]


def padded_shape(sizes: Sizes, shapes: tuple[Shape, ...], pad: tuple[int, ...], mode: str, value: Any) -> Shape:
    """Every axis with its margins; what is reflected has to be there."""
    pairs = list(zip(shapes[0], margins_of(pad, len(shapes[0])), strict=True))
    for n, margins in pairs if mode != "constant" else ():
        known = sizes.number(n)
        least = 1 if mode == "replicate" else max(margins) + (mode == "reflect")
        if known is not None and any(margins) and known < least:
            raise ShapeError(
                f"mode={mode!r} with a margin of {max(margins)} needs {least} entries, this axis has {known}"
            )
        sizes.require(n - least if any(margins) else n)
    return tuple(size_of(n + a + b) for n, (a, b) in pairs)


def sources(place: Expr, size: Size, before: int, after: int, mode: str) -> list[tuple[Expr, Expr]]:
    """Where the entry at ``place`` of a padded axis comes from: indices, and when each is the one."""
    if not (before or after):
        return [(place, sp.S.One)]
    inner = place - before
    low, high = sp.Lt(inner, 0, evaluate=False), sp.Ge(inner, size, evaluate=False)
    found = [(inner, bracket(sp.Ge(inner, 0, evaluate=False)) * bracket(sp.Lt(inner, size, evaluate=False)))]
    if mode == "constant":
        return found
    left = {"reflect": -inner, "replicate": sp.S.Zero, "circular": inner + size}[mode]
    right = {"reflect": 2 * (size - 1) - inner, "replicate": size - 1, "circular": inner - size}[mode]
    return found + ([(left, bracket(low))] if before else []) + ([(right, bracket(high))] if after else [])


@operation(
    holds="first",
    says="margins around the last axes: a constant, a reflection, the entries at the edge, or the other end",
    torch=lambda torch, x, pad, mode, value: torch.nn.functional.pad(x, pad, mode, float(value)),
    shape=padded_shape,
    prepare=prepare_pad,
    spelled=("F.pad", "aten.constant_pad_nd", "aten.pad"),
    smooth=True,
    examples=(
        example("F.pad(x, (1, 2))", x=(2, 3)),
        example("F.pad(x, (1, 1, 0, 1), value=2.0)", x=(2, 2)),
        *(example(f'F.pad(x, (1, 2), mode="{mode}")', x=(1, 2, 3)) for mode in MODES[1:]),
    ),
)
def pad(at: At, x: View, pad: Ints, mode: str = "constant", value: Any = None) -> Expr:
    """out[i] = x[i − before] inside, what the mode says outside"""
    axes = [sources(i, n, a, b, mode) for i, n, (a, b) in zip(at, x.shape, margins_of(pad, x.rank), strict=True)]
    result: Expr = sp.S.Zero
    for choice in product(*axes):
        result += x[[place for place, _ in choice]] * sp.Mul(*(condition for _, condition in choice))
    if mode == "constant" and value != 0:
        result += number(value) * (1 - sp.Mul(*(condition for ((_, condition),) in axes)))
    return result
