"""``symgrad docs OUT_DIR``: the pages, generated."""

from __future__ import annotations

from pathlib import Path

import click

from symgrad_cli import options, output
from symgrad_cli.failures import reporting


@click.command()
@click.argument("folder", metavar="OUT_DIR", type=click.Path(file_okay=False))
@click.option("--ops", "names", metavar="NAMES", help="Only these operations, separated by commas.")
@click.option("--check/--no-check", default=True, help="Hold every example against the oracles.  [default: check]")
@options.traceback_option
@reporting
def docs(folder: str, names: str | None, check: bool, traceback: bool) -> None:
    """Write Markdown pages into OUT_DIR: one per operation, the forum example, and an index."""
    from symgrad.documents import write_site

    wanted = [name.strip() for name in (names or "").split(",") if name.strip()]
    if not folder:
        raise click.BadParameter("the name of the folder is empty", param_hint="OUT_DIR")
    if names is not None and not wanted:
        raise click.BadParameter("names no operation", param_hint="--ops")
    count = sum(1 for _ in write_site(Path(folder), wanted, check))
    output.emit(f"{count} pages in {folder}")
