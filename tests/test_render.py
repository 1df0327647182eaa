"""What a page says: the words and the formulas.

The forum example is kept whole by tests/contract/test_goldens.py.
"""

import re
import subprocess
import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import symgrad
from symgrad import Check
from symgrad.errors import Frontend, for_frontend
from symgrad.oracles.comparisons import skipped
from symgrad_cli.main import main
from tests.forum import forum

ROOT = Path(__file__).resolve().parents[1]


# --- the forum example --------------------------------------------------------------------------------------

REQUIRED = [
    # what is computed and what was assumed
    "out = x@a",
    "x 2×3   a 3×4   out 2×4",
    "Assumed: x and a are ones",
    "--let x=…",
    "--shape x=2,4",
    # 1 Forward
    "1  Forward",
    "out[i,k] = Σ_j x[i,j]·a[j,k]",
    "out[0,0] = x00·a00 + x01·a10 + x02·a20 = 3",
    "out[1,3] = x10·a03 + x11·a13 + x12·a23 = 3",
    "out = 3 3 3 3",
    "out has 8 elements, so out.backward() alone stops with",
    "grad can be implicitly created only for scalar outputs",
    "8 rows",
    "nobody said how to weigh them",
    # 2 Jacobian
    "2  The Jacobian J",
    "∂out[i,k]/∂x[p,q] = δ_ip·a[q,k]",
    "8×6, 24 of 48 entries can be nonzero",
    "J = I₂ ⊗ aᵀ: one block aᵀ per row of x, zeros elsewhere",
    "∂out[i,k]/∂a[p,q] = δ_kq·x[i,p]",
    "8×12, 24 of 96 entries can be nonzero",
    "J = x ⊗ I₄",
    "δ_ip is 1 where i = p and 0 elsewhere",
    "x00  x01  x02 │  x10  x11  x12",
    "every entry written out above is 1 here",
    # 3 Seed
    "3  The seed v: one weight for each output",
    "v = 1 2 3 4",
    "L = Σ v∘out",
    "1·out[0,0] + 2·out[0,1] + 3·out[0,2] + 4·out[0,3] + 5·out[1,0] + 6·out[1,1] + 7·out[1,2] + 8·out[1,3]",
    "= 108",
    "out.backward(v) computes the gradient of this L: ∂L/∂x and ∂L/∂a.",
    "It does not multiply out by v and hand that back.",
    "v∘out is 2×4 like out, x.grad is 2×3 like x",
    # 4 vᵀJ
    "4  vᵀJ",
    "x.grad[p,q] = Σ_{i,k} v[i,k]·∂out[i,k]/∂x[p,q]",
    "x.grad[p,q] = Σ_k v[p,k]·a[q,k]",
    "x.grad = v @ a.T",
    "x.grad[0,0] = 1·a00 + 2·a01 + 3·a02 + 4·a03 = 1·1 + 2·1 + 3·1 + 4·1 = 10",
    "x.grad[1,0] = 5·a00 + 6·a01 + 7·a02 + 8·a03 = 5 + 6 + 7 + 8 = 26",
    "x.grad = 10 10 10",
    "26 26 26",
    "a.grad[p,q] = Σ_i x[i,p]·v[i,q]",
    "a.grad = x.T @ v",
    "a.grad[0,0] = x00·1 + x10·5 = 1·1 + 1·5 = 6",
    "a.grad = 6 8 10 12",
    # 5 Proof
    "5  Proof",
    "out.backward(v), torch",
    "float64",
    "SymPy, every entry of J differentiated on its own",
    "⟨v, J u⟩ = ⟨vᵀJ, u⟩ for 3 random u",
    "Exact integers throughout: equal means identical.",
    "the rows of J are outputs and its columns are inputs, both numbered row by row",
]


def flat(text: str) -> str:
    """Whatever the lines are."""
    return re.sub(r"\s+", " ", text)


@lru_cache
def forum_page() -> str:
    """The forum example's page, made once for all its sentences."""
    with for_frontend(Frontend.COMMAND):
        return flat(forum().to_text())


@pytest.mark.parametrize("sentence", REQUIRED)
def test_the_forum_example_says(sentence: str) -> None:
    assert flat(sentence) in forum_page()


def test_the_matrix_falls_into_blocks() -> None:
    lines = forum().to_text().splitlines()
    first = next(n for n, line in enumerate(lines) if "x00  x01  x02 │" in line)
    rows = lines[first + 1 : first + 10]
    assert [bool(re.search("─┼─", row)) for row in rows] == [False] * 4 + [True] + [False] * 4
    assert rows[0].split() == ["out[0,0]", "a00", "a10", "a20", "│", "·", "·", "·"]
    assert rows[8].split() == ["out[1,3]", "·", "·", "·", "│", "a03", "a13", "a23"]


def test_every_writer_tells_the_same_story() -> None:
    formats = (forum().to_text(), forum().to_markdown(), forum().to_latex())
    for word in (
        "Forward",
        "Jacobian",
        "seed",
        "Proof",
        "scalar outputs",
        "weigh",
        "hand that back",
        "identical",
        "v @ a.T",
    ):
        assert all(word in text for text in formats), word


# --- other stories ------------------------------------------------------------------------------------------


def said(expression: str, **options: Any) -> str:
    return re.sub(r"\s+", " ", symgrad.explain(expression, **options).to_text())


def test_a_scalar_needs_no_argument() -> None:
    text = said("sum(x*x)", x=[1, 2, 3])
    assert "out is a single number, so out.backward() needs no argument" in text
    assert "L is out itself" in text
    assert "scalar outputs" not in text


def test_without_a_seed_ones_are_what_they_mean() -> None:
    text = said("x*2", x=[1, 2])
    assert "No seed was given" in text
    assert "the result is the gradient of that sum, as out.sum().backward() gives it" in text
    assert "scalar outputs" in text


def test_a_downstream_loss_gives_the_seed() -> None:
    text = said("a@x", then="sum((out-y)**2)", y=[1, 2], a=[[1, 2, 0], [0, 1, 3]])
    assert "L = sum((out-y)**2)" in text
    assert "v[i] = ∂L/∂out[i] = 2·(out[i] − y[i])" in text
    assert "v = 4 4" in text
    assert "compared with v a x" in text


def test_a_tensor_that_is_used_twice_has_two_shares() -> None:
    text = said("x@x.T", x=[[1, -2, 3], [0, 1, 1]], seed=[[1, 2], [3, 4]])
    assert "x is used 2 times" in text
    assert "use 1: x.grad[p,q] = Σ_k v[p,k]·x[k,q] as argument 1 of x@x.T" in text
    assert "use 2: x.grad[p,q] = Σ_i v[i,p]·x[i,q] as argument 1 of x.T" in text
    assert "x.grad = (v + v.T) @ x" in text


def test_a_gradient_of_0_says_that_other_weights_show_more() -> None:
    assert "other weights show more" in said("softmax(x)", x=[1, 2, 3])


def test_an_input_without_a_path() -> None:
    text = said("y = 2*a; x*3")
    assert "out does not depend on a at all" in text
    assert "torch leaves a.grad at None" in text


def test_a_value_that_is_none() -> None:
    assert "where the slope of sqrt(x) is infinite or undefined" in said("sqrt(x)", x=[0, 4])


def test_large_things_are_named_and_not_printed() -> None:
    text = symgrad.explain("x@a", shapes={"x": (40, 30), "a": (30, 20)}, check=False).to_text()
    assert len(text.splitlines()) < 80
    assert "out = 30 in all 800 entries" in text
    assert "x.grad[0,0] = 1·a[0,0] + 1·a[0,1] + 1·a[0,2] + … + 1·a[0,19]" in text
    assert "The 800×1200 matrix is too large to show here" in re.sub(r"\s+", " ", text)
    assert "symgrad plan counts its zeros" in re.sub(r"\s+", " ", text)
    assert "v∘out is 40×20 like out, x.grad is 40×30 like x" in re.sub(r"\s+", " ", text)
    assert "v∘out has 2 entries like out, w.grad has 3 entries like w" in re.sub(
        r"\s+", " ", symgrad.explain("x@w", shapes={"x": (2, 3), "w": (3,)}, wrt="w", check=False).to_text()
    )
    assert '.gradients["x"].jacobian.sparse()' in text


@pytest.mark.slow
def test_long_programs_get_stages() -> None:
    text = said("tanh(w3@tanh(w2@tanh(w1@x)))", check=False)
    assert "v_t1 is the gradient with respect to t1:" in text
    assert "x.grad[p,q] = Σ_i w1[i,p]·v_t1[i,q]" in text


def test_sizes_are_told_where_they_are_read() -> None:
    assert "x.grad[p,q] = 2·v·x[p,q]/(m·n)" in said("mean(x*x)", x=[[1, 2], [3, 4], [5, 6]])
    assert "here m = 3, n = 2" in said("mean(x*x)", x=[[1, 2], [3, 4], [5, 6]])


def test_one_entry() -> None:
    text = re.sub(r"\s+", " ", forum().to_text(entry=("x", (0, 1))))
    assert "4 of 8 outputs depend on x01:" in text
    assert "out[0,2] a12 1 3 3" in text
    assert "sum 10" in text
    assert "x.grad[0,1] = 1·a10 + 2·a11 + 3·a12 + 4·a13 = 1·1 + 2·1 + 3·1 + 4·1 = 10" in text
    with pytest.raises(symgrad.SymgradError):
        forum().to_text(entry=("x", (2, 0)))
    with pytest.raises(symgrad.SymgradError):
        forum().to_text(entry=("z", (0,)))


# --- proofs that fail, and proofs that were not made --------------------------------------------------------


def with_check(check: Check) -> str:
    gradient = forum().gradients["x"]
    gradients = {**forum().gradients, "x": replace(gradient, checks=(check, *gradient.checks[1:]))}
    return re.sub(r"\s+", " ", replace(forum(), gradients=gradients).to_text())


def test_a_disagreement_is_the_result() -> None:
    bad = Check("out.backward(v), torch 0", 7.0, False, worst=(0, 1), expected=10.0, got=17.0)
    text = with_check(bad)
    assert "DIFFERS: out.backward(v), torch 0, for x: at x[0,1] expected 10, got 17" in text
    assert "The oracles disagree with what was derived" in text.split("1 Forward")[0]
    assert "do not use these formulas" in text
    assert "equal means identical" not in text


def test_a_check_that_was_not_made_says_why() -> None:
    text = with_check(skipped("out.backward(v) by torch", "torch is not installed"))
    assert "skipped" in text
    assert "Skipped for x: out.backward(v) by torch (torch is not installed)." in text


def test_decimals_show_the_difference() -> None:
    assert "Decimal numbers: the table shows the largest difference" in said("exp(x)", x=[0.5, 1.5])


def test_without_checks_nothing_is_claimed() -> None:
    assert "Checks were turned off" in said("x*2", check=False)


# --- formulas -----------------------------------------------------------------------------------------------

GRADIENTS = [
    ("x@a", "x", "Σ_k v[p,k]·a[q,k]"),
    ("x@a", "a", "Σ_i x[i,p]·v[i,q]"),
    ("tanh(x)", "x", "v[p]·(1 − out[p]²)"),
    ("x + b", "b", "v[p]"),
    ("x.mean()", "x", "v/m"),
    ("softmax(x, dim=1)", "x", "out[p,q]·(v[p,q] − Σ_j v[p,j]·out[p,j])"),
    ("x@x.T", "x", "Σ_i v[i,p]·x[i,q] + Σ_k v[p,k]·x[k,q]"),
    ("mse_loss(x, y)", "x", "2·v·(x[p] − y[p]) / m"),
    ("relu(x)", "x", "v[p]·[x[p] > 0]"),
    ("x/y", "y", "−v[p]·x[p]/y[p]²"),
    ("x**y", "x", "v[p]·y[p]·x[p]^(y[p] − 1)"),
    ("norm(x)", "x", "v·x[p]·[out ≠ 0] / out"),
    ("x.reshape(3, 2)", "x", "v[⌊p/2⌋,p mod 2]"),
    ("cat([x, y])", "y", "v[p + m]"),
    ("i*k", "i", "v[p]·k[p]"),
    ("p + q*r", "q", "v[s]·r[s]"),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("expression", "name", "formula"), GRADIENTS)
def test_gradients_read_as_a_person_writes_them(expression: str, name: str, formula: str) -> None:
    page = CliRunner().invoke(main, ["derive", expression], catch_exceptions=False).stdout
    lines = [re.sub(r" {2,}.*", "", line.strip()) for line in page.splitlines()]
    found = [line.partition(" = ")[2] for line in lines if re.match(rf"{name}\.grad(\[|\b)", line)]
    assert formula in found


def test_held_integers_are_read_as_a_tensor() -> None:
    text = symgrad.explain("max(x, dim=1).values", x=[[1, 3, 2], [5, 4, 6]], check=False).to_text()
    assert "out[i] = x[i,n[i]]" in text
    assert "n = 1 2" in text
    assert "·out" not in text.replace("∘out", "").replace("1·out", "")


# --- colour -------------------------------------------------------------------------------------------------


def test_colour_changes_nothing_but_colour() -> None:
    colored = forum().to_text(color=True)
    assert "\x1b[" in colored
    bare = "\n".join(line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", colored).splitlines()) + "\n"
    assert bare == forum().to_text()


@pytest.mark.slow
def test_rich_is_loaded_for_colour_only() -> None:
    code = (
        "import symgrad, sys; e = symgrad.explain('x*2', check=False); e.to_text(); print('rich' in sys.modules);"
        "e.to_text(color=True); print('rich' in sys.modules)"
    )
    report = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert report.stdout.split() == ["False", "True"]


@pytest.mark.slow
def test_a_formula_that_is_not_shown_is_not_said_to_be_the_answer() -> None:
    given = {"x": np.ones((1, 1, 3, 3)), "g": np.full((1, 2, 2, 2), 0.3)}
    page = said("F.grid_sample(x, g)", **given, check=False)
    assert "too long to show. (No short matrix notation was found either.)" in page
    assert page.count("the index formula is the answer") == 1  # that by x is shown


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "number", ["1234.5678", "0.12345", "0.00123", "0.044715", "0.134145", "12345.678", "1.000000000001"]
)
def test_a_formula_keeps_the_digits_of_its_numbers(number: str) -> None:
    """1234.6·x would be another function; a power of a fraction has an exact constant, and a text a float."""
    page = symgrad.explain(f"{number}*x + gelu(x, approximate='tanh')", check=False).to_text(width=1000)
    assert f"{number}·x[i]" in page
    assert "0.044715·x[i]³" in page
    assert "/200000" not in page


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("inv(A)", "out is the inverse, which solves A·out = I."),
        ("b = solve(x, a); b.sum()", "b is the solution of x·b = a, without left"),
        ("y = cholesky(A@A.T); y.sum()", "y is the lower triangular factor of a symmetric t2 = y·yᵀ, with a positive"),
    ],
)
def test_what_an_operation_says_of_itself_is_said_in_the_names_of_the_page(expression: str, said: str) -> None:
    shapes = {name: (2,) if name == "a" else (2, 2) for name in "Axa" if re.search(rf"\b{name}\b", expression)}
    assert said in symgrad.explain(expression, shapes=shapes, check=False).to_text()


def test_notation_is_explained_where_it_stands_and_nowhere_else() -> None:
    """What a formula does not write is not explained, and every letter of the forward pass is."""
    page = symgrad.explain("quantile(x, 0.75, 1, keepdim=True)", shapes={"x": (2, 3)}, check=False).to_text(width=1000)
    assert "⌊ ⌋ rounds down" in page
    assert "mod is" not in page
    for name in ("m[i,j]", "n_out[i,j]"):
        assert f"{name} is the position found in the forward pass" in page
    assert "mod is the remainder" in symgrad.explain("x.reshape(3, 2)", shapes={"x": (2, 3)}, check=False).to_text()


def test_that_matrices_are_too_large_is_said_once() -> None:
    text = symgrad.explain("x@a", shapes={"x": (40, 30), "a": (30, 40)}, check=False).to_text()
    assert text.count("too large to show") == 1
