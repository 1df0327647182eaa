"""What a page prints of the table's operations reads back to the same equation, and differentiates as well."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy as sp

from symgrad.calculus import local_jacobian
from symgrad.entries.readings import parse_entry_equation
from symgrad.entries.spec import View
from symgrad.indexing import Equation, Index, access, accesses, contracted_sum
from symgrad.indexing.standard_names import canonical
from symgrad.indexing.symbols import Expr, indices_of, name_of
from symgrad.notation.meaning import EquationMeaning
from symgrad.notation.ranges import find_ranges
from symgrad.notation.read_write import format_node, read_statement
from symgrad.notation.scope import inline_definitions
from symgrad.notation.tokens import LENGTH
from symgrad.notation.tree import Letter
from symgrad.numeric import as_float, evaluate
from symgrad.ops import equation_functions
from symgrad.program import Program
from symgrad.render.formula_alphabets import formula_text
from symgrad.render.letters import Names, choose_names
from symgrad.shapes import Shape, Sizes
from tests.cases import Case, first_by_default
from tests.compare import assert_same

WEIGHTS = "v"
"""What pages call the weights of the outputs."""
LONG = frozenset({"interpolate", "grid_sample"})
"""Whose formulas are longer than any line."""


def printed(equation: Equation, names: Names) -> str:
    """The equation as the page has it."""
    letters = ",".join(names.letter(axis) for axis in equation.axes)
    return f"out{f'[{letters}]' if letters else ''} = {formula_text(equation.right, names)}"


def read_again(text: str, equation: Equation, names: Names, program: Program) -> Equation:
    """What ``text`` means, on the tensors that ``equation`` reads."""
    tensors = {names.name(name_of(a)): View(name_of(a), shape_of(a, program)) for a in accesses(equation.right)}
    symbols = {str(s): s for t in program.tensors() for n in t.shape for s in n.free_symbols}
    whole = inline_definitions(read_statement(text))
    letters = {names.letter(axis): axis for axis in equation.axes}
    sizes = Sizes.of(symbols.values(), {})
    bounds = [read_statement(f"n = {formula_text(axis.size, names)}").right for axis in equation.axes]
    slots = tuple(Letter(name, bound) for name, bound in zip(letters, bounds, strict=True))
    known = {name: size for name, size in symbols.items() if name not in letters}
    found = find_ranges(replace(whole, slots=slots), {n: v.shape for n, v in tensors.items()}, sizes, known).found
    right = EquationMeaning(tensors, {**symbols, **letters}, found, equation_functions()).of(whole.right)
    return Equation(equation.axes, canonical(right))


def shape_of(entry: Expr, program: Program) -> Shape:
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
    if len(text) > LENGTH:
        assert "bicubic" in case.name or "reflection" in case.name, len(text)
        return
    assert read_statement(format_node(read_statement(text))) == read_statement(text)
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
            if len(text) > LENGTH:
                assert case.op.name in LONG, (case.name, len(text))
                continue
            assert read_statement(format_node(read_statement(text))) == read_statement(text)
            again = read_again(text, equation, scope, case.program)
            mine = evaluate(equation, weights, case.values.sizes)
            theirs = evaluate(again, weights, case.values.sizes)
            assert_same(as_float(mine), as_float(theirs), what=f"{case.name}: {text}")


def test_an_entry_that_does_not_read_is_our_fault_and_shows_its_own_text():
    with pytest.raises(AssertionError, match=r"the equation 'out = \[x = ∞\]' does not read, at \(11, 12\)"):
        parse_entry_equation("out = [x = ∞]")
