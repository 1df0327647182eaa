"""``symgrad code EXPR``: the forward pass and vᵀJ as source that stands on its own."""

from __future__ import annotations

from pathlib import Path

import click

from symgrad_cli import options, output
from symgrad_cli.failures import reporting

EPILOG = """
\b
Examples:
  symgrad code "softmax(x, dim=-1)" --shape x=3,4
  symgrad code "relu(x@w + b)@u" --to numpy -o layers.py
  symgrad code "out[i] = sum_j x[j]*w[i,j]" --style functions
"""


@click.command(cls=options.OfExpression, epilog=EPILOG)
@options.expression_argument()
@click.option("--to", type=click.Choice(("torch", "numpy", "jax")), default="torch", show_default=True,
              help="The library that the source is for.")  # fmt: skip
@click.option("--style", type=click.Choice(("class", "functions")), default=None,
              help="A torch.autograd.Function (jax: custom_vjp), or two functions.  [default: class]")  # fmt: skip
@click.option("--forward", "forward_only", is_flag=True, help="The forward pass alone.")
@click.option("--name", metavar="NAME", help="What the function is called.  [default: by the operation]")
@options.shape_option
@options.wrt_option
@click.option("-o", "--output", "path", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write to FILE instead of the terminal.")  # fmt: skip
@options.traceback_option
@reporting
def code(
    expression: str, to: str, style: str | None, forward_only: bool, name: str | None, shapes: tuple[str, ...],
    wrt: str | None, path: Path | None, traceback: bool,
) -> None:  # fmt: skip
    """Write EXPRESSION and its backward as Python code.

    The code has the forward pass and the derived vᵀJ, and does not import symgrad. Its lines are those of `symgrad
    explain`, proven before they are written. It works for every size that nothing fixes; --shape gives the number of
    axes.
    """
    from symgrad.exporting import export

    output.check(path)
    known = options.shapes_of(shapes)
    with output.patience("deriving"):
        text = export(expression, to=to, style=style, name=name, wrt=wrt, shapes=known, forward_only=forward_only)
    output.deliver(text, path)
