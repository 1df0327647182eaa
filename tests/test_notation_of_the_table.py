"""What a page prints of the table's operations reads back to the same equation, and differentiates as well."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

from symgrad import explain
from symgrad.calculus import local_jacobian
from symgrad.documents.operation import worked
from symgrad.entries.readings import parse_entry_equation
from symgrad.entries.spec import View
from symgrad.explanation import Explanation
from symgrad.indexing import Equation, Index, access, accesses, canonical, contracted_sum
from symgrad.indexing.symbols import Expr, indices_of, name_of, names_read
from symgrad.notation.meaning import EquationMeaning
from symgrad.notation.ranges import RangeFinder
from symgrad.notation.read_write import format_node, read_statement
from symgrad.notation.scope import inline_definitions
from symgrad.notation.tokens import LENGTH
from symgrad.notation.tree import Letter
from symgrad.numeric import Values, as_float, evaluate
from symgrad.ops import equation_functions
from symgrad.program import Program
from symgrad.render.content.teller import Teller, naming_teller
from symgrad.render.formula import formula_text
from symgrad.render.letters import Names, choose_names
from symgrad.render.page import Formula, Ready
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


def read_again(
    text: str, equation: Equation, names: Names, program: Program, defined: Mapping[str, Shape] | None = None
) -> Equation:
    """What ``text`` means, on the tensors that ``equation`` reads, those that are ``defined`` beside it among them."""
    shapes = {name_of(a): shape_of(a, program) for a in accesses(equation.right)}
    tensors = {names.name(name): View(name, (defined or {}).get(name, shape)) for name, shape in shapes.items()}
    symbols = {str(s): s for t in program.tensors() for n in t.shape for s in n.free_symbols}
    whole = inline_definitions(read_statement(text))
    letters = {names.letter(axis): axis for axis in equation.axes}
    sizes = Sizes.of(symbols.values(), {})
    bounds = [read_statement(f"n = {formula_text(axis.size, names)}").right for axis in equation.axes]
    slots = tuple(Letter(name, bound) for name, bound in zip(letters, bounds, strict=True))
    known = {name: size for name, size in symbols.items() if name not in letters}
    found = (
        RangeFinder(replace(whole, slots=slots), {n: v.shape for n, v in tensors.items()}, sizes, known).find().found
    )
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


def named(teller: Teller, values: Values) -> Iterator[tuple[str, Ready, Formula, Shape, np.ndarray]]:
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
    story = explain(text, shapes=shapes, check=False)
    assert holds_in_names(story, text) >= names
    whole = story.to_text(width=400)
    for name in names - {"out"}:
        first = re.search(rf"(?<!\w){name}(\[\w(,\w)*\])? = ", whole.partition("2  The Jacobian J")[0])
        assert first is not None, f"{name} is used and not defined before"
    data = json.loads(story.to_json())
    for gradient in data["gradients"].values():  # every format has one formula
        assert gradient["formula"]["text"] in whole or "t1" in gradient["formula"]["text"]


def holds_in_names(story: Explanation, what: str) -> set[str]:
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
            if found.isdisjoint(own.name for own in teller.names.definitions) or len(text) > LENGTH:
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


def test_an_entry_that_does_not_read_is_our_fault_and_shows_its_own_text():
    with pytest.raises(AssertionError, match=r"the equation 'out = \[x = ∞\]' does not read, at \(11, 12\)"):
        parse_entry_equation("out = [x = ∞]")
