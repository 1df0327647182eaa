"""More ways to move entries about: mirrored, turned, cut into parts, repeated, padded, laid out in windows.

Each output entry is one input entry (or a constant), found by arithmetic on its indices.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import product
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import InputError, ShapeError
from symgrad.indexing import bracket
from symgrad.indexing.symbols import Expr
from symgrad.ops.equations import METHOD, TORCH, op
from symgrad.ops.moving.views import numbers, sequence
from symgrad.ops.shaping import axes_of, axis_of, moved, number
from symgrad.ops.slots import Opening
from symgrad.ops.spec import At, View, example, operation
from symgrad.shapes import Shape, Size, Sizes, size_of

Ints = Any  # one int or several, as users write them


def put(at: At, axis: int, index: Expr) -> list[Expr]:
    """The indices ``at`` with one of them replaced."""
    return [*at[:axis], index, *at[axis + 1 :]]


# Mirrored and turned --------------------------------------------------------------------------------


def flipped(shapes: tuple[Shape, ...], dims: tuple[int, ...]) -> str:
    """Each axis of dims from its end."""
    return moved(len(shapes[0]), lambda a: f"size(x, {a}) − 1 − i{a}" if a in dims else f"i{a}")


# fmt: off
op("flip(x, dims: any)", "out[i] = x[size(x, 0) − 1 − i]", "the entries in reverse order along dims", TORCH, "np.flip",
   instead=flipped,
   prepare=lambda shapes, dims: {"dims": axes_of(sequence(dims), len(shapes[0])) if sequence(dims) else ()},
   examples=("flip(x, (0,)) with x:3", "flip(x, (0, 1))"), arrays="x, *dims: np.flip(x, axis=dims)")
# fmt: on


def at_least(shape: Shape, rank: int) -> Shape:
    """``shape``, which has to have so many axes."""
    if len(shape) < rank:
        raise ShapeError(f"this takes a tensor with at least {rank} axes, not {len(shape)}")
    return shape


# fmt: off
op("flipud(x)", "out[i] = x[size(x, -1) − 1 − i]", "the entries in reverse order along axis 0", along="0", least=1,
   forward=np.flipud, ranks={"x": (2,)}, examples=("flipud(x)",))
op("fliplr(x)", "out[i] = x[size(x, -1) − 1 − i]", "the entries in reverse order along axis 1", along="1", least=2,
   forward=np.fliplr, ranks={"x": (2,)}, examples=("fliplr(x)",))
# fmt: on


def prepare_roll(shapes: tuple[Shape, ...], shifts: Ints, dims: Ints = ()) -> dict[str, Hashable]:
    """One shift for each of dims; without dims the tensor is one row."""
    amounts, axes = sequence(shifts), sequence(dims) if dims is not None else ()
    if axes and not shapes[0]:
        raise ShapeError("roll along dims needs at least one axis")
    if (axes and len(amounts) != len(axes)) or (not axes and len(amounts) != 1):
        raise InputError("roll takes one shift for each of dims", found=(f"shifts={shifts}, dims={dims}",))
    return {"shifts": amounts, "dims": tuple(axis_of(d, len(shapes[0])) for d in axes)}


def rolled(shapes: tuple[Shape, ...], shifts: tuple[Any, ...], dims: tuple[int, ...]) -> str:
    """The entries that many places on, along dims or row by row."""
    rank = len(shapes[0])
    if not dims:
        letters = ",".join(f"i{a}" for a in range(rank))
        number = f"({letters})" if letters else "0"
        left = moved(rank, str, lambda a: f"size(x, {a})").partition(" = ")[0]
        return f"{left} = x⟨({number} − shifts0) mod size(x)⟩"
    by = {
        axis: f"(i{axis} − {' − '.join(f'shifts{k}' for k, a in enumerate(dims) if a == axis)}) mod size(x, {axis})"
        for axis in dims
    }
    return moved(rank, lambda a: by.get(a, f"i{a}"), lambda a: f"size(x, {a})")


# fmt: off
op("roll(x, shifts: any, dims: any=())", "out[i] = x[(i − shifts) mod size(x, 0)]",
   "moves the entries along dims; what leaves at one end comes in at the other", TORCH, "np.roll", instead=rolled,
   prepare=prepare_roll, examples=("roll(x, 1, 0) with x:4", "roll(x, (1, -1), (0, 1))", "roll(x, 2)"),
   arrays="x, shifts, dims=None: np.roll(x, shifts, axis=dims)")
# fmt: on


def prepare_rot90(shapes: tuple[Shape, ...], k: int = 1, dims: Ints = (0, 1)) -> dict[str, Hashable]:
    """Quarter turns in a plane."""
    axes = tuple(axis_of(d, len(shapes[0])) for d in sequence(dims))
    if len(axes) != 2 or axes[0] == axes[1]:
        raise InputError("rot90 takes two different dims", found=(f"dims={dims}",))
    return {"k": int(k) % 4, "dims": axes}


def turned(shapes: tuple[Shape, ...], k: int, dims: tuple[int, int]) -> str:
    """Where an entry was before the turns."""
    first, second = dims
    back = [f"size(x, {a}) − 1 − i{b}" for a, b in ((first, first), (second, second))]
    crossed = [f"size(x, {first}) − 1 − i{second}", f"size(x, {second}) − 1 − i{first}"]
    places = [
        (f"i{first}", f"i{second}"), (f"i{second}", crossed[1]), (back[0], back[1]), (crossed[0], f"i{first}"),
    ][k]  # fmt: skip
    return moved(len(shapes[0]), lambda a: dict(zip((first, second), places, strict=True)).get(a, f"i{a}"))


# fmt: off
op("rot90(x, k: int=1, dims: any=(0, 1))", "out[i,j] = x[j,size(x, 1) − 1 − i]",
   "a quarter turn, k times, from the first of dims towards the second", METHOD, "np.rot90", instead=turned,
   prepare=prepare_rot90, ranks={"x": (2,)},
   examples=("rot90(x)", "rot90(x, 2)", "rot90(x, -1)"))
# fmt: on
# fmt: off
op("vander(x, N: int)", "out[…,i,j<N] = [j = 0] + [j > 0]·x[…,i]^j", "the powers of each entry from 0 on, as columns",
   ("torch.linalg.{}",), examples=("torch.linalg.vander(x, N=3) with x:4", "torch.linalg.vander(x, N=4) with x:2x3"), holds="kept")
# fmt: on
# fmt: off
for name, sign, says in (("tril", "≤", "the lower triangle, from a diagonal on; 0 above"),
                         ("triu", "≥", "the upper triangle, from a diagonal on; 0 below")):
    op(f"{name}(x, diagonal: int=0)", f"out[…,i,j] = x[…,i,j]·[j − i − diagonal {sign} 0]", says, TORCH, f"np.{name}",
       ranks={"x": (2, 3)}, letters="ijkl", forward=lambda x, diagonal, name=name: getattr(np, name)(x, diagonal),
       examples=(f"{name}(x) with x:3x3", f"{name}(x, 1)", f"{name}(x, -1) with x:2x3x2"),
       arrays=f"x, diagonal=0: np.{name}(x, k=diagonal)")
# fmt: on


def diagonal_shape(sizes: Sizes, shapes: tuple[Shape, ...], offset: int, dim1: int, dim2: int) -> Shape:
    """The other axes, and the diagonal as the last one."""
    (x,) = shapes
    rows, columns = x[dim1] + min(offset, 0), x[dim2] - max(offset, 0)
    length = sizes.lesser(rows, columns)
    if (sizes.number(length) or 0) < 0:
        sizes.fix(length)
        length = sp.S.Zero
    return (*(s for a, s in enumerate(x) if a not in (dim1, dim2)), size_of(length))


# fmt: off
op("diagonal(x, offset: int=0, dim1: int=0, dim2: int=1)", "out[i] = x[i,i + offset]",
   "a diagonal of the matrices in the axes dim1 and dim2, as the last axis", TORCH, "np.{0} torch.linalg.{0}",
   instead={"offset<0": "out[i] = x[i − offset,i]"}, axes="dim1 dim2", shape=diagonal_shape, ranks={"x": (2, 3)},
   examples=("diagonal(x) with x:3x3", "diagonal(x, 1)", "diagonal(x, 0, 0, 2) with x:2x2x3"),
   arrays="x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2)")
op("diag_embed(x, offset: int=0, dim1: int=-2, dim2: int=-1)", "out[i<n + offset,j<n + offset] = [i < n]·δ(i, j − offset)"
   "·x[i] where n = size(x, 0)", "the last axis as a diagonal of new matrices", TORCH, axes="dim1 dim2", least=1,
   instead={"offset<0": "out[i<n − offset,j<n − offset] = [i + offset ≥ 0]·δ(i + offset, j)·x[i + offset] where n = size"
            "(x, 0)"}, ranks={"x": (1, 2)},
   examples=("diag_embed(x)", "diag_embed(x, 1) with x:2", "diag_embed(x, -1, 0, 2) with x:2x2"))
# fmt: on


def prepare_movedim(shapes: tuple[Shape, ...], source: Ints, destination: Ints) -> dict[str, Hashable]:
    """The order of the axes."""
    rank = len(shapes[0])
    origin = [axis_of(d, rank) for d in sequence(source)]
    target = [axis_of(d, rank) for d in sequence(destination)]
    if len(set(origin)) != len(set(target)) or len(set(origin)) != len(origin) or len(target) != len(origin):
        raise InputError(
            "movedim takes as many sources as destinations, each once",
            found=(f"source={source}, destination={destination}",),
        )
    return {"source": tuple(origin), "destination": tuple(target)}


def shifted(shapes: tuple[Shape, ...], source: tuple[int, ...], destination: tuple[int, ...]) -> str:
    """The axes of source at destination, the others in order."""
    order = [a for a in range(len(shapes[0])) if a not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    return moved(len(order), lambda a: f"i{order.index(a)}")


# fmt: off
op("movedim(x, source: any, destination: any)", "out[j,k,i] = x[i,j,k]", "moves axes to other places; the rest keep their"
   " order", METHOD, "torch.moveaxis Tensor.moveaxis np.moveaxis", instead=shifted, prepare=prepare_movedim, forward=np.moveaxis,  # no copy
   examples=("movedim(x, 0, 2) with x:2x3x4", "movedim(x, (0, 1), (2, 0)) with x:2x3x2"),
   arrays="x, a, b: np.moveaxis(x, a, b)")
# fmt: on


# Parts ----------------------------------------------------------------------------------------------


def open_start(open_: Opening, shapes: tuple[Shape, ...], dim: int, start: int, length: Size) -> dict[str, Hashable]:
    """Where a part begins; from the end it reaches no further."""
    return {"start": open_(start, shapes[0][dim] - length) if start >= 0 else start}


# fmt: off
op("select(x, dim: int, index: int)", "out = x[index]", "the entries at one place of dim", TORCH, axes="dim", least=1,
   instead={"index<0": "out = x[size(x, 0) + index]"},
   slots=lambda open_, shapes, dim, index: {"index": open_(index, shapes[0][dim] - 1)},
   examples=("select(x, 1, 0)", "select(x, 0, -1) with x:3"))
op("narrow(x, dim: int, start: int, length: any)", "out[i<length] = x[start + i]", "length entries along dim, from start on",
   TORCH, "torch.narrow_copy Tensor.narrow_copy", axes="dim", least=1, slots=open_start,
   instead={"start<0": "out[i<length] = x[size(x, 0) + start + i]"},
   examples=("narrow(x, 0, 1, 2) with x:4", "narrow(x, 1, 0, 2)"))
# fmt: on


def cut_axis(shape: Shape, dim: int) -> int:
    """The axis that is cut, from the front."""
    if not shape:
        raise ShapeError("a scalar cannot be cut into parts")
    return axis_of(dim, len(shape))


def part_shape(sizes: Sizes, shape: Shape, dim: int, part: int, length: Size) -> Shape:
    """Parts of ``length`` along dim, the last one shorter where they do not come out even: formulas for every size."""
    whole = sizes.number(shape[dim])
    size = sizes.number(length)
    if whole is None or size is None:
        raise ShapeError("the size of the axis that is cut has to be known", hints=("--shape x=…",))
    parts = max(-(-whole // size), 1) if size else 1
    if not 0 <= part < parts:
        raise ShapeError(f"there is no part {part} among {parts}")
    rest = sp.expand(sizes.find(shape[dim]) - part * length)
    kept = length if part < parts - 1 else rest
    sizes.require(rest - length if part < parts - 1 else length - rest)
    if part:  # of a shorter axis there is no such part
        sizes.require(rest - 1)
    return (*shape[:dim], kept, *shape[dim + 1 :])


def chunk_length(shape: Any, chunks: int, dim: int) -> Size:
    """How long all but the last of ``chunks`` parts are."""
    return sp.floor((size_of(shape[dim]) + chunks - 1) / chunks)


def chunk_shape(sizes: Sizes, shapes: tuple[Shape, ...], chunks: int, dim: int, part: int) -> Shape:
    """The part's shape; an axis that comes out even is ``chunks`` times as long as a part, for every length of a part."""
    (x,) = shapes
    whole = sizes.number(x[dim])
    if whole is not None and sizes.find(x[dim]).is_Symbol and whole % chunks == 0 and whole > chunks > 1:
        sizes.unify(x[dim], chunks * sizes.given(whole // chunks))
    found = sizes.shape(x)
    if whole == 0 and 0 <= part < chunks:  # of nothing torch makes as many parts as it is told to
        return found
    return part_shape(sizes, found, dim, part, chunk_length(found, chunks, dim))


# fmt: off
op("chunk_part(x, chunks: int, dim: int=0, *, part: int)", "out[i] = x[part·⌊(size(x, 0) + chunks − 1)/chunks⌋ + i]",
   "one of the parts into which dim is cut, as nearly equal as can be", ("torch.chunk", "Tensor.chunk", "aten.chunk"),
   axes="dim", least=1, shape=chunk_shape, returns=("part",),
   torch=lambda torch, x, chunks, dim, part: torch.chunk(x, chunks, dim)[part],
   examples=("chunk(x, 2)[1] with x:5", "chunk(x, 2, 1)[0] with x:2x4"))
# fmt: on


def prepare_split(
    shapes: tuple[Shape, ...], split_size_or_sections: Ints, part: int, dim: int = 0
) -> dict[str, Hashable]:
    """A length for all parts, or one for each."""
    sizes = split_size_or_sections
    sections = tuple(sizes) if isinstance(sizes, (tuple, list)) else sizes
    if isinstance(sections, tuple) and not 0 <= part < len(sections):
        raise ShapeError(f"there is no part {part} among {len(sections)}")
    return {"split_size_or_sections": sections, "dim": cut_axis(shapes[0], dim), "part": part}


def split_shape(sizes: Sizes, shapes: tuple[Shape, ...], split_size_or_sections: Ints, dim: int, part: int) -> Shape:
    """The part's shape."""
    sections, (x,) = split_size_or_sections, shapes
    if not isinstance(sections, tuple):
        return part_shape(sizes, x, dim, part, size_of(sections))
    sizes.unify(x[dim], sp.Add(*map(size_of, sections)))
    return (*x[:dim], size_of(sections[part]), *x[dim + 1 :])


def begun_at(shapes: tuple[Shape, ...], split_size_or_sections: Ints, dim: int, part: int) -> str:
    """A part behind those of lengths of their own, or as many of one length."""
    before = " + ".join(f"split_size_or_sections{k}" for k in range(part)) or "0"
    return f"out[i] = x[{before if isinstance(split_size_or_sections, tuple) else 'part·split_size_or_sections'} + i]"


def by_split(torch: Any, x: Any, split_size_or_sections: Any, dim: int, part: int) -> Any:
    """torch's, which takes a list of plain numbers."""
    several, lengths = isinstance(split_size_or_sections, tuple), numbers(sequence(split_size_or_sections))
    return torch.split(x, list(lengths) if several else lengths[0], dim)[part]


# fmt: off
op("split_part(x, split_size_or_sections: any, dim: int=0, *, part: int)", "out[i] = x[part·split_size_or_sections + i]",
   "one of the parts of given lengths into which dim is cut", ("torch.split", "Tensor.split"),
   "torch.split_with_sizes Tensor.split_with_sizes aten.split aten.split_with_sizes", axes="dim", least=1, instead=begun_at,
   shape=split_shape, prepare=prepare_split, returns=("part",), torch=by_split,
   examples=("split(x, 2)[1] with x:5", "split(x, (1, 2), 1)[0]"))
op("unbind_part(x, dim: int=0, *, part: int)", "out = x[part]", "the entries at one place of dim: one of the parts of unbind",
   ("torch.unbind", "Tensor.unbind", "aten.unbind"), axes="dim", least=1, instead={"part<0": "out = x[size(x, 0) + part]"},
   returns=("part",), torch=lambda torch, x, dim, part: torch.unbind(x, dim)[part], examples=("unbind(x, 1)[0]",))
# fmt: on


# Repeated -------------------------------------------------------------------------------------------


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
   ("Tensor.{}", "aten.{}"), instead=copies_of("repeats"), prepare=prepare_repeat, torch=lambda torch, x, repeats: x.repeat(*numbers(repeats)),
   examples=("x.repeat(2) with x:3", "x.repeat(2, 1, 2) with x:2x3"))
op("tile(x, dims: any)", "out[i,j<dims0·size(x, 1)] = x[i,j mod size(x, 1)]", "the tensor several times along each axis",
   instead=copies_of("dims"), prepare=prepare_tile,
   torch=lambda torch, x, dims: torch.tile(x, numbers(dims)),
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


# fmt: off
op("repeat_interleave(x, repeats: any, dim: any=None)", "out[(i,r<repeats)] = x[i]", "every entry several times in a row", METHOD,
   "np.repeat", instead=interleaved, prepare=prepare_interleave,
   examples=("repeat_interleave(x, 2) with x:2x2", "repeat_interleave(x, 2, 0) with x:3", "repeat_interleave(x, 2, 1)"))
# fmt: on


# Padded ---------------------------------------------------------------------------------------------

MODES = ("constant", "reflect", "replicate", "circular")


def prepare_pad(shapes: tuple[Shape, ...], pad: Ints, mode: str = "constant", value: Any = None) -> dict[str, Hashable]:
    """Pairs of margins, from the last axis on; around constants they may be sizes, as in ``x.shape[0] - 1``."""
    sizes = mode == "constant"
    margins = tuple(p if sizes and isinstance(p, sp.Expr) else int(p) for p in sequence(pad))
    if mode not in MODES:
        raise InputError("there is no such padding", found=(f"mode={mode!r}",), hints=MODES)
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
    for n, margins in pairs if mode in ("reflect", "circular") else ():
        known = sizes.number(n)
        least = max(margins) + (mode == "reflect")
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


def one_fits(sizes: Sizes, shapes: tuple[Shape, ...], dimension: int, size: int, step: int) -> tuple[Shape, ...]:
    """The operand, which is as long as one window at least."""
    length = shapes[0][dimension]
    number = sizes.number(length)
    if number is not None and number < size:
        raise ShapeError(f"a window of {size} does not fit on an axis of size {number}")
    sizes.require(length - size)
    return shapes


# fmt: off
op("unfold(x, dimension: int, size: int, step: int)", "out[i,r<size] = x[step·i + r]",
   "windows along one axis, each as the last axis of the result", ("Tensor.{}", "aten.{}"), axes="dimension", least=1,
   align=one_fits, examples=("x.unfold(0, 2, 1) with x:4", "x.unfold(1, 2, 2) with x:2x5"))
# fmt: on


# fmt: off
op("pixel_shuffle(x, upscale_factor: int)", "out[…,c,(h,a<upscale_factor),(w,b<upscale_factor)] = x[…,(c,a,b),h,w]",
   "channels laid out as pixels: r² channels become one with r times the height and width",
   ("F.{}", "torch.{}", "aten.{}"), ranks={"x": (4, 3)}, letters="ijkl", examples=("F.pixel_shuffle(x, 2) with x:1x4x2x1",))
# fmt: on
