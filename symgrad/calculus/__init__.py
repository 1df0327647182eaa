"""Local Jacobians, pullbacks and pushforwards of operations, and the sweeps that chain them.

Everything here starts from an operation's index equation and ends in an index equation again.
"""

from symgrad.calculus.back import Back, back, steps_back
from symgrad.calculus.differentials import Differential, differential, small_change
from symgrad.calculus.differentiate import Step
from symgrad.calculus.flow import carry_back, carry_on, depending, flowing, flows, moving, positions
from symgrad.calculus.local import Local, local, local_pullback, local_pushforward, standard, unfolded
from symgrad.calculus.sweeps import Sweep, jacobian, jacobians, pullback, pullbacks, second_derivative

__all__ = [
    "Back",
    "Differential",
    "Local",
    "Step",
    "Sweep",
    "back",
    "carry_back",
    "carry_on",
    "depending",
    "differential",
    "flowing",
    "flows",
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
    "small_change",
    "standard",
    "steps_back",
    "unfolded",
]
