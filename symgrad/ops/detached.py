"""A tensor held as it is: its values go on, nothing flows back."""

from __future__ import annotations

from symgrad.indexing.symbols import Expr
from symgrad.ops.spec import At, Data, example, operation
from symgrad.program import Role


@operation(
    holds="first",
    says="the values of x, held: torch records nothing from here back, so no gradient arrives this way",
    torch=lambda torch, x: x.detach(),
    spelled=("torch.detach", "Tensor.detach"),
    pathless=True,
    role=Role.CUTS,
    examples=(example("x.detach() * w", x=(2, 3), w=(2, 3)),),
)
def detach(at: At, x: Data) -> Expr:
    """out[i] = x[i]"""
    return x[at]
