"""``symgrad ops [NAME]``: the table of operations; of one, the equation and what is derived from it on the spot."""

from __future__ import annotations

import click

from symgrad_cli import options
from symgrad_cli.failures import reporting


@click.command()
@click.argument("name", required=False)
@click.option("--kinks", is_flag=True, help="The points where a derivative is a choice, and torch's choice there.")
@click.option("--at", type=float, metavar="X", help="With NAME: the derivative left of X, at X and right of X.")
@options.traceback_option
@reporting
def ops(name: str | None, kinks: bool, at: float | None, traceback: bool) -> None:
    """List the operations, or show the formulas of one.

    The Jacobian and the pullback of NAME are derived from its equation on the spot.
    """
    from symgrad_cli.listing import listed

    listed(name, kinks, at)
