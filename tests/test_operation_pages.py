"""The pages of operations, and the index that leads to them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from symgrad import operations
from symgrad.documents import SitePage, file_name, forum_page, index_page, operation_page
from symgrad.documents.article import readable_blocks
from symgrad.documents.operation import article_of, family_of, shown_example, worked_story
from symgrad.ops import Op, find
from symgrad.render.page import Code, EquationRow, Equations, Listing, Paragraph, Picture, Ready
from tests.test_site import extension

OPS = list(operations())
SAMPLE = ["matmul", "softmax", "floor", "cross_entropy"]


HELD = extension("held")
"""What every page of an operation is held to while the site is built; here a sample of them is, and that it can fail."""


def page_of(op: Op) -> SitePage:
    """The page of an operation, which breaks no promise."""
    page = operation_page(op)
    assert [*HELD.faults(op, page.text, {path.name: svg for path, svg in page.pictures})] == []
    return page


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SAMPLE)
def test_the_page_of_an_operation(name: str) -> None:
    """A sample; the site, which CI builds, has every page."""
    op = find(name)
    assert op is not None
    page_of(op)


VISUAL = [op for op in OPS if family_of(op) in ("convolutions", "pooling", "interpolation")]


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    "op", [*VISUAL[3::7], pytest.param(VISUAL[8], marks=pytest.mark.night)], ids=lambda op: op.name
)
def test_the_page_of_an_operation_on_images_draws_its_band(op: Op) -> None:
    """Entry by entry, with zeros beside what a window reads; matrices of numbers stood there, and no picture."""
    drawn = next(block for block in article_of(op, check=False).box if isinstance(block, Picture)).svg
    rows, *_ = re.findall(r"J is (\d+) by", drawn)
    assert "The lit column" in drawn or op.name == "affine_grid"  # J of two images is 24×12
    assert ">·<" in drawn or rows == "1" or op.name == "affine_grid"


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS[5::120], ids=lambda op: op.name)
def test_the_page_of_every_operation_has_a_picture(op: Op) -> None:
    """Where something flows back, be J small or large: so the site holds every page."""
    found = article_of(op, check=False)
    assert [*HELD.undrawn(found)] == []
    assert [*HELD.undrawn(replace(found, structure="diagonal", box=()))] == ["no picture of J"]


SPOILED = {
    "it does not begin with its name": ("# tanh", "# tangent"),
    "a line of ": ("## Proof", f"{'x' * 400}\n## Proof"),
    "no ## Proof": ("## Proof", "## Evidence"),
    "no What torch writes": ("What torch writes", "What it writes"),
    "it says disagree": ("## Proof", "## Proof\n\nThe oracles disagree."),
    "neither a 2×3 input": ("2×3", "a few"),
    "the answer lacks the equation": ("out = tanh(x)", "tanh(x)"),
    "no x.grad = ": ("x.grad", "x.slope"),
    "a picture that it does not show": ("](", "]["),
    "a part that is folded and not closed": ("</details>", ""),
}


def test_a_page_that_breaks_a_promise_is_told() -> None:
    op = find("tanh")
    assert op is not None
    page = operation_page(op)
    pictures = {path.name: svg for path, svg in page.pictures}
    for fault, (found, instead) in SPOILED.items():
        assert found in page.text, found
        told = [*HELD.faults(op, page.text.replace(found, instead), pictures)]
        assert any(fault in sentence for sentence in told), (fault, told)
    assert [*HELD.faults(op, page.text, {**pictures, "other.svg": "<svg/>"})][1:] == [
        "a picture without words, other.svg",
        "a picture that is not there, or a part that is folded and not closed",
    ]


def test_a_page_says_the_answer_the_kink_the_second_derivative_and_what_torch_writes() -> None:
    softmax, relu = (page_of(op).text for op in map(find, ("softmax", "relu")) if op is not None)
    assert "x.grad = out * (v - (v * out).sum(-1, keepdim=True))" in softmax
    assert r"\frac{\partial \mathrm{out}_{ij}}{\partial x_{pq}} = " in softmax
    assert "_softmax_backward_data(grad, result, dim, self.scalar_type())" in softmax
    assert r"\frac{\partial^2 L}{\partial x_{pq}\thinspace\partial x_{rs}} &= " in softmax
    assert "is 0 on the left and 1 on the right; at the point itself the equation takes 0, and so does torch" in relu
    assert "threshold_backward(grad, result, 0)" in relu


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("conv2d", "(… are the axes that may stand there; x̂ is x, continued by 0)"),
        ("conv2d", "With x 1×m×n×h, weight c×m×d×e, and out 1×c×(1 + n − d)×(1 + h − e):"),
        (
            "cross_entropy",
            "Where rank(target) = rank(x):\n\n```text\nout = −Σ_k weight[k]·((1 − label_smoothing)·target[k]",
        ),
        ("max_pool2d", "and out 1×m×⌊n/2⌋×⌊h/2⌋:"),
        ("zeros_like", "records no backward node for this call: its output requires no gradient."),
        ("diag", "`diagonal_backward_symint("),
        ("det", "Not with x 2×3: the sizes 2 and 3 do not fit together in det."),
        ("max_unpool1d", r"Not with x 2×3: max\_unpool1d writes two entries to one place"),
        ("addmv", "beta·x plus"),
    ],
)
def test_what_a_page_lacks_it_says(name: str, said: str) -> None:
    """And no formula begins with a capital that is another letter."""
    op = find(name)
    assert op is not None
    assert said in page_of(op).text


def told(what: str, it: str) -> Paragraph:
    """That something is not shown."""
    return Paragraph((f"({what} too long to show here: ", Code('symgrad derive "f(x)"'), f" prints {it}.)"))


def test_what_is_too_long_to_read_is_said_and_not_shown() -> None:
    long = Listing("x" * 301)
    assert list(readable_blocks([Listing("x" * 300), long], "f(x)")) == [
        Listing("x" * 300),
        told("A line of 301 characters is", "it"),
    ]
    assert list(readable_blocks([long, long], "f(x)")) == [told("2 lines of up to 301 characters are", "them")]


def test_notation_waits_for_a_formula_that_is_shown() -> None:
    long, short = (Equations((EquationRow((Ready("x" * n, "x"),)),)) for n in (301, 3))
    note, other = Paragraph(("(Σ adds up)",), aside=True, notation=True), Paragraph(("Dense.",))
    cut = told("A formula of 301 characters is", "it")
    assert list(readable_blocks([long, other, note, short], "f(x)")) == [cut, other, short, note]
    assert list(readable_blocks([long, note, other], "f(x)")) == [cut, other]
    assert list(readable_blocks([short, note], "f(x)")) == [short, note]
    assert list(readable_blocks([long, note, long, note, other], "f(x)")) == [
        told("2 formulas of up to 301 characters are", "them"), other,
    ]  # fmt: skip


@pytest.mark.slow
def test_samples_lie_where_there_is_something_to_be_seen() -> None:
    """Outside of −1 to 1 a grid reads zeros."""
    grid = find("grid_sample")
    assert grid is not None
    story, _ = worked_story(grid, shown_example(grid), check=False)
    assert np.count_nonzero(story.gradients["x"].jacobian.dense()) > 8


def test_the_index_lists_every_operation() -> None:
    page = index_page(OPS).text
    assert [op.name for op in OPS if f"[`{op.name}`](ops/{file_name(op)})" not in page] == []
    assert len({file_name(op) for op in OPS}) == len(OPS)


def test_the_table_is_read_by_families_with_options_and_the_equations_under_them() -> None:
    *_, table = index_page(OPS).text.partition("## Operations on each entry by itself")
    rows = [line for line in table.partition("## Calls")[0].splitlines() if line.startswith("| [")]
    assert len(rows) == len(OPS)
    assert [op.name for op in OPS if table.count(f"\n### {family_of(op).capitalize()}\n") != 1] == []
    linear = next(row for row in rows if "[`linear`]" in row)
    assert "`(x, weight, bias=None)`" in linear
    assert "<br>rank(weight) = 1: `out[…] = Σ_j x[…,j]·weight[j] + bias`" in linear


def test_the_forum_page_answers_the_thread() -> None:
    page = forum_page().text
    assert "The thread guesses that the argument is multiplied onto the output. It is not." in page
    assert "10 & 10 & 10" in page
    assert "Equal to torch" in page
