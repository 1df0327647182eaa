"""einsum's subscripts: one letter for each axis, and ``...`` for those that have none.

Comes in: a text such as ``"ij,jk->ik"``. Goes out: the letters of each tensor and of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

from symgrad.errors import NotationError, ShapeError


def parse_subscripts(subscripts: str, count: int | None = None) -> tuple[tuple[str, ...], str]:
    """``"ij,jk->ik"`` as ``(("ij", "jk"), "ik")``; without an arrow the output is as einsum has it."""
    text = subscripts.replace(" ", "")
    left, arrow, output = text.partition("->")
    terms = tuple(left.split(","))
    letters = "".join(terms)
    if not arrow:
        output = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if not all(c.isalpha() and c.isascii() for c in letters + output):
        raise NotationError(
            f"einsum subscripts {subscripts!r} may hold letters, commas, one ... each and one ->",
            hints=('"ij,jk->ik"',),
        )
    if len(set(output)) < len(output) or not set(output) <= set(letters):
        raise NotationError(f"einsum output {output!r} must name input letters, each once")
    if count is not None and len(terms) != count:
        raise NotationError(f"einsum has {len(terms)} subscripts for {count} tensors")
    return terms, output


def lettered(subscripts: str, ranks: Sequence[int]) -> str:
    """``"...ij,...jk->...ik"`` with letters for the axes that each ``...`` stands for: the last ones are shared."""
    text = subscripts.replace(" ", "")
    left, arrow, output = text.partition("->")
    terms = left.split(",")
    if "..." not in text or len(terms) != len(ranks):
        return text
    covered = [rank - len(term) + 3 if "..." in term else 0 for term, rank in zip(terms, ranks, strict=True)]
    if min(covered) < 0:
        raise ShapeError(f"einsum subscripts {subscripts!r} name more axes than there are")
    letters = "".join(c for c in ascii_letters if c not in text)[: max(covered)]
    if not arrow:
        output = "..." + "".join(sorted(c for c in set(left) - set(".,") if left.count(c) == 1))
    terms = [t.replace("...", letters[len(letters) - n :], 1) for t, n in zip(terms, covered, strict=True)]
    return f"{','.join(terms)}->{output.replace('...', letters, 1)}"
