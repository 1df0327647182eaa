"""The Sphinx extension in somebody else's documentation: what it shows, and that what is not true ends the build."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from sphinx.errors import SphinxError
from sphinx.testing.util import SphinxTestApp
from sphinx.util.docutils import docutils_namespace

from symgrad import Check, UnsupportedError, tracing
from symgrad.explanation import proofs
from symgrad.ops import TABLE
from symgrad.oracles.numerical import check_adjoint
from symgrad.sphinx.page_claims import UntrueError
from tests.browser import browser
from tests.rows import instead

LATEX = shutil.which("pdflatex") and shutil.which("kpsewhich") and not subprocess.run(
    ["kpsewhich", "fncychap.sty", "tabulary.sty"], capture_output=True, check=False
).returncode  # fmt: skip
CONF = 'project = "foreign"\nextensions = ["myst_parser", "symgrad.sphinx"]\nhtml_math_renderer = "symgrad_mathml"\n'
TRUE = {
    "index.rst": """
Foreign
=======

.. toctree::

   page
   relu

The product: :symgrad:`x@a -> x.grad = v @ a.T`.

.. symgrad:: x@a
   :seed: [[1,2,3,4],[5,6,7,8]]
   :show: answer equation jacobian picture seed backward entries proof text
   :claims: x.grad = v @ a.T
            x.grad = [[10,10,10],[26,26,26]]
            out = [[3,3,3,3],[3,3,3,3]]
            x.jacobian = 8×6
   :says: Equal to torch

.. symgrad:: x@a
   :let: x=[[1,2]]
         a=[[1,2,3]]
   :raises: shape

.. symgrad:: relu(x@w)
   :wrt: x
   :show: backward
""",
    "page.md": """
# A page

Inline: {symgrad}`softmax(x)`.

```{symgrad} x*y
:let: x=[0.5,2]; y=[1,3]
:seed: [1,1]
:wrt: x
:order: 2
:show: second all
:claims: x.grad = [1.0,3.0]
```

```{symgrad-run}
:says: L = out[0] + out[1]
import torch
x = torch.ones(2, requires_grad=True)
(x * 2).backward(torch.ones(2))
```

```{symgrad-python}
:raises: grad can be implicitly created only for scalar outputs
:says: tensor(4.)
import torch
x = torch.ones(2, requires_grad=True)
print((x * 2).sum().detach())
(x * 2).backward()
```

```{symgrad-stamp}
```
""",
    "relu.md": "# relu\n\n```{symgrad-operation} relu\n```\n\n```{symgrad-operations}\n:by: structure\n```\n",
}


def project(
    folder: Path, pages: Mapping[str, str], builder: str = "html", settings: str = "", fresh: bool = True
) -> SphinxTestApp:
    """Somebody's documentation, read and written; ``fresh=False`` keeps what an earlier build read."""
    (folder / "conf.py").write_text(CONF + settings, encoding="utf-8")
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    with docutils_namespace():  # what Sphinx registers goes again, also where the build of a page raises
        app = SphinxTestApp(builder, srcdir=folder, freshenv=fresh)
        try:
            app.build()
        finally:
            app.cleanup()
    return app


def words_of(path: Path) -> str:
    """What a reader of a page reads."""
    return " ".join(unescape(re.sub(r"</?(?:span|strong)\b[^>]*>", "", path.read_text(encoding="utf-8"))).split())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of a project in which all is true, in reST and in MyST."""
    folder = tmp_path_factory.mktemp("foreign")
    app = project(folder, TRUE)
    assert app.warning.getvalue() == ""
    return Path(app.outdir)


@pytest.mark.slow
@pytest.mark.xdist_group("sphinx")
def test_an_expression_in_rest_shows_its_parts(built: Path) -> None:
    page = words_of(built / "index.html")
    assert page.count("x.grad = v @ a.T") >= 3
    assert page.index("out = x@a") < page.index("Equal to torch")
    for said in ("Equal to torch", "10 10 10", "added up: vᵀJ", "error[shape]", "∂", "equal"):
        assert said in page
    assert len(re.findall(r"<svg [^>]*role=\"img\"", page)) == 1
    assert "<math" in page
    assert "mathjax" not in page.lower()


@pytest.mark.xdist_group("sphinx")
def test_a_part_alone_says_what_its_own_signs_mean(built: Path) -> None:
    alone = words_of(built / "index.html").partition("Lay ")[2].rpartition("Lay ")[2]
    assert "is 1 where the condition holds and 0 elsewhere" in alone
    assert "δ leaves only" not in alone  # J, in which it stands, is not shown


@pytest.mark.xdist_group("sphinx")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["avg_pool3d", "complex_cos"])
def test_a_column_of_text_holds_its_formulas(name: str, tmp_path: Path) -> None:
    pages = {"index.md": f"# Wide\n\n```{{symgrad-operation}} {name}\n```\n"}
    app = project(tmp_path, pages, settings='html_theme = "furo"\n')
    with browser() as chromium:
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.goto((Path(app.outdir) / "index.html").as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(folded => { folded.open = true; })")
        wide = "[...document.querySelectorAll('.symgrad-formula')].filter(it => it.scrollWidth > it.clientWidth).length"
        assert page.evaluate(wide) == 0
        page.emulate_media(media="print")
        assert not page.locator(".skip-to-content").is_visible()  # furo's, at the foot of every sheet of paper


@pytest.mark.xdist_group("sphinx")
def test_a_page_in_myst_runs_what_it_shows(built: Path) -> None:
    page = words_of(built / "page.html")
    assert "out * (v - (v * out).sum(-1, keepdim=True))" in page
    assert "L = out[0] + out[1]" in page
    assert "RuntimeError: grad can be implicitly created only for scalar outputs" in page
    assert re.search(r"symgrad \d[\d.]*, torch \d", page)


@pytest.mark.xdist_group("sphinx")
def test_what_is_shown_twice_is_proven_once(tmp_path: Path) -> None:
    """The story of an entry ends with the proof, where the page has not asked for it anyway."""
    for show in ("entries", "entries proof", "proof", "proof entries"):
        folder = tmp_path / show.replace(" ", "_")
        folder.mkdir()
        project(folder, {"index.md": f"# Index\n\n```{{symgrad}} x*y\n:show: {show}\n```\n"})
        page = words_of(folder / "_build" / "html" / "index.html")
        assert page.count("compared with") == 1, show


@pytest.mark.xdist_group("sphinx")
def test_an_operation_has_its_answer_on_top_and_stands_in_the_index(built: Path) -> None:
    page = words_of(built / "relu.html")
    assert page.index("symgrad-answer") < page.index("The second derivative") < page.index("<details")
    assert "threshold_backward(grad, result, 0)" in page
    assert 'href="#"><code' in page


@pytest.mark.xdist_group("sphinx")
@pytest.mark.slow
def test_what_is_python_keeps_its_quotation_marks(tmp_path: Path) -> None:
    entry = TABLE["interpolate"]
    with instead(replace(entry, examples=entry.examples[:1])):  # each is a section, which takes seconds
        app = project(tmp_path, {"index.md": "# interpolate\n\n```{symgrad-operation} interpolate\n```\n"})
    page = words_of(Path(app.outdir) / "index.html")
    assert "Not with x 2×3: mode='bilinear' takes a batch axis" in page
    assert not re.search("[‘’“”]", page)
    index = (Path(app.outdir) / "searchindex.js").read_text(encoding="utf-8")
    terms = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))["terms"]
    assert "upsampl" in terms  # its other spelling, as the search of Sphinx keeps words
    assert "derivatives.yaml" in page  # in a part that is folded
    assert "yaml" not in terms


@pytest.mark.xdist_group("sphinx")
def test_ids_of_pictures_are_their_own(built: Path) -> None:
    for page in built.glob("*.html"):
        found = re.findall(r'\sid="(symgrad-[^"]+)"', page.read_text(encoding="utf-8"))
        assert len(found) == len(set(found))


UNTRUE = {
    "a closed form": ("```{symgrad} x@a\n:claims: x.grad = a @ v\n```", "x.grad = a @ v: it is v @ a.T"),
    "a value": ("```{symgrad} x*x\n:let: x=[1,2]\n:claims: x.grad = [2,5]\n```", "it is [2, 4]"),
    "a rounded value": ("```{symgrad} exp(x)\n:let: x=[1]\n:claims: x.grad = [2.71]\n```", "it is [2.718281828459045]"),
    "a size": ("```{symgrad} x@a\n:claims: x.jacobian = 6×8\n```", "x.jacobian = 6×8"),
    "no claim": ("```{symgrad} x@a\n:claims: y.grad = v\n```", "y.grad = v: this is not a claim about x@a"),
    "a sentence": (
        "```{symgrad} x@a\n:says: J is a permutation\n```",
        "J is a permutation: the page does not say this",
    ),
    "a refusal": ("```{symgrad} x@a\n:raises: shape\n```", "x@a raises no error, and :raises: expects one"),
    "what is refused": ("```{symgrad} nosuch(x)\n```", "error[name]"),
    "the role": ("{symgrad}`x@a -> x.grad = a @ v`", "x.grad = a @ v is claimed"),
    "an operation": ("```{symgrad-operation} nosuch\n```", "there is no operation nosuch"),
    "a snippet that fails": ("```{symgrad-python}\n1/0\n```", "it ends in ZeroDivisionError: division by zero"),
    "one that does not": ("```{symgrad-python}\n:raises: ZeroDivisionError\n1\n```", "it ends in no exception"),
    "a fence that MyST does not read": (":::{symgrad} x@a\n:show: answer\n:::", "x@a was not read: use ```"),
    "what a script is told": ("```{symgrad-run}\n:says: nothing like it\nprint()\n```", "nothing like it"),
}
"""By what is wrong: a page, and the sentence that ends its build."""


@pytest.mark.slow
@pytest.mark.xdist_group("sphinx")
def test_every_claim_that_is_not_true_ends_the_build(tmp_path: Path) -> None:
    pages = {f"page{n}.md": f"# Page\n\n{text}\n" for n, (text, _) in enumerate(UNTRUE.values())}
    pages["index.md"] = "# Index\n\n```{toctree}\n:glob:\n\npage*\n```\n"
    with pytest.raises(UntrueError) as raised:
        project(tmp_path, pages)
    told = str(raised.value)
    assert told.startswith(f"{len(UNTRUE)} claims are not true")
    for number, (what, (_, sentence)) in enumerate(UNTRUE.items()):
        assert f"page{number}.md:" in told, what
        assert sentence in told, what
    assert not list((tmp_path / "_build").rglob("page*.html"))
    with pytest.raises(SphinxError, match="claims are not true"):  # what was read is not taken for true
        project(tmp_path, {}, fresh=False)


@pytest.mark.xdist_group("sphinx")
def test_an_oracle_that_disagrees_ends_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(*arguments: object) -> Check:
        """An oracle of another mind."""
        return replace(check_adjoint(*arguments), passed=False)

    monkeypatch.setattr(proofs, "check_adjoint", other)
    with pytest.raises(UntrueError, match=r"x\.grad disagrees with ⟨v, J u⟩"):
        project(tmp_path, {"index.md": "# Index\n\n```{symgrad} x*x\n:let: x=[1,2]\n```\n"})


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder that a builder wrote the true project into; each builds once."""
    made: dict[str, Path] = {}

    def written(builder: str) -> Path:
        if builder not in made:
            app = project(tmp_path_factory.mktemp(builder), TRUE, builder)
            assert app.warning.getvalue() == ""
            made[builder] = Path(app.outdir)
        return made[builder]

    return written


@pytest.mark.xdist_group("sphinx")
@pytest.mark.parametrize("builder", ["text", *(pytest.param(b, marks=pytest.mark.slow) for b in ("man", "texinfo"))])
def test_builders_without_formulas_have_the_lines_of_the_terminal(
    builder: str, elsewhere: Callable[[str], Path]
) -> None:
    folder = elsewhere(builder)
    page = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*")) if path.is_file())
    assert "J is 8 by 6, 24 of 48 entries can be nonzero" in " ".join(page.split())  # the picture
    assert "out[0,0]   a00  a10  a20 │   ·    ·    ·" in page
    assert "∂out[i,k]/∂x[p,q] = δ_ip·a[q,k]" in page
    assert "L = Σ v∘out" in page
    assert not re.search(r"\\(?:mathrm|sum|frac|delta)\b", page)
    if builder == "text":
        assert "| SymPy, every entry of J" in page  # a table's columns are as wide as what they hold


@pytest.mark.xdist_group("sphinx")
@pytest.mark.slow
@pytest.mark.skipif(not LATEX, reason="no pdflatex with Sphinx's packages (Debian: texlive-latex-extra)")
def test_a_pdf_is_set_with_every_sign(elsewhere: Callable[[str], Path]) -> None:
    folder = elsewhere("latex")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "-no-shell-escape", "foreign.tex"]
    subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=300)
    log = (folder / "foreign.log").read_text(encoding="utf-8", errors="replace")
    assert (folder / "foreign.pdf").is_file(), "\n".join(re.findall(r"^!.*\n(?:.*\n){3}", log, re.MULTILINE))
    assert "Missing character" not in log


@pytest.mark.xdist_group("sphinx")
def test_what_cannot_run_here_is_told_with_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise UnsupportedError("PyTorch is not installed")

    monkeypatch.setattr(tracing, "run_script", missing)
    with pytest.raises(UntrueError, match=r"(?s)index\.md:3.*PyTorch is not installed.*claimed"):
        project(tmp_path, {"index.md": "# Index\n\n```{symgrad-run}\nx = 1\n```\n\n{symgrad}`x@a -> x.grad = a`\n"})
