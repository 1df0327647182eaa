"""The page about kinks: every point of the table where the derivative is a choice, and who chooses what.

Comes in: operations. Goes out: a `Page`, each row computed when it is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from symgrad.documents.pages import Page
from symgrad.explanation import Kink, edges_of, kink_of
from symgrad.ops import Op

HEADING = ("operation", "at", "left", "right", "symgrad", "torch")
LEAD = """Where a function has a corner, its derivative from the left is not that from the right.
Any number between the two is as good as another for descent, and a program has to choose one.
symgrad's equations choose as torch does.
Where both sides are one number there is no corner along x₀: the function is smooth there, or it jumps.
The sides and symgrad's choice are derived; torch's is what `backward()` of torch {version} answers: ∂L/∂x₀ with every \
entry of the inputs at the point, L the sum of the outputs."""

AT_EDGES = ("operation", "at", "by", "equation", "torch")
EDGES = """At these points there is no derivative, and no two sides between which one could be chosen: the equation \
gives ∞ or NaN, which symgrad shows and calls undefined; or torch loses the number to 0·∞.
torch's own is asked of the installed version; a captured program takes it and names the step in `conventions`."""


def kinks_of(ops: Sequence[Op]) -> Iterator[Kink]:
    """Every kink of ``ops``, in the order of the table."""
    return (kink_of(op, at) for op in ops for at in op.kinks)


def row(kink: Kink) -> tuple[str, ...]:
    """One kink in words."""
    torch = "not asked" if kink.torch is None else f"{kink.torch + 0.0:.4g}" + ("" if kink.agrees else "  DIFFERS")
    return (kink.text, f"{kink.at:g}", *kink.told, torch)


def beside(ops: Sequence[Op]) -> Iterator[str]:
    """How far from its edges torch still has a number of its own, where that is wider than a point."""
    for op in ops:
        if op.margin:
            points = " and ".join(f"{name} = {at:g}" for edge in op.edges for name, at in edge.items())
            yield f"In `{op.name}` torch still has one within {op.margin} of {points}."


def kinks_page(ops: Sequence[Op]) -> Page:
    """The table as a page."""
    found = list(kinks_of(ops))
    version = next((k.version for k in found if k.version), "(not installed)")
    lines = ["# Kinks", "", LEAD.format(version=version), "", f"| {' | '.join(HEADING)} |", "|---" * len(HEADING) + "|"]
    for kink in found:
        text, *numbers = row(kink)
        lines.append(f"| `{text}` | {' | '.join(numbers)} |")
    rules = [rule for op in ops for rule in edges_of(op)]
    if rules:
        lines += [
            "",
            "## Without a derivative",
            "",
            "\n".join([EDGES, *beside(ops)]),
            "",
            f"| {' | '.join(AT_EDGES)} |",
            "|---" * len(AT_EDGES) + "|",
        ]
        lines += [f"| `{r.text}` | {r.at} | {r.by} | {r.here:.4g} | {r.torch:.4g} |" for r in rules]
    return Page(PurePosixPath("kinks.md"), "\n".join(lines))
