"""``symgrad ops [NAME]``: the table of operations; of one, the equation and what is derived from it on the spot."""

from __future__ import annotations

import click

import symgrad
from symgrad.errors import UnknownNameError
from symgrad.ops import Op, close, entries, find
from symgrad.render import derived_text
from symgrad_cli import options
from symgrad_cli.failures import reporting


@click.command()
@click.argument("name", required=False)
@options.traceback_option
@reporting
def ops(name: str | None, traceback: bool) -> None:
    """List the operations, or show one: its equation, Jacobian and pullback, derived on the spot."""
    if name is None:
        width = max(len(op.name) for op in entries())
        for entry in entries():
            click.echo(f"{entry.name:{width}}  {entry.definition}")
        return
    op = find(name)
    if op is None:
        raise UnknownNameError(f"there is no operation {name}", hints=tuple(close(name)) or ("symgrad ops",))
    show(op)


def show(op: Op) -> None:
    """One operation in full."""
    click.echo(f"{op.name}: {op.says}\n\n  {op.definition}\n")
    if op.spelled:
        click.echo(f"  spelled {', '.join(op.spelled)}\n")
    for example in op.examples:
        program, derived = symgrad.derive(example.text, shapes=dict(example.shapes))
        click.echo(f"{example.text}\n")
        click.echo(f"{derived_text(program, derived)}\n")
