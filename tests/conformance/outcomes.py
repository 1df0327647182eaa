"""What became of torch's operator database, and the page that says so.

Comes in: an `Outcome` for each variant, as ``sweep.py`` finds them. Goes out: docs/reference/coverage.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ORDER = ("derived", "not derived", "refused", "wrong", "error")


@dataclass(frozen=True)
class Outcome:
    """What became of one variant: how many of its samples came to each verdict, with each reason.

    ``verdicts`` counts pairs (status, why); samples without a gradient to compare are ``skipped``.
    """

    name: str
    verdicts: Counter[tuple[str, str]]
    seconds: float = 0.0

    def count(self, status: str) -> int:
        """How many samples came to ``status``."""
        return sum(n for (found, _), n in self.verdicts.items() if found == status)

    @property
    def samples(self) -> int:
        """How many samples were compared."""
        return sum(n for (found, _), n in self.verdicts.items() if found != "skipped")

    @property
    def status(self) -> str:
        """The worst verdict; ``no gradient`` where torch gives none for any sample."""
        found = [status for status in ORDER if self.count(status)]
        return found[-1] if found else "no gradient"

    def reasons(self, *statuses: str) -> list[tuple[str, int]]:
        """Why samples came to ``statuses``, the most frequent first."""
        why = Counter[str]()
        for (status, reason), n in self.verdicts.items():
            if status in statuses:
                why[reason] += n
        return why.most_common()


def page(found: Mapping[str, Sequence[Outcome]], version: str) -> str:
    """The whole page: the verdicts, and a table for each type."""
    lines = [
        "# What is derived",
        "",
        (
            f"torch {version}'s operator database, all samples of every variant with autograd support: the pullback of a "
            "random seed against `torch.autograd.grad`. Complex tensors are compared as pairs (re, im). Written by "
            "`tests/conformance/sweep.py`."
        ),
        "",
        (
            "*Derived*: every step by its own equation. *Not derived*: right, with torch's own product for some step. "
            "*Refused*: symgrad says why it does not answer. A variant is what the worst of its samples is."
        ),
        "",
        *verdicts(found),
    ]
    for dtype, outcomes in found.items():
        lines += ["", f"## {dtype}", "", *table(outcomes)]
    return "\n".join(lines) + "\n"


def verdicts(found: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """How many variants and samples came to each verdict."""
    heads = [f"{dtype}, {what}" for dtype in found for what in ("variants", "samples")]
    lines = [f"| | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for status in ORDER:
        cells = []
        for outcomes in found.values():
            cells += [sum(o.status == status for o in outcomes), sum(o.count(status) for o in outcomes)]
        lines.append(f"| {status} | {' | '.join(map(str, cells))} |")
    silent = [(sum(not o.samples for o in outcomes), 0) for outcomes in found.values()]
    if any(n for n, _ in silent):
        lines.append(f"| torch gives no gradient | {' | '.join(str(c) for pair in silent for c in pair)} |")
    return lines


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """One line a variant: how many of its samples are derived, and what the rest is."""
    return [
        "| variant | derived | of | the rest |",
        "|---|---:|---:|---|",
        *(f"| `{o.name}` | {o.count('derived')} | {o.samples} | {rest(o)} |" for o in outcomes if o.samples),
    ]


def rest(outcome: Outcome) -> str:
    """What is not derived, how often, and why."""
    parts = []
    for status in ORDER[1:]:
        parts += [f"{n} {status}: {_cell(why)}" for why, n in outcome.reasons(status)]
    return "; ".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:200]
