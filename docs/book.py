"""Sphinx extension of our own site: a page of a few lines for every operation, before anything is read.

Comes in: the table. Goes out: ``operations/by-name/NAME.md``, not kept in the repository, a page for each family, the
table on one page, and the pages about kinds of errors, which the package holds. What every page needs is there before
Sphinx divides the reading among processes: it starts one for some forty pages, and each would load torch again.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

from symgrad.documents import file_name, kinds, table_lines
from symgrad.documents.operation import article_of, family_of, family_says
from symgrad.ops import Op, operations

PAGE = """# {name}

```{{symgrad-operation}} {name}
```

```{{symgrad-stamp}}
```
"""
FAMILY = """# {title}

{says}

```{{toctree}}
:maxdepth: 1

{pages}
```
"""


def write(app: Any) -> None:
    """The pages that are not there, or not as they have to be; those of operations that are gone go."""
    folder = Path(app.srcdir) / "operations"
    wanted: dict[Path, str] = {}
    families: dict[str, list[Op]] = {}
    for op in operations():
        wanted[folder / "by-name" / file_name(op)] = PAGE.format(name=op.name)
        families.setdefault(family_of(op), []).append(op)
    for family, ops in families.items():
        pages = "\n".join(f"../by-name/{file_name(op).removesuffix('.md')}" for op in ops)
        text = FAMILY.format(title=family.capitalize(), says=family_says(ops[0]), pages=pages)
        wanted[folder / "families" / f"{family.replace(' ', '_')}.md"] = text
    table = "\n".join(table_lines(list(operations()), lambda op: f"by-name/{file_name(op)}"))
    wanted[folder / "table.md"] = f"# The table by families\n\n{table}\n"
    errors = Path(app.srcdir) / "reference" / "errors"
    wanted |= {errors / f"{kind}.md": text for kind, text in kinds().items()}
    for written in (folder / "by-name", folder / "families", errors):
        written.mkdir(parents=True, exist_ok=True)
        for path in written.glob("*.md"):
            if path not in wanted and path.name != "index.md":
                path.unlink()
    for path, text in wanted.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def get_ready(app: Any, env: Any, docnames: list[str]) -> None:
    """Load torch and make one page, not kept: without a check, since torch may not run a backward before a fork.

    All this stays, so that Python need not search it for cycles, and searches more rarely.
    """
    if len(docnames) > 1:
        article_of(next(op for op in operations() if op.name == "softmax"), check=False)
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("config-inited", lambda app, config: write(app))
    app.connect("env-before-read-docs", get_ready)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
