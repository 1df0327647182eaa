"""A report as a page of its own: what was found, then a row for each battery.

Comes in: a `BackwardReport` and what it is about. Goes out: HTML, self-contained, in the reader's own light or dark.
"""

from __future__ import annotations

from html import escape

from symgrad.testing.data import FAILED, NOT_MADE, BackwardReport, Battery, Finding

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
.passed {{ color: var(--right) }} .not-made, footer {{ color: var(--faint) }}
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


def page(title: str, report: BackwardReport) -> str:
    """The whole page; everything that is not ours is escaped."""
    return PAGE.format(
        title=escape(title),
        verdict="passed" if report.passed else FAILED,
        said=escape(report.headline),
        findings="\n".join(map(section, report.findings)),
        batteries="\n".join(map(row, report.batteries)),
        ends=escape(report.origin),
    )


def section(finding: Finding) -> str:
    """The kind of the mistake, and its message clause by clause."""
    lines = [clause for line in finding.message.splitlines() for clause in line.split("; ")]
    said = "".join(f'<p class="said">{escape(line.strip())}</p>' for line in lines)
    return f'<section><h2 class="failed">{escape(finding.kind)}</h2>{said}</section>'


def row(battery: Battery) -> str:
    """One battery."""
    style = "not-made" if battery.verdict == NOT_MADE else battery.verdict
    return (
        f'<tr><th scope="row">{escape(battery.name)}</th><td class="{style}">{escape(battery.verdict)}</td>'
        f'<td class="count">{battery.count}</td><td>{escape(battery.note)}</td></tr>'
    )
