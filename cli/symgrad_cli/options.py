"""Options that several verbs share, and how their texts become values; each declared once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from symgrad.errors import InputError
from symgrad.files import keeping

if TYPE_CHECKING:
    from symgrad.language import Value

Command = Callable[..., Any]
FORMATS = ("text", "markdown", "latex", "json")
ENDINGS = {
    ".md": "markdown", ".markdown": "markdown", ".tex": "latex", ".json": "json",
    ".html": "html", ".htm": "html", ".svg": "svg",
}  # fmt: skip
"""What a file is to hold, by the end of its name."""
PLAIN = ("", ".txt", ".log", ".out", ".py")
"""Ends of the names of files that hold text, or the lines of ``--code``."""
WRITES = "Write to FILE instead of the terminal."


class OfExpression(click.Command):
    """A verb whose EXPRESSION may begin with a minus: ``-x*2`` is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """A blank before the minus makes it a text."""
        options = {name for parameter in self.get_params(ctx) for name in (*parameter.opts, *parameter.secondary_opts)}

        def is_text(word: str) -> bool:
            if len(word) < 2 or word[0] != "-" or word[1] == "-":
                return False
            return word[:2] not in options or word[:2] == "-h" != word

        return super().parse_args(ctx, [f" {word}" if is_text(word) else word for word in args])


def expression_argument(required: bool = True) -> Callable[[Command], Command]:
    """``EXPRESSION``; the name of a script is refused, with the verb that takes it."""

    def read(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
        if text is not None and (script := re.match(r"\s*([\w./\\-]+\.py)\b", text)):
            raise click.UsageError(f"{script[1]} is a script, not an expression. Try: symgrad run {script[1]}")
        return None if text is None else text.strip()

    return click.argument("expression", required=required, callback=read)


def cache_option(command: Command) -> Command:
    """``--no-cache``; without it, what was proven once is known to later runs."""

    def chosen(context: click.Context, _: click.Parameter, without: bool) -> None:
        context.with_resource(keeping(not without))

    return click.option(
        "--no-cache", is_flag=True, expose_value=False, callback=chosen,
        help="Derive and verify everything anew, and cache nothing for later runs.",
    )(command)  # fmt: skip


traceback_option = click.option("--traceback", is_flag=True, help="Show where in symgrad an error arose.")
shape_option = click.option(
    "--shape", "shapes", multiple=True, metavar="NAME=2,3",
    help="The shape of an input; a letter is a size to be inferred. Repeatable.",
)  # fmt: skip
wrt_option = click.option("--wrt", metavar="x,a", help="The inputs to differentiate with respect to.  [default: all]")
expand_option = click.option(
    "--expand", is_flag=True, help="Show the steps inside composite operations such as softmax."
)
memory_option = click.option(
    "--memory", metavar="SIZE", help="How much memory numbers may take: 500M, 4G.  [default: 1G]"
)
open_option = click.option(
    "--open", "opened", is_flag=True, help="Write a page and open it in the browser.  [means --format html]"
)


def let_option(what: str) -> Callable[[Command], Command]:
    """``--let NAME=VALUE``, whose help says ``what`` it is."""
    return click.option("--let", "lets", multiple=True, metavar="NAME=VALUE", help=what)


def order_option(what: str) -> Callable[[Command], Command]:
    """``--order``, whose help says ``what`` the second one adds."""
    return click.option("--order", type=click.IntRange(1, 2), default=1, show_default=True, help=what)


def file_option(what: str = WRITES) -> Callable[[Command], Command]:
    """``-o FILE``, whose help says ``what`` is written."""
    return click.option(
        "-o", "--output", "path", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help=what,
        is_eager=True,
    )  # fmt: skip


def output_options(command: Command, formats: Sequence[str] = FORMATS, what: str = WRITES) -> Command:
    """``--format`` and ``-o``; where no format is named, the file's ending says which."""

    def chosen(context: click.Context, _: click.Parameter, style: str | None) -> str:
        path = context.params.get("path")
        ending = path.suffix.lower() if path else ""
        if style is not None or ending in PLAIN:
            return style or "text"
        if ENDINGS.get(ending) not in formats:
            known = ", ".join(name for name, held in ENDINGS.items() if held in formats)
            raise click.BadParameter(
                f"there is no format for {ending}. Endings: {known}, .txt; or name a --format.", param_hint="'-o'"
            )
        return ENDINGS[ending]

    return click.option(
        "--format", "style", type=click.Choice(formats), callback=chosen,
        help="The output format.  [default: by FILE's ending, else text]",
    )(file_option(what)(command))  # fmt: skip


def output_options_of(*formats: str, what: str = WRITES) -> Callable[[Command], Command]:
    """``--format``, one of ``formats``, and ``-o``, whose help says ``what`` is written."""
    return lambda command: output_options(command, formats, what)


@contextmanager
def memory_of(text: str | None) -> Iterator[None]:
    """Inside the block numbers may take as much memory as ``--memory`` says."""
    if text is None:
        yield
        return
    from symgrad.lowering.graph import memory_of

    with memory_of(text):
        yield


def page_options(command: Command) -> Command:
    """``--format``, a page among them, ``-o`` and ``--open``."""
    return open_option(output_options(command, (*FORMATS, "html")))


def picture_options(command: Command) -> Command:
    """``--format``, pictures and pages among them, ``--picture``, ``-o`` and ``--open``."""
    command = click.option(
        "--picture", type=click.Choice(("product", "program")), default="product", show_default=True,
        help="With --format svg: v times J, or the program with its gradients.",
    )(command)  # fmt: skip
    return open_option(output_options(command, (*FORMATS, "html", "svg")))


def named(pairs: Sequence[str], option: str, form: str) -> dict[str, str]:
    """``NAME=TEXT`` pairs as a dictionary; raises `InputError` for anything else."""
    result = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals or not name.isidentifier() or not text.strip():
            raise InputError(f"{option} needs NAME=VALUE", found=(pair,), hints=(f"{option} {form}",))
        if name in result:
            raise InputError(f"{option} gives {name} twice", found=(pair,))
        result[name] = text.strip()
    return result


def values_of(pairs: Sequence[str]) -> dict[str, Value]:
    """The values of ``--let``."""
    from symgrad.language import parse_value

    return {name: parse_value(text) for name, text in named(pairs, "--let", "x=[[1,2],[3,4]]").items()}


def shapes_of(pairs: Sequence[str]) -> dict[str, tuple[int | str, ...]]:
    """The shapes of ``--shape``."""
    return {name: shape_of(text) for name, text in named(pairs, "--shape", "x=2,3").items()}


def shape_of(text: str) -> tuple[int | str, ...]:
    """``2,3`` or ``m,3``; ``()`` is a scalar."""
    inside = text.strip("()[] ").removesuffix(",")
    parts = [part.strip() for part in inside.split(",")] if inside else []
    for part in parts:
        if not re.fullmatch(r"\d{1,9}|[A-Za-z]\w*", part):
            problem = "this size is too large" if part.isdecimal() else "a size is a number or a letter"
            raise InputError(problem, found=(part or "nothing between two commas",), hints=("--shape x=2,3",))
    return tuple(int(part) if part.isdigit() else part for part in parts)


def entry_of(text: str | None) -> tuple[str, tuple[int, ...]] | None:
    """``x[0,1]`` as a name and a place."""
    if text is None:
        return None
    from symgrad.language.literals import parse_entry_name

    found = parse_entry_name(text)
    if found is None:
        raise InputError("--entry names one entry of an input", found=(text,), hints=('--entry "x[0,1]"',))
    return found
