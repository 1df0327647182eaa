"""What pages claim and is not so: gathered over a whole build, told together, and the build fails.

Comes in: what the directives found untrue. Goes out: an `ExtensionError` at the end of the reading, after which nothing
is written. A page with such a claim is read again in every build, so that a second one fails as the first did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from docutils import nodes
from sphinx.errors import SphinxError
from sphinx.util import logging

KEPT = "symgrad_kept"
"""The attribute of Sphinx's environment in which pages leave what they found, by the page."""
logger = logging.getLogger(__name__)


class UntrueError(SphinxError):
    """A page claims what is not so."""

    category = "symgrad"


def kept(env: Any) -> dict[str, dict[str, Any]]:
    """What each page left: ``untrue`` sentences, and facts about operations."""
    if not hasattr(env, KEPT):
        setattr(env, KEPT, {})
    found: dict[str, dict[str, Any]] = getattr(env, KEPT)
    return found


def untrue(env: Any, place: str, sentence: str) -> None:
    """Remember that at ``place`` of the page that is being read something does not hold."""
    kept(env).setdefault(env.docname, {}).setdefault("untrue", []).append(f"{place}: {sentence}")


def unread(app: Any, doctree: nodes.document) -> None:
    """A directive that stayed a paragraph, because MyST reads colons as a fence only where it is told to."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = paragraph.astext()
        if re.match(r":{3,}\s*\{symgrad[\w-]*\}", text):
            sentence = f'{text.splitlines()[0]} was not read: use ``` or myst_enable_extensions = ["colon_fence"]'
            untrue(app.env, f"{paragraph.source}:{paragraph.line}", sentence)


def again(app: Any, env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """The pages that were not true when they were last read."""
    return [name for name, left in kept(env).items() if "untrue" in left and name not in removed]


def forget(app: Any, env: Any, docname: str) -> None:
    """A page that is read again begins anew."""
    kept(env).pop(docname, None)


def merged(app: Any, env: Any, docnames: Iterable[str], other: Any) -> None:
    """What another process found."""
    found = kept(other)
    kept(env).update({name: found[name] for name in docnames if name in found})


def told(app: Any, env: Any) -> None:
    """Everything that is not true, and the end of the build."""
    sentences = [sentence for page in kept(env).values() for sentence in page.get("untrue", ())]
    for sentence in sentences:
        logger.error("%s", sentence)
    if sentences:
        count = "one claim is" if len(sentences) == 1 else f"{len(sentences)} claims are"
        raise UntrueError(f"{count} not true:\n" + "\n".join(sentences))
