"""What a candidate is to the batteries: something that runs forward, and then pulls seeds back as often as it is asked.

Comes in: nothing of torch. Goes out: the shapes of what `symgrad.testing.candidates.tensors` (torch) and
`symgrad.testing.candidates.pairs` (NumPy) hand over. Numbers are float64 arrays; what a candidate raises or prints is a
part of the answer.

Running what a stranger wrote: whatever it raises, prints or warns of is kept and reported.

Comes in: a block. Goes out: a `Heard`.
"""

from __future__ import annotations

import io
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from symgrad.errors import place_of
from symgrad.numeric import Array
from symgrad.testing.candidates.layouts import Layout

OURS = str(Path(__file__).resolve().parent.parent)
LONGEST = 200


@dataclass
class Heard:
    """What a block raised (in words, with the line of the candidate) and printed."""

    failure: str = ""
    printed: str = ""


class listening:  # noqa: N801  # read as a verb: with listening() as heard
    """Keep what the block raises and prints; warnings are nobody's business here."""

    def __enter__(self) -> Heard:
        self.heard, self.before = Heard(), (sys.stdout, sys.stderr)
        self.out = sys.stdout = sys.stderr = io.StringIO()
        self.warnings = warnings.catch_warnings()
        self.warnings.__enter__()
        warnings.simplefilter("ignore")
        return self.heard

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self.warnings.__exit__(None, None, None)
        sys.stdout, sys.stderr = self.before
        self.heard.printed = self.out.getvalue()
        if not isinstance(error, (Exception, SystemExit)):
            return False
        self.heard.failure = told(error)  # whatever a candidate does
        return True


def told(error: BaseException) -> str:
    """``raises KeyError: 'weight' (kernel.py:12)``."""
    first = (str(error).strip().splitlines() or [""])[0][:LONGEST]
    place = located(error)
    return f"raises {type(error).__name__}: {first}".rstrip(": ") + (f" ({place})" if place else "")


def located(error: BaseException) -> str:
    """The innermost line that is neither ours nor a library's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith((OURS, "<")) and "site-packages" not in f.filename]
    return f"{place_of(own[-1].filename)}:{own[-1].lineno}" if own else ""


Seeds = Sequence[Array | None]
"""One for each output; None for one that does not count."""


@dataclass(frozen=True)
class Meta:
    """What is known of a tensor without its entries."""

    shape: tuple[int, ...]
    dtype: str
    device: str = "cpu"


@dataclass(frozen=True, eq=False)
class Returned:
    """What one backward handed to the engine, before that repairs it, and what it should be; None: no gradient.

    ``wanted`` has an entry for each argument of the forward pass; ``names`` say what is known of them.
    """

    function: str
    got: tuple[Meta | None, ...]
    wanted: tuple[Meta | None, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Change:
    """Something that a candidate wrote into: ``what`` is v, an input, or a saved tensor; and an entry of it."""

    kind: str
    what: str
    where: str
    before: float
    after: float


def change_of(kind: str, what: str, where: str, before: Array, after: Array) -> Change | None:
    """The first entry of a tensor that is no longer what it was; None where there is none."""
    if before.shape != after.shape:
        return Change(kind, what, where, float("nan"), float("nan"))
    differ = np.argwhere((before != after) & ~((before != before) & (after != after)))
    if not len(differ):
        return None
    at = tuple(int(i) for i in differ[0])
    place = f"{what}[{','.join(map(str, at))}]" if at else what
    return Change(kind, f"{where}: {place}", what, float(before[at]), float(after[at]))


@dataclass(frozen=True, eq=False)
class Pull:
    """One call of backward: a gradient for each input (None: none came), or why there are none."""

    gradients: Mapping[str, Array | None] = field(default_factory=dict)
    failure: str = ""
    printed: str = ""
    changes: tuple[Change, ...] = ()
    returned: tuple[Returned, ...] = ()
    functions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variation:
    """How a run differs from the plain one: other numbers, other layouts, other inputs that require a gradient."""

    values: Mapping[str, Array] = field(default_factory=dict, hash=False)
    layouts: Mapping[str, Layout] = field(default_factory=dict, hash=False)
    required: frozenset[str] | None = None
    double: bool = False


PLAIN = Variation()


class Run(Protocol):
    """One forward pass."""

    outputs: tuple[Array, ...]
    dtypes: tuple[str, ...]
    failure: str
    printed: str
    changes: tuple[Change, ...]
    cut: tuple[bool, ...]

    def pull(self, seeds: Seeds, layouts: Sequence[Layout | None] = (), watched: bool = False) -> Pull:
        """vᵀJ by the candidate's own backward, each seed in a layout; ``watched``: what it writes and returns, too."""

    def accumulated(self, seeds: Seeds) -> Pull | None:
        """What backward adds to a ``.grad`` that holds ones already; None where there is no such thing."""


class Candidate(Protocol):
    """A forward and a backward pass; ``names`` are the inputs that are differentiated, in order."""

    names: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]
    masks: bool
    spent: str

    def run(self, variation: Variation = PLAIN) -> Run:
        """The forward pass on fresh copies of the inputs."""

    def pushed(self, name: str, tangent: Array) -> tuple[Array, ...] | str | None:
        """Ju by the candidate's own forward mode; None where it has none, text where it raises."""

    def second(self, name: str, seeds: Seeds, weights: Array) -> Pull:
        """The derivative of Σ weights·(gradient by ``name``) by every input; ``failure`` where there is none."""
