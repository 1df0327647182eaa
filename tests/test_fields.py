"""No field of an entry says what follows from its text: each is left out once, and something has to change.

A field of data is compared as it is. torch's call is made. A rule (shapes, broadcasting), a domain and a forward have
files of their own.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from symgrad.entries import derived_facts
from symgrad.ops import TABLE, Op
from tests import torch_programs, torch_side
from tests.cases import cases
from tests.rows import LOOPS, ROWS, Row, alike, instead, made, rows, told, without

READ = ("call", "equation", "variants", "reading", "along", "axes", "checks", "least", "decimals")
"""What says how the text is read: no derivation gives it."""


def test_every_row_is_found() -> None:
    assert len(ROWS) > 260
    assert [name for name in ROWS if told(made(rows()[name])) != told(TABLE[name])] == []


def needless(row: Row) -> list[str]:
    """The fields of a row that say what follows without them."""
    whole = made(row)
    fields = [name for name in row if name not in (*READ, "shape", "align", "fits", "prepare", "forward", "torch")]
    found = [name for name in fields if (less := without(row, name)) is not None and alike(whole, less)]
    return [name for name in found if name not in LOOPS.get(whole.name, ())]


def test_no_field_of_data_says_what_follows() -> None:
    assert {name: found for name in ROWS if (found := needless(rows()[name]))} == {}


def by_torch(op: Op) -> list[Any]:
    """What torch gives for the examples."""
    found = list[Any]()
    for case in (case for case in cases() if case.op.name == op.name):
        try:
            with instead(op), warnings.catch_warnings():
                warnings.simplefilter("error")
                out = torch_programs.function_of(case.program)(*(torch_side.tensor(case.inputs[n]) for n in case.names))
            found.append(out.detach().numpy())
        except Exception as error:  # whatever torch says to it
            found.append(str(error))
    return found


def test_no_call_of_torch_says_what_follows() -> None:
    found, needed = [], set()
    for name in ROWS:
        call = rows()[name].get("torch")
        if call is None or name in OTHERWISE_CALLED:
            continue
        less = without(rows()[name], "torch")
        pairs = [] if less is None else list(zip(by_torch(TABLE[name]), by_torch(less), strict=True))
        if pairs and all(not isinstance(b, str) and np.array_equal(a, b, equal_nan=True) for a, b in pairs):
            found.append((name, call.__qualname__))
        else:
            needed.add(call.__qualname__)
    assert [name for name, call in found if call not in needed or call == "<lambda>"] == []


OTHERWISE_CALLED = {
    **dict.fromkeys(("eq", "ge", "gt", "le", "lt", "ne", "one_hot"), "no floats, of which there is a gradient"),
    **dict.fromkeys(("logsumexp", "norm"), "a number has no axes to name"),
    "cross_entropy": "classes are whole numbers, and the examples have weights of classes",
    "hardsigmoid": "torch's own gradient has a sixth in single precision",
    "index_reduce": "torch warns that it may change",
    "pdist": "no rows end torch's process",
    "pow": "by a number torch has another derivative at 0",
    "scatter": "a source that is one number",
    "sort": "equal entries keep their order, which torch's default does not promise",
    "softplus": "from 20 on torch has x itself",
}
"""Calls that differ elsewhere than in the value of an example."""


def test_no_word_of_what_is_held_says_what_follows() -> None:
    """Words for what becomes of truth values and whole numbers, beside those that the equation gives."""
    found = []
    for name in (name for name in ROWS if "result_dtype" in rows()[name]):
        less, words = without(rows()[name], "result_dtype"), derived_facts.dtype_words(TABLE[name])
        assert less is not None
        with instead(less):
            derived_facts.infer_dtype_words.cache_clear()
            found += [name] * (derived_facts.dtype_words(less) == words)
    derived_facts.infer_dtype_words.cache_clear()
    assert found == []


def test_these_checks_can_fail() -> None:
    row = rows()["tanh"]
    assert needless({**row, "examples": ("tanh(x)",)}) == ["examples"]
    assert needless({**row, "smooth": True}) == ["smooth"]
