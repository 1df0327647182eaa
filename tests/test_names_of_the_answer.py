"""J and vᵀJ are written in the names that the answer defines, and read with these lines they are what was derived."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import symgrad
from symgrad.documents.operation import worked
from symgrad.indexing import Equation, access
from symgrad.indexing.symbols import names_read
from symgrad.numeric import Values, as_float, evaluate
from symgrad.render.content.teller import Teller, naming_teller
from tests.cases import Case, first_by_default
from tests.compare import assert_same
from tests.printed_equations import is_too_long, printed
from tests.test_notation_of_the_table import read_again


def named(teller: Teller, values: Values) -> Iterator[tuple[str, Any, Any, Any, np.ndarray]]:
    """What a page defines: each name, its line, its sizes and its numbers, axes of one entry aside."""
    arrays = {**values.arrays}
    for left, formula in teller.defined([access(own.name, ()) for own in teller.names.definitions]):
        name = left.text.partition("[")[0]
        own = next(own.equation for own in teller.names.definitions if own.name == name)
        kept = [n for n, axis in enumerate(own.axes) if axis.size != 1]
        found = as_float(evaluate(own, arrays, values.sizes))
        arrays[name] = found.reshape([found.shape[n] for n in kept])
        yield name, left, formula, tuple(own.axes[n].size for n in kept), arrays[name]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("case", first_by_default(2))
def test_what_a_page_prints_in_the_names_of_the_answer_reads_back(case: Case) -> None:
    """J and vᵀJ are written in xhat, r, P and out: read with the lines that define these, they are what was derived."""
    holds_in_names(worked(case.op, case.example, check=False), case.name)


TEXTS = (
    ("F.layer_norm(x, (4,), weight, bias)", {"x": (2, 4)}, {"r", "xhat"}),
    ("F.scaled_dot_product_attention(Q, K, V)", {}, {"P", "out"}),
    ("F.scaled_dot_product_attention(Q, K, V, attn_mask=M)", {"M": (2, 3), "Q": (2, 3), "K": (3, 3)}, {"P", "out"}),
    ("F.batch_norm(x, None, None, training=True)", {"x": (4, 2)}, {"r", "out"}),
    ("F.layer_norm(x, (4,)) @ w", {"x": (2, 4)}, {"r"}),
    ("x / x.norm()", {}, {"out"}),
    ("softmax(x @ w, -1)", {}, {"out"}),
)
"""Texts, and the names in which their derivatives are written."""


@pytest.mark.slow
@pytest.mark.parametrize(("text", "shapes", "names"), TEXTS, ids=[text for text, *_ in TEXTS])
def test_a_derivative_is_written_in_the_names_of_the_answer(
    text: str, shapes: Mapping[str, tuple[int, ...]], names: set[str]
) -> None:
    story = symgrad.explain(text, shapes=shapes, check=False)
    assert holds_in_names(story, text) >= names
    whole = story.to_text(width=400)
    for name in names - {"out"}:
        first = re.search(rf"(?<!\w){name}(\[\w(,\w)*\])? = ", whole.partition("2  The Jacobian J")[0])
        assert first is not None, f"{name} is used and not defined before"
    data = json.loads(story.to_json())
    for gradient in data["gradients"].values():  # every format has one formula
        assert gradient["formula"]["text"] in whole or "t1" in gradient["formula"]["text"]


def holds_in_names(story: symgrad.Explanation, what: str) -> set[str]:
    """The names that J and vᵀJ are written in, once both are known to be right when they are read with these."""
    program, teller = story.program, naming_teller(story, None)
    values = story.values.with_arrays({program.seed: as_float(story.seed)})
    lines = [*named(teller, values)]
    known = {name: shape for name, *_, shape, _ in lines}
    values = values.with_arrays({name: array for name, *_, array in lines})
    found = set[str]()
    for gradient in story.gradients.values():
        j, sweep = gradient.jacobian, gradient.sweep
        scope = teller.names.entry(j.axes, program.output).inner(j.inner)
        told = [] if j.formula is None else [(Equation((*j.axes, *j.inner), j.formula), scope)]
        told += [(sweep.equation, teller.names.inner(sweep.equation.axes))] if sweep.whole else []
        for equation, names in told:
            right = teller.named(equation.right)
            found |= {*names_read(right)}
            shown = Equation(equation.axes, right)
            text = printed(shown, names)
            if found.isdisjoint(own.name for own in teller.names.definitions) or is_too_long(text):
                continue
            again = read_again(text, shown, names, program, known)
            mine, theirs = (as_float(evaluate(e, values.arrays, values.sizes)) for e in (equation, again))
            assert_same(mine, theirs, what=f"{what}: {text}")
    for name, left, formula, _, array in lines:
        definition = next(own.equation for own in teller.names.definitions if own.name == name)
        again = read_again(
            f"out{left.text.removeprefix(name)} = {formula.text}", definition, formula.names, program, known
        )
        assert_same(array, np.squeeze(as_float(evaluate(again, values.arrays, values.sizes))), what=f"{what}: {name}")
    return found
