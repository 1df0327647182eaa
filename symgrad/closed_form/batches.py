"""The closed form for axes of one entry, as it reads for any number of entries: a batch of one is a batch.

Comes in: a program and how it is swept back. Goes out: the shorter of two forms, both of which hold: that of the
program as it is, and that of the same program with open sizes where it has 1.

    v * x[0][:, None]      →  x.T @ v
"""

from __future__ import annotations

from collections.abc import Callable

from symgrad.calculus import Sweep
from symgrad.closed_form.form import Form, closed_form
from symgrad.language.expand import open_ones
from symgrad.program import Program

LEFT = ("[0]", "None", ".expand(", "einsum(", ".shape[")
"""What an axis of one entry leaves in a form."""
SHORT = 56
"""A form of so many characters in which nothing is left is taken as it is."""


def closed_form_of(program: Program, wanted: str, sweep_of: Callable[[Program], Sweep]) -> Form | None:
    """The gradient by ``wanted`` in matrix notation, however many entries its axes of one have; None without one."""
    own = closed_form(program, sweep_of(program), wanted)
    if own is not None and len(own.text) <= SHORT and not any(sign in own.text for sign in LEFT):
        return own
    wide = open_ones(program)
    other = None if wide is None else closed_form(wide, sweep_of(wide), wanted)
    return min((form for form in (other, own) if form is not None), key=long, default=None)


def long(form: Form) -> int:
    """The length of a form, where the one entry of an axis is taken as if it were added up."""
    return len(form.text.replace("[0]", ".sum(0)"))
