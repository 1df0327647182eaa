"""The command ``symgrad``: its verbs, its version, its help."""

from __future__ import annotations

import click

import symgrad
from symgrad_cli.catalog import docs, errors, ops
from symgrad_cli.explain import explain
from symgrad_cli.failures import Verbs
from symgrad_cli.formulas import code, derive, plan
from symgrad_cli.grading import check, exercise
from symgrad_cli.run import run
from symgrad_cli.serve import serve

EPILOG = """
\b
Examples:
  symgrad explain "x@a" --seed "[[1,2,3,4],[5,6,7,8]]"
  symgrad explain "softmax(x)" --let "x=[1,2,3]" --seed "onehot(0)"
  symgrad explain "a@x" --let "y=[1,2]" --then "sum((out-y)**2)"
  symgrad derive "tanh(x@w + b)"
  symgrad plan "x@a" --shape x=720,720 --shape a=720,720
  symgrad ops softmax
  symgrad run train.py
  symgrad check kernels:softmax "softmax(x, dim=-1)" --let "x=randn(3,4)"
  symgrad code "softmax(x, dim=-1)" --shape x=3,4 -o softmax.py
"""


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=Verbs, epilog=EPILOG, context_settings=CONTEXT)
@click.version_option(symgrad.__version__, prog_name="symgrad")
def main() -> None:
    """Show what out.backward(v) computes: v times the Jacobian, derived, entry by entry, and proven.

    Exit status: 0 everything agrees, 1 an independent computation disagrees with the derivation, 2 the input cannot be
    used.
    """


@click.command("help")
@click.argument("verb", required=False)
@click.pass_context
def help_of(context: click.Context, verb: str | None) -> None:
    """Show the help of a command, as symgrad COMMAND --help does."""
    main([*([] if verb is None else [verb]), "--help"], prog_name=context.find_root().info_name)


for verb in (help_of, explain, derive, plan, exercise, ops, errors, docs, run, check, code, serve):
    main.add_command(verb)
