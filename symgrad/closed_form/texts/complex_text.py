"""Steps on pairs (re, im) as torch writes them: ``view_as_real(torch.polar(r, t))``.

Comes in: a step of an entry that is about complex tensors (`symgrad.ops.complex.complex_pairs`). Goes out: its text.
Pairs are seen as complex numbers on the way in and as pairs again on the way out; between two such steps neither is
said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from symgrad.closed_form.texts.pieces import ATOM, MATMUL, MULTIPLY, NEGATE, NoForm, Text, bracketed
from symgrad.ops import named
from symgrad.ops.calls.written import sign_of
from symgrad.program import Apply, Argument, Constant

BINDS = {"*": MULTIPLY, "/": MULTIPLY, "@": MATMUL}


class Speaker(Protocol):
    """Who writes what a step is applied to: `symgrad.closed_form.texts.source_text.Writer`."""

    def operands(self, step: Apply) -> Sequence[Argument]:
        """The arguments, without what only broadcasts them."""

    def arguments(self, step: Apply, operands: list[Text | None]) -> list[str]:
        """The words between the brackets of a call."""

    def maker(self, argument: Argument) -> Apply | None:
        """The step that is written out in the place of an intermediate."""

    def operand(self, argument: Argument) -> Text | None:
        """A tensor or a constant."""

    def tensor(self, name: str) -> Text:
        """What computes a tensor."""


def complex_text(writer: Speaker, step: Apply) -> Text:
    """The step in torch's words, a complex result as pairs."""
    text, binds = inner_text(writer, step)
    return (f"view_as_real({text})", ATOM) if "out" in named(step.op).pairs else (text, binds)


def inner_text(writer: Speaker, step: Apply) -> Text:
    """The step in torch's words, a complex result as it is."""
    op = named(step.op)
    operands = [
        seen(writer, a) if name in op.pairs else plain(writer, step, a)
        for name, a in zip(op.operands, writer.operands(step), strict=True)
    ]
    if sign := sign_of(step.op):
        binds = BINDS[sign]
        return f"{bracketed(*operands[0], binds)} {sign} {bracketed(*operands[1], NEGATE)}", binds
    word = op.spelled[0] if op.spelled else f"torch.{op.name.removeprefix('complex_')}"
    text = f"{word}({', '.join(writer.arguments(step, list(operands)))})"
    return (f"{text}.resolve_conj()" if word.endswith("ihfft") else text), ATOM


def seen(writer: Speaker, argument: Argument) -> Text:
    """Pairs as complex numbers."""
    maker = writer.maker(argument)
    if maker is not None and "out" in named(maker.op).pairs:
        return inner_text(writer, maker)
    text, binds = writer.operand(argument) or ("", ATOM)
    rows = text if text.isidentifier() else f"{bracketed(text, binds, ATOM)}.contiguous()"
    return f"view_as_complex({rows})", ATOM


def plain(writer: Speaker, step: Apply, argument: Argument) -> Text:
    """A real operand; torch takes no number here, so 0 is written as a tensor."""
    if not isinstance(argument, Constant):
        return writer.operand(argument) or ("", ATOM)
    others = step.tensors
    if argument.value != 0 or not others:
        raise NoForm
    return f"zeros_like({writer.tensor(others[0])[0]})", ATOM
