"""A site of the book of operations for anybody: HTML with an index and a search, without a project of one's own.

Comes in: a folder and operations. Goes out: pages, built by Sphinx from a project that is made for it and thrown away.
"""

from __future__ import annotations

import io
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.docutils import docutils_namespace

from symgrad.documents.pages import file_name
from symgrad.errors import InputError
from symgrad.ops import Op

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
