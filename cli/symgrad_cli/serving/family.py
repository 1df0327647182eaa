"""A process and all that it started, as Linux tells of them; elsewhere nothing is known of anybody's children.

Comes in: the number of a process. Goes out: its descendants, how much memory they hold, and their end. Who adopts
orphans keeps those, too, that were started in a session of their own and left behind.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
SET_CHILD_SUBREAPER = 36
"""Of prctl."""


def adopt_orphans() -> None:
    """Whatever is left behind by a descendant of this process becomes its child, where the system has that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """All that ``pid`` started, and what those started."""
    children: dict[int, list[int]] = {}
    for child, parent in parents():
        children.setdefault(parent, []).append(child)
    found, ahead = [], [pid]
    while ahead:
        new = children.get(ahead.pop(), [])
        found += new
        ahead += new
    return found


def parents() -> Iterator[tuple[int, int]]:
    """Every process that runs, and who started it."""
    for place in PROC.glob("[0-9]*"):
        with suppress(OSError, ValueError):
            state, parent, *_ = (place / "stat").read_text().rpartition(")")[2].split()
            if state not in "ZX":
                yield int(place.name), int(parent)


def megabytes(pids: Iterable[int]) -> float:
    """The memory that processes hold; what several share counts once."""
    kilobytes = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            kilobytes += int((PROC / str(pid) / "smaps_rollup").read_text().partition("\nPss:")[2].split()[0])
    return kilobytes / 1024


def end_descendants(pid: int) -> None:
    """End all that ``pid`` started: first nobody goes on, so that nobody starts another, then nobody is left."""
    stopped: set[int] = set()
    while new := set(descendants(pid)) - stopped:
        for one in new:
            send(one, signal.SIGSTOP)
        stopped |= new
    for one in stopped:
        send(one, signal.SIGKILL)


def send(pid: int, number: int) -> None:
    """A signal to a process that may be gone."""
    with suppress(OSError):
        os.kill(pid, number)


def reap() -> None:
    """Children that have ended are forgotten by the system."""
    with suppress(OSError, AttributeError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
