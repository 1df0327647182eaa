"""Explanations and formulas as text, Markdown, LaTeX, JSON, HTML and pictures.

`symgrad.render.content` knows what is said, the writers how it looks; they do not know each other. Comes in: an
explanation, or a program and what was derived from it, sizes as symbols, or plans. Goes out: what each writer makes of
its page; JSON, which is data and no page; what notebooks show, in HTML that needs no package. Another format of pages
is one function in `PAGE_WRITERS`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from symgrad.explanation import Explanation, Jacobian, JacobianPlan
from symgrad.explanation.formulas import Derived
from symgrad.language import arguments
from symgrad.notebook import preformatted
from symgrad.program import Program
from symgrad.render.page import Equations, Listing, Page, Picture

__all__ = ["schema", "to_html", "to_json", "write", "write_derivation"]


@dataclass(frozen=True)
class Loaded:
    """A function of this package, ``module.name``, whose module is loaded when it is called."""

    name: str

    def __call__(self, *given: Any, **options: Any) -> Any:
        """What the function makes of it."""
        module, _, function = self.name.rpartition(".")
        return getattr(import_module(f"{__name__}.{module}"), function)(*given, **options)


to_json, to_html, schema = map(Loaded, ("json.to_json", "html.to_html", "json.schema"))
explanation_page: Callable[..., Page] = Loaded("content.explanation_page")
page_text: Callable[..., str] = Loaded("text.page_text")
page_markdown: Callable[..., str] = Loaded("markup.page_markdown")
page_latex: Callable[..., str] = Loaded("markup.page_latex")
matrix_picture: Callable[..., str] = Loaded("jacobian_picture.matrix_picture")
product_picture: Callable[..., str] = Loaded("jacobian_picture.product_picture")
program_picture: Callable[..., str] = Loaded("program_drawing.program_picture")

PAGE_WRITERS: Mapping[str, Callable[..., str]] = {
    "text": page_text, "markdown": page_markdown, "latex": page_latex, "html": Loaded("html.render_page"),
}  # fmt: skip
"""What writes any page; the options of each are its own."""
At = tuple[str, tuple[int, ...]]
"""One entry of an input."""


def to_text(
    explanation: Explanation, *, width: int = 100, color: bool = False, entry: At | None = None, brief: bool = False
) -> str:
    """The explanation for a terminal of ``width`` columns.

    With ``entry``, the story of that one entry; ``brief``, the answer alone.
    """
    columns, colored = arguments.require_count(width, "width"), arguments.require_flag(color, "color")
    return page_text(explanation_page(explanation, entry, brief), width=columns, color=colored)


def to_markdown(explanation: Explanation, *, entry: At | None = None, brief: bool = False) -> str:
    """The explanation as Markdown with LaTeX formulas; ``entry`` and ``brief`` as for text."""
    return page_markdown(explanation_page(explanation, entry, brief))


def to_latex(explanation: Explanation, *, entry: At | None = None, brief: bool = False) -> str:
    """The explanation as a LaTeX fragment; ``entry`` as for text, ``brief`` has formulas where those are short."""
    page = explanation_page(explanation, entry, brief, paper=True)
    said = {row.parts[0].text.partition("[")[0] for b in page.lead if isinstance(b, Equations) for row in b.rows}
    lines = tuple(f"{name}.grad = " for name in explanation.gradients)
    if brief and said >= {f"{name}.grad" for name in explanation.gradients}:  # a paper has no use for lines of code
        page = replace(
            page, lead=tuple(b for b in page.lead if not (isinstance(b, Listing) and b.code.startswith(lines)))
        )
    return page_latex(page)


def write_derivation(
    style: str, program: Program, formulas: Sequence[Derived], *, order: int = 1, remarks: Sequence[str] = (),
    **options: Any,
) -> str:  # fmt: skip
    """Formulas alone, for every size, as `symgrad derive` and the pages about operations show them.

    Of ``order`` 2 with the lines of the second derivatives, and ``remarks`` about the text; as JSON by the schema's
    ``derivation``.
    """
    from symgrad.render.content import derivation_page, derive_lines

    if style == "json":
        from symgrad.render.json import derived_data, dumped

        return dumped(derived_data(program, formulas, derive_lines(program, formulas)[1]))
    return PAGE_WRITERS[style](derivation_page(program, formulas, order, remarks), **options)


def plans_text(expression: str, plans: Sequence[JacobianPlan], assumed: Sequence[str]) -> str:
    """For a terminal."""
    parts = [plan.to_text() for plan in plans]
    if assumed:
        parts.append(f"Assumed: {'; '.join(assumed)}.")
    return "\n\n".join(parts)


def plans_json(expression: str, plans: Sequence[JacobianPlan], assumed: Sequence[str]) -> str:
    """As JSON."""
    from symgrad.render.json import VERSION, dumped

    return dumped({
        "kind": "plans", "schema": VERSION, "expression": expression, "assumptions": list(assumed),
        "plans": [plan.as_dict() for plan in plans],
    })  # fmt: skip


def explanation_html(explanation: Explanation) -> str:
    """The answer, the picture, and the whole story folded away."""
    return (
        f"{preformatted(to_text(explanation, brief=True))}{image_tag(product_picture(explanation))}"
        f"<details><summary>step by step</summary>{preformatted(to_text(explanation))}</details>"
    )


def jacobian_in(jacobian: Jacobian, style: str) -> str:
    """∂out/∂x in one of ``notebook``, ``markdown``, ``latex`` and ``svg``."""
    if style == "svg":
        return matrix_picture(jacobian)
    if style == "notebook":
        return image_tag(matrix_picture(jacobian))
    from symgrad.render.content.jacobian_matrix import jacobian_blocks
    from symgrad.render.content.teller import teller_of
    from symgrad.render.markup import LATEX_PAGE, MARKDOWN

    blocks = tuple(jacobian_blocks(teller_of(jacobian.program), jacobian))
    return "\n\n".join((MARKDOWN if style == "markdown" else LATEX_PAGE).blocks(blocks))


def image_tag(svg: str) -> str:
    """A picture with its words; an image, so that its style stays its own."""
    from html import escape

    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{escape(Picture("", svg).alt)}" src="data:image/svg+xml;base64,{data}">'


def picture(explanation: Explanation, name: str | None = None, *, program: bool = False) -> str:
    """The product by one input, or the program and what flows back through it."""
    return program_picture(explanation) if program else product_picture(explanation, name)


STYLES: Mapping[str, Callable[..., str]] = {
    "text": to_text, "markdown": to_markdown, "latex": to_latex, "json": to_json, "svg": picture, "html": to_html,
    "notebook": explanation_html,
}  # fmt: skip


def write(found: Explanation | Jacobian, style: str, *given: Any, **options: Any) -> str:
    """What `symgrad.explanation` is handed, because it does not know its renderers."""
    return jacobian_in(found, style) if isinstance(found, Jacobian) else STYLES[style](found, *given, **options)
