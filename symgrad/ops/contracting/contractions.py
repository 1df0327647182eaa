"""Sums of products, written as einsum subscripts: the subscripts are the index equation.

``"ij,jk->ik"`` says out[i,k] = Σ_j x[i,j]·a[j,k]. A letter that stands twice is one index with one size.
"""

from __future__ import annotations

from collections.abc import Hashable

from symgrad.entries.equations import METHOD, op
from symgrad.entries.spec import no_alignment
from symgrad.errors import ShapeError
from symgrad.notation.einsum import lettered, parse_subscripts
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
   ("np.dot",), instead=numpy_dot, ranks={"x": (2, 1), "a": (2, 1)}, letters="ikjl",
   written="np.dot({})", torch=lambda torch, x, a: torch.tensordot(x, a, dims=([x.dim() - 1], [max(a.dim() - 2, 0)])),
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
   letters="", examples=("trace(x) with x:3x3", "trace(x) with x:2x3", "trace(x) with x:3x2"), holds="counted")
matmul = op("matmul(x, a)", "out[…,i,k] = Σ_j x[…,i,j]·a[…,j,k]", "matrix product; vectors count as a row on the left and a column"
   " on the right, leading axes as a batch", also="torch.linalg.matmul", align=matmul_align,
   instead={"rank(x)=1 and rank(a)=1": "out = Σ_j x[j]·a[j]", "rank(x)=1": "out[…,k] = Σ_j x[j]·a[…,j,k]",
            "rank(a)=1": "out[…,i] = Σ_j x[…,i,j]·a[j]"}, letters="ikjl", ranks=dict.fromkeys("xa", (2, 1, 3, 4)),
   examples=("x @ a with x:2x3 a:3x4", "x @ a with x:3 a:3x2", "x @ a with x:2x3 a:3", "x @ a with x:3 a:3",
             "x @ a with x:2x2x3 a:3x2", "x @ x.T with x:2x3"))
# fmt: on


def einsum_prepare(shapes: tuple[Shape, ...], equation: Hashable) -> dict[str, Hashable]:
    """Subscripts in full."""
    terms, output = parse_subscripts(lettered(str(equation), [len(shape) for shape in shapes]), len(shapes))
    return {"equation": f"{','.join(terms)}->{output}"}


def contracted(shapes: tuple[Shape, ...], equation: str) -> str:
    """A sum over the letters that the output lacks."""
    terms, output = parse_subscripts(equation, len(shapes))
    left, *factors = (f"{name}[{','.join(own)}]" if own else name
                      for name, own in zip(("out", *(f"x{n}" for n in range(len(terms)))), (output, *terms), strict=True))  # fmt: skip
    inner = ",".join(sorted(set("".join(terms)) - set(output)))
    return f"{left} = {f'Σ_{{{inner}}} ' * bool(inner)}{'·'.join(factors)}"


op("einsum(equation: str, *tensors)", "out[i,k] = Σ_j x0[i,j]·x1[j,k]", "a sum of products over the letters that the output lacks, as an equation names the axes: here 'ij,jk->ik'",
   ("torch.einsum", "np.einsum"), instead=contracted, prepare=einsum_prepare, letters=lambda equation: parse_subscripts(equation)[1],
   torch=lambda torch, *tensors, equation: torch.einsum(equation, *tensors), holds="subscripts", arrays="text, *x: np.einsum(text, *x)",
   examples=('einsum("ij,jk->ik", x, a) with x:2x3 a:3x2', 'einsum("bij,ji->bi", x, a) with x:2x2x3 a:3x2',
             'einsum("ij->j", x) with x:2x3', 'einsum("ii->i", x) with x:3x3'))  # fmt: skip
