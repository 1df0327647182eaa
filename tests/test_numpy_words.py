"""What NumPy calls an operation is what it is, and does not follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from symgrad.entries.readings import to_plain_option
from symgrad.exporting.numpy_text import numpy_spelling
from symgrad.functions import special
from symgrad.ops import TABLE, Op
from tests.cases import cases
from tests.rows import ROWS, rows, without


def by_arrays(op: Op) -> list[Any]:
    """What an operation is in NumPy, at its examples; None where a step has options that are called otherwise."""
    told, found = numpy_spelling(op), list[Any]()
    if told is None:
        return [None]
    call = eval(f"lambda {told}", {"np": np, "special": special, "nn": special})  # noqa: S307 a text of the table
    for case in (case for case in cases() if case.op.name == op.name):
        step = next(step for step in case.program.steps if step.op == op.name)
        given = [np.asarray(case.values[a]) if isinstance(a, str) else a.value for a in step.arguments]
        given = [a.astype(int) if n in op.data else a for n, a in zip(op.operands, given, strict=False)]
        options = {name: value for name, value in step.options if value not in (None, ())}
        try:
            found.append(
                (call(*given, **{n: to_plain_option(v) for n, v in options.items()}), case.values[step.result.name])
            )
        except TypeError:  # an option that has another name there
            found.append(None)
    return found


CALLED = [op for op in TABLE.values() if numpy_spelling(op) is not None and not op.variadic]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op", CALLED, ids=lambda op: op.name)
def test_what_numpy_calls_it_is_what_it_is(op: Op) -> None:
    """The entry's own words, and those that follow from a spelling."""
    pairs = [pair for pair in by_arrays(op) if pair is not None]
    for called, expected in pairs:
        np.testing.assert_allclose(np.asarray(called, float), np.asarray(expected, float), rtol=1e-9, atol=1e-12)


def test_no_word_of_numpys_says_what_follows() -> None:
    found = []
    for name in (name for name in ROWS if "arrays" in rows()[name]):
        less = without(rows()[name], "arrays")
        told = None if less is None else numpy_spelling(less)
        if told is not None and len(by_arrays(less)) == len([p for p in by_arrays(less) if p is not None]):  # type: ignore[arg-type]  # there is one
            found.append(name)
    assert sorted(found) == sorted(AS_CALLED)


AS_CALLED = {
    "diag": "is given its diagonal by its name",
    "dot": "np.dot of matrices is written by its forward pass, np.inner is another product",
    "expand": "lines give it sizes one by one",
    "flip": "lines give it axes one by one",
    "softmax": "jax has it elsewhere",
    "tile": "lines give it numbers one by one",
}
"""What follows, but is called otherwise in lines or in jax."""
