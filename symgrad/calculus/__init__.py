"""Local Jacobians, pullbacks and pushforwards of operations, and the sweeps that chain them.

Everything here starts from an operation's index equation and ends in an index equation again.
"""

from symgrad.calculus.differentiate import Rewrite
from symgrad.calculus.local_derivatives import (
    local_jacobian,
    local_pullback,
    local_pushforward,
    standard,
)
from symgrad.calculus.product_programs import Back, Push, back, push
from symgrad.calculus.propagation import (
    carry_back,
    carry_on,
    depending,
    flowing,
    flowing_places,
    flows,
    is_multilinear,
    moving,
    moving_places,
)
from symgrad.calculus.reverse_sweep import (
    Sweep,
    jacobian_formulas,
    pullback,
    pullbacks_by,
    second_derivative,
)

__all__ = [
    "Back",
    "Push",
    "Rewrite",
    "Sweep",
    "back",
    "carry_back",
    "carry_on",
    "depending",
    "flowing",
    "flowing_places",
    "flows",
    "is_multilinear",
    "jacobian_formulas",
    "local_jacobian",
    "local_pullback",
    "local_pushforward",
    "moving",
    "moving_places",
    "pullback",
    "pullbacks_by",
    "push",
    "second_derivative",
    "standard",
]
