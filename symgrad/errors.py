"""Errors for users: one exception class, seven kinds.

Comes in: a problem, and if known the span of text, what was found, and what to try. Goes out: a message of up to four
parts, always in the order what, where, found, try. Tracebacks and the command line also name the help page of the kind.
The parts stay attributes, so that a renderer never parses text. "Where" is the line of the user's text with carets
under the span. "Try" is a text, or a `Setting` printed for the frontend in use (a shell, Python, the fields of the
local page, a directive): `for_frontend` selects it, Python is the default.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

What = Literal["let", "shape", "seed", "wrt", "then", "format", "run", "command"]


class Frontend(Enum):
    """A frontend, which has its own syntax for settings."""

    COMMAND = auto()
    PYTHON = auto()
    FIELDS = auto()
    DIRECTIVE = auto()


ELSEWHERE: Mapping[What, str] = {
    "format": "symgrad explain --format {value}", "run": "symgrad run {value}", "command": "symgrad {value}",
}  # fmt: skip
"""Settings that exist only as shell commands."""
FORMS: Mapping[Frontend, Mapping[What, str]] = {
    Frontend.COMMAND: {
        "let": "--let {name}={value}", "shape": "--shape {name}={value}", "seed": "--seed {value}",
        "wrt": "--wrt {name}", "then": '--then "{value}"', "format": "--format {value}", "run": "{value}",
        "command": ELSEWHERE["command"],
    },
    Frontend.PYTHON: {
        **ELSEWHERE, "let": "{name}={value}", "shape": 'shapes={{"{name}": ({value})}}', "seed": "seed={value}",
        "wrt": 'wrt="{name}"', "then": 'then="{value}"', "format": ".to_{value}()",
    },
    Frontend.FIELDS: {
        **ELSEWHERE, "let": "values: {name}={value}", "shape": "shapes: {name}={value}", "seed": "seed: {value}",
        "wrt": "by: {name}", "then": "loss of out: {value}",
    },
    Frontend.DIRECTIVE: {
        **ELSEWHERE, "let": ":let: {name}={value}", "shape": ":shape: {name}={value}", "seed": ":seed: {value}",
        "wrt": ":wrt: {name}", "then": ":then: {value}",
    },
}  # fmt: skip
asking: ContextVar[Frontend] = ContextVar("asking", default=Frontend.PYTHON)


@contextmanager
def for_frontend(way: Frontend) -> Iterator[None]:
    """Print hints for the frontend ``way`` inside the block."""
    before = asking.set(way)
    try:
        yield
    finally:
        asking.reset(before)


@dataclass(frozen=True)
class Setting:
    """A hint that sets something; ``sentence`` is the text around it.

    >>> said = Setting("shape", "x", "3")
    >>> str(said)
    'shapes={"x": (3,)}'
    >>> with for_frontend(Frontend.COMMAND):
    ...     str(said)
    '--shape x=3'
    """

    what: What
    name: str = "NAME"
    value: str = "…"
    sentence: str = "{}"

    def __str__(self) -> str:
        way = asking.get()
        value = self.value
        if way is Frontend.PYTHON and self.what == "shape":  # a tuple, as Python writes one
            value = ", ".join(value.split(",")) + "," * ("," not in value)
        if way is Frontend.PYTHON and self.what == "let" and "(" in value:  # made by a word of the texts, not of Python
            value = f'"{value}"'
        return self.sentence.replace("{}", FORMS[way][self.what].format(name=self.name, value=value))


Hint = str | Setting
"""Something to try."""


RUN = Setting("command", value="run SCRIPT", sentence="a script as it stands: {}")
"""The hint for texts that only a run of the script can explain."""


Span = tuple[int, int]
"""Half-open range of character offsets into the source text."""


class SymgradError(Exception):
    """An error that the user can fix.

    ``problem`` is one sentence, ``span`` the characters it is about, ``excerpt`` the source line with the span
    underlined (filled in by `symgrad.errors.SourceText.locate`), ``found`` what was there instead, and ``hints`` what
    to try, in the syntax of the frontend (`symgrad.errors`).
    """

    kind: ClassVar[str] = "error"

    def __init__(
        self,
        problem: str,
        *,
        span: Span | None = None,
        excerpt: str | None = None,
        found: tuple[str, ...] = (),
        hints: tuple[Hint, ...] = (),
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.span = span
        self.excerpt = excerpt
        self.found = found
        self.hints = hints
        if self.page:
            self.add_note(f"    see:   {self.page}")  # a traceback ends with it

    def message(self) -> str:
        """Return the text that a user sees: the error, and the command for the help page of its kind."""
        return "\n".join((str(self), *getattr(self, "__notes__", ())))

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: the message, without frames of symgrad."""
        return [self.message()]

    @property
    def page(self) -> str:
        """The command that prints the help page of this kind.

        >>> ShapeError("sizes").page
        'symgrad errors shape'
        """
        return "" if self.kind == SymgradError.kind else f"symgrad errors {self.kind}"

    def __str__(self) -> str:
        lines = [f"error[{self.kind}]: {self.problem}"]
        if self.excerpt:
            lines += [f"    {line}" for line in self.excerpt.splitlines()]
        lines += [f"    found: {line}" for line in self.found]
        lines += [f"    try:   {line}" for line in self.hints]
        return "\n".join(lines)


class NotationError(SymgradError):
    """The text does not parse, or uses a form of Python that is not an expression over tensors."""

    kind = "syntax"


class UnknownNameError(SymgradError):
    """An unknown function, method, argument or tensor."""

    kind = "name"


class ShapeError(SymgradError):
    """Sizes that do not fit together."""

    kind = "shape"


class InputError(SymgradError):
    """A value, literal or file that cannot be used."""

    kind = "value"


class DomainError(SymgradError):
    """A point at which the function is not defined."""

    kind = "domain"


class UnsupportedError(SymgradError):
    """Something that could be done, but that symgrad does not do yet."""

    kind = "unsupported"


class UndefinedError(SymgradError):
    """A derivative that does not exist."""

    kind = "undefined"


def seed_shape_error(seed: object, name: str, out: object, *hints: Hint, span: Span | None = None) -> ShapeError:
    """Return the error for a seed of shape ``seed`` at an output ``name`` of shape ``out``."""
    return ShapeError(
        "the seed must have the shape of the output: one weight for each of its entries",
        span=span, found=(f"seed {seed}, {name} {out}",), hints=hints,
    )  # fmt: skip


def bug(statement: str) -> AssertionError:
    """Return the exception for a bug in symgrad."""
    return AssertionError(f"symgrad bug: {statement}")


WIDTH = 100
"""Excerpts of longer lines are cut to this many characters around the span."""

AnyError = TypeVar("AnyError", bound=SymgradError)
Found = TypeVar("Found")


@dataclass(frozen=True)
class SourceText:
    """A text that the user wrote.

    >>> print(SourceText("softmaks(x)").excerpt((0, 8)))
    softmaks(x)
    ^^^^^^^^
    """

    text: str

    def excerpt(self, span: Span) -> str:
        """Return the line on which ``span`` begins, with carets under the span."""
        start, stop = span
        line_start = self.text.rfind("\n", 0, start) + 1
        line_end = self.text.find("\n", start)
        line_end = len(self.text) if line_end < 0 else line_end
        stop = max(min(stop, line_end), start + 1)
        cut = max(line_start, start - WIDTH // 2) if line_end - line_start > WIDTH else line_start
        shown = self.text[cut : min(line_end, cut + WIDTH)]
        shown = "".join(c if c.isprintable() else " " for c in shown)
        before, after = ("…" if cut > line_start else ""), ("…" if cut + WIDTH < line_end else "")
        carets = "^" * min(stop - start, WIDTH - (start - cut))
        return f"{before}{shown}{after}\n{' ' * (len(before) + start - cut)}{carets}"

    def locate(self, error: AnyError) -> AnyError:
        """Return ``error`` with the excerpt of its span filled in, if it has a span and no excerpt."""
        if error.span is not None and error.excerpt is None:
            error.excerpt = self.excerpt(error.span)
        return error


def place_errors(span: Span | None, compute: Callable[[], Found]) -> Found:
    """Return the result of ``compute``; errors without a place get ``span``."""
    try:
        return compute()
    except SymgradError as error:
        error.span = error.span or span
        raise


def file_or_cell_name(path: str) -> str:
    """Return the name of a file, or ``In[3]`` for a cell of a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    cell = shell.compile.format_code_name(path) if shell is not None else None
    return cell[1] if cell else Path(path).name


def close_names(word: str, names: Iterable[str], count: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return at most ``count`` of ``names`` that are similar to a misspelt ``word``."""
    from difflib import get_close_matches  # which is asked for only where something is wrong

    return get_close_matches(word, list(names), n=count, cutoff=cutoff)
