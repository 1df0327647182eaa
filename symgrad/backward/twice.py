"""The backward of a backward, line by line: weights of the gradients times H, the second derivatives of Σ v·out.

Comes in: a program, what its gradients are by, numbers to prove lines with, and v. Goes out: a `Backward` whose
forward lines are the program and its gradients; None where no gradient depends on anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from symgrad.backward.lines import backward
from symgrad.backward.parts.data import Backward
from symgrad.calculus import back, flowing
from symgrad.numeric import Array, Values, as_float, forward
from symgrad.program import Program


def twice(program: Program, wanted: Sequence[str], values: Values, seed: Array) -> Backward | None:
    """The lines by each of ``wanted``; of one number L the seed is 1, and goes without saying."""
    alone = not program.out.shape
    once = back(program, wanted, ones=alone)
    whole = replace(once.program, sizes=program.sizes, spoken=program.spoken, made=program.made)
    moving = flowing(whole, wanted)
    ends = [end for name in wanted if isinstance(end := once.cotangents.get(name), str) and end in moving]
    if not ends:
        return None
    known = {tensor.name: values[tensor.name] for tensor in program.inputs}
    if not alone:
        known[program.seed] = as_float(np.asarray(seed))
    return backward(whole, wanted, ends=ends, values=forward(whole, known))
