"""An entry that writes its equation by its options has a row, and that is the equation of an example."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import Any

import pytest
import sympy as sp

from symgrad.entries.indexed import IndexedEquation
from symgrad.entries.spec import HeldTensor, Op, View
from symgrad.indexing import fresh_axes
from symgrad.indexing.equation import canonical
from symgrad.notation.tree import Dots
from tests.cases import cases
from tests.entry_readings import SAID, reading

WRITERS = [op for op in SAID if callable(getattr(reading(op), "variants", None))]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op", WRITERS, ids=lambda op: op.name)
def test_the_row_of_an_entry_that_writes_its_equation_is_that_of_an_example(op: Op) -> None:
    """The options standing in it by their names."""
    found: Any = reading(op)
    row, alike = dataclasses.replace(found, variants={}), []
    for case in (case for case in cases() if case.op.name == op.name):
        shapes = {t.name: t.shape for t in (*case.program.inputs, *(s.result for s in case.program.steps))}
        views = [
            View(n, shapes[str(a)])
            for n, a in zip(found.call.names(case.last.arguments), case.last.arguments, strict=False)
        ]
        at, options = fresh_axes(case.last.result.shape), dict(case.last.options)
        held = {name: HeldTensor(name, case.last.result.shape) for name in op.saved.names}
        slots = row.tree(views, options).slots
        own = sum(not isinstance(slot, Dots) for slot in slots)
        if len(at) == own or (len(at) > own and (own < len(slots) or not isinstance(found, IndexedEquation))):
            with suppress(KeyError):  # an option of the row's that this example does not have
                left, right = (canonical(way.index(at, views, held, options)) for way in (found, row))
                alike.append(sp.expand(left - right) == 0)
        if any(alike):
            return
    raise AssertionError(f"the equation of the row is not that of an example: {alike}")
