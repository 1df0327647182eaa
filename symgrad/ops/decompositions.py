"""Inverse, solutions and determinants: their equations, and how NumPy and torch find what solves them.

An entry whose result solves equations is defined by them:

    solved_op("inverse(x)", "Σ_j x[…,i,j]·out[…,j,k] = δ(i, k)", step="out[…,i,k] = out[…,i,k] − …", …)

F is the left side without the right, at the letters that no Σ adds up. What is differentiated is one Newton step from
the solution, out − S·F(x, out), with out on its right side and S, the inverse of ∂F/∂out, held still. At the solution F
is 0, so the value is out; and the derivative of the step by x is −S·∂F/∂x, which is what the implicit function theorem
says. S is no derivative of the operation: whether it belongs to F is tested for every entry, by differentiating F = 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import INDICES, WORDS, op
from symgrad.entries.indexed import IndexedEquation
from symgrad.entries.operands import Domain, require_rank
from symgrad.entries.signatures import CallPattern, call_of
from symgrad.entries.spec import Op, View, no_alignment
from symgrad.errors import DomainError, ShapeError, UndefinedError, UnsupportedError
from symgrad.indexing import Equation, fresh_axes
from symgrad.notation.ranges import RangeFinder
from symgrad.notation.tree import Access
from symgrad.program import Role
from symgrad.shapes import Shape, Sizes

Equations = str | Callable[..., str]
BOUND = re.compile(r"Σ_\{?([a-z,]+)")


@dataclass(frozen=True)
class Solves:
    """What is 0 at the result."""

    call: CallPattern
    texts: Equations
    beside: tuple[str, ...]

    def written(self, shapes: Any, options: Mapping[str, Any]) -> list[str]:
        """The equations for these shapes and options."""
        texts = self.texts if isinstance(self.texts, str) else self.texts(shapes, **options)
        return texts.split("; ")

    def __call__(self, *tensors: View, **options: Any) -> tuple[Equation, ...]:
        """The same in SymPy: operands, then what is held still, out first."""
        views = tensors[: len(self.call.operands)]
        held: Any = dict(zip(("out", *self.beside), tensors[len(views) :], strict=True))
        return tuple(self.at(text, views, held, options) for text in self.written([v.shape for v in views], options))

    def at(self, text: str, views: Sequence[View], held: Any, options: Mapping[str, Any]) -> Equation:
        """One equation, at indices of its own."""
        reading = IndexedEquation(self.call, equation_as_difference(text), {})
        tree, names = reading.tree(views, options), (*self.call.operands, "out")
        shapes = {name: view.shape for name, view in zip(names, (*views, held["out"]), strict=True)}
        found = RangeFinder(tree, shapes, Sizes(), {}).find().found
        read = next(node for node in tree.entries if node.name in shapes and isinstance(node, Access))
        batch = shapes[read.name][: len(shapes[read.name]) + 1 - len(read.slots)]
        letters = [letter.name for letter in tree.letters]
        axes = fresh_axes((*batch, *(found[letter] for letter in letters)), [*"bcde"[4 - len(batch) :], *letters])
        return Equation(axes, reading.index(axes, views, held, options))


def equation_as_difference(text: str) -> str:
    """An equation as F = left − right.

    >>> equation_as_difference("Σ_j x[…,i,j]·out[…,j,k] = s[i,k] where s[i,j] = x[…,j,i]")
    'F[…,i,k] = (Σ_j x[…,i,j]·out[…,j,k]) − (s[i,k]) where s[i,j] = x[…,j,i]'
    """
    sides, where, names = WORDS.split(text)[0].partition(" where ")
    left, right = sides.split(" = ")
    bound = {letter for found in BOUND.findall(sides) for letter in found.split(",")}
    slots = (letter for _, found in INDICES.findall(sides) for letter in found.split(","))
    free = ",".join(dict.fromkeys(letter for letter in slots if letter not in bound))
    return f"F[{free}] = ({left}) − ({right}){where}{names}"


def solved_op(
    call: str,
    solves: Equations,
    says: str,
    home: Sequence[str] = (),
    *,
    step: str,
    values: Callable[..., Any],
    kind: str,
    letters: str = "",
    **given: Any,
) -> Op:
    """An entry whose result ``solves`` equations (a semicolon between them), as ``values`` finds it.

    ``step`` is the Newton step, ``instead`` that under other options; ``kind`` says which matrices the first operand may be.
    """
    said = call_of(call)
    first = said.operands[0]
    what = Solves(said, solves, tuple(given.get("auxiliaries", ())))
    texts = what.written(((sp.S.Zero, sp.S.Zero),) * len(said.operands), said.usual)
    facts: dict[str, Any] = {
        "align": no_alignment,
        "ranks": {first: (2,)},
        "domain": {first: Domain(matrix=kind)},
        **given,
    }
    facts["residual"] = what
    return op(
        call, step, says, home, definition="; ".join(texts), reads_out=True, forward=values, letters=letters, **facts
    )  # fmt: skip


# Inverses ----------------------------------------------------------------------------------------------------


def square_shape(sizes: Sizes, shapes: tuple[Shape, ...], **options: Any) -> Shape:
    """The shape of a matrix, or of a stack of them, with as many rows as columns."""
    shape = require_rank(shapes[0], 2)
    sizes.unify(shape[-2], shape[-1])
    return shape


def batch_of_square(sizes: Sizes, shapes: tuple[Shape, ...], **options: Any) -> Shape:
    """One number for each square matrix."""
    return square_shape(sizes, shapes)[:-2]


def inverted(x: Any) -> Any:
    """NumPy's inverse; a matrix that has none is refused."""
    try:
        return np.linalg.inv(np.asarray(x, float))
    except np.linalg.LinAlgError:
        raise DomainError(
            "this matrix has no inverse", hints=("its rows must not be multiples or sums of each other",)
        ) from None


def inverse_of(call: Any, x: Any, *rest: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """What most solutions read beside: the inverse of the first operand."""
    return "inverse", (x,), {}


solved_op("inverse(x)", "Σ_j x[…,i,j]·out[…,j,k] = δ(i, k)", "the inverse, which solves x·out = I",
       ("torch.inverse", "torch.linalg.inv", "Tensor.inverse", "np.linalg.inv"),
       step="out[…,i,k] = out[…,i,k] − Σ_j out[…,i,j]·f[j,k] where f[j,k] = (Σ_m x[…,j,m]·out[…,m,k]) − δ(j, k)",
       values=inverted, shape=square_shape, kind="regular", role=Role.INVERTS,
       examples=("inverse(x) with x:2x2", "inverse(x) with x:2x3x3", "b @ inverse(x) with b:3 x:3x3"))  # fmt: skip

# Linear systems ----------------------------------------------------------------------------------------------


def match_leading_axes(sizes: Sizes, shapes: tuple[Shape, ...], left: bool) -> tuple[Shape, ...]:
    """The same leading axes for the matrix and the right-hand side."""
    a, b = shapes
    square_shape(sizes, (a,))
    if not b or (len(b) == 1 and not left):
        raise ShapeError("the right-hand side is a vector or a matrix", found=(f"{len(b)} axes",))
    if len(b) == 1:
        return a, (*a[:-2], b[0])
    if left and len(b) == len(a) - 1 and stacked(sizes, a[:-1], b):
        return a, b
    batch = sizes.broadcast_shapes([a[:-2], b[:-2]])
    return (*batch, *a[-2:]), (*batch, *b[-2:])


def stacked(sizes: Sizes, rows: Shape, b: Shape) -> bool:
    """Whether ``b`` is a vector for each matrix of a stack, as torch reads it, and no matrix for all of them."""
    numbers = [(sizes.number(m), sizes.number(n)) for m, n in zip(rows, b, strict=True)]
    if any(m is None or m != n for m, n in numbers):
        return False
    sizes.match(rows, b)
    return True


def solution_shape(sizes: Sizes, shapes: tuple[Shape, ...], left: bool) -> Shape:
    """The shape of the right-hand side, whose columns (or rows) are as long as the matrix."""
    a, b = shapes
    sizes.unify(a[-1], b[-1] if len(b) == len(a) - 1 or not left else b[-2])
    return b


def solution(a: Any, b: Any, left: bool) -> Any:
    """By the inverse's own route, so that a singular matrix is refused alike."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    inverted(a)
    if b.ndim == a.ndim - 1:
        return np.linalg.solve(a, b[..., None])[..., 0]
    if left:
        return np.linalg.solve(a, b)
    return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


def system(matrices: str, transposed: str) -> Callable[..., str]:
    """The text for a·out = b, without the column k where b is a vector for each matrix, and that for out·a = b."""

    def text(shapes: Any, left: bool) -> str:
        vectors = len(shapes[1]) == len(shapes[0]) - 1
        return matrices.replace(",k]", "]") if vectors else matrices if left else transposed

    return text


STEP = "out[…,i,k] = out[…,i,k] − Σ_m inv[…,i,m]·((Σ_j a[…,m,j]·out[…,j,k]) − b[…,m,k])"
solved_op("solve(a, b, *, left=True)", system("Σ_j a[…,i,j]·out[…,j,k] = b[…,i,k]", "Σ_j out[…,i,j]·a[…,j,k] = b[…,i,k]"),
       "the solution of a·out = b, without left that of out·a = b", ("torch.linalg.solve", "np.linalg.solve"), step=STEP,
       variants=system(STEP, "out[…,i,k] = out[…,i,k] − Σ_m ((Σ_j out[…,i,j]·a[…,j,m]) − b[…,i,m])·inv[…,m,k]"),
       values=solution, shape=solution_shape, align=match_leading_axes,
       auxiliaries={"inv": inverse_of}, role=Role.SOLVES, kind="regular", ranks={"a": (2,), "b": (2, 1)}, letters="ik",
       examples=("solve(a, b) with a:3x3 b:3x2", "solve(a, b) with a:2x2 b:2", "solve(a, b, left=False) with a:3x3 b:2x3",
                 "solve(a, b) with a:2x2x2 b:2x3"))  # fmt: skip

# Determinants ------------------------------------------------------------------------------------------------
#
# A row's cofactors do not contain that row, so Laplace's expansion det x = Σ_j x[i,j]·C[i,j] is linear in row i with
# C held still, and C = det x·x⁻ᵀ. Moving all rows adds what moving each of them does.

EXPANSION = "Σ_j x[…,i,j]·C[i,j]"
LAPLACE = "((Σ_{i,j} x[…,i,j]·inv[…,j,i]) − size(x, -1))"
solved_op("det(x)", f"{EXPANSION} = out[…] where C[i,j] = out[…]·inv[…,j,i], inv: the inverse of x",
       "the determinant; it is linear in each row i, whose cofactors do not contain that row (Laplace)", ("torch.det", "torch.linalg.det", "Tensor.det", "np.linalg.det"),
       step=f"out[…] = out[…] + out[…]·{LAPLACE}", values=lambda x: np.linalg.det(np.asarray(x, float)),
       shape=batch_of_square, auxiliaries={"inv": inverse_of}, kind="regular", letters="b",
       examples=("det(x) with x:3x3", "det(x) with x:2x2x2"))  # fmt: skip


def real_logarithm(x: Any) -> Any:
    """log det x, NaN where the determinant is negative."""
    sign, size = np.linalg.slogdet(np.asarray(x, float))
    return np.where(sign < 0, np.nan, size)


for name, says, home, logarithm, by_torch, written in (
    ("logdet", "the logarithm of the determinant, NaN where that is negative", ("torch.logdet", "Tensor.logdet"),
     real_logarithm, None, ""),
    ("logabsdet", "the logarithm of the determinant's absolute value", (),
     lambda x: np.linalg.slogdet(np.asarray(x, float))[1], lambda torch, x: torch.linalg.slogdet(x)[1], "slogdet({}).logabsdet"),
):  # fmt: skip
    # one equation for both, since the logarithm's derivative is the share by which det grows
    solved_op(f"{name}(x)", f"{EXPANSION} = exp(out[…]) where C[i,j] = exp(out[…])·inv[…,j,i], inv: the inverse of x", f"{says}; the determinant is linear in each row i, whose cofactors do not contain that row (Laplace)", home,
           step=f"out[…] = out[…] + {LAPLACE}", values=logarithm, torch=by_torch, shape=batch_of_square, template=written,
           auxiliaries={"inv": inverse_of}, kind="definite", letters="b",
           examples=tuple(f"{(written or name + '({})').format('x')} with x:{shape}" for shape in ("3x3", "2x2x2")))  # fmt: skip

# The pseudo-inverse ------------------------------------------------------------------------------------------


def of_full_rank(x: Any, atol: float | None = None, rtol: float | None = None) -> Any:
    """NumPy's pseudo-inverse; where the rank is not full it jumps, where values count as 0 it is that of another matrix."""
    x = np.asarray(x, float)
    if min(x.shape[-2:]) and np.any(np.linalg.matrix_rank(x) < min(x.shape[-2:])):
        raise UndefinedError(
            "this matrix does not have full rank: its pseudo-inverse jumps here, so there is no derivative",
            hints=("a small multiple of the identity added to x.T @ x",),
        )
    if atol or rtol:
        values = np.linalg.svd(x, compute_uv=False)
        if np.any(values <= np.maximum(atol or 0.0, (rtol or 0.0) * values[..., :1])):
            told = "a singular value counts as 0 here, which is not supported yet"
            raise UnsupportedError(told, hints=("a smaller rtol",))
    return np.linalg.pinv(x)


PENROSE = (
    "Σ_{a,b} x[…,i,a]·out[…,a,b]·x[…,b,k] = x[…,i,k]; Σ_{a,b} out[…,i,a]·x[…,a,b]·out[…,b,k] = out[…,i,k]; "
    "Σ_a x[…,i,a]·out[…,a,k] = Σ_a x[…,k,a]·out[…,a,i]; Σ_a out[…,i,a]·x[…,a,k] = Σ_a out[…,k,a]·x[…,a,i]"
)
solved_op("pinv(x, *, atol: float | None=None, rtol: float | None=None)", PENROSE, "the pseudo-inverse of a matrix of full rank, which Penrose's four equations determine, where no singular value is below atol or rtol times the largest",
       step="out[…,i,k] = 2·out[…,i,k] − (Σ_{a,b} out[…,i,a]·x[…,a,b]·out[…,b,k])"
            " + (Σ_{a,b,c} out[…,i,a]·out[…,b,a]·x[…,c,b]·(δ(c, k) − left[…,c,k]))"
            " + Σ_{a,b,c} (δ(i, a) − right[…,i,a])·x[…,b,a]·out[…,c,b]·out[…,c,k]",
       values=of_full_rank, torch=lambda torch, x, **given: torch.linalg.pinv(x, **given), shape=lambda sizes, shapes, **given: (*shapes[0][:-2], *require_rank(shapes[0], 2)[:-3:-1]), kind="full", arrays="x: np.linalg.pinv(x)",
       auxiliaries={"left": lambda call, x, out: ("matmul", (x, out), {}), "right": lambda call, x, out: ("matmul", (out, x), {})},
       examples=("pinv(x) with x:3x2", "pinv(x) with x:2x2x3"))  # fmt: skip
