"""What an author claims of an explanation, held against it: sentences, closed forms, values, shapes of Jacobians.

Comes in: text of a page, or an explanation, and claims. Goes out: a sentence for each that does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from symgrad.closed_form import assigned
from symgrad.errors import SymgradError
from symgrad.explanation import Explanation
from symgrad.language import literal
from symgrad.numeric import Array, as_float

SHAPE = re.compile(r"(\d+)\s*[×x]\s*(\d+)")


def unsaid(page: str, sentences: Iterable[str]) -> Iterator[str]:
    r"""The sentences that a page does not hold; how its lines are broken does not count.

    >>> list(unsaid("x.grad = v\n  @ a.T", ["v @ a.T", "a.T @ v"]))
    ['a.T @ v: this is not said']
    """
    whole = " ".join(page.split())
    for sentence in sentences:
        if " ".join(sentence.split()) not in whole:
            yield f"{sentence}: this is not said"


def unclaimed(story: Explanation, claims: Iterable[str]) -> Iterator[str]:
    """The claims that do not hold: ``x.grad = …`` a closed form or a value, ``out = …``, ``x.jacobian = 8×6``."""
    for claim in claims:
        left, equals, right = (part.strip() for part in claim.partition("="))
        name, _, what = left.partition(".")
        if not equals or (what and name not in story.gradients) or what not in ("", "grad", "jacobian"):
            yield f"{claim}: this is no claim about {story.expression}"
        elif what == "jacobian":
            rows, columns = story.gradients[name].jacobian.shape
            found = SHAPE.fullmatch(right)
            if found is None or (int(found[1]), int(found[2])) != (rows, columns):
                yield f"{claim}: it is {rows}×{columns}"
        else:
            value = story.gradients[name].value if what else story.output
            form = story.gradients[name].closed_form if what else None
            if right not in (form, *(line.partition(" = ")[2] for line in assigned(left, form or ""))):
                yield from unequal(claim, right, value, form)


def unequal(claim: str, text: str, value: Array, form: str | None) -> Iterator[str]:
    """Nothing where ``text`` is ``value``, to the digits that it is written with."""
    try:
        stated = as_float(literal(text).array(value.shape))
    except SymgradError:
        yield f"{claim}: it is {form or 'an index formula'}"
        return
    digits = max((len(n.partition(".")[2]) for n in re.findall(r"\d+\.?\d*", text)), default=0)
    room = 0.0 if digits == 0 and value.dtype != np.float64 else 0.5 * 10.0**-digits + 1e-12
    if not bool(np.all(np.abs(stated - as_float(value)) <= room)):
        yield f"{claim}: it is {np.asarray(value).tolist()}"
