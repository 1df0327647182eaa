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


def inverse(x: Any) -> Any:
    """By NumPy; a matrix that has none is refused."""
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        raise DomainError(
            "this matrix has no inverse", hints=("its rows must not be multiples or sums of each other",)
        ) from None


@operation(
    says="the inverse, which solves x·out = I; differentiated: dx·out + x·dout = 0, so dout = −out·dx·out",
    numpy=inverse, torch=lambda torch, x: torch.linalg.inv(x), shape=square,
    spelled=("torch.inverse", "torch.linalg.inv", "Tensor.inverse", "Tensor.inv", "np.linalg.inv"),
    domain={"x": reals()}, ranks={"x": (2,)}, letters="ik",
    examples=(example("inv(x)", x=(2, 2)), example("inv(x)", x=(2, 3, 3)), example("b @ inv(x)", b=(3,), x=(3, 3))),
)  # fmt: skip
def inv(at: At, x: View, out: Held) -> Expr:
    """out = out₀ − Σ_a out₀[i,a]·(Σ_j x[a,j]·out₀[j,k] − δ_ak), one Newton step for Σ_j x[a,j]·out[j,k] = δ_ak"""
    *batch, i, k = at
    a, j = fresh("a", x.shape[-1]), fresh("j", x.shape[-1])
    residual = add_up(x[(*batch, a, j)] * out[(*batch, j, k)], [j]) - delta(a, k)
    return out[at] - add_up(out[(*batch, i, a)] * residual, [a])
