"""No domain says where every sample lies, and what names its output needs to."""

from __future__ import annotations

import numpy as np

from symgrad.calculus import local_jacobian
from symgrad.documents.domains import sample_values
from symgrad.indexing.symbols import accesses, name_of
from symgrad.numeric import forward, numeric_pullback
from symgrad.ops import TABLE, Op
from tests import torch_programs
from tests.cases import cases
from tests.rows import ROWS, instead, rows, without
from tests.sampling import draw_inputs


def test_what_names_its_output_needs_to() -> None:
    found = []
    for op in (op for op in TABLE.values() if op.saved.reuse):
        for case in (case for case in cases() if case.op.name == op.name):
            step = next(step for step in case.program.steps if step.op == op.name)
            derivatives = local_jacobian(step, case.program).derivatives.values()
            if any(step.result.name in map(name_of, accesses(d.formula)) for d in derivatives):
                break
        else:
            found.append(op.name)
    assert found == []


def fine(op: Op, less: Op) -> bool:
    """Whether samples without a domain do: numbers come of them, and torch's gradient is the derived one."""
    for case in (case for case in cases() if case.op.name == op.name):
        samples = [draw_inputs(less, case.shapes, seed) for seed in range(6)]
        with instead(less):
            samples.append(dict(sample_values(less, case.example)))
        for inputs in samples:
            try:
                values = forward(case.program, inputs)
                out = values[case.program.output]
                derived = numeric_pullback(case.program, values, np.ones(out.shape), case.names)
                _, by_torch = torch_programs.program_gradients(case.program, inputs, np.ones(out.shape))
            except Exception:  # whatever no domain leads to
                return False
            for name in (name for name in case.names if by_torch.get(name) is not None):
                both = [np.asarray(gradient[name], float) for gradient in (by_torch, derived)]
                if not np.all(np.isfinite(both)) or not np.allclose(*both, rtol=1e-7, atol=1e-9):
                    return False
            if not np.all(np.isfinite(np.asarray(out, float))):
                return False
    return True


def test_no_domain_says_where_every_sample_lies() -> None:
    found = [
        name
        for name in ROWS
        if "domain" in rows()[name] and name not in STANDS
        if (less := without(rows()[name], "domain")) is not None and fine(TABLE[name], less)
    ]
    assert found == []
    assert set(STANDS) <= {name for name in ROWS if "domain" in rows()[name]}


STANDS = {
    **dict.fromkeys(("addcdiv", "complex_div", "div", "reciprocal"), "0 divides nothing, and no sample may come near"),
    **dict.fromkeys(("ceil", "floor", "fmod", "frac", "remainder", "round", "trunc"), "jumps at whole quotients"),
    **dict.fromkeys(("complex_log", "complex_sqrt"), "jumps where the negative axis is crossed"),
    **dict.fromkeys(("cosine_embedding_loss", "hinge_embedding_loss"), "targets are −1 and 1"),
    **dict.fromkeys(("masked_fill", "where"), "a mask is of 0 and 1"),
    **dict.fromkeys(("det", "inverse", "logabsdet", "pinv", "solve"), "a matrix without an inverse has no derivative"),
    "binary_cross_entropy_with_logits": "targets are probabilities",
    "cross_entropy": "the weights of classes, which no example has, divide",
    "corrcoef": "of a row of equal entries nothing",
    "grid_sample": "a place of the grid lies near the tensor, so that it is read",
    "instance_norm": "a variance that ran along is positive",
    "tan": "poles",
}
"""Domains without which samples do, and what they say all the same."""
