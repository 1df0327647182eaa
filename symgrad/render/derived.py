"""Formulas alone, as `symgrad derive` and the pages about operations show them: sizes are symbols.

Comes in: a program and what was derived from it. Goes out: text, Markdown, LaTeX or JSON.

Plans of Jacobians, as `symgrad plan` shows them.

Comes in: the plans, and what was assumed about sizes. Goes out: text or JSON (the schema's ``plans``).
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.explanation import JacobianPlan
from symgrad.explanation.formulas import Derived
from symgrad.program import Program
from symgrad.render.content import derivation_page
from symgrad.render.json import VERSION, derived_data, dumped
from symgrad.render.latex import page_latex
from symgrad.render.markdown import page_markdown
from symgrad.render.text import page_text


def derived_text(
    program: Program, derived: Sequence[Derived], *, width: int = 100, color: bool = False, order: int = 1
) -> str:
    """For a terminal; of ``order`` 2 with the lines of the second derivatives."""
    return page_text(derivation_page(program, derived, order), width=width, color=color)


def derived_markdown(
    program: Program, derived: Sequence[Derived], *, level: int = 2, title: bool = True, order: int = 1
) -> str:
    """As Markdown; its sections are headings of ``level``, for a page of its own or under another heading."""
    return page_markdown(derivation_page(program, derived, order), level=level, title=title)


def derived_latex(program: Program, derived: Sequence[Derived], *, order: int = 1) -> str:
    """As a LaTeX fragment."""
    return page_latex(derivation_page(program, derived, order))


def derived_json(program: Program, derived: Sequence[Derived]) -> str:
    """As JSON, by the schema's ``derivation``."""
    return dumped(derived_data(program, derived))


def plans_text(expression: str, plans: Sequence[JacobianPlan], assumed: Sequence[str]) -> str:
    """For a terminal."""
    parts = [plan.to_text() for plan in plans]
    if assumed:
        parts.append(f"Assumed: {'; '.join(assumed)}.")
    return "\n\n".join(parts)


def plans_json(expression: str, plans: Sequence[JacobianPlan], assumed: Sequence[str]) -> str:
    """As JSON."""
    return dumped({
        "kind": "plans", "schema": VERSION, "expression": expression, "assumptions": list(assumed),
        "plans": [plan.as_dict() for plan in plans],
    })  # fmt: skip
