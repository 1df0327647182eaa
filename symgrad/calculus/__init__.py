"""Local Jacobians, pullbacks and pushforwards of operations, and the sweeps that chain them.

Everything here starts from an operation's index equation and ends in an index equation again.
"""

from symgrad.calculus.local import Local, local
from symgrad.calculus.steps import Step
from symgrad.calculus.sweeps import Sweep, jacobian, local_pullbacks, pullback, pushforward

__all__ = ["Local", "Step", "Sweep", "jacobian", "local", "local_pullbacks", "pullback", "pushforward"]
