"""What an option is where nobody gives it: torch's own, for every spelling of torch's and any number of axes."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from symgrad.errors import SymgradError
from symgrad.language import read_program
from symgrad.numeric import as_float, forward
from symgrad.ops import COMPOUNDS, TABLE
from tests.compare import assert_same
from tests.torch_calls import call_text

SHAPES = ((3,), (3, 3), (3, 2), (2, 3, 3), (3, 2, 3), (2, 3, 2, 3))
OURS = {
    "torch.linalg.pinv": "its second argument is what counts as 0",
    "torch._weight_norm": "lengths of another shape",
}
"""Calls that torch takes with tensors in other places than operands."""


def calls() -> Iterator[tuple[str, int]]:
    """Every spelling of torch's of what has options, and how many tensors it takes."""
    for op in TABLE.values():
        parameters = op.signature.parameters.values()
        tensors = [p for p in parameters if p.name in op.operands and p.default is inspect.Parameter.empty]
        if not op.variadic and len(op.operands) < len(parameters):
            yield from ((name, len(tensors)) for name in op.spellings)
    for name, entry in COMPOUNDS.items():
        if any(p.default is not inspect.Parameter.empty for p in entry.signature.parameters.values()):
            yield from ((name, count) for count in (1, 2))


CALLS = sorted(
    {(n, c) for n, c in calls() if n.startswith(("torch.", "F.", "Tensor.")) and c in (1, 2) and n not in OURS}
)


@pytest.mark.one_in(12, slow=4)
@pytest.mark.parametrize(("name", "count"), CALLS)
def test_what_is_left_out_is_what_torch_takes(name: str, count: int) -> None:
    """A call that both read is the same tensor: `F.softmax(x)` of three axes goes along the first one."""
    names, generator = ["x", "y"][:count], np.random.default_rng(0)
    text = call_text(name, ", ".join(names))
    for shape in SHAPES:
        values: dict[str, Any] = {n: generator.uniform(0.2, 0.9, shape) for n in names}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns of the axis that it takes
                given = {n: torch.tensor(v) for n, v in values.items()}
                whole = eval(text, {"torch": torch, "F": F, **given})  # noqa: S307 -- the tests' own texts
            reading = read_program(text, shapes=dict.fromkeys(names, shape))
            found = forward(reading.program, {**values, **reading.made})[reading.program.output]
        except (RuntimeError, TypeError, IndexError, ValueError, AttributeError, NotImplementedError, SymgradError):
            continue
        expected = whole[0] if isinstance(whole, (tuple, list)) else whole
        if not isinstance(expected, torch.Tensor) or expected.is_complex() or reading.program.inputs == ():
            continue
        assert_same(expected.double(), as_float(found), what=f"{text} of {shape}", tolerance=1e-6)


def test_the_word_alone_goes_along_the_last_axis() -> None:
    """`softmax(x)` is the table's, whose page says so."""
    for text in ("softmax(x)", "log_softmax(x)"):
        whole = forward(read_program(text, shapes={"x": (2, 3, 2)}).program, {"x": np.arange(12.0).reshape(2, 3, 2)})[
            "out"
        ]
        one = forward(read_program(text, shapes={"x": (2,)}).program, {"x": np.arange(2.0)})["out"]
        assert_same(one, as_float(whole)[0, 0], what=text)
