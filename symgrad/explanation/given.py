"""What goes into an explanation: its inputs, the seed, and how it is written out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from symgrad.numeric import Array


@dataclass(frozen=True, eq=False)
class Given:
    """An input as it was used: its value, and whether the user gave value and shape; else what it is, in ``words``."""

    name: str
    value: Array
    value_given: bool
    shape_given: bool
    words: str = ""


@dataclass(frozen=True, eq=False)
class Seed:
    """v: the weights of the outputs.

    ``origin`` is "given", "scalar" (the output has one element, v is 1), "assumed" (ones, since nothing was
    given) or "downstream" (∂L/∂out of ``then``); ``closed_form`` is then v as code, where it has such a form.
    """

    value: Array
    origin: str
    text: str
    closed_form: str | None = None


@dataclass(frozen=True)
class Writers:
    """How an explanation is written, handed in from above: the data does not know its renderers."""

    text: Callable[..., str]
    markdown: Callable[..., str]
    latex: Callable[..., str]
    json: Callable[..., str]
    svg: Callable[..., str]
    html: Callable[..., str]
    notebook: Callable[..., str]
    matrix: Callable[..., str]
