"""``symgrad exercise EXPR``: asks for a gradient and checks the line that is typed."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from symgrad_cli import options, output
from symgrad_cli.failures import DISAGREED, reporting


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
