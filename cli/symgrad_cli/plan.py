"""``symgrad plan EXPR``: what the Jacobians would be, before any of them is computed."""

from __future__ import annotations

from pathlib import Path

import click

from symgrad_cli import options, output
from symgrad_cli.failures import reporting

EPILOG = """
\b
Examples:
  symgrad plan "x@a" --shape x=720,720 --shape a=720,720
  symgrad plan "softmax(tanh(x@w) @ u, -1)" --shape x=1000,50 --wrt x --format json
  symgrad plan "F.conv1d(x, w)" --shape x=1,1,100000 --shape w=1,1,5 --memory 100M
"""


@click.command(cls=options.OfExpression, epilog=EPILOG)
@options.expression_argument()
@click.option(
    "--let", "lets", multiple=True, metavar="NAME=VALUE", help="An input; only the shape of its value matters."
)
@options.shape_option
@options.wrt_option
@options.memory_option
@options.output_options_of("text", "json")
@options.traceback_option
@reporting
def plan(
    expression: str, lets: tuple[str, ...], shapes: tuple[str, ...], wrt: str | None, memory: str | None, style: str,
    path: Path | None, traceback: bool,
) -> None:  # fmt: skip
    """Show how large the Jacobians of EXPRESSION are.

    It counts the entries that can be nonzero, the blocks, the bytes and the passes. Shapes are enough: no value is
    used. "At most" marks an upper bound. Passes are the vectors v of vᵀJ, or u of Ju, that are needed to find every
    entry of J.
    """
    from symgrad.api import plans
    from symgrad.render import plans_json, plans_text
    from symgrad.render.flow import wrapped

    output.check(path)
    with options.memory_of(memory), output.patience("planning"):
        found, assumed = plans(expression, options.values_of(lets), wrt=wrt, shapes=options.shapes_of(shapes))
    written = (plans_json if style == "json" else plans_text)(expression, found, assumed)
    output.deliver(written if style == "json" else wrapped(written, output.width()), path, style)
