"""``symgrad derive EXPR``: the formulas for every size, without numbers and without torch."""

from __future__ import annotations

from pathlib import Path

import click

import symgrad
from symgrad.errors import InputError
from symgrad_cli import options, output
from symgrad_cli.failures import reporting
from symgrad_cli.loading import load


@click.command(cls=options.OfExpression)
@options.expression_argument()
@options.shape_option
@options.wrt_option
@click.option(
    "--order", type=click.IntRange(1, 2), default=1, show_default=True, help="2: also the second derivatives."
)
@options.expand_option
@options.page_options
@options.traceback_option
@reporting
def derive(
    expression: str,
    shapes: tuple[str, ...],
    wrt: str | None,
    order: int,
    expand: bool,
    style: str,
    path: Path | None,
    opened: bool,
    traceback: bool,
) -> None:
    """Show the formulas of EXPRESSION for every size.

    These are the Jacobian, the pullback vᵀJ and its closed form. Each closed form shown has been evaluated at several
    sizes (2, 3, 4, …) and agrees with the index formula.
    """
    load()
    from symgrad import render
    from symgrad.language import read_program, why_whole

    style, path = output.page_place(style, path, opened)
    if order == 2 and style == "json":
        raise InputError("JSON has no field for the lines of second derivatives", hints=("--order 1",))
    output.check(path)
    with output.patience("deriving"):
        given = options.shapes_of(shapes)
        program, derived = symgrad.derive(expression, wrt=wrt, shapes=given, expand=expand)
        whole = why_whole(read_program(expression, shapes=given, symbolic=True).program) if expand else ()
    options_of = {"width": output.width()} if style == "text" else {}
    written = render.derived(style, program, derived, order=order, **options_of)
    for reason in whole:
        click.echo(reason, err=True)
    output.deliver(written, path, style, opened)
