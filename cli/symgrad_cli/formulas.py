"""The verbs that read an expression and need no numbers: ``derive``, ``plan`` and ``code``.

Comes in: an expression, and what is known of its shapes. Goes out: formulas for every size, how large Jacobians would
be before any of them is computed, or the forward pass and vᵀJ as source that stands on its own.
"""

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
@options.order_option("2: also the second derivatives.")
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
    from symgrad.language import why_whole
    from symgrad.question import read_text

    style, path = output.page_place(style, path, opened)
    if order == 2 and style == "json":
        raise InputError("JSON has no field for the lines of second derivatives", hints=("--order 1",))
    output.check(path)
    with output.patience("deriving"):
        given = options.shapes_of(shapes)
        program, derived = symgrad.derive(expression, wrt=wrt, shapes=given, expand=expand)
        reading = read_text(expression, given, symbolic=True)
    options_of = {"width": output.width()} if style == "text" else {}
    written = render.write_derivation(style, program, derived, order=order, remarks=reading.remarks, **options_of)
    for reason in why_whole(reading.program) if expand else ():
        click.echo(reason, err=True)
    output.deliver(written, path, style, opened)


PLANS = """
\b
Examples:
  symgrad plan "x@a" --shape x=720,720 --shape a=720,720
  symgrad plan "softmax(tanh(x@w) @ u, -1)" --shape x=1000,50 --wrt x --format json
  symgrad plan "F.conv1d(x, w)" --shape x=1,1,100000 --shape w=1,1,5 --memory 100M
"""


@click.command(cls=options.OfExpression, epilog=PLANS)
@options.expression_argument()
@options.let_option("An input; only the shape of its value matters.")
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
    from symgrad.render.wrapping import wrap_lines

    output.check(path)
    with options.memory_of(memory), output.patience("planning"):
        found, assumed = plans(expression, options.values_of(lets), wrt=wrt, shapes=options.shapes_of(shapes))
    written = (plans_json if style == "json" else plans_text)(expression, found, assumed)
    output.deliver(written if style == "json" else wrap_lines(written, output.width()), path, style)


SOURCES = """
\b
Examples:
  symgrad code "softmax(x, dim=-1)" --shape x=3,4
  symgrad code "relu(x@w + b)@u" --to numpy -o layers.py
  symgrad code "out[i] = sum_j x[j]*w[i,j]" --style functions
"""


@click.command(cls=options.OfExpression, epilog=SOURCES)
@options.expression_argument()
@click.option("--to", type=click.Choice(("torch", "numpy", "jax")), default="torch", show_default=True,
              help="The library that the source is for.")  # fmt: skip
@click.option("--style", type=click.Choice(("class", "functions")), default=None,
              help="A torch.autograd.Function (jax: custom_vjp), or two functions.  [default: class]")  # fmt: skip
@click.option("--forward", "forward_only", is_flag=True, help="The forward pass alone.")
@click.option("--name", metavar="NAME", help="What the function is called.  [default: by the operation]")
@options.shape_option
@options.wrt_option
@options.file_option()
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
