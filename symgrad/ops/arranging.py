"""Entries moved about: mirrored, turned, axes in another order, diagonals, triangles; copies and padding.

Each output entry is one input entry or a constant, found by arithmetic on its indices.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import product
from typing import Any

import sympy as sp

from symgrad.entries.equations import METHOD, TORCH, op
from symgrad.entries.operands import Ints, axis_of, write_moved_entries
from symgrad.entries.spec import no_alignment
from symgrad.errors import InputError, ShapeError
from symgrad.program import Role
from symgrad.shapes import Shape, Sizes, as_size

op("flip(x, dims: tuple[axis])", "out[i] = x[size(x, 0) − 1 − i]", "the entries in reverse order along dims", TORCH, "np.flip",
   variants=lambda shapes, dims: write_moved_entries(len(shapes[0]), lambda a: f"size(x, {a}) − 1 − i{a}" if a in dims else f"i{a}"),
   examples=("flip(x, (0,)) with x:3", "flip(x, (0, 1))"), arrays="x, *dims: np.flip(x, axis=dims)")  # fmt: skip


# fmt: off
op("flipud(x)", "out[i] = x[size(x, -1) − 1 − i]", "the entries in reverse order along axis 0", along="0",
   ranks={"x": (2,)}, examples=("flipud(x)",))
op("fliplr(x)", "out[i] = x[size(x, -1) − 1 − i]", "the entries in reverse order along axis 1", along="1", least=2, ranks={"x": (2,)}, examples=("fliplr(x)",))
# fmt: on


def prepare_roll(shapes: tuple[Shape, ...], shifts: Ints, dims: Ints) -> dict[str, Hashable]:
    """One shift for each of dims; without dims the tensor is one row."""
    if dims and not shapes[0]:
        raise ShapeError("roll along dims needs at least one axis")
    if len(shifts) != max(len(dims), 1):
        raise InputError("roll takes one shift for each of dims", found=(f"shifts={shifts}, dims={dims}",))
    return {"shifts": shifts, "dims": tuple(axis_of(d, len(shapes[0])) for d in dims)}


def write_roll(shapes: tuple[Shape, ...], shifts: tuple[Any, ...], dims: tuple[int, ...]) -> str:
    """The entries that many places on, along dims or row by row."""
    rank = len(shapes[0])
    if not dims:
        letters = ",".join(f"i{a}" for a in range(rank))
        number = f"({letters})" if letters else "0"
        left = write_moved_entries(rank, str, lambda a: f"size(x, {a})").partition(" = ")[0]
        return f"{left} = x⟨({number} − shifts0) mod size(x)⟩"
    by = {
        axis: f"(i{axis} − {' − '.join(f'shifts{k}' for k, a in enumerate(dims) if a == axis)}) mod size(x, {axis})"
        for axis in dims
    }
    return write_moved_entries(rank, lambda a: by.get(a, f"i{a}"), lambda a: f"size(x, {a})")


op("roll(x, shifts: tuple, dims: tuple=())", "out[i] = x[(i − shifts) mod size(x, 0)]",
   "moves the entries along dims; what leaves at one end comes in at the other; without dims all entries as one row", TORCH, "np.roll", variants=write_roll,
   prepare=prepare_roll, examples=("roll(x, 1, 0) with x:4", "roll(x, (1, -1), (0, 1))", "roll(x, 2)"),
   arrays="x, shifts, dims=None: np.roll(x, shifts, axis=dims)")  # fmt: skip


def write_rotation(shapes: tuple[Shape, ...], k: int, dims: tuple[int, int]) -> str:
    """Where an entry was before the turns."""
    first, second = dims
    back = [f"size(x, {a}) − 1 − i{b}" for a, b in ((first, first), (second, second))]
    crossed = [f"size(x, {first}) − 1 − i{second}", f"size(x, {second}) − 1 − i{first}"]
    places = [
        (f"i{first}", f"i{second}"), (f"i{second}", crossed[1]), (back[0], back[1]), (crossed[0], f"i{first}"),
    ][k % 4]  # fmt: skip
    return write_moved_entries(
        len(shapes[0]), lambda a: dict(zip((first, second), places, strict=True)).get(a, f"i{a}")
    )


op("rot90(x, k: int=1, dims: tuple[axis, axis]=(0, 1))", "out[i,j] = x[j,size(x, 1) − 1 − i]",
   "a quarter turn, k times, from the first of dims towards the second", METHOD, "np.rot90", variants=write_rotation,
   ranks={"x": (2,)}, examples=("rot90(x)", "rot90(x, 2)", "rot90(x, -1)"))  # fmt: skip
op("vander(x, N: int >= 2)", "out[…,i,j<N] = [j = 0] + [j > 0]·x[…,i]^j", "the powers of each entry from 0 on, as columns",
   ("torch.linalg.{}",), template="torch.linalg.vander({})", examples=("torch.linalg.vander(x, N=3) with x:4", "torch.linalg.vander(x, N=4) with x:2x3"), result_dtype="kept")  # fmt: skip
# fmt: off
for name, sign, says in (("tril", "≤", "the lower triangle, from a diagonal on; 0 above"),
                         ("triu", "≥", "the upper triangle, from a diagonal on; 0 below")):
    op(f"{name}(x, diagonal: int=0)", f"out[…,i,j] = x[…,i,j]·[j − i − diagonal {sign} 0]", says, TORCH, f"np.{name}",
       ranks={"x": (2, 3)}, letters="ijkl", examples=(f"{name}(x) with x:3x3", f"{name}(x, 1)", f"{name}(x, -1) with x:2x3x2"))
# fmt: on


def diagonal_shape(sizes: Sizes, shapes: tuple[Shape, ...], offset: int, dim1: int, dim2: int) -> Shape:
    """The other axes, and the diagonal as the last one."""
    (x,) = shapes
    rows, columns = x[dim1] + min(offset, 0), x[dim2] - max(offset, 0)
    length = sizes.lesser(rows, columns)
    if (sizes.number(length) or 0) < 0:
        sizes.fix(length)
        length = sp.S.Zero
    return (*(s for a, s in enumerate(x) if a not in (dim1, dim2)), as_size(length))


# fmt: off
op("diagonal(x, offset: int=0, dim1: int=0, dim2: int=1)", "out[i] = x[i,i + offset]",
   "a diagonal of the matrices in the axes dim1 and dim2, as the last axis", TORCH, "np.diagonal",
   variants={"offset<0": "out[i] = x[i − offset,i]"}, axes="dim1 dim2", shape=diagonal_shape,
   ranks={"x": (2, 3)}, examples=("diagonal(x) with x:3x3", "diagonal(x, 1)", "diagonal(x, 0, 0, 2) with x:2x2x3"),
   arrays="x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2)")
op("diag_embed(x, offset: int=0, dim1: int=-2, dim2: int=-1)", "out[i<n + offset,j<n + offset] = [i < n]·δ(i, j − offset)"
   "·x[i] where n = size(x, 0)", "the last axis as a diagonal of new matrices in the axes dim1 and dim2", TORCH, axes="dim1 dim2", least=1,
   variants={"offset<0": "out[i<n − offset,j<n − offset] = [i + offset ≥ 0]·δ(i + offset, j)·x[i + offset] where n = size"
            "(x, 0)"}, ranks={"x": (1, 2)}, examples=("diag_embed(x)", "diag_embed(x, 1) with x:2", "diag_embed(x, -1, 0, 2) with x:2x2"))
# fmt: on


def as_many_places(shapes: Any, source: Ints, destination: Ints) -> None:
    """A place for each axis."""
    if len(source) != len(destination):
        raise InputError(
            "movedim takes as many sources as destinations", found=(f"source={source}, destination={destination}",)
        )


def order_after_moveaxis(shapes: tuple[Shape, ...], source: tuple[int, ...], destination: tuple[int, ...]) -> str:
    """The axes of source at destination, the others in order."""
    order = [a for a in range(len(shapes[0])) if a not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    return write_moved_entries(len(order), lambda a: f"i{order.index(a)}")


op("movedim(x, source: tuple[axis], destination: tuple[axis])", "out[j,k,i] = x[i,j,k]", "moves the axes of source to the places of"
   " destination; the rest keep their order", METHOD, "torch.moveaxis Tensor.moveaxis np.moveaxis", variants=order_after_moveaxis, checks=as_many_places,
   examples=("movedim(x, 0, 2) with x:2x3x4", "movedim(x, (0, 1), (2, 0)) with x:2x3x2"))  # fmt: skip


def turned_over(sizes: Sizes, shapes: tuple[Shape, ...]) -> Shape:
    """A vector becomes a square matrix, a matrix its diagonal."""
    (shape,) = shapes
    if len(shape) == 1:
        return (shape[0], shape[0])
    if len(shape) == 2:
        return (sizes.lesser(*shape),)
    raise ShapeError(f"diag takes a vector or a matrix, not {len(shape)} axes")


op("diag(x)", "out[i,j] = δ(i, j)·x[i]", "a vector as a diagonal matrix, or the diagonal of a matrix", METHOD, "np.diag",
   variants={"rank(x)=2": "out[i] = x[i,i]"}, shape=turned_over, align=no_alignment,
   role=Role.SPREADS, ranks={"x": (1, 2)}, examples=("diag(x) with x:3", "diag(x) with x:3x3", "diag(x) with x:2x3"),
   arrays="x, diagonal=0: np.diag(x, k=diagonal)")  # fmt: skip


def require_entry_per_axis(shapes: tuple[Shape, ...], repeats: Ints) -> None:
    """One number for each axis of the result."""
    if len(repeats) < len(shapes[0]):
        raise ShapeError(f"repeat takes at least one number for each of the {len(shapes[0])} axes")


def write_tile(shapes: tuple[Shape, ...], **times: tuple[Any, ...]) -> str:
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

    return write_moved_entries(count, place, size)


# fmt: off
op("repeat(x, repeats: tuple)", "out[i<repeats0·size(x, 0)] = x[i mod size(x, 0)]", "the tensor several times along each axis",
   ("Tensor.{}", "aten.{}"), variants=write_tile, checks=require_entry_per_axis,
   examples=("x.repeat(2) with x:3", "x.repeat(2, 1, 2) with x:2x3"))
op("tile(x, dims: tuple)", "out[i,j<dims0·size(x, 1)] = x[i,j mod size(x, 1)]", "the tensor several times along each axis",
   variants=write_tile, prepare=lambda shapes, dims: {"dims": (*[1] * (len(shapes[0]) - len(dims)), *dims)},  # missing leading ones
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
   "np.repeat", variants=interleaved, prepare=prepare_interleave,
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
    return tuple(as_size(n + a + b) for n, (a, b) in pairs)


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


def pad_equation(shapes: tuple[Shape, ...], pad: tuple[int, ...], mode: str, value: Any) -> str:
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
   ("F.{}", "aten.constant_pad_nd", "aten.pad"), variants=pad_equation, shape=padded_shape, prepare=prepare_pad, result_dtype="first", role=Role.PADS,
   examples=("F.pad(x, (1, 2))", "F.pad(x, (1, 1, 0, 1), value=2.0) with x:2x2",
             *(f'F.pad(x, (1, 2), mode="{mode}") with x:1x2x3' for mode in MODES[1:])))  # fmt: skip
