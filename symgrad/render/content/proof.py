"""Section 5: which independent answers agree with the derived gradients, and how closely.

A table, one row an oracle, one column an input; below it what the table has no room for: the worst entry of a
disagreement, the reason why a check was not made.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from symgrad.explanation import Explanation, Gradient
from symgrad.oracles.report import Check, Verdict
from symgrad.render import numbers
from symgrad.render.content.words import Speaker, listed, speaker_of
from symgrad.render.page import Block, Code, Paragraph, Section, Table, Words

PLACED = ("out.backward", "central differences", "the index formula", "the closed form")
"""Oracles whose comparison has the shape of the input, so that the worst place is one of its entries."""


def proof_section(explanation: Explanation, only: str | None = None) -> Section:
    """The whole section; ``only`` one input's column."""
    say = speaker_of(explanation.program)
    heading: Words = ("Proof: the same numbers from elsewhere",)
    if not explanation.checked:
        blocks: list[Block] = [Paragraph(("No check was made: nothing here has been compared with anything.",))]
        return Section(heading, (*blocks, _convention(say)))
    wanted = [(name, g) for name, g in explanation.gradients.items() if only in (None, name)]
    columns: list[tuple[Words, str, Gradient]] = [((Code(name),), name, g) for name, g in wanted]
    if explanation.downstream is not None:
        seed = explanation.program.seed
        columns.insert(0, (say("{v}"), seed, explanation.downstream.gradients[explanation.program.output]))
    oracles = dict.fromkeys(check.oracle for *_, g in columns for check in g.checks)
    found = {(oracle, name): _check(g, oracle) for oracle in oracles for _, name, g in columns}
    rows = tuple(
        ((say.oracle(oracle),), *((verdict(found[oracle, name]),) for _, name, _ in columns)) for oracle in oracles
    )
    blocks = [Table((("compared with",), *(title for title, _, _ in columns)), rows)]
    blocks += remarks(say, [(name, check) for (_, name), check in found.items() if check is not None])
    undefined = [name for name, g in wanted if any(c.verdict is Verdict.UNDEFINED for c in g.checks)]
    if undefined and explanation.passed:
        blocks.append(
            say.paragraph(
                "Undefined here is no disagreement: where {names} {are} no derivative there is nothing to agree "
                "on, and everything else agrees.",
                are="is" if len(undefined) == 1 else "are",
                names=listed([(Code(f"{name}.grad"),) for name in undefined]),
            )
        )
    if explanation.refused:
        blocks.append(Paragraph((f"Torch itself refuses this text: {explanation.refused.rstrip('.')}.",), alarm=True))
    elif not explanation.passed:
        blocks.append(Paragraph(("The oracles disagree: do not use these formulas.",), alarm=True))
    exactly = all(check.exact for check in found.values() if check is not None and check.passed and _derived(check))
    if exactly and explanation.exact and explanation.passed:
        kind = "integers" if _integers(explanation) else "fractions"
        blocks.append(Paragraph((f"Exact {kind} throughout: equal means identical.",)))
    elif explanation.passed:
        blocks.append(Paragraph(("Decimal numbers: the table shows the largest difference of any entry.",)))
    blocks.append(_convention(say))
    return Section(heading, tuple(blocks))


def verdict(check: Check | None) -> str:
    """equal, the largest difference, undefined here, DIFFERS, not made."""
    if check is None:
        return ""
    if check.verdict in (Verdict.NOT_MADE, Verdict.UNDEFINED):
        return check.verdict
    if check.verdict is Verdict.DIFFERS:
        return "DIFFERS"
    if check.exact or check.max_error == 0:
        return "equal"
    return f"{check.max_error:.0e}".replace("e-0", "e-")


def _check(gradient: Gradient, oracle: str) -> Check | None:
    return next((check for check in gradient.checks if check.oracle == oracle), None)


def _derived(check: Check) -> bool:
    """Whether a check is about the numbers shown, not about the text of a closed form at a random point."""
    return not check.oracle.startswith("the closed form")


def _integers(explanation: Explanation) -> bool:
    """Whether every gradient is whole."""
    return all(np.issubdtype(np.asarray(g.value).dtype, np.integer) for g in explanation.gradients.values())


def remarks(say: Speaker, found: list[tuple[str, Check]]) -> Iterator[Block]:
    """Disagreements first, then what was not made and why, then other notes."""
    for name, check in found:
        if check.passed is False:
            worst = _worst(name, check)
            yield say.paragraph(
                "DIFFERS: {oracle}, for `{name}`: {worst}",
                oracle=say.oracle(check.oracle),
                name=name,
                worst=worst,
                alarm=True,
            )
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, check in found:
        if check.passed is None:
            reasons.setdefault((check.oracle, check.note), []).append(name)
    for (oracle, note), names in reasons.items():
        yield Paragraph((f"Not made for {', '.join(names)}: {say.oracle(oracle)}: {note}.",))
    for name, check in found:
        if check.passed and check.note and _derived(check):
            yield say.paragraph(
                "For `{name}`, {oracle}: {note}.", name=name, oracle=say.oracle(check.oracle), note=check.note
            )


def _worst(name: str, check: Check) -> str:
    """At x[0,1]: expected 3, got 4."""
    if check.worst is None or check.expected is None or check.got is None:
        return check.note or "no more is known"
    place = ",".join(map(str, check.worst))
    where = f"{name}[{place}]" if check.oracle.startswith(PLACED) and place else f"place [{place}]"
    return f"at {where} expected {numbers.text(check.expected)}, got {numbers.text(check.got)}"


def _convention(say: Speaker) -> Paragraph:
    """How J is laid out."""
    words = say(
        "Convention, torch's own: the rows of {J} are outputs, its columns inputs, both numbered row by row. "
        "`torch.autograd.functional.jacobian` has the same numbers, in the shape of `out` followed by that of the "
        "input."
    )
    return Paragraph(words, aside=True)
