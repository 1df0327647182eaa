"""What lifting hands back: a program with the values and names of one run, or a refusal.

Comes in: nothing but the parts. Goes out: `Lifted`, which `symgrad.tracing.lift.lifter` fills, `Refused`, with which
one way to lift gives way to the next, and the names a tensor may bear. They stand apart from the lifting so that
every way to lift can use them without a circle.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from symgrad.errors import SymgradError
from symgrad.language.steps.calls import Ref
from symgrad.numeric.exact import Array
from symgrad.program import Program
from symgrad.tracing.lift.boxes import BlackBox
from symgrad.tracing.lift.labels import Origin
from symgrad.tracing.record.trace import Node, Where

RESERVED = frozenset({"out", "inf", "nan", "pi", "e", "torch", "F", "np"})
"""Names that mean something else in a formula."""
WRITTEN = re.compile(r".*([\])]|\.(T|mT|H|mH|real|imag))", re.DOTALL)
"""Names that are a text which reads a tensor, ``x[row]`` or ``k.T``: no number stands behind one."""
TWICE = "an entry is written twice: one value stays, and torch's backward passes the weight on to each"
"""Why a write with repeated places is left to torch."""
UNKNOWN = "has no equation here"
"""What is said of a call, or of a part of one, that nothing else is known of."""


class Refused(Exception):
    """One way to lift a call does not work; the message says why."""


def why(error: Exception) -> str:
    """What went wrong in one sentence, without what would do in a text; torch's own messages go on for pages."""
    first = error.problem if isinstance(error, SymgradError) else (str(error).splitlines() or [""])[0]
    return first.partition(". ")[0]


@dataclass
class Lifted:
    """A program in the making, and the values that belong to it.

    ``labels`` gives inputs and steps the names that the user knows them by; ``nodes`` are the inputs' nodes;
    ``lines`` says where a step was written, ``spellings`` what was called there.
    """

    outputs: tuple[str, ...]
    program: Program
    arrays: dict[str, Array]
    boxes: dict[str, BlackBox]
    labels: dict[str, str]
    nodes: dict[str, Node]
    lines: dict[str, Where] = field(default_factory=dict)
    spellings: dict[str, str] = field(default_factory=dict)
    refs: dict[int, Ref] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)

    @property
    def complexes(self) -> frozenset[str]:
        """The inputs that are complex in torch, and pairs (re, im) here."""
        return frozenset(name for name, node in self.nodes.items() if node.held.is_complex())


def identifier(label: str) -> str:
    """``label`` as one word: ``conv1.weight`` is ``conv1_weight``."""
    word = "".join(c if c.isalnum() or c == "_" else "_" for c in label).strip("_") or "x"
    word = f"x{word}" if word[0].isdigit() else word
    return f"{word}_" if word in RESERVED else word
