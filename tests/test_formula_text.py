"""A formula as text and in LaTeX, without a page around it."""

import symgrad
from symgrad.indexing.symbols import accesses
from symgrad.render.formula import formula_text
from symgrad.render.latex_alphabet import formula_latex


def test_a_formula_without_names() -> None:
    _, derived = symgrad.derive("x@a")
    equation = derived[0].sweep.equation
    assert formula_text(equation.right, equation.axes) == "Σ_j v[p,j]·a[q,j]"
    assert formula_latex(equation.right, equation.axes) == r"\sum_{j} v_{pj} \, a_{qj}"


def test_every_entry_of_a_formula_is_printed_once() -> None:
    _, derived = symgrad.derive("x@a")
    equation = derived[0].sweep.equation
    assert len(list(accesses(equation.right))) == formula_text(equation.right, equation.axes).count("[")
