"""``symgrad explain EXPR``: the whole story of one expression, or of one call, with numbers and proofs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

import symgrad
from symgrad.errors import InputError
from symgrad_cli import options, output
from symgrad_cli.failures import DISAGREED, reporting
from symgrad_cli.loading import load

EPILOG = """
\b
Values: [[1,2],[3,4]]  1/2  ones  ones(2,3)  zeros  eye(3)  arange(6,shape=(2,3))
        randn(2,3,seed=0)  @file.npy  @file.json          (without one: ones, or 0.47, -0.6, ... where ones show little)
Seeds:  the same, and  onehot(1,2)  random                (without one: 1 for a scalar, else ones)

\b
Examples:
  symgrad explain "x@a" --seed "[[1,2,3,4],[5,6,7,8]]"
  symgrad explain "torch.tanh(x @ w + b)" --shape x=2,3 --shape w=3,4
  symgrad explain "a@x" --let "y=[1,2]" --then "sum((out-y)**2)"
  symgrad explain "softmax(x)" --let "x=[1,2,3]" --entry "x[0]"
  symgrad explain "x@A@x" --let "x=[1,2]" --wrt x --order 2
  symgrad explain "x@a" --seed "[[1,2,3,4],[5,6,7,8]]" -o product.svg
  symgrad explain "softmax(x@w)" --shape x=2,3 --open
  symgrad explain "out[i] = sum_j x[i+j]*w[j]" --shape x=6 --shape w=3
  symgrad explain --call mypackage.layers:gelu --let "x=randn(2,3)"
"""


@click.command(cls=options.OfExpression, epilog=EPILOG)
@options.expression_argument(required=False)
@click.option(
    "--call",
    "target",
    metavar="MODULE:FUNCTION",
    help="Instead of EXPRESSION: a Python function of PyTorch tensors, called once with the values of --let.",
)
@options.let_option("The value of an input. Repeatable.")
@options.shape_option
@options.wrt_option
@click.option("--seed", metavar="VALUE", help="v: one weight for each entry of the output.")
@click.option(
    "--then",
    metavar="EXPR",
    help="A scalar computed from out, as in training; v is its derivative with respect to out.",
)
@click.option("--entry", metavar='"x[0,1]"', help="One entry of a gradient, computed step by step.")
@click.option("--brief", is_flag=True, help="Only the answer: a line for each gradient, and whether torch agrees.")
@options.expand_option
@options.order_option("2: also the Hessian.")
@click.option("--forward", is_flag=True, help="Also the lines of Ju, which torch.func.jvp computes (forward mode).")
@click.option("--check/--no-check", default=True, help="Verify the derivation.  [default: check]")
@options.memory_option
@options.picture_options
@click.option("--color/--no-color", default=None, help="Colours in the terminal.  [default: if it supports them]")
@options.cache_option
@options.traceback_option
@reporting
def explain(
    expression: str | None,
    target: str | None,
    lets: tuple[str, ...],
    shapes: tuple[str, ...],
    wrt: str | None,
    seed: str | None,
    then: str | None,
    entry: str | None,
    brief: bool,
    expand: bool,
    order: int,
    forward: bool,
    check: bool,
    memory: str | None,
    style: str,
    path: Path | None,
    picture: str,
    opened: bool,
    color: bool | None,
    traceback: bool,
) -> int:
    """Show what out.backward(v) computes for EXPRESSION.

    EXPRESSION is Python as people write it: x@a, torch.mm(x, a), F.softmax(x @ w, dim=-1), x[:, 0].sum().
    Several statements are separated by semicolons: "h = relu(x@w + b); h @ w2". An operation that torch does
    not have is an index equation: "out[i] = sum_j x[i+j]*w[j]".

    With --call a function, method or nn.Module of your own is run once, in float64, and what it did is
    explained; this runs your code. Its arguments are given by --let, or by --shape as ones. With --wrt x only x
    is differentiated by, and whole numbers among the others stay whole: indices, axes.
    """
    load()
    from symgrad.api import explain_values
    from symgrad.language import parse_value

    story = options.entry_of(entry)
    style, path = output.page_place(style, path, opened)
    output.check(path)
    if target is not None:
        if expression is not None or then is not None or expand:
            raise InputError(
                "--call goes without an expression, --then and --expand",
                hints=("symgrad explain --call module:function",),
            )
        with output.patience("explaining"):
            result = explain_call(target, lets, shapes, wrt, seed, check, order)
        deliver(replace(result, forward=forward), style, story, brief, path, color, picture, opened)
        return 0 if result.passed else DISAGREED
    if expression is None:
        raise InputError(
            "nothing to explain", hints=('symgrad explain "x@a"', "symgrad explain --call module:function")
        )
    with options.memory_of(memory):
        with output.patience("explaining"):
            result = explain_values(
                expression,
                options.values_of(lets),
                seed=None if seed is None else parse_value(seed),
                wrt=wrt,
                then=then,
                shapes=options.shapes_of(shapes),
                check=check,
                expand=expand,
                order=order,
            )
        deliver(replace(result, forward=forward), style, story, brief, path, color, picture, opened)
    return 0 if result.passed else DISAGREED


def explain_call(
    target: str,
    lets: tuple[str, ...],
    shapes: tuple[str, ...],
    wrt: str | None,
    seed: str | None,
    check: bool,
    order: int,
) -> symgrad.Explanation:
    """Capture ``module:function`` and explain what it did."""
    from symgrad.language import parse_value
    from symgrad.tracing import capture_call

    chosen = None if wrt is None else [name.strip() for name in wrt.split(",") if name.strip()]
    program = capture_call(target, options.values_of(lets), options.shapes_of(shapes), chosen)
    weights = None if seed is None else parse_value(seed).array(program.results[0].shape, "v")
    return program.explain(weights, wrt=chosen, check=check, order=order)


def deliver(
    result: symgrad.Explanation,
    style: str,
    entry: tuple[str, tuple[int, ...]] | None,
    brief: bool,
    path: Path | None,
    color: bool | None,
    picture: str,
    opened: bool,
) -> None:
    """Write an explanation in the style asked for."""
    if style == "text":
        colored = output.wants_color(color) and path is None
        text = result.to_text(width=output.width(), color=colored, entry=entry, brief=brief)
    elif style == "json":
        text = result.to_json(entry=entry)
    elif style == "svg":
        text = result.to_svg(None if entry is None else entry[0], program=picture == "program")
    elif style == "html":
        from symgrad.exercises import exercise_data

        text = result.to_html(
            entry=entry, brief=brief, asked=None if entry is not None or brief else exercise_data(result)
        )
    else:
        writers = {"markdown": result.to_markdown, "latex": result.to_latex}
        text = writers[style](entry=entry, brief=brief)
    output.deliver(text, path, style, opened)
