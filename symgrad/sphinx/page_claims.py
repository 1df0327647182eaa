"""False claims of pages: they are collected over a whole build and reported together, and the build fails.

Comes in: an explanation, or the text of a page, and what its author claims: sentences, closed forms, values, shapes of
Jacobians. Goes out: a sentence for each claim that does not hold, and an ``ExtensionError`` at the end of the reading,
after which nothing is written. A page with such a claim is read again in every build, so that a second one fails as the
first did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from docutils import nodes
from sphinx.errors import SphinxError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from symgrad.closed_form.form import assign_form
from symgrad.errors import SymgradError
from symgrad.explanation import Explanation
from symgrad.language import parse_value
from symgrad.numeric import Array, as_float

KEPT = "symgrad_kept"
"""The attribute of Sphinx's environment in which pages leave what they found, by the page."""
logger = logging.getLogger(__name__)


class UntrueError(SphinxError):
    """A page claims what is not so."""

    category = "symgrad"


def page_records(env: Any) -> dict[str, dict[str, Any]]:
    """What each page left: ``untrue`` sentences, and facts about operations."""
    if not hasattr(env, KEPT):
        setattr(env, KEPT, {})
    found: dict[str, dict[str, Any]] = getattr(env, KEPT)
    return found


def record_untrue(where: SphinxDirective | SphinxRole, sentence: str) -> None:
    """Remember that what a directive or a role claims does not hold."""
    record_untrue_at(where.env, ":".join(map(str, where.get_source_info())), sentence)


def record_untrue_at(env: Any, place: str, sentence: str) -> None:
    """Remember that at ``place`` of the page that is being read something does not hold."""
    page_records(env).setdefault(env.docname, {}).setdefault("untrue", []).append(f"{place}: {sentence}")


def find_unread_directives(app: Any, doctree: nodes.document) -> None:
    """A directive that stayed a paragraph, because MyST reads colons as a fence only where it is told to."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = paragraph.astext()
        if re.match(r":{3,}\s*\{symgrad[\w-]*\}", text):
            sentence = f'{text.splitlines()[0]} was not read: use ``` or myst_enable_extensions = ["colon_fence"]'
            record_untrue_at(app.env, f"{paragraph.source}:{paragraph.line}", sentence)


def pages_to_reread(app: Any, env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """The pages that were not true when they were last read."""
    return [name for name, left in page_records(env).items() if "untrue" in left and name not in removed]


def forget_page(app: Any, env: Any, docname: str) -> None:
    """A page that is read again begins anew."""
    page_records(env).pop(docname, None)


def merge_records(app: Any, env: Any, docnames: Iterable[str], other: Any) -> None:
    """What another process found."""
    found = page_records(other)
    page_records(env).update({name: found[name] for name in docnames if name in found})


def fail_if_untrue(app: Any, env: Any) -> None:
    """Everything that is not true, and the end of the build."""
    sentences = [sentence for page in page_records(env).values() for sentence in page.get("untrue", ())]
    for sentence in sentences:
        logger.error("%s", sentence)
    if sentences:
        count = "one claim is" if len(sentences) == 1 else f"{len(sentences)} claims are"
        raise UntrueError(f"{count} not true:\n" + "\n".join(sentences))


SHAPE = re.compile(r"(\d+)\s*[×x]\s*(\d+)")


def missing_sentences(page: str, sentences: Iterable[str]) -> Iterator[str]:
    r"""The sentences that a page does not hold; how its lines are broken does not count.

    >>> list(missing_sentences("x.grad = v\n  @ a.T", ["v @ a.T", "a.T @ v"]))
    ['a.T @ v: the page does not say this']
    """
    whole = " ".join(page.split())
    for sentence in sentences:
        if " ".join(sentence.split()) not in whole:
            yield f"{sentence}: the page does not say this"


def failed_claims(story: Explanation, claims: Iterable[str]) -> Iterator[str]:
    """The claims that do not hold: ``x.grad = …`` a closed form or a value, ``out = …``, ``x.jacobian = 8×6``."""
    for claim in claims:
        left, equals, right = (part.strip() for part in claim.partition("="))
        name, _, what = left.partition(".")
        if not equals or (what and name not in story.gradients) or what not in ("", "grad", "jacobian"):
            yield f"{claim}: this is not a claim about {story.expression}"
        elif what == "jacobian":
            rows, columns = story.gradients[name].jacobian.shape
            found = SHAPE.fullmatch(right)
            if found is None or (int(found[1]), int(found[2])) != (rows, columns):
                yield f"{claim}: it is {rows}×{columns}"
        else:
            value = story.gradients[name].value if what else story.output
            form = story.gradients[name].closed_form if what else None
            if right not in (form, *(line.partition(" = ")[2] for line in assign_form(left, form or ""))):
                yield from value_mismatch(claim, right, value, form)


def value_mismatch(claim: str, text: str, value: Array, form: str | None) -> Iterator[str]:
    """Nothing where ``text`` is ``value``, to the digits that it is written with."""
    try:
        stated = as_float(parse_value(text).array(value.shape))
    except SymgradError:
        yield f"{claim}: it is {form or 'an index formula'}"
        return
    digits = max((len(n.partition(".")[2]) for n in re.findall(r"\d+\.?\d*", text)), default=0)
    room = 0.0 if digits == 0 and value.dtype != np.float64 else 0.5 * 10.0**-digits + 1e-12
    if not bool(np.all(np.abs(stated - as_float(value)) <= room)):
        yield f"{claim}: it is {np.asarray(value).tolist()}"
