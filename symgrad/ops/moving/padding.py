"""Copies and margins: tensors repeated, every entry several times over, something put around.

Each output entry is one input entry or a constant, found by arithmetic on its indices.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import product
from typing import Any

import sympy as sp

from symgrad.entries.equations import METHOD, op
from symgrad.entries.shaping import Ints, axis_of, moved
from symgrad.errors import InputError, ShapeError
from symgrad.shapes import Shape, Sizes, size_of


def enough(shapes: tuple[Shape, ...], repeats: Ints) -> None:
    """One number for each axis of the result."""
    if len(repeats) < len(shapes[0]):
        raise ShapeError(f"repeat takes at least one number for each of the {len(shapes[0])} axes")


def copies(shapes: tuple[Shape, ...], **times: tuple[Any, ...]) -> str:
    """Each axis several times over: the equation, by the option that says how often."""
    ((word, amounts),) = times.items()
    count = len(amounts)
    new = count - len(shapes[0])
    empty = [a for a in range(new, count) if shapes[0][a - new] == 0]  # no place in a row of none

    def size(a: int) -> str:
        own = f"size(x, {a - new})"
        return own if a in empty else f"{word}{a}·{own}" if a >= new else f"{word}{a}"

    def place(a: int) -> str:
        return f"i{a}" if a in empty else f"i{a} mod size(x, {a - new})" if a >= new else ""

    return moved(count, place, size)


# fmt: off
op("repeat(x, repeats: tuple)", "out[i<repeats0·size(x, 0)] = x[i mod size(x, 0)]", "the tensor several times along each axis",
   ("Tensor.{}", "aten.{}"), instead=copies, checks=enough,
   examples=("x.repeat(2) with x:3", "x.repeat(2, 1, 2) with x:2x3"))
op("tile(x, dims: tuple)", "out[i,j<dims0·size(x, 1)] = x[i,j mod size(x, 1)]", "the tensor several times along each axis",
   instead=copies, prepare=lambda shapes, dims: {"dims": (*[1] * (len(shapes[0]) - len(dims)), *dims)},  # missing leading ones
   examples=("tile(x, (2,))", "tile(x, (2, 1)) with x:3"), arrays="x, *dims: np.tile(x, dims)")
# fmt: on


def prepare_interleave(shapes: tuple[Shape, ...], repeats: Any, dim: Any = None) -> dict[str, Hashable]:
    """The same number for every entry."""
    if not isinstance(repeats, (int, sp.Integer)):
        raise InputError("repeat_interleave takes one number of repetitions", hints=("positions: x[[0, 1, 1]]",))
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


op("repeat_interleave(x, repeats: any, dim: any=None)", "out[(i,r<repeats)] = x[i]", "every entry several times in a row, along dim or of all entries as one row", METHOD,
   "np.repeat", instead=interleaved, prepare=prepare_interleave,
   examples=("repeat_interleave(x, 2) with x:2x2", "repeat_interleave(x, 2, 0) with x:3", "repeat_interleave(x, 2, 1)"))  # fmt: skip


# Padded ---------------------------------------------------------------------------------------------

MODES = ("constant", "reflect", "replicate", "circular")


def prepare_pad(shapes: tuple[Shape, ...], pad: Ints, mode: str = "constant", value: Any = None) -> dict[str, Hashable]:
    """Pairs of margins, from the last axis on; around constants they may be sizes, as in ``x.shape[0] - 1``."""
    sizes = mode == "constant"
    margins = tuple(p if sizes and isinstance(p, sp.Expr) else int(p) for p in pad)
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


def padded_shape(sizes: Sizes, shapes: tuple[Shape, ...], pad: tuple[int, ...], mode: str, value: Any) -> Shape:
    """Every axis with its margins; what is reflected has to be there."""
    around = list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    pairs = list(zip(shapes[0], [(0, 0)] * (len(shapes[0]) - len(around)) + around, strict=True))
    for n, margins in pairs if mode != "constant" else ():
        known = sizes.number(n)
        least = 1 if mode == "replicate" else max(margins) + (mode == "reflect")
        if known is not None and any(margins) and known < least:
            raise ShapeError(
                f"mode={mode!r} with a margin of {max(margins)} needs {least} entries, this axis has {known}"
            )
        sizes.require(n - least if any(margins) else n)
    return tuple(size_of(n + a + b) for n, (a, b) in pairs)


def sources(axis: int, before: str, after: str, mode: str) -> list[tuple[str, str]]:
    """Where an entry of a padded axis comes from: places, and when each is the one; named margins are there."""
    if not (before or after):
        return [(f"i{axis}", "")]
    inner = f"i{axis} − {before}" if before else f"i{axis}"
    size = f"size(x, {axis})"
    left = {"reflect": f"−({inner})", "replicate": "0", "circular": f"{inner} + {size}"}
    right = {"reflect": f"2·({size} − 1) − ({inner})", "replicate": f"{size} − 1", "circular": f"{inner} − {size}"}
    around = [(left, f"[{inner} < 0]")] * bool(before) + [(right, f"[{inner} ≥ {size}]")] * bool(after)
    beyond = [(places[mode], holds) for places, holds in around] if mode != "constant" else []
    return [(inner, f"[{inner} ≥ 0]·[{inner} < {size}]"), *beyond]


def padded(shapes: tuple[Shape, ...], pad: tuple[int, ...], mode: str, value: Any) -> str:
    """The entries inside, what the mode says outside."""
    rank, left, axes = len(shapes[0]), [], []
    for axis in range(rank):
        k = 2 * (rank - 1 - axis)
        before, after = (f"pad{n}" if n < len(pad) and pad[n] else "" for n in (k, k + 1))
        left.append(f"i{axis}<{' + '.join(filter(None, (f'size(x, {axis})', before, after)))}")
        axes.append(sources(axis, before, after, mode))
    terms = []
    for choice in product(*axes):
        entry = f"x[{','.join(place for place, _ in choice)}]" if rank else "x"
        terms.append("·".join(filter(None, (entry, *(holds for _, holds in choice)))))
    inside = "·".join(holds for ((_, holds),) in axes if holds) if mode == "constant" and value != 0 else ""
    around = f" + value·(1 − {inside})" if inside else ""
    return f"out{f'[{chr(44).join(left)}]' if rank else ''} = {' + '.join(terms)}{around}"


op(f"pad(x, pad: tuple, mode: {' | '.join(map(repr, MODES))}='constant', value: float=None)",
   "out[…,i<size(x, -1) + pad0 + pad1] = x̂[…,i − pad0]",
   "margins around the last axes, pad0 before and pad1 behind the last one: of value, or with mode the entries reflected, those at the edge, or those of the other end",
   ("F.{}", "aten.constant_pad_nd", "aten.pad"), instead=padded, shape=padded_shape, prepare=prepare_pad, holds="first",
   examples=("F.pad(x, (1, 2))", "F.pad(x, (1, 1, 0, 1), value=2.0) with x:2x2",
             *(f'F.pad(x, (1, 2), mode="{mode}") with x:1x2x3' for mode in MODES[1:])))  # fmt: skip
