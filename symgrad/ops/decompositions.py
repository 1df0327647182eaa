"""Operations that are defined by an equation which their result solves: F(x, out) = 0.

What is differentiated is one Newton step from the solution, out = out₀ − S·F(x, out₀), with out₀ and S, the inverse
of ∂F/∂out, held still. At the solution F is 0, so the value is out; and the derivative of the step by x is
−S·∂F/∂x, which is what the implicit function theorem says. S is no derivative of the operation, and a wrong one
gives a wrong value one step away from the solution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DomainError, ShapeError
from symgrad.indexing import add_up, delta, fresh
from symgrad.indexing.symbols import Expr
from symgrad.ops.domain import reals
from symgrad.ops.spec import At, Held, View, example, operation
from symgrad.shapes import Shape, Sizes


def square(sizes: Sizes, shapes: tuple[Shape, ...]) -> Shape:
    """The shape of a matrix, or of a stack of them, with as many rows as columns."""
    (shape,) = shapes
    if len(shape) < 2:
        raise ShapeError("the inverse is that of a matrix", found=(f"{len(shape)} axes",))
    sizes.unify(shape[-2], shape[-1])
    return shape


def inverted(x: Any) -> Any:
    """By NumPy; a matrix that has none is refused."""
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        raise DomainError(
            "this matrix has no inverse", hints=("its rows must not be multiples or sums of each other",)
        ) from None


def residual(at: At, x: View, out: View) -> Expr:
    """F[i,k] = Σ_j x[i,j]·out[j,k] − δ_ik"""
    *batch, i, k = at
    j = fresh("j", x.shape[-1])
    return add_up(x[(*batch, i, j)] * out[(*batch, j, k)], [j]) - delta(i, k)


@operation(
    says="the inverse, which solves x·out = I; differentiated as it stands, dx·out + x·dout = 0, so dout = −out·dx·out",
    numpy=inverted, torch=lambda torch, x: torch.linalg.inv(x), shape=square, residual=residual,
    spelled=("torch.inverse", "torch.linalg.inv", "Tensor.inverse", "np.linalg.inv"),
    domain={"x": reals()}, ranks={"x": (2,)}, letters="ik",
    examples=(
        example("inverse(x)", x=(2, 2)), example("inverse(x)", x=(2, 3, 3)), example("b @ inverse(x)", b=(3,), x=(3, 3)),
    ),
)  # fmt: skip
def inverse(at: At, x: View, out: Held) -> Expr:
    """out = out₀ − Σ_a out₀[i,a]·F[a,k] with F[a,k] = Σ_j x[a,j]·out₀[j,k] − δ_ak, which is 0 at the inverse"""
    *batch, i, k = at
    a = fresh("a", x.shape[-1])
    return out[at] - add_up(out[(*batch, i, a)] * residual((*batch, a, k), x, out), [a])
