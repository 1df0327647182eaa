"""The command ``symgrad``: its verbs, its version, its help."""

from __future__ import annotations

from importlib import import_module

import click

import symgrad
from symgrad_cli.failures import Verbs

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


WHERE = {
    "check": "grading", "code": "formulas", "derive": "formulas", "docs": "catalog", "errors": "catalog",
    "exercise": "grading", "explain": "explain", "help": "catalog", "ops": "catalog", "plan": "formulas", "run": "run",
    "serve": "serve",
}  # fmt: skip
"""The file that each verb comes from; it is loaded when the verb is first asked for."""
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Commands(Verbs):
    """The verbs of `WHERE`; ``commands`` stays empty, so that sphinx-click asks for each of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return sorted(WHERE)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A verb; None where there is none of this name."""
        known = vars(import_module(f"symgrad_cli.{WHERE[cmd_name]}")) if cmd_name in WHERE else {}
        verbs = (verb for verb in known.values() if isinstance(verb, click.Command))
        return next((verb for verb in verbs if verb.name == cmd_name), None)


@click.group(cls=Commands, epilog=EPILOG, context_settings=CONTEXT)
@click.version_option(symgrad.__version__, prog_name="symgrad")
def main() -> None:
    """Show what out.backward(v) computes: v times the Jacobian, derived, entry by entry, and proven.

    Exit status: 0 everything agrees, 1 an independent computation disagrees with the derivation, 2 the input cannot be
    used.
    """
