"""What can go wrong, in the user's words: one exception class, seven kinds.

Comes in: a problem, and where it is known the span of text it is about, what was found, what would do.
Goes out: a message of up to four parts, always in the order what, where, found, try; below a traceback and on the
command line the page about its kind is named, too.
The parts stay attributes, so that a renderer never parses text.
"""

from __future__ import annotations

from typing import ClassVar

from symgrad.ways import Hint

Span = tuple[int, int]
"""Half-open range of character offsets into the source text."""


class SymgradError(Exception):
    """Something the user can mend.

    ``problem`` is one sentence; ``span`` the characters it is about; ``excerpt`` the source line with
    the span underlined (filled in by `symgrad.source.Source.locate`); ``found`` what was there instead;
    ``hints`` what would do, in the words of
    whoever asks (`symgrad.ways`).
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

    @property
    def page(self) -> str:
        """The command that prints the page about this kind.

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
    """A function, method, argument or tensor that nothing knows."""

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
    """Not yet: it could be done, but symgrad does not."""

    kind = "unsupported"


class UndefinedError(SymgradError):
    """Cannot be: there is no such derivative."""

    kind = "undefined"


def seed_apart(seed: object, name: str, out: object, *hints: Hint, span: Span | None = None) -> ShapeError:
    """The exception for a seed of the shape ``seed`` at an output ``name`` of the shape ``out``."""
    return ShapeError(
        "the seed has to have the shape of the output: one weight for each of its entries",
        span=span, found=(f"seed {seed}, {name} {out}",), hints=hints,
    )  # fmt: skip


def bug(statement: str) -> AssertionError:
    """The exception for a broken promise of symgrad's own."""
    return AssertionError(f"symgrad bug: {statement}")
