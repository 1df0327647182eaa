r"""The display of texts in notebooks: preformatted in HTML, code in Markdown, line by line in LaTeX.

Comes in: an object whose ``str`` is its report. Goes out: the three forms that Jupyter requests.
"""

from __future__ import annotations

SPELLED = {
    "\\": r"\backslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\hat{}", "~": r"\sim{}",
}  # fmt: skip
MOST_LINES = 400


def preformatted(text: str) -> str:
    """Text in HTML as it stands; a notebook's own style has no letters of one width for it."""
    from html import escape

    return f'<pre style="font-family:monospace;line-height:1.35">{escape(text)}</pre>'


class Listed:
    """Shown in notebooks as ``str`` has it, in the letters of code."""

    def _repr_html_(self) -> str:
        return preformatted(self._listing())

    def _repr_markdown_(self) -> str:
        return f"```text\n{self._listing()}\n```"

    def _repr_latex_(self) -> str:
        lines = [
            f"\\texttt{{{''.join(SPELLED.get(sign, sign) for sign in line).replace(' ', '~')}}}"
            for line in self._listing().splitlines()
        ]
        body = " \\\\\n".join(lines)
        return f"$$\\begin{{array}}{{l}}\n{body}\n\\end{{array}}$$"

    def _listing(self) -> str:
        """The text, cut where it would fill a notebook."""
        lines = str(self).splitlines()
        more = [f"… {len(lines) - MOST_LINES:,} more lines"] if len(lines) > MOST_LINES else []
        return "\n".join([*lines[:MOST_LINES], *more])
