"""The verbs that hold what somebody wrote against what is derived: ``check`` a backward, ``exercise`` with a gradient.

Comes in: a function of the user's, or the lines typed. Goes out: a verdict, and in the exit status whether it is right.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from symgrad.errors import InputError
from symgrad.files import check_place, write_whole
from symgrad_cli import options, output
from symgrad_cli.failures import DISAGREED, reporting

EPILOG = """
\b
Examples:
  symgrad check kernels:softmax "softmax(x, dim=-1)" --let "x=randn(3,4)"
  symgrad check kernels:forward,backward "x @ a" --let "x=randn(2,3)" --let "a=randn(3,4)"
  symgrad check kernels:softmax "softmax(x)" --let "x=randn(8)" --emit-test test_softmax.py
"""
TYPES = ("float64", "float32", "float16", "bfloat16")


@click.command(cls=options.OfExpression, epilog=EPILOG)
@click.argument("target", metavar="MODULE:FUNCTION")
@options.expression_argument(required=False)
@options.let_option("The value of an input, in the order of the arguments. Repeatable.")
@options.wrt_option
@options.order_option("2: also check the double backward.")
@click.option("--only", metavar="BATTERY,…", help="Only these batteries.")
@click.option("--skip", metavar="BATTERY,…", help="Skip these batteries.")
@click.option("--dtype", type=click.Choice(TYPES), default="float64", show_default=True, help="Dtype of the inputs.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random v.")
@options.output_options_of("text", "json")
@click.option("--emit-test", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write the same check as a file for pytest.")  # fmt: skip
@options.traceback_option
@reporting
def check(
    target: str, expression: str | None, lets: tuple[str, ...], wrt: str | None, order: int, only: str | None,
    skip: str | None, dtype: str, seed: int, style: str, path: Path | None, emit_test: Path | None, traceback: bool,
) -> int:  # fmt: skip
    """Check a backward of your own against the derived one.

    FUNCTION takes and returns torch tensors; MODULE:forward,backward names two NumPy functions. Its backward is
    compared with the derived backward of EXPRESSION. Without EXPRESSION, FUNCTION's own forward pass is captured and
    differentiated, or compared with difference quotients. Exit status: 0 no mistake found, 1 a mistake found, 2 the
    input cannot be used.
    """
    from symgrad.language import arguments
    from symgrad.testing.check import check_named, write_test

    for place in (path, emit_test):
        if place is not None:
            check_place(place)
    literals = options.values_of(lets)
    values = {}
    for name, value in literals.items():
        if value.shape is None:
            raise InputError(f"{name} needs a shape", found=(value.text,), hints=(f"--let {name}=randn(3,4)",))
        values[name] = value.array(value.shape, name)
    names = arguments.require_names(wrt, "wrt")
    chosen = {"order": order, "only": only, "skip": skip, "seed": seed}
    with output.patience("checking"):
        report = check_named(target, expression, values, names, dtype, chosen)
    output.deliver(report.to_json() if style == "json" else report.to_text(), path, style)
    if emit_test is not None:
        usual = {"order": None if order == 1 else order, "only": only, "skip": skip, "seed": seed}
        write_whole(emit_test, write_test(target, expression, values, names, dtype, usual))
    return 0 if report.passed else DISAGREED


@click.command(cls=options.OfExpression)
@options.expression_argument()
@options.shape_option
@click.option("--wrt", metavar="x", help="The input whose gradient you have to find.  [default: the first]")
@click.option("--answer", metavar="LINE", help="Check this line and stop: exit status 0 where it is exact, else 1.")
@click.option(
    "-o", "--output", "path", type=click.Path(dir_okay=False, path_type=Path),
    help="Write the exercise as a page (HTML, one file) that checks lines by itself.",
)  # fmt: skip
@options.open_option
@options.traceback_option
@reporting
def exercise(
    expression: str, shapes: tuple[str, ...], wrt: str | None, answer: str | None, path: Path | None, opened: bool,
    traceback: bool,
) -> int:  # fmt: skip
    """Ask for the gradient of EXPRESSION, and check your answer.

    The answer is one line of Python in v, out and the inputs, such as "v @ a.T". It is exact, approximate, or wrong,
    and then the mistake is named. An empty line shows the closed form.
    """
    from symgrad.exercises import exercise as asked

    _, path = output.page_place("html", path, opened)
    output.check(path)
    with output.patience("deriving"):
        question = asked(expression, wrt=wrt, shapes=options.shapes_of(shapes))
    if path is not None:
        output.deliver(question.to_html(), path, "html", opened)
        return 0
    if answer is not None:
        verdict = question.check(answer)
        click.echo(output.broken(str(verdict)))
        return 0 if verdict.right else DISAGREED
    click.echo(output.broken(question.question))
    while True:
        click.echo(f"{question.name}.grad = ", nl=False)
        line = sys.stdin.readline()
        if not line.strip():
            click.echo(question.solution or "(there is no short closed form)")
            return DISAGREED
        verdict = question.check(line)
        click.echo(output.broken(f"  {verdict}"))
        if verdict.right:
            return 0
