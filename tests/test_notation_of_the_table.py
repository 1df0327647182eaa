"""What a page prints of the table's operations reads back to the same equation, and differentiates as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import sympy as sp

from symgrad.calculus import local_jacobian
from symgrad.indexing import Equation, Index, access, accesses, canonical, contracted_sum
from symgrad.indexing.symbols import Expr, indices_of, name_of
from symgrad.numeric import as_float, evaluate
from symgrad.render.letters import Names, choose_names
from tests.cases import Case, first_by_default
from tests.compare import assert_same
from tests.printed_equations import assert_written_as_read, is_too_long, parsed, printed
from tests.read_equations import meaning_of

WEIGHTS = "v"
"""What pages call the weights of the outputs."""
LONG = frozenset({"interpolate", "grid_sample"})
"""Whose formulas are longer than any line."""


def read_again(
    text: str, equation: Equation, names: Names, program: Any, defined: Mapping[str, Any] | None = None
) -> Equation:
    """What ``text`` means, on the tensors that ``equation`` reads, those that are ``defined`` beside it among them."""
    shapes = {name_of(a): shape_of(a, program) for a in accesses(equation.right)}
    tensors = {names.name(name): (name, (defined or {}).get(name, shape)) for name, shape in shapes.items()}
    symbols = {str(s): s for t in program.tensors() for n in t.shape for s in n.free_symbols}
    letters = {names.letter(axis): axis for axis in equation.axes}
    whole = parsed(text, equation.axes, names)
    return Equation(equation.axes, canonical(meaning_of(whole, letters, tensors, symbols)))


def shape_of(entry: Expr, program: Any) -> Any:
    """The sizes of the tensor that an access reads; of what the forward pass found those of its indices."""
    found = {tensor.name: tensor.shape for tensor in program.tensors()}
    own = tuple(index.size if isinstance(index, Index) else sp.Integer(1) for index in indices_of(entry))
    return found[program.output] if name_of(entry) == WEIGHTS else found.get(name_of(entry), own)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", first_by_default(2))
def test_what_a_page_prints_reads_back(case: Case) -> None:
    equation = local_jacobian(case.last, case.program).equation
    names = choose_names(case.program).entry(equation.axes, case.last.result.name)
    text = printed(equation, names)
    if is_too_long(text):
        assert "bicubic" in case.name or "reflection" in case.name, len(text)
        return
    assert_written_as_read(text)
    again = read_again(text, equation, names, case.program)
    mine = evaluate(equation, case.values.arrays, case.values.sizes)
    theirs = evaluate(again, case.values.arrays, case.values.sizes)
    assert_same(as_float(mine), as_float(theirs), what=case.name)


@pytest.mark.slow
@pytest.mark.parametrize("case", first_by_default(2))
def test_what_a_page_prints_of_a_derivative_reads_back(case: Case) -> None:
    """The Jacobian entry by entry, and vᵀJ: what is printed of them is as good as what was derived."""
    found = local_jacobian(case.last, case.program)
    weights = {**case.values.arrays, WEIGHTS: case.weights(1)[0]}
    for position, derivative in found.derivatives.items():
        jacobian = Equation((*derivative.axes, *derivative.inner), derivative.formula)
        names = choose_names(case.program).entry(derivative.axes, case.last.result.name).inner(derivative.inner)
        pulled = Equation(
            derivative.inner,
            canonical(contracted_sum(derivative.formula * access(WEIGHTS, derivative.axes), derivative.axes)),
        )
        own = choose_names(case.program).entry(derivative.inner, str(case.last.arguments[position]))
        for equation, scope in ((jacobian, names), (pulled, own)):
            text = printed(equation, scope)
            if is_too_long(text):
                assert case.op.name in LONG, (case.name, len(text))
                continue
            assert_written_as_read(text)
            again = read_again(text, equation, scope, case.program)
            mine = evaluate(equation, weights, case.values.sizes)
            theirs = evaluate(again, weights, case.values.sizes)
            assert_same(as_float(mine), as_float(theirs), what=f"{case.name}: {text}")
