"""Products with more to them: a product added to a tensor, tensordot, Kronecker, the cross product, distances.

``addmm`` and its kind are beta·x + alpha·Σ …, with the same subscripts as the plain product.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import InputError, ShapeError
from symgrad.indexing import Bracket, add_up, fresh
from symgrad.indexing.symbols import Expr
from symgrad.ops import openings
from symgrad.ops.axes.reductions import Reduction, unless_zero
from symgrad.ops.contracting.contractions import contraction_index, contraction_shape, parse_subscripts
from symgrad.ops.contracting.lengths import check_p, exponent, numpy_length, p_length
from symgrad.ops.domain import reals, whole
from symgrad.ops.equations import TORCH, op
from symgrad.ops.networks.composites import numpy_reduced, prepare_loss
from symgrad.ops.shaping import axis_of, number
from symgrad.ops.spec import At, Data, Held, Op, View, example, operation
from symgrad.shapes import Shape, Sizes


def added(subscripts: str) -> Callable[..., tuple[Shape, ...]]:
    """What is added to a product takes the product's shape."""
    terms, output = parse_subscripts(subscripts)

    def align(sizes: Sizes, given: tuple[Shape, ...], **options: Any) -> tuple[Shape, ...]:
        product = contraction_shape(sizes, given[1:], terms, output)
        if len(given[0]) > len(product):
            raise ShapeError(f"what is added to the product has {len(given[0])} axes, the product {len(product)}")
        for own, size in zip(given[0][::-1], product[::-1], strict=False):
            if sizes.find(own) != 1:
                sizes.unify(own, size)
        return (product, *given[1:])

    return align


# one operation, one row
# fmt: off
for call, equation, says, subscripts, shapes in (
    ("addmm(x, mat1, mat2", "out[i,k] = beta·x[i,k] + alpha·Σ_j mat1[i,j]·mat2[j,k]",
     "β·x plus α times a matrix product", "ij,jk->ik", "x:2x4 mat1:2x3 mat2:3x4"),
    ("addmv(x, mat, vec", "out[i] = beta·x[i] + alpha·Σ_j mat[i,j]·vec[j]",
     "β·x plus α times a matrix times a vector", "ij,j->i", "x:2 mat:2x3 vec:3"),
    ("addr(x, vec1, vec2", "out[i,j] = beta·x[i,j] + alpha·vec1[i]·vec2[j]",
     "β·x plus α times an outer product", "i,j->ij", "x:2x3 vec1:2 vec2:3"),
    ("addbmm(x, batch1, batch2", "out[i,k] = beta·x[i,k] + alpha·Σ_{b,j} batch1[b,i,j]·batch2[b,j,k]",
     "β·x plus α times the sum of a batch of matrix products", "bij,bjk->ik", "x:2x2 batch1:2x2x3 batch2:2x3x2"),
    ("baddbmm(x, batch1, batch2", "out[b,i,k] = beta·x[b,i,k] + alpha·Σ_j batch1[b,i,j]·batch2[b,j,k]",
     "β·x plus α times a batch of matrix products", "bij,bjk->bik", "x:2x2x2 batch1:2x2x3 batch2:2x3x2"),
):
    op(f"{call}, beta: any=1, alpha: any=1)", equation, says, TORCH, align=added(subscripts),
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


def tensordot_subscripts(ranks: tuple[int, int], dims: Any) -> tuple[tuple[str, str], str]:
    """The same as einsum subscripts."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    x = [next(letters) for _ in range(ranks[0])]
    y = [next(letters) for _ in range(ranks[1])]
    for a, b in zip(*dims, strict=True):
        y[b] = x[a]
    output = [c for a, c in enumerate(x) if a not in dims[0]] + [c for b, c in enumerate(y) if b not in dims[1]]
    return ("".join(x), "".join(y)), "".join(output)


@operation(
    says="the sum of products over given axes of two tensors",
    torch=lambda torch, x, y, dims: torch.tensordot(x, y, dims=tuple(map(list, dims))),
    prepare=prepare_tensordot,
    shape=lambda sizes, shapes, dims: contraction_shape(
        sizes, shapes, *tensordot_subscripts((len(shapes[0]), len(shapes[1])), dims)
    ),
    spelled=("torch.tensordot", "np.tensordot"),
    examples=(example("tensordot(x, y, 1)", x=(2, 3), y=(3, 2)), example("tensordot(x, y, 2)", x=(2, 3), y=(2, 3))),
)
def tensordot(at: At, x: View, y: View, dims: int | tuple[int, ...] | tuple[tuple[int, ...], ...] = 2) -> Expr:
    """out[i,k] = Σ_j x[i,j]·y[j,k]"""
    return contraction_index(at, (x, y), *tensordot_subscripts((x.rank, y.rank), dims))


def blocks(shapes: tuple[Shape, ...]) -> str:
    """An index of x and one of y on each axis, from the last one on."""
    x, y = (len(shape) for shape in shapes)
    rank = max(x, y)
    own, other = ([f"{letter}{a}" for a in range(rank - count, rank)] for letter, count in (("i", x), ("k", y)))
    rows = [[name for name in (f"i{a}", f"k{a}") if name in own + other] for a in range(rank)]
    left = ",".join(names[0] if len(names) == 1 else f"({','.join(names)})" for names in rows)
    first, second = (f"{name}{f'[{chr(44).join(at)}]' if at else ''}" for name, at in (("x", own), ("y", other)))
    return f"out{f'[{left}]' if left else ''} = {first}·{second}"


# fmt: off
op("kron(x, y)", "out[(i,k),(j,l)] = x[i,j]·y[k,l]", "every entry of x times all of y, as one matrix of blocks",
   ("torch.{}", "Tensor.{}", "np.{}"), instead=blocks, examples=("kron(x, y) with x:2x2 y:2x3", "kron(x, y) with x:2 y:3"))
# fmt: on


def broadcast_pair(sizes: Sizes, shapes: tuple[Shape, ...], **options: Any) -> tuple[Shape, ...]:
    """Both operands in their common shape."""
    common = sizes.broadcast_shapes(shapes)
    return tuple(common for _ in shapes)


def without(sizes: Sizes, shapes: tuple[Shape, ...], dim: int, keepdim: bool = False, **options: Any) -> Shape:
    """The common shape without dim."""
    common = sizes.broadcast_shapes(shapes)
    return (*common[:dim], *((sp.S.One,) if keepdim else ()), *common[dim + 1 :])


# fmt: off
op("vecdot(x, y, dim: int=-1)", "out = Σ_j x[j]·y[j]", "inner products along dim", ("torch.linalg.{}",), along="dim",
   examples=("torch.linalg.vecdot(x, y)",))
# fmt: on


def cross_align(sizes: Sizes, shapes: tuple[Shape, ...], dim: int) -> tuple[Shape, ...]:
    """Both broadcast, but have as many axes each."""
    if len(shapes[0]) != len(shapes[1]):
        raise ShapeError(f"cross takes tensors with as many axes each, not {len(shapes[0])} and {len(shapes[1])}")
    return broadcast_pair(sizes, shapes, dim=dim)


def cross_shape(sizes: Sizes, shapes: tuple[Shape, ...], dim: int) -> Shape:
    """Three entries along dim."""
    common = sizes.broadcast_shapes(shapes)
    sizes.unify(common[dim], sp.Integer(3))
    return common


# fmt: off
op("cross(x, y, dim: int=-1)", "out[i] = x[(i + 1) mod n]·y[(i + 2) mod n] − x[(i + 2) mod n]·y[(i + 1) mod n]"
   " where n = size(x, -1)", "the cross product of vectors with three entries along dim",
   ("torch.{}", "torch.linalg.cross", "Tensor.cross", "aten.linalg_cross", "np.cross"), along="dim", shape=cross_shape,
   align=cross_align, forward=np.cross, torch=lambda torch, x, y, dim: torch.linalg.cross(x, y, dim=dim),
   examples=("torch.linalg.cross(x, y)",))
# fmt: on


# Lengths and distances ------------------------------------------------------------------------------


def distance(value: Expr, out: Expr, p: Any) -> Expr:
    """A length that is also the output: a root has no derivative at 0, and torch takes 0 there."""
    return value if exponent(p) in (0, 1, sp.oo, -sp.oo) else unless_zero(out) * value


def length(over: Reduction, entry: Any, p: Any, hint: str = "j", out: Expr | None = None) -> Expr:
    """(Σ |entry|ᵖ)^(1/p)."""
    return p_length(over.sum, entry, p, out, hint)


def floor_at(value: Expr, least: Any) -> Expr:
    """The value, or ``least`` where that is larger."""
    low = number(least)
    return value * Bracket(sp.Ge(value, low, evaluate=False)) + low * Bracket(sp.Lt(value, low, evaluate=False))


def cosine_values(x: Any, y: Any, axis: int, eps: Any) -> Any:
    """NumPy's forward."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    sizes = np.maximum(numpy_length(x, 2, axis), float(eps)) * np.maximum(numpy_length(y, 2, axis), float(eps))
    return np.sum(x * y, axis=axis) / sizes


# fmt: off
op("cosine_similarity(x, y, dim: int=1, eps: float=1e-8)", "out = (Σ_j x[j]·y[j]) / ((a·[a ≥ eps] + eps·[a < eps])"
   "·(b·[b ≥ eps] + eps·[b < eps])) where a = √(Σ_k x[k]²), b = √(Σ_l y[l]²)",
   "the cosine of the angle between vectors along dim", ("F.{}", "torch.{}", "aten.{}"), along="dim", kinks=0, domain={},
   forward=cosine_values, expands=openings.cosine_similarity,
   torch=lambda torch, x, y, dim, eps: torch.nn.functional.cosine_similarity(x, y, dim, float(eps)),
   examples=("F.cosine_similarity(x, y)", "F.cosine_similarity(x, y, dim=0) with x:3 y:3"))
# fmt: on


@operation(
    says="the length of x − y + eps along the last axis; the derivative at 0 is 0",
    numpy=lambda x, y, p, eps, keepdim: numpy_length(
        x - y + float(eps), p, -1 if max(np.ndim(x), np.ndim(y)) else (), keepdim
    ),
    torch=lambda torch, x, y, p, eps, keepdim: torch.nn.functional.pairwise_distance(
        x, y, float(p), float(eps), keepdim
    ),
    align=broadcast_pair,
    smooth=False,
    shape=lambda sizes, shapes, p, eps, keepdim: without(sizes, shapes, max(map(len, shapes)) - 1, keepdim),
    prepare=lambda shapes, p=2.0, eps=1e-6, keepdim=False: {"p": check_p(p), "eps": eps, "keepdim": keepdim},
    spelled=("F.pairwise_distance", "torch.pairwise_distance"),
    reuse=True,
    kinks=(0.0,),
    examples=(
        example("F.pairwise_distance(x, y)", x=(2, 3), y=(2, 3)),
        example("F.pairwise_distance(x, y, p=1.0)", x=(2, 3), y=(2, 3)),
    ),
    domain={"x": reals(distinct=True)},
)
def pairwise_distance(
    at: At, x: View, y: View, out: Held, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Expr:
    """out[i] = √(Σ_j (x[i,j] − y[i,j] + eps)²)"""
    over = Reduction(at, x.shape, (x.rank - 1,) if x.rank else (), keepdim)
    return distance(length(over, lambda i: x[i] - y[i] + number(eps), p, out=out[at]), out[at], p)


@operation(
    says="x divided by its length along dim",
    torch=lambda torch, x, p, dim, eps: torch.nn.functional.normalize(x, float(p), dim, float(eps)),
    smooth=False,
    domain={"x": reals(avoid=(0.0,))},
    shape=lambda sizes, shapes, **options: shapes[0],
    prepare=lambda shapes, p=2.0, dim=1, eps=1e-12: {"p": check_p(p), "dim": axis_of(dim, len(shapes[0])), "eps": eps},
    spelled=("F.normalize",),
    expands=openings.normalize,
    examples=(example("F.normalize(x)", x=(2, 3)), example("F.normalize(x, dim=0)", x=(3,))),
)
def normalize(at: At, x: View, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Expr:
    """out[i] = x[i] / √(Σ_j x[j]²)"""
    return x[at] / floor_at(
        length(Reduction(at, x.shape, (dim,) if x.rank else (), keepdim=True), lambda i: x[i], p), eps
    )


@operation(
    says="the length of x − y over all entries; the derivative at 0 is 0",
    numpy=lambda x, y, p: numpy_length(x - y, p, None),
    torch=lambda torch, x, y, p: torch.dist(x, y, float(p)),
    smooth=False,
    shape=lambda sizes, shapes, p: (),
    align=broadcast_pair,
    prepare=lambda shapes, p=2: {"p": check_p(p)},
    spelled=("torch.dist", "Tensor.dist", "aten.dist"),
    reuse=True,
    kinks=(0.0,),
    examples=(example("dist(x, y)", x=(2, 3), y=(2, 3)), example("dist(x, y, 3)", x=(3,), y=(3,))),
    domain={"x": reals(distinct=True)},
)
def dist(at: At, x: View, y: View, out: Held, p: float = 2) -> Expr:
    """out = √(Σ_i (x[i] − y[i])²)"""
    over = Reduction((), x.shape, tuple(range(x.rank)), keepdim=False)
    return distance(length(over, lambda i: x[i] - y[i], p, out=out[()]), out[()], p)


def cdist_shape(sizes: Sizes, shapes: tuple[Shape, ...], **options: Any) -> Shape:
    """One number for each row of x and each row of y."""
    x, y = shapes
    sizes.unify(x[-1], y[-1])
    return (*x[:-1], y[-2])


def cdist_align(sizes: Sizes, shapes: tuple[Shape, ...], **options: Any) -> tuple[Shape, ...]:
    """Leading axes broadcast."""
    if min(map(len, shapes)) < 2:
        raise ShapeError("cdist takes matrices of rows, with leading axes or without")
    lead = sizes.broadcast_shapes([s[:-2] for s in shapes])
    return tuple((*lead, *s[-2:]) for s in shapes)


@operation(
    says="the distances between the rows of x and the rows of y; the derivative at 0 is 0",
    numpy=lambda x, y, p: numpy_length(np.asarray(x)[..., :, None, :] - np.asarray(y)[..., None, :, :], p, -1),
    torch=lambda torch, x, y, p: torch.cdist(x, y, float(p)),
    shape=cdist_shape,
    align=cdist_align,
    smooth=False,
    domain={"x": reals(distinct=True)},
    prepare=lambda shapes, p=2.0, compute_mode=None: {"p": check_p(p)},
    spelled=("torch.cdist", "aten._cdist_forward"),
    reuse=True,
    kinks=(0.0,),
    ranks={"x": (2, 3), "y": (2, 3)},
    examples=(example("cdist(x, y)", x=(2, 3), y=(3, 3)), example("cdist(x, y, 1.0)", x=(2, 2), y=(2, 2))),
)
def cdist(at: At, x: View, y: View, out: Held, p: float = 2.0, compute_mode: str | None = None) -> Expr:
    """out[i,k] = √(Σ_j (x[i,j] − y[k,j])²)"""
    *lead, i, k = at

    def total(body: Any, hint: str) -> Expr:
        j = fresh(hint, x.shape[-1])
        return add_up(body(j), [j])

    apart = p_length(total, lambda j: x[[*lead, i, j]] - y[[*lead, k, j]], p, out[at], shared=False)
    return distance(apart, out[at], p)


# Losses of vectors ----------------------------------------------------------------------------------


def vector_loss(
    name: str,
    says: str,
    definition: str,
    entry: Any,
    values: Any,
    by_torch: Any,
    operands: tuple[str, ...],
    **facts: Any,
) -> Op:
    """A loss of vectors along the last axis: one number for each, then added or averaged.

    ``entry(over, *views, **options)`` is the loss of one vector, ``over`` the reduction along the last axis.
    """
    parameters = list(inspect.signature(entry).parameters.values())[1:]

    def index(at: At, *views: View, reduction: str = "mean", **options: Any) -> Expr:
        shape = views[0].shape
        lead = at if reduction == "none" else tuple(fresh("ikl"[min(a, 2)], n) for a, n in enumerate(shape[:-1]))
        each = entry(Reduction(lead, shape, (len(shape) - 1,), keepdim=False), *views, **options)
        if reduction == "none":
            return each
        total = add_up(each, lead)
        return total if reduction == "sum" else total / sp.Mul(*shape[:-1])

    def shape(sizes: Sizes, shapes: tuple[Shape, ...], reduction: str, **options: Any) -> Shape:
        first = shapes[0]
        for other, name_ in zip(shapes[1:], operands[1:], strict=True):
            wanted = first[:-1] if name_ == "target" else first
            if len(other) != len(wanted) or not first:
                raise ShapeError(f"{name} takes vectors of one shape (…, n), and targets of shape (…)")
            for a, b in zip(wanted, other, strict=True):
                sizes.unify(a, b)
        return first[:-1] if reduction == "none" else ()

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    index.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read back by inspect.signature
        [
            inspect.Parameter("at", kind, annotation=At),
            *(
                p.replace(annotation=(Data if p.name == "target" else View) if p.name in operands else p.annotation)
                for p in parameters
            ),
            inspect.Parameter("reduction", kind, default="mean", annotation=str),
        ]
    )
    index.__name__, index.__doc__ = name, definition
    call = ", ".join(operands)
    shapes = {o: (2,) if o == "target" else (2, 3) for o in operands}
    return operation(
        says=says,
        shape=shape,
        prepare=prepare_loss,
        spelled=(f"F.{name}",),
        smooth=False,
        numpy=lambda *arrays, reduction, **options: numpy_reduced(
            values(*(np.asarray(a, float) for a in arrays), **options), reduction
        ),
        torch=lambda torch, *tensors, **options: by_torch(torch.nn.functional, *tensors, **options),
        examples=(example(f"F.{name}({call})", **shapes), example(f'F.{name}({call}, reduction="sum")', **shapes)),
        **facts,
    )(index)


EMBEDDING_EPS = float(np.float32(1e-12))
"""torch has it in single precision (``float EPSILON`` in ATen's Loss.cpp): 4e-9 less, which a gradient at 0 shows."""


def embedding_entry(over: Reduction, x: View, y: View, target: View, margin: float = 0.0) -> Expr:
    """1 − cos where the target is 1, max(0, cos − margin) where it is −1; squares get `EMBEDDING_EPS` each."""
    eps = sp.Rational(EMBEDDING_EPS)
    lengths = sp.sqrt((over.sum(lambda i: x[i] ** 2, "k") + eps) * (over.sum(lambda i: y[i] ** 2, "l") + eps))
    angle = over.sum(lambda i: x[i] * y[i]) / lengths
    apart = angle - number(margin)
    same, other = (Bracket(sp.Eq(target[over.at], t)) for t in (1, -1))
    return same * (1 - angle) + other * apart * Bracket(sp.Ge(apart, 0, evaluate=False))


def embedding_values(x: Any, y: Any, target: Any, margin: float = 0.0) -> Any:
    """NumPy's forward."""
    lengths = (np.sum(x * x, axis=-1) + EMBEDDING_EPS) * (np.sum(y * y, axis=-1) + EMBEDDING_EPS)
    angle = np.sum(x * y, axis=-1) / np.sqrt(lengths)
    return np.where(target == 1, 1 - angle, 0) + np.where(target == -1, np.maximum(angle - float(margin), 0), 0)


cosine_embedding_loss = vector_loss(
    "cosine_embedding_loss",
    "small where the angle is small for pairs that belong together (target 1) and large for others (−1)",
    "out = Σ_i (1 − cos(x[i], y[i]) where t[i] = 1, max(0, cos − margin) where t[i] = −1) / n",
    embedding_entry,
    embedding_values,
    lambda F, x, y, target, margin, reduction: F.cosine_embedding_loss(
        x, y, target, float(margin), reduction=reduction
    ),
    ("x", "y", "target"),
    domain={"target": whole(-1, 1)},
)


def triplet_entry(
    over: Reduction,
    anchor: View,
    positive: View,
    negative: View,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
) -> Expr:
    """max(0, |a − p| − |a − n| + margin)."""

    def apart(a: View, b: View, hint: str) -> Expr:
        return length(over, lambda i: a[i] - b[i] + number(eps), p, hint)

    far = apart(anchor, negative, "k")
    if swap:
        other = apart(positive, negative, "l")
        tie = Bracket(sp.Eq(far, other)) / 2
        far = far * (Bracket(sp.Lt(far, other, evaluate=False)) + tie) + other * (
            Bracket(sp.Lt(other, far, evaluate=False)) + tie
        )
    gap = apart(anchor, positive, "j") - far + number(margin)
    return gap * Bracket(sp.Ge(gap, 0, evaluate=False))


def triplet_values(a: Any, b: Any, c: Any, margin: Any = 1.0, p: Any = 2.0, eps: Any = 1e-6, swap: bool = False) -> Any:
    """NumPy's forward."""
    far = numpy_length(a - c + float(eps), p, -1)
    far = np.minimum(far, numpy_length(b - c + float(eps), p, -1)) if swap else far
    return np.maximum(numpy_length(a - b + float(eps), p, -1) - far + float(margin), 0)


triplet_margin_loss = vector_loss(
    "triplet_margin_loss",
    "how much nearer than the negative example the positive one should be",
    "out = Σ_i max(0, |a[i] − p[i]| − |a[i] − n[i]| + margin) / n",
    triplet_entry,
    triplet_values,
    lambda F, a, b, c, margin, p, eps, swap, reduction: F.triplet_margin_loss(
        a, b, c, float(margin), float(p), float(eps), swap, reduction=reduction
    ),
    ("anchor", "positive", "negative"),
    kinks=(0.0,),
)
