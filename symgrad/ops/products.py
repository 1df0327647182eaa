"""Sums of products: matrix products, einsum, products added to a tensor, tensordot, Kronecker, the cross product.

einsum's subscripts are the index equation: ``"ij,jk->ik"`` says out[i,k] = Σ_j x[i,j]·a[j,k], and a letter that stands
twice is one index with one size. ``addmm`` and its kind are beta·x + alpha·Σ …, with the subscripts of the plain product.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Any

import sympy as sp

from symgrad.entries.equations import METHOD, TORCH, op
from symgrad.entries.indexed import IndexedEquation
from symgrad.entries.operands import axis_of, require_broadcastable, require_equal_rank
from symgrad.entries.signatures import call_of
from symgrad.entries.spec import no_alignment
from symgrad.errors import InputError, ShapeError
from symgrad.notation.read_write import parse_subscripts, spell_out_dots
from symgrad.shapes import Shape, Sizes

# one operation, one row
# fmt: off
op("mm(x, a)", "out[i,k] = Σ_j x[i,j]·a[j,k]", "matrix times matrix", METHOD,
   examples=("mm(x, a) with x:2x3 a:3x4",), arrays="x, y: x @ y")
op("mv(x, a)", "out[i] = Σ_j x[i,j]·a[j]", "matrix times vector", METHOD, examples=("mv(x, a) with x:2x3 a:3",))
op("bmm(x, a)", "out[b,i,k] = Σ_j x[b,i,j]·a[b,j,k]", "a batch of matrix products", METHOD,
   examples=("bmm(x, a) with x:2x2x3 a:2x3x2",), arrays="x, y: x @ y")
op("dot(x, a)", "out = Σ_i x[i]·a[i]", "the inner product of two vectors",
   home=("torch.dot", "torch.inner", "torch.vdot", "Tensor.dot", "Tensor.inner", "Tensor.vdot", "np.inner"), examples=("dot(x, a) with x:3 a:3",),
   arrays="x, y: np.dot(x, y)")
op("outer(x, a)", "out[i,j] = x[i]·a[j]", "every product of an entry of x with one of a",
   ("torch.outer", "torch.ger", "Tensor.outer", "Tensor.ger", "np.outer"),
   examples=("outer(x, a) with x:2 a:3", "outer(x, x) with x:3"))
# fmt: on


def numpy_dot(shapes: tuple[Shape, ...]) -> str:
    """The axes of x but its last, then those of a but its last but one, or its only one."""
    if not all(shapes):
        raise ShapeError("dot needs at least one axis on each side", hints=("* multiplies by a number",))
    x, a = [f"i{n}" for n in range(len(shapes[0]) - 1)], [f"k{n}" for n in range(len(shapes[1]) - 1)]
    left, place = ",".join((*x, *a)), max(len(a) - 1, 0)
    second = ",".join((*a[:place], "j", *a[place:]))
    return f"out{f'[{left}]' if left else ''} = Σ_j x[{','.join((*x, 'j'))}]·a[{second}]"


op("np_dot(x, a)", "out[i,k] = Σ_j x[i,j]·a[j,k]", "NumPy's dot: like @, but the leading axes of both remain side by side",
   ("np.dot",), variants=numpy_dot, ranks={"x": (2, 1), "a": (2, 1)}, letters="ikjl",
   template="np.dot({})", torch=lambda torch, x, a: torch.tensordot(x, a, dims=([x.dim() - 1], [max(a.dim() - 2, 0)])),
   examples=("np.dot(x, a) with x:2x3 a:3x2", "np.dot(x, a) with x:3 a:3", "np.dot(x, a) with x:2x3 a:2x3x2"))  # fmt: skip


def trace_shape(sizes: Sizes, shapes: tuple[Shape, ...]) -> Shape:
    """A number, of a matrix; sides that nobody knows are equal."""
    if len(shapes[0]) != 2:
        raise ShapeError(f"trace takes a matrix, not a tensor with {len(shapes[0])} axes")
    sizes.lesser(*shapes[0])
    return ()


def matmul_align(sizes: Sizes, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """Leading axes broadcast like any batch; the last two are the matrix."""
    x, a = shapes
    if not x or not a:
        raise ShapeError("@ needs at least one axis on each side", hints=("* multiplies by a number",))
    if max(len(x), len(a)) > 9:
        raise ShapeError("@ takes at most 9 axes")
    batch = sizes.broadcast_shapes([x[:-2], a[:-2]])
    return (x if len(x) == 1 else (*batch, *x[-2:]), a if len(a) == 1 else (*batch, *a[-2:]))


# fmt: off
op("trace(x)", "out = Σ_i [i < size(x, 1)]·x[i,i]", "the sum of the diagonal", shape=trace_shape, align=no_alignment,
   letters="", examples=("trace(x) with x:3x3", "trace(x) with x:2x3", "trace(x) with x:3x2"), result_dtype="counted")
matmul = op("matmul(x, a)", "out[…,i,k] = Σ_j x[…,i,j]·a[…,j,k]", "matrix product; vectors count as a row on the left and a column"
   " on the right, leading axes as a batch", also="torch.linalg.matmul", align=matmul_align,
   variants={"rank(x)=1 and rank(a)=1": "out = Σ_j x[j]·a[j]", "rank(x)=1": "out[…,k] = Σ_j x[j]·a[…,j,k]",
            "rank(a)=1": "out[…,i] = Σ_j x[…,i,j]·a[j]"}, letters="ikjl", ranks=dict.fromkeys("xa", (2, 1, 3, 4)),
   examples=("x @ a with x:2x3 a:3x4", "x @ a with x:3 a:3x2", "x @ a with x:2x3 a:3", "x @ a with x:3 a:3",
             "x @ a with x:2x2x3 a:3x2", "x @ x.T with x:2x3"))
# fmt: on


def einsum_prepare(shapes: tuple[Shape, ...], equation: Hashable) -> dict[str, Hashable]:
    """Subscripts in full."""
    terms, output = parse_subscripts(spell_out_dots(str(equation), [len(shape) for shape in shapes]), len(shapes))
    return {"equation": f"{','.join(terms)}->{output}"}


def einsum_equation(shapes: tuple[Shape, ...], equation: str) -> str:
    """A sum over the letters that the output lacks."""
    terms, output = parse_subscripts(equation, len(shapes))
    left, *factors = (f"{name}[{','.join(own)}]" if own else name
                      for name, own in zip(("out", *(f"x{n}" for n in range(len(terms)))), (output, *terms), strict=True))  # fmt: skip
    inner = ",".join(sorted(set("".join(terms)) - set(output)))
    return f"{left} = {f'Σ_{{{inner}}} ' * bool(inner)}{'·'.join(factors)}"


op("einsum(equation: str, *tensors)", "out[i,k] = Σ_j x0[i,j]·x1[j,k]", "a sum of products over the letters that the output lacks, as an equation names the axes: here 'ij,jk->ik'",
   ("torch.einsum", "np.einsum"), variants=einsum_equation, prepare=einsum_prepare, letters=lambda equation: parse_subscripts(equation)[1],
   torch=lambda torch, *tensors, equation: torch.einsum(equation, *tensors), result_dtype="subscripts", arrays="text, *x: np.einsum(text, *x)",
   examples=('einsum("ij,jk->ik", x, a) with x:2x3 a:3x2', 'einsum("bij,ji->bi", x, a) with x:2x2x3 a:3x2',
             'einsum("ij->j", x) with x:2x3', 'einsum("ii->i", x) with x:3x3'))  # fmt: skip

# More than a product ------------------------------------------------------------------------------


def broadcast_to_product(call: str, equation: str) -> Callable[..., tuple[Shape, ...]]:
    """What is added to a product takes the product's shape."""
    alone = IndexedEquation(
        call_of(f"{call.replace('x, ', '')})"), re.sub(r"beta·x\[.*?\] \+ alpha·", "", equation), {}
    )

    def align(sizes: Sizes, given: tuple[Shape, ...], **options: Any) -> tuple[Shape, ...]:
        product = alone.shape(sizes, given[1:])
        require_broadcastable(sizes, given[0], product, "what is added to the product has {} axes, the product {}")
        return (product, *given[1:])

    return align


# one operation, one row
# fmt: off
for call, equation, says, shapes in (
    ("addmm(x, mat1, mat2", "out[i,k] = beta·x[i,k] + alpha·Σ_j mat1[i,j]·mat2[j,k]",
     "beta·x plus alpha times a matrix product", "x:2x4 mat1:2x3 mat2:3x4"),
    ("addmv(x, mat, vec", "out[i] = beta·x[i] + alpha·Σ_j mat[i,j]·vec[j]",
     "beta·x plus alpha times a matrix times a vector", "x:2 mat:2x3 vec:3"),
    ("addr(x, vec1, vec2", "out[i,j] = beta·x[i,j] + alpha·vec1[i]·vec2[j]",
     "beta·x plus alpha times an outer product", "x:2x3 vec1:2 vec2:3"),
    ("addbmm(x, batch1, batch2", "out[i,k] = beta·x[i,k] + alpha·Σ_{b,j} batch1[b,i,j]·batch2[b,j,k]",
     "beta·x plus alpha times the sum of a batch of matrix products", "x:2x2 batch1:2x2x3 batch2:2x3x2"),
    ("baddbmm(x, batch1, batch2", "out[b,i,k] = beta·x[b,i,k] + alpha·Σ_j batch1[b,i,j]·batch2[b,j,k]",
     "beta·x plus alpha times a batch of matrix products", "x:2x2x2 batch1:2x2x3 batch2:2x3x2"),
):
    op(f"{call}, beta: float=1, alpha: float=1)", equation, says, TORCH, align=broadcast_to_product(call, equation),
       result_dtype="" if "Σ" in equation else "joined",  # torch takes truth values where nothing is added up
       examples=(f"{call}) with {shapes}", f"{call}, beta=2, alpha=0.5) with {shapes}"))
# fmt: on


def prepare_tensordot(shapes: tuple[Shape, ...], dims: Any = 2) -> dict[str, Hashable]:
    """The axes that are summed over, of x and of y."""
    x, y = (len(s) for s in shapes)
    if isinstance(dims, int):
        if not 0 <= dims <= min(x, y):
            raise ShapeError(f"tensordot cannot sum over {dims} axes of tensors with {x} and {y}")
        return {"dims": (tuple(range(x - dims, x)), tuple(range(dims)))}
    left, right = (tuple(d) if isinstance(d, (tuple, list)) else (d,) for d in dims)
    if len(left) != len(right):
        raise InputError("tensordot takes as many axes of one tensor as of the other", found=(f"dims={dims}",))
    return {"dims": (tuple(axis_of(d, x) for d in left), tuple(axis_of(d, y) for d in right))}


def summed_over(shapes: tuple[Shape, ...], dims: Any) -> str:
    """A letter on each pair of axes that is summed over, the others in order."""
    x, y = ([f"{letter}{a}" for a in range(len(shape))] for letter, shape in zip("ik", shapes, strict=True))
    for n, (a, b) in enumerate(zip(*dims, strict=True)):
        x[a] = y[b] = f"j{n}"
    inner = ",".join(f"j{n}" for n in range(len(dims[0])))
    left = ",".join(letter for letter in (*x, *y) if letter[0] != "j")
    first, second = (f"{name}[{','.join(at)}]" if at else name for name, at in (("x", x), ("y", y)))
    return f"out{f'[{left}]' if left else ''} = {f'Σ_{{{inner}}} ' if inner else ''}{first}·{second}"


op("tensordot(x, y, dims: axes=2)", "out[i,k] = Σ_j x[i,j]·y[j,k]", "the sum of products over pairs of axes: the last of x and the first of y, as many as dims says, or those that it names",
   ("torch.{}", "np.{}"), variants=summed_over, prepare=prepare_tensordot,
   examples=("tensordot(x, y, 1) with x:2x3 y:3x2", "tensordot(x, y, 2) with x:2x3 y:2x3"))  # fmt: skip


def write_kron(shapes: tuple[Shape, ...]) -> str:
    """An index of x and one of y on each axis, from the last one on."""
    x, y = (len(shape) for shape in shapes)
    rank = max(x, y)
    own, other = ([f"{letter}{a}" for a in range(rank - count, rank)] for letter, count in (("i", x), ("k", y)))
    rows = [[name for name in (f"i{a}", f"k{a}") if name in own + other] for a in range(rank)]
    left = ",".join(names[0] if len(names) == 1 else f"({','.join(names)})" for names in rows)
    first, second = (f"{name}{f'[{chr(44).join(at)}]' if at else ''}" for name, at in (("x", own), ("y", other)))
    return f"out{f'[{left}]' if left else ''} = {first}·{second}"


op("kron(x, y)", "out[(i,k),(j,l)] = x[i,j]·y[k,l]", "every entry of x times all of y, as one matrix of blocks",
   ("torch.{}", "Tensor.{}", "np.{}"), variants=write_kron, examples=("kron(x, y) with x:2x2 y:2x3", "kron(x, y) with x:2 y:3"))  # fmt: skip


op("vecdot(x, y, dim: int=-1)", "out = Σ_j x[j]·y[j]", "inner products along dim", ("torch.linalg.{}",), along="dim",
   examples=("torch.linalg.vecdot(x, y)",), result_dtype="real")  # fmt: skip


def cross_shape(sizes: Sizes, shapes: tuple[Shape, ...], dim: int) -> Shape:
    """Three entries along dim."""
    common = sizes.broadcast_shapes(shapes)
    if not common:
        raise ShapeError("a cross product is one of vectors with three entries, not of numbers")
    sizes.unify(common[dim], sp.Integer(3))
    return common


op("cross(x, y, dim: int=-1)", "out[i] = x[(i + 1) mod n]·y[(i + 2) mod n] − x[(i + 2) mod n]·y[(i + 1) mod n]"
   " where n = size(x, -1)", "the cross product of vectors with three entries along dim",
   ("torch.{}", "torch.linalg.cross", "Tensor.cross", "aten.linalg_cross"), along="dim", shape=cross_shape,
   fits=require_equal_rank, implied_axis={c: lambda sizes: sizes.index(3) if 3 in sizes else -1 for c in ("torch.cross", "Tensor.cross")},
   examples=("torch.linalg.cross(x, y)",))  # fmt: skip
