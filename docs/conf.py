"""Our own site: ``python -m sphinx -W -n -j 2 docs docs/_build/html``.

The book of operations is built, not kept: a page of three lines is written for every entry of the table, and its
content comes from the directive ``symgrad-operation``. Nothing is fetched: formulas are MathML, pictures are inline.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import symgrad

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "symgrad"
author = "The symgrad authors"
copyright = "the symgrad authors, BSD-3-Clause"
version = release = symgrad.__version__

extensions = ["sphinx.ext.autodoc", "sphinx_click", "myst_nb", "symgrad.sphinx", "book", "held", "whole"]
exclude_patterns = ["_build", "**.ipynb_checkpoints", "jupyter_execute"]
html_theme = "furo"
html_title = f"symgrad {symgrad.__version__}"
html_math_renderer = "symgrad_mathml"
smartquotes = False  # --let is no dash, and "x@a" has no quotes of books: people copy both
html_copy_source = False
html_show_sourcelink = False
html_search_scorer = str(HERE / "search.js")  # the page of a question stands before pages that hold the same words
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2f5f93", "color-brand-content": "#2f5f93"},
    "dark_css_variables": {"color-brand-primary": "#7fb2e5", "color-brand-content": "#7fb2e5"},
}
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 240
nb_merge_streams = True  # a slow machine sends the end of a line apart from it
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
nitpick_ignore_regex = [("py:.*", r"(collections|numpy|sympy)\..*")]  # their documentation is not here to be linked to
nitpick_ignore = [  # stages of the derivation: they stand in signatures, and are no part of the interface
    ("py:class", f"symgrad.{inside}")
    for inside in (
        "program.Program", "indexing.symbols.Index", "indexing.equation.Equation", "calculus.reverse_sweep.Sweep",
        "calculus.differentiate.Rewrite", "numeric.forward_pass.Values", "explanation.claims.Claim",
        "explanation.kinks.Tie",
        "entries.spec.Op", "oracles.forms.Dropped",
        "explanation.singular.Singular", "explanation.given.Writers", "backward.line_data.LineOrigin",
        "backward.line_templates.ProgramForm", "errors.Setting", "notation.tree.SyntaxNode",
    )
]  # fmt: skip
suppress_warnings = ["config.cache"]  # the table of a theme's options cannot be pickled, and need not be


def folded(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Beside a page stands its own branch of the tree, the others folded: all of it took half the time."""
    whole = context.get("toctree")
    if whole is not None:
        context["toctree"] = lambda **options: whole(**options | {"collapse": True})


def as_typed(app: Any, context: Any, lines: list[str]) -> None:
    """What a command's help ends with, as a block: people copy its commands, and its columns are columns."""
    epilog = (context.command.epilog or "").replace("\b\n", "").strip("\n")
    lines[:] = [".. code-block:: text", "", *(f"   {line}" for line in epilog.splitlines()), ""] if epilog else []


ACCESSIBLE = """addEventListener("load", () => {
  for (const caption of document.querySelectorAll(".caption[role=heading]")) caption.ariaLevel = 2;
  for (const [part, name] of [[".sidebar-drawer", "All pages"], [".toc-drawer", "This page"]])
    document.querySelector(part)?.setAttribute("aria-label", name);
  const reach = () => { for (const part of document.querySelectorAll("pre, .table-wrapper"))
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0; else part.removeAttribute("tabindex"); };
  addEventListener("resize", reach); reach();
});"""
"""What Sphinx and furo leave out: levels of headings, names of the two sides, code and tables that keys can scroll."""


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.add_js_file(None, body=ACCESSIBLE)
    app.connect("sphinx-click-process-epilog", as_typed)
    app.connect("html-page-context", folded, priority=400)  # before the theme asks for the tree
