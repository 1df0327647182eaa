"""What ``--format latex`` writes is set by a real LaTeX, with amsmath and nothing else, in its three sizes.

Without LaTeX these tests are skipped and say so; Debian's texlive-latex-base is enough.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import symgrad
from symgrad.render.mathmode import break_formula
from tests.cases import Case, cases
from tests.forum import forum

LATEX = shutil.which("pdflatex")
needs_latex = pytest.mark.skipif(LATEX is None, reason="pdflatex is not installed (Debian: texlive-latex-base)")
HEAD = "\\documentclass{article}\n\\usepackage{amsmath}\n\\begin{document}\n"


def compiled(folder: Path, *fragments: str) -> str:
    """LaTeX's log of one document; an error in it is an error of the test."""
    assert LATEX is not None
    source = HEAD + "\n\\clearpage\n".join(fragments) + "\\end{document}\n"
    (folder / "page.tex").write_text(source, encoding="ascii")
    command = [LATEX, "-halt-on-error", "-interaction=nonstopmode", "-no-shell-escape", "page.tex"]
    ran = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", check=False, timeout=300
    )
    log = (folder / "page.log").read_text(encoding="utf-8", errors="replace")
    assert ran.returncode == 0, "\n".join(re.findall(r"^!.*\n(?:.*\n){3}", log, re.MULTILINE))
    assert (folder / "page.pdf").stat().st_size > 1000
    return log


def three_sizes(story: symgrad.Explanation) -> tuple[str, str, str]:
    """The closed form, one entry, and everything with the matrix."""
    name, gradient = next(iter(story.gradients.items()))
    at = (0,) * gradient.value.ndim
    return story.to_latex(brief=True), story.to_latex(entry=(name, at)), story.to_latex()


def overfull(log: str) -> list[float]:
    """By how many points boxes stand out of the page."""
    return [float(found) for found in re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide\)", log)]


@pytest.mark.parametrize(
    "text", ["softmax(x, dim=-1)", "S = q @ k.T / 2; P = softmax(S, dim=-1); P @ u", "relu(x@w + b) * b", "inverse(x)"]
)
def test_the_brief_answer_is_mathematics_and_no_code(text: str) -> None:
    """Each gradient has a formula, and each letter in it is a tensor of the text or said to be something."""
    story = symgrad.explain(text, check=False)
    page = story.to_latex(brief=True).partition("Assumed:")[0]
    for name in story.gradients:
        assert f"\\mathtt{{{name}.grad}}" in page
        assert f"\\texttt{{{name}.grad" not in page
    known = set(re.findall(r"\w+", text)) | {"out", "v"}
    for letter in set(re.findall(r"\\mathrm\{(\w+)\}|(?<![\\\w])([A-Za-z]\w*)_\{", page)):
        word = "".join(letter)
        assert word in known or f"{word} is " in page, word
    for stage in set(re.findall(r"v\^\{(\w+)\}_", page)):
        assert f"$v^{{{stage}}}$ is the gradient with respect to \\texttt{{{stage}}}." in page


@pytest.mark.slow
@needs_latex
def test_the_three_sizes_are_set(tmp_path: Path) -> None:
    stories = (
        forum(),
        symgrad.explain("softmax(x, dim=-1)", x=[[0.5, 1, 2], [3, -1, 0.25]]),
        symgrad.explain("x@A@x", x=[1, 2], order=2),
    )
    log = compiled(tmp_path, *(size for story in stories for size in three_sizes(story)))
    assert max(overfull(log), default=0) < 1, overfull(log)


@pytest.mark.slow
@needs_latex
def test_what_is_too_wide_is_told_instead(tmp_path: Path) -> None:
    """A matrix of 20 columns, and one that just fits with long entries, stay on the page."""
    wide = symgrad.explain("x*y", shapes={"x": (20,), "y": (20,)}, check=False)
    long = symgrad.explain(
        "tanh(long_name@other_name)", shapes={"long_name": (2, 6), "other_name": (6, 2)}, check=False
    )
    compiled(tmp_path, wide.to_latex(), long.to_latex())
    assert "too wide for this page" in long.to_latex()
    assert "20×20 matrix is too large to show here" in wide.to_text()
    small = symgrad.explain("x@a", seed=[[1, 2, 3, 4], [5, 6, 7, 8]], check=False).to_latex()
    assert small.count("scriptsize") == 1  # the 8×12 matrix by a, not the 8×6 one by x


@needs_latex
def test_an_error_is_seen(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="Undefined control sequence"):
        compiled(tmp_path, r"$\nosuchcommand$")


FIRST = {case.op.name: case for case in reversed(cases())}


@needs_latex
@pytest.mark.slow
@pytest.mark.parametrize("case", FIRST.values(), ids=FIRST.keys())
def test_every_operation_is_set_in_three_sizes(case: Case, tmp_path: Path) -> None:
    log = compiled(tmp_path, *three_sizes(case.story))
    assert max(overfull(log), default=0) < 50, overfull(log)


@pytest.mark.slow
@needs_latex
def test_long_sums_go_on_in_the_next_line(tmp_path: Path) -> None:
    """They stood out of the page by its whole width."""
    softmax = symgrad.explain("softmax(x@w)", check=False)
    names = symgrad.explain("hidden_state @ weight_of_the_output_layer + bias_of_the_output_layer", check=False)
    near = symgrad.explain("F.cosine_similarity(x, y)", shapes={"x": (2, 3), "y": (2, 3)}, check=False)
    log = compiled(tmp_path, softmax.to_latex(), names.to_latex(), near.to_latex())
    assert max(overfull(log), default=0) < 8, overfull(log)


BREAKS = [
    (r"a \, b", 100, [r"a \, b"]),
    (r"a + b - c", 30, ["a + b", "- c"]),
    (r"\sum_{k} a_{k} \, \left(b + c\right)", 30, [r"\sum_{k} a_{k}", r"\times \bigl(b", r"+ c\bigr)"]),
    (r"\frac{a + b + c}{n}", 30, [r"\frac{1}{n} \, \bigl(a", r"+ b", r"+ c\bigr)"]),
    (r"\frac{a}{\left(b + c\right) \, d}", 18, [r"a", r"/ \bigl(\bigl(b", r"+ c\bigr)", r"\times d\bigr)"]),
    (r"-{\left(a + b\right)}^{2}", 25, [r"-\bigl(a", r"+ b\bigr)^{2}"]),
    (r"\left[a + b \geq 0\right]", 26, [r"\bigl[a", r"+ b", r"\geq 0\bigr]"]),
    (r"\sqrt{a + b + c}", 26, [r"\bigl(a", "+ b", r"+ c\bigr)^{1/2}"]),
]


@pytest.mark.parametrize(("formula", "room", "expected"), BREAKS)
def test_a_formula_goes_on_where_a_person_would_break_it(formula: str, room: float, expected: list[str]) -> None:
    assert break_formula(formula, room, room) == expected
