"""The forms that an explanation is written in: each a method that hands it to its writer.

Comes in: what has ``writers``, handed in from above. Goes out: text, Markdown, LaTeX, JSON, SVG, HTML, and what
notebooks ask for.
"""

from __future__ import annotations

from typing import Any

from symgrad.errors import bug
from symgrad.explanation.given import Writers
from symgrad.language.outside import arguments


def written_by(writers: Writers | None) -> Writers:
    """The writers, which only what is built beside the public functions lacks."""
    if writers is None:
        raise bug("an explanation without writers")
    return writers


class Written:
    """What can be written; the class that inherits it has the field ``writers``."""

    writers: Writers | None

    def to_text(self, **options: Any) -> str:
        """For a terminal; ``width``, ``color`` and ``entry`` as `symgrad.render.to_text` takes them."""
        return self._writers.text(self, **options)

    def to_markdown(self, **options: Any) -> str:
        """As Markdown with LaTeX formulas."""
        return self._writers.markdown(self, **options)

    def to_latex(self, **options: Any) -> str:
        """As a LaTeX fragment."""
        return self._writers.latex(self, **options)

    def to_json(self, **options: Any) -> str:
        """As JSON, by the schema in ``docs/reference/json.md``."""
        return self._writers.json(self, **options)

    def to_svg(self, wrt: str | None = None, *, program: bool = False) -> str:
        """v × J = vᵀJ as a picture, for the input ``wrt`` (the first one by default), with one column's sum.

        With ``program``, the steps instead, and how long the cotangent is that comes back on each way.
        """
        name = None if wrt is None else arguments.name_of(wrt, "wrt")
        return self._writers.svg(self, name, program=arguments.flag_of(program, "program"))

    def to_html(self, **options: Any) -> str:
        """As a page for a browser, in one file, whose numbers can be edited; needs ``symgrad[pages]``."""
        return self._writers.html(self, **options)

    def _repr_html_(self) -> str:
        return self._writers.notebook(self)

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def _repr_latex_(self) -> str:
        return self.to_latex()

    @property
    def _writers(self) -> Writers:
        return written_by(self.writers)
