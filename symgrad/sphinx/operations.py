"""The directives ``symgrad-operation``, the page of an entry of the table, and ``symgrad-operations``, their index.

Comes in: the name of an operation. Goes out: what `symgrad.documents.operation` says of it. The index by structure is
filled in when all pages are read, by what each of them found. `build_site` makes a whole site of such pages for
anybody: HTML with an index and a search, built by Sphinx from a project that is made for it and thrown away.
"""

from __future__ import annotations

import io
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.docutils import SphinxDirective, docutils_namespace

from symgrad.documents import file_name
from symgrad.documents.article import Article
from symgrad.documents.operation import article_of, family_of, family_says
from symgrad.errors import InputError
from symgrad.ops import Op, find
from symgrad.render.page import Section, text_of
from symgrad.sphinx.nodes import Made, as_written, boxed, code_block, nodes_of_blocks, titled, word_nodes
from symgrad.sphinx.page_claims import page_records, record_untrue

NO_GRADIENT = "no gradient flows back"


class listing(nodes.General, nodes.Element):  # noqa: N801 -- docutils names a node's visitor by its class
    """Where the index will stand."""


class OperationDirective(SphinxDirective):
    """``symgrad-operation``; a site of its own may look at what `page` gets, too."""

    required_arguments = 1

    def run(self) -> Made:
        """The box, and the parts below it as sections; folded ones one below the other."""
        op = find(self.arguments[0])
        if op is None:
            record_untrue(self, f"there is no operation {self.arguments[0]}")
            return []
        try:
            found = article_of(op)
        except Exception as error:  # one page that cannot be made is told with the others, at the end
            record_untrue(self, f"{op.name}: {type(error).__name__}: {error}")
            return []
        page_records(self.env).setdefault(self.env.docname, {})["operation"] = (op.name, op.summary, found.structure)
        return self.page(op, found)

    def page(self, op: Op, found: Article) -> Made:
        """The nodes of an article."""
        made: Made = [
            nodes.meta("", name="keywords", content=", ".join(search_words(op))),
            as_written(nodes.paragraph("", "", *word_nodes(found.opening))),
            boxed([code_block(op.definition), *nodes_of_blocks(found.box)], "symgrad-answer"),
        ]
        return [*made, *(part_node(part) for part in found.parts)]


def search_words(op: Op) -> list[str]:
    """What people type who look for an operation: the words of each spelling, and these joined.

    >>> from symgrad.ops import find
    >>> search_words(find("max_pool2d"))
    ['max', 'pool', 'maxpool', 'maxpool2d']
    """
    found: dict[str, None] = {}
    for spelling in (op.name, *op.spellings):
        name = spelling.rpartition(".")[2].lower()
        words = re.findall(r"[a-z]{2,}", name)
        found |= dict.fromkeys([*words, "".join(words), name.replace("_", "")])
    return [word for word in found if word]


def part_node(part: Section) -> nodes.Node:
    """A section, or a folded part."""
    if part.folded:
        return titled(part.heading, nodes_of_blocks(part.blocks))
    section = as_written(
        nodes.section("", nodes.title("", "", *word_nodes(part.heading)), *nodes_of_blocks(part.blocks))
    )
    section["ids"].append(nodes.make_id(text_of(part.heading)))
    section["names"].append(nodes.fully_normalize_name(text_of(part.heading)))
    return section


class OperationsDirective(SphinxDirective):
    """``symgrad-operations``: the operations that the build has pages of, by name, by family or by structure."""

    option_spec: ClassVar[dict[str, Callable[[str], Any]] | None] = {
        "by": lambda text: directives.choice(text, ("name", "family", "structure"))
    }

    def run(self) -> Made:
        """A place that is filled in later."""
        return [listing("", by=self.options.get("by", "name"))]


def fill_in(app: Any, doctree: nodes.document, docname: str) -> None:
    """The index where it belongs, with links to the pages."""
    for place in list(doctree.findall(listing)):
        place.replace_self(index_nodes(app, docname, place["by"]))


def index_nodes(app: Any, docname: str, by: str) -> Made:
    """A list for each group."""
    groups: dict[str, list[tuple[str, str, str]]] = {}
    about: dict[str, str] = {}
    for page, left in page_records(app.env).items():
        if "operation" in left:
            name, says, structure = left["operation"]
            op = find(name)
            group = structure or NO_GRADIENT if by == "structure" else name[0].upper()
            if by == "family" and op is not None:
                group = family_of(op)
                about[group] = family_says(op)
            groups.setdefault(group, []).append((name, says, page))
    made: Made = []
    for group in sorted(groups):
        items = []
        for name, says, page in sorted(groups[group]):
            uri = app.builder.get_relative_uri(docname, page)
            link = nodes.reference("", "", nodes.literal("", name), internal=True, refuri=uri)
            items.append(nodes.list_item("", nodes.paragraph("", "", link, nodes.Text(f": {says}"))))
        said = [nodes.paragraph("", about[group])] if group in about else []
        made += [nodes.rubric("", group), *said, nodes.bullet_list("", *items)]
    return made


CONF = """
project = "Operations"
extensions = ["myst_parser", "symgrad.sphinx"]
html_theme = "{theme}"
html_math_renderer = "symgrad_mathml"
html_copy_source = html_show_sourcelink = False
"""
INDEX = """# Operations

```{{toctree}}
:maxdepth: 1
:hidden:

{pages}
```

```{{symgrad-operations}}
```

## By the structure of the Jacobian

```{{symgrad-operations}}
:by: structure
```
"""
PAGE = "# {name}\n\n```{{symgrad-operation}} {name}\n```\n\n```{{symgrad-stamp}}\n```\n"


def build_site(folder: Path, ops: Sequence[Op]) -> int:
    """Put the site into ``folder`` and say how many pages it has; raises `InputError` where Sphinx fails."""
    theme = "furo" if find_spec("furo") is not None else "alabaster"
    with tempfile.TemporaryDirectory() as temporary:
        source, built = Path(temporary) / "source", Path(temporary) / "html"
        source.mkdir()
        stems = [file_name(op).removesuffix(".md") for op in ops]
        (source / "conf.py").write_text(CONF.format(theme=theme), encoding="utf-8")
        (source / "index.md").write_text(
            INDEX.format(pages="\n".join(f"op-{stem}" for stem in stems)), encoding="utf-8"
        )
        for op, stem in zip(ops, stems, strict=True):
            (source / f"op-{stem}.md").write_text(PAGE.format(name=op.name), encoding="utf-8")
        warnings = io.StringIO()
        try:
            with docutils_namespace():  # what Sphinx registers goes again, for whoever builds next in this process
                app = Sphinx(source, source, built, Path(temporary) / "read", "html", status=None, warning=warnings)
                app.build()
        except SphinxError as error:
            raise InputError("the site could not be built", found=(str(error),)) from None
        if app.statuscode or warnings.getvalue():
            raise InputError("the site could not be built", found=tuple(warnings.getvalue().splitlines()[:3]))
        shutil.copytree(built, folder, copy_function=copied_whole, dirs_exist_ok=True)
    return len(ops) + 1


def copied_whole(source: str, target: str) -> str:
    """A copy that is there whole or not at all, whatever interrupts."""
    beside = Path(target).with_name(f".symgrad-{secrets.token_hex(6)}")
    try:
        shutil.copy2(source, beside)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    return target
