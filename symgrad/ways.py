"""What would do, in the words of the way in: a shell, Python, the fields of the local page, a directive.

Comes in: which setting of a question is meant. Goes out: a `Setting`, which is text wherever text is wanted, in the
words of whoever asks then: `asked_by` says who does. Nobody said it: Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

What = Literal["let", "shape", "seed", "wrt", "then", "format", "run", "command"]


class Way(Enum):
    """A way in, which has words of its own."""

    COMMAND = auto()
    PYTHON = auto()
    FIELDS = auto()
    DIRECTIVE = auto()


ELSEWHERE: Mapping[What, str] = {
    "format": "symgrad explain --format {value}", "run": "symgrad run {value}", "command": "symgrad {value}",
}  # fmt: skip
"""What only a shell can do."""
FORMS: Mapping[Way, Mapping[What, str]] = {
    Way.COMMAND: {
        "let": "--let {name}={value}", "shape": "--shape {name}={value}", "seed": "--seed {value}",
        "wrt": "--wrt {name}", "then": '--then "{value}"', "format": "--format {value}", "run": "{value}",
        "command": ELSEWHERE["command"],
    },
    Way.PYTHON: {
        **ELSEWHERE, "let": "{name}={value}", "shape": 'shapes={{"{name}": ({value})}}', "seed": "seed={value}",
        "wrt": 'wrt="{name}"', "then": 'then="{value}"', "format": ".to_{value}()",
    },
    Way.FIELDS: {
        **ELSEWHERE, "let": "values: {name}={value}", "shape": "shapes: {name}={value}", "seed": "seed: {value}",
        "wrt": "by: {name}", "then": "symgrad explain --then",
    },
    Way.DIRECTIVE: {
        **ELSEWHERE, "let": ":let: {name}={value}", "shape": ":shape: {name}={value}", "seed": ":seed: {value}",
        "wrt": ":wrt: {name}", "then": ":then: {value}",
    },
}  # fmt: skip
asking: ContextVar[Way] = ContextVar("asking", default=Way.PYTHON)


@contextmanager
def asked_by(way: Way) -> Iterator[None]:
    """Inside, what would do is said in the words of ``way``."""
    before = asking.set(way)
    try:
        yield
    finally:
        asking.reset(before)


@dataclass(frozen=True)
class Setting:
    """One setting of a question; ``sentence`` is what is said around it.

    >>> said = Setting("shape", "x", "3")
    >>> str(said)
    'shapes={"x": (3,)}'
    >>> with asked_by(Way.COMMAND):
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
        if way is Way.PYTHON and self.what == "shape":  # a tuple, as Python writes one
            value = ", ".join(value.split(",")) + "," * ("," not in value)
        if way is Way.PYTHON and self.what == "let" and "(" in value:  # made by a word of the texts, not of Python
            value = f'"{value}"'
        return self.sentence.replace("{}", FORMS[way][self.what].format(name=self.name, value=value))


Hint = str | Setting
"""What would do."""


RUN = Setting("command", value="run SCRIPT", sentence="a script as it stands: {}")
"""What reads all of Python."""
