"""Shapes, parts and joints: each output entry is one input entry.

A tensor is read in another shape, cut into parts, joined with others along an axis, or held as data. Jacobians are 0/1
matrices with one 1 a row, so a pullback puts each weight back where its entry came from, and adds where an entry was
read more than once (a broadcast, for instance). From a tensor held as data (``detach``) nothing flows back.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import sympy as sp

from symgrad.entries.along import Axes
from symgrad.entries.equations import METHOD, TORCH, op
from symgrad.entries.operands import Ints, axes_of, require_broadcastable, require_equal_rank, write_moved_entries
from symgrad.entries.spec import At, View, no_alignment
from symgrad.errors import InputError, ShapeError
from symgrad.indexing import bracket
from symgrad.indexing.symbols import Expr
from symgrad.program import Role
from symgrad.shapes import Shape, Size, Sizes, as_size


def prepare_expand(shapes: tuple[Shape, ...], shape: Shape) -> dict[str, Hashable]:
    """The sizes asked for, with the operand's own in the place of -1."""
    lead = len(shape) - len(shapes[0])
    own = (*[-1] * lead, *shapes[0]) if lead >= 0 else shape
    return {"shape": tuple(mine if size == -1 else size for size, mine in zip(shape, own, strict=True))}


def expand_shape(sizes: Sizes, shapes: tuple[Shape, ...], shape: Shape) -> Shape:
    """The sizes asked for."""
    require_broadcastable(sizes, shapes[0], shape, "a tensor with {} axes cannot be expanded to {}")
    if any(s == -1 for s in shape):
        raise ShapeError("a new leading axis needs a size, not -1")
    return tuple(sp.sympify(s, strict=True) for s in shape)


def write_expand(shapes: tuple[Shape, ...], shape: Shape) -> str:
    """x without the indices of new axes, with 0 on axes of size 1."""
    (old,), lead = shapes, len(shape) - len(shapes[0])
    return write_moved_entries(len(shape), lambda a: "" if a < lead else "0" if old[a - lead] == 1 else f"i{a}")


op("expand(x, shape: tuple)", "out[i,j] = x[j]", "repeats a tensor along new axes and axes of size 1 up to a shape, as broadcasting does",
   ("Tensor.{}", "torch.broadcast_to", "Tensor.broadcast_to", "np.broadcast_to"), variants=write_expand, shape=expand_shape,
   prepare=prepare_expand,
   torch=lambda torch, x, shape: x.expand(tuple(map(int, shape))),
   role=Role.COPIES, examples=("x.expand(2, 3) with x:3", "x.expand(2, 3) with x:2x1"), arrays="x, *shape: np.broadcast_to(x, shape)")  # fmt: skip


def every_axis(shapes: tuple[Shape, ...], dims: tuple[int, ...]) -> None:
    """Every axis has a place."""
    if len(dims) != len(shapes[0]):
        raise ShapeError(f"permute has to name each of the {len(shapes[0])} axes once", found=(f"dims={dims}",))


def rows_only(sizes: Sizes, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """.mT exchanges the last two axes."""
    if len(shapes[0]) < 2:
        raise ShapeError(f"a transpose needs two axes, this has {len(shapes[0])}", hints=("x[None, :] is a row",))
    return shapes


# fmt: off
op("permute(x, dims: tuple[axis])", "out[k,i,j] = x[i,j,k]", "puts the axes in the order dims", METHOD, checks=every_axis,
   variants=lambda shapes, dims: write_moved_entries(len(dims), lambda a: f"i{dims.index(a)}"), examples=("x.permute(2, 0, 1) with x:2x3x4", "permute(x, (1, 0))"),
   arrays="x, *dims: np.transpose(x, dims)")
op("transpose(x, dim0: int, dim1: int)", "out[i,j] = x[j,i]", "exchanges the axes dim0 and dim1",
   ("torch.{}", "Tensor.{}", "torch.swapaxes", "Tensor.swapaxes", "np.swapaxes"),
   also="torch.swapdims Tensor.swapdims", axes=Axes("dim0 dim1", repeated=True),
   examples=("x.transpose(0, 1) with x:2x3", "x.transpose(0, -1) with x:2x3x2"))
op("T(x)", "out[i,j] = x[j,i]", "the transpose of a matrix", ("Tensor.{}", "Tensor.t", "torch.t", "np.transpose"),
   template="{}.T", examples=("x.T with x:2x3",))
op("mT(x)", "out[…,i,j] = x[…,j,i]", "exchanges the last two axes", ("Tensor.{}", "torch.adjoint"), align=rows_only,
   template="{}.mT", ranks={"x": (2, 3)}, examples=("x.mT with x:2x2x3", "x.mT with x:2x3"))
# fmt: on


# Reshaping ------------------------------------------------------------------------------------------


def prepare_shape(shapes: tuple[Shape, ...], shape: Shape) -> dict[str, Hashable]:
    """The new shape with -1 worked out."""
    new = [sp.sympify(s, strict=True) for s in shape]
    for size in new:
        if not (size.free_symbols or (size.is_Integer and size >= -1)):
            raise InputError("a size has to be an integer", found=(str(size),))
    if new.count(-1) > 1:
        raise ShapeError("only one size of a reshape can be -1")
    if -1 in new:
        rest = sp.Mul(*(s for s in new if s != -1))
        new[new.index(-1)] = sp.Integer(0) if rest == 0 else sp.Mul(*shapes[0]) / rest
    return {"shape": tuple(new)}


def reshaped(sizes: Sizes, shapes: tuple[Shape, ...], shape: Shape) -> Shape:
    """The sizes asked for; they have to hold as many entries."""
    old, new = sp.Mul(*sizes.shape(shapes[0])), sp.Mul(*sizes.shape(shape))
    if old != new:
        sizes.unify(old, new)
    for size in shape:
        number = sizes.number(size)
        if number is None and sp.fraction(sp.together(size))[1].is_Integer is False:
            continue
        if not sizes.find(size).free_symbols and not sizes.find(size).is_Integer:
            raise ShapeError(f"a reshape to {new} entries does not fit {old}")
    return tuple(shape)


def renumbered(shapes: tuple[Shape, ...], shape: Shape) -> str:
    """Every entry by its number."""
    letters = [f"i{a}" for a in range(len(shape))]
    left = ",".join(f"{letter}<shape{a}" for a, letter in enumerate(letters))
    return f"out{f'[{left}]' if left else ''} = x⟨{','.join(letters) or 0}⟩"


op("reshape(x, shape: tuple)", "out[i,j] = x⟨i,j⟩", "the same entries, row by row, in another shape", METHOD, "Tensor.view np.reshape",
   variants=renumbered, shape=reshaped, prepare=prepare_shape,
   examples=("x.reshape(3, 2) with x:2x3", "x.reshape(-1)", "x.reshape(2, 2, 3) with x:4x3"),
   arrays="x, *shape: np.reshape(x, shape)")  # fmt: skip


def joined_axes(shapes: tuple[Shape, ...], start_dim: int, end_dim: int) -> str:
    """The indices from start to end as one row."""
    if start_dim > end_dim:
        raise InputError("start_dim comes before end_dim", found=(f"start_dim={start_dim}, end_dim={end_dim}",))
    letters = [f"i{a}" for a in range(len(shapes[0]))]
    row = ",".join(letters[start_dim : end_dim + 1])
    left = ",".join((*letters[:start_dim], f"({row})", *letters[end_dim + 1 :]))
    return f"out[{left}] = x[{','.join(letters)}]" if letters else "out[i<1] = x"


op("flatten(x, start_dim: axis=0, end_dim: axis=-1)", "out[(i,j)] = x[i,j]",
   "joins the axes from start_dim to end_dim into one, row by row", METHOD, "torch.ravel Tensor.ravel np.ravel", variants=joined_axes, role=Role.FLATTENS,
   examples=("flatten(x)", "flatten(x, 1) with x:2x2x3"))  # fmt: skip


def squeezed(shapes: tuple[Shape, ...], dim: tuple[int, ...]) -> str:
    """x with 0 on the axes that go."""
    kept = [a for a in range(len(shapes[0])) if a not in dim]
    places = ",".join(f"i{kept.index(a)}" if a in kept else "0" for a in range(len(shapes[0])))
    return f"{write_moved_entries(len(kept), str).partition(' = ')[0]} = x{f'[{places}]' if places else ''}"


def resolve_squeeze(sizes: Sizes, shapes: tuple[Shape, ...], dim: tuple[int, ...]) -> dict[str, Hashable]:
    """The axes of size 1 that go; the others that were asked for stay as long as they are longer."""
    for size in [shapes[0][axis] for axis in dim if shapes[0][axis] not in (0, 1)]:
        sizes.require(size - 2)
    return {"dim": tuple(axis for axis in dim if shapes[0][axis] == 1)}


# fmt: off
op("unsqueeze(x, dim: int)", "out[k<1] = x", "adds an axis of size 1 at dim", METHOD, "np.expand_dims", role=Role.OPENS, axes="dim",
   examples=("x.unsqueeze(0) with x:3", "unsqueeze(x, -1)"))
op("squeeze(x, dim: any=None)", "out[i,j] = x[i,0,j]", "drops axes of size 1", variants=squeezed, resolve=resolve_squeeze,
   prepare=lambda shapes, dim=None: {"dim": axes_of(dim, len(shapes[0]))},
   examples=("x.squeeze() with x:2x1x3", "x.squeeze(1) with x:2x1"))

# Parts --------------------------------------------------------------------------------------------


# fmt: off
op("select(x, dim: int, index: int)", "out = x[index]", "the entries at one place of dim", TORCH, axes="dim", least=1,
   variants={"index<0": "out = x[size(x, 0) + index]"},
   slots=lambda open_, shapes, dim, index: {"index": open_(index, shapes[0][dim] - 1)},
   examples=("select(x, 1, 0)", "select(x, 0, -1) with x:3"))
op("narrow(x, dim: int, start: int, length: int)", "out[i<length] = x[start + i]", "length entries along dim, from start on",
   TORCH, "torch.narrow_copy Tensor.narrow_copy", axes="dim", least=1,
   slots=lambda open_, shapes, dim, start, length: {"start": open_(start, shapes[0][dim] - length) if start >= 0 else start},
   variants={"start<0": "out[i<length] = x[size(x, 0) + start + i]"},
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
        return part_shape(sizes, x, dim, part, as_size(sections))
    sizes.unify(x[dim], sp.Add(*map(as_size, sections)))
    return (*x[:dim], as_size(sections[part]), *x[dim + 1 :])


def begun_at(shapes: tuple[Shape, ...], split_size_or_sections: Ints, dim: int, part: int) -> str:
    """A part behind those of lengths of their own, or as many of one length."""
    before = " + ".join(f"split_size_or_sections{k}" for k in range(part)) or "0"
    return f"out[i] = x[{before if isinstance(split_size_or_sections, tuple) else 'part·split_size_or_sections'} + i]"


# fmt: off
op("split_part(x, split_size_or_sections: any, dim: int=0, *, part: int)", "out[i] = x[part·split_size_or_sections + i]",
   "one of the parts of given lengths into which dim is cut", ("torch.split", "Tensor.split"),
   "torch.split_with_sizes Tensor.split_with_sizes aten.split aten.split_with_sizes", axes="dim", variants=begun_at,
   least=1, shape=split_shape, checks=among, returns=("part",),
   examples=("split(x, 2)[1] with x:5", "split(x, (1, 2), 1)[0]"))
op("unbind_part(x, dim: int=0, *, part: int)", "out = x[part]", "the entries at one place of dim: one of the parts of unbind",
   ("torch.unbind", "Tensor.unbind", "aten.unbind"), axes="dim", variants={"part<0": "out = x[size(x, 0) + part]"},
   returns=("part",), examples=("unbind(x, 1)[0]",))

# Joined -------------------------------------------------------------------------------------------


def cat_shape(sizes: Sizes, shapes: tuple[Shape, ...], dim: int) -> Shape:
    """Equal sizes but along dim, where they add up."""
    first = shapes[0]
    if not first:
        raise ShapeError("cat joins along an axis, a scalar has none", hints=("stack joins along a new axis",))
    for shape in shapes[1:]:
        require_equal_rank(sizes, first, shape)
        sizes.match((*first[:dim], *first[dim + 1 :]), (*shape[:dim], *shape[dim + 1 :]))
    return (*first[:dim], sp.Add(*(s[dim] for s in shapes)), *first[dim + 1 :])


def joint(at: At, *tensors: View, dim: int) -> Expr:
    """Each tensor where its entries begin."""
    result, begin = sp.S.Zero, sp.S.Zero
    for view in tensors:
        place = at[dim] - begin
        inside = bracket(sp.Ge(place, 0, evaluate=False)) * bracket(sp.Lt(place, view.shape[dim], evaluate=False))
        result += inside * view[[*at[:dim], place, *at[dim + 1 :]]]
        begin += view.shape[dim]
    return result


op("cat(*tensors, dim: axis=0)", "out[i<m + size(y, 0)] = [i < m]·x[i] + [m ≤ i]·y[i − m] where m = size(x, 0)", "joins tensors along an axis they have",
   ("torch.cat", "torch.concat", "torch.concatenate", "np.concatenate"), reading=joint, shape=cat_shape, align=no_alignment,
   torch=lambda torch, *tensors, dim: torch.cat(tensors, dim=dim), result_dtype="kept", role=Role.JOINS,
   examples=("cat([x, y]) with x:2 y:3", "cat([x, y], dim=1) with x:2x2 y:2x1", "cat([x, x]) with x:2"))  # fmt: skip
op("stack(*tensors, dim: int=0)", "out[k<2] = δ(k, 0)·x0 + δ(k, 1)·x1", "joins tensors of one shape along a new axis",
   ("torch.stack", "np.stack"), axes="dim", fits=require_equal_rank, role=Role.STACKS,
   variants=lambda shapes, dim: f"out[k<{len(shapes)}] = {' + '.join(f'δ(k, {n})·x{n}' for n in range(len(shapes)))}",
   torch=lambda torch, *tensors, dim: torch.stack(tensors, dim), examples=("stack([x, y]) with x:3 y:3", "stack([x, y], dim=1) with x:2 y:2"))  # fmt: skip


op("detach(x: data)", "out = x", "the values of x, held: torch records nothing from here back, so no gradient arrives this way",
   METHOD, result_dtype="first", role=Role.CUTS, examples=("x.detach() * w with x:2x3 w:2x3",))  # fmt: skip
