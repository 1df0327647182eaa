"""Sphinx extension of our own site: every page of an operation keeps what all of them promise.

Comes in: an entry of the table, as its page is made. Goes out: a sentence for each promise that the page breaks, among
the faults that end the build. What is looked at is the Markdown that ``symgrad docs`` writes of the same article: the
answer first, an example of 2×3 or why there is none, what torch writes, the proof, nothing that runs off a screen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from symgrad.closed_form.form import assign_form
from symgrad.documents.article import LONGEST, Article, article_markdown
from symgrad.documents.operation import LINES, derived_example, distinct_ranks, shown_example
from symgrad.ops import Op
from symgrad.render.page import Picture
from symgrad.sphinx.operations import OperationDirective
from symgrad.sphinx.page_claims import record_untrue


class Held(OperationDirective):
    """``symgrad-operation``, with a look at what it made."""

    def page(self, op: Op, found: Article) -> Any:
        """The page as it is anywhere; what it breaks is told with all that is not true."""
        for fault in (*faults(op, *article_markdown(found, op.name)), *undrawn(found)):
            record_untrue(self, f"{op.name}: {fault}")
        return super().page(op, found)


def faults(op: Op, text: str, pictures: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the page of an operation: its Markdown, and its pictures by the names of their files."""
    lines = text.splitlines()
    headings = [line for line in lines if line.startswith("## ")]
    if lines[0] != f"# {op.name}" or not headings or not headings[0].startswith("## An example: "):
        yield "it does not begin with its name, the answer, and an example"
        return
    answer, example = text[: text.index(headings[0])], text[text.index(headings[0]) :].split("\n## ")[0]
    if max(map(len, lines)) > LONGEST:
        yield f"a line of {max(map(len, lines))} characters"
    yield from (f"no {part}" for part in ("## Proof", "What torch writes") if part not in text)
    yield from (f"it says {word}" for word in ("DIFFERS", "disagree") if word in text)
    if not re.search(r"(?<![×\d])2×3(?!×)", example):
        yield "neither a 2×3 input nor why there is none"
    if bare(op.definition) not in bare(answer):
        yield "the answer lacks the equation"
    shown = text.replace("\\", "")
    yield from (f"no {other.text}" for other in distinct_ranks(op.examples) if other.text not in shown)
    yield from untold(op, answer)
    yield from (f"a picture that it does not show, {name}" for name in pictures if f"]({name})" not in text)
    yield from (f"a picture without words, {n}" for n, svg in pictures.items() if len(Picture("", svg).alt) <= 20)
    if text.count("![") != len(pictures) or text.count("<details>") != text.count("</details>"):
        yield "a picture that is not there, or a part that is folded and not closed"


def undrawn(found: Article) -> Iterator[str]:
    """That J is not drawn where something flows back."""
    if found.structure not in ("", "zero") and not any(isinstance(block, Picture) for block in found.box):
        yield "no picture of J"


def untold(op: Op, answer: str) -> Iterator[str]:
    """The closed forms, derived anew in the same letters, that the answer does not have; a form that nobody derived."""
    _, forms = derived_example(shown_example(op))
    derived = [None if d.form is None else "".join(assign_form(f"{d.name}.grad", d.form.text)) for d in forms]
    said = "".join(bare(body) for body in re.findall(r"```text\n(.*?)```", answer, re.DOTALL))
    yield from (f"no {line}" for line in derived if line and bare(line) not in said and len(line) <= LINES)
    if None not in derived and said.count(".grad=") > len(derived):
        yield "more closed forms than were derived"


def bare(text: str) -> str:
    """``text`` without spaces and line ends: long lines are broken."""
    return re.sub(r"\s+", "", text)


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx, after `symgrad.sphinx`."""
    app.add_directive("symgrad-operation", Held, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
