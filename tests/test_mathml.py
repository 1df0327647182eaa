"""Formulas and code as a page in HTML has them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import symgrad
from symgrad.render.html import pieces
from symgrad.render.html.pieces import mathml
from symgrad.render.page import tensor_label


def test_formulas_are_whole_words_and_carry_their_latex() -> None:
    made = mathml(
        r"\begin{aligned} \mathtt{x.grad}_{p} &= \mathrm{out}_{p} \cr &\quad + 1 < 2 \end{aligned}", "block", True
    )
    assert '<mi class="tt">x.grad</mi>' in made
    assert "<mi>out</mi>" in made
    assert made.count("<mtr>") == 2
    assert r"\mathtt{x.grad}_{p} &amp;=" in made


def test_code_in_a_formula_is_code() -> None:
    made = mathml(r"J = \texttt{diag((x <= 1) * (x\_a >= -1))} + \texttt{a} < 2")
    assert '<mtext class="tt">diag((x &lt;= 1) * (x_a &gt;= -1))</mtext>' in made
    assert '<mtext class="tt">a</mtext>' in made
    ElementTree.fromstring(made)


def test_code_breaks_between_the_parts_of_long_names_and_not_inside_of_numbers() -> None:
    shown = str(pieces.symbols("y = model.self_attn.in_proj_weight.grad + e * 1e-05 + (x @ w.T)"))
    assert "<wbr>.in_proj_weight" in shown
    assert '<span class="whole">1e-05</span>' in shown
    assert shown.count('data-s="e"') == 1
    assert re.sub("<[^>]*>", "", shown) == "y = model.self_attn.in_proj_weight.grad + e * 1e-05 + (x @ w.T)"
    assert shown.count("<wbr>") == 2


def test_names_with_dots_keep_their_underscores() -> None:
    assert ">model.self_attn.in_proj_weight.grad<" in mathml(tensor_label("model.self_attn.in_proj_weight.grad").latex)


def test_what_stands_above_a_picture_is_words_of_the_page() -> None:
    """They go on in the next line; inside the picture they were cut on a phone."""
    story = symgrad.explain("tanh(x)*y", check=False)
    for svg in (story.to_svg(), story.to_svg(program=True)):
        inside = ElementTree.fromstring("<div>" + str(pieces.inline_picture(svg, "one")) + "</div>")
        title, below, drawn = inside
        assert [title.get("class"), below.get("class")] == ["headline", "below"]
        texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
        assert title.text not in texts
        assert title.text in svg
        left, top, wide, high = map(float, drawn.get("viewBox").split())
        assert (wide, high) == (float(drawn.get("width")), float(drawn.get("height")))
        places = [
            (float(text.get("x")), float(text.get("y"))) for text in drawn.iter("{http://www.w3.org/2000/svg}text")
        ]
        assert all(left < x < left + wide and top < y < top + high for x, y in places)


def test_text_in_a_formula_is_no_markup() -> None:
    found = mathml(r"\texttt{<b>x</b> \& 1} < y > 2").replace("\u00a0", " ")
    assert "&lt;b&gt;x&lt;/b&gt; &amp; 1" in found
    assert "<b>" not in found
    assert "<mo>&lt;</mo>" in found
