"""How a formula is laid out: |z| for z·sign(z), and numbers that cancel do, without another value."""

from __future__ import annotations

import pytest
import sympy as sp

from symgrad import derive, explain
from symgrad.functions import sign
from symgrad.render import write_derivation as written_derived
from symgrad.render.arrange import absolutes, ordered_fraction
from symgrad.render.formula import formula_text
from symgrad.render.letters import Names
from tests.compare import assert_same

X, Y, Z = sp.symbols("x y z", real=True)
AT = {X: sp.Rational(3, 7), Y: sp.Rational(-5, 3), Z: sp.Rational(11, 2)}

PRODUCTS = (
    X * sign(X), 3 * (X - Y) * sign(Y - X) / 2, Z / (X * sign(X)), Y**2 * sign(Y), Z / (Y**2 * sign(Y)), sign(X) / X,
    sp.sqrt(2) * X * sign(X) * Y / 2, -(X / 2 - Y / 2) * sign(X - Y), sign(X) * X * sign(Y) * Y, X**3 * sign(X, evaluate=False) ** 3,
    (2 * X * (Z / 2 + Y / 2) - 4 * Y * (X + Z)) * Z / 3, (X * (Z - 3 * Y) / 2 + Y / 2) * sign(Z), -X * sign(-X),
)  # fmt: skip


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_what_is_laid_out_has_the_value_of_the_product(product: sp.Expr) -> None:
    laid = ordered_fraction(product, Names())
    value = (-1) ** laid.negative * sp.Mul(*laid.above) / sp.Mul(*laid.below)
    together = sp.Mul(*absolutes(sp.Mul.make_args(product)))
    for at in (AT, {name: -number for name, number in AT.items()}):
        found, meant, again = (e.replace(sign, sp.sign).subs(at) for e in (value, product, together))
        assert found == meant == again


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("out[i] = |x[i]|", "out[i] = |x[i]|"),
        ("out[i] = Σ_j q[j] / |r[i] + 9 − r[j]|", "out[i] = Σ_j q[j] / |r[i] + 9 − r[j]|"),
        ("out[i] = 3·(x[i] − y[i])·sign(y[i] − x[i])", "out[i] = −3·|y[i] − x[i]|"),
        ("out = (Σ_j |x[j]| / 2)·2", "out = Σ_j |x[j]|"),
        ("out[i] = ||x[i]| − 1| / 3", "out[i] = ||x[i]| − 1| / 3"),
        ("out[i] = a[i]·(x[i] − y[i])·(x[i]/2 + y[i]/2)·2 − a[i]", "out[i] = a[i]·(x[i] + y[i])·(x[i] − y[i]) − a[i]"),
    ],
)
def test_a_page_says_the_equation_as_it_was_written(text: str, line: str) -> None:
    assert line in written_derived("text", *derive(text)).split("\n1  Forward\n")[1]


@pytest.mark.parametrize(
    "text", ["abs(x)", "F.l1_loss(x, y)", "F.softsign(x)", "F.smooth_l1_loss(x, y)", "1/abs(x - 7)"]
)
def test_no_page_says_an_absolute_value_as_a_product(text: str) -> None:
    page = explain(text, x=[3, 1], **({"y": [1, 5]} if "y" in text else {})).to_text()
    assert "|" in page
    assert "·sign(" not in page.split("2  The Jacobian")[0]


def test_the_numbers_of_a_layer_norm_are_not_said_twice() -> None:
    assert "2·" not in written_derived("text", *derive("F.layer_norm(x, (n,), gamma)"))


@pytest.mark.slow
def test_a_sum_of_zeros_is_a_multiple_of_no_number() -> None:
    """The second axis of the transform is cut to one entry: its sines are all 0."""
    text = 'view_as_real(torch.fft.fft2(view_as_complex(x), (2, 3), (1, 0), "ortho"))'
    assert "nan" not in explain(text, x="ones(2,2,2)").to_text()


@pytest.mark.parametrize("factor", [0.5, 3.0, sp.Rational(1, 2), 2, sp.Rational(-2, 3)])
def test_a_sum_of_multiples_of_sums_comes_to_an_end(factor: float | sp.Rational) -> None:
    """A float before (y/2 + z) is no number that can be taken out: a page ended in a RecursionError."""
    total = X * (Y / 2 + Z) + sp.sympify(factor) * Z * (Y / 2 + Z)
    text = formula_text(total, Names()).replace("·", "*").replace("−", "-").replace("²", "**2")
    found = sp.sympify(text).subs({sp.Symbol(str(name)): number for name, number in AT.items()})
    assert_same(float(total.subs(AT)), float(found), what=text)
