"""Index equations in matrix notation: Σ_k v[p,k]·a[q,k] is ``v @ a.T``.

Comes in: a derived gradient formula and the program it belongs to. Goes out: the text a person would write,
in torch's syntax, or None where there is none. The text is a claim until it has been evaluated and compared
with the raw contraction (`symgrad.oracles.forms`).
"""

from symgrad.closed_form.batches import closed_form_of
from symgrad.closed_form.form import Form, assigned, closed_form, masked_form
from symgrad.closed_form.guards import DIVIDED, UNGUARDED, guards
from symgrad.closed_form.lowering import condition_text, grid, lowered
from symgrad.closed_form.texts.decimals import one_over, without_plus

__all__ = [
    "DIVIDED", "UNGUARDED", "Form", "assigned", "closed_form", "closed_form_of", "condition_text", "grid",
    "guards", "lowered", "masked_form", "one_over", "without_plus",
]  # fmt: skip
