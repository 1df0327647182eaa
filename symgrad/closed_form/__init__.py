"""Index equations in matrix notation: Σ_k v[p,k]·a[q,k] is ``v @ a.T``.

Comes in: a derived gradient formula and the program it belongs to. Goes out: the text a person would write, in torch's
syntax, or None where there is none, and a sentence for each thing that it leaves out beside what it divides by. The
text is a claim until it has been evaluated and compared with the raw contraction (`symgrad.oracles.forms`).

An axis of one entry is written as one of any number: a batch of one is a batch.

    v * x[0][:, None]      →  x.T @ v
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from symgrad.calculus import Sweep
from symgrad.closed_form.form import Form, derive_closed_form
from symgrad.language.expand import open_unit_axes
from symgrad.program import Program

LEFT = ("[0]", "None", ".expand(", "einsum(", ".shape[")
"""What an axis of one entry leaves in a form."""
SHORT = 56
"""A form of so many characters in which nothing is left is taken as it is."""


def find_closed_form(program: Program, wanted: str, sweep_of: Callable[[Program], Sweep]) -> Form | None:
    """The gradient by ``wanted`` in matrix notation, however many entries its axes of one have; None without one."""
    own = derive_closed_form(program, sweep_of(program), wanted)
    if own is not None and len(own.text) <= SHORT and not any(sign in own.text for sign in LEFT):
        return own
    wide = open_unit_axes(program)
    other = None if wide is None else derive_closed_form(wide, sweep_of(wide), wanted)
    forms = [form for form in (other, own) if form is not None]
    return min(forms, key=lambda form: form.code.measure, default=None)


DIVIDED = "Where a term of this line divides by 0, that term counts as 0."
OF_LENGTHS = "Where the norm is 0, its gradient counts as 0, also where this line has 0 / 0."
SENTENCES = {
    "away from zero": DIVIDED,
    "norm of 0": OF_LENGTHS,
    "without one": "Where a factor is 0 this line divides by 0: the gradient is then the product of the other factors.",
    "above the floor": "This line is for norms above eps, the floor that keeps them away from 0.",
}
"""By the names of rules (`symgrad.closed_form.rewriting`, `symgrad.closed_form.program_facts`)."""
UNGUARDED = frozenset(rule for rule, says in SENTENCES.items() if says in (DIVIDED, OF_LENGTHS))
"""Rules that drop ``[e ≠ 0]`` beside what is divided by e."""


def describe_dropped_guards(rules: Collection[str]) -> tuple[str, ...]:
    """One sentence for each kind of guard that was dropped.

    >>> describe_dropped_guards(["away from zero", "mean"])
    ('Where a term of this line divides by 0, that term counts as 0.',)
    """
    return tuple(dict.fromkeys(says for rule, says in SENTENCES.items() if rule in rules))
