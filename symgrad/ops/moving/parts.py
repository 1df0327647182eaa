"""Parts of a tensor: the entries at one place of an axis, from one place to another, and what chunk and split cut it into."""

from __future__ import annotations

from typing import Any

import sympy as sp

from symgrad.entries.equations import TORCH, op
from symgrad.entries.shaping import Ints
from symgrad.errors import ShapeError
from symgrad.shapes import Shape, Size, Sizes, size_of

# fmt: off
op("select(x, dim: int, index: int)", "out = x[index]", "the entries at one place of dim", TORCH, axes="dim", least=1,
   instead={"index<0": "out = x[size(x, 0) + index]"},
   slots=lambda open_, shapes, dim, index: {"index": open_(index, shapes[0][dim] - 1)},
   examples=("select(x, 1, 0)", "select(x, 0, -1) with x:3"))
op("narrow(x, dim: int, start: int, length: int)", "out[i<length] = x[start + i]", "length entries along dim, from start on",
   TORCH, "torch.narrow_copy Tensor.narrow_copy", axes="dim", least=1,
   slots=lambda open_, shapes, dim, start, length: {"start": open_(start, shapes[0][dim] - length) if start >= 0 else start},
   instead={"start<0": "out[i<length] = x[size(x, 0) + start + i]"},
   examples=("narrow(x, 0, 1, 2) with x:4", "narrow(x, 1, 0, 2)"))
# fmt: on


def part_shape(sizes: Sizes, shape: Shape, dim: int, part: int, length: Size) -> Shape:
    """Parts of ``length`` along dim, the last one shorter where they do not come out even: formulas for every size."""
    whole, size = sizes.number(shape[dim]), sizes.number(length)
    if whole is None or size is None:
        raise ShapeError("the size of the axis that is cut has to be known", hints=("give the tensors shapes",))
    parts = max(-(-whole // size), 1) if size else 1
    if not 0 <= part < parts:
        raise ShapeError(f"there is no part {part} among {parts}")
    rest = sp.expand(sizes.find(shape[dim]) - part * length)
    kept = length if part < parts - 1 else rest
    sizes.require(rest - length if part < parts - 1 else length - rest)
    if part:  # of a shorter axis there is no such part
        sizes.require(rest - 1)
    return (*shape[:dim], kept, *shape[dim + 1 :])


def chunk_shape(sizes: Sizes, shapes: tuple[Shape, ...], chunks: int, dim: int, part: int) -> Shape:
    """The part's shape; an axis that comes out even is ``chunks`` times as long as a part, for every length of a part."""
    (x,) = shapes
    whole = sizes.number(x[dim])
    if whole is not None and sizes.find(x[dim]).is_Symbol and whole % chunks == 0 and whole > chunks > 1:
        sizes.unify(x[dim], chunks * sizes.given(whole // chunks))
    found = sizes.shape(x)
    if whole == 0 and 0 <= part < chunks:  # of nothing torch makes as many parts as it is told to
        return found
    return part_shape(sizes, found, dim, part, sp.floor((found[dim] + chunks - 1) / chunks))


op("chunk_part(x, chunks: int >= 1, dim: int=0, *, part: int)", "out[i] = x[part·⌊(size(x, 0) + chunks − 1)/chunks⌋ + i]",
   "one of the parts into which dim is cut, as nearly equal as can be", ("torch.chunk", "Tensor.chunk", "aten.chunk"),
   axes="dim", least=1, shape=chunk_shape, returns=("part",),
   examples=("chunk(x, 2)[1] with x:5", "chunk(x, 2, 1)[0] with x:2x4"))  # fmt: skip


def among(shapes: Any, split_size_or_sections: Any, part: int, **options: Any) -> None:
    """There is a length for the part."""
    sections = split_size_or_sections
    if isinstance(sections, tuple) and not 0 <= part < len(sections):
        raise ShapeError(f"there is no part {part} among {len(sections)}")


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


# fmt: off
op("split_part(x, split_size_or_sections: any, dim: int=0, *, part: int)", "out[i] = x[part·split_size_or_sections + i]",
   "one of the parts of given lengths into which dim is cut", ("torch.split", "Tensor.split"),
   "torch.split_with_sizes Tensor.split_with_sizes aten.split aten.split_with_sizes", axes="dim", instead=begun_at,
   least=1, shape=split_shape, checks=among, returns=("part",),
   examples=("split(x, 2)[1] with x:5", "split(x, (1, 2), 1)[0]"))
op("unbind_part(x, dim: int=0, *, part: int)", "out = x[part]", "the entries at one place of dim: one of the parts of unbind",
   ("torch.unbind", "Tensor.unbind", "aten.unbind"), axes="dim", instead={"part<0": "out = x[size(x, 0) + part]"},
   returns=("part",), examples=("unbind(x, 1)[0]",))
