"""A Sphinx extension: explanations in anybody's documentation, derived and proven while the page is built.

    extensions = ["myst_parser", "symgrad.sphinx"]

The directive ``symgrad`` shows an expression, ``symgrad-run`` what `symgrad run` tells of a script and
``symgrad-python`` what a snippet prints (`symgrad.sphinx.directives`), ``symgrad-operation`` an entry of the table
(`symgrad.sphinx.operations`); the role ``symgrad`` is a closed form in a sentence. What a page claims is held against
what was derived: a build with a claim that is not true fails (`symgrad.sphinx.page_claims`). It works with every parser
and builder of Sphinx. ``html_math_renderer = "symgrad_mathml"`` sets formulas as MathML, without a script or a network.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import sphinx.application  # noqa: F401 -- asked for here, so that its absence is said in our words
except ImportError as missing:
    raise ImportError('symgrad.sphinx needs Sphinx: pip install "symgrad[docs]"') from missing

import symgrad
from symgrad.sphinx.directives import ClosedFormRole, ExpressionDirective, PythonDirective, RunDirective, StampDirective
from symgrad.sphinx.nodes import block_formula, do_nothing, for_the_builder, inline_formula, name_signs, visitors
from symgrad.sphinx.operations import OperationDirective, OperationsDirective, fill_in, listing
from symgrad.sphinx.page_claims import (
    fail_if_untrue,
    find_unread_directives,
    forget_page,
    merge_records,
    pages_to_reread,
)

if TYPE_CHECKING:
    from sphinx.application import Sphinx

STYLE = "symgrad.css"


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    passed = (do_nothing, do_nothing)
    for node, visit in visitors.items():
        app.add_node(node, html=visit, latex=passed, text=passed, man=passed, texinfo=passed)
    app.add_node(listing)
    app.add_directive("symgrad", ExpressionDirective)
    app.add_directive("symgrad-run", RunDirective)
    app.add_directive("symgrad-python", PythonDirective)
    app.add_directive("symgrad-stamp", StampDirective)
    app.add_directive("symgrad-operation", OperationDirective)
    app.add_directive("symgrad-operations", OperationsDirective)
    app.add_role("symgrad", ClosedFormRole())
    app.add_html_math_renderer("symgrad_mathml", inline_formula, block_formula)
    app.connect("config-inited", name_signs)
    app.connect("env-get-outdated", pages_to_reread)
    app.connect("env-purge-doc", forget_page)
    app.connect("doctree-read", find_unread_directives)
    app.connect("env-merge-info", merge_records)
    app.connect("env-check-consistency", fail_if_untrue)
    app.connect("doctree-resolved", fill_in)
    app.connect("doctree-resolved", for_the_builder)
    app.connect("builder-inited", lambda app: app.config.html_static_path.append(str(Path(__file__).parent / "static")))
    app.add_css_file(STYLE)
    return {"version": symgrad.__version__, "parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
