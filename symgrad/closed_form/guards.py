"""What a closed form leaves out beside what it divides by, in a sentence each.

Comes in: the rules that led to a form. Goes out: sentences; none where nothing was left out.
"""

from __future__ import annotations

from collections.abc import Collection

DIVIDED = "Where a part of this line divides by 0, that part counts as 0."
OF_LENGTHS = "Where the length is 0, what comes back through it counts as 0, also where this line has 0 / 0."
SENTENCES = {
    "away from zero": DIVIDED,
    "guard": DIVIDED,
    "norm of 0": OF_LENGTHS,
    "without one": "Where a factor is 0 this line divides by 0: the gradient is then the product of the other factors.",
    "above the floor": "This line is for lengths above the floor that keeps them from 0.",
}
"""By the names of rules (`symgrad.closed_form.rewriting.rules`, `symgrad.closed_form.of_programs`)."""
UNGUARDED = frozenset(rule for rule, says in SENTENCES.items() if says in (DIVIDED, OF_LENGTHS))
"""Rules that drop ``[e ≠ 0]`` beside what is divided by e."""


def guards(rules: Collection[str]) -> tuple[str, ...]:
    """One sentence for each kind of guard that was dropped.

    >>> guards(["guard", "away from zero", "mean"])
    ('Where a part of this line divides by 0, that part counts as 0.',)
    """
    return tuple(dict.fromkeys(says for rule, says in SENTENCES.items() if rule in rules))
