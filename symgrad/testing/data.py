"""What a check of a backward found, as plain frozen data: findings, batteries, the report; as text and as JSON."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from symgrad.notebook import Listed

BLIND = "this test cannot see everything"
PASSED, FAILED, NOT_MADE = "passed", "failed", "not made"
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
    """One family of checks: its ``verdict`` (passed, failed, not made), how many comparisons, and a remark."""

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
            return f"nothing was found in the backward of {self.expression!r}; its numbers were held against nothing"
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
        said = wrapped(self.headline, "", "    ")
        if self.findings:
            for finding in self.findings:
                first, *rest = str(finding).splitlines()
                said += ["", *wrapped(first, "", "    ")]
                said += [part for line in rest for part in wrapped(line, "    ", "        ")]
            said.append("")
        for battery in self.batteries:
            line = f"  {battery.name:<16} {battery.verdict:<9} {battery.count:>2}"
            said += wrapped(f"{line}  {battery.note}".rstrip(), "", " " * 32)
        if self.findings:
            said += wrapped(f"({self.origin})", "  ", "   ")
        return "\n".join(said)

    def to_json(self) -> str:
        """The same as JSON, for a report of an error or a machine."""
        return json.dumps({"passed": self.passed, **asdict(self)}, indent=2, ensure_ascii=False, default=str)

    def __str__(self) -> str:
        return self.to_text()


def wrapped(text: str, first: str, rest: str) -> list[str]:
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
