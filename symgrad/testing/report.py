"""The report of a checked backward, as frozen data, text, JSON and a page.

Comes in: findings and batteries. Goes out: a `BackwardReport`; and `report_page`, self-contained HTML in light or dark
mode, with the findings and a row for each battery.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from symgrad.notebook import Listed

BLIND = "this test has a blind spot"
PASSED, FAILED, NOT_MADE = "passed", "failed", "skipped"
WIDEST = 92
"""Columns of the text: pytest writes eight more before each line of a message."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: its ``kind`` in a word, the ``input`` it is about (empty: none), and ``where``.

    ``message`` is made to be read: its first line says what is wrong. ``evidence`` has the same as data: the seed, the
    entry, both numbers, the formula.
    """

    kind: str
    input: str
    where: str
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True)
class Battery:
    """One family of checks: its ``verdict`` (passed, failed, skipped), how many comparisons, and a remark."""

    name: str
    verdict: str
    count: int
    note: str = ""


@dataclass(frozen=True)
class BackwardReport(Listed):
    """Everything that was tried on one candidate; ``findings`` are ranked, the most telling first.

    ``expression`` is what it was held against, ``oracle`` how the right gradient was got.
    """

    expression: str
    oracle: str
    findings: tuple[Finding, ...]
    batteries: tuple[Battery, ...]
    inputs: Mapping[str, str] = field(default_factory=dict, hash=False)
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __repr__(self) -> str:
        kinds = ", ".join(dict.fromkeys(f.kind for f in self.findings))
        return f"<{self.headline}: {kinds}>" if kinds else f"<{self.headline}>"

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        if self.findings:
            return f"this is not the backward of {self.expression!r}"
        if any(b.name == "value" and b.verdict == NOT_MADE for b in self.batteries):
            return f"nothing was found in the backward of {self.expression!r}; there was no reference for its numbers"
        blind = f", but {BLIND}" if any(BLIND in b.note for b in self.batteries) else ""
        return f"the backward of {self.expression!r} passes{blind}"

    @property
    def origin(self) -> str:
        """Inputs, seed and versions: what makes the same report again."""
        known = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        given = ", ".join(f"{name} {what}" for name, what in self.inputs.items())
        return "; ".join(part for part in (given, f"seed {self.seed}", known) if part)

    def to_text(self) -> str:
        """The findings, then a line for each battery.

        >>> print(BackwardReport("x * 2", "formula", (), (Battery("value", "passed", 4),)).to_text())
        the backward of 'x * 2' passes
          value            passed     4
        """
        said = wrap_clauses(self.headline, "", "    ")
        if self.findings:
            for finding in self.findings:
                first, *rest = str(finding).splitlines()
                said += ["", *wrap_clauses(first, "", "    ")]
                said += [part for line in rest for part in wrap_clauses(line, "    ", "        ")]
            said.append("")
        for battery in self.batteries:
            line = f"  {battery.name:<16} {battery.verdict:<9} {battery.count:>2}"
            said += wrap_clauses(f"{line}  {battery.note}".rstrip(), "", " " * 32)
        if self.findings:
            said += wrap_clauses(f"({self.origin})", "  ", "   ")
        return "\n".join(said)

    def to_json(self) -> str:
        """The same as JSON, for a report of an error or a machine."""
        return json.dumps({"passed": self.passed, **asdict(self)}, indent=2, ensure_ascii=False, default=str)

    def __str__(self) -> str:
        return self.to_text()


def wrap_clauses(text: str, first: str, rest: str) -> list[str]:
    """A line in as many as it takes, clause by clause; no word is broken, and no sum from its index."""
    if len(first + text) <= WIDEST:
        return [first + text]
    clauses = [part + ";" for part in text.split("; ")]
    clauses[-1] = clauses[-1][:-1]
    found: list[str] = []
    for clause in clauses:
        begin = rest if found else first
        joined = re.sub(r"(Σ\S*) ", "\\1\u00a0", clause)
        found += textwrap.wrap(
            joined, WIDEST, initial_indent=begin, subsequent_indent=rest, break_long_words=False,
            break_on_hyphens=False, replace_whitespace=False,
        )  # fmt: skip
    return [line.replace("\u00a0", " ") for line in found]


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
:root {{ color-scheme: light dark; --wrong: light-dark(#b3261e, #ff8a80); --right: light-dark(#1b6e3c, #7bd88f);
  --faint: light-dark(#5f6368, #a8adb4); --line: light-dark(#d5d9de, #41464d) }}
body {{ font: 16px/1.55 system-ui, sans-serif; margin: 2rem auto; max-width: 52rem; padding: 0 1rem }}
h1 {{ font-size: 1.25rem; overflow-wrap: anywhere }} h2 {{ font-size: 1rem; margin: 0 0 .4rem }}
code, .said {{ font-family: ui-monospace, monospace; font-size: .9em }}
section {{ border-left: 3px solid var(--wrong); padding-left: 1rem; margin: 1.25rem 0 }}
.said {{ margin: .15rem 0; overflow-wrap: anywhere }} .failed {{ color: var(--wrong) }}
.passed {{ color: var(--right) }} .skipped, footer {{ color: var(--faint) }}
table {{ border-collapse: collapse; width: 100%; margin: 1.5rem 0 }}
th, td {{ text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); font-weight: normal }}
td.count {{ text-align: right; font-variant-numeric: tabular-nums }}
</style></head><body><main>
<h1>{title}</h1>
<p><strong class="{verdict}">{said}</strong></p>
{findings}
<table><thead><tr><th scope="col">battery</th><th scope="col">verdict</th><th scope="col">comparisons</th>
<th scope="col">remark</th></tr></thead><tbody>
{batteries}
</tbody></table>
<footer>{ends}</footer>
</main></body></html>
"""


def report_page(title: str, report: BackwardReport) -> str:
    """The whole page; everything that is not ours is escaped."""
    return PAGE.format(
        title=escape(title),
        verdict="passed" if report.passed else FAILED,
        said=escape(report.headline),
        findings="\n".join(map(finding_section, report.findings)),
        batteries="\n".join(map(battery_row, report.batteries)),
        ends=escape(report.origin),
    )


def finding_section(finding: Finding) -> str:
    """The kind of the mistake, and its message clause by clause."""
    lines = [clause for line in finding.message.splitlines() for clause in line.split("; ")]
    said = "".join(f'<p class="said">{escape(line.strip())}</p>' for line in lines)
    return f'<section><h2 class="failed">{escape(finding.kind)}</h2>{said}</section>'


def battery_row(battery: Battery) -> str:
    """One battery."""
    return (
        f'<tr><th scope="row">{escape(battery.name)}</th><td class="{battery.verdict}">{escape(battery.verdict)}</td>'
        f'<td class="count">{battery.count}</td><td>{escape(battery.note)}</td></tr>'
    )
