"""Plans of Jacobians, as `symgrad plan` shows them.

Comes in: the plans, and what was assumed about sizes. Goes out: text or JSON (the schema's ``plans``).
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.explanation import JacobianPlan
from symgrad.render.json import VERSION, dumped


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
