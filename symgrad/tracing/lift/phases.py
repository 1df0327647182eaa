"""The phases of complex eigenvectors and singular vectors: factors that nobody chose, and on which nothing may depend.

Comes in: a lifted program in which each of them is an input of its own. Goes out: whether a small turn of them changes
a result. Then the call stays torch's own, which says for each seed whether it has a gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric import Values
from symgrad.numeric.exact import as_float
from symgrad.numeric.sweeps import push

if TYPE_CHECKING:
    from symgrad.tracing.lift.lifted import Lifted
    from symgrad.tracing.record.trace import Node

FREE = "the phase of each vector is nobody's choice, and the result depends on it"
"""Why vectors are left to torch."""
TURNED = 1e-8
"""The share of a result that may come of rounding when a phase turns by 1."""


def matter(lifted: Lifted, phases: Mapping[int, Sequence[Node]]) -> bool:
    """Whether a result changes with the phases of some calls' vectors, each turned by an angle of its own."""
    random = np.random.default_rng(0)
    turns = {}
    for node in (n for nodes in phases.values() for n in nodes if id(n) in lifted.refs):
        angles = random.normal(size=node.shape)
        turns[lifted.refs[id(node)].name] = np.stack([np.zeros(node.shape), angles], -1)
    if not turns:
        return False
    try:
        changes = push(lifted.program, Values(lifted.arrays, {}), turns, lifted.outputs, lifted.boxes)
    except (SymgradError, RuntimeError):  # a black box behind them, through which torch has no derivative
        return True
    for change, name in zip(changes, lifted.outputs, strict=True):
        largest = np.max(np.abs(as_float(lifted.arrays[name])), initial=1.0)
        if not np.all(np.abs(as_float(change)) <= TURNED * largest):
            return True
    return False
