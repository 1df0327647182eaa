"""What notebooks show: an explanation as its answer and its picture, a Jacobian as a picture and as a matrix.

Comes in: an explanation or a Jacobian. Goes out: HTML that needs no package, Markdown or LaTeX. Pictures are images, so
that their style stays theirs.
"""

from __future__ import annotations

import base64
from html import escape
from xml.etree import ElementTree

from symgrad.explanation import Explanation, Jacobian
from symgrad.notebook import preformatted
from symgrad.render.content.jacobian import jacobian_blocks
from symgrad.render.content.teller import teller_of
from symgrad.render.latex import blocks as latex_blocks
from symgrad.render.markdown import blocks as markdown_blocks
from symgrad.render.picture import matrix_picture, product_picture
from symgrad.render.writers import to_text


def explanation_html(explanation: Explanation) -> str:
    """The answer, the picture, and the whole story folded away."""
    return (
        f"{preformatted(to_text(explanation, brief=True))}{image(product_picture(explanation))}"
        f"<details><summary>step by step</summary>{preformatted(to_text(explanation))}</details>"
    )


def jacobian_in(jacobian: Jacobian, style: str) -> str:
    """∂out/∂x in one of ``html``, ``markdown``, ``latex`` and ``svg``."""
    if style == "svg":
        return matrix_picture(jacobian)
    if style == "html":
        return image(matrix_picture(jacobian))
    blocks = tuple(jacobian_blocks(teller_of(jacobian.program), jacobian))
    return "\n\n".join(markdown_blocks(blocks) if style == "markdown" else latex_blocks(blocks))


def image(svg: str) -> str:
    """A picture with its words."""
    told = ElementTree.fromstring(svg).findtext("{http://www.w3.org/2000/svg}desc") or ""
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{escape(told)}" src="data:image/svg+xml;base64,{data}">'
