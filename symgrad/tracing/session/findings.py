"""One call that is told, and what was found of it: everything that a note may read.

A note is a function of `Findings` that gives lines, each worth saying at a call that went well; none is changed later
by what it says. `symgrad.tracing.session.event` has them all, in the order in which they are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from symgrad.explanation.kinks import Tie
from symgrad.explanation.singular import Birth
from symgrad.numeric.exact import Array
from symgrad.tracing.captured.capture import Capture
from symgrad.tracing.lift.lifted import Lifted
from symgrad.tracing.session.agreement import Judge
from symgrad.tracing.session.no_slope import InRange
from symgrad.tracing.session.scene import Scene
from symgrad.tracing.story.events import Leaf
from symgrad.tracing.story.told_lines import ToldLines


@dataclass(frozen=True, eq=False)
class Findings:
    """``scene`` is the call as it was found, ``program`` what led to its outputs, as ``lifted``; ``names`` are by node.

    ``targets`` are the leaves by their names, each with what torch gave it; ``rows`` what is told of them, of the
    ``judge``'s verdicts; ``shown`` and ``told`` are the lines forward and back, ``letter`` the seed's name. ``born`` is
    where the way back met what is not finite, ``real`` the gradients with many digits, if they have numbers all the
    same; ``ties`` are the kinks that matter, ``closed`` the steps that were taken apart. A ``repeated`` program was
    told before.
    """

    scene: Scene
    lifted: Lifted
    program: Capture
    names: Mapping[int, str]
    seeds: Mapping[str, Array]
    targets: Mapping[str, tuple[Any, Any]]
    rows: Sequence[Leaf]
    judge: Judge
    shown: Sequence[str]
    told: ToldLines
    letter: str
    repeated: bool
    born: Sequence[Birth]
    real: InRange | None
    ties: Sequence[Tie]
    closed: Sequence[str]


Notes: TypeAlias = Callable[[Findings], Iterable[str]]
"""What may be said of a call."""
