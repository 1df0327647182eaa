"""``symgrad docs OUT_DIR``: the pages, generated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from symgrad.errors import InputError
from symgrad_cli import options, output
from symgrad_cli.failures import reporting

if TYPE_CHECKING:
    from symgrad.ops import Op


@click.command()
@click.argument("folder", metavar="OUT_DIR", type=click.Path(file_okay=False))
@click.option("--ops", "names", metavar="NAMES", help="Only these operations, separated by commas.")
@click.option("--check/--no-check", default=True, help="Verify every example.  [default: check]")
@click.option(
    "--format", "style", type=click.Choice(("md", "html")), default="md", show_default=True,
    help="Markdown for a site of your own, or a site in HTML with index and search.",
)  # fmt: skip
@options.traceback_option
@reporting
def docs(folder: str, names: str | None, check: bool, style: str, traceback: bool) -> None:
    """Write a page for each operation, and an index.

    The pages go into OUT_DIR. Each file is written completely or not at all; a run that is killed may leave a hidden
    folder .symgrad-…, which you can delete.
    """
    from symgrad.documents import check_folder, chosen, write_site

    wanted = [name.strip() for name in (names or "").split(",") if name.strip()]
    if not folder:
        raise click.BadParameter("the name of the folder is empty", param_hint="OUT_DIR")
    if names is not None and not wanted:
        raise click.BadParameter("no operation is named", param_hint="--ops")
    if style == "html":
        ops = chosen(wanted)
        if not check:
            raise InputError("--no-check goes with --format md only: a site in HTML contains only checked pages")
        check_folder(Path(folder))
        with output.patience("building pages"):
            count = site_builder()(Path(folder), ops)
    else:
        with output.patience("writing pages"):
            count = sum(1 for _ in write_site(Path(folder), wanted, check))
    output.emit(f"{count} pages in {folder}")


def site_builder() -> Callable[[Path, Sequence[Op]], int]:
    """What builds HTML; raises `InputError` where the packages for it are not installed."""
    missing = next((name for name in ("sphinx", "myst_parser", "latex2mathml") if find_spec(name) is None), None)
    if missing is not None:
        raise InputError(
            "pages in HTML need packages that are not installed", found=(f"no {missing}",),
            hints=('pip install "symgrad[docs]"', "--format md needs none"),
        )  # fmt: skip
    from symgrad.sphinx.operations import build_site

    return build_site
