"""Local Jacobians, pullbacks and pushforwards of operations, and the sweeps that chain them.

Everything here starts from an operation's index equation and ends in an index equation again.
"""

from symgrad.calculus.differentiate import Step
from symgrad.calculus.flow import (
    Back,
    back,
    carry_back,
    carry_on,
    depending,
    flowing,
    flows,
    is_multilinear,
    moving,
    positions,
)
from symgrad.calculus.local import Local, local, local_pullback, local_pushforward, standard, unfolded
from symgrad.calculus.sweeps import Sweep, jacobian, jacobians, pullback, pullbacks, second_derivative

__all__ = [
    "Back",
    "Local",
    "Step",
    "Sweep",
    "back",
    "carry_back",
    "carry_on",
    "depending",
    "flowing",
    "flows",
    "is_multilinear",
    "jacobian",
    "jacobians",
    "local",
    "local_pullback",
    "local_pushforward",
    "moving",
    "positions",
    "pullback",
    "pullbacks",
    "second_derivative",
    "standard",
    "unfolded",
]
